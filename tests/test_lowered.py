"""What lower shows: texts of every step, which equations fused and why not, cost and memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dims as dm
from phix.core.errors import ArgumentError
from phix.kernels.loops.builder import Builder
from phix.kernels.schedule import ordering
from phix.kernels.schedule.estimates import estimate
from phix.kernels.schedule.pipeline import Setting
from tests.mirrored import called, deferred, mirrored


def normal(*shape, dtype="float32", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def line_of(function, text):
    """The line of a function's source that holds a text."""
    import inspect

    lines, start = inspect.getsourcelines(function)
    return start + next(k for k, line in enumerate(lines) if text in line)


# -- texts -------------------------------------------------------------------------------------
def test_every_step_has_a_name_and_a_text():
    lowered = phix.jit(lambda x: ops.sum(ops.gelu(x))).lower(normal(4))
    assert list(lowered.sections) == [
        "graph: traced", "graph: simplify", "graph: decompose", "graph: hoist",
        "graph: simplify primitives", "fusion", "loop ir", "llvm", "numba",
    ]  # fmt: skip
    assert "gelu(x)" in lowered.as_text("traced") and "gelu" not in lowered.as_text("decompose")
    assert "for i0 in range(4)" in lowered.as_text("loop ir")
    assert "define" in lowered.as_text("llvm")
    steps = [text for name, text in lowered.sections.items() if name != "numba"]
    assert all(text in str(lowered) for text in steps)
    assert "=== numba" not in str(lowered) and "def ndtr_float32" in lowered.as_text("numba")
    assert lowered.as_text() == str(lowered) == lowered.compile().as_text()
    with pytest.raises(ArgumentError, match="no step 'loops'; there are graph: traced, "):
        lowered.as_text("loops")


# -- fusion ------------------------------------------------------------------------------------
def softmax_of_network(x, w):
    h = x @ w
    shifted = ops.exp(h - ops.max(h, 1, keepdim=True))
    return shifted / ops.sum(shifted, 1, keepdim=True)


def forces(q):
    apart = ops.unsqueeze(q, [0]) - ops.unsqueeze(q, [1])
    near = ops.sum(apart * apart, 2, keepdim=True) + 0.1
    return ops.sum(apart * near**-1.5, 1)


def test_what_a_loop_of_sums_would_compute_one_by_one_goes_in_vectors_before_it():
    """The powers of distances are a row that is stored, in a loop of its own."""
    text = phix.jit(forces).lower(normal(12, 3)).as_text("loop ir")
    assert "local t0: float32[12]" in text and text.count("kernel ") == 1
    plain = phix.jit(forces, disable="vectors_first").lower(normal(12, 3)).as_text("loop ir")
    assert "local" not in plain

    def kept(q, w):  # what is stored beside the sums stays a loop of its own
        return ops.sum(ops.unsqueeze(q, [1]) * w, 0), ops.tanh(q * 2.0)

    args = normal(20), normal(20, 6)
    counts = [
        phix.jit(kept, **switched).lower(*args).as_text("loop ir").count("kernel ")
        for switched in ({}, {"disable": "vectors_first"})
    ]
    assert counts[0] == counts[1] + 1
    for found, wanted in zip(phix.jit(kept)(*args), kept(*map(phix.to_tensor, args))):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("put", ["add", "set"])
def test_what_is_put_at_computed_places_is_computed_in_vectors_before(put: str) -> None:
    def counted(x, weights):
        levels = ops.cast(ops.round(x * 9.0), "int32")
        start = phix.numpy.zeros(10, dtype="float32")
        return getattr(start.at[levels], put)(ops.sqrt(ops.abs(weights * x) + 1.0))

    args = np.abs(normal(40, 6)) % 1.0, normal(40, 6)
    text = phix.jit(counted).lower(*args).as_text("loop ir")
    assert "temp t0" in text and "temp t1" in text  # the places and the values
    plain = phix.jit(counted, disable="vectors_first")
    assert "temp" not in plain.lower(*args).as_text("loop ir")
    assert np.array_equal(phix.jit(counted)(*args), plain(*args))
    assert np.array_equal(phix.jit(counted)(*args), counted(*map(phix.to_tensor, args)))

    rows = phix.jit(lambda x, places: phix.numpy.zeros((9, 6)).at[places].add(ops.exp(x * 2.0)))
    assert "temp" not in rows.lower(normal(40, 6), np.arange(40) % 9).as_text("loop ir")


def test_what_is_gathered_is_stored_where_it_is_read_again():
    def neighbours(x, places):
        wide = ops.gather(x, places)
        return ops.tanh(wide[:-2]) + ops.exp(wide[2:])

    text = phix.jit(neighbours).lower(normal(20), np.arange(12)).as_text("loop ir")
    assert text.count("x0[maximum") == 1 and "temp t0: float32[12]" in text
    once = phix.jit(lambda x, places: ops.exp(ops.gather(x, places)))
    assert "temp" not in once.lower(normal(20), np.arange(12)).as_text("loop ir")


