"""The end of all ranks where one of them fails: none is to wait for it for ever."""

from __future__ import annotations

import sys
from typing import Any

_installed: list[Any] = []


def end_all_on_errors(world: Any) -> None:
    """Let an error that nobody on this rank catches be reported with its number, and end all."""
    if _installed or world.Get_size() == 1:
        return
    before = sys.excepthook
    _installed.append(before)

    def hook(kind: Any, error: Any, traceback: Any) -> None:
        before(kind, error, traceback)
        rank, count = world.Get_rank(), world.Get_size()
        print(
            f"phix.parallel: rank {rank} of {count} ended with {kind.__name__}: {error}\n"
            f"phix.parallel: the other ranks, which would wait for it, are ended",
            file=sys.stderr,
            flush=True,
        )
        sys.stdout.flush()
        world.Abort(1)

    sys.excepthook = hook
