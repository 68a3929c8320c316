"""The GPU engine on a GPU, against the CPU engine; skipped where there is none.

Nothing here has an emulation: what a card and its libraries do differently shows here alone.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nccl_library
import phix
from gpu_programs import shapes
from harness.cases import Case, table_cases
from harness.checks import assert_close, dtypes_of
from loaded_ops import loading
from phix import ops
from phix.core.engines import engine
from phix.core.errors import DeviceError
from phix.core.graph import Graph
from phix.kernels.gpu import ENGINE, device, nccl
from phix.kernels.gpu.cublas import WORKSPACE
from phix.kernels.gpu.products import SIDE_BY_SIDE
from random_programs import draw_program, seeded
from tests import random_graphs, random_networks
from tests.test_control_flow import CASES as LOOPS

# steps between ranks, and of what: one rank has its own back
ONE_RANK = {
    "sum": (), "gather": (0,), "rows": (0,), "scatter": (0,), "exchange": (0, 0), "permute": (0, 0),
}  # fmt: skip


def _put_together(left: Any, values: Any, right: Any) -> tuple[Any, ...]:
    """What a decomposition determines: signs of its vectors are free, and which they are where
    values are equal. Their products with each other are those of the identity."""
    count = values.shape[-1]
    whole = (left[..., :count] * values[..., None, :]) @ right[..., :count, :]
    return values, whole, left.conj().swapaxes(-1, -2) @ left, right @ right.conj().swapaxes(-1, -2)


def _of_eigh(w: Any, v: Any) -> tuple[Any, ...]:
    return _put_together(v, w, v.conj().swapaxes(-1, -2)) if v.size else (w, v)


SETTLED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "svd": _put_together, "eigh": _of_eigh, "eigvalsh": _of_eigh,
}  # fmt: skip
CASES = {c.op.name: c for c in table_cases() if "elsewhere" not in c.test}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not device.DEVICE.count(), reason=f"no GPU: {device.DEVICE.problem()}"),
    pytest.mark.xdist_group("gpu"),
]


def on_gpu(graph: Graph, arrays: Any, calls: int = 1) -> list[np.ndarray]:
    """The outputs of a graph, computed by the GPU, of the last of several calls."""
    runtime = device.runtime()
    launch = ENGINE.compile(graph, (True,) * len(arrays)).launcher(shapes(arrays))
    inputs = [runtime.upload(a) for a in arrays]
    for _ in range(calls):
        outputs = launch(*inputs)
    return [runtime.download(o) for o in outputs]


def on_cpu(graph: Graph, arrays: Any) -> tuple[np.ndarray, ...]:
    made = engine("cpu").compile(graph, (True,) * len(arrays))
    return made.launcher(shapes(arrays))(*[np.asarray(a, order="C") for a in arrays])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_table_in_every_dtype(case: Case) -> None:
    for call in case.sweep():
        graph = phix.jit(call.fn).lower(*call.arrays).graph
        found, wanted = on_gpu(graph, call.arrays), on_cpu(graph, call.arrays)
        assert [f.dtype for f in found] == [w.dtype for w in wanted], call
        settled = SETTLED.get(case.op.name, lambda *outputs: outputs)
        tolerance = case.tolerance(*dtypes_of(call, wanted))
        assert_close(settled(*found), settled(*wanted), tolerance)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_and_their_gradients(seed: int) -> None:
    rng = seeded(seed)
    drawn = draw_program(rng)
    arrays = [rng.normal(size=s) * 0.8 for s in drawn.shapes]
    for function in (drawn, phix.grad(lambda *x: ops.sum(drawn(*x)))):
        graph = phix.jit(function).lower(*arrays).graph
        for f, w in zip(on_gpu(graph, arrays), on_cpu(graph, arrays)):
            np.testing.assert_allclose(f, w, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(32))
def test_random_networks(seed: int) -> None:
    """Trained, transformed, donated and of unknown sizes, beside NumPy: see random_networks.py."""
    with phix.device("gpu"):
        outcome = random_networks.run_draw(seed)
    assert not outcome.error, outcome.report()


@pytest.mark.parametrize("seed", range(64))
def test_random_graphs(seed: int) -> None:
    with phix.device("gpu"):
        outcome = random_graphs.run_draw(seed)
    assert not outcome.error, outcome.error


def test_a_recorded_program_gives_what_the_first_call_gave() -> None:
    x, w = (np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) for _ in "xw")
    graph = phix.jit(lambda x, w: ops.softmax(ops.tanh(x @ w) @ w)).lower(x, w).graph
    (first,), (later,) = on_gpu(graph, [x, w]), on_gpu(graph, [x, w], calls=5)
    assert first.tobytes() == later.tobytes()


@pytest.mark.parametrize("axis", [(), (0,), (1,)])
def test_sums_are_the_same_on_every_run(axis: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3000, 2000)).astype(np.float32)
    graph = phix.jit(lambda x: ops.sum(x, axis)).lower(x).graph
    runs = {on_gpu(graph, [x])[0].tobytes() for _ in range(5)}
    assert len(runs) == 1


@pytest.mark.parametrize("how", ["eager", "known", "unknown"])
def test_long_sums_keep_their_digits(how: str) -> None:
    rng, spec = np.random.default_rng(0), [phix.spec(["n"])] if how == "unknown" else None
    for f in (lambda x: ops.sum(x, [0]), lambda x: ops.cumsum(x, 0)[-1]):
        run = f if how == "eager" else phix.jit(f, input_spec=spec)
        for x in (np.full(40_000_000, 0.1, np.float32), rng.random(40_000_000, np.float32)):
            found = run(phix.to_tensor(x, place="gpu")).item()
            assert found == pytest.approx(x.sum(dtype=np.float64), rel=1e-6)


def test_precision_of_float32_products() -> None:
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    graph = phix.jit(lambda x: x @ x).lower(x).graph
    wanted = x.astype(np.float64) @ x
    errors = {}
    try:
        for precision in ("highest", "high"):
            phix.set_matmul_precision(precision)
            errors[precision] = np.abs(on_gpu(graph, [x])[0] - wanted).max()
    finally:
        phix.set_matmul_precision("highest")
    assert errors["highest"] < 1e-4 < errors["high"] < 0.5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("pads", [(1, 1), (1, 0, 2, 1)], ids=["even", "uneven"])
def test_convolutions_by_cudnn_and_their_gradients(dtype: str, pads: Any) -> None:
    if not phix.kernels.keys("conv2d", ["GPUDNN"]):
        pytest.skip("no cuDNN: pip install nvidia-cudnn-cu12")
    rng = np.random.default_rng(0)
    x, w = (phix.to_tensor(rng.standard_normal(d), dtype) for d in [(4, 16, 20, 18), (24, 8, 3, 3)])

    @phix.jit
    def f(x: Any, w: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            return ops.sum(ops.sin(ops.conv2d(x, w, (2, 1), pads, groups=2) * 0.1))

        return phix.value_and_grad(loss, (0, 1))(x, w)

    tolerance = {"float16": 2e-2, "bfloat16": 0.1, "float32": 1e-4, "float64": 1e-10}[dtype]
    wanted = phix.tree.leaves(f(x, w))
    for _ in range(3):  # as it comes, recorded, replayed
        for found, want in zip(phix.tree.leaves(f(x.to("gpu"), w.to("gpu"))), wanted, strict=True):
            largest = np.abs(np.asarray(want, float)).max()
            np.testing.assert_allclose(
                np.asarray(found.to("cpu"), float),
                np.asarray(want, float),
                atol=tolerance * largest,
            )


@pytest.mark.parametrize("size", [64, 128, 256])
def test_gradients_of_attention(size: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (phix.to_tensor(rng.standard_normal((2, 300, size)), "float32") for _ in "qkv")

    @phix.jit
    def f(q: Any, k: Any, v: Any) -> Any:
        loss = lambda *x: ops.sum(ops.sin(ops.attention(*x, None, size**-0.5, True)))  # noqa: E731
        return phix.grad(loss, (0, 1, 2))(q, k, v)

    for found, want in zip(f(*(x.to("gpu") for x in (q, k, v))), f(q, k, v), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def test_out_of_memory_is_a_typed_error() -> None:
    with pytest.raises(DeviceError, match="out of memory on gpu:0"):
        device.runtime().empty((1 << 50,), np.dtype(np.uint8))
    assert device.runtime().download(device.runtime().upload(np.ones(3))).tolist() == [1, 1, 1]


def test_memory_of_the_pool_is_given_up_before_an_allocation_fails() -> None:
    runtime, cupy = device.runtime(), device.cupy()
    free, _ = cupy.cuda.runtime.memGetInfo()
    size = free // 5 * 3
    first = runtime.empty((size,), np.dtype(np.uint8))
    del first  # the pool keeps it, and so much of another size is not free beside it
    second = runtime.empty((size + (1 << 20),), np.dtype(np.uint8))
    assert second.nbytes == size + (1 << 20)
    del second
    device.DEVICE.empty_pool()


def test_training_does_not_grow() -> None:
    rng = np.random.default_rng(0)
    w, x = (phix.to_tensor(rng.standard_normal(d), "float32", place="gpu") for d in [(64, 64)] * 2)

    def loss(w: Any, x: Any) -> Any:
        return ops.mean(ops.tanh(x @ w) ** 2)

    step = phix.jit(lambda w, x: w - 0.1 * phix.grad(loss)(w, x))
    pool = device.cupy().get_default_memory_pool()
    held = []
    for turn in range(300):
        w = step(w, x)
        if turn in (20, 299):
            held.append(pool.total_bytes())
    assert held[1] <= held[0]
    assert np.isfinite(w.numpy()).all()


def test_donated_arguments_give_their_memory() -> None:
    x = phix.to_tensor(np.arange(1 << 20, dtype=np.float32), place="gpu")
    before = x.data.data.ptr
    step = phix.jit(lambda x: x * 2.0 + 1.0, donate_argnums=0)
    made = [x]
    for _ in range(4):
        made.append(step(made[-1]))
    assert made[-1].data.data.ptr == before
    np.testing.assert_array_equal(made[-1], np.arange(1 << 20, dtype=np.float32) * 16 + 15)


def test_views_keep_their_values_when_the_memory_is_given_away() -> None:
    for view in (lambda x: ops.reshape(x, [2, 3]), lambda x: x[1:], lambda x: x[None], lambda x: x):
        x = phix.to_tensor(np.arange(6.0), place="gpu")
        seen = view(x)
        kept = seen.numpy().copy()
        if seen is not x:
            y = x.multiply_(2.0)
            np.testing.assert_array_equal(y, np.arange(6.0) * 2)
        np.testing.assert_array_equal(seen, kept)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_over_single_values(name: str) -> None:
    f, twin, points = LOOPS[name]
    with phix.device("gpu"):
        for run in (f, phix.jit(f)):
            for x in map(np.asarray, points):
                np.testing.assert_allclose(run(x), twin(float(x)), rtol=1e-13)
                slope = (twin(float(x) + 1e-6) - twin(float(x) - 1e-6)) / 2e-6
                np.testing.assert_allclose(phix.grad(run)(x), slope, rtol=1e-6, atol=1e-7)


def test_many_sizes_of_one_program() -> None:
    step = phix.jit(lambda x: ops.softmax(ops.tanh(x) * 2.0, -1), input_spec=[phix.spec(["n", 33])])
    rng = np.random.default_rng(0)
    for n in [*range(1, 40), 1000, 3, 1000, 3, 1000]:
        x = rng.standard_normal((n, 33)).astype(np.float32)
        e = np.exp(2 * np.tanh(x.astype(np.float64)))
        found = step(phix.to_tensor(x, place="gpu"))
        np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_products_side_by_side_in_recordings_on_two_streams() -> None:
    """Chains that wait for each other nowhere, small enough to share the card."""
    cupy = device.cupy()
    rng = np.random.default_rng(0)
    x, *ws = (
        phix.to_tensor(rng.standard_normal((256, 256)) / 16, "float32", place="gpu")
        for _ in range(9)
    )

    def chains(x: Any, *ws: Any) -> Any:
        found = []
        for w in ws:
            y = x
            for _ in range(3):
                y = y @ w
            found.append(y)
        return sum(found)

    f = phix.jit(chains)
    wanted = f(x, *ws).numpy()
    steps = [x.numpy().astype(np.float64) @ np.linalg.matrix_power(w.numpy().astype(np.float64), 3)
             for w in ws]  # fmt: skip
    np.testing.assert_allclose(wanted, sum(steps), rtol=1e-3, atol=1e-3)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for _ in range(20):
        found = []
        for stream in streams:
            with stream:
                found.append(f(x, *ws))
        for stream, y in zip(streams, found):
            stream.synchronize()
            np.testing.assert_array_equal(y.numpy(), wanted)


def test_streams_of_cupy_carry_the_work() -> None:
    cupy = device.cupy()
    x = phix.to_tensor(np.full((512, 512), 0.5, np.float32), place="gpu")
    f = phix.jit(lambda x: ops.tanh(x @ x) + ops.sum(x))
    wanted = f(x).numpy()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for _ in range(5):
        found = []
        for stream in streams:
            with stream:
                found.append(f(x))
        for stream, y in zip(streams, found):
            stream.synchronize()
            np.testing.assert_array_equal(y.numpy(), wanted)


def test_eight_threads() -> None:
    f = phix.jit(lambda x: ops.softmax(ops.tanh(x @ x) * ops.cumsum(x, 1), -1))
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(8)]
    wanted = [f(phix.to_tensor(h, place="gpu")).numpy() for h in hosts]

    def work(k: int) -> bool:
        x = phix.to_tensor(hosts[k], place="gpu")
        return all(f(x).numpy().tobytes() == wanted[k].tobytes() for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_arrays_of_other_libraries_by_dlpack() -> None:
    cupy = device.cupy()
    theirs = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    ours = phix.to_tensor(theirs)
    assert str(ours.place) == "gpu:0"
    np.testing.assert_array_equal((ours * 2.0).numpy(), np.arange(12).reshape(3, 4) * 2)
    assert phix.jit(lambda x: x + 1.0)(theirs).numpy()[2, 3] == 12.0
    back = cupy.from_dlpack(ours + 1.0)
    np.testing.assert_array_equal(cupy.asnumpy(back), np.arange(12).reshape(3, 4) + 1)


def test_kernels_written_with_cupy(tmp_path: Path) -> None:
    """A raw kernel, one of elements and a function, eagerly and in programs that are recorded."""
    cupy = device.cupy()
    text = r"""
        extern "C" __global__ void mixed(
            const float* x, const float* y, double by, long long count, float* out, long long size
        ) {
          const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
          if (i < size) out[i] = by * x[i] + (y ? y[i] : 0.0f) + count;
        }"""
    table = (
        "- {op: mixed, args: '(Tensor x, Tensor y, float by=0.5, int count=3)', "
        "output: Tensor(out), infer_meta: {func: UnchangedInferMeta, param: [x]}, optional: y}"
    )

    def function(x: Any, y: Any, by: float, count: int, out: Any) -> None:
        out[...] = by * x + (0 if y is None else y) + count

    given = "T x, T y, float64 by, int64 count"
    forms = [
        cupy.RawKernel(text, "mixed"), function,
        cupy.ElementwiseKernel(given, "T out", "out = by * x + y + count"),
    ]  # fmt: skip
    with loading(tmp_path) as load:
        mixed = load(table).mixed
        for form in forms:
            phix.cupy.kernel("mixed", dtypes="float32")(form)
            try:
                program = phix.jit(lambda x, y: mixed(ops.tanh(x), y, by=2.0) * 3.0)
                for size in (0, 5, 256, 1000):
                    x, y = np.random.default_rng(size).normal(size=(2, size)).astype("f")
                    there = [phix.to_tensor(a, place="gpu") for a in (x, y)]
                    wanted = 2 * np.tanh(x) + y + 3
                    np.testing.assert_allclose(mixed(*there), x / 2 + y + 3, rtol=1e-6, atol=1e-6)
                    for _ in range(4):
                        np.testing.assert_allclose(
                            program(*there), wanted * 3, rtol=1e-5, atol=1e-5
                        )
                    if form is not forms[2]:
                        np.testing.assert_allclose(mixed(there[0], None), x / 2 + 3, rtol=1e-6)
            finally:
                phix.kernels.unregister_kernel("mixed", "GPU")


def in_a_process(script: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(run, capture_output=True, text=True, timeout=300)


def test_a_kernel_that_leaves_its_memory_says_what_is_lost() -> None:
    """In a process of its own: an illegal address takes the card from all of it."""
    done = in_a_process("""
        import cupy, numpy as np, phix
        text = 'extern "C" __global__ void wild(float* p) { p[1ull << 40] = 1; }'
        wild = cupy.RawKernel(text, "wild")

        @phix.kernels.register_kernel("split", "GPUDNN", dtypes="float32")
        def split(ctx, x, sections, axis, parts):
            wild((1,), (1,), (parts[0],))

        x = phix.to_tensor(np.ones(8, np.float32), place="gpu")
        for _ in range(2):
            try:
                print(phix.ops.split(x, [4, 4], 0)[0].numpy())
            except phix.errors.DeviceError as error:
                print(error)
    """)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("gpu:0 is lost to this process" in x for x in lines), done


def test_two_processes_share_a_card() -> None:
    script = """
        import numpy as np, phix
        x = phix.to_tensor(np.full((256, 256), 0.01, np.float32), place="gpu")
        f = phix.jit(lambda x: phix.ops.tanh(x @ x) + phix.ops.sum(x))
        for _ in range(200):
            y = f(x)
        print(float(y.numpy()[0, 0]))
    """
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(in_a_process, [script] * 2))
    assert [float(d.stdout) for d in done] == pytest.approx([655.38556] * 2, rel=1e-5), done


def test_memory_of_a_training_step_is_near_what_its_values_take() -> None:
    """Parameters, activations and gradients of a wide network, and nothing of that size beside."""
    cupy = device.cupy()
    device.DEVICE.empty_pool()
    rng = np.random.default_rng(0)
    width, batch, layers = 1024, 4096, 6
    params = [
        phix.to_tensor(rng.standard_normal((width, width)) / 32, "float32", place="gpu")
        for _ in range(layers)
    ]
    x = phix.to_tensor(rng.standard_normal((batch, width)), "float32", place="gpu")

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = ops.tanh(x @ w)
        return ops.mean(x * x)

    pool = cupy.get_default_memory_pool()
    before = pool.total_bytes()  # arguments among them
    step = phix.jit(phix.value_and_grad(loss))
    for _ in range(3):
        _, grads = step(params, x)
    held = pool.total_bytes() - before
    weights, activation = layers * width * width * 4, batch * width * 4
    # results of two calls live at a time; each activation, and one or two cotangents
    workspaces = SIDE_BY_SIDE * WORKSPACE
    assert held <= 2.5 * weights + (layers + 3) * activation + workspaces + (32 << 20)
    assert np.isfinite(grads[0].numpy()).all()


def test_collectives_of_one_rank_by_nccl() -> None:
    """What one card can show of NCCL: its calls as CuPy has them, on streams and in recordings."""
    cuda = device.cupy().cuda
    if problem := nccl._problem(nccl_library.ThreadGroup("data", 1, 0, None), cuda):
        pytest.skip(problem)
    group = nccl_library.ThreadGroup("data", 1, 0, nccl_library.Talk(nccl_library.Clique(1), 0))
    group.rank = 0
    runtime = device.runtime()
    link = nccl.link(group, 0, cuda)
    rng = np.random.default_rng(0)
    for dtype in ("bool", "int8", "uint32", "int64", "float32", "float64", "complex64"):
        x = rng.normal(size=(1, 300)).astype(dtype)
        for kind, detail in ONE_RANK.items():
            out = runtime.empty(group.shape(kind, detail, x.shape), x.dtype)
            link.run(kind, detail, runtime.upload(x), out, runtime.state()[0], None)
            np.testing.assert_array_equal(runtime.download(out).ravel(), x.ravel(), kind)
    for kind, detail in ONE_RANK.items():
        step = lambda x: ops.rank_step(ops.tanh(x), None, group, kind, detail)  # noqa: B023, E731
        program = phix.jit(lambda x: ops.sum(step(x) * 2.0))  # noqa: B023
        there = phix.to_tensor(rng.normal(size=(1, 300)), place="gpu")
        wanted = 2 * np.tanh(there.numpy()).sum()
        for _ in range(4):  # as it comes, recorded, replayed
            np.testing.assert_allclose(program(there).numpy(), wanted, rtol=1e-12)
