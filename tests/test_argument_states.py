"""Kernels that ask for single arguments in another place, dtype or layout than their key says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where, array_of
from phix import ops
from phix.core import stages
from phix.core.errors import KernelRegistrationError
from phix.core.kernel_selection import lookup
from phix.passes.check import _check_states, check

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest) -> Iterator[Where]:
    with phix.scoped_registries(), kernel_places.there(request.param) as found:
        yield found


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph on its way is looked at, whether it is well-formed and as kernels ask."""
    made = stages.made

    def looked_at(kind: str, name: str, make: Any) -> Any:
        found = made(kind, name, make)
        if kind == stages.GRAPH:
            check(found)
        return found

    monkeypatch.setattr(stages, "made", looked_at)


def replace_kernel(where: Where, op: str, function: Any, **how: Any) -> None:
    """One kernel in place of those that the place has."""
    if any(k.backend == where.backend for k in phix.core.kernel_registry.KERNELS.get(op, ())):
        phix.kernels.unregister_kernel(op, where.backend)
    phix.kernels.register_kernel(op, where.backend, **how)(function)


# -- places ------------------------------------------------------------------------------------
@pytest.fixture
def rows(where: Where) -> list[Any]:
    """A gather whose indices the host reads; it notes the classes of what it gets."""
    seen: list[Any] = []

    def gather(ctx: Any, x: Any, index: Any, axis: int, out: Any) -> None:
        seen.append((type(x), type(index), str(ctx.place)[:3]))
        array_of(out)[...] = np.take(array_of(x), index.tolist(), axis)  # of arrays alone

    def states(kernel: Any) -> None:
        kernel.input(1).place = "cpu"

    replace_kernel(where, "gather", gather, dtypes="float", states=states)
    return seen


X, INDEX = RNG.standard_normal((5, 3)).astype("f"), np.array([4, 0, 2, 2], "int32")


def gathered(x: Any, index: Any) -> Any:
    return ops.gather(x, index, 0)


RUNS = {
    "eager": lambda f: f,
    "jit": lambda f: phix.jit(lambda x, i: f(x * 1.0, i + 0) + 0.0),
    "unknown dims": lambda f: phix.jit(
        f, input_spec=[phix.spec(["n", "m"]), phix.spec(["k"], "int32")]
    ),
    "loop": lambda f: phix.jit(
        lambda x, i: phix.fori_loop(0, 2, lambda k, c: f(x, i) + c * 0.0, f(x, i))
    ),
}


@pytest.mark.parametrize("how", RUNS)
def test_indices_of_the_host(where: Where, rows: list[Any], how: str) -> None:
    found = RUNS[how](gathered)(where.tensor(X), where.tensor(INDEX))
    assert found.place.kind == where.name
    np.testing.assert_array_equal(found, X[INDEX])
    storage = type(where.tensor(X).data)
    assert set(rows) == {(storage, np.ndarray, where.name)}


def test_gradients_and_batches(where: Where, rows: list[Any]) -> None:
    x, index = where.tensor(X), where.tensor(INDEX)
    for make in (lambda f: f, phix.jit):
        slope = make(phix.grad(lambda x: (gathered(x, index) ** 2.0).sum()))(x)
        wanted = np.zeros_like(X)
        np.add.at(wanted, INDEX, 2 * X[INDEX])
        np.testing.assert_allclose(slope, wanted, rtol=1e-6)
        batch = make(phix.vmap(lambda i: gathered(x, i[None])))(index)
        np.testing.assert_array_equal(batch, X[INDEX][:, None])
    assert rows


def test_the_copy_is_made_by_the_program(where: Where, rows: list[Any]) -> None:
    """Once for all who ask, in front of a loop; constants when the program is made."""
    x, index = where.tensor(X), where.tensor(INDEX)

    def twice(x: Any, i: Any) -> Any:
        return gathered(x, i) + gathered(x * 2.0, i) + gathered(x, INDEX)

    lowered = phix.jit(twice).lower(x, index)
    text = lowered.as_text("choose kernels")
    assert text.count("io_copy") == (0 if where.name == "cpu" else 1)
    np.testing.assert_allclose(phix.jit(twice)(x, index), 4 * X[INDEX], rtol=1e-6)
    if where.name != "cpu":
        assert "arguments elsewhere: gather" in lowered.as_text("segments")
        assert "gather" in str(lowered.cost_analysis())


