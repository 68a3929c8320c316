"""Lowerings of sorting: host steps that call NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.kernels import provides
from phix.kernels.primitive.builder import Builder, Value
from phix.kernels.primitive.loop_ir import Buffer
from phix.kernels.primitive.lowering import lowering

for _name in ("sort", "argsort", "topk"):
    provides(_name, "NUMPY", dt.ALL)


def host(
    b: Builder, name: str, function: Callable[..., Any], *inputs: Value, **attrs: Any
) -> tuple[Value, ...]:
    """The outputs of the equation, computed by ``function(*input arrays, *output arrays)``."""

    def write(*out: Buffer) -> None:
        b.host(name, function, inputs, out, **attrs)

    return b.written(b.out_metas, write)


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The stable order of ``x``; NaN counts as the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # sorted backward and read backward, equals keep their order
    backward = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backward, axis)


@lowering("argsort", "whole")
def argsort(b: Builder, x: Value, axis: int, descending: bool, stable: bool) -> tuple[Value, ...]:
    def run(data: np.ndarray, out: np.ndarray, indices: np.ndarray) -> None:
        if not data.ndim:
            out[...], indices[...] = data, 0
            return
        indices[...] = order(data, axis, descending)
        out[...] = np.take_along_axis(data, indices, axis)

    return host(b, "argsort", run, x, axis=axis, descending=descending)


@lowering("sort", "whole")
def sort(b: Builder, x: Value, axis: int, descending: bool, *stable: bool) -> Value:
    def run(data: np.ndarray, out: np.ndarray) -> None:
        if not data.ndim:
            out[...] = data
            return
        out[...] = data
        out.sort(axis=axis)
        if descending:
            out[...] = np.flip(out, axis).copy()

    return host(b, "sort", run, x, axis=axis, descending=descending)[0]


@lowering("topk", "whole")
def topk(
    b: Builder, x: Value, k: int, axis: int, largest: bool, sorted_: bool
) -> tuple[Value, ...]:
    def run(data: np.ndarray, out: np.ndarray, indices: np.ndarray) -> None:
        if not data.ndim:
            out[...], indices[...] = data, 0
            return
        count = out.shape[axis]
        chosen = np.take(order(data, axis, largest), np.arange(count), axis)
        indices[...] = chosen
        out[...] = np.take_along_axis(data, chosen, axis)

    return host(b, "topk", run, x, axis=axis, descending=largest)
