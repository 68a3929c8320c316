"""The end of all ranks where one of them fails: none is to wait for it for ever.

An error that a rank does not catch ends all from within. A rank that is killed can say nothing, nor
can the others, which their launcher kills in turn: on each machine a process beside the ranks
(``watcher.py``) says for them who is gone, and at which line each of them was.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import mmap
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phix.core.rank_ports import MOST_TEXT
from phix.core.source import Source, user_source

_SIZE = MOST_TEXT + 2  # bytes of the file in which a rank keeps where it is
_installed: list[Any] = []
# What is called on a rank that ends all of them, before it does.
LEAVING: list[Callable[[], None]] = []


class Whereabouts:
    """Where this rank is, for others to read when it is gone: in a file that is mapped."""

    def __init__(self) -> None:
        self.memory: Any = None
        self.shared: Any = None  # the same, or what stands for it, to native code
        self.connection: socket.socket | None = None

    def enter(self, kind: str, axis: str, source: Source | None) -> None:
        """A step between the ranks begins; the line is that of the call where none is known."""
        if self.memory is None:
            return
        at = source if source is not None else user_source()
        text = f"{kind} over {axis!r} at {at}".encode()[:MOST_TEXT]
        self.memory[: len(text) + 2] = b"\1" + text + b"\0"

    def leave(self) -> None:
        """The step is done."""
        if self.memory is not None:
            self.memory[0] = 2

    def address(self) -> int:
        """Where native code says the same: the address of the memory, or of some that nobody reads
        where there is no watcher."""
        if self.shared is None:
            memory = self.memory if self.memory is not None else bytearray(_SIZE)
            self.shared = (ctypes.c_char * _SIZE).from_buffer(memory)
        return ctypes.addressof(self.shared)

    def say(self, word: str, waits: bool = False) -> None:
        """Tell the watcher how this rank ends, and wait, or not, until it has told of the others:
        launchers do not print what comes behind an abort."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.sendall(f"{word}\n".encode())
                if waits:
                    self.connection.settimeout(2.0)
                    self.connection.recv(1)

    def is_ending(self) -> bool:
        """Whether the watcher has said that a rank is gone."""
        if self.connection is None:
            return False
        try:
            said = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return False
        return said == b"!"


WHEREABOUTS = Whereabouts()


def end_all_on_errors(world: Any, comm: Any) -> None:
    """Let an error that nobody on this rank catches be reported with its number, and end all; and
    have a process beside the ranks that does so for one which is killed.

    All ranks of ``comm`` call it, some of which may have done so with others before.
    """
    from mpi4py import MPI

    if world.Get_size() == 1:
        return
    fresh = comm.Split(MPI.UNDEFINED if _installed else 0, comm.Get_rank())
    if _installed:
        return
    if hasattr(socket, "AF_UNIX") and os.name == "posix":
        _watch(world, fresh)
    fresh.Free()
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
        WHEREABOUTS.say("failed", waits=True)
        for leave in LEAVING:
            with contextlib.suppress(Exception):
                leave()
        world.Abort(1)

    sys.excepthook = hook


def _watch(world: Any, fresh: Any) -> None:
    """Start the watcher of this machine, and let it know of this rank."""
    from mpi4py import MPI

    node = fresh.Split_type(MPI.COMM_TYPE_SHARED)
    rank, here = world.Get_rank(), node.Get_size()
    folder = node.bcast(_started(here, world.Get_size()) if node.Get_rank() == 0 else None, 0)
    node.Free()
    if folder is None:
        return
    with contextlib.suppress(OSError):  # where there is no watcher, the launcher is left
        with open(os.path.join(folder, str(rank)), "w+b") as file:
            file.truncate(_SIZE)
            WHEREABOUTS.memory = mmap.mmap(file.fileno(), _SIZE)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.path.join(folder, "watch"))
        WHEREABOUTS.connection = connection
    WHEREABOUTS.say(f"{rank} {os.getpid()}")
    pid = os.getpid()
    atexit.register(lambda: WHEREABOUTS.say("bye") if os.getpid() == pid else None)


def _started(here: int, count: int) -> str | None:
    """The folder of a watcher that is started; None where none can be."""
    folder = None
    try:
        folder = tempfile.mkdtemp(prefix="phix-ranks-")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.join(folder, "watch"))
            listening.listen(here)
            number = listening.fileno()
            program = str(Path(__file__).with_name("watcher.py"))
            subprocess.Popen(
                [sys.executable, "-I", "-S", program, str(number), folder, str(here), str(count)],
                pass_fds=(number,), start_new_session=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
    except OSError:  # no place for a socket, or no more processes
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return None
    return folder


__all__ = ["LEAVING", "WHEREABOUTS", "end_all_on_errors"]
