"""phix.debug: which op made a NaN, what made a new trace, where a leaked tracer comes from."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    ConcretizationError,
    LeakedTracerError,
    NonFiniteError,
    RetraceError,
)
from phix.kernels.schedule import pipeline as loop_pipeline
from phix.passes import pipeline as graph_pipeline

X = np.array([1.0, 0.0, 4.0])


def root(x: Any) -> Any:
    return ops.where(x > 0, ops.sqrt(x), 0.0)  # line of sqrt


def total(x: Any) -> Any:
    return ops.sum(root(x))


def power(x: Any) -> Any:
    return ops.sum(ops.abs(x) ** 1.5)


def line_of(function: Callable[..., Any]) -> int:
    """The line of a function's only statement."""
    return inspect.getsourcelines(function)[1] + 1


def caught(function: Callable[..., Any], *args: Any) -> NonFiniteError:
    with pytest.raises(NonFiniteError) as info, phix.debug.nans():
        function(*args)
    return info.value


# -- nans ----------------------------------------------------------------------------------------
def log_of(x: Any) -> Any:
    return ops.log(x) + 1.0


@pytest.mark.parametrize("wrap", [lambda f: f, phix.jit, phix.vmap, phix.checkpoint])
def test_forward_fault_is_named_with_its_line(wrap: Any) -> None:
    error = caught(wrap(log_of), X)
    assert (error.op, error.passes, error.order) == ("log", (), 0)
    assert error.source.line == line_of(log_of)
    assert "x = 0.0" in str(error) and "forward pass" in str(error) and "Inf" in str(error)


@pytest.mark.parametrize(
    "wrap",
    [
        phix.grad,
        lambda f: phix.grad(phix.jit(f)),
        lambda f: phix.jit(phix.grad(f)),
        lambda f: phix.grad(phix.checkpoint(f)),
    ],
    ids=["eager", "grad of jit", "jit of grad", "checkpoint"],
)
def test_backward_fault_says_to_choose_twice(wrap: Any) -> None:
    error = caught(wrap(total), X)
    assert error.passes == ("backward",) and error.order == 1
    assert error.source.op == "sqrt" and error.source.line == line_of(root)
    assert "choose twice" in str(error) and "backward pass of order 1 of sqrt" in str(error)


def test_the_remedy_is_one() -> None:
    def safe(x: Any) -> Any:
        ok = x > 0
        return ops.sum(ops.where(ok, ops.sqrt(ops.where(ok, x, 1.0)), 0.0))

    with phix.debug.nans():
        assert phix.grad(safe)(X).tolist() == [0.5, 0.0, 0.25]
        assert phix.grad(phix.jit(safe))(X).tolist() == [0.5, 0.0, 0.25]


def test_orders_and_passes() -> None:
    first = lambda x: ops.sum(phix.grad(power)(x))  # noqa: E731
    for second in (phix.grad(first), phix.grad(phix.jit(first)), phix.jit(phix.grad(first))):
        error = caught(second, X)
        assert error.order == 2 and error.source.op == "pow"
        assert error.source.line == line_of(power)
    error = caught(lambda x: phix.hvp(power, (x,), (x,)), X)
    assert error.passes == ("backward", "tangent")
    error = caught(lambda x: phix.jvp(ops.sqrt, (x,), (x + 1.0,)), X)
    assert error.passes == ("tangent",) and "tangent pass of sqrt" in str(error)


def test_the_primal_of_a_tangent_is_forward() -> None:
    assert caught(lambda x: phix.jvp(ops.log, (x,), (x,)), X).passes == ()


def body(i: Any, v: Any) -> Any:
    return ops.sqrt(v - 0.7)


def test_inside_loops_and_branches() -> None:
    for f in (
        lambda v: phix.fori_loop(0, 5, body, v),
        phix.jit(lambda v: phix.fori_loop(0, 5, body, v)),
        lambda v: phix.scan(lambda c, r: (body(0, c), r), v, np.arange(5.0))[0],
        lambda v: phix.while_loop(lambda w: w < 10.0, lambda w: body(0, w), v),
        phix.jit(lambda v: phix.cond(v > 0, lambda w: body(0, w - 1.0), lambda w: w, v)),
    ):
        error = caught(f, 1.0)
        assert error.op == "sqrt" and error.source.line == line_of(body)


