"""What is measured while a model is trained: the area under a curve, and how numbers fare."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.run_time_sizes import count_true, flat
from phix.primitives.widening import as_dtype, widened


# -- auc -------------------------------------------------------------------------------------------
@rules.normalize("auc")
def auc_attrs(
    x: MetaTensor, label: Any, stat_pos: Any, stat_neg: Any, weight: Any, curve: str,
    num_thresholds: int, slide_steps: int,
) -> Any:  # fmt: skip
    if curve != "ROC":
        raise AttributeValueError(f"curve must be ROC, found {curve!r}")
    if num_thresholds < 1 or slide_steps < 0:
        raise AttributeValueError(
            "num_thresholds is 1 or more and slide_steps 0 or more, found "
            f"{num_thresholds} and {slide_steps}"
        )
    return curve, num_thresholds, slide_steps


def _check_stats(x: Any, label: Any, length: int, **stats: Any) -> None:
    if x.ndim != 2 or not dm.may_equal(label.meta.size, x.meta.dims[0]):
        raise ShapeError(
            f"x is [rows, 1] or [rows, 2] and label has one a row, found {x.meta} and {label.meta}"
        )
    for name, t in {"label": label, **stats}.items():
        if dt.kind(t.dtype) != "int":
            raise DTypeError(f"{name} holds ints, found {t.meta}; cast it to int64")
    for name, t in stats.items():
        if not dm.may_equal(t.meta.size, length):
            raise ShapeError(f"{name} must hold {length} counts, found {t.meta}")


@rules.decompose("auc")
def auc(
    x: Any, label: Any, stat_pos: Any, stat_neg: Any, ins_tag_weight: Any, curve: str,
    num_thresholds: int, slide_steps: int,
) -> Any:  # fmt: skip
    bins = num_thresholds + 1
    length = (1 + slide_steps) * bins + (slide_steps > 0)
    _check_stats(x, label, length, stat_pos=stat_pos, stat_neg=stat_neg)
    rows, width = x.meta.dims
    x = widened(ops.reshape(ops.slice(x, [1], [width - 1], [width]), (rows,)))
    place = ops.cast(ops.clip(x * num_thresholds, 0.0, float(num_thresholds)), dt.int64)
    label = ops.reshape(label, (rows,))
    counts = ops.full((), True, dt.bool_)
    if ins_tag_weight is not None:
        counts = ops.reshape(ops.slice(flat(ins_tag_weight), [0], [0], [1]), ()) != 0
    after, sums = [], []
    for stat, is_own in ((stat_pos, label > 0), (stat_neg, label == 0)):
        found = ops.index_put(
            ops.full((bins,), 0, dt.int64), [place], ops.cast(is_own, dt.int64), True
        )
        stat = ops.reshape(as_dtype(stat, dt.int64), (length,))
        if slide_steps:
            new, total = _slid(stat, found, counts, bins, slide_steps)
        else:
            new = total = stat + ops.where(counts, found, 0)
            new = ops.reshape(new, (1, bins))
        after.append(new)
        sums.append(ops.cast(ops.flip(total, [0]), dt.float64))
    return _area(*sums), *after


def _slid(stat: Any, found: Any, counts: Any, bins: int, steps: int) -> tuple[Any, Any]:
    """The counts of the last steps, their sum and the number of steps, and that sum.

    The oldest step makes room for what was found, which is in no sum where it does not count.
    """
    parts = ops.reshape(ops.slice(stat, [0], [0], [(1 + steps) * bins]), (1 + steps, bins))
    each, total = ops.slice(parts, [0], [0], [steps]), ops.slice(parts, [0], [steps], [steps + 1])
    done = ops.slice(stat, [0], [(1 + steps) * bins], [(1 + steps) * bins + 1])
    now = ops.remainder(done, steps)
    oldest = ops.gather(each, now, 0)
    total = total - oldest + ops.where(counts, found, 0)
    each = ops.index_put(each, [now], ops.reshape(found, (1, bins)))
    return ops.concat([flat(each), flat(total), done + 1], 0), flat(total)


def _area(positive: Any, negative: Any) -> Any:
    """By trapezoids, thresholds falling, of the rates of those found among all; 0 without both."""
    risen, spread = ops.cumsum(positive, 0), ops.sum(negative, [0])
    area = ops.sum(negative * (risen - positive * 0.5), [0])
    all_of = ops.sum(positive, [0]) * spread
    some = all_of > 0
    return ops.where(some, area / ops.where(some, all_of, 1.0), 0.0)


# -- check_numerics --------------------------------------------------------------------------------
@rules.normalize("check_numerics")
def check_numerics_attrs(
    tensor: MetaTensor, op_type: str, var_name: str, level: int, *rest: Any
) -> Any:
    if not 0 <= level <= 3:
        raise AttributeValueError(f"check_nan_inf_level must be from 0 to 3, found {level}")
    return op_type, var_name, level, *rest


@rules.decompose("check_numerics")
def check_numerics(tensor: Any, *said: Any) -> Any:
    x = flat(widened(tensor))
    none, wide = ops.isnan(x), ops.full((1,), math.inf, x.dtype)
    counts = ops.stack([count_true(m) for m in (none, ops.isinf(x), x == 0)], 0)
    largest = ops.max(ops.concat([ops.where(none, -math.inf, x), -wide], 0), [0], False)
    least = ops.min(ops.concat([ops.where(none, math.inf, x), wide], 0), [0], False)
    return counts, as_dtype(ops.stack([largest, least, ops.mean(x, [0], False)], 0), dt.float32)
