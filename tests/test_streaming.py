"""Results that are written past the caches: which they are, and that every element arrives.

The bounds on work and sizes are lowered, so that small arrays are written so too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import jit, streaming
from phix.nn import functional as F

pytestmark = pytest.mark.unoptimised(4)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PHIX_CACHE", "0")  # what is kept there was made with the real bounds
    with phix.debug.settings(
        least_shared_work=1, shared_run=1, least_streamed_bytes=1, most_streamed_work=1e9
    ):
        yield


def loop_text(function: Callable[..., Any], *args: Any) -> str:
    return phix.jit(function).lower(*args).as_text("loop ir")


def standardised(x: Any) -> Any:
    away = x - ops.mean(x, 1, keepdim=True)
    return away / ops.sqrt(ops.mean(away * away, 1, keepdim=True))


def _standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)


# name -> (function, the same in NumPy, how many copies its loops make)
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], int]] = {
    "pointwise": (lambda x: x + 1.0, lambda x: x + 1, 1),
    "two results": (lambda x: (x + 1.0, x * x), lambda x: (x + 1, x * x), 2),
    "rows": (standardised, _standardised, 1),
    "rows, and sums over them": (
        lambda x: (standardised(x), ops.sum(x * x, 0)),
        lambda x: (_standardised(x), (x * x).sum(0)),
        1,
    ),
    "bools": (lambda x: x > 0.0, lambda x: x > 0, 1),
    "halves": (
        lambda x: ops.cast(ops.cast(x, "float32"), "float16"),
        lambda x: x.astype("float32").astype("float16"),
        1,
    ),
    "read again": (lambda x: (x * 2.0, ops.sum(ops.exp(x * 2.0), 0)), None, 1),
    "turned": (lambda x: ops.transpose(x, [1, 0]) + 1.0, lambda x: x.T + 1, 1),
}


@pytest.mark.parametrize("shape", [(37, 129), (5, 2100), (700, 3), (64, 64), (1, 2)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_element_arrives(name: str, shape: tuple[int, int]) -> None:
    function, reference, _ = FUNCTIONS[name]
    x = RNG.standard_normal(shape)
    got = phix.tree.leaves(phix.jit(function)(x))
    apart = phix.tree.leaves(phix.jit(function, disable="stream_results")(x))
    expected = apart if reference is None else phix.tree.leaves(reference(x))
    for a, b, c in zip(got, apart, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(a, c, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "read again"])
def test_results_along_rows_are_streamed(name: str) -> None:
    function, _, copies = FUNCTIONS[name]
    assert loop_text(function, RNG.standard_normal((37, 129))).count("stream(") == copies


def test_tiles_that_are_parts_of_rows_are_not_streamed() -> None:
    turned = FUNCTIONS["turned"][0]
    assert "stream(" not in loop_text(turned, RNG.standard_normal((96, 128)))


def test_long_rows_go_in_blocks() -> None:
    text = loop_text(lambda x: x + 1.0, RNG.standard_normal(10_000))
    assert "local r0: float64[128]" in text and "minimum" in text
    text = loop_text(standardised, RNG.standard_normal((100, 200)))
    assert "float64[200]" in text and "minimum" not in text


def test_what_is_added_up_or_of_unknown_size_is_not_streamed() -> None:
    x = RNG.standard_normal((37, 129))
    assert "stream(" not in loop_text(lambda x: ops.sum(x, 0), x)
    assert "stream(" not in loop_text(lambda x: phix.fori_loop(0, 3, lambda _, y: y * x, x), x)
    assert "stream(" not in loop_text(lambda x: x + 1.0, phix.spec(["n", 129], "float64"))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "float64"])
@pytest.mark.parametrize("size", [2, 63, 1000, 4097])
def test_fills_arrive_everywhere(size: int, dtype: str) -> None:
    """Those of results alone, and those that something is put into."""
    at = RNG.integers(0, size, 5)
    expected = np.ones(size, dtype)
    ones = lambda at: ops.full([size], 1, dtype)  # noqa: E731
    assert "stream(" in loop_text(ones, at)
    np.testing.assert_array_equal(phix.jit(ones)(at), expected)

    expected[at] = 0
    holes = lambda at: ops.scatter(ones(at), at, ops.zeros([5], dtype), overwrite=True)  # noqa: E731
    assert "stream(" in loop_text(holes, at)
    np.testing.assert_array_equal(phix.jit(holes)(at), expected)


def test_fills_go_past_the_caches_from_a_quarter_of_the_bytes_on() -> None:
    with phix.debug.settings(least_streamed_bytes=4 * 800):
        assert "stream(" in loop_text(lambda: ops.zeros([100], "float64"))
        assert "stream(" not in loop_text(lambda: ops.zeros([99], "float64"))
        assert "stream(" not in loop_text(lambda: ops.zeros([100], "complex128"))


def test_only_what_waits_for_memory_beyond_the_caches_is_streamed() -> None:
    x = RNG.standard_normal((64, 64))  # 32 KiB, and as much for the result
    with phix.debug.settings(most_streamed_work=3):
        assert "stream(" in loop_text(lambda x: x + 1.0, x)
        assert "stream(" not in loop_text(lambda x: ops.tan(x), x)
    with phix.debug.settings(most_streamed_work=3, least_streamed_bytes=65 << 10):
        assert "stream(" not in loop_text(lambda x: x + 1.0, x)


def test_the_bound_is_above_the_size_of_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    size = tmp_path / "size"
    size.write_text("8192K\n", encoding="ascii")
    for path, least in ((size, 10 << 20), (tmp_path / "none", 40 << 20)):
        monkeypatch.setattr(jit, "_LAST_CACHE", path)
        streaming._beyond_the_cache.cache_clear()
        with phix.debug.settings(least_streamed_bytes=None):
            assert streaming.least_bytes() == least
    streaming._beyond_the_cache.cache_clear()


def test_gradients_of_a_norm_are_streamed_row_by_row() -> None:
    w = ops.full([129], 1.5, dtype="float64")

    def both(c: Any, x: Any) -> Any:
        out, pullback = phix.vjp(lambda x: F.layer_norm(x, (129,), w), x)
        return out, pullback(c)

    c, x = RNG.standard_normal((2, 37, 129))
    assert loop_text(both, c, x).count("stream(") == 2
    plain = phix.tree.leaves(phix.jit(both, disable="stream_results")(c, x))
    for a, b in zip(phix.tree.leaves(phix.jit(both)(c, x)), plain):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
