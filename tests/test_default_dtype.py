"""The default float: what is made without a dtype has it, and nothing else is another for it."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.core.errors import DTypeError
from phix.core.libraries import PINS

pytestmark = pytest.mark.unoptimised
KEY, INTS = phix.random.key(0), phix.to_tensor([1, 2, 3])
SINGLE = np.array([0.5, 2.0, 1.5], "f")

# What is made without a dtype.
MADE: dict[str, Any] = {
    "number": lambda: phix.to_tensor(1.5),
    "list": lambda: phix.to_tensor([1.0, 2.0]),
    "zeros": lambda: phix.zeros([2]),
    "ones": lambda: phix.ones([2]),
    "empty": lambda: phix.empty([2]),
    "eye": lambda: phix.eye(2),
    "full": lambda: phix.full([2], 1.5),
    "arange": lambda: phix.arange(0.0, 1.0, 0.5),
    "linspace": lambda: phix.linspace(0, 1, 3),
    "spec": lambda: phix.spec([2]),
    "float": lambda: INTS.astype(float),
    "ops.zeros": lambda: ops.zeros([2]),
    "ops.full": lambda: ops.full([2], 1),
    "ops.uniform": lambda: ops.uniform(KEY, [2], None, 0.0, 1.0),
    "ops.gaussian": lambda: ops.gaussian(KEY, [2], 0.0, 1.0),
    "ops.add": lambda: ops.add(1.0, 2.0),
    "random": lambda: phix.random.normal(KEY, [2]),
    "gumbel": lambda: phix.random.gumbel(KEY, [2]),
    "layer": lambda: phix.nn.Linear.create(KEY, 2, 3).weight,
    "numpy.zeros": lambda: pn.zeros(2),
    "numpy.array": lambda: pn.array([1.0, 2.0]),
    "numpy.linspace": lambda: pn.linspace(0, 1, 3),
    "divide": lambda: INTS / 2,
    "sqrt": lambda: ops.sqrt(INTS),
    "power": lambda: INTS**0.5,
    "weak": lambda: (INTS > 1) * 0.5,
    "mean": lambda: pn.mean(INTS),
    "where": lambda: ops.where(INTS > 1, 1.0, 2.0),
    "compiled": phix.jit(lambda: phix.zeros([2])),
    "mapped": lambda: phix.vmap(lambda x: x * phix.ones([2]))(INTS),
    "slope": lambda: phix.grad(lambda x: x**2)(3.0),
    "scan": lambda: phix.scan(lambda c, x: (c + 0.5 * x, None), 0.0, INTS)[0],
}
# What is given floats, and gives theirs.
KEPT: dict[str, Any] = {
    "weak": lambda x: x * 0.1 + 1,
    "nansum": lambda x: ops.nansum(x),
    "gammaincc": lambda x: ops.gammaincc(x, x),
    "layer_norm": lambda x: ops.layer_norm(x[None], None, None),
    "quantile": lambda x: pn.quantile(x, 0.5),
    "softmax": lambda x: ops.log_softmax(x[None]),
    "hessian": lambda x: phix.hessian(lambda v: ops.sum(ops.tanh(v) ** 3))(x),
    "scan": lambda x: phix.scan(lambda c, v: (c * v, c), x[0], x)[0],
    "adam": lambda x: phix.optim.adam(1e-3).update(x, phix.optim.adam(1e-3).init(x), x)[0],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _as_shipped() -> Iterator[None]:
    before = len(PINS)
    yield
    assert phix.get_default_dtype() == "float32" and len(PINS) == before


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_without_a_dtype_has_the_default(name: str) -> None:
    make = MADE[name]
    for _ in range(2):
        for dtype in ("float32", "float64"):
            with phix.default_dtype(dtype):
                assert [make().dtype for _ in range(2)] == [dtype] * 2
        assert make().dtype == "float32"


@pytest.mark.parametrize("name", KEPT)
def test_what_is_given_floats_keeps_their_dtype(name: str) -> None:
    graphs = set()
    for dtype in ("float32", "float64", "bfloat16"):
        with phix.default_dtype(dtype):
            graphs.add(str(phix.make_graph(KEPT[name])(SINGLE)))
            graphs.add(str(phix.make_graph(KEPT[name])(SINGLE)))
            taken_apart = str(phix.decompose(KEPT[name])(SINGLE))
            assert "bfloat16" not in taken_apart
    assert len(graphs) == 1


def test_values_are_those_of_the_dtype() -> None:
    f = phix.jit(lambda mask: 0.1 * mask + phix.ones([1]) / 3)
    for _ in range(3):
        assert f(True).item() == np.float32(0.1) + np.float32(1) / np.float32(3)
        with phix.default_dtype("float64"):
            assert f(True).item() == 0.1 + 1 / 3
            assert (INTS / 3)[0].item() == 1 / 3 and ops.pow(INTS, 0.5)[1].item() == 2**0.5
            assert phix.to_tensor(1j).dtype == (INTS * 1j).dtype == "complex128"
    assert f.trace_count == 2 and "the default float is float64, was float32" in f.why_retraced()
    with phix.default_dtype("float16"):
        assert f(True).dtype == "float16" and phix.to_tensor(1j).dtype == "complex64"


def test_rules_of_the_users_own_have_the_default() -> None:
    seen = []

    def noted() -> Any:
        seen.append(phix.to_tensor(1.5).dtype)
        return seen[-1]

    f = phix.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, noted() and x), lambda _, g: (noted() and g * 2,))
    with phix.default_dtype("float64"):
        assert phix.grad(f)(1.0).item() == phix.jit(phix.grad(f))(1.0).item() == 2
    assert set(seen) == {np.dtype("float64")}


def test_a_block_ends_and_is_its_threads() -> None:
    found: list[Any] = []

    def ask() -> None:
        found.append(phix.zeros([1]).dtype)

    def of_another_thread() -> Any:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return found.pop()

    with pytest.raises(ZeroDivisionError), phix.default_dtype("float64") as default:
        assert default == phix.get_default_dtype() == "float64"
        with phix.default_dtype("float16"):
            phix.set_default_dtype("bfloat16")
            assert phix.zeros([1]).dtype == "bfloat16" and of_another_thread() == "float32"
        assert phix.get_default_dtype() == "float64"
        _ = 1 / 0
    phix.set_default_dtype("float64")
    try:
        assert of_another_thread() == phix.zeros([1]).dtype == "float64"
        with phix.default_dtype("float32"):
            assert phix.zeros([1]).dtype == "float32" and of_another_thread() == "float64"
        assert phix.jit(lambda x: x / 3)(1).item() == 1 / 3
    finally:
        phix.set_default_dtype("float32")


@pytest.mark.parametrize("dtype", ["int64", "complex64", "bool", "float8_e5m2", "nope", None])
def test_other_defaults_are_refused(dtype: Any) -> None:
    for call, name in (
        (phix.set_default_dtype, "set_default_dtype"),
        (lambda d: phix.default_dtype(d).__enter__(), "default_dtype"),
    ):
        with pytest.raises(DTypeError, match=name):
            call(dtype)


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_a_size_that_is_not_known_is_an_operand_under_each_default(default: str) -> None:
    def filled(x: Any) -> Any:
        n = x.shape[0]
        return (
            pn.full((2,), n),
            np.maximum(x, n),
            pn.array([n, 2]),
            np.where(x > 1, n, x),
        )

    with phix.default_dtype(default):
        found = phix.jit(filled, input_spec=[phix.spec(["n"], default)])(pn.ones(5))
    assert [x.tolist() for x in found] == [[5, 5], [5.0] * 5, [5, 2], [1.0] * 5]


# -- what has a dtype of its own -------------------------------------------------------------------
# Data that numbers of NumPy's, or buffers, say the dtype of -> what it is.
DECLARED: dict[str, tuple[Any, str]] = {
    "a number in a list": ([np.float64(0.1)], "float64"),
    "beside Python's": ([np.float32(0.1), 0.5, 1], "float32"),
    "nested": ([[0.5, 0.25], (np.float64(0.1), 2)], "float64"),
    "several": ([np.float16(0.5), np.float32(0.1)], "float32"),
    "rows": ([np.array([0.1, 0.2]), [1, 2]], "float64"),
    "rows of several": ([np.ones(2, "f"), np.ones(2)], "float64"),
    "complex": ([np.complex64(1j), np.float64(0.1)], "complex128"),
    "beside complex": ([np.float64(0.1), 1j], "complex128"),
    "an array": (array("d", [0.1]), "float64"),
    "bytes of one": (memoryview(np.array([0.1])), "float64"),
    "ints": ([np.uint8(1), 0.5], "float32"),
    "Python's": ([[0.1], [1]], "float32"),
    "Python's, complex": ([0.1, 1j], "complex64"),
}


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("make", [phix.to_tensor, pn.asarray, ops.conj])
def test_floats_of_others_in_lists_keep_their_digits(name: str, make: Any) -> None:
    data, dtype = DECLARED[name]
    found = make(data)
    wanted = np.asarray(data).astype(dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted.conj() if make is ops.conj else wanted)
