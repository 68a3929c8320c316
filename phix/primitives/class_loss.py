"""Losses over many classes, of angles and of paths in a tree."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.primitives.distributions import check_one_key
from phix.primitives.experts import counted
from phix.primitives.positions import numbers, numbers_along
from phix.primitives.run_time_sizes import count_true
from phix.primitives.widening import as_dtype, widened


def _check_labels(rows: dm.DimLike, label: MetaTensor) -> None:
    """Class numbers [n] or [n, 1]."""
    if dt.kind(label.dtype) != "int":
        raise DTypeError(f"label holds class numbers, found {label}; cast it to int64")
    if label.ndim not in (1, 2) or not all(map(dm.may_equal, label.dims, (rows, 1))):
        raise ShapeError(_label_refusal(rows, label))


def _label_refusal(rows: dm.DimLike, label: MetaTensor) -> str:
    n = dm.dim_text(rows)
    return f"label must be [{n}] or [{n}, 1], found {label}"


def _check_matrix(x: MetaTensor, name: str, shape: str) -> None:
    if x.ndim != 2:
        raise ShapeError(f"{name} must be {shape}, found {x}")


def _nearest(label: Any, rows: dm.DimLike, classes: Any) -> Any:
    """Labels as int64 [n, 1], one that is no class as the nearest."""
    # the other way round, [1, n], there are as many
    label = expect_dims(label, _label_refusal(rows, label.meta), (rows, 1)[: label.ndim])
    number = ops.reshape(as_int64(label), (rows, 1))
    return ops.minimum(ops.maximum(number, 0), classes - 1)


# -- margins of angles ---------------------------------------------------------------------------
@rules.normalize("margin_cross_entropy")
def margin_cross_entropy_attrs(
    logits: MetaTensor, label: MetaTensor, return_softmax: bool, *attrs: Any
) -> Any:
    ring_id, rank, nranks, *margins = attrs
    if nranks != 1 or rank != 0:
        raise AttributeValueError(
            f"nranks {nranks} and rank {rank}: the classes are in one process; gather the logits "
            "of all, and write nranks=1, rank=0"
        )
    _check_matrix(logits, "logits", "[n, classes]")
    _check_labels(logits.dims[0], label)
    return return_softmax, ring_id, rank, nranks, *margins


@rules.indices("margin_cross_entropy")
def margin_cross_entropy_indices(
    logits: MetaTensor, label: MetaTensor, *attrs: Any
) -> list[IndexRange]:
    if logits.ndim != 2 or dt.kind(label.dtype) != "int":
        return []
    return [IndexRange("label", (logits.dims[1],), "the classes,", False)]


@rules.decompose("margin_cross_entropy")
def margin_cross_entropy(
    logits: Any,
    label: Any,
    return_softmax: bool,
    ring_id: int,
    rank: int,
    nranks: int,
    margin1: float,
    margin2: float,
    margin3: float,
    scale: float,
) -> Any:
    """The cosine itself, where its angle stays: the slope of acos is infinite at 1 and -1."""
    dtype, cosines = logits.dtype, widened(logits)
    rows, classes = cosines.meta.dims
    class_ = _nearest(label, rows, classes)
    target = ops.take_along_axis(cosines, class_, 1)
    if margin1 != 1 or margin2 != 0:
        target = ops.cos(margin1 * ops.acos(target) + margin2)
    hit = class_ == numbers_along(1, (1, classes))
    log_p = ops.log_softmax(scale * ops.where(hit, target - margin3, cosines), 1)
    loss = -ops.take_along_axis(log_p, class_, 1)
    return as_dtype(ops.exp(log_p), dtype), as_dtype(loss, dtype)


# -- a tree of classes ---------------------------------------------------------------------------
_LIMIT = 40.0


@rules.infer_meta("HSigmoidLossInferMeta")
def hsigmoid_loss_meta(
    x: MetaTensor,
    label: MetaTensor,
    w: MetaTensor,
    bias: Any,
    path: Any,
    code: Any,
    num_classes: int,
    is_sparse: bool,
) -> Any:
    if num_classes < 2:
        raise AttributeValueError(f"num_classes must be 2 or more, found {num_classes}")
    _check_matrix(x, "x", "[n, features]")
    _check_labels(x.dims[0], label)
    _check_matrix(w, "w", "[nodes, features]")
    if not dm.may_equal(w.dims[1], x.dims[1]):
        raise ShapeError(f"w must have the {dm.dim_text(x.dims[1])} features of x, found {w}")
    if bias is not None and not dm.may_equal(dm.product(bias.dims), w.dims[0]):
        raise ShapeError(
            f"bias must have {dm.dim_text(w.dims[0])} elements, one a row of w, found {bias}"
        )
    if (path is None) != (code is None):
        raise AttributeValueError("path and code describe one tree; give both, or neither")
    if path is not None:
        _check_tree(x.dims[0], path, code)
    if dm.is_zero(w.dims[0]):
        raise ShapeError(f"w must have a row for a node, found {w}")
    length = (num_classes - 1).bit_length() if path is None else path.dims[1]
    return x.with_dims((x.dims[0], 1)), x.with_dims((x.dims[0], length)), w


def _check_tree(rows: dm.DimLike, path: MetaTensor, code: MetaTensor) -> None:
    """The nodes and the bits on the way to each row's class."""
    for name, given in (("path", path), ("code", code)):
        if (
            given.ndim != 2
            or dt.kind(given.dtype) != "int"
            or not all(map(dm.may_equal, given.dims, (rows, path.dims[1])))
        ):
            wanted = dm.shape_text((rows, path.dims[-1] if path.ndim else -1))
            raise ShapeError(f"{name} must be ints [n, length], {wanted} here, found {given}")


