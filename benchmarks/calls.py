"""What a call costs: small tensors, where all is overhead, and the import.

A row is a function that gives its contenders, each a call without arguments; JAX and PyTorch
take part where they are installed.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np

import phix
from benchmarks.harness import Call, Measurement, is_installed, measure, summary
from phix import ops

SIZE = 10


def _arrays(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(SIZE).astype(np.float32) for _ in range(count)]


def eager_add() -> dict[str, Call]:
    x, y = _arrays(2)
    tensors = phix.to_tensor(x), phix.to_tensor(y)
    calls: dict[str, Call] = {
        "phix": lambda: ops.add(*tensors),
        "numpy": lambda: np.add(x, y),
    }
    if is_installed("jax"):
        jnp = importlib.import_module("jax.numpy")
        in_jax = jnp.asarray(x), jnp.asarray(y)
        calls["jax"] = lambda: jnp.add(*in_jax).block_until_ready()
    if is_installed("torch"):
        torch = importlib.import_module("torch")
        in_torch = torch.from_numpy(x), torch.from_numpy(y)
        calls["torch"] = lambda: torch.add(*in_torch)
    return calls


def jitted_call() -> dict[str, Call]:
    x, y = _arrays(2)
    tensors = phix.to_tensor(x), phix.to_tensor(y)
    compiled = phix.jit(lambda x, y: x * y + x)
    calls: dict[str, Call] = {
        "phix": lambda: compiled(*tensors),
        "numpy": lambda: x * y + x,
    }
    if is_installed("jax"):
        jax = importlib.import_module("jax")
        in_jax = jax.numpy.asarray(x), jax.numpy.asarray(y)
        by_jax = jax.jit(lambda x, y: x * y + x)
        calls["jax"] = lambda: by_jax(*in_jax).block_until_ready()
    if is_installed("torch"):
        torch = importlib.import_module("torch")
        a, b = torch.from_numpy(x), torch.from_numpy(y)
        calls["torch"] = lambda: a * b + a
    return calls


def jitted_tree() -> dict[str, Call]:
    """A step of a training loop takes and gives a tree; JAX is the one to compare with."""
    tree = dict(zip("abcdefghijklmnopqrst", _arrays(20)))
    tensors = phix.tree.map(phix.to_tensor, tree)
    compiled = phix.jit(lambda t: phix.tree.map(lambda x: x * 0.5, t))
    calls: dict[str, Call] = {
        "phix": lambda: list(compiled(tensors).values()),
        "numpy": lambda: [x * np.float32(0.5) for x in tree.values()],
    }
    if is_installed("jax"):
        jax = importlib.import_module("jax")
        in_jax = jax.tree.map(jax.numpy.asarray, tree)
        by_jax = jax.jit(lambda t: jax.tree.map(lambda x: x * 0.5, t))
        calls["jax"] = lambda: list(jax.block_until_ready(by_jax(in_jax)).values())
    return calls


ROWS: dict[str, Callable[[], dict[str, Call]]] = {
    f"eager add of {SIZE} floats": eager_add,
    f"jitted x * y + x of {SIZE} floats": jitted_call,
    f"jitted tree of 20 tensors of {SIZE} floats": jitted_tree,
}

_IMPORT = """
import time
{before}
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""
# contender -> the module imported, and what is imported before the clock starts
IMPORTS = {
    "numpy": ("numpy", ""),
    "phix": ("phix", "import numpy"),
    "jax": ("jax", "import numpy"),
    "torch": ("torch", "import numpy"),
}


def import_times(repeats: int) -> list[Measurement]:
    """The time of an import in a fresh process; of what stands on NumPy, after NumPy's."""
    present = {n: v for n, v in IMPORTS.items() if is_installed(n)}
    times: dict[str, list[float]] = {name: [] for name in present}
    for number in range(repeats + 1):
        for name, (module, before) in present.items():
            code = _IMPORT.format(module=module, before=before)
            run = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            if number:  # the first one reads the files into memory
                times[name].append(float(run.stdout))
    return [
        summary("import, after numpy" if IMPORTS[name][1] else "import", name, found)
        for name, found in times.items()
    ]


def run(repeats: int) -> list[Measurement]:
    """All rows."""
    found = [m for row, contenders in ROWS.items() for m in measure(row, contenders(), repeats)]
    return found + import_times(max(1, min(repeats, 9)))
