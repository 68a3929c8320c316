"""Softmax and normalisations over rows, forward, and forward with backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import F, jax, jnp, torch
from phix import ops

SHAPE = (4096, 1024)
Functions = Mapping[str, Callable[..., Any]]


def _both(name: str, args: tuple[np.ndarray, ...], functions: Functions) -> None:
    """Two rows of a function of x and its parameters."""

    @row(f"{name}", jax=1.5, torch=1)
    def forward() -> Case:
        return Case((normal(*SHAPE), *args), functions)

    @row(f"{name} with gradient", jax=1.5, torch=1)
    def backward() -> Case:
        tree = (normal(*SHAPE, seed=1), normal(*SHAPE), *args)
        return Case(tree, functions, mode="vjp", tolerance=1e-4)


def _softmax_numpy(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


_both(
    "softmax, 4096 x 1024",
    (),
    {
        "phix": lambda x: ops.softmax(x, -1),
        "jax": lambda x: jax.nn.softmax(x, axis=-1),
        "torch": lambda x: torch.softmax(x, -1),
        "numpy": _softmax_numpy,
    },
)


def _layer_norm_jax(x: Any, scale: Any, bias: Any) -> Any:
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


_WIDE = (1.0 + normal(SHAPE[1], scale=0.1), normal(SHAPE[1], seed=1, scale=0.1))
_both(
    "layer_norm, 4096 x 1024",
    _WIDE,
    {
        "phix": lambda x, w, b: ops.layer_norm(x, w, b),
        "jax": _layer_norm_jax,
        "torch": lambda x, w, b: F.layer_norm(x, (SHAPE[1],), w, b),
    },
)


def _rms_norm_phix(x: Any, scale: Any) -> Any:
    return ops.rms_norm(x, None, None, scale, None, 1e-5, 1)[0]


_both(
    "rms_norm, 4096 x 1024",
    _WIDE[:1],
    {
        "phix": _rms_norm_phix,
        "jax": lambda x, w: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-5) * w,
        "torch": lambda x, w: F.rms_norm(x, (SHAPE[1],), w, 1e-5),
    },
)


def _nll_phix(x: Any, labels: Any) -> Any:
    picked = ops.take_along_axis(ops.log_softmax(x), ops.reshape(labels, [-1, 1]), 1)
    return -ops.mean(picked)


def _nll_jax(x: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


_NLL = {
    "phix": _nll_phix,
    "jax": _nll_jax,
    "torch": lambda x, labels: F.cross_entropy(x, labels.long()),
}


def _nll_args() -> tuple[np.ndarray, np.ndarray]:
    return normal(*SHAPE), np.random.default_rng(0).integers(0, SHAPE[1], SHAPE[0], np.int32)


@row("log_softmax and nll, 4096 x 1024", jax=1.5, torch=1)
def nll() -> Case:
    return Case(_nll_args(), _NLL)


@row("log_softmax and nll with gradient, 4096 x 1024", jax=1.5, torch=1)
def nll_gradient() -> Case:
    return Case(_nll_args(), _NLL, mode="value_and_grad", tolerance=1e-4)
