"""What autograd has in ``autograd.extend``."""

from phix.autograd.differential import defvjp, primitive

__all__ = ["defvjp", "primitive"]
