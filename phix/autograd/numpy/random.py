"""NumPy's random numbers, as they are: no derivative goes through them."""

import numpy.random as _random

__all__ = [n for n in dir(_random) if not n.startswith("_")]
globals().update({n: getattr(_random, n) for n in __all__})
