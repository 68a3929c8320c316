"""Host functions inside programs: pure_callback, debug.callback and debug.print."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError

pytestmark = pytest.mark.unoptimised

Y = np.array([3.0, 1.0, 2.0])
SPEC = phix.spec([3], "float64")


def sort(x, **options):
    return phix.pure_callback(np.sort, SPEC, x, **options)


def test_eager_and_jitted():
    np.testing.assert_array_equal(sort(Y), [1, 2, 3])
    np.testing.assert_array_equal(phix.jit(lambda y: sort(2.0 * y) + 1.0)(Y), [3, 5, 7])
    both = lambda x, *, k: {"a": x["v"] + k, "b": np.int64(x["v"].size)}  # noqa: E731
    specs = {"a": SPEC, "b": phix.spec([], "int64")}
    found = phix.jit(lambda y: phix.pure_callback(both, specs, {"v": y}, k=1.0))(Y)
    np.testing.assert_array_equal(found["a"], Y + 1)
    assert found["b"].item() == 3


def test_unknown_dims_and_loops():
    any_size = phix.jit(
        lambda v: phix.pure_callback(np.sort, phix.MetaTensor(v.shape, v.dtype), v),
        input_spec=[phix.spec(["n"], "float64")],
    )
    for n in (2, 3):
        np.testing.assert_array_equal(any_size(Y[:n]), np.sort(Y[:n]))
    summed = phix.jit(lambda y: phix.scan(lambda c, _: (c + sort(y - c), None), y, length=2)[0])
    expected = Y
    for _ in range(2):
        expected = expected + np.sort(Y - expected)
    np.testing.assert_array_equal(summed(Y), expected)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap(method):
    shapes = []

    def add(x, k):
        shapes.append((x.shape, k.shape))
        return x + k

    call = lambda x, k: phix.pure_callback(add, SPEC, x, k, vmap_method=method)  # noqa: E731
    rows, k = np.stack([Y, -Y]), np.ones(3)
    for run in (phix.vmap(call, in_axes=(0, None)), phix.jit(phix.vmap(call, in_axes=(0, None)))):
        shapes.clear()
        np.testing.assert_array_equal(run(rows, k), rows + 1)
        seen = {"sequential": [((3,), (3,))] * 2, "expand_dims": [((2, 3), (1, 3))]}
        assert shapes == seen.get(method, [((2, 3), (2, 3))])


def test_with_a_custom_derivative():
    @phix.custom_vjp
    def f(y):
        return phix.pure_callback(np.sin, SPEC, y)

    f.defvjp(lambda y: (f(y), ops.cos(y)), lambda c, ct: (c * ct,))
    for g in (phix.grad(lambda y: ops.sum(f(y))), phix.jit(phix.grad(lambda y: ops.sum(f(y))))):
        np.testing.assert_allclose(g(Y), np.cos(Y))


def test_errors():
    with pytest.raises(ArgumentError, match="vmap_method"):
        phix.vmap(sort)(np.stack([Y, Y]))
    with pytest.raises(DifferentiationError, match="custom_vjp"):
        phix.grad(lambda y: ops.sum(sort(y)))(Y)
    with pytest.raises(DifferentiationError, match="custom_vjp"):
        phix.jvp(sort, (Y,), (Y,))
    wrong = {
        ShapeError: lambda v: v[:1],
        DTypeError: lambda v: v * 1j,
        ArgumentError: lambda v: (v, v),
    }
    for error, function in wrong.items():
        for run in (lambda y, f=function: phix.pure_callback(f, SPEC, y), ):  # fmt: skip
            with pytest.raises(error, match="pure_callback"):
                run(Y)
            with pytest.raises(error, match="pure_callback"):
                phix.jit(run)(Y)


# -- effects ---------------------------------------------------------------------------------
def test_prints_in_the_order_of_the_program(capfd):
    @phix.jit
    def f(x):
        phix.debug.print("in {}", x)

        def body(c, v):
            phix.debug.print("step {} {v}", c, v=v)
            return c + v, None

        out = phix.scan(body, x, np.arange(3.0))[0]
        phix.debug.print("out {}", out)

    assert f(np.float64(1.0)) is None
    lines = ["in 1.0", "step 1.0 0.0", "step 1.0 1.0", "step 2.0 2.0", "out 4.0"]
    assert capfd.readouterr().out.splitlines() == lines


def test_prints_once_a_lane_and_for_primals_alone(capfd):
    def f(x):
        phix.debug.print("{}", x)
        return x * x

    for run in (phix.vmap(f), phix.jit(phix.vmap(f))):
        run(Y)
        assert capfd.readouterr().out.split() == ["3.0", "1.0", "2.0"]
    two = np.float64(2.0)
    for g in (phix.grad(f), phix.jit(phix.grad(f)), phix.grad(phix.jit(f)),
              phix.grad(phix.checkpoint(f))):  # fmt: skip
        assert g(two).item() == 4.0
        assert capfd.readouterr().out.split() == ["2.0"]
    assert phix.jvp(f, (two,), (two,))[1].item() == 8.0
    assert capfd.readouterr().out.split() == ["2.0"]


def test_one_side_of_a_cond_prints(capfd):
    def yes(x):
        phix.debug.print("yes")
        return x

    def no(x):
        phix.debug.print("no")
        return -x

    f = phix.jit(lambda x: phix.cond(x > 0, yes, no, x))
    assert f(1.0).item() == 1.0 and f(-1.0).item() == 1.0
    assert capfd.readouterr().out.split() == ["yes", "no"]


def say(x):
    phix.debug.print("{}", x)


def say_twice(x):
    say(x)
    say(2.0 * x)


NOTHING_BUT_PRINTS = {
    "scan": lambda x: phix.scan(lambda _, v: (None, say(v)), None, phix.ops.stack([x, 2.0 * x])),
    "fori_loop": lambda x: phix.fori_loop(1, 3, lambda i, _: say(i * x), None),
    "fori_loop of n steps": lambda x: phix.fori_loop(1, n_of(x) + 1, lambda i, _: say(i * x), None),
    "while_loop": lambda x: phix.while_loop(lambda v: v < 3.0 * x, lambda v: (say(v), v + x)[1], x),
    "cond": lambda x: phix.cond(x > 0, say_twice, say, x),
    "switch": lambda x: phix.switch(n_of(x) - 1, [say, say_twice], x),
    "map": lambda x: phix.map(say, phix.ops.stack([x, 2.0 * x])),
    "scan in a cond": lambda x: phix.cond(
        x > 0, lambda x: NOTHING_BUT_PRINTS["scan"](x) and None, lambda x: None, x
    ),
}


def n_of(x):
    return ops.cast(x, "int64")


@pytest.mark.parametrize("name", NOTHING_BUT_PRINTS)
def test_control_flow_whose_results_nobody_uses_still_prints(capfd, name):
    def f(x):
        NOTHING_BUT_PRINTS[name](x)
        return x * x

    two = np.float64(2.0)
    ways = {
        "eager": f,
        "jit": phix.jit(f),
        "graph": phix.make_graph(f)(phix.spec([], "float64")),
        "primitives": phix.decompose(f)(phix.spec([], "float64")),
        "grad": phix.grad(f),
        "jit of grad": phix.jit(phix.grad(f)),
        "grad of jit": phix.grad(phix.jit(f)),
        "hessian": phix.hessian(f),
        "jvp": lambda x: phix.jvp(f, (x,), (x,)),
        "vmap": lambda x: phix.vmap(f)(ops.stack([x])),
        "linearize": lambda x: phix.linearize(f, x),
        "compiled": lambda x: phix.jit(f).lower(x).compile()(x),
    }
    for way, run in ways.items():
        run(two)
        assert capfd.readouterr().out.split() == ["2.0", "4.0"], way


def test_effects_stay_in_graphs():
    graph = phix.make_graph(lambda x: phix.debug.print("{}", x) or x)(phix.spec([]))
    assert [e.op.name for e in graph.equations] == ["debug_callback"]
    assert "function=object(print)" in str(graph)


def test_callback_gets_trees_of_arrays():
    seen = []
    note = lambda d, *, k: seen.append((type(d["v"]), d["v"].tolist(), k.item()))  # noqa: E731

    @phix.jit
    def f(y):
        phix.debug.callback(note, {"v": y + 1.0}, k=2)
        return y

    f(Y)
    phix.debug.callback(note, {"v": Y}, k=3)
    assert seen == [(np.ndarray, [4.0, 2.0, 3.0], 2), (np.ndarray, Y.tolist(), 3)]


@pytest.mark.parametrize(
    ("text", "args", "names", "place"),
    [
        ("{} {}", (1.0,), {}, "IndexError"), ("{x} {y}", (), {"x": 1.0}, "'y'"),
        ("{x", (), {"x": 1.0}, "expected '}'"), ("{} {1}", (1.0, 2.0), {}, "manual"),
    ],
)  # fmt: skip
def test_a_text_to_print_with_places_that_no_value_is_for_is_refused(text, args, names, place):
    def printed(*args, **names):
        phix.debug.print(text, *args, **names)

    for f in (printed, phix.jit(printed)):
        with pytest.raises(ArgumentError, match=place) as caught:
            f(*args, **names)
        assert repr(text) in str(caught.value)


def test_texts_to_print_may_ask_for_parts_and_formats_of_values(capfd):
    def f(x):
        phix.debug.print("{{}} {0:.1f} {0.ndim} {v[a][0]!r:>5} {v[a].shape}", x, v={"a": x + Y})
        return x

    phix.jit(f)(2.25)
    first = repr(np.float64(5.25))
    assert capfd.readouterr().out == "{} 2.2 0 " + f"{first:>5} (3,)\n"
