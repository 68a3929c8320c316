"""Random programs over states of many dtypes, which loops, branches and lanes update, beside NumPy.

``python -m tests.random_states --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed and the graph of each that goes wrong. Values of one shape and any dtype are
set, moved, cast and compared, in the bodies of scans, loops, branches, maps, checkpoints and rules
of derivatives, within each other; inputs are given away, and outputs stand there twice. All numbers
are small integers, which every dtype holds: NumPy's are met to the last bit, wrapped ones too.
Compiled for known sizes, for sizes learnt in calls and for all, and in lanes.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import phix
from phix import ops
from phix.core import dtypes
from tests import draws
from tests.machine_code import unoptimised
from tests.two_faces import Face, OfNumpy, OfPhix, OfSteps

SHAPES = ((7,), (5, 3), (2, 6), (1, 4), (33,), (4, 3, 2), (20, 9), (259,), (3, 130), (2, 1, 3))
DTYPES = [dtypes.BY_NAME[name] for name in (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8",
    "bool", "complex128", "complex64",
)]  # fmt: skip
FEW_BITS = {dtypes.float16, dtypes.bfloat16}
OPTIMISED = 6  # LLVM does all it can for one seed in so many
CALLS = 2
DEEPEST = 2  # bodies within bodies

Values = list[Any]
Make = Callable[..., Any]


def _places(number: int) -> Any:
    """Rows, some of them twice; how many there are is not asked for."""
    return (np.arange(3) * 5 + number) % 7


# -- plain steps: what they make of x and y, of one dtype, and of a number -------------------------
PLAIN: dict[str, Make] = {
    "plus": lambda p, x, y, k: p.plus(x, y),
    "times": lambda p, x, y, k: p.times(x, y),
    "minus": lambda p, x, y, k: p.negative(x),
    "more": lambda p, x, y, k: p.plus(x, p.cast(p.number(k % 9), p.dtype(x))),
    "larger": lambda p, x, y, k: p.maximum(x, y),
    "smaller": lambda p, x, y, k: p.minimum(x, y),
    "is more": lambda p, x, y, k: p.is_more(x, y),
    "is equal": lambda p, x, y, k: p.is_equal(x, y),
    "a choice": lambda p, x, y, k: p.where(p.is_more(x, y), y, x),
    "a halved one": lambda p, x, y, k: p.halved(x),
    "bits": lambda p, x, y, k: (
        (x ^ y) | (x & p.cast(p.number(k), p.dtype(x)))
        if p.dtype(x).kind in "iu"
        else p.minimum(y, x)
    ),
    "shifted": lambda p, x, y, k: p.shifted(x, k % 3) if p.dtype(x).kind in "iu" else p.plus(x, x),
    "one less": lambda p, x, y, k: p.plus(x, p.negative(p.times(y, y))),
    "a total": lambda p, x, y, k: p.plus(y, p.cast(p.total(x), p.dtype(y))),
}

# What asks for rows.
MOVES: dict[str, Make] = {
    "an element set": lambda p, x, y, k: p.put(x, k % x.shape[0], y[0]),
    "a known element set": lambda p, x, y, k: p.put(x, -1 if k % 2 else 0, y[-1]),
    "a found element set": lambda p, x, y, k: p.put(x, p.total(y) % x.shape[0], y[0]),
    "rows set": lambda p, x, y, k: p.put(x, _rows(x, k), y[_rows(x, k)]),
    "rows moved": lambda p, x, y, k: p.put(x, slice(1, None), x[:-1]),
    "rows moved back": lambda p, x, y, k: p.put(x, slice(None, -1), x[1:]),
    "every other row": lambda p, x, y, k: p.put(x, slice(k % 2, None, 2), y[k % 2 :: 2]),
    "rows from behind": lambda p, x, y, k: p.put(x, slice(None), x[::-1]),
    "rows added to": lambda p, x, y, k: p.add(x, _rows(x, k), y[_rows(x, k)]),
    "a scatter": lambda p, x, y, k: p.add(x, p.within(_places(k), x.shape[0]), y[0]),
    "rows fetched": lambda p, x, y, k: p.take(x, p.places(y, x.shape[0])),
    "a row for all": lambda p, x, y, k: p.spread(x[k % x.shape[0]], x),
    "turned round": lambda p, x, y, k: p.flip(x, k % x.ndim),
    "rolled": lambda p, x, y, k: p.roll(x, k % 3 - 1, k // 3 % x.ndim),
    "parts swapped": lambda p, x, y, k: p.concat([x[1:], y[:1]]),
    "in order": lambda p, x, y, k: p.sort(x, k % x.ndim),
    "totals so far": lambda p, x, y, k: p.cumsum(x, k % x.ndim),
    "largest so far": lambda p, x, y, k: p.cummax(x, k % x.ndim),
    "largest of all": lambda p, x, y, k: p.spread(p.largest(x), x),
    "sums along": lambda p, x, y, k: p.plus(x, p.sums(y, k % x.ndim)),
    "where largest": lambda p, x, y, k: p.plus(x, p.where_largest(y, k % x.ndim)),
    "an order": lambda p, x, y, k: p.cast(p.order(x, k % x.ndim), p.dtype(y)),
    "rows of an order": lambda p, x, y, k: p.along(x, p.order(y, k % x.ndim), k % x.ndim),
    "first rows kept": lambda p, x, y, k: p.where(p.first(p.total(y) % 4, x), x, y),
    "above": lambda p, x, y, k: p.above(x, k % 3 - 1) if x.ndim > 1 else p.flip(x, 0),
    "widened": lambda p, x, y, k: p.concat([y, x, y])[x.shape[0] - k % 2 :][: x.shape[0]],
    "stacked": lambda p, x, y, k: p.stack([x, y, x])[k % 3],
    "as one row": lambda p, x, y, k: p.reshape(p.flip(p.reshape(x, [-1]), 0), x.shape),
    "turned over": lambda p, x, y, k: p.reshape(p.transpose(x), x.shape),
}


def _rows(x: Any, k: int) -> Any:
    return slice(k % 2, x.shape[0] - k % 3)


# -- steps with bodies: they give values for each they began with ----------------------------------
def scanned(p: Face, step: Step, values: Values) -> Values:
    def body(carry: Values, x: Any) -> Any:
        made = step.body(p, [*carry, x])
        return fitted(p, made, carry), made[step.number % len(made)]

    xs = p.stack([p.cast(v, p.dtype(values[0])) for v in (*values, *values, *values)][:3])
    last, found = p.scan(body, values, xs, bool(step.number % 2))
    return [*last, found[step.number % 3]]


def of_rows(p: Face, step: Step, values: Values) -> Values:
    """Over the rows of a value, from the first or the last, with rows as what is carried."""
    if not values[0].ndim:
        return fitted(p, step.body(p, values), values)

    def body(carry: Values, x: Any) -> Any:
        made = step.body(p, [*carry, x])
        return fitted(p, made, carry), made[step.number % len(made)]

    xs, starts = values[0], [v[step.number % 2 - 1] for v in values]
    last, found = p.scan(body, starts, xs, bool(step.number % 2))
    return [p.spread(last[0], xs), found]


def chosen(p: Face, step: Step, values: Values) -> Values:
    def one(*values: Any) -> Values:
        return fitted(p, step.body(p, list(values)), values)

    def same(*values: Any) -> Values:
        return list(values)

    def turned_round(*values: Any) -> Values:
        return fitted(p, list(values[::-1]), values)

    return p.switch(p.total(values[0]) % 3, [one, same, turned_round], *values)


def turned(p: Face, step: Step, values: Values) -> Values:
    def body(i: Any, carry: Values) -> Values:
        more = p.plus(carry[0], p.cast(i, p.dtype(carry[0])))
        return fitted(p, step.body(p, [*carry, more]), carry)

    turns = step.number % 4
    if step.number % 3 == 0:
        turns = p.total(values[0]) % 4
    return p.fori(turns, body, values)


def until(p: Face, step: Step, values: Values) -> Values:
    def unfinished(state: Values) -> Any:
        return (state[0] < 4) & (p.total(state[1]) % 5 != step.number % 5)

    def body(state: Values) -> Values:
        return [state[0] + 1, *fitted(p, step.body(p, state[1:]), state[1:])]

    return p.while_loop(unfinished, body, [p.number(0), *values])[1:]


def branched(p: Face, step: Step, values: Values) -> Values:
    def one(*values: Any) -> Values:
        return fitted(p, step.body(p, list(values)), values)

    def other(*values: Any) -> Values:
        return fitted(p, list(values[::-1]), values)

    return p.cond(p.total(values[0]) % 2 == step.number % 2, one, other, *values)


def mapped(p: Face, step: Step, values: Values) -> Values:
    axis = step.number % values[0].ndim if values[0].ndim else None
    if axis is None:
        return fitted(p, step.body(p, values), values)
    fixed = p.cut(values[-1], axis)
    return p.vmap(
        lambda *rows: fitted(
            p, step.body(p, [fixed, *rows] if step.number % 2 else list(rows)), rows
        ),
        axis,
        *values,
    )


def wrapped(p: Face, step: Step, values: Values) -> Values:
    def body(*values: Any) -> Values:
        return fitted(p, step.body(p, list(values)), values)

    return p.wrap(("checkpoint", "custom_vjp", "jit")[step.number % 3], body, *values)


def fitted(p: Face, made: Values, like: Any) -> Values:
    """The last of what a body made, one for each of what it began with, of its dtype."""
    return [p.cast(made[-1 - k % len(made)], p.dtype(c)) for k, c in enumerate(like)]


BODIES: dict[str, Make] = {
    "scan": scanned,
    "fori_loop": turned,
    "while_loop": until,
    "cond": branched,
    "switch": chosen,
    "scan of rows": of_rows,
    "vmap": mapped,
    "wrap": wrapped,
}


# -- programs --------------------------------------------------------------------------------------
@dataclass
class Step:
    """One step: the values it reads, counted back from the last, a number, and its body."""

    name: str
    reads: list[int]
    number: int
    dtype: Any
    steps: list[Step] = field(default_factory=list)

    def body(self, p: Face, values: Values) -> Values:
        return run(p, self.steps, values)

    def made(self, p: Face, values: Values) -> Values:
        read = [values[-1 - k % len(values)] for k in self.reads]
        if self.name in BODIES:
            return BODIES[self.name](p, self, read)
        x, y = read[0], p.cast(read[1], p.dtype(read[0]))
        if self.name == "cast" or (self.name in MOVES and not x.ndim):
            return [p.cast(x, self.dtype)]
        return [{**PLAIN, **MOVES}[self.name](p, x, y, self.number)]


def run(p: Face, steps: list[Step], values: Values) -> Values:
    """All values: those begun with, and those made."""
    values = list(values)
    for step in steps:
        values += step.made(p, values)
    return values


def drawn_steps(rng: np.random.Generator, count: int, depth: int, kinds: Values) -> list[Step]:
    names = [*PLAIN, *MOVES, *MOVES, *["cast"] * 6, *[*BODIES] * (4 if depth < DEEPEST else 0)]
    made = []
    for _ in range(count):
        name = names[rng.integers(len(names))]
        is_outer = name in BODIES
        reads = [int(k) for k in rng.geometric(0.35, int(rng.integers(1, 4)) if is_outer else 2)]
        inner = drawn_steps(rng, int(rng.integers(1, 4)), depth + 1, kinds) if is_outer else []
        dtype = kinds[rng.integers(len(kinds))]
        made.append(Step(name, [k - 1 for k in reads], int(rng.integers(60)), dtype, inner))
    return made


class Program:
    """Steps over values of one shape and some dtypes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = np.random.default_rng([seed, 1357])
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        kinds = [DTYPES[k] for k in rng.permutation(len(DTYPES))[: int(rng.integers(1, 5))]]
        self.kinds = set(kinds)
        self.inputs = [self._input(rng, kinds) for _ in range(int(rng.integers(1, 4)))]
        self.steps = drawn_steps(rng, int(rng.integers(2, 8)), 0, kinds)
        self.picked = [int(k) - 1 for k in rng.geometric(0.3, int(rng.integers(1, 4)))]
        self.donated = tuple(k for k in range(len(self.inputs)) if rng.random() < 0.5)

    def _input(self, rng: np.random.Generator, kinds: Values) -> Any:
        dtype = kinds[rng.integers(len(kinds))]
        return rng.integers(0, 2 if dtype.kind == "b" else 60, self.shape).astype(dtype)

    def of(self, face: Face, inputs: Any) -> Values:
        """The last value and some before it, some of them twice."""
        values = run(face, self.steps, list(inputs))
        return [values[-1], *(values[-1 - k % len(values)] for k in self.picked)]

    def __call__(self, *inputs: Any) -> Values:
        return self.of(OfPhix(), inputs)

    def at(self, call: int, more: int) -> Values:
        """The inputs of a call, with some rows more."""
        return [np.resize(np.roll(x, call), (len(x) + more, *self.shape[1:])) for x in self.inputs]

    def specs(self) -> Values:
        dims = ["n", "m", *self.shape[2:]] if len(self.shape) > 1 else ["n"]
        if self.seed % 2:
            dims = ["n", *self.shape[1:]]
        return [phix.spec(dims, x.dtype) for x in self.inputs]


