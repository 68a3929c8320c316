"""Draws of ops that lay windows over images: convolutions and pools.

One entry of ``CASES`` an op: a function that draws small inputs and all attributes, and says what
NumPy makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phix import ops
from tests.harness.references import windows

Reference = Callable[..., Any]  # arrays -> an array, or one for each output


@dataclass
class Case:
    """A call of an op. ``moving``: how many of the inputs, from the first, have derivatives.

    With ``kinks`` there are no central differences: of maxima of equal numbers, at whole places.
    """

    op: str
    inputs: list[np.ndarray]
    attrs: dict[str, Any]
    expected: Reference | None = None
    moving: int | None = None
    kinks: bool = False
    fixed: tuple[str, ...] = ()  # inputs by name after the first, where some are left out

    def __call__(self, *inputs: Any) -> Any:
        op = getattr(ops, self.op)
        if not self.fixed:
            return op(*inputs, **self.attrs)
        return op(inputs[0], **dict(zip(self.fixed, inputs[1:])), **self.attrs)

    def floats(self) -> list[int]:
        count = len(self.inputs) if self.moving is None else self.moving
        return [k for k, x in enumerate(self.inputs[:count]) if x.dtype.kind == "f"]

    def __str__(self) -> str:
        shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        attrs = "".join(f", {k}={v!r}" for k, v in self.attrs.items())
        return f"ops.{self.op}({shapes}{attrs})"


class Draw:
    """Small numbers, shapes and arrays, all of one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def ints(self, count: int, low: int, high: int) -> list[int]:
        return [self.one(low, high) for _ in range(count)]

    def pick(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape)

    def distinct(self, *shape: int) -> np.ndarray:
        """Numbers that are far from each other, and from 0."""
        size = int(np.prod(shape))
        order = self.rng.permutation(size) - size // 2
        return (0.17 * order + 0.05 + 0.02 * self.rng.random(size)).reshape(shape)

    def image(self, size: Sequence[int], channels: int, is_last: bool) -> tuple[int, ...]:
        n = self.pick(1, 1, 1, 2, 2, 3, 0 if self.one(0, 3) == 0 else 1)
        return (n, *size, channels) if is_last else (n, channels, *size)


CASES: dict[str, Callable[[Draw], Case]] = {}
Maker = Callable[[Draw, str], Case]


def case(*names: str) -> Callable[[Maker], Maker]:
    def keep(maker: Maker) -> Maker:
        for name in names:
            CASES[name] = lambda draw, name=name: maker(draw, name)  # type: ignore[misc]
        return maker

    return keep


