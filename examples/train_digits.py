"""Train a small convolutional network on scikit-learn's handwritten digits, on any device, and draw the loss.

    python examples/train_digits.py --device torch:cpu --plot digits.png

The same program, from the same start, on every engine: compare the curves of ``--device numpy:cpu,torch:cpu,jax:cpu``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.datasets import load_digits

import intermodal as im
from intermodal.autodiff import trees


@dataclass(init=False)
class Network:
    """Two convolutions with pooling, then two linear layers: about 17 000 parameters."""

    conv1: im.nn.Conv2d
    conv2: im.nn.Conv2d
    hidden: im.nn.Linear
    out: im.nn.Linear

    def __init__(self) -> None:
        self.conv1 = im.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = im.nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = im.nn.Linear(32 * 2 * 2, 64)
        self.out = im.nn.Linear(64, 10)

    def __call__(self, images: im.Tensor) -> im.Tensor:
        x = im.nn.max_pool2d(im.nn.relu(self.conv1(images)), kernel_size=2)
        x = im.nn.max_pool2d(im.nn.relu(self.conv2(x)), kernel_size=2)
        return self.out(im.nn.relu(self.hidden(x.reshape(x.shape[0], -1))))


def loss_of(model: Network, images: im.Tensor, labels: im.Tensor) -> im.Tensor:
    return im.nn.cross_entropy(model(images), labels)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images of 8 x 8 in [0, 1] and their labels; every fifth is for the test."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    test = np.arange(len(images)) % 5 == 0
    return images[~test], digits.target[~test], images[test], digits.target[test]


def accuracy(model: Network, images: np.ndarray, labels: np.ndarray, device: str) -> float:
    with im.no_grad():
        found = im.argmax(model(im.asarray(images, device=device)), axis=-1).numpy()
    return float(np.mean(found == labels))


def train(device: str, epochs: int, progress: Progress, *, batch: int = 64, seed: int = 0) -> tuple[Network, list[float], float]:
    """The trained network, the loss of each step, and the share of the test images that it reads rightly."""
    images, labels, test_images, test_labels = data()
    im.random.seed(seed, device="numpy:cpu")
    with im.config.scope(device="numpy:cpu"):
        start = Network()  # made on one device, so that every device starts from the same numbers
    model: Any = trees.map_leaves(lambda x: x.to(device), start)
    steps = epochs * (len(images) // batch)
    optimizer = im.optim.AdamW(im.optim.warmup(im.optim.cosine(4e-3, steps), 20), weight_decay=1e-3)
    state = optimizer.init(model)
    step = im.value_and_grad(loss_of)
    order = np.random.default_rng(seed)
    losses: list[float] = []
    task = progress.add_task(device, total=steps)
    for _ in range(epochs):
        shuffled = order.permutation(len(images))
        for i in range(len(images) // batch):
            chosen = shuffled[i * batch : (i + 1) * batch]
            x, y = im.asarray(images[chosen], device=device), im.asarray(labels[chosen], device=device)
            loss, grads = step(model, x, y)
            model, state = optimizer.update(model, im.optim.clip_by_global_norm(grads, 1.0), state)
            losses.append(float(loss))
            progress.update(task, advance=1, description=f"{device}  loss {losses[-1]:.4f}")
    return model, losses, accuracy(model, test_images, test_labels, device)


def draw(curves: dict[str, list[float]], path: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (whole, first) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for i, (device, losses) in enumerate(curves.items()):
        style = {"linewidth": 6 - 2 * i, "alpha": 0.8, "label": device}  # thick below thin, so that equal curves are all seen
        whole.semilogy(np.convolve(losses, np.ones(10) / 10, "valid"), **style)
        first.plot(losses[:50], **style)
    whole.set(title="Loss, mean of 10 steps", xlabel="step")
    first.set(title="Loss of the first 50 steps", xlabel="step")
    first.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="numpy:cpu", help="one device, or several with commas (numpy:cpu)")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--plot", help="where to save a picture of the loss (PNG)")
    options = parser.parse_args()
    im.config.set(jax_x64=True)  # labels and the places of maxima are int64, which JAX has only where it is told so
    curves: dict[str, list[float]] = {}
    columns = (
        TextColumn("{task.description:32}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    for device in options.device.split(","):
        begin = time.perf_counter()
        with Progress(*columns) as progress:
            _, curves[device], share = train(device, options.epochs, progress)
        print(f"{device}: {share:.2%} of the test digits read rightly, {time.perf_counter() - begin:.0f} s")
    first, *others = curves
    for other in others:
        apart = max(abs(a - b) for a, b in zip(curves[first][:50], curves[other][:50], strict=True))
        print(f"{first} and {other}: losses of the first 50 steps differ by at most {apart:.1e}")
    if options.plot:
        draw(curves, options.plot)
        print(f"The picture is in {options.plot}.")


if __name__ == "__main__":
    main()
