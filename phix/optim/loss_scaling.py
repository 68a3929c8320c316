"""Losses times a scale, so that gradients of half precision do not vanish."""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops
from phix.core import pytrees
from phix.core.given import at_least, takes
from phix.optim.base import (
    NUMBER,
    PAIR,
    GradientTransformationExtraArgs,
    Transformation,
    as_tensor,
    mapped,
    pair,
    wide,
    with_extra_args_support,
)
from phix.optim.wrapping import either


class LossScaleState(NamedTuple):
    """What the loss is to be multiplied by, how many steps were good or bad in a row, the rest."""

    scale: Any
    good_steps: Any
    bad_steps: Any
    inner_state: Any


@takes(inner=PAIR, init_scale=NUMBER, incr_ratio=NUMBER, decr_ratio=NUMBER,
       incr_every_n_steps=at_least(1), decr_every_n_nan_or_inf=at_least(1))  # fmt: skip
def dynamic_loss_scaling(
    inner: Transformation,
    init_scale: float = 65536.0,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.5,
    incr_every_n_steps: int = 2000,
    decr_every_n_nan_or_inf: int = 1,
) -> GradientTransformationExtraArgs:
    """The transformation for gradients of ``loss * state.scale``, in float32 at least.

    Gradients are divided by the scale. If one has NaN or Inf, updates are zeros and the state
    inside stays. The scale follows ``phix.ops.update_loss_scaling_``: it grows by incr_ratio after
    incr_every_n_steps good steps in a row, and shrinks by decr_ratio after
    decr_every_n_nan_or_inf bad ones, to 1 at least.

    >>> import phix
    >>> tx = phix.optim.dynamic_loss_scaling(phix.optim.sgd(1.0), init_scale=4.0)
    >>> state = tx.init([phix.ones([1], "float16")])
    >>> g = phix.grad(lambda w: (w * w).sum() * state.scale)(phix.ones([1], "float16"))
    >>> updates, state = tx.update([g], state)
    >>> updates[0].tolist(), tx.update([g / 0], state)[1].scale.item()
    ([-2.0], 2.0)
    """
    tx = with_extra_args_support(inner)

    def init(params: Any) -> LossScaleState:
        none = ops.full((), 0, "int32")
        return LossScaleState(as_tensor(float(init_scale)), none, none, tx.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        # The two ops end what they are given: copies, that gradients and the old state live on.
        leaves, treedef = pytrees.flatten(mapped(lambda x: ops.assign(wide(x)), updates))
        unscaled, found = ops.check_finite_and_unscale_(leaves, state.scale)
        grads = pytrees.unflatten(treedef, unscaled)
        out, own = either(
            ops.logical_not(ops.reshape(found, ())),
            lambda g, s: tx.update(g, s, params, **extra),
            lambda g, s: (mapped(lambda x: ops.full_like(x, 0, x.dtype), g), s),
            grads,
            state.inner_state,
        )
        scale, good, bad = map(ops.assign, (state.scale, state.good_steps, state.bad_steps))
        _, scale, good, bad = ops.update_loss_scaling_(
            [], found, scale, good, bad, incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio,
            decr_ratio, False,
        )  # fmt: skip
        scale, good, bad = (ops.reshape(x, ()) for x in (scale, good, bad))
        return out, LossScaleState(scale, good, bad, own)

    return pair("dynamic_loss_scaling", init, update)
