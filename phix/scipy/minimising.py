"""``minimize``: the loop that all methods share, their options, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import while_loop
from phix.api.gradients import value_and_grad
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError, described
from phix.core.given import FUNCTION, NONE, TEXT, Kind, is_int, takes
from phix.core.tensor import TensorBase
from phix.scipy.directions import Way, bfgs, dot, lbfgs, newton_cg
from phix.scipy.line_search import search

MESSAGES = (
    "Optimization terminated successfully.",
    "The maximum number of iterations was reached.",
    "The line search found no lower point: it is at the precision of the dtype, or unbounded.",
    "The function or its gradient is not finite at the start.",
)
_RUNS = -1  # the status while no other is known


class OptimizeResult(NamedTuple):
    """What :func:`minimize` gives: a tree of tensors, which ``jit`` and ``vmap`` give back too.

    ``message`` is the text of the status, a list of texts where ``vmap`` made several; while a
    program is traced there is none.

    >>> import phix
    >>> found = phix.scipy.optimize.minimize(lambda x: (x**2).sum(), [3.0], method="BFGS")
    >>> found.message
    'Optimization terminated successfully.'
    """

    x: Any  # the best point, a tree as x0
    success: Any  # bool: whether the status is 0
    status: Any  # int32: 0 done, 1 maxiter, 2 no lower point found, 3 not finite at the start
    fun: Any  # the function at x
    jac: Any  # its gradient at x, a tree as x0
    hess_inv: Any  # of BFGS the estimate of the Hessian's inverse, [n, n], else None
    nfev: Any  # int32: evaluations of the function
    njev: Any  # int32: evaluations of gradients, those of products with the Hessian among them
    nit: Any  # int32: steps

    @property
    def message(self) -> Any:
        """The status in words."""
        numbers = np.asarray(self.status)
        texts = np.array(MESSAGES, object)[numbers]
        return texts if numbers.ndim == 0 else texts.tolist()


class _Progress(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    memory: Any
    nfev: Any
    njev: Any
    nit: Any
    status: Any


# -- options -------------------------------------------------------------------------------------
_REAL = Kind(
    "a number from 0",
    lambda v: (
        isinstance(v, (int, float, np.integer, np.floating))
        and not isinstance(v, bool)
        and bool(v >= 0)
    ),
)
_COUNT = Kind("an int from 1", lambda v: is_int(v) and v >= 1)
_MAYBE_COUNT = Kind("an int from 0", lambda v: is_int(v) and v >= 0) | NONE
_NORM = Kind("a number above 0, or inf", lambda v: _REAL.holds(v) and bool(v > 0))
_SHARED: dict[str, tuple[Any, Kind]] = {"maxiter": (None, _MAYBE_COUNT), "maxls": (30, _COUNT)}
_OF_GRADIENT: dict[str, tuple[Any, Kind]] = {"gtol": (1e-5, _REAL), "norm": (math.inf, _NORM)}
OPTIONS: dict[str, dict[str, tuple[Any, Kind]]] = {
    "BFGS": {**_SHARED, **_OF_GRADIENT},
    "L-BFGS": {**_SHARED, **_OF_GRADIENT, "ftol": (2.220446049250313e-09, _REAL),
               "maxcor": (10, _COUNT)},
    "Newton-CG": {**_SHARED, "xtol": (1e-5, _REAL)},
}  # fmt: skip
_BY_TOL = {"BFGS": ("gtol",), "L-BFGS": ("gtol", "ftol"), "Newton-CG": ("xtol",)}


def _method(name: str) -> str:
    for known in OPTIONS:
        if name.lower() == known.lower():
            return known
    if name.upper() == "L-BFGS-B":
        raise ArgumentError(
            "minimize has no bounds, so its method is 'l-bfgs'; write method='l-bfgs', and for "
            "bounds minimise over z, with x = low + (high - low) * sigmoid(z) in the function"
        )
    raise ArgumentError(
        f"minimize: method must be one of 'BFGS', 'l-bfgs', 'Newton-CG', found {name!r}"
    )


def _settings(method: str, tol: Any, options: Any) -> dict[str, Any]:
    known = OPTIONS[method]
    found = {name: default for name, (default, _) in known.items()}
    if tol is not None:
        found.update(dict.fromkeys(_BY_TOL[method], tol))
    for name, value in (options or {}).items():
        if name not in known:
            raise ArgumentError(
                f"minimize: {method} has no option {name!r}; its options are {', '.join(known)}"
            )
        if not known[name][1].holds(value):
            raise ArgumentError(
                f"minimize: option {name!r} must be {known[name][1].says}, found {described(value)}"
            )
        found[name] = value
    return found


# -- the start, as one vector --------------------------------------------------------------------
def is_array_like(x0: Any) -> bool:
    """Whether it is nested lists of numbers, which SciPy takes as an array."""
    if isinstance(x0, (list, tuple)):
        is_plain = type(x0) in (list, tuple) and bool(x0)
        try:
            return is_plain and all(map(is_array_like, x0))
        except RecursionError:  # it holds itself: who makes an array of it says so
            return True
    return isinstance(x0, (int, float, np.number)) and not isinstance(x0, TensorBase)


class _Flat:
    """A tree of tensors as one vector, and back."""

    def __init__(self, x0: Any) -> None:
        tree = owned_tensor(x0) if is_array_like(x0) else x0
        leaves, self.treedef = pytrees.flatten(tree)
        tensors = [v if isinstance(v, TensorBase) else owned_tensor(v) for v in leaves]
        tensors = [ops.cast(v, dt.default_float()) if dt.kind(v.dtype) in ("int", "bool") else v
                   for v in tensors]  # fmt: skip
        for v in tensors:
            if v.dtype not in (dt.float32, dt.float64):
                raise DTypeError(
                    f"x0 must be float32 or float64, found {v.meta}; write x0.astype('float32'), "
                    "and complex numbers as their real and imaginary parts"
                )
        if not tensors:
            raise ArgumentError("x0 has no tensors; give a point to start from")
        self.metas = [(v.shape, v.dtype, math.prod(v.shape)) for v in tensors]
        dtype = tensors[0].dtype
        for v in tensors:
            dtype = dt.promote(dtype, v.dtype)
        self.vector = ops.concat([ops.cast(ops.reshape(v, [-1]), dtype) for v in tensors], 0)

    def tree(self, vector: Any) -> Any:
        leaves, begin = [], 0
        for shape, dtype, count in self.metas:
            part = vector[begin : begin + count]
            leaves.append(ops.cast(ops.reshape(part, shape), dtype))
            begin = begin + count
        return pytrees.unflatten(self.treedef, leaves)


# -- the loop ------------------------------------------------------------------------------------
@takes(fun=FUNCTION, method=TEXT, tol=_REAL | NONE,
       args=Kind("a tuple", lambda v: isinstance(v, tuple)),
       options=Kind("a dict", lambda v: isinstance(v, dict)) | NONE)  # fmt: skip
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: Any = None,
    options: Any = None,
) -> OptimizeResult:
    """A local minimum of a smooth function, from a point to start from.

    Each step goes along a direction p = -B g, g the gradient, to where Wolfe's strong conditions
    hold. All is loops of phix, so that it runs inside ``jit``, and under ``vmap`` for many starts
    at once; the gradients are phix's own.

    Args:
        fun: of a tree as x0 and ``args``, to one number.
        x0: a tensor or a tree of them, float32 or float64; lists of numbers are one tensor, and
            ints become float32.
        args: what else the function is given.
        method: "BFGS": B is an estimate of the Hessian's inverse, [n, n]; "l-bfgs": the one that
            the last steps make, for many unknowns; "Newton-CG": products with the Hessian, by
            conjugate gradients.
        tol: the tolerance of the method: gtol, gtol and ftol, or xtol.
        options: a dict. All: maxiter (200 n by default), maxls (most evaluations a step, 30).
            BFGS and l-bfgs: gtol (1e-5), what the ``norm`` (inf) of the gradient must fall to;
            l-bfgs: maxcor (10 steps are remembered), ftol (2.2e-9), how little the function must
            fall by in a step, relative to it or to 1; Newton-CG: xtol (1e-5), how short the steps
            must become on average over the unknowns.

    Returns:
        :class:`OptimizeResult`.

    Raises:
        ArgumentError: an unknown method or option.
        DTypeError: x0 is complex, or of half precision; or fun gives no float.
        ShapeError: fun gives more than one number.

    >>> import phix
    >>> def rosenbrock(x):
    ...     return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
    >>> x0 = phix.to_tensor([-1.2, 1.0], dtype="float64")
    >>> found = phix.scipy.optimize.minimize(rosenbrock, x0, method="BFGS")
    >>> found.success.item(), found.x.round(decimals=4).tolist()
    (True, [1.0, 1.0])
    """
    method = _method(method)
    settings = _settings(method, tol, options)
    flat = _Flat(x0)
    function = _of_vector(fun, flat, args)
    end = _run(function, flat.vector, _way(method, function, settings), method, settings)
    inverse = end.memory[0] if method == "BFGS" else None
    return OptimizeResult(
        flat.tree(end.x), end.status == 0, end.status, end.value, flat.tree(end.gradient), inverse,
        end.nfev, end.njev, end.nit,
    )  # fmt: skip


def _of_vector(fun: Callable[..., Any], flat: _Flat, args: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        found = fun(flat.tree(x), *args)
        value = found if isinstance(found, TensorBase) else owned_tensor(found)
        if math.prod(value.shape) != 1:
            raise ShapeError(f"minimize: fun must give one number, found {value.meta}; sum it")
        if dt.kind(value.dtype) != "float":  # without an order, or without slopes
            raise DTypeError(
                f"minimize: fun must give a float, found {value.meta}; take abs of a complex "
                "number, or a smooth measure of what is counted"
            )
        return ops.cast(ops.reshape(value, []), x.dtype)

    return function


def _way(method: str, function: Callable[[Any], Any], settings: dict[str, Any]) -> Way:
    if method == "BFGS":
        return bfgs()
    return lbfgs(settings["maxcor"]) if method == "L-BFGS" else newton_cg(function)


def _run(
    function: Callable[[Any], Any], x: Any, way: Way, method: str, settings: dict[str, Any]
) -> _Progress:
    evaluate = value_and_grad(function)
    most = 200 * x.shape[0] if settings["maxiter"] is None else settings["maxiter"]
    is_enough = _tests(settings)

    def body(at: _Progress) -> _Progress:
        direction, cost = way.direction(at.memory, at.x, at.gradient)
        falls = dot(direction, at.gradient) < 0  # not where roundings have spoiled it
        direction = ops.where(falls, direction, -at.gradient)
        first = ops.full_like(at.value, 1.0)
        if not way.is_scaled:  # of the first direction nothing but its slope is known
            size = ops.sqrt(dot(direction, direction))
            first = ops.where(at.nit == 0, ops.minimum(1.0, 1 / size), first)
        step, count, is_lower = search(
            evaluate, at.x, direction, at.value, at.gradient, first, way.curvature,
            settings["maxls"],
        )  # fmt: skip
        moved = step.length * direction
        memory = way.learn(at.memory, moved, step.gradient - at.gradient)
        new = _Progress(at.x + moved, step.value, step.gradient, memory, at.nfev + count,
                        at.njev + count + cost, at.nit + 1, at.status)  # fmt: skip
        status = ops.where(new.nit >= most, 1, ops.full((), _RUNS, dt.int32))
        status = ops.where(is_enough(at, new), 0, status)
        stuck: Any = 2
        if "xtol" in settings:  # what is left to go is nothing
            stuck = ops.where(ops.mean(ops.abs(direction)) <= settings["xtol"], 0, 2)
        return new._replace(status=ops.cast(ops.where(is_lower, status, stuck), dt.int32))

    value, gradient = evaluate(x)
    one = ops.full((), 1, dt.int32)
    begin = _Progress(x, value, gradient, way.start(x), one, one, ops.full((), 0, dt.int32), one)
    begin = begin._replace(status=_first_status(begin, most, is_enough))
    return while_loop(lambda at: at.status == _RUNS, body, begin)


def _first_status(begin: _Progress, most: Any, is_enough: Any) -> Any:
    status = ops.where(is_enough(None, begin), 0, ops.where(begin.nit >= most, 1, _RUNS))
    known = ops.isfinite(begin.value) & ops.all(ops.isfinite(begin.gradient))
    return ops.cast(ops.where(known, status, 3), dt.int32)


def _tests(settings: dict[str, Any]) -> Callable[[Any, _Progress], Any]:
    """Whether a step is the last: of the point before, None at the start, and the one after."""

    def is_enough(before: Any, after: _Progress) -> Any:
        if "xtol" in settings:
            short = ops.all(after.gradient == 0)
            if before is not None:
                short = short | (ops.mean(ops.abs(after.x - before.x)) <= settings["xtol"])
            return short
        size = _norm(after.gradient, settings["norm"])
        enough = size <= settings["gtol"]
        if before is not None and "ftol" in settings:
            scale = ops.maximum(ops.maximum(ops.abs(before.value), ops.abs(after.value)), 1.0)
            enough = enough | (before.value - after.value <= settings["ftol"] * scale)
        return enough

    return is_enough


def _norm(x: Any, order: float) -> Any:
    size = ops.abs(x)
    if order == math.inf:
        return ops.max(size)
    return ops.pow(ops.sum(ops.pow(size, float(order))), 1 / float(order))
