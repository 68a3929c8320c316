"""Random loops of Python that a trace writes out, rolled up or not, beside NumPy.

``python -m tests.random_steps --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed and the loop of each that goes wrong. A step computes new values of a state from
it, from what it was some steps before, from arrays at places that move along, from numbers that
change, and from what does not; it keeps some of them in lists and arrays. Loops follow each other,
run backwards, have loops in them, and steps that are left out or differ. All in float64; slopes of
first and second order, tangents and lanes are compared with those of the program as it is written.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.core import stages
from phix.core.graph import Graph, graphs_in
from phix.passes import pipeline, roll_steps, unrolled_steps
from tests import draws
from tests.machine_code import unoptimised

OPTIMISED = 8  # LLVM does all it can for one seed in so many
LENGTHS = (15, 17, 20, 26, 40)
SHAPES = ((), (3,), (2, 3), (5, 1))

Make = Callable[[Any, Any, Any], Any]  # (NumPy or its like, values a and b): a new value
OPS: dict[str, Make] = {
    "add": lambda m, a, b: a + 0.3 * b,
    "product": lambda m, a, b: 0.5 * a * b,
    "sine": lambda m, a, b: m.sin(a) - b,
    "bounded": lambda m, a, b: m.tanh(a + b),
    "chosen": lambda m, a, b: m.where(a > b, 0.5 * a, b),
    "largest": lambda m, a, b: m.maximum(a, 0.5 * b),
    "quotient": lambda m, a, b: a / (2.0 + b * b),
    "mean": lambda m, a, b: a - m.mean(b + 0.0 * a),
    "turned": lambda m, a, b: m.reshape(m.roll(a, 1), a.shape) * 0.7 + 0.1 * b,
    "power": lambda m, a, b: m.sqrt(1.0 + a**2) - 0.2 * b,
    "cumulated": lambda m, a, b: 0.2 * m.reshape(m.cumsum(a), a.shape) - b,
}


@dataclass(frozen=True)
class Call:
    """A value of a step: an op of two sources."""

    op: str
    a: tuple[str, int]
    b: tuple[str, int]


class Loop:
    """What one loop does; sources are names of kinds, each with a number."""

    def __init__(self, rng: np.random.Generator, states: int, depth: int) -> None:
        self.length = int(rng.choice(LENGTHS))
        self.is_reversed = bool(rng.integers(2))
        self.stride = int(rng.choice([1, 1, 1, 2, -1]))
        self.calls: list[Call] = []
        self.updates: dict[int, int] = {}
        kinds = ["state", "state", "value", "row", "column", "number", "fixed", "ago", "list"]
        for n in range(int(rng.integers(3, 9))):
            sources = [self.source(rng, kinds, states, n) for _ in range(2)]
            self.calls.append(Call(str(rng.choice(list(OPS))), *sources))
        for state in range(states):
            if state == 0 or rng.integers(3):
                self.updates[state] = int(rng.integers(len(self.calls)))
        self.kept = [int(k) for k in rng.integers(len(self.calls), size=rng.integers(3))]
        self.put = int(rng.integers(len(self.calls))) if rng.integers(2) else None
        self.odd = int(rng.integers(self.length)) if rng.integers(4) == 0 else None
        self.inner = Loop(rng, states, depth + 1) if depth == 0 and rng.integers(6) == 0 else None

    def source(
        self, rng: np.random.Generator, kinds: list[str], states: int, calls: int
    ) -> tuple[str, int]:
        kind = str(rng.choice(kinds))
        if kind == "value" and not calls:
            kind = "state"
        most = {"state": states, "value": calls, "ago": 3 * states, "fixed": 2}.get(kind, 2)
        return kind, int(rng.integers(most))

    def text(self) -> str:
        """What it does, for a report."""
        what = {k: v for k, v in vars(self).items() if k != "inner"}
        return f"{what}" + (f" around {self.inner.text()}" if self.inner else "")


class Program:
    """The program of a seed: loops one after the other."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 31])
        self.seed = seed
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        self.states = int(rng.integers(1, 4))
        self.loops = [Loop(rng, self.states, 0) for _ in range(rng.integers(1, 3))]
        most = 2 * max(LENGTHS) + 1
        self.inputs = [
            *(rng.normal(size=self.shape) for _ in range(self.states)),
            rng.normal(size=(most, *self.shape)),
            rng.normal(size=(*self.shape, most)),
            rng.normal(size=self.shape),
        ]

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.run(pn, list(inputs))

    def run(self, m: Any, inputs: list[Any]) -> list[Any]:
        """The outputs, by NumPy or its like."""
        states, (rows, columns, fixed) = inputs[: self.states], inputs[self.states :]
        found: list[Any] = []
        for loop in self.loops:
            lists: list[Any] = [states[0]]
            out = 0.0 * rows[: loop.length]
            histories = [[s] * 4 for s in states]
            order = range(loop.length)
            for turn, k in enumerate(reversed(order) if loop.is_reversed else order):
                place = (loop.stride * k) % (2 * max(LENGTHS))
                if loop.inner is not None and turn < 3:
                    states = self.turns(m, loop.inner, states, fixed)
                source = {
                    "state": lambda n, s=states: s[n],
                    "row": lambda n, p=place: rows[p + n],
                    "column": lambda n, p=place: columns[..., p],
                    "number": lambda n, k=k: 0.1 * k + n,
                    "fixed": lambda n: fixed if n else 0.5,
                    "ago": lambda n, h=histories: h[n % len(h)][-1 - n // len(h)],
                    "list": lambda n, v=lists: v[-1 - n if n < len(v) else 0],
                }
                values: list[Any] = []
                for call in loop.calls:
                    a, b = (
                        values[n] if kind == "value" else source[kind](n)
                        for kind, n in (call.a, call.b)
                    )
                    values.append(OPS[call.op](m, a + 0.0 * fixed, b))
                if turn == loop.odd:
                    values[0] = values[0] + 1.0
                states = [
                    values[loop.updates[n]] if n in loop.updates else s
                    for n, s in enumerate(states)
                ]
                for history, state in zip(histories, states):
                    history.append(state)
                lists += [values[n] for n in loop.kept]
                if loop.put is not None:
                    out = _put(m, out, k, values[loop.put])
            found += [m.stack(lists), out]
        return [*states, *found]

    def turns(self, m: Any, loop: Loop, states: list[Any], fixed: Any) -> list[Any]:
        """A loop within a step."""
        for k in range(loop.length):
            states = [m.sin(s + 0.1 * fixed) + 0.01 * k * states[0] for s in states]
        return states


def _put(m: Any, out: Any, k: int, value: Any) -> Any:
    if m is pn:
        return out.at[k].set(value)
    made = out.copy()
    made[k] = value
    return made


@dataclass
class Outcome:
    program: Program
    scans: int = 0
    error: str = ""

    def report(self) -> str:
        p = self.program
        loops = "\n".join(loop.text() for loop in p.loops)
        return f"seed {p.seed}, {p.states} states of {p.shape}\n{loops}\n{self.error}"


def scans_in(graph: Graph) -> int:
    """How many scans there are in a graph and in those inside it."""
    inner = sum(scans_in(g) for e in graph.equations for g in graphs_in(e.attrs))
    return inner + sum(e.op.name == "scan" for e in graph.equations)


@contextmanager
def rolled() -> Iterator[list[int]]:
    """Inside a with block: how many scans there are after the pass, program by program."""
    found: list[int] = []

    def watch(stage: stages.Stage) -> None:
        if stage.name == "roll steps":
            found.append(scans_in(stage.value))

    with stages.watching(watch):
        yield found


@contextmanager
def short() -> Iterator[None]:
    """Inside a with block short programs are looked through as well."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, roll_steps, unrolled_steps):
            patch.setattr(module, "LEAST_EQUATIONS", 20)
        yield


def _near(found: Any, expected: Any, what: str) -> None:
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what} {k}: {a.dtype}{a.shape}"
        scale = 1.0 + np.max(np.abs(b), initial=0.0)
        np.testing.assert_allclose(a / scale, b / scale, 1e-9, 1e-10, err_msg=f"{what} {k}")


def _check(outcome: Outcome) -> None:
    p = outcome.program
    _near(phix.jit(p)(*p.inputs), p.run(np, p.inputs), "value")
    numbers = tuple(range(len(p.inputs)))

    def loss(*x: Any) -> Any:
        return sum(pn.mean(pn.sin(v)) for v in p(*x))

    def squared(*x: Any) -> Any:
        return sum(pn.sum(g * g) for g in phix.grad(loss, numbers)(*x))

    ways = {
        "slope": (phix.grad(loss, numbers), p.inputs),
        "tangent": (lambda *x: phix.jvp(p, x, x)[1], p.inputs),
        "curvature": (phix.grad(squared, numbers), p.inputs),
        "lane": (phix.vmap(p), [np.stack([x, 0.5 - x]) for x in p.inputs]),
    }
    names = list(ways)
    for name in {names[p.seed % 4], names[p.seed // 4 % 4]}:
        function, args = ways[name]
        _near(phix.jit(function)(*args), function(*args), name)


def run_draw(seed: int) -> Outcome:
    """The program of a seed, in all ways."""
    outcome = Outcome(Program(seed))
    with unoptimised() if seed % OPTIMISED else nullcontext(), np.errstate(all="ignore"):
        try:
            with phix.debug.settings(most_calls_of_a_line=1_000_000), rolled() as scans, short():
                _check(outcome)
            outcome.scans = sum(scans)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(o.scans for o in outcomes)} loops rolled up"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
