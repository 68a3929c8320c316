"""Optimizers, as chains of transformations."""

from __future__ import annotations

from typing import Any

from phix.core.annotations import DTypeLike
from phix.core.given import NONE, takes
from phix.optim.base import (
    NUMBER,
    RATE,
    GradientTransformationExtraArgs,
    RateLike,
    chain,
    identity,
)
from phix.optim.clipping import add_decayed_weights, clip_by_block_rms
from phix.optim.factored import scale_by_factored_rms, scale_by_param_block_rms
from phix.optim.moments import (
    scale_by_adadelta,
    scale_by_adam,
    scale_by_adamax,
    scale_by_lion,
    scale_by_radam,
    scale_by_rms,
    scale_by_rss,
    scale_by_stddev,
)
from phix.optim.rates import (
    ema,
    scale,
    scale_by_learning_rate,
    scale_by_rprop,
    scale_by_trust_ratio,
    trace,
)

Optimizer = GradientTransformationExtraArgs


@takes(learning_rate=RATE, momentum=NUMBER | NONE)
def sgd(
    learning_rate: RateLike,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> Optimizer:
    """-learning_rate * g, or along the decaying sum :func:`trace` with momentum.

    >>> import phix
    >>> tx = phix.optim.sgd(0.5)
    >>> tx.update([phix.ones([1])], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    own = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(own, scale_by_learning_rate(learning_rate))


@takes(learning_rate=RATE)
def adam(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam: :func:`scale_by_adam`, times -learning_rate.

    >>> import phix
    >>> tx = phix.optim.adam(0.5, eps=0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE)
def nadam(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = True,
) -> Optimizer:
    """:func:`adam` with Nesterov's momentum.

    >>> import phix
    >>> tx = phix.optim.nadam(0.5)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].item() < 0
    True
    """
    return adam(learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)


@takes(learning_rate=RATE, weight_decay=RATE)
def adamw(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: RateLike = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """:func:`adam` with weight_decay * parameter added before the rate; the mask says to which.

    (I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", 2019.)

    >>> import phix
    >>> tx = phix.optim.adamw(0.5, eps=0.0, weight_decay=1.0)
    >>> p = [phix.ones([1])]
    >>> tx.update([phix.full([1], 4.0)], tx.init(p), p)[0][0].tolist()
    [-1.0]
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE, weight_decay=RATE)
def nadamw(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: RateLike = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = True,
) -> Optimizer:
    """:func:`adamw` with Nesterov's momentum.

    >>> import phix
    >>> tx = phix.optim.nadamw(0.5)
    >>> p = [phix.ones([1])]
    >>> tx.update([phix.full([1], 4.0)], tx.init(p), p)[0][0].item() < 0
    True
    """
    return adamw(
        learning_rate, b1, b2, eps, eps_root, mu_dtype, weight_decay, mask, nesterov=nesterov
    )


@takes(learning_rate=RATE)
def adamax(
    learning_rate: RateLike, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """Adam by the largest gradients: :func:`scale_by_adamax`, times -learning_rate.

    >>> import phix
    >>> tx = phix.optim.adamax(0.5)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


@takes(learning_rate=RATE, weight_decay=RATE)
def adamaxw(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: RateLike = 1e-4,
    mask: Any = None,
) -> Optimizer:
    """:func:`adamax` with decay of weights, as :func:`adamw` has it.

    >>> import phix
    >>> tx = phix.optim.adamaxw(0.5, weight_decay=1.0)
    >>> p = [phix.ones([1])]
    >>> tx.update([phix.full([1], 4.0)], tx.init(p), p)[0][0].tolist()
    [-1.0]
    """
    return chain(
        scale_by_adamax(b1, b2, eps),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE)
def radam(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Rectified Adam: :func:`scale_by_radam`, times -learning_rate.

    >>> import phix
    >>> tx = phix.optim.radam(0.5)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-2.0]
    """
    return chain(
        scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE, weight_decay=RATE)
def lamb(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: RateLike = 0.0,
    mask: Any = None,
) -> Optimizer:
    """:func:`adamw` with each leaf's update as long as its parameters (Y. You et al., 2020).

    >>> import phix
    >>> tx = phix.optim.lamb(0.5, eps=0.0)
    >>> p = [phix.full([1], 4.0)]
    >>> tx.update([phix.ones([1])], tx.init(p), p)[0][0].tolist()
    [-2.0]
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE, weight_decay=RATE)
def lion(
    learning_rate: RateLike,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: DTypeLike | None = None,
    weight_decay: RateLike = 1e-3,
    mask: Any = None,
) -> Optimizer:
    """The sign of a mean: :func:`scale_by_lion` with decay of weights, times -learning_rate.

    >>> import phix
    >>> tx = phix.optim.lion(0.5, weight_decay=0.0)
    >>> p = [phix.ones([1])]
    >>> tx.update([phix.full([1], 4.0)], tx.init(p), p)[0][0].tolist()
    [-0.5]
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE)
def adagrad(
    learning_rate: RateLike, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> Optimizer:
    """g by the root of the sum of squares: :func:`scale_by_rss`, times -learning_rate.

    >>> import phix
    >>> tx = phix.optim.adagrad(0.5, 0.0, 0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )


@takes(learning_rate=RATE | NONE, weight_decay=RATE)
def adadelta(
    learning_rate: RateLike | None = None,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: RateLike = 0.0,
    weight_decay_mask: Any = None,
) -> Optimizer:
    """:func:`scale_by_adadelta` of gradients with decay of weights, times -learning_rate.

    A learning_rate of None is 1.

    >>> import phix
    >>> tx = phix.optim.adadelta(1.0, rho=0.0, eps=1.0)
    >>> p = [phix.ones([1])]
    >>> tx.update([phix.zeros([1])], tx.init(p), p)[0][0].item() == 0
    True
    """
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        scale_by_adadelta(rho, eps),
        scale_by_learning_rate(learning_rate),
    )


@takes(learning_rate=RATE, momentum=NUMBER | NONE)
def rmsprop(
    learning_rate: RateLike,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Optimizer:
    """:func:`scale_by_rms`, or :func:`scale_by_stddev` if centered, times -learning_rate.

    With momentum the steps are summed by :func:`trace`.

    >>> import phix
    >>> tx = phix.optim.rmsprop(0.5, decay=0.75, eps=0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-1.0]
    """
    by = scale_by_stddev if centered else scale_by_rms
    return chain(
        by(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        identity() if momentum is None else trace(momentum, nesterov),
    )


@takes()
def rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> Optimizer:
    """By the signs of gradients alone: :func:`scale_by_rprop`, times -1.

    >>> import phix
    >>> tx = phix.optim.rprop(0.5)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    return chain(
        scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size),
        scale(-1.0),
    )


@takes(learning_rate=RATE | NONE, weight_decay_rate=RATE | NONE)
def adafactor(
    learning_rate: RateLike | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: DTypeLike = "float32",
    weight_decay_rate: RateLike | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: Any = None,
) -> Optimizer:
    """Adafactor: :func:`scale_by_factored_rms`, clipped, times the size of the parameters.

    >>> import phix
    >>> tx = phix.optim.adafactor(0.5)
    >>> p = [phix.full([1], 2.0)]
    >>> tx.update([phix.full([1], 4.0)], tx.init(p), p)[0][0].tolist()
    [-1.0]
    """
    steps = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        steps.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        steps.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        steps.append(scale_by_param_block_rms())
    if momentum is not None:
        steps.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        steps.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*steps, scale(-1.0))
