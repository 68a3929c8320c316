"""Sparse tensors: values at some places, zeros at all others. The names are those of paddle.sparse.

``SparseCooTensor`` keeps a place for each value, ``SparseCsrTensor`` a matrix by rows. They are
trees, so functions of them can be given to ``jit`` and ``vmap``, and hold their tensors unchanged.
Derivatives are taken for values: ``phix.grad(lambda v: f(a.with_values(v)))(a.values)``.
"""

from phix.core.faces import face
from phix.sparse.arithmetic import add, divide, multiply, subtract
from phix.sparse.arrangement import mask_as, reshape, slice, softmax, sum, transpose
from phix.sparse.creation import from_scipy, sparse_coo_tensor, sparse_csr_tensor
from phix.sparse.kinds import to_scipy
from phix.sparse.networks import batch_norm_, fused_attention, sync_batch_norm_
from phix.sparse.pointwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cast,
    divide_scalar,
    expm1,
    full_like,
    isnan,
    leaky_relu,
    log1p,
    pow,
    relu,
    relu6,
    scale,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from phix.sparse.products import addmm, masked_matmul, matmul, mv
from phix.sparse.tensors import (
    SparseCooTensor,
    SparseCsrTensor,
    coalesce,
    indices,
    to_dense,
    to_sparse_coo,
    to_sparse_csr,
    values,
)
from phix.sparse.windows import conv3d, conv3d_implicit_gemm, maxpool

__all__ = [
    "SparseCooTensor", "SparseCsrTensor", "abs", "acos", "acosh", "add", "addmm", "asin",
    "asinh", "atan", "atanh", "batch_norm_", "cast", "coalesce", "conv3d",
    "conv3d_implicit_gemm", "divide", "divide_scalar", "expm1", "from_scipy", "full_like",
    "fused_attention", "indices", "isnan", "leaky_relu", "log1p", "mask_as", "masked_matmul",
    "matmul", "maxpool", "multiply", "mv", "pow", "relu", "relu6", "reshape", "scale", "sin",
    "sinh", "slice", "softmax", "sparse_coo_tensor", "sparse_csr_tensor", "sqrt", "square",
    "subtract", "sum", "sync_batch_norm_", "tan", "tanh", "to_dense", "to_scipy",
    "to_sparse_coo", "to_sparse_csr", "transpose", "values",
]  # fmt: skip
__dir__ = face(__all__)
