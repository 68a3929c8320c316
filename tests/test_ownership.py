"""Whose memory it is: arrays of the user's may be written to after a call, tensors by nobody."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.arrays import plain_array
from phix.core.errors import ArgumentError, DTypeError
from tests.harness.cases import Case, table_cases

pytestmark = pytest.mark.unoptimised

ONE = np.ones(4, "f")


def written_over(array: np.ndarray) -> None:
    array[...] = 100


# -- what is kept beyond a call --------------------------------------------------------------------
def _vjp(f: Any, a: Any) -> Any:
    out, pull = phix.vjp(f, a)
    return lambda: (out, pull(out)[0])


def _linearize(f: Any, a: Any) -> Any:
    out, push = phix.linearize(f, a)
    return lambda: (out, push(ONE))


def _closure(transform: Any) -> Callable[[Any, Any], Any]:
    def made(f: Any, a: Any) -> Any:
        g = transform(lambda x: f(x * 1.0 + 0.0 * x) + f(a) * x)
        g(ONE)  # traced now
        return lambda: g(ONE)

    return made


def _graph(f: Any, a: Any) -> Any:
    graph = phix.make_graph(lambda x: f(a) * x)(phix.spec([4]))
    return lambda: graph(ONE)[0]


def _lowered(f: Any, a: Any) -> Any:
    compiled = phix.jit(lambda x: f(a) * x).lower(ONE).compile()
    return lambda: compiled(ONE)


def _custom(f: Any, a: Any) -> Any:
    rule = phix.custom_vjp(lambda x: f(x))
    rule.defvjp(lambda x: (f(x), a), lambda kept, ct: (ct * kept,))
    out, pull = phix.vjp(rule, ONE)
    return lambda: (out, pull(ONE)[0])


def _value_and_aux(f: Any, a: Any) -> Any:
    found = phix.value_and_grad(lambda x: (ops.sum(f(x)), {"x": x, "out": f(x)}), has_aux=True)(a)
    return lambda: phix.tree.leaves(found)


KEEPERS: dict[str, Callable[[Any, Any], Any]] = {
    "vjp": _vjp,
    "vjp of jit": lambda f, a: _vjp(phix.jit(f), a),
    "vjp of vmap": lambda f, a: _vjp(phix.vmap(f), a),
    "vjp of checkpoint": lambda f, a: _vjp(phix.checkpoint(f), a),
    "linearize": _linearize,
    "closure of jit": _closure(phix.jit),
    "closure of checkpoint": lambda f, a: _vjp(phix.checkpoint(lambda x: f(a) * x), ONE),
    "closure of vmap in jit": _closure(lambda f: phix.jit(phix.vmap(f))),
    "closure of grad in jit": _closure(lambda f: phix.jit(phix.grad(lambda x: ops.sum(f(x))))),
    "closure of make_graph": _graph,
    "lowered": _lowered,
    "residuals of a rule": _custom,
    "aux": _value_and_aux,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "square": lambda x: x * x,
    "sin": ops.sin,
    "identity": lambda x: x,
    "views": lambda x: ops.reshape(ops.transpose(ops.reshape(x, [2, 2]), [1, 0]), [4]) * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("keeper", KEEPERS)
def test_what_outlives_a_call_does_not_see_what_is_written_later(keeper: str, name: str) -> None:
    if (keeper, name) in {("vjp of vmap", "views"), ("closure of vmap in jit", "views")}:
        return  # a function of a vector
    a = np.array([1.0, 2.0, 3.0, 4.0], "f")
    f = FUNCTIONS[name]
    run = KEEPERS[keeper](f, a)
    before = [np.array(x) for x in phix.tree.leaves(run())]
    written_over(a)
    for x, y in zip(phix.tree.leaves(run()), before, strict=True):
        np.testing.assert_array_equal(x, y)


# -- results ---------------------------------------------------------------------------------------
RESULTS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda a: ops.reshape(a, [2, 2]),
    "transpose": lambda a: ops.transpose(a.reshape(2, 2), [1, 0]),
    "slice": lambda a: ops.slice(a, [0], [1], [3]),
    "strided_slice": lambda a: ops.strided_slice(a, [0], [3], [0], [-1]),
    "expand": lambda a: ops.expand(a, [3, 4]),
    "flip": lambda a: ops.flip(a, [0]),
    "squeeze": lambda a: ops.squeeze(a.reshape(1, 4), [0]),
    "unsqueeze": lambda a: ops.unsqueeze(a, [0]),
    "flatten": lambda a: ops.flatten(a.reshape(2, 2)),
    "diagonal": lambda a: ops.diagonal(a.reshape(2, 2)),
    "split": lambda a: ops.split(a, [1, 3], 0),
    "unbind": lambda a: ops.unbind(a),
    "broadcast_tensors": lambda a: ops.broadcast_tensors([a, a.reshape(4, 1)]),
    "cast": lambda a: ops.cast(a, "float32"),
    "stop_gradient": phix.stop_gradient,
    "in place": lambda a: ops.reshape_(a, [2, 2]),
    "to_tensor": phix.to_tensor,
    "to its place": lambda a: ops.io_copy(a, "cpu"),
    "jit": phix.jit(lambda a: (a, ops.reshape(a, [2, 2]))),
    "compiled": lambda a: phix.jit(lambda a: (a, a)).lower(a).compile()(a),
    "vmap": phix.vmap(lambda x: x),
    "vmap of nothing mapped": lambda a: phix.vmap(lambda x, y: y, (0, None), None)(np.ones(3), a),
    "jvp": lambda a: phix.jvp(lambda x: x, (a,), (a,)),
    "checkpoint": phix.checkpoint(lambda x: x),
    "custom": phix.custom_vjp(lambda x: x),
    "graph": phix.make_graph(lambda x: ops.reshape(x, [4]))(phix.spec([4])),
    "cond": lambda a: phix.cond(np.array(True), lambda x: x, lambda x: -x, a),
    "scan": lambda a: phix.scan(lambda c, x: (c, x), a, a),
    "scan of nothing": lambda a: phix.scan(lambda c, x: (c, x), a, a[:0]),
    "while_loop": lambda a: phix.while_loop(lambda c: c[0] < 0, lambda c: c, a),
    "fori_loop": lambda a: phix.fori_loop(0, 0, lambda i, c: c, a),
    "pure_callback": lambda a: phix.pure_callback(lambda x: a, phix.spec([4]), 1.0),
    "jacfwd": lambda a: phix.jacfwd(lambda x: x)(a),
    "jet": lambda a: phix.jet(lambda x: x, (a,), ((a, a),)),
    "at": lambda a: phix.zeros([4]).at[:].set(a),
    "dropout": lambda a: phix.nn.functional.dropout(a, 0.5, training=False),
    "relu": phix.nn.functional.relu,
    "a result that is an array": phix.vmap(lambda x: x * 0 + 1, in_axes=0),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_do_not_show_the_memory_of_arguments(name: str) -> None:
    a = np.array([1.0, 2.0, 3.0, 4.0], "f")
    found = phix.tree.leaves(RESULTS[name](a))
    before = [np.array(x) for x in found]
    written_over(a)
    for x, y in zip(found, before, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", table_cases(), ids=repr)
def test_no_op_of_the_table_gives_memory_of_its_arguments(case: Case) -> None:
    call = next(case.calls(), None)
    if call is None:
        return
    for out in phix.tree.leaves(call.fn(*call.arrays)):
        for array in call.arrays:
            assert not np.may_share_memory(np.asarray(out), array)


def test_an_array_is_copied_once_a_trace_unless_it_changes() -> None:
    a = np.arange(40, dtype="f")
    graph = phix.make_graph(lambda x: (x + a) * a - a)(phix.spec([40]))
    assert len(graph.constants) == 1

    def writes(x: Any) -> Any:
        first = x + a
        a[:] = 7
        return first, x + a

    b = a.copy()
    first, second = phix.jit(writes)(np.zeros(40, "f"))
    np.testing.assert_array_equal(first, b)
    np.testing.assert_array_equal(second, np.full(40, 7))


def test_transient_arguments_are_read_where_they_lie() -> None:
    """No copy on the way into a program, or an op's kernel."""
    seen: list[int] = []

    a = np.ones((64, 64), "f")
    with phix.scoped_registries():

        @phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")
        def tanh(ctx: Any, x: np.ndarray, out: np.ndarray) -> None:
            seen.append(x.__array_interface__["data"][0])
            np.tanh(x, out=out)

        phix.jit(ops.tanh)(a)
        ops.tanh(a)
    assert seen == [a.__array_interface__["data"][0]] * 2


