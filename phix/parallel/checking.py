"""Checks of collectives among ranks, before they begin: a mismatch is an error, and no hang."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core.errors import CollectiveError
from phix.parallel.exchange import NAMES

_LENGTH = 256  # bytes of what a rank says
# Seconds that a rank is waited for: it may be compiling what others have compiled.
_PATIENCE = 60.0
_DIFFERENT = (
    "the ranks are about to do different collectives",
    "every rank must come to the same ones, in the same order, on tensors of the same shape and "
    "dtype",
)


class Watch:
    """What the ranks of a mesh tell each other of each step; all of them are asked in each step of
    a group, so that ranks which are somewhere else are found, too."""

    def __init__(self, comm: Any, places: Sequence[Any]) -> None:
        self.comm = comm
        self.places = places

    def __call__(
        self, group: Any, kind: str, detail: Sequence[int], x: Any, place: str = "cpu"
    ) -> None:
        shape = dm.shape_text(x.shape)
        what = f"{NAMES[kind]} of {x.dtype}{shape} over {group.name!r}"
        if kind != "ragged" and detail:  # each rank has numbers of its own there
            what += f" {list(detail)}"
        if place != "cpu":
            what += f" on {place}"
        self.compare(group.comm, what)

    def compare(self, comm: Any, what: str, complaint: tuple[str, str] = _DIFFERENT) -> None:
        """Raise CollectiveError unless all ranks of a communicator say the same."""
        sent = np.zeros(_LENGTH, np.uint8)
        text = what.encode()[:_LENGTH]
        sent[: len(text)] = np.frombuffer(text, np.uint8)
        found = np.zeros((comm.Get_size(), _LENGTH), np.uint8)
        request = comm.Iallgather(sent, found)
        deadline = time.monotonic() + _PATIENCE
        while not request.Test():
            if time.monotonic() > deadline:
                raise CollectiveError(
                    f"rank {self.comm.Get_rank()} is about to do: {what}; some of the others have "
                    f"not come to any collective for {_PATIENCE:g} seconds: they have left, or do "
                    "something else"
                )
            time.sleep(1e-5)
        said = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in found]
        if len(set(said)) > 1:
            ranks = comm.Get_group().Translate_ranks(
                list(range(comm.Get_size())), self.comm.Get_group()
            )
            listed = "; ".join(f"rank {r}: {s}" for r, s in zip(ranks, said))
            raise CollectiveError(f"{complaint[0]}: {listed}; {complaint[1]}")

    def same(self, group: Any, where: str, arrays: Sequence[np.ndarray]) -> None:
        """Raise CollectiveError unless arrays are the same on all ranks of a group."""
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        what = f"{where}: in_specs says that arguments are the same along {group.name!r}"
        self.compare(
            group.comm,
            f"digest {digest.hexdigest()[:12]}",
            (f"{what}, and they are not", "give them from one rank to all, or name the axis"),
        )
