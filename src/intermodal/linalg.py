"""Linear algebra, as users import it: the rows of this namespace."""

from intermodal.ops.factorization import *
from intermodal.ops.factorization import __all__ as _factorization
from intermodal.ops.linalg import *
from intermodal.ops.linalg import __all__ as _linalg

__all__ = [*_factorization, *_linalg]  # noqa: PLE0604  # the rows' names are strings, read off the table
