"""Neural network ops: activations, convolution, pooling, resampling, attention, as users import it: the rows of this namespace."""

from intermodal.ops.activation import *
from intermodal.ops.adaptive import *
from intermodal.ops.attention import *
from intermodal.ops.convolution import *
from intermodal.ops.image import *
from intermodal.ops.loss import *
from intermodal.ops.normalization import *
from intermodal.ops.pooling import *
from intermodal.ops.sampling import *
from intermodal.ops.windows import *
