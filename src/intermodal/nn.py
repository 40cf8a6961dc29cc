"""Neural network ops: activations, convolution, pooling, resampling, attention, as users import it: the rows of this namespace."""

from intermodal.ops.nn import *
from intermodal.ops.nn import __all__ as __all__