def test_results_on_the_host(where: Where) -> None:
    """The indices of topk come as the host's memory, and go back where they are used."""
    seen: list[Any] = []

    def topk(ctx: Any, x: Any, k: int, axis: int, *rest: Any) -> None:
        out, indices = rest[-2:]
        seen.append((type(out), type(indices)))
        order = np.argsort(-array_of(x), axis, kind="stable").take(range(k), axis)
        indices[...] = order
        array_of(out)[...] = np.take_along_axis(array_of(x), order, axis)

    def states(kernel: Any) -> None:
        kernel.output("indices").place = "cpu"
        kernel.output(1).dtype = "int32"

    replace_kernel(where, "topk", topk, dtypes="float", states=states)
    x = where.tensor(X)
    wanted = np.argsort(-X, 0)[:2]
    for make in (lambda f: f, phix.jit, lambda f: phix.jit(f, input_spec=[phix.spec(["n", 3])])):
        values, indices = make(lambda x: ops.topk(x, 2, 0))(x)
        assert {values.place.kind, indices.place.kind} == {where.name}
        assert indices.dtype == np.int64
        np.testing.assert_array_equal(indices, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(X, wanted, 0))
    slope = phix.grad(lambda x: ops.topk(x, 2, 0)[0].sum())(x)
    assert slope.numpy().sum() == 6
    assert {s[1] for s in seen} == {np.ndarray} and seen[0][0] is type(x.data)


# -- dtypes ------------------------------------------------------------------------------------
def test_a_dtype_that_holds_what_is_given_is_cast_to(where: Where) -> None:
    seen: list[Any] = []

    def gather(ctx: Any, x: Any, index: Any, axis: int, out: Any) -> None:
        seen.append(index.dtype)
        array_of(out)[...] = np.take(array_of(x), array_of(index), axis) + 100

    def states(kernel: Any) -> None:
        kernel.input("index").dtype = "int64"

    replace_kernel(where, "gather", gather, dtypes="float32", states=states)
    x = where.tensor(X)
    for make in (lambda f: f, phix.jit):
        for dtype in ("int32", "int64"):
            index = where.tensor(INDEX.astype(dtype))
            np.testing.assert_array_equal(make(gathered)(x, index), X[INDEX] + 100)
    assert set(seen) == {np.dtype("int64")}


def test_a_dtype_that_does_not_hold_it_is_left_to_another_kernel(where: Where) -> None:
    def gather(ctx: Any, x: Any, index: Any, axis: int, out: Any) -> None:
        assert index.dtype == np.int32
        array_of(out)[...] = np.take(array_of(x), array_of(index), axis) + 100

    def states(kernel: Any) -> None:
        kernel.input("index").dtype = "int32"

    replace_kernel(where, "gather", gather, dtypes="float32", states=states)
    x = where.tensor(X)
    for make in (lambda f: f, phix.jit):
        narrow, wide = where.tensor(INDEX), where.tensor(INDEX.astype("int64"))
        np.testing.assert_array_equal(make(gathered)(x, narrow), X[INDEX] + 100)
        np.testing.assert_array_equal(make(gathered)(x, wide), X[INDEX])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_wider_dtype_of_inputs_and_outputs(where: Where, dtype: str) -> None:
    """float64 is a dtype as others: to NumPy, it equals None."""
    seen: list[Any] = []

    def sinh(ctx: Any, x: Any, out: Any) -> None:
        seen.append((str(x.dtype), str(out.dtype)))
        array_of(out)[...] = array_of(x) + 100

    def states(kernel: Any) -> None:
        kernel.input(0).dtype = kernel.output(0).dtype = dtype

    key = "float32" if dtype == "float64" else "complex64"
    replace_kernel(where, "sinh", sinh, dtypes=key, states=states)
    for make in (lambda f: f, phix.jit):
        found = make(ops.sinh)(where.tensor(X.astype(key)))
        assert found.dtype == key
        np.testing.assert_array_equal(found, X.astype(key) + 100)
    assert set(seen) == {(dtype, dtype)}


def test_what_is_asked_is_looked_at_for_float64_too(where: Where) -> None:
    """The check of graphs tells an argument that is not float64 where its kernel asks that."""

    def states(kernel: Any) -> None:
        kernel.input(0).dtype = "float64"

    replace_kernel(where, "sinh", lambda *args: None, dtypes="float32", states=states)
    key = phix.kernels.KernelKey(where.backend, "any", phix.float32)
    kernel = lookup("sinh", key)
    assert kernel is not None
    graph = phix.make_graph(ops.sinh)(phix.spec([2], "float32"))
    with pytest.raises(phix.errors.GraphError, match="not as its kernel asks"):
        _check_states(graph.equations[0], kernel)


TABLE = """
- op: centred
  args: (Tensor x, Tensor weight, float epsilon = 1e-5)
  output: Tensor(out), Tensor(mean)
  infer_meta: {func: CentredInferMeta}
  kernel: {func: centred, data_type: x}
"""


