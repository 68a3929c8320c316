"""``scipy.spatial``'s rotations: see ``transform``."""

from phix.core.faces import face
from phix.scipy.spatial import transform

__all__ = ["transform"]
__dir__ = face(__all__)
