"""docs/architecture.md says which way a call takes: it is traced here."""

from __future__ import annotations

import re
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
    faces = {
        "nn", "fft", "linalg", "random", "sparse", "lod", "selected_rows", "strings",
        "array_functions", "numba", "numpy", "optim", "parallel", "scipy", "testing",
        "autograd",
    }  # fmt: skip
    for folder in folders:
        name = folder.relative_to(ROOT / "phix").as_posix()
        if name.split("/")[0] not in faces and name != "kernels":
            assert f"`phix/{name}/`" in table or f"`{folder.name}/`" in table, name
