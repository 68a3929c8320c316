"""Measurements on a GPU: ``python -m benchmarks.gpu [--row PART] [--repeats N] [--json FILE]``.

phix against JAX and PyTorch (eager and compiled, the better one counts) on the same card. Rows
that only move memory are also given as a part of what copying reaches; the aim is 0.8 or more.
A call is timed in rounds: as many calls as take some milliseconds, then one wait for the card.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks import harness, peers
from benchmarks.__main__ import load_rows
from benchmarks.harness import Case, Measurement, normal
from benchmarks.peers import Call, F, jax, jnp, torch
from phix import ops

_SPAN = 0.01
_ROWS, _COLUMNS = 8192, 8192  # 256 MB of float32


@dataclass(frozen=True)
class GpuRow:
    """A line of the table; ``moved``: the bytes it must move, where it does little else."""

    name: str
    build: Callable[[], Case]
    moved: int = 0


ROWS: dict[str, GpuRow] = {}


def row(name: str, moved: int = 0) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        ROWS[name] = GpuRow(name, build, moved)
        return build

    return register


# -- memory --------------------------------------------------------------------------------------
_SIZE = _ROWS * _COLUMNS * 4


@row("tanh(a * b + 1) * exp(-b), 256 MB", moved=3 * _SIZE)
def pointwise() -> Case:
    functions = {
        "phix": lambda a, b: ops.tanh(a * b + 1.0) * ops.exp(-b),
        "jax": lambda a, b: jnp.tanh(a * b + 1.0) * jnp.exp(-b),
        "torch": lambda a, b: torch.tanh(a * b + 1.0) * torch.exp(-b),
    }
    return Case((normal(_ROWS, _COLUMNS), normal(_ROWS, _COLUMNS, seed=1)), functions)


@row("a + b in bfloat16, 256 MB", moved=3 * _SIZE)
def pointwise_16_bits() -> Case:
    def add(a: Any, b: Any) -> Any:
        return a + b

    shape = (2 * _ROWS, _COLUMNS)
    args = tuple(normal(*shape, seed=s).astype(phix.bfloat16) for s in (0, 1))
    return Case(args, dict.fromkeys(("phix", "jax", "torch"), add), tolerance=1e-2)


@row("transpose, 256 MB", moved=2 * _SIZE)
def transpose() -> Case:
    functions = {
        "phix": lambda a: ops.transpose(a, [1, 0]),
        "jax": lambda a: jnp.transpose(a),
        "torch": lambda a: a.t().contiguous(),
    }
    return Case((normal(_ROWS, _COLUMNS),), functions)


def _sum(axis: tuple[int, ...]) -> Case:
    functions = {
        "phix": lambda a: ops.sum(a, axis),
        "jax": lambda a: jnp.sum(a, axis or None),
        "torch": lambda a: torch.sum(a, axis) if axis else torch.sum(a),
    }
    return Case((normal(_ROWS, _COLUMNS),), functions, tolerance=1e-3)


row("sum of all, 256 MB", moved=_SIZE)(lambda: _sum(()))
row("sum of columns, 256 MB", moved=_SIZE)(lambda: _sum((0,)))
row("sum of rows, 256 MB", moved=_SIZE)(lambda: _sum((1,)))
_SQUARE = 4096


@row("softmax, 4096 x 4096", moved=2 * 4 * _SQUARE**2)
def softmax() -> Case:
    functions = {
        "phix": lambda x: ops.softmax(x),
        "jax": lambda x: jax.nn.softmax(x),
        "torch": lambda x: F.softmax(x, -1),
    }
    return Case((normal(_SQUARE, _SQUARE),), functions)


@row("layer_norm, 4096 x 4096", moved=2 * 4 * _SQUARE**2)
def layer_norm() -> Case:
    def of_jax(x: Any, w: Any, b: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w + b

    functions = {
        "phix": lambda x, w, b: ops.layer_norm(x, w, b, 1e-5, 1),
        "jax": of_jax,
        "torch": lambda x, w, b: F.layer_norm(x, (_SQUARE,), w, b, 1e-5),
    }
    args = (normal(_SQUARE, _SQUARE), normal(_SQUARE), normal(_SQUARE))
    return Case(args, functions, tolerance=1e-4)


# -- arithmetic, and starting it -------------------------------------------------------------------
@row("matmul bfloat16, 8192")
def matmul() -> Case:
    def product(a: Any, b: Any) -> Any:
        return a @ b

    args = tuple(normal(8192, 8192, seed=s).astype(phix.bfloat16) for s in (0, 1))
    return Case(args, dict.fromkeys(("phix", "jax", "torch"), product), tolerance=2e-2)


@row("launch of a small call: 2 x + 1 of 16 elements")
def launch() -> Case:
    def line(x: Any) -> Any:
        return 2.0 * x + 1.0

    return Case((normal(16),), dict.fromkeys(("phix", "jax", "torch"), line))


# -- contenders ------------------------------------------------------------------------------------
class Phix:
    """The GPU engine: a graph compiled for arrays that are on the card."""

    differentiates = True

    def __init__(self) -> None:
        from phix.kernels.gpu import device

        self.runtime = device.runtime()

    def bind(self, function: Callable[..., Any], mode: str, args: tuple[Any, ...]) -> Call:
        from phix.kernels.gpu import ENGINE

        wrapped = peers.Functional("phix").wrapped(function, mode)
        graph = phix.jit(wrapped).lower(*args).graph
        arrays = [self.runtime.upload(leaf) for leaf in peers.leaves(args)]
        program = ENGINE.compile(graph, (True,) * len(arrays))
        run = program.launcher(tuple(a.shape for a in arrays))
        return lambda: run(*arrays)

    def numpy(self, x: Any) -> np.ndarray:
        return self.runtime.download(x)

    def wait(self, result: Any) -> None:
        self.runtime.device.synchronize()


class Jax(peers.Functional):
    def __init__(self) -> None:
        super().__init__("jax")

    def bind(self, function: Callable[..., Any], mode: str, args: tuple[Any, ...]) -> Call:
        arrays = peers.tree_map(self.array, args)
        run = jax.jit(self.wrapped(function, mode))
        return lambda: run(*arrays)

    def wait(self, result: Any) -> None:
        jax.block_until_ready(result)


class Torch(peers.Torch):
    def array(self, x: np.ndarray) -> Any:
        if x.dtype == phix.bfloat16:
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
        return super().array(x).cuda()

    def numpy(self, x: Any) -> np.ndarray:
        return x.detach().float().cpu().numpy()

    def wait(self, result: Any) -> None:
        torch.cuda.synchronize()


def contenders(names: tuple[str, ...]) -> dict[str, Any]:
    """Those asked for that are installed and find a GPU."""
    found: dict[str, Any] = {"phix": Phix()}
    if "jax" in names and peers.is_installed("jax") and jax.default_backend() == "gpu":
        found["jax"] = Jax()
    if "torch" in names and peers.is_installed("torch") and torch.cuda.is_available():
        found["torch"], found["torch.compile"] = Torch(), Torch("torch.compile", compiled=True)
    return found


# -- running ---------------------------------------------------------------------------------------
def timed(call: Call, wait: Callable[[Any], None], repeats: int) -> list[float]:
    """Seconds a call, of rounds that last _SPAN or longer."""

    def of_round(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            result = call()
        wait(result)
        return time.perf_counter() - start

    count = 1
    of_round(3)
    while of_round(count) < _SPAN:
        count *= 2
    return [of_round(count) / count for _ in range(repeats)]


def copy_bandwidth(runtime: Any, repeats: int) -> float:
    """Bytes a second, read and written, of a copy of 256 MB."""
    source, target = (runtime.empty((_SIZE,), np.dtype(np.uint8)) for _ in range(2))

    def copy() -> None:
        runtime.copy(target, source)

    return 2 * _SIZE / min(timed(copy, lambda _: runtime.device.synchronize(), repeats))


def measure(row: GpuRow, libraries: dict[str, Any], repeats: int) -> list[Measurement]:
    """The row's contenders, checked against each other, then timed."""
    case = row.build()
    calls, results = {}, {}
    for name, library in libraries.items():
        function = case.functions.get(name.partition(".")[0])
        if function is None:
            continue
        calls[name] = library.bind(function, case.mode, case.args)
        found = [library.numpy(x) for x in peers.leaves(calls[name]())]
        results[name] = [np.asarray(x, np.float32) for x in found]
    harness.check_equal(row.name, results, max(case.tolerance, 1e-4))
    return [
        harness.summary(row.name, name, timed(call, libraries[name].wait, repeats))
        for name, call in calls.items()
    ]


