"""NumPy's products of vectors, matrices and arrays of more axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.arrangement import moveaxis
from phix.array_functions.arrangement import ravel as flat
from phix.array_functions.numpy_arguments import of_truths, refuse, tensor
from phix.core import dtypes as dt
from phix.core.axes import axes_of
from phix.core.errors import ArgumentError, ShapeError
from phix.core.given import is_int

Function = Callable[..., Any]
_LETTERS = ascii_uppercase + ascii_lowercase  # of axes that are ints: letters have their order


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The product of vectors and matrices; of more axes over the last of a and the last but one
    of b."""
    refuse(out=out)
    x, y = tensor(a), tensor(b)
    if not x.ndim or not y.ndim:
        return x * y
    if x.ndim <= 2 and y.ndim <= 2:
        return of_truths(ops.matmul(x, y), x, y)
    return of_truths(ops.tensordot(x, y, [x.ndim - 1], [max(y.ndim - 2, 0)]), x, y)


def vdot(a: Any, b: Any, /) -> Any:
    """The sum of conj(a) * b over all elements."""
    x, y = flat(a), flat(b)
    return of_truths(ops.matmul(ops.conj(x) if dt.is_complex(x.dtype) else x, y), x, y)


def inner(a: Any, b: Any, /) -> Any:
    """The sums of products along the last axes of both."""
    x, y = tensor(a), tensor(b)
    if not x.ndim or not y.ndim:
        return x * y
    return of_truths(ops.tensordot(x, y, [x.ndim - 1], [y.ndim - 1]), x, y)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """The product of each element of a with each of b, as a matrix."""
    refuse(out=out)
    return ops.reshape(flat(a), (-1, 1)) * flat(b)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sums of products over axes of both: the last and the first ``axes``, or two lists."""
    x, y = tensor(a), tensor(b)
    axes = axes.tolist() if isinstance(axes, (np.ndarray, np.generic)) else axes
    if isinstance(axes, int):
        found = ops.tensordot(x, y, range(x.ndim - axes, x.ndim), range(axes))
    elif isinstance(axes, Sequence) and len(axes) == 2:
        found = ops.tensordot(x, y, axes_of(axes[0], x.ndim), axes_of(axes[1], y.ndim))
    else:
        raise ArgumentError(
            f"tensordot: axes is an int, or two axes or lists of them, of a and of b, "
            f"found {axes!r:.80}"
        )
    return of_truths(found, x, y)


def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> Any:
    """The sum of products that an equation such as 'ij,jk->ik' says, or a list of ints behind each
    factor, and one of those of the result at the end."""
    refuse(out=out)
    if operands and isinstance(operands[0], str):
        equation, given = operands[0], operands[1:]
    else:
        equation, given = _equation(operands), operands[: len(operands) // 2 * 2 : 2]
    factors = [tensor(x) for x in given]
    return of_truths(ops.einsum(factors, equation), *factors)


def _equation(operands: Sequence[Any]) -> str:
    """What ``x, [0, 1], y, [1, 2], [0, 2]`` says."""
    names = list(operands[1::2])
    result = [operands[-1]] if len(operands) % 2 else []
    for axes in names + result:
        if not isinstance(axes, (list, tuple)) or not all(map(_is_name, axes)):
            raise ArgumentError(
                "einsum: an equation such as 'ij,jk->ik' comes first, or behind each factor a list "
                f"of its axes, ints from 0 to {len(_LETTERS) - 1} and ..., found {axes!r:.80}"
            )
    if not names:
        raise ArgumentError(
            "einsum: an equation such as 'ij,jk->ik' comes first, then its factors, found "
            f"{len(operands)} without one"
        )
    left, right = (
        ["".join("..." if n is Ellipsis else _LETTERS[n] for n in axes) for axes in part]
        for part in (names, result)
    )
    return ",".join(left) + "".join(f"->{axes}" for axes in right)


def _is_name(axis: Any) -> bool:
    return axis is Ellipsis or (is_int(axis) and 0 <= axis < len(_LETTERS))


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: each element of a times all of b."""
    x, y = tensor(a), tensor(b)
    return of_truths(ops.kron(x, y), x, y)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """Of vectors of three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(
            f"cross: vectors of three elements, found {x.meta} and {y.meta}; of vectors in a plane "
            "write a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]"
        )
    (a0, a1, a2), (b0, b1, b2) = ([v[..., i] for i in range(3)] for v in (x, y))
    parts = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    return moveaxis(ops.stack(parts, -1), -1, axisc)


def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """The order in which NumPy would contract, and a report; :func:`einsum` has its own."""
    shapes: Any = [np.empty(tensor(x).shape) if not isinstance(x, str) else x for x in operands]
    return np.einsum_path(*shapes, optimize=optimize)


NAMES: dict[str, Function] = {
    "dot": dot, "vdot": vdot, "inner": inner, "outer": outer, "tensordot": tensordot,
    "einsum": einsum, "einsum_path": einsum_path, "kron": kron, "cross": cross,
}  # fmt: skip
