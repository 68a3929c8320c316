"""Random programs that move elements about, as steps of scans, beside the steps one by one.

``python -m tests.random_moves --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed and the graph of each that goes wrong. Slices, pads, rolls, views with more axes and
fewer, sums and scans of small tensors, of which one dim is often 1, in loops and branches: what
passes over graphs and loops join, put elsewhere or leave out. Values, gradients and products with
Hessians of the scan, compiled, are those of loops of Python over the steps. In float64, of one
seed in three some of it in float32; parts of steps move numbers of other dtypes, integers too.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import phix
from phix import ops
from tests import draws
from tests.machine_code import unoptimised

CARRIES = ((2, 2), (3,), (2, 3), (1, 2), (), (4,), (2, 1))
INPUTS = ((2, 2), (2,), (3, 1), ())
MOST = 60  # elements of what grows
WITHIN = {"float64": 1e-9, "float32": 1e-4}  # of the narrowest dtype that is carried
OPTIMISED = 6  # LLVM does all it can for one seed in so many


class Draw:
    """Numbers of one step, so that each of its calls does the same. ``plain``: loops are
    Python's, and branches are both taken."""

    def __init__(self, numbers: np.ndarray, plain: bool) -> None:
        self.numbers, self.plain = numbers, plain
        self.at = 0

    def below(self, count: int) -> int:
        self.at += 1
        return int(self.numbers[self.at % len(self.numbers)]) % count


