"""examples/parallel/sharded_gpt.py, in a few steps: every mesh has the losses of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from tests.test_parallel import launched

pytestmark = pytest.mark.unoptimised

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "parallel" / "sharded_gpt.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    return __import__("sharded_gpt")


def test_losses_are_those_of_one_process(example: Any, capsys: Any) -> None:
    losses = []
    for axes in ({"data": 1, "model": 1}, {"data": 2, "model": 2}):
        mesh = phix.parallel.mesh(axes, virtual=True)
        losses.append(example.train(mesh, "abcde" * 40, 4, length=8, size=16, depth=1, batch=4))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
    printed = capsys.readouterr().out
    assert "no steps between the parts" in printed
    assert "5 psum over model" in printed  # four a block, and one for the norm of all gradients


@pytest.mark.prove
def test_it_runs_by_mpiexec() -> None:
    options = ["--data", "1", "--model", "2", "--steps", "1", "--depth", "1"]
    found = launched(2, [str(EXAMPLE), *options], 200)
    assert found.returncode == 0, found.stdout[-3000:]
    assert "on <mesh {'data': 1, 'model': 2}>" in found.stdout
