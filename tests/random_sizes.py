"""Random programs compiled once for sizes they do not know, beside eager calls at each size.

``python -m tests.random_sizes --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed and the graph of each that goes wrong. Two dims are unknown, and what programs make
of them: halves, sums, products, what a window or a stride leaves. Values, gradients, products with
Hessians and lanes of the one program are those of eager calls, at sizes that are 1, alike, or 0
for one seed in four. All in float64.
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

SIZES = ((4, 3), (7, 2), (1, 5), (6, 1), (5, 5), (34, 3))
EMPTY = (0, 4)  # tried as well for one seed in so many as NONE
NONE = 4
INPUTS = (("n",), ("n", 3), ("m",), ("n", "m"), (3,))
MOST = 2000  # elements of what grows
OPTIMISED = 6  # LLVM does all it can for one seed in so many

Run = Callable[..., Any]
Key = tuple[tuple[int, ...], ...]  # the shape at each of the sizes


class Draw:
    """Choices of one step, so that each of its calls does the same."""

    def __init__(self, seed: list[int]) -> None:
        self.seed = seed
        self.begin()

    def begin(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def below(self, count: int) -> int:
        return int(self.rng.integers(count))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.below(len(choices))]


# -- steps: what they make of x, and of y where that fits; an error says that they do not fit -----
STEPS: dict[str, Run] = {}


def step(maker: Run) -> Run:
    STEPS[maker.__name__] = maker
    return maker


def in_order(x: Any) -> Any:
    """``x`` without ties: what a sort does of them is a matter of rounding."""
    return x + 0.0137 * ops.reshape(ops.sin(3.0 * counted(x)), x.shape)


def counted(x: Any) -> Any:
    """1, 2, ... for all elements, as a vector."""
    return ops.cumsum(ops.ones_like(ops.reshape(x, [-1])))


def axis_of(draw: Draw, x: Any) -> int:
    return draw.below(x.ndim)


def part(x: Any, axis: int, where: slice) -> Any:
    return x[(slice(None),) * axis + (where,)]


@step
def a_slice(draw: Draw, x: Any, y: Any) -> Any:
    axis = axis_of(draw, x)
    n = x.shape[axis]
    where = draw.one_of(
        slice(1, None), slice(None, -1), slice(-2, None), slice(None, 2), slice(None, None, 2),
        slice(1, None, 3), slice(None, None, -1), slice(None, n // 2), slice(n // 2, None),
        slice(n // 3, n - n // 4),
    )  # fmt: skip
    return part(x, axis, where)


@step
def a_pad(draw: Draw, x: Any, y: Any) -> Any:
    axis, found = axis_of(draw, x), [0] * (2 * x.ndim)
    found[2 * axis : 2 * axis + 2] = draw.below(3), draw.below(3)
    return ops.pad(x, paddings=tuple(found), pad_value=draw.one_of(0.0, 0.3))


@step
def a_shift(draw: Draw, x: Any, y: Any) -> Any:
    axis = axis_of(draw, x)
    zero = 0.0 * part(x, axis, slice(0, 1))
    if draw.below(2):
        return ops.concat([zero, part(x, axis, slice(None, -1))], axis)
    return ops.concat([part(x, axis, slice(1, None)), zero], axis)


@step
def a_roll(draw: Draw, x: Any, y: Any) -> Any:
    return ops.roll(x, (draw.below(5) - 2,), (axis_of(draw, x),))


@step
def a_concat(draw: Draw, x: Any, y: Any) -> Any:
    return draw.one_of(ops.concat, ops.concat, lambda xs, axis: ops.stack(xs, axis))(
        [x, y], axis_of(draw, x)
    )


@step
def a_view(draw: Draw, x: Any, y: Any) -> Any:
    axis = axis_of(draw, x)
    n = x.shape[axis]
    views = (
        lambda: ops.reshape(x, [-1]),
        lambda: ops.reshape(x, [-1, 3]),
        lambda: ops.reshape(x, [n, -1]),
        lambda: ops.reshape(part(x, axis, slice(0, 2 * (n // 2))), [2, -1]),
        lambda: ops.unsqueeze(x, [axis]),
        lambda: ops.transpose(x, list(range(x.ndim))[::-1]),
        lambda: ops.expand(ops.unsqueeze(x, [0]), [draw.one_of(2, n), *x.shape]),
        lambda: ops.tile(x, [2] * x.ndim),
        lambda: ops.repeat_interleave(x, 2, axis),
    )
    return draw.one_of(*views)()


@step
def a_reduction(draw: Draw, x: Any, y: Any) -> Any:
    reduce = draw.one_of(
        ops.sum, ops.mean, lambda x, *a, **k: ops.max(in_order(x), *a, **k), ops.logsumexp
    )
    return reduce(x, [axis_of(draw, x)], keepdim=draw.one_of(True, False))


@step
def along_an_axis(draw: Draw, x: Any, y: Any) -> Any:
    axis = axis_of(draw, x)
    kinds = (
        lambda: 0.4 * ops.cumsum(x, axis),
        lambda: ops.softmax(x, axis),
        lambda: ops.flip(x, [axis]),
        lambda: ops.sort(in_order(x), axis),
        lambda: ops.cumprod(1.0 + 0.1 * ops.tanh(x), axis),
        lambda: x - ops.mean(x, [axis], keepdim=True),
        lambda: ops.topk(in_order(x), 2, axis)[0],
        lambda: ops.cummax(in_order(x), axis)[0],
    )
    return draw.one_of(*kinds)()


@step
def a_gather(draw: Draw, x: Any, y: Any) -> Any:
    axis = axis_of(draw, x)
    sums = ops.sum(x, [k for k in range(x.ndim) if k != axis])
    some = ops.cast(counted(ops.reshape(y, [-1])[:40]), "int64")
    index = draw.one_of(some * 7 % x.shape[axis], ops.argsort(in_order(sums)))
    return draw.one_of(ops.gather, ops.index_select)(x, index, axis)


@step
def an_update(draw: Draw, x: Any, y: Any) -> Any:
    n = x.shape[0]
    where = draw.one_of(0, -1, slice(None, n // 2), slice(1, None), slice(None, None, 2), n // 2)
    value = draw.one_of(0.25, 0.5 * ops.sum(y))
    return x.at[where].add(value) if draw.below(2) else x.at[where].set(value)


@step
def a_scatter(draw: Draw, x: Any, y: Any) -> Any:
    rows, flat = ops.reshape(y, [-1])[:20], ops.reshape(x, [-1])
    index = ops.cast(counted(rows), "int64") * 5 % flat.shape[0]
    return ops.reshape(flat.at[index].add(rows), x.shape)


@step
def a_product(draw: Draw, x: Any, y: Any) -> Any:
    kinds = (
        lambda: ops.matmul(x, y),
        lambda: ops.matmul(x, y, transpose_y=True),
        lambda: ops.matmul(x, y, transpose_x=True),
        lambda: ops.matmul(x, x, transpose_x=True),
        lambda: ops.unsqueeze(x, [x.ndim]) * ops.reshape(y, [-1])[:9],
        lambda: ops.einsum([x, y], "i...,i...->..."),
        lambda: ops.einsum([x, ops.reshape(y, [-1])[:5]], "...i,j->...ij"),
    )
    return 0.2 * draw.one_of(*kinds)()


@step
def a_window(draw: Draw, x: Any, y: Any) -> Any:
    rows, columns = (-1, x.shape[-1]) if draw.below(2) and x.ndim > 1 else (1, -1)
    wide = in_order(ops.reshape(x, [1, 1, rows, columns]))
    width, stride = (1, draw.one_of(1, 2, 3)), (1, draw.one_of(1, 2))
    padding = (0, draw.one_of(0, 1) if width[1] > 1 else 0)
    kernel = phix.to_tensor(np.cos(np.arange(1.0, 1.0 + width[1])).reshape(1, 1, *width))
    kinds = (
        lambda: ops.conv2d(wide, kernel, strides=stride, paddings=padding),
        lambda: phix.nn.functional.avg_pool2d(wide, width, stride, padding),
        lambda: phix.nn.functional.max_pool2d(wide, width, stride, padding),
    )
    return draw.one_of(*kinds)()[0, 0]


@step
def of_a_matrix(draw: Draw, x: Any, y: Any) -> Any:
    k = draw.below(3) - 1
    kinds = (
        lambda: ops.tril(x, k),
        lambda: ops.triu(x, k),
        lambda: ops.diagonal(x, k),
        lambda: ops.diag(ops.reshape(x, [-1]), k),
        lambda: ops.trace(x),
    )
    return draw.one_of(*kinds)()


@step
def a_loop(draw: Draw, x: Any, y: Any) -> Any:
    backwards, kind = draw.one_of(True, False), draw.below(3)

    def row(carry: Any, x: Any) -> Any:
        new = (ops.sin(carry) + 0.5 * x, 0.6 * carry * x, 0.5 * x - carry)[kind]
        return new, carry + x

    last, found = phix.scan(row, 0.0 * x[0] + 0.5, x, reverse=backwards)
    return draw.one_of(last, found)


KEPT = (
    lambda x, axis, k: ops.roll(x, (k,), (axis,)),
    lambda x, axis, k: ops.flip(x, [axis]) * 0.9,
    lambda x, axis, k: 0.4 * ops.cumsum(x, axis),
    lambda x, axis, k: ops.sort(in_order(x), axis),
    lambda x, axis, k: x - ops.mean(x, [axis], keepdim=True),
    lambda x, axis, k: ops.tanh(x) + part(x, axis, slice(0, 1)),
    lambda x, axis, k: x.at[0].add(0.3 * k),
    lambda x, axis, k: ops.concat(
        [part(x, axis, slice(1, None)), part(x, axis, slice(0, 1))], axis
    ),
    lambda x, axis, k: ops.sin(x) * ops.reshape(ops.reshape(x, [-1])[::-1], x.shape),
    lambda x, axis, k: ops.where(x > 0.1 * k, x, ops.flip(x, [0])),
)


@step
def a_scan(draw: Draw, x: Any, y: Any) -> Any:
    """Some of what keeps the shape, as the step of a scan that goes on with two of them."""
    one, two, three = (draw.one_of(*KEPT) for _ in range(3))
    axis, k = axis_of(draw, x), draw.below(3) - 1

    def turn(carry: Any, scale: Any) -> Any:
        a, b = carry
        return (0.8 * two(one(a, axis, k) + scale * b, axis, k), three(a, axis, k)), ops.sum(a * b)

    (a, b), found = phix.scan(turn, (x, 0.5 * x), ops.reshape(y, [-1])[:4])
    return draw.one_of(a, b, found)


@step
def a_while_loop(draw: Draw, x: Any, y: Any) -> Any:
    """As many turns as half of a dim."""
    axis = axis_of(draw, x)
    return phix.fori_loop(
        0, x.shape[axis] // 2, lambda _, x: 0.7 * ops.roll(x, (1,), (axis,)) + 0.1, x
    )


@step
def lanes(draw: Draw, x: Any, y: Any) -> Any:
    kinds = (
        lambda row: ops.cumsum(row * 0.3) if row.ndim else ops.sin(row),
        lambda row: ops.sum(row) * row,
        lambda row: phix.cond(ops.sum(row) > 0.0613, lambda r: 0.5 * r, ops.sin, row),
        lambda row: row * ops.sum(y),
        lambda row: ops.reshape(row, [-1])[::-1],
    )
    return phix.vmap(draw.one_of(*kinds))(x)


@step
def a_branch(draw: Draw, x: Any, y: Any) -> Any:
    one, other = (lambda x: 0.5 * x), (lambda x: ops.flip(x, [0]) * ops.mean(x))
    return phix.cond(ops.sum(x) > 0.0613, one, other, x)


@step
def of_two(draw: Draw, x: Any, y: Any) -> Any:
    kinds = (
        lambda: x + y, lambda: x - y, lambda: 0.5 * x * y, lambda: ops.minimum(x, y + 0.0531),
        lambda: ops.where(x > 0.1931, y, x), lambda: x / (2.0 + y * y),
    )  # fmt: skip
    return draw.one_of(*kinds)()


@step
def of_one(draw: Draw, x: Any, y: Any) -> Any:
    kinds = (
        ops.sin,
        ops.tanh,
        lambda x: 0.3 * x * x,
        lambda x: -x,
        lambda x: ops.exp(-x * x),
        lambda x: ops.maximum(x, 0.0317),
        lambda x: x / x.shape[0],
    )
    return draw.one_of(*kinds)(x)


# -- programs --------------------------------------------------------------------------------------
def key_of(values: list[Any]) -> Key:
    return tuple(tuple(v.shape) for v in values)


class Program:
    """Steps that fit at all of ``sizes``; ``inputs`` are those of each of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = np.random.default_rng([seed, 8765])
        self.sizes = (*SIZES, EMPTY) if seed % NONE == 0 else SIZES
        self.inputs = [
            tuple(rng.normal(size=[{"n": n, "m": m}.get(s, s) for s in dims]) for dims in INPUTS)
            for n, m in self.sizes
        ]
        self.steps: list[tuple[str, int, int]] = []
        self.numbers: list[int] = []
        self._draw_steps(rng, int(rng.integers(4, 12)))

    def _draw_steps(self, rng: np.random.Generator, wanted: int) -> None:
        values = [[phix.to_tensor(x) for x in row] for row in zip(*self.inputs)]
        names = [*STEPS, "of_two", "of_two", "of_one"]
        for number in range(12 * wanted):
            name = names[rng.integers(len(names))]
            reads = tuple(len(values) - 1 - int(k) for k in rng.geometric(0.25, 2) - 1)
            if min(reads) < 0 or len(self.steps) == wanted:
                continue
            if name in ("of_two", "a_concat"):
                key = key_of(values[reads[0]])
                alike = [k for k, v in enumerate(values) if key_of(v) == key]
                reads = (reads[0], alike[rng.integers(len(alike))])
            try:
                made = [
                    self.made(name, number, *(values[k][s] for k in reads))
                    for s in range(len(self.sizes))
                ]
            except Exception:
                continue
            fits = len({v.ndim for v in made}) == 1 and all(
                v.size <= MOST and v.ndim < 5 for v in made
            )
            if fits and all(np.all(np.isfinite(v)) for v in made):
                values.append(made)
                self.steps.append((name, *reads))
                self.numbers.append(number)

    def made(self, name: str, number: int, x: Any, y: Any) -> Any:
        return STEPS[name](Draw([self.seed, number]), x, y)

    def __call__(self, *inputs: Any) -> Any:
        values = list(inputs)
        for (name, x, y), number in zip(self.steps, self.numbers):
            values.append(self.made(name, number, values[x], values[y]))
        kept = len(INPUTS)
        read = {k for _, *reads in self.steps for k in reads}
        return [v for k, v in enumerate(values) if k >= kept and (k not in read or k % 3 == 0)]

    def loss(self, *inputs: Any) -> Any:
        return sum((ops.sum(ops.sin(v)) for v in self(*inputs)), 0.0 * ops.sum(inputs[0]))


