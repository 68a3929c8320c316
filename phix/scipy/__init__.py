"""What users of ``jax.scipy`` use, under SciPy's names, on tensors: differentiable and compiled.

``linalg`` has factors and systems of matrices, ``optimize`` :func:`~phix.scipy.optimize.minimize`,
``sparse.linalg`` solvers by products alone, ``special`` special functions, and ``stats``
distributions. Imported on first use.
"""

from phix.core.faces import face
from phix.scipy import linalg, optimize, sparse, special, stats

__all__ = ["linalg", "optimize", "sparse", "special", "stats"]
__dir__ = face(__all__)
