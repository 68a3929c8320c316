"""Linear algebra under NumPy's names, differentiable to any order.

A matrix is the last two axes of a tensor; the axes in front are a batch, which broadcasts. The
functions take float32, float64, complex64 and complex128; ints become the default float. NumPy
raises ``LinAlgError`` for a matrix that is singular, not positive definite, or holds nan. Here,
where the values may not be known before a compiled program runs, the result holds inf or nan
instead.

Derivatives of singular vectors and eigenvectors divide by the differences of singular values or
eigenvalues. Where two are equal, vectors for them can be chosen in many ways, and only what does
not depend on that choice has a derivative. Of that, phix gives the right one for sums of these
values, nuclear norms, and projections onto all vectors that belong to one value: it takes 0 for
1 / 0. It is not right for a function of the values and the vectors together whose rate at equal
values comes from both, such as v diag(f(w)) v^H: ``expm``, ``pinv`` and ``matrix_power`` have
derivatives of their own for that. Signs and phases of vectors are LAPACK's; a function of them that
depends on these has no derivative that means anything.
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
    "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vector_norm",
]  # fmt: skip
__dir__ = face(__all__)
