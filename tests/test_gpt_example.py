"""examples/gpt.py, in a few steps: it learns, and its cache gives what the whole text gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = pytest.mark.unoptimised


@pytest.fixture
def gpt(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__("gpt")


def test_it_learns_and_writes(gpt: Any) -> None:
    result = gpt.train("abcd" * 40, steps=25, length=12, size=16, depth=1, batch=4)
    assert result.losses[-5:].mean() < 0.7 * result.losses[0]
    assert len(result.text) == 12 and set(result.text) <= set("abcd")


def test_decoding_by_the_cache_is_that_of_the_whole_text(gpt: Any) -> None:
    model = gpt.GPT.create(phix.random.key(0), 5, 8, 8, 2, 2)
    start = np.array([[1, 2, 3], [0, 4, 2]])
    written = gpt.write(model, start, 5, phix.random.key(1), heat=1e-6).numpy()  # the likeliest
    text = start
    for _ in range(5):
        text = np.concatenate([text, ops.argmax(model(text)[:, -1], -1).numpy()[:, None]], 1)
    assert (text[:, 3:] == written).all()
