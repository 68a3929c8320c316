"""What users of ``jax.scipy`` use, under SciPy's names, on tensors: differentiable and compiled.

Each module has SciPy's name. Imported on first use.
"""

from phix.core.faces import face
from phix.scipy import (
    cluster,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    sparse,
    spatial,
    special,
    stats,
)

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]
__dir__ = face(__all__)
