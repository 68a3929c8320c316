"""Systems of equations solved by products with a matrix alone, as ``scipy.sparse.linalg`` does.

Their derivatives are those of the solution, not of the steps to it: one more system is solved for
a gradient, with the transposed matrix. See :func:`phix.custom_linear_solve`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import fori_loop, while_loop
from phix.api.custom import stop_gradient
from phix.api.gradients import vjp
from phix.api.implicit import custom_linear_solve
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError, described
from phix.core.expectations import expect_dims, expect_equal
from phix.core.faces import face
from phix.core.given import NONE, Kind, at_least, takes
from phix.core.tensor import TensorBase
from phix.core.tensor_kinds import KINDS
from phix.linalg.arguments import floating
from phix.linalg.factors import lstsq
from phix.scipy.minimising import is_array_like

Operator = Callable[[Any], Any]  # from a tree to a like tree
_BOUND = Kind(
    "a number from 0",
    lambda v: (
        isinstance(v, TensorBase)
        or (isinstance(v, (int, float, np.number)) and not isinstance(v, bool) and bool(v >= 0))
    ),
)
_SHARED = {"tol": _BOUND, "atol": _BOUND, "maxiter": at_least(0) | NONE}


# -- trees as vectors ----------------------------------------------------------------------------
def _dot(a: Any, b: Any) -> Any:
    """The sum of conj(a) b; of halves in float32, which holds their products."""
    parts = [
        ops.sum((ops.conj(x) if dt.is_complex(x.dtype) else x) * y)
        for x, y in zip(map(_wide, pytrees.leaves(a)), map(_wide, pytrees.leaves(b)))
    ]
    return sum(parts[1:], parts[0])


def _wide(x: Any) -> Any:
    return ops.cast(x, dt.promote(x.dtype, dt.float32))


def _square(a: Any) -> Any:
    """The sum of abs(a) ** 2, which is real."""
    return _real(_dot(a, a))


def _real(x: Any) -> Any:
    return ops.real(x) if dt.is_complex(x.dtype) else x


def _plus(a: Any, b: Any, factor: Any = 1.0) -> Any:
    """a + factor b."""
    return pytrees.map(lambda x, y: x + ops.cast(_as(factor, y) * y, x.dtype), a, b)


def _times(a: Any, factor: Any) -> Any:
    """a times a real number, in the dtypes of a."""
    return pytrees.map(
        lambda x: ops.cast(_wide(x) * ops.cast(factor, dt.real_dtype(_wide(x).dtype)), x.dtype), a
    )


def _scale(tree: Any) -> Any:
    """A power of two by which squares of what is in the tree stay in the range of float32, and
    products of halves with a matrix in theirs: 1 if they do as they are."""
    leaves = [_wide(x) for x in pytrees.leaves(tree)]
    reals = [dt.real_dtype(x.dtype) for x in leaves]
    wide = functools.reduce(dt.promote, reals)
    sizes = [ops.cast(ops.reshape(ops.abs(x), [-1]), wide) for x in leaves]
    most = ops.max(ops.concat([*sizes, ops.zeros([1], wide)], 0))
    near = 2.0 ** (40 if all(x.dtype.itemsize > 2 for x in pytrees.leaves(tree)) else 4)
    fits = ((most > 1 / near) & (most < near)) | (most == 0.0) | ~ops.isfinite(most)
    far = 120.0 if dt.float32 in reals else 1000.0  # 1 / scale is a number, too
    return 2.0 ** ops.clip(ops.floor(ops.log2(ops.where(fits, 1.0, most))), -far, far)


def _as(factor: Any, like: Any) -> Any:
    return factor if isinstance(factor, float) else ops.cast(factor, like.dtype)


# -- what is given -------------------------------------------------------------------------------
def _read(A: Any, name: str, what: str) -> Any:
    """A function as it is, or a square matrix, which may be sparse."""
    if callable(A):
        return A
    matrix = A if type(A) in KINDS else floating(A)
    refusal = (
        f"{name}: {what} must be a square matrix, or a function of what b is; found a tensor of "
        f"shape {dm.shape_text(tuple(matrix.shape))}"
    )
    if len(matrix.shape) != 2 or not dm.may_equal(*matrix.shape):
        raise ShapeError(refusal)
    return matrix if type(A) in KINDS else expect_equal(matrix, refusal, tuple(matrix.shape))


def _products(A: Any) -> Operator:
    """A function, or the products with a matrix."""
    function: Operator = A if callable(A) else lambda x: A @ x
    return function


def _right_sides(A: Any, b: Any, name: str) -> Any:
    """b as floats, or complex numbers, in the dtype that products with A have."""
    leaves, tree = pytrees.flatten(owned_tensor(b) if is_array_like(b) else b)
    sides = list(map(floating, leaves))
    if not sides:
        raise ArgumentError(f"{name}: b holds no tensor, found {described(b)}")
    if len({dt.is_complex(x.dtype) for x in sides}) > 1:
        raise DTypeError(
            f"{name}: b holds real and complex tensors, {', '.join(str(x.meta) for x in sides)}; "
            "cast the real ones"
        )
    if not callable(A):
        own = A.dtype if dt.is_differentiable(A.dtype) else dt.default_float()
        sides = [ops.cast(x, dt.promote(x.dtype, own)) for x in sides]
    return pytrees.unflatten(tree, sides)


class _Bounds(NamedTuple):
    """Where the square of a residual is small enough, and how many steps there are at most."""

    enough: Any
    steps: Any


class _Found(NamedTuple):
    """A solution, the square of its residual, and the steps to it."""

    x: Any
    square: Any
    steps: Any


Method = Callable[[Operator, Operator, Any, Any, _Bounds], _Found]


def _solved(
    name: str, method: Method, given: tuple[Any, ...], symmetric: bool = False
) -> tuple[Any, Any]:
    """x, and how it ended: 0, well; a number of steps, not yet; -1, it cannot go on."""
    A, b, x0, tol, atol, maxiter, M = given
    A = _read(A, name, "A")
    b = _right_sides(A, b, name)
    apply = _products(A)
    precondition = _identity if M is None else _products(_read(M, name, "M"))
    start = None if x0 is None else stop_gradient(_like(x0, b, name))

    def solver(guess: Any, precondition: Operator) -> Callable[..., Any]:
        def solve(matvec: Operator, b: Any) -> Any:
            size = sum(x.size for x in pytrees.leaves(b))
            first = pytrees.map(ops.zeros_like, b) if guess is None else guess
            scale = _scale((b, first))
            b, first, least = _times(b, 1.0 / scale), _times(first, 1.0 / scale), atol / scale
            enough = ops.maximum(tol * tol * _square(b), least * least)
            bounds = _Bounds(enough, 10 * size if maxiter is None else maxiter)
            found = method(matvec, precondition, b, first, bounds)
            ended = ops.where(found.square < float("inf"), ops.maximum(found.steps, 1), -1)
            info = ops.cast(ops.where(found.square <= enough, 0, ended), "int32")
            return _times(found.x, scale), info

        return solve

    def transposed(g: Any) -> Any:
        return vjp(precondition, g)[1](g)[0]

    again = precondition if symmetric or M is None else transposed
    return custom_linear_solve(
        apply, b, solver(start, precondition), solver(None, again), symmetric, has_aux=True
    )


def _identity(x: Any) -> Any:
    return x


def _like(x0: Any, b: Any, name: str) -> Any:
    """x0 as a tree of the dtypes of b."""
    leaves, tree = pytrees.flatten(owned_tensor(x0) if is_array_like(x0) else x0)
    sides, wanted = pytrees.flatten(b)
    starts = list(map(floating, leaves))
    if tree != wanted:
        raise ArgumentError(f"{name}: x0 must be a tree as b, {wanted}, found {tree}")
    for n, (x, y) in enumerate(zip(starts, sides)):
        refusal = f"{name}: x0 must have the dims of b, {y.meta}, found {x.meta}"
        starts[n] = expect_dims(x, refusal, y.meta.dims)
        if dt.promote(x.dtype, y.dtype) != y.dtype:
            raise DTypeError(f"{name}: x0 {x.meta} has digits that b {y.meta} has not; cast b")
    return pytrees.unflatten(tree, [ops.cast(x, y.dtype) for x, y in zip(starts, sides)])


def _until_small(
    step: Callable[[Any, Any], tuple[Any, Any, Any]], x: Any, square: Any, state: Any,
    bounds: _Bounds,
) -> _Found:  # fmt: skip
    """Steps from (x, state) to (x, the square of its residual, state), until that is small. The
    last x is kept that is finite."""

    def goes_on(carry: Any) -> Any:
        _, square, steps, _ = carry
        return (square > bounds.enough) & (square < float("inf")) & (steps < bounds.steps)

    def body(carry: Any) -> Any:
        old, _, steps, state = carry
        new, square, state = step(old, state)
        x = pytrees.map(lambda a, b: ops.where(square < float("inf"), a, b), new, old)
        return x, square, steps + 1, state

    steps = ops.full((), 0, "int64")
    x, square, steps, _ = while_loop(goes_on, body, (x, square, steps, state))
    return _Found(x, square, steps)


# -- methods -------------------------------------------------------------------------------------
def _conjugate_gradients(
    apply: Operator, precondition: Operator, b: Any, x: Any, bounds: _Bounds
) -> _Found:
    def step(x: Any, state: Any) -> tuple[Any, Any, Any]:
        residual, direction, gamma = state
        image = apply(direction)
        alpha = gamma / _real(_dot(direction, image))
        x, residual = _plus(x, direction, alpha), _plus(residual, image, -alpha)
        ready = precondition(residual)
        following = _real(_dot(residual, ready))
        direction = _plus(ready, direction, following / gamma)
        return x, _square(residual), (residual, direction, following)

    residual = _plus(b, apply(x), -1.0)
    ready = precondition(residual)
    state = residual, ready, _real(_dot(residual, ready))
    return _until_small(step, x, _square(residual), state, bounds)


def _stabilised(apply: Operator, precondition: Operator, b: Any, x: Any, bounds: _Bounds) -> _Found:
    first = _plus(b, apply(x), -1.0)

    def step(x: Any, state: Any) -> tuple[Any, Any, Any]:
        residual, direction, rho = state
        ready = precondition(direction)
        image = apply(ready)
        alpha = rho / _dot(first, image)
        half = _plus(residual, image, -alpha)
        ready_half = precondition(half)
        image_half = apply(ready_half)
        size = _square(image_half)
        is_done = size == 0.0  # the half step was all
        omega = ops.where(is_done, 0.0, _dot(image_half, half)) / ops.where(is_done, 1.0, size)
        x = _plus(_plus(x, ready, alpha), ready_half, omega)
        residual = _plus(half, image_half, -omega)
        following = _dot(first, residual)
        beta = following / rho * alpha / omega
        direction = _plus(residual, _plus(direction, image, -omega), beta)
        return x, _square(residual), (residual, direction, following)

    state = first, first, _dot(first, first)
    return _until_small(step, x, _square(first), state, bounds)


def _minimal_residuals(restart: int) -> Method:
    """GMRES: the least residual in the space of so many products."""

    def method(apply: Operator, precondition: Operator, b: Any, x: Any, bounds: _Bounds) -> _Found:
        vector, tree_of = _raveled(b)
        size = vector.shape[0]
        count = min(restart, max(size, 1)) if isinstance(size, int) else restart
        real = dt.real_dtype(vector.dtype)
        least = float(np.finfo(real).eps)

        def product(v: Any) -> Any:
            return _raveled(apply(precondition(tree_of(v))))[0]

        def grow(j: Any, grown: Any) -> Any:
            """One more direction, at right angles to those so far: taken out twice."""
            basis, images = grown
            new = product(basis[j])
            before = ops.sqrt(_square(new))
            column = ops.zeros((count + 1,), vector.dtype)
            for _ in range(2):
                part = ops.conj(basis) @ new
                column, new = column + part, new - part @ basis
            length = ops.sqrt(_square(new))
            length = ops.where(length > least * before, length, 0.0)  # the space is complete
            new = ops.where(length > 0.0, new / ops.where(length > 0.0, length, 1.0), 0.0)
            column = column.at[j + 1].set(ops.cast(length, vector.dtype))
            return basis.at[j + 1].set(new), images.at[:, j].set(column)

        def step(x: Any, residual: Any) -> tuple[Any, Any, Any]:
            length = ops.sqrt(_square(residual))
            basis = ops.zeros((count + 1, size), vector.dtype).at[0].set(residual / length)
            images = ops.zeros((count + 1, count), vector.dtype)
            basis, images = fori_loop(0, count, grow, (basis, images))
            wanted = ops.zeros((count + 1,), vector.dtype).at[0].set(ops.cast(length, vector.dtype))
            weights = lstsq(images, wanted).x
            x = _plus(x, precondition(tree_of(weights @ basis[:count])))
            residual = _raveled(_plus(b, apply(x), -1.0))[0]
            return x, _square(residual), residual

        residual = _raveled(_plus(b, apply(x), -1.0))[0]
        return _until_small(step, x, _square(residual), residual, bounds)

    return method


def _raveled(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A tree as one vector, and the way back."""
    leaves, structure = pytrees.flatten(tree)
    dtype = functools.reduce(dt.promote, [x.dtype for x in leaves], dt.float32)
    vector = ops.concat([ops.cast(ops.reshape(x, [-1]), dtype) for x in leaves], 0)

    def back(v: Any) -> Any:
        out, at = [], 0
        for x in leaves:
            out.append(ops.cast(ops.reshape(v[at : at + x.size], x.meta.dims), x.dtype))
            at = at + x.size
        return pytrees.unflatten(structure, out)

    return vector, back


