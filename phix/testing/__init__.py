"""Checks of ops and functions of one's own: those that the ops of the library pass.

>>> import numpy as np
>>> import phix
>>> def swish(x):
...     return x * phix.ops.sigmoid(x)
>>> phix.testing.check_op(swish, np.array([0.5, -2.0]), reference=lambda x: x / (1 + np.exp(-x)))

A check that does not hold raises :class:`CheckFailed`, an AssertionError, which any test runner
understands; nothing else needs to be installed. Imported on first use.
"""

from phix.core.faces import face
from phix.testing.checks import check_batching, check_gradients, check_op, check_unknown_dims
from phix.testing.comparison import CheckFailed

__all__ = ["CheckFailed", "check_batching", "check_gradients", "check_op", "check_unknown_dims"]
__dir__ = face(__all__)
