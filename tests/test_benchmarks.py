"""The benchmarks run, and check results before they time anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import harness, peers
from benchmarks.__main__ import load_rows
from benchmarks.harness import Case, Measurement, Row
from phix import ops

load_rows()
LIBRARIES = peers.libraries(("phix", "numpy"), compiled=False)
SMALL = [name for name in harness.ROWS if name.startswith("call: ") or "batch 8:" in name]


@pytest.mark.parametrize("name", SMALL)
def test_a_row_is_checked_and_timed(name: str) -> None:
    found, notes = harness.run_row(harness.ROWS[name], LIBRARIES, repeats=1, budget=0.0)
    assert "phix" in {m.contender for m in found}
    assert not notes


@pytest.mark.parametrize("mode", ["call", "uncompiled", "vjp", "value_and_grad", "sgd"])
def test_modes_give_what_they_say(mode: str) -> None:
    library = LIBRARIES["phix"]
    cotangent, x = np.float32(2.0), np.float32(3.0)
    args = (cotangent, x) if mode == "vjp" else (x,)
    results = [a.item() for a in peers.leaves(library.bind(lambda x: x * x, mode, args)())]
    moved = 3.0 - 6.0 * peers.LEARNING_RATE
    wanted = {"vjp": [9.0, 12.0], "value_and_grad": [9.0, 6.0], "sgd": [9.0, moved]}
    assert results == pytest.approx(wanted.get(mode, [9.0]))


def _row(*functions: Any) -> Row:
    x = np.arange(3, dtype=np.float32)
    return Row("row", lambda: Case((x,), dict(zip(("phix", "numpy"), functions))))


def test_unequal_results_are_not_timed() -> None:
    unequal = _row(lambda x: ops.exp(x), lambda x: x)
    with pytest.raises(AssertionError, match="numpy is not phix"):
        harness.run_row(unequal, LIBRARIES, repeats=1, budget=0.0)
    with pytest.raises(AssertionError, match="b is not a"):
        harness.measure("row", {"a": lambda: 1.0, "b": lambda: 2.0}, repeats=1)


def test_a_missing_op_leaves_a_note() -> None:
    missing = _row(lambda x: ops.no_such_op(x), np.exp)  # type: ignore[attr-defined]
    found, notes = harness.run_row(missing, LIBRARIES, repeats=1, budget=0.0)
    assert [m.contender for m in found] == ["numpy"]
    assert len(notes) == 1 and "no_such_op" in notes[0]


def test_measurements_are_shown_and_written(tmp_path: Path) -> None:
    times = {"phix": 1e-3, "jax": 4e-3, "torch": 9e-3, "torch.compile": 1e-3}
    found = [Measurement("row", name, seconds, seconds / 2, 3) for name, seconds in times.items()]
    assert harness.ratios(harness.by_row(found, lowest=False)["row"]) == {"jax": 4.0, "torch": 1.0}
    text = harness.table(found)
    assert "1 ms" in text and "jax 4.00 (1 rows)" in text
    harness.write_json(tmp_path / "found.json", found)
    assert harness.read_json(tmp_path / "found.json") == found
