"""Convolutions by cuDNN, called by ctypes: kernels of the backend ``GPUDNN``.

They are registered where the library of the package ``nvidia-cudnn-cu12`` or ``nvidia-cudnn-cu13``
is found, and come before the engine's own then. Algorithms that give other results on another run
are never taken. cuDNN pads both sides alike: for other paddings images are brought into a
larger block of zeros, and gradients back out of one. Layout is NCHW, as the filters of the ops have
it: with those, cuDNN has not every algorithm for NHWC, so that images are brought to NCHW.
"""

from __future__ import annotations

import ctypes
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import settings
from phix.core.errors import DeviceError
from phix.core.kernel_context import KernelContext
from phix.core.kernel_registry import register_kernel
from phix.core.precision import matmul_precision
from phix.core.records import dataclass
from phix.core.windows import explicit_paddings
from phix.kernels.gpu import device, libraries

log = logging.getLogger("phix.kernels")

DTYPES = (dt.float16, dt.bfloat16, dt.float32, dt.float64)
# cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t
_TYPES = {dt.float32: 0, dt.float64: 1, dt.float16: 2, dt.bfloat16: 9}
_FILTERS_FIRST, _CORRELATION = 0, 1
# cudnnMathType_t: tensor cores as the dtypes allow (TF32 for float32), and none for float32
_DEFAULT_MATH, _PLAIN_MATH = 0, 3
_DETERMINISTIC = 1
# Algorithms that want more memory of their own than this are taken if there are no others.
_LARGE_WORKSPACE = 1 << 30
_LARGEST, _MESSAGE = 2**31 - 1, 1024

_WITHOUT = 'phix.kernels.unregister_kernel("conv2d", "GPUDNN"), and "conv2d_grad"'

_INT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_INTS = ctypes.POINTER(_INT)


