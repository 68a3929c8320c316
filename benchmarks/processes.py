"""Rows measured in fresh processes: imports, compiling, many shapes, peak memory.

``python -m benchmarks.processes JOB CONTENDER ROW`` does one job and prints one number.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks import depth
from benchmarks.harness import BYTES, ROWS, WANTED, Measurement, normal, summary
from benchmarks.peers import F, jax, jnp, leaves, libraries, torch, tree_map

COLD, WARM, SHAPES, IMPORT = "compile", "from disk", "many shapes", "import"
DEPTH = "depth"
PEAK, PLANNED = BYTES, f"{BYTES}, planned"


# -- jobs: what happens in the new process ---------------------------------------------------------
def first_call(contender: str, row: str) -> float:
    """From the function to its first result; imports and the runtime's own start are done."""
    library = libraries((contender,), compiled=False)[contender]
    library.bind(lambda x: x + x, "call", (np.zeros(2, np.float32),))()
    case = ROWS[row].build()
    function = case.functions[contender]
    start = time.perf_counter()
    library.bind(function, case.mode, case.args)()
    return time.perf_counter() - start


def import_time(contender: str, row: str) -> float:
    """Of what stands on NumPy, after NumPy's; only here nothing is imported before."""
    code = f"import time\nimport {'time' if contender == 'numpy' else 'numpy'}\n"
    code += f"start = time.perf_counter()\nimport {contender}\nprint(time.perf_counter() - start)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout)


def many_shapes(contender: str, row: str) -> float:
    """50 batch sizes of a network, forward, compiling included."""
    from benchmarks.rows_networks import dense, mlp_jax, mlp_phix, mlp_torch

    params = dense(784, 512, 512, 10)
    library = libraries((contender,), compiled=False)[contender]
    args = [tree_map(library.array, (params, normal(n, 784))) for n in range(1, 51)]
    start = time.perf_counter()
    function: Callable[..., Any] = mlp_torch
    if contender == "phix":
        specs = phix.tree.map(lambda a: phix.spec(a.shape, "float32"), params)
        function = phix.jit(mlp_phix, input_spec=[specs, phix.spec(["n", 784], "float32")])
    elif contender == "jax":
        function = jax.jit(mlp_jax)
    for each in args:
        jax.block_until_ready(function(*each)) if contender == "jax" else function(*each)
    return time.perf_counter() - start


def peak_bytes(contender: str, row: str) -> float:
    """How far the first call of a compiled function lifts the resident memory of the process."""
    library = libraries((contender,), compiled=False)[contender]
    case = ROWS[row].build()
    run = _compiled(contender, library, case)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak
    before = _status("VmRSS")
    out = run()
    used = _status("VmHWM") - before
    del out
    return used


def planned_bytes(contender: str, row: str) -> float:
    """What the compiler says that a run takes beside its arguments: outputs and temps."""
    library = libraries((contender,), compiled=False)[contender]
    case = ROWS[row].build()
    wrapped = library.module.jit(library.wrapped(case.functions[contender], case.mode))
    arrays = tree_map(library.array, case.args)
    memory = wrapped.lower(*arrays).compile().memory_analysis()
    return float(memory.output_size_in_bytes + memory.temp_size_in_bytes)


def _compiled(contender: str, library: Any, case: Any) -> Callable[[], Any]:
    function = case.functions[contender]
    if contender == "torch":
        # threads and the buffers of its libraries, once
        x = torch.ones(64, 64, requires_grad=True)
        (x @ x).sum().backward()
        image = torch.ones(1, 4, 8, 8, requires_grad=True)
        F.conv2d(image, torch.ones(4, 4, 3, 3)).sum().backward()
        run: Callable[[], Any] = library.bind(function, case.mode, case.args)
        return run
    small = library.array(np.ones((64, 64), np.float32))
    leaves(small @ small if contender == "phix" else jnp.matmul(small, small))
    arrays = tree_map(library.array, case.args)
    wrapped = library.module.jit(library.wrapped(function, case.mode))
    compiled = wrapped.lower(*arrays).compile()
    if contender == "jax":
        return lambda: jax.block_until_ready(compiled(*arrays))
    return lambda: compiled(*arrays)


