"""Reductions and prefix sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import jnp, torch
from phix import ops

SHAPE = (4096, 4096)
# axis -> how it is called, and written by the libraries
AXES = {0: "axis 0", 1: "axis 1", None: "all"}


def _reduction(name: str, axis: int | None) -> None:
    ours: Any = () if axis is None else (axis,)
    theirs: Any = () if axis is None else (axis,)
    argmax = name == "argmax"

    def in_phix(x: Any) -> Any:
        if argmax:
            return ops.argmax(x, 0 if axis is None else axis, flatten=axis is None)
        return getattr(ops, name)(x, axis=ours)

    def in_torch(x: Any) -> Any:
        # amax: max alone computes the positions as well
        return torch.argmax(x, axis) if argmax else getattr(torch, _TORCH[name])(x, theirs)

    @row(f"{name} over {AXES[axis]}, 4096 x 4096", jax=1)
    def reduction() -> Case:
        return Case(
            (normal(*SHAPE),),
            {
                "phix": in_phix,
                "jax": lambda x: getattr(jnp, name)(x, axis),
                "torch": in_torch,
                "numpy": lambda x: getattr(np, name)(x, axis),
            },
            tolerance=1e-4,
        )


_TORCH = {"sum": "sum", "max": "amax"}
for _name in ("sum", "max", "argmax"):
    for _axis in AXES:
        _reduction(_name, _axis)


@row("var over axis 1, 4096 x 4096", jax=1)
def var() -> Case:
    return Case(
        (normal(*SHAPE),),
        {
            "phix": lambda x: ops.var(x, axis=(1,), unbiased=False),
            "jax": lambda x: jnp.var(x, 1),
            "torch": lambda x: torch.var(x, 1, correction=0),
            "numpy": lambda x: np.var(x, 1),
        },
    )


@row("cumsum, 1e6", jax=5)
def cumsum() -> Case:
    # sums of values of one sign: no cancellation that would depend on the order
    return Case(
        (np.abs(normal(1_000_000)),),
        {
            "phix": lambda x: ops.cumsum(x, 0),
            "jax": lambda x: jnp.cumsum(x),
            "torch": lambda x: torch.cumsum(x, 0),
            "numpy": lambda x: np.cumsum(x),
        },
        tolerance=1e-3,
    )