def test_a_product_of_one_term_is_computed_where_it_is_read():
    def added(total, x, y):
        return total + x @ y + ops.transpose(y, [1, 0]) @ ops.transpose(x, [1, 0])

    args = normal(30, 30), normal(30, 1), normal(1, 30)
    lowered = phix.jit(added).lower(*args)
    assert "temp" not in lowered.as_text("loop ir") and len(lowered.fusion().kernels) == 1
    turned = phix.jit(lambda t, x, y: t + ops.transpose(ops.matmul(x, y), [1, 0]))
    text = turned.lower(*args).as_text("loop ir")
    assert "temp" not in text and text.count("kernel ") == 1
    total, x, y = args
    np.testing.assert_allclose(phix.jit(added)(*args), total + x @ y + (x @ y).T, rtol=1e-6)
    assert np.array_equal(phix.jit(added)(*args), added(*map(phix.to_tensor, args)))
    for shapes in (((1,), (1, 4)), ((3, 1), (1,)), ((2, 3, 1), (1, 4)), ((3, 1), (2, 1, 4))):
        x, y = (normal(*s) for s in shapes)
        found = phix.jit(lambda x, y: 2.0 * (x @ y))(x, y)
        np.testing.assert_allclose(found, 2.0 * (x @ y), rtol=1e-6)


def test_the_fusion_report_says_what_each_kernel_holds_and_why_buffers_are_there():
    lowered = phix.jit(softmax_of_network).lower(normal(60, 30), normal(30, 50))
    report, graph = lowered.fusion(), lowered.graph
    held = [[e.split(" = ")[1].split("(")[0] for e in k.equations] for k in report.kernels]
    assert ["matmul"] in held
    assert ["max", "subtract", "exp", "sum", "divide"] in held
    why = {b.holds[0]: (b.why, b.source.line) for b in report.buffers if b.holds}
    names = {e.op.name: e.outputs[0].name for e in graph.equations}
    assert why[names["matmul"]] == (
        "comes out of an equation that is computed whole",
        line_of(softmax_of_network, "x @ w"),
    )
    assert why[names["exp"]][0].startswith("read in more than one context")
    assert why[names["divide"]][0] == "an output of the graph"
    assert set(report.fused) == {names["max"], names["subtract"], names["sum"]}


@pytest.mark.parametrize(
    ("function", "shapes", "reason"),
    [
        (lambda x: (x + 1.0, 2.0 * x), [(5, 7)], None),
        (lambda x: (ops.exp(x), ops.sum(x, 0)), [(5, 7)], "their extents differ"),
        (lambda x: ops.tanh(ops.tanh(x) @ x), [(20, 20)], "one of them calls a library"),
    ],
)
def test_loops_that_stay_apart_say_why(function, shapes, reason):
    report = phix.jit(function).lower(*(normal(*s) for s in shapes)).fusion()
    apart = [a for k in report.kernels for a in k.apart]
    assert not apart if reason is None else any(reason in a for a in apart), apart


def test_loops_without_a_common_array_go_through_few_arrays_at_once():
    def each(*arrays):
        return [v + 1.0 for v in arrays]

    report = phix.jit(each).lower(*[phix.spec([100])] * 20).fusion()
    assert 1 < len(report.kernels) < 10
    report = phix.jit(each).lower(*[phix.spec([8])] * 20).fusion()  # tiny ones are no memory
    assert len(report.kernels) == 1
    x = phix.spec([100])
    report = phix.jit(lambda x: [x + float(k) for k in range(20)]).lower(x).fusion()
    assert len(report.kernels) == 1, "x is read once"


def test_a_row_statistic_read_in_a_loop_is_stored_for_that():
    def f(x):
        return ops.sum(ops.exp(x - ops.tanh(ops.max(x, 0))), 0)

    report = phix.jit(f).lower(normal(30, 40)).fusion()
    assert any("same element again" in b.why for b in report.buffers), str(report)


def test_reports_go_into_bodies_of_loops():
    def f(x):
        return phix.scan(lambda c, r: (ops.tanh(c @ r), ops.sum(c)), np.eye(3, dtype="f"), x)

    text = str(phix.jit(f).lower(normal(5, 3, 3)).fusion())
    assert "scan([a], [x], [], body=graph ...)" in text and "tanh(" in text and "sum(" in text


# -- switches ----------------------------------------------------------------------------------
def scatter_gradient(x, rows):
    return phix.grad(lambda x: ops.sum(x * x) + ops.sum(ops.tanh(x[rows])))(x)


def class_gradient(x, labels):
    return phix.value_and_grad(lambda x: -ops.mean(ops.log_softmax(x)[np.arange(9), labels]))(x)


def recurrent_gradient(w, xs):
    def loss(w):
        first = ops.full((4, 6), 0.0)
        return ops.sum(phix.scan(lambda h, x: (ops.tanh(x + h @ w), h), first, xs)[0] ** 2.0)

    return phix.grad(loss)(w)


def loop_with_a_row(x):
    return phix.fori_loop(0, 5, lambda i, v: v.at[i].set(ops.sin(v[i]) + v[0]), x)