def test_in_the_backward_of_a_loop() -> None:
    def rooted(v: Any) -> Any:
        return phix.fori_loop(0, 3, lambda i, w: ops.sqrt(w), v)

    assert caught(phix.grad(rooted), 0.0).source.op == "sqrt"


def test_what_is_no_fault() -> None:
    masked = ops.where(phix.to_tensor([True, False]), 1.0, -np.inf)
    with phix.debug.nans():
        assert ops.softmax(masked).tolist() == [1.0, 0.0]  # the Inf was given
        assert phix.grad(power)(X).tolist() == [1.5, 0.0, 3.0]  # masked inside a rule
        assert not np.isfinite((ops.log(masked * 0.0 + np.nan)).numpy()).any()
    assert np.isinf(ops.log(0.0).item())  # over


def test_nans_inside_a_transformation() -> None:
    def f(x: Any) -> Any:
        with phix.debug.nans():
            return x * 2.0

    with pytest.raises(ArgumentError, match="open it around"):
        phix.jit(f)(1.0)
    with phix.debug.nans(), phix.debug.nans():
        assert (phix.to_tensor(1.0) + 1.0).item() == 2.0


# -- traces --------------------------------------------------------------------------------------
def test_why_retraced_names_the_argument() -> None:
    @phix.jit
    def f(params: Any, x: Any) -> Any:
        return params["w"][0] * x

    w, x = np.float32(2.0), phix.to_tensor([1.0, 2.0])
    assert phix.debug.why_retraced(f) == "f: never traced"
    f({"w": [w]}, x)
    assert "first call" in f.why_retraced()
    assert "not traced anew" in f.why_retraced({"w": [w]}, x)
    f({"w": [np.float64(2.0)]}, x)
    assert "params['w'][0] has dtype float64, had float32" in f.why_retraced()
    f({"w": [w]}, phix.to_tensor([1.0]))
    assert "x has dims [1], had [2]" in f.why_retraced() and "input_spec" in f.why_retraced()
    assert "params['w'][1] is new: float32[]" in f.why_retraced({"w": [w, w]}, x)
    assert f.trace_count == 3


def test_why_retraced_static_arguments_and_structure() -> None:
    f = phix.jit(lambda n, x, mode="a": x * n, static_argnums=0, static_argnames="mode")
    f(2, 1.0)
    f(3, 1.0)
    assert "static argument n is 3, was 2" in f.why_retraced()
    f(3, 1.0, mode="b")
    assert "static argument mode" in f.why_retraced()
    g = phix.jit(lambda pair: pair[0] + pair[1])
    g((1.0, 2.0))
    g([1.0, 2.0])
    assert "structure" in phix.debug.why_retraced(g)
    with pytest.raises(ArgumentError, match=r"made by phix\.jit"):
        phix.debug.why_retraced(lambda x: x)


def test_assert_max_traces() -> None:
    f = phix.jit(lambda x: x + 1.0)
    f(1.0)
    with phix.debug.assert_max_traces(f, 1):
        f(2.0)
        f(phix.to_tensor([1.0]))
        with pytest.raises(RetraceError, match=r"x has dims \[2\], had \[1\]"):
            f(phix.to_tensor([1.0, 2.0]))
    assert f.trace_count == 2
    f(phix.to_tensor([1.0, 2.0]))
    assert f.trace_count == 3


# -- tracers -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrap",
    [
        phix.grad,
        lambda f: lambda x: phix.jvp(f, (x,), (1.0,)),
        lambda f: lambda x: phix.vmap(f)(np.array([x])),
    ],
    ids=["vjp", "jvp", "vmap"],
)
def test_leaked_tracer_is_named_with_its_line(wrap: Any) -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(ops.sin(x))
        return x * x

    with phix.debug.leaks():
        wrap(f)(1.0)
    line = inspect.getsourcelines(f)[1] + 1
    with pytest.raises(LeakedTracerError, match=rf"test_debug\.py:{line}\)"):
        kept[0] + 1.0


