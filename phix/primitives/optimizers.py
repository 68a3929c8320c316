"""Optimizers: one step from weights, gradients and state to new weights and new state."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError
from phix.primitives import random as rand
from phix.primitives.updates import Weights, check_float, check_like, like, single, unless
from phix.primitives.widening import as_dtype


def _mixed(old: Any, new: Any, rate: Any) -> Any:
    """rate * old + (1 - rate) * new."""
    return rate * old + (1 - rate) * new


# -- plain descent -----------------------------------------------------------------------------
@rules.decompose("sgd_")
def sgd(param: Any, learning_rate: Any, grad: Any, master_param: Any, multi_precision: bool) -> Any:
    w = Weights(param, grad, master_param, multi_precision)
    return w.updated(w.p - w.single("learning_rate", learning_rate) * w.g)


def momentum_step(
    param: Any, grad: Any, velocity: Any, learning_rate: Any, master_param: Any, mu: Any,
    use_nesterov: bool, regularization_method: str, regularization_coeff: Any,
    multi_precision: bool, rescale_grad: Any,
) -> Any:  # fmt: skip
    if regularization_method not in ("", "l2_decay"):
        raise AttributeValueError(
            f"regularization_method must be '' or 'l2_decay', found {regularization_method!r}"
        )
    w = Weights(param, grad, master_param, multi_precision, velocity=velocity)
    g = w.g * rescale_grad
    if regularization_method:
        g = g + regularization_coeff * w.p
    v = mu * w.wide(velocity) + g
    direction = g + mu * v if use_nesterov else v
    new, master = w.updated(w.p - w.single("learning_rate", learning_rate) * direction)
    return new, as_dtype(v, velocity.dtype), master


rules.decompose("momentum_")(momentum_step)


@rules.decompose("asgd_")
def asgd(
    param: Any, grad: Any, learning_rate: Any, d: Any, y: Any, n: Any, master_param: Any,
    multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, d=d, y=y)
    total = w.wide(d) - w.wide(y) + w.g
    rate = w.single("learning_rate", learning_rate) / w.single("n", n)
    new, master = w.updated(w.p - rate * total)
    return new, as_dtype(total, d.dtype), as_dtype(w.g, y.dtype), master


@rules.decompose("rprop_")
def rprop(
    param: Any, grad: Any, prev: Any, learning_rate: Any, master_param: Any,
    learning_rate_range: Any, etas: Any, multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, prev=prev, learning_rate=learning_rate)
    least, most = (w.single("learning_rate_range", x) for x in _pair(learning_rate_range))
    down, up = (w.single("etas", x) for x in _pair(etas))
    agreement = w.g * w.wide(prev)
    g = ops.where(agreement < 0, 0.0, w.g)
    eta = ops.where(agreement > 0, up, ops.where(agreement < 0, down, 1.0))
    rate = ops.minimum(ops.maximum(w.wide(learning_rate) * eta, least), most)
    new, master = w.updated(w.p - ops.sign(g) * rate)
    return new, as_dtype(g, prev.dtype), as_dtype(rate, learning_rate.dtype), master


def _pair(x: Any) -> Any:
    if x.ndim != 1 or not dm.may_equal(x.meta.dims[0], 2):
        raise ArgumentError(f"learning_rate_range and etas are two numbers each, found {x.meta}")
    return x[0], x[1]


# -- steps scaled by the gradients so far --------------------------------------------------------
@rules.decompose("adagrad_")
def adagrad(
    param: Any, grad: Any, moment: Any, learning_rate: Any, master_param: Any, epsilon: Any,
    multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, moment=moment)
    m = w.wide(moment) + w.g * w.g
    rate = w.single("learning_rate", learning_rate)
    new, master = w.updated(w.p - rate * w.g / (ops.sqrt(m) + epsilon))
    return new, as_dtype(m, moment.dtype), master


@rules.decompose("decayed_adagrad")
def decayed_adagrad(
    param: Any, grad: Any, moment: Any, learning_rate: Any, decay: Any, epsilon: Any
) -> Any:
    w = Weights(param, grad, None, False, moment=moment)
    m = _mixed(w.wide(moment), w.g * w.g, decay)
    rate = w.single("learning_rate", learning_rate)
    new, _ = w.updated(w.p - rate * w.g / (ops.sqrt(m) + epsilon))
    return new, as_dtype(m, moment.dtype)


@rules.decompose("adadelta_")
def adadelta(
    param: Any, grad: Any, avg_squared_grad: Any, avg_squared_update: Any, learning_rate: Any,
    master_param: Any, rho: Any, epsilon: Any, multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(
        param, grad, master_param, multi_precision,
        avg_squared_grad=avg_squared_grad, avg_squared_update=avg_squared_update,
    )  # fmt: skip
    updates = w.wide(avg_squared_update)
    grads = _mixed(w.wide(avg_squared_grad), w.g * w.g, rho)
    step = ops.sqrt((updates + epsilon) / (grads + epsilon)) * w.g
    new, master = w.updated(w.p - w.single("learning_rate", learning_rate) * step)
    updates = _mixed(updates, step * step, rho)
    kept = as_dtype(grads, avg_squared_grad.dtype), as_dtype(updates, avg_squared_update.dtype)
    return new, *kept, master


@rules.decompose("rmsprop_")
def rmsprop(
    param: Any, mean_square: Any, grad: Any, moment: Any, learning_rate: Any, mean_grad: Any,
    master_param: Any, epsilon: Any, decay: Any, momentum: Any, centered: bool,
    multi_precision: bool,
) -> Any:  # fmt: skip
    if centered and mean_grad is None:
        raise ArgumentError("a centered rmsprop_ keeps the mean of the gradients; pass mean_grad")
    w = Weights(
        param, grad, master_param, multi_precision,
        mean_square=mean_square, moment=moment, mean_grad=mean_grad,
    )  # fmt: skip
    square = _mixed(w.wide(mean_square), w.g * w.g, decay)
    spread, mean = square, mean_grad
    if centered:
        m = _mixed(w.wide(mean_grad), w.g, decay)
        # the variance of what was seen: rounding may take it below 0, and that to NaN
        spread, mean = ops.maximum(square - m * m, 0.0), as_dtype(m, mean_grad.dtype)
    rate = w.single("learning_rate", learning_rate)
    step = momentum * w.wide(moment) + rate * w.g / ops.sqrt(spread + epsilon)
    new, master = w.updated(w.p - step)
    return new, as_dtype(step, moment.dtype), as_dtype(square, mean_square.dtype), mean, master


@rules.decompose("ftrl")
def ftrl(
    param: Any, squared_accumulator: Any, linear_accumulator: Any, grad: Any, learning_rate: Any,
    l1: Any, l2: Any, lr_power: Any,
) -> Any:  # fmt: skip
    w = Weights(
        param, grad, None, False,
        squared_accumulator=squared_accumulator, linear_accumulator=linear_accumulator,
    )  # fmt: skip
    rate = w.single("learning_rate", learning_rate)
    before = w.wide(squared_accumulator)
    after = before + w.g * w.g
    power, power_before = (
        ops.sqrt(x) if lr_power == -0.5 else ops.pow(x, -lr_power) for x in (after, before)
    )
    linear = w.wide(linear_accumulator) + w.g - (power - power_before) / rate * w.p
    l1, l2 = l1 + 1e-10, l2 + 1e-10  # so that nothing is divided by 0
    shrunk = (l1 * ops.sign(linear) - linear) / (power / rate + 2 * l2)
    new, _ = w.updated(ops.where(ops.abs(linear) > l1, shrunk, 0.0))
    kept = as_dtype(after, squared_accumulator.dtype), as_dtype(linear, linear_accumulator.dtype)
    return new, *kept


@rules.decompose("dpsgd")
def dpsgd(
    key: Any, param: Any, grad: Any, learning_rate: Any, clip: Any, batch_size: Any, sigma: Any
) -> Any:
    rand.check_key(key.meta)
    if key.ndim != 1:
        raise ArgumentError(f"dpsgd takes one key, uint32[2], found {key.meta}; use vmap")
    w = Weights(param, grad, None, False)
    norm = ops.sqrt(ops.sum(w.g * w.g))
    scale = ops.where(norm > clip, norm / clip, 1.0)
    noise = rand.standard_normal(key, param.meta.dims, w.dtype) * sigma
    rate = w.single("learning_rate", learning_rate)
    return w.updated(w.p - rate * (w.g / scale + noise / batch_size))[0]


# -- averages of weights, scaling of losses ------------------------------------------------------
_MOST_ADDED = 16384  # to one sum, so that small terms are not lost in it


@rules.decompose("average_accumulates_")
def average_accumulates(
    param: Any, in_sum_1: Any, in_sum_2: Any, in_sum_3: Any, in_num_accumulates: Any,
    in_old_num_accumulates: Any, in_num_updates: Any, average_window: Any,
    max_average_window: int, min_average_window: int,
) -> Any:  # fmt: skip
    if min_average_window > max_average_window:
        raise AttributeValueError(
            f"min_average_window {min_average_window} is above max_average_window "
            f"{max_average_window}"
        )
    check_like(param, in_sum_1=in_sum_1, in_sum_2=in_sum_2, in_sum_3=in_sum_3)
    count = single("in_num_accumulates", in_num_accumulates, dt.int64) + 1
    updates = single("in_num_updates", in_num_updates, dt.int64) + 1
    old_count = single("in_old_num_accumulates", in_old_num_accumulates, dt.int64)
    window = ops.cast(ops.cast(updates, dt.float64) * average_window, dt.int64)
    first, second = in_sum_1 + as_dtype(param, in_sum_1.dtype), in_sum_2
    is_full = ops.remainder(updates, _MOST_ADDED) == 0
    second = ops.where(is_full, second + as_dtype(first, second.dtype), second)
    first = ops.where(is_full, 0.0, first)
    is_long = (count >= min_average_window) & (count >= ops.minimum(window, max_average_window))
    third = as_dtype(first, in_sum_3.dtype) + as_dtype(second, in_sum_3.dtype)
    return (
        ops.where(is_long, 0.0, first),
        ops.where(is_long, 0.0, second),
        ops.where(is_long, third, in_sum_3),
        like(ops.where(is_long, 0, count), in_num_accumulates),
        like(ops.where(is_long, count, old_count), in_old_num_accumulates),
        like(updates, in_num_updates),
    )


@rules.decompose("check_finite_and_unscale_")
def check_finite_and_unscale(x: Any, scale: Any) -> Any:
    outs, found = [], ops.full((1,), False, dt.bool_)
    for entry in x:
        check_float("x", entry)
        wide = dt.promote(dt.float32, entry.dtype)
        factor = 1 / single("scale", scale, wide)
        outs.append(as_dtype(as_dtype(entry, wide) * factor, entry.dtype))
        found = found | ops.any(ops.logical_not(ops.isfinite(entry)))
    return outs, found


@rules.operands("update_loss_scaling_")
@rules.decompose("update_loss_scaling_")
def update_loss_scaling(
    x: Any, found_infinite: Any, prev_loss_scaling: Any, in_good_steps: Any, in_bad_steps: Any,
    incr_every_n_steps: int, decr_every_n_nan_or_inf: int, incr_ratio: Any, decr_ratio: Any,
    stop_update: Any,
) -> Any:  # fmt: skip
    found = single("found_infinite", found_infinite, dt.bool_)
    scaling = single("prev_loss_scaling", prev_loss_scaling, prev_loss_scaling.dtype)
    good = single("in_good_steps", in_good_steps, in_good_steps.dtype)
    bad = single("in_bad_steps", in_bad_steps, in_bad_steps.dtype)
    for entry in x:
        check_float("x", entry)
    outs = [ops.where(found, ops.full((), 0, entry.dtype), entry) for entry in x]
    grown, shrunk = scaling * incr_ratio, ops.maximum(scaling * decr_ratio, 1.0)
    grown = ops.where(ops.isfinite(grown), grown, scaling)
    is_good, is_bad = good + 1 == incr_every_n_steps, bad + 1 == decr_every_n_nan_or_inf
    new = (
        ops.where(found, ops.where(is_bad, shrunk, scaling), ops.where(is_good, grown, scaling)),
        ops.where(found | is_good, 0, good + 1),
        ops.where(ops.logical_not(found) | is_bad, 0, bad + 1),
    )
    stops = (
        stop_update if hasattr(stop_update, "dtype") else ops.full((), bool(stop_update), dt.bool_)
    )
    return outs, *unless(stops, new, (prev_loss_scaling, in_good_steps, in_bad_steps))