# -- as users call them --------------------------------------------------------------------------
@takes(**_SHARED)
def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,
    maxiter: int | None = None, M: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The x with A x = b by conjugate gradients: for a Hermitian A with eigenvalues above 0.

    Args:
        A: a function from a tree like b to such a tree, or a matrix [n, n], which may be sparse.
        b: a tensor of floats or complex numbers, or a tree of them; ints become the default float.
        x0: where it begins, a tree as b, by default zeros. It has no derivative.
        tol: with ``atol``, it ends where norm(b - A x) <= max(tol norm(b), atol).
        atol: see ``tol``.
        maxiter: steps at most, by default ten for each unknown.
        M: an approximate inverse of A, Hermitian too, as A is given. It has no derivative.

    Returns:
        ``(x, info)``: x as b, the last one that was finite, and an int32: 0 where it came so far,
        the number of steps where it did not, -1 where it could not go on.

    Raises:
        ShapeError: A or M is no square matrix, or gives other dims than b has, or x0 has others.
        DTypeError: A gives another dtype than b has, or b holds real and complex tensors.
        ArgumentError: b holds nothing, or A gives a tree of other structure.

    >>> import phix
    >>> A = phix.to_tensor([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = phix.scipy.sparse.linalg.cg(A, [1.0, 2.0])
    >>> [round(v, 4) for v in x.tolist()], info.item()
    ([0.0909, 0.6364], 0)
    >>> total = lambda b: phix.scipy.sparse.linalg.cg(A, b)[0].sum()
    >>> [round(v, 4) for v in phix.grad(total)(phix.to_tensor([1.0, 2.0])).tolist()]
    [0.1818, 0.2727]
    """
    return _solved("cg", _conjugate_gradients, (A, b, x0, tol, atol, maxiter, M), symmetric=True)


@takes(**_SHARED)
def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,
    maxiter: int | None = None, M: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The x with A x = b by stabilised biconjugate gradients: two products with A a step.

    It can break off for some A (``info`` is -1 then) that :func:`gmres` solves.

    Args:
        A: a function from a tree like b to such a tree, or a matrix [n, n], which may be sparse.
        b: a tensor of floats or complex numbers, or a tree of them; ints become the default float.
        x0: where it begins, a tree as b, by default zeros. It has no derivative.
        tol: with ``atol``, it ends where norm(b - A x) <= max(tol norm(b), atol).
        atol: see ``tol``.
        maxiter: steps at most, by default ten for each unknown.
        M: an approximate inverse of A, given as A is. It has no derivative.

    Returns:
        ``(x, info)``: x as b, the last one that was finite, and an int32: 0 where it came so far,
        the number of steps where it did not, -1 where it could not go on.

    Raises:
        ShapeError: A or M is no square matrix, or gives other dims than b has, or x0 has others.
        DTypeError: A gives another dtype than b has, or b holds real and complex tensors.
        ArgumentError: b holds nothing, or A gives a tree of other structure.

    >>> import phix
    >>> A = phix.to_tensor([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = phix.scipy.sparse.linalg.bicgstab(A, [1.0, 2.0])
    >>> [round(v, 4) for v in x.tolist()]
    [0.0833, 0.6667]
    """
    return _solved("bicgstab", _stabilised, (A, b, x0, tol, atol, maxiter, M))


@takes(**_SHARED, restart=at_least(1))
def gmres(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, restart: int = 20,
    maxiter: int | None = None, M: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The x with A x = b by generalised minimal residuals: for any A that is not singular.

    Args:
        A: a function from a tree like b to such a tree, or a matrix [n, n], which may be sparse.
        b: a tensor of floats or complex numbers, or a tree of them; ints become the default float.
        x0: where it begins, a tree as b, by default zeros. It has no derivative.
        tol: with ``atol``, it ends where norm(b - A x) <= max(tol norm(b), atol).
        atol: see ``tol``.
        restart: products with A before the residual is looked at and x is where it begins anew;
            it keeps as many vectors like b.
        maxiter: such beginnings at most, by default ten for each unknown.
        M: an approximate inverse of A, given as A is. It has no derivative.

    Returns:
        ``(x, info)``: x as b, the last one that was finite, and an int32: 0 where it came so far,
        the number of beginnings where it did not, -1 where it could not go on.

    Raises:
        ShapeError: A or M is no square matrix, or gives other dims than b has, or x0 has others.
        DTypeError: A gives another dtype than b has, or b holds real and complex tensors.
        ArgumentError: b holds nothing, or A gives a tree of other structure.

    >>> import phix
    >>> A = phix.to_tensor([[0.0, 2.0], [1.0, 3.0]])
    >>> x, info = phix.scipy.sparse.linalg.gmres(A, [1.0, 2.0])
    >>> [round(v, 4) for v in x.tolist()]
    [0.5, 0.5]
    """
    method = _minimal_residuals(restart)
    return _solved("gmres", method, (A, b, x0, tol, atol, maxiter, M))


__all__ = ["bicgstab", "cg", "gmres"]
__dir__ = face(__all__)
