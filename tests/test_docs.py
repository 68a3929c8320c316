"""The documentation says what is so: its blocks run, its tables are complete, examples too."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phix

ROOT = Path(__file__).resolve().parents[1]
REFRESH = ROOT / "docs" / "refresh.py"
PAGES = ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]


# -- pages -------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_its_blocks_print(page: str) -> None:
    run = subprocess.run(
        [sys.executable, str(REFRESH), "--check", str(ROOT / page)], capture_output=True, text=True
    )
    assert run.returncode == 0, f"write it anew with `make docs`\n{run.stdout}{run.stderr}"


@pytest.mark.parametrize(
    "page", [*PAGES, "CONTRIBUTING.md", "yaml/README.md", "examples/README.md"]
)
def test_page_links_to_files_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`]*`(?!\])", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_folders_named_in_the_readme_exist() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Where things are")[2]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert len(paths) > 5
    for path in paths:
        assert (ROOT / path).exists(), path


def test_ops_that_are_left_out_are_not_there() -> None:
    text = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8").partition("## Left out")[2]
    names = re.findall(r"`(\w+)`", text)
    assert len(names) > 10 and len(names) == len(set(names))
    assert [name for name in names if hasattr(phix.ops, name)] == []


def _first_column(page: str) -> set[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def test_environment_has_a_row_for_each_variable_read() -> None:
    read: set[str] = set()
    for file in (ROOT / "phix").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        read |= set(re.findall(r"environ(?:\.get\(|\[)\s*[\"'](\w+)[\"']", source))
        read |= set(re.findall(r"[\"'](PHIX_\w+)[\"']", source))
        read |= set(re.findall(r"getenv\(\s*[\"'](\w+)[\"']", source))
    assert _first_column("environment.md") == read
    assert len(read) <= 10


def test_errors_has_a_row_for_each_error() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \|", (ROOT / "docs" / "errors.md").read_text("utf-8"), re.MULTILINE
    )
    classes = {
        cls
        for cls in vars(phix.errors).values()
        if inspect.isclass(cls)
        and issubclass(cls, phix.errors.PhixError)
        and cls is not phix.errors.PhixError
    }
    assert dict(rows) == {c.__name__: c.__bases__[-1].__name__ for c in classes}


# -- docstrings --------------------------------------------------------------------------------
# Functions of the op table have its texts; docs/errors.md, devices.md and numpy.md show the other
# names.
WITHOUT_EXAMPLES = {"ops", "nn", "errors", "kernels", "numpy"}


def _public() -> dict[str, object]:
    """The public functions and classes of phix and of its public modules, by full name."""
    found: dict[str, object] = {}
    for name in set(phix.__all__) - WITHOUT_EXAMPLES:
        value = getattr(phix, name)
        if isinstance(value, types.ModuleType):
            members = {f"phix.{name}.{n}": getattr(value, n) for n in value.__all__}
            found |= {n: m for n, m in members.items() if callable(m)}
        elif not isinstance(value, np.dtype):  # which is NumPy's own object
            found[f"phix.{name}"] = value
    faces = {n: getattr(phix.nn, n) for n in ("functional", "initializers")}
    layers = set(phix.nn.__all__) - set(faces)
    found |= {f"phix.nn.{n}": getattr(phix.nn, n) for n in layers}
    return found | {f"phix.nn.{name}.{n}": getattr(face, n)
                    for name, face in faces.items() for n in face.__all__}  # fmt: skip


PUBLIC = _public()


def _examples(name: str, value: object) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(recurse=inspect.isclass(value), exclude_empty=True)
    return [t for t in finder.find(value, name, globs={"phix": phix}) if t.examples]


@pytest.fixture
def op_table() -> Iterator[None]:
    """What an example adds is gone after it."""
    with phix.scoped_registries():
        yield


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op_table: None
) -> None:
    tests = _examples(name, PUBLIC[name])
    assert tests, f"{name} has no example in its docstring"
    for test in tests:
        shown = [e for e in test.examples if not e.options.get(doctest.SKIP)]
        assert shown, f"every example of {test.name} is skipped"
    monkeypatch.chdir(tmp_path)
    if name == "phix.clear_cache":  # not that of all tests
        monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path / "kernels"))
    report: list[str] = []
    for test in tests:
        result = doctest.DocTestRunner().run(test, out=report.append)
        assert not result.failed, "".join(report)


@pytest.mark.parametrize("name", sorted(n for n in vars(phix.errors) if n.endswith("Error")))
def test_error_has_a_docstring(name: str) -> None:
    assert getattr(phix.errors, name).__doc__


def test_every_function_of_the_table_has_a_docstring() -> None:
    without = [n for n in phix.ops.__all__ if not (getattr(phix.ops, n).__doc__ or "").strip()]
    assert not without


# -- the tool itself ---------------------------------------------------------------------------
def _refresh(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REFRESH), *options, str(page)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_stale_page_is_found_and_refreshed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n1\n```\n\nMore\n")
    stale = _refresh(page, "--check")
    assert stale.returncode == 1 and "-1" in stale.stdout and "+2" in stale.stdout
    assert "\n1\n" in page.read_text()
    _refresh(page)
    assert page.read_text() == (
        "Text\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n2\n```\n\nMore\n"
    )
    assert _refresh(page, "--check").returncode == 0


def test_a_block_that_breaks_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 / 0)\n```\n")
    broken = _refresh(page, "--check")
    assert broken.returncode == 1 and "ZeroDivisionError" in broken.stderr
