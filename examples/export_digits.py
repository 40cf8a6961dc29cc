"""Train a network on handwritten digits with JAX, write it as an ONNX model, and serve it with ONNX Runtime alone.

    python examples/export_digits.py --device jax:cpu --model digits.onnx

What serves, the function `serve`, needs NumPy and onnxruntime and nothing of intermodal.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from train_digits import Network, data, loss_of

import intermodal as im
from intermodal.autodiff import trees


def train(device: str, epochs: int, *, batch: int = 64, seed: int = 0) -> Network:
    """A trained network; a step of the training is one program, compiled by the device's engine."""
    images, labels, _, _ = data()
    im.random.seed(seed, device="numpy:cpu")
    with im.config.scope(device="numpy:cpu"):
        start = Network()
    model: Any = trees.map_leaves(lambda x: x.to(device), start)
    steps = epochs * (len(images) // batch)
    optimizer = im.optim.AdamW(im.optim.warmup(im.optim.cosine(4e-3, steps), 20), weight_decay=1e-3)
    state = optimizer.init(model, on_device=True)

    @im.compile
    def step(model: Network, state: Any, x: im.Tensor, y: im.Tensor) -> tuple[Network, Any]:
        grads = im.grad(loss_of)(model, x, y)
        return optimizer.update(model, im.optim.clip_by_global_norm(grads, 1.0), state)

    order = np.random.default_rng(seed)
    for _ in range(epochs):
        shuffled = order.permutation(len(images))
        for i in range(len(images) // batch):
            chosen = shuffled[i * batch : (i + 1) * batch]
            model, state = step(
                model, state, im.asarray(images[chosen], device=device), im.asarray(labels[chosen], device=device)
            )
    return model


def export(model: Network, path: str, device: str) -> None:
    """The trained network as an ONNX model that takes any number of images."""

    def scores(images: im.Tensor) -> im.Tensor:
        return model(images)

    graph = im.trace(scores, im.Spec(("batch", 1, 8, 8), im.float32), device=device)
    graph.save(path)


def serve(path: str, images: np.ndarray, batch: int) -> np.ndarray:
    """The digits that a model sees, found a batch at a time."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    parts = [images[i : i + batch] for i in range(0, len(images), batch)]
    return np.concatenate([session.run(None, {"images": part})[0].argmax(axis=-1) for part in parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="jax:cpu", help="where to train (jax:cpu)")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--model", default="digits.onnx", help="where to save the model (digits.onnx)")
    options = parser.parse_args()
    im.config.set(jax_x64=True)  # labels and the places of maxima are int64, which JAX has only where it is told so
    model = train(options.device, options.epochs)
    _, _, images, labels = data()
    with im.no_grad():
        expected = im.argmax(model(im.asarray(images, device=options.device)), axis=-1).numpy()
    print(f"{options.device}: {np.mean(expected == labels):.2%} of the test digits read rightly")
    export(model, options.model, options.device)
    for batch in (1, 64, len(images)):
        found = serve(options.model, images, batch)
        print(
            f"onnxruntime, {batch} at a time: {np.mean(found == labels):.2%} read rightly, "
            f"{np.sum(found != expected)} of {len(images)} read otherwise than by {options.device}"
        )


if __name__ == "__main__":
    main()
