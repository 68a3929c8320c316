"""Loops and branches in the CPU engine, against the same graphs run step by step by Python."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import context
from phix.core import graph as gr
from phix.core.conversion import tensor_from_scalar
from phix.core.engines import engine
from phix.interpreters.decompose import decompose
from phix.passes.simplify import simplify

pytestmark = pytest.mark.unoptimised(4)

RNG = np.random.default_rng(0)


def program(graph: gr.Graph) -> Any:
    primitives = simplify(decompose(simplify(graph)))
    return engine("cpu").compile(primitives, (True,) * len(graph.inputs))


def run(graph: gr.Graph | str, *arrays: Any) -> tuple[np.ndarray, ...]:
    if isinstance(graph, str):
        graph = phix.parse_graph(graph)
    inputs = [np.asarray(a, v.meta.dtype) for a, v in zip(arrays, graph.inputs)]
    copies = [a.copy() for a in inputs]
    outs = program(graph).launcher(tuple(a.shape for a in inputs))(*inputs)
    for a, c in zip(inputs, copies):
        np.testing.assert_array_equal(a, c, "an input was written to")
    return outs


def loop_ir(function: Any, *specs: Any) -> str:
    return program(phix.make_graph(function)(*specs)).sections["loop ir"]


def by_python(graph: gr.Graph, args: Any) -> tuple[Any, ...]:
    """The outputs of a graph, its loops run by Python, its other ops eagerly."""
    values: dict[Any, Any] = dict(zip(graph.inputs, args))
    values.update((c.variable, c.value) for c in graph.constants)

    def read(atom: Any) -> Any:
        if isinstance(atom, gr.Variable):
            return values[atom]
        return tensor_from_scalar(atom.value, atom.meta.dtype)

    for e in graph.equations:
        inputs = gr.map_entries(read, e.inputs)
        rule = RULES.get(e.op.name)
        if rule is not None:
            outs = rule(inputs, dict(zip(e.op.attr_names, e.attrs)), e.outputs)
        else:
            outs = context.current().process(e.op, inputs, e.attrs)
            outs = (outs,) if len(e.outputs) == 1 else outs
        values.update(zip(gr.flat(e.outputs), gr.flat(tuple(outs))))
    return tuple(map(read, graph.outputs))


def branch_by_python(inputs: Any, attrs: Any, outputs: Any) -> Any:
    index = min(max(inputs[0].item(), 0), len(attrs["branches"]) - 1)
    return (by_python(attrs["branches"][index], inputs[1]),)


def while_by_python(inputs: Any, attrs: Any, outputs: Any) -> Any:
    carry, fixed = inputs
    while by_python(attrs["cond"], (*carry, *fixed))[0].item():
        carry = by_python(attrs["body"], (*carry, *fixed))
    return (carry,)


def scan_by_python(inputs: Any, attrs: Any, outputs: Any) -> Any:
    carry, xs, fixed = inputs
    length = attrs["length"]
    order = range(length)
    rows: list[Any] = [None] * length
    for t in reversed(order) if attrs["reverse"] else order:
        out = by_python(attrs["body"], (*carry, *(x[t] for x in xs), *fixed))
        carry, rows[t] = out[: len(carry)], out[len(carry) :]
    stacked = []
    for k, variable in enumerate(outputs[1]):
        y = np.empty(variable.meta.dims, variable.meta.dtype)
        for t in order:
            y[t] = rows[t][k].numpy()
        stacked.append(phix.to_tensor(y))
    return carry, tuple(stacked)


RULES = {"branch": branch_by_python, "while_loop": while_by_python, "scan": scan_by_python}


def check(function: Any, *arrays: Any) -> None:
    arrays = tuple(map(np.asarray, arrays))
    graph = phix.make_graph(function)(*(phix.spec(a.shape, a.dtype) for a in arrays))
    want = by_python(graph, [phix.to_tensor(a) for a in arrays])
    for a, b in zip(run(graph, *arrays), want):
        np.testing.assert_allclose(a, b.numpy(), 1e-4, 1e-4)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# -- scan ------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [3, 1000])
def test_scan(length: int, reverse: bool, size: int) -> None:
    def body(c: Any, x: Any) -> Any:
        (a, b), s = c, x
        return (b, ops.roll(a, [1], [0]) * 0.5 + s), a * b

    def f(a: Any, b: Any, xs: Any) -> Any:
        return phix.scan(body, (a, b), xs, reverse=reverse)

    check(f, floats(size), floats(size), floats(length, size))


def test_scan_without_carry_or_rows() -> None:
    check(lambda x: phix.scan(lambda c, r: ((), ops.exp(r)), (), x)[1], floats(4, 3))
    check(lambda x: phix.scan(lambda c, _: (c * 2.0, None), x, None, length=3)[0], floats(4))


def test_strided_rows() -> None:
    f = phix.jit(lambda x: phix.scan(lambda c, r: (c + r.sum(), r * 2.0), 0.0, x))
    x = floats(4, 6)
    total, rows = f(ops.transpose(phix.to_tensor(x), [1, 0]))
    np.testing.assert_allclose(rows.numpy(), x.T * 2)
    np.testing.assert_allclose(total.numpy(), x.sum(), 1e-5)


@pytest.mark.parametrize("n", [0, 1, 6])
def test_unknown_length(n: int) -> None:
    text = """graph(a: float32[m], x: float32[n, m]) {
      [f: float32[m]], [y: float32[n, m]] = scan([a], [x], [],
        body=graph(a: float32[k], x: float32[k]) {
          b: float32[k] = add(a, x)
          return b, b
        }, length=n)
      return f, y
    }"""
    a, x = floats(5), floats(n, 5)
    final, rows = run(text, a, x)
    np.testing.assert_allclose(final, a + x.sum(0), 1e-5, 1e-5)
    np.testing.assert_allclose(rows, a + np.cumsum(x, 0), 1e-5, 1e-5)


# -- while, branch ---------------------------------------------------------------------------
@pytest.mark.parametrize("n", [-1, 0, 10])
def test_while(n: int) -> None:
    def f(n: Any, a: Any) -> Any:
        start = (ops.full([], 0, "int64"), ops.full([], 1, "int64"), n, a)
        return phix.while_loop(
            lambda c: c[2] > 0, lambda c: (c[1], c[0] + c[1], c[2] - 1, c[3] * 0.5), start
        )

    check(f, np.array(n), floats(300))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_branch_index_is_clamped(dtype: str) -> None:
    text = f"""graph(i: {dtype}[], x: float32[4]) {{
      [y: float32[4]] = branch(i, [x], branches=(
        graph(x: float32[4]) {{
          y: float32[4] = multiply(x, 2.0)
          return y
        }},
        graph(x: float32[4]) {{
          return x
        }},
        graph(x: float32[4]) {{
          y: float32[4] = exp(x)
          return y
        }}))
      return y
    }}"""
    x = floats(4)
    for i in (0, 1, 2, 200) if dtype == "uint8" else (-7, 0, 1, 2, 3):
        want = (x * 2, x, np.exp(x))[min(max(i, 0), 2)]
        np.testing.assert_allclose(run(text, i, x)[0], want, 1e-6)


def test_nested() -> None:
    def inner(c: Any, x: Any) -> Any:
        halved = phix.while_loop(lambda v: ops.abs(v).max() > 0.5, lambda v: v * 0.5, c + x)
        return phix.cond(x.sum() > 0, lambda v: v.at[0].set(1.0), ops.sin, halved), halved

    def outer(c: Any, x: Any) -> Any:
        c, ys = phix.scan(inner, c, x)
        return c, ys.sum(0)

    for size in (3, 500):
        check(lambda c, x: phix.scan(outer, c, x), floats(size), floats(3, 4, size))


# -- what native code cannot do alone --------------------------------------------------------
def test_host_steps_inside_loops() -> None:
    def body(c: Any, x: Any) -> Any:
        a = phix.cond(x[0] > 0, lambda v: ops.sort(v, 0), lambda v: v * 0.5, c[0])
        a, _ = phix.scan(lambda a, _: (ops.roll(ops.sort(a, 0), [1], [0]), None), a, length=2)
        b, n = phix.while_loop(
            lambda s: s[1] < 3, lambda s: (ops.sort(ops.flip(s[0], [0]), 0) + x, s[1] + 1),
            (c[1], ops.full([], 0, "int64")),
        )  # fmt: skip
        return (b, a), a + ops.cast(n, "float32")

    for size in (3, 200):
        check(lambda a, b, x: phix.scan(body, (a, b), x, reverse=True),
              floats(size), floats(size), floats(4, size))  # fmt: skip


# -- dims that get their values on the way ---------------------------------------------------
BOUND = """graph(x: float32[m], k: int64[]) {
  n: int64[] = dim_value(k, dim=n)
  z: float32[n, 40] = full(shape=(n, 40), value=1.5, dtype=float32, place=place(cpu))
  w: float32[n, 40] = cumsum(z, axis=0)
  s: float32[] = sum(w, axis=(0, 1), dtype=float32)
  [f: float32[]], [y: float32[n]] = scan([0.0], [w], [], body=graph(a: float32[], w: float32[40]) {
    t: float32[] = sum(w, axis=(0,), dtype=float32)
    b: float32[] = add(a, t)
    return b, b
  }, length=n)
  return RESULTS
}"""


@pytest.mark.parametrize("n", [-3, 0, 1, 9])
@pytest.mark.parametrize("results", ["s, f", "y, s, n", "w, f"])
def test_bound_dim(n: int, results: str) -> None:
    count = max(n, 0)
    w = np.cumsum(np.full((count, 40), 1.5, np.float32), 0)
    want = {"n": n, "w": w, "s": w.sum(), "f": w.sum(), "y": np.cumsum(w.sum(1))}
    got = run(BOUND.replace("RESULTS", results), np.zeros(2), n)
    for name, array in zip(results.split(", "), got):
        np.testing.assert_allclose(array, want[name], 1e-6)


@pytest.mark.parametrize("op", ["cumsum(z, axis=0)", "sort(z, axis=0, descending=false)"])
def test_dim_bound_anew_by_each_iteration(op: str) -> None:
    text = """graph(k: int64[]) {
      [j: int64[]], [ys: float32[5]] = scan([k], [], [], body=graph(j: int64[]) {
        e: int64[] = add(j, 1)
        n: int64[] = dim_value(j, dim=n)
        z: float32[n, 70] = full(shape=(n, 70), value=1.0, dtype=float32, place=place(cpu))
        w: float32[n, 70] = OP
        s: float32[] = sum(w, axis=(0, 1), dtype=float32)
        return e, s
      }, length=5)
      return j, ys
    }"""
    last, sums = run(text.replace("OP", op), -1)
    ones = [np.ones((n, 70)) for n in (0, 0, 1, 2, 3)]
    want = [np.cumsum(z, 0).sum() if op[0] == "c" else z.sum() for z in ones]
    np.testing.assert_allclose(sums, want)
    assert last == 4


# -- in place --------------------------------------------------------------------------------
def inside(text: str) -> str:
    """The text of the outermost loops around steps."""
    blocks = re.findall(r"^  for s\d+ in .*\n(?:    .*\n)+", text, re.MULTILINE)
    assert blocks
    return "".join(blocks)


def writes_whole(text: str, size: int) -> bool:
    return bool(re.search(rf"for i\d in range\({size}\)|swap", inside(text)))


def filled(a: Any, x: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        a, k = c
        return (a.at[k].set(a[k - 1] * 0.5 + x), k + 1), None

    return phix.scan(body, (a, ops.full([], 1, "int64")), x)[0][0]


def test_rows_are_set_in_place() -> None:
    specs = phix.spec([700, 4]), phix.spec([699, 4])
    assert not writes_whole(loop_ir(filled, *specs), 2800)
    check(filled, floats(30, 4), floats(29, 4))


def test_the_backward_of_rows_set_is_in_place() -> None:
    def f(a: Any, x: Any) -> Any:
        return filled(a, x).sum()

    specs = phix.spec([700]), phix.spec([699])
    assert not writes_whole(loop_ir(phix.grad(f, argnums=(0, 1)), *specs), 700)
    to_a, to_x = phix.jit(phix.grad(f, argnums=(0, 1)))(floats(700), floats(699))
    weights = 2 - 0.5 ** np.arange(699)[::-1]
    np.testing.assert_allclose(to_x.numpy(), weights, 1e-5)
    np.testing.assert_allclose(to_a.numpy()[0], weights[0] * 0.5 + 1, 1e-5)


def test_rows_are_added_in_place() -> None:
    def f(a: Any, i: Any, x: Any) -> Any:
        def body(a: Any, row: Any) -> Any:
            i, x = row
            zeros = ops.full([900], 0.0, "float32")
            return a + ops.put_along_axis(zeros, i, x, 0, "add"), None

        return phix.scan(body, a, (i, x))[0]

    specs = phix.spec([900]), phix.spec([50, 2], "int64"), phix.spec([50, 2])
    assert not writes_whole(loop_ir(f, *specs), 900)
    check(f, floats(900), RNG.integers(0, 9, (50, 2)), floats(50, 2))


def test_rows_are_set_in_place_inside_branches_and_loops() -> None:
    def f(a: Any, x: Any) -> Any:
        def inner(c: Any, x: Any) -> Any:
            a, k = c
            a = phix.cond(x > 0, lambda a: a.at[k].set(x), lambda a: a, a)
            return (a, k + 1), None

        def outer(a: Any, x: Any) -> Any:
            return phix.scan(inner, (a, ops.full([], 0, "int64")), x)[0][0], None

        return phix.scan(outer, a, x)[0]

    assert not writes_whole(loop_ir(f, phix.spec([800]), phix.spec([10, 800])), 800)
    check(f, floats(8), floats(10, 8))


def test_a_stencil_swaps_and_a_map_is_in_place() -> None:
    def f(u: Any) -> Any:
        return phix.scan(lambda u, _: (u + ops.roll(u, [1], [0]), None), u, length=5)[0]

    def g(u: Any) -> Any:
        return phix.scan(lambda u, _: (ops.tanh(u) + 1.0, None), u, length=5)[0]

    loop = inside(loop_ir(f, phix.spec([700])))
    assert loop.count("for i0") == 2  # the first element apart; nothing is copied
    assert "swap" in loop_ir(f, phix.spec([700]))
    assert "swap" not in loop_ir(g, phix.spec([700]))
    for length in (700, 3):
        check(f, floats(length))
        check(g, floats(length))


# -- anything --------------------------------------------------------------------------------
class Body:
    """A random function of vectors, the same for the same seed."""

    def __init__(self, seed: float, depth: int = 0) -> None:
        self.seed, self.depth = seed, depth

    def __call__(self, vectors: list[Any], k: Any) -> Any:
        rng = random.Random(self.seed)
        v, w, n = rng.choice(vectors), rng.choice(vectors), vectors[0].shape[0]
        inner = Body(rng.random(), self.depth + 1), Body(rng.random(), self.depth + 1)
        choices = [
            lambda: v * 0.5 + w * 0.25,
            lambda: ops.roll(v, [1], [0]) * 0.5,
            lambda: v.at[k].set(w[k - 1] * 0.5),
            lambda: v.at[k].add(0.25),
            lambda: v.at[0:2].set(w[n - 2 : n] * 0.5),
            lambda: ops.cumsum(v, 0) * 0.1,
            lambda: ops.where(v > 0.3, v * 0.5, w),
            lambda: v - ops.mean(v),
            lambda: w,
            lambda: phix.cond(v[0] > 0, lambda *a: inner[0](a[:2], a[2]),
                              lambda *a: inner[1](a[:2], a[2]), v, w, k),
            lambda: phix.scan(lambda c, _: ((inner[0]([*c], k), inner[1]([*c], k)), None),
                              (v, w), length=2)[0][1],
            lambda: phix.while_loop(lambda c: c[1] < 2, lambda c: (inner[0]([c[0]], k), c[1] + 1),
                                    (v, ops.full([], 0, "int64")))[0],
        ]  # fmt: skip
        return choices[rng.randrange(len(choices) - (3 if self.depth > 1 else 0))]()


@pytest.mark.parametrize("seed", range(24))
def test_random_bodies(seed: int) -> None:
    rng = random.Random(seed)
    size, count = rng.choice([4, 100]), rng.randrange(1, 4)
    bodies = [Body(rng.random()) for _ in range(3)]
    picks = [rng.randrange(count + 4) for _ in range(count + 2)]

    def body(c: Any, x: Any) -> Any:
        *carry, k = c
        made = [*carry, x]
        for one in bodies:
            made.append(one(made, k))
        outs = [made[p] for p in picks]
        return (*outs[:count], k + 1), tuple(outs[count:])

    start = [floats(size) for _ in range(count)]
    check(lambda x, k, *c: phix.scan(body, (*c, k), x), floats(4, size), np.array(0), *start)


# -- boxes of a carry --------------------------------------------------------------------------
def _smoothed(u: Any) -> Any:
    return u.at[1:-1, 1:-1].add(0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))


BOXES: dict[str, Any] = {
    "every element on its own": lambda i, u: u.at[1:-1, 2:].multiply(1.5),
    "every second row": lambda i, u: u.at[::2].add(1.0),
    "a row by the row behind": lambda i, u: u.at[i].add(u[i + 1]),
    "a column": lambda i, u: u.at[:, i].set(u[:, i + 1] * 2.0),
    "a part of a row": lambda i, u: u.at[i, 1:5].set(u[0, 2:6]),
    "a part of two columns": lambda i, u: u.at[2:4, ops.stack([i, i + 1], 0)].set(u[:2, :2]),
    "edges": lambda i, u: u.at[0].set(u[1]).at[-1].set(u[-2]).at[:, 0].set(0.5),
    "backward": lambda i, u: u.at[-2::-3].set(u[::3]),
}


@pytest.mark.parametrize("name", BOXES)
def test_a_part_of_a_carry_is_updated_in_place(name: str) -> None:
    def f(u: Any) -> Any:
        return phix.fori_loop(0, 6, BOXES[name], u)

    u = floats(9, 8)
    check(f, u)
    text = loop_ir(f, phix.spec(u.shape)).split("# steps")[1]
    assert "swap" not in text and f"range({u.size})" not in text, text


@pytest.mark.parametrize("shape", [(9, 8), (3, 3), (2, 5)])
def test_a_stencil_takes_turns_in_two_buffers(shape: tuple[int, int]) -> None:
    def f(u: Any) -> Any:
        return phix.fori_loop(0, 5, lambda _, u: _smoothed(u), u)

    check(f, floats(*shape))
    text = loop_ir(f, phix.spec((9, 8))).split("# steps")[1]
    # the rows of the box in one pass, their ends included
    assert text.count("for i0 in range(7)") == 1 and "swap" in text, text


# body of a loop over vectors -> whether LLVM should leave it without vectors
LANES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "turned": (lambda y: y * ops.roll(y, [1], [0]) * 0.5, True),
    "scalars": (lambda y: ops.concat([y[1:2] * y[0], *[-y[k : k + 1] for k in range(5)]], 0), True),
    "in order": (lambda y: ops.sin(y) + 0.5 * y, False),
    "a sum": (lambda y: y * 0.1 / ops.sum(y * y), False),
    "turned, beside others": (lambda y: ops.roll(ops.cumsum(y) * 0.1, [2], [0]), False),
}


@pytest.mark.parametrize("name", LANES)
def test_small_bodies_that_cross_lanes_stay_scalar(name: str) -> None:
    step, is_scalar = LANES[name]

    def looped(y: Any) -> Any:
        return phix.fori_loop(0, 4, lambda _, y: step(y), y)

    y = floats(6)
    check(looped, y)
    text = phix.jit(looped).lower(y).as_text("llvm")
    (inlined,) = [line for line in text.splitlines() if line.startswith("attributes #3")]
    assert ("noimplicitfloat" in inlined) is is_scalar, text


def test_a_place_that_comes_twice_is_not_updated_in_place() -> None:
    """Two iterations that write one element read it as it was before the loop."""

    def step(i: Any, u: Any) -> Any:
        return u.at[phix.to_tensor([0, 1, 1, 0])].set(u[:4] + u[phix.to_tensor([1, 1, 0, 0])])

    check(lambda u: phix.fori_loop(0, 4, step, u), floats(4))


@pytest.mark.parametrize("steps", [0, 2])
def test_rows_picked_by_computed_places_are_known_outside_too(steps: int) -> None:
    # The picking is cheap, and made where it is read; the sorting comes before all of that.
    def f(x: Any, n: Any) -> Any:
        first = x[ops.argsort(x)[1]]
        second = x[ops.argsort(-x)[1]]
        chosen = phix.cond(n > 1, lambda a: a * 2.0, lambda a: -a, first)
        total = phix.fori_loop(0, n, lambda i, c: c + second[i], 0.0 * phix.ops.sum(x))
        return chosen, total, second * 3.0

    arrays = RNG.normal(size=7), np.asarray(steps)
    ordered = np.sort(arrays[0])
    back = ordered[::-1]
    wanted = (ordered * 2.0 if steps > 1 else -ordered), back[:steps].sum(), back * 3.0
    for found, value in zip(phix.jit(f)(*arrays), wanted):
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-12)


def test_carries_of_a_loop_of_the_host_keep_their_dims() -> None:
    """The Fourier transform runs from Python, and so does the loop around it. What it carries flat
    exchanges its memory with the result, whose dims are others."""

    def looped(x: Any) -> Any:
        def body(carry: Any) -> Any:
            k, flat = carry
            waves = phix.fft.fft2(ops.reshape(flat, [2, 8, 8]))
            inner = ops.reshape(ops.real(phix.fft.ifft2(0.5 * waves)), [-1])
            return k + 1, ops.where(ops.sum(inner) > 0, flat[::-1] * 0.9, inner)

        _, flat = phix.while_loop(lambda c: c[0] < 3, body, (0, ops.reshape(x, [-1])))
        return ops.reshape(flat, x.shape)

    x = np.random.default_rng(0).normal(size=(2, 8, 8))
    want = x.ravel()
    for _ in range(3):
        want = want[::-1] * 0.9 if want.sum() > 0 else 0.5 * want
    np.testing.assert_allclose(phix.jit(looped)(x), want.reshape(x.shape), rtol=1e-12)
