"""Selected rows: gradients of sparse lookups, their arithmetic, and steps of optimizers by rows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.nn.functional as F
from phix import ops
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DifferentiationError,
    DonatedTensorError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)

rows_of = phix.selected_rows
SelectedRows = rows_of.SelectedRows
pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
IDS = np.array([[4, 1], [4, 0]])
TABLE = RNG.standard_normal((6, 3))
TARGET = RNG.standard_normal((2, 2, 3))


def loss(w: Any, sparse: bool = True, padding: int | None = None, ids: Any = IDS) -> Any:
    return ops.sum(ops.tanh(F.embedding(ids, w, padding, sparse)) * TARGET)


def dense(x: Any) -> np.ndarray:
    return (x.to_dense() if isinstance(x, SelectedRows) else x).numpy()


def gradient_by_hand(w: np.ndarray, ids: np.ndarray, padding: int | None = None) -> np.ndarray:
    """The gradient of the loss as a matrix: tanh' times the target, added to the rows read."""
    terms = (1 - np.tanh(w[ids]) ** 2) * TARGET
    found = np.zeros_like(w)
    np.add.at(found, ids, terms * (ids != padding)[..., None])
    return found


# -- gradients -------------------------------------------------------------------------------------
@pytest.mark.parametrize("padding", [None, 4])
def test_the_gradient_of_a_lookup_is_its_rows(padding: int | None) -> None:
    wanted = gradient_by_hand(TABLE, IDS, padding)
    for make in (lambda f: f, phix.jit):
        found = make(phix.grad(lambda w: loss(w, True, padding)))(phix.to_tensor(TABLE))
        assert isinstance(found, SelectedRows) and found.shape == (6, 3)
        assert found.rows.tolist() == [4, 1, 4, 0]
        np.testing.assert_allclose(found.to_dense(), wanted, rtol=1e-12)
        value, other = phix.value_and_grad(lambda w: loss(w, True, padding))(TABLE)
        np.testing.assert_allclose(dense(other), wanted, rtol=1e-12)
        assert value.item() == loss(TABLE, False, padding).item()
    merged = rows_of.merge_selected_rows(found)
    assert merged.rows.tolist() == [0, 1, 4]
    np.testing.assert_allclose(merged.value, wanted[[0, 1, 4]], rtol=1e-12)


