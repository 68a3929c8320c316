"""A value under a transformation does not turn into a number or array behind the user's back."""

from __future__ import annotations

import array
import copy
import decimal
import math
import operator
import pickle
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ConcretizationError, LeakedTracerError, PhixError

pytestmark = pytest.mark.unoptimised

# Each takes a scalar x and answers, if it were let, something of the value of x alone.
ASKED: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "truth": lambda x: 1.0 if x else 2.0,
    "or": lambda x: x or 1.0,
    "not": operator.not_,
    "float": float,
    "int": int,
    "complex": complex,
    "item": lambda x: x.item(),
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "list of item": lambda x: [v.item() for v in ops.stack([x, x])],
    "asarray": np.asarray,
    "array": lambda x: np.array([x, x]),
    "array of rows": lambda x: np.array([[x, 1.0], [2.0, x]]),
    "array of dtype": lambda x: np.array(x, np.float32),
    "array of objects": lambda x: np.array(ops.stack([x, x]), object),
    "float64": np.float64,
    "astype": lambda x: np.asarray(ops.stack([x, x])).astype(int),
    "__array__": lambda x: x.__array__(),
    "full": lambda x: np.full(3, x),
    "assigned": lambda x: _assigned(x),
    "math.sin": math.sin,
    "math.floor": math.floor,
    "math.exp": math.exp,
    "math.isclose": lambda x: math.isclose(x, 1.0),
    "math.fsum": lambda x: math.fsum([x, x]),
    "statistics": lambda x: statistics.fmean([x, x]),
    "decimal": lambda x: decimal.Decimal(float(x)),
    "format": lambda x: f"{x:.3f}",
    "percent": lambda x: "%f" % x,  # noqa: UP031
    "format of str": lambda x: "{:e}".format(x),  # noqa: UP032
    "pickle": pickle.dumps,
    "range": lambda x: list(range(x)),
    "index": operator.index,
    "list index": lambda x: [1.0, 2.0, 3.0][x],
    "array.array": lambda x: array.array("d", [x]),
    "dlpack": lambda x: np.from_dlpack(x),
    "random": lambda x: np.random.default_rng(0).normal(x),
    "vectorize": lambda x: np.vectorize(lambda v: v)(x),
    "frompyfunc": lambda x: np.frompyfunc(lambda v: v, 1, 1)(x),
    "linspace": lambda x: np.linspace(0, x, 3),
    "reshape": lambda x: ops.reshape(ops.full([4], 1.0), [x, 2]),
    "static": lambda x: phix.jit(lambda n: ops.full([2], 1.0) * float(n), static_argnums=0)(x),
    "deepcopy": lambda x: float(copy.deepcopy(x)),
    "copy": lambda x: float(copy.copy(x)),
}


def _assigned(x: Any) -> Any:
    made = np.zeros(2)
    made[0] = x
    return made


TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: phix.grad(f)(2.0),
    "vjp": lambda f: phix.vjp(f, np.float64(2.0)),
    "jvp": lambda f: phix.jvp(f, (2.0,), (1.0,)),
    "jet": lambda f: phix.jet(f, (2.0,), ([1.0, 0.0],)),
    "jit": lambda f: phix.jit(f)(2.0),
    "vmap": lambda f: phix.vmap(f)(np.array([2.0, 3.0])),
    "vmap of grad": lambda f: phix.vmap(phix.grad(f))(np.array([2.0, 3.0])),
    "grad of grad": lambda f: phix.grad(phix.grad(f))(2.0),
    "jacfwd": lambda f: phix.jacfwd(f)(2.0),
    "linearize": lambda f: phix.linearize(f, 2.0),
    "checkpoint": lambda f: phix.grad(phix.checkpoint(f))(2.0),
    "derivative": lambda f: phix.derivative(f, order=2)(2.0),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ASKED)
def test_a_value_is_not_given_away(name: str, transform: str) -> None:
    asked: list[Any] = []

    def f(x: Any) -> Any:
        ASKED[name](x)
        asked.append(x)
        return x * 2.0

    with pytest.raises((PhixError, ValueError, TypeError)) as error:
        TRANSFORMS[transform](f)
    assert not asked, "the value was given away"
    known = error.value if isinstance(error.value, PhixError) else error.value.__cause__
    if name not in ("index", "list index", "range"):  # there a float is no index at all
        assert isinstance(known, PhixError), repr(error.value)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (float, ["a Python number", "vjp (float64[])", "ops.sin", "stop_gradient"]),
        (np.asarray, ["a NumPy array", "np.sin(x)", "ops.stack", "pure_callback", "stop_gradient"]),
        (lambda x: f"{x:.2f}", ["a formatted number", "phix.debug.print"]),
    ],
)
def test_the_message_says_what_to_write(ask: Any, words: list[str]) -> None:
    with pytest.raises(ConcretizationError) as error:
        phix.grad(lambda x: x * ask(x))(2.0)
    for word in (*words, __file__):
        assert word in str(error.value)


# -- what is sound -------------------------------------------------------------------------------
def test_control_flow_on_truths_is_allowed() -> None:
    def f(x: Any) -> Any:
        if x > 1 and bool(x != 0):
            x = x * 2.0
        while x < 10:
            x = x * x
        return max(x, 0.5 * x) if x != 0 else min(x, -x)

    # 2 -> 4 -> 16: (2 x)^2, of which the larger half is taken whole
    assert phix.grad(f)(2.0).item() == 16.0
    assert phix.jvp(f, (2.0,), (1.0,))[1].item() == 16.0
    assert phix.jet(f, (2.0,), ([1.0],))[1][0].item() == 16.0