def _status(key: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key):
            return 1024.0 * float(line.split()[1])
    raise KeyError(key)


def deep(contender: str, row: str) -> float:
    """See :mod:`benchmarks.depth`."""
    return depth.first_call(row, contender)


JOBS: dict[str, Callable[[str, str], float]] = {
    COLD: first_call,
    WARM: first_call,
    SHAPES: many_shapes,
    DEPTH: deep,
    PEAK: peak_bytes,
    PLANNED: planned_bytes,
    IMPORT: import_time,
}


# -- rows ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ProcessRow:
    job: str
    row: str = ""
    contenders: tuple[str, ...] = ("phix", "jax")
    wanted: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.job}: {self.row}" if self.row else self.job


_WITH_TORCH = ("phix", "jax", "torch")
_COMPILED = ("mlp 784-512-512-10", "beam", "gpt block")
_WEIGHED = ("mlp 784-1024-1024-10", "gpt block", "resnet block")
PROCESS_ROWS = [
    ProcessRow(SHAPES, "50 batch sizes of an mlp", _WITH_TORCH, {"jax": 10}),
    *(ProcessRow(COLD, row, wanted={"jax": 1}) for row in _COMPILED),
    *(ProcessRow(WARM, row, wanted={"jax": 10}) for row in _COMPILED),
    *(ProcessRow(PEAK, row, _WITH_TORCH, {"jax": 1}) for row in _WEIGHED),
    *(ProcessRow(PLANNED, row, wanted={"jax": 1}) for row in _WEIGHED),
    *(ProcessRow(DEPTH, row, contenders) for row, contenders in depth.rows()),
    ProcessRow(IMPORT, "", ("phix", "jax", "torch", "numpy")),
]
WANTED.update({r.name: r.wanted for r in PROCESS_ROWS})


def write_byte_code() -> None:
    """Compile phix's own Python, as pip does with what it installs: the others come with theirs."""
    for package in (phix, sys.modules[__package__]):
        compileall.compile_dir(os.path.dirname(str(package.__file__)), quiet=2)


def _spawn(row: ProcessRow, contender: str, cache: str) -> float:
    environment = os.environ | {"PHIX_CACHE_DIR": os.path.join(cache, "phix")}
    if row.job == PEAK:  # freed memory is given back at once, so that a peak is one
        environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    if row.job == WARM:  # JAX keeps nothing on disk unless told to
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": os.path.join(cache, "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    command = [sys.executable, "-m", "benchmarks.processes", row.job, contender, row.row]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode:
        raise RuntimeError(run.stderr.strip().rpartition("\n")[2])
    return float(run.stdout)


def run_process_row(
    row: ProcessRow, names: tuple[str, ...], repeats: int
) -> tuple[list[Measurement], list[str]]:
    """Like ``harness.run_row``."""
    write_byte_code()
    found: list[Measurement] = []
    notes: list[str] = []
    for contender in (c for c in row.contenders if c in names):
        values = []
        with tempfile.TemporaryDirectory() as kept:
            try:
                if row.job == WARM:
                    _spawn(row, contender, kept)
                for _ in range(repeats):
                    with tempfile.TemporaryDirectory() as empty:
                        values.append(_spawn(row, contender, kept if row.job == WARM else empty))
            except RuntimeError as error:
                notes.append(f"{row.name}: {contender} left out: {error!s:.200}")
                continue
        found.append(summary(row.name, contender, values))
    return found, notes


def main(job: str, contender: str, row: str) -> None:
    from benchmarks.__main__ import load_rows

    load_rows()
    if contender == "torch" and job != IMPORT:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    if job == DEPTH:
        print(deep(contender, row))
        return
    chosen = next((name for name in ROWS if name.startswith(row)), "") if row else ""
    print(JOBS[job](contender, chosen))


if __name__ == "__main__":
    main(*sys.argv[1:4])
