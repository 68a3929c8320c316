"""Sorting as host steps, for engines whose library sorts; NumPy says what each step does."""

from __future__ import annotations

import numpy as np

from phix.kernels.loops.builder import Builder, Value
from phix.kernels.lowering.host_steps import host
from phix.kernels.lowering.registry import Task


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The stable order of ``x``; NaN counts as the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # sorted backward and read backward, equals keep their order
    backward = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backward, axis)


def argsort(b: Builder, task: Task, x: Value, axis: int, descending: bool) -> tuple[Value, ...]:
    """See the op of that name."""

    def run(data: np.ndarray, out: np.ndarray, indices: np.ndarray) -> None:
        if not data.ndim:
            out[...], indices[...] = data, 0
            return
        indices[...] = order(data, axis, descending)
        out[...] = np.take_along_axis(data, indices, axis)

    return host(b, task, "argsort", run, x, axis=axis, descending=descending)


def sort(b: Builder, task: Task, x: Value, axis: int, descending: bool) -> Value:
    """See the op of that name."""

    def run(data: np.ndarray, out: np.ndarray) -> None:
        if not data.ndim:
            out[...] = data
            return
        out[...] = data
        out.sort(axis=axis)
        if descending:
            out[...] = np.flip(out, axis).copy()

    return host(b, task, "sort", run, x, axis=axis, descending=descending)[0]


def topk(b: Builder, task: Task, x: Value, axis: int, largest: bool) -> tuple[Value, ...]:
    """See the op of that name."""

    def run(data: np.ndarray, out: np.ndarray, indices: np.ndarray) -> None:
        if not data.ndim:
            out[...], indices[...] = data, 0
            return
        count = out.shape[axis]
        chosen = np.take(order(data, axis, largest), np.arange(count), axis)
        indices[...] = chosen
        out[...] = np.take_along_axis(data, chosen, axis)

    return host(b, task, "topk", run, x, axis=axis, descending=largest)
