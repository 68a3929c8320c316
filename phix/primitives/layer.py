"""Layers: linear, embedding, one_hot, dropout."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.core.selected_rows import SelectedRows
from phix.primitives import random as rand
from phix.primitives.positions import is_row, masked, numbers
from phix.primitives.selected_rows import inside


# -- linear, embedding, one_hot ----------------------------------------------------------------
@rules.decompose("linear")
def linear(x: Any, weight: Any, bias: Any) -> Any:
    if weight.ndim != 2:
        raise ShapeError(f"weight must be [in, out], found {weight.meta}; use matmul")
    out = ops.matmul(x, weight)
    return out if bias is None else _biased(out, bias)


def _biased(out: Any, bias: Any) -> Any:
    """``out`` plus one number a column; another size would spread over rows or columns."""
    columns = out.meta.dims[-1]
    refusal = f"bias must be [{dm.dim_text(columns)}], one a column of weight, found {bias.meta}"
    return out + expect_dims(bias, refusal, (columns,))


@rules.decompose("linear_v2")
def linear_v2(input: Any, weight: Any, bias: Any, transpose_weight: bool) -> Any:
    if weight.ndim != 2:
        raise ShapeError(f"weight must have 2 axes, found {weight.meta}; use matmul")
    return ops.matmul(input, weight, False, transpose_weight) + bias


def _check_numbers(x: Any, what: str) -> None:
    if dt.kind(x.dtype) != "int":
        raise DTypeError(f"x holds {what}, which are ints, found {x.meta}; cast it to int64")


@rules.indices("embedding")
def embedding_indices(
    x: MetaTensor, weight: MetaTensor, padding_idx: int, sparse: bool
) -> list[IndexRange]:
    ignored = None if padding_idx == -1 else padding_idx
    rows = weight.dims[:1]
    return [IndexRange("x", rows, "the rows of weight,", ignored=ignored)] if rows else []


@rules.decompose("embedding")
def embedding(x: Any, weight: Any, padding_idx: int, sparse: bool) -> Any:
    _check_numbers(x, "numbers of rows")
    if weight.ndim != 2:
        raise ShapeError(f"weight must be [rows, size], found {weight.meta}")
    out = ops.gather(weight, x, 0)
    if padding_idx == -1:
        return out
    is_padding = is_row(x, padding_idx, weight.meta.dims[0])
    return ops.where(ops.reshape(is_padding, (*x.meta.dims, 1)), ops.full((), 0, out.dtype), out)


@rules.kind_vjp("embedding")
def embedding_vjp(
    active: Any, x: Any, weight: Any, padding_idx: int, sparse: bool
) -> tuple[Any, Any] | None:
    """The cotangent of the table is the rows that were read. Those of padding_idx are zeros."""
    if not sparse or not active[1]:
        return None
    height = weight.meta.dims[0]
    rows = inside(ops.reshape(as_int64(x), (-1,)), height)

    def pull(ct: Any) -> Any:
        if padding_idx != -1:
            ct = masked(~is_row(x, padding_idx, height), ct)
        value = ops.reshape(ct, (rows.meta.dims[0], weight.meta.dims[1]))
        return None, SelectedRows(rows, value, height)

    return ops.embedding(x, weight, padding_idx, True), pull


@rules.batch("embedding")
def embedding_batch(batched: Any, x: Any, weight: Any, padding_idx: int, sparse: bool) -> Any:
    """Many lookups in one table are one; tables of the lanes lie one below the other in one."""
    if not batched[1]:
        return ops.embedding(x, weight, padding_idx, sparse)
    lanes, height, size = weight.meta.dims
    dims = x.meta.dims if batched[0] else (lanes, *x.meta.dims)
    first = ops.reshape(numbers(lanes), (lanes, *(1,) * (len(dims) - 1))) * height
    out = ops.gather(
        ops.reshape(weight, (lanes * height, size)), inside(as_int64(x), height) + first
    )
    if padding_idx == -1:
        return out
    return masked(ops.expand(~is_row(x, padding_idx, height), dims), out)


@rules.normalize("one_hot")
def one_hot_attrs(x: MetaTensor, num_classes: Any) -> Any:
    if dm.is_known(num_classes) and num_classes < 1:
        raise AttributeValueError(f"num_classes must be 1 or more, found {num_classes}")
    return (num_classes,)


@rules.indices("one_hot")
def one_hot_indices(x: MetaTensor, num_classes: Any) -> list[IndexRange]:
    return [IndexRange("x", (num_classes,), "the classes,", counts_back=False)]


@rules.decompose("one_hot")
def one_hot(x: Any, num_classes: Any) -> Any:
    _check_numbers(x, "class numbers")
    number = as_int64(ops.reshape(x, (*x.meta.dims, 1)))
    return ops.cast(number == numbers(num_classes), dt.float32)


# -- dropout -----------------------------------------------------------------------------------
_MODES = ("upscale_in_train", "downscale_in_infer")


@rules.normalize("dropout")
def dropout_attrs(
    x: MetaTensor, seed_tensor: Any, p: Any, is_test: bool, mode: str, seed: int, fix_seed: bool
) -> Any:
    if not 0 <= p <= 1:
        raise AttributeValueError(f"p is a probability, from 0 to 1, found {p}")
    if mode not in _MODES:
        raise AttributeValueError(f"mode must be {' or '.join(_MODES)}, found {mode!r}")
    if seed_tensor is None and not is_test:
        raise ArgumentError(
            "dropout needs a key in training, since there is no hidden random state: pass "
            "phix.random.key(seed) as seed_tensor, or is_test=True"
        )
    return float(p), is_test, mode, seed, fix_seed


@rules.decompose("dropout")
def dropout(
    x: Any, seed_tensor: Any, p: float, is_test: bool, mode: str, seed: int, fix_seed: bool
) -> Any:
    dims = x.meta.dims
    if is_test:
        return _scaled(x, p, is_test, mode), ops.full(dims, True, dt.bool_)
    mask = _mask(seed_tensor, dims, p)
    return ops.where(mask, _scaled(x, p, is_test, mode), 0.0), mask


def _mask(key: Any, dims: Any, p: Any) -> Any:
    """What is kept, each element with probability 1 - p."""
    rand.check_key(key.meta)
    if key.ndim != 1:
        raise ShapeError(f"dropout takes one key, uint32[2], found {key.meta}; use vmap")
    return rand.unit_uniform(key, dims, dt.float32) >= p


def _scaled(x: Any, p: float, is_test: bool, mode: str) -> Any:
    """What is kept: either it is larger in training, or all is smaller in inference."""
    if mode == "upscale_in_train":
        return x if is_test or p == 1 else x * (1 / (1 - p))
    return x * (1 - p) if is_test else x


@rules.operands("dropout")
def dropout_by_tensor(
    x: Any, seed_tensor: Any, p: Any, is_test: bool, mode: str, seed: int, fix_seed: bool
) -> Any:
    """The derivative in p is that of the scale: which elements are kept has none."""
    dropout_attrs(x.meta, seed_tensor, 0.5, is_test, mode, seed, fix_seed)
    chance = p.astype(x.dtype)
    kept = 1 - chance
    if is_test:
        return x if mode == "upscale_in_train" else x * kept, ops.full(x.meta.dims, True, dt.bool_)
    mask = _mask(seed_tensor, x.meta.dims, p.astype(dt.float32))
    scaled = x / ops.where(kept == 0, 1.0, kept) if mode == "upscale_in_train" else x
    return ops.where(mask, scaled, 0.0), mask


@rules.decompose("dropout_grad")
def dropout_grad(mask: Any, out_grad: Any, p: float, is_test: bool, mode: str) -> Any:
    scaled = _scaled(out_grad, p, is_test, mode)
    return scaled if is_test else ops.where(mask, scaled, 0.0)
