from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.autodiff import trees
from intermodal.errors import InvalidValueError, ShapeError

EPS = np.finfo(np.float64).eps


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def on(values: Any, device: im.Device) -> im.Tensor:
    return im.asarray(values, device=device)


def close(x: im.Tensor, wanted: Any, terms: int) -> None:
    """Sums of as many products of numbers below 1, each rounded once, on either side."""
    assert x.dtype is im.float64
    np.testing.assert_allclose(x.numpy(), wanted, rtol=0, atol=2 * terms * terms * EPS)


# --- what each computes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_linear_multiplies_by_the_transposed_weight_and_adds_the_bias(bias: bool, device: im.Device) -> None:
    layer, x = im.nn.Linear(3, 2, bias=bias, dtype="float64", device=device), numbers(4, 5, 3)
    wanted = x @ layer.weight.numpy().T + (0 if layer.bias is None else layer.bias.numpy())
    close(layer(on(x, device)), wanted, 4)
    assert (layer.bias is None) == (not bias)
    assert layer.weight.device == device


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"kernel_size": 3}, (2, 6, 5, 4)),
        ({"kernel_size": (3, 2), "padding": 1, "stride": 2}, (2, 6, 4, 4)),
        ({"kernel_size": 1, "groups": 2, "bias": False}, (2, 6, 7, 6)),
    ],
    ids=["plain", "padding and stride", "groups"],
)
def test_conv2d_sums_over_its_windows(options: dict[str, Any], shape: tuple[int, ...], device: im.Device) -> None:
    layer, x = im.nn.Conv2d(4, 6, dtype="float64", device=device, **options), numbers(2, 4, 7, 6)
    found = layer(on(x, device))
    weight, stride, pad, groups = layer.weight.numpy(), options.get("stride", 1), options.get("padding", 0), layer.groups
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    each_in, each_out = 4 // groups, 6 // groups
    wanted = np.zeros(shape)
    for o, i, j in np.ndindex(*shape[1:]):
        part = padded[:, o // each_out * each_in :][:, :each_in, i * stride :, j * stride :]
        wanted[:, o, i, j] = np.sum(part[:, :, : weight.shape[2], : weight.shape[3]] * weight[o], axis=(1, 2, 3))
    if layer.bias is not None:
        wanted += layer.bias.numpy()[:, None, None]
    close(found, wanted, weight[0].size + 1)


def test_layer_norm_brings_samples_to_mean_0_and_variance_1_then_scales_and_shifts(device: im.Device) -> None:
    layer, x = im.nn.LayerNorm(6, eps=1e-3, dtype="float64", device=device), numbers(4, 6)
    layer.weight, layer.bias = on(numbers(6, seed=1), device), on(numbers(6, seed=2), device)
    plain = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    close(layer(on(x, device)), plain * layer.weight.numpy() + layer.bias.numpy(), 12)


def test_a_new_layer_norm_neither_scales_nor_shifts(device: im.Device) -> None:
    layer = im.nn.LayerNorm(3, device=device)
    assert (layer.weight.tolist(), layer.bias.tolist(), layer.eps) == ([1.0] * 3, [0.0] * 3, 1e-5)


def test_embedding_finds_rows_by_index(device: im.Device) -> None:
    table = im.nn.Embedding(5, 3, device=device)
    found = table(im.asarray([[4, 0], [4, 1]], device=device))
    np.testing.assert_array_equal(found.numpy(), table.weight.numpy()[[[4, 0], [4, 1]]])


def test_dropout_zeroes_about_its_share_and_grows_the_others(device: im.Device) -> None:
    im.random.seed(0, device=device)
    x = im.ones(10_000, device=device)
    found = im.nn.Dropout(0.25)(x).numpy()
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / 0.75)}
    # Six standard deviations of a share of ten thousand draws.
    assert abs(np.mean(found == 0) - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 10_000)


def test_dropout_does_nothing_when_not_training_or_at_rate_0(device: im.Device) -> None:
    x = im.ones(100, device=device)
    assert im.nn.Dropout(0.5)(x, training=False) is x
    assert im.nn.Dropout(0.0)(x) is x


@pytest.mark.parametrize("is_causal", [False, True])
def test_multi_head_attention_mixes_values_by_softmax_of_scores(is_causal: bool, device: im.Device) -> None:
    layer, x = im.nn.MultiHeadAttention(8, 2, dtype="float64", device=device), numbers(3, 5, 8)
    q, k, v = np.split(_linear(layer.project, x), 3, axis=-1)
    mixed = np.zeros((3, 5, 8))
    for head in (slice(0, 4), slice(4, 8)):
        scores = q[..., head] @ k[..., head].swapaxes(-1, -2) / 2
        scores = np.where(np.tril(np.ones((5, 5))) > 0, scores, -np.inf) if is_causal else scores
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed[..., head] = shares / shares.sum(-1, keepdims=True) @ v[..., head]
    close(layer(on(x, device), is_causal=is_causal), _linear(layer.out, mixed), 32)


def _linear(layer: im.nn.Linear, x: Any) -> Any:
    assert layer.bias is not None
    return x @ layer.weight.numpy().T + layer.bias.numpy()


def test_heads_that_do_not_divide_the_features_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="MultiHeadAttention: 8 features do not divide into 3 heads"):
        im.nn.MultiHeadAttention(8, 3)


def test_a_module_tells_of_a_wrong_shape_as_its_op_does(device: im.Device) -> None:
    with pytest.raises(ShapeError, match=r"^linear: "):
        im.nn.Linear(3, 2, device=device)(im.ones((5, 4), device=device))


