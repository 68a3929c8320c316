"""What is measured on a GPU alone: large arrays, products, attention, and starting small work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import phix
from benchmarks.harness import Case, normal
from benchmarks.peers import F, jax, jnp, torch
from phix import ops

_ROWS, _COLUMNS = 8192, 8192
_SIZE = _ROWS * _COLUMNS * 4  # 256 MB of float32
_SQUARE = 4096


@dataclass(frozen=True)
class GpuRow:
    """A line of the table; ``moved``: the bytes it must move, where it does little else."""

    name: str
    build: Callable[[], Case]
    moved: int = 0


ROWS: dict[str, GpuRow] = {}


def row(name: str, moved: int = 0) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        ROWS[name] = GpuRow(name, build, moved)
        return build

    return register


def halves(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed bfloat16 data."""
    return normal(*shape, seed=seed).astype(phix.bfloat16)


# -- memory --------------------------------------------------------------------------------------
@row("tanh(a * b + 1) * exp(-b), 256 MB", moved=3 * _SIZE)
def pointwise() -> Case:
    functions = {
        "phix": lambda a, b: ops.tanh(a * b + 1.0) * ops.exp(-b),
        "jax": lambda a, b: jnp.tanh(a * b + 1.0) * jnp.exp(-b),
        "torch": lambda a, b: torch.tanh(a * b + 1.0) * torch.exp(-b),
    }
    return Case((normal(_ROWS, _COLUMNS), normal(_ROWS, _COLUMNS, seed=1)), functions)


@row("a + b in bfloat16, 256 MB", moved=3 * _SIZE)
def pointwise_16_bits() -> Case:
    def add(a: Any, b: Any) -> Any:
        return a + b

    args = (halves(2 * _ROWS, _COLUMNS), halves(2 * _ROWS, _COLUMNS, seed=1))
    return Case(args, dict.fromkeys(("phix", "jax", "torch"), add), tolerance=1e-2)


@row("transpose, 256 MB", moved=2 * _SIZE)
def transpose() -> Case:
    functions = {
        "phix": lambda a: ops.transpose(a, [1, 0]),
        "jax": lambda a: jnp.transpose(a),
        "torch": lambda a: a.t().contiguous(),
    }
    return Case((normal(_ROWS, _COLUMNS),), functions)


def _sum(axis: tuple[int, ...]) -> Case:
    functions = {
        "phix": lambda a: ops.sum(a, axis),
        "jax": lambda a: jnp.sum(a, axis or None),
        "torch": lambda a: torch.sum(a, axis) if axis else torch.sum(a),
    }
    return Case((normal(_ROWS, _COLUMNS),), functions, tolerance=1e-3)


row("sum of all, 256 MB", moved=_SIZE)(lambda: _sum(()))
row("sum of columns, 256 MB", moved=_SIZE)(lambda: _sum((0,)))
row("sum of rows, 256 MB", moved=_SIZE)(lambda: _sum((1,)))


@row("cumsum of rows, 256 MB", moved=2 * _SIZE)
def cumsum() -> Case:
    functions = {
        "phix": lambda a: ops.cumsum(a, 1),
        "jax": lambda a: jnp.cumsum(a, 1),
        "torch": lambda a: torch.cumsum(a, 1),
    }
    return Case((normal(_ROWS, _COLUMNS),), functions, tolerance=1e-3)


# -- normalisation ---------------------------------------------------------------------------------
_SOFTMAX = {
    "phix": lambda x: ops.softmax(x),
    "jax": lambda x: jax.nn.softmax(x),
    "torch": lambda x: F.softmax(x, -1),
}


def _layer_norm_jax(x: Any, w: Any, b: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w + b


_LAYER_NORM = {
    "phix": lambda x, w, b: ops.layer_norm(x, w, b, 1e-5, 1),
    "jax": _layer_norm_jax,
    "torch": lambda x, w, b: F.layer_norm(x, (_SQUARE,), w, b, 1e-5),
}
_PLANE = 4 * _SQUARE**2


@row("softmax, 4096 x 4096", moved=2 * _PLANE)
def softmax() -> Case:
    return Case((normal(_SQUARE, _SQUARE),), _SOFTMAX)


@row("softmax with gradient, 4096 x 4096", moved=4 * _PLANE)
def softmax_gradient() -> Case:
    args = (normal(_SQUARE, _SQUARE, seed=1), normal(_SQUARE, _SQUARE))
    return Case(args, _SOFTMAX, mode="vjp", tolerance=1e-4)


@row("layer_norm, 4096 x 4096", moved=2 * _PLANE)
def layer_norm() -> Case:
    args = (normal(_SQUARE, _SQUARE), normal(_SQUARE), normal(_SQUARE))
    return Case(args, _LAYER_NORM, tolerance=1e-4)


@row("layer_norm with gradient, 4096 x 4096", moved=4 * _PLANE)
def layer_norm_gradient() -> Case:
    args = (normal(_SQUARE, _SQUARE), normal(_SQUARE), normal(_SQUARE))
    return Case((normal(_SQUARE, _SQUARE, seed=1), *args), _LAYER_NORM, mode="vjp", tolerance=1e-3)


# -- products --------------------------------------------------------------------------------------
def _product(a: Any, b: Any) -> Any:
    return a @ b


_PRODUCTS = dict.fromkeys(("phix", "jax", "torch"), _product)


@row("matmul float32, 8192")
def matmul() -> Case:
    return Case((normal(8192, 8192), normal(8192, 8192, seed=1)), _PRODUCTS, tolerance=1e-4)


@row("matmul bfloat16, 8192")
def matmul_16_bits() -> Case:
    return Case((halves(8192, 8192), halves(8192, 8192, seed=1)), _PRODUCTS, tolerance=2e-2)


@row("gelu(x w + b) bfloat16, 4096")
def dense_layer() -> Case:
    functions = {
        "phix": lambda x, w, b: ops.gelu(x @ w + b),
        "jax": lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=False),
        "torch": lambda x, w, b: F.gelu(x @ w + b),
    }
    args = (halves(4096, 4096), halves(4096, 4096, seed=1), halves(4096))
    return Case(args, functions, tolerance=2e-2)


