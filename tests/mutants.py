"""Does the suite notice? ``python -m tests.mutants [N] [SEED] [--under FOLDER]``

Draws N small changes of phix (see :mod:`mutations`), the same for a seed, an equal share from each
row of AREAS, and runs tests on each of them until one fails: the change is killed. It survives
where none does, and the summary says where it is. It is then for a person to say whether it changes
anything at all, or to write the test.

Which tests, is known from a first run of the suite on a copy of the tree that notes the blocks of
statements each test enters (``record.jsonl`` in the folder, made in half an hour, file by file:
one that was interrupted goes on where it was; ``--record FILE...`` notes those files alone, anew).
A change is put into another copy of the
tree, and tests run on it: those of the op table for the ops that the changed function is a rule of,
then those that enter the changed block, cheapest first, up to SECONDS of them as measured then
(``--seconds`` for more: what the cheap ones let through, a dear one may kill).
Each run is a fork of a process that has collected all tests, in which the changed function gets its
new code; a change outside of functions takes a fresh process. Compiled code is kept in the folder
by its text, programs by the digest of the sources, so that each changed phix makes its own.

``--again`` runs those that have survived in earlier runs once more, and ``--first TEST...`` those
tests before all others: that is how to see a new test kill a mutant. ``--only FILE...`` is for a
quick first run, with no other tests, of ``--areas NAME...``.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import gc
import importlib
import inspect
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutations import Mutation, instrumented, mutations

TREE = Path(__file__).resolve().parents[1]
LOOPS = ["affine", "effects", "rewriting", "slot_check", "spans", "verifier"]
LOWERING = ["accumulation", "blocks", "fusion"]
# What is changed: globs of files, and of those that are not.
AREAS: dict[str, tuple[list[str], list[str]]] = {
    "loop passes": (
        ["phix/kernels/schedule/*.py"]
        + [f"phix/kernels/loops/{name}.py" for name in LOOPS]
        + [f"phix/kernels/lowering/{name}.py" for name in LOWERING],
        ["*pipeline*"],
    ),
    "scalar bodies": (["phix/kernels/scalar/*.py"], ["*language*", "*registry*", "*bodies*"]),
    "keys": (
        ["phix/core/exact_keys.py", "phix/core/canonical.py", "phix/core/disk_cache.py"]
        + ["phix/core/fingerprint.py", "phix/kernels/cpu/stored.py"],
        [],
    ),
    "batching": (["phix/interpreters/batch*.py", "phix/api/batching.py"], []),
    "vjp": (
        [
            "phix/interpreters/vjp.py",
            "phix/interpreters/tape.py",
            "phix/interpreters/backward_rules.py",
            "phix/interpreters/jvp.py",
            "phix/api/gradients.py",
        ],
        [],
    ),
    "rules": (["phix/primitives/*.py"], ["*jet*", "*simplifications*", "*recognition*"]),
}
# Tests of an area that come before others, cheap as they may be.
FIRST = {"scalar bodies": ("tests/test_bodies.py", "tests/test_body_accuracy.py")}
# Tests of other things, or of everything at once.
NOT_RUN = (
    "op_table",
    "gpu",
    "cudnn",
    "docs",
    "examples",
    "benchmarks",
    "wheel",
    "depth",
    "layers",
    "mutants",
)
OP_TABLE, YAML, MOST_OPS = "tests/test_op_table.py", sorted((TREE / "yaml").glob("*.yaml")), 12
SECONDS = 25.0  # of tests for a change, as they were measured
CPU_SECONDS = 100  # after which a change has hung
BYTES = 12 << 30


# -- processes -------------------------------------------------------------------------------------
PYTEST = ["-q", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header"]
PYTEST += ["-p", "no:faulthandler"]


def status_in_fork(run: Callable[[], int], output: Path, cpu_seconds: int) -> int | None:
    """What ``run`` gives in a process of its own; None if that was ended."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return _status_of(child, 12 * cpu_seconds)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        status = int(run())
    except BaseException:
        traceback.print_exc()
        status = 3
    sys.stdout.flush()
    os._exit(status)


