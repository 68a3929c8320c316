"""``scipy.sparse``'s solvers, for matrices of any kind and for functions: see ``linalg``."""

from phix.core.faces import face
from phix.scipy.sparse import linalg

__all__ = ["linalg"]
__dir__ = face(__all__)
