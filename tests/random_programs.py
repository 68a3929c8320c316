"""Random programs under random stacks of transformations, against finite differences and loops.

``python -m tests.random_programs --count 2000 --seed 0`` draws that many, from seeds 0, 1, ...,
and prints the seed and the graph of each that goes wrong. Each transformation of a stack is
compared with what it is of the function below it: derivatives with finite differences, vmap with
a Python loop, the others with the function itself. All in float64.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import phix
from phix import ops
from phix.interpreters import known_pulls
from tests import draws
from tests.machine_code import unoptimised

Function = Callable[..., Any]
MOST_ORDERS = 4  # of derivative, in one stack
SHAPES = ((), (3,), (2, 3), (3, 3))


def seeded(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 20240])


# -- pieces: smooth functions that keep values near one and keep their shape -----------------------
UNARY: dict[str, Function] = {
    "sin": ops.sin,
    "cos": ops.cos,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
    "gauss": lambda x: ops.exp(-x * x),
    "log": lambda x: ops.log(1.5 + x * x),
    "sqrt": lambda x: ops.sqrt(1.2 + x * x),
    "rsqrt": lambda x: ops.rsqrt(1.2 + x * x),
    "reciprocal": lambda x: 1.0 / (1.3 + x * x),
    "square": lambda x: ops.square(ops.tanh(x)),
    "cube": lambda x: ops.tanh(x) ** 3,
    "power": lambda x: (1.1 + x * x) ** 0.7,
    "atan": ops.atan,
    "erf": ops.erf,
    "expm1": lambda x: ops.expm1(ops.sin(x)),
    "softplus": ops.softplus,
    "silu": ops.silu,
    "abs": lambda x: ops.abs(x - 0.217),
    "relu": lambda x: ops.relu(x + 0.113),
    "stop": lambda x: x * phix.stop_gradient(2.0),
}
BINARY: dict[str, Function] = {
    "add": lambda x, y: 0.6 * x + y,
    "subtract": lambda x, y: x - 0.7 * y,
    "multiply": lambda x, y: x * ops.tanh(y),
    "divide": lambda x, y: x / (1.2 + y * y),
    "atan2": lambda x, y: ops.atan2(x, 1.5 + y * y),
    "power": lambda x, y: ops.elementwise_pow(1.3 + ops.sin(x), ops.tanh(y)),
    "maximum": lambda x, y: ops.maximum(x, 0.9 * y + 0.0717),
    "minimum": lambda x, y: ops.minimum(x, 0.8 * y - 0.0531),
    "where": lambda x, y: ops.where(x > 0.1931, x, ops.sin(y)),
}


def choose(rng: np.random.Generator, items: Any) -> Any:
    items = list(items)
    return items[int(rng.integers(len(items)))]


def piece(rng: np.random.Generator, arity: int) -> tuple[str, Function]:
    """A random composition of one or two elementwise functions, of ``arity`` tensors."""
    outer, inner = choose(rng, UNARY), choose(rng, UNARY)
    f, g = UNARY[outer], UNARY[inner]
    if arity == 1:
        return f"{outer}.{inner}", lambda x: f(0.8 * g(x) + 0.1 * x)
    both = choose(rng, BINARY)
    h = BINARY[both]
    return f"{outer}.{both}.{inner}", lambda x, y: f(h(g(x), y))


# -- steps: each reads tensors made before and gives a new one -------------------------------------
Step = Callable[[np.random.Generator, Sequence[tuple[int, ...]]], Any]
STEPS: dict[str, Step] = {}


def step(maker: Step) -> Step:
    STEPS[maker.__name__.removesuffix("_step")] = maker
    return maker


def pick(rng: np.random.Generator, shapes: Any, fits: Callable[[Any], bool] = bool) -> int | None:
    """The number of a tensor whose shape fits, latest ones more likely."""
    found = [i for i, s in enumerate(shapes) if fits(s)]
    if not found:
        return None
    return found[-1] if rng.random() < 0.6 else int(choose(rng, found))


def anything(shape: Any) -> bool:
    return True


@step
def unary_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, anything)
    name, f = piece(rng, 1)
    return name, [i], f


@step
def binary_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, anything)
    j = pick(rng, shapes, lambda s: s in ((), shapes[i], shapes[i][1:]))
    name, f = piece(rng, 2)
    return name, [i, j], f


@step
def matmul_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, lambda s: len(s) == 2)
    if i is None:
        return None
    j = pick(rng, shapes, lambda s: len(s) > 0 and s[0] == shapes[i][1])
    if j is not None:
        return "matmul", [i, j], lambda x, y: ops.tanh(ops.matmul(x, y))
    return "gram", [i], lambda x: ops.sin(ops.matmul(x, x, False, True))


@step
def solve_step(rng: Any, shapes: Any) -> Any:
    """A linear system, or what else is made of the factors of a regular matrix."""
    i = pick(rng, shapes, lambda s: len(s) == 2)
    if i is None:
        return None
    n, lower = shapes[i][0], bool(rng.random() < 0.5)
    j = pick(rng, shapes, lambda s: len(s) > 0 and s[0] == n)

    def regular(x: Any) -> Any:
        return ops.tanh(ops.matmul(x, x, False, True)) + (n + 1.0) * np.eye(n)

    kinds: dict[str, Function] = {
        "inverse": lambda x: n * ops.inverse(regular(x)),
        "slogdet": lambda x: ops.slogdet_v2(regular(x))[1],
        "det": lambda x: ops.tanh(ops.det(regular(x) / (n + 1.0))),
        "cholesky": lambda x: ops.cholesky(regular(x), lower) - 1.0,
    }
    if j is not None and rng.random() < 0.6:
        return "solve", [i, j], lambda x, y: 2.0 * ops.solve(regular(x), y, lower)
    name = choose(rng, kinds)
    return name, [i], kinds[name]


@step
def reduction_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    if i is None:
        return None
    axis, keep = int(rng.integers(len(shapes[i]))), bool(rng.random() < 0.5)
    name = choose(rng, ["sum", "mean", "max", "logsumexp", "prod"])
    reduce = getattr(ops, name)
    if keep and name not in ("prod",):
        return f"{name} keepdim", [i], lambda x: x - ops.tanh(reduce(x, axis, keepdim=True))
    return name, [i], lambda x: ops.tanh(reduce(x, axis))


@step
def softmax_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    return None if i is None else ("softmax", [i], lambda x: ops.softmax(2.0 * x, -1))


@step
def cumulative_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    return None if i is None else ("cumsum", [i], lambda x: ops.sin(ops.cumsum(x, 0)))


@step
def sort_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    weights = np.array([0.3, -0.7, 1.1])
    return None if i is None else ("sort", [i], lambda x: ops.sort(x, -1) * weights[: x.shape[-1]])


@step
def index_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    if i is None:
        return None
    rows = rng.integers(0, shapes[i][0], 3)
    k = int(rows[0])
    kinds: dict[str, Function] = {
        "row": lambda x: x[k],
        "gather": lambda x: x[rows],
        "reversed": lambda x: x[::-1] * 0.9,
        "set": lambda x: x.at[k].set(ops.sin(x[0])),
        "add at": lambda x: x.at[rows].add(ops.tanh(x[rows])),
        "roll": lambda x: ops.concat([x[1:], x[:1]], 0),
        "transposed": lambda x: x.T,
        "dynamic": lambda x: x[ops.argmax(x, 0)] if x.ndim == 1 else x[-1],
    }
    name = choose(rng, kinds)
    return name, [i], kinds[name]


@step
def stack_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, lambda s: len(s) == 1)
    return None if i is None else ("stack", [i], lambda x: ops.stack([x, ops.cos(x)], 0))


# -- control flow ----------------------------------------------------------------------------------
@step
def scan_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    if i is None:
        return None
    j = pick(rng, shapes, lambda s: s in ((), shapes[i][1:]))
    carry, (name, f), (_, g) = shapes[i][1:], piece(rng, 2), piece(rng, 1)
    reverse, last = bool(rng.random() < 0.3), bool(rng.random() < 0.5)

    def run(x: Any, *closed: Any) -> Any:
        w = closed[0] if closed else 0.7

        def body(c: Any, row: Any) -> Any:
            new = ops.tanh(f(c * w, row))
            return new, g(new) + row

        final, ys = phix.scan(body, np.full(carry, 0.2), x, reverse=reverse)
        return final if last else ys

    return f"scan({name})", [i] if j is None else [i, j], run


@step
def fori_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, anything)
    (name, f), count = piece(rng, 2), int(rng.integers(0, 4))
    dynamic = bool(rng.random() < 0.5)

    def run(x: Any) -> Any:
        upper = ops.full((), count, "int64") if dynamic else count
        return phix.fori_loop(
            0, upper, lambda i, v: f(v, x) + 0.1 * ops.cast(i, "float64"), 0.5 * x
        )

    return f"fori[{count}{', dynamic' if dynamic else ''}]({name})", [i], run


@step
def while_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, anything)
    name, f = piece(rng, 1)

    def run(x: Any) -> Any:
        def unfinished(state: Any) -> Any:
            k, _, total = state
            return ops.logical_and(k < 4, total < 1.317)

        def advance(state: Any) -> Any:
            k, v, total = state
            new = f(v) + 0.2 * x
            return k + 1, new, total + ops.mean(new * new)

        start = (ops.full((), 0, "int64"), x, ops.mean(x * x))
        return phix.while_loop(unfinished, advance, start)[1]

    return f"while({name})", [i], run


@step
def nested_step(rng: Any, shapes: Any) -> Any:
    """A loop whose length is found at run time inside a branch, a scan or another loop."""
    i = pick(rng, shapes, anything)
    name, f = piece(rng, 1)
    bound = float(rng.normal()) * 0.3

    def inner(x: Any, most: Any) -> Any:
        start = (ops.full((), 0, "int64"), x)
        more = lambda s: ops.logical_and(s[0] < most, ops.mean(s[1] * s[1]) < 1.317)  # noqa: E731
        return phix.while_loop(more, lambda s: (s[0] + 1, f(s[1]) + 0.2), start)[1]

    def looped(x: Any) -> Any:
        twice = ops.full((), 2, "int64")
        return phix.fori_loop(0, twice, lambda i, v: inner(v, i + 1) * 0.9, x)

    kinds: dict[str, Function] = {
        "branch": lambda x: phix.cond(ops.mean(x) > bound, lambda v: inner(v, 3), ops.tanh, x),
        "scan": lambda x: phix.scan(
            lambda c, n: (inner(c, n) + 0.1 * x, None), x, np.array([2, 0, 3])
        )[0],
        "loop": looped,
    }
    outer = choose(rng, kinds)
    return f"while in {outer}({name})", [i], kinds[outer]


@step
def cond_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, anything)
    j = pick(rng, shapes, lambda s: s in ((), shapes[i]))
    (name, f), (other, g) = piece(rng, 1), piece(rng, 2)
    bound = float(rng.normal()) * 0.3

    def run(x: Any, *closed: Any) -> Any:
        y = closed[0] if closed else 0.4
        return phix.cond(ops.mean(x) > bound, f, lambda v: g(v, y), x)

    return f"cond({name}, {other})", [i] if j is None else [i, j], run


@step
def switch_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes, anything)
    made = [piece(rng, 1) for _ in range(3)]

    def run(x: Any) -> Any:
        which = ops.cast(ops.floor(1.5 + ops.mean(x)), "int64")
        return phix.switch(which, [f for _, f in made], x)

    return "switch(" + ", ".join(n for n, _ in made) + ")", [i], run


@step
def derivative_step(rng: Any, shapes: Any) -> Any:
    """A derivative taken inside the program."""
    i = pick(rng, shapes, anything)
    name, f = piece(rng, 1)
    if rng.random() < 0.5:
        return f"grad({name})", [i], phix.grad(lambda x: ops.sum(f(x)))
    return f"jvp({name})", [i], lambda x: phix.jvp(f, (x,), (ops.cos(x),))[1]


@step
def map_step(rng: Any, shapes: Any) -> Any:
    i = pick(rng, shapes)
    if i is None:
        return None
    name, f = piece(rng, 2)
    return f"vmap({name})", [i], lambda x: phix.vmap(lambda row: f(row, ops.mean(x)))(x)


# -- programs --------------------------------------------------------------------------------------
def _array(x: Any) -> Any:
    """NumPy's scalars, which 0-d arithmetic gives, as arrays."""
    return np.asarray(x) if isinstance(x, np.generic) else x


