"""What a loop computes again and again of one number is a function, which changes no bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu import compiler, repeated, units
from phix.kernels.cpu.level import has_masks
from phix.kernels.loops import nodes as ir
from phix.kernels.scalar import language as sc

needs_masks = pytest.mark.skipif(not has_masks(), reason="loops have their code once with masks")
OFF = {"disable": "repeated_functions"}


def chain(function: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for _ in range(times):
            x = function(x) * 0.5 + x
        return x

    return run


def mixed(x: Any) -> Any:
    """A hash of ints, of which each step waits for the one before."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x5BD1E995 + 77
    return (x ^ (x >> 13)) - (x << 3) + (x & 255) * 3


BODIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sine": (pn.sin, "float64"),
    "sine of floats": (pn.sin, "float32"),
    "tanh": (pn.tanh, "float32"),
    "exp": (lambda x: pn.exp(-x * x), "float64"),
    "gelu": (ops.gelu, "float32"),
    "gamma": (lambda x: ops.lgamma(pn.abs(x) + 1.5), "float64"),
    "angle": (lambda x: pn.arctan2(x, 1.0 + x * x), "float32"),
    "choice": (lambda x: pn.where(x > 0.3, pn.log1p(pn.abs(x)), pn.cos(x)), "float64"),
}


def values(dtype: str, size: int) -> np.ndarray:
    x = np.random.default_rng(size).uniform(-3, 3, size).astype(dtype)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e15][: max(0, size - 5)]
    x[size - len(ends) :] = ends
    return x


def text_of(function: Callable[..., Any], *args: Any, disable: str = "") -> str:
    names = ["roll_steps", *filter(None, [disable])]  # chains are to stay what they are
    return phix.jit(function, disable=names).lower(*args).as_text("llvm")


def defined(text: str) -> list[str]:
    return re.findall(rf"(?m)^define internal \w+ @({units.REPEATED}\w+)\(", text)


@needs_masks
@pytest.mark.parametrize("name", BODIES)
def test_a_chain_calls_one_function(name: str) -> None:
    body, dtype = BODIES[name]
    x = values(dtype, 1001)
    text = text_of(chain(body, 24), x)
    function = defined(text)[0]
    assert len(re.findall(rf"call \w+ @{function}\(", text)) >= 5
    assert not defined(text_of(chain(body, 24), x, **OFF))
    code = compiler.assembly(text)
    lanes = 16 if dtype == "float32" else 8
    assert len(re.findall(rf"(?m)^{function}\.{lanes}:", code)) == 1
    assert not re.search(rf"(?m)^{function}:", code), "all that is called is of vectors"


