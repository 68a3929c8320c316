"""``python phix/table`` writes ``phix/ops.py``, and the stub of tensors, anew; ``--check`` exits 1
where one is stale.

It is run by its path, so that ``phix`` is not imported: rules may wait for functions that are yet
to be written, or the file may be one that Python cannot read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parents[1]
OPS_FILE = PACKAGE / "ops.py"

if not __package__:
    bare = ModuleType(PACKAGE.name)  # the package without its __init__
    bare.__path__ = [str(PACKAGE)]
    sys.modules[PACKAGE.name] = bare
    here = PACKAGE / "table"  # whose modules are to be found in the package alone
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != here]


def main(arguments: Sequence[str] = ()) -> int:
    """Write the generated files; with ``--check``, only say whether they are up to date."""
    from phix.core.errors import OpTableError
    from phix.table.codegen import render
    from phix.table.loader import read_table

    if list(arguments) not in ([], ["--check"]):
        print("usage: python phix/table [--check]", file=sys.stderr)
        return 2
    try:
        text = render(read_table())
    except OpTableError as error:
        print(error, file=sys.stderr)
        return 1
    stale = [(f, new) for f, new in _files(text) if not f.exists() or _read(f) != new]
    for file, new in stale:
        if arguments:
            print(f"{file.name} is stale; run `make ops`", file=sys.stderr)
        else:
            _write(file, new)
    return int(bool(arguments and stale))


def _files(text: str) -> list[tuple[Path, str]]:
    """What is generated: the ops, and what type checkers read of tensors."""
    from phix.table import stubs

    return [(OPS_FILE, text), (stubs.STUB_FILE, stubs.render(text))]


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _write(file: Path, text: str) -> None:
    compile(text, str(file), "exec")
    # In one step, so that a process that imports phix meanwhile sees a whole file.
    fresh_file = file.with_suffix(f".{os.getpid()}.tmp")
    fresh_file.write_text(text, encoding="utf-8")
    os.replace(fresh_file, file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
