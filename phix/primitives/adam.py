"""Adam and its kin: steps along the mean of the gradients, scaled by that of their squares.

``beta1_pow`` and ``beta2_pow`` are the powers that the step at hand is corrected by, so they begin
as beta1 and beta2; what comes out is for the next step.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import rules
from phix.core.errors import ArgumentError
from phix.primitives.optimizers import momentum_step
from phix.primitives.updates import Weights, check_lists, unless
from phix.primitives.widening import as_dtype


def _number(x: Any, dtype: Any) -> Any:
    """A number, or a tensor of one element in that dtype."""
    return as_dtype(ops.reshape(x, ()), dtype) if hasattr(x, "dtype") else x


def _moments(w: Weights, first: Any, second: Any, beta1: Any, beta2: Any) -> tuple[Any, Any]:
    """The running means of the gradient and of its square."""
    return (
        beta1 * w.wide(first) + (1 - beta1) * w.g,
        beta2 * w.wide(second) + (1 - beta2) * (w.g * w.g),
    )


def _step(
    param: Any, grad: Any, learning_rate: Any, moment1: Any, moment2: Any, moment2_max: Any,
    beta1_pow: Any, beta2_pow: Any, master_param: Any, skip_update: Any, beta1: Any, beta2: Any,
    epsilon: Any, lr_ratio: Any, coeff: Any, multi_precision: bool, use_global_beta_pow: bool,
    amsgrad: bool,
) -> Any:  # fmt: skip
    """A step of adam_, with the weights made smaller by lr * coeff first."""
    if amsgrad and moment2_max is None:
        raise ArgumentError("amsgrad keeps the largest moment2 so far; pass moment2_max")
    w = Weights(
        param, grad, master_param, multi_precision,
        moment1=moment1, moment2=moment2, moment2_max=moment2_max,
    )  # fmt: skip
    beta1, beta2, epsilon = (_number(x, w.dtype) for x in (beta1, beta2, epsilon))
    power1, power2 = w.single("beta1_pow", beta1_pow), w.single("beta2_pow", beta2_pow)
    rate = w.single("learning_rate", learning_rate) * lr_ratio
    m1, m2 = _moments(w, moment1, moment2, beta1, beta2)
    largest = ops.maximum(m2, w.wide(moment2_max)) if amsgrad else m2
    correction = ops.sqrt(1 - power2)
    step = rate * correction / (1 - power1) * (m1 / (ops.sqrt(largest) + epsilon * correction))
    new, master = w.updated((w.p if coeff is None else w.p * (1 - rate * coeff)) - step)
    powers = (power1, power2) if use_global_beta_pow else (beta1 * power1, beta2 * power2)
    kept = largest if amsgrad else moment2_max
    old = (param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param)
    return unless(skip_update, (new, m1, m2, kept, *powers, master), old)


@rules.operands("adam_")
@rules.decompose("adam_")
def adam(
    param: Any, grad: Any, learning_rate: Any, moment1: Any, moment2: Any, moment2_max: Any,
    beta1_pow: Any, beta2_pow: Any, master_param: Any, skip_update: Any, beta1: Any, beta2: Any,
    epsilon: Any, lazy_mode: bool, min_row_size_to_use_multithread: int, multi_precision: bool,
    use_global_beta_pow: bool, amsgrad: bool,
) -> Any:  # fmt: skip
    return _step(
        param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow,
        master_param, skip_update, beta1, beta2, epsilon, 1.0, None, multi_precision,
        use_global_beta_pow, amsgrad,
    )  # fmt: skip


@rules.operands("adamw_")
@rules.decompose("adamw_")
def adamw(
    param: Any, grad: Any, learning_rate: Any, moment1: Any, moment2: Any, moment2_max: Any,
    beta1_pow: Any, beta2_pow: Any, master_param: Any, skip_update: Any, beta1: Any, beta2: Any,
    epsilon: Any, lr_ratio: Any, coeff: Any, with_decay: bool, lazy_mode: bool,
    min_row_size_to_use_multithread: int, multi_precision: bool, use_global_beta_pow: bool,
    amsgrad: bool,
) -> Any:  # fmt: skip
    return _step(
        param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow,
        master_param, skip_update, beta1, beta2, epsilon, lr_ratio, coeff if with_decay else None,
        multi_precision, use_global_beta_pow, amsgrad,
    )  # fmt: skip


@rules.decompose("adamax_")
def adamax(
    param: Any, grad: Any, learning_rate: Any, moment: Any, inf_norm: Any, beta1_pow: Any,
    master_param: Any, beta1: Any, beta2: Any, epsilon: Any, multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, moment=moment, inf_norm=inf_norm)
    m = beta1 * w.wide(moment) + (1 - beta1) * w.g
    norm = ops.maximum(ops.abs(w.g), beta2 * w.wide(inf_norm) + epsilon)
    rate = w.single("learning_rate", learning_rate) / (1 - w.single("beta1_pow", beta1_pow))
    new, master = w.updated(w.p - rate * (m / norm))
    return new, as_dtype(m, moment.dtype), as_dtype(norm, inf_norm.dtype), master


@rules.decompose("lamb_")
def lamb(
    param: Any, grad: Any, learning_rate: Any, moment1: Any, moment2: Any, beta1_pow: Any,
    beta2_pow: Any, master_param: Any, skip_update: Any, weight_decay: Any, beta1: Any, beta2: Any,
    epsilon: Any, always_adapt: bool, multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, moment1=moment1, moment2=moment2)
    power1, power2 = w.single("beta1_pow", beta1_pow), w.single("beta2_pow", beta2_pow)
    m1, m2 = _moments(w, moment1, moment2, beta1, beta2)
    step = m1 / (1 - power1) / (ops.sqrt(m2 / (1 - power2)) + epsilon) + weight_decay * w.p
    rate = w.single("learning_rate", learning_rate)
    if weight_decay > 0 or always_adapt:
        rate = rate * _trust(ops.sum(w.p * w.p), ops.sum(step * step))
    new, master = w.updated(w.p - rate * step)
    old = (param, moment1, moment2, beta1_pow, beta2_pow, master_param)
    return unless(skip_update, (new, m1, m2, beta1 * power1, beta2 * power2, master), old)


def _trust(weights: Any, steps: Any) -> Any:
    """The ratio of two norms, from their squares; 1 where one of them is 0."""
    is_told = (weights > 0) & (steps > 0)
    weights, steps = (ops.where(is_told, x, 1.0) for x in (weights, steps))
    return ops.sqrt(weights) / ops.sqrt(steps)


_DECAY = 0.96  # of the momentum, a step (T. Dozat, "Incorporating Nesterov momentum", 2016)


@rules.decompose("nadam_")
def nadam(
    param: Any, grad: Any, learning_rate: Any, momentum_decay_pow: Any, beta2_pow: Any,
    mu_product: Any, moment1: Any, moment2: Any, master_param: Any, beta1: Any, beta2: Any,
    epsilon: Any, momentum_decay: Any, multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, moment1=moment1, moment2=moment2)
    decayed = w.single("momentum_decay_pow", momentum_decay_pow) * _DECAY
    power2 = w.single("beta2_pow", beta2_pow) * beta2
    share = ops.pow(decayed, momentum_decay)
    mu = beta1 * (1 - 0.5 * share)
    mu_next = beta1 * (1 - 0.5 * share * math.pow(_DECAY, momentum_decay))
    product = w.single("mu_product", mu_product) * mu
    m1, m2 = _moments(w, moment1, moment2, beta1, beta2)
    mean = mu_next / (1 - product * mu_next) * m1 + (1 - mu) / (1 - product) * w.g
    scale = ops.sqrt(m2 / (1 - power2)) + epsilon
    new, master = w.updated(w.p - w.single("learning_rate", learning_rate) * mean / scale)
    old = (param, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2, master_param)
    return unless(None, (new, decayed, power2, product, m1, m2, master), old)


@rules.decompose("radam_")
def radam(
    param: Any, grad: Any, learning_rate: Any, beta1_pow: Any, beta2_pow: Any, rho: Any,
    moment1: Any, moment2: Any, master_param: Any, beta1: Any, beta2: Any, epsilon: Any,
    multi_precision: bool,
) -> Any:  # fmt: skip
    w = Weights(param, grad, master_param, multi_precision, moment1=moment1, moment2=moment2)
    power1 = w.single("beta1_pow", beta1_pow) * beta1
    power2 = w.single("beta2_pow", beta2_pow) * beta2
    share = (w.single("rho", rho) * (beta2 - power2) + power2) / (1 - power2)
    most = 2 / (1 - beta2) - 1
    length = most - 2 * share  # of the mean that the second moment amounts to
    m1, m2 = _moments(w, moment1, moment2, beta1, beta2)
    is_long = length > 5
    told = ops.where(is_long, length, 5.0)
    part = (told - 4) * (told - 2) * most / ((most - 4) * (most - 2) * told)
    scaled = ops.sqrt(part * (1 - power2)) / (ops.sqrt(m2) + epsilon)
    rate = w.single("learning_rate", learning_rate) / (1 - power1)
    new, master = w.updated(w.p - rate * m1 * ops.where(is_long, scaled, 1.0))
    old = (param, beta1_pow, beta2_pow, rho, moment1, moment2, master_param)
    return unless(None, (new, power1, power2, share, m1, m2, master), old)


# -- many weights at once ------------------------------------------------------------------------
def _each(entries: Any, count: int) -> Any:
    return [None] * count if entries is None else entries


def _columns(rows: Any, is_given: Any, width: int) -> list[Any]:
    """The outputs of all steps, a list an output, None for one that no step has."""
    columns = list(zip(*rows)) if rows else [()] * width
    return [list(column) if given else None for column, given in zip(columns, is_given)]


@rules.operands("merged_adam_")
@rules.decompose("merged_adam_")
def merged_adam(
    param: Any, grad: Any, learning_rate: Any, moment1: Any, moment2: Any, moment2_max: Any,
    beta1_pow: Any, beta2_pow: Any, master_param: Any, beta1: Any, beta2: Any, epsilon: Any,
    multi_precision: bool, use_global_beta_pow: bool, amsgrad: bool,
) -> Any:  # fmt: skip
    count = len(param)
    rates = _rates(learning_rate, count)
    check_lists(
        count, grad=grad, moment1=moment1, moment2=moment2, moment2_max=moment2_max,
        beta1_pow=beta1_pow, beta2_pow=beta2_pow, master_param=master_param,
    )  # fmt: skip
    entries: Any = zip(
        param, grad, rates, moment1, moment2, _each(moment2_max, count), beta1_pow, beta2_pow,
        _each(master_param, count),
    )  # fmt: skip
    settings = (beta1, beta2, epsilon, 1.0, None, multi_precision, use_global_beta_pow, amsgrad)
    rows = [_step(*(*entry, None, *settings)) for entry in entries]
    given = (True, True, True, moment2_max is not None, True, True, master_param is not None)
    return _columns(rows, given, 7)


def _rates(learning_rate: Any, count: int) -> Any:
    if len(learning_rate) == 1:
        return list(learning_rate) * count
    check_lists(count, learning_rate=learning_rate)
    return learning_rate


@rules.operands("fused_adam_")
@rules.decompose("fused_adam_")
def fused_adam(
    params: Any, grads: Any, learning_rate: Any, moments1: Any, moments2: Any, moments2_max: Any,
    beta1_pows: Any, beta2_pows: Any, master_params: Any, skip_update: Any, beta1: Any, beta2: Any,
    epsilon: Any, chunk_size: int, weight_decay: Any, use_adamw: bool, multi_precision: bool,
    use_global_beta_pow: bool, amsgrad: bool,
) -> Any:  # fmt: skip
    count = len(params)
    check_lists(
        count, grads=grads, moments1=moments1, moments2=moments2, moments2_max=moments2_max,
        beta1_pows=beta1_pows, beta2_pows=beta2_pows, master_params=master_params,
    )  # fmt: skip
    entries: Any = zip(
        params, grads, moments1, moments2, _each(moments2_max, count), beta1_pows, beta2_pows,
        _each(master_params, count),
    )  # fmt: skip
    coeff = weight_decay if use_adamw else None
    settings = (beta1, beta2, epsilon, 1.0, coeff, multi_precision, use_global_beta_pow, amsgrad)
    rows = [
        _step(*(p, g, learning_rate, *state, skip_update, *settings)) for p, g, *state in entries
    ]
    given = (True, True, True, moments2_max is not None, True, True, master_params is not None)
    return _columns(rows, given, 7)


@rules.decompose("merged_momentum_")
def merged_momentum(
    param: Any, grad: Any, velocity: Any, learning_rate: Any, master_param: Any, mu: Any,
    use_nesterov: bool, regularization_method: Any, regularization_coeff: Any,
    multi_precision: bool, rescale_grad: Any,
) -> Any:  # fmt: skip
    count = len(param)
    methods = regularization_method or [""] * count
    coeffs = regularization_coeff or [0.0] * count
    check_lists(
        count, grad=grad, velocity=velocity, master_param=master_param,
        regularization_method=methods, regularization_coeff=coeffs,
    )  # fmt: skip
    rows = [
        momentum_step(p, g, v, rate, master, mu, use_nesterov, method, coeff, multi_precision,
                      rescale_grad)
        for p, g, v, rate, master, method, coeff in zip(
            param, grad, velocity, _rates(learning_rate, count), _each(master_param, count),
            methods, coeffs)
    ]  # fmt: skip
    return _columns(rows, (True, True, master_param is not None), 3)
