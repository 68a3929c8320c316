"""The demo: derivatives as graphs, a trained classifier, a beam solved by its equation.

``make demo``, or ``python examples/demo.py [--output FILE]``. Exits with 1 if the classifier is
right on less than 97% of the test images, or the beam is off by 1% or more.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import beam
import derivatives
import digits
import figure

LEAST_ACCURACY = 0.97
LARGEST_ERROR = 0.01


def title(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}", flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="the figure")
    output = parser.parse_args(argv).output
    start = time.perf_counter()

    title("1. Derivatives are graphs")
    derivatives.main()

    title("2. A classifier of handwritten digits")
    classified = digits.train()
    right = classified.accuracy >= LEAST_ACCURACY
    asked = f"(at least {LEAST_ACCURACY:.0%})"
    print(f"test accuracy {classified.accuracy:.2%} {asked}: {_verdict(right)}")

    title("3. A beam that learns its equation, u'''' = -1")
    solved = beam.solve()
    near = solved.error < LARGEST_ERROR
    asked = f"(below {LARGEST_ERROR:.0%})"
    print(f"relative L2 error {solved.error:.3%} {asked}: {_verdict(near)}")

    figure.draw(classified, solved, output)
    print(f"\nwrote {output.resolve()} after {time.perf_counter() - start:.0f} s")
    return 0 if right and near else 1


def _verdict(passed: bool) -> str:
    return "passed" if passed else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
