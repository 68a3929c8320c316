"""Ops for tests of kernels in Numba: their entries, their kernels, and what they mean in NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np

import phix
from phix import ops

ENTRIES = """
- op: numba_running
  args: (Tensor x, float decay = 1.0, str start = "first")
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
  backward: numba_running_grad
- backward_op: numba_running_grad
  forward: numba_running (Tensor x, float decay = 1.0, str start = "first") -> Tensor(out)
  args: (Tensor out_grad, float decay, str start)
  output: Tensor(x_grad)
- op: numba_extremes
  args: (Tensor x, Tensor mask, Tensor[] others)
  output: Tensor(low), Tensor(high)
  infer_meta: {func: NumbaExtremesInferMeta}
  kernel: {data_type: x}
  optional: mask
- op: numba_weird
  args: (Tensor x, int how)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
"""
OUTSIDE = 3.0


def load() -> None:
    """Add the ops to the table."""
    phix.core.rules.infer_meta("NumbaExtremesInferMeta")(extremes_meta)
    with TemporaryDirectory() as folder:
        file = Path(folder, "numba_ops.yaml")
        file.write_text(ENTRIES)
        phix.load_ops(file)
    phix.core.rules.decompose("numba_running_grad")(running_grad)


def register() -> None:
    """Register their kernels."""
    phix.numba.kernel("numba_running", dtypes=["float32", "float64", "complex128"])(running)
    phix.numba.kernel("numba_extremes", dtypes=["int32", "float64"])(extremes)
    phix.numba.kernel("numba_weird", dtypes=["float64"])(weird)


# -- a sum along an axis that forgets: its gradient is the same from the end --------------------
@numba.njit
def _first(start: str, value: Any) -> Any:  # a function of Numba's that a kernel calls
    return value if start == "first" else value * 0 + OUTSIDE


def running(x: Any, decay: float, start: str, out: Any) -> None:
    flat, made = x.reshape(-1), out.reshape(-1)
    for i in range(flat.size):
        before = made[i - 1] * decay if i else _first(start, flat[0]) - flat[0]
        made[i] = before + flat[i]


def running_grad(out_grad: Any, decay: float, start: str) -> Any:
    """The transpose, in ops: a scan from the end."""

    def step(carry: Any, g: Any) -> Any:
        total = carry * decay + g
        return total, total

    flat = ops.reshape(out_grad, [-1])
    zero = phix.zeros_like(ops.sum(flat))
    _, totals = phix.scan(step, zero, ops.flip(flat, [0]))
    return ops.reshape(ops.flip(totals, [0]), out_grad.shape)


def running_in_numpy(x: Any, decay: float = 1.0) -> Any:
    total, made = 0.0, []
    for value in np.asarray(x).reshape(-1):
        total = total * decay + value
        made.append(total)
    return np.array(made, np.asarray(x).dtype).reshape(np.shape(x))


# -- an optional input, a list of tensors, two outputs of another rank ---------------------------
def extremes_meta(x: Any, mask: Any, others: Any) -> Any:
    low = x.with_dims(x.dims[:-1])
    return low, low


def extremes(x: Any, mask: Any, others: Any, low: Any, high: Any) -> None:
    for i in range(x.shape[0]):
        least, most = x[i, 0], x[i, 0]
        for j in range(x.shape[1]):
            if mask is None or mask[i, j]:
                least, most = min(least, x[i, j]), max(most, x[i, j])
        for other in others:
            least, most = min(least, other[i]), max(most, other[i])
        low[i], high[i] = least, most


# -- what can go wrong ---------------------------------------------------------------------------
class Refused(Exception):
    """A class of the user's own."""


def weird(x: Any, how: int, out: Any) -> None:
    if how == 1:
        raise ValueError("no such way")
    if how == 2:
        raise Refused("of one's own", 7)
    if how == 3 and x.size > 2:
        out[0] = 1 / math.floor(x[0])
    if how == 5:
        out[x.size] = 0.0
    if how == 4:
        many = np.zeros(x.size)  # memory of Numba's own
        for i in range(x.size):
            many[i] = 2 * x[i]
        out[:] = many
