"""Stand-ins, on the host, for CuPy's modules of cuSOLVER and cuBLAS (SciPy's LAPACK and BLAS) and
for cuDNN (sums of NumPy over the taps of a filter).

They have the names and arguments of the functions that are called, and work on memory of the host:
what they show is that the engine calls them right, not that the libraries do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from scipy.linalg import blas, lapack

_DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
HANDLES = (11, 22)  # of cuSOLVER and cuBLAS


def memory(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The host memory at an address, as a Fortran-ordered array."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape, order="F")


class _Module:
    """The functions ``<letter><routine>`` by attribute."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        letter, routine = name[0], name[1:]
        if letter not in _DTYPES or not hasattr(type(self), f"_{routine}"):
            raise AttributeError(name)
        self.calls.append(name)
        return lambda *args: getattr(self, f"_{routine}")(letter, *args)


class Cusolver(_Module):
    def _potrf_bufferSize(
        self, letter: str, handle: int, uplo: int, n: int, a: int, lda: int
    ) -> int:
        assert handle == HANDLES[0] and lda >= n
        return 1

    def _potrf(self, letter: str, handle: int, uplo: int, n: int, a: int, lda: int, work: int,
               size: int, info: int) -> None:  # fmt: skip
        assert handle == HANDLES[0] and lda == n and size == 1 and work
        matrix = memory(a, (n, n), _DTYPES[letter])
        factor, failed = getattr(lapack, f"{letter}potrf")(
            matrix, lower=uplo == Cublas.CUBLAS_FILL_MODE_LOWER, clean=False
        )
        matrix[...] = factor
        memory(info, (1,), np.int32)[0] = failed

    def _getrf_bufferSize(self, letter: str, handle: int, m: int, n: int, a: int, lda: int) -> int:
        assert handle == HANDLES[0] and lda >= m
        return 1

    def _getrf(self, letter: str, handle: int, m: int, n: int, a: int, lda: int, work: int,
               pivots: int, info: int) -> None:  # fmt: skip
        assert handle == HANDLES[0] and lda == m and work
        matrix = memory(a, (m, n), _DTYPES[letter])
        factors, rows, failed = getattr(lapack, f"{letter}getrf")(matrix)
        matrix[...] = factors
        memory(pivots, (min(m, n),), np.int32)[...] = rows + 1
        memory(info, (1,), np.int32)[0] = failed


class Cublas(_Module):
    CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER = 0, 1
    CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT = 0, 1
    CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C = 0, 1, 2
    CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT = 0, 1

    def _trsm(self, letter: str, handle: int, side: int, uplo: int, trans: int, diag: int, m: int,
              n: int, alpha: int, a: int, lda: int, b: int, ldb: int) -> None:  # fmt: skip
        assert handle == HANDLES[1] and ldb == m
        size = n if side == self.CUBLAS_SIDE_RIGHT else m
        assert lda == size
        right = memory(b, (m, n), _DTYPES[letter])
        right[...] = getattr(blas, f"{letter}trsm")(
            memory(alpha, (1,), _DTYPES[letter])[0], memory(a, (size, size), _DTYPES[letter]),
            right, side=side, lower=uplo == self.CUBLAS_FILL_MODE_LOWER, trans_a=trans, diag=diag,
        )  # fmt: skip


# -- cuDNN ------------------------------------------------------------------------------------
_CUDNN_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}


def _plain(argument: Any) -> Any:
    """What a C function sees of an argument: numbers, addresses as ints, what is referred to."""
    if isinstance(argument, ctypes.c_void_p):
        return argument.value or 0
    return getattr(argument, "_obj", argument)