def every_row() -> dict[str, GpuRow]:
    """The rows of this file, and the networks of the other benchmarks."""
    load_rows()
    parts = ("mlp 784-1024", "gpt block", "beam")
    networks = [r for r in harness.ROWS.values() if any(p in r.name for p in parts)]
    return ROWS | {r.name: GpuRow(r.name, r.build) for r in networks}


def main() -> int:
    from phix.kernels.gpu.device import DEVICE

    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Measure on a GPU.")
    parser.add_argument("--row", metavar="PART", default="", help="only rows whose names hold this")
    parser.add_argument("--repeats", type=int, default=21, help="rounds of each contender (21)")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    args = parser.parse_args()
    if not DEVICE.count():
        print(f"no GPU to measure: {DEVICE.problem()}")
        return 0
    libraries = contenders(("jax", "torch"))
    runtime = libraries["phix"].runtime
    bandwidth = copy_bandwidth(runtime, args.repeats)
    print(f"{DEVICE.describe(0)}; copies {bandwidth / 1e9:.0f} GB/s; {', '.join(libraries)}")
    found: list[Measurement] = []
    for row in every_row().values():
        if args.row.lower() not in row.name.lower():
            continue
        found += measure(row, libraries, args.repeats)
        own = next(m.lowest for m in found if (m.row, m.contender) == (row.name, "phix"))
        if row.moved:
            print(f"{row.name}: {row.moved / own / bandwidth:.2f} of the copy's bandwidth")
    print(harness.table(found, True))
    if args.json:
        harness.write_json(args.json, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
