"""What routines and host steps cost, by what they are told: operations, and elements they touch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.target import PARTS

Sizes = Mapping[dm.Symbol, int]


def _gemm(
    tx: DimLike, ty: DimLike, add: DimLike, m: DimLike, n: DimLike, k: DimLike, *pitches: DimLike
) -> Any:
    return 2 * m * n * k, (m * k, k * n, m * n)


def _trsm(upper: DimLike, transpose: DimLike, unit: DimLike, n: DimLike, k: DimLike) -> Any:
    return n * n * k, (dm.floordiv(n * (n + 1), 2), n * k)


def _getrf(m: DimLike, n: DimLike) -> Any:
    steps = dm.minimum(m, n)
    return dm.floordiv(2 * m * n * steps, 3), (m * n, steps, 1)


def _potrf(upper: DimLike, n: DimLike) -> Any:
    return dm.floordiv(n * n * n, 3), (n * n, 1)


def _geqrf(m: DimLike, n: DimLike, room: DimLike) -> Any:
    steps = dm.minimum(m, n)
    return dm.floordiv(4 * m * n * steps, 3), (m * n, steps, 0, 1)


def _orgqr(m: DimLike, n: DimLike, k: DimLike, room: DimLike) -> Any:
    return dm.floordiv(4 * m * n * k, 3), (m * n, k, 0, 1)


def _lines(images: DimLike, filters: DimLike, *sizes: DimLike) -> Any:
    """Of a convolution, a group of it."""
    out_h, out_w, channels, kh, kw, height, width = sizes[:7]
    places, taps = out_h * out_w, channels * kh * kw
    elements = (images * channels * height * width, filters * taps, images * filters * places)
    return 2 * images * filters * places * taps, elements


def fft(
    kind: DimLike, forward: DimLike, points: DimLike, outer: DimLike, inner: DimLike, *rest: DimLike
) -> Any:
    """As ``_fourier``; of a size that is not known, moves alone."""
    batch, half = outer * inner, dm.floordiv(points, 2) + 1
    each = 0.0
    if isinstance(points, int):
        each = (5 if kind == 0 else 2.5) * points * math.log2(points)
    given, made = (half if kind == 2 else points), (half if kind == 1 else points)
    return batch * round(each), (batch * given, batch * made)


def _sort(n: DimLike) -> Any:
    """Of comparisons: as many as halving a row again and again takes."""
    steps = max(n, 1).bit_length() if isinstance(n, int) else 1
    return n * steps, (n, 0)


def _split(n: DimLike) -> Any:
    return 3 * n, (n, n, PARTS - 1, PARTS, PARTS)


# The beginning of a routine's name -> rule: from its sizes to its operations, and to the elements
# behind each of its pointers.
ROUTINES: dict[str, Callable[..., tuple[DimLike, tuple[DimLike, ...]]]] = {
    "gemm_": _gemm, "trsm_": _trsm, "getrf_": _getrf, "potrf_": _potrf,
    "geqrf_": _geqrf, "orgqr_": _orgqr, "ungqr_": _orgqr, "fft_": fft,
    "convolution_": _lines, "sort_": _sort, "split_": _split,
}  # fmt: skip


def _fourier(step: ir.HostStep, sizes: Sizes) -> DimLike | None:
    """5 N log2(N) of N points, which is what the radix-2 algorithm takes; half of it where one
    side is real, which is the side that has all N."""
    sides = [*step.dims, *(b.dims for b in step.outputs)]
    both = [tuple(dm.substitute(d, sizes) for d in dims) for dims in sides]
    axes = step.attrs["axes"]
    if not dm.is_known(*(dims[a] for dims in both for a in axes)):
        return None
    n = math.prod(max(dims[a] for dims in both) for a in axes)
    is_complex = all(dt.is_complex(b.dtype) for b in (*step.inputs, *step.outputs))
    batch = dm.product(tuple(d for a, d in enumerate(both[0]) if a not in axes))
    return batch * round((5 if is_complex else 2.5) * n * math.log2(n))


def _convolution(step: ir.HostStep, sizes: Sizes) -> DimLike:
    """A product and a sum for each tap of each element of the result, for each of the outputs."""
    filters, results = step.dims[1], step.dims[2] if len(step.dims) > 2 else step.outputs[0].dims
    taps = dm.substitute(dm.product(filters[1:]), sizes)
    return len(step.outputs) * 2 * taps * dm.substitute(dm.product(results), sizes)


# The name of a host step -> its operations, None where they cannot be told.
HOST_STEPS: dict[str, Callable[[ir.HostStep, Sizes], DimLike | None]] = {
    "fft_c2c": _fourier, "fft_r2c": _fourier, "fft_c2r": _fourier,
    "conv2d": _convolution, "conv2d_grad": _convolution,
}  # fmt: skip
