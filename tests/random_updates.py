"""Random programs that update arrays in part and keep what they were, beside NumPy.

``python -m tests.random_updates --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed and the graph of each that goes wrong. Values of one shape are set, added to,
scattered into, copied and carried through loops; any of them is an output, and inputs are given
away: what memory a value may share is all there is to get wrong. Compiled for known sizes, for
sizes learnt in calls and for all, called again and again; NumPy makes each value anew. All in
float64.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import phix
from phix import ops
from tests import draws
from tests.machine_code import unoptimised

SHAPES = ((7,), (5, 3), (2, 6), (1, 4), (130,), (40, 50))
OPTIMISED = 6  # LLVM does all it can for one seed in so many
CALLS = 3
GROWING = ("jit", "jit, any number of rows")  # a row more in each call

Values = list[Any]
Make = Callable[..., Any]  # (values x and y, a number): a new value


def added_to(x: np.ndarray, where: Any, value: Any) -> np.ndarray:
    out = x.copy()
    np.add.at(out, where, value)
    return out


def put_into(x: np.ndarray, where: Any, value: Any) -> np.ndarray:
    out = x.copy()
    out[where] = value
    return out


def in_turns(step: Make, x: np.ndarray, y: np.ndarray, turns: int) -> tuple[Any, Any]:
    for _ in range(turns):
        x, y = step(x, y)
    return x, y


def _scan(step: Make, x: Any, y: Any) -> Any:
    return phix.scan(lambda c, _: (step(*c), ops.sum(c[0])), (x, y), None, length=3)


def _rows(x: Any, k: int) -> Any:
    return slice(k % 2, x.shape[0] - k % 3)


def _places(k: int, size: int) -> np.ndarray:
    return np.arange(k % 3, k % 3 + 4) * 5 % size


# What phix makes of x, y and k, and what NumPy makes of them.
STEPS: dict[str, tuple[Make, Make]] = {
    "an element set": (
        lambda x, y, k: x.at[k % 7 % x.shape[0]].set(0.5 * y[0]),
        lambda x, y, k: put_into(x, k % 7 % x.shape[0], 0.5 * y[0]),
    ),
    "the middle set": (
        lambda x, y, k: x.at[x.shape[0] // 2].set(0.1 * ops.sum(y)),
        lambda x, y, k: put_into(x, x.shape[0] // 2, 0.1 * y.sum()),
    ),
    "rows added to": (
        lambda x, y, k: x.at[_rows(x, k)].add(0.25 * y[_rows(x, k)]),
        lambda x, y, k: added_to(x, _rows(x, k), 0.25 * y[_rows(x, k)]),
    ),
    "rows set": (
        lambda x, y, k: x.at[_rows(x, k)].set(y[_rows(x, k)]),
        lambda x, y, k: put_into(x, _rows(x, k), y[_rows(x, k)]),
    ),
    "rows moved": (
        lambda x, y, k: x.at[1:].set(x[:-1]),
        lambda x, y, k: put_into(x, slice(1, None), x[:-1]),
    ),
    "a scatter": (
        lambda x, y, k: x.at[ops.remainder(_places(k, 10**6), x.shape[0])].add(0.5),
        lambda x, y, k: added_to(x, _places(k, 10**6) % x.shape[0], 0.5),
    ),
    "a total": (lambda x, y, k: 0.01 * ops.sum(x) + y, lambda x, y, k: 0.01 * x.sum() + y),
    "a sum": (lambda x, y, k: 0.5 * (x + y), lambda x, y, k: 0.5 * (x + y)),
    "a sine": (lambda x, y, k: ops.sin(x), lambda x, y, k: np.sin(x)),
    "turned round": (lambda x, y, k: ops.flip(x, [0]), lambda x, y, k: np.flip(x, 0)),
    "rolled": (lambda x, y, k: ops.roll(x, (k % 3,), (0,)), lambda x, y, k: np.roll(x, k % 3, 0)),
    "totals so far": (
        lambda x, y, k: 0.3 * ops.cumsum(x, 0),
        lambda x, y, k: 0.3 * np.cumsum(x, 0),
    ),
    "a choice": (
        lambda x, y, k: ops.where(x > y, x, -y),
        lambda x, y, k: np.where(x > y, x, -y),
    ),
    "a branch": (
        lambda x, y, k: phix.cond(
            ops.sum(x) > 0.1, lambda x, y: x.at[0].set(0.3), lambda x, y: 0.5 * y, x, y
        ),
        lambda x, y, k: put_into(x, 0, 0.3) if x.sum() > 0.1 else 0.5 * y,
    ),
    "a loop": (
        lambda x, y, k: _scan(lambda a, b: (b.at[0].add(0.2), 0.7 * a), x, y)[0][k % 2],
        lambda x, y, k: in_turns(lambda a, b: (added_to(b, 0, 0.2), 0.7 * a), x, y, 3)[k % 2],
    ),
    "a loop that moves": (
        lambda x, y, k: _scan(lambda a, b: (a.at[1:].set(0.9 * b[:-1]), a), x, y)[0][k % 2],
        lambda x, y, k: in_turns(
            lambda a, b: (put_into(a, slice(1, None), 0.9 * b[:-1]), a), x, y, 3
        )[k % 2],
    ),
    "turns": (
        lambda x, y, k: phix.fori_loop(0, k % 3, lambda i, x: x.at[i % x.shape[0]].set(0.2), x),
        lambda x, y, k: put_into(x, np.arange(k % 3) % x.shape[0], 0.2),
    ),
}


@dataclass
class Program:
    """Steps over values of one shape: name, the values it reads, a number."""

    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 2468])
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        self.inputs = list(rng.normal(size=(int(rng.integers(1, 4)), *self.shape)))
        names, count = list(STEPS), int(rng.integers(3, 12))
        self.steps = []
        for made in range(len(self.inputs), len(self.inputs) + count):
            near = [made - 1 - min(int(n), made - 1) for n in rng.geometric(0.4, 2) - 1]
            self.steps.append((names[rng.integers(len(names))], *near, int(rng.integers(100))))
        wanted = rng.random(count) < rng.choice([0.1, 0.4])
        self.outputs = [len(self.inputs) + k for k in range(count) if wanted[k] or k == count - 1]
        self.donated = tuple(k for k in range(len(self.inputs)) if rng.random() < 0.4)

    def run(self, values: Values, of_numpy: bool) -> list[Any]:
        for name, x, y, number in self.steps:
            values = [*values, STEPS[name][of_numpy](values[x], values[y], number)]
        return [values[k] for k in self.outputs]

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.run(list(inputs), False)

    def ways(self) -> dict[str, Callable[..., Any]]:
        dims = ["n", *self.shape[1:]]
        specs = [phix.spec(dims, "float64")] * len(self.inputs)
        return {
            "eager": self,
            "jit": phix.jit(self),
            "jit, inputs given away": phix.jit(self, donate_argnums=self.donated),
            "jit, any number of rows": phix.jit(self, input_spec=specs),
        }


@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    program: Program
    error: str = ""

    def report(self) -> str:
        p = self.program
        return (
            f"seed {p.seed}, {p.donated} given away\n{phix.make_graph(p)(*p.inputs)}\n{self.error}"
        )


def _check(p: Program) -> None:
    for name, way in p.ways().items():
        for call in range(CALLS):
            more = call if name in GROWING else 0
            inputs = [np.resize(x, (len(x) + more, *p.shape[1:])) + call for x in p.inputs]
            expected = p.run(inputs, True)
            given = [phix.to_tensor(x.copy()) for x in inputs]
            for k, (found, value) in enumerate(zip(way(*given), expected, strict=True)):
                message = f"{name}, call {call}, output {k}"
                np.testing.assert_allclose(found, value, 1e-10, 1e-10, err_msg=message)
            for k, (x, kept) in enumerate(zip(given, inputs)):
                if k not in p.donated or "away" not in name:
                    np.testing.assert_array_equal(x, kept, err_msg=f"{name}, argument {k}")


def _check_lanes(p: Program) -> None:
    """Two at a time, each of which is what it is alone; and slopes, compiled and not."""
    both = [np.stack([x, 0.5 - x]) for x in p.inputs]
    found = phix.jit(phix.vmap(p))(*both)
    for lane in range(2):
        expected = p.run([x[lane] for x in both], True)
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_allclose(a[lane], b, 1e-10, 1e-10, err_msg=f"lane {lane}, output {k}")
    slopes = phix.grad(
        lambda *x: sum(ops.sum(ops.sin(v)) for v in p(*x)), tuple(range(len(p.inputs)))
    )
    for a, b in zip(phix.jit(slopes)(*p.inputs), slopes(*p.inputs), strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg="slopes")


def run_draw(seed: int) -> Outcome:
    """The program of a seed, in all ways."""
    outcome = Outcome(Program(seed))
    with unoptimised() if seed % OPTIMISED else nullcontext():
        try:
            _check(outcome.program)
            if seed % 3 == 0:
                _check_lanes(outcome.program)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(len(o.program.steps) for o in outcomes)} steps"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