# -- read-only -------------------------------------------------------------------------------------
def test_what_a_tensor_hands_out_cannot_be_written_to() -> None:
    x = phix.to_tensor([1.0, 2.0, 3.0])
    views = [x.numpy(), np.asarray(x), np.array(x, copy=False), x.numpy()[1:], x.numpy().T]
    for view in views:
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5
    np.array(x)[0] = 5  # a copy
    assert x.__array_interface__["data"][1] is True
    assert x.tolist() == [1, 2, 3]


def test_who_takes_a_tensor_by_dlpack_writes_to_a_copy() -> None:
    x = phix.to_tensor([1.0, 2.0, 3.0])
    taken = np.from_dlpack(x)
    if taken.flags.writeable:
        taken[0] = 5
    assert x.tolist() == [1, 2, 3]
    shared = np.from_dlpack(x, copy=False)
    assert not shared.flags.writeable and np.shares_memory(shared, x.numpy())
    with pytest.raises(BufferError):  # a reader that knows no mark for memory that is not its own
        x.__dlpack__(copy=False, max_version=(0, 8))
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for take in (torch.from_dlpack, torch.asarray):
            found = take(x)
            found[0] = 9
            assert found.tolist()[0] == 9 and x.tolist() == [1, 2, 3]


@pytest.fixture
def writing_kernel() -> Iterator[list[str]]:
    """A tanh that would leave its work in its input."""
    seen: list[str] = []

    def tanh(ctx: Any, x: np.ndarray, out: np.ndarray) -> None:
        try:
            np.tanh(x, out=x)
        except ValueError as error:
            seen.append(str(error))
        np.tanh(x, out=out)

    with phix.scoped_registries():
        phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")(tanh)
        yield seen


