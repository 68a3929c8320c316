"""``flatten`` and ``optimizers``, under autograd's names."""

from phix.autograd.misc import optimizers
from phix.autograd.misc.flatten import flatten

__all__ = ["flatten", "optimizers"]
