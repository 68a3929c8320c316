"""Imports point down (CONTRIBUTING.md, Rooms), and interpreters name no op."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "phix"
FILES = sorted(PACKAGE.rglob("*.py"))
pytestmark = pytest.mark.xdist_group("layers")  # one worker reads the files

# Room -> the other rooms it may import from. A room is a folder or a module right under phix/.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "table": {"core"},
    "ops": {"table", "core"},
    "primitives": {"ops", "core"},
    "interpreters": {"passes", "ops", "core"},
    "passes": {"interpreters", "ops", "core"},
    "kernels": {"core"},
    "api": {"interpreters", "passes", "ops", "core", "checkpoint_policies"},
    "checkpoint_policies": {"core"},
    "__main__": {"ops", "table", "core"},
    "debug": {"api", "interpreters", "passes", "pictures", "ops", "core"},
    "pictures": {"core"},
    "nn": {"random", "api", "ops", "core"},
    "testing": {"api", "debug", "ops", "core"},
    "random": {"api", "ops", "core"},
    "fft": {"ops", "core"},
    "linalg": {"ops", "core"},
    "sparse": {"ops", "core"},
    "lod": {"ops", "core"},
    "selected_rows": {"primitives", "ops", "core"},
    "strings": {"core"},
    "numba": {"kernels", "api", "passes", "table", "ops", "core"},
    "cupy": {"kernels", "core"},
    "files": {"core"},
    "optim": {"api", "ops", "core"},
    "scipy": {"linalg", "fft", "random", "api", "primitives", "ops", "core"},
    "parallel": {"api", "files", "interpreters", "ops", "core"},
    "array_functions": {"linalg", "fft", "api", "ops", "core"},
    "autograd": {"scipy", "numpy", "api", "ops", "core"},
    "numpy": {"array_functions", "linalg", "fft", "api", "ops", "core"},
}
ENGINE_LIBRARIES = {"numba", "llvmlite", "cupy", "cupyx", "scipy"}
ENGINES = PACKAGE / "kernels"
SHARED_KERNELS = {
    "scalar",
    "loops",
    "lowering",
    "schedule",
    "report",
}  # folders of kernels/ that are no engine
LONGEST_FILE, LONGEST_FUNCTION = 500, 60
LAZY = ENGINE_LIBRARIES | {"yaml", "jax", "torch", "safetensors", "mpi4py"}


def module_of(path: Path) -> str:
    """``phix/core/op.py`` -> ``phix.core.op``; a package's own file counts as the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a module; the package itself is the room ``__init__``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def is_module(name: str) -> bool:
    if name.startswith("phix.") and room_of(name) in ROOMS:
        return True
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


