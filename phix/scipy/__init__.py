"""What users of ``jax.scipy`` use, under SciPy's names, on tensors: differentiable and compiled.

``optimize`` has :func:`~phix.scipy.optimize.minimize`, ``special`` special functions, and
``stats`` distributions. Imported on first use.
"""

from phix.core.faces import face
from phix.scipy import optimize, sparse, special, stats

__all__ = ["optimize", "sparse", "special", "stats"]
__dir__ = face(__all__)
