"""Linear algebra under NumPy's names, differentiable to any order.

A matrix is the last two axes of a tensor; the axes in front are a batch, which broadcasts. The
functions take float32, float64, complex64 and complex128; ints become the default float. NumPy
raises ``LinAlgError`` for a matrix that is singular, not positive definite, or holds nan. Here,
where the values may not be known before a compiled program runs, the result holds inf or nan
instead.

Derivatives of singular vectors and eigenvectors divide by the differences of singular values or
eigenvalues. Where two are equal, vectors for them can be chosen in many ways. First derivatives of
functions of the values alone, as sums of them and nuclear norms, are right there. What depends on
these vectors is nan, and so are second derivatives: the factors do not determine them, though the
function may have them, as v diag(f(w)) v^H has. ``det``, ``expm``, ``sqrtm``, ``pinv`` and
``matrix_power`` have derivatives of their own, which are right there too. Signs and phases of
vectors are LAPACK's; a function of them that depends on these has no derivative that means
anything.
"""

from phix.core.faces import face
from phix.linalg.factors import (
    EighResult,
    EigResult,
    LstsqResult,
    QRResult,
    SVDResult,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    expm,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    sqrtm,
    svd,
    svdvals,
)
from phix.linalg.norms import cond, matrix_norm, norm, vector_norm
from phix.linalg.products import cross, multi_dot, outer, tensordot, trace
from phix.linalg.systems import (
    SlogdetResult,
    cholesky,
    det,
    inv,
    matrix_power,
    slogdet,
    solve,
    solve_triangular,
)

__all__ = [
    "EigResult", "EighResult", "LstsqResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky",
    "cond", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv", "lstsq",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "solve_triangular", "sqrtm", "svd", "svdvals", "tensordot", "trace",
    "vector_norm",
]  # fmt: skip
__dir__ = face(__all__)
