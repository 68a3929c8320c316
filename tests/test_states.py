"""States and kernels in the graph: what is chosen, copied, cast and transposed, and how often."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
import proofs
from harness.cases import kind_of, table_cases
from harness.checks import CHECKS
from phix import ops
from phix.core import stages
from phix.core.errors import KernelNotFoundError
from phix.core.graph import graphs_in
from phix.passes.compiled import lower_to_places
from toy_device import FUNCTIONS, toy

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(11)
HALF = [name for number, name in enumerate(sorted(FUNCTIONS)) if number % 2]
WITHOUT = {name: [n for n in FUNCTIONS if n != name] for name in FUNCTIONS}


def test_graphs_are_checked_after_each_pass() -> None:
    """Here and in all tests: their metas are inferred again, so states and copies fit."""
    assert stages.is_verifying()
    seen: list[str] = []
    with stages.watching(lambda stage: seen.append(f"{stage.level}: {stage.name}")):
        phix.jit(lambda x: x * 2.125 + 1.0)(normal(3))
    assert seen[:3] == ["graph: simplify", "graph: decompose", "graph: hoist"]


def normal(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype("float32")


def on(place: str, *arrays: Any) -> Any:
    tensors = [phix.to_tensor(a, place=place) for a in arrays]
    return tensors[0] if len(tensors) == 1 else tensors


def ran(graph: Any) -> list[str]:
    """The ops of a graph's equations in order, those of graphs inside with them."""
    names: list[str] = []
    for e in graph.equations:
        names.append(e.op.name)
        for inner in graphs_in(e.attrs):
            names += ran(inner)
    return names


