"""Lowering of conv2d: patches as the columns of a matrix, and one matrix product an image."""

from __future__ import annotations

from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.kernels import register_kernel, select_kernel
from phix.core.meta import MetaTensor
from phix.core.windows import explicit_paddings
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import scalar as sc
from phix.kernels.primitive.builder import ZERO, Builder, Value, constant
from phix.kernels.primitive.loop_ir import Buffer, LibraryCall, Pointer
from phix.kernels.primitive.lowering import lowering
from phix.kernels.primitive.lowering_box import padded
from phix.kernels.primitive.lowering_linalg import BLAS_DTYPES
from phix.kernels.primitive.lowering_reduce import converted, parts, whole
from phix.kernels.primitive.lowering_shape import moved
from phix.kernels.primitive.scalar import Expr

register_kernel("conv2d", "BLAS", BLAS_DTYPES)


@lowering("conv2d", "whole")
def conv2d(
    b: Builder,
    x: Value,
    kernel: Value,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    groups: int,
    data_format: str,
) -> Value:
    meta = b.out
    dims = meta.dims
    if data_format == "NHWC":
        n, h, w, c = x.dims
        x = moved(b, x, lambda i: (i[0], i[2], i[3], i[1]), (n, c, h, w))
        dims = (dims[0], dims[3], dims[1], dims[2])
    compute = dt.float32 if meta.dtype in (dt.float16, dt.bfloat16) else meta.dtype
    pads = explicit_paddings(
        padding_algorithm, paddings, x.dims[2:], kernel.dims[2:], strides, dilations
    )
    conv = _Convolution(b, converted(b, x, compute), converted(b, kernel, compute), dims, compute)
    conv.pad(pads)
    conv.strides, conv.dilations, conv.groups = strides, dilations, groups
    has_blas = select_kernel("conv2d", compute, ("BLAS",)) is not None
    write = conv.by_library if has_blas else conv.by_loops
    (stored,) = b.written((MetaTensor(dims, compute),), write)
    if data_format == "NHWC":
        stored = moved(b, stored, lambda i: (i[0], i[3], i[1], i[2]), meta.dims)
    return converted(b, stored, meta.dtype)


class _Convolution:
    """An NCHW convolution of a padded input."""

    strides: Any = (1, 1)
    dilations: Any = (1, 1)
    groups: int = 1

    def __init__(self, b: Builder, x: Value, kernel: Value, dims: dm.Shape, dtype: Any) -> None:
        self.b, self.x, self.kernel, self.dims, self.dtype = b, x, kernel, dims, dtype

    def pad(self, pads: list[tuple[dm.DimLike, dm.DimLike]]) -> None:
        size = tuple(d + p + q for d, (p, q) in zip(self.x.dims[2:], pads))
        every = [(0, 0), (0, 0), *pads]
        self.x = padded(self.b, self.x, every, 0, (*self.x.dims[:2], *size))

    def _source(self, n: Expr, c: Expr, tap: tuple[Expr, ...], at: tuple[Expr, ...]) -> Any:
        """The input under tap (ky, kx) for the output at (oy, ox)."""
        place = [o * s + t * d for o, s, t, d in zip(at, self.strides, tap, self.dilations)]
        return self.b.element(self.x, (n, c, *place))

    def by_library(self, out: Buffer) -> None:
        b, groups = self.b, self.groups
        weights = b.contiguous(self.kernel)
        n, o, oh, ow = self.dims
        _, per_group, kh, kw = self.kernel.dims
        spatial, taps = oh * ow, per_group * kh * kw
        columns = b.temp((taps, spatial), self.dtype)
        rows = dm.floordiv(o, groups)
        if self.x.buffer is None or self.x.buffer.strided:
            b.materialize(self.x)
        with b.kernel(), b.loop(b.dim(n)) as image, b.loop(b.dim(groups)) as g:
            with b.loops((per_group, kh, kw)) as (c, ky, kx), b.loops((oh, ow)) as at:
                channel = g * b.dim(per_group) + c
                value = self._source(image, channel, (ky, kx), at)
                row = b.linear((c, ky, kx), (per_group, kh, kw))
                place = row * b.dim(spatial) + b.linear(at, (oh, ow))
                b.emit(*ir.stores(columns, (place,), value))
            first = g * b.dim(rows)
            arguments = (
                sc.const(0, dt.int64), sc.const(0, dt.int64),
                b.dim(rows), b.dim(spatial), b.dim(taps),
                Pointer(weights, first * b.dim(taps)),
                Pointer(columns, ZERO),
                Pointer(out, (image * b.dim(o) + first) * b.dim(spatial)),
            )  # fmt: skip
            b.emit(LibraryCall(f"gemm_{self.dtype}", arguments, (out,)))

    def by_loops(self, out: Buffer) -> None:
        b = self.b
        _, o, _, _ = self.dims
        _, per_group, kh, kw = self.kernel.dims
        rows = b.dim(dm.floordiv(o, self.groups))
        with b.kernel(), b.loops(self.dims) as (image, channel, *at):
            total = b.mutable(*parts(constant(0, self.dtype)))
            g = sc.binary("quotient", channel, rows)
            with b.loops((per_group, kh, kw), "reduction") as (c, ky, kx):
                source = self._source(image, g * b.dim(per_group) + c, (ky, kx), tuple(at))
                weight: Any = b.element(self.kernel, (channel, c, ky, kx))
                b.emit(ir.Assign(total, parts(whole(total) + source * weight), True))
            b.store(out, (image, channel, *at), whole(total))