@dataclass
class Program:
    """A random function of a few tensors to one tensor."""

    shapes: list[tuple[int, ...]]
    steps: list[tuple[str, list[int], Function]] = field(default_factory=list)

    def __call__(self, *inputs: Any) -> Any:
        values = [phix.Tensor(x) if isinstance(x, np.ndarray) else x for x in map(_array, inputs)]
        used: set[int] = set()
        for _, numbers, function in self.steps:
            used.update(numbers)
            values.append(function(*(values[n] for n in numbers)))
        out = values[-1]
        for number, value in enumerate(values[:-1]):
            if number not in used:
                out = out + 0.3 * ops.mean(value)
        return out

    def __str__(self) -> str:
        start = len(self.shapes)
        lines = [f"inputs {self.shapes}"]
        lines += [f"v{start + n} = {s} of {of}" for n, (s, of, _) in enumerate(self.steps)]
        return "\n".join(lines)


def draw_program(rng: np.random.Generator) -> Program:
    count = int(rng.integers(1, 4))
    program = Program([choose(rng, SHAPES) for _ in range(count)])
    shapes: list[Any] = list(program.shapes)
    wanted = int(rng.integers(2, 5))
    while len(program.steps) < wanted:
        made = STEPS[choose(rng, STEPS)](rng, shapes)
        if made is None:
            continue
        name, numbers, function = made
        spec = phix.eval_shape(function, *(phix.spec(shapes[n], "float64") for n in numbers))
        program.steps.append((name, numbers, function))
        shapes.append(tuple(spec.dims))
    return program


