"""The rewrites a program goes through on its way to native code: one table, each switchable.

A rewrite changes how a result is computed, never what it is. Who owns one asks ``is_on(name)``;
algebra adds its rows where it is written (``phix/primitives/simplifications.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phix.core import registries, rule_modules
from phix.core.context import context, note_block
from phix.core.errors import ArgumentError
from phix.core.records import dataclass

STAGES = ("graph", "places", "fusion", "loops")


@dataclass(frozen=True)
class Rewrite:
    """One row: its name, the stage it belongs to (one of STAGES), and what it does."""

    name: str
    stage: str
    what: str


_REWRITES: dict[str, Rewrite] = {}
registries.contents(_REWRITES)


def known() -> dict[str, Rewrite]:
    """All rewrites by name, those of algebra and patterns too."""
    rule_modules.import_for(rule_modules.PATTERNS)
    return _REWRITES


def is_known(name: str) -> bool:
    """Whether a rewrite of that name has been added by now."""
    return name in _REWRITES


def add(name: str, stage: str, what: str) -> None:
    """Put a row into the table; a name stands there once."""
    is_free = rule_modules.is_free(("rewrite", name), name in _REWRITES)
    assert stage in STAGES and is_free, name
    _REWRITES[name] = Rewrite(name, stage, what)


for _row in (
    ("common_subexpressions", "graph", "equal calls are made once"),
    ("roll_steps", "graph", "steps of a loop that a trace has written out are a scan again"),
    ("hoist", "graph", "casts and copies of what a loop does not change are made before it"),
    ("products_of_steps", "graph", "products that a loop sums up are one product behind it"),
    ("bundle_sums", "graph", "small sums over the ranks of a mesh are one exchange"),
    ("keep_layouts", "places", "pointwise ops and reductions take tensors as they lie"),
    ("fuse", "fusion", "a value that one kernel reads is computed in it, and has no buffer"),
    ("recompute_cheap", "fusion", "a value of few operations is computed again, not stored"),
    ("scatter_in_place", "fusion", "x + scatter(zeros, i, v) adds v to x at i alone"),
    ("put_as_choice", "fusion", "a put at one place of each row of a constant is pointwise"),
    ("transposed_operands", "fusion", "a product takes a transposed operand as it lies"),
    ("small_products", "fusion", "a product of tiny matrices is a loop, no call of a library"),
    (
        "dot_products",
        "fusion",
        "a product with one column is a loop of sums, one of one term pointwise",
    ),
    ("joined_columns", "fusion", "one matrix times many columns, one by one, is one product"),
    ("own_products", "fusion", "products of real matrices run in the engine's threads, not BLAS's"),
    ("own_transforms", "fusion", "Fourier transforms run in the engine's threads, not SciPy's"),
    ("direct_products", "fusion", "a product of small matrices is written out for its sizes"),
    ("narrow_products", "fusion", "a product of bfloat16 takes pairs of them, where the CPU can"),
    ("thin_products", "fusion", "products of few rows or columns read the other operand in order"),
    ("winograd", "fusion", "convolutions by 3 x 3 filters take fewer products, tile by tile"),
    ("direct_convolutions", "fusion", "a convolution reads images along lines, and no patches"),
    ("patches_in_bands", "fusion", "patches of a convolution are made for some rows at a time"),
    ("native_collectives", "fusion", "compiled code calls MPI, where Python had to"),
    ("matrices_in_lanes", "fusion", "small matrices are factored side by side, one a lane"),
    ("sorting_networks", "fusion", "many short rows are sorted side by side, one a lane"),
    ("sorting_pieces", "fusion", "a long row is sorted in pieces, which threads share"),
    ("vector_sorts", "fusion", "rows are parted by pivots, a vector at a time, where the CPU can"),
    ("vectors_first", "fusion", "what sums and scatters would compute one by one is stored before"),
    ("tiles", "fusion", "loops that read across memory go in tiles"),
    ("merge_copies", "loops", "what is only copied is computed where the copy goes"),
    ("join_loops", "loops", "loops over the same elements become one pass over memory"),
    ("interchange_loops", "loops", "loops over images and channels change places to be joined"),
    ("collapse_loops", "loops", "loops that together walk along one run of memory become one"),
    ("forward_temps", "loops", "a buffer read only where it is written becomes a scalar"),
    ("drop_dead_stores", "loops", "stores that nothing reads, and kernels they leave empty, go"),
    ("use_outputs", "loops", "a temp lives in the output whose elements replace its own"),
    ("free_early", "loops", "steps that free memory run as soon as they can"),
    ("overlap_collectives", "loops", "what goes between ranks is waited for where it is needed"),
    ("reuse_temps", "loops", "a temp lives in the temp whose elements its own replace"),
    ("shrink_temps", "loops", "a temp used one row at a time has memory for one row"),
    ("equal_reductions", "loops", "of two loops that find the same extreme or sum, one goes"),
    ("block_sums", "loops", "long sums are added up in blocks, and the blocks in float64"),
    ("running_sums", "loops", "running totals in float64 are found in blocks, a vector at a time"),
    ("peel_wraps", "loops", "loops are cut where what they read begins again at the other end"),
    ("share_loops", "loops", "threads share loops whose iterations are proved independent"),
    ("partial_results", "loops", "threads sum parts of a sum, which are then added in order"),
    ("several_rows", "loops", "totals down the columns are loaded once for several rows"),
    ("stream_results", "loops", "large results that nothing reads are written past the caches"),
    ("joined_rows", "loops", "rows that end within vectors are gone through several at a time"),
    ("distributed_rows", "loops", "what takes long in short rows is done for many rows at a time"),
    ("overlapping_vectors", "loops", "short rows are gone through in vectors that may overlap"),
    ("rows_together", "loops", "long rows that are reduced are read several at a time"),
    ("rows_ahead", "loops", "the next row is asked for while one is worked on"),
    ("stretches_ahead", "loops", "long loops of much work ask for what they are about to read"),
    ("kernels_beside", "loops", "threads run short kernels that are in no other's way"),
    ("repeated_functions", "loops", "what a loop computes many times of one number is a function"),
    ("parallel_callers", "loops", "programs of much work let other threads of Python run"),
    ("carry_in_place", "loops", "a loop's next carry is written over the one before"),
):
    add(*_row)


def is_on(name: str) -> bool:
    """Whether the rewrite of that name is to be made."""
    return name not in context.rewrites_left_out


def left_out() -> frozenset[str]:
    """The rewrites that are not to be made here: they decide what a program is, too."""
    return context.rewrites_left_out


def checked(names: object, where: str) -> frozenset[str]:
    """The names, a string or several, which must stand in the table.

    Raises:
        ArgumentError: one does not.
    """
    given = (names,) if isinstance(names, str) else tuple(names)  # type: ignore[arg-type]
    unknown = [n for n in given if n not in known()]
    if unknown:
        raise ArgumentError(
            f"{where}: no rewrite {unknown[0]!r}; there are {', '.join(sorted(known()))} "
            "(phix.debug.passes() says what each does)"
        )
    return frozenset(given)


@contextmanager
def without(names: frozenset[str]) -> Iterator[None]:
    """Leave the named rewrites out, in this thread, inside a with block."""
    before = context.rewrites_left_out
    context.rewrites_left_out = before | names
    note_block()
    try:
        yield
    finally:
        context.rewrites_left_out = before
        note_block()
