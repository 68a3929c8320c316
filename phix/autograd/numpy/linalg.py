"""The functions of ``numpy.linalg``: NumPy's of arrays, phix's of tensors."""

import numpy.linalg as _numpy

from phix.autograd.dispatch import by_kind as _by_kind
from phix.numpy import linalg as _phix

__all__ = [n for n in dir(_phix) if callable(getattr(_numpy, n, None))]
globals().update(
    {n: _by_kind(f"linalg.{n}", getattr(_numpy, n), getattr(_phix, n)) for n in __all__}
)
