"""A GPU played by the CPU: kernels compiled as C++ with ``shim.h``, arrays of NumPy."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phix.core.kernel_context import KernelContext
from phix.core.places import Place
from phix.kernels.gpu import host_steps, prelude
from phix.kernels.gpu.runtime import Batch, FactorCall, Waits

STREAM = 77  # what stands for the current stream
_SHIM = Path(__file__).with_name("shim.h").read_text()
COMPILER = shutil.which("g++")
_OPTIONS = ("-Og", "-std=c++17", "-fPIC", "-w", "-ffp-contract=off", "-march=native")


class Emulator:
    """See :class:`phix.kernels.gpu.runtime.Runtime`."""

    def __init__(self) -> None:
        self.products: list[Batch] = []
        self.orders = random.Random(0)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        made = np.empty(shape, dtype)
        made.view(np.uint8 if made.ndim else made.dtype)  # contiguous by making
        if made.size:  # what nobody wrote must not look right
            ctypes.memset(made.ctypes.data, 0xA5, made.nbytes)
        return made

    def view(
        self, block: np.ndarray, offset: int, shape: tuple[int, ...], dtype: np.dtype
    ) -> np.ndarray:
        count = int(np.prod(shape)) * dtype.itemsize
        return block[offset : offset + count].view(dtype).reshape(shape)

    def upload(self, value: Any) -> np.ndarray:
        return np.array(value, order="C")

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        target[...] = source

    def address(self, array: np.ndarray) -> int:
        return int(array.ctypes.data)

    def functions(self, source: str, names: Sequence[str]) -> list[Any]:
        texts = kernel_texts(source)
        prepare([source])
        made = []
        for name in names:
            is_plain = not re.search(r"__syncthreads|phix_reduce|phix_scan", texts[name])
            made.append((_compiled[_anonymous(texts[name], name)], is_plain))
        return made

    def launch(self, function: Any, grid: int, block: int, arguments: list[int]) -> None:
        call, is_plain = function
        values = (ctypes.c_int64 * max(len(arguments), 1))(*arguments)
        base = ctypes.addressof(values)
        pointers = [base + 8 * k for k in range(len(arguments))]
        # few blocks, so that the grid has to stride; threads in either order
        how = int(is_plain) + 2 * self.orders.randrange(2)
        call(min(grid, 3), block, how, (ctypes.c_void_p * len(pointers))(*pointers))

    def start(self, works: Sequence[Callable[[], None]], waits: Sequence[Waits]) -> None:
        """In an order drawn anew from those that are allowed."""
        left, done = list(range(len(works))), set()
        while left:
            number = self.orders.choice([n for n in left if done.issuperset(waits[n])])
            works[number]()
            left.remove(number)
            done.add(number)

    def multiply(self, batch: Batch, turn: int) -> None:
        self.products.append(batch)
        b = batch
        m, n, k = b.sizes
        x = _matrices(b, 0, (k, m) if b.transpose_x else (m, k))
        y = _matrices(b, 1, (n, k) if b.transpose_y else (k, n))
        out = _matrices(b, 2, (m, n))
        x = x.swapaxes(1, 2) if b.transpose_x else x
        y = y.swapaxes(1, 2) if b.transpose_y else y
        is_half = b.dtype.itemsize == 2
        wide = np.dtype(np.float32) if is_half else b.dtype
        product = np.matmul(x.astype(wide), y.astype(wide)).astype(b.dtype)
        out[...] = out + product if b.accumulate else product

    def solver(self) -> Callable[[FactorCall], None] | None:
        return None

    def host_step(self, name: str, attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
        return host_steps.find(name, np, attrs)  # NumPy has the functions of CuPy

    def link(self, group: Any) -> Any:
        return None

    def context(self, made: list[Any]) -> KernelContext:
        return KernelContext(Place("gpu"), STREAM, made)

    def call(self, work: Callable[[], None]) -> None:
        work()

    def state(self) -> tuple[Any, ...]:
        return (0,)

    def recorded(self, run: Callable[[], None]) -> Callable[[], None] | None:
        return run


def _matrices(batch: Batch, which: int, shape: tuple[int, int]) -> np.ndarray:
    """The matrices of one operand in memory, seen as one array."""
    size, step, pitch = batch.dtype.itemsize, batch.steps[which], batch.pitches[which]
    last = (batch.count - 1) * step + (shape[0] - 1) * pitch + shape[1]
    memory = (ctypes.c_uint8 * (max(last, 0) * size)).from_address(batch.addresses[which])
    raw = np.ctypeslib.as_array(memory).view(batch.dtype)
    strides = (step * size, pitch * size, size)
    return np.lib.stride_tricks.as_strided(raw, (batch.count, *shape), strides)


# The text of a kernel, without its name -> what launches it.
_compiled: dict[str, Any] = {}


def kernel_texts(source: str) -> dict[str, str]:
    """The kernels of a module by name."""
    _, *parts = re.split(r'(?=extern "C" __global__)', source)
    return {re.search(r"\) (\w+)\(", part).group(1): part for part in parts}  # type: ignore[union-attr]


def _anonymous(text: str, name: str) -> str:
    return text.replace(f" {name}(", " KERNEL(", 1).strip()


def prepare(sources: Iterable[str]) -> None:
    """Compile the kernels of modules that are not compiled yet, all at once."""
    wanted: dict[str, None] = {}
    for source in sources:
        for name, text in kernel_texts(source).items():
            wanted.setdefault(_anonymous(text, name))
    missing = [text for text in wanted if text not in _compiled]
    if not missing:
        return
    named = [text.replace(" KERNEL(", f" kernel_{k}(", 1) for k, text in enumerate(missing)]
    launchers = [f"PHIX_LAUNCHER(kernel_{k})" for k in range(len(missing))]
    library = _library("\n".join([_SHIM, prelude.TEXT, ""]), "\n".join([*named, *launchers, ""]))
    for k, text in enumerate(missing):
        _compiled[text] = getattr(library, f"launch_kernel_{k}")


def _library(head: str, text: str) -> Any:
    """The library of a C++ source that begins with ``head``, kept beside the kernel cache."""
    folder = Path(os.environ.get("PHIX_CACHE_DIR") or tempfile.gettempdir()) / "emulated"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_digest(head + text)}.so"
    if not path.exists():
        header = _header(folder, head)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            file = Path(scratch) / "module.cpp"
            file.write_text(f'#include "{header}"\n{text}')
            made = file.with_suffix(".so")
            _compile("-shared", str(file), "-o", str(made))
            os.replace(made, path)
    return ctypes.CDLL(str(path))


def _header(folder: Path, text: str) -> Path:
    """The file of a header, compiled once for all modules: of most of them it is the most part."""
    path = folder / f"{_digest(text)}.h"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            file = Path(scratch) / "head.h"
            file.write_text(text)
            made = file.with_suffix(".h.gch")
            _compile("-x", "c++-header", str(file), "-o", str(made))
            os.replace(made, f"{path}.gch")
            os.replace(file, path)
    return path


def _compile(*arguments: str) -> None:
    assert COMPILER is not None
    subprocess.run([COMPILER, *_OPTIONS, *arguments], check=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Collector(Emulator):
    """Takes note of the modules a program wants, and compiles none."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []

    def functions(self, source: str, names: Sequence[str]) -> list[Any]:
        self.sources.append(source)
        return [None for _ in names]


def merged(sources: Iterable[str], at_once: int) -> list[str]:
    """Modules with the distinct kernels of modules, so many in each."""
    texts: dict[str, None] = {}
    for source in sources:
        for name, text in kernel_texts(source).items():
            texts.setdefault(_anonymous(text, name))
    named = [text.replace(" KERNEL(", f" kernel_{k}(", 1) for k, text in enumerate(texts)]
    return [
        "\n".join([prelude.TEXT, *named[k : k + at_once], ""])
        for k in range(0, len(named), at_once)
    ]
