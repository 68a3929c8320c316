"""Ops that give their input as it is where there is one process, one stream and one library."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import rules


def _same(x: Any) -> Any:
    """``x`` as a tensor of its own: an op gives no input back."""
    return ops.reshape(x, x.meta.dims)


@rules.decompose("npu_identity")
def npu_identity(x: Any, format: int) -> Any:
    return _same(x)


@rules.decompose("share_data")
@rules.decompose("sync_calc_stream")
def share_data(x: Any) -> Any:
    return _same(x)


@rules.decompose("c_identity")
def c_identity(x: Any, ring_id: int, use_calc_stream: bool, use_model_parallel: bool) -> Any:
    return _same(x)


@rules.decompose("depend")
def depend(x: Any, dep: Any) -> Any:
    return ops.optimization_barrier([x, *dep])[0] if dep else _same(x)


@rules.decompose("trans_layout")
def trans_layout(x: Any, perm: Any) -> Any:
    return ops.transpose(x, perm)