def _status_of(child: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    ended = 0
    while not ended and time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it has started too
    if not ended:
        os.waitpid(child, 0)
        return None
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGXCPU else code


def enter(tree: Path) -> None:
    """Import phix and tests from there."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    own = ("", str(TREE), str(TREE / "tests"))
    sys.path[:] = [str(tree), *(p for p in sys.path if p not in own)]
    for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "mutations")]:
        del sys.modules[name]


def copy_of_tree(to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    for name in ("phix", "tests", "yaml", "examples", "docs", "pyproject.toml", "README.md"):
        source = TREE / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to / name)
    return to


# -- which tests enter which blocks ----------------------------------------------------------------
class Recorder:
    """Writes a line a test: its name, its time, the blocks that it enters."""

    def __init__(self, file: Path) -> None:
        self.file = file.open("a")
        self.reached: set[str] = set()
        builtins._reached = self.reached.add  # type: ignore[attr-defined]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.reached.clear()
        start = time.process_time()
        yield
        seconds = round(time.process_time() - start, 3)
        self.file.write(json.dumps([item.nodeid, seconds, sorted(self.reached)]) + "\n")
        self.file.flush()


def record(under: Path, files: list[str]) -> None:
    """Run test files on a tree whose blocks say that they are entered."""
    tree = copy_of_tree(under / "recorded")
    for path in changed_files():
        (tree / path).write_text(instrumented(path, (TREE / path).read_text()))
    recorder = Recorder(under / "record.jsonl")
    enter(tree)
    arguments = [*PYTEST, "--kernel-cache", str(under / "kernels")]
    for name in files:
        run = partial(pytest.main, [*arguments, name], plugins=[recorder])
        status = status_in_fork(run, tree / "output", 3600)
        print(f"recorded {name}: {status}", flush=True)
        with _recorded_files(under).open("a") as file:
            file.write(f"{name}\n")


def _recorded_files(under: Path) -> Path:
    return under / "recorded-files"


def not_recorded(under: Path) -> list[str]:
    """The test files that are still to be recorded."""
    every = sorted(p.relative_to(TREE).as_posix() for p in TREE.glob("tests/test_*.py"))
    done = _recorded_files(under).read_text().split() if _recorded_files(under).exists() else []
    return [f for f in every if f not in done and not any(word in f for word in NOT_RUN)]


def recorded(under: Path) -> tuple[dict[str, float], dict[str, set[str]]]:
    """The seconds of each test, and the tests that enter each block; of a test the last line."""
    lines = {}
    for line in (under / "record.jsonl").read_text().splitlines():
        name, seconds, blocks = json.loads(line)
        lines[name] = (seconds, blocks)
    entering: dict[str, set[str]] = defaultdict(set)
    for name, (_, blocks) in lines.items():
        for block in blocks:
            entering[block].add(name)
    return {name: seconds for name, (seconds, _) in lines.items()}, entering


def ops_of(mutation: Mutation) -> list[str]:
    """Ops that the decorators of the function around it name, or of those in its file that use it.

    A rule of metas stands for the ops whose entries name it.
    """
    source = (TREE / mutation.path).read_text()
    every = [n for n in ast.parse(source).body if not isinstance(n, (ast.Import, ast.ImportFrom))]
    users = [n for n in every if n.lineno <= mutation.line <= (n.end_lineno or 0)]
    entries = re.split(r"^- op *: *", "\n".join(p.read_text() for p in YAML), flags=re.MULTILINE)
    of = {e.split()[0]: {e.split()[0], *re.findall(r"\w+InferMeta\w*", e)} for e in entries[1:]}
    for _ in range(4):
        rules = {r for n in users for d in getattr(n, "decorator_list", ()) for r in _words(d)}
        rules |= {r.removesuffix("_grad") for r in rules}
        found = [op for op in of if of[op] & rules]
        if found:
            return found[:MOST_OPS]
        names = {name for n in users for name in _names(n)}
        users = [n for n in every if names & _words(n)]
    return []


def _names(node: ast.stmt) -> set[str]:
    """What a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _words(node: ast.AST) -> set[str]:
    return set(re.findall(r"\w+", ast.unparse(node)))


# -- which changes ---------------------------------------------------------------------------------
def changed_files(area: str | None = None) -> list[str]:
    found = []
    for globs, without in AREAS.values() if area is None else [AREAS[area]]:
        for glob in globs:
            paths = [p for p in sorted(TREE.glob(glob)) if not any(map(p.match, without))]
            found += [p.relative_to(TREE).as_posix() for p in paths]
    return found


def drawn(count: int, seed: int) -> dict[str, list[Mutation]]:
    """As many mutations of each area, drawn from all those of its files."""
    chosen = {}
    for number, area in enumerate(AREAS):
        every = [m for p in changed_files(area) for m in mutations(p, (TREE / p).read_text())]
        share = (count * (number + 1)) // len(AREAS) - (count * number) // len(AREAS)
        chosen[area] = random.Random(f"{seed} {area}").sample(every, min(share, len(every)))
    return chosen


# -- runs ------------------------------------------------------------------------------------------
class Judge:
    """Collects the tests once, and runs some on each change, in forks that have the change."""

    def __init__(
        self,
        under: Path,
        first: list[str],
        only: list[str],
        seen: Callable[..., None],
        most: float = SECONDS,
    ) -> None:
        self.under, self.first, self.only, self.seen, self.most = under, first, only, seen, most
        self.seconds, self.entering = recorded(under)
        self.tree = under / f"changed-{os.getpid()}"
        self.note = self.tree / "failed"
        self.todo: list[tuple[str, Mutation]] = []

    def files(self) -> list[str]:
        names = [*self.first, *(self.only or [OP_TABLE, *self.seconds])]
        return list(dict.fromkeys(n.split("::")[0] for n in names))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        for path in changed_files():  # many are imported on first use
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for name in ("llvmlite.binding", "scipy.linalg", "scipy.special", "phix.kernels.cpu.jit"):
            importlib.import_module(name)
        self.functions = functions_by_place()
        gc.freeze()  # which leaves memory that no fork writes to
        unchanged = partial(self.failing, session, self.named(self.first))
        if status_in_fork(unchanged, self.tree / "output", CPU_SECONDS) != 0:
            failed = self.note.read_text() if self.note.exists() else "a test of --first"
            pytest.exit(f"fails without any change: {failed}")
        for area, mutation in self.todo:
            self.seen(mutation, area, *self.verdict(session, mutation, FIRST.get(area, ())))
        return True

    def tests_of(self, mutation: Mutation, files: tuple[str, ...]) -> list[str]:
        """Those of its ops, then those that enter its block, cheapest first; outside of functions
        those that enter any block of its file."""
        found = self.entering[f"{mutation.path}:{mutation.block}"]
        if not mutation.block:
            blocks = [b for b in self.entering if b.startswith(f"{mutation.path}:")]
            found = set().union(*(self.entering[b] for b in blocks))
        first = [*self.first, *(f"{OP_TABLE}::test_op[{op}-" for op in ops_of(mutation))]
        names = self.named(first)
        spent = 0.0

        def place(name: str) -> tuple[bool, float, str]:
            return not name.startswith(files), self.seconds[name], name

        for name in sorted(found & self.items.keys(), key=place):
            spent += self.seconds[name]
            if spent < self.most or spent == self.seconds[name]:
                names.append(name)
        return list(dict.fromkeys(names))

    def named(self, starts: list[str]) -> list[str]:
        """The tests whose names begin so."""
        return [n for start in starts for n in self.items if n.startswith(start)]

    def verdict(self, session: Any, mutation: Mutation, files: tuple[str, ...]) -> tuple[str, str]:
        """``killed``, ``hung`` or ``survived``, and by or in spite of what."""
        names = self.tests_of(mutation, files)
        path, note = self.tree / mutation.path, self.note
        note.unlink(missing_ok=True)
        times = path.stat().st_atime, path.stat().st_mtime
        path.write_text(mutation.source)
        os.utime(path, times)  # as old as the process: see disk_cache.source_digest
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)

        def run() -> int:
            if not names:
                return 0
            importlib.import_module("phix.core.disk_cache").source_digest.cache_clear()
            if not mutation.block or not self.put_into_functions(mutation, path):
                command = [sys.executable, "-m", "pytest", "-x", *PYTEST, *names[:200]]
                return subprocess.run(command, check=False).returncode
            return self.failing(session, names)

        status = status_in_fork(run, self.tree / "output", CPU_SECONDS)
        path.write_bytes(mutation.original)
        os.utime(path, times)
        if status is None:
            return "hung", ""
        if status == 0:
            return "survived", f"{len(names)} tests"
        return "killed", note.read_text() if note.exists() else f"status {status}"

    def failing(self, session: Any, names: list[str]) -> int:
        """Run tests until one fails, which is noted; 1 if there is one."""
        for name in names:
            session.items = [self.items[name]]
            session.config.hook.pytest_runtest_protocol(item=self.items[name], nextitem=None)
            if session.testsfailed:
                self.note.write_text(name)
                return 1
        return 0

    def put_into_functions(self, mutation: Mutation, path: Path) -> bool:
        """Give the function around a change its new code, wherever it is held, if that is seen."""
        done = False
        for place, code in _outermost(compile(mutation.source, str(path), "exec")).items():
            for function in self.functions.get((str(path), *place), ()):
                if code != function.__code__:
                    function.__code__ = code
                    done = True
        return done


