"""Sums of products: matrix products and what is made of them."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.expectations import expect_dims, expect_equal
from phix.core.meta import MetaTensor
from phix.core.tensor import TensorBase
from phix.primitives import axes as ax
from phix.primitives.broadcasting import unbroadcast, with_dims
from phix.primitives.pointwise import broadcast_shapes, conj


# -- matmul ------------------------------------------------------------------------------------
@rules.infer_meta("MatmulInferMeta")
def matmul_meta(x: MetaTensor, y: MetaTensor, transpose_x: bool, transpose_y: bool) -> MetaTensor:
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul multiplies matrices or vectors, not 0-d tensors; use multiply")
    xs = _matrix(x.dims, transpose_x, as_row=True)
    ys = _matrix(y.dims, transpose_y, as_row=False)
    if not dm.may_equal(xs[-1], ys[-2]):
        raise ShapeError(
            f"the inner dims must be equal, found {dm.dim_text(xs[-1])} and {dm.dim_text(ys[-2])} "
            f"(transpose_x={transpose_x}, transpose_y={transpose_y}); transpose one of the "
            "inputs, or make the dims agree"
        )
    lead = broadcast_shapes(xs[:-2], ys[:-2]) if len(xs) > 2 or len(ys) > 2 else ()
    rows = () if x.ndim == 1 else (xs[-2],)
    columns = () if y.ndim == 1 else (ys[-1],)
    return MetaTensor((*lead, *rows, *columns), x.dtype)


def _matrix(dims: dm.Shape, transpose: bool, as_row: bool) -> dm.Shape:
    """The dims of an operand as a (batch of) matrix; a vector is a row or a column."""
    if len(dims) == 1:
        return (1, dims[0]) if as_row else (dims[0], 1)
    return (*dims[:-2], dims[-1], dims[-2]) if transpose else dims


@rules.decompose("matmul_grad")
def matmul_grad(x: Any, y: Any, out_grad: Any, transpose_x: bool, transpose_y: bool) -> Any:
    grad, a, b = out_grad, x, y
    if x.ndim == 1:
        a = ops.reshape(x, (1, x.meta.dims[0]))
        grad = ops.reshape(grad, _insert_one(grad.meta.dims, -1 if y.ndim > 1 else None))
    if y.ndim == 1:
        b = ops.reshape(y, (y.meta.dims[0], 1))
        grad = ops.reshape(grad, (*grad.meta.dims, 1))
    t_x, t_y = transpose_x and x.ndim > 1, transpose_y and y.ndim > 1
    a, b = conj(a), conj(b)
    if t_x:
        grad_a = ops.matmul(b, grad, t_y, True)
    else:
        grad_a = ops.matmul(grad, b, False, not t_y)
    if y.ndim == 2 and x.ndim > 2 and not t_x:
        # One product over all rows in place of one a batch and their sum.
        a, grad = _rows(a), _rows(grad)
    if t_y:
        grad_b = ops.matmul(grad, a, True, t_x)
    else:
        grad_b = ops.matmul(a, grad, not t_x, False)
    return _fold(grad_a, x), _fold(grad_b, y)


def _rows(t: Any) -> Any:
    """A batch of matrices as one matrix of all their rows."""
    dims = t.meta.dims
    return ops.reshape(t, (dm.product(dims[:-1]), dims[-1]))


def _insert_one(dims: dm.Shape, before: int | None) -> dm.Shape:
    """A row axis put back: in front of the last axis, or at the end."""
    return (*dims, 1) if before is None else (*dims[:before], 1, *dims[before:])


def _fold(grad: Any, like: Any) -> Any:
    """Batch axes that broadcasting added are summed; a vector gets its single axis back."""
    if like.ndim > 1:
        return unbroadcast(grad, like)
    lead = tuple(range(grad.ndim - 2))
    return ops.reshape(ops.sum(grad, lead) if lead else grad, like.meta.dims)


@rules.batch("matmul")
def matmul_batch(batched: Any, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
    """Vectors become matrices, batch dims line up in front, and what was added is dropped."""
    ranks = [t.ndim - b for t, b in zip((x, y), batched)]
    a = _as_matrix(x, batched[0], ranks[0] == 1, as_row=True)
    b = _as_matrix(y, batched[1], ranks[1] == 1, as_row=False)
    rank = max(max(ranks), 2)
    a, b = (_lined_up(t, rank) if is_batched else t for t, is_batched in zip((a, b), batched))
    out = ops.matmul(a, b, transpose_x and ranks[0] > 1, transpose_y and ranks[1] > 1)
    dims = list(out.meta.dims)
    if ranks[1] == 1:
        del dims[-1]
    if ranks[0] == 1:
        del dims[-1 if ranks[1] == 1 else -2]
    return ops.reshape(out, dims)


def _as_matrix(t: Any, is_batched: bool, is_vector: bool, as_row: bool) -> Any:
    if not is_vector:
        return t
    dims = t.meta.dims
    return ops.reshape(t, (*dims[:-1], 1, dims[-1]) if as_row else (*dims, 1))


def _lined_up(t: Any, rank: int) -> Any:
    dims = t.meta.dims
    missing = rank - (len(dims) - 1)
    return ops.reshape(t, (dims[0], *(1,) * missing, *dims[1:])) if missing else t


# -- matmul by other names ---------------------------------------------------------------------
def _check_ranks(op: str, found: Any, ranks: tuple[int, ...]) -> None:
    if tuple(t.ndim for t in found) != ranks:
        shown = ", ".join(str(t.meta) for t in found)
        raise ShapeError(f"{op} takes inputs with {list(ranks)} axes, found {shown}; use matmul")


@rules.decompose("bmm")
def bmm(x: Any, y: Any) -> Any:
    _check_ranks("bmm", (x, y), (3, 3))
    if not dm.may_equal(x.meta.dims[0], y.meta.dims[0]):
        raise ShapeError(f"{x.meta} and {y.meta} hold different numbers of matrices; use matmul")
    return ops.matmul(x, y)


@rules.decompose("mv")
def mv(x: Any, vec: Any) -> Any:
    _check_ranks("mv", (x, vec), (2, 1))
    return ops.matmul(x, vec)


@rules.decompose("dot")
def dot(x: Any, y: Any) -> Any:
    if x.ndim not in (1, 2) or x.ndim != y.ndim:
        raise ShapeError(f"x and y must both be vectors, or rows of them, found {x.meta}, {y.meta}")
    if not all(map(dm.may_equal, x.meta.dims, y.meta.dims)):
        raise ShapeError(f"x and y must have the same dims, found {x.meta} and {y.meta}")
    return ops.sum(x * y, [-1], x.dtype)


def _scaled(x: Any, factor: Any) -> Any:
    is_one = not isinstance(factor, TensorBase) and factor == 1
    return x if is_one else ops.scale(x, factor, 0, True)


def _start(input: Any, beta: Any) -> Any:
    """beta * input; as in BLAS, and so in PHI, nothing that input holds passes the number 0."""
    is_zero = not isinstance(beta, TensorBase) and beta == 0
    return ops.zeros_like(input) if is_zero else _scaled(input, beta)


@rules.decompose("addmm")
def addmm(input: Any, x: Any, y: Any, beta: float, alpha: float) -> Any:
    _check_ranks("addmm", (x, y), (2, 2))
    return _start(input, beta) + _scaled(ops.matmul(x, y), alpha)


@rules.decompose("baddbmm")
def baddbmm(input: Any, x: Any, y: Any, beta: float, alpha: float) -> Any:
    return _start(input, beta) + _scaled(ops.bmm(x, y), alpha)


# -- kron, tensordot ---------------------------------------------------------------------------
@rules.decompose("kron")
def kron(x: Any, y: Any) -> Any:
    """Blocks of y, one for each element of x: their axes interleaved, then merged in pairs."""
    rank = max(x.ndim, y.ndim)
    xs = (1,) * (rank - x.ndim) + tuple(x.meta.dims)
    ys = (1,) * (rank - y.ndim) + tuple(y.meta.dims)
    outer = ops.reshape(x, [d for pair in zip(xs, (1,) * rank) for d in pair])
    inner = ops.reshape(y, [d for pair in zip((1,) * rank, ys) for d in pair])
    return ops.reshape(outer * inner, [a * b for a, b in zip(xs, ys)])


@rules.normalize("tensordot")
def tensordot_attrs(x: MetaTensor, y: MetaTensor, axes_x: Any, axes_y: Any) -> Any:
    if len(axes_x) != len(axes_y):
        raise AttributeValueError(
            f"axes_x {list(axes_x)} and axes_y {list(axes_y)} must pair up axes of x and y"
        )
    return ax.all_positive(axes_x, x.ndim, "axes_x"), ax.all_positive(axes_y, y.ndim, "axes_y")


@rules.decompose("tensordot")
def tensordot(x: Any, y: Any, axes_x: Any, axes_y: Any) -> Any:
    rows = [i for i in range(x.ndim) if i not in axes_x]
    columns = [i for i in range(y.ndim) if i not in axes_y]
    pairs = [(x.meta.dims[i], y.meta.dims[j]) for i, j in zip(axes_x, axes_y)]
    if not all(dm.may_equal(a, b) for a, b in pairs):
        raise ShapeError(
            f"axes {list(axes_x)} of {x.meta} and {list(axes_y)} of {y.meta} differ in size"
        )
    left, right = ops.transpose(x, [*rows, *axes_x]), ops.transpose(y, [*axes_y, *columns])
    row_dims, column_dims = left.meta.dims[: len(rows)], right.meta.dims[len(axes_y) :]
    inner = dm.product(left.meta.dims[len(rows) :])
    out = ops.matmul(
        ops.reshape(left, (dm.product(row_dims), inner)),
        ops.reshape(right, (dm.product(right.meta.dims[: len(axes_y)]), dm.product(column_dims))),
    )
    return with_dims(out, (*row_dims, *column_dims))


# -- multi_dot, bilinear, cross, trace -----------------------------------------------------------
@rules.decompose("multi_dot")
def multi_dot(x: Any) -> Any:
    if len(x) < 2:
        raise AttributeValueError(f"x must hold 2 matrices or more, found {len(x)}")
    for number, factor in enumerate(x):
        is_end = number in (0, len(x) - 1)
        if factor.ndim != 2 and not (is_end and factor.ndim == 1):
            raise ShapeError(
                f"x[{number}] must be a matrix{', or a vector' if is_end else ''}, found "
                f"{factor.meta}; use matmul for stacks of matrices"
            )
    sizes = _chain_sizes([t.meta.dims for t in x])
    if not dm.is_known(*sizes):
        found = x[0]
        for factor in x[1:]:
            found = ops.matmul(found, factor)
        return found
    splits = _cheapest_splits(sizes)

    def multiplied(first: int, last: int) -> Any:
        if first == last:
            return x[first]
        split = splits[first, last]
        return ops.matmul(multiplied(first, split), multiplied(split + 1, last))

    return multiplied(0, len(x) - 1)


def _chain_sizes(shapes: list[dm.Shape]) -> list[Any]:
    """The rows of each factor, and the columns of the last; a vector at an end is one of those."""
    rows = [1 if not at and len(s) == 1 else s[0] for at, s in enumerate(shapes)]
    return [*rows, 1 if len(shapes[-1]) == 1 else shapes[-1][-1]]


def _cheapest_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split the product of the factors first .. last, by the cost of all that are shorter:
    factor i is [sizes[i], sizes[i + 1]]."""
    count = len(sizes) - 1
    costs = {(i, i): 0 for i in range(count)}
    splits = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            by_split = {
                k: costs[first, k]
                + costs[k + 1, last]
                + sizes[first] * sizes[k + 1] * sizes[last + 1]
                for k in range(first, last)
            }
            splits[first, last] = min(by_split, key=by_split.__getitem__)
            costs[first, last] = by_split[splits[first, last]]
    return splits


