"""Minima of functions, under SciPy's names: :func:`minimize`, and what it gives."""

from phix.core.faces import face
from phix.scipy.minimising import OptimizeResult, minimize

__all__ = ["OptimizeResult", "minimize"]
__dir__ = face(__all__)
