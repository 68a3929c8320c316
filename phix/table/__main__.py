"""``python phix/table`` writes ``phix/ops.py`` anew; ``--check`` exits 1 where it is stale.

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
    sys.path[0] = str(PACKAGE.parent)  # the folder of this file, whose modules are the package's


def main(arguments: Sequence[str] = ()) -> int:
    """Write ``phix/ops.py``; with ``--check``, only say whether it is up to date."""
    from phix.core.errors import OpTableError
    from phix.table import stubs
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
    fresh = OPS_FILE.exists() and OPS_FILE.read_text(encoding="utf-8") == text
    if arguments and not (fresh and stubs.write(text, check=True)):
        print("phix/ops.py is stale; run `make ops`", file=sys.stderr)
        return 1
    if not fresh:
        compile(text, str(OPS_FILE), "exec")
        # In one step, so that a process that imports phix meanwhile sees a whole file.
        fresh_file = OPS_FILE.with_suffix(f".{os.getpid()}.tmp")
        fresh_file.write_text(text, encoding="utf-8")
        os.replace(fresh_file, OPS_FILE)
    if not arguments:
        stubs.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
