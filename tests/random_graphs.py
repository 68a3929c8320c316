"""Random graphs: compiled, run op by op, and in NumPy.

``python -m tests.random_graphs --count 2000 --seed 0`` draws that many, from seeds 0, 1, ..., and
prints the seed of each that goes wrong, shrunk: steps that do not matter are left out, and their
values become inputs. Every graph runs eagerly, compiled, compiled for dims it does not know,
compiled for strided inputs, and with all rewrites switched off.

NumPy computes each graph twice: in its own dtypes and in wider ones. Their difference says how far
rounding may carry a result. Steps that jump (comparisons, floor, argmax) read *exact* values
alone, those no rounding has touched, so that a result is never a matter of luck.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import special

import phix
from phix import ops
from tests import draws
from tests.machine_code import unoptimised

Function = Callable[..., Any]
FLOATS = ("float32", "float64", "float16")
COMPLEX = ("complex64", "complex128")
INTS = ("int32", "int64", "uint8")
DTYPES = (
    ("float32",) * 4 + ("float64",) * 2 + ("float16", "int32", "int64", "uint8", "bool", *COMPLEX)
)
WIDE: dict[str, Any] = {
    "float16": np.float64, "float32": np.float64, "float64": np.longdouble,
    "complex64": np.complex128, "complex128": np.clongdouble,
}  # fmt: skip
TOLERANCE = {"float16": 2e-2, "float32": 3e-5, "complex64": 3e-5}
LARGEST = 400  # elements of a value


@dataclass
class Node:
    """One value: an input, or a step that reads earlier ones, in phix and in NumPy."""

    text: str
    value: np.ndarray
    exact: bool = True
    reads: tuple[int, ...] = ()
    run: Function | None = None
    reference: Function | None = None
    wide: np.ndarray | None = None  # in wider dtypes
    scale: float = 0.0  # the largest finite number in it and in what it reads
    tolerance: float = 0.0  # of the coarsest rounding on the way to it, relative to the scale

    @property
    def dtype(self) -> str:
        return self.value.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


@dataclass
class Program:
    """Nodes in order; ``outputs`` are their numbers. ``unknown`` is the size that dims hide."""

    nodes: list[Node] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    unknown: int = 0

    @property
    def inputs(self) -> list[np.ndarray]:
        return [n.value for n in self.nodes if n.run is None]

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        rest = iter(inputs)
        values: list[Any] = []
        for node in self.nodes:
            new = next(rest) if node.run is None else node.run(*(values[i] for i in node.reads))
            values.append(new)
        return tuple(values[i] for i in self.outputs)

    def expected(self) -> Iterator[Node]:
        """The outputs in NumPy, in both precisions."""
        for i in self.outputs:
            yield self.nodes[i]

    def __str__(self) -> str:
        lines = [
            f"v{i}: {n.dtype}{list(n.shape)} = {n.text}"
            + (f" of {', '.join(f'v{r}' for r in n.reads)}" if n.run else "")
            for i, n in enumerate(self.nodes)
        ]
        return "\n".join([*lines, "return " + ", ".join(f"v{i}" for i in self.outputs)])


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(WIDE.get(x.dtype.name, x.dtype))


class Widen:
    """What references ask for a dtype: their own, or in the wide run the wider one."""

    active = False

    @classmethod
    def dtype(cls, name: str) -> Any:
        return WIDE.get(name, name) if cls.active else name


def computed(node: Node, values: Sequence[Node]) -> Node:
    """The node with its values in NumPy."""
    assert node.reference is not None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        plain = np.asarray(node.reference(*(values[i].value for i in node.reads)))
        Widen.active = True
        try:
            wide = node.reference(
                *(v.value if v.wide is None else v.wide for v in (values[i] for i in node.reads))
            )
        finally:
            Widen.active = False
    scale = max(_largest(wide), *(_largest(values[i].value) for i in node.reads))
    rounding = TOLERANCE.get(plain.dtype.name, 1e-9)
    tolerance = max(rounding, *(values[i].tolerance for i in node.reads))
    return replace(node, value=plain, wide=np.asarray(wide), scale=scale, tolerance=tolerance)


def _largest(x: Any) -> float:
    with np.errstate(all="ignore"):
        size = np.abs(np.asarray(x).astype(WIDE["complex128"]))
    return float(size[np.isfinite(size)].max(initial=0.0))


# -- drawing -----------------------------------------------------------------------------------
class Draw:
    """What steps are drawn from: a generator, and the nodes made so far."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 31337])
        self.nodes: list[Node] = []

    def choose(self, items: Any) -> Any:
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, fits: Callable[[Node], bool]) -> int | None:
        """The number of a node that fits, later ones more likely."""
        found = [i for i, n in enumerate(self.nodes) if fits(n)]
        if not found:
            return None
        return found[-1] if self.chance(0.5) else int(self.choose(found))

    def input(self) -> Node:
        dtype = self.choose(DTYPES)
        rank = int(self.choose((0, 1, 1, 2, 2, 2, 3)))
        shape = tuple(int(self.choose((1, 2, 3, 3, 4, 5, 5))) for _ in range(rank))
        return Node("input", self.data(dtype, shape))

    def data(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """Multiples of a quarter, or small ints; some floats are NaN, Inf or -0.0."""
        rng = self.rng
        if dtype == "bool":
            return rng.random(shape) < 0.5
        if dtype in INTS:
            return rng.integers(0 if dtype == "uint8" else -20, 21, shape).astype(dtype)
        values = rng.integers(-9, 10, shape) / 4
        if dtype in COMPLEX:
            return np.asarray(values + 1j * rng.integers(-9, 10, shape) / 4).astype(dtype)
        if self.chance(0.3):
            special_values = np.array([np.nan, np.inf, -np.inf, -0.0])
            odd = rng.random(shape) < 0.15
            values = np.where(odd, special_values[rng.integers(4, size=shape)], values)
        return np.asarray(values).astype(dtype)


def is_float(n: Node) -> bool:
    return n.dtype in FLOATS


def is_inexact(n: Node) -> bool:
    return n.dtype in FLOATS or n.dtype in COMPLEX


def is_int(n: Node) -> bool:
    return n.dtype in INTS


def ranked(rank: int) -> Callable[[Node], bool]:
    return lambda n: len(n.shape) >= rank


STEPS: dict[str, Callable[[Draw], Node | None]] = {}


def step(maker: Callable[[Draw], Node | None]) -> Callable[[Draw], Node | None]:
    STEPS[maker.__name__] = maker
    return maker


def made(
    draw: Draw, text: str, reads: Sequence[int], run: Function, reference: Function, exact: bool
) -> Node:
    keeps = exact and all(draw.nodes[i].exact for i in reads)
    return Node(text, np.empty(0), keeps, tuple(reads), run, reference)


# -- elementwise -------------------------------------------------------------------------------
# name -> (phix, NumPy, whether exact values stay exact)
Pair = tuple[Function, Function, bool]
OF_FLOATS: dict[str, Pair] = {
    "sin": (ops.sin, np.sin, False),
    "cos": (ops.cos, np.cos, False),
    "tanh": (ops.tanh, np.tanh, False),
    "atan": (ops.atan, np.arctan, False),
    "asinh": (ops.asinh, np.arcsinh, False),
    "erf": (ops.erf, lambda x: special.erf(x.astype(float)).astype(x.dtype), False),
    "exp": (ops.exp, np.exp, False),
    "expm1": (lambda x: ops.expm1(ops.sin(x)), lambda x: np.expm1(np.sin(x)), False),
    "log": (ops.log, np.log, False),
    "log1p": (lambda x: ops.log1p(ops.abs(x)), lambda x: np.log1p(np.abs(x)), False),
    "sqrt": (ops.sqrt, np.sqrt, False),
    "rsqrt": (lambda x: ops.rsqrt(1.25 + x * x), lambda x: 1 / np.sqrt(1.25 + x * x), False),
    "reciprocal": (ops.reciprocal, lambda x: 1 / x, False),
    "square": (ops.square, np.square, False),
    "cube": (lambda x: ops.tanh(x) ** 3, lambda x: np.tanh(x) ** 3, False),
    "power": (
        lambda x: (0.5 + ops.abs(x)) ** 1.75,
        lambda x: (0.5 + np.abs(x)) ** x.dtype.type(1.75),
        False,
    ),
    "sigmoid": (ops.sigmoid, lambda x: 1 / (1 + np.exp(-x)), False),
    "softplus": (ops.softplus, lambda x: np.logaddexp(x, np.zeros_like(x)), False),
    "affine": (lambda x: 2.0 * x - 0.5, lambda x: 2.0 * x - 0.5, False),
    "negative": (lambda x: -x, np.negative, True),
    "abs": (ops.abs, np.abs, True),
    "relu": (ops.relu, lambda x: np.maximum(x, 0), True),
    "plus zero": (lambda x: x + 0.0, lambda x: x + 0.0, True),
    "times one": (lambda x: 1.0 * x, lambda x: 1.0 * x, True),
    "twice negative": (lambda x: ops.scale(-x, -1.0), lambda x: x, True),
    "clip": (lambda x: ops.clip(x, -1.0, 1.5), lambda x: np.clip(x, -1.0, 1.5), True),
}
OF_COMPLEX: dict[str, Pair] = {
    "sin": (lambda x: ops.sin(0.5 * x), lambda x: np.sin(0.5 * x), False),
    "exp": (lambda x: ops.exp(0.3 * x), lambda x: np.exp(0.3 * x), False),
    "tanh": (lambda x: ops.tanh(0.3 * x), lambda x: np.tanh(0.3 * x), False),
    "square": (ops.square, np.square, False),
    "conj": (ops.conj, np.conj, True),
    "real": (ops.real, np.real, True),
    "imag": (ops.imag, np.imag, True),
    "abs": (ops.abs, np.abs, False),
    "negative": (lambda x: -x, np.negative, True),
}
OF_INTS: dict[str, Pair] = {
    "negative": (lambda x: -x, np.negative, True),
    "abs": (ops.abs, np.abs, True),
    "not": (ops.bitwise_not, np.bitwise_not, True),
    "remainder": (lambda x: x % 7, lambda x: x % 7, True),
    "floor_divide": (lambda x: x // 3, lambda x: x // 3, True),
    "square": (lambda x: x * x, lambda x: x * x, True),
    "shift": (lambda x: ops.bitwise_left_shift(x, 1), lambda x: np.left_shift(x, 1), True),
    "plus": (lambda x: x + 3, lambda x: x + 3, True),
}
# These jump, so they read exact values alone.
JUMPS: dict[str, Pair] = {
    "floor": (ops.floor, np.floor, True),
    "ceil": (ops.ceil, np.ceil, True),
    "trunc": (ops.trunc, np.trunc, True),
    "round": (ops.round, np.round, True),
    "sign": (ops.sign, np.sign, True),
    "isnan": (ops.isnan, np.isnan, True),
    "isfinite": (ops.isfinite, np.isfinite, True),
    "isinf": (ops.isinf, np.isinf, True),
    "remainder": (lambda x: x % 0.75, lambda x: x % 0.75, True),
}
BINARY: dict[str, Pair] = {
    "add": (lambda x, y: x + y, np.add, False),
    "subtract": (lambda x, y: x - y, np.subtract, False),
    "multiply": (lambda x, y: x * y, np.multiply, False),
    "divide": (lambda x, y: x / y, np.divide, False),
    "maximum": (ops.maximum, np.maximum, True),
    "minimum": (ops.minimum, np.minimum, True),
    "fmax": (ops.fmax, np.fmax, True),
    "fmin": (ops.fmin, np.fmin, True),
    "atan2": (ops.atan2, np.arctan2, False),
    "power": (
        lambda x, y: ops.elementwise_pow(0.5 + ops.abs(x), ops.tanh(y)),
        lambda x, y: (0.5 + np.abs(x)) ** np.tanh(y),
        False,
    ),
}
COMPARISONS: dict[str, Pair] = {
    "equal": (ops.equal, np.equal, True),
    "less": (lambda x, y: x < y, np.less, True),
    "greater_equal": (lambda x, y: x >= y, np.greater_equal, True),
    "not_equal": (ops.not_equal, np.not_equal, True),
}
OF_BOOLS: dict[str, Pair] = {
    "and": (ops.logical_and, np.logical_and, True),
    "or": (ops.logical_or, np.logical_or, True),
    "xor": (ops.logical_xor, np.logical_xor, True),
}
OF_TWO_INTS: dict[str, Pair] = {
    **{k: (*BINARY[k][:2], True) for k in ("add", "subtract", "multiply", "maximum", "minimum")},
    "bitwise_and": (ops.bitwise_and, np.bitwise_and, True),
    "bitwise_or": (ops.bitwise_or, np.bitwise_or, True),
    "bitwise_xor": (ops.bitwise_xor, np.bitwise_xor, True),
}


def from_table(draw: Draw, table: dict[str, Pair], reads: Sequence[int]) -> Node:
    name = draw.choose(table)
    run, reference, exact = table[name]
    return made(draw, name, reads, run, reference, exact)


@step
def unary(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: n.dtype != "bool")
    if i is None:
        return None
    n = draw.nodes[i]
    table = OF_FLOATS if is_float(n) else OF_COMPLEX if n.dtype in COMPLEX else OF_INTS
    return from_table(draw, table, [i])


@step
def jump(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: is_float(n) and n.exact)
    return None if i is None else from_table(draw, JUMPS, [i])


def pair(draw: Draw, fits: Callable[[Node], bool]) -> list[int] | None:
    """Two nodes of one dtype that broadcast."""
    i = draw.pick(fits)
    if i is None:
        return None
    first = draw.nodes[i]

    def broadcasts(n: Node) -> bool:
        sizes = list(zip(first.shape[::-1], n.shape[::-1]))
        return fits(n) and n.dtype == first.dtype and all(a == b or 1 in (a, b) for a, b in sizes)

    j = draw.pick(broadcasts)
    assert j is not None
    return [i, j] if draw.chance(0.5) else [j, i]


@step
def binary(draw: Draw) -> Node | None:
    reads = pair(draw, lambda n: True)
    assert reads is not None
    dtype = draw.nodes[reads[0]].dtype
    if dtype in COMPLEX:
        table = {k: BINARY[k] for k in ("add", "subtract", "multiply")}
    else:
        table = BINARY if dtype in FLOATS else OF_TWO_INTS if dtype in INTS else OF_BOOLS
    return from_table(draw, table, reads)


@step
def compare(draw: Draw) -> Node | None:
    reads = pair(draw, lambda n: n.exact and n.dtype not in COMPLEX)
    return None if reads is None else from_table(draw, COMPARISONS, reads)


@step
def where(draw: Draw) -> Node | None:
    k = draw.pick(lambda n: n.dtype == "bool")
    reads = pair(draw, lambda n: True)
    if k is None or reads is None:
        return None
    try:
        np.broadcast_shapes(*(draw.nodes[i].shape for i in (k, *reads)))
    except ValueError:
        return None
    return made(draw, "where", [k, *reads], ops.where, np.where, True)


@step
def cast(draw: Draw) -> Node | None:
    def fits(n: Node) -> bool:
        return n.dtype not in COMPLEX

    i = draw.pick(fits)
    if i is None:
        return None
    n = draw.nodes[i]
    whole = n.dtype in (*INTS, "bool") or (n.exact and bool(np.isfinite(n.value).all()))
    small = bool(np.abs(n.value.astype(float)).max(initial=0) < 100) if whole else False
    names = ["float32", "float64", "float16"]
    if whole and small:
        names += ["int32", "int64", *(["bool"] if n.exact else [])]
    to = draw.choose([*names, *COMPLEX])
    return made(draw, f"cast to {to}", [i], lambda x: ops.cast(x, to),
                lambda x: x.astype(Widen.dtype(to)), to != "float16")  # fmt: skip


# -- reductions and scans ----------------------------------------------------------------------
@step
def reduce(draw: Draw) -> Node | None:
    i = draw.pick(ranked(1))
    if i is None:
        return None
    n = draw.nodes[i]
    rank = len(n.shape)
    axes: Any = draw.choose([None, 0, -1, int(draw.rng.integers(rank)), tuple(range(rank))[:2]])
    keep = draw.chance(0.4)
    options = {"axis": () if axes is None else axes, "keepdim": keep}
    of_numpy = {"axis": axes, "keepdims": keep}
    if n.dtype == "bool":
        name, ours, numpys = draw.choose([("any", ops.any, np.any), ("all", ops.all, np.all)])
        return made(draw, f"{name} {options}", [i], lambda x: ours(x, **options),
                    lambda x: numpys(x, **of_numpy), True)  # fmt: skip
    dtype = "int64" if n.dtype in INTS else n.dtype
    table: dict[str, Pair] = {
        "sum": (
            lambda x: ops.sum(x, dtype=dtype, **options),
            lambda x: np.sum(x, dtype=Widen.dtype(dtype), **of_numpy),
            n.dtype in INTS,
        ),
    }
    if n.dtype not in COMPLEX:
        table["max"] = (lambda x: ops.max(x, **options), lambda x: np.max(x, **of_numpy), True)
        table["min"] = (lambda x: ops.min(x, **options), lambda x: np.min(x, **of_numpy), True)
    if is_float(n):
        table |= {
            "mean": (lambda x: ops.mean(x, **options), lambda x: np.mean(x, **of_numpy), False),
            "var": (
                lambda x: ops.var(x, unbiased=False, **options),
                lambda x: np.var(x, **of_numpy),
                False,
            ),
            "logsumexp": (
                lambda x: ops.logsumexp(x, **options),
                lambda x: np.logaddexp.reduce(x, **of_numpy),
                False,
            ),
            "prod of tanh": (
                lambda x: ops.prod(ops.tanh(x), **options),
                lambda x: np.prod(np.tanh(x), **of_numpy),
                False,
            ),
        }
    if not isinstance(axes, (int, type(None))):
        table.pop("logsumexp", None)  # NumPy reduces one axis at a time
    if axes is None:
        table.pop("logsumexp", None)
    node = from_table(draw, table, [i])
    return replace(node, text=f"{node.text} {options}")


@step
def argument(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: n.exact and len(n.shape) > 0 and n.dtype not in (*COMPLEX, "bool"))
    if i is None:
        return None
    axis = int(draw.rng.integers(len(draw.nodes[i].shape)))
    table: dict[str, Pair] = {
        "argmax": (lambda x: ops.argmax(x, axis), lambda x: np.argmax(x, axis), True),
        "argmin": (lambda x: ops.argmin(x, axis), lambda x: np.argmin(x, axis), True),
        "argsort": (
            lambda x: ops.argsort(x, axis, stable=True)[1],
            lambda x: np.argsort(x, axis, kind="stable"),
            True,
        ),
    }
    return from_table(draw, table, [i])


@step
def sort(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: len(n.shape) > 0 and n.dtype not in (*COMPLEX, "bool"))
    if i is None:
        return None
    axis = int(draw.rng.integers(len(draw.nodes[i].shape)))
    return made(draw, f"sort {axis}", [i], lambda x: ops.sort(x, axis),
                lambda x: np.sort(x, axis), True)  # fmt: skip


@step
def cumulative(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: len(n.shape) > 0 and n.dtype in (*FLOATS, *COMPLEX, "int64"))
    if i is None:
        return None
    n = draw.nodes[i]
    axis = int(draw.rng.integers(len(n.shape)))
    table: dict[str, Pair] = {
        "cumsum": (
            lambda x: ops.cumsum(x, axis),
            lambda x: np.cumsum(x, axis, dtype=x.dtype),
            n.dtype == "int64",
        ),
        "reverse cumsum": (
            lambda x: ops.cumsum(x, axis, reverse=True),
            lambda x: np.flip(np.cumsum(np.flip(x, axis), axis, dtype=x.dtype), axis),
            n.dtype == "int64",
        ),
    }
    if is_float(n):
        table["cumprod"] = (
            lambda x: ops.cumprod(ops.tanh(x), axis),
            lambda x: np.cumprod(np.tanh(x), axis, dtype=x.dtype),
            False,
        )
    return from_table(draw, table, [i])


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax_of(x: np.ndarray) -> np.ndarray:
    """Far below the largest, where the softmax itself is 0."""
    below = x - x.max(-1, keepdims=True)
    return below - np.log(np.exp(below).sum(-1, keepdims=True))


def layer_norm_of(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)


@step
def normalise(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: is_float(n) and len(n.shape) > 0)
    if i is None:
        return None
    table: dict[str, Pair] = {
        "softmax": (lambda x: ops.softmax(x, -1), softmax_of, False),
        "log_softmax": (lambda x: ops.log_softmax(x, -1), log_softmax_of, False),
    }
    last = len(draw.nodes[i].shape) - 1
    if last:
        table["layer_norm"] = (
            lambda x: ops.layer_norm(x, None, None, 1e-3, last),
            layer_norm_of,
            False,
        )
    return from_table(draw, table, [i])


# -- shapes ------------------------------------------------------------------------------------
@step
def rearrange(draw: Draw) -> Node | None:
    i = draw.pick(ranked(1))
    if i is None:
        return None
    shape = draw.nodes[i].shape
    rank = len(shape)
    axis = int(draw.rng.integers(rank))
    perm = [int(k) for k in draw.rng.permutation(rank)]
    shift = int(draw.rng.integers(-3, 4))
    table: dict[str, Pair] = {
        f"transpose {perm}": (
            lambda x: ops.transpose(x, perm), lambda x: np.transpose(x, perm), True),
        f"flip {axis}": (lambda x: ops.flip(x, [axis]), lambda x: np.flip(x, axis), True),
        f"roll {shift} {axis}": (
            lambda x: ops.roll(x, [shift], [axis]), lambda x: np.roll(x, shift, axis), True),
        "flatten": (lambda x: ops.reshape(x, [-1]), lambda x: x.reshape(-1), True),
        "fold": (
            lambda x: ops.reshape(x, [x.shape[0] * (x.shape[1] if rank > 1 else 1), -1]),
            lambda x: x.reshape(shape[0] * (shape[1] if rank > 1 else 1), -1), True),
        "fixed shape": (
            lambda x: ops.reshape(x, [1, *shape]), lambda x: x.reshape(1, *shape), True),
        f"unsqueeze {axis}": (
            lambda x: ops.unsqueeze(x, [axis]), lambda x: np.expand_dims(x, axis), True),
        "expand": (
            lambda x: ops.expand(x, [2, *x.shape]),
            lambda x: np.broadcast_to(x, (2, *shape)), True),
        f"tile {axis}": (
            lambda x: ops.tile(x, [1 + (k == axis) for k in range(rank)]),
            lambda x: np.tile(x, [1 + (k == axis) for k in range(rank)]), True),
        "pad": (
            lambda x: ops.pad(x, [1, 2] + [0, 0] * (rank - 1), 0.0),
            lambda x: np.pad(x, [(1, 2)] + [(0, 0)] * (rank - 1)), True),
    }  # fmt: skip
    if rank == 2:
        table["tril"] = (ops.tril, np.tril, True)
        table["diagonal"] = (ops.diagonal, np.diagonal, True)
    return from_table(draw, table, [i])


@step
def basic_index(draw: Draw) -> Node | None:
    i = draw.pick(ranked(1))
    if i is None:
        return None
    index: list[Any] = []
    for size in draw.nodes[i].shape:
        low = int(draw.rng.integers(0, size))
        kinds = (slice(None), slice(low, None), slice(None, low + 1), slice(None, None, -1), low,
                 slice(None, None, 2), slice(-low - 1, None))  # fmt: skip
        index.append(draw.choose(kinds))
    if draw.chance(0.2):
        index.insert(int(draw.rng.integers(len(index) + 1)), None)
    at = tuple(index)
    return made(draw, f"[{at}]", [i], lambda x: x[at], lambda x: x[at], True)


@step
def gather(draw: Draw) -> Node | None:
    i = draw.pick(ranked(1))
    if i is None:
        return None
    size = draw.nodes[i].shape[0]
    rows = draw.rng.integers(-size, size, int(draw.rng.integers(1, 5)))
    j = draw.pick(lambda n: n.dtype == "int64" and n.value.size > 0)
    if j is not None and draw.chance(0.5):
        return made(draw, "rows by a tensor", [i, j], lambda x, k: x[k % size],
                    lambda x, k: x[k % size], True)  # fmt: skip
    return made(draw, f"rows {rows.tolist()}", [i], lambda x: x[rows], lambda x: x[rows], True)


@step
def scatter(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: len(n.shape) > 0 and n.dtype != "bool")
    if i is None:
        return None
    n = draw.nodes[i]
    size = n.shape[0]
    rows = draw.rng.permutation(size)[: int(draw.rng.integers(1, size + 1))]
    again = draw.rng.integers(0, size, 3)

    def put(x: np.ndarray) -> np.ndarray:
        out = x.copy()
        out[rows] = x[0]
        return out

    def add(x: np.ndarray) -> np.ndarray:
        out = x.copy()
        np.add.at(out, again, x[again])
        return out

    table: dict[str, Pair] = {
        f"set rows {rows.tolist()}": (lambda x: x.at[rows].set(x[0]), put, True),
        f"add to rows {again.tolist()}": (
            lambda x: x.at[again].add(x[again]), add, n.dtype in INTS),
    }  # fmt: skip
    return from_table(draw, table, [i])


@step
def along(draw: Draw) -> Node | None:
    """take_along_axis by an argsort."""
    i = draw.pick(lambda n: n.exact and len(n.shape) > 0 and is_float(n))
    if i is None:
        return None
    return made(
        draw, "take_along_axis", [i],
        lambda x: ops.take_along_axis(x, ops.argsort(x, 0, stable=True)[1], 0),
        lambda x: np.take_along_axis(x, np.argsort(x, 0, kind="stable"), 0), True,
    )  # fmt: skip


@step
def join(draw: Draw) -> Node | None:
    i = draw.pick(ranked(1))
    if i is None:
        return None
    first = draw.nodes[i]
    j = draw.pick(lambda n: n.dtype == first.dtype and n.shape[1:] == first.shape[1:]
                  and len(n.shape) == len(first.shape))  # fmt: skip
    assert j is not None
    if draw.nodes[j].shape == first.shape and draw.chance(0.4):
        return made(draw, "stack", [i, j], lambda x, y: ops.stack([x, y], 1),
                    lambda x, y: np.stack([x, y], 1), True)  # fmt: skip
    return made(draw, "concat", [i, j], lambda x, y: ops.concat([x, y], 0),
                lambda x, y: np.concatenate([x, y], 0), True)  # fmt: skip


@step
def matmul(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: is_inexact(n) and len(n.shape) > 0)
    if i is None:
        return None
    first = draw.nodes[i]
    j = draw.pick(
        lambda n: n.dtype == first.dtype and 0 < len(n.shape) <= 2 and n.shape[0] == first.shape[-1]
    )
    if j is not None:
        return made(draw, "matmul", [i, j], ops.matmul, np.matmul, False)
    if len(first.shape) < 2:
        return None
    return made(draw, "gram", [i], lambda x: ops.matmul(x, x, False, True),
                lambda x: x @ np.swapaxes(x, -1, -2), False)  # fmt: skip


# -- control flow ------------------------------------------------------------------------------
@step
def control(draw: Draw) -> Node | None:
    i = draw.pick(lambda n: is_float(n) and len(n.shape) > 0)
    if i is None:
        return None
    count = int(draw.rng.integers(0, 4))

    def scanned(x: np.ndarray) -> np.ndarray:
        c, rows = x[0], []
        for row in x:
            c = np.tanh(c * row + 0.5)
            rows.append(c)
        return np.stack(rows)

    def repeated(x: np.ndarray) -> np.ndarray:
        v = x
        for _ in range(count):
            v = np.sin(v) + 0.5 * x
        return v

    def body(c: Any, row: Any) -> Any:
        new = ops.tanh(c * row + 0.5)
        return new, new

    table: dict[str, Pair] = {
        "scan": (lambda x: phix.scan(body, x[0], x)[1], scanned, False),
        f"fori {count}": (
            lambda x: phix.fori_loop(0, count, lambda k, v: ops.sin(v) + 0.5 * x, x),
            repeated, False),
    }  # fmt: skip
    if draw.nodes[i].exact:
        table["cond"] = (
            lambda x: phix.cond(ops.any(x > 1.0), lambda v: 2.0 * v, ops.abs, x),
            lambda x: 2.0 * x if (x > 1.0).any() else np.abs(x),
            False,
        )
    return from_table(draw, table, [i])


# -- programs ----------------------------------------------------------------------------------
def draw_program(seed: int) -> Program:
    """The program of a seed."""
    draw = Draw(seed)
    for _ in range(int(draw.rng.integers(1, 4))):
        draw.nodes.append(draw.input())
    wanted = len(draw.nodes) + int(draw.rng.integers(4, 19))
    while len(draw.nodes) < wanted:
        node = STEPS[draw.choose(STEPS)](draw)
        if node is None:
            continue
        node = computed(node, draw.nodes)
        if node.value.size <= LARGEST and len(node.shape) <= 4:
            draw.nodes.append(node)
    steps = [i for i, n in enumerate(draw.nodes) if n.run is not None]
    outputs = {steps[-1], *(int(draw.choose(steps)) for _ in range(int(draw.rng.integers(0, 4))))}
    sizes = [s for n in draw.nodes if n.run is None for s in n.shape]
    program = Program(draw.nodes, tuple(sorted(outputs)), int(draw.choose(sizes)) if sizes else 0)
    return pruned(program)


def pruned(program: Program) -> Program:
    """The program without nodes that no output needs."""
    needed = set(program.outputs)
    for i in range(len(program.nodes) - 1, -1, -1):
        if i in needed:
            needed.update(program.nodes[i].reads)
    number = {old: new for new, old in enumerate(sorted(needed))}
    nodes = [program.nodes[i] for i in sorted(needed)]
    nodes = [replace(n, reads=tuple(number[r] for r in n.reads)) for n in nodes]
    return replace(program, nodes=nodes, outputs=tuple(number[o] for o in program.outputs))


# -- checking ----------------------------------------------------------------------------------
def difference(found: Any, node: Node) -> str:
    """How a result differs from NumPy's; "" where it does not."""
    found, wanted = np.asarray(found), node.value
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind not in "fc" or node.exact:
        same = np.array_equal(found, wanted, equal_nan=wanted.dtype.kind in "fc")
        return "" if same else f"{found.tolist()}\nnot {wanted.tolist()}"
    wide = wanted if node.wide is None else node.wide
    with np.errstate(all="ignore"):
        near = _near(found, wanted, node) | _near(found, wide, node)
    return "" if near.all() else f"{found.tolist()}\nnot {wanted.tolist()}"


def _near(found: np.ndarray, wanted: np.ndarray, node: Node) -> np.ndarray:
    """Where a result is what is wanted, within what rounding may do."""
    lost = node.value - node.wide
    rounding = np.max(np.abs(lost[np.isfinite(lost)]), initial=0.0)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    near = np.abs(found - wanted) <= node.tolerance * node.scale + 30 * rounding
    return np.asarray(same | near)


def strided(x: np.ndarray, seed: int) -> np.ndarray:
    """The same values in memory of another order."""
    if x.ndim == 0:
        return x
    if seed % 2:
        return np.asfortranarray(x)
    return np.repeat(x, 2, axis=-1)[..., ::2]


def unknown_specs(program: Program) -> list[Any]:
    """Specs of the inputs in which every dim of one size has a name."""
    return [
        phix.spec(["n" if s == program.unknown and s > 1 else s for s in x.shape], x.dtype.name)
        for x in program.inputs
    ]


NO_REWRITES = "jit, no rewrites"
REFERENCES = ("eager", NO_REWRITES)  # not about what LLVM's optimiser makes of programs


def variants(program: Program, seed: int) -> Iterator[tuple[str, Function]]:
    """The ways to run a program; each gives its outputs."""
    inputs = program.inputs
    jitted = phix.jit(program)
    yield "eager", lambda: program(*map(phix.to_tensor, inputs))
    yield "jit", lambda: jitted(*inputs)
    yield "jit, strided inputs", lambda: jitted(*(strided(x, seed) for x in inputs))
    switches = [p.name for p in phix.debug.passes()]
    yield NO_REWRITES, lambda: phix.jit(program, disable=switches)(*inputs)
    generic = phix.jit(program, input_spec=unknown_specs(program))
    yield "jit, unknown dims", lambda: generic(*inputs)


def analyse(program: Program) -> None:
    """Cost, memory and fusion of a program must be told without an error."""
    lowered = phix.jit(program).lower(*program.inputs)
    assert str(lowered.fusion()) and str(lowered.memory_analysis())
    assert int(lowered.cost_analysis().bytes_written) >= 0


def check(program: Program, seed: int) -> tuple[str, bool]:
    """What is wrong with a program, "" where nothing is; and whether unknown dims took part."""
    generic = True
    for name, run in variants(program, seed):
        try:
            with unoptimised() if name in REFERENCES else nullcontext():
                results = run()
        except phix.errors.PhixError as error:
            if name != "jit, unknown dims":
                return f"{name}: {type(error).__name__}: {error}", False
            generic = False  # it needs a size while tracing
            continue
        except Exception:
            return f"{name}: {traceback.format_exc()}", False
        for number, (found, node) in enumerate(zip(results, program.expected())):
            wrong = difference(found, node)
            if wrong:
                return f"{name}, output {number}: {wrong}", generic
    try:
        analyse(program)
    except Exception:
        return f"analysis: {traceback.format_exc()}", generic
    return "", generic


def shrunk(program: Program, seed: int) -> Program:
    """A smaller program that goes wrong as well: outputs and steps left out as long as it does."""
    for output in program.outputs:
        one = pruned(replace(program, outputs=(output,)))
        if check(one, seed)[0]:
            program = one
            break
    at = 0
    while at < len(program.nodes):
        node = program.nodes[at]
        if node.run is not None and at not in program.outputs:
            plain = Node("input", node.value, node.exact)
            nodes = [*program.nodes[:at], plain, *program.nodes[at + 1 :]]
            fewer = pruned(recomputed(replace(program, nodes=nodes)))
            if check(fewer, seed)[0]:
                program, at = fewer, 0
                continue
        at += 1
    return program


def recomputed(program: Program) -> Program:
    """The program with what NumPy makes of its inputs as they are now."""
    nodes: list[Node] = []
    for node in program.nodes:
        nodes.append(node if node.run is None else computed(node, nodes))
    return replace(program, nodes=nodes)


@dataclass
class Outcome:
    """One draw, and what went wrong, if anything did."""

    seed: int
    program: Program
    error: str
    is_generic: bool

    def report(self) -> str:
        small = shrunk(self.program, self.seed)
        values = "\n".join(f"input {x.dtype}: {x.tolist()}" for x in small.inputs)
        return f"seed {self.seed}:\n{small}\n{values}\n{check(small, self.seed)[0] or self.error}"


def run_draw(seed: int) -> Outcome:
    """The program of a seed, checked in every way."""
    program = draw_program(seed)
    return Outcome(seed, program, *check(program, seed))


def count(outcomes: list[Outcome]) -> str:
    steps = sum(n.run is not None for o in outcomes for n in o.program.nodes)
    generic = sum(o.is_generic for o in outcomes)
    return f"{steps} steps, {generic} with unknown dims as well, the others need a size"


if __name__ == "__main__":
    sys.exit(draws.main(__doc__, "graphs", run_draw, count))
