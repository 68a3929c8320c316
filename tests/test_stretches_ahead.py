"""Long loops that ask for what they are about to read: which do, for what, and what they compute.

What is asked for changes no number, so texts tell where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import jit

OFF: dict[str, Any] = {"disable": "stretches_ahead"}
ASKED = re.compile(r"fetch\(&(\w+)\[(.*)\], (\d+)\)")


@pytest.fixture(autouse=True)
def small_bounds() -> Iterator[None]:
    with phix.debug.settings(least_asked_bytes=0, least_shared_work=1):
        yield


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng([*shape]).standard_normal(shape) * 2).astype(dtype)


def text_of(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    return phix.jit(function, **options).lower(*args).as_text("loop ir")


def asked(function: Callable[..., Any], *args: Any) -> list[tuple[str, ...]]:
    """The buffers that are asked for, where, and how many bytes."""
    return ASKED.findall(text_of(function, *args))


def much(x: Any) -> Any:
    return ops.tanh(x) + ops.exp(x)


def much_of_two(x: Any, y: Any) -> Any:
    return ops.tanh(x * y + 1.0) * ops.exp(-y)


# -- which loops ---------------------------------------------------------------------------------
def test_what_is_read_later_is_asked_for_in_stretches() -> None:
    ((buffer, place, size),) = asked(much, array(64, 256))
    assert (buffer, size) == ("x0", "1024")
    assert "* 256) + 512)" in place.replace("))", ")") and "minimum" in place
    text = text_of(much, array(64, 256))
    assert text.count("range(256)") == 1 and text.count("tanh") == text.count("o0[") - 1 == 0
    text = text_of(much, array(64, 255))
    assert text.count("o0[") == 2, "what is left is a loop of its own"


def test_several_arrays_share_what_is_asked_for_at_once() -> None:
    found = asked(much_of_two, array(64, 256), array(64, 256))
    assert [(buffer, size) for buffer, _, size in found] == [("x0", "512"), ("x1", "512")]
    found = asked(lambda x: much(x.astype("float32")), array(64, 256, dtype="float64"))
    assert [size for _, _, size in found] == ["1024"]


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (ops.exp, [array(64, 256)]),  # little work: what comes next is read meanwhile
        (lambda x: ops.sum(ops.exp(x)), [array(64, 256)]),
        (lambda x, b: much(x + b), [array(64, 100), array(100)]),  # rows that are soon at an end
        (lambda x: much(x).T + 1.0, [array(64, 256)]),  # no run of elements
        (lambda i: much(ops.cast(i, "float32")) * 0, [np.arange(3)[:0]]),
    ],
)
def test_other_loops_ask_for_nothing(
    function: Callable[..., Any], arrays: list[np.ndarray]
) -> None:
    assert text_of(function, *arrays) == text_of(function, *arrays, **OFF)


def test_rows_and_sums_ask_for_what_goes_on_behind_them() -> None:
    x, b = array(64, 600), array(600)
    ((buffer, place, size),) = asked(lambda x, b: much(x + b), x, b)
    assert (buffer, size) == ("x0", "1024") and f"{64 * 600 - 256})" in place
    text = text_of(lambda x, b: much(x + b), x, b)
    assert "range(2)" in text and "range(512, 600)" in text
    for axis in (None, 1):
        found = asked(lambda x, a=axis: ops.sum(much(x), a), array(64, 2048))
        # with narrow vectors sums go in blocks that are soon at an end
        is_long = jit.vector_registers()[0] > 16
        assert [each[::2] for each in found] == [("x0", "1024")] * is_long
    assert not asked(lambda x: ops.sum(much(x), 1), array(64, 2048).T)  # no run of elements
    assert not asked(lambda x, b: much(x + b), phix.spec(["n", 600]), b)


def test_what_is_small_stays_in_a_cache() -> None:
    with phix.debug.settings(least_asked_bytes=2 * 4 * 64 * 256 + 1):
        assert not asked(much, array(64, 256))
    with phix.debug.settings(least_asked_bytes=2 * 4 * 64 * 256):
        assert asked(much, array(64, 256))


def test_of_an_unknown_size_what_is_large_is_asked_for() -> None:
    with phix.debug.settings(least_asked_bytes=77):
        text = text_of(much, phix.spec(["n"]))
    assert len(ASKED.findall(text)) == 1 and text.count("o0[") == 2
    large, small = re.findall(r"if (.*):", text)
    assert large.endswith(" >= 77)") and small == f"not({large})"


# -- what they compute ---------------------------------------------------------------------------
def much_of_numpy(x: np.ndarray) -> np.ndarray:
    return np.tanh(x) + np.exp(x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [1, 255, 256, 257, 513, 1024, 5000])
def test_bits_are_those_without(size: int, dtype: str) -> None:
    x, y = array(size, dtype=dtype), array(2, size, dtype=dtype)[1]
    for function, given in ((much, (x,)), (much_of_two, (x, y))):
        wanted = np.asarray(phix.jit(function, **OFF)(*given))
        for setting in ({}, {"asked_bytes": 200}, {"shared_run": 3}):
            with phix.debug.settings(**setting):
                assert np.asarray(phix.jit(function)(*given)).tobytes() == wanted.tobytes()
    wide = much_of_numpy(x.astype("float64"))
    digits = {"float16": 3e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(np.asarray(phix.jit(much)(x), "float64"), wide, digits, digits)


def test_one_program_for_few_and_many() -> None:
    with phix.debug.settings(least_asked_bytes=2 * 8 * 1000):
        program = phix.jit(much, input_spec=[phix.spec([-1], "float64")])
        for size in (1, 100, 999, 1000, 1001, 1300, 70_000, 0):
            x = array(size, dtype="float64")
            np.testing.assert_allclose(program(x), much_of_numpy(x), 1e-14, 1e-14)
    assert program.trace_count == 1


@pytest.mark.parametrize("columns", [512, 600, 1025, 4100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_and_sums_are_those_of_float64(columns: int, dtype: str) -> None:
    x, b = array(9, columns, dtype=dtype), array(columns, dtype=dtype)
    wide = much_of_numpy(x.astype("float64") + b)
    digits = {"float32": 3e-6, "float64": 1e-13}[dtype]
    found = phix.jit(lambda x, b: much(x + b))(x, b)
    np.testing.assert_allclose(found, wide, digits, digits)
    for axis in (None, 0, 1):
        found = phix.jit(lambda x, b, a=axis: ops.sum(much(x + b), a))(x, b)
        size = np.abs(wide).sum(axis).max()  # of what cancels
        np.testing.assert_allclose(found, wide.sum(axis), digits, digits * size)
    best, at = phix.jit(lambda x: (ops.max(much(x), 1), ops.argmax(much(x), 1)))(x)
    assert (np.take_along_axis(np.asarray(phix.jit(much)(x)), np.asarray(at)[:, None], 1)[:, 0]
            == np.asarray(best)).all()  # fmt: skip


def test_gradients_and_donated_arguments() -> None:
    x = array(3000, dtype="float64")
    slope = phix.jit(phix.grad(lambda x: ops.sum(much(x) * x)))
    wanted = much_of_numpy(x) + x * (1 - np.tanh(x) ** 2 + np.exp(x))
    np.testing.assert_allclose(slope(x), wanted, 1e-13, 1e-13)
    over = phix.jit(much, donate_argnums=0)
    np.testing.assert_allclose(over(phix.to_tensor(x.copy())), much_of_numpy(x), 1e-14, 1e-14)


@pytest.mark.parametrize("columns", [600, 2100, "n"])
@pytest.mark.parametrize(
    "inner",
    [ops.softmax, ops.log_softmax, ops.logsumexp, ops.cumsum, lambda x, _: ops.sort(x, -1)],
    ids=["softmax", "log_softmax", "logsumexp", "cumsum", "sort"],
)
def test_loops_beside_each_other_that_are_cut(inner: Callable[..., Any], columns: Any) -> None:
    """Rows, and slopes along them, with much work before and behind what goes along a row."""

    def f(x: Any) -> Any:
        return ops.sum(much(inner(much(x * 0.2), -1) * 0.1)) * ops.sum(much(x) * 0.01)

    def both(x: Any) -> Any:
        slope, along = phix.grad(f)(x), phix.jvp(phix.grad(f), (x,), (x,))[1]
        return slope, along

    x = array(5, 700 if columns == "n" else columns, dtype="float64")
    spec = [phix.spec([5, columns], "float64")] if columns == "n" else None
    for found, wanted in zip(phix.jit(both, input_spec=spec)(x), phix.jit(both, **OFF)(x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


def test_loops_with_scalars_of_their_own_stand_there_once() -> None:
    x = array(70, dtype="float64")
    second = phix.vmap(phix.grad(phix.grad(ops.log_softmax)))
    found = phix.jit(second, input_spec=[phix.spec(["n"], "float64")])(x)
    np.testing.assert_allclose(found, 0.0 * x, atol=1e-12)


def test_rows_at_once_and_the_rows_left_share_a_kernel() -> None:
    x = array(5, 70_000)
    wide = np.logaddexp.reduce(much_of_numpy(x.astype("float64")), 0)
    found = phix.jit(lambda x: ops.logsumexp(much(x), 0))(x)
    np.testing.assert_allclose(found, wide, rtol=1e-5)
    assert asked(lambda x: ops.logsumexp(x, 0), x)


def test_a_small_loop_elsewhere_takes_no_vectors_away(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM is to leave bodies of small loops scalar, and no function that only asks for memory."""

    def both(x: Any, y: Any) -> Any:
        turned = phix.fori_loop(0, 4, lambda _, y: y * ops.roll(y, [1], [0]) * 0.5, y)
        return ops.sin(x) * ops.cos(x), turned

    x, y = array(3001, dtype="float64"), array(6, dtype="float64")
    with phix.debug.settings(least_shared_work=1 << 20):  # what is shared is no body of a loop
        some = phix.jit(both, input_spec=[phix.spec(["n"], "float64"), None])
        text = some.lower(x, y).as_text("llvm")
        sines, turned = some(x, y)
    assert "noimplicitfloat" in text
    (told,) = re.findall(r"(?m)^define internal void @fetch\(.*\) (#\d+) \{", text)
    assert "noimplicitfloat" not in re.findall(rf"(?m)^attributes {told} = .*", text)[0]
    np.testing.assert_allclose(sines, np.sin(x) * np.cos(x), 1e-14)
    for _ in range(4):
        y = y * np.roll(y, 1) * 0.5
    np.testing.assert_allclose(turned, y, 1e-14)
    assert "not vectorized" not in capfd.readouterr().err
