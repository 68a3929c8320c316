"""What PHIX_CPU says generated code may use."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import pytest

pytestmark = pytest.mark.xdist_group("levels")  # a level's programs are run once
ROOT = Path(__file__).parents[1]
X86 = llvm.get_process_triple().startswith("x86_64")
LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"] if X86 else ["armv8-a"]

# One program of each kind that a level decides: wide vectors, masks, fma, rounding, products,
# threads, and every float16, to float32 and back.
PROGRAM = """
import numpy as np, phix
from phix import ops
from phix.kernels.cpu import jit
from phix.kernels.cpu.level import has_masks
halves = np.arange(65536, dtype=np.uint16).view(np.float16)
wide = np.asarray(ops.cast(halves, "float32"))
np.testing.assert_array_equal(wide, halves.astype(np.float32))
with np.errstate(all="ignore"):
    x = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    near = (halves.astype(np.float64)[:31743] + halves.astype(np.float64)[1:31744]) / 2
    x = np.concatenate([x, near.astype(np.float32), -near.astype(np.float32)])
    for given in (x, x.astype(np.float64), near, near * (1 + 1e-12), near * (1 - 1e-12)):
        found, expected = np.asarray(ops.cast(given, "float16")), given.astype(np.float16)
        np.testing.assert_array_equal(found, expected)
for dtype in (np.float32, np.float64):
    a = np.random.default_rng(1).normal(size=(200, 300)).astype(dtype)
    tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(ops.matmul(a, a.T), a.astype(float) @ a.T.astype(float),
                               rtol=tolerance, atol=tolerance * 300)
    np.testing.assert_allclose(ops.tanh(a), np.tanh(a.astype(float)), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(ops.floor(a), np.floor(a))
    np.testing.assert_allclose(phix.jit(lambda a: ops.sum(a * a, [0]))(a),
                               (a.astype(float) ** 2).sum(0), rtol=tolerance)
    np.testing.assert_array_equal(ops.sort(a, 1), np.sort(a, 1))
"""


# Sums of many like numbers: loops that LLVM makes vectors of, of narrower ones as other dtypes
# stand in the loop, and of none, as what is read is anywhere and the CPU cannot gather.
SUMS = """
import numpy as np, phix
from phix import ops
n = 400_000
tenth = np.full(n, 0.1, np.float32)
other = np.random.default_rng(0).permutation(n)
plane, box, pairs = tenth.reshape(4, -1), tenth.reshape(1000, 4, -1), tenth.reshape(-1, 4, 2)
wide = tenth.astype(np.float64)
far = (1e4 + np.random.default_rng(1).normal(size=n)).astype(np.float32)
ways = {
    "sum": (ops.sum, (tenth,), wide.sum()),
    "mean": (ops.mean, (tenth,), wide.mean()),
    "rows": (lambda x: ops.sum(x, [1]), (plane,), wide.reshape(4, -1).sum(1)),
    "columns": (lambda x: ops.sum(x, [0]), (tenth.reshape(-1, 4),), wide.reshape(-1, 4).sum(0)),
    "short rows": (lambda x: ops.sum(x, [0, 2]), (box,), wide.reshape(box.shape).sum((0, 2))),
    "pairs": (lambda x: ops.sum(x, [0, 2]), (pairs,), wide.reshape(pairs.shape).sum((0, 2))),
    "running": (lambda x: ops.cumsum(x, 0), (tenth,), wide.cumsum()),
    "variance": (lambda x: ops.var(x, [0], unbiased=False), (far,), far.astype(np.float64).var()),
    "of float64": (lambda x: ops.sum(ops.cast(x, "float32")), (wide,), wide.sum()),
    "of int64": (lambda x: ops.sum(ops.cast(x, "float32") * np.float32(0.1)),
                 (np.ones(n, np.int64),), wide.sum()),
    "float64": (ops.sum, (wide,), wide.sum()),
    "anywhere": (lambda x, i: ops.sum(ops.gather(x, i)), (tenth, other), wide.sum()),
    "turned": (lambda x: ops.sum(ops.transpose(x, [1, 0])), (plane,), wide.sum()),
    "products": (lambda x: ops.matmul(x, x), (tenth,), (wide * wide).sum()),
}
for name, (f, args, expected) in ways.items():
    found = np.asarray(phix.jit(f)(*map(phix.to_tensor, args)), np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)
"""
# What depends on the level, a line each.
FACTS = """
print(jit.identity())
print(jit.vector_registers()[0], has_masks())
"""


@cache
def run(level: str) -> subprocess.CompletedProcess[str]:
    """The programs, with two threads, at a level."""
    environment = os.environ | {"PHIX_CPU": level, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + SUMS + FACTS],
        text=True, capture_output=True, env=environment,
    )  # fmt: skip


def has(level: str) -> bool:
    """Whether this CPU has what a level asks for."""
    return "asks for what this CPU has not" not in run(level).stderr


@pytest.mark.parametrize("level", [*LEVELS, "native", ""])
def test_programs_run_at_every_level(level: str) -> None:
    if not has(level):
        pytest.skip(f"this CPU has not what {level} asks for")
    assert run(level).returncode == 0, run(level).stderr


def test_the_level_is_part_of_what_names_a_program() -> None:
    levels = [level for level in (*LEVELS, "native") if has(level)]
    names = [run(level).stdout.splitlines()[0] for level in levels]
    assert len(set(names)) == len(names) and all(names)
    assert run("").stdout == run("native").stdout


def test_a_level_uses_no_wider_vectors_than_it_has() -> None:
    widths = {"x86-64-v2": "16 False", "x86-64-v3": "32 False", "x86-64-v4": "64 True"}
    for level in LEVELS:
        if level in widths and has(level):
            assert run(level).stdout.splitlines()[1] == widths[level]


def test_a_level_that_is_none_is_refused() -> None:
    done = run("pentium")
    assert "ArgumentError: PHIX_CPU='pentium' names no level of this machine; write native" in (
        done.stderr
    )


def test_a_level_above_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from phix.core.errors import ArgumentError
    from phix.kernels.cpu import host
    from phix.kernels.cpu import level as module

    known = host.facts()
    features = llvm.FeatureMap({"sse2": True, "neon": False}).flatten()
    monkeypatch.setattr(host, "facts", lambda: {**known, "features": features})
    monkeypatch.setenv("PHIX_CPU", LEVELS[-1])
    with pytest.raises(ArgumentError, match=r"asks for what this CPU has not: .*write a lower"):
        module.level.__wrapped__()


# What differs from CPU to CPU and with threads.
DEPENDENT = ("op_table", "bodies", "body_accuracy", "lowered", "cpu_engine", "half_precision",
             "products", "long_sums", "random_networks", "random_graphs")  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("name", DEPENDENT)
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("level", [*LEVELS, "native"])
def test_a_slice_of_the_tests_at_every_level(
    level: str, threads: str, name: str, request: pytest.FixtureRequest
) -> None:
    """A slice of the seed's choice, as optimised as users have it."""
    if not has(level):
        pytest.skip(f"this CPU is below {level}")
    number = str(request.config.option.prove_seed)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider",
               "--quick", "--optimise", "--slice", number]  # fmt: skip
    environment = os.environ | {"PHIX_CPU": level, "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        [*command, str(ROOT / "tests" / f"test_{name}.py")],
        text=True, capture_output=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
