"""Random programs with random shardings, against the programs themselves.

``python -m tests.random_shardings --count 2000 --seed 0`` draws that many, from seeds 0, 1, ...,
and prints the seed, the program and the plan of each that goes wrong. The programs are those of
``random_programs``, with their gradients, and of ``random_graphs``, of all dtypes. Inputs and
outputs are divided at random on a virtual mesh of two axes. Of every other draw the plan is random,
too: whatever the planner takes of all that the rules allow, the numbers must be the same.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import phix
from phix.parallel import planning
from tests import draws, random_graphs, random_programs
from tests.machine_code import unoptimised

Function = Callable[..., Any]


@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    seed: int
    text: str = ""
    steps: int = 0
    error: str = ""

    def report(self) -> str:
        return f"seed {self.seed}: {self.text}\n{self.error}"


@contextmanager
def random_plans(rng: np.random.Generator) -> Iterator[None]:
    """Plans are made of any ways that the rules allow, whatever they cost."""
    with mock.patch.object(planning.Planner, "price", lambda *_: float(rng.random())):
        yield


def random_spec(rng: np.random.Generator, shape: Sequence[int], axes: dict[str, int]) -> Any:
    """Dims to divide, of those that can be."""
    spec: list[Any] = [None] * len(shape)
    for name, size in axes.items():
        free = [k for k, d in enumerate(shape) if spec[k] is None and d and d % size == 0]
        if free and rng.random() < 0.7:
            spec[int(rng.choice(free))] = name
    return tuple(spec)


def smooth(rng: np.random.Generator) -> tuple[Function, list[np.ndarray], str]:
    """A smooth function and its gradient."""
    program = random_programs.draw_program(rng)
    numbers = tuple(range(len(program.shapes)))
    function = phix.value_and_grad(lambda *xs: program(*xs).sum(), argnums=numbers)
    chosen = function if rng.random() < 0.7 else program
    return chosen, [rng.normal(size=s) * 0.8 for s in program.shapes], str(program)


def run_draw(seed: int) -> Outcome:
    """The program of a seed, on a mesh."""
    rng = np.random.default_rng([seed, 4711])
    outcome = Outcome(seed)
    axes = {"a": int(rng.choice([2, 3])), "b": int(rng.choice([2, 3]))}
    on = phix.parallel.mesh(axes, virtual=True)
    try:
        if rng.random() < 0.5:
            function, args, outcome.text = smooth(rng)
            wanted: list[Any] = [np.asarray(v) for v in phix.tree.leaves(function(*args))]
        else:
            program = random_graphs.draw_program(seed)
            function, args, outcome.text = program, program.inputs, str(program)
            wanted = list(program.expected())
        in_specs = tuple(random_spec(rng, x.shape, axes) for x in args)
        out_specs = [random_spec(rng, w.shape, axes) for w in wanted]
        flat = lambda *xs: tuple(phix.tree.leaves(function(*xs)))  # noqa: E731
        sharded = phix.parallel.shard(flat, on, in_specs, tuple(out_specs))
        outcome.text += f"\non {axes}: {in_specs} to {out_specs}"
        if seed % 2:
            with random_plans(np.random.default_rng(seed)):
                found = run(sharded, args, outcome)
        else:
            found = run(sharded, args, outcome)
        outcome.error = "\n".join(filter(None, map(difference, found, wanted)))
    except Exception:
        outcome.error = traceback.format_exc()
    return outcome


def run(sharded: Any, args: Any, outcome: Outcome) -> list[Any]:
    outcome.steps = len(sharded.explain(*args).collectives)
    return list(sharded(*map(phix.to_tensor, args)))


def difference(found: Any, wanted: Any) -> str:
    if isinstance(wanted, random_graphs.Node):
        return random_graphs.difference(found, wanted)
    scale = 1 + np.max(np.abs(wanted), initial=0)
    is_near = np.allclose(np.asarray(found), wanted, rtol=1e-8, atol=1e-9 * scale, equal_nan=True)
    return "" if is_near else f"{np.asarray(found).tolist()}\nnot {wanted.tolist()}"


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(o.steps for o in outcomes)} steps between the parts"


if __name__ == "__main__":
    with unoptimised():
        sys.exit(draws.main(__doc__, "programs", run_draw, count))