def test_weights_of_int8_and_statistics_of_float32(where: Where, tmp_path: Path) -> None:
    """A float16 op with a place for int8 weights, whose mean the kernel gives in float32."""
    (tmp_path / "ops.yaml").write_text(TABLE)
    phix.core.rules.infer_meta("CentredInferMeta")(lambda x, w, e: (x, x.with_dims(x.dims[:1])))
    centred_op = phix.load_ops(tmp_path / "ops.yaml").centred
    seen: list[Any] = []

    def centred(ctx: Any, x: Any, w: Any, epsilon: float, out: Any, mean: Any) -> None:
        seen.append((str(x.dtype), str(w.dtype), str(out.dtype), str(mean.dtype)))
        wide = array_of(x).astype("f")
        array_of(mean)[...] = wide.mean(1)
        array_of(out)[...] = (wide - wide.mean(1, keepdims=True)) * array_of(w)

    def states(kernel: Any) -> None:
        kernel.input("weight").dtype = "int8"
        if kernel.key.dtype == np.float16:
            kernel.output("mean").dtype = "float32"

    register = phix.kernels.register_kernel
    register("centred", where.backend, dtypes=["float16", "float32"], states=states)(centred)
    x, w = (RNG.standard_normal((3, 8)) * 3).astype("float16"), np.arange(8, dtype="int8")
    wide = x.astype("d")
    wanted = (wide - wide.mean(1, keepdims=True)) * w
    for make in (lambda f: f, phix.jit):
        for dtype in ("float16", "float32"):
            out, mean = make(centred_op)(where.tensor(x.astype(dtype)), where.tensor(w))
            assert out.dtype == mean.dtype == dtype
            np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-2)
            np.testing.assert_allclose(mean, wide.mean(1), rtol=2e-3, atol=1e-3)
        with pytest.raises(phix.errors.KernelNotFoundError, match="centred"):
            make(centred_op)(where.tensor(x), where.tensor(w.astype("float16")))
    assert set(seen) == {
        ("float16", "int8", "float16", "float32"), ("float32", "int8", "float32", "float32"),
    }  # fmt: skip


# -- layouts -----------------------------------------------------------------------------------
@pytest.mark.parametrize("filters", ["NHWC", None])
@pytest.mark.parametrize("own", ["NHWC", "NCHW"])
def test_filters_in_a_layout_of_their_own(where: Where, own: str, filters: str | None) -> None:
    """Images as the key says, filters as their own state says: out, in, rows, columns, or with the
    inputs last."""
    seen: list[Any] = []

    def conv2d(ctx: Any, x: Any, w: Any, *rest: Any) -> None:
        assert rest[-2] == own
        seen.append((tuple(x.shape), tuple(w.shape)))
        images, kernel, out = array_of(x), array_of(w), array_of(rest[-1])
        images = np.moveaxis(images, 3, 1) if own == "NHWC" else images
        kernel = np.moveaxis(kernel, 3, 1) if filters else kernel
        seen_by = np.lib.stride_tricks.sliding_window_view(images, kernel.shape[2:], (2, 3))
        found = np.einsum("ncyxij,ocij->noyx", seen_by, kernel)
        out[...] = np.moveaxis(found, 1, 3) if own == "NHWC" else found

    def states(kernel: Any) -> None:
        kernel.input("filter").layout = filters

    replace_kernel(where, "conv2d", conv2d, layout=own, dtypes="float", states=states)
    x, w = RNG.standard_normal((2, 3, 6, 5)).astype("f"), RNG.standard_normal((4, 3, 2, 3))
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))
    wanted = np.einsum("ncyxij,ocij->noyx", windows, w)
    for data_format in ("NCHW", "NHWC"):

        def convolved(x: Any, w: Any, data_format: str = data_format) -> Any:
            return ops.conv2d(x, w, data_format=data_format) * 1.0

        images = x if data_format == "NCHW" else np.moveaxis(x, 1, 3)
        target = wanted if data_format == "NCHW" else np.moveaxis(wanted, 1, 3)
        for make in (lambda f: f, phix.jit):
            found = make(convolved)(where.tensor(images.copy()), where.tensor(w.astype("f")))
            np.testing.assert_allclose(found, target, rtol=1e-4, atol=1e-5)
    images = (2, 3, 6, 5) if own == "NCHW" else (2, 6, 5, 3)
    assert set(seen) == {(images, (4, 2, 3, 3) if filters else (4, 3, 2, 3))}


# -- registering -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "op, declare, text",
    [
        ("sinh", lambda k: setattr(k.input(1), "place", "cpu"), "no input 1; there are x"),
        ("sinh", lambda k: setattr(k.output("y"), "place", "cpu"), "no output 'y'; there are out"),
        ("sinh", lambda k: setattr(k.input(0), "place", "tpu"), "no place 'tpu' for x; there are"),
        ("sinh", lambda k: setattr(k.input(0), "layout", "WHC"), "no layout 'WHC' for x; there"),
        ("sinh", lambda k: setattr(k.input(0), "dtype", "float7"), "x: .*float7"),
        ("cast", lambda k: setattr(k.input(0), "place", "cpu"), "no states of its own"),
    ],
)
def test_states_are_checked(op: str, declare: Any, text: str) -> None:
    with pytest.raises(KernelRegistrationError, match=text):
        phix.kernels.register_kernel(op, "CPU", states=declare)(lambda *args: None)
    with pytest.raises(phix.errors.UnknownNameError, match=r"no 'dytpe' .*did you mean dtype"):
        phix.kernels.register_kernel(
            "sinh", "CPU", states=lambda k: setattr(k.input(0), "dytpe", "float32")
        )(lambda *args: None)
    assert not [k for k in phix.core.kernel_registry.KERNELS.get(op, ()) if k.backend == "CPU"]
