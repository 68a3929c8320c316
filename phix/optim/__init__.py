"""Optimizers, as pairs of pure functions, under optax's names and with its arguments.

An optimizer is a pair: ``init(params)`` gives a state, ``update(grads, state, params)`` updates
and the next state, and :func:`apply_updates` adds the updates. All are trees of tensors, and a step
is a function like any other::

    optimizer = phix.optim.adamw(1e-3)

    @phix.jit(donate_argnums=(0, 1))
    def step(params, state, batch):
        grads = phix.grad(loss)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return phix.optim.apply_updates(params, updates), state

Pairs are composed by :func:`chain`; rates may be schedules, functions of the number of the step.
Numbers of half precision are computed in float32 and rounded where they are kept. Imported on first
use.
"""

from phix.core.faces import face
from phix.optim.base import (
    EmptyState,
    GradientTransformation,
    GradientTransformationExtraArgs,
    apply_updates,
    chain,
    global_norm,
    identity,
    incremental_update,
    with_extra_args_support,
)
from phix.optim.clipping import (
    adaptive_grad_clip,
    add_decayed_weights,
    clip,
    clip_by_block_rms,
    clip_by_global_norm,
)
from phix.optim.factored import scale_by_factored_rms, scale_by_param_block_rms
from phix.optim.loss_scaling import dynamic_loss_scaling
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
from phix.optim.optimizers import (
    adadelta,
    adafactor,
    adagrad,
    adam,
    adamax,
    adamaxw,
    adamw,
    lamb,
    lion,
    nadam,
    nadamw,
    radam,
    rmsprop,
    rprop,
    sgd,
)
from phix.optim.quasi_newton import lbfgs, scale_by_lbfgs
from phix.optim.rates import (
    ema,
    scale,
    scale_by_learning_rate,
    scale_by_rprop,
    scale_by_schedule,
    scale_by_trust_ratio,
    trace,
)
from phix.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    cosine_onecycle_schedule,
    exponential_decay,
    join_schedules,
    linear_onecycle_schedule,
    linear_schedule,
    piecewise_constant_schedule,
    piecewise_interpolate_schedule,
    polynomial_schedule,
    sgdr_schedule,
    warmup_constant_schedule,
    warmup_cosine_decay_schedule,
    warmup_exponential_decay_schedule,
)
from phix.optim.wrapping import (
    MultiSteps,
    apply_if_finite,
    inject_hyperparams,
    masked,
    multi_transform,
    partition,
    set_to_zero,
)
from phix.optim.zoom import scale_by_zoom_linesearch, value_and_grad_from_state

__all__ = [
    "EmptyState", "GradientTransformation", "GradientTransformationExtraArgs", "MultiSteps",
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adaptive_grad_clip",
    "add_decayed_weights", "apply_if_finite", "apply_updates", "chain", "clip", "clip_by_block_rms",
    "clip_by_global_norm", "constant_schedule", "cosine_decay_schedule", "cosine_onecycle_schedule",
    "dynamic_loss_scaling", "ema", "exponential_decay", "global_norm", "identity",
    "incremental_update", "inject_hyperparams", "join_schedules", "lamb", "lbfgs",
    "linear_onecycle_schedule", "linear_schedule", "lion", "masked", "multi_transform", "nadam",
    "nadamw", "partition", "piecewise_constant_schedule", "piecewise_interpolate_schedule",
    "polynomial_schedule", "radam", "rmsprop", "rprop", "scale", "scale_by_adadelta",
    "scale_by_adam", "scale_by_adamax", "scale_by_factored_rms", "scale_by_lbfgs",
    "scale_by_learning_rate", "scale_by_lion", "scale_by_param_block_rms", "scale_by_radam",
    "scale_by_rms", "scale_by_rprop", "scale_by_rss", "scale_by_schedule", "scale_by_stddev",
    "scale_by_trust_ratio", "scale_by_zoom_linesearch", "set_to_zero", "sgd", "sgdr_schedule",
    "trace", "value_and_grad_from_state", "warmup_constant_schedule",
    "warmup_cosine_decay_schedule", "warmup_exponential_decay_schedule", "with_extra_args_support",
]  # fmt: skip
__dir__ = face(__all__)