@needs_masks
def test_a_small_loop_elsewhere_takes_no_vectors_away(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM is to leave bodies of small loops scalar, and not the lanes of what a chain calls."""

    def both(x: Any, y: Any) -> Any:
        turned = phix.fori_loop(0, 4, lambda _, y: y * ops.roll(y, [1], [0]) * 0.5, y)
        return chain(BODIES["sine"][0], 24)(x), turned

    x, y = values(BODIES["sine"][1], 1001), np.arange(6.0)
    text = text_of(both, x, y)
    assert "noimplicitfloat" in text and defined(text)
    told = re.findall(rf"(?m)^define internal void @{units.REPEATED}.*\) (#\d+) \{{", text)
    assert told and not [
        n for n in told if re.search(rf"(?m)^attributes {n} = .*noimplicitfloat", text)
    ]
    np.testing.assert_array_equal(phix.jit(both)(x, y)[0], both(phix.to_tensor(x), y)[0])
    assert "not vectorized" not in capfd.readouterr().err


@pytest.mark.parametrize("name", BODIES)
def test_it_changes_no_bit(name: str) -> None:
    body, dtype = BODIES[name]
    run = chain(body, 9)
    for size in (17, 71, 1003):
        x = values(dtype, size)
        found = phix.jit(run)(x)
        np.testing.assert_array_equal(found, phix.jit(run, **OFF)(x), strict=True)
        np.testing.assert_array_equal(found, run(phix.to_tensor(x)), strict=True)
    some = phix.jit(run, input_spec=[phix.spec(["n"], dtype)])
    for size in range(34):
        np.testing.assert_array_equal(some(x[:size]), found[:size], strict=True)


@pytest.mark.parametrize("name", ["sine", "tanh", "gelu", "choice"])
def test_derivatives_change_no_bit(name: str) -> None:
    body, dtype = BODIES[name]
    x = np.random.default_rng(5).uniform(-1, 1, (5, 77)).astype(dtype)

    def total(x: Any) -> Any:
        return pn.sum(chain(body, 8)(x) ** 2)

    for function, given in (
        (phix.grad(total), x), (phix.vmap(phix.grad(total)), x), (phix.hessian(total), x[0, :20]),
    ):  # fmt: skip
        found, wanted = phix.jit(function)(given), phix.jit(function, **OFF)(given)
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_ints_wrap_as_they_do() -> None:
    def run(x: Any) -> Any:
        for _ in range(10):
            x = mixed(x)
        return x

    x = np.random.default_rng(1).integers(-(2**31), 2**31, 1003).astype("int32")
    with np.errstate(all="ignore"):
        wanted = x.copy()
        for _ in range(10):
            wanted = mixed(wanted).astype("int32")
    for size in (1003, 33, 16):
        np.testing.assert_array_equal(phix.jit(run)(x[:size]), wanted[:size], strict=True)


def test_lanes_that_are_left_out_divide_nothing() -> None:
    def run(x: Any) -> Any:
        for _ in range(10):
            x = x + ((x ^ 12345) * 31 + 77) // (((x * x) & 1023) | 1) - (x % (x | 1)) + (x >> 2)
        return x

    x = np.random.default_rng(2).integers(1, 2**20, 1003).astype("int32")
    with np.errstate(all="ignore"):
        wanted = run(x)
    for size in (*range(1, 36), 1003):
        np.testing.assert_array_equal(phix.jit(run)(x[:size]), wanted[:size], strict=True)


@needs_masks
def test_what_something_else_needs_is_no_part_of_a_function() -> None:
    def run(x: Any) -> Any:
        inner = []
        for _ in range(9):
            inner.append(pn.exp(-x * x))  # a result as well
            x = pn.tanh(inner[-1]) + x
        return x, inner

    x = values("float32", 500)
    text = text_of(run, x)
    for function in defined(text):
        (body,) = re.findall(rf"(?ms)^define internal void @{function}\.loop.*?^\}}", text)
        assert body.count("fdiv") <= 1, "tanh or exp, not one of the other"
    for a, b in zip(*(phix.tree.leaves(phix.jit(run, **o)(x)) for o in ({}, OFF))):
        np.testing.assert_array_equal(a, b, strict=True)


# -- which parts ---------------------------------------------------------------------------------
N = 64
OUT = ir.Buffer("o0", dt.float64, (N,), "output")
IN = [ir.Buffer(f"x{k}", dt.float64, (N,), "input") for k in range(8)]
ROW = sc.var("i0", dt.int64)


def polynomial(x: sc.Expr, first: float = 0.5) -> sc.Expr:
    total = sc.const(first, x.dtype)
    for k in range(1, 12):
        total = total * x + (x + 0.25 * k)
    return total


def called(*roots: Any) -> repeated.Calls:
    """The calls in a loop that stores these values."""
    stores = []
    for k, root in enumerate(roots):
        out = ir.Buffer(f"o{k}", root.dtype, (N,), "output")
        stores.append(ir.Store(out, (ROW,), root))
    return repeated.calls_in(ir.For(ROW, sc.const(N, dt.int64), stores))


def reads() -> list[Any]:
    return [ir.load(b, (ROW,)) for b in IN]


@needs_masks
def test_functions_of_one_number_that_come_often_are_called() -> None:
    found = called(sum(map(polynomial, reads())))
    assert set(found) == {polynomial(x) for x in reads()}
    assert {start for _, start in found.values()} == set(reads())
    assert len({function for function, _ in found.values()}) == 1
    few = called(sum(map(polynomial, reads()[:5]), sc.const(0.0, dt.float64)))
    assert not few


@needs_masks
def test_functions_of_two_numbers_and_other_functions_are_not() -> None:
    first, *others = reads()
    assert not called(sum(polynomial(x) * first + polynomial(x, 0.25) / first for x in others[:5]))
    assert not called(sum(polynomial(x, 0.1 * k) for k, x in enumerate(reads())))
    ints = [sc.cast(x, dt.int64) for x in reads()]
    divided = [sc.binary("quotient", polynomial_of_ints(n), n | 1) for n in ints]
    assert not {e for e in called(sum(divided)) if e in divided}


def polynomial_of_ints(n: sc.Expr) -> sc.Expr:
    total = n
    for k in range(14):
        total = (total ^ (n + k)) * 31
    return total
