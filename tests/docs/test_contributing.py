from __future__ import annotations

import inspect

import numpy as np
import pytest

import intermodal as im
from intermodal.ops.table import TABLE, Op

from .blocks import ROOT, blocks, run_all


@pytest.fixture
def logit() -> Op:
    """The row that the example in CONTRIBUTING.md writes, from its very text; the clean slate removes it."""
    run_all(ROOT / "CONTRIBUTING.md")
    return TABLE["logit"]


def test_the_example_is_one_whole_file() -> None:
    (example,) = [b for b in blocks(ROOT / "CONTRIBUTING.md") if b.language == "python"]
    assert example.code.startswith('"""')
    assert "from __future__ import annotations" in example.code


def test_a_row_alone_gives_the_public_function_on_every_engine(logit: Op) -> None:
    x = im.asarray([0.25, 0.5, 0.75], dtype="float64")
    np.testing.assert_allclose(im.logit(x).numpy(), np.log([1 / 3, 1.0, 3.0]), rtol=0, atol=4 * np.finfo(np.float64).eps)
    on_meta = im.logit(im.zeros((2, 3), device="meta:cpu"))
    assert (on_meta.shape, on_meta.dtype, on_meta.device) == ((2, 3), im.float32, "meta:cpu")
    assert im.logit(im.asarray([0, 1], dtype="int16")).dtype is im.float32


def test_a_row_alone_gives_signature_documentation_and_example(logit: Op) -> None:
    assert logit.signature == "logit(x, /)"
    assert str(inspect.signature(im.logit)) == "(x: 'Tensor', /) -> 'Tensor'"
    assert im.logit.__doc__.startswith("The inverse of the logistic function")


def test_a_row_alone_gives_the_error_messages(logit: Op) -> None:
    with pytest.raises(
        im.DTypeError, match=r"^logit: the input has dtype complex64, but this op takes real floating\. Cast it first"
    ):
        im.logit(im.asarray([1j]))
    with pytest.raises(im.ArgumentError, match=r"^logit: .*The signature is logit\(x, /\)\.$"):
        im.logit(im.ones(2), im.ones(2))


def test_a_row_without_vjp_leaves_its_derivative_to_its_body(logit: Op) -> None:
    assert logit.vjp is None
    assert logit.decompose is not None
    assert not logit.is_primitive


def test_a_removed_row_is_gone_from_the_namespace(logit: Op) -> None:
    TABLE.remove("logit")
    with pytest.raises(AttributeError, match="no attribute 'logit'"):
        im.logit


@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n"], ids=["objects", "text"])
@pytest.mark.parametrize("kind", ["im.Tensor", "'Tensor'"], ids=["class", "quoted"])
def test_a_tensor_is_recognised_however_its_annotation_is_written(first: str, kind: str) -> None:
    plugin = f"{first}import intermodal as im\n@im.op()\ndef times(x: {kind}, /, *, n: int = 2) -> {kind}:\n    return x * n\n"
    exec(compile(plugin, "plugin", "exec", dont_inherit=True), {"__name__": "plugin"})
    assert im.times(im.ones(1)).tolist() == [2.0]


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    plugin = "import intermodal as im\n@im.op()\ndef times(x: im.Tensor | None, /) -> im.Tensor:\n    return x\n"
    with pytest.raises(im.InvalidValueError, match=r"^times: the annotation of x is .*Write from __future__ import annotations"):
        exec(compile(plugin, "plugin", "exec", dont_inherit=True), {"__name__": "plugin"})
