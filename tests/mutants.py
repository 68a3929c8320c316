"""Does the suite notice? ``python -m tests.mutants [N] [SEED] [--under FOLDER]``

Draws N small changes of phix (see :mod:`mutations`), the same for a seed, an equal share from each
row of AREAS, and runs tests on each of them until one fails: the change is killed. It survives
where none does, and the summary says where it is. It is then for a person to say whether it changes
anything at all, or to write the test.

Which tests, is known from a first run of the suite on a copy of the tree that notes the blocks of
statements each test enters (``record.jsonl`` in the folder, made where there is none, in half an
hour; ``--record FILE...`` notes those files alone, anew). A change is put into another copy of the
tree, and tests run on it: those of the op table for the ops that the changed function is a rule of,
then those that enter the changed block, cheapest first, up to SECONDS of them as measured then.
Each run is a fork of a process that has imported all but phix. Compiled code is kept in the folder
by its text, programs by the digest of the sources, so that each changed phix makes its own.

``--again`` runs those that have survived in earlier runs once more, and ``--first TEST...`` those
tests before all others: that is how to see a new test kill a mutant.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutations import Mutation, instrumented, mutations

TREE = Path(__file__).resolve().parents[1]
_PRIMITIVE = "phix/kernels/primitive"
LOOPS = ["accumulation", "affine", "block*", "collapse", "effects", "fusion", "inplace"]
LOOPS += ["interchange", "ordering", "partial_results", "prover", "rewriting", "schedule"]
LOOPS += ["several_rows", "sharing", "shrinking", "slot_check", "spans", "verifier", "workspace"]
BODIES = ["arithmetic", "complex_math", "error_function", "exponential", "floating", "power"]
BODIES += ["random_bits", "special", "trigonometric"]
# What is changed: globs of files, and of those that are not.
AREAS: dict[str, tuple[list[str], list[str]]] = {
    "loop passes": ([f"{_PRIMITIVE}/{name}.py" for name in LOOPS], []),
    "scalar bodies": ([f"{_PRIMITIVE}/{name}.py" for name in BODIES], []),
    "keys": (
        ["phix/core/exact_keys.py", "phix/core/canonical.py", "phix/core/disk_cache.py"]
        + ["phix/core/fingerprint.py", "phix/kernels/cpu/stored.py", "phix/api/retracing.py"],
        [],
    ),
    "batching": (["phix/interpreters/batch*.py", "phix/api/batching.py"], []),
    "vjp": (["phix/interpreters/vjp.py", "phix/interpreters/jvp.py", "phix/api/gradients.py"], []),
    "rules": (["phix/primitives/*.py"], ["*taylor*", "*simplifications*", "*recognition*"]),
}
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
SECONDS = 40.0  # of tests for a change, as they were measured
CPU_SECONDS = 100  # after which a change has hung
BYTES = 12 << 30
HEAVY = ("numpy", "scipy.special", "scipy.linalg", "hypothesis.extra.numpy", "optree", "mpmath")
HEAVY += ("ml_dtypes", "yaml", "llvmlite.binding", "scipy.signal", "scipy.stats", "pytest")


# -- processes -------------------------------------------------------------------------------------
def run_tests(tree: Path, arguments: list[str], plugin: Any, cpu_seconds: int) -> int | None:
    """Pytest's status in a process of its own, in a copy of the tree; None if it was ended."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return _status_of(child, 4 * cpu_seconds)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    own = ("", str(TREE), str(TREE / "tests"))
    sys.path[:] = [str(tree), *(p for p in sys.path if p not in own)]
    for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "mutations")]:
        del sys.modules[name]
    with (tree / "output").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    fixed = ["-q", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header"]
    fixed += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported
    try:
        status = int(pytest.main([*fixed, *arguments], plugins=[plugin]))
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
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else None


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
    for name in files:
        arguments = ["--kernel-cache", str(under / "kernels-recorded"), *name.split()]
        status = run_tests(tree, arguments, recorder, 3600)
        print(f"recorded {name}: {status}", flush=True)


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
    every = [n for n in ast.parse(source).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    users = [n for n in every if n.lineno <= mutation.line <= (n.end_lineno or 0)]
    entries = re.split(r"^- op *: *", "\n".join(p.read_text() for p in YAML), flags=re.MULTILINE)
    of = {e.split()[0]: {e.split()[0], *re.findall(r"\w+InferMeta\w*", e)} for e in entries[1:]}
    for _ in range(4):
        rules = {r for n in users for d in n.decorator_list for r in _words(d)}
        rules |= {r.removesuffix("_grad") for r in rules}
        found = [op for op in of if of[op] & rules]
        if found:
            return found[:MOST_OPS]
        names = {n.name for n in users}
        users = [n for n in every if names & _words(n)]
    return []


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
class Chosen:
    """Runs some tests in an order, and notes the one that fails."""

    def __init__(self, names: list[str], note: Path) -> None:
        self.order = {name: k for k, name in enumerate(names)}
        self.note = note

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        def place(item: Any) -> int:
            parts = ("-", "[", "::")
            names = [item.nodeid, *(item.nodeid.split(p)[0] for p in parts)]
            names[1] += "-"
            return min((self.order[n] for n in names if n in self.order), default=-1)

        items[:] = sorted((i for i in items if place(i) >= 0), key=place)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.note.write_text(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.note.write_text(f"import of {report.nodeid}")


class Judge:
    """Runs tests on changes, in a copy of the tree."""

    def __init__(self, under: Path, first: list[str]) -> None:
        self.under, self.first = under, first
        self.seconds, self.entering = recorded(under)
        self.tree = copy_of_tree(under / f"changed-{os.getpid()}")

    def tests_of(self, mutation: Mutation) -> list[str]:
        """Those of its ops, then those that enter its block, cheapest first; outside of functions
        those that enter any block of its file."""
        found = self.entering[f"{mutation.path}:{mutation.block}"]
        if not mutation.block:
            blocks = [b for b in self.entering if b.startswith(f"{mutation.path}:")]
            found = set().union(*(self.entering[b] for b in blocks))
        names = [f"{OP_TABLE}::test_op[{op}-" for op in ops_of(mutation)]
        spent = 0.0
        for name in sorted(found, key=lambda n: (self.seconds[n], n)):
            spent += self.seconds[name]
            if spent < SECONDS or spent == self.seconds[name]:
                names.append(name)
        return [*self.first, *(n for n in names if n not in self.first)]

    def verdict(self, mutation: Mutation) -> tuple[str, str]:
        """``killed``, ``hung`` or ``survived``, and by or in spite of what."""
        names = self.tests_of(mutation)
        if not names:
            return "survived", "no test enters it"
        path = self.tree / mutation.path
        note = self.under / f"note-{os.getpid()}"
        note.unlink(missing_ok=True)
        path.write_text(mutation.source)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        files = list(dict.fromkeys(n.split("::")[0] for n in names))
        cache = ["--kernel-cache", str(self.under / f"kernels-{os.getpid()}")]
        status = run_tests(self.tree, ["-x", *cache, *files], Chosen(names, note), CPU_SECONDS)
        path.write_text((TREE / mutation.path).read_text())
        if status is None:
            return "hung", ""
        if status == 0:
            return "survived", f"{len(names)} tests"
        return "killed", note.read_text() if note.exists() else f"status {status}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=300)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--under", type=Path, default=Path("/tmp/phix-mutants"))
    parser.add_argument("--areas", nargs="+", default=list(AREAS), choices=AREAS)
    parser.add_argument("--record", nargs="+", metavar="FILE", help="note their blocks anew")
    parser.add_argument("--again", action="store_true", help="those that survived")
    parser.add_argument("--first", nargs="+", default=[], metavar="TEST")
    options = parser.parse_args()
    under = options.under.resolve()
    under.mkdir(parents=True, exist_ok=True)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in HEAVY:
        importlib.import_module(name)
    if options.record or not (under / "record.jsonl").exists():
        every = sorted(p.relative_to(TREE).as_posix() for p in TREE.glob("tests/test_*.py"))
        every = [f for f in every if not any(word in f for word in NOT_RUN)]
        record(under, options.record or every)
        if options.record:
            return
    results = under / f"results-{options.seed}.jsonl"
    before = read_results(results)
    judge = Judge(under, options.first)
    found = drawn(options.count, options.seed)
    for area in options.areas:
        for mutation in found[area]:
            survived = before.get(mutation.name, ("",))[1:2] == ("survived",)
            if survived if options.again else mutation.name not in before:
                row = (area, *judge.verdict(mutation))
                with results.open("a") as file:
                    file.write(json.dumps([mutation.name, *row]) + "\n")
                print(f"{row[1]:<9} {mutation.name}  ({row[2]})", flush=True)
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
