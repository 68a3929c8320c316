"""Ops of networks, matrices and training beyond the first hundred."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import jax, jnp, torch
from phix import ops


def _volumes(images: Any, filters: Any) -> Any:
    return ops.conv3d(images, filters, paddings=(1, 1, 1))


@row("conv3d, 2 x 8 x 16^3, 16 filters of 3^3", jax=1.5)
def conv3d() -> Case:
    functions: dict[str, Callable[..., Any]] = {
        "phix": _volumes,
        "jax": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1, 1), [(1, 1)] * 3),
        "torch": lambda x, w: torch.nn.functional.conv3d(x, w, padding=1),
    }
    return Case((normal(2, 8, 16, 16, 16), normal(16, 8, 3, 3, 3, seed=1)), functions)


@row("bilinear interpolation, 4 x 16 x 64 x 64 to 128 x 128", torch=1.5)
def interpolation() -> Case:
    def of_torch(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, (128, 128), mode="bilinear")

    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x: ops.bilinear_interp(
            x, out_h=128, out_w=128, align_corners=False, align_mode=0
        ),
        "jax": lambda x: jax.image.resize(x, (4, 16, 128, 128), "bilinear"),
        "torch": of_torch,
    }
    return Case((normal(4, 16, 64, 64),), functions)


@row("max_pool3d, 2 x 16 x 32^3, windows of 2^3", torch=1.5)
def pooling() -> Case:
    of_phix = ((2, 2, 2), (2, 2, 2), (0, 0, 0), False, True, "NCDHW", "max", False, False)
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x: ops.pool3d(x, *of_phix, "EXPLICIT"),
        "jax": lambda x: jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 1, 2, 2, 2), (1, 1, 2, 2, 2), "VALID"
        ),
        "torch": lambda x: torch.nn.functional.max_pool3d(x, 2),
    }
    return Case((normal(2, 16, 32, 32, 32),), functions)


def _factors(name: str, count: int, size: int, phix: Any, jax: Any, torch: Any, numpy: Any) -> None:
    @row(f"{name}, {count} x {size} x {size}", jax=1.5)
    def factors() -> Case:
        a = normal(count, size, size)
        symmetric = a + np.swapaxes(a, -1, -2)
        functions = {"phix": phix, "jax": jax, "torch": torch, "numpy": numpy}
        return Case((symmetric,), functions, tolerance=1e-4)


for _count, _size in ((1000, 8), (1, 256)):
    _factors(
        "singular values", _count, _size, lambda x: ops.svd(x)[1],
        lambda x: jnp.linalg.svd(x, full_matrices=False)[1],
        lambda x: torch.linalg.svd(x, full_matrices=False)[1],
        lambda x: np.linalg.svd(x, full_matrices=False)[1],
    )  # fmt: skip
    _factors(
        "R of qr", _count, _size, lambda x: ops.abs(ops.qr(x)[1]),
        lambda x: jnp.abs(jnp.linalg.qr(x)[1]), lambda x: torch.abs(torch.linalg.qr(x)[1]),
        lambda x: np.abs(np.linalg.qr(x)[1]),
    )  # fmt: skip
    _factors(
        "eigenvalues of eigh", _count, _size, lambda x: ops.eigh(x)[0],
        lambda x: jnp.linalg.eigh(x)[0], lambda x: torch.linalg.eigh(x)[0],
        lambda x: np.linalg.eigh(x)[0],
    )  # fmt: skip


# JAX has no program for results whose sizes depend on data.
@row("unique, 1e6 of 1e5 ints", numpy=1.0)
def unique() -> Case:
    x = np.random.default_rng(0).integers(0, 100_000, 1_000_000)
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x: ops.unique(x, False, False, False, [])[0],
        "torch": lambda x: torch.unique(x),
        "numpy": lambda x: np.unique(x),
    }
    return Case((x,), functions)


@row("nonzero, half of 1e6 floats", torch=1.5)
def nonzero() -> Case:
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x: ops.nonzero(x > 0.0),
        "torch": lambda x: torch.nonzero(x > 0.0),
        "numpy": lambda x: np.argwhere(x > 0.0),
    }
    return Case((normal(1_000_000),), functions)


def _recurrent(kind: str, gates: int) -> None:
    @row(f"{kind} with gradient, 50 steps of 32 x 64, 64 wide", torch=1.5)
    def recurrent() -> Case:
        steps, batch, width = 50, 32, 64
        weights = [
            normal(gates * width, width, scale=0.1),
            normal(gates * width, width, seed=1, scale=0.1),
            normal(gates * width, seed=2, scale=0.1),
            normal(gates * width, seed=3, scale=0.1),
        ]
        mode = kind.upper()

        def of_phix(w: Any, x: Any) -> Any:
            zero = ops.full((1, batch, width), 0.0)
            state = [zero, zero] if kind == "lstm" else [zero]
            key = np.zeros(2, np.uint32)
            out = ops.rnn(x, state, w, None, key, 0.0, False, width, width, 1, mode)[0]
            return ops.sum(out * out)

        def of_torch(w: Any, x: Any) -> Any:
            zero = torch.zeros(1, batch, width)
            state = (zero, zero) if kind == "lstm" else zero
            out = getattr(torch, kind)(x, state, w, True, 1, 0.0, False, False, False)[0]
            return (out * out).sum()

        functions = {"phix": of_phix, "torch": of_torch}
        args = (weights, normal(steps, batch, width))
        return Case(args, functions, mode="value_and_grad", tolerance=1e-4)


_recurrent("lstm", 4)
_recurrent("gru", 3)


@row("ctc with gradient, 100 steps of 16 x 40, 20 labels", torch=1.5)
def ctc() -> Case:
    steps, batch, classes, longest = 100, 16, 40, 20
    labels = np.random.default_rng(0).integers(1, classes, (batch, longest)).astype(np.int32)
    lengths = np.full(batch, steps, np.int64)
    counts = np.full(batch, longest, np.int64)

    def of_phix(x: Any) -> Any:
        return ops.sum(ops.warpctc(x, labels, lengths, counts))

    def of_torch(x: Any) -> Any:
        sizes = [torch.as_tensor(v) for v in (labels.astype(np.int64), lengths, counts)]
        scores = torch.log_softmax(x, -1)
        return torch.nn.functional.ctc_loss(scores, *sizes, reduction="sum")

    functions = {"phix": of_phix, "torch": of_torch}
    return Case((normal(steps, batch, classes),), functions, mode="value_and_grad", tolerance=1e-3)