def functions_by_place() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions there are, by file, name and line."""
    gc.unfreeze()  # what tests/conftest.py has frozen is not among the objects
    found = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def _outermost(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """The functions of a module and of its classes."""
    found: dict[tuple[str, int], CodeType] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            is_function = inner.co_flags & inspect.CO_NEWLOCALS and inner.co_flags & 1
            if is_function:
                found[inner.co_qualname, inner.co_firstlineno] = inner
            else:
                found |= _outermost(inner)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=300)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--under", type=Path, default=Path("/tmp/phix-mutants"))
    parser.add_argument("--areas", nargs="+", default=list(AREAS), choices=AREAS)
    parser.add_argument("--record", nargs="+", metavar="FILE", help="note their blocks anew")
    parser.add_argument("--again", action="store_true", help="those that survived")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="tests to run")
    parser.add_argument("--first", nargs="+", default=[], metavar="TEST")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests for a change")
    options = parser.parse_args()
    under = options.under.resolve()
    under.mkdir(parents=True, exist_ok=True)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if options.record:
        return record(under, options.record)
    if files := not_recorded(under):
        record(under, files)
    results = under / f"results-{options.seed}.jsonl"
    before = read_results(results)

    def seen(mutation: Mutation, *row: str) -> None:
        with results.open("a") as file:
            file.write(json.dumps([mutation.name, *row]) + "\n")
        print(f"{row[1]:<9} {mutation.name}  ({row[2]})", flush=True)

    judge = Judge(under, options.first, options.only, seen, options.seconds)
    chosen = {
        a: each for a, each in drawn(options.count, options.seed).items() if a in options.areas
    }
    for row in zip_longest(*chosen.values()):  # one of each area in turn
        for area, mutation in ((a, m) for a, m in zip(chosen, row) if m is not None):
            survived = before.get(mutation.name, ("",))[1:2] == ("survived",)
            if survived if options.again else mutation.name not in before:
                judge.todo.append((area, mutation))
    enter(copy_of_tree(judge.tree))
    arguments = [*PYTEST, "--kernel-cache", str(under / "kernels"), "-s", *judge.files()]
    pytest.main(arguments, plugins=[judge])
    shutil.rmtree(judge.tree, ignore_errors=True)
    print_table(read_results(results))


def read_results(file: Path) -> dict[str, tuple[str, ...]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {name: tuple(row) for name, *row in map(json.loads, lines)}


def print_table(results: dict[str, tuple[str, ...]]) -> None:
    print(f"\n{'':<16}{'killed':>8}{'hung':>8}{'survived':>10}")
    for area in AREAS:
        row = [verdict for of, verdict, _ in results.values() if of == area]
        numbers = [row.count(v) for v in ("killed", "hung", "survived")]
        print(f"{area:<16}{numbers[0]:>8}{numbers[1]:>8}{numbers[2]:>10}")
    for name, (_, verdict, why) in results.items():
        if verdict == "survived":
            print(f"survived: {name}  ({why})")


if __name__ == "__main__":
    main()
