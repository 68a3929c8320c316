"""Scans of Python functions, for decompositions that go along an axis step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core.transforms import transforms
from phix.primitives.flat import cut, metas_of

ScanBody = Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]


def scanned(
    step: ScanBody, carry: Sequence[Any], xs: Sequence[Any], reverse: bool = False
) -> tuple[Sequence[Any], Sequence[Any]]:
    """``carry, ys = step(carry, slices of xs)`` along the leading axis of ``xs``, of one or more.

    The step may close over tensors. Gives the final carry and the ys, stacked.
    """

    def flat(*args: Any) -> list[Any]:
        after, ys = step(*cut(args, len(carry))[:2])
        return [*after, *ys]

    slices = [x.meta.with_dims(x.meta.dims[1:]) for x in xs]
    graph, closed = transforms().trace(flat, [*metas_of(carry), *slices])
    final, ys = ops.scan(carry, xs, closed, graph, xs[0].meta.dims[0], reverse)
    return final, ys
