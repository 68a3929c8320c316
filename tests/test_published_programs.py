"""Programs of ``benchmarks/programs_*.py``, at their smallest sizes: compiled beside eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from benchmarks import harness, published
from benchmarks.published import PROGRAMS, Program

published.load()
PHIX = published.own()


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_compiled_does_as_eagerly(name: str) -> None:
    entry: Program = PROGRAMS[name]
    function, args = entry.build(PHIX, min(entry.sizes))
    given = phix.tree.map(phix.to_tensor, args)
    results: dict[str, list[Any]] = {}
    for way, run in {"compiled": phix.jit(function), "eager": function}.items():
        results[way] = [np.asarray(x) for x in phix.tree.leaves(run(*given))]
    assert all(np.isfinite(x).all() for x in results["eager"])
    harness.check_equal(name, results, entry.tolerance)
