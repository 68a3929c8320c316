"""Convolutions along lines: padded images of which each row ends in the zeros of the next one.

What a tap is under lies as far behind a place for all places of an image, along one line through
its rows. The engine's code is told sizes and where an image, its filters and its result are.
"""

from __future__ import annotations

from phix.core import dims as dm
from phix.core.windows import Pads
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer, Pointer
from phix.kernels.lowering.boxes import padded
from phix.kernels.scalar import language as sc

# The least from row to row and along an image, which fill vectors, the most terms of a sum, and
# taps of a row that are written out.
_LEAST_PITCH, _LEAST_LINE, _MOST_TERMS, _MOST_TAPS_OF_ROW = 8, 96, 1024, 11
# Filters of a tile, and calls that are enough for threads to share.
_FILTERS_OF_TILE, _ENOUGH_CALLS = 8, 4


def fit(images: dm.Shape, filters: dm.Shape, pads: Pads, places: dm.Shape) -> bool:
    """Whether images [n, c, h, w] and filters [o, c / groups, kh, kw] have known sizes, and such
    that lines of the ``places`` [n, o, h, w] fill vectors; any number of images."""
    around = [p for pair in pads for p in pair]
    every = (*images[1:], *filters, *places[1:])
    if not all(isinstance(d, int) and d > 0 for d in every):
        return False
    if not all(isinstance(p, int) for p in around):
        return False
    pitch, (height, width) = _pitch(images, pads, places), (int(d) for d in places[2:])
    per_group, kh, kw = (int(d) for d in filters[1:])
    fills = pitch >= _LEAST_PITCH and pitch * (height - 1) + width >= _LEAST_LINE
    return fills and 1 < kw <= _MOST_TAPS_OF_ROW and per_group * kh * kw <= _MOST_TERMS


def _pitch(images: dm.Shape, pads: Pads, places: dm.Shape) -> int:
    """From one row of a padded image to the next: the zeros behind a row are those before the
    next one."""
    return max(int(images[3]) + max(int(p) for p in pads[1]), int(places[3]))


def convolve(b: Builder, x: Value, kernel: Value, pads: Pads, groups: int, out: Buffer) -> None:
    """Write the convolution of images that :func:`fit`: some filters of an image a call."""
    images, filters, height, width = out.dims
    per_group, *taps = kernel.dims[1:]
    (above, below), (left, _) = pads
    behind = _pitch(x.dims, pads, out.dims) - x.dims[3] - left
    # the row behind the last one has the zeros that the last one shares
    around = [(0, 0), (0, 0), (above, below + 1), (left, behind)]
    dims = tuple(d + p + q for d, (p, q) in zip(x.dims, around))
    source, weights = b.contiguous(padded(b, x, around, 0, dims)), b.contiguous(kernel)
    blocks = _blocks(images, groups, int(filters) // groups)
    own = int(filters) // (groups * blocks)
    numbers = (1, own, height, width, per_group, *taps, *dims[2:], 0, 0, 0, 1, 1, 1, 0, 0, 1, 1)
    with b.kernel(), b.loop(b.dim(images * groups * blocks), "independent") as item:
        image = sc.binary("quotient", item, b.dim(groups * blocks))
        block = item - image * b.dim(groups * blocks)
        group = sc.binary("quotient", block, b.dim(blocks))
        channel = image * b.dim(dims[1]) + group * b.dim(per_group)
        pointers = [
            Pointer(source, channel * b.dim(dm.product(dims[2:]))),
            Pointer(weights, block * b.dim(own * dm.product(kernel.dims[1:]))),
            Pointer(out, item * b.dim(own * height * width)),
        ]
        sizes = [b.dim(d) for d in numbers]
        b.emit(ir.LibraryCall(f"convolution_{out.dtype}", (*sizes, *pointers), (out,)))


def _blocks(images: dm.DimLike, groups: int, filters: int) -> int:
    """In how many parts the filters of a group are taken, so that each thread has some."""
    if isinstance(images, int) and images * groups >= _ENOUGH_CALLS:
        return 1
    return next((k for k in (4, 2) if filters % (k * _FILTERS_OF_TILE) == 0), 1)