def close(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    for a, b in zip(phix.tree.leaves(found), phix.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


# -- kernels and their fallbacks -----------------------------------------------------------------
def test_the_text_says_where_and_how() -> None:
    with toy("toy", WITHOUT["tanh"]):
        x = on("toy", normal(2, 3))
        lowered = phix.jit(lambda x, s: ops.tanh(x * s) + 1.0).lower(x, np.float32(2.0))
        assert list(lowered.sections)[:6] == [
            "graph: traced", "graph: simplify", "graph: recognise", "graph: decompose",
            "graph: simplify primitives", "graph: choose kernels",
        ]  # fmt: skip
        assert lowered.as_text("choose kernels").splitlines() == [
            "graph(x: float32[2, 3], s: float32[]) {  # x on toy:0, s on cpu",
            "  a: float32[] = io_copy(s, place=place(toy:0))  # toy:0",
            "  b: float32[2, 3] = multiply(x, a)  # toy:0; TOY, any, float32",
            "  c: float32[2, 3] = io_copy(b, place=place(cpu))  # cpu",
            "  d: float32[2, 3] = tanh(c)  # cpu; CPU, any, float32",
            "  e: float32[2, 3] = io_copy(d, place=place(toy:0))  # toy:0",
            "  f: float32[2, 3] = add(e, 1.0)  # toy:0; TOY, any, float32",
            "  return f",
            "}",
        ]
        assert lowered.as_text("segments").splitlines() == [
            "0: copy s to toy:0, as a",
            "1: on toy:0: multiply",
            "2: copy b to cpu, as c",
            "3: on cpu: tanh",
            "4: copy d to toy:0, as e",
            "5: on toy:0: add",
        ]
        graph = lowered.graph
        assert str(phix.parse_graph(str(graph))) == "\n".join(
            line.partition("  #")[0] for line in str(graph).splitlines()
        )


def test_what_falls_back_in_a_row_stays_there() -> None:
    with toy("toy", WITHOUT["tanh"]) as device:
        x = on("toy", normal(4))
        f = phix.jit(lambda x: ops.tanh(ops.tanh(ops.tanh(x * 2.0))) + x)
        close(f(x), phix.to_tensor(np.tanh(np.tanh(np.tanh(x.numpy() * 2))) + x.numpy()))
        assert device.counted(lambda: f(x)) == {"multiply": 1, "out": 1, "in": 1, "add": 1}


def test_a_value_is_copied_once_for_all_that_ask() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        return ops.tanh(y), ops.tanh(y + 1.0) + ops.tanh(y)

    with toy("toy", WITHOUT["tanh"]) as device:
        x = on("toy", normal(4))
        run = phix.jit(f)
        close(run(x), f(x.to("cpu")))
        counts = device.counted(lambda: run(x))
        assert (counts["out"], counts["in"]) == (2, 2)  # y and y + 1; tanh of either


def test_fallbacks_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with toy("toy", WITHOUT["tanh"]), caplog.at_level(logging.WARNING, "phix.kernels"):
        x = on("toy", normal(4))
        for _ in range(2):
            phix.jit(lambda x: ops.tanh(x) * ops.tanh(x + 1.0))(x)
        assert [r.getMessage().partition("; ")[0] for r in caplog.records] == [
            "tanh has no kernel for (TOY, any, float32)"
        ]


def test_a_wider_dtype_on_the_place_comes_before_another_place() -> None:
    with toy("toy", (n for n in FUNCTIONS if n not in ("cast", "exp"))) as device:
        kernel = phix.kernels.register_kernel
        kernel("cast", "TOY", dtypes=["float16", "float32"])(device.kernel("cast"))
        kernel("exp", "TOY", dtypes="float32")(device.kernel("exp"))
        x = on("toy", normal(5).astype("float16"))
        f = phix.jit(lambda x: ops.exp(x) + ops.exp(x * 2.0))
        wanted = np.exp(x.numpy()) + np.exp(x.numpy() * 2)
        np.testing.assert_allclose(f(x).numpy(), wanted, rtol=2e-3)
        text = f.lower(x).as_text("choose kernels")
        assert "exp(a)  # toy:0; TOY, any, float32" in text and "cpu" not in text
        assert device.counted(lambda: f(x)) == {"cast": 4, "exp": 2, "multiply": 1, "add": 1}
        # no wider dtype has a kernel: the other place
        assert "tanh" in WITHOUT["exp"]
        y = on("toy", normal(5).astype("float64"))
        assert "io_copy" in ran(phix.jit(ops.exp).lower(y).graph)


def test_a_cast_to_the_wider_dtype_is_made_once() -> None:
    names = [n for n in FUNCTIONS if n not in ("cast", "exp", "sin")]
    with toy("toy", names) as device:
        kernel = phix.kernels.register_kernel
        kernel("cast", "TOY", dtypes=["float16", "float32"])(device.kernel("cast"))
        for name in ("exp", "sin"):
            kernel(name, "TOY", dtypes="float32")(device.kernel(name))
        x = on("toy", normal(5).astype("float16"))
        counts = device.counted(lambda: phix.jit(lambda x: ops.exp(x) + ops.sin(x))(x))
        assert counts["cast"] == 3  # of x, and of both results


def test_what_is_made_in_a_wider_dtype_is_cast() -> None:
    names = [n for n in FUNCTIONS if n not in ("full", "slice")]
    with toy("toy", names) as device:
        for name in ("full", "slice"):
            register = phix.kernels.register_kernel(name, "TOY", dtypes="float32")
            register(device.kernel(name))
        x = on("toy", normal(5, 2).astype("float16"))
        f = phix.jit(lambda x: x + ops.full([5, 2], 1.5, "float16"))
        assert f(x).tolist() == (x.numpy() + np.float16(1.5)).tolist()
        assert device.counted(lambda: f(x)) == {"full": 1, "cast": 1, "add": 1}
        # the rows of a scan are in the dtype that its graph takes, or it runs elsewhere
        g = phix.jit(lambda x: phix.scan(lambda c, r: (c + r, c), x[0], x)[0])
        np.testing.assert_allclose(g(x).numpy(), x[0].numpy() + x.numpy().sum(0), rtol=1e-2)
        assert g.lower(x).as_text("choose kernels").count("CPU, any, float16") == 2


def test_no_kernel_anywhere() -> None:
    with toy("toy", WITHOUT["tanh"]), pytest.MonkeyPatch.context() as patch:
        alone = dataclasses.replace(phix.kernels.BACKENDS["TOY"], fallback=None)
        patch.setitem(phix.kernels.BACKENDS, "TOY", alone)
        phix.core.kernel_registry.notify()
        with pytest.raises(KernelNotFoundError, match=r"'tanh' for \(TOY, any, f.*test_states.py"):
            phix.jit(lambda x: ops.tanh(x))(on("toy", normal(4)))


# -- layouts -------------------------------------------------------------------------------------
NHWC = {"conv2d": "NHWC"}


def two_convolutions(x: Any, v: Any, w: Any, b: Any) -> Any:
    h = ops.relu(ops.conv2d(x, v, paddings=(1, 1)) + ops.reshape(b, [-1, 1, 1]))
    return ops.conv2d(h * 0.5, w, paddings=(1, 1))


def images() -> list[np.ndarray]:
    return [normal(2, 3, 5, 4), normal(6, 3, 3, 3), normal(2, 6, 3, 3), normal(6)]


def test_layouts_change_at_the_ends_alone() -> None:
    given = images()
    with toy("toy", layouts=NHWC) as device:
        args = on("toy", *given)
        f = phix.jit(two_convolutions)
        close(f(*args), two_convolutions(*map(phix.to_tensor, given)))
        assert device.counted(lambda: f(*args))["transpose"] == 2
        text = f.lower(*args).as_text("choose kernels")
        assert "toy:0 NHWC; TOY, NHWC, float32" in text and 'data_format="NHWC"' not in text
        assert "relu" not in text and text.count("data_format='NHWC'") == 2
        apart = phix.jit(two_convolutions, disable="keep_layouts")
        close(apart(*args), f(*args))
        assert device.counted(lambda: apart(*args))["transpose"] == 4


def test_a_graph_in_the_layout_of_the_kernels_changes_nothing() -> None:
    x, w = normal(2, 5, 4, 3), normal(2, 3, 3, 3)
    with toy("toy", layouts=NHWC) as device:
        f = phix.jit(lambda x, w: ops.relu(ops.conv2d(x, w, data_format="NHWC")))
        close(f(*on("toy", x, w)), f(x, w))
        assert device.counted(lambda: f(*on("toy", x, w)))["transpose"] == 0


def test_a_kernel_for_the_other_layout() -> None:
    x, w = normal(2, 5, 4, 3), normal(2, 3, 3, 3)
    with toy("toy", layouts={"conv2d": "NCHW"}) as device:
        f = phix.jit(lambda x, w: ops.conv2d(x, w, data_format="NHWC"))
        close(f(*on("toy", x, w)), f(x, w))
        assert device.counted(lambda: f(*on("toy", x, w)))["transpose"] == 2


def residual(x: Any, v: Any, w: Any) -> Any:
    h = ops.relu(ops.conv2d(x, v, paddings=(1, 1)))
    return ops.relu(ops.conv2d(h, w, paddings=(1, 1)) + x)


def test_a_residual_stays_in_the_layout_of_its_branch() -> None:
    given = [normal(2, 3, 5, 4), normal(3, 3, 3, 3), normal(3, 3, 3, 3)]
    with toy("toy", layouts=NHWC) as device:
        f = phix.jit(residual)
        close(f(*on("toy", *given)), residual(*map(phix.to_tensor, given)))
        assert device.counted(lambda: f(*on("toy", *given)))["transpose"] == 2


@pytest.mark.parametrize("dims", [(3,), (3, 1), (1, 3, 1, 1), (5, 1, 4), (3, 5, 4), (1, 1, 1, 1)])
def test_operands_of_every_form_beside_a_changed_layout(dims: tuple[int, ...]) -> None:
    if dims == (3,):  # along the width, which is no channel
        dims = (4,)
    if dims == (3, 1):
        dims = (5, 1)
    if dims == (5, 1, 4):
        dims = (3, 5, 1)
    x, w, b = normal(2, 3, 5, 4), normal(3, 3, 1, 1), normal(*dims)

    def f(x: Any, w: Any, b: Any) -> Any:
        return ops.where(b > 0.0, ops.conv2d(x, w) * b, b)

    with toy("toy", layouts=NHWC):
        close(phix.jit(f)(*on("toy", x, w, b)), f(*map(phix.to_tensor, (x, w, b))))


def test_normalisation_between_convolutions_keeps_the_layout() -> None:
    x, v, w, scale, bias = normal(2, 3, 5, 4), normal(6, 3, 3, 3), normal(2, 6, 3, 3), *normal(2, 6)

    def f(x: Any, v: Any, w: Any, scale: Any, bias: Any) -> Any:
        zeros, ones = ops.full([6], 0.0), ops.full([6], 1.0)
        h = ops.conv2d(x, v, paddings=(1, 1))
        h = ops.batch_norm(h, zeros, ones, scale, bias)
        return ops.conv2d(ops.relu(h[0]), w, paddings=(1, 1)), h[1]

    args = (x, v, w, scale, bias)
    with toy("toy", layouts=NHWC) as device:
        run = phix.jit(f)
        close(run(*on("toy", *args)), f(*map(phix.to_tensor, args)), 1e-4)
        assert device.counted(lambda: run(*on("toy", *args)))["transpose"] == 2


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 2, 3), (2, 3), (1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_of_a_changed_layout(axis: tuple[int, ...], keepdim: bool) -> None:
    x, w = normal(2, 3, 5, 4), normal(3, 3, 1, 1)

    def f(x: Any, w: Any) -> Any:
        h = ops.conv2d(x, w)
        return ops.sum(h, axis, keepdim=keepdim), ops.max(h * 2.0, axis, keepdim=keepdim)

    with toy("toy", layouts=NHWC):
        close(phix.jit(f)(*on("toy", x, w)), f(phix.to_tensor(x), phix.to_tensor(w)))


def test_what_asks_for_its_axes_gets_them() -> None:
    x, w = normal(2, 3, 5, 4), normal(3, 3, 1, 1)

    def f(x: Any, w: Any) -> Any:
        h = ops.tanh(ops.conv2d(x, w))
        return ops.cumsum(h, 1), ops.reshape(h, [2, -1]), h, h + ops.conv2d(h, w)

    with toy("toy", layouts=NHWC) as device:
        run = phix.jit(f)
        close(run(*on("toy", x, w)), f(phix.to_tensor(x), phix.to_tensor(w)))
        assert device.counted(lambda: run(*on("toy", x, w)))["transpose"] == 3  # x, h, the last


def test_layouts_under_unknown_dims_and_derivatives() -> None:
    given = images()

    def loss(x: Any, v: Any, w: Any, b: Any) -> Any:
        return ops.sum(two_convolutions(x, v, w, b) ** 2)

    with toy("toy", layouts=NHWC):
        args = on("toy", *given)
        close(phix.jit(phix.grad(loss, argnums=(0, 1, 3)))(*args),
              phix.grad(loss, argnums=(0, 1, 3))(*map(phix.to_tensor, given)), 1e-4)  # fmt: skip
        specs = [phix.spec(["n", 3, "h", "w"])] + [phix.spec(a.shape) for a in given[1:]]
        f = phix.jit(two_convolutions, input_spec=specs)
        for dims in ((2, 3, 5, 4), (1, 3, 7, 6)):
            x = normal(*dims)
            close(f(on("toy", x), *args[1:]), two_convolutions(phix.to_tensor(x), *given[1:]))
        assert f.trace_count == 1


# -- what is made before the program runs ----------------------------------------------------------
def test_weights_closed_over_are_brought_into_their_state_once() -> None:
    given = images()
    weights = [phix.to_tensor(a) for a in given[1:]]
    with toy("toy", layouts={"conv2d": "NHWC"}) as device:
        f = phix.jit(lambda x: two_convolutions(x, *weights))
        x = on("toy", given[0])
        f(x)
        counts = device.counted(lambda: [f(x) for _ in range(3)])
        assert (counts["in"], counts["out"], counts["transpose"], counts["conv2d"]) == (0, 0, 6, 6)


def test_casts_of_constants_are_made_once() -> None:
    w = phix.to_tensor(normal(5, 5).astype("float16"))
    names = [n for n in FUNCTIONS if n != "matmul"]
    with toy("toy", names) as device:
        phix.kernels.register_kernel("matmul", "TOY", dtypes="float32")(device.kernel("matmul"))
        f = phix.jit(lambda x: ops.matmul(x, w))
        x = on("toy", normal(3, 5).astype("float16"))
        f(x)
        assert device.counted(lambda: f(x)) == {"cast": 2, "matmul": 1}  # of x and of the result


@pytest.mark.parametrize("looping", ["scan", "while", "nested", "branch"])
def test_casts_of_what_a_loop_does_not_change_go_out(looping: str) -> None:
    def step(c: Any, w: Any) -> Any:
        return ops.matmul(c, w) * 0.25

    def f(x: Any, w: Any) -> Any:
        if looping == "scan":
            return phix.scan(lambda c, _: (step(c, w), None), x, None, length=4)[0]
        if looping == "while":
            body = lambda c: (c[0] + 1, step(c[1], w))  # noqa: E731
            return phix.while_loop(lambda c: c[0] < 4, body, (0, x))[1]
        if looping == "nested":
            return phix.fori_loop(
                0, 2, lambda i, c: phix.fori_loop(0, 2, lambda i, c: step(c, w), c), x
            )
        return phix.fori_loop(
            0, 4, lambda i, c: phix.cond(i < 9, lambda c: step(c, w), lambda c: c, c), x
        )

    names = [n for n in FUNCTIONS if n != "matmul"]
    x, w = normal(3, 5).astype("float16"), normal(5, 5).astype("float16")
    with toy("toy", names) as device:
        phix.kernels.register_kernel("matmul", "TOY", dtypes="float32")(device.kernel("matmul"))
        run = phix.jit(f)
        args = on("toy", x, w)
        wanted = x.astype("f")
        for _ in range(4):
            wanted = (wanted @ w.astype("f")).astype("float16").astype("f") * 0.25
        np.testing.assert_allclose(run(*args).numpy(), wanted, rtol=2e-2, atol=1e-3)
        counts = device.counted(lambda: run(*args))
        each = 3 if looping == "branch" else 2  # carry, result, and the condition as a number
        assert (counts["cast"], counts["matmul"]) == (1 + each * 4, 4)
        apart = device.counted(lambda: phix.jit(f, disable="hoist")(*args))
        assert apart["cast"] == (each + 1) * 4


def test_layouts_of_filters_and_views_leave_loops() -> None:
    def f(x: Any, w: Any) -> Any:
        step = lambda c, _: (ops.tanh(ops.matmul(c, ops.transpose(w, [1, 0]))), None)  # noqa: E731
        return phix.scan(step, x, None, length=4)[0]

    x, w = normal(3, 5), normal(5, 5)
    with toy("toy") as device:
        run = phix.jit(f)
        close(run(*on("toy", x, w)), f(phix.to_tensor(x), phix.to_tensor(w)))
        assert device.counted(lambda: run(*on("toy", x, w)))["transpose"] == 1
    (loop,) = [e for e in phix.jit(f).lower(x, w).graph.equations if e.op.has_graphs]
    assert "transpose" in ran(loop.attrs[0])  # on the CPU the product takes it as it lies


def test_single_values_of_the_host_are_copied_once() -> None:
    with toy("toy") as device:
        f = phix.jit(lambda x, s: x * s)
        x = on("toy", normal(3))
        f(x, phix.to_tensor(2.0))
        assert device.counted(lambda: f(x, phix.to_tensor(2.0))) == {"multiply": 1}


def test_autocast_casts_the_weights_of_a_loop_once() -> None:
    w = normal(6, 6)

    def f(x: Any, w: Any) -> Any:
        return phix.scan(lambda c, _: (ops.tanh(ops.matmul(c, w)), None), x, None, length=3)[0]

    graph = phix.jit(phix.autocast(f)).lower(normal(5, 6), w).graph
    (loop,) = [e for e in graph.equations if e.op.has_graphs]
    assert ran(graph).count("cast") == 3 and ran(loop.attrs[0]).count("cast") == 2  # of the carry
    assert len(loop.inputs[2]) == 1 and str(loop.inputs[2][0].meta.dtype) == "bfloat16"


def test_a_loop_falls_back_as_a_whole() -> None:
    def f(x: Any) -> Any:
        return phix.scan(lambda c, r: (ops.tanh(c + r), c * r), x[0], x)

    with toy("toy", WITHOUT["tanh"]) as device:
        x = on("toy", normal(5, 3))
        run = phix.jit(f)
        close(run(x), f(x.to("cpu")))
        counts = device.counted(lambda: run(x))
        assert (counts["out"], counts["in"], counts["multiply"]) == (2, 2, 0)
        assert {str(y.place) for y in run(x)} == {"toy:0"}


# -- the GPU, whose graphs need none -------------------------------------------------------------
def test_attention_is_kept_whole_for_the_gpu() -> None:
    gpu, q = phix.Place("gpu"), phix.spec([2, 8, 4])
    graph = phix.make_graph(lambda q, k, v: ops.softmax(ops.matmul(q, k, False, True), -1) @ v)(
        q, q, q
    )
    assert ran(lower_to_places(graph, (gpu,) * 3, gpu)["hoist"]) == ["attention"]


# -- the op table on half a device ---------------------------------------------------------------
CASES = {case.op.name: case for case in table_cases() if "elsewhere" not in case.test}


@pytest.fixture(scope="module")
def half() -> Iterator[None]:
    """Every second kernel, in one dtype of a kind, convolutions for the other layout."""
    dtypes = ["bool", "int64", "uint32", "float32", "float64", "complex128"]
    with toy("half", HALF, dtypes, {"conv2d": "NHWC"}):
        yield


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", proofs.thinned(CASES, lambda name: kind_of(CASES[name])))
def test_op_table(name: str, half: None, seed: int) -> None:
    """Values against the references, whatever kernels are missing."""
    case = dataclasses.replace(CASES[name], seed=seed)
    if "forward" not in case.skip:
        with phix.device("half"):
            CHECKS["forward"](case)