class Source:
    """What the tests ask of a file, which is parsed and walked once."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text, self.where = path, text, path.relative_to(ROOT)
        self.module = module_of(path)
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        self.imports = list(imports(nodes, self.module, path.name == "__init__.py"))
        self.functions = [
            (n.name, n.lineno, (n.end_lineno or 0) - n.lineno + 1)
            for n in nodes
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        self.defined = list(defined(tree))
        self.op_names_asked = op_names_asked(nodes)
        self.code_lines = code_lines(nodes, text)


@cache
def sources() -> list[Source]:
    return [Source(path, path.read_text()) for path in FILES]


def imports(nodes: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that is imported, at whatever depth."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module, is_package)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if is_module(inner) else base
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            literal = node.args[0]
            if name in ("import_module", "__import__") and isinstance(literal, ast.Constant):
                yield node.lineno, str(literal.value)


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".") + ([""] if is_package else [])
    base = ".".join(parts[: -node.level])
    return f"{base}.{node.module}" if node.module else base


def wrong_arrows(source: Source) -> list[str]:
    """One line for each import of ``source`` that its place in the package forbids."""
    path = source.path
    room = room_of(source.module)
    engine = path.relative_to(ENGINES).parts if ENGINES in path.parents else ()
    in_engine = len(engine) > 1 and engine[0] not in SHARED_KERNELS
    found = []
    for line, target in source.imports:
        top = target.split(".")[0]
        where = f"{source.where}:{line}"
        if top in ENGINE_LIBRARIES and not in_engine:
            found.append(f"{where} imports {target} outside phix/kernels/<engine>")
        if top != PACKAGE.name or room == "__init__":
            continue
        to = room_of(target)
        if to not in {room} | ROOMS.get(room, set()):
            found.append(f"{where}: {room} -> {to} ({target}) is no arrow of ROOMS")
    return found


def test_files_and_functions_are_short() -> None:
    """``phix/ops.py`` is generated."""
    found = []
    for source in sources():
        lines = source.text.count("\n")
        if lines > LONGEST_FILE and source.path != PACKAGE / "ops.py":
            found.append(f"{source.where} has {lines} lines: split it by subject")
        found += [
            f"{source.where}:{line}: {name} has {lines} lines: split it"
            for name, line, lines in source.functions
            if lines > LONGEST_FUNCTION
        ]
    assert not found, "\n".join(found)


def test_every_room_is_known() -> None:
    rooms = {room_of(module_of(path)) for path in FILES} - {"__init__"}
    assert rooms <= set(ROOMS), f"give {sorted(rooms - set(ROOMS))} a line in ROOMS"


def test_imports_point_down() -> None:
    found = [line for source in sources() for line in wrong_arrows(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("core/graph.py", "def f():\n    from phix.interpreters import vjp"),
        ("core/graph.py", "from ..ops import add"),
        ("core/graph.py", "import phix"),
        ("core/graph.py", "import importlib\nimportlib.import_module('phix.api')"),
        ("ops.py", "from . import api"),
        ("interpreters/vjp.py", "from phix import primitives"),
        ("interpreters/vjp.py", "from ..kernels.cpu import engine"),
        ("kernels/scalar/language.py", "import numba"),
        ("kernels/special.py", "from scipy import special"),
        ("primitives/linalg.py", "def f():\n    import scipy.linalg"),
    ],
)
def test_wrong_arrows_are_seen(file: str, source: str) -> None:
    assert len(wrong_arrows(Source(PACKAGE / file, source))) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("core/graph.py", "from .op import Op\nfrom . import dims\nimport numpy as np"),
        ("interpreters/vjp.py", "from phix import ops\nfrom phix.core import rules"),
        ("kernels/cpu/engine.py", "import numba\nfrom phix.kernels.loops import nodes"),
        ("__init__.py", "from phix import primitives, kernels\nfrom phix.api import grad"),
    ],
)
def test_right_arrows_pass(file: str, source: str) -> None:
    assert not wrong_arrows(Source(PACKAGE / file, source))


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, by whatever way round (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for to in edges[module]:
            if to not in number:
                visit(to)
                lowest[module] = min(lowest[module], lowest[to])
            elif to in path:
                lowest[module] = min(lowest[module], number[to])
        if lowest[module] == number[module]:
            circle = path[path.index(module) :]
            del path[path.index(module) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in edges:
        if module not in number:
            visit(module)
    return found


def test_no_module_imports_itself_by_a_way_round() -> None:
    """Imports inside functions and for types count: who needs them knows of the other."""
    known = {source.module for source in sources()}
    edges = {
        source.module: {_module_in(known, target) for _, target in source.imports}
        - {source.module, PACKAGE.name, ""}
        for source in sources()
    }
    assert edges["phix.core.graph"] >= {"phix.core.meta", "phix.core.op", "phix.core.stack"}
    found = [" -> ".join(circle) for circle in circles(edges)]
    assert not found, f"each of these imports the others; move what both need: {found}"


def _module_in(known: Container[str], name: str) -> str:
    """The module of a name that may be something in it; "" of another library's."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}
    assert circles(edges) == [["a", "b", "c"]]
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def op_names_asked(nodes: Iterable[ast.AST]) -> list[int]:
    """Lines that compare or match the name of an op: ``eqn.op.name == ...``, ``op.name in ...``."""

    def is_op_name(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Attribute) and node.attr == "name"):
            return False
        owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
        return owner == "op" or owner.endswith("_op")

    lines = []
    for node in nodes:
        compared = isinstance(node, ast.Compare) and map(is_op_name, [node.left, *node.comparators])
        if (compared and any(compared)) or (
            isinstance(node, ast.Match) and is_op_name(node.subject)
        ):
            lines.append(node.lineno)
    return lines


def test_interpreters_name_no_op() -> None:
    found = [
        f"{source.where}:{line}"
        for source in sources()
        if room_of(source.module) in ("interpreters", "passes")
        for line in source.op_names_asked
    ]
    assert not found, f"ask for a property of the op instead of its name: {found}"


