"""Building blocks of neural networks, as functions of tensors: see ``phix.nn.functional``."""

from phix.core.faces import face
from phix.nn import functional

__all__ = ["functional"]
__dir__ = face(__all__)
