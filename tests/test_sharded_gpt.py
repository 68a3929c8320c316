"""examples/parallel, in a few steps: every mesh has the losses of one process."""

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


def test_networks_that_are_divided(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    networks: Any = __import__("networks")
    networks.main(["--steps", "2"], phix.parallel.mesh({"all": 2}, virtual=True))
    printed = capsys.readouterr().out
    assert printed.count("as in one piece") == 4
    assert "states and weights: 2 all_gather, 1 psum, 2 psum_scatter" in printed


@pytest.mark.prove
def test_it_runs_by_mpiexec() -> None:
    options = ["--data", "1", "--model", "2", "--steps", "1", "--depth", "1"]
    found = launched(2, [str(EXAMPLE), *options], 200)
    assert found.returncode == 0, found.stdout[-3000:]
    assert "on <mesh {'data': 1, 'model': 2}>" in found.stdout
    found = launched(2, [str(EXAMPLE.with_name("networks.py")), "--steps", "1"], 200)
    assert found.returncode == 0, found.stdout[-3000:]
    assert found.stdout.count("as in one piece") == 4
