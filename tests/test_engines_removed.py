"""A library without one of its engines imports, and runs on the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ON_CPU = """
import phix
assert phix.jit(phix.grad(lambda x: x ** 2))(3.0).item() == 6.0
try:
    phix.zeros([1]).to("gpu")
except phix.errors.DeviceError as error:
    print(error)
"""
ON_NPU = """
import phix, phix_npu
phix_npu.register()
try:
    phix.to_tensor([1.0]) + 1.0
except phix.errors.DeviceError as error:
    print(error)
with phix.device("npu"):
    x = phix.to_tensor([1.0, 2.0])
    slope = phix.jit(phix.grad(lambda v: phix.ops.softmax(v)[0]))(x)
    assert abs(slope.numpy().sum()) < 1e-6 and phix.vmap(lambda r: r * 2)(x).tolist() == [2, 4]
"""


@pytest.mark.parametrize(
    ("engine", "code", "said"),
    [
        ("gpu", ON_CPU, "no place 'gpu'; the places of this installation: cpu"),
        ("cpu", ON_NPU, "no engine for place 'cpu'"),
    ],
)
def test_engine_removed(engine: str, code: str, said: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "phix", tmp_path / "phix", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "yaml", tmp_path / "yaml")
    shutil.rmtree(tmp_path / "phix" / "kernels" / engine, ignore_errors=True)
    path = f"{tmp_path}:{ROOT / 'examples' / 'plugin_backend'}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env={"PYTHONPATH": path, "PATH": "", "PHIX_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(said)
