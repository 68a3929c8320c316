"""Random programs of ints, their bits and masks, in vectors, beside NumPy to the last bit.

``python -m tests.random_bits --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed and the graph of each that goes wrong. Many values live at once, masks come of
comparisons with 0 and with each other, and choices keep lanes as they are: what instructions of the
CPU hold, and LLVM may mix up. All is optimised, for one row and for lanes of rows.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import phix
import phix.numpy as pn
from tests import draws

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
          "float64")  # fmt: skip
SIZES = (1, 3, 8, 13, 16, 31, 33, 64, 67, 100, 129, 257)
LANES = 3

Step = Callable[[Any, Any, Any, Any, int], Any]  # (the library, values x and y, a mask, a number)


def _bits(x: Any, number: int) -> Any:
    return x.dtype.type(number % 127)


def _chosen_bits(xp: Any, x: Any, y: Any, m: Any, k: int) -> Any:
    low = _bits(x, 2 ** (1 + k % 6) - 1)
    return xp.where(m, (x & low) | (y & ~low), x)


# Of ints alone; floats take those below.
OF_INTS: dict[str, Step] = {
    "and": lambda xp, x, y, m, k: x & y,
    "or": lambda xp, x, y, m, k: x | y,
    "xor": lambda xp, x, y, m, k: x ^ y,
    "not": lambda xp, x, y, m, k: ~x,
    "left": lambda xp, x, y, m, k: x << x.dtype.type(k % 7),
    "right": lambda xp, x, y, m, k: x >> x.dtype.type(k % 7),
    "chosen bits": _chosen_bits,
    "bits under a mask": lambda xp, x, y, m, k: xp.where(m, x & ~y | _bits(x, k), y),
    "a mask as a number": lambda xp, x, y, m, k: x ^ m.astype(x.dtype),
    "taken": lambda xp, x, y, m, k: x[xp.where(y < 0, 0, y & _bits(y, 7)).astype("int64") % len(x)],
}
OF_ALL: dict[str, Step] = {
    "add": lambda xp, x, y, m, k: x + y,
    "subtract": lambda xp, x, y, m, k: x - y,
    "multiply": lambda xp, x, y, m, k: x * _bits(x, k % 5),
    "least": lambda xp, x, y, m, k: xp.minimum(x, y),
    "largest": lambda xp, x, y, m, k: xp.maximum(x, y),
    "size": lambda xp, x, y, m, k: abs(x),
    "choice": lambda xp, x, y, m, k: xp.where(m, x, y),
    "kept": lambda xp, x, y, m, k: xp.where(m, x + y, x),
    "a choice of a number": lambda xp, x, y, m, k: xp.where(m, x, _bits(x, k)),
    "turned": lambda xp, x, y, m, k: x[::-1],
}
MASKS: dict[str, Step] = {
    "below 0": lambda xp, x, y, m, k: x < 0,
    "not below 0": lambda xp, x, y, m, k: x >= 0,
    "above 0": lambda xp, x, y, m, k: x > 0,
    "0": lambda xp, x, y, m, k: x == 0,
    "less": lambda xp, x, y, m, k: x < y,
    "near": lambda xp, x, y, m, k: x <= _bits(x, k),
    "both": lambda xp, x, y, m, k: m & (x > y),
    "either": lambda xp, x, y, m, k: m | (x < 0),
    "one of two": lambda xp, x, y, m, k: m ^ (y >= 0),
    "other": lambda xp, x, y, m, k: ~m,
}


@dataclass
class Program:
    """Steps over values of one dtype and over masks, each of which reads two values and a mask."""

    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 1357])
        self.dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
        size = SIZES[rng.integers(len(SIZES))]
        is_int = self.dtype.kind != "f"
        ends = (-100, 100) if self.dtype.kind != "u" else (0, 120)
        count = int(rng.integers(2, 6))
        self.inputs = [rng.integers(*ends, (LANES, size)).astype(self.dtype) for _ in range(count)]
        steps = list(OF_ALL) + (list(OF_INTS) * 2 if is_int else [])
        self.steps: list[tuple[str, str, tuple[int, ...], int]] = []
        for made in range(int(rng.integers(5, 40))):
            x, y = (int(v) for v in rng.integers(0, count + made, 2))
            back = int(rng.integers(0, 4))
            names = steps[rng.integers(len(steps))], list(MASKS)[rng.integers(len(MASKS))]
            self.steps.append((*names, (x, y, back), int(rng.integers(128))))
        self.outputs = sorted(rng.choice(count + len(self.steps), 3))

    def run(self, xp: Any, *inputs: Any) -> list[Any]:
        values, masks = list(inputs), [inputs[0] < inputs[1]]
        for name, kind, (x, y, back), number in self.steps:
            mask = masks[max(len(masks) - 1 - back, 0)]
            step = OF_ALL.get(name) or OF_INTS[name]
            values.append(step(xp, values[x], values[y], mask, number))
            masks.append(MASKS[kind](xp, values[y], values[-1], mask, number))
        return [values[k] for k in self.outputs] + masks[-1:]

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.run(pn, *inputs)


@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    program: Program
    error: str = ""

    def report(self) -> str:
        p = self.program
        return f"seed {p.seed}\n{phix.make_graph(p)(*(x[0] for x in p.inputs))}\n{self.error}"


def run_draw(seed: int) -> Outcome:
    """The program of a seed, for a row and for lanes of rows."""
    outcome = Outcome(Program(seed))
    p = outcome.program
    try:
        with np.errstate(all="ignore"):
            wanted = [p.run(np, *row) for row in zip(*p.inputs)]
        one = phix.jit(p)(*(x[0] for x in p.inputs))
        lanes = phix.jit(phix.vmap(p))(*p.inputs)
        for k, (found, rows) in enumerate(zip(lanes, zip(*wanted), strict=True)):
            np.testing.assert_array_equal(one[k], rows[0], f"output {k}")
            np.testing.assert_array_equal(found, np.stack(rows), f"output {k}, in lanes")
            assert found.dtype == rows[0].dtype, f"output {k}"
    except Exception:
        outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(len(o.program.steps) for o in outcomes)} steps"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
