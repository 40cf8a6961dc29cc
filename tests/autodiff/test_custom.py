from __future__ import annotations

import numpy as np
import pytest

import intermodal as im
from intermodal.testing import no_leaked_nodes


@im.custom_vjp
def scaled_product(x: im.Tensor, y: im.Tensor, scale: float = 2.0) -> im.Tensor:
    """A product whose derivative is not the one of its inside, so that a test sees which was used."""
    return x * y * scale


@scaled_product.rule
def _(g: im.Tensor, y: im.Tensor, scale: float) -> tuple[im.Tensor, None]:
    return g * y * scale * 10.0, None


def test_the_rule_is_used_and_not_the_inside(device: im.Device) -> None:
    x, y = im.asarray([1.0, 2.0], device=device).require_grad(), im.asarray([3.0, 4.0], device=device).require_grad()
    out = scaled_product(x, y, scale=0.5)
    assert out.tolist() == [1.5, 4.0]
    grads = im.sum(out).backward()
    assert grads[x].tolist() == [15.0, 20.0]
    assert y not in grads


def test_a_call_without_tracked_tensors_is_the_plain_function(device: im.Device) -> None:
    x = im.asarray([1.0, 2.0], device=device)
    assert not scaled_product(x, x).is_tracked
    with im.no_grad():
        assert not scaled_product(x.require_grad(), x).is_tracked


def test_a_rule_is_itself_differentiated(device: im.Device) -> None:
    @im.custom_vjp
    def cube(x: im.Tensor) -> im.Tensor:
        return x * x * x

    @cube.rule
    def _(g: im.Tensor, x: im.Tensor) -> im.Tensor:
        return g * 3.0 * x * x

    x = im.asarray([1.0, 2.0], device=device)
    with no_leaked_nodes():
        np.testing.assert_array_equal(im.grad(lambda v: im.sum(im.grad(lambda u: im.sum(cube(u)))(v)))(x).numpy(), [6.0, 12.0])


def test_several_results_come_with_a_gradient_each(device: im.Device) -> None:
    @im.custom_vjp
    def both(x: im.Tensor) -> tuple[im.Tensor, im.Tensor]:
        return x * 2.0, x * 3.0

    @both.rule
    def _(g: tuple[im.Tensor, im.Tensor]) -> im.Tensor:
        return g[0] * 2.0 + g[1] * 3.0

    x = im.asarray([1.0], device=device).require_grad()
    first, second = both(x)
    assert im.sum(first + second).backward(retain_graph=True)[x].item() == 5.0
    assert im.sum(second).backward()[x].item() == 3.0


def test_wrong_rules_are_refused_with_what_there_is(device: im.Device) -> None:
    @im.custom_vjp
    def f(x: im.Tensor, n: int) -> im.Tensor:
        return x * n

    with pytest.raises(im.GradientError, match=r"f: no derivative was given. Write one with @f.rule"):
        f(im.ones(1, device=device).require_grad(), 2)
    with pytest.raises(im.ArgumentError, match=r"asks for 'w'. What there is: x, n, out"):
        f.rule(lambda g, w: g)
    f.rule(lambda g: (g, g))
    with pytest.raises(im.GradientError, match=r"gave 2 gradients for the tensor arguments \['x'\]"):
        f(im.ones(1, device=device).require_grad(), 2).backward()


def test_a_function_that_closes_over_a_tracked_tensor_is_refused(device: im.Device) -> None:
    hidden = im.ones(2, device=device).require_grad()
    f = im.custom_vjp(lambda x: x * hidden)
    f.rule(lambda g: g)
    with pytest.raises(im.GradientError, match="closes over a tracked tensor"):
        f(im.ones(2, device=device).require_grad())