def every_pattern(x):
    """Something for each row of the table of algebra."""
    total = ops.scale(-x, -1.0) + ops.abs(ops.abs(x)) + ops.maximum(x, x)
    total = total + (-ops.sin(x)) + ops.cast(ops.cast(x, "float64"), "float32")
    total = total + ops.transpose(ops.transpose(ops.cos(x), [1, 0]), [1, 0])
    total = total + ops.reshape(ops.reshape(ops.exp(x), [-1]), x.shape)
    total = total + ops.sum(ops.expand(ops.unsqueeze(x, [0]), [3, *x.shape]), 0)
    total = total + ops.reduce_as(x, x) + ops.multiply(phix.to_tensor(2.0), 3.0)
    return total + ops.expand(x[:1], x.shape) + 1.0 * x


def descent_of_layers(weights, x):
    def loss(weights):
        y = x
        for w in weights:
            y = ops.tanh(y @ w)
        return ops.sum(y)

    return [w - 0.001 * g for w, g in zip(weights, phix.grad(loss)(weights))]


def gradients_on_ranks(weights, x):
    loss = lambda weights: phix.pmean(ops.mean(network(weights, x) ** 2), "data")  # noqa: E731
    return phix.grad(loss)(weights)


def network(weights, x):
    for w in weights:
        x = ops.tanh(x @ w)
    return x


def unrolled(x, steps=9):
    for _ in range(steps):
        x = ops.tanh(x) * 0.5 + x
    return x


PROGRAMS = {
    **{
        name: (
            phix.parallel.spmd(gradients_on_ranks, mesh(data=2), (None, "data"), None),
            [[normal(5, 4), normal(4, 3)], normal(6, 5)],
        )
        for name, mesh in (("ranks", mirrored), ("called", called))
    },
    "later": (  # gradients that are too large to be summed together
        phix.parallel.spmd(gradients_on_ranks, deferred(data=2), (None, "data"), None),
        [[normal(130, 130) / 11, normal(130, 130) / 11], normal(6, 130)],
    ),
    "algebra": (every_pattern, [normal(7, 6)]),
    "extremes and places": (lambda x: (ops.max(x, 1), ops.argmax(x, 1)), [normal(30, 20)]),
    "large sum": (lambda x: (ops.sum(ops.tanh(x)), ops.tanh(x) + 1.0), [normal(500, 700)]),
    "large and plain": (lambda x: x + 1.0, [normal(600, 600)]),
    "small updates": (
        lambda *params: [ops.tanh(p) * 0.9 + ops.exp(-p) for p in params],
        [normal(k, 70 + k) for k in range(25, 31)],
    ),
    "unrolled steps": (unrolled, [normal(9, 41)]),
    "many unrolled steps": (lambda x: unrolled(x, 40), [normal(9, 3)]),
    "long work": (lambda x: ops.tanh(x) * ops.exp(-x), [normal(200, 300)]),
    "cheap": (lambda x: (x + 1.0) / ops.sum(x + 1.0, 1, keepdim=True), [normal(9, 30)]),
    "softmax": (softmax_of_network, [normal(6, 3), normal(3, 5)]),
    "gradient": (
        lambda x, w: phix.grad(lambda w: ops.sum(ops.gelu(x @ w) ** 2))(w),
        [normal(40, 30), normal(30, 20)],
    ),
    "layer norm": (
        lambda x: ops.layer_norm(x, None, None, 1e-5, 1) * 2.0 + ops.exp(x) + ops.exp(x),
        [normal(20, 50)],
    ),
    "long rows": (lambda x: ops.max(x, 1), [normal(40, 300)]),
    "rows that come again": (lambda x: ops.softmax(x), [normal(9, 600)]),
    "scatter": (scatter_gradient, [normal(50, 4), np.array([3, 3, 7])]),
    "classes": (class_gradient, [normal(9, 5), np.arange(9) % 5]),
    "loop": (loop_with_a_row, [normal(8, 3)]),
    "transposed": (
        lambda x, y: (ops.transpose(ops.exp(x), [1, 0]) + y, ops.transpose(x, [1, 0]) @ x),
        [normal(70, 90), normal(90, 70)],
    ),
    "coordinates": (
        lambda x, i, j: x[i, j] * 2.0 + x[j, i],
        [normal(9, 9), np.arange(9)[::-1].copy(), np.arange(9) % 4 - 2],
    ),
    "recurrent": (recurrent_gradient, [normal(6, 6), normal(5, 4, 6)]),
    "two readers": (lambda x: (ops.tanh(x) * 2.0, ops.tanh(x) + 1.0), [normal(90)]),
    "unread rows": (
        lambda x: phix.scan(lambda c, r: (ops.tanh(c * r), ops.exp(c)), x[0], x)[0],
        [normal(6, 90)],
    ),
    "descent": (
        lambda x, w: w - 0.1 * phix.grad(lambda w: ops.sum(ops.tanh(x @ w)))(w),
        [normal(40, 30), normal(30, 20)],
    ),
    # weights that do not make ten times as much of each rounding in each layer
    "layers": (descent_of_layers, [[normal(64, 64) / 8 for _ in range(6)], normal(512, 64)]),
    "columns": (lambda x: (ops.sum(x, 0), ops.max(x, 0)), [normal(40, 30)]),
    "short rows": (lambda x: ops.max(x, 1), [normal(6, 19)]),  # a few vectors of any CPU
    "channels": (lambda x: (x - ops.mean(x, [0, 2, 3], True)) * ops.exp(x), [normal(5, 9, 12, 12)]),
    "tiny products": (lambda x: ops.matmul(x, x) + 1.0, [normal(7, 4, 4)]),
    "many rows": (lambda x, w: ops.tanh(x @ w) @ w.T, [normal(500, 30), normal(30, 40)]),
    "one column": (lambda x, w: x @ w, [normal(40, 30), normal(30, 1)]),
    "small matrices": (lambda x: ops.svd(x)[1], [normal(9, 4, 3)]),
    "a row": (lambda x, w: x @ w, [normal(1, 300), normal(300, 90)]),
    "columns of one": (lambda x, w: x @ w, [normal(40, 30), normal(6, 30, 1)]),
    "convolution": (
        lambda x, w: ops.conv2d(x, 0.01 * w, paddings=(1, 1)),
        [normal(4, 16, 8, 8), normal(16, 16, 3, 3)],
    ),
    "large filters": (
        lambda x, w: ops.conv2d(x, 0.01 * w, paddings=(3, 3)),
        [normal(1, 22, 20, 18), normal(6, 22, 7, 7)],
    ),
    "few channels": (
        lambda x, w: ops.conv2d(x, 0.01 * w, paddings=(2, 2)),
        [normal(2, 3, 12, 11), normal(6, 3, 5, 5)],
    ),
    "every carry": (
        lambda x: phix.scan(lambda c, r: (ops.tanh(c + r), ops.tanh(c + r)), x[0], x)[1],
        [normal(6, 5)],
    ),
    "cast in a loop": (
        lambda x, w: phix.fori_loop(0, 3, lambda i, c: ops.tanh(c @ ops.cast(w, "float32")), x),
        [normal(5, 6), normal(6, 6).astype("float16")],
    ),
    "rolled": (lambda x: ops.roll(x, [7]) + ops.roll(x, [1], [1]), [normal(20, 40)]),
    "spectrum": (lambda x: ops.abs(phix.fft.fft2(x)), [normal(20, 30)]),
    "running totals": (lambda x: ops.cumsum(x, 0), [normal(200)]),
    "forces": (forces, [normal(12, 3)]),
    "many short rows": (lambda x: ops.sort(x, 1), [normal(6, 5)]),
    "a long row": (lambda x: ops.sort(x, 0), [normal(1 << 17)]),
    "rows of chances": (lambda x: ops.log_softmax(x, 1), [normal(40, 11)]),
    "rows beside a row": (lambda x, b: ops.tanh(x + b), [normal(70, 5), normal(5)]),
    "scan": (
        lambda x: phix.scan(lambda c, r: (ops.tanh(c * r + c), c + r), x[0], x),
        [normal(6, 90)],
    ),
}


