"""phix.debug.compare: which op of a compiled function goes wrong, and which rewrite is at fault."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError
from phix.kernels.loops import nodes as ir
from phix.kernels.scalar import language as sc
from phix.kernels.schedule import pipeline, several_rows
from phix.kernels.schedule.pipeline import LoopPass

X = np.arange(40.0).reshape(8, 5) / 7


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs of wrong passes stay out of the cache of other tests."""
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    return


def double_constants(program: ir.LoopProgram, _: Any) -> None:
    """A pass that is wrong: it takes the constant 0.7340187 for another."""
    wanted, other = (sc.const(x, np.dtype("float64")) for x in (0.7340187, 0.75))
    for step in ir.walk_steps(program.steps):
        if isinstance(step, ir.Kernel):
            for s in ir.walk(step.body):
                if isinstance(s, ir.Store):
                    s.value = _replaced(s.value, wanted, other)


def _replaced(e: sc.Expr, wanted: sc.Expr, other: sc.Expr) -> sc.Expr:
    if e is wanted:
        return other
    args = tuple(_replaced(a, wanted, other) for a in e.args)
    return sc.Expr(e.fn, args, e.dtype, e.data)


def use(monkeypatch: pytest.MonkeyPatch, name: str, change: Any) -> None:
    """Let ``change`` be the pass of that name; a new one comes last."""
    monkeypatch.setattr(several_rows, name, change, raising=False)
    rows = pipeline.PIPELINES["cpu"]
    if name not in [row.name for row in rows]:
        table = (*rows, LoopPass(name, "schedule.several_rows"))
        monkeypatch.setitem(pipeline.PIPELINES, "cpu", table)


def scaled(x: Any) -> Any:
    y = ops.tanh(x) + 1.0
    z = y * 0.7340187  # the line at fault
    return ops.sum(z, 0), ops.exp(-z)


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if text in line)


def test_what_agrees_is_true_and_one_line() -> None:
    found = phix.debug.compare(scaled, rewrites=["fuse", "join_loops"])(X)
    assert found and found.rewrites == () and found.op == ""
    assert str(found) == "compare(scaled): eager calls and 4 ways to compile agree"
    assert list(found.runs) == [
        "jit", "jit without fuse", "jit without join_loops", "jit without all rewrites",
    ]  # fmt: skip


def test_every_rewrite_is_left_out_in_turn() -> None:
    found = phix.debug.compare(lambda x: x * 2.0)(X)
    assert found and len(found.runs) == len(phix.debug.passes()) + 2


def test_the_rewrite_at_fault_the_op_and_the_line_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, "several_rows", double_constants)
    found = phix.debug.compare(scaled, rewrites=["fuse", "join_loops", "several_rows"])(X)
    assert not found
    assert found.rewrites[0] == "several_rows" and found.op == "multiply"
    assert found.source is not None and found.source.line == line_of(scaled, "the line at fault")
    assert found.proved.startswith("output 0 at 0 is")
    assert found.runs["jit"] is not None and found.runs["jit without several_rows"] is None
    text = str(found)
    assert text.startswith("compare(scaled): jit differs from eager calls in\n  output ")
    assert "first in multiply, at " in text and "proved: several_rows changes" in text
    assert "jit(f, disable='several_rows') leaves it out" in text
    assert len(text.splitlines()) <= 10


def test_a_fault_of_no_rewrite_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "always_wrong", double_constants)
    found = phix.debug.compare(scaled, rewrites="fuse")(X)
    assert found.rewrites == ("always_wrong",) and found.op == "multiply"
    assert "jit(f" not in str(found)


def test_a_compiler_that_raises_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(program: ir.LoopProgram, _: Any) -> None:
        raise ZeroDivisionError("on purpose")

    scaled(phix.to_tensor(X))  # so that its ops are compiled
    use(monkeypatch, "several_rows", fails)
    found = phix.debug.compare(scaled, rewrites=["several_rows"])(X * 3.0)
    assert found.rewrites == ("several_rows",)
    assert "ZeroDivisionError: on purpose" in str(found)
    assert len(str(found).splitlines()) <= 10


def test_eager_calls_that_run_the_same_wrong_loops_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, "several_rows", double_constants)

    def f(x: Any) -> Any:
        return phix.scan(lambda c, row: (c * 0.7340187 + row, ops.sum(c)), x[0], x)

    found = phix.debug.compare(f, rewrites=["several_rows", "fuse"])(X[:7])
    assert not found and found.runs["jit"] is None
    assert found.rewrites == ("several_rows",) and found.op == "scan"
    text = str(found)
    assert "jit without several_rows differs from eager calls" in text
    assert "eager calls of loops and compiled functions run compiled code, too" in text
    assert len(text.splitlines()) <= 10


def overlapping(program: ir.LoopProgram, _: Any) -> None:
    """A pass that is wrong where an input is given away: results go there at once."""
    if program.reused and program.reused[0] is not None:
        program.steps.reverse()


def moved(w: Any, x: Any) -> Any:
    return w * ops.sum(x @ ops.tanh(w)), ops.sum(w)


def test_arguments_are_given_away_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "several_rows", overlapping)
    w = phix.to_tensor(np.linspace(-1.0, 1.0, 70))
    x = np.ones((3, 70))
    few = ["several_rows", "fuse"]
    assert phix.debug.compare(moved, rewrites=few)(w, x)
    found = phix.debug.compare(moved, donate_argnums=0, rewrites=few)(w, x)
    assert not found and found.rewrites[0] == "several_rows"
    assert w.numpy()[0] == -1.0  # a copy was given away


def test_rounding_is_no_difference() -> None:
    x = np.random.default_rng(0).normal(size=(300, 70)).astype("float32")

    def network(x: Any, w: Any) -> Any:
        h = ops.softmax(ops.tanh(x @ w), 1)
        return ops.sum(h * h), ops.mean(h, 0), h - ops.mean(h, 0)

    assert phix.debug.compare(phix.jit(network), rewrites="fuse")(x, x[:70, :30])
    slope = phix.grad(lambda w, x: network(x, w)[0])
    assert phix.debug.compare(slope, rewrites="join_loops")(x[:70, :30], x)


def test_trees_whole_numbers_and_nan() -> None:
    def f(p: Any) -> Any:
        return {"order": ops.argsort(p["x"])[1], "kept": [p["x"] / p["n"], p["n"] % 3]}

    given = {"x": np.array([1.0, np.nan, -np.inf, 0.0]), "n": np.array([0, 1, 2, 3])}
    assert phix.debug.compare(f, rewrites="fuse")(given)


def test_what_is_asked_must_make_sense() -> None:
    with pytest.raises(ArgumentError, match=r"debug.compare: no rewrite 'fuze'"):
        phix.debug.compare(scaled, rewrites="fuze")
    jitted = phix.jit(lambda x, n: x * n, static_argnums=1)
    with pytest.raises(ArgumentError, match=r"write compare\(lambda x: f\(x, static\)\)"):
        phix.debug.compare(jitted)
