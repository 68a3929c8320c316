"""Lowerings of Fourier transforms: calls of an engine's own, one an axis, or a library's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.dims import DimLike, Shape
from phix.core.kernel_registry import provides
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer, LibraryCall, Pointer
from phix.kernels.lowering.host_steps import FOURIER, host
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc

provides("fft_r2c", "SCIPY", (dt.float32, dt.float64))
for _name in ("fft_c2c", "fft_c2r"):
    provides(_name, "SCIPY", (dt.complex64, dt.complex128))

# What is on either side of a call: complex numbers, or real ones on one; R2ALL: of real numbers all
# points, not half of them.
C2C, R2C, C2R, R2ALL = range(4)


def _transform(name: str, *attrs: str) -> None:
    """Lower an op by the function of its name, which takes these of its attributes."""

    @lowering(name, "whole")
    def rule(b: Builder, x: Value, *values: Any, task: Task) -> Value:
        given = dict(zip(attrs, values))
        if b.target.transforms_by_calls and rewrites.is_on("own_transforms"):
            calls = _Calls(b, x, task.out.dims, **given)
            return b.written(task.metas, _BY_CALLS[name](calls))[0]
        return host(b, task, name, partial(_run, name, given), x, **given)[0]


def _run(name: str, attrs: dict[str, Any], x: np.ndarray, out: np.ndarray) -> None:
    FOURIER[name](np.fft, x, out, **attrs)


class _Calls:
    """The calls that make one transform, along one axis after the other."""

    def __init__(
        self, b: Builder, x: Value, out: Shape, axes: Sequence[int], normalization: str,
        forward: bool, onesided: bool = True,
    ) -> None:  # fmt: skip
        self.b, self.x, self.axes, self.forward = b, x, tuple(axes), forward
        self.onesided = onesided
        self.real = dt.real_dtype(x.dtype)
        b.target.foresees(f"fft_{self.real}", ())
        sizes = [dm.maximum(x.dims[a], out[a]) for a in axes]  # a side may have half the points
        is_divided = normalization in ("ortho", "forward" if forward else "backward")
        self.divisor: DimLike = dm.product(tuple(sizes)) if is_divided else 1
        self.is_rooted = normalization == "ortho"

    def call(
        self, kind: int, axis: int, dims: Shape, ends: tuple[Buffer, Buffer], is_last: bool
    ) -> None:
        """Along one axis of the side with all points, whose dims are these."""
        b, (x, out) = self.b, ends
        extents = (dims[axis], dm.product(dims[:axis]), dm.product(dims[axis + 1 :]))
        numbers = (
            sc.const(kind, dt.int64), sc.const(int(self.forward), dt.int64), *map(b.dim, extents),
            b.dim(self.divisor if is_last else 1), sc.const(int(self.is_rooted), dt.int64),
        )  # fmt: skip
        pointers = Pointer(x, ZERO), Pointer(out, ZERO)
        with b.kernel():
            kept = (out,) if x is out else ()
            b.emit(LibraryCall(f"fft_{self.real}", (*numbers, *pointers), (out,), kept))

    def along(
        self, axes: Sequence[int], dims: Shape, ends: tuple[Buffer, Buffer], is_last: bool
    ) -> None:
        """Of complex numbers, along some axes."""
        x, out = ends
        for axis in reversed(axes):
            self.call(C2C, axis, dims, (x, out), is_last and axis is axes[0])
            x = out

    # -- by op -------------------------------------------------------------------------------
    def c2c(self, out: Buffer) -> None:
        x = self.b.contiguous(self.x)
        self.along(self.axes, self.x.dims, (x, out), True)

    def r2c(self, out: Buffer) -> None:
        *others, last = self.axes
        x = self.b.contiguous(self.x)
        self.call(R2C if self.onesided else R2ALL, last, self.x.dims, (x, out), not others)
        self.along(others, out.dims, (out, out), True)

    def c2r(self, out: Buffer) -> None:
        *others, last = self.axes
        x = self.b.contiguous(self.x)
        if others:
            between = self.b.temp(self.x.dims, self.x.dtype)
            self.along(others, self.x.dims, (x, between), False)
            x = between
        self.call(C2R, last, out.dims, (x, out), True)


_BY_CALLS = {
    "fft_c2c": lambda calls: calls.c2c, "fft_r2c": lambda calls: calls.r2c,
    "fft_c2r": lambda calls: calls.c2r,
}  # fmt: skip

_transform("fft_c2c", "axes", "normalization", "forward")
_transform("fft_r2c", "axes", "normalization", "forward", "onesided")
_transform("fft_c2r", "axes", "normalization", "forward")
