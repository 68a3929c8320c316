"""The benchmarks run, and check results before they time anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import calls, harness


@pytest.mark.parametrize("row", calls.ROWS)
def test_contenders_of_a_row_agree(row: str) -> None:
    contenders = calls.ROWS[row]()
    assert {"phix", "numpy"} <= set(contenders)
    harness.check_equal(row, contenders)


def test_unequal_results_are_not_timed() -> None:
    unequal: dict[str, Callable[[], object]] = {"a": lambda: 1.0, "b": lambda: 2.0}
    with pytest.raises(AssertionError, match="b is not a"):
        harness.measure("row", unequal, repeats=1)


def test_measurements_are_shown_and_written(tmp_path: Path) -> None:
    found = harness.measure("row", {"a": lambda: np.float64(1.0)}, repeats=2)
    assert len(found) == 1 and found[0].lowest <= found[0].median
    assert "row" in harness.table(found) and " ns" in harness.table(found)
    file = tmp_path / "found.json"
    harness.write_json(file, found)
    content = json.loads(file.read_text())
    assert content["measurements"][0]["contender"] == "a" and content["machine"]["cpus"]
