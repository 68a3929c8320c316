"""The functions of :mod:`phix.scipy.special`, which give NumPy's arrays for arrays."""

from phix.autograd.dispatch import evaluated as _evaluated
from phix.scipy import special as _special

__all__ = list(_special.__all__)
globals().update({n: _evaluated(getattr(_special, n)) for n in __all__})
