"""NVIDIA GPUs through CuPy: memory, launches, libraries and recordings."""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from phix.core import places
from phix.core.context import context
from phix.core.errors import DeviceError
from phix.core.kernel_context import KernelContext
from phix.core.places import Place
from phix.core.precision import matmul_precision
from phix.core.records import dataclass
from phix.kernels.gpu import cublas, host_steps, nccl, nvrtc
from phix.kernels.gpu.cusolver import Solver
from phix.kernels.gpu.dependences import lanes
from phix.kernels.gpu.faults import fault
from phix.kernels.gpu.runtime import Batch, FactorCall, Waits

log = logging.getLogger("phix.kernels")

_INSTALL = 'pip install "phix[cuda12]" (or "phix[cuda13]" for a driver of CUDA 13)'


@cache
def cupy() -> Any:
    """CuPy.

    Raises:
        DeviceError: it is not installed.
    """
    try:
        import cupy as found
    except ImportError as error:
        raise DeviceError(
            f"GPUs need CuPy, which cannot be imported ({error}); {_INSTALL}"
        ) from None
    return found


class NoArray:
    """The class of no object: what GPU data would be, were CuPy there."""


class GpuDevice(places.Device):
    """The memory of NVIDIA GPUs."""

    dlpack_type = 2  # kDLCUDA

    @property
    def storage(self) -> type:
        """The class of GPU arrays."""
        try:
            return cupy().ndarray
        except DeviceError:
            return NoArray

    def count(self) -> int:
        """How many GPUs there are; 0 without CuPy or a driver."""
        try:
            return int(cupy().cuda.runtime.getDeviceCount())
        except Exception:
            return 0

    def problem(self) -> str:
        """What is missing."""
        try:
            count = cupy().cuda.runtime.getDeviceCount()
        except DeviceError as error:
            return str(error)
        except Exception as error:
            return f"CUDA finds no driver that serves it ({error})"
        return "the driver finds no GPU" if not count else "nothing is missing"

    def describe(self, index: int) -> str:
        """The name of a GPU and its memory."""
        properties = cupy().cuda.runtime.getDeviceProperties(index)
        name = properties["name"]
        text = name.decode() if isinstance(name, bytes) else str(name)
        return f"{text}, {properties['totalGlobalMem'] >> 20} MiB"

    def memory(self, index: int) -> int | None:
        """The bytes of a GPU's memory."""
        return int(cupy().cuda.runtime.getDeviceProperties(index)["totalGlobalMem"])

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Any:
        """A fresh array. Raises MemoryError where there is no room."""
        try:
            with cupy().cuda.Device(index):
                return cupy().empty(shape, dtype)
        except Exception as error:
            raise fault(error, f"gpu:{index}") from None

    def from_host(self, array: np.ndarray, index: int) -> Any:
        """A copy of a host array."""
        made = self.allocate(array.shape, array.dtype, index)
        with cupy().cuda.Device(index):
            made.set(np.ascontiguousarray(array).reshape(array.shape))
        return made

    def from_dlpack(self, array: Any, copy: bool) -> Any:
        """An array of CuPy, PyTorch, JAX, ... as one of CuPy."""
        found = array if isinstance(array, cupy().ndarray) else cupy().from_dlpack(array)
        with found.device:
            return found.copy("C") if copy else cupy().ascontiguousarray(found)

    def to_host(self, storage: Any) -> np.ndarray:
        """A host copy, all work on the array done."""
        try:
            with storage.device:
                found = np.asarray(storage.get())
        except Exception as error:
            raise fault(error, f"gpu:{self.index_of(storage)}") from None
        nccl.check()
        return found

    def index_of(self, storage: Any) -> int:
        """The number of the GPU that holds an array."""
        return int(storage.device.id)

    def copy(self, target: Any, source: Any) -> None:
        """Put one array into another."""
        runtime(self.index_of(target)).copy(target, source)

    def stream(self, index: int) -> Any:
        """The address of CuPy's current stream."""
        return runtime(index).context([]).stream

    def is_contiguous(self, storage: Any) -> bool:
        """Whether the array lies in C order without gaps."""
        return bool(storage.flags.c_contiguous)

    def is_alone(self, storage: Any) -> bool:
        """Whether no view and no other array refers to the block of memory.

        A view of all of an array has its pointer, one of a part another pointer into its block.
        """
        return _references(storage) == _references_of_one()

    def empty_pool(self) -> None:
        """Give the memory that CuPy keeps for later, on any GPU, back to the driver."""
        for index in range(self.count()):
            with cupy().cuda.Device(index):
                cupy().get_default_memory_pool().free_all_blocks()


