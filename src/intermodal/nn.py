"""Neural network ops: activations, convolution, pooling, resampling, attention, as users import it: the rows of this namespace."""

from intermodal.ops import activation as _activation
from intermodal.ops.activation import *

__all__ = [*_activation.__all__]  # noqa: PLE0604  # the rows' names are strings, read off the table
