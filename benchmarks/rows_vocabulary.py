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


@row("adaptive_avg_pool2d, 32 x 64 x 13 x 13 to 6 x 6, with gradient", torch=1.5)
def adaptive_pooling() -> Case:
    of_phix = ((6, 6), (1, 1), (0, 0), False, True, "NCHW", "avg", False, True, "EXPLICIT")
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x: ops.sum(ops.pool2d(x, *of_phix) ** 2.0),
        "torch": lambda x: (torch.nn.functional.adaptive_avg_pool2d(x, 6) ** 2.0).sum(),
    }
    return Case((normal(32, 64, 13, 13),), functions, mode="value_and_grad")


_BINS, _TAPS, _SCALE = 7, 2, 0.25


def _aligned_regions(xp: Any, whole: Any, x: Any, boxes: Any, image: Any) -> Any:
    """roi_align of boxes inside the images, by gathers; ``whole`` makes ints."""
    height, width = x.shape[2:]
    part = (xp.arange(_BINS * _TAPS) + 0.5) / (_BINS * _TAPS)
    left, top, right, bottom = ((boxes[:, k, None] * _SCALE - 0.5) for k in range(4))
    found: Any = 0.0
    rows, columns = top + (bottom - top) * part, left + (right - left) * part
    for up in (0, 1):
        for aside in (0, 1):
            corner = []
            for at, more, size in ((rows, up, height), (columns, aside, width)):
                at = xp.clip(at, 0.0, size - 1.0)
                low = xp.clip(xp.floor(at), 0.0, size - 2.0)
                share = at - low if more else 1.0 - (at - low)
                corner.append((whole(low) + more, share))
            (y, of_y), (z, of_z) = corner
            taken = x[image[:, None, None], :, y[:, :, None], z[:, None, :]]
            found = found + taken * (of_y[:, :, None] * of_z[:, None, :])[..., None]
    bins = found.reshape(len(boxes), _BINS, _TAPS, _BINS, _TAPS, -1).mean((2, 4))
    return xp.moveaxis(bins, -1, 1)


@row("roi_align, 256 boxes of 2 x 64 x 64 x 64, 7 x 7 bins", jax=1.5, torch=1.5)
def regions() -> Case:
    draw = np.random.default_rng(0)
    corners, sizes = draw.uniform(4, 120, (256, 2)), draw.uniform(16, 120, (256, 2))
    boxes = np.concatenate([corners, corners + sizes], 1).astype(np.float32)
    images, counts = np.repeat([0, 1], 128), np.array([128, 128], np.int32)
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x, boxes, _: ops.roi_align(
            x, boxes, counts, _BINS, _BINS, _SCALE, _TAPS, True
        ),
        "jax": lambda *given: _aligned_regions(jnp, lambda v: v.astype("int32"), *given),
        "torch": lambda *given: _aligned_regions(torch, lambda v: v.long(), *given),
    }
    return Case((normal(2, 64, 64, 64), boxes, images), functions)


@row("adamw, 100 tensors of 64 x 64", jax=1.5, torch=1.5)
def fused_step() -> Case:
    """torch's own step for many tensors, which writes over its parameters and moments."""
    rate, decay, first, second, least = 1e-3, 0.01, 0.9, 0.999, 1e-8
    draws = [[normal(64, 64, seed=100 * k + n) for n in range(100)] for k in range(4)]
    draws[3] = [np.abs(v) for v in draws[3]]

    def each(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *trees: [list(column) for column in zip(*map(step, *trees))]

    def of_phix(p: Any, g: Any, m: Any, v: Any) -> Any:
        powers = (ops.full((1,), first), ops.full((1,), second))
        found = ops.adamw_(
            p, g, ops.full((1,), rate), m, v, None, *powers, beta1=first, beta2=second,
            epsilon=least, coeff=decay, with_decay=True,
        )  # fmt: skip
        return found[:3]

    def of_jax(p: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = first * m + (1 - first) * g, second * v + (1 - second) * g * g
        step = (m / (1 - first)) / (jnp.sqrt(v / (1 - second)) + least)
        return p * (1 - rate * decay) - rate * step, m, v

    def of_torch(*trees: Any) -> Any:
        p, g, m, v = trees
        torch._fused_adamw_(
            p, g, m, v, [], [torch.ones(()) for _ in p], lr=rate, beta1=first, beta2=second,
            weight_decay=decay, eps=least, amsgrad=False, maximize=False,
        )  # fmt: skip
        return p, m, v

    return Case(tuple(draws), {"phix": each(of_phix), "jax": each(of_jax), "torch": of_torch})


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


@row("det with gradient, 1000 x 8 x 8", jax=1.5)
def determinant() -> Case:
    """By the LU factors; by singular values where a matrix of the batch is nearly singular."""
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda x: ops.det(x).sum(),
        "jax": lambda x: jnp.linalg.det(x).sum(),
        "torch": lambda x: torch.linalg.det(x).sum(),
    }
    return Case((normal(1000, 8, 8),), functions, mode="value_and_grad", tolerance=1e-3)


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
