"""Ops that move data between devices. Their derivatives go the same way back."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import rules


@rules.decompose("io_copy_grad")
def io_copy_grad(x: Any, out_grad: Any) -> Any:
    return ops.io_copy_like(out_grad, x)


@rules.decompose("io_copy_like_grad")
def io_copy_like_grad(x: Any, out_grad: Any) -> Any:
    return ops.io_copy_like(out_grad, x)


@rules.batch("io_copy")
def io_copy_batch(batched: Any, x: Any, place: Any) -> Any:
    return ops.io_copy(x, place)


@rules.batch("io_copy_like")
def io_copy_like_batch(batched: Any, x: Any, like: Any) -> Any:
    if batched[0]:
        return ops.io_copy_like(x, like)
    return ops.io_copy_like(ops.expand(x, (like.meta.dims[0], *x.meta.dims)), like)