def strided(address: int, dims: Any, strides: Any, dtype: Any) -> np.ndarray:
    """The host memory of a tensor whose neighbours lie so many elements apart."""
    last = sum((n - 1) * s for n, s in zip(dims, strides)) + 1
    memory_of = (ctypes.c_uint8 * (last * np.dtype(dtype).itemsize)).from_address(address)
    flat = np.frombuffer(memory_of, dtype)
    sizes = [s * flat.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(flat, dims, sizes, writeable=True)


class Cudnn:
    """The functions of cuDNN that convolutions take; descriptors are kept by number.

    ``offers`` are the algorithms of a query: (algorithm, status, memory, determinism, math).
    """

    HANDLE = 33
    WORKSPACE = 1024

    def __init__(self) -> None:
        self.descriptors: dict[int, tuple[str, Any]] = {}
        self.live: set[int] = set()
        self.calls: list[tuple[Any, ...]] = []
        self.offers: list[tuple[int, int, int, int, int]] = [(1, 0, 64, 1, 3)]
        self.fails: dict[str, int] = {}
        self.stream: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        for verb in ("Create", "Destroy", "Get", "Convolution"):
            rest = name.removeprefix(f"cudnn{verb}")
            if rest != name and hasattr(type(self), f"_{verb.lower()}"):
                return self._checked(name, getattr(self, f"_{verb.lower()}"), rest)
        if not hasattr(type(self), f"_{name}"):
            raise AttributeError(name)
        return self._checked(name, getattr(self, f"_{name}"))

    def _checked(self, name: str, function: Callable[..., Any], *first: Any) -> Any:
        def call(*arguments: Any) -> int:
            if name in self.fails:
                return self.fails[name]
            function(*first, *map(_plain, arguments))
            return 0

        return call

    # -- errors
    def cudnnGetErrorString(self, status: int) -> bytes:
        return {3000: b"CUDNN_STATUS_NOT_SUPPORTED"}.get(status, b"CUDNN_STATUS_EXECUTION_FAILED")

    def cudnnGetLastErrorString(self, said: Any, size: int) -> None:
        said.value = b"what went wrong"

    # -- handles and descriptors
    def _create(self, what: str, made: Any) -> None:
        if not what:
            made.value = self.HANDLE
            return
        made.value = 100 + len(self.descriptors)
        self.descriptors[made.value] = (what, None)
        self.live.add(made.value)

    def _destroy(self, what: str, pointer: int) -> None:
        assert f"{self.descriptors[pointer][0]}" == what
        self.live.remove(pointer)

    def _cudnnSetStream(self, handle: int, stream: Any) -> None:
        assert handle == self.HANDLE
        self.stream = stream

    def _filled(self, pointer: int, kind: str, value: Any) -> None:
        assert pointer in self.live and self.descriptors[pointer][0] == f"{kind}Descriptor"
        self.descriptors[pointer] = (f"{kind}Descriptor", value)

    def _cudnnSetTensorNdDescriptor(
        self, pointer: int, dtype: int, count: int, dims: Any, strides: Any
    ) -> None:
        assert count == 4 and min(dims) > 0
        self._filled(pointer, "Tensor", (_CUDNN_TYPES[dtype], tuple(dims), tuple(strides)))

    def _cudnnSetFilterNdDescriptor(
        self, pointer: int, dtype: int, layout: int, count: int, dims: Any
    ) -> None:
        assert layout == 0 and count == 4 and min(dims) > 0
        strides = np.cumprod([1, *dims[:0:-1]])[::-1]
        self._filled(pointer, "Filter", (_CUDNN_TYPES[dtype], tuple(dims), tuple(strides)))

    def _cudnnSetConvolutionNdDescriptor(
        self, pointer: int, count: int, pads: Any, strides: Any, dilations: Any, mode: int,
        compute: int,
    ) -> None:  # fmt: skip
        assert count == 2 and mode == 1, "a cross-correlation"
        value = dict(pads=tuple(pads), strides=tuple(strides), dilations=tuple(dilations))
        self._filled(pointer, "Convolution", {**value, "compute": _CUDNN_TYPES[compute]})

    def _cudnnSetConvolutionGroupCount(self, pointer: int, groups: int) -> None:
        self.descriptors[pointer][1]["groups"] = groups

    def _cudnnSetConvolutionMathType(self, pointer: int, math: int) -> None:
        self.descriptors[pointer][1]["math"] = math

    def _value(self, pointer: int, kind: str) -> Any:
        assert pointer in self.live and self.descriptors[pointer][0] == f"{kind}Descriptor"
        return self.descriptors[pointer][1]

    # -- queries: (images, filters, results) by what is known and asked for
    _KINDS = {
        "Forward": ("Tensor", "Filter", "Tensor"), "BackwardData": ("Filter", "Tensor", "Tensor"),
        "BackwardFilter": ("Tensor", "Tensor", "Filter"),
    }  # fmt: skip

    def _get(self, what: str, handle: int, first: int, second: int, convolution: int, result: int,
             *rest: Any) -> None:  # fmt: skip
        assert handle == self.HANDLE
        direction = what.removeprefix("Convolution")
        direction = direction.removesuffix("Algorithm_v7").removesuffix("WorkspaceSize")
        for pointer, kind in zip((first, second, result), self._KINDS[direction]):
            self._value(pointer, kind)
        settings = self._value(convolution, "Convolution")
        if what.endswith("WorkspaceSize"):
            algorithm, size = rest
            chosen = next(o for o in self.offers if o[0] == algorithm)
            assert settings["math"] == chosen[4]
            size.value = self.WORKSPACE if chosen[2] else 0
            return
        most, count, found = rest
        self.calls.append(("asked", direction, settings["math"]))
        count.value = len(self.offers)
        for place, offer in zip(found, self.offers, strict=False):
            place.algorithm, place.status, place.memory, place.determinism, place.math = offer
        assert len(self.offers) <= most == len(found)

    # -- work
    def _convolution(
        self, direction: str, handle: int, alpha: int, first: int, a: int, second: int, b: int,
        convolution: int, algorithm: int, work: int, size: int, beta: int, result: int, out: int,
    ) -> None:  # fmt: skip
        assert handle == self.HANDLE and self.stream is not None
        assert bool(work) == bool(size)
        if size:
            ctypes.memset(work, 0xA5, size)
        kinds = self._KINDS[direction]
        settings = self._value(convolution, "Convolution")
        scalar = memory(alpha, (1,), settings["compute"]), memory(beta, (1,), settings["compute"])
        assert [float(s[0]) for s in scalar] == [1.0, 0.0]
        x, y, z = (
            strided(at, dims, strides, dtype)
            for at, (dtype, dims, strides) in zip(
                (a, b, out), map(self._value, (first, second, result), kinds)
            )
        )
        self.calls.append((direction, algorithm, settings["math"], settings["pads"]))
        _CONVOLUTIONS[direction](x, y, z, settings)

    def _cudnnSetTensor(self, handle: int, descriptor: int, address: int, value: int) -> None:
        dtype, dims, strides = self._value(descriptor, "Tensor")
        strided(address, dims, strides, dtype)[...] = memory(value, (1,), dtype)[0]

    def _cudnnTransformTensor(
        self, handle: int, alpha: int, first: int, source: int, beta: int, second: int, target: int
    ) -> None:
        (dtype, dims, strides), (other, wanted, apart) = (
            self._value(d, "Tensor") for d in (first, second)
        )
        scalar = np.float64 if dtype == np.float64 else np.float32
        assert (dtype, dims) == (other, wanted) and memory(alpha, (1,), scalar)[0] == 1
        assert memory(beta, (1,), scalar)[0] == 0
        strided(target, dims, apart, dtype)[...] = strided(source, dims, strides, dtype)


def _taps(images: np.ndarray, filters: Any, results: Any, settings: Any) -> Iterator[Any]:
    """For each group and tap: the places of images (padded) under it, as a view, and where the
    tap's filters and results are."""
    (sy, sx), (dy, dx), groups = settings["strides"], settings["dilations"], settings["groups"]
    (o, per_group, kh, kw), (h, w) = filters, results[2:]
    each = o // groups
    for group, i, j in np.ndindex(groups, kh, kw):
        rows = slice(i * dy, i * dy + (h - 1) * sy + 1, sy)
        columns = slice(j * dx, j * dx + (w - 1) * sx + 1, sx)
        seen = images[:, group * per_group : (group + 1) * per_group, rows, columns]
        yield seen, slice(group * each, (group + 1) * each), i, j


def _around(x: np.ndarray, settings: Any) -> np.ndarray:
    (py, px), wide = settings["pads"], np.float64
    return np.pad(x.astype(wide), [(0, 0), (0, 0), (py, py), (px, px)])


def _forward(x: np.ndarray, w: np.ndarray, y: np.ndarray, settings: Any) -> None:
    total = np.zeros(y.shape)
    for seen, own, i, j in _taps(_around(x, settings), w.shape, y.shape, settings):
        total[:, own] += np.einsum("nchw,oc->nohw", seen, w[own, :, i, j].astype(np.float64))
    y[...] = total


def _backward_data(w: np.ndarray, dy: np.ndarray, dx: np.ndarray, settings: Any) -> None:
    total = _around(np.zeros(dx.shape), settings)
    for seen, own, i, j in _taps(total, w.shape, dy.shape, settings):
        seen += np.einsum("nohw,oc->nchw", dy[:, own].astype(np.float64), w[own, :, i, j])
    (py, px), (h, wide) = settings["pads"], dx.shape[2:]
    dx[...] = total[:, :, py : py + h, px : px + wide]


def _backward_filter(x: np.ndarray, dy: np.ndarray, dw: np.ndarray, settings: Any) -> None:
    for seen, own, i, j in _taps(_around(x, settings), dw.shape, dy.shape, settings):
        dw[own, :, i, j] = np.einsum("nohw,nchw->oc", dy[:, own].astype(np.float64), seen)


_CONVOLUTIONS: dict[str, Callable[..., None]] = {
    "Forward": _forward, "BackwardData": _backward_data, "BackwardFilter": _backward_filter,
}  # fmt: skip
