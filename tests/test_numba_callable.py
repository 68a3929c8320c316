"""Functions of phix inside Numba's code."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import pytest
import scipy.integrate
from numba.core.errors import TypingError
from scipy import LowLevelCallable

import phix
from phix import ops
from phix.core.errors import ArgumentError, ShapeError

VECTOR = phix.spec(["n"], "float64")


def rosenbrock(x: Any) -> Any:
    return ops.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_newton_inside_numba() -> None:
    slope = phix.numba.njit(phix.grad(rosenbrock), VECTOR)
    curve = phix.numba.njit(phix.hessian(rosenbrock), VECTOR)

    @numba.njit
    def newton(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = x - np.linalg.solve(curve(x), slope(x))
        return x

    start = np.array([0.9, 0.8, 0.7])
    by_hand = start
    for _ in range(3):
        h, g = phix.hessian(rosenbrock)(by_hand).numpy(), phix.grad(rosenbrock)(by_hand).numpy()
        by_hand = by_hand - np.linalg.solve(h, g)
    np.testing.assert_allclose(newton(start, 3), by_hand, rtol=1e-12)
    np.testing.assert_allclose(newton(start, 20), np.ones(3), rtol=1e-12)
    assert newton(np.array([0.5, 0.5]), 1).shape == (2,), "another size, the same program"


def test_numbers_trees_dtypes_and_constants() -> None:
    table = np.linspace(0, 1, 12).reshape(4, 3).astype("f")

    def model(params: Any, x: Any, scale: Any) -> Any:
        w, b = params
        h = ops.tanh(x @ w + b) * scale
        return ops.sum(h), (h @ table, ops.argmax(h, 1))

    specs = (phix.spec([3, 4]), phix.spec([4])), phix.spec(["n", 3]), phix.spec([])
    compiled = phix.numba.njit(model, *specs)

    @numba.njit
    def call(w: Any, b: Any, x: Any) -> Any:
        return compiled((w, b), x, np.float32(0.5))

    rng = np.random.default_rng(3)
    for n in (1, 5, 0):
        w, b, x = (rng.random(s).astype("f") for s in ((3, 4), (4,), (n, 3)))
        total, (product, places) = call(w, b, x)
        h = np.tanh(x @ w + b) * np.float32(0.5)
        assert isinstance(total, float) and product.dtype == np.float32
        np.testing.assert_allclose(total, h.sum(), rtol=1e-5)
        np.testing.assert_allclose(product, h @ table, rtol=1e-5)
        np.testing.assert_array_equal(places, h.argmax(1))
    x = np.asfortranarray(rng.random((5, 3)).astype("f"))
    np.testing.assert_allclose(call(w, b, x)[1][0], np.tanh(x @ w + b) * 0.5 @ table, rtol=1e-5)


def test_loops_and_library_calls() -> None:
    def solve(a: Any, b: Any) -> Any:
        return phix.fori_loop(0, 5, lambda _, x: phix.linalg.solve(a, x + b), b)

    a, b = np.eye(3) * 2 + 0.1, np.arange(3.0)
    found = phix.numba.njit(solve, a, b)(a, b)
    want = b
    for _ in range(5):
        want = np.linalg.solve(a, want + b)
    np.testing.assert_allclose(found, want, rtol=1e-13)


def test_callbacks_of_c_as_scipy_takes_them() -> None:
    slope = phix.numba.njit(phix.grad(lambda x: ops.exp(-x * x)), phix.spec([], "float64"))

    @numba.cfunc("float64(float64)")
    def integrand(x: float) -> Any:
        return slope(x)

    value, _ = scipy.integrate.quad(LowLevelCallable(integrand.ctypes), 0.0, 1.0)
    assert math.isclose(value, math.exp(-1) - 1, rel_tol=1e-12)


def test_callers_side_by_side() -> None:
    slope = phix.numba.njit(phix.grad(rosenbrock), VECTOR)

    @numba.njit(nogil=True)
    def total(x: Any, times: int) -> Any:
        found = np.zeros(x.size)
        for _ in range(times):
            found += slope(x)
        return found

    def run(n: int) -> Any:
        x = np.linspace(0, 1, n + 2)
        return np.allclose(total(x, 2000), 2000 * phix.grad(rosenbrock)(x).numpy(), rtol=1e-10)

    run(0)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(16)))


def test_sizes_and_types_that_do_not_fit() -> None:
    pair = phix.numba.njit(lambda x, y: x + y, VECTOR, phix.spec(["m"], "float64"))
    np.testing.assert_array_equal(pair(np.ones(3), np.ones(1)), np.full(3, 2.0))
    for _ in range(2):
        with pytest.raises(ShapeError, match="sizes do not fit"):
            pair(np.ones(3), np.ones(2))
    with pytest.raises(ShapeError, match=r"axis 1 of x has another size than declared"):
        phix.numba.njit(lambda x: x, phix.spec(["n", 3], "float64"))(np.ones((2, 4)))
    with pytest.raises(TypingError, match="is declared float64"):
        pair(np.ones(3, "f"), np.ones(3))


def test_any_names_of_functions_and_arguments() -> None:
    """Those of the wrapper's own variables, modules and built-in functions as well."""
    a, b, c = np.arange(3.0), np.arange(3.0) + 10, np.arange(3.0) ** 2
    expected = a - 2.0 * b + 3.0 * c
    for text in (
        "def x0(x1, x2, x0): return x1 - 2 * x2 + 3 * x0",
        "def np(o0, n0, status): return o0 - 2 * n0 + 3 * status",
        "def body0(np, enter, ask): return np - 2 * enter + 3 * ask",
        "def range(known, body0, a0): return known - 2 * body0 + 3 * a0",
    ):
        scope: dict[str, Any] = {}
        exec(text, scope)
        made = phix.numba.njit(scope[text[4 : text.index("(")]], VECTOR, VECTOR, VECTOR)
        np.testing.assert_array_equal(made(a, b, c), expected, err_msg=text)

    def rest(argument1: Any, *others: Any) -> Any:
        return argument1 - 2.0 * others[0] + 3.0 * others[1]

    made = phix.numba.njit(rest, VECTOR, VECTOR, VECTOR)
    np.testing.assert_array_equal(made(a, b, c), expected)


