"""What ``benchmarks.cliffs`` sweeps: one function a family, and its arguments for each size.

``f(np, ops, *args)`` is written over the names that ``jax.numpy`` and ``phix.numpy`` share; ``ops``
is the library that ``np`` is of, for its transformations. The dim that is swept is ``n``, and the
others are large enough for a call to take some tens of microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arguments = Callable[[int], tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Family:
    """A sweep: ``most`` is the largest n."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    most: int


FAMILIES: dict[str, Family] = {}


def family(arguments: Arguments, most: int = 70) -> Callable[[Callable[..., Any]], None]:
    """Register a function under its name."""

    def register(function: Callable[..., Any]) -> None:
        name = function.__name__.replace("_", " ").strip()
        assert name not in FAMILIES, name
        FAMILIES[name] = Family(name, function, arguments, most)

    return register


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(dtype)


def ints(high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng([high, *shape]).integers(0, high, shape).astype(dtype)


def positive(n: int) -> np.ndarray:
    x = floats(n, n)
    return x @ x.T + n * np.eye(n, dtype=np.float32)


def rows(n: int) -> tuple[np.ndarray]:
    return (floats(max(1, 200_000 // n), n),)


def columns(n: int) -> tuple[np.ndarray]:
    return (floats(n, max(1, 200_000 // n)),)


# -- reductions -----------------------------------------------------------------------------------
@family(rows, 1100)
def sum_of_rows(np: Any, lib: Any, x: Any) -> Any:
    return np.sum(x, 1)


@family(columns, 1100)
def sum_of_columns(np: Any, lib: Any, x: Any) -> Any:
    return np.sum(x, 0)


@family(rows, 520)
def max_of_rows(np: Any, lib: Any, x: Any) -> Any:
    return np.max(x, 1)


@family(rows, 520)
def argmax_of_rows(np: Any, lib: Any, x: Any) -> Any:
    return np.argmax(x, 1)


@family(columns)
def argmax_of_columns(np: Any, lib: Any, x: Any) -> Any:
    return np.argmax(x, 0)


@family(rows, 1100)
def softmax_of_rows(np: Any, lib: Any, x: Any) -> Any:
    y = np.exp(x - np.max(x, 1, keepdims=True))
    return y / np.sum(y, 1, keepdims=True)


@family(rows, 520)
def variance_of_rows(np: Any, lib: Any, x: Any) -> Any:
    return np.var(x, 1)


@family(rows, 520)
def running_sum_of_rows(np: Any, lib: Any, x: Any) -> Any:
    return np.cumsum(x, 1)


@family(columns)
def running_sum_of_columns(np: Any, lib: Any, x: Any) -> Any:
    return np.cumsum(x, 0)


@family(rows)
def gradient_of_a_running_product(np: Any, lib: Any, x: Any) -> Any:
    return lib.grad(lambda t: np.sum(np.cumprod(1.0 + 0.1 * t, 1) * t))(x)


# -- products -------------------------------------------------------------------------------------
@family(lambda n: (floats(n, n), floats(n, n)), 1100)
def square_product(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return x @ y


@family(lambda n: (ints(9, n, n), ints(9, n, n)), 260)
def square_product_of_ints(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return x @ y


@family(lambda n: (floats(20_000, n), floats(n, n)))
def many_rows_times_a_small_matrix(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return x @ y


@family(lambda n: (floats(n, 512), floats(512, 512)))
def few_rows_times_a_matrix(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return x @ y


@family(lambda n: (floats(1000, n, n), floats(1000, n, n)))
def batched_small_products(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return x @ y


@family(lambda n: (floats(1000, n), floats(16, n)))
def one_matrix_times_vectors(np: Any, lib: Any, x: Any, v: Any) -> Any:
    return lib.vmap(lambda row: x @ row)(v)


@family(lambda n: (floats(32, n), floats(1000, n)))
def gradients_of_a_logistic_loss(np: Any, lib: Any, w: Any, x: Any) -> Any:
    loss = lambda w: np.sum(np.log(1.0 + np.exp(-(x @ w))))  # noqa: E731
    return lib.vmap(lib.grad(loss))(w)


@family(lambda n: (floats(n), floats(500, n)))
def hessian_of_a_logistic_loss(np: Any, lib: Any, w: Any, x: Any) -> Any:
    return lib.hessian(lambda w: np.sum(np.log(1.0 + np.exp(-(x @ w)))))(w)


@family(lambda n: (floats(4, n, 28, 28), floats(32, n)))
def channels_mixed_by_einsum(np: Any, lib: Any, x: Any, w: Any) -> Any:
    return np.einsum("nchw,oc->nohw", x, w)


# -- arrangement ----------------------------------------------------------------------------------
@family(lambda n: (floats(8, 16, n, n),), 130)
def channels_to_the_end(np: Any, lib: Any, x: Any) -> Any:
    return np.transpose(x, (0, 2, 3, 1)) * 2.0


@family(lambda n: (floats(n, 1000),), 1100)
def transpose(np: Any, lib: Any, x: Any) -> Any:
    return x.T + 1.0


@family(lambda n: (floats(500, 10 * n),))
def neighbours_on_a_torus(np: Any, lib: Any, x: Any) -> Any:
    around = [np.roll(x, step, axis) for axis in (0, 1) for step in (1, -1)]
    return 0.25 * sum(around)


@family(lambda n: (floats(2000, n), floats(2000, n + 1)))
def joined_columns(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return np.concatenate([x, y], 1) * 2.0


@family(lambda n: (floats(200, 10 * n),))
def padded(np: Any, lib: Any, x: Any) -> Any:
    return np.pad(x, 1) * 2.0


@family(lambda n: (floats(10_000, n), ints(10_000, 5_000)))
def rows_gathered(np: Any, lib: Any, x: Any, i: Any) -> Any:
    return x[i] * 2.0


@family(lambda n: (floats(1_000, n), ints(1_000, 5_000), floats(5_000, n)))
def rows_added_at(np: Any, lib: Any, x: Any, i: Any, y: Any) -> Any:
    return x.at[i].add(y)


@family(lambda n: (floats(2_000, n),), 300)
def sorted_rows(np: Any, lib: Any, x: Any) -> Any:
    return np.sort(x, 1)


# -- linear algebra, transforms -------------------------------------------------------------------
@family(lambda n: (floats(200, n),), 1100)
def fourier_transform(np: Any, lib: Any, x: Any) -> Any:
    return np.abs(np.fft.fft(x))


@family(lambda n: (positive(n),), 300)
def cholesky(np: Any, lib: Any, x: Any) -> Any:
    return np.linalg.cholesky(x)


@family(lambda n: (positive(n), floats(n, 8)), 300)
def solve(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return np.linalg.solve(x, y)


# -- programs -------------------------------------------------------------------------------------
@family(lambda n: (floats(64, 8 * n), floats(256, 64), floats(8 * n)))
def gradient_of_a_hidden_layer(np: Any, lib: Any, w: Any, x: Any, v: Any) -> Any:
    return lib.grad(lambda w: np.mean((np.maximum(x @ w, 0.0) @ v) ** 2))(w)


@family(lambda n: (floats(4, n, 64), floats(64, 64), floats(64, 64)))
def attention(np: Any, lib: Any, x: Any, a: Any, b: Any) -> Any:
    scores = (x @ a) @ np.swapaxes(x @ b, 1, 2) / 8.0
    weights = np.exp(scores - np.max(scores, 2, keepdims=True))
    return weights / np.sum(weights, 2, keepdims=True) @ x


@family(lambda n: (floats(10 * n, 3), floats(200, 3)))
def distances_between_points(np: Any, lib: Any, x: Any, y: Any) -> Any:
    return np.sqrt(np.sum((x[:, None] - y[None]) ** 2, -1) + 1e-6)
