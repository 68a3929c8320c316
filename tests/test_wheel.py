"""An installed wheel works outside the checkout, and brings the op table along."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import phix

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = '''
import sys
from pathlib import Path

import numpy as np
import phix

installed = Path(sys.argv[1])
assert installed in Path(phix.__file__).parents, phix.__file__
shipped = sorted(p.name for p in (installed / "phix" / "yaml").glob("*.yaml"))
assert shipped, "the wheel ships no op table"

x = np.linspace(-1.0, 1.0, 5)
f = lambda x: phix.ops.sum(phix.ops.tanh(x))
slope = 1 - np.tanh(x) ** 2
np.testing.assert_allclose(phix.grad(f)(x).numpy(), slope, rtol=1e-10)
np.testing.assert_allclose(phix.jit(phix.grad(f))(x).numpy(), slope, rtol=1e-10)

Path("my_ops.yaml").write_text("""
- op: wheel_test_double
  args: (Tensor x)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta}
""")
phix.load_ops("my_ops.yaml")
print("ran from", installed)
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout, built with the hatchling that is installed: no network."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; it is in the test extra")
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    (built,) = folder.glob("phix-*.whl")
    return built


def pip(*arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    run = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_wheel_holds_the_package_and_the_table(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for path in [*(ROOT / "phix").rglob("*.py"), *(ROOT / "yaml").glob("*.yaml")]:
        inside = path.relative_to(ROOT).as_posix()
        assert (f"phix/{inside}" if inside.startswith("yaml/") else inside) in names
    assert "phix/py.typed" in names, "type checkers would not look at phix"
    assert f"-{phix.__version__}-" in wheel.name
    assert not [name for name in names if name.startswith(("tests/", "yaml/"))]


@pytest.mark.slow
def test_installed_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip("install", str(wheel), "--no-deps", "--target", str(installed))
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "PHIX_CACHE_DIR": str(tmp_path / "cache"),
    }
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(installed)],
        capture_output=True,
        text=True,
        cwd=elsewhere,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("ran from")