def test_what_is_no_native_function_is_refused() -> None:
    three = phix.spec([3])
    for function, spec, message in (
        (lambda x: phix.pure_callback(lambda a: a, three, x), three, "Python runs pure_callback"),
        (lambda x: {"a": x}, three, "returns dict"),
        (lambda x: x["a"], {"a": three}, "write a tuple"),
        (lambda x: x, phix.spec([3], "float16"), "no arithmetic in float16"),
    ):
        with pytest.raises(ArgumentError, match=message):
            phix.numba.njit(function, spec)


def test_numba_does_not_keep_addresses_on_disk(tmp_path: Any, monkeypatch: Any) -> None:
    slope = phix.numba.njit(phix.grad(rosenbrock), VECTOR)
    source = tmp_path / "caller.py"
    source.write_text(
        "import numba\n\n@numba.njit(cache=True)\ndef call(x):\n    return slope(x)\n"
    )
    space = {"slope": slope, "__name__": "caller", "__file__": str(source)}
    exec(compile(source.read_text(), str(source), "exec"), space)
    with pytest.warns(numba.core.errors.NumbaWarning, match="dynamic globals"):
        space["call"](np.ones(3))


@pytest.mark.parametrize(
    ("dtype", "wrong", "right"),
    [
        ("int64", (2.7, 1j, np.ones(1, np.int64)), (np.int8(3), 3, True)),
        ("bool", (0.5, 2), (True,)),
        ("float32", (1j,), (3, 0.5)),
    ],
)
def test_numbers_are_not_narrowed(dtype: str, wrong: Any, right: Any) -> None:
    f = phix.numba.njit(lambda count: ops.cast(count, "float64") * 2.0, phix.spec([], dtype))
    for value in wrong:
        with pytest.raises(TypingError, match=rf"argument count is declared {dtype}\[\], found"):
            f(value)
    for value in right:
        assert f(value) == 2.0 * value


def test_ints_that_a_dtype_does_not_hold_are_refused() -> None:
    f = phix.numba.njit(lambda count: count + 1, phix.spec([], "int32"))
    assert f(2**31 - 2) == 2**31 - 1
    for large in (2**31, -(2**40)):
        with pytest.raises(OverflowError, match=r"count is declared int32\[\], and is larger"):
            f(large)


def test_what_is_no_array_is_refused_as_what_it_is() -> None:
    f = phix.numba.njit(lambda x: x * 2.0, phix.spec(["n"], "float64"))
    for value in ([1.0, 2.0], 2.0, np.ones((2, 2)), np.ones(2, "f")):
        with pytest.raises(TypingError, match=r"argument x is declared float64\[n\], found"):
            f(value)