def fit(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` cropped and padded to a shape."""
    x = ops.sum(x) if not shape and x.ndim else x
    if x.ndim > len(shape):
        x = ops.reshape(x, [1] * (len(shape) - 1) + [-1])
    while x.ndim < len(shape):
        x = ops.unsqueeze(x, [0])
    for axis, (has, wanted) in enumerate(zip(x.shape, shape)):
        if has > wanted:
            x = ops.slice(x, [axis], [has - wanted], [has])
        elif has < wanted:
            x = ops.pad(x, paddings=_paddings(x, axis, 0, wanted - has))
    return x


def _paddings(x: Any, axis: int, before: int, behind: int) -> tuple[int, ...]:
    found = [0] * (2 * x.ndim)
    found[2 * axis : 2 * axis + 2] = before, behind
    return tuple(found)


# -- moves: what they make of x and y, or None where they do not fit -------------------------------
Move = Callable[[Draw, Any, Any, int], Any]  # (numbers, x, y, an axis of x)
MOVES: dict[str, Move] = {}


def move(maker: Move) -> Move:
    MOVES[maker.__name__] = maker
    return maker


@move
def a_slice(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    size = x.shape[axis]
    start = draw.below(size)
    return ops.slice(x, [axis], [start], [start + 1 + draw.below(size - start)])


@move
def a_pad(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    paddings = _paddings(x, axis, draw.below(2), draw.below(2))
    return ops.pad(x, paddings=paddings) if x.size < MOST else None


@move
def a_shift(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    first, size = draw.below(2), x.shape[axis]
    kept = ops.slice(x, [axis], [1 - first], [size - first])
    return ops.pad(kept, paddings=_paddings(x, axis, first, 1 - first)) if size > 1 else None


@move
def a_roll(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    return ops.roll(x, (draw.below(3) - 1,), (axis,))


@move
def a_flip(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    return ops.flip(x, [axis])


@move
def a_concat(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    return ops.concat([x, fit(y, x.shape)], axis) if x.size < MOST else None


@move
def a_gather(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    size = x.shape[axis]
    return ops.gather(x, np.array([draw.below(size), draw.below(size)]), axis)


@move
def an_update(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    where = (slice(None),) * axis + (draw.below(x.shape[axis]),)
    return x.at[where].add(0.5) if draw.below(2) else x.at[where].set(0.25)


@move
def a_view(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    views = (
        lambda: ops.reshape(x, [-1]),
        lambda: ops.unsqueeze(x, [axis]),
        lambda: ops.transpose(x, list(range(x.ndim))[::-1]),
        lambda: ops.squeeze(x, [a for a, n in enumerate(x.shape) if n == 1]),
        lambda: ops.expand(ops.slice(x, [axis], [0], [1]), x.shape),
    )
    return views[draw.below(len(views))]()


@move
def a_reduction(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    reduce = (ops.sum, ops.mean, ops.max)[draw.below(3)]
    return reduce(x, [axis], keepdim=bool(draw.below(2)))


@move
def a_scan(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    return 0.4 * ops.cumsum(x, axis)


@move
def a_product(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    return 0.3 * ops.matmul(x, fit(y, (x.shape[1], 2))) if x.ndim == 2 else None


@move
def a_loop(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    """Over the rows of x, from the first or from the last."""
    backwards, kind = bool(draw.below(2)), draw.below(3)

    def row(carry: Any, x: Any) -> Any:
        turned = ops.flip(x, [0]) if x.ndim else -x
        new = (ops.sin(carry) + 0.5 * x, 0.6 * carry * x + turned, 0.5 * turned - carry)[kind]
        return new, carry + x

    start = ops.cast(fit(y, tuple(x.shape[1:])), x.dtype)
    if draw.plain:
        last, found = in_python(row, start, (x,), backwards, unpacks=True)
    else:
        last, found = phix.scan(row, start, x, reverse=backwards)
    return found if draw.below(2) else last


@move
def a_while_loop(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    count = draw.below(3)

    def turn(x: Any) -> Any:
        return 0.7 * ops.roll(x, (1,), (axis,)) + 0.1

    if not draw.plain:
        return phix.fori_loop(0, count, lambda _, x: turn(x), x)
    for _ in range(count):
        x = turn(x)
    return x


@move
def a_branch(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    is_large, y = ops.sum(x) > 0.0613, ops.cast(fit(y, x.shape), x.dtype)
    one, other = (lambda x, y: 0.5 * x + y), (lambda x, y: ops.flip(x, [axis]) * y)
    if draw.plain:
        return ops.where(is_large, one(x, y), other(x, y))
    return phix.cond(is_large, one, other, x, y)


@move
def in_another_dtype(draw: Draw, x: Any, y: Any, axis: int) -> Any:
    """A move of the rounded numbers. Those of few bits are no sums of several: of integers."""
    dtype = ("float32", "int32", "int64", "bfloat16", "float16", "bool", "complex128")[
        draw.below(7)
    ]
    moves = (a_slice, a_pad, a_shift, a_roll, a_flip, a_concat, a_view)
    moved = moves[draw.below(len(moves))]
    if dtype in ("bfloat16", "float16"):
        x, y = ops.stop_gradient(x), ops.stop_gradient(y)
    made = moved(draw, ops.cast(4.0 * x, dtype), ops.cast(4.0 * y, dtype), axis)
    if made is None:
        return None
    return 0.25 * ops.cast(ops.real(made) if dtype == "complex128" else made, x.dtype)


def in_python(
    step: Callable[..., Any], carry: Any, read: tuple[Any, ...], backwards: bool, unpacks: bool
) -> tuple[Any, Any]:
    """What ``phix.scan`` gives, by a loop of Python."""
    length = read[0].shape[0]
    found: list[Any] = [None] * length
    for i in range(length)[:: -1 if backwards else 1]:
        rows = tuple(x[i] for x in read)
        carry, found[i] = step(carry, *rows) if unpacks else step(carry, rows)
    return carry, ops.stack(found, 0)


def of_two(draw: Draw, x: Any, y: Any) -> Any:
    y = fit(y, x.shape)
    kinds = (
        lambda: x + y,
        lambda: x - y,
        lambda: 0.5 * x * y,
        lambda: ops.minimum(x, y + 0.0531),
        lambda: ops.maximum(x, y - 0.0717),
        lambda: ops.where(x > 0.1931, y, x),
    )
    return kinds[draw.below(len(kinds))]()


def of_one(draw: Draw, x: Any) -> Any:
    kinds = (ops.sin, ops.tanh, ops.cos, lambda x: 0.3 * x * x, lambda x: -x)
    return kinds[draw.below(len(kinds))](x)


# -- programs --------------------------------------------------------------------------------------
@dataclass
class Program:
    """A step of a scan, and what it begins with and reads."""

    seed: int
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = rng = np.random.default_rng([self.seed, 4321])
        shapes = [[kinds[k] for k in rng.integers(0, len(kinds), rng.integers(1, most))]
                  for kinds, most in ((CARRIES, 4), (INPUTS, 3))]  # fmt: skip
        self.length, self.is_reversed = int(rng.integers(1, 4)), bool(rng.integers(2))
        kinds = ["float64"] if self.seed % 3 else ["float64", "float32"]
        self.carry = tuple(rng.normal(size=s).astype(rng.choice(kinds)) for s in shapes[0])
        self.within = max(WITHIN[str(c.dtype)] for c in self.carry)
        self.inputs = tuple(rng.normal(size=(self.length, *s)) for s in shapes[1])
        names = [*MOVES] * 2 + ["of two"] * len(MOVES) + ["of one"] * (len(MOVES) // 2)
        self.steps = [(names[rng.integers(len(names))], rng.integers(0, 1 << 30, 8))
                      for _ in range(rng.integers(5, 14))]  # fmt: skip

    def step(self, carry: Any, read: Any, plain: bool = False) -> Any:
        values = [*carry, *read]
        for name, numbers in self.steps:
            draw = Draw(numbers, plain)
            x, y = (values[draw.below(len(values))] for _ in range(2))
            if name == "of two":
                values.append(of_two(draw, x, y))
            elif name == "of one":
                values.append(of_one(draw, x))
            elif x.ndim:
                made = MOVES[name](draw, x, y, draw.below(x.ndim))
                values += [] if made is None else [made]
        last = values[::-1]
        out = tuple(0.7 * fit(last[k % len(last)], c.shape) for k, c in enumerate(self.carry))
        out = tuple(ops.cast(new, c.dtype) for new, c in zip(out, self.carry))
        return out, ops.cast(fit(values[len(values) // 2], (2, 2)), "float64")

    def by_scan(self, carry: Any, inputs: Any) -> Any:
        return phix.scan(self.step, carry, inputs, reverse=self.is_reversed)

    def by_steps(self, carry: Any, inputs: Any) -> Any:
        step = partial(self.step, plain=True)
        return in_python(step, carry, inputs, self.is_reversed, unpacks=False)


def loss(run: Callable[..., Any]) -> Callable[..., Any]:
    def total(carry: Any, inputs: Any) -> Any:
        carry, found = run(carry, inputs)
        return sum((ops.sum(ops.sin(c)) for c in carry), ops.sum(found * found))

    return total


def slopes(run: Callable[..., Any]) -> Callable[..., Any]:
    return phix.grad(loss(run), (0, 1))


# -- draws -----------------------------------------------------------------------------------------
@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    program: Program
    error: str = ""

    def report(self) -> str:
        p = self.program
        read = tuple(x[0] for x in p.inputs)
        return f"seed {p.seed}\n{phix.make_graph(p.step)(p.carry, read)}\n{self.error}"


def _compare(p: Program, what: str, found: Any, expected: Any) -> None:
    for a, b in zip(phix.tree.leaves(found), phix.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=p.within, atol=p.within, err_msg=what)


def _check(p: Program) -> None:
    given = phix.tree.map(phix.to_tensor, (p.carry, p.inputs))
    steps, scan = p.by_steps, p.by_scan
    expected, slope = steps(*given), slopes(steps)(*given)
    _compare(p, "a scan", scan(*given), expected)
    _compare(p, "a compiled scan", phix.jit(scan)(*given), expected)
    _compare(p, "compiled steps", phix.jit(steps)(*given), expected)
    _compare(p, "gradients of a scan", phix.jit(slopes(scan))(*given), slope)
    _compare(p, "gradients of steps", phix.jit(slopes(steps))(*given), slope)
    if p.seed % 3 == 0:
        ways = phix.tree.map(lambda x: np.stack([np.cos(x), 0.5 - np.asarray(x)]), given)

        def along(run: Callable[..., Any]) -> Callable[[Any], Any]:
            return lambda way: phix.jvp(slopes(run), given, way)[1]

        def lane(tree: Any, k: int) -> Any:
            return phix.tree.map(lambda x: x[k], tree)

        found = phix.jit(phix.vmap(along(scan)))(ways)
        for k in range(2):
            _compare(p, "second derivatives", lane(found, k), along(steps)(lane(ways, k)))


def run_draw(seed: int) -> Outcome:
    """The program of a seed, in all ways."""
    outcome = Outcome(Program(seed))
    with unoptimised() if seed % OPTIMISED else nullcontext():
        try:
            _check(outcome.program)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(o.program.length for o in outcomes)} steps"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
