"""What type checkers and editors know of phix, where names are put together at run time."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import phix
from phix.array_functions.paddle_methods import METHODS
from phix.core.rules import BUILT_IN, OPS
from phix.core.tensor import TensorBase
from phix.table import stubs

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "data" / "typed_program.py"

WRONG = """
import phix

def f(x: phix.Tensor) -> phix.Tensor:
    return x

x = phix.ones([2])
x.no_such_method()
x.sum(axes=0)
x.at[0].put(1.0)
phix.jit(f)(x, x)
phix.grad(f)("text")
phix.vmap(f)(x).no_such_method()
phix.no_such_function
phix.core.no_such_module
"""


def test_the_stub_is_what_the_op_table_gives() -> None:
    text = (ROOT / "phix" / "ops.py").read_text("utf-8")
    assert stubs.STUB_FILE.read_text("utf-8") == stubs.render(text), "run `make ops`"


# not what tests have added to it
OF_THE_TABLE = {n for name in BUILT_IN for n in (name, f"{name}_")}


def _stub_methods() -> set[str]:
    tree = ast.parse(stubs.STUB_FILE.read_text("utf-8"))
    (methods,) = (n for n in tree.body if isinstance(n, ast.ClassDef))
    return {n.name for n in methods.body if isinstance(n, ast.FunctionDef)}


def test_the_stub_has_what_tensors_get_at_run_time() -> None:
    stated = _stub_methods()
    assert not [n for n in stated if not hasattr(TensorBase, n)]
    written = {n for c in METHODS for n in vars(c) if not n.startswith("__")}
    installed = {
        name
        for name, value in vars(TensorBase).items()
        if name in OF_THE_TABLE and getattr(value, "__module__", None) == "phix.ops"
    } | {"T", "at", "astype", "itemsize", "nbytes", "to"}
    backward = {name for name, op in OPS.items() if op.forward is not None}
    # the others come from core/operators.py, and backward ops are for rules
    assert {n for n in stated if not n.startswith("__")} == written | {
        n for n in installed if n not in backward and n.removesuffix("_") not in backward
    }


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The lines of ``mypy --strict`` about two programs, each as a user runs it, by file."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typing")
    (folder / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += ["--follow-imports=silent", "--cache-dir", str(ROOT / ".mypy_cache" / "strict")]
    run = subprocess.run(
        [*command, str(PROGRAM), "wrong.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    assert not run.stderr, run.stderr
    found: dict[str, list[str]] = {PROGRAM.name: [], "wrong.py": []}
    for line in run.stdout.splitlines():
        found[Path(line.split(":")[0]).name].append(line)
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("mypy")  # which is run once
def test_a_users_program_is_typed_and_runs(faults: dict[str, list[str]], tmp_path: Path) -> None:
    """Each ``assert_type`` of the program holds for mypy; what it calls a tensor is one."""
    assert not faults[PROGRAM.name], "\n".join(faults[PROGRAM.name])
    run = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr


def test_what_the_program_calls_a_tensor_is_one() -> None:
    """``assert_type`` at run time: for tensors, and tuples of them."""
    checked = 0

    def assert_type(value: object, kind: object) -> None:
        nonlocal checked
        if kind is phix.Tensor:
            checked += 1
            assert isinstance(value, phix.Tensor)
        elif kind == tuple[phix.Tensor, phix.Tensor]:
            assert isinstance(value, tuple) and [type(v) for v in value] == [phix.Tensor] * 2

    text = PROGRAM.read_text("utf-8").replace("from typing_extensions import assert_type\n", "")
    exec(compile(text, str(PROGRAM), "exec"), {"assert_type": assert_type, "__name__": "program"})
    assert checked > 50


@pytest.mark.slow
@pytest.mark.xdist_group("mypy")
def test_faults_of_a_users_program_are_seen(faults: dict[str, list[str]]) -> None:
    lines = faults["wrong.py"]
    found = {int(line.split(":")[1]) for line in lines if ": error: " in line}
    first = WRONG.splitlines().index("x.no_such_method()") + 1
    assert found == set(range(first, len(WRONG.splitlines()) + 1)), "\n".join(lines)
