"""Measurements on a GPU: ``python -m benchmarks.gpu [--row PART] [--repeats N] [--json FILE]``.

phix against JAX and PyTorch (eager and, with ``--compile``, compiled; the better one counts) on the
same card, all through their public faces: arrays on the card, functions compiled. float32 products
are float32 in all of them, no TF32. Rows that only move memory are also given as a part of what
copying reaches; the aim is 0.8 or more. A call is timed in rounds: as many calls as take some
milliseconds, then one wait for the card. ``--kernels`` shows what each contender runs on the card,
by PyTorch's profiler.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks import harness, peers
from benchmarks.__main__ import load_rows
from benchmarks.harness import COMPILED, Case, Measurement
from benchmarks.peers import Call, jax, torch
from benchmarks.rows_gpu import ROWS, GpuRow

_SPAN = 0.01
# A call of more seconds than this is timed three times, not more.
_LONG = 0.3
_COPIED = 256 << 20
# Rows of the other benchmarks that are measured here too, by parts of their names.
_SHARED = (
    "mlp 784-1024", "gpt block", "resnet block", "beam", "sort, 1e6", "embedding", "scatter-add",
    "rnn by scan", "RK4 of a 3-vector", "five-point stencil",
)  # fmt: skip


# -- contenders ------------------------------------------------------------------------------------
class Phix(peers.Functional):
    """phix.jit, on tensors of the GPU."""

    def __init__(self) -> None:
        super().__init__("phix")
        from phix.kernels.gpu import device

        self.runtime, self.device = device.runtime(), device.DEVICE

    def forget(self) -> None:
        """Give back what is held for later."""
        self.device.empty_pool()

    def held(self) -> int:
        """Bytes taken of the card since then, what is held for later among them."""
        return int(self.runtime.cupy.get_default_memory_pool().total_bytes())

    def array(self, x: np.ndarray) -> Any:
        return phix.to_tensor(x, place="gpu")

    def numpy(self, x: Any) -> np.ndarray:
        return x.numpy()

    def wait(self, result: Any) -> None:
        self.runtime.device.synchronize()


class Jax(peers.Functional):
    def __init__(self) -> None:
        super().__init__("jax")
        jax.config.update("jax_default_matmul_precision", "highest")

    def bind(self, function: Callable[..., Any], mode: str, args: tuple[Any, ...]) -> Call:
        arrays = peers.tree_map(self.array, args)
        run = jax.jit(self.wrapped(function, mode))
        return lambda: run(*arrays)

    def wait(self, result: Any) -> None:
        jax.block_until_ready(result)


class Torch(peers.Torch):
    def __init__(self, name: str = "torch", compiled: bool = False) -> None:
        super().__init__(name, compiled)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def forget(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def held(self) -> int:
        return int(torch.cuda.max_memory_allocated())

    def array(self, x: np.ndarray) -> Any:
        if x.dtype == phix.bfloat16:
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
        return super().array(x).cuda()

    def numpy(self, x: Any) -> np.ndarray:
        return x.detach().float().cpu().numpy()

    def wait(self, result: Any) -> None:
        torch.cuda.synchronize()


def contenders(compiled: bool) -> dict[str, Any]:
    """Those that are installed and find a GPU."""
    found: dict[str, Any] = {"phix": Phix()}
    if peers.is_installed("jax") and jax.default_backend() == "gpu":
        found["jax"] = Jax()
    if peers.is_installed("torch") and torch.cuda.is_available():
        found["torch"] = Torch()
        if compiled:
            found[COMPILED] = Torch(COMPILED, compiled=True)
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

    if of_round(1) > _LONG:
        return [of_round(1) for _ in range(min(repeats, 3))]
    count = 1
    while of_round(count) < _SPAN:
        count *= 2
    return [of_round(count) / count for _ in range(repeats)]


def copy_bandwidth(runtime: Any, repeats: int) -> float:
    """Bytes a second, read and written, of a copy of 256 MB."""
    source, target = (runtime.empty((_COPIED,), np.dtype(np.uint8)) for _ in range(2))

    def copy() -> None:
        runtime.copy(target, source)

    return 2 * _COPIED / min(timed(copy, lambda _: runtime.device.synchronize(), repeats))


class Measuring:
    """The rows measured so far, what went wrong, and how long first calls took."""

    def __init__(self, libraries: dict[str, Any], repeats: int, shows_kernels: bool) -> None:
        self.libraries, self.repeats, self.shows_kernels = libraries, repeats, shows_kernels
        self.found: list[Measurement] = []
        self.first_calls: dict[str, dict[str, float]] = {}
        self.memory: dict[str, dict[str, float]] = {}  # megabytes, arguments and results too

    def row(self, row: GpuRow) -> None:
        """The row's contenders, checked against each other, then timed."""
        case = row.build()
        calls: dict[str, Call] = {}
        results: dict[str, list[np.ndarray]] = {}
        for name, library in self.libraries.items():
            function = case.functions.get(name.partition(".")[0])
            if function is None or (case.is_long_loop and name == COMPILED):
                continue
            try:
                calls[name], results[name] = self._first_call(
                    row.name, name, library, function, case
                )
            except Exception as error:
                calls.pop(name, None)
                print(f"{row.name}: {name} left out: {type(error).__name__}: {error!s:.600}")
        try:
            harness.check_equal(row.name, results, max(case.tolerance, 1e-4))
        except AssertionError as error:
            print(f"{row.name}: results differ: {error!s:.600}")
            return
        for name, call in calls.items():
            times = timed(call, self.libraries[name].wait, self.repeats)
            self.found.append(harness.summary(row.name, name, times))
        if self.shows_kernels:
            for name, call in calls.items():
                print(f"-- {row.name}: {name}\n{kernels(call)}")

    def _first_call(
        self, row: str, name: str, library: Any, function: Any, case: Case
    ) -> tuple[Call, list[np.ndarray]]:
        if hasattr(library, "forget"):
            library.forget()
        start = time.perf_counter()
        call = library.bind(function, case.mode, case.args)
        result = call()
        library.wait(result)
        self.first_calls.setdefault(row, {})[name] = time.perf_counter() - start
        if hasattr(library, "held"):
            self.memory.setdefault(row, {})[name] = library.held() / 1e6
        found = [np.asarray(library.numpy(x), np.float32) for x in peers.leaves(result)]
        return call, found

    def shown(self, row: GpuRow, copied: float) -> str:
        """The row's times and, if it moves memory alone, how near it comes to a copy."""
        times = {m.contender: m.lowest for m in self.found if m.row == row.name}
        cells = [f"{name} {harness.amount(row.name, t)}" for name, t in times.items()]
        if row.moved and "phix" in times:
            cells.append(f"{row.moved / times['phix'] / copied:.2f} of the copy's bandwidth")
        return f"{row.name}: {', '.join(cells)}"