def test_ints_and_bools_have_no_derivative_to_lose() -> None:
    def f(x: Any) -> Any:
        place = int(ops.argmax(ops.stack([x, 2 * x]), 0))
        steps = int(ops.floor(x).astype("int64"))
        return [x, 3.0 * x][place] * steps * float(ops.sum(ops.stack([x, x]) > 0))

    assert phix.grad(f)(2.5).item() == 3 * 2 * 2


def test_a_constant_is_meant_by_stop_gradient() -> None:
    slope = phix.grad(
        lambda x: x * float(phix.stop_gradient(x)) * np.asarray(phix.stop_gradient(x))
    )
    assert slope(3.0).item() == 9.0
    text: list[str] = []

    def f(x: Any) -> Any:
        text.append(f"{phix.stop_gradient(x):.1f} {x}")
        return x

    phix.grad(f)(2.0)
    assert text == ["2.0 Tracer<vjp>(a Python float)"]


def test_pure_callback_is_the_way_to_other_libraries() -> None:
    @phix.custom_jvp
    def sine(x: Any) -> Any:
        return phix.pure_callback(np.sin, phix.spec([], "float64"), x)

    sine.defjvp(lambda p, t: (sine(*p), t[0] * ops.cos(p[0])))
    np.testing.assert_allclose(phix.grad(sine)(np.float64(0.3)), np.cos(0.3), rtol=1e-15)


def test_copies_of_a_tracer_are_it() -> None:
    for make in (copy.copy, copy.deepcopy, lambda x: copy.deepcopy({"a": [x]})["a"][0]):
        f = lambda x, make=make: ops.sum(make(x) * x)  # noqa: E731
        x = np.array([1.0, 2.0])
        for run in (phix.grad(f), phix.jit(phix.grad(f)), phix.grad(phix.jit(f))):
            np.testing.assert_allclose(run(x), 2 * x)
        assert phix.jvp(f, (x,), (x,))[1].item() == 10.0
        np.testing.assert_allclose(phix.vmap(f)(x), x * x)


def test_a_tracer_that_is_kept_is_dead() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    phix.grad(f)(1.0)
    for ask in (float, np.asarray, lambda x: x.tolist(), np.sin):
        with pytest.raises(LeakedTracerError, match="after that transformation had ended"):
            ask(kept[0])


# -- lists of tensors ----------------------------------------------------------------------------
LISTS: dict[str, tuple[Callable[[Any], Any], list[list[float]]]] = {
    # f(x) of x [3], and the Jacobian of its elements, in order
    "at.set": (lambda x: x.at[:2].set([x[0] * 2, x[1] * 3]), [[2, 0, 0], [0, 3, 0], [0, 0, 1]]),
    "at.add": (lambda x: x.at[[0, 2]].add([x[1], 5.0]), [[1, 1, 0], [0, 1, 0], [0, 0, 1]]),
    "column": (lambda x: phix.to_tensor([[x[0]], [x[1]]]), [[1, 0, 0], [0, 1, 0]]),
    "mixed": (lambda x: phix.to_tensor([[x[0], 1.0], [2.0, 3.0]]), [[1, 0, 0], *[[0] * 3] * 3]),
    "tuple": (lambda x: phix.to_tensor(((x[2], x[0]),)), [[0, 0, 1], [1, 0, 0]]),
    "operand": (lambda x: ops.add([x[0], x[1]], 1.0), [[1, 0, 0], [0, 1, 0]]),
    "nested operand": (lambda x: ops.multiply([[x[0]], [x[1]]], 2.0), [[2, 0, 0], [0, 2, 0]]),
    "matmul": (
        lambda x: ops.matmul([[x[0], 0.0], [0.0, x[1]]], [1.0, 1.0]),
        [[1, 0, 0], [0, 1, 0]],
    ),
    "operator": (lambda x: x[:2] * [x[2], 1.0], None),
    "of arrays": (lambda x: phix.to_tensor([x, np.ones(3)]), [*np.eye(3), *[[0] * 3] * 3]),
    "np.stack": (lambda x: np.stack([x[0], x[2]]), [[1, 0, 0], [0, 0, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_tensors_stack(name: str) -> None:
    f, jacobian = LISTS[name]
    x = np.array([1.5, -2.0, 0.7])
    wanted = np.array([[x[2], 0, x[0]], [0, 1, 0]] if jacobian is None else jacobian, np.float64)
    flat = lambda x: ops.reshape(f(x), [-1])  # noqa: E731
    for jac in (phix.jacrev(flat), phix.jacfwd(flat), phix.jit(phix.jacrev(flat))):
        np.testing.assert_allclose(jac(x), wanted, rtol=1e-15)
    batch = np.stack([x, 2 * x])
    rows = [np.asarray(flat(phix.to_tensor(row))) for row in batch]
    np.testing.assert_allclose(phix.vmap(flat)(batch), rows)
    assert f(phix.to_tensor(x)).dtype == np.float64  # numbers take the dtype of the tensors


def test_numbers_beside_tensors_keep_their_digits() -> None:
    x = phix.to_tensor([0.1], "float64")
    made = phix.to_tensor([[0.1, 0.2], [x[0], 0.3]])
    assert made.dtype == np.float64 and made.tolist() == [[0.1, 0.2], [0.1, 0.3]]
    assert phix.to_tensor([[phix.to_tensor(1), 2.5]]).dtype == np.float32
    assert phix.to_tensor([[x[0].astype("float32"), 1]]).dtype == np.float32


def test_ragged_lists_of_tensors_are_refused() -> None:
    x = phix.to_tensor([1.0, 2.0])
    for ragged in ([[x[0]], [x[0], x[1]]], [x, x[0]], [[x[0], [1.0]]]):
        with pytest.raises((PhixError, ValueError)):
            phix.to_tensor(ragged)
