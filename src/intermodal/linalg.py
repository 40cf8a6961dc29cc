"""Linear algebra, as users import it: the rows of this namespace."""

from intermodal.ops.factorization import *
from intermodal.ops.linalg import *