# -- draws -----------------------------------------------------------------------------------------
@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    program: Program
    error: str = ""

    def report(self) -> str:
        p = self.program
        return f"seed {p.seed}\n{p.steps}\n{phix.make_graph(p)(*specs())}\n{self.error}"


def specs() -> list[Any]:
    return [phix.spec(dims, "float64") for dims in INPUTS]


def _compare(what: str, found: Any, expected: Any) -> None:
    for k, (a, b) in enumerate(
        zip(phix.tree.leaves(found), phix.tree.leaves(expected), strict=True)
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"{what}, output {k}")


def _ways(p: Program) -> dict[str, tuple[Run, Run]]:
    """What is compiled, and what is to be the same at every size."""
    slopes = phix.grad(p.loss, tuple(range(len(INPUTS))))

    def along(*inputs: Any) -> Any:
        return phix.jvp(slopes, inputs, tuple(ops.cos(x) for x in inputs))[1]

    def lanes(*inputs: Any) -> Any:
        return phix.vmap(slopes)(*(ops.stack([x, 0.5 - x]) for x in inputs))

    def one_by_one(*inputs: Any) -> Any:
        both = [slopes(*(f(x) for x in inputs)) for f in (lambda x: x, lambda x: 0.5 - x)]
        return phix.tree.map(lambda *rows: ops.stack(rows), *both)

    found = {"values": (p, p), "gradients": (slopes, slopes)}
    if p.seed % 3 == 0:
        found["second derivatives"] = (along, along)
    if p.seed % 3 == 1:
        found["lanes"] = (lanes, one_by_one)
    return found


def _check(p: Program) -> None:
    for what, (made, eager) in _ways(p).items():
        compiled = phix.jit(made, input_spec=specs())
        for sizes, inputs in zip(p.sizes, p.inputs):
            expected = eager(*map(phix.to_tensor, inputs))
            _compare(f"{what} at {sizes}", compiled(*inputs), expected)


def run_draw(seed: int) -> Outcome:
    """The program of a seed, in all ways."""
    with unoptimised() if seed % OPTIMISED else nullcontext():
        outcome = Outcome(Program(seed))
        try:
            _check(outcome.program)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    return f"{sum(len(o.program.steps) for o in outcomes)} steps"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