# What goes between ranks while they work is in test_collectives.py, what some CPUs do in
# test_narrow_products.py and test_vector_sort.py.
ELSEWHERE = {"overlap_collectives", "narrow_products", "vector_sorts"}
SWITCHES = [p.name for p in phix.debug.passes() if p.stage != "places" and p.name not in ELSEWHERE]


@pytest.mark.unoptimised
@pytest.mark.each_pass
@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_changes_programs_and_no_result(name):
    changed = []
    # not tens of megabytes
    with phix.debug.settings(least_streamed_bytes=1 << 20, least_asked_bytes=1 << 15):
        for program, (function, args) in PROGRAMS.items():
            wanted, texts = whole(program)
            without = phix.jit(function, disable=name)
            if shown(without, args) == texts:
                continue  # one program: what it gives is the same
            changed.append(program)
            for a, b in zip(phix.tree.leaves(without(*args)), wanted):
                near(a, b, program)
    assert changed, f"{name} does nothing in any of these programs"


def near(found, wanted, what):
    """Sums in another order: what cancels is rounded at the size of what is largest."""
    largest = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
    atol = max(2e-6, 5e-7 * float(largest))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=atol, err_msg=what)


def shown(function, args):
    """All that machine code follows from."""
    lowered = function.lower(*args)
    return lowered.as_text("loop ir"), lowered.as_text("llvm"), str(lowered.graph)


@cache
def whole(program):
    """What a program gives, and its texts, with nothing left out."""
    function, args = PROGRAMS[program]
    compiled = phix.jit(function)
    return phix.tree.leaves(compiled(*args)), shown(compiled, args)


def test_kernels_that_a_pass_adds_are_in_the_report():
    # totals of many rows get a kernel that starts them and one that ends them
    report = phix.jit(lambda x: (ops.sum(x * x, 0), ops.max(x, 0))).lower(normal(500, 9)).fusion()
    assert len(report.kernels) == 4 and all(k.equations for k in report.kernels[1:3])


def test_all_switches_at_once():
    names = [p.name for p in phix.debug.passes()]
    for program, (function, args) in PROGRAMS.items():
        found = phix.tree.leaves(phix.jit(function, disable=names)(*args))
        for a, b in zip(found, phix.tree.leaves(phix.jit(function)(*args))):
            near(a, b, program)


