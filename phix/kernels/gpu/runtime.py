"""What a program needs of the device it runs on.

CuPy gives it on a GPU (:mod:`phix.kernels.gpu.device`); tests give it on a CPU, where the text
of the kernels is compiled as C++ and run block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from phix.core.kernel_context import KernelContext
from phix.core.records import dataclass
from phix.kernels.gpu.nccl import Link

# The numbers of the works before a work that it waits for.
Waits = tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """Equal matrix products ``out = op(x) op(y)``, or ``out += ...``, at equal distances.

    ``op`` transposes where the flag is set; op(x) is m by k and op(y) k by n, with (m, n, k) the
    ``sizes``. Of x, y and out there are, in this order: ``pitches``, the elements from one row to
    the next, ``addresses`` of the first matrices, and ``steps``, elements from one to the next.
    """

    dtype: np.dtype
    transpose_x: bool
    transpose_y: bool
    accumulate: bool
    sizes: tuple[int, int, int]
    pitches: tuple[int, ...]
    addresses: tuple[int, ...]
    count: int
    steps: tuple[int, ...]


@dataclass(frozen=True)
class FactorCall:
    """A factorisation, or the solution of triangular systems, of one matrix.

    ``routine`` is LAPACK's or the BLAS' name, ``potrf``, ``getrf`` or ``trsm``; what its flags,
    sizes and operands are stands in :mod:`phix.kernels.gpu.factors`.
    """

    routine: str
    dtype: np.dtype
    flags: tuple[bool, ...]
    sizes: tuple[int, ...]
    addresses: tuple[int, ...]


class Runtime(Protocol):
    """Memory, kernels and libraries of one device; arrays are of the device's own type."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """A fresh C-contiguous array.

        Raises:
            OutOfMemoryError: there is no room for it.
        """

    def view(self, block: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The bytes of an array of bytes from ``offset`` on, as a C-contiguous array."""

    def upload(self, value: Any) -> Any:
        """A host value, or an array already there, as a C-contiguous array of the device."""

    def download(self, array: Any) -> np.ndarray:
        """The array on the host, once all work on it is done."""

    def copy(self, target: Any, source: Any) -> None:
        """Put an array of the device, or of the host, into one of the device."""

    def address(self, array: Any) -> int:
        """The address of the first element."""

    def functions(self, source: str, names: Sequence[str]) -> list[Any]:
        """Kernels of a module of CUDA C++, compiled."""

    def launch(self, function: Any, grid: int, block: int, arguments: list[int]) -> None:
        """Start a kernel; every argument is an address or an int64."""

    def start(self, works: Sequence[Callable[[], None]], waits: Sequence[Waits]) -> None:
        """Start works, each of which waits for those before it of the given numbers; what follows
        waits for all of them."""

    def multiply(self, batch: Batch, turn: int) -> None:
        """Start matrix products; those of another ``turn`` may run at the same time."""

    def solver(self) -> Callable[[FactorCall], None] | None:
        """What starts work on a large matrix, or None: the engine's own kernels do it."""

    def host_step(self, name: str, attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
        """What does a host step on arrays of the device, or None: it runs on the host, on copies.

        It takes the input arrays and the output arrays.
        """

    def link(self, group: Any) -> Link | None:
        """What joins the GPUs of the ranks of a group, or None: its steps go through the host."""

    def context(self, made: list[Any]) -> KernelContext:
        """What kernels of libraries run with; what they allocate is put into ``made``."""

    def call(self, work: Callable[[], None]) -> None:
        """Do what starts work by libraries, on this device, nobody else at it."""

    def state(self) -> tuple[Any, ...]:
        """What a recording depends on besides its memory: the stream, the precision of products."""

    def recorded(self, run: Callable[[], None]) -> Callable[[], None] | None:
        """What ``run`` starts, as one function that starts all of it again; None: cannot be."""
