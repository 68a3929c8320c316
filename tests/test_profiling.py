"""``phix.debug.profile``: the time of each step, with what it computes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import phix
from phix import errors


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phix.api.profiling._SECONDS", 0.01)


def test_steps_have_their_ops_lines_and_costs(tmp_path: Path) -> None:
    def f(x: phix.Tensor, w: phix.Tensor) -> phix.Tensor:
        return phix.ops.tanh(x @ w).sum()

    found = phix.debug.profile(f)(phix.ones([128, 256]), phix.ones([256, 192]))
    product = next(s for s in found.steps if s.ops == ("matmul",))
    rest = next(s for s in found.steps if s.ops == ("tanh", "sum"))
    assert product.flops == 2 * 128 * 256 * 192 and rest.transcendentals == 128 * 192
    assert product.bytes_accessed == 4 * (128 * 256 + 256 * 192 + 128 * 192)
    assert all(s.lines[0].startswith("test_profiling.py:") and s.runs == 1 for s in found.steps)
    assert sum(s.share for s in found.steps) == pytest.approx(1.0)
    whole = sum(s.seconds for s in found.steps)
    assert 0.5 * found.timed_seconds < whole <= found.timed_seconds
    assert product.gflops == pytest.approx(product.flops / product.seconds / 1e9)
    table = str(found).splitlines()
    assert table[0].startswith("f: ") and "GFLOP/s" in table[1]
    assert "between steps" in str(found) and "matmul" in str(found)

    found.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ran = [e for e in events if e["ph"] == "X" and e["tid"] == 1]
    assert {f"{s.name}: {', '.join(s.ops)}" for s in (product, rest)} <= {e["name"] for e in ran}
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(ran))
    assert ran[0]["args"]["lines"] == list(found.steps[0].lines)


def test_steps_in_loops_are_counted() -> None:
    def f(x: phix.Tensor) -> phix.Tensor:
        return phix.scan(lambda c, i: (phix.ops.tanh(c + i), None), x, phix.arange(30.0))[0]

    found = phix.debug.profile(phix.jit(f))(phix.ones([8]))
    assert max(s.runs for s in found.steps) == 30
    inner = next(s for s in found.steps if s.runs == 30)
    assert inner.transcendentals == 30 * 8 and len(found.events) >= 30


def test_steps_that_python_runs_are_timed_too() -> None:
    def f(x: phix.Tensor) -> phix.Tensor:
        return phix.fft.fft(x + 1.0).real * 2.0

    x = phix.to_tensor(np.arange(16.0, dtype=np.float32))
    found = phix.debug.profile(phix.jit(f, disable="own_transforms"))(x)
    names = [s.name for s in found.steps]
    assert "fft_r2c (Python)" in names and "kernel 0" in names
    assert all(s.seconds > 0 for s in found.steps if "Python" in s.name)


def test_long_programs_in_parts_with_unknown_dims() -> None:
    def f(x: phix.Tensor) -> phix.Tensor:
        for k in range(6):
            x = x - x.sum(axis=0) * float(k)
        return x

    x = phix.to_tensor(np.arange(12.0, dtype=np.float32).reshape(4, 3).T)  # not contiguous
    with phix.debug.settings(most_steps=4, steps_of_a_part=2):
        found = phix.debug.profile(phix.jit(f, input_spec=[phix.spec(["n", 4])]))(x)
    assert len(found.steps) > 4 and all(s.runs == 1 for s in found.steps)
    assert sum(s.bytes_accessed is not None for s in found.steps) > 4


def test_where_there_is_no_clock_it_says_so() -> None:
    x = phix.ones([3])
    with pytest.raises(errors.ArgumentError, match="being transformed"):
        phix.grad(lambda x: phix.debug.profile(phix.ops.exp)(x).seconds)(x.sum())
    with (
        phix.library("numba"),
        pytest.raises(errors.ArgumentError, match="program of the library numba"),
    ):
        phix.debug.profile(phix.ops.exp)(x)
