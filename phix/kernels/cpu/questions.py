"""What a program asks of Python in the middle of a run, and the answers: see ``asking.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core import dims as dm
from phix.core.records import dataclass
from phix.core.size_checks import Check
from phix.kernels.cpu.results import allocator

if TYPE_CHECKING:  # what a program from disk asks stands in its graph
    from phix.kernels.loops import nodes as ir
    from phix.kernels.loops.nodes import LoopProgram

ROWS = 1024  # of the table, for each check
UNKNOWN = int(np.iinfo(np.int64).min)  # a size that is not computed yet


@dataclass(frozen=True)
class Questions:
    """What a program asks: with each check the sizes that it is about, its own first; and the
    numbers of the results whose dims it computes."""

    checks: tuple[tuple[Check, tuple[dm.Symbol, ...]], ...]
    results: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.checks or self.results)

    def starts(self) -> list[int]:
        """Where the part of the table of each check begins, and where the last ends."""
        found = [0]
        for _, symbols in self.checks:
            found.append(found[-1] + ROWS * len(symbols))
        return found

    def table(self) -> np.ndarray:
        return np.full(self.starts()[-1], UNKNOWN, np.int64)

    def answers(
        self, env: Mapping[dm.Symbol, Any], dtypes: Sequence[np.dtype]
    ) -> Callable[..., Any]:
        """The function that is asked, where the other dims have the sizes in ``env``."""
        checks = self.checks

        def answer(made: list[Any], number: int, *sizes: int) -> Any:
            if number < len(checks):
                check, symbols = checks[number]
                found = {s: n for s, n in zip(symbols[1:], sizes[1:]) if n != UNKNOWN}
                check({**env, **found, symbols[0]: sizes[0]})
                return None
            number -= len(checks)
            made[number] = allocator(sizes, dtypes[number])(sizes, dtypes[number])
            return made[number]

        return answer


NO_QUESTIONS = Questions((), ())


def questions(program: LoopProgram, known: set[dm.Symbol]) -> Questions:
    """What a program asks, where it is given the sizes of the dims that are ``known``."""
    checks = []
    for step in checked(program.steps):
        own = program.symbols[step.name]
        others = [s for s in step.check.symbols if s != own and s not in known]
        checks.append((step.check, (own, *others)))
    computed = [
        n
        for n, b in enumerate(program.outputs)
        if not {s for d in b.dims for s in dm.symbols(d)} <= known
    ]
    return Questions(tuple(checks), tuple(computed))


def checked(steps: list[ir.Step]) -> list[Any]:
    from phix.kernels.loops import nodes as ir

    return [s for s in ir.walk_steps(steps) if isinstance(s, ir.BindStep) and s.check is not None]
