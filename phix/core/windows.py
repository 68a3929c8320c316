"""How windows slide over images: paddings written out, and how many windows there are."""

from __future__ import annotations

from typing import Any

from phix.core import dims as dm

Pads = list[tuple[dm.DimLike, dm.DimLike]]


def explicit_paddings(
    algorithm: str, paddings: Any, size: dm.Shape, kernel: dm.Shape, strides: Any, dilations: Any
) -> Pads:
    """(before, after) for each spatial axis.

    EXPLICIT takes ``paddings``, one entry an axis or two; VALID pads nothing; SAME pads so that
    there are ceil(size / stride) windows, the odd one after.
    """
    if algorithm == "VALID":
        return [(0, 0) for _ in size]
    if algorithm == "EXPLICIT":
        if len(paddings) == len(size):
            return [(p, p) for p in paddings]
        return list(zip(paddings[::2], paddings[1::2]))
    pads: Pads = []
    for n, k, s, d in zip(size, kernel, strides, dilations):
        out = dm.floordiv(n + (s - 1), s)
        total = dm.maximum((out - 1) * s + (k - 1) * d + 1 - n, 0)
        before = dm.floordiv(total, 2)
        pads.append((before, total - before))
    return pads


def window_counts(
    algorithm: str, pads: Pads, size: dm.Shape, kernel: dm.Shape, strides: Any, dilations: Any
) -> dm.Shape:
    """How many windows fit along each spatial axis; 0 or less where none does."""
    if algorithm == "SAME":
        return tuple(dm.floordiv(n + (s - 1), s) for n, s in zip(size, strides))
    return tuple(
        dm.floordiv(n + p + q - (k - 1) * d - 1, s) + 1
        for n, (p, q), k, s, d in zip(size, pads, kernel, strides, dilations)
    )