def test_switches_are_named_and_of_one_function_alone():
    with pytest.raises(ArgumentError, match=r"jit: no rewrite 'join'; there are .*join_loops"):
        phix.jit(ops.exp, disable="join")
    apart = phix.jit(softmax_of_network, disable=("fuse", "join_loops"))
    args = normal(6, 3), normal(3, 5)
    many, few = (len(f.lower(*args).fusion().kernels) for f in (apart, phix.jit(apart.function)))
    assert many > few
    assert any("switched off" in b.why for b in apart.lower(*args).fusion().buffers)


# -- cost --------------------------------------------------------------------------------------
M, N, K = 13, 21, 34


@pytest.mark.parametrize(
    ("function", "shapes", "flops", "transcendentals"),
    [
        (ops.matmul, [(M, K), (K, N)], 2 * M * N * K, 0),
        (lambda x, y: ops.matmul(x, y, True, True), [(K, M), (N, K)], 2 * M * N * K, 0),
        (ops.matmul, [(5, M, K), (5, K, N)], 5 * 2 * M * N * K, 0),
        (ops.matmul, [(5, M, K), (K, N)], 5 * 2 * M * N * K, 0),
        (ops.matmul, [(9, 4, 4), (9, 4, 4)], 9 * 2 * 4**3, 0),  # as a loop
        (lambda x, y: x * y + 1.0, [(M, N), (M, N)], 2 * M * N, 0),
        (lambda x, y: x * y, [(M, N), (N,)], M * N, 0),
        (lambda x, y: ops.tanh(x * y + 1.0) * ops.exp(-y), [(M,), (M,)], 4 * M, 2 * M),
        (lambda x: ops.sum(x), [(M, N)], M * N, 0),
        # 2.5 n log2(n) of n real points, on whichever side they are
        (phix.fft.rfft, [(M, 64)], M * 2.5 * 64 * 6, 0),
        (lambda x: phix.fft.irfftn(ops.complex(x, x), axes=(0, 1)), [(8, 33)], 2.5 * 512 * 9, 0),
        (lambda x: ops.sum(ops.exp(x), 0), [(M, N)], M * N, M * N),
        (lambda x: ops.softmax(x, 1), [(M, N)], 4 * M * N + M, M * N),  # M reciprocals
        (lambda x: ops.transpose(x, [1, 0]) + 1.0, [(70, 90)], 70 * 90, 0),  # in tiles
        (lambda x: ops.transpose(x, [1, 0]), [(M, N)], 0, 0),
        (lambda x: ops.sqrt(x) + ops.sin(x), [(M,)], M, 2 * M),
        (lambda x: phix.fori_loop(0, 7, lambda i, v: v * x, x), [(M,)], 7 * M, 0),
        (lambda x: phix.scan(lambda c, r: (c + r, c), x[0], x), [(6, M)], 6 * M, 0),
        # 27 products and 26 sums
        (lambda x, k: ops.conv2d(x, k), [(2, 3, 8, 8), (4, 3, 3, 3)], 2 * 4 * 36 * (27 + 26), 0),
        (lambda x, k: ops.conv2d(x, k), [(2, 16, 8, 8), (32, 16, 1, 1)],
         2 * 2 * 32 * 64 * 16, 0),
        # by patches, block by block of the images, the last of which is smaller
        (lambda x, k: ops.conv2d(x, k), [(37, 16, 20, 20), (24, 16, 5, 5)],
         2 * 37 * 24 * 16**2 * 16 * 25, 0),
    ],
)  # fmt: skip
def test_operations_have_their_closed_forms(function, shapes, flops, transcendentals):
    cost = phix.jit(function).lower(*(normal(*s) for s in shapes)).cost_analysis()
    assert (cost.flops, cost.transcendentals) == (flops, transcendentals)
    assert not cost.uncounted


def test_blocks_of_images_are_all_counted():
    """Winograd's tiles of 4 x 4 take 36 products for each pair of channels."""
    f = phix.jit(lambda x, k: ops.conv2d(x, k, paddings=(1, 1)))
    x, k = normal(37, 16, 20, 20), normal(24, 16, 3, 3)
    cost = f.lower(x, k).cost_analysis()
    products = 2 * 37 * 5**2 * 36 * 24 * 16
    assert products < cost.flops < 1.5 * products and not cost.uncounted


def test_complex_products_count_their_real_ones():
    x = normal(12, 12, dtype="complex64")
    assert phix.jit(ops.matmul).lower(x, x).cost_analysis().flops == 8 * 12**3
    assert phix.jit(lambda x: x * x).lower(x).cost_analysis().flops == 6 * 12**2
    assert phix.jit(lambda n: n + n).lower(np.arange(4)).cost_analysis().flops == 0
    y = normal(3, 16, dtype="complex64")
    assert phix.jit(phix.fft.fft).lower(y).cost_analysis().flops == 3 * 5 * 16 * 4