def formats(count: int) -> tuple[str, str]:
    return {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[count]


def any_format(draw: Draw, count: int) -> str:
    """One of them; now and then one that names two axes where there are others."""
    return draw.pick(*formats(count), *formats(count), *formats(2))  # type: ignore[no-any-return]


# -- placing windows -------------------------------------------------------------------------------
@dataclass
class Placed:
    """Windows along each axis of images: as attributes, and with all paddings written out."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    algorithm: str
    paddings: list[int]
    pads: list[tuple[int, int]]

    @property
    def sides(self) -> list[int]:
        return [p for pair in self.pads for p in pair]


def same_pads(n: int, k: int, s: int, d: int) -> tuple[int, int]:
    total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
    return total // 2, total - total // 2


def place(draw: Draw, size: Sequence[int], most: int, dilated: bool, within: bool) -> Placed:
    """Windows that fit. ``within``: paddings are smaller than half of the windows, as of pools."""
    count = len(size)
    algorithm = draw.pick("EXPLICIT", "EXPLICIT", "EXPLICIT", "SAME", "SAME", "VALID")
    strides = draw.ints(count, 1, 4)
    dilations = draw.ints(count, 1, draw.pick(1, 2, 3)) if dilated else [1] * count
    two_sided = draw.flag()
    given = [tuple(draw.ints(2, 0, 2)) if two_sided else (draw.one(0, 2),) * 2 for _ in size]
    kernel = []
    for a, n in enumerate(size):
        p, q = given[a] if algorithm == "EXPLICIT" else (0, 0)
        top = most if algorithm == "SAME" else min(most, (n + p + q - 1) // dilations[a] + 1)
        kernel.append(draw.one(1, max(top, 1)))
        if within:
            given[a] = (min(p, kernel[-1] // 2), min(q, kernel[-1] // 2))
            if algorithm != "SAME":
                kernel[-1] = min(kernel[-1], n + sum(given[a]))
    pads = [(0, 0)] * count if algorithm == "VALID" else list(given)
    if algorithm == "SAME":
        pads = [same_pads(*of) for of in zip(size, kernel, strides, dilations)]
    flat = [p for pair in given for p in pair] if two_sided else [p for p, _ in given]
    return Placed(kernel, strides, dilations, algorithm, flat, pads)


# -- convolutions ----------------------------------------------------------------------------------
CONV = {2: windows.conv2d, 3: windows.conv3d}
SPREAD = {2: windows.conv2d_transpose, 3: windows.conv3d_transpose}


def few_or_many(draw: Draw) -> int:
    """Channels; from 16 on, remainders of strides have convolutions of their own."""
    return draw.pick(1, 2, 1, 2, 1, 2, 3, 16)  # type: ignore[no-any-return]


def _conv(draw: Draw, op: str, count: int, depthwise: bool, biased: bool) -> Case:
    size = draw.ints(count, 1, 5 if count == 2 else 3)
    p = place(draw, size, 4 if count == 2 else 3, dilated=True, within=False)
    groups = draw.one(1, 3) if depthwise else draw.pick(1, 1, 2)
    per_group = 1 if depthwise else few_or_many(draw)
    outs = groups * few_or_many(draw)
    form = any_format(draw, count)
    shape = draw.image(size, groups * per_group, form[-1] == "C")
    inputs = [draw.normal(*shape), draw.normal(outs, per_group, *p.kernel)]
    inputs += [draw.normal(outs)] if biased else []
    attrs = {
        "strides": p.strides, "paddings": p.paddings, "padding_algorithm": p.algorithm,
        "dilations": p.dilations, "groups": groups, "data_format": form,
    }  # fmt: skip

    def expected(x: Any, w: Any, bias: Any = 0.0) -> Any:
        whole = formats(count)[form[-1] == "C"]
        found = CONV[count](x, w, p.strides, p.sides, p.dilations, groups, whole)
        return found + _of_channels(bias, count, form)

    return Case(op, inputs, attrs, expected)


def _of_channels(bias: Any, count: int, form: str) -> Any:
    last = form[-1] == "C" or not np.ndim(bias)
    return bias if last else np.reshape(bias, (-1, *[1] * count))


@case("conv2d")
def conv2d(draw: Draw, op: str) -> Case:
    return _conv(draw, op, 2, depthwise=False, biased=False)


@case("conv3d")
def conv3d(draw: Draw, op: str) -> Case:
    return _conv(draw, op, 3, depthwise=False, biased=False)


@case("depthwise_conv2d", "depthwise_conv2d_bias")
def depthwise_conv2d(draw: Draw, op: str) -> Case:
    return _conv(draw, op, 2, depthwise=True, biased=op.endswith("bias"))


@case("depthwise_conv3d_bias")
def depthwise_conv3d(draw: Draw, op: str) -> Case:
    return _conv(draw, op, 3, depthwise=True, biased=True)


def _pad_less(p: Placed, reach: Sequence[int]) -> None:
    """So that one place at least is left of what windows at 0 to ``reach`` are spread over."""
    p.pads = [
        (min(a, most), min(b, most))
        for (a, b), most in zip(
            p.pads, ((r + (k - 1) * d) // 2 for r, k, d in zip(reach, p.kernel, p.dilations))
        )
    ]
    is_short = len(p.paddings) == len(p.pads)
    p.paddings = [a for a, _ in p.pads] if is_short else p.sides


def _spread(draw: Draw, op: str, count: int, depthwise: bool, biased: bool) -> Case:
    size = draw.ints(count, 1, 3 if count == 2 else 2)
    p = place(draw, [n + 1 for n in size], 3, dilated=True, within=False)
    if p.algorithm == "SAME":
        whole = [n * s for n, s in zip(size, p.strides)]
        p.pads = [same_pads(*of) for of in zip(whole, p.kernel, p.strides, p.dilations)]
    if p.algorithm == "EXPLICIT":
        _pad_less(p, [(n - 1) * s for n, s in zip(size, p.strides)])
    groups = draw.one(1, 3) if depthwise else draw.pick(1, 1, 2)
    ins, per_group = groups * (1 if depthwise else few_or_many(draw)), few_or_many(draw)
    form = any_format(draw, count)
    more = [draw.one(0, max(s, d) - 1) for s, d in zip(p.strides, p.dilations)]
    inputs = [draw.normal(*draw.image(size, ins, form[-1] == "C"))]
    inputs += [draw.normal(ins, 1 if depthwise else per_group, *p.kernel)]
    outs = groups * inputs[1].shape[1]
    inputs += [draw.normal(outs)] if biased else []
    asked = draw.pick("none", "padding", "size")
    more = [0] * count if asked == "none" else more
    ends = [
        (n - 1) * s + (k - 1) * d + 1 - b + e
        for n, s, k, d, (_, b), e in zip(size, p.strides, p.kernel, p.dilations, p.pads, more)
    ]
    attrs = {
        "strides": p.strides, "paddings": p.paddings, "padding_algorithm": p.algorithm,
        "dilations": p.dilations, "groups": groups, "data_format": form,
        "output_padding": more if asked == "padding" else [],
        "output_size": [e - a for e, (a, _) in zip(ends, p.pads)] if asked == "size" else [],
    }  # fmt: skip

    def expected(x: Any, w: Any, bias: Any = 0.0) -> Any:
        x = np.moveaxis(x, -1, 1) if form[-1] == "C" else x
        whole = SPREAD[count](x, w, p.strides, [0] * count, [], p.dilations, groups)
        whole = np.pad(whole, [(0, 0)] * 2 + [(0, 8)] * count)
        found = whole[(..., *(slice(a, e) for (a, _), e in zip(p.pads, ends)))]
        found = np.moveaxis(found, 1, -1) if form[-1] == "C" else found
        return found + _of_channels(bias, count, form)

    return Case(op, inputs, attrs, expected)


@case("conv2d_transpose", "conv2d_transpose_bias", "depthwise_conv2d_transpose")
def conv2d_transpose(draw: Draw, op: str) -> Case:
    return _spread(draw, op, 2, depthwise=op[0] == "d", biased=op.endswith("bias"))


@case("conv3d_transpose")
def conv3d_transpose(draw: Draw, op: str) -> Case:
    return _spread(draw, op, 3, depthwise=False, biased=False)


# -- pools -----------------------------------------------------------------------------------------
Spans = list[list[tuple[int, int]]]  # of each axis, the windows


def _sliding(size: Sequence[int], p: Placed, ceil: bool) -> Spans:
    spans = []
    for n, k, s, (a, b) in zip(size, p.kernel, p.strides, p.pads):
        count = (n + a + b - k + (s - 1 if ceil else 0)) // s + 1
        begins = [i * s - a for i in range(count)]
        spans.append([(i, min(i + k, n + b)) for i in begins if not ceil or i < n])
    return spans


def _adaptive(size: Sequence[int], counts: Sequence[int]) -> Spans:
    return [[(i * n // c, -(-(i + 1) * n // c)) for i in range(c)] for n, c in zip(size, counts)]


def _pooled(x: np.ndarray, spans: Spans, value: Callable[[np.ndarray, int], Any]) -> np.ndarray:
    """``value(what lies in a window, how large it is)`` for images [n, c, ...]."""
    out = np.empty((*x.shape[:2], *map(len, spans)))
    for place in np.ndindex(*out.shape):
        window = [span[i] for span, i in zip(spans, place[2:])]
        on = tuple(slice(max(a, 0), b) for a, b in window)
        size = int(np.prod([b - a for a, b in window]))
        out[place] = value(x[place[:2]][on], size)
    return out


def _pool_case(draw: Draw, op: str, count: int, values: Callable[..., Any], **names: Any) -> Case:
    """``values(type, attributes)`` is what a window gives. ``names`` are attributes of the op."""
    size = draw.ints(count, 1, 5 if count == 2 else 3)
    p = place(draw, size, 4 if count == 2 else 3, dilated=False, within=True)
    kind = draw.pick("windows", "windows", "adaptive", "global") if "adaptive" in names else ""
    ceil, form = (
        bool(draw.one(0, 2) == 0),
        any_format(draw, count) if "data_format" in names else "NC",
    )
    if "padding_algorithm" not in names:
        p.algorithm, p.paddings = (
            "EXPLICIT",
            [min(a, k // 2) for (a, _), k in zip(p.pads, p.kernel)],
        )
        p.pads = [(a, a) for a in p.paddings]
        p.kernel = [min(k, n + 2 * a) for k, n, a in zip(p.kernel, size, p.paddings)]
    if ceil and p.algorithm == "EXPLICIT" and draw.flag():  # windows that reach out on both sides
        p.kernel = [k + draw.one(0, s - 1) for k, s in zip(p.kernel, p.strides)]
    drawn = {
        "kernel_size": p.kernel, "strides": p.strides, "paddings": p.paddings, "ceil_mode": ceil,
        "exclusive": draw.flag(), "data_format": form, "padding_algorithm": p.algorithm,
        "pooling_type": draw.pick("max", "avg"), "global_pooling": kind == "global",
        "adaptive": kind == "adaptive", "norm_type": draw.pick(1.0, 1.5, 2.0, 3.0),
    }  # fmt: skip
    attrs = {n: drawn[n] for n in names}
    x = draw.distinct(*draw.image(size, draw.one(1, 2), form[-1] == "C" and len(form) > 2))
    x = np.abs(x) + 0.1 if "norm_type" in names else x
    kinks = "norm_type" not in names and draw.one(0, 5) == 0
    x = draw.rng.integers(0, 3, x.shape) * 0.5 if kinks else x

    def expected(x: Any) -> Any:
        last = len(form) > 2 and form[-1] == "C"
        x = np.moveaxis(x, -1, 1) if last else x
        spans = (
            [[(0, n)] for n in size] if kind == "global"
            else _adaptive(size, p.kernel) if kind == "adaptive"
            else _sliding(size, p, ceil)
        )  # fmt: skip
        found = _pooled(x, spans, values(drawn))
        return np.moveaxis(found, 1, -1) if last else found

    return Case(op, [x], attrs, expected, kinks=kinks)


def _mean(drawn: dict[str, Any]) -> Any:
    return lambda w, size: w.sum() / (w.size if drawn["exclusive"] else size)


def _largest(drawn: dict[str, Any]) -> Any:
    return lambda w, _: w.max()


def _either(drawn: dict[str, Any]) -> Any:
    return (_mean if drawn["pooling_type"] == "avg" else _largest)(drawn)


def _norm(drawn: dict[str, Any]) -> Any:
    p = drawn["norm_type"]
    return lambda w, _: (w**p).sum() ** (1 / p)


WINDOWS = ("kernel_size", "strides", "paddings", "ceil_mode")
PLACED = (*WINDOWS, "data_format", "padding_algorithm")
WHOLE = ("global_pooling", "adaptive")
POOLS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "max_pool": (_largest, PLACED),
    "avg_pool": (_mean, (*PLACED, "exclusive")),
    "pool": (_either, (*PLACED, *WHOLE, "exclusive", "pooling_type")),
    "lp_pool": (_norm, (*PLACED, *WHOLE, "exclusive", "pooling_type", "norm_type")),
    "max_pool_with_index": (_largest, (*WINDOWS, *WHOLE)),
}


@case(
    "max_pool2d", "avg_pool2d", "pool2d", "lp_pool2d", "max_pool2d_with_index",
    "max_pool3d", "avg_pool3d", "pool3d", "max_pool3d_with_index",
)  # fmt: skip
def pool(draw: Draw, op: str) -> Case:
    values, names = POOLS[op.replace("2d", "").replace("3d", "")]
    return _pool_case(draw, op, 2 if "2d" in op else 3, values, **dict.fromkeys(names))


@case("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(draw: Draw, op: str) -> Case:
    count = int(op[-2])
    size = draw.ints(count, 1, 5 if count == 2 else 3)
    outs = [draw.one(1, n) for n in size]
    kernel = [0] * count
    if draw.flag() and all(n > 1 for n in outs):
        kernel = [draw.one(1, n - o + 1) for n, o in zip(size, outs)]
    u = float(draw.rng.uniform(0.02, 0.98))
    x = draw.distinct(draw.one(1, 2), draw.one(1, 2), *size)
    attrs = {"output_size": outs, "kernel_size": kernel, "random_u": u, "return_mask": draw.flag()}
    return Case(op, [x], attrs, lambda x: windows.fractional_maxima(x, outs, kernel, u))


@case("unpool", "unpool3d")
def unpool(draw: Draw, op: str) -> Case:
    three, count = op == "unpool3d", 3 if op == "unpool3d" else 2
    size, kernel, strides = (draw.ints(count, 1, 3) for _ in range(3))
    padding = [draw.one(0, (k - 1) // 2) for k in kernel]
    outs = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(size, strides, padding, kernel)]
    asked = draw.flag() or np.prod(outs) < np.prod(size)
    if asked:
        outs = [draw.one(n, n + 3) for n in size]
    rows = draw.ints(2, 1, 2)
    order = [draw.rng.permutation(np.prod(outs))[: np.prod(size)] for _ in range(np.prod(rows))]
    indices = np.reshape(order, (*rows, *size)).astype(draw.pick(np.int32, np.int64))
    attrs = {
        "ksize": kernel, "strides": strides, "paddings" if three else "padding": padding,
        "output_size": outs if asked else [0] * count if three else [],
        "data_format": formats(count)[0],
    }  # fmt: skip
    x = draw.normal(*rows, *size)
    return Case(op, [x, indices], attrs, lambda x, at: windows.unpooled(x, at, outs))
