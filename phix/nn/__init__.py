"""Building blocks of neural networks, as functions of tensors: see ``phix.nn.functional``."""

from phix.nn import functional as functional