def test_bytes_are_those_of_one_pass():
    x, y, r = normal(M, N), normal(M, N), normal(N)
    size = 4 * M * N
    cost = phix.jit(lambda x, y, r: x * y + r).lower(x, y, r).cost_analysis()
    assert (cost.bytes_read, cost.bytes_written) == (2 * size + 4 * N, size)
    assert cost.bytes_accessed == 3 * size + 4 * N
    cost = phix.jit(ops.matmul).lower(normal(M, K), normal(K, N)).cost_analysis()
    assert (cost.bytes_read, cost.bytes_written) == (4 * (M * K + K * N), 4 * M * N)
    half = normal(M, dtype="float16")
    cost = phix.jit(lambda x: x + x).lower(half).cost_analysis()
    assert (cost.bytes_read, cost.bytes_written) == (2 * M, 2 * M)


def test_unknown_sizes_stay_in_the_counts():
    lowered = phix.jit(softmax_of_network).lower(phix.spec(["n", 12]), phix.spec([12, "m"]))
    cost = lowered.cost_analysis()
    assert repr(cost.flops) == "28*m*n" and repr(cost.transcendentals) == "m*n"
    rows = phix.jit(phix.fft.rfft)
    assert repr(rows.lower(phix.spec(["n", 8])).cost_analysis().flops) == "60*n"
    unknown = rows.lower(phix.spec([3, "n"]))
    assert unknown.cost_analysis().uncounted and unknown.cost_analysis(n=8).flops == 180
    at = lowered.cost_analysis(n=3, m=40)
    known = phix.jit(softmax_of_network).lower(normal(3, 12), normal(12, 40)).cost_analysis()
    assert at.flops == known.flops == 28 * 3 * 40
    assert at.bytes_accessed == known.bytes_accessed
    with pytest.raises(ArgumentError, match=r"no dim 'k' is unknown .*; there are m, n"):
        lowered.cost_analysis(k=2)


def test_arguments_give_sizes_to_a_program_for_all_sizes():
    f = phix.jit(lambda x: x + 1.0, input_spec=[phix.spec(["n"])])
    assert f.lower(normal(17)).cost_analysis().flops == 17
    assert f.lower(normal(17)).memory_analysis().argument_size_in_bytes == 68


def test_what_is_not_counted_is_said():
    def f(x):
        return phix.while_loop(lambda v: ops.sum(v) < 10.0, lambda v: v * 2.0, x)

    assert phix.jit(f).lower(normal(5)).cost_analysis().uncounted == (
        "turns of a while loop beyond the first",
    )
    called = phix.jit(lambda x: phix.pure_callback(np.sin, phix.spec([5]), x) * x).lower(normal(5))
    assert any("which Python runs" in text for text in called.cost_analysis().uncounted)
    assert "not counted: " in str(called.cost_analysis())


# -- memory ------------------------------------------------------------------------------------
def three_layers(x, w):
    h = ops.tanh(x @ w)
    h = ops.tanh(h @ w)
    wide = ops.concat([h, h, h, h], 1) @ ops.concat([w, w, w, w], 0)
    return ops.sum(ops.tanh(wide), 1)


def test_sizes_of_arguments_outputs_and_constants():
    table = phix.to_tensor(normal(50))
    memory = phix.jit(lambda x: (x + table, ops.sum(x))).lower(normal(50)).memory_analysis()
    assert memory.argument_size_in_bytes == 200 and memory.constant_size_in_bytes == 200
    assert memory.output_size_in_bytes == 204 and memory.temp_size_in_bytes == 0
    assert memory.peak_memory_in_bytes == 604


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (three_layers, [normal(64, 64), normal(64, 64)]),
        (softmax_of_network, [normal(60, 30), normal(30, 50)]),
        (lambda x: phix.grad(lambda x: ops.sum(ops.gelu(x @ x)))(x), [normal(80, 80)]),
        (lambda x: phix.scan(lambda c, r: (ops.tanh(c @ r), c), x[0], x), [normal(5, 40, 40)]),
        (lambda x: ops.transpose(ops.cumsum(ops.tanh(x), 0), [1, 0]) @ x, [normal(30, 40)]),
    ],
)
def test_temps_are_what_a_run_takes(function, args, monkeypatch):
    """The blocks that a run takes from the pool, recorded where it takes them."""
    import ctypes

    from phix.kernels.cpu import jit, pool

    take, _ = pool.functions()
    taken = []

    def record(size):
        taken.append(size)
        return take(size)

    entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(record)
    jitted = phix.jit(function)
    planned = jitted.lower(*args).memory_analysis()
    text = jitted.lower(*args).as_text("llvm").replace("@phix_take", "@phix_take_recorded")
    jit.add_symbol("phix_take_recorded", ctypes.cast(entry, ctypes.c_void_p).value)
    monkeypatch.setenv("PHIX_CACHE", "0")
    outputs = [np.empty(o.shape, o.dtype) for o in phix.tree.leaves(jitted(*args))]
    jit.compiled(text)(*args, *outputs)
    for found, wanted in zip(outputs, phix.tree.leaves(jitted(*args))):
        np.testing.assert_array_equal(found, wanted)
    assert sum(taken) == planned.temp_size_in_bytes > 0


