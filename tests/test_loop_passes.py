"""Every pass over loops keeps what real programs compute: see :mod:`loop_passes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from loop_passes import PassFault, Prover, graph_of, prove, prove_fusion, small_thresholds
from phix import ops
from phix.core import dtypes as dt
from phix.core import stages
from phix.core.context import context
from phix.kernels.loops import nodes as ir
from phix.kernels.scalar import language as sc
from phix.kernels.schedule import dropping, joining, pipeline
from tests import random_graphs
from tests.mirrored import deferred

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

Function = Callable[..., Any]
Shapes = tuple[Any, ...]


# -- programs ------------------------------------------------------------------------------------
def _gradient(loss: Function, *numbers: int) -> Function:
    return phix.grad(loss, argnums=numbers)


def relu_network(w: Any, b: Any, v: Any, x: Any) -> Any:
    return ops.mean((ops.relu(x @ w + b) @ v) ** 2)


def descent(w: Any, b: Any, v: Any, x: Any) -> Any:
    slopes = phix.grad(relu_network, argnums=(0, 1, 2))(w, b, v, x)
    return tuple(p - 0.1 * g for p, g in zip((w, b, v), slopes))


def deep_network(x: Any, w: Any) -> Any:
    """All layers have one weight, so their gradients are added up at the end."""
    for _ in range(3):
        x = ops.relu(x @ w) + ops.layer_norm(x)
    return ops.sum(ops.sort(x, 0)[:2])


def partly_read(x: Any, y: Any) -> Any:
    """Of some results only one is wanted."""
    values, _ = ops.topk(x, 2)
    order = ops.argsort(y, 0)[1]
    return ops.sum(values * 2.0), order, ops.max(y, 0)


def _net(w: Any, b: Any, v: Any, x: Any) -> Any:
    return ops.tanh(x @ w + b) @ v


def pinn(w: Any, b: Any, v: Any, inside: Any, border: Any) -> Any:
    """The residual of u'' = sin, and the values on the border."""

    def slope(x: Any) -> Any:
        return phix.grad(lambda x: ops.sum(_net(w, b, v, x)))(x)

    curvature = phix.grad(lambda x: ops.sum(slope(x)))(inside)
    residual = ops.mean((curvature - ops.sin(inside)) ** 2)
    return residual + ops.mean((_net(w, b, v, border) - 1.0) ** 2)


def normalised(scale: Any, bias: Any, x: Any, w: Any) -> Any:
    return ops.sum(ops.tanh(ops.layer_norm(x @ w, scale, bias)) * x)


def batch_normalised(scale: Any, bias: Any, x: Any) -> Any:
    mean, variance = ops.mean(x, [0, 2]), ops.var(x, [0, 2])
    out = ops.batch_norm(x, ops.stop_gradient(mean), ops.stop_gradient(variance), scale, bias)
    return ops.sum(ops.sin(out[0]))


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = ops.softmax(q @ ops.transpose(k, [0, 2, 1]) * 0.5, -1)
    return ops.sum((scores @ v) ** 2)


def convolved(x: Any, k: Any, b: Any) -> Any:
    y = ops.relu(ops.conv2d(x, k, (1, 1), (1, 1)) + b)
    return ops.sum(ops.max(ops.reshape(y, [2, 3, 2, 2, 4]), [3]) ** 2)


def carried_sums(x: Any, w: Any) -> Any:
    """A carry updated in place, read out by columns before it changes."""
    return phix.scan(lambda c, _: (c + w, ops.sum(c, axis=[0])), x, None, length=2)


def counted_sums(x: Any, w: Any) -> Any:
    def body(_: Any, c: Any) -> Any:
        return c[0] * w + 1.0, ops.sum(c[0], axis=[0]) + c[1]

    return phix.fori_loop(0, 3, body, (x, ops.sum(x, axis=[0])))


def two_sums(w: Any, x: Any) -> Any:
    return ops.sum(ops.tanh(x * w) * x, 0), ops.sum(ops.tanh(x * w) + w, 0)


def nested_loops(x: Any, w: Any) -> Any:
    def inner(c: Any, row: Any) -> Any:
        return ops.tanh(c * row + w), c

    def outer(c: Any, _: Any) -> Any:
        last, rows = phix.scan(inner, c, x)
        return last + c, ops.sum(rows, 0)

    return phix.scan(outer, w, None, length=2)


def swapped(x: Any, y: Any) -> Any:
    return phix.fori_loop(0, 3, lambda _, c: (c[1] * 0.5, c[0] + c[1]), (x, y))


def halved(x: Any) -> Any:
    return phix.while_loop(lambda c: ops.max(ops.abs(c[0])) > 0.5,
                           lambda c: (c[0] * 0.5, c[1] + ops.sum(c[0], 0)), (x, x[0]))  # fmt: skip


def chosen(x: Any, y: Any) -> Any:
    both = ops.tanh(x * y)
    pick = phix.cond(ops.sum(x) > 0.0, lambda a, b: (a + b, ops.sum(a, 0)),
                     lambda a, b: (ops.sort(a, 0), ops.max(b, 0)), both, y)  # fmt: skip
    return (*pick, both)


def sorted_rows(x: Any) -> Any:
    values, order = ops.topk(x, 2)
    return ops.sort(x, 0), ops.argsort(x, 1, stable=True)[1], values, order, ops.argmax(x, 0)


def running_totals(x: Any) -> Any:
    return ops.cumsum(2.0 * x, 1, exclusive=True)


def running(x: Any) -> Any:
    return (
        ops.cumsum(x, 0),
        ops.cumsum(x, 1, reverse=True),
        ops.logcumsumexp(x, 0),
        ops.cummax(x, 0),
    )


def looked_up(table: Any, w: Any, ids: Any) -> Any:
    return ops.sum(ops.embedding(ids, table) @ w * 0.5) + ops.sum(table[ids] ** 2)


def scattered(x: Any, u: Any, ids: Any) -> Any:
    y = x.at[ids].add(u)
    return y * 2.0, ops.scatter(x, ids, u), ops.sum(y, 0)


def solved(a: Any, y: Any) -> Any:
    definite = a @ ops.transpose(a, [1, 0]) + phix.eye(a.shape[0], dtype=str(a.dtype))
    return ops.solve(a, y), ops.cholesky(definite), ops.lu(a)[0]


def narrow(x: Any, y: Any) -> Any:
    z = x * y
    return ops.sum(z, 0), ops.max(z, 0), ops.tanh(z + x) * 0.3, ops.mean(z)


def rounded(x: Any, y: Any) -> Any:
    """What compares or widens a product reads it as its dtype has it."""
    product = x * 0.3
    slope = phix.grad(lambda v: ops.sum(ops.max(v * 0.7, 0) + ops.amin(v * y, 0)))(x)
    equal = ops.cast(ops.equal(x * y, ops.cast(x * y, "float64")), "int32")
    return ops.argmax(product, 0), slope, ops.cast(x * y, "float64"), equal, x * y >= y * x


def complex_numbers(x: Any, y: Any) -> Any:
    z = ops.sin(x * 0.5) @ y
    return ops.prod(x, 0), ops.sum(z, 0), z * ops.conj(x[0]), ops.cumsum(z, 0), ops.abs(z)


def whole_numbers(x: Any, y: Any) -> Any:
    z = x * y + 7
    return z, ops.sum(z, 0), ops.prod(z, 1), z % 5, z // 3, ops.cast(z, "uint8"), ops.max(x, 0)


def views(x: Any, y: Any) -> Any:
    z = ops.transpose(x, [1, 0])
    joined = ops.concat([x[1:], y[:2] * 2.0], 0)
    padded = ops.pad(x, [1, 0, 0, 2], 0.5)
    return joined, ops.reshape(z * 2.0, [-1]), ops.flip(joined, [0]), padded, ops.roll(z, 1, 0)


def remembered(x: Any, w: Any) -> Any:
    return ops.sum(phix.checkpoint(lambda x, w: ops.tanh(x * w) + x)(x, w) ** 2)


def adam(p: Any, m: Any, v: Any, x: Any) -> Any:
    g = phix.grad(lambda p: ops.mean((ops.tanh(x @ p)) ** 2))(p)
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.1 * m / (ops.sqrt(v) + 1e-8), m, v


def spectrum(x: Any) -> Any:
    return ops.abs(phix.fft.fft(x * 2.0)) + ops.cos(x), ops.sum(x, 0)


def dotted(x: Any, y: Any, v: Any) -> Any:
    return x @ v, v @ y, ops.matmul(x, y, False, False) + 1.0, ops.sum(x @ y, 1)


def layers_over_ranks(w: Any, v: Any, x: Any) -> Any:
    """The next weights are on their way while a layer is computed."""
    for own in (w, v, w + v):
        x = ops.tanh(x @ phix.all_gather(own, "data", axis=0, tiled=True))
    return x


_MESH = deferred(data=2)
ranks = phix.parallel.spmd(layers_over_ranks, _MESH, ("data", "data", None), "data")

F8, F4, F2, BF = "float64", "float32", "float16", "bfloat16"
_mlp, _pinn = _gradient(relu_network, 0, 1, 2), _gradient(pinn, 0, 1, 2)


# name -> (function, dtype, dims of the inputs; "ids" and a bound for rows of a table)
def rolled(x: Any, y: Any) -> Any:
    """One axis and two, all elements, and sums and stores beside each other in one loop."""
    around = ops.roll(x, [2], [1]) * x + ops.roll(x, [-1, 1], [0, 1]) - ops.roll(x, [-3], [1])
    return around, ops.roll(x, [7]), ops.sum(ops.roll(y, [50]) * y), ops.cumsum(ops.roll(y, [3]))


PROGRAMS: dict[str, tuple[Function, str, Shapes]] = {
    "relu network": (_mlp, F8, ((5, 16), (16,), (16, 3), (7, 5))),
    "relu network, wide": (_mlp, F4, ((3, 9), (9,), (9, 2), (20, 3))),
    "relu network, one row": (_mlp, F8, ((4, 1), (1,), (1, 1), (1, 4))),
    "relu network, no row": (_mlp, F8, ((4, 3), (3,), (3, 2), (0, 4))),
    "relu network, half": (_mlp, F2, ((3, 8), (8,), (8, 2), (9, 3))),
    "descent": (descent, F8, ((5, 16), (16,), (16, 3), (7, 5))),
    "deep network": (_gradient(deep_network, 0, 1), F8, ((6, 5), (5, 5))),
    "partly read": (partly_read, F8, ((4, 5), (6, 3))),
    "pinn": (_pinn, F8, ((1, 8), (8,), (8, 1), (9, 1), (4, 1))),
    "pinn in a plane": (_pinn, F4, ((2, 6), (6,), (6, 1), (11, 2), (3, 2))),
    "layer norm": (_gradient(normalised, 0, 1, 3), F8, ((4,), (4,), (9, 4), (4, 4))),
    "batch norm": (_gradient(batch_normalised, 0, 1, 2), F8, ((3,), (3,), (4, 3, 5))),
    "attention": (_gradient(attention, 0, 1, 2), F8, ((2, 4, 3), (2, 5, 3), (2, 5, 2))),
    "convolution": (_gradient(convolved, 0, 1, 2), F4, ((2, 2, 4, 4), (3, 2, 3, 3), (3, 1, 1))),
    "carried sums": (carried_sums, F8, ((9, 8), (8,))),
    "carried sums, whole": (carried_sums, F4, ((16, 17), (16, 17))),
    "counted sums": (counted_sums, F8, ((10, 3), (3,))),
    "two sums": (two_sums, F8, ((17,), (9, 17))),
    "nested loops": (nested_loops, F8, ((3, 4), (4,))),
    "swapped": (swapped, F8, ((3, 5), (3, 5))),
    "halved": (halved, F8, ((4, 3),)),
    "chosen": (chosen, F8, ((5, 3), (5, 3))),
    "sort": (sorted_rows, F4, ((6, 5),)),
    "cumsum": (running, F8, ((7, 4),)),
    "rolled": (rolled, F4, ((3, 19), (57,))),
    "running totals": (running_totals, F4, ((3, 130),)),
    "embedding": (_gradient(looked_up, 0, 1), F8, ((6, 4), (4, 3), ("ids", 6, 9))),
    "scatter": (scattered, F8, ((6, 3), (5, 3), ("ids", 6, 5))),
    "solve": (solved, F8, ((4, 4), (4, 2))),
    "solve, more": (solved, F4, ((9, 9), (9, 2))),
    "float16": (narrow, F2, ((9, 5), (9, 5))),
    "bfloat16": (narrow, BF, ((9, 5), (9, 5))),
    "rounded float16": (rounded, F2, ((4, 5), (4, 5))),
    "rounded bfloat16": (rounded, BF, ((9, 3), (9, 3))),
    "complex": (complex_numbers, "complex128", ((4, 3), (3, 3))),
    "complex64": (complex_numbers, "complex64", ((9, 2), (2, 2))),
    "int32": (whole_numbers, "int32", ((9, 5), (9, 5))),
    "uint8": (whole_numbers, "uint8", ((3, 4), (3, 4))),
    "views": (views, F4, ((4, 3), (3, 3))),
    "short rows": (lambda x: ops.max(x * 2.0, 1), F4, ((3, 19),)),  # a few vectors of any CPU
    "extremes and places": (lambda x: (ops.max(x * 2.0, 1), ops.argmax(x * 2.0, 1)), F4, ((7, 5),)),
    "long rows": (lambda x: ops.max(x, 1), F4, ((33, 133),)),  # of more vectors
    "rows that come again": (lambda x: ops.softmax(x), F4, ((5, 37),)),
    "short vectors": (lambda x, y: (ops.tanh(x), ops.exp(y)), F8, ((3,), (2,))),
    "long work": (lambda x, y: ops.tanh(x) * ops.exp(-y), F4, ((5, 7), (5, 7))),
    "rows beside a row": (lambda x, b: ops.tanh(x + b) * x, F4, ((70, 5), (5,))),
    "rows of chances": (
        phix.grad(lambda x: ops.sum(ops.log_softmax(x, 1)[:, 1])), F4, ((20, 7),)),
    "checkpoint": (_gradient(remembered, 0, 1), F8, ((9, 8), (8,))),
    "adam": (adam, F4, ((4, 3), (4, 3), (4, 3), (9, 4))),
    "fft": (spectrum, F8, ((4, 6),)),
    "dots": (dotted, F4, ((5, 4), (4, 5), (4,))),
    "ranks": (ranks, F8, ((2, 4), (2, 4), (3, 4))),
    "nothing": (two_sums, F8, ((0,), (3, 0))),
}  # fmt: skip


def _arrays(dtype: str, shapes: Shapes, rng: np.random.Generator) -> list[np.ndarray]:
    from phix.core.dtypes import as_dtype

    made = []
    for shape in shapes:
        if shape[:1] == ("ids",):
            made.append(rng.integers(0, shape[1], shape[2]))
        elif dtype[:3] in ("int", "uin"):
            made.append(rng.integers(0, 50, shape).astype(dtype))
        else:
            values = rng.normal(size=shape)
            if dtype.startswith("complex"):
                values = values + 1j * rng.normal(size=shape)
            made.append(np.asarray(values).astype(as_dtype(dtype)))
    return made


def _proved(name: str, **options: Any) -> Prover:
    function, dtype, shapes = PROGRAMS[name]
    args = _arrays(dtype, shapes, np.random.default_rng(3))
    return prove(graph_of(function, *args), args, **options)


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_keep_what_a_program_computes(name: str) -> None:
    _proved(name)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_of_large_programs_keep_it(name: str) -> None:
    """What only pays for large programs, with all inputs given away."""
    donated = range(len(PROGRAMS[name][2]))
    with small_thresholds():
        _proved(name, donated=donated)


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_for_a_gpu_keep_it(name: str) -> None:
    donated = range(len(PROGRAMS[name][2]))
    with small_thresholds():
        _proved(name, gpu=True, donated=donated)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_fusion_keeps_what_a_program_computes(name: str) -> None:
    function, dtype, shapes = PROGRAMS[name]
    args = _arrays(dtype, shapes, np.random.default_rng(3))
    prove_fusion(graph_of(function, *args), args)


# -- the harness itself --------------------------------------------------------------------------
def _kernel(program: ir.LoopProgram) -> ir.Kernel:
    return next(s for s in program.steps if isinstance(s, ir.Kernel))


def _store_early(program: ir.LoopProgram, _: Any) -> None:
    """A pass that is wrong: totals keep their first row."""
    for s in ir.walk(_kernel(program).body):
        if isinstance(s, ir.For) and s.kind == "reduction":
            s.extent = ir.ONE


def _read_beyond(program: ir.LoopProgram, _: Any) -> None:
    for s in ir.walk(_kernel(program).body):
        if isinstance(s, ir.Store):
            s.indices = (s.indices[0] + 1,)


def _forget_nans(program: ir.LoopProgram, _: Any) -> None:
    """A pass that is wrong for odd values alone."""
    for s in ir.walk(_kernel(program).body):
        if isinstance(s, ir.Store):
            s.value = sc.select(sc.eq(s.value, s.value), s.value, 0.0)


def _forget_a_step(program: ir.LoopProgram, _: Any) -> None:
    del program.steps[0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_store_early, "output 0 at"),
        (_forget_nans, "output 0 at"),
        (_read_beyond, "is outside of its"),
        (_forget_a_step, "is read where nothing was stored"),
    ],
)
def test_a_wrong_pass_is_named(change: Any, what: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(joining, "wrong_one", change, raising=False)
    table = (pipeline.LoopPass("wrong_one", "schedule.joining"), *pipeline.PIPELINES["cpu"])
    monkeypatch.setitem(pipeline.PIPELINES, "cpu", table)
    monkeypatch.setattr(context, "watchers", ())  # the verifier finds some of them, too
    x = np.arange(12.0).reshape(4, 3)
    graph = graph_of(lambda x: ops.sum(x * 2.0, [1]), x)
    with pytest.raises(PassFault, match=what) as error:
        prove(graph, [x])
    assert error.value.name == "wrong_one"
    assert "--- before\nprogram(" in str(error.value)


def test_every_pass_of_the_tables_changes_some_program() -> None:
    """A pass that no program of this file sets to work is not proved by it."""
    changed: set[str] = set()
    names = ("descent", "deep network", "partly read", "carried sums", "views", "layer norm",
             "running totals", "short rows", "long rows", "rows beside a row",
             "rows that come again", "rows of chances", "rolled", "ranks",
             "extremes and places", "long work", "short vectors")  # fmt: skip
    for name in names:
        changed.update(_proved(name).changed)
        with small_thresholds():
            changed.update(_proved(name, donated=range(len(PROGRAMS[name][2]))).changed)
    every = {row.name for name in ("every engine", "cpu") for row in pipeline.PIPELINES[name]}
    assert every <= changed, every - changed


# -- unknown dims, strides, random graphs --------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "specs"),
    [
        ("relu network", [[5, 16], [16], [16, 3], ["n", 5]]),
        ("pinn", [[1, 8], [8], [8, 1], ["n", 1], ["m", 1]]),
        ("carried sums", [["n", 8], [8]]),
        ("layer norm", [[4], [4], ["n", 4], [4, 4]]),
        ("two sums", [["m"], ["n", "m"]]),
        ("cumsum", [["n", "m"]]),
        ("sort", [["n", 5]]),
        ("float16", [["n", "m"], ["n", "m"]]),
        ("complex", [["n", 3], [3, 3]]),
        ("views", [["n", 3], [3, 3]]),
    ],
)
def test_passes_keep_programs_of_unknown_dims(name: str, specs: Any) -> None:
    function, dtype, shapes = PROGRAMS[name]
    args = _arrays(dtype, shapes, np.random.default_rng(3))
    graph = graph_of(function, *[phix.spec(s, dtype) for s in specs])
    prove(graph, args)
    with small_thresholds():
        prove(graph, args, donated=range(len(args)))


@pytest.mark.parametrize("name", ["relu network", "views", "cumsum", "complex", "sort"])
def test_passes_keep_programs_of_strided_inputs(name: str) -> None:
    _proved(name, contiguous=False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(20))
def test_passes_keep_random_graphs(seed: int) -> None:
    program = random_graphs.draw_program(1000 + seed)
    graph = graph_of(program, *program.inputs)
    prove(graph, program.inputs, seed=seed)
    prove_fusion(graph, program.inputs, seed=seed)
    donated = range(len(program.inputs))
    with small_thresholds():
        prove(graph, program.inputs, seed=seed, donated=donated)
        prove(graph, program.inputs, seed=seed, donated=donated, gpu=True)


def test_temps_that_only_temps_read_that_nothing_reads_are_left_out() -> None:
    x, out = (ir.Buffer(n, dt.float32, (4,), k) for n, k in (("x0", "input"), ("o0", "output")))
    temps = [ir.Buffer(f"t{k}", dt.float32, (4,), "temp") for k in range(3)]
    i = sc.var("i0")
    body: list[ir.Statement] = [
        ir.Store(to, (i,), sc.Expr("load", (i,), ir.scalar_dtype(dt.float32), of))
        for of, to in zip([x, *temps[:2], x], [*temps, out], strict=True)
    ]
    loop = ir.For(i, sc.const(4, dt.int64), body)
    program = ir.LoopProgram([x], temps, [out], [], [ir.Kernel([loop])], {})
    dropping.drop_dead_stores(program, None)
    dropping.drop_temps(program, None)
    assert [s.buffer for s in loop.body] == [out] and not program.temps


@pytest.mark.parametrize(("step", "is_left"), [(sc.const(2, dt.int64), []), (sc.var("n"), [0])])
def test_temps_are_read_where_they_were_written_if_places_surely_differ(
    step: sc.Expr, is_left: list[int]
) -> None:
    """An unknown step may be 0: then it is the later store that is read."""
    x, out = (ir.Buffer(n, dt.float32, (4,), k) for n, k in (("x0", "input"), ("o0", "output")))
    temp, i = ir.Buffer("t0", dt.float32, (8,), "temp"), sc.var("i0")
    read, back = (sc.Expr("load", (at,), dt.float32, b) for b, at in ((x, i), (temp, i * step)))
    stores = [(temp, i * step, read), (temp, (i + 1) * step, read * 2.0), (out, i, back)]
    loop = ir.For(i, sc.const(4, dt.int64), [ir.Store(b, (at,), v) for b, at, v in stores])
    program = ir.LoopProgram([x], [temp], [out], [], [ir.Kernel([loop])], {})
    dropping.forward_temps(program, None)
    left = [k for k, s in enumerate(loop.body) if s.buffer is temp]
    assert left[:1] == is_left


def test_watchers_cost_nothing_when_there_are_none() -> None:
    """What nobody watches is not told."""
    seen: list[str] = []
    x = np.ones(3)
    with stages.watching(lambda s: seen.append(s.name) if s.level == stages.LOOPS else None):
        prove(graph_of(lambda x: x * 2.0, x), [x])
    rows = pipeline.PIPELINES["every engine"]
    assert seen[: 1 + len(rows)] == [pipeline.LOWER, *[row.name for row in rows]]
    count = len(seen)
    prove(graph_of(lambda x: x * 3.0, x), [x])
    assert len(seen) == count
