"""``scipy.cluster.vq``'s search for the nearest code: :func:`vq`."""

from __future__ import annotations

from phix import ops
from phix.core import dtypes as dt
from phix.core.errors import ShapeError
from phix.core.expectations import expect, expect_dims
from phix.core.faces import face
from phix.core.given import FLAG, takes
from phix.core.tensor import Tensor, TensorLike
from phix.scipy.entropies import floats
from phix.scipy.quaternions import length_of

__all__ = ["vq"]
__dir__ = face(__all__)


@takes(check_finite=FLAG)
def vq(obs: TensorLike, code_book: TensorLike, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """The nearest code of each observation, the first of several, and how far it is.

    Args:
        obs: ``[m, n]``, m observations of n numbers, or ``[m]``, of one; ints become the default
            float.
        code_book: ``[k, n]``, or ``[k]``, k codes from 1.
        check_finite: changes nothing: values that a program is compiled for are not known yet. An
            observation with a NaN has the distance NaN.

    Returns:
        ``(code, dist)``: the indices of codes, ``[m]``, int32, and the lengths of the differences,
        ``[m]``, which are differentiable in both, with the slope 0 where they are 0.

    Raises:
        ShapeError: obs and code_book have not the same axes, one or two, or there is no code.
        DTypeError: one is complex.

    >>> import phix
    >>> code, dist = phix.scipy.cluster.vq.vq([[1.0, 2.0], [5.0, 5.0]], [[5.0, 4.0], [1.0, 1.0]])
    >>> code.tolist(), dist.tolist()
    ([1, 0], [1.0, 1.0])
    """
    seen, codes = floats(obs, code_book)
    refusal = (
        "obs must be [m, n] and code_book [k, n], or [m] and [k], found "
        f"{seen.meta} and {codes.meta}"
    )
    if seen.ndim != codes.ndim or seen.ndim not in (1, 2):
        raise ShapeError(refusal)
    codes = expect_dims(codes, refusal, (codes.shape[0], *seen.shape[1:]))
    codes = expect(codes, f"code_book must have a code, found {codes.meta}", codes.shape[0] - 1)
    if seen.ndim == 1:
        seen, codes = ops.unsqueeze(seen, [-1]), ops.unsqueeze(codes, [-1])
    own = seen.dtype
    if own in (dt.float16, dt.bfloat16):  # their squares would overflow, or be alike
        seen, codes = ops.cast(seen, dt.float32), ops.cast(codes, dt.float32)
    apart = ops.unsqueeze(seen, [1]) - codes
    code = ops.argmin(ops.sum(apart * apart, [-1]), -1)
    return ops.cast(code, "int32"), ops.cast(length_of(seen - ops.gather(codes, code)), own)
