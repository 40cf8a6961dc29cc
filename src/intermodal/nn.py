"""Neural networks as users import them: the rows of this namespace, and modules that hold parameters (`nn.Linear`)."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from intermodal.ops.activation import *
from intermodal.ops.adaptive import *
from intermodal.ops.attention import *
from intermodal.ops.classification import *
from intermodal.ops.convolution import *
from intermodal.ops.image import *
from intermodal.ops.loss import *
from intermodal.ops.normalization import *
from intermodal.ops.optimization import *
from intermodal.ops.pooling import *
from intermodal.ops.sampling import *
from intermodal.ops.windows import *

if _TYPE_CHECKING:
    from intermodal.training.modules import (
        Conv2d as Conv2d,
        Dropout as Dropout,
        Embedding as Embedding,
        LayerNorm as LayerNorm,
        Linear as Linear,
        MultiHeadAttention as MultiHeadAttention,
    )

_MODULES = ("Conv2d", "Dropout", "Embedding", "LayerNorm", "Linear", "MultiHeadAttention")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


def __getattr__(name: str) -> object:
    # Modules bring autodiff with them; the import stays light for those who use functions alone.
    if name in _MODULES:
        from intermodal.training import modules

        return getattr(modules, name)
    raise AttributeError(f"module 'intermodal.nn' has no attribute {name!r}")