# --- how they begin ------------------------------------------------------------------------------------------------


def test_weights_begin_within_the_root_of_the_inputs_and_spread_over_it(device: im.Device) -> None:
    for weight, inputs in (
        (im.nn.Linear(50, 200, device=device).weight, 50),
        (im.nn.Conv2d(8, 100, 5, groups=4, device=device).weight, 50),
    ):
        found = weight.numpy()
        assert found.dtype == np.float32
        assert np.abs(found).max() <= 1 / np.sqrt(inputs)
        # The variance of a uniform number of that bound; the bound here is nine standard deviations of its estimate.
        assert abs(found.var() * 3 * inputs - 1) < 9 * np.sqrt(0.8 / found.size)


def test_the_same_seed_begins_with_the_same_numbers(device: im.Device) -> None:
    def start() -> list[Any]:
        im.random.seed(7, device=device)
        return [x.numpy() for x in trees.leaves(im.nn.MultiHeadAttention(8, 2, device=device))]

    for a, b in zip(start(), start(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("module", [lambda **k: im.nn.Linear(0, 2, **k), lambda **k: im.nn.Conv2d(0, 2, 3, **k)])
def test_a_layer_of_no_inputs_has_no_weights_and_gives_its_bias(module: Any, device: im.Device) -> None:
    layer = module(device=device)
    assert layer.weight.size == 0
    np.testing.assert_array_equal(layer.bias.numpy(), [0, 0])


# --- as trees ------------------------------------------------------------------------------------------------------


@dataclass(init=False)
class Model:
    layers: list[Any]
    norm: im.nn.LayerNorm
    scale: float

    def __init__(self, device: im.Device) -> None:
        self.layers = [im.nn.Linear(3, 4, device=device), im.nn.Linear(4, 2, bias=False, device=device)]
        self.norm, self.scale = im.nn.LayerNorm(4, device=device), 0.5

    def __call__(self, x: im.Tensor) -> im.Tensor:
        return self.layers[1](im.tanh(self.norm(self.layers[0](x)))) * self.scale


def test_the_parameters_of_a_model_are_found_by_their_paths(device: im.Device) -> None:
    assert {path: x.shape for path, x in trees.paths(Model(device))} == {
        ".layers[0].weight": (4, 3),
        ".layers[0].bias": (4,),
        ".layers[1].weight": (2, 4),
        ".norm.weight": (4,),
        ".norm.bias": (4,),
    }


def test_a_mapped_model_is_a_model_with_its_settings_and_the_first_is_unchanged(device: im.Device) -> None:
    first = Model(device)
    before = first.layers[0].weight.numpy()
    doubled = trees.map_leaves(lambda x: x * 2, first)
    assert (type(doubled), type(doubled.layers[0]), doubled.layers[1].bias, doubled.norm.eps, doubled.scale) == (
        Model,
        im.nn.Linear,
        None,
        1e-5,
        0.5,
    )
    np.testing.assert_array_equal(doubled.layers[0].weight.numpy(), before * 2)
    np.testing.assert_array_equal(first.layers[0].weight.numpy(), before)


def test_a_mapped_convolution_keeps_how_it_walks(device: im.Device) -> None:
    layer = im.nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2, device=device)
    mapped = trees.map_leaves(lambda x: x, layer)
    assert (mapped.stride, mapped.padding, mapped.groups) == (2, 1, 2)
    assert mapped(im.ones((1, 2, 8, 8), device=device)).shape == (1, 4, 4, 4)


def test_the_gradient_by_a_model_is_a_model_of_gradients(device: im.Device) -> None:
    model = Model(device)
    x = im.asarray(numbers(5, 3), dtype="float32", device=device)
    grads = im.grad(lambda m: im.sum(m(x) ** 2))(model)
    assert isinstance(grads, Model)
    assert [g.shape for g in trees.leaves(grads)] == [p.shape for p in trees.leaves(model)]
    assert all(np.abs(g.numpy()).max() > 0 for g in trees.leaves(grads))
    assert not any(p.is_tracked for p in trees.leaves(model))


def test_the_gradient_by_a_linear_layer_is_the_one_of_the_formula(device: im.Device) -> None:
    layer, x, g = im.nn.Linear(3, 2, dtype="float64", device=device), numbers(5, 3), numbers(5, 2, seed=1)
    grads = im.grad(lambda m: im.sum(m(on(x, device)) * on(g, device)))(layer)
    close(grads.weight, g.T @ x, 5)
    close(grads.bias, g.sum(0), 5)


def test_a_model_made_on_one_device_runs_on_another(device: im.Device) -> None:
    model, x = Model(im.Device("numpy:cpu")), numbers(5, 3).astype(np.float32)
    moved = trees.map_leaves(lambda p: p.to(device), model)
    assert {p.device for p in trees.leaves(moved)} == {device}
    # Sums of 4 products and a normalisation of numbers of size 1, twice, in float32.
    np.testing.assert_allclose(moved(on(x, device)).numpy(), model(im.asarray(x)).numpy(), rtol=0, atol=64 * np.finfo("f").eps)


# --- where they are ------------------------------------------------------------------------------------------------


def test_modules_are_listed_in_the_namespace_beside_the_rows() -> None:
    assert {"Linear", "Conv2d", "relu"} <= set(dir(im.nn))
    with pytest.raises(AttributeError, match=r"module 'intermodal\.nn' has no attribute 'Linnear'"):
        im.nn.Linnear


def test_the_import_alone_loads_neither_training_nor_derivatives() -> None:
    code = "import sys, intermodal; print([m for m in sys.modules if 'intermodal.training' in m or 'intermodal.autodiff' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
