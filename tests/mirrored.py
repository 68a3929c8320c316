"""A mesh whose ranks all hold what this process holds: programs for ranks without any beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.parallel.exchange import Group
from phix.parallel.meshes import Mesh


class Mirrored(Group):
    """Sums and gathers of values that are the same on all ranks. ``steps`` are those it has done:
    kind and number of elements."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size, 0, None)
        self.steps: list[tuple[str, int]] = []

    def run(
        self, kind: str, detail: Sequence[int], x: np.ndarray, out: np.ndarray, source: Any = None
    ) -> None:
        self.steps.append((kind, x.size))
        if kind == "sum":
            out[...] = self.size * x
        elif kind == "gather":
            out[...] = np.stack([x] * self.size, detail[0])
        else:
            raise NotImplementedError(kind)


def mirrored(**axes: int) -> Mesh:
    """A mesh of such groups."""
    groups: Any = {name: Mirrored(name, size) for name, size in axes.items()}
    return Mesh(axes, groups, 0)
