"""Kernels that call kernels: PHI's ``LinearKernel``, a product and then a sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where, array_of
from phix import ops
from phix.core.errors import KernelError, KernelNotFoundError, UnknownOpError
from phix.core.kernel_context import KernelContext

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
X, W, B = (RNG.standard_normal(s).astype("f") for s in ((3, 4), (4, 5), (5,)))


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest) -> Iterator[Where]:
    with phix.scoped_registries(), kernel_places.there(request.param) as found:
        yield found


def linear(ctx: Any, x: Any, weight: Any, bias: Any, out: Any) -> None:
    matmul = phix.kernels.find("matmul", ctx.place, x.dtype)
    add = phix.kernels.find("add", ctx.place, x.dtype)
    product = ctx.alloc(out.shape, out.dtype)
    matmul(ctx, x, weight, False, False, product)
    add(ctx, product, bias, out)


RUNS = {
    "eager": lambda f: f,
    "jit": lambda f: phix.jit(lambda *xs: f(*xs) * 1.0),
    "unknown dims": lambda f: phix.jit(
        f, input_spec=[phix.spec(["n", "k"]), phix.spec(["k", "m"]), phix.spec(["m"])]
    ),
    "loop": lambda f: phix.jit(
        lambda *xs: phix.fori_loop(0, 2, lambda i, c: f(*xs) + 0.0 * c, f(*xs))
    ),
}


@pytest.mark.parametrize("how", RUNS)
def test_a_product_and_then_a_sum(where: Where, how: str) -> None:
    calls: list[Any] = []

    def noted(*args: Any) -> None:
        calls.append(args)
        linear(*args)

    phix.kernels.register_kernel("linear", where.backend, dtypes="float")(noted)
    run, args = RUNS[how](ops.linear), [where.tensor(a) for a in (X, W, B)]
    for _ in range(2):
        found = run(*args)
        assert found.place.kind == where.name
        np.testing.assert_allclose(found, X @ W + B, rtol=1e-5, atol=1e-6)
    assert calls


def test_gradients_and_batches_of_it(where: Where) -> None:
    phix.kernels.register_kernel("linear", where.backend, dtypes="float")(linear)
    x, w, b = (where.tensor(a) for a in (X, W, B))
    for make in (lambda f: f, phix.jit):
        slope = make(phix.grad(lambda x: ops.linear(x, w, b).sum()))(x)
        np.testing.assert_allclose(slope, np.broadcast_to(W.sum(1), X.shape), rtol=1e-5)
        rows = make(phix.vmap(lambda r: ops.linear(r[None], w, b)))(x)
        np.testing.assert_allclose(rows[:, 0], X @ W + B, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op, attrs, wanted", [
    ("exp", (), np.exp(X)), ("softmax", (1,), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    ("transpose", ((1, 0),), X.T), ("sum", ((0,), None, False), X.sum(0)),
    ("argsort", (1, False, True), (np.sort(X, 1), np.argsort(X, 1, kind="stable"))),
])  # fmt: skip
def test_kernels_of_every_kind_fill_their_outputs(
    where: Where, op: str, attrs: Any, wanted: Any
) -> None:
    """Registered ones, code of engines, composites."""
    function = phix.kernels.find(op, where.name, "float32")
    x = where.tensor(X)
    ctx, results = KernelContext(x.place), wanted if isinstance(wanted, tuple) else (wanted,)
    outs = [ctx.alloc(r.shape, r.dtype) for r in results]
    function(ctx, x.data, *attrs, *outs)
    for out, result in zip(outs, results):
        np.testing.assert_allclose(array_of(out), result, rtol=1e-5)


def test_what_a_place_lacks_is_found_elsewhere() -> None:
    with phix.scoped_registries(), kernel_places.there("npu") as where:
        phix.kernels.unregister_kernel("exp", "NPU")
        function = phix.kernels.find("exp", "npu", "float32")
        assert function.key is not None and function.key.backend == "CPU"
        x = where.tensor(X)
        out = KernelContext(x.place).alloc((3, 4), "float32")
        function(KernelContext(x.place), x.data, out)
        np.testing.assert_allclose(array_of(out), np.exp(X), rtol=1e-6)


def test_kernels_with_states_get_what_they_ask(where: Where) -> None:
    def gather(ctx: Any, x: Any, index: Any, axis: int, out: Any) -> None:
        array_of(out)[...] = np.take(array_of(x), index.tolist(), axis)

    def states(kernel: Any) -> None:
        kernel.input("index").place = "cpu"

    if where.name == "npu":
        phix.kernels.unregister_kernel("gather", "NPU")
    register = phix.kernels.register_kernel
    register("gather", where.backend, dtypes="float32", states=states)(gather)
    x, index = where.tensor(X), where.tensor(np.array([2, 0]))
    ctx = KernelContext(x.place)
    out = ctx.alloc((2, 4), "float32")
    phix.kernels.find("gather", ctx.place, "float32")(ctx, x.data, index.data, 0, out)
    np.testing.assert_array_equal(array_of(out), X[[2, 0]])


def test_a_kernel_in_front_of_the_one_it_calls(where: Where) -> None:
    """With the library named, it does not find itself."""
    backend = phix.kernels.add_library(where.name, "louder").name
    own = "npu" if where.name == "npu" else "phix"

    @phix.kernels.register_kernel("tanh", backend, dtypes="float32")
    def tanh(ctx: Any, x: Any, out: Any) -> None:
        half = ctx.alloc(x.shape, x.dtype)
        phix.kernels.find("tanh", ctx.place, x.dtype, library=own)(ctx, x, half)
        phix.kernels.find("add", ctx.place, x.dtype)(ctx, half, half, out)

    for run in (ops.tanh, phix.jit(ops.tanh), phix.jit(lambda x: ops.tanh(x) * 1.0)):
        np.testing.assert_allclose(run(where.tensor(X)), 2 * np.tanh(X), rtol=1e-6)


@phix.device("cpu")
def test_wrong_calls() -> None:
    find, ctx = phix.kernels.find, KernelContext(phix.Place("cpu"))
    with pytest.raises(KernelError, match=r"takes \(ctx, x, y, out\), found 2 arguments after ctx"):
        find("add", "cpu", "float32")(ctx, X, X)
    with pytest.raises(UnknownOpError, match="did you mean"):
        find("addd", "cpu", "float32")
    with pytest.raises(phix.errors.ArgumentError, match="find: no library 'nope'"):
        find("add", "cpu", "float32", library="nope")
    with pytest.raises(KernelNotFoundError, match="'softmax' is a composite and has no kernel"):
        find("softmax", phix.kernels.KernelKey("CPU", "any", np.dtype("float32")))
    with pytest.raises(phix.errors.DTypeError, match=r"find: the dtype .* found None"):
        find("add", "cpu")
    with phix.scoped_registries():
        phix.kernels.register_kernel("tanh", "NUMPY")(
            lambda ctx, x, out: find("tanh", ctx.place, x.dtype)(ctx, x, out)
        )
        with pytest.raises(KernelError, match="RecursionError"):
            ops.tanh(X)
    np.testing.assert_allclose(ops.tanh(X), np.tanh(X), rtol=1e-6)
