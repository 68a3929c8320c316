"""Convolutions by cuDNN: every argument against a stand-in, on the emulated place ``gpu``; what
needs no card against the library itself, where its package is installed."""

from __future__ import annotations

import ctypes
import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from cuda_emulator import STREAM
from cuda_libraries import Cudnn
from emulated_gpu import emulated
from gpu_programs import needs_compiler
from harness.references.windows import conv2d as reference
from phix import ops
from phix.core.errors import DeviceError, KernelRegistrationError
from phix.kernels.gpu import cudnn, device, libraries, program
from phix.kernels.gpu.recordings import Recordings

RNG = np.random.default_rng(0)
pytestmark = [pytest.mark.xdist_group("gpu cudnn"), pytest.mark.unoptimised]

# images, filters, strides, paddings, dilations, groups
CASES = {
    "plain": ((2, 4, 9, 8), (6, 4, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    "groups and steps": ((2, 6, 11, 10), (10, 3, 3, 2), (2, 1), (1, 0), (1, 2), 2),
    "uneven paddings": ((2, 3, 7, 6), (4, 3, 3, 3), (2, 1), (1, 0, 2, 1), (1, 1), 1),
    "depthwise": ((1, 4, 6, 6), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
}
TOLERANCES = {"float16": 3e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}
PLAIN, TENSOR_CORES = 3, 0  # math types


def registered() -> list[str]:
    return [n for n in cudnn.KERNELS if phix.kernels.keys(n, ["GPUDNN"])]


@pytest.fixture
def stand_in(monkeypatch) -> Iterator[Cudnn]:
    """The emulated GPU, with a stand-in of cuDNN and its kernels registered."""
    made = Cudnn()
    monkeypatch.setattr(cudnn, "library", lambda: made)
    monkeypatch.setattr(cudnn, "_handles", {})
    with emulated():
        assert cudnn.register()
        yield made
        for name in registered():
            phix.kernels.unregister_kernel(name, "GPUDNN")


def operands(case: str, dtype: str = "float32") -> list[Any]:
    return [
        phix.to_tensor(RNG.standard_normal(d), dtype, place="gpu") for d in CASES[case][:2]
    ]  # fmt: skip


def convolve(case: str) -> Any:
    strides, paddings, dilations, groups = CASES[case][2:]
    return lambda x, w: ops.conv2d(x, w, strides, paddings, "EXPLICIT", dilations, groups)


def work(library: Cudnn) -> list[str]:
    """What was computed, in order."""
    return [c[0] for c in library.calls if c[0] != "asked"]


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("case", CASES)
def test_forward_against_numpy(stand_in, case: str, dtype: str) -> None:
    stand_in.offers = [(1, 0, 64, 1, PLAIN if dtype == "float32" else TENSOR_CORES)]
    x, w = operands(case, dtype)
    found = phix.jit(convolve(case))(x, w)
    strides, paddings, dilations, groups = CASES[case][2:]
    arrays = [np.asarray(t.numpy(), np.float64) for t in (x, w)]
    wanted = reference(*arrays, strides, paddings, dilations, groups, "NCHW")
    assert str(found.dtype) == dtype and work(stand_in) == ["Forward"]
    assert stand_in.stream == STREAM
    tolerance = TOLERANCES[dtype] * np.abs(wanted).max()
    np.testing.assert_allclose(np.asarray(found.numpy(), float), wanted, rtol=0, atol=tolerance)


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_one_call_each(stand_in, case: str) -> None:
    def both(x: Any, w: Any) -> Any:
        return phix.grad(lambda x, w: ops.sum(ops.sin(convolve(case)(x, w))), (0, 1))(x, w)

    x, w = operands(case)
    found = phix.jit(both)(x, w)
    assert sorted(work(stand_in)) == ["BackwardData", "BackwardFilter", "Forward"]
    for f, e in zip(found, both(x.to("cpu"), w.to("cpu")), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-4)


@needs_compiler
def test_what_nothing_reads_is_not_computed(stand_in) -> None:
    x, w = operands("plain")
    step = phix.jit(phix.grad(lambda w: ops.sum(convolve("plain")(x, w) ** 2)))
    wanted = phix.grad(lambda w: ops.sum(convolve("plain")(x.to("cpu"), w) ** 2))(w.to("cpu"))
    np.testing.assert_allclose(step(w), wanted, rtol=1e-4, atol=1e-4)
    assert work(stand_in) == ["Forward", "BackwardFilter"]


@needs_compiler
def test_derivatives_of_derivatives_and_batches(stand_in) -> None:
    def loss(x: Any, w: Any) -> Any:
        return ops.sum(ops.tanh(ops.conv2d(x, w, (2, 1), (1, 0))))

    def second(x: Any, w: Any) -> Any:
        return phix.grad(lambda w: ops.sum(phix.grad(loss)(x, w) ** 2))(w)

    def batched(x: Any, w: Any) -> Any:
        return phix.vmap(phix.grad(loss), (0, None))(x[:, None], w)

    x, w = operands("plain", "float64")
    stand_in.offers = [(1, 0, 0, 1, TENSOR_CORES)]
    for function in (second, batched):
        found, wanted = phix.jit(function)(x, w), function(x.to("cpu"), w.to("cpu"))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert "Forward" in work(stand_in)


@needs_compiler
def test_channels_last_and_same_paddings(stand_in) -> None:
    x = phix.to_tensor(RNG.standard_normal((2, 7, 6, 3)), "float32", place="gpu")
    w = phix.to_tensor(RNG.standard_normal((4, 3, 2, 2)), "float32", place="gpu")

    def net(x: Any, w: Any) -> Any:
        once = ops.conv2d(x, w, (2, 2), padding_algorithm="SAME", data_format="NHWC")
        return ops.sum(ops.relu(once), (3,))

    for function in (net, phix.grad(lambda x, w: ops.sum(net(x, w) ** 2), (0, 1))):
        found = phix.tree.leaves(phix.jit(function)(x, w))
        wanted = phix.tree.leaves(function(x.to("cpu"), w.to("cpu")))
        for f, e in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("dims", [(0, 4, 9, 8), (2, 0, 9, 8)])
def test_nothing_to_do(stand_in, dims: Any) -> None:
    x = phix.zeros(dims).to("gpu")
    w = phix.ones((6, dims[1], 3, 2)).to("gpu")
    out = phix.jit(lambda x, w: ops.conv2d(x, w))(x, w)
    np.testing.assert_array_equal(out, np.zeros((dims[0], 6, 7, 7)))
    grads = phix.jit(phix.grad(lambda x, w: ops.sum(ops.conv2d(x, w)), (0, 1)))(x, w)
    for grad, like in zip(grads, (x, w), strict=True):
        np.testing.assert_array_equal(grad, np.zeros(like.shape))
    assert not stand_in.calls


@needs_compiler
def test_one_program_for_all_sizes_and_a_plan_for_each(stand_in) -> None:
    f = phix.jit(lambda x, w: ops.conv2d(x, w, padding_algorithm="SAME"),
                 input_spec=[phix.spec(["n", 3, "h", 8]), phix.spec([4, 3, 2, 2])])  # fmt: skip
    w = phix.ones((4, 3, 2, 2)).to("gpu")
    for n, h in [(1, 5), (2, 6), (1, 5)]:
        x = phix.to_tensor(RNG.standard_normal((n, 3, h, 8)), "float32", place="gpu")
        wanted = ops.conv2d(x.to("cpu"), w.to("cpu"), padding_algorithm="SAME")
        np.testing.assert_allclose(f(x, w), wanted, rtol=1e-4, atol=1e-4)
    assert f.trace_count == 1
    assert [c[0] for c in stand_in.calls] == ["asked", "Forward"] * 2 + ["Forward"]


@needs_compiler
@pytest.mark.parametrize(
    ("precision", "offers", "taken"),
    [
        # not found to work, not the same on each run, TF32 not asked for
        ("highest", [(5, 3000, 0, 1, PLAIN), (4, 0, 0, 0, PLAIN), (3, 0, 0, 1, TENSOR_CORES),
                     (2, 0, 0, 1, PLAIN), (1, 0, 0, 1, PLAIN)], 2),
        ("high", [(3, 0, 0, 1, TENSOR_CORES), (2, 0, 0, 1, PLAIN)], 3),
        # much memory, if it must be; the least then
        ("highest", [(3, 0, 1 << 31, 1, PLAIN), (2, 0, 64, 1, PLAIN)], 2),
        ("highest", [(3, 0, 1 << 32, 1, PLAIN), (2, 0, 1 << 31, 1, PLAIN)], 2),
    ],
)  # fmt: skip
def test_which_algorithm_is_taken(stand_in, precision: str, offers: Any, taken: int) -> None:
    stand_in.offers = offers
    x, w = operands("plain")
    before = phix.matmul_precision()
    try:
        phix.set_matmul_precision(precision)
        phix.jit(convolve("plain"))(x, w)
    finally:
        phix.set_matmul_precision(before)
    asked, (_, algorithm, math, _) = stand_in.calls
    assert asked[2] == (PLAIN if precision == "highest" else TENSOR_CORES)
    assert algorithm == taken and math == next(o[4] for o in offers if o[0] == taken)


@needs_compiler
def test_errors_are_typed_and_say_what_cudnn_says(stand_in) -> None:
    x, w = operands("plain")
    stand_in.offers = [(4, 0, 0, 0, PLAIN)]
    with pytest.raises(DeviceError, match=r"no deterministic algorithm .*unregister_kernel"):
        phix.jit(convolve("plain"))(x, w)
    stand_in.offers = [(1, 0, 0, 1, PLAIN)]
    stand_in.fails = {"cudnnConvolutionForward": 5000}
    with pytest.raises(
        DeviceError,
        match=r"cudnnConvolutionForward failed: CUDNN_STATUS_EXECUTION_FAILED \(what went wrong\)",
    ):
        phix.jit(convolve("plain"))(x, w)


@needs_compiler
def test_what_a_convolution_costs(stand_in) -> None:
    x, w = operands("groups and steps")
    cost = phix.jit(convolve("groups and steps")).lower(x, w).cost_analysis()
    images, filters, height, width = 2, 10, 6, 8
    assert cost.flops == 2 * images * filters * height * width * 3 * 3 * 2
    grad = phix.jit(phix.grad(lambda x, w: ops.sum(convolve("groups and steps")(x, w)), (0, 1)))
    both = grad.lower(x, w).cost_analysis()
    assert both.flops == 2 * cost.flops, "the value is not asked for, and not computed"
    assert both.bytes_written >= 4 * (x.size + w.size)


@needs_compiler
def test_descriptors_are_destroyed_with_their_plans(stand_in) -> None:
    w = phix.ones((2, 3, 2, 2)).to("gpu")
    with phix.debug.settings(most_cudnn_plans=2):
        for size in (4, 5, 6, 7):
            ops.conv2d(phix.ones((1, 3, size, size)).to("gpu"), w)
    gc.collect()
    assert len(stand_in.live) == 2 * 4, "images, filters, results and the convolution"
    cudnn._handles.clear()
    gc.collect()
    assert not stand_in.live


@needs_compiler
def test_a_recording_keeps_the_memory_of_its_kernels(monkeypatch, stand_in) -> None:
    runtime, made = device.runtime(), []
    recorded, replayed = [], []

    class Watched(Recordings):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def record(run: Any) -> Any:
        run()
        recorded.append(True)
        return lambda: replayed.append(True)

    monkeypatch.setattr(program, "Recordings", Watched)
    monkeypatch.setattr(runtime, "recorded", record)
    x, w = operands("uneven paddings")
    f = phix.jit(convolve("uneven paddings"))
    assert "kernel of a library conv2d" in f.lower(x, w).as_text("loop ir")
    memory = runtime.empty((2, 4, 3, 7), np.dtype(np.float32))
    monkeypatch.setattr(runtime, "empty", lambda shape, dtype: memory)
    for _ in range(3):
        f(x, w)
    assert len(recorded) == 1 and len(replayed) == 2
    ((_, kept),) = made[0].seen.values()
    assert [m.shape for m in kept[0]] == [(2 * 3 * 8 * 9,), (Cudnn.WORKSPACE,)]


def test_kernels_can_be_taken_away(stand_in) -> None:
    key = phix.kernels.KernelKey("GPUDNN", "NCHW", phix.float32)
    assert phix.kernels.find("conv2d", key).key.backend == "GPUDNN"
    phix.kernels.unregister_kernel("conv2d", "GPUDNN")
    assert phix.kernels.find("conv2d", key).key.backend == "GPU"
    with pytest.raises(KernelRegistrationError, match="GPUDNN has no registered kernel of 'conv"):
        phix.kernels.unregister_kernel("conv2d", "GPUDNN")


def test_without_the_package_nothing_changes(monkeypatch, caplog) -> None:
    def missing() -> Any:
        raise DeviceError("its library was not found")

    monkeypatch.setattr(cudnn, "library", missing)
    caplog.set_level(logging.INFO, "phix.kernels")
    before = registered()
    assert not cudnn.register() and registered() == before
    assert [r.message for r in caplog.records] == [
        "convolutions are kernels of phix: no cuDNN (its library was not found)"
    ]


def test_the_message_where_a_library_is_missing() -> None:
    with pytest.raises(DeviceError, match="things by nothing, and its library was not found: get"):
        libraries.load("phix_nothing", "nothing", "things by nothing", (9,), "get it")


# -- the library itself ------------------------------------------------------------------------
@pytest.fixture
def real() -> Any:
    try:
        return cudnn.library()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("case", [c for c in CASES if c != "uneven paddings"])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_cudnn_agrees_about_the_sizes(real, case: str, dtype: str) -> None:
    images, filters, strides, paddings, dilations, groups = CASES[case]
    kind = phix.spec([1], dtype).dtype
    x, number = cudnn.Images.of(images, kind).descriptor(), cudnn._TYPES[kind]
    w = cudnn.Descriptor("Filter", "cudnnSetFilterNdDescriptor", number, 0, 4,
                         cudnn._ints(filters))  # fmt: skip
    settings = cudnn.Descriptor(
        "Convolution", "cudnnSetConvolutionNdDescriptor", 2,
        *map(cudnn._ints, (paddings, strides, dilations)), 1, min(number, 1),
    )  # fmt: skip
    settings.call("cudnnSetConvolutionGroupCount", groups)
    settings.call("cudnnSetConvolutionMathType", PLAIN)
    found = (ctypes.c_int * 4)()
    status = real.cudnnGetConvolutionNdForwardOutputDim(
        settings.pointer, x.pointer, w.pointer, 4, found
    )
    cudnn.check(status, "sizes")
    wanted = phix.eval_shape(convolve(case), phix.spec(images), phix.spec(filters)).shape
    assert tuple(found) == tuple(wanted)


def test_cudnn_has_its_functions_and_says_what_is_wrong(real) -> None:
    assert real.cudnnGetVersion() >= 90000
    assert all(hasattr(real, name) for name in cudnn._FUNCTIONS)
    with pytest.raises(DeviceError, match="cudnnSetTensorNdDescriptor failed: CUDNN_STATUS_BAD_"):
        cudnn.Images.of((2, 6, -11, 10), phix.spec([1]).dtype).descriptor()


def test_what_nvrtc_opens_later_is_loaded_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library of CUDA 13's package does not find its own by itself."""
    loaded: list[str] = []
    files = ("libnvrtc-builtins.so.12.9", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13")
    for file in files:
        (tmp_path / file).touch()
    monkeypatch.setattr(libraries, "_folders", lambda wheel: [tmp_path])
    monkeypatch.setattr(libraries.ctypes, "CDLL", lambda path: loaded.append(Path(path).name))
    libraries.load("nvrtc", "cuda_nvrtc", "kernels")
    assert loaded == list(files[1:])