def test_the_line_that_holds_the_peak():
    memory = phix.jit(three_layers).lower(normal(64, 64), normal(64, 64)).memory_analysis()
    assert memory.peak_source.file == __file__
    assert memory.peak_source.line == line_of(three_layers, "wide = ")
    first = memory.holders[0]
    assert first.size_in_bytes == 4 * 64 * 256 and first.source.line == memory.peak_source.line
    assert sum(h.size_in_bytes for h in memory.holders) <= memory.peak_memory_in_bytes
    assert f"peak_source: {__file__}:{memory.peak_source.line}" in str(memory)


def test_a_gradient_lives_where_the_new_weight_will():
    function, args = PROGRAMS["descent"][0], (normal(4, 30), normal(30, 20))
    weight = 4 * 30 * 20
    sizes = [phix.jit(function, disable=off).lower(*args).memory_analysis().temp_size_in_bytes
             for off in ((), "use_outputs")]  # fmt: skip
    assert sizes[1] - sizes[0] > weight / 2 and sizes[0] < weight < sizes[1]


def test_a_temp_lives_where_the_one_it_replaces_did():
    """tanh(x w) takes the place of x w, unless that is read again."""
    x, w, product = normal(50, 64), normal(64, 64), 4 * 50 * 64

    def once(x, w):
        return ops.tanh(x @ w) @ w

    def again(x, w):
        inside = x @ w
        return ops.tanh(inside) @ w * inside

    for function, temps in ((once, 1), (again, 2)):
        results = []
        for off, count in (((), temps), ("reuse_temps", 2)):
            jitted = phix.jit(function, disable=off)
            planned = jitted.lower(x, w).memory_analysis().temp_size_in_bytes
            assert planned == count * product, (function, off)
            results.append(np.asarray(jitted(x, w)))
        np.testing.assert_array_equal(*results)


def test_what_totals_start_with_is_out_of_the_way_of_loops_that_become_one():
    x = np.ones((40, 30))
    text = phix.jit(lambda x: (ops.softmax(x, 1), ops.sum(x, [0]))).lower(x).as_text("loop ir")
    assert sum("x0[" in kernel for kernel in text.split("\n  kernel ")[1:]) == 1


def test_what_a_loop_reads_lives_through_all_of_it(rng):
    x, w = (rng.standard_normal((8, 8)) for _ in range(2))

    def function(x, w):
        before = x @ w
        return phix.fori_loop(0, 3, lambda _, c: ops.tanh((c @ w + before) @ w @ w), x)

    wanted = x
    for _ in range(3):
        wanted = np.tanh((wanted @ w + x @ w) @ w @ w)
    np.testing.assert_allclose(phix.jit(function)(x, w), wanted, rtol=1e-9, atol=1e-12)


def test_temps_that_are_alive_together_lie_apart(monkeypatch, rng):
    from phix.kernels.loops.nodes import Buffer
    from phix.kernels.schedule import workspace

    def planned(spans):
        lives = {
            Buffer(f"t{k}", np.dtype("int8"), (size,), "temp"): (begin, end)
            for k, (size, begin, end) in enumerate(spans)
        }
        monkeypatch.setattr(workspace, "lifetimes", lambda steps: lives)
        slots = workspace.plan_slots([], lambda b: True)
        assert sorted(b.name for s in slots for b in s) == sorted(b.name for b in lives)
        for slot in slots:
            times = [t for b in slot for t in range(*lives[b])]
            assert len(times) == len(set(times))
        return sum(max(b.dims[0] for b in slot) for slot in slots)

    # the small one does not take the place that the second large one could have
    assert planned([(100, 0, 1), (10, 1, 3), (100, 1, 3)]) == 110
    for _ in range(50):
        begins = rng.integers(0, 20, 30)
        spans = [(int(n), int(b), int(b + d)) for n, b, d in
                 zip(rng.choice([8, 64, 512], 30), begins, rng.integers(1, 8, 30))]  # fmt: skip
        peak = max(sum(n for n, b, e in spans if b <= t < e) for t in range(28))
        assert peak <= planned(spans) < sum(n for n, _, _ in spans)


def test_what_frees_memory_comes_early():
    """The gradient of a weight needs the input of its layer, and is not made after all others."""

    layers, (weights, x) = PROGRAMS["layers"]
    temp = 4 * x.shape[0] * x.shape[1]
    assert temp > phix.core.settings.DEFAULTS.least_freed_bytes
    jits = [phix.jit(layers, disable=off) for off in ((), "free_early")]
    sizes = [j.lower(weights, x).memory_analysis().temp_size_in_bytes / temp for j in jits]
    # what the tanh of each layer gave, and a cotangent; else all cotangents
    assert sizes[0] < len(weights) + 2 and sizes[1] > 2 * len(weights) - 2
    for found, wanted in zip(*(j(weights, x) for j in jits)):
        np.testing.assert_array_equal(found, wanted)