def test_asking_for_a_name_is_seen() -> None:
    asked = (
        "if eqn.op.name == 'add': pass\nif op.name in NAMES: pass\nmatch op.name:\n    case _: pass"
    )
    assert sorted(op_names_asked(ast.walk(ast.parse(asked)))) == [1, 2, 3]
    assert not op_names_asked(ast.walk(ast.parse("if op.is_primitive: print(op.name)")))


def test_import_loads_no_heavy_library() -> None:
    """``import phix`` alone brings in none of the libraries that are needed later or elsewhere."""
    code = "import sys, phix; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not LAZY & set(run.stdout.split())


def test_what_threads_have_for_themselves_stands_in_one_place() -> None:
    """A further stack of the same caller (``core.stack``) takes all of it along, and no more."""
    found = [
        str(source.where)
        for source in sources()
        if any(name in source.text for name in ("threading.local", "ContextVar("))
    ]
    assert found == ["phix/core/context.py"], "make it a field of the context"


# Words of docs/architecture.md that name a class, an alias or a function: one in the package each.
# A kernel runs an op, and "kernel of loops" is a word of its own.
WORDS = {
    "Buffer", "Call", "Dim", "Engine", "Equation", "Form", "Graph", "Interpreter", "Launcher",
    "Op", "Pipeline", "Place", "Plan", "Program", "Rule", "Segment", "Source", "Stage", "State",
    "Step", "Task", "Tensor", "Tracer", "Value", "Variable", "moved", "place_of", "settle",
}  # fmt: skip


def defined(tree: ast.Module) -> Iterator[str]:
    """What a module calls its classes, functions and aliases, less the underscore in front."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign):
            yield from (t.id.lstrip("_") for t in node.targets if isinstance(t, ast.Name))


def test_a_word_has_one_meaning() -> None:
    found: dict[str, list[str]] = {}
    for source in sources():
        for name in WORDS.intersection(source.defined):
            found.setdefault(name, []).append(str(source.where))
    several = {name: files for name, files in found.items() if len(files) > 1}
    assert not several, f"give all but one another name: {several}"


def test_private_names_are_words_too() -> None:
    source = "class _Plan: pass\nStep = int\ndef _moved(): pass\nclass Planner: pass\n"
    assert WORDS.intersection(defined(ast.parse(source))) == {"Plan", "Step", "moved"}


_REPEATED, _MOST_PAIRS = 6, 20


def code_lines(nodes: Iterable[ast.AST], source: str) -> list[str]:
    """The lines of a module, heads of functions and overloads too; no imports, texts or comments,
    which have to be alike in places."""
    left_out = set[int]()
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = [
        " ".join(line.split("  #")[0].split())
        for number, line in enumerate(source.splitlines(), 1)
        if number not in left_out
    ]
    return [line for line in lines if line.strip("()[]{},: ") and not line.startswith("#")]


def repeated(files: dict[str, list[str]]) -> list[tuple[str, str]]:
    """The pairs of places with so many equal lines of code in a row; a longer row is one pair."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for name, lines in files.items():
        for at in range(len(lines) - _REPEATED + 1):
            places.setdefault(tuple(lines[at : at + _REPEATED]), []).append((name, at))
    pairs = {
        (one, other)
        for found in places.values()
        for number, one in enumerate(found)
        for other in found[number + 1 :]
        if one[0] != other[0] or abs(one[1] - other[1]) >= _REPEATED
    }
    starts = [
        (one, other)
        for one, other in pairs
        if ((one[0], one[1] - 1), (other[0], other[1] - 1)) not in pairs
    ]
    return sorted((f"{one[0]}", f"{other[0]}") for one, other in starts)


def test_little_is_written_twice() -> None:
    found = repeated({str(s.where): s.code_lines for s in sources() if s.path.name != "ops.py"})
    assert len(found) <= _MOST_PAIRS, f"write once what these have in common: {found}"


def test_what_is_written_twice_is_seen() -> None:
    block = "".join(f"    y = x + {n}\n" for n in range(6))
    texts = {
        "a": f"def f(x):\n{block}",
        "b": f"def g(x):\n{block}    return y\n",
        "c": "import numpy\n",
    }
    files = {name: code_lines(ast.walk(ast.parse(text)), text) for name, text in texts.items()}
    assert repeated(files) == [("a", "b")]