DEVICE = GpuDevice()


def _references(storage: Any) -> tuple[int, int]:
    """How many references the pointer of an array has, and the block that it points into."""
    pointer = storage.data
    return sys.getrefcount(pointer), sys.getrefcount(pointer.mem)


@cache
def _references_of_one() -> tuple[int, int]:
    """Those of a fresh array."""
    return _references(cupy().empty(1))


# Streams beside the first that a recording is made on: so many more works can run at a time.
_BRANCHES = 7


@dataclass(frozen=True)
class _Recording:
    """What is being recorded: where, the streams beside its first, and the address of the stream
    that it is for."""

    device: CupyRuntime
    others: list[Any]
    home: int


class CupyRuntime:
    """One GPU; see :class:`phix.kernels.gpu.runtime.Runtime`."""

    def __init__(self, index: int = 0) -> None:
        if index >= DEVICE.count():
            why = DEVICE.problem() if not DEVICE.count() else f"there are {DEVICE.count()} GPUs"
            raise DeviceError(f"cannot run on gpu:{index}: {why}")
        self.index, self.cupy = index, cupy()
        self.device = self.cupy.cuda.Device(index)
        self._is_only = DEVICE.count() == 1  # then it is the current one, whoever asks
        self.lock = threading.RLock()
        self._workspaces: dict[tuple[int, int], Any] = {}

    @cached_property
    def architecture(self) -> int:
        """The compute capability, 90 for 9.0."""
        return int(self.device.compute_capability)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        try:
            if self._is_only:
                return self.cupy.ndarray(shape, dtype)
            with self.device:
                return self.cupy.ndarray(shape, dtype)
        except Exception:  # once more, by the way that looks for room and names faults
            return places.allocate(Place("gpu", self.index), shape, dtype)

    def view(self, block: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self.cupy.ndarray(shape, dtype, memptr=block.data + offset)

    def upload(self, value: Any) -> Any:
        if isinstance(value, self.cupy.ndarray):
            return self.cupy.ascontiguousarray(value).reshape(value.shape)
        return DEVICE.from_host(np.asarray(value), self.index)

    def download(self, array: Any) -> np.ndarray:
        return DEVICE.to_host(array)

    def copy(self, target: Any, source: Any) -> None:
        with self.device:
            if isinstance(source, np.ndarray):
                target.set(np.ascontiguousarray(source).reshape(target.shape))
            elif not (source.flags.c_contiguous and target.flags.c_contiguous):
                target[...] = source
            else:
                target.data.copy_from_device_async(source.data, source.nbytes)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def functions(self, source: str, names: Sequence[str]) -> list[Any]:
        with self.device:
            module = self.cupy.cuda.function.Module()
            module.load(nvrtc.compiled(source, self.architecture))
            return [module.get_function(name) for name in names]

    def launch(self, function: Any, grid: int, block: int, arguments: list[int]) -> None:
        try:
            with self.device:
                function((grid,), (block,), tuple(map(np.int64, arguments)))
        except Exception as error:
            raise fault(error, f"gpu:{self.index}") from None

    def start(self, works: Sequence[Callable[[], None]], waits: Sequence[Waits]) -> None:
        """In a recording, where streams cost nothing, a lane is a stream; else all are in order."""
        recording = context.recorder
        if recording is None or recording.device is not self:
            for work in works:
                work()
            return
        current = self.cupy.cuda.get_current_stream()
        streams = [current, *recording.others]
        where = lanes(waits, len(streams))
        begin = self._event(current)
        done: list[Any] = []
        last: dict[int, Any] = {}  # what the last work of a lane ends with
        for work, after, lane in zip(works, waits, where):
            stream = streams[lane]
            if lane and lane not in last:
                stream.wait_event(begin)
            for number in after:
                if where[number] != lane:
                    stream.wait_event(done[number])
            with stream:
                work()
            last[lane] = self._event(stream)
            done.append(last[lane])
        for lane, end in last.items():
            if lane:
                current.wait_event(end)

    def _event(self, stream: Any) -> Any:
        """What happens when all that has been started on a stream has ended."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    @cached_property
    def _cublas(self) -> cublas.Handle:
        with self.device:
            return cublas.Handle()

    def _workspace(self, stream: int, turn: int) -> int:
        """The address of the memory that cuBLAS has for itself, another for each stream."""
        if (stream, turn) not in self._workspaces:
            made = self.empty((cublas.WORKSPACE,), np.dtype(np.uint8))
            self._workspaces[stream, turn] = made
        return self.address(self._workspaces[stream, turn])

    def multiply(self, batch: Batch, turn: int) -> None:
        stream = self.cupy.cuda.get_current_stream().ptr
        recording = context.recorder
        is_here = recording is not None and recording.device is self
        home = recording.home if is_here else stream
        with self.lock, self.device:
            self._cublas.multiply(batch, stream, self._workspace(home, turn))

    @cached_property
    def _solver(self) -> Solver | None:
        try:
            names = ("cusolver", "cublas")
            solver, blas = (
                importlib.import_module(f"cupy_backends.cuda.libs.{name}") for name in names
            )
        except ImportError as error:  # the library itself is looked for on import
            log.info("large matrices are factored by kernels of phix: no cuSOLVER (%s)", error)
            return None
        handles = self.cupy.cuda.device

        def room(count: int, dtype: np.dtype) -> tuple[Any, int]:
            made = self.empty((count,), dtype)
            return made, self.address(made)

        return Solver(
            solver, blas, lambda: (handles.get_cusolver_handle(), handles.get_cublas_handle()),
            room,
        )  # fmt: skip

    def solver(self) -> Callable[[FactorCall], None] | None:
        solve = self._solver
        if solve is None:
            return None

        return lambda call: self.call(lambda: solve(call))

    def host_step(self, name: str, attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
        return host_steps.find(name, self.cupy, attrs)

    def link(self, group: Any) -> nccl.Link | None:
        return nccl.link(group, self.index, self.cupy.cuda)

    def context(self, made: list[Any]) -> KernelContext:
        with self.device:
            stream = self.cupy.cuda.get_current_stream().ptr
        return KernelContext(Place("gpu", self.index), stream, made)

    def call(self, work: Callable[[], None]) -> None:
        try:
            with self.lock, self.device:
                work()
        except Exception as error:
            raise fault(error, f"gpu:{self.index}") from None

    def state(self) -> tuple[Any, ...]:
        return (self.cupy.cuda.get_current_stream().ptr, matmul_precision())

    def recorded(self, run: Callable[[], None]) -> Callable[[], None] | None:
        with self.device:
            home = self.cupy.cuda.get_current_stream().ptr
            stream, *others = (
                self.cupy.cuda.Stream(non_blocking=True) for _ in range(_BRANCHES + 1)
            )
            with stream:
                stream.begin_capture()
                context.recorder = _Recording(self, others, home)
                try:
                    run()
                finally:
                    context.recorder = None
                    graph = stream.end_capture()
            device, is_only = self.device, self._is_only

        def replay() -> None:
            try:
                if is_only:
                    graph.launch()
                else:
                    with device:
                        graph.launch()
            except Exception as error:
                raise fault(error, f"gpu:{self.index}") from None

        return replay


@cache
def runtime(index: int = 0) -> CupyRuntime:
    """The runtime of one GPU.

    Raises:
        DeviceError: CuPy, a driver or the GPU is missing.
    """
    return CupyRuntime(index)
