"""What PyTorch's attention hands to its derivative: used for the result it belongs to, and for no other."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from intermodal.engines.torch.gradients import attention_grad  # noqa: E402  # after the skip
from intermodal.engines.torch.nn import RowSizes, attention  # noqa: E402


def operands(seed: int = 0, queries: int = 6, keys: int = 6) -> tuple[Any, Any, Any]:
    torch.manual_seed(seed)
    q, k, v = (torch.randn(2, n, 3, 4).transpose(1, 2) for n in (queries, keys, keys))
    return q, k, v


def run(q: Any, k: Any, v: Any, causal: bool, scale: float = 0.5) -> Any:
    return attention(q, k, v, None, None, scale, None, causal, "bottom_right")


def derived(q: Any, k: Any, v: Any, out: Any, g: Any, causal: bool, scale: float = 0.5) -> Any:
    return attention_grad(q, k, v, out, g, None, scale, None, causal, "bottom_right")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernels_derivative_is_that_of_the_steps(causal: bool, dtype: Any) -> None:
    q, k, v = (a.to(dtype) for a in operands())
    out = run(q, k, v, causal)
    assert RowSizes.of(out, q, k, 0.5, causal) is not None
    for g in (
        torch.randn(2, 3, 6, 4, dtype=dtype),
        torch.randn(2, 3, 4, 6, dtype=dtype).mT,
        torch.ones((), dtype=dtype).expand(2, 3, 6, 4),
    ):
        for a, b in zip(derived(q, k, v, out, g, causal), derived(q, k, v, out.clone(), g, causal), strict=True):
            torch.testing.assert_close(a, b)


def test_other_operands_than_those_of_the_result_are_computed_anew() -> None:
    q, k, v = operands()
    out, g = run(q, k, v, True), torch.randn(2, 3, 6, 4)
    for other in (operands(1)[0], q * 2):
        assert RowSizes.of(out, other, k, 0.5, True) is None
        torch.testing.assert_close(derived(other, k, v, out, g, True), derived(other, k, v, out.clone(), g, True))
    assert RowSizes.of(out, q, k, 0.25, True) is None
    assert RowSizes.of(out, q, k, 0.5, False) is None


def test_a_result_holds_neither_query_nor_key() -> None:
    q, k, v = operands()
    out = run(q, k, v, True)
    gone = weakref.ref(q)
    del q
    gc.collect()
    assert gone() is None
    assert RowSizes.of(out, k, k, 0.5, True) is None


def test_a_hidden_key_that_is_no_number_stays_hidden() -> None:
    q, k, v = operands()
    k[:, :, -1] = torch.nan
    out = run(q, k, v, True)
    assert not out[:, :, :-1].isnan().any()
    assert out[:, :, -1].isnan().all()


def test_more_keys_than_queries_go_in_steps() -> None:
    q, k, v = operands(0, 4, 6)
    out, g = run(q, k, v, True), torch.randn(2, 3, 4, 4)
    assert RowSizes.of(out, q, k, 0.5, True) is None
    torch.testing.assert_close(derived(q, k, v, out, g, True), derived(q, k, v, out.clone(), g, True))
