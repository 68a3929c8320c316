"""Rows asked for while the row before is worked on: which loops ask, for what, what they compute.

What is asked for changes no number, so texts tell where it is; the sums of blocks of a row are
those of float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import rows_ahead

OFF = {"disable": "rows_ahead"}
ASKED = re.compile(r"fetch\(&(\w+)\[(.*)\], (\d+)\)")


@pytest.fixture(autouse=True)
def small_bounds() -> Iterator[None]:
    with phix.debug.settings(least_asked_bytes=0, least_shared_work=1 << 40):
        yield


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng([*shape]).standard_normal(shape) * 2).astype(dtype)


def text_of(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    return phix.jit(function, **options).lower(*args).as_text("loop ir")


def asked(function: Callable[..., Any], *args: Any) -> list[tuple[str, ...]]:
    """The buffers that are asked for, where, and how many bytes."""
    return ASKED.findall(text_of(function, *args))


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normal_of(x: np.ndarray) -> np.ndarray:
    apart = x - x.mean(-1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)


def pulled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, g: phix.vjp(function, x)[1](g)[0]


# -- which loops ---------------------------------------------------------------------------------
def test_the_loop_of_exponentials_asks_for_the_next_row() -> None:
    ((buffer, place, size),) = asked(ops.softmax, array(20, 1024))
    assert (buffer, size) == ("x0", "1024") and "minimum((i0 + 1), 19) * 1024" in place
    lines = text_of(ops.softmax, array(20, 1024)).splitlines()
    at = next(n for n, line in enumerate(lines) if "fetch(" in line)
    assert "range(4)" in lines[at - 1] and "+ 256)" in lines[at + 1]
    assert any("fma(" in line for line in lines[at:]) and "fma(" not in "".join(lines[:at])


def test_what_is_left_of_a_row_is_a_loop_of_its_own() -> None:
    text = text_of(ops.softmax, array(20, 1000))
    assert "range(3)" in text and "range(768, 1000)" in text
    assert "range(768, 1000)" not in text_of(ops.softmax, array(20, 1000), **OFF)


def test_what_comes_later_in_a_row_is_asked_for_in_this_row() -> None:
    found = asked(pulled(ops.softmax), array(20, 1024), array(20, 1024))
    assert {buffer for buffer, _, _ in found} == {"x0", "x1"} and len(found) == 2
    assert all(size == "512" for _, _, size in found)  # together, what is asked for at once
    places = {buffer: place for buffer, place, _ in found}
    assert "minimum" in places["x0"] and "minimum" not in places["x1"]


def test_long_sums_ask_in_blocks_of_their_blocks() -> None:
    ((_, place, size),) = asked(ops.softmax, array(20, 4096))
    assert size == "1024" and place.count(" + ((i") == 1 and place.count(" * ") == 3


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: ops.exp(x), (20, 1024)),  # rows are gone through once
        (lambda x: ops.max(x, 1), (20, 1024)),
        (ops.softmax, (20, 500)),  # less than two blocks
        (ops.softmax, (20, 40_000)),  # a row is not in the caches the second time
        (lambda x: ops.softmax(x, 0), (1024, 20)),  # columns
        (lambda x: ops.matmul(x, x), (600, 600)),
    ],
)  # fmt: skip
def test_other_loops_ask_for_nothing(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    assert not asked(function, array(*shape))
    assert text_of(function, array(*shape)) == text_of(function, array(*shape), **OFF)


def test_what_is_small_stays_in_a_cache() -> None:
    with phix.debug.settings(least_asked_bytes=2 * 4 * 20 * 1024 + 1):
        assert not asked(ops.softmax, array(20, 1024))
    with phix.debug.settings(least_asked_bytes=2 * 4 * 20 * 1024):
        assert asked(ops.softmax, array(20, 1024))


def test_an_unknown_number_of_rows_is_asked_for_where_it_is_large() -> None:
    with phix.debug.settings(least_asked_bytes=77):
        text = text_of(ops.softmax, phix.spec(["n", 1024]))
    assert len(ASKED.findall(text)) == 1
    large, small = re.findall(r"if (.*):", text)
    assert large.endswith(" >= 77)") and "n * 1024" in large and small == f"not({large})"
    assert not asked(ops.softmax, phix.spec([20, "n"]))  # rows that may be short


def test_rows_that_go_past_the_caches_may_compute_more() -> None:
    least = {"least_streamed_bytes": 1, "least_shared_work": 1}
    with phix.debug.settings(**least):
        assert "stream(" in text_of(ops.softmax, array(20, 1024))
        assert "stream(" not in text_of(ops.exp, array(20, 1024))  # one loop, which computes
    with phix.debug.settings(most_streamed_work=0.5, **least):
        assert "stream(" not in text_of(ops.softmax, array(20, 1024))


# -- what they compute ---------------------------------------------------------------------------
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (lambda x, g: ops.softmax(x), lambda x, g: softmax_of(x)),
    "gradient of softmax": (
        pulled(ops.softmax),
        lambda x, g: softmax_of(x) * (g - (softmax_of(x) * g).sum(-1, keepdims=True)),
    ),
    "log_softmax": (
        lambda x, g: ops.log_softmax(x) + g,
        lambda x, g: np.log(softmax_of(x)) + g,
    ),
    "norm of a layer": (
        lambda x, g: ops.layer_norm(x, g[0], None),
        lambda x, g: normal_of(x) * g[0],
    ),
    "norms": (
        lambda x, g: (x / ops.sqrt((x * x).mean(1, keepdim=True)), (x * g).sum(1)),
        lambda x, g: (x / np.sqrt((x * x).mean(1, keepdims=True)), (x * g).sum(1)),
    ),
    "classes": (
        lambda x, g: phix.grad(lambda x: ops.sum(ops.log_softmax(x)[:, 2]))(x),
        lambda x, g: (np.arange(x.shape[1]) == 2) - softmax_of(x),
    ),
}
TOLERANCE = {"float16": 2e-2, "float32": 2e-5, "float64": 2e-13}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_results_are_those_of_float64(name: str, dtype: str) -> None:
    """Of rows of all kinds of lengths, in pieces or not; and equal rows have equal bits."""
    function, reference = CASES[name]
    for count, size in ((1, 600), (2, 129), (7, 300), (34, 520), (3, 4100)):
        x, g = array(count, size, dtype=dtype), array(count, size, dtype=dtype)[::-1].copy()
        x[-1], g[-1] = x[0], g[0]
        wanted = phix.tree.leaves(reference(x.astype(float), g.astype(float)))
        with phix.debug.settings(asked_bytes=200):
            compiled = phix.jit(function)
            found = phix.tree.leaves(compiled(x, g))
            with phix.debug.settings(least_shared_work=1, shared_run=3, shared_run_inside=3):
                pieces = phix.tree.leaves(phix.jit(function)(x, g))
        for y, p, z in zip(found, pieces, wanted):
            y, atol = np.asarray(y), TOLERANCE[dtype] * max(1.0, np.abs(z).max())
            np.testing.assert_allclose(y.astype(float), z, TOLERANCE[dtype], atol)
            np.testing.assert_allclose(np.asarray(p, float), z, TOLERANCE[dtype], atol)
            assert y[-1].tobytes() == y[0].tobytes()


@pytest.mark.parametrize("name", CASES)
def test_unknown_numbers_of_rows(name: str) -> None:
    """Few that are in a cache, many that are not: by one program."""
    function, reference = CASES[name]
    spec = phix.spec(["n", 600], "float64")
    with phix.debug.settings(least_asked_bytes=5 * 3 * 600 * 8):
        compiled = phix.jit(function, input_spec=[spec, spec])
        for count in (1, 3, 7, 40, 2):
            x = np.random.default_rng(count).standard_normal((count, 600))
            found = phix.tree.leaves(compiled(x, x[::-1].copy()))
            wanted = phix.tree.leaves(reference(x, x[::-1].copy()))
            for y, z in zip(found, wanted):
                np.testing.assert_allclose(np.asarray(y), z, 2e-13, 2e-13)
    assert compiled.trace_count == 1


def test_the_text_asks_line_by_line() -> None:
    text, needs = rows_ahead.wrapper("fetch") or ("", "")
    assert "llvm.prefetch" in needs and "add nuw nsw i64 %at, 64" in text
    assert rows_ahead.wrapper("stream") is None
    llvm = phix.jit(ops.softmax).lower(array(20, 1024)).as_text("llvm")
    assert llvm.count("call void @fetch(") == 1 and "@llvm.prefetch.p0(ptr" in llvm
