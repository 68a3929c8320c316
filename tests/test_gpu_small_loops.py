"""Loops whose steps are small are one kernel of the GPU; donated arguments give their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import check, compile_all, needs_compiler, program, shapes
from phix import ops
from phix.kernels.gpu import small_loops
from phix.kernels.loops import nodes as ir
from test_donation import PROGRAMS

RNG = np.random.default_rng(0)
pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu small loops"), pytest.mark.unoptimised]


def floats(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def steps_of(made: Any) -> list[str]:
    return [type(s).__name__ for s in ir.walk_steps(made.loops.steps)]


def rnn(w: Any, xs: Any) -> Any:
    return phix.scan(lambda c, x: (ops.tanh(x + ops.matmul(c, w)), ops.sum(c)), xs[0], xs)


def fibonacci(w: Any, xs: Any) -> Any:
    start = ops.sum(xs) * 0
    return phix.fori_loop(0, 10, lambda i, c: (c[1], c[0] + c[1]), (start, start + 1.0))


def doubled(w: Any, xs: Any) -> Any:
    """A while loop inside another."""

    def outer(v: Any) -> Any:
        limit = ops.sum(v) * 0 + 20.0
        return phix.while_loop(lambda u: ops.max(u) < limit, lambda u: u * 2.0 + 1.0, v) + 5.0

    return phix.while_loop(lambda v: ops.sum(v) < 500.0, outer, ops.abs(w))


LOOPS = {
    "recurrent network": rnn,
    "its gradient": lambda w, xs: phix.grad(lambda w: ops.sum(rnn(w, xs)[1]))(w),
    "backward": lambda w, xs: phix.scan(lambda c, x: (c * 0.5 + x, c), xs[0], xs, reverse=True),
    "exchanged carries": fibonacci,
    "while in while": doubled,
    "scan in fori": lambda w, xs: phix.fori_loop(
        0, 5, lambda i, c: phix.scan(lambda c, x: (ops.sin(c) + x * 0.1, c[0]), c, xs)[0], xs[0]
    ),
    "branches": lambda w, xs: phix.scan(
        lambda c, x: (phix.cond(ops.sum(c) > 0, ops.sin, lambda v: ops.cos(v) + x, c), c),
        xs[0], xs,
    ),
    "rows in place": lambda w, xs: phix.fori_loop(
        0, 8, lambda i, c: c.at[i].set(c[i] * 2.0 + ops.sum(c)), w
    ),
    "complex": lambda w, xs: phix.scan(
        lambda c, x: (c * ops.complex(x, x), c), ops.complex(xs[0], xs[1]), xs
    ),
    "a batch": lambda w, xs: phix.vmap(lambda s: rnn(w, xs * s)[0])(ops.sin(w[0])),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_small_steps_is_one_kernel(name: str) -> None:
    made = check(LOOPS[name], floats(8, 8) * 0.4, floats(20, 8), tolerance=2e-4)
    assert steps_of(made) == ["Kernel"] and made.is_recordable


@pytest.mark.parametrize("name", LOOPS)
def test_their_kernels_compile_for_the_gpu(name: str) -> None:
    graph = phix.jit(LOOPS[name]).lower(phix.spec([8, 8]), phix.spec(["n", 8])).graph
    compile_all([program(graph).sections["cuda"]])


def test_carries_and_temps_are_in_shared_memory() -> None:
    made = check(rnn, floats(8, 8) * 0.4, floats(20, 8), tolerance=2e-4)
    (kernel,) = made.loops.steps
    assert kernel.locals and not made.loops.temps
    assert "__shared__ __align__(16) float" in made.sections["cuda"]
    assert made.launcher(((8, 8), (20, 8))).__self__.block_size == 0


@pytest.mark.parametrize("length", [0, 1, 33])
def test_the_number_of_steps_may_be_unknown(length: int) -> None:
    specs = [phix.spec([8, 8]), phix.spec(["n", 8])]
    function = LOOPS["backward"]
    w, xs = floats(8, 8), floats(length + 1, 8)
    assert steps_of(check(function, w, xs, specs=specs)) == ["Kernel"]


def test_inputs_with_strides() -> None:
    for xs in (floats(40, 8)[::2, ::-1], floats(8, 20).T):
        graph = phix.jit(LOOPS["backward"]).lower(floats(8, 8), xs).graph
        w = floats(8, 8)
        found = program(graph, contiguous=False).launcher(shapes([w, xs]))(w, xs)
        for f, e in zip(found, LOOPS["backward"](phix.Tensor(w), phix.Tensor(xs)), strict=True):
            np.testing.assert_allclose(f, np.asarray(e), rtol=1e-5, atol=1e-5)
    vector = floats(20)[::2]
    graph = phix.jit(lambda v: phix.scan(lambda c, x: (c + x, c), v[0], v)).lower(vector).graph
    _, sums = program(graph, contiguous=False).launcher(((10,),))(vector)
    np.testing.assert_allclose(sums[1:], vector[0] + np.cumsum(vector)[:-1], rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: phix.fori_loop(0, 3, lambda i, c: c * 2.0 + 1.0, x),  # a large carry
        lambda x: phix.fori_loop(0, 3, lambda i, c: c @ c, x * 0.01),  # a large product
        lambda x: phix.fori_loop(0, 3, lambda i, c: ops.sort(c, 0), x[:5, 0]),  # a host step
    ],
)
def test_loops_of_large_steps_stay_steps(function: Any) -> None:
    made = check(function, floats(300, 300), tolerance=1e-4)
    assert "ForStep" in steps_of(made)


def test_kernels_beside_a_loop_stay_apart_where_they_are_large() -> None:
    def f(x: Any) -> Any:
        return phix.fori_loop(0, 4, lambda i, c: c * 2.0, ops.sum(ops.sin(x), 1))

    made = check(f, floats(300, 300), tolerance=1e-3)
    assert steps_of(made).count("Kernel") > 1 and "ForStep" not in steps_of(made)


def test_memory_of_a_block_has_an_end() -> None:
    def f(x: Any) -> Any:
        return phix.fori_loop(
            0, 4, lambda i, c: (c[1] * 0.5, c[2] + 1.0, c[0]), (x, x + 1.0, x * 2.0)
        )

    made = check(f, floats(40, 100), tolerance=1e-5)
    (kernel,) = (s for s in made.loops.steps if s.locals or made.loops.temps)
    size = sum(int(n.data) * b.dtype.itemsize for b, n in kernel.locals.items())
    assert size <= small_loops._MOST_SHARED


# -- donation ----------------------------------------------------------------------------------
@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_results_lie_where_a_donated_argument_did(name: str, unknown: bool) -> None:
    function, fits = PROGRAMS[name]
    x, w = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))
    expected = np.asarray(function(phix.Tensor(x.copy()), phix.Tensor(w)))
    like: Any = [phix.spec(["n", "n"], "float64")] * 2 if unknown else (x, w)
    made = program(phix.jit(function).lower(*like).graph)
    launch = made.launcher(shapes([x, w]), (0,))
    for _ in range(3):  # as it comes, recorded, replayed
        given = x.copy()
        (out,) = launch(given, w)
        np.testing.assert_allclose(out, expected, rtol=1e-12)
        # a row that is read as a whole before it is replaced is copied where sizes are known
        if name != "one row, read before":
            assert np.shares_memory(out, given) is fits
    assert not np.shares_memory(made.launcher(shapes([x, w]))(x, w)[0], x)