# -- transformations: each makes of f a function of the same inputs, and checks itself -------------
@dataclass
class Draw:
    """What transformations share: the inputs, and directions to go along."""

    rng: np.random.Generator
    inputs: list[np.ndarray]
    spare: int  # how much higher orders of derivative may still get than one a transformation

    def direction(self) -> list[np.ndarray]:
        return [self.rng.normal(size=x.shape) for x in self.inputs]


class Mismatch(Exception):
    """A transformation gave something else than it should."""


def array(x: Any) -> np.ndarray:
    return np.asarray(x)


def compare(found: Any, wanted: np.ndarray, error: Any, what: str) -> None:
    """``found`` must be ``wanted`` within ``error`` and a relative 1e-6."""
    found = array(found)
    if found.shape != wanted.shape:
        raise Mismatch(f"{what}: shape {found.shape}, should be {wanted.shape}")
    scale = 1.0 + (np.abs(wanted).max() if wanted.size else 0.0)
    off = np.abs(found - wanted)
    if not np.all(off <= 20 * error + 1e-6 * scale):
        raise Mismatch(
            f"{what}: off by {np.nanmax(off):.3g} (error of the reference {np.max(error):.3g})\n"
            f"found {found}\nshould be {wanted}"
        )


def differences(f: Function, x: Sequence[Any], v: Sequence[Any]) -> tuple[Any, Any] | None:
    """The derivative of ``f`` at ``x`` along ``v`` and its error; None where it is not smooth."""

    def slope(h: float) -> tuple[np.ndarray, Any]:
        ahead = array(f(*(a + h * b for a, b in zip(x, v))))
        back = array(f(*(a - h * b for a, b in zip(x, v))))
        return (ahead - back) / (2 * h), 1e-13 * (1 + np.abs(ahead)) / h

    (coarse, _), (fine, rounding) = slope(1e-3), slope(5e-4)
    change = np.abs(fine - coarse)
    if np.any(change > 1e-4 * (1 + np.abs(fine).max(initial=0.0))):
        return None
    return (4 * fine - coarse) / 3, 0.02 * change + rounding


