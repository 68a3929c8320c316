"""The rows of ``benchmarks.rows_numba`` by hand: loops for ``numba.njit``, of the same work.

Each takes the leaves of the row's args and gives what its function gives. Where nobody would write
a row so, there is the reason in place of loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

ALONE: dict[str, Callable[..., Any] | str] = {}
f32 = np.float32


def row(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the loops of the row whose name begins so."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        ALONE[name] = function
        return function

    return register


# -- pointwise -----------------------------------------------------------------------------------
@row("tanh(a * b + 1)")
def tanh_exp(a: Any, b: Any) -> Any:
    out = np.empty_like(a)
    for i in range(a.size):
        out[i] = math.tanh(a[i] * b[i] + f32(1)) * math.exp(-b[i])
    return out


@row("gelu, 4e6")
def gelu(x: Any) -> Any:
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = f32(0.5) * x[i] * (f32(1) + math.erf(x[i] * f32(math.sqrt(0.5))))
    return out


# -- rows ----------------------------------------------------------------------------------------
@row("softmax, 4096 x 1024")
def softmax(x: Any) -> Any:
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        most = x[i, 0]
        for j in range(x.shape[1]):
            most = max(most, x[i, j])
        total = f32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - most)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


@row("layer_norm, 4096 x 1024 with gradient")
def layer_norm_gradient(cotangent: Any, x: Any, scale: Any, bias: Any) -> Any:
    rows, columns = x.shape
    out, slope = np.empty_like(x), np.empty_like(x)
    of_scale, of_bias = np.zeros_like(scale), np.zeros_like(bias)
    for i in range(rows):
        mean = square = f32(0)
        for j in range(columns):
            mean += x[i, j]
        mean /= f32(columns)
        for j in range(columns):
            square += (x[i, j] - mean) ** 2
        factor = f32(1) / math.sqrt(square / f32(columns) + f32(1e-5))
        total = along = f32(0)
        for j in range(columns):
            unit = (x[i, j] - mean) * factor
            out[i, j] = unit * scale[j] + bias[j]
            of_scale[j] += cotangent[i, j] * unit
            of_bias[j] += cotangent[i, j]
            total += cotangent[i, j] * scale[j]
            along += cotangent[i, j] * scale[j] * unit
        total, along = total / f32(columns), along / f32(columns)
        for j in range(columns):
            unit = (x[i, j] - mean) * factor
            slope[i, j] = factor * (cotangent[i, j] * scale[j] - total - unit * along)
    return out, slope, of_scale, of_bias


@row("log_softmax and nll, 4096")
def nll(x: Any, labels: Any) -> Any:
    loss = f32(0)
    for i in range(x.shape[0]):
        most = x[i, 0]
        for j in range(x.shape[1]):
            most = max(most, x[i, j])
        total = f32(0)
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - most)
        loss += most + math.log(total) - x[i, labels[i]]
    return loss / f32(x.shape[0])


# -- reductions ----------------------------------------------------------------------------------
@row("sum over axis 0")
def sum_of_columns(x: Any) -> Any:
    out = np.zeros(x.shape[1], x.dtype)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[i, j]
    return out


@row("sum over axis 1")
def sum_of_rows(x: Any) -> Any:
    out = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        total = f32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        out[i] = total
    return out


@row("max over axis 1")
def max_of_rows(x: Any) -> Any:
    out = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        most = x[i, 0]
        for j in range(x.shape[1]):
            most = max(most, x[i, j])
        out[i] = most
    return out


@row("argmax over axis 1")
def argmax_of_rows(x: Any) -> Any:
    out = np.empty(x.shape[0], np.int64)
    for i in range(x.shape[0]):
        most, place = x[i, 0], 0
        for j in range(x.shape[1]):
            if x[i, j] > most:
                most, place = x[i, j], j
        out[i] = place
    return out


@row("var over axis 1")
def var_of_rows(x: Any) -> Any:
    out = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        mean = square = f32(0)
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean /= f32(x.shape[1])
        for j in range(x.shape[1]):
            square += (x[i, j] - mean) ** 2
        out[i] = square / f32(x.shape[1])
    return out


@row("cumsum")
def cumsum(x: Any) -> Any:
    out = np.empty_like(x)
    total = f32(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return out


# -- loops of many steps -------------------------------------------------------------------------
@row("rnn by scan, 200 steps")
def rnn(w: Any, u: Any, h: Any, xs: Any) -> Any:
    total, after = f32(0), np.empty_like(h)
    for t in range(xs.shape[0]):
        for i in range(h.shape[0]):
            after[i] = f32(0)
            for k in range(w.shape[0]):
                for j in range(w.shape[1]):
                    after[i, j] += xs[t, i, k] * w[k, j]
            for k in range(u.shape[0]):
                for j in range(u.shape[1]):
                    after[i, j] += h[i, k] * u[k, j]
            for j in range(h.shape[1]):
                after[i, j] = math.tanh(after[i, j])
                total += after[i, j] ** 2
        h, after = after, (np.empty_like(h) if t == 0 else h)  # the caller's h is left alone
    return total


@row("RK4 of a 3-vector")
def rk4(start: Any, factors: Any) -> Any:
    h, third, half = f32(1e-3), f32(1e-3 / 6), f32(0.5e-3)
    y, at, sums = start.copy(), np.empty_like(start), np.empty_like(start)
    slope = np.empty_like(start)
    for _ in range(10_000):
        sums[:] = f32(0)
        slope[:] = f32(0)
        for stage in range(4):
            step = f32(0) if stage == 0 else h if stage == 3 else half
            weight = f32(2) if 0 < stage < 3 else f32(1)
            for i in range(3):
                at[i] = y[i] + step * slope[i]
            for i in range(3):
                slope[i] = factors[i] * at[(i + 1) % 3] * at[(i + 2) % 3]
                sums[i] += weight * slope[i]
        for i in range(3):
            y[i] += third * sums[i]
    return y


@row("five-point stencil")
def stencil(u: Any) -> Any:
    now, after = u.copy(), u.copy()
    for _ in range(100):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                after[i, j] = now[i, j] + f32(0.2) * (around - f32(4) * now[i, j])
        now, after = after, now
    return now


# -- matrices, sorting, lookups -------------------------------------------------------------------
@row("matmul, 1024")
def matmul(a: Any, b: Any) -> Any:
    return a @ b


@row("solve, 1e4")
def solve(a: Any, b: Any) -> Any:
    out = np.empty_like(b)
    for i in range(a.shape[0]):
        out[i] = np.linalg.solve(a[i], b[i])
    return out


@row("sort, 1e6")
def sort(x: Any) -> Any:
    return np.sort(x)


@row("embedding")
def embedding(table: Any, ids: Any) -> Any:
    out = np.empty((ids.size, table.shape[1]), table.dtype)
    for i in range(ids.size):
        for j in range(table.shape[1]):
            out[i, j] = table[ids[i], j]
    return out


@row("scatter-add")
def scatter_add(x: Any, ids: Any, rows: Any) -> Any:
    out = x.copy()
    for i in range(ids.size):
        for j in range(x.shape[1]):
            out[ids[i], j] += rows[i, j]
    return out


ALONE["mlp 8-16-16-4"] = "its gradient, by hand, would be another program"