@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    program: Program
    error: str = ""

    def report(self) -> str:
        p = self.program
        try:
            graph = str(phix.make_graph(p)(*p.inputs))
        except Exception:
            graph = traceback.format_exc()
        return f"seed {p.seed}, {p.donated} given away\n{graph}\n{self.error}"


def _compare(what: str, found: Any, expected: Any) -> None:
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, message = np.asarray(a), f"{what}, output {k}"
        assert a.dtype == b.dtype, f"{message}: {a.dtype}, should be {b.dtype}"
        np.testing.assert_array_equal(a, b, err_msg=message)


def _check(p: Program) -> None:
    ways: dict[str, tuple[Make, bool]] = {
        "eager": (p, False),
        "jit": (phix.jit(p), True),
        "jit, inputs given away": (phix.jit(p, donate_argnums=p.donated), False),
        "jit, any number of rows": (phix.jit(p, input_spec=p.specs()), True),
    }
    for name, (way, grows) in ways.items():
        for call in range(CALLS):
            inputs = p.at(call, call if grows else 0)
            with np.errstate(all="ignore"):
                expected = p.of(OfNumpy(), inputs)
            given = [phix.to_tensor(x.copy()) for x in inputs]
            _compare(f"{name}, call {call}", way(*given), expected)
            for k, (x, kept) in enumerate(zip(given, inputs)):
                if k not in p.donated or "away" not in name:
                    np.testing.assert_array_equal(x, kept, err_msg=f"{name}, argument {k}")