def kernels(call: Call, most: int = 12) -> str:
    """What a call runs on the card: name, times, microseconds in all."""
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            call()
            torch.cuda.synchronize()
    events = [e for e in seen.key_averages() if e.self_device_time_total]
    events.sort(key=lambda e: -e.self_device_time_total)
    return "\n".join(
        f"   {e.self_device_time_total:10.1f} us {e.count:5d} x {e.key:.100}" for e in events[:most]
    )


def every_row() -> dict[str, GpuRow]:
    """The rows of the GPU, and those of the other benchmarks that are measured here."""
    load_rows()
    shared = [r for r in harness.ROWS.values() if any(p in r.name for p in _SHARED)]
    return ROWS | {r.name: GpuRow(r.name, r.build) for r in shared if "unknown" not in r.name}


def numbers_table(title: str, numbers: dict[str, dict[str, float]]) -> str:
    """A number of each contender in each row."""
    lines = [f"{title}:"]
    for row, of_row in numbers.items():
        lines.append(f"{row:70}" + "".join(f"  {n} {t:.2f}" for n, t in of_row.items()))
    return "\n".join(lines)


def main() -> int:
    from phix.kernels.gpu.device import DEVICE

    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Measure on a GPU.")
    parser.add_argument("--row", metavar="PART", default="", help="only rows whose names hold this")
    parser.add_argument("--repeats", type=int, default=21, help="rounds of each contender (21)")
    parser.add_argument("--without", metavar="PART", help="no rows whose names hold this")
    parser.add_argument("--compile", action="store_true", help="torch.compile takes part")
    parser.add_argument("--kernels", action="store_true", help="what each contender runs")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    args = parser.parse_args()
    if not DEVICE.count():
        print(f"no GPU to measure: {DEVICE.problem()}")
        return 0
    libraries = contenders(args.compile)
    bandwidth = copy_bandwidth(libraries["phix"].runtime, args.repeats)
    print(f"{DEVICE.describe(0)}; copies {bandwidth / 1e9:.0f} GB/s; {', '.join(libraries)}")
    measuring = Measuring(libraries, args.repeats, args.kernels)
    for row in every_row().values():
        if args.row not in row.name or (args.without and args.without in row.name):
            continue
        measuring.row(row)
        print(measuring.shown(row, bandwidth), flush=True)
    print(harness.table(measuring.found, True))
    print(numbers_table("first calls, compiling included, s", measuring.first_calls))
    print(numbers_table("most memory in a first call, MB", measuring.memory))
    if args.json:
        harness.write_json(
            args.json, measuring.found,
            first_calls=measuring.first_calls, memory=measuring.memory,
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
