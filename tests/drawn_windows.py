"""Ops with windows and samples, with all attributes drawn at random, on very small images.

``python -m tests.drawn_windows --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., each
of the ops in turn, and prints the call of each that goes wrong. Values are NumPy's; derivatives are
those of central differences; compiled calls, with dims unknown and not, give what eager ones give;
vmap gives what loops give. All in float64. ``--only conv2d`` draws one op.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import phix
from phix import ops, testing
from phix.core.errors import PhixError
from tests import draws, sampling_cases  # noqa: F401
from tests.machine_code import unoptimised
from tests.window_cases import CASES, Case, Draw

OPTIMISED = 40  # LLVM does all it can for one seed in so many
COMPILED = 2  # one draw in so many + 1 is compiled, another batched; all have derivatives
NAMES = [*CASES]


@dataclass
class Outcome:
    """One draw: the call, whether it was refused, and what went wrong, if anything did."""

    seed: int
    case: Case = field(init=False)
    refused: str = ""
    unknown_refused: str = ""
    error: str = ""

    @property
    def op(self) -> str:
        return self.case.op

    def report(self) -> str:
        return f"seed {self.seed}: {self.case}\n{self.error}"


def _outputs(found: Any) -> list[Any]:
    return list(phix.tree.leaves(found))


def _compare(what: str, found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    for a, b in zip(_outputs(found), _outputs(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"{what}: {a.shape}, expected {b.shape}"
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def _slopes(case: Case) -> Callable[..., Any]:
    """Gradients of a sum that weighs the elements of all outputs differently."""

    def total(*inputs: Any) -> Any:
        outs = [x for x in _outputs(case(*inputs)) if "float" in str(x.dtype)]
        return sum(ops.sum(ops.sin(x) + 0.3 * x * x) for x in outs)

    return phix.grad(total, tuple(case.floats()))


def _check_values(case: Case, found: Any) -> None:
    if case.expected is not None:
        expected = case.expected(*case.inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        _compare("values", _outputs(found)[: len(expected)], expected, 1e-9)


def _check_gradients(case: Case, order: int) -> None:
    moving = case.floats()

    def of_moving(*chosen: Any) -> Any:
        inputs: list[Any] = list(case.inputs)
        for k, x in zip(moving, chosen):
            inputs[k] = x
        return case(*inputs)

    testing.check_gradients(of_moving, *(case.inputs[k] for k in moving), order=order)


def _specs(case: Case, draw: Draw) -> list[Any]:
    """Some of the dims unknown, or all; that of the batch may have a name."""
    share = draw.pick(0.3, 0.7, 1.0)
    specs = []
    for k, x in enumerate(case.inputs):
        dims: list[Any] = [-1 if draw.rng.random() < share else n for n in x.shape]
        if k == 0 and dims[:1] == [-1] and draw.flag():
            dims[0] = "n"
        specs.append(phix.spec(dims, str(x.dtype)))
    return specs


def _with_slopes(case: Case) -> Callable[..., Any]:
    """The outputs and the gradients, in one program."""
    slopes = _slopes(case) if case.floats() else lambda *_: ()
    return lambda *inputs: (case(*inputs), slopes(*inputs))


def _check_unknown(outcome: Outcome, draw: Draw, expected: Any) -> None:
    case, specs = outcome.case, _specs(outcome.case, draw)
    try:
        found = phix.jit(_with_slopes(case), input_spec=specs)(*case.inputs)
    except PhixError as error:
        outcome.unknown_refused = f"{specs}: {type(error).__name__}: {error}"
        return
    _compare(f"with dims unknown, {specs}", found, expected)


def _check(outcome: Outcome, draw: Draw, found: Any) -> None:
    case = outcome.case
    _check_values(case, found)
    if case.floats() and not case.kinks:
        _check_gradients(case, 2 if draw.one(0, 3) == 0 else 1)
    way = draw.one(0, COMPILED)
    if way == 0:
        both = _with_slopes(case)
        expected = both(*case.inputs)
        _check_unknown(outcome, draw, expected)
        _compare("compiled", phix.jit(both)(*case.inputs), expected)
    elif way == 1:
        batched = _slopes(case) if case.floats() and draw.flag() else lambda *xs: case(*xs)
        testing.check_batching(batched, *case.inputs)


def run_draw(seed: int, names: list[str] = NAMES) -> Outcome:
    """The draw of a seed, in all ways."""
    draw = Draw(np.random.default_rng([seed, 8642]))
    outcome = Outcome(seed)
    outcome.case = CASES[names[seed % len(names)]](draw)
    with unoptimised() if seed % OPTIMISED else nullcontext():
        try:
            found = outcome.case(*outcome.case.inputs)
        except PhixError as error:
            outcome.refused = f"{type(error).__name__}: {error}"
            return outcome
        except Exception:
            outcome.error = traceback.format_exc()
            return outcome
        try:
            _check(outcome, draw, found)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    """How many of each op, how many of these refused, and how many with unknown dims."""
    drawn, refused, unknown = (
        Counter(o.op for o in outcomes if keep(o))
        for keep in (lambda o: True, lambda o: o.refused, lambda o: o.unknown_refused)
    )
    each = ", ".join(f"{op} {drawn[op]}/{refused[op]}/{unknown[op]}" for op in sorted(drawn))
    return f"drawn/refused/refused with unknown dims: {each}"


if __name__ == "__main__":
    chosen = NAMES
    if "--only" in sys.argv:
        at = sys.argv.index("--only")
        chosen = sys.argv[at + 1].split(",")
        del sys.argv[at : at + 2]
    sys.exit(draws.main(__doc__, "calls", lambda seed: run_draw(seed, chosen), count))