Transformation = Callable[[Function, Draw], tuple[Function, Callable[[], bool]]]
TRANSFORMATIONS: dict[str, Transformation] = {}


def transformation(maker: Transformation) -> Transformation:
    TRANSFORMATIONS[maker.__name__.removesuffix("_of")] = maker
    return maker


def same(f: Function, g: Function, draw: Draw, what: str) -> Callable[[], bool]:
    def check() -> bool:
        compare(g(*draw.inputs), array(f(*draw.inputs)), 1e-9, what)
        return True

    return check


@transformation
def jit_of(f: Function, draw: Draw) -> Any:
    g = phix.jit(f)
    return g, same(f, g, draw, "jit")


@transformation
def checkpoint_of(f: Function, draw: Draw) -> Any:
    g = phix.checkpoint(f)
    return g, same(f, g, draw, "checkpoint")


@transformation
def grad_of(f: Function, draw: Draw) -> Any:
    place = int(draw.rng.integers(len(draw.inputs)))
    phase = float(draw.rng.normal())

    def scalar(*x: Any) -> Any:
        y = f(*x)
        return ops.sum(y * (1.0 + 0.3 * phase)) + 0.1 * ops.sum(y * y)

    g = phix.grad(scalar, argnums=place)
    v = [d if i == place else 0 * d for i, d in enumerate(draw.direction())]

    def check() -> bool:
        reference = differences(scalar, draw.inputs, v)
        found = array(g(*draw.inputs))
        if reference is not None:
            compare(np.sum(found * v[place]), reference[0], reference[1], "grad")
        return reference is not None

    return g, check


def along(make: Callable[[Function, Any, Any], Any], what: str) -> Transformation:
    """A derivative along a direction, to be compared with differences of f."""

    def of(f: Function, draw: Draw) -> Any:
        v = draw.direction()

        def g(*x: Any) -> Any:
            return make(f, x, v)

        def check() -> bool:
            reference = differences(f, draw.inputs, v)
            found = g(*draw.inputs)
            if reference is not None:
                compare(found, *reference, what)
            return reference is not None

        return g, check

    return of


