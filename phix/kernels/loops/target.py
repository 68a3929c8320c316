"""What lowering needs to know of the engine that it lowers for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass

if TYPE_CHECKING:
    from phix.kernels.loops.nodes import For


# Into how many parts one call splits keys.
PARTS = 8
# Rows, columns and terms of a product; None: not known.
Sizes = tuple[Union[int, None], ...]


def _unheard(library: str, sizes: Sizes) -> None:
    pass


def _never(what: Any, sizes: Sizes) -> bool:
    return False


def _no_dtype(dtype: np.dtype) -> bool:
    return False


def _always(first: For, second: For, joined: For) -> bool:
    return True


def _eight_lanes_of_four_vectors(loop: For) -> int:
    return 32


def _all_small(sizes: Sizes) -> bool:
    return all(size is not None and size <= 8 for size in sizes)


@dataclass(frozen=True)
class Target:
    """The form of loops an engine runs best.

    ``sums_in_memory``: a reduction or scan over an outer axis goes through its input in the
    order of memory, with the results so far in memory; else each result has a loop of its own.
    ``product_dtypes``: those its library multiplies matrices in. A product becomes a loop where
    ``multiplies_in_loops(rows, columns, inner)`` says so of its dims, None those that are not
    known. Those of ``own_products`` run in the thread that
    asks for them, or in the engine's threads, so that threads can share a batch of them.
    ``block_bytes`` is what a block of a batch may take on the way. ``reuses_planes``: what is done
    to one plane after the other goes through the same memory, which stays in a cache.
    ``tiles_in_loops``: what reads across its operand goes over it in tiles that a cache holds.
    ``sorts_in_loops``: rows are sorted by loops; else host steps call what its library has.
    ``sorts_by_vectors(dtype)``: its code has routines that sort unsigned ints of that dtype, and
    that split them by pivots into PARTS.
    ``factors_by_lapack``: its code calls a LAPACK for orthonormal factors and eigenvalues; else
    host steps call what its library has.
    ``transforms_by_calls``: its code has Fourier transforms, along one axis a call; else host steps
    call what its library has. ``convolves_along_lines``: its code has convolutions of one image.
    ``ranks_by_rows``: steps between ranks are given whole memory, a row a rank in front, in a dtype
    that libraries for them add; ``calls_ranks``: its code calls MPI by a group's port where there
    is one. Else they are one host step each.
    ``attention_size``: attention of heads up to that size is one call; else products and loops.
    ``convolution_parts(filters, places, taps)``: a convolution of floats is one call, whose sums
    over taps are cut into so many parts; None: it has no such call.
    ``joins(first, second, joined)``: whether two top-level loops that may become one should.
    ``most_streams``: how many arrays a loop may go through that is made of two with none in common.
    ``accumulators(loop)``: how many sums its code keeps side by side where an innermost loop adds
    to one. ``is_direct(library, sizes)``: whether a product of so many rows, columns and terms is
    code of its own for these sizes, so that one of more rows is best cut into blocks of so many.
    ``multiplies_narrow(dtype, sizes)``: whether it is a call of that narrow dtype, which makes
    sums in float32; else it is one of float32.
    ``foresees(library, sizes)`` is told of a call of a product, its rows, columns and terms
    where they are known, or of a transform, as soon as it is sure that there will be one, so that
    its code can be made beside the lowering of all else.
    """

    sums_in_memory: bool = True
    product_dtypes: tuple[np.dtype, ...] = (dt.float32, dt.float64, dt.complex64, dt.complex128)
    own_products: tuple[np.dtype, ...] = (dt.float32, dt.float64)
    multiplies_in_loops: Callable[[Sizes], bool] = _all_small
    block_bytes: int = 8 << 20
    reuses_planes: bool = True
    tiles_in_loops: bool = True
    sorts_in_loops: bool = True
    sorts_by_vectors: Callable[[np.dtype], bool] = _no_dtype
    factors_by_lapack: bool = False
    transforms_by_calls: bool = False
    convolves_along_lines: bool = False
    ranks_by_rows: bool = False
    calls_ranks: bool = False
    attention_size: int = 0
    convolution_parts: Callable[[int | None, int | None, int | None], int] | None = None
    joins: Callable[[For, For, For], bool] = _always
    most_streams: int = 16
    accumulators: Callable[[For], int] = _eight_lanes_of_four_vectors
    is_direct: Callable[[str, Sizes], bool] = _never
    multiplies_narrow: Callable[[np.dtype, Sizes], bool] = _never
    foresees: Callable[[str, Sizes], None] = _unheard


CPU = Target()
