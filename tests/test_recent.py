"""What is kept for one size after the other is bounded, and what goes is made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.recent import Recent
from phix.kernels.graph_program import EquationStep
from toy_device import toy

pytestmark = pytest.mark.unoptimised


def test_those_used_last_are_kept() -> None:
    made: list[int] = []
    recent: Recent[int] = Recent(lambda: 3)

    def get(key: int) -> int:
        def make() -> int:
            made.append(key)
            return 10 * key

        return recent.get(key, make)

    for key in (1, 2, 3, 1, 4, 1, 2):
        assert get(key) == 10 * key
    assert made == [1, 2, 3, 4, 2] and list(recent.kept) == [4, 1, 2]


def test_what_could_not_be_made_is_not_there() -> None:
    recent: Recent[int] = Recent(lambda: 3)
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 5) == 5


@pytest.mark.parametrize("where", ["on a device", "over two places", "in a loop"])
def test_the_sizes_a_program_is_settled_for_are_bounded(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 sizes twice: each gives what NumPy gives, and a step keeps four."""
    steps: list[Any] = []
    begin = EquationStep.__init__

    def noted(self: Any, *args: Any) -> None:
        begin(self, *args)
        steps.append(self)

    monkeypatch.setattr(EquationStep, "__init__", noted)

    def function(x: Any) -> Any:
        if where == "over two places":
            x = (x.to("cpu") * 2.0).to("toy") * 0.5
        if where == "in a loop":
            return phix.fori_loop(0, 2, lambda i, c: ops.tanh(c) + x, x)
        return ops.tanh(x) + x

    def wanted(x: np.ndarray) -> np.ndarray:
        return np.tanh(np.tanh(x) + x) + x if where == "in a loop" else np.tanh(x) + x

    with toy("toy"), phix.debug.settings(most_sizes_of_a_step=4):
        jitted = phix.jit(function, input_spec=[phix.spec(["n"])])
        for n in (*range(1, 41), *range(1, 41)):
            x = np.linspace(0.1, 1.0, n, dtype="f")
            np.testing.assert_allclose(jitted(phix.to_tensor(x, place="toy")), wanted(x), rtol=1e-6)
        assert steps and any(len(s.settled) == 4 for s in steps)
        assert all(len(s.settled) <= 4 for s in steps)