TRANSFORMATIONS["jvp"] = along(lambda f, x, v: phix.jvp(f, tuple(x), tuple(v))[1], "jvp")
TRANSFORMATIONS["linearize"] = along(lambda f, x, v: phix.linearize(f, *x)[1](*v), "linearize")


@transformation
def jet_of(f: Function, draw: Draw) -> Any:
    order = 1 + int(draw.rng.integers(0, min(2, draw.spare) + 1))
    draw.spare -= order - 1
    v, w = draw.direction(), [0.5 * d for d in draw.direction()]

    def series(f: Function, x: Any, order: int) -> Any:
        rows = tuple([a, b, None][:order] for a, b in zip(v, w))
        return phix.jet(f, tuple(x), rows)[1][order - 1]

    def g(*x: Any) -> Any:
        return series(f, x, order)

    def check() -> bool:
        """d^n/dt^n f(x + t v + t^2/2 w): the derivative at t of the one of order n - 1."""

        def lower(t: Any) -> Any:
            t = float(t)
            at = [a + t * b + t * t / 2 * c for a, b, c in zip(draw.inputs, v, w)]
            rows = tuple([b + t * c, c, None][: order - 1] for b, c in zip(v, w))
            return phix.jet(f, tuple(at), rows)[1][-1] if order > 1 else f(*at)

        reference = differences(lower, [np.array(0.0)], [np.array(1.0)])
        found = g(*draw.inputs)
        if reference is not None:
            compare(found, *reference, f"jet of order {order}")
        return reference is not None

    return g, check


@transformation
def vmap_of(f: Function, draw: Draw) -> Any:
    scales = 1.0 + 0.2 * draw.rng.normal(size=3)
    mapped = [bool(draw.rng.random() < 0.7) for _ in draw.inputs]
    mapped[int(draw.rng.integers(len(mapped)))] = True
    axes = [int(draw.rng.integers(x.ndim + 1)) if m else None for x, m in zip(draw.inputs, mapped)]

    def g(*x: Any) -> Any:
        lanes = [
            a if axis is None else ops.stack([a * s for s in scales], axis)
            for a, axis in zip(x, axes)
        ]
        return phix.vmap(f, in_axes=tuple(axes))(*lanes)

    def check() -> bool:
        lanes = [
            array(f(*(a * s if m else a for a, m in zip(draw.inputs, mapped)))) for s in scales
        ]
        compare(g(*draw.inputs), np.stack(lanes), 1e-9, "vmap")
        return True

    return g, check


# -- draws -----------------------------------------------------------------------------------------
@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    seed: int
    program: Program
    stack: list[str]
    checked: int = 0
    error: str = ""

    def report(self) -> str:
        lines = [f"seed {self.seed}: {' of '.join(reversed(self.stack))} of", str(self.program)]
        specs = [phix.spec(s, "float64") for s in self.program.shapes]
        return "\n".join([*lines, str(phix.make_graph(self.program)(*specs)), self.error])


OPTIMISED = 4  # LLVM does all it can for one seed in so many: transformations are what is drawn


def run_draw(seed: int) -> Outcome:
    """The program and the stack of a seed, every level of the stack checked."""
    with unoptimised() if seed % OPTIMISED else nullcontext():
        return _run(seed)


def _run(seed: int) -> Outcome:
    rng = seeded(seed)
    program = draw_program(rng)
    stack = [str(choose(rng, TRANSFORMATIONS)) for _ in range(int(rng.integers(1, 5)))]
    outcome = Outcome(seed, program, stack)
    spare = MOST_ORDERS - len([t for t in stack if t not in ("jit", "checkpoint", "vmap")])
    draw = Draw(rng, [rng.normal(size=s) * 0.8 for s in program.shapes], spare)
    function: Function = program
    try:
        for name in stack:
            function, check = TRANSFORMATIONS[name](function, draw)
            outcome.checked += check()
    except Mismatch as error:
        outcome.error = str(error)
    except Exception:
        outcome.error = traceback.format_exc()
    return outcome


def count(outcomes: list[Outcome]) -> str:
    levels = sum(len(o.stack) for o in outcomes)
    checked = sum(o.checked for o in outcomes)
    return f"{levels} transformations, {checked} compared, the others not smooth there"


if __name__ == "__main__":
    known_pulls.ENOUGH = 2  # as after many calls
    sys.exit(draws.main(__doc__, "programs", run_draw, count))