class Performance(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and those of the gradients, which are alike."""

    _fields_ = (
        ("algorithm", _INT), ("status", _INT), ("time", ctypes.c_float), ("memory", _SIZE),
        ("determinism", _INT), ("math", _INT), ("reserved", _INT * 3),
    )  # fmt: skip


@dataclass(frozen=True)
class Direction:
    """One of three things to compute, by the name in cuDNN's functions; each takes two operands
    and gives the third of images, filters and results."""

    name: str
    most_algorithms: int


FORWARD = Direction("Forward", 8)
TO_IMAGES = Direction("BackwardData", 6)
TO_FILTERS = Direction("BackwardFilter", 7)
DIRECTIONS = (FORWARD, TO_IMAGES, TO_FILTERS)

_DESCRIPTORS = ("Tensor", "Filter", "Convolution")
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cudnnCreate": (ctypes.POINTER(_POINTER),),
    "cudnnSetStream": (_POINTER, _POINTER),
    **{f"cudnnCreate{d}Descriptor": (ctypes.POINTER(_POINTER),) for d in _DESCRIPTORS},
    **{f"cudnnDestroy{d}Descriptor": (_POINTER,) for d in _DESCRIPTORS},
    "cudnnSetTensorNdDescriptor": (_POINTER, _INT, _INT, _INTS, _INTS),
    "cudnnSetFilterNdDescriptor": (_POINTER, _INT, _INT, _INT, _INTS),
    "cudnnSetConvolutionNdDescriptor": (_POINTER, _INT, _INTS, _INTS, _INTS, _INT, _INT),
    "cudnnSetConvolutionMathType": (_POINTER, _INT),
    "cudnnSetConvolutionGroupCount": (_POINTER, _INT),
    "cudnnGetConvolutionNdForwardOutputDim": (_POINTER, _POINTER, _POINTER, _INT, _INTS),
    "cudnnSetTensor": (_POINTER,) * 4,
    "cudnnTransformTensor": (_POINTER,) * 7,
}
for _d in DIRECTIONS:
    _FUNCTIONS[f"cudnnGetConvolution{_d.name}Algorithm_v7"] = (
        *(_POINTER,) * 5, _INT, _INTS, ctypes.POINTER(Performance)
    )  # fmt: skip
    _FUNCTIONS[f"cudnnGetConvolution{_d.name}WorkspaceSize"] = (
        *(_POINTER,) * 5, _INT, ctypes.POINTER(_SIZE)
    )  # fmt: skip
    _FUNCTIONS[f"cudnnConvolution{_d.name}"] = (
        *(_POINTER,) * 7, _INT, _POINTER, _SIZE, *(_POINTER,) * 3
    )  # fmt: skip


@cache
def library() -> Any:
    """The loaded library, its functions declared.

    Raises:
        DeviceError: there is none.
    """
    found = libraries.load(
        "cudnn", "cudnn", "convolutions by cuDNN", majors=(9,),
        install='pip install nvidia-cudnn-cu12 (or nvidia-cudnn-cu13), as "phix[cudnn12]" does',
    )  # fmt: skip
    for name, arguments in _FUNCTIONS.items():
        getattr(found, name).argtypes = arguments
    found.cudnnGetErrorString.restype = ctypes.c_char_p
    found.cudnnGetLastErrorString.argtypes = (ctypes.c_char_p, _SIZE)
    found.cudnnGetLastErrorString.restype = None
    found.cudnnGetVersion.restype = _SIZE
    return found


def check(status: int, what: str) -> None:
    """Raise DeviceError with cuDNN's own words if a call failed."""
    if not status:
        return
    said = ctypes.create_string_buffer(_MESSAGE)
    library().cudnnGetLastErrorString(said, _MESSAGE)
    more = said.value.decode(errors="replace").strip()
    name = library().cudnnGetErrorString(status).decode()
    raise DeviceError(f"cuDNN: {what} failed: {name}{f' ({more})' if more else ''}")


def _ints(values: Sequence[int]) -> Any:
    return (_INT * len(values))(*values)


class Descriptor:
    """A descriptor of cuDNN, destroyed with its object; ``set`` is the function that fills it."""

    def __init__(self, kind: str, set: str, *arguments: Any) -> None:
        self.kind, self.pointer, self.library = kind, _POINTER(), library()
        create = getattr(self.library, f"cudnnCreate{kind}Descriptor")
        check(create(ctypes.byref(self.pointer)), "creating a descriptor")
        self.call(set, *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Fill it, or a part of it."""
        check(getattr(self.library, name)(self.pointer, *arguments), name)

    def __del__(self) -> None:
        getattr(self.library, f"cudnnDestroy{self.kind}Descriptor")(self.pointer)


@dataclass(frozen=True)
class Images:
    """Images in memory: [n, c, h, w] and the distance of neighbours along each of these axes."""

    dtype: np.dtype
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, dims: Sequence[int], dtype: np.dtype) -> Images:
        """Those of a contiguous array."""
        n, c, h, w = dims
        return cls(dtype, (n, c, h, w), (c * h * w, h * w, w, 1))

    def padded(self, pads: Any) -> Images:
        """Contiguous images that are so much larger."""
        (n, c, h, w), ((above, below), (left, right)) = self.dims, pads
        return Images.of((n, c, h + above + below, w + left + right), self.dtype)

    @property
    def size(self) -> int:
        return prod(self.dims)

    def descriptor(self) -> Descriptor:
        dims, strides = _ints(self.dims), _ints(self.strides)
        return Descriptor(
            "Tensor", "cudnnSetTensorNdDescriptor", _TYPES[self.dtype], 4, dims, strides
        )


@dataclass(frozen=True)
class Problem:
    """A convolution, paddings alike on both sides, and which part of it is wanted."""

    direction: Direction
    images: Images
    filters: tuple[int, ...]
    results: Images
    pads: tuple[int, int]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    math: int


class Prepared:
    """What cuDNN wants to know of a problem: descriptors, an algorithm, and its memory."""

    def __init__(self, handle: Any, problem: Problem) -> None:
        p, kind = problem, _TYPES[problem.images.dtype]
        wide = kind if p.images.dtype == dt.float64 else _TYPES[dt.float32]
        self.handle, self.direction = handle, p.direction
        images, results = p.images.descriptor(), p.results.descriptor()
        filters = Descriptor("Filter", "cudnnSetFilterNdDescriptor", kind, _FILTERS_FIRST, 4,
                             _ints(p.filters))  # fmt: skip
        self.convolution = Descriptor(
            "Convolution", "cudnnSetConvolutionNdDescriptor", 2, _ints(p.pads), _ints(p.strides),
            _ints(p.dilations), _CORRELATION, wide,
        )  # fmt: skip
        self.convolution.call("cudnnSetConvolutionGroupCount", p.groups)
        self.convolution.call("cudnnSetConvolutionMathType", p.math)
        self.operands, self.result = {
            FORWARD: ((images, filters), results),
            TO_IMAGES: ((filters, results), images),
            TO_FILTERS: ((images, results), filters),
        }[p.direction]
        scalar = ctypes.c_double if wide == _TYPES[dt.float64] else ctypes.c_float
        self.one, self.zero = scalar(1), scalar(0)
        self.algorithm, math = self._chosen(p)
        self.convolution.call("cudnnSetConvolutionMathType", math)
        size = _SIZE()
        self._get("WorkspaceSize", self.algorithm, ctypes.byref(size))
        self.workspace = int(size.value)

    def _get(self, what: str, *arguments: Any) -> None:
        name = f"cudnnGetConvolution{self.direction.name}{what}"
        first, second = (d.pointer for d in self.operands)
        status = getattr(library(), name)(
            self.handle, first, second, self.convolution.pointer, self.result.pointer, *arguments
        )
        check(status, name)

    def _chosen(self, problem: Problem) -> tuple[int, int]:
        """The algorithm that cuDNN takes for the fastest, of those that are as exact as asked for
        and the same on each run, and the math that it is to use."""
        most, count = problem.direction.most_algorithms, _INT()
        found = (Performance * most)()
        self._get("Algorithm_v7", most, ctypes.byref(count), found)
        fit = [
            p for p in found[: count.value]
            if not p.status and p.determinism == _DETERMINISTIC
            and (problem.math != _PLAIN_MATH or p.math == _PLAIN_MATH)
        ]  # fmt: skip
        small = [p for p in fit if p.memory <= _LARGE_WORKSPACE]
        best = small[0] if small else min(fit, key=lambda p: p.memory, default=None)
        if best is None:
            p = problem
            raise DeviceError(
                f"cuDNN has no deterministic algorithm for a convolution ({p.direction.name}) of "
                f"{p.images.dtype} images {list(p.images.dims)} and filters {list(p.filters)} with "
                f"strides {list(p.strides)}, dilations {list(p.dilations)}, {p.groups} groups; "
                f"cast to float32, or leave it to phix: {_WITHOUT}"
            )
        return best.algorithm, best.math

    def run(self, ctx: KernelContext, first: int, second: int, result: int) -> None:
        """Start the work on operands and a result at these addresses."""
        work = 0
        if self.workspace:
            memory = ctx.alloc((self.workspace,), np.dtype(np.uint8))
            work = device.runtime(ctx.place.index).address(memory)
        a, b = (d.pointer for d in self.operands)
        status = getattr(library(), f"cudnnConvolution{self.direction.name}")(
            self.handle, ctypes.addressof(self.one), a, first, b, second,
            self.convolution.pointer, self.algorithm, work, self.workspace,
            ctypes.addressof(self.zero), self.result.pointer, result,
        )  # fmt: skip
        check(status, f"cudnnConvolution{self.direction.name}")


class Handle:
    """A handle of the current device, and the plans made so far."""

    def __init__(self) -> None:
        self.pointer = _POINTER()
        check(library().cudnnCreate(ctypes.byref(self.pointer)), "creating a handle")
        self.plans: OrderedDict[Problem, Prepared] = OrderedDict()

    def plan(self, problem: Problem) -> Prepared:
        """The plan of a problem; those used last are kept."""
        if problem not in self.plans:
            self.plans[problem] = Prepared(self.pointer, problem)
            if len(self.plans) > settings.current().most_cudnn_plans:
                self.plans.popitem(last=False)
        self.plans.move_to_end(problem)
        return self.plans[problem]


_handles: dict[int, Handle] = {}  # by device; calls of one come one after the other


class CudnnCall:
    """One call of a kernel: its convolution, and what is done around cuDNN's part."""

    def __init__(
        self, ctx: KernelContext, images: Any, filters: Any, results: Any, strides: Any,
        paddings: Any, padding_algorithm: str, dilations: Any, groups: int, data_format: str,
    ) -> None:  # fmt: skip
        assert data_format == "NCHW"
        dtype = filters.dtype
        self.ctx, self.runtime = ctx, device.runtime(ctx.place.index)
        self.images, self.results = (Images.of(x.shape, dtype) for x in (images, results))
        self.filters = tuple(filters.shape)
        pads: Any = explicit_paddings(
            padding_algorithm, paddings, self.images.dims[2:], self.filters[2:], strides, dilations
        )
        self.is_even = all(before == after for before, after in pads)
        # where cuDNN cannot pad, it gets images that are padded already
        self.inner = self.images if self.is_even else self.images.padded(pads)
        self.pads = tuple(before for before, _ in pads) if self.is_even else (0, 0)
        self.corner = sum(p * s for (p, _), s in zip(pads, self.inner.strides[2:]))
        self.geometry = (tuple(strides), tuple(dilations), groups)
        if max(self.inner.size, self.results.size, prod(self.filters)) > _LARGEST:
            raise DeviceError(
                f"cuDNN takes tensors of at most {_LARGEST} elements, found images "
                f"{list(self.images.dims)} and results {list(self.results.dims)}; use smaller "
                "batches"
            )
        if ctx.place.index not in _handles:
            _handles[ctx.place.index] = Handle()
        self.handle = _handles[ctx.place.index]
        check(library().cudnnSetStream(self.handle.pointer, ctx.stream), "setting the stream")

    @property
    def is_empty(self) -> bool:
        return not (self.images.size and self.results.size and prod(self.filters))

    def address(self, storage: Any) -> int:
        return self.runtime.address(storage)

    def run(self, direction: Direction, first: int, second: int, result: int) -> None:
        """The part of the convolution that cuDNN does."""
        is_plain = self.images.dtype == dt.float32 and matmul_precision() != "high"
        math = _PLAIN_MATH if is_plain else _DEFAULT_MATH
        problem = Problem(
            direction, self.inner, self.filters, self.results, self.pads, *self.geometry, math
        )
        self.handle.plan(problem).run(self.ctx, first, second, result)

    # -- around it -------------------------------------------------------------------------
    def zero(self, where: Images, address: int) -> None:
        """Fill dense images with zeros."""
        value, described = np.zeros((), where.dtype), where.descriptor()
        status = library().cudnnSetTensor(
            self.handle.pointer, described.pointer, address, value.ctypes.data
        )
        check(status, "cudnnSetTensor")

    def copy(self, source: Images, first: int, target: Images, second: int) -> None:
        """Images at one address to another, where they may lie apart."""
        is_double = source.dtype == dt.float64
        one, zero = ((ctypes.c_double if is_double else ctypes.c_float)(v) for v in (1, 0))
        here, there = source.descriptor(), target.descriptor()
        status = library().cudnnTransformTensor(
            self.handle.pointer, ctypes.addressof(one), here.pointer, first,
            ctypes.addressof(zero), there.pointer, second,
        )  # fmt: skip
        check(status, "cudnnTransformTensor")

    def block(self) -> int:
        """The address of memory for padded images."""
        return self.address(self.ctx.alloc((self.inner.size,), self.images.dtype))

    def part(self) -> tuple[Images, int]:
        """Where in padded images the images lie, and how far from the beginning, in bytes."""
        middle = Images(self.images.dtype, self.images.dims, self.inner.strides)
        return middle, self.corner * self.images.dtype.itemsize

    def padded(self, images: int) -> int:
        """The address of images as cuDNN is to read them."""
        if self.is_even:
            return images
        block, (middle, offset) = self.block(), self.part()
        self.zero(self.inner, block)
        self.copy(self.images, images, middle, block + offset)
        return block

    def to_images(self, filters: int, results: int, images: int) -> None:
        """The gradient to the images."""
        if self.is_even:
            self.run(TO_IMAGES, filters, results, images)
            return
        block, (middle, offset) = self.block(), self.part()
        self.run(TO_IMAGES, filters, results, block)
        self.copy(middle, block + offset, self.images, images)


def conv2d(ctx: KernelContext, x: Any, kernel: Any, *rest: Any) -> None:
    """See the op; ``rest`` are its attributes and the output."""
    *attrs, out = rest
    call = CudnnCall(ctx, x, kernel, out, *attrs)
    if not call.is_empty:
        images, filters = call.padded(call.address(x)), call.address(kernel)
        call.run(FORWARD, images, filters, call.address(out))
    elif call.results.size:
        call.zero(call.results, call.address(out))


def conv2d_grad(ctx: KernelContext, x: Any, kernel: Any, out_grad: Any, *rest: Any) -> None:
    """See the op; ``rest`` are its attributes and the gradients, None those that nothing reads."""
    *attrs, x_grad, kernel_grad = rest
    call = CudnnCall(ctx, x, kernel, out_grad, *attrs)
    grads = [g for g in (x_grad, kernel_grad) if g is not None and prod(g.shape)]
    if call.is_empty:
        for grad in grads:
            call.zero(Images.of(grad.shape, grad.dtype), call.address(grad))
        return
    if x_grad is not None:
        call.to_images(call.address(kernel), call.address(out_grad), call.address(x_grad))
    if kernel_grad is not None:
        images = call.padded(call.address(x))
        call.run(TO_FILTERS, images, call.address(out_grad), call.address(kernel_grad))


KERNELS: dict[str, Callable[..., None]] = {"conv2d": conv2d, "conv2d_grad": conv2d_grad}


def register() -> bool:
    """Register the kernels if the library is there, and say whether it is."""
    try:
        library()
    except DeviceError as error:
        log.info("convolutions are kernels of phix: no cuDNN (%s)", error)
        return False
    for name, function in KERNELS.items():
        how = register_kernel(name, "GPUDNN", "NCHW", DTYPES, takes_unread=True, recordable=True)
        how(function)
    return True