def test_registered_kernels_get_inputs_that_are_read_only(writing_kernel: list[str]) -> None:
    a = np.full((2, 3), 0.5, "f")
    x = phix.to_tensor(a)
    for run in (ops.tanh, phix.jit(lambda x: ops.tanh(x) + ops.tanh(x * 2.0))):
        for given in (a, x):
            run(given)
            assert (a == 0.5).all() and (x.numpy() == 0.5).all()
    assert len(writing_kernel) == 6
    assert {"read-only" in text for text in writing_kernel} == {True}


# -- arrays that are not plain ---------------------------------------------------------------------
BASE = np.arange(12, dtype="f").reshape(3, 4) / 7


def _unaligned(base: np.ndarray) -> np.ndarray:
    raw = np.frombuffer(b"x" + base.tobytes(), base.dtype, base.size, 1)
    return raw.reshape(base.shape)


def _frozen(base: np.ndarray) -> np.ndarray:
    copy = base.copy()
    copy.flags.writeable = False
    return copy


class Labelled(np.ndarray):
    """A class of the user's."""


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "matrix": np.matrix,
    "a class of its own": lambda b: b.view(Labelled),
    "other byte order": lambda b: b.astype(b.dtype.newbyteorder()),
    "Fortran order": np.asfortranarray,
    "negative strides": lambda b: b[::-1, ::-1],
    "zero strides": lambda b: np.broadcast_to(b[:1], b.shape),
    "overlapping": lambda b: np.lib.stride_tricks.as_strided(
        b.reshape(-1).copy(), b.shape, (b.itemsize, b.itemsize)
    ),
    "every second": lambda b: np.repeat(b, 2, axis=1)[:, ::2],
    "unaligned": _unaligned,
    "read-only": _frozen,
    "no elements": lambda b: b[:0],
    "one element": lambda b: b[:1, :1],
    "a row of a column": lambda b: b.T[1:2].T,
}


