"""Property tests over fresh seeds, for as long as ``--prove`` says; and which tests runs choose."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import proofs
import random_graphs
import random_networks
import random_programs

# What is drawn, the share of the time it takes, and in how many tests, so that workers share it.
DRAWN: dict[str, tuple[Callable[[int], Any], float, int]] = {
    "networks": (random_networks.run_draw, 0.5, 4),
    "programs": (random_programs.run_draw, 0.1, 2),
    "graphs": (random_graphs.run_draw, 0.1, 2),
}
PARTS = [(what, part) for what, (_, _, count) in DRAWN.items() for part in range(count)]


@pytest.fixture
def seconds_of(request: pytest.FixtureRequest) -> Callable[[float], float]:
    """The time that a share of what ``--prove`` gives is."""
    return lambda share: share * (request.config.option.prove or 60.0)


@pytest.mark.prove
@pytest.mark.parametrize(("what", "part"), PARTS, ids=[f"{w}-{p}" for w, p in PARTS])
def test_random(
    what: str,
    part: int,
    seconds_of: Callable[[float], float],
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    draw, share, count = DRAWN[what]
    end = time.monotonic() + seconds_of(share) / count
    first = request.config.option.prove_seed + part * 1000
    seed, reports = first, []
    while time.monotonic() < end or seed == first:
        outcome = draw(seed)
        seed += 1
        if outcome.error:
            reports.append(outcome.report())
    record_property(
        proofs.PROVED, f"{seed - first} {what} from seed {first}: {len(reports)} mismatches"
    )
    assert not reports, "\n\n".join(reports)