@rules.decompose("bilinear")
def bilinear(x: Any, y: Any, weight: Any, bias: Any) -> Any:
    if x.ndim != 2 or y.ndim != 2 or weight.ndim != 3:
        raise ShapeError(
            "x [batch, m], y [batch, n] and weight [out, m, n] are asked for, found "
            f"{x.meta}, {y.meta} and {weight.meta}"
        )
    refusal = f"x and y have as many rows, found {x.meta} and {y.meta}"
    x = expect_equal(x, refusal, (x.meta.dims[0], y.meta.dims[0]))
    found = ops.einsum([x, weight, y], "im,kmn,in->ik")
    if bias is None:
        return found
    columns = weight.meta.dims[0]
    refusal = (
        f"bias must be [1, {dm.dim_text(columns)}] for weight {weight.meta}, found {bias.meta}"
    )
    return found + expect_dims(bias, refusal, (1, columns))


@rules.normalize("cross")
def cross_attrs(x: MetaTensor, y: MetaTensor, axis: int) -> tuple[int]:
    dims = broadcast_shapes(x.dims, y.dims)
    if axis == 9:
        axis = next((a for a, d in enumerate(dims) if dm.may_equal(d, 3)), -1)
        if axis < 0:
            raise ShapeError(f"no axis has 3 elements, found {x} and {y}")
    axis = ax.positive(axis, len(dims))
    if not dm.same(dims[axis], 3):
        raise ShapeError(
            f"axis {axis} must have 3 elements, known before it runs, found {x} and {y}; give the "
            "axis that has, or a spec that says 3"
        )
    return (axis,)


@rules.decompose("cross")
def cross(x: Any, y: Any, axis: int) -> Any:
    dims = broadcast_shapes(x.meta.dims, y.meta.dims)
    x, y = (t if dm.same_shape(t.meta.dims, dims) else ops.expand(t, dims) for t in (x, y))

    def turned(t: Any, by: int) -> Any:
        return ops.roll(t, (by,), (axis,))

    return turned(x, -1) * turned(y, 1) - turned(x, 1) * turned(y, -1)


@rules.decompose("trace")
def trace(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    found = ops.sum(ops.diagonal(x, offset, axis1, axis2), [-1])
    return found if found.dtype == x.dtype else ops.cast(found, x.dtype)
