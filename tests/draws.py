"""The command line of the property tests: draws by seed, counted, each mismatch printed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Protocol, TypeVar


class Outcome(Protocol):
    """One draw; ``error`` says what went wrong, if anything did."""

    error: str

    def report(self) -> str:
        """The draw, small, with what went wrong."""


_O = TypeVar("_O", bound=Outcome)


def main(
    doc: str | None, what: str, run: Callable[[int], _O], count: Callable[[list[_O]], str]
) -> int:
    """Run the draws of the seeds that the command line names; the exit status.

    ``what`` is drawn; ``count`` tells of all outcomes what the last line is to hold.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help=f"how many {what} (2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seconds", type=float, help="stop after that time")
    options = parser.parse_args()
    start = time.monotonic()
    wrong: list[int] = []
    outcomes: list[_O] = []
    for seed in range(options.seed, options.seed + options.count):
        outcome = run(seed)
        outcomes.append(outcome)
        if outcome.error:
            wrong.append(seed)
            print(outcome.report(), end="\n\n", flush=True)
        if options.seconds and time.monotonic() - start > options.seconds:
            break
    seeds = f": seeds {', '.join(map(str, wrong))}" if wrong else ""
    print(
        f"seeds {options.seed} to {options.seed + len(outcomes) - 1}: {len(outcomes)} {what}, "
        f"{count(outcomes)}; {len(wrong)} mismatches{seeds}"
    )
    return 1 if wrong else 0