def test_steps_that_meet_keep_their_order(rng):
    from phix.kernels.loops import nodes as ir

    moved = 0
    for _ in range(100):
        buffers = [ir.Buffer(f"t{k}", np.dtype("float32"), (9,), "temp") for k in range(8)]
        buffers += [ir.Buffer(f"o{k}", np.dtype("float32"), (9,), "output") for k in range(8)]
        steps = []
        for _ in range(20):
            one, other, to = (buffers[k] for k in rng.choice(16, 3, replace=False))
            value = ir.load(one, (ir.ZERO,)) + ir.load(other, (ir.ZERO,))
            steps.append(ir.Kernel([ir.Store(to, (ir.ZERO,), value)]))
        if rng.integers(2):
            steps.insert(10, ir.BindStep("n", buffers[0]))
        program = ir.LoopProgram([], [], buffers[8:], buffers[:8], list(steps), {})
        with phix.debug.settings(least_freed_bytes=1):
            ordering.free_early(program, Setting(Builder(())))
        place = {step: k for k, step in enumerate(program.steps)}
        assert len(place) == len(steps)
        for k, first in enumerate(steps):
            for second in steps[k + 1 :]:
                reads, writes = ir.step_reads(second), ir.step_writes(second)
                meet = ir.step_writes(first) & (reads | writes) or ir.step_reads(first) & writes
                if meet or isinstance(first, ir.BindStep):
                    assert place[first] < place[second]
        moved += program.steps != steps
    assert moved > 10


def test_sizes_that_were_guessed_need_not_fit_each_other(rng):
    def sums(x, y):
        return ops.cumsum(ops.matmul(x[1:] + y, ops.full([3, 2], 1.0)), 0)

    jitted = phix.jit(sums, input_spec=[phix.spec(["n", 3]), phix.spec(["m", 3])])
    for n, m in ((6, 5), (2, 7), (9, 1)):
        x, y = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
        expected = np.cumsum((x[1:] + y) @ np.ones((3, 2)), 0)
        given = (ops.cast(phix.to_tensor(a), "float32") for a in (x, y))
        np.testing.assert_allclose(jitted(*given), expected, rtol=1e-4, atol=1e-4)


def test_a_guessed_size_never_raises_and_is_never_negative():
    n, m = dm.symbol(), dm.symbol()
    assert estimate(7) == 7
    assert estimate(n * 3 + m - 1) == 4 * 256 - 1
    assert estimate(n - 1000) == 0
    assert estimate(dm.broadcast(n - 1, m)) == 256
    assert estimate(dm.floordiv(n, m - 256)) == 256
    assert estimate(dm.maximum(n, 2 * m) % 7) == 512 % 7


def test_memory_of_unknown_sizes():
    lowered = phix.jit(lambda x: ops.sum(ops.tanh(x @ x), 0)).lower(phix.spec(["n", "n"]))
    with pytest.raises(ArgumentError, match=r"sizes of the dims n are not known.*memory_analysis"):
        lowered.memory_analysis()
    product, blocks, partial_sums = 4 * 64 * 64, 4 * 64, 8 * 16 * 64
    total = product + blocks + 8 * 64 + partial_sums  # sums of blocks are added in float64
    assert lowered.memory_analysis(n=64).temp_size_in_bytes == total
    compiled = lowered.compile()
    assert compiled.memory_analysis(n=64) == lowered.memory_analysis(n=64)
    assert compiled.cost_analysis(n=64).flops == 2 * 64**3 + 64**2


def test_memory_of_a_program_with_steps_in_python():
    def f(x):
        y = phix.pure_callback(np.sin, phix.spec([1000]), ops.exp(x))
        return ops.sum(y * x)

    memory = phix.jit(f).lower(normal(1000)).memory_analysis()
    assert memory.temp_size_in_bytes == 2 * 4000  # what goes to Python, and what comes back
    assert memory.peak_memory_in_bytes == 4000 + 8000 + 4


def test_a_checkpoint_lowers_the_peak():
    def temps(wrap):
        def layer(w, x):
            for _ in range(4):
                x = ops.tanh(x @ w)
            return x

        def loss(w, x):
            for _ in range(6):
                x = wrap(layer)(w, x)
            return ops.sum(x)

        lowered = phix.jit(phix.grad(loss, argnums=1)).lower(normal(64, 64), normal(64, 64))
        return lowered.memory_analysis().temp_size_in_bytes

    kept = temps(lambda f: f)
    assert kept >= 24 * 4 * 64 * 64  # each layer keeps its value for the way back
    assert temps(phix.checkpoint) < kept


def test_a_chain_of_sums_of_neighbours_is_no_tree() -> None:
    """Each element of such a sum is read twice by the next: computed again at each, the last of
    twelve took thousands of additions, as each one is cheap beside the one before it."""

    def sums(x: Any) -> Any:
        for width in (1, 2, 4, 8, 16, 32):
            x = x[:, :-width] + x[:, width:]
        for width in (1, 2, 4, 8, 16, 32):
            x = x[:-width] + x[width:]
        return x

    x = np.random.default_rng(0).integers(0, 9, (200, 300)).astype(np.float32)
    jitted = phix.jit(sums, dynamic=False)
    windows = np.lib.stride_tricks.sliding_window_view(x, (64, 64)).sum((-1, -2))
    np.testing.assert_array_equal(np.asarray(jitted(x)), windows)
    assert jitted.lower(x).cost_analysis().flops < 100 * x.size