USES: dict[str, tuple[Callable[[Any, bool], Any], type]] = {
    "two lookups": (lambda w, s: loss(w, s) * loss(w, s, None, IDS[::-1] + 1), SelectedRows),
    "and a penalty": (lambda w, s: loss(w, s) + (w * w).sum(), phix.Tensor),
    "a penalty first": (lambda w, s: (w * w).sum() + loss(w, s), phix.Tensor),
    "a dense lookup": (lambda w, s: loss(w, s) + loss(w, False), phix.Tensor),
    "of another": (lambda w, s: loss(ops.sin(w), s), phix.Tensor),
    "in a program": (lambda w, s: phix.jit(lambda v: loss(v, s))(w), phix.Tensor),
    "kept apart": (lambda w, s: phix.checkpoint(lambda v: loss(v, s))(w), phix.Tensor),
    "in a branch": (lambda w, s: phix.cond(w[0, 0] > 0, lambda v: loss(v, s), lambda v: v.sum(), w),
                    phix.Tensor),
    "in a loop": (lambda w, s: phix.scan(
        lambda c, i: (c + ops.sum(F.embedding(i, w, sparse=s) ** 2), c), 0.0, IDS[0])[0],
        phix.Tensor),
    "in a batch": (lambda w, s: ops.sum(ops.sin(phix.vmap(
        lambda i, t: ops.sum(F.embedding(i, w, sparse=s) * t))(IDS, TARGET))), SelectedRows),
    "unused": (lambda w, s: ops.sum(F.embedding(IDS, w, sparse=s) * 0) + (w * w).sum(),
               phix.Tensor),
    "from the end": (lambda w, s: ops.sum(F.embedding([-1, 2], w, sparse=s) ** 2), SelectedRows),
    "none": (lambda w, s: ops.sum(F.embedding(IDS[:0], w, sparse=s) ** 2), SelectedRows),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_a_table_in_other_uses(name: str) -> None:
    function, kind = USES[name]
    w = phix.to_tensor(TABLE)
    wanted = phix.grad(lambda v: function(v, False))(w).numpy()
    found = phix.grad(lambda v: function(v, True))(w)
    assert type(found) is kind
    np.testing.assert_allclose(dense(found), wanted, rtol=1e-12, atol=1e-15)
    compiled = phix.jit(phix.grad(lambda v: function(v, True)))(w)
    np.testing.assert_allclose(dense(compiled), wanted, rtol=1e-12, atol=1e-15)


def test_higher_orders_and_forward_mode() -> None:
    w, v = phix.to_tensor(TABLE), RNG.standard_normal((6, 3))

    def penalty(w: Any, sparse: bool) -> Any:
        gradient = phix.grad(lambda w: loss(w, sparse))(w)
        gradient = gradient.to_dense() if sparse else gradient
        return (gradient * gradient).sum() + (gradient * w).sum()

    for f in (lambda w, s: penalty(w, s), lambda w, s: phix.hvp(lambda w: loss(w, s), (w,), (v,)),
              lambda w, s: ops.sum(phix.hessian(lambda w: loss(w, s))(w) * v, [2, 3])):  # fmt: skip
        run: Any = f if f(w, True).ndim else lambda w, s, f=f: phix.grad(lambda w: f(w, s))(w)
        np.testing.assert_allclose(dense(run(w, True)), dense(run(w, False)), rtol=1e-10)
    third = [
        phix.grad(lambda w, s=s: (phix.grad(lambda w: penalty(w, s))(w) * v).sum())(w)
        for s in (True, False)
    ]
    np.testing.assert_allclose(dense(third[0]), dense(third[1]), rtol=1e-9)
    # the rows of a gradient have no tangents: its derivative is that of the table
    out, tangent = phix.jvp(phix.grad(loss), (w,), (v,))
    np.testing.assert_allclose(out, dense(phix.grad(loss)(w)), rtol=1e-12)
    np.testing.assert_allclose(tangent, phix.hvp(lambda w: loss(w, False), (w,), (v,)), rtol=1e-10)
    _, pull = phix.vjp(phix.grad(loss), w)
    np.testing.assert_allclose(dense(pull(v)[0]), tangent, rtol=1e-10)
    jacobian = phix.jacrev(lambda w: F.embedding([1, 1], w, sparse=True))(w)
    np.testing.assert_array_equal(jacobian, phix.jacrev(lambda w: F.embedding([1, 1], w))(w))


def test_batches_and_unknown_dims() -> None:
    ids = np.array([[1, 2, 1], [0, 0, 5]])
    f = phix.grad(lambda w, i: ops.sum(ops.sin(F.embedding(i, w, sparse=True))))
    several = phix.vmap(f, (None, 0))(TABLE, ids)
    assert several.rows.shape == (2, 3) and several.height == 6
    tables = np.stack([TABLE, 2 * TABLE])
    each = phix.vmap(lambda w, i: f(w, i).to_dense())(tables, ids)
    np.testing.assert_allclose(each, [dense(f(w, i)) for w, i in zip(tables, ids)], rtol=1e-12)
    padded = phix.vmap(lambda w, i: F.embedding(i, w, 1, True), (0, None))(tables, ids[0])
    np.testing.assert_array_equal(padded[1], F.embedding(ids[0], tables[1], 1))
    spec: Any = [phix.spec(["height", 3], "float64"), phix.spec(["n"], "int64")]
    g = phix.jit(f, input_spec=spec)
    for height in (6, 4):
        found = g(TABLE[:height], ids[0])
        assert found.shape == (height, 3) and isinstance(found.height, int)
        np.testing.assert_allclose(dense(found), dense(f(TABLE[:height], ids[0])), rtol=1e-12)
    assert g.trace_count == 1


def test_a_rule_of_ones_own_may_give_rows() -> None:
    @phix.custom_vjp
    def looked_up(w: Any) -> Any:
        return F.embedding([1], w).sum()

    def backward(w: Any, ct: Any) -> Any:
        return (phix.grad(lambda w: F.embedding([1], w, sparse=True).sum())(w) * ct,)

    looked_up.defvjp(lambda w: (looked_up(w), w), backward)
    found = phix.grad(lambda w: looked_up(w) * 3.0)(phix.to_tensor(TABLE))
    np.testing.assert_array_equal(found, 3.0 * np.eye(6)[1][:, None] * np.ones((6, 3)))


def test_half_precision_adds_in_float32() -> None:
    table = np.zeros((2, 1), np.float16)
    ids = np.zeros(3000, np.int64)
    found = phix.grad(lambda w: ops.sum(F.embedding(ids, w, sparse=True)))(table)
    assert found.dtype == np.float16 and found.to_dense().tolist() == [[3000.0], [0.0]]
    assert rows_of.merge_selected_rows(found).value.tolist() == [[3000.0]]


def test_trees_of_parameters() -> None:
    parameters = {"table": phix.to_tensor(TABLE), "scale": phix.to_tensor(np.ones(3))}

    def f(p: Any) -> Any:
        return ops.sum(F.embedding(IDS, p["table"], sparse=True) * p["scale"] * TARGET)

    found = phix.jit(phix.grad(f))(parameters)
    new = phix.tree.map(lambda p, g: p - 0.5 * g, parameters, found)
    assert isinstance(found["table"], SelectedRows) and isinstance(new["table"], phix.Tensor)
    wanted = TABLE.copy()
    np.subtract.at(wanted, IDS, 0.5 * TARGET)
    np.testing.assert_allclose(new["table"], wanted, rtol=1e-12)


# -- arithmetic ------------------------------------------------------------------------------------
def drawn() -> tuple[Any, np.ndarray]:
    value = RNG.standard_normal((4, 3))
    table = np.zeros((6, 3))
    np.add.at(table, [4, 1, 4, 0], value)
    return rows_of.selected_rows([4, 1, 4, 0], value, 6), table


def test_arithmetic() -> None:
    (x, a), (y, b) = drawn(), drawn()
    d = RNG.standard_normal((6, 3))
    cases: list[tuple[Any, np.ndarray, bool]] = [
        (x + y, a + b, True), (x - y, a - b, True), (-x, -a, True), (x * 2.0, 2 * a, True),
        (np.float64(2) * x, 2 * a, True), (phix.to_tensor(2.0) * x, 2 * a, True),
        (x / 4.0, a / 4, True), (ops.scale(x, 3.0), 3 * a, True), (x + d, a + d, False),
        (d + x, a + d, False), (phix.to_tensor(d) - x, d - a, False), (x - d, a - d, False),
        (x + d[:1], a + d[:1], False), (1.0 - x, 1 - a, False), (ops.square(x), a**2, True),
        (ops.sqrt(ops.square(x)), abs(a), True), (ops.clip(x, -0.1, 0.2), a.clip(-0.1, 0.2), True),
        (ops.clip_by_norm(x, 0.5), a * 0.5 / np.sqrt((a**2).sum()), True),
        (ops.isnan(x), np.isnan(a), True), (ops.assign(x), a, True),
        (ops.add_n([x, y, x]), 2 * a + b, True), (ops.embedding([0, 3, 4], x), a[[0, 3, 4]], False),
        (rows_of.merge_selected_rows(x), a, True),
    ]  # fmt: skip
    for number, (found, wanted, stays) in enumerate(cases):
        assert isinstance(found, SelectedRows) is stays, number
        np.testing.assert_allclose(dense(found), wanted, rtol=1e-6, atol=1e-7, err_msg=str(number))
    assert ops.shape(x).tolist() == [6, 3]
    assert rows_of.get_tensor_from_selected_rows(x) is x.value
    for f in (lambda x: x + d, lambda x: ops.square(x).to_dense()):
        np.testing.assert_allclose(phix.jit(f)(x), f(x), rtol=1e-12)
    gradient = phix.grad(lambda v: ops.sum(ops.square(x.with_value(v)).to_dense()))(x.value)
    np.testing.assert_allclose(gradient, 2 * a[x.rows.numpy()], rtol=1e-12)


def test_what_it_is_made_of() -> None:
    x = rows_of.selected_rows([1], [[2.0]], 3)
    assert repr(x) == (
        "SelectedRows(\n  rows=Tensor([1], dtype=int64, shape=[1], place=cpu),\n"
        "  value=Tensor([[2.]], dtype=float32, shape=[1, 1], place=cpu),\n  height=3,\n)"
    )
    assert x.shape == (3, 1) and x.ndim == 2 and x.dtype == np.float32
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.to_dense().tolist() == [[0.0], [2.0], [0.0]]
    clipped = phix.jit(lambda r: rows_of.selected_rows(r, np.ones((2, 1)), 3).to_dense())
    assert clipped(np.array([-1, 7])).tolist() == [[0.0], [0.0], [2.0]]


# -- steps of optimizers ---------------------------------------------------------------------------
RATE = np.float64(0.1)


def test_lazy_adam_changes_the_rows_that_were_read() -> None:
    table, first, second = TABLE.copy(), np.zeros((6, 3)), np.zeros((6, 3))
    w, m, v = phix.to_tensor(TABLE), phix.zeros([6, 3], "float64"), phix.zeros([6, 3], "float64")
    powers = [phix.to_tensor(np.float64(b)) for b in (0.9, 0.999)]

    @phix.jit
    def step(w: Any, m: Any, v: Any, powers: Any, ids: Any) -> Any:
        g = phix.grad(lambda w: loss(w, ids=ids))(w)
        out = ops.adam_(w, g, RATE, m, v, None, *powers, None, epsilon=1e-16, lazy_mode=True)
        return *out[:3], list(out[4:6])

    for t, ids in enumerate((IDS, IDS[::-1] // 2, IDS * 0 + 5), 1):
        g, rows = gradient_by_hand(table, ids), np.unique(ids)
        first[rows] = 0.9 * first[rows] + 0.1 * g[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * g[rows] ** 2
        rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        table[rows] -= rate * first[rows] / np.sqrt(second[rows])
        w, m, v, powers = step(w, m, v, powers, ids)
        np.testing.assert_allclose(w, table, rtol=2e-7, atol=1e-9)
    assert (w.numpy()[3] == TABLE[3]).all()


def test_descent_takes_the_gradient_off() -> None:
    w = phix.to_tensor(TABLE)
    new, _ = ops.sgd_(w, RATE, phix.grad(loss)(w), None)
    np.testing.assert_allclose(new, TABLE - 0.1 * gradient_by_hand(TABLE, IDS), rtol=1e-12)
    with pytest.raises(DonatedTensorError):
        w + 1.0


def _state(*names: str) -> list[Any]:
    return [phix.to_tensor(abs(RNG.standard_normal((6, 3))) + 0.1) for _ in names]


_B = [np.float64(0.8), np.float64(0.9)]
# a step of weights, gradient and state, and whether it may change rows without a gradient
STEPS: dict[str, tuple[Callable[..., Any], int, bool]] = {
    "sgd_": (lambda w, g: ops.sgd_(w, RATE, g, None), 0, False),
    "momentum_": (lambda w, g, v: ops.momentum_(w, g, v, RATE, None, 0.9, True), 1, True),
    "adagrad_": (lambda w, g, m: ops.adagrad_(w, g, m, RATE, None, 0.01), 1, False),
    "rmsprop_": (lambda w, g, s, m: ops.rmsprop_(w, s, g, m, RATE, None, None, 0.01), 2, True),
    "ftrl": (lambda w, g, s, z: ops.ftrl(w, s, z, g, RATE, 0.1, 0.1), 2, True),
    "lamb_": (lambda w, g, m, v: ops.lamb_(w, g, RATE, m, v, *_B, None, None, 0.1), 2, True),
    "adam_": (lambda w, g, m, v, x: ops.adam_(
        w, g, RATE, m, v, x, *_B, None, amsgrad=True), 3, True),
    "adamw_": (lambda w, g, m, v: ops.adamw_(
        w, g, RATE, m, v, None, *_B, None, with_decay=True), 2, True),
    "lazy adam_": (lambda w, g, m, v, x: ops.adam_(
        w, g, RATE, m, v, x, *_B, None, amsgrad=True, lazy_mode=True), 3, False),
    "lazy adamw_": (lambda w, g, m, v: ops.adamw_(
        w, g, RATE, m, v, None, *_B, None, with_decay=True, coeff=0.5, lazy_mode=True), 2, False),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_those_of_dense_gradients(name: str) -> None:
    """Row by row: rows without a gradient stay where a step is lazy, and that of others is the
    dense one."""
    step, count, changes_all = STEPS[name]
    gradient, table = drawn()
    state = _state(*"abc"[:count])
    old = [np.array(x) for x in (TABLE, *state)]

    def run(f: Any, g: Any) -> list[np.ndarray]:
        found = f(phix.to_tensor(old[0]), g, *map(phix.to_tensor, old[1:]))
        return [x.numpy() for x in found if x is not None and x.ndim]

    wanted = run(step, phix.to_tensor(table))
    if not changes_all:
        order = old if name != "rmsprop_" else [old[0], old[2], old[1]]
        wanted = [np.where((table != 0).any(1)[:, None], n, o) for n, o in zip(wanted, order)]
    for make in (lambda f: f, phix.jit):
        for found, right in zip(run(make(step), gradient), wanted):
            np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-9)


def test_steps_in_batches_and_with_master_weights() -> None:
    ids = np.array([[1, 1], [0, 2]])

    def step(i: Any) -> Any:
        g = phix.grad(lambda w: ops.sum(F.embedding(i, w, sparse=True)))(TABLE)
        return ops.adagrad_(phix.to_tensor(TABLE), g, phix.ones([6, 3]), RATE, None)[0]

    found = phix.vmap(step)(ids)
    np.testing.assert_allclose(found, [step(i) for i in ids], rtol=1e-12)
    low = phix.to_tensor(TABLE.astype(np.float16))
    g = rows_of.selected_rows([1, 1], np.ones((2, 3), np.float16), 6)
    new, master = ops.sgd_(low, np.float32(0.5), g, phix.to_tensor(TABLE.astype("f")), True)
    wanted = TABLE.astype("f") - np.eye(6, dtype="f")[1][:, None]
    np.testing.assert_allclose(master, wanted, rtol=1e-6)
    assert new.dtype == np.float16 and (new.numpy()[1] == wanted[1].astype(np.float16)).all()


# -- what is refused -------------------------------------------------------------------------------
TRANSFORMED = {
    "sgd": phix.optim.sgd(0.1, 0.9),
    "adamw": phix.optim.adamw(0.1),
    "chain": phix.optim.chain(phix.optim.clip_by_global_norm(0.5), phix.optim.adam(0.1)),
    "identity": phix.optim.identity(),
    "several": phix.optim.MultiSteps(phix.optim.sgd(0.1), 2),
    "finite": phix.optim.apply_if_finite(phix.optim.adam(0.1), 2),
    "masked": phix.optim.masked(phix.optim.sgd(0.1), {"table": False, "bias": True}),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_of_gradients_take_it_as_dense(name: str) -> None:
    tx = TRANSFORMED[name]

    def trained(sparse: bool) -> Any:
        params = {"table": phix.to_tensor(TABLE), "bias": phix.zeros([3], "float64")}
        state = tx.init(params)
        inner = phix.grad(lambda p: loss(p["table"], sparse) + ops.sum((p["bias"] - 1.0) ** 2))

        def step(params: Any, state: Any) -> Any:
            updates, state = tx.update(inner(params), state, params)
            return phix.optim.apply_updates(params, updates), state

        compiled = phix.jit(step)
        params, state = step(params, state)
        for _ in range(3):
            params, state = compiled(params, state)
        return params

    rows, whole = trained(True), trained(False)
    np.testing.assert_allclose(rows["table"], whole["table"], rtol=1e-12)
    np.testing.assert_allclose(rows["bias"], whole["bias"], rtol=1e-12)
    found = phix.grad(loss)(phix.to_tensor(TABLE))
    norm = phix.optim.global_norm([found, found])
    assert np.isclose(norm, np.sqrt(2.0) * np.linalg.norm(dense(found)))


def test_what_is_refused() -> None:
    x, _ = drawn()
    made = rows_of.selected_rows
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (TensorIndexError, "rows has 3", lambda: made([0, 3], np.ones((2, 1)), 3)),
        (TensorIndexError, "rows has -1", lambda: made([-1], np.ones((1, 1)), 3)),
        (ShapeError, r"rows \[n\]", lambda: made([0], np.ones((2, 1)), 3)),
        (DTypeError, "must be ints", lambda: made([0.5], np.ones((1, 1)), 3)),
        (ArgumentError, "height", lambda: made([0], np.ones((1, 1)), None)),  # type: ignore[arg-type]
        (ArgumentError, "selected rows", lambda: made([0], x, 3)),
        (ArgumentError, "must be SelectedRows", lambda: rows_of.merge_selected_rows(TABLE)),
        (ArgumentError, "write x.to_dense", lambda: np.asarray(x)),
        (ArgumentError, "truth", lambda: bool(x)),
        (ArgumentError, "len", lambda: len(x)),
        (ArgumentError, "relu: no kernel", lambda: ops.relu(x)),  # type: ignore[arg-type]
        (AttributeValueError, "scale: a bias", lambda: ops.scale(x, 1.0, 2.0)),  # type: ignore[arg-type]
        (AttributeValueError, "clip: min 1.0", lambda: ops.clip(x, 1.0, 2.0)),  # type: ignore[arg-type]
        (ShapeError, "multiply: .* one number", lambda: x * TABLE),
        (AttributeValueError, "would be NaN when multiplied by inf", lambda: x * float("inf")),
        (AttributeValueError, "would be NaN when divided by 0", lambda: x / 0),
        (ShapeError, "one shape", lambda: x + made([0], np.ones((1, 2)), 6)),
        (ShapeError, "one shape", lambda: x + made([0], np.ones((1, 3)), 5)),
        (ShapeError, "like param", lambda: ops.sgd_(TABLE[:4], RATE, x, None)),  # type: ignore[arg-type]
        (ArgumentError, "takes one kind", lambda: ops.add_n([x, TABLE])),  # type: ignore[list-item]
        (DifferentiationError, "int64", lambda: phix.grad(lambda x: x.to_dense().sum())(x)),
    ]
    for kind, text, wrong in cases:
        with pytest.raises(kind, match=text):
            wrong()
