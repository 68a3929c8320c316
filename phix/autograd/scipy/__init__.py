"""SciPy's names: ``special``, ``stats`` and ``linalg``."""

from phix.autograd.scipy import linalg, special, stats

__all__ = ["linalg", "special", "stats"]
