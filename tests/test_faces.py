"""The public modules: what ``dir`` shows is public, documented, and what a star import gives."""

from __future__ import annotations

import inspect
import re
import rlcompleter
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phix

ROOT = Path(__file__).resolve().parents[1]


def _faces(module: types.ModuleType, name: str) -> Iterator[tuple[str, types.ModuleType]]:
    """A public module, and those that are public names of it, by the names users write."""
    yield name, module
    for inner in module.__all__:
        value = getattr(module, inner)
        if isinstance(value, types.ModuleType):
            yield from _faces(value, f"{name}.{inner}")


FACES = dict(_faces(phix, "phix"))
each_face = pytest.mark.parametrize("name", FACES)


def test_the_walk_finds_the_public_modules() -> None:
    assert set(FACES) >= {
        "phix", "phix.checkpoint_policies", "phix.debug", "phix.errors", "phix.fft", "phix.kernels",
        "phix.linalg", "phix.lod", "phix.nn", "phix.nn.functional", "phix.ops", "phix.random",
        "phix.selected_rows", "phix.sparse", "phix.strings",
        "phix.tree",
    }  # fmt: skip
    files = {p.stem for p in (ROOT / "phix").glob("*.py") if not p.stem.startswith("__")}
    assert {f"phix.{stem}" for stem in files} <= set(FACES), "a module beside the rooms is a face"


@each_face
def test_dir_shows_public_names_alone(name: str) -> None:
    face = FACES[name]
    assert dir(face) == sorted(face.__all__)
    assert len(set(face.__all__)) == len(face.__all__)
    assert not [n for n in face.__all__ if n.startswith("_") or not hasattr(face, n)]


@each_face
def test_star_import_and_completion_agree_with_dir(name: str) -> None:
    face = FACES[name]
    scope: dict[str, object] = {}
    exec(f"from {face.__name__} import *", scope)
    assert set(scope) - {"__builtins__"} == set(dir(face))
    assert all(scope[n] is getattr(face, n) for n in dir(face))
    found = rlcompleter.Completer({"face": face}).attr_matches("face.")
    shown = {text.removeprefix("face.").rstrip("()") for text in found}
    assert {n for n in shown if not n.startswith("_")} == set(dir(face))


@each_face
def test_every_public_name_is_documented(name: str) -> None:
    face = FACES[name]
    pages = "\n".join(p.read_text("utf-8") for p in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    for inner in face.__all__:
        value = getattr(face, inner)
        if callable(value) or isinstance(value, types.ModuleType):
            assert (inspect.getdoc(value) or "").strip(), f"{name}.{inner} has no docstring"
        elif not isinstance(value, np.dtype):  # data
            text = f"{face.__doc__}\n{pages}"
            assert re.search(rf"\b{inner}\b", text), (
                f"neither docstring nor page has {name}.{inner}"
            )


@each_face
def test_every_function_made_in_a_public_module_is_public(name: str) -> None:
    """A helper of a face is named with an underscore, so that nobody takes it for public."""
    face = FACES[name]
    own = {
        n
        for n, value in vars(face).items()
        if getattr(value, "__module__", None) == face.__name__ and inspect.isroutine(value)
    }
    helpers = {n for n in own if not n.startswith("_")} - set(face.__all__)
    assert not helpers - {"described", "shown"}, "name them with an underscore, or in __all__"


def test_what_an_op_table_adds_is_shown(tmp_path: Path) -> None:
    table = tmp_path / "my_ops.yaml"
    table.write_text("- {op: face_test_twice, args: (Tensor x), output: Tensor(out)}")
    code = (
        f"import phix; phix.load_ops({str(table)!r}); assert 'face_test_twice' in dir(phix.ops)\n"
        "from phix.ops import *; face_test_twice"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr


def test_version_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.fullmatch(r"\d+\.\d+\.\d+", phix.__version__)
    assert 'dynamic = ["version"]' in text and 'path = "phix/__init__.py"' in text


def test_members_that_later_modules_give_are_there_from_the_start() -> None:
    """In a process that has done nothing else: what is promised to type checkers is there."""
    script = """
import ast, inspect, phix
from phix.core.graph import Graph
(block,) = [s for s in ast.parse(inspect.getsource(Graph)).body[0].body if isinstance(s, ast.If)]
print(*[s.name for s in block.body if not hasattr(Graph, s.name)])
graph = phix.make_graph(lambda x: phix.ops.exp(x))(phix.spec([3]))
assert hash(graph) == hash(phix.parse_graph(str(graph))) and len(graph([0.0, 1.0, 2.0])) == 1
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