@rules.indices("hsigmoid_loss")
def hsigmoid_loss_indices(
    x: MetaTensor, label: MetaTensor, w: Any, bias: Any, path: Any, code: Any, *attrs: Any
) -> list[IndexRange]:
    if path is not None or dt.kind(label.dtype) != "int":
        return []
    return [IndexRange("label", (attrs[0],), "the classes,", False)]


def _path_in_complete_tree(label: Any, rows: dm.DimLike, num_classes: int) -> tuple[Any, Any, Any]:
    """The nodes, the bits, and where the path goes on: leaf c of n is node c + n of a heap."""
    length = (num_classes - 1).bit_length()
    leaf = _nearest(label, rows, num_classes) + num_classes
    step = ops.reshape(numbers(length), (1, length))
    node = ops.bitwise_right_shift(leaf, step + 1) - 1
    return node, ops.bitwise_right_shift(leaf, step) & 1, node >= 0


@rules.decompose("hsigmoid_loss")
def hsigmoid_loss(
    x: Any, label: Any, w: Any, bias: Any, path: Any, code: Any, num_classes: int, *_: Any
) -> Any:
    dtype, wide = x.dtype, widened(x)
    rows, features = x.meta.dims
    if path is None:
        node, bit, goes_on = _path_in_complete_tree(label, rows, num_classes)
    else:
        node, bit = as_int64(path), as_int64(code)
        goes_on = ops.cumsum(ops.cast(node < 0, dt.int64), 1) == 0
    length = node.meta.dims[1]
    node = ops.minimum(ops.maximum(node, 0), w.meta.dims[0] - 1)
    flat = ops.reshape(node, (dm.product(node.meta.dims),))
    at_nodes = ops.reshape(ops.gather(widened(w), flat, 0), (rows, length, features))
    z = ops.sum(at_nodes * ops.reshape(wide, (rows, 1, features)), [2])
    if bias is not None:
        shifts = ops.gather(ops.reshape(widened(bias), (w.meta.dims[0],)), flat, 0)
        z = z + ops.reshape(shifts, (rows, length))
    z = ops.where(goes_on, z, 0.0)
    z = z + ops.stop_gradient(ops.clip(z, -_LIMIT, _LIMIT) - z)
    soft = ops.softplus(z, 1.0, 2 * _LIMIT)
    taken = ops.where((bit != 0) & goes_on, z, 0.0)
    out = ops.sum(soft - taken, [1], keepdim=True)
    return as_dtype(out, dtype), as_dtype(soft, dtype), w


# -- class_center_sample -------------------------------------------------------------------------
@rules.normalize("class_center_sample")
def class_center_attrs(
    key: MetaTensor, label: MetaTensor, num_classes: int, num_samples: int, ring_id: int,
    rank: int, nranks: int, *rest: Any,
) -> Any:  # fmt: skip
    if nranks != 1:
        raise AttributeValueError(f"the op runs in one process: nranks must be 1, found {nranks}")
    if not 0 < num_samples <= num_classes:
        raise AttributeValueError(
            f"num_samples must be from 1 to num_classes {num_classes}, found {num_samples}"
        )
    return num_classes, num_samples, ring_id, rank, nranks, *rest


@rules.indices("class_center_sample")
def class_center_ranges(
    key: MetaTensor, label: MetaTensor, num_classes: int, *rest: Any
) -> list[IndexRange]:
    return [IndexRange("label", (num_classes,), "classes", counts_back=False)]


@rules.decompose("class_center_sample")
def class_center_sample(
    key: Any, label: Any, num_classes: int, num_samples: int, *rest: Any
) -> Any:
    """The classes that labels name come first, then the others as a permutation has them."""
    check_one_key(key)
    if dt.kind(label.dtype) != "int":
        raise DTypeError(f"label holds numbers of classes, found {label.meta}; cast it to int64")
    own = ops.reshape(as_int64(label), (label.meta.size,))
    own = ops.minimum(ops.maximum(own, 0), num_classes - 1)
    named = counted(own, 0, num_classes) > 0
    turn = ops.where(named, numbers(num_classes), ops.randperm(key, num_classes) + num_classes)
    size = as_dim(ops.maximum(count_true(named), num_samples))
    order = ops.slice(ops.argsort(turn, 0, False, True)[1], [0], [0], [size])
    place = ops.cumsum(ops.cast(named, dt.int64), 0) - 1
    mapped = ops.reshape(ops.gather(place, own, 0), label.meta.dims)
    return as_dtype(mapped, label.dtype), as_dtype(order, label.dtype)