# -- attention -------------------------------------------------------------------------------------
def _attention(dtype: Any, length: int, size: int, mode: str) -> Case:
    def of_jax(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        how = "cudnn" if q.dtype == jnp.bfloat16 else "xla"
        found = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=how)
        return found.transpose(0, 2, 1, 3)

    functions = {
        "phix": lambda q, k, v: ops.attention(q, k, v, None, size**-0.5, True),
        "jax": of_jax,
        "torch": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    }
    shape = (4, 16, length, size)
    count = 3 if mode == "call" else 4
    args = tuple(normal(*shape, seed=s).astype(dtype) for s in range(count))
    tolerance = 2e-2 if dtype == phix.bfloat16 else 1e-4
    return Case(args, functions, mode=mode, tolerance=tolerance)


row("attention bfloat16, 4 x 16 x 2048 x 64, causal")(
    lambda: _attention(phix.bfloat16, 2048, 64, "call")
)
row("attention bfloat16 with gradient, 4 x 16 x 2048 x 64, causal")(
    lambda: _attention(phix.bfloat16, 2048, 64, "vjp")
)
row("attention bfloat16, 4 x 16 x 2048 x 128, causal")(
    lambda: _attention(phix.bfloat16, 2048, 128, "call")
)
row("attention float32, 4 x 16 x 1024 x 64, causal")(
    lambda: _attention(np.float32, 1024, 64, "call")
)
row("attention float32 with gradient, 4 x 16 x 1024 x 64, causal")(
    lambda: _attention(np.float32, 1024, 64, "vjp")
)


# -- small work ------------------------------------------------------------------------------------
@row("a small call: 2 x + 1 of 16 elements")
def launch() -> Case:
    def line(x: Any) -> Any:
        return 2.0 * x + 1.0

    return Case((normal(16),), dict.fromkeys(("phix", "jax", "torch"), line))


def _scan_case(step: Callable[..., Any], carry: np.ndarray, xs: np.ndarray, *more: Any) -> Case:
    def in_phix(carry: Any, xs: Any, *more: Any) -> Any:
        return phix.scan(lambda c, x: (step(ops, c, x, *more),) * 2, carry, xs)

    def in_jax(carry: Any, xs: Any, *more: Any) -> Any:
        return jax.lax.scan(lambda c, x: (step(jnp, c, x, *more),) * 2, carry, xs)

    def in_torch(carry: Any, xs: Any, *more: Any) -> Any:
        found = []
        for x in xs:
            carry = step(torch, carry, x, *more)
            found.append(carry)
        return carry, torch.stack(found)

    functions = {"phix": in_phix, "jax": in_jax, "torch": in_torch}
    return Case((carry, xs, *more), functions, tolerance=1e-4, is_long_loop=True)


@row("scan of 1,000 steps of 256 elements")
def small_scan() -> Case:
    step = lambda xp, c, x: xp.tanh(c * 0.9 + x)  # noqa: E731
    return _scan_case(step, normal(256), normal(1000, 256))


@row("scan of 1,000 steps, 32 x 64 by 64 x 64")
def scan_of_products() -> Case:
    step = lambda xp, c, x, w: xp.tanh(c @ w + x)  # noqa: E731
    return _scan_case(step, normal(32, 64), normal(1000, 32, 64), normal(64, 64, scale=0.125))


@row("scan of 100 steps, 256 x 1024 by 1024 x 1024")
def scan_of_large_products() -> Case:
    step = lambda xp, c, x, w: xp.tanh(c @ w + x)  # noqa: E731
    weights = normal(1024, 1024, scale=1024**-0.5)
    return _scan_case(step, normal(256, 1024), normal(100, 256, 1024), weights)