def _check_lanes(p: Program) -> None:
    both = [p.at(0, 0), p.at(1, 0)]
    found = phix.jit(phix.vmap(p))(*(np.stack(pair) for pair in zip(*both)))
    for lane, inputs in enumerate(both):
        with np.errstate(all="ignore"):
            expected = p.of(OfNumpy(), inputs)
        _compare(f"lane {lane}", [x[lane] for x in found], expected)


def _check_slopes(p: Program) -> None:
    """Compiled ones are those of steps one by one, where numbers of few bits are not added up."""
    places = tuple(k for k, x in enumerate(p.inputs) if dtypes.is_differentiable(x.dtype))
    if not places or p.kinds & FEW_BITS:
        return

    def loss(face: Face) -> Make:
        def total(*inputs: Any) -> Any:
            made = [ops.cast(face.real(v), "float64") for v in p.of(face, inputs)]
            return sum(ops.sum(v * ops.cos(v)) for v in made)

        return total

    given = [phix.to_tensor(x) for x in p.inputs]
    scan, steps = (phix.grad(loss(face), places) for face in (OfPhix(), OfSteps()))
    expected = steps(*given)
    for what, found in (("slopes", scan), ("compiled slopes", phix.jit(scan))):
        for a, b in zip(found(*given), expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-4, err_msg=what)


def run_draw(seed: int) -> Outcome:
    """The program of a seed, in all ways."""
    outcome = Outcome(Program(seed))
    with unoptimised() if seed % OPTIMISED else nullcontext():
        try:
            _check(outcome.program)
            if seed % 3 == 0:
                _check_lanes(outcome.program)
            if seed % 3 == 1:
                _check_slopes(outcome.program)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(len(o.program.steps) for o in outcomes)} steps"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
