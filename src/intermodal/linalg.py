"""Linear algebra, as users import it: the rows of this namespace."""

from intermodal.ops.linalg import *
from intermodal.ops.linalg import __all__ as __all__
