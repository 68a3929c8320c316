"""Steps for stiff equations: Radau IIA of order 5, as loops of phix, with derivatives.

E. Hairer and G. Wanner, "Solving Ordinary Differential Equations II", IV.8. A step of length h from
y takes the cubic that has y' = f at the times c h in it: its three values, less y, are the z with
z = h A f(y + z). The steps are SciPy's: each decision on when to take a new Jacobian or new
factors, when to give up and how long the next step is, is made as there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.batching import vmap
from phix.api.branches import cond
from phix.api.control_flow import while_loop
from phix.api.custom import stop_gradient
from phix.api.implicit import custom_root
from phix.api.jacobians import jacfwd
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.transforms import transforms
from phix.scipy.steps import Counts, Leaves, Solver, chosen

_MOST_ROUNDS = 6  # of Newton's method
_QUICK_ROUNDS, _QUICK_RATE = 2, 1e-3  # a Jacobian is kept if it was as quick as one of these
# The length of a step is changed by so much at most; it is left alone if it would grow by less.
_LEAST_FACTOR, _MOST_FACTOR, _WORTH = 0.2, 10.0, 1.2
_SAFETY, _SHORTEST = 0.9, 10.0  # below the tolerance; the shortest step, in units in the last place
_GOES_ON, _FOUND, _GIVEN_UP = 0, 1, 2

Field = Callable[[Any, Any], Any]  # of y [n] and a time


class Jacobian(NamedTuple):
    """df/dy, and whether it is the same everywhere."""

    at: Field
    is_constant: bool


# -- the method ------------------------------------------------------------------------------------
class Method(NamedTuple):
    """Its matrices. A^-1 = V diag(``real``, ``pair``, its conjugate) V^-1, and z is V w."""

    c: np.ndarray
    a: np.ndarray  # rows integrate polynomials through the c, from 0 to each c
    powers: np.ndarray  # z to the coefficients of x, x^2 and x^3 of the cubic that has z at the c
    real: float
    pair: complex
    to_real: np.ndarray  # z to the first of w ...
    to_pair: np.ndarray  # ... and to the sum of the second and the third's conjugate
    from_real: np.ndarray
    from_pair: np.ndarray


@functools.cache
def radau_iia() -> Method:
    """The method with three stages, of order 5."""
    root = np.sqrt(6.0)
    c = np.array([(4 - root) / 10, (4 + root) / 10, 1.0])
    exponents = np.arange(1, 4)
    vandermonde = c[:, None] ** exponents
    a = (vandermonde / exponents) @ np.linalg.inv(c[:, None] ** (exponents - 1))
    values, vectors = np.linalg.eig(np.linalg.inv(a))
    vectors = vectors / vectors[-1]
    rows = np.linalg.inv(vectors)
    first, second = np.argmin(np.abs(values.imag)), np.argmax(values.imag)
    return Method(
        c, a, np.linalg.inv(vandermonde), float(values[first].real), complex(values[second]),
        rows[first].real, 2 * rows[second], vectors[:, first].real, vectors[:, second],
    )  # fmt: skip


# -- how far it is ---------------------------------------------------------------------------------
class Factors(NamedTuple):
    """Of mu / h - J for the real mu and the complex one: L and U in one matrix, and the rows."""

    real: tuple[Any, Any]
    pair: tuple[Any, Any]


class Progress(NamedTuple):
    """How far the steps are."""

    time: Any
    y: Leaves
    slope: Any  # f there
    length: Any  # to be tried, from 0
    begin: Any  # where the last step began, how long it was, backwards below 0, ...
    taken: Any
    curve: tuple[Any, Any]  # ... y at its begin, and z
    tried: Any  # steps on the way to the time that is asked for; mxstep: it cannot be reached
    is_again: Any  # whether a step from here was tried
    is_refused: Any  # whether its error was too large
    asked: Any  # the length that was to be tried first from here
    before: tuple[Any, Any]  # that of the step before, and its error; 0 if it does not count
    jacobian: Any
    is_fresh: Any  # whether the Jacobian is that of here
    factors: Factors
    is_factored: Any  # whether the factors are for this length
    counts: Counts


class _Newton(NamedTuple):
    """Newton's method for z."""

    w: tuple[Any, Any]
    z: Any
    size: Any  # of the last change, by what is allowed
    rate: Any  # that over the one before
    rounds: Any
    state: Any


class _Trial(NamedTuple):
    """A step that was tried."""

    time: Any  # behind it
    h: Any
    found: _Newton
    factors: Factors
    error: Any  # by what is allowed; NaN if z was not found
    calls: Any


