"""A copy of phix in a folder of its own: tests add to it, step by step, what CONTRIBUTING.md says.

    copy = ScratchCopy(tmp_path)
    copy.append("yaml/arithmetic.yaml", "- op: ...")
    copy.insert("phix/primitives/pointwise.py", "SLOPES_AT_X: ... = {", '    "...": ...,')
    copy.make("ops")
    copy.python("import phix; ...")
    assert copy.touched == {...}

Each step that runs something is one process; a failed one raises ``StepFailed`` with what it said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What imports, and what `make ops` needs.
NEEDED = ("phix", "yaml", "Makefile", "pyproject.toml")


class StepFailed(AssertionError):
    """A step ended with another status than 0."""


class ScratchCopy:
    """The copy in ``folder``, of the needed files and folders of the repository and of ``more``.

    ``touched`` holds the files that were edited or added, as paths in the repository; what a
    step writes (``phix/ops.py``, caches) is not among them.
    """

    def __init__(self, folder: Path, more: Sequence[str] = ()) -> None:
        self.folder = folder
        self.touched: set[str] = set()
        for name in (*NEEDED, *more):
            source = ROOT / name
            if source.is_dir():
                # with its bytecode: no step compiles what no edit changed
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.tmp"))
            else:
                shutil.copy2(source, folder / name)
        # The packages of this Python are those that the Makefile would install.
        stamp = folder / ".venv" / "dev.stamp"
        stamp.parent.mkdir()
        stamp.touch()

    # -- edits -------------------------------------------------------------------------------
    def write(self, path: str, text: str) -> None:
        """The whole text of a file, which may be a new one."""
        self.touched.add(path)
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def append(self, path: str, text: str) -> None:
        """``text`` at the end of a file."""
        self.write(path, f"{self.text(path).rstrip()}\n{text.rstrip()}\n")

    def insert(self, path: str, line: str, text: str) -> None:
        """``text`` behind the one line of a file that begins with ``line``."""
        rows = self.text(path).splitlines()
        found = [i for i, row in enumerate(rows) if row.startswith(line)]
        assert len(found) == 1, f"{path} has {len(found)} lines that begin with {line!r}"
        rows.insert(found[0] + 1, text.rstrip())
        self.write(path, "\n".join(rows) + "\n")

    # -- steps -------------------------------------------------------------------------------
    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the copy, with the copy's phix; its status is the caller's to look at."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PHIX_CACHE_DIR": str(self.folder / "kernel-cache"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # one step finds that of another
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def step(self, *command: str) -> str:
        """What a command prints.

        Raises:
            StepFailed: it ended with another status than 0.
        """
        run = self.run(*command)
        if run.returncode:
            raise StepFailed(f"{' '.join(command)}\n{run.stdout}{run.stderr}")
        return run.stdout

    def make(self, target: str) -> str:
        """``make TARGET``, with this Python in place of the one in ``.venv``."""
        folder = Path(sys.executable).parent
        return self.step("make", "--no-print-directory", target, f"BIN={folder}")

    def python(self, code: str) -> str:
        """What Python code prints, run in a process of its own; warnings are errors."""
        return self.step(sys.executable, "-W", "error", "-c", code)