def test_ways_out_of_python_decisions() -> None:
    def asked(f: Callable[..., Any], x: Any) -> str:
        with pytest.raises(ConcretizationError) as info:
            phix.jit(f)(x)
        return str(info.value)

    assert "phix.cond(" in asked(lambda x: x if x > 0 else -x, 1.0)
    assert "phix.ops.where(" in asked(lambda x: x if x > 0 else -x, X)
    assert "static_argnums" in asked(lambda n: ops.full([3], float(int(n))), 3)
    with pytest.raises(ConcretizationError, match=r"phix\.cond\("):
        phix.vmap(lambda x: x if x > 0 else -x)(X)


def test_errors_while_a_graph_is_replayed_leave_no_line_behind() -> None:
    graph = phix.make_graph(lambda x: ops.log(x))(phix.spec([], "float64"))
    caught(lambda: graph(np.float64(0.0)))
    error = caught(log_of, 0.0)
    assert error.source.line == line_of(log_of)


# -- stages ------------------------------------------------------------------------------------
def test_stages_of_a_compilation_are_those_of_the_tables_with_what_they_changed() -> None:
    def f(x: Any) -> Any:
        y = ops.exp(x) * 2.0
        return ops.mean(y), ops.sum(y * y, [0])

    found = phix.debug.passes(f, phix.spec([24, 5]))
    graphs = [row.name for row in graph_pipeline.PIPELINES["cpu"] if row.where is None]
    loops = [r.name for n in ("every engine", "cpu") for r in loop_pipeline.PIPELINES[n]]
    assert [s.name for s in found if s.level == "graph"] == graphs
    assert [s.name for s in found if s.level == "loops"] == [loop_pipeline.LOWER, *loops]
    assert [s.name for s in found if s.level == "code"] == ["llvm", "machine code"]
    assert all(s.seconds > 0 for s in found)
    lowered = phix.jit(f).lower(phix.spec([24, 5]))
    count = lowered.as_text("decompose").count(" = ")
    what = {s.name: s.what for s in found}
    assert what["decompose"] == f"{lowered.as_text('traced').count(' = ')} -> {count} equations"
    assert what["llvm"] == f"{lowered.as_text('llvm').count(chr(10))} lines"
    assert len(str(found).splitlines()) == len(list(found)) + 1


def test_rewrites_left_out_are_no_stages() -> None:
    f = phix.jit(lambda x: ops.sum(ops.exp(x) * 2.0), disable="join_loops")
    assert "join_loops" not in [s.name for s in phix.debug.passes(f, phix.spec([7]))]


def test_every_row_of_the_passes_over_loops_has_its_function() -> None:
    for row in (row for rows in loop_pipeline.PIPELINES.values() for row in rows):
        module = importlib.import_module(f"phix.kernels.{row.module}")
        assert getattr(module, row.name).__name__ == row.name


def test_formats_of_one_number_are_refused_for_more_before_a_program_runs(capsys: Any) -> None:
    """They had ended in NumPy's bare TypeError, and in compiled programs at run time."""
    show = lambda x: phix.debug.print("{x:.2f}", x=x)  # noqa: E731
    for run in (show, phix.jit(show)):
        with pytest.raises(ArgumentError, match=r"format '.2f' is for one number.*shape \[3\]"):
            run(X)
        run(X[2])
    phix.vmap(show)(X)
    phix.debug.print("{0[a]:.1f} {1[1]:>3} {x.ndim:>5}", {"a": X[0]}, [X, 2], x=X)
    assert capsys.readouterr().out == "4.00\n4.00\n1.00\n0.00\n4.00\n1.0   2     1\n"
    with pytest.raises(ArgumentError, match="KeyError"):
        phix.debug.print("{0[b]}", {"a": 1.0})