def _int(value: int) -> Any:
    return ops.full((), value, dt.int32)


def _count(condition: Any, each: int = 1) -> Any:
    return each * ops.cast(condition, dt.int32)


def _settled(function: Field, y: Any, t: Any) -> Field:
    """A function without derivatives, by what it closes over neither: no loop carries any then."""
    graph, closed = transforms().trace(lambda y, t: [function(y, t)], [y.meta, t.meta])
    closed = stop_gradient(list(closed))
    return lambda y, t: graph(y, t, *closed)[0]


class Radau(Solver):
    """The steps; y is one tensor [n]."""

    order = 3

    def __init__(self, *settings: Any, jacobian: Jacobian | None) -> None:
        super().__init__(*settings)
        self.given = jacobian

    # -- where it begins
    def begun(self, y: Leaves, h0: Any) -> Progress:
        time, (start,) = self.fixed[0], stop_gradient(y)
        eps = float(np.finfo(start.dtype).eps)
        self.close = max(10 * eps / self.rtol, min(0.03, self.rtol**0.5))  # of Newton's method
        self.field = _settled(lambda y, t: self.slope([y], t)[0], start, time)
        jacobian = self.given or Jacobian(lambda y, t: jacfwd(lambda y: self.field(y, t))(y), False)
        self.is_constant = jacobian.is_constant
        self.jacobian = _settled(jacobian.at, start, time)
        slope, matrix = self.field(start, time), self.jacobian(start, time)
        length = ops.full_like(time, h0) if h0 else self.first_length([start], [slope], time)
        no, none = ops.full((), False, dt.bool_), ops.zeros_like(time)
        # times equal to the first have a slope, too
        rising = (
            ops.unsqueeze(self._constant(radau_iia().c, y[0]), [1]) * self.slope(y, self.begin)[0]
        )
        rows, empty = ops.cast(ops.zeros_like(start), dt.int32), ops.zeros_like(matrix)
        wide = ops.cast(empty, dt.complex_dtype(start.dtype))
        factors = Factors((empty, rows), (wide, rows))
        counts = Counts(_int(1 if h0 else 2), _int(0 if self.is_constant else 1), _int(0))
        return Progress(
            time, y, slope, length, time, ops.ones_like(time), (y[0], rising), _int(0), no, no,
            length, (none, none), matrix, ~no, factors, no, counts,
        )  # fmt: skip

    def _constant(self, array: Any, like: Any) -> Any:
        """Numbers of the method in the dtype of y."""
        array = np.asarray(array)
        dtype = dt.complex_dtype(like.dtype) if np.iscomplexobj(array) else like.dtype
        return owned_tensor(array.astype(dtype))

    def between(self, at: Progress, part: Any) -> Leaves:
        before, z = at.curve
        return [before + self._along(z, ops.unsqueeze(ops.cast(part, z.dtype), [0]))[0]]

    def _along(self, z: Any, parts: Any) -> Any:
        """What the cubic adds to y at parts x of a step, [k]: x (p_1 + x (p_2 + x p_3)), [k, n]."""
        first, second, third = ops.matmul(self._constant(radau_iia().powers, z), z)
        x = ops.unsqueeze(parts, [1])
        return x * (first + x * (second + x * third))

    def counts(self, at: Progress, h0: Any) -> Counts:
        return at.counts

    # -- a step
    def step(self, at: Progress) -> Progress:
        shortest = _SHORTEST * ops.abs(ops.nextafter(at.time, self.direction * np.inf) - at.time)
        fixed = self._limited(stop_gradient(at), shortest)
        trial = self._tried(fixed)
        good = trial.error <= 1  # neither is one that is not known
        after = self._after(fixed, trial, good, shortest)
        z = self._solution(at, trial, good)
        y = ops.where(good, at.y[0] + z[2], at.y[0])
        curve = chosen(good, (at.y[0], z), at.curve)
        return after._replace(y=[y], curve=curve)

    def _limited(self, at: Progress, shortest: Any) -> Progress:
        """A length that may be taken; where it is another one, the step before does not count."""
        length = ops.minimum(ops.maximum(at.length, shortest), self.longest)
        length = ops.where(at.is_again, at.length, length)
        same = length == at.length
        held = chosen(same, at.before, (ops.zeros_like(length),) * 2)
        return at._replace(length=length, before=held)

    def _tried(self, at: Progress) -> _Trial:
        after = at.time + at.length * self.direction
        after = ops.where((after - self.end) * self.direction > 0, self.end, after)
        h = after - at.time  # times far from 0 are rounded
        own = ops.cast(h, at.y[0].dtype)
        factors = cond(at.is_factored, lambda: at.factors, lambda: self._factored(at.jacobian, own))
        found = self._newton(at, h, factors)
        error, more = self._error(at, own, factors, found)
        return _Trial(after, h, found, factors, error, 3 * found.rounds + more)

    def _factored(self, jacobian: Any, h: Any) -> Factors:
        method = radau_iia()
        n = jacobian.shape[-1]

        def factored(mu: complex) -> tuple[Any, Any]:
            scale = self._constant(mu, jacobian) / h
            unit = ops.eye(n, dtype=scale.dtype)
            factors, pivots, _ = ops.lu(scale * unit - ops.cast(jacobian, scale.dtype), True)
            return factors, pivots

        return Factors(factored(method.real), factored(method.pair))

    # -- Newton's method
    def _newton(self, at: Progress, h: Any, factors: Factors) -> _Newton:
        """z by Newton's method with one Jacobian, in the variables w in which it is two systems."""
        method, (y,) = radau_iia(), at.y
        to_real, to_pair = (self._constant(v, y) for v in (method.to_real, method.to_pair))
        times = at.time + self._constant(method.c, h) * h
        field, own = vmap(self.field), ops.cast(h, y.dtype)

        def improved(last: _Newton) -> _Newton:
            slopes = field(y + last.z, times)
            changes = [
                _solved(lu, _combined(row, slopes) - self._constant(mu, y) / own * w)
                for lu, row, mu, w in zip(
                    factors, (to_real, to_pair), (method.real, method.pair), last.w
                )
            ]
            return self._improved(last, changes, y)

        z = self._guess(at, times)
        none = ops.zeros_like(h)
        begun = _Newton(
            (_combined(to_real, z), _combined(to_pair, z)), z, none, none, _int(0), _int(_GOES_ON)
        )
        return while_loop(
            lambda last: (last.state == _GOES_ON) & (last.rounds < _MOST_ROUNDS), improved, begun
        )

    def _guess(self, at: Progress, times: Any) -> Any:
        """z if y goes on as in the last step; none before the first."""
        parts = ops.cast((times - at.begin) / at.taken, at.y[0].dtype)
        z = at.curve[0] + self._along(at.curve[1], parts) - at.y[0]
        return ops.where(at.time == at.begin, 0.0, z)

    def _improved(self, last: _Newton, changes: list[Any], y: Any) -> _Newton:
        """After a change, unless it is clear that the last one of the rounds will not do."""
        method = radau_iia()
        real, pair = changes
        size = self.size([real, ops.real(pair), ops.imag(pair)], [y, y, y])
        is_second = last.rounds > 0
        rate = ops.where(is_second, size / last.size, 0.0)
        left = ops.cast(_MOST_ROUNDS - last.rounds, rate.dtype)
        share = rate / (1 - rate)
        hopeless = (rate >= 1) | (rate**left / (1 - rate) * size > self.close)
        hopeless = (is_second & hopeless) | ~ops.isfinite(size)
        found = (size == 0) | (is_second & (share * size < self.close))
        state = ops.where(hopeless, _GIVEN_UP, ops.where(found, _FOUND, _GOES_ON))
        w = last.w[0] + real, last.w[1] + pair
        z = _outer(self._constant(method.from_real, y), w[0])
        z = z + ops.real(_outer(self._constant(method.from_pair, y), w[1]))
        w, z = chosen(hopeless, (last.w, last.z), (w, z))
        return _Newton(w, z, size, rate, last.rounds + 1, ops.cast(state, dt.int32))

    # -- its error
    def _error(self, at: Progress, h: Any, factors: Factors, found: _Newton) -> tuple[Any, Any]:
        """The error over what is allowed, and how often f was called for it.

        It is what f is off the slope of the cubic where the step begins, by the real system; that
        is of order 3. Of a step after one that was refused it is taken anew, at y + the error.
        """
        (y,) = at.y
        after = y + found.z[2]
        begin = _combined(self._constant(radau_iia().powers[0], y), found.z) / h

        def error(slope: Any) -> Any:
            return _solved(factors.real, slope - begin)

        first = error(at.slope)
        size = self.size([first], [y], [after])
        is_found = found.state == _FOUND
        is_twice = at.is_refused & is_found & (size > 1)
        size = cond(
            is_twice,
            lambda: self.size([error(self.field(y + first, at.time))], [y], [after]),
            lambda: size,
        )
        return ops.where(is_found, size, np.nan), _count(is_twice)

    # -- what comes next
    def _after(self, at: Progress, trial: _Trial, good: Any, shortest: Any) -> Progress:
        """All but y and the curve, which have derivatives."""
        found = trial.found
        is_found = found.state == _FOUND
        is_stale = ~is_found & ~at.is_fresh  # the same length again, with a new Jacobian
        is_slow = (found.rounds > _QUICK_ROUNDS) & (found.rate > _QUICK_RATE)
        is_new = is_stale if self.is_constant else is_stale | (good & is_slow)
        factor, is_kept = self._factor(at, trial, good, good & is_new)
        factor = ops.where(is_found, factor, ops.where(is_stale, 1.0, 0.5))
        length = ops.abs(trial.h) * factor
        time = ops.where(good, trial.time, at.time)
        y = ops.where(good, at.y[0] + found.z[2], at.y[0])
        slope = ops.where(good, self.field(y, time), at.slope)
        jacobian = cond(is_new, lambda: self.jacobian(y, time), lambda: at.jacobian)
        is_stuck = ~good & ~is_stale & ~(length >= shortest)  # nor a NaN
        counts = Counts(
            at.counts.nfev + trial.calls + _count(good),
            at.counts.njev + _count(is_new),
            at.counts.nlu + _count(~at.is_factored, 2),
        )
        return Progress(
            time, [y], slope, length, ops.where(good, at.time, at.begin),
            ops.where(good, trial.h, at.taken), at.curve,
            ops.cast(ops.where(is_stuck, self.mxstep, at.tried + 1), dt.int32), ~good,
            ~good & (is_found | at.is_refused), ops.where(good, length, at.asked),
            chosen(good, (at.asked, trial.error), at.before), jacobian,
            at.is_fresh if self.is_constant else is_new | (at.is_fresh & ~good),
            trial.factors, is_kept, counts,
        )  # fmt: skip

    def _factor(self, at: Progress, trial: _Trial, good: Any, is_new: Any) -> tuple[Any, Any]:
        """How much longer the next step is, and whether it is as long, with the same factors.

        Gustafsson's prediction: as the error goes with the length to the 4th power, and as it did
        between the last two steps; the smaller one.
        """
        length, error = at.before
        is_known = (length > 0) & (error > 0) & (trial.error > 0)
        trend = ops.abs(trial.h) / length * (error / trial.error) ** 0.25
        trend = ops.where(is_known, ops.minimum(trend, 1.0), 1.0)
        rounds = ops.cast(trial.found.rounds, trend.dtype)
        safety = _SAFETY * (2 * _MOST_ROUNDS + 1) / (2 * _MOST_ROUNDS + rounds)
        factor = safety * trend * trial.error**-0.25
        longer = ops.minimum(factor, _MOST_FACTOR)
        shorter = ops.where(factor > _LEAST_FACTOR, factor, _LEAST_FACTOR)  # where it is NaN, too
        is_kept = good & ~is_new & (longer < _WORTH)
        return ops.where(good, ops.where(is_kept, 1.0, longer), shorter), is_kept

    # -- derivatives
    def _solution(self, at: Progress, trial: _Trial, good: Any) -> Any:
        """z, with the derivatives of the equation that it solves, for a length that is settled.

        A step that is given up may have left where the equation holds, and has none.
        """
        (y,), method = at.y, radau_iia()
        h, z = ops.where(good, trial.h, 0.0), ops.where(good, trial.found.z, 0.0)
        times = at.time + self.shift + self._constant(method.c, h) * h
        matrix = self._constant(method.a, y) * ops.cast(h, y.dtype)
        field = vmap(lambda y, t: self.slope([y], t)[0])
        return custom_root(
            lambda z: z - ops.matmul(matrix, field(y + z, times)), z, lambda f, z: z, _solved_dense
        )


def _combined(row: Any, z: Any) -> Any:
    return ops.sum(ops.unsqueeze(row, [1]) * z, 0)


def _outer(column: Any, w: Any) -> Any:
    return ops.unsqueeze(column, [1]) * w


def _solved(factors: tuple[Any, Any], b: Any) -> Any:
    return ops.squeeze(ops.lu_solve(ops.unsqueeze(b, [1]), *factors), [1])


def _solved_dense(linear: Callable[[Any], Any], b: Any) -> Any:
    """The x with linear(x) = b, all [3, n]."""
    size = b.shape[0] * b.shape[1]
    matrix = ops.reshape(jacfwd(linear)(ops.zeros_like(b)), [size, size])
    return ops.reshape(ops.solve(matrix, ops.reshape(b, [size])), b.shape)