@pytest.mark.filterwarnings("ignore:.*matrix:PendingDeprecationWarning")
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "complex128", "bool"])
@pytest.mark.parametrize("form", FORMS)
def test_arrays_of_every_form_are_what_they_show(form: str, dtype: str) -> None:
    a = FORMS[form]((BASE * 9).astype(dtype))
    plain = np.array(a).astype(dtype)
    ways: dict[str, Callable[..., Any]] = {
        "eager": lambda f: f(a),
        "jit": lambda f: phix.jit(f)(a),
        "a closure": lambda f: phix.jit(lambda x: f(a))(1.0),
        "Tensor": lambda f: f(phix.Tensor(a)),
        "jit of a Tensor": lambda f: phix.jit(f)(phix.Tensor(a)),
        "to_tensor": lambda f: f(phix.to_tensor(a)),
        "vmap": lambda f: phix.vmap(lambda x: x)(a) if len(a) else plain,
    }
    for name, way in ways.items():
        whole = way(lambda x: ops.where(np.array(True), x, x))
        np.testing.assert_array_equal(whole, plain, err_msg=name)
        assert type(phix.to_tensor(a).numpy()) is np.ndarray
        if name != "vmap":
            turned = way(lambda x: ops.concat([ops.reshape(x, [-1]), ops.reshape(x, [-1])], 0))
            wanted = np.concatenate([plain.reshape(-1)] * 2)
            np.testing.assert_array_equal(turned, wanted, err_msg=name)


REFUSED = {
    "masked": (np.ma.masked_array(BASE, BASE > 1), ArgumentError, "masked array.*filled"),
    "masked nowhere": (np.ma.masked_array(BASE), ArgumentError, "masked array"),
    "objects": (BASE.astype(object), DTypeError, "is not a dtype of phix"),
    "structures": (np.zeros(3, [("a", "f4")]), DTypeError, "is not a dtype of phix"),
    "dates": (np.zeros(3, "M8[s]"), DTypeError, "is not a dtype of phix"),
    "text": (np.full(3, "1.0"), DTypeError, "is not a dtype of phix"),
    "raw bytes": (np.zeros(3, "V4"), DTypeError, "is not a dtype of phix"),
    "wider floats": (np.zeros(3, np.longdouble), DTypeError, "is not a dtype of phix"),
}


@pytest.mark.skipif(np.dtype(np.longdouble) == np.float64, reason="no wider floats here")
@pytest.mark.parametrize("kind", REFUSED)
def test_arrays_that_are_no_tensors_are_refused(kind: str) -> None:
    a, error, message = REFUSED[kind]
    calls: list[Callable[[], Any]] = [
        lambda: ops.exp(a),
        lambda: phix.jit(ops.exp)(a),
        lambda: phix.jit(lambda x: x + a)(1.0),
        lambda: phix.grad(lambda x: ops.sum(x))(a),
        lambda: phix.to_tensor(a),
        lambda: phix.Tensor(a),
        lambda: phix.zeros([3, 4]) + a,
        lambda: phix.zeros(a.shape).at[:].set(a),
    ]
    for call in calls:
        with pytest.raises(error, match=message):
            call()


def test_lists_of_masked_arrays_are_refused() -> None:
    with pytest.raises(ArgumentError, match="masked array"):
        phix.to_tensor([np.ma.masked_array([1.0, 2.0], [True, False])])


def test_plain_arrays_are_not_copied() -> None:
    for a in (BASE, BASE.T, BASE[::-1], np.broadcast_to(BASE[:1], (5, 3, 4)), _frozen(BASE)):
        assert plain_array(a) is a


def test_results_of_many_arrays_own_their_memory() -> None:
    """Of a thousand arguments and results, those that came in are copied, and no others."""
    given = [np.full(3, float(k)) for k in range(200)]
    f = phix.jit(lambda xs: [*xs[:2], *(x + 1.0 for x in xs), phix.ops.reshape(xs[3], [3, 1])])
    out = f(given)
    for x in given:
        x[:] = -1.0
    assert [o.numpy()[0].item() for o in out[:2]] == [0.0, 1.0]
    assert [o.numpy()[0].item() for o in out[2:-1]] == [k + 1.0 for k in range(200)]
    assert out[-1].tolist() == [[3.0]] * 3
