"""Ordinary differential equations from a point to start from, over a span: :func:`solve_ivp`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import scan, while_loop
from phix.api.custom import stop_gradient
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor, stacked
from phix.core.errors import ArgumentError, ConcretizationError, DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.given import FLAG, FUNCTION, NONE, Kind, one_of, takes
from phix.core.tensor import TensorBase
from phix.scipy.initial_values import LENGTH, TOLERANCE, floats_of, slope_like, times_of
from phix.scipy.matrix_systems import alike
from phix.scipy.radau import Jacobian, Radau
from phix.scipy.runge_kutta import RungeKuttaHeld
from phix.scipy.runge_kutta_formulas import FORMULAS
from phix.scipy.steps import Leaves, Solver, chosen

_CHUNK = 64  # steps that are taken before it is looked whether these were all
_MOST = 2**31 - 1
_MESSAGES = (
    "The end of the interval was reached.",
    "The steps became shorter than the times have digits for, or y is not finite.",
)
_METHODS = one_of(*FORMULAS, "Radau")
_METHODS = Kind(f"{_METHODS.says}; others are not there", _METHODS.holds)

_TOLERANCES = Kind(
    f"{TOLERANCE.says}, or one for each element of y0",
    lambda v: TOLERANCE.holds(v) or isinstance(v, (list, tuple, np.ndarray, TensorBase)),
)
_JACOBIAN = Kind(
    "a function of t and y, a matrix [n, n], or None",
    lambda v: v is None or callable(v) or isinstance(v, (list, tuple, np.ndarray, TensorBase)),
    runs=True,
)


class OdeResult(NamedTuple):
    """What :func:`solve_ivp` gives: a tree of tensors, which ``jit`` and ``vmap`` give back too.

    ``message`` is the text of the status, a list of texts where ``vmap`` made several; while a
    program is traced there is none.

    >>> import phix
    >>> found = phix.scipy.integrate.solve_ivp(lambda t, y: y * y, (0.0, 2.0), [1.0], t_eval=[2.0])
    >>> found.status.item(), found.message[:30]
    (-1, 'The steps became shorter than ')
    """

    t: Any  # the times, [k]
    y: Any  # y at them, [n, k]
    nfev: Any  # int32: how often the steps asked for dy/dt
    njev: Any  # int32: ... and for its Jacobian, and how many matrices they factored: 0 of
    nlu: Any  # explicit methods
    status: Any  # int32: 0 the end was reached, -1 not
    success: Any  # bool: whether the status is 0

    @property
    def message(self) -> Any:
        """The status in words."""
        numbers = np.asarray(self.status)
        texts = np.array(_MESSAGES, object)[-numbers]
        return texts if numbers.ndim == 0 else texts.tolist()


@takes(fun=FUNCTION, method=_METHODS, dense_output=FLAG, vectorized=FLAG, rtol=TOLERANCE,
       atol=_TOLERANCES, first_step=LENGTH, max_step=LENGTH, jac=_JACOBIAN,
       args=Kind("a tuple", lambda v: isinstance(v, tuple)) | NONE)  # fmt: skip
def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: str = "RK45", t_eval: Any = None,
    dense_output: bool = False, events: None = None, vectorized: bool = False,
    args: tuple[Any, ...] | None = None, *, first_step: float | None = None,
    max_step: float | None = math.inf, rtol: float | None = 1e-3, atol: Any = 1e-6, jac: Any = None,
) -> OdeResult:  # fmt: skip
    """The solution of dy/dt = fun(t, y, ...) with y(t_span[0]) = y0, up to t_span[1].

    Steps are those of Bogacki and Shampine, "RK23", of Dormand and Prince, "RK45", or of Hairer,
    Norsett and Wanner's "DOP853", of order 3, 5 and 8, as long as their error allows, for equations
    that are not stiff; times between are read off polynomials of order 3, 4 and 7. For stiff ones
    there is their "Radau", Radau IIA of order 5, implicit, with its cubic between. With ``t_eval``
    all is loops of phix: it runs inside ``jit`` and under ``vmap``. Derivatives of any order, by
    y0, the times and what ``fun`` uses, are those of the steps that were taken, as of ``odeint``;
    of an implicit step they are those of its equations, by the implicit function theorem.

    Args:
        fun: of the time, y [n] and ``args``, to dy/dt, [n] or a list of its elements.
        t_span: two times, of which the second may be the earlier one.
        y0: [n], floats or complex numbers; ints become the default float.
        method: "RK23", "RK45", "DOP853" or "Radau".
        t_eval: the times to give y at, [k], in t_span and in its direction. Without it they are
            t_span[0] and the ends of the steps, of which no program knows the number: that is for
            calls outside of ``jit`` and ``vmap``.
        dense_output, events: a function of the solution, and events, which are not there.
        vectorized: without effect.
        args: what else ``fun`` is given.
        first_step: the length of the first step; found from ``fun`` where None.
        max_step: the length of the longest.
        rtol, atol: a step errs by rtol |y| + atol at most, in the root of the mean of squares;
            rtol is 100 units in the last place of 1 at least, and atol may be [n].
        jac: of Radau, the derivative of ``fun`` by y: a function of the time, y and ``args`` to
            [n, n], tensors or lists of rows, or one such matrix where it is constant. Where None it
            is the exact one, by forward mode. It bears on the steps alone, not on derivatives.

    Returns:
        An :class:`OdeResult`. y is NaN at times that could not be reached.

    Raises:
        ArgumentError: t_span is no pair, t_eval not in it or in no order, or not given in a
            program; jac is given to an explicit method; or what is not there is asked for.
        ShapeError: y0 is not [n], t_eval not [k], jac not [n, n], or fun gives another shape.
        DTypeError: times, jac, or y0 of Radau are complex, or fun gives such for a real y.

    >>> import phix
    >>> found = phix.scipy.integrate.solve_ivp(
    ...     lambda t, y: -0.5 * y, (0.0, 2.0), [1.0, 2.0], t_eval=[1.0, 2.0], rtol=1e-6)
    >>> [[round(v, 4) for v in row] for row in found.y.tolist()], found.success.item()
    ([[0.6065, 0.3679], [1.2131, 0.7358]], True)
    """
    _refuse(dense_output, events, first_step, t_span)
    start = _start(y0)
    times, asked = _times(t_span, t_eval, start)
    relative = max(1e-3 if rtol is None else float(rtol), 100 * float(np.finfo(start.dtype).eps))
    absolute = _absolute(atol, start)
    settings = _slope(fun, args or (), start), times, relative, absolute, max_step, _MOST
    steps = _Integrator(_solver(method, settings, jac, args or (), start))
    if asked is None:
        return steps.by_steps(start, first_step)
    return steps.at_times(start, first_step, asked)


# -- what is given ---------------------------------------------------------------------------------
def _refuse(dense_output: bool, events: Any, first_step: float | None, t_span: Any) -> None:
    if dense_output:
        raise ArgumentError(
            "solve_ivp: dense_output asks for a function of the solution, which is not there; give "
            "the times at which it is wanted as t_eval"
        )
    if events is not None:
        raise ArgumentError(
            f"solve_ivp: there are no events, found {events!r:.80}; look for them in y, at the "
            "times t_eval"
        )
    ends = _numbers(t_span)
    span = math.inf if ends is None or ends.shape != (2,) else abs(ends[1] - ends[0])
    if first_step is not None and first_step > span:
        raise ArgumentError(
            f"solve_ivp: first_step must not go beyond t_span, of length {span}, found {first_step}"
        )


def _absolute(atol: Any, start: Any) -> Any:
    if atol is None or isinstance(atol, (int, float, np.number)):
        return 1e-6 if atol is None else float(atol)
    found = atol if isinstance(atol, TensorBase) else owned_tensor(atol)
    if dt.is_complex(found.dtype):
        raise DTypeError(f"solve_ivp: atol must be real numbers, found {found.meta}")
    found = stop_gradient(ops.cast(found, dt.real_dtype(start.dtype)))
    refusal = f"solve_ivp: atol must be a number, or as y0, {start.meta}, found {found.meta}"
    return found if not found.ndim else expect_dims(found, refusal, start.meta.dims)


def _slope(fun: Callable[..., Any], args: Any, start: Any) -> Callable[[Leaves, Any], Leaves]:
    def slope(y: Leaves, t: Any) -> Leaves:
        found = fun(t, y[0], *args)
        if isinstance(found, (list, tuple)):
            found = stacked(list(found), start.dtype)
        return [slope_like(found, y[0], "solve_ivp: fun")]

    return slope


def _solver(method: str, settings: Any, jac: Any, args: Any, start: Any) -> Solver:
    if method == "Radau":
        if dt.is_complex(start.dtype):
            raise DTypeError(
                f"solve_ivp: Radau is for real y, found y0 {start.meta}; write the real and the "
                "imaginary parts as elements of their own"
            )
        return Radau(*settings, jacobian=_jacobian(jac, args, start))
    if jac is not None:
        raise ArgumentError(
            f"solve_ivp: {method} is explicit and takes no Jacobian; leave jac out, or take Radau"
        )
    return RungeKuttaHeld(*settings, formula=FORMULAS[method])


def _jacobian(jac: Any, args: Any, start: Any) -> Jacobian | None:
    """df/dy of y and a time, and whether it is one matrix for all of them."""
    if jac is None:
        return None

    def matrix(found: Any) -> Any:
        if isinstance(found, (list, tuple)):
            found = stacked(found, start.dtype)
        found = found if isinstance(found, TensorBase) else owned_tensor(found)
        if dt.is_complex(found.dtype):
            raise DTypeError(f"solve_ivp: jac must be real numbers, found {found.meta}")
        n = start.meta.dims[0]
        refusal = f"solve_ivp: jac must be [n, n] for y0 {start.meta}, found {found.meta}"
        return ops.cast(expect_dims(found, refusal, (n, n)), start.dtype)

    if callable(jac):
        return Jacobian(lambda y, t: matrix(jac(t, y, *args)), False)
    constant = matrix(jac)
    return Jacobian(lambda y, t: constant, True)


def _times(t_span: Any, t_eval: Any, start: Any) -> tuple[Any, Any]:
    """All times that the steps come by, and those that are asked for."""
    ends = _span(t_span, start)
    if t_eval is None:
        return ends, None
    asked = times_of(t_eval, [start], "solve_ivp: t_eval")
    _check_inside(t_eval, t_span)
    asked, ends = alike(asked, ends)
    return ops.concat([ends[:1], asked, ends[1:]], 0), asked


def _start(y0: Any) -> Any:
    y = floats_of(y0, "solve_ivp")
    if y.ndim != 1:
        raise ShapeError(f"solve_ivp: y0 must be [n], found {y.meta}; write y0.reshape([-1])")
    return y


def _span(t_span: Any, start: Any) -> Any:
    is_pair = isinstance(t_span, (tuple, list)) and len(t_span) == 2
    if not is_pair and getattr(t_span, "shape", None) not in ((2,), [2]):
        raise ArgumentError(
            f"solve_ivp: t_span must be (t0, t1), two times, found {t_span!r:.80}; the times to "
            "give y at are t_eval"
        )
    return times_of(t_span, [start], "solve_ivp: t_span")


def _numbers(x: Any) -> Any:
    """What is known of times without a tensor, in an array."""
    if isinstance(x, (list, tuple)) and not any(isinstance(v, TensorBase) for v in x):
        return np.asarray(x, np.float64)
    return x.astype(np.float64) if isinstance(x, np.ndarray) else None


def _check_inside(t_eval: Any, t_span: Any) -> None:
    times, ends = _numbers(t_eval), _numbers(t_span)
    if times is None or ends is None or times.ndim != 1:
        return
    low, high = sorted(ends.tolist())
    steps = np.diff(times) * (1 if ends[1] >= ends[0] else -1)
    if not (((times >= low) & (times <= high)).all() and (steps >= 0).all()):
        raise ArgumentError(
            f"solve_ivp: t_eval must lie in t_span {tuple(ends.tolist())} and go in its direction, "
            f"found {times.tolist()!s:.80}; sort it, or widen t_span"
        )


# -- the steps -------------------------------------------------------------------------------------
class _Integrator:
    """Steps of a solver from the first of its times to the last."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver

    def at_times(self, y: Any, h0: Any, asked: Any) -> OdeResult:
        """y at times in between."""
        solver = self.solver

        def reach(at: Any, time: Any) -> tuple[Any, Leaves]:
            fixed = stop_gradient(time)
            at = while_loop(lambda at: solver.is_before(at, fixed), solver.step, at)
            return at, solver.at(at, time)

        at, found = scan(reach, solver.begun([y], h0), solver.times[1:])
        (whole,) = solver.checked([y], found)
        return self._result(at, asked, whole[1:-1], h0)

    def by_steps(self, y: Any, h0: Any) -> OdeResult:
        """y at the ends of all steps."""
        solver = self.solver

        def step(at: Any, _: Any) -> tuple[Any, Any]:
            goes_on = solver.is_before(at, solver.end)
            after = chosen(goes_on, solver.step(at), at)
            is_new = goes_on & (after.time != at.time)
            return after, (after.time, after.y[0], is_new)

        times, ys, at = [solver.begin], [ops.unsqueeze(y, [0])], solver.begun([y], h0)
        while _known(solver.is_before(at, solver.end)):
            at, (time, found, is_new) = scan(step, at, None, length=_CHUNK)
            places = np.nonzero(_known(is_new))[0]
            times += [time[i] + solver.shift for i in places.tolist()]
            ys.append(ops.gather(found, owned_tensor(places), 0))
        return self._result(at, ops.stack(times), ops.concat(ys, 0), h0)

    def _result(self, at: Any, times: Any, ys: Any, h0: Any) -> OdeResult:
        success = at.time == self.solver.end
        status = ops.cast(ops.where(success, 0, -1), dt.int32)
        counts = self.solver.counts(at, h0)
        return OdeResult(times, ops.transpose(ys, [1, 0]), *counts, status, success)


def _known(x: Any) -> Any:
    """The numbers of a tensor, as an array."""
    try:
        return np.asarray(x.numpy())
    except ConcretizationError:
        raise ArgumentError(
            "solve_ivp: the number of steps depends on the numbers, which are not known while a "
            "program is traced; give the times at which y is wanted as t_eval"
        ) from None
