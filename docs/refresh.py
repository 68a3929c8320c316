"""Keep what the documentation shows true.

``python docs/refresh.py`` runs every Python block of README.md and docs/*.md, writes what it
prints into the ```text block below it, and writes docs/ops.md anew. With ``--check`` it changes
nothing, shows what differs, and exits with 1 if something does. Files may be named.

A ```python block runs in the names left by those before it in its file, in an empty folder. A
```yaml block with a file name behind ``yaml`` is that file. An error of phix's own ends a block,
and its text is part of the output.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["PHIX_TRACEBACK"] = "short"  # the pages show what users see

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the phix of this folder, whatever is installed
OPS = ROOT / "docs" / "ops.md"
LEFT_OUT = ROOT / "docs" / "left_out.yaml"

_BLOCK = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"\A\n\n```text\n.*?^```$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """The files with blocks that run, and the generated one."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def refreshed(path: Path) -> str:
    """The text that ``path`` should hold."""
    if path == OPS:
        return op_list()
    import phix

    with phix.scoped_registries():
        return with_outputs(path.read_text(encoding="utf-8"))


def with_outputs(text: str) -> str:
    """The text with what its blocks print."""
    names: dict[str, Any] = {"__name__": "example"}
    parts, end = [], 0
    for block in _BLOCK.finditer(text):
        if block.start() < end:
            continue  # an output, replaced already
        parts.append(text[end : block.end()])
        end = block.end()
        language, _, file = block["info"].partition(" ")
        if file:
            Path(file).write_text(block["body"], encoding="utf-8")
        elif language == "python":
            old = _OUTPUT.match(text[end:])
            printed = run(block["body"], names)
            parts.append(f"\n\n```text\n{printed}```" if printed else "")
            end += len(old[0]) if old else 0
    return "".join([*parts, text[end:]])


def run(code: str, names: dict[str, Any]) -> str:
    """What ``code`` prints, and the error of phix that ends it, if one does."""
    import phix

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(code, "example.py", "exec", dont_inherit=True), names)
        except phix.errors.PhixError as error:
            print(f"{type(error).__name__}: {error}")
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines() + [""])


# -- the list of ops ---------------------------------------------------------------------------
_HEAD = """# Ops

Generated from the op table by `python docs/refresh.py`. A *primitive* has kernels and is what
engines run; a *composite* is a decomposition into other ops. All are functions of `phix.ops`; their
docstrings say more.

"""


def op_list() -> str:
    """docs/ops.md: the ops by family."""
    import phix  # noqa: F401 - fills the registry
    from phix.core.rules import OPS as TABLE

    families: dict[str, list[Any]] = {}
    for op in TABLE.values():
        if op.forward is None:
            families.setdefault(op.family or "other", []).append(op)
    shown = [op for ops in families.values() for op in ops]
    primitives = sum(op.is_primitive for op in shown)
    text = [
        _HEAD,
        f"{len(shown)} ops: {primitives} primitives and {len(shown) - primitives} composites. ",
        f"{len(TABLE) - len(shown)} backward ops, all of them composites, are not listed.\n",
    ]
    for family, ops in sorted(families.items()):
        text.append(f"\n## {family}\n\n| op | kind | gradient | what |\n|---|---|---|---|\n")
        text += [_row(op) for op in sorted(ops, key=lambda op: op.name)]
    return "".join([*text, _left_out()])


def _left_out() -> str:
    """What Paddle's tables have and phix has not."""
    from phix.table.yaml_reader import read_yaml

    text = ["\n## Left out\n\nOps of Paddle's tables that phix has not:\n\n"]
    for entry in read_yaml(LEFT_OUT.read_text(encoding="utf-8"), LEFT_OUT.name):
        names = ", ".join(f"`{name}`" for name in entry["ops"])
        text.append(f"- {names}: {entry['reason']}.\n")
    return "".join(text)


def _row(op: Any) -> str:
    from phix.__main__ import summary

    kind = "primitive" if op.is_primitive else "composite"
    if "nondifferentiable" in op.traits:
        gradient = "zero"
    elif op.backward or op.vjp_rule or not op.is_primitive:
        gradient = "yes"
    else:
        gradient = "none"
    args = ", ".join(a.name for a in op.args)
    doc = summary(op).replace("|", "\\|")
    return f"| `{op.name}({args})` | {kind} | {gradient} | {doc} |\n"


# -- the command -------------------------------------------------------------------------------
def refresh(path: Path, check: bool) -> bool:
    """Whether ``path`` holds what it should; unless ``check``, it does afterwards."""
    path = path.resolve()
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["PHIX_CACHE_DIR"] = folder  # pages show what a first run prints
        try:
            after = refreshed(path)
        finally:
            os.chdir(here)
    if before == after:
        return True
    lines = (before.splitlines(), after.splitlines())
    name = path.name
    print("\n".join(difflib.unified_diff(*lines, name, f"{name}, as it runs", lineterm="")))
    if not check:
        path.write_text(after, encoding="utf-8")
    return not check


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, show differences")
    parser.add_argument("files", nargs="*", type=Path, help="(all)")
    args = parser.parse_args()
    if len(args.files) == 1:
        return 0 if refresh(args.files[0], args.check) else 1
    # One process a file: what one loads into the op table must not reach the next.
    command = [sys.executable, __file__, *["--check"] * args.check]
    files = args.files or [*documents(), *[OPS] * (not OPS.exists())]
    return max(subprocess.run([*command, str(file)]).returncode for file in files)


if __name__ == "__main__":
    sys.exit(main())
