"""``scipy.cluster``'s codes of observations: see ``vq``."""

from phix.core.faces import face
from phix.scipy.cluster import vq

__all__ = ["vq"]
__dir__ = face(__all__)
