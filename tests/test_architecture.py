"""docs/architecture.md says which way a call takes: it is traced here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "phix") + "/"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def entered(run: Any) -> list[str]:
    """The files of the package that a call enters, each where it is entered first."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.setdefault(frame.f_code.co_filename.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(files)


def test_a_first_call_takes_the_way_that_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))  # nothing is found on disk
    hops = re.findall(r"^\d+\. `([\w/]+\.py)`:", PAGE, re.MULTILINE)
    assert len(hops) > 15
    x = phix.to_tensor(np.linspace(0.1, 1.0, 5))
    phix.jit(phix.grad(lambda x: ops.sum(x * 2.0)))(x)  # imports what is imported on first use
    f = phix.jit(phix.grad(lambda x: ops.sum(ops.sin(x) * x * 1.0625)))
    files = entered(lambda: f(x))
    assert [h for h in hops if h not in files] == []
    assert sorted(hops, key=files.index) == hops
    assert len(entered(lambda: f(x))) <= 5


def test_the_page_names_every_room() -> None:
    table = PAGE.partition("## Rooms")[2].partition("## Words")[0]
    folders = [p.parent for p in (ROOT / "phix").rglob("__init__.py") if p.parent != ROOT / "phix"]
    for folder in folders:
        name = folder.relative_to(ROOT / "phix").as_posix()
        if "/" not in name or name.startswith("kernels/"):  # what is in a face is its own affair
            known = (f"`phix/{name}/`", f"`{folder.name}/`")
            assert name == "kernels" or any(k in table for k in known), name


_FRAMES = """
import sys
import numpy as np
import phix
import phix.kernels.lowering.registry
from phix import ops

PACKAGE = phix.__path__[0]


def frames(run):
    found = []
    sys.setprofile(lambda f, event, _: found.append(event == "call" and
                                                    f.f_code.co_filename.startswith(PACKAGE)))
    run()
    sys.setprofile(None)
    return sum(found)


def f(x):
    return (ops.sin(x) * x).sum()


phix.core.disk_cache._trim_if_due = lambda folder: None  # it is due at some time of the clock's
x = phix.to_tensor(np.linspace(0, 1, 16, dtype="f"))
phix.kernels.lowering.registry.load("sum")
phix.core.rules.check_table(), x.sum  # these and the next line import what is on first use
phix.jit(lambda x: ops.cos(x) + 1)(x)
first = frames(lambda: phix.jit(f)(x))
grad = phix.grad(f)
grad(x), grad(x)
print(first, frames(lambda: grad(x)))
"""


def test_calls_go_through_few_frames(tmp_path: Path) -> None:
    """In a process of its own, where nothing is known of the ops and nothing looks at the loops."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PHIX_")}
    env = {**own, "PHIX_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", _FRAMES], capture_output=True, text=True, check=True, env=env
    )
    first, warm = map(int, run.stdout.split())
    # with masks, as AVX-512 has them, 24 more than without; a pass is 8, what is rare in sin 890
    assert first < 4020
    assert warm < 190
