"""The process beside the ranks of one machine that sees when one of them is gone:

    python watcher.py LISTENING_SOCKET FOLDER RANKS_HERE RANKS

It imports nothing of phix, for it starts with each program. Each rank connects, says its number and
process, and "bye" when it leaves, or "failed" when it ends all by itself. A connection that closes
without either is a rank that was killed or has crashed: the watcher says so, with the line at
which the rank was by the file that it keeps in the folder, and where each of the others waited; and
ends those that the launcher has left. It has a session of its own, so that it outlives them.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

_GRACE = 1.0  # seconds that the launcher has to end the others
_PATIENCE = 120.0  # seconds in which ranks come
_IN, _SIZE = b"\1", 1024  # of the file of a rank: whether it is in a step, and how much it holds


class Watched:
    """A rank, by what it has said."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rank, self.pid = -1, 0
        self.last = ""

    def read(self) -> bool:
        """Take what it says; whether it is there still."""
        try:
            said = self.connection.recv(256)
        except OSError:
            return False
        for line in said.decode().splitlines():
            if line[0].isdigit():
                self.rank, self.pid = map(int, line.split())
            else:
                self.last = line
        return bool(said)


class Watcher:
    def __init__(self, listening: socket.socket, folder: str, here: int, count: int) -> None:
        self.folder, self.count, self.missing = folder, count, here
        self.there: list[Watched] = []
        self.is_ending = 0.0  # when those that are left are ended
        self.selector = selectors.DefaultSelector()
        self.selector.register(listening, selectors.EVENT_READ)

    def run(self) -> None:
        started = time.monotonic()
        while self.there or self.missing:
            now = time.monotonic()
            if self.missing and now - started > _PATIENCE:
                self.missing = 0
            if self.is_ending and now > self.is_ending:
                return self.end()
            # of several at once, the first comes first where the system keeps their order
            for key, _ in self.selector.select(0.1 if self.is_ending else 1.0):
                self.take(key)

    def take(self, key: Any) -> None:
        if key.data is None:
            connection, _ = key.fileobj.accept()
            connection.settimeout(_GRACE)
            watched = Watched(connection)
            self.there.append(watched)
            self.missing -= 1
            self.selector.register(connection, selectors.EVENT_READ, watched)
            return
        watched = key.data
        if watched.read():
            if watched.last == "failed":
                self.begin(watched)
                with contextlib.suppress(OSError):
                    watched.connection.sendall(b"!")
            return
        self.selector.unregister(watched.connection)
        self.there.remove(watched)
        if not watched.last and watched.rank >= 0:
            self.begin(watched)

    def begin(self, first: Watched) -> None:
        """Say who is gone, and where the others are."""
        if self.is_ending:
            return
        self.is_ending = time.monotonic() + _GRACE
        if not first.last:
            tell(f"rank {first.rank} of {self.count} (process {first.pid}) is gone: it was killed, "
                 f"or has crashed, {self.place(first)}")  # fmt: skip
        for other in self.there:
            if other.rank < 0:  # it has come just now, and says who it is at once
                other.read()
            if other is not first and not other.last:
                tell(f"rank {other.rank} of {self.count} is ended, {self.place(other)}, because "
                     f"rank {first.rank} is gone")  # fmt: skip
                with contextlib.suppress(OSError):  # so that it lets its devices go
                    other.connection.sendall(b"!")

    def place(self, watched: Watched) -> str:
        """Where a rank was."""
        try:
            with open(os.path.join(self.folder, str(watched.rank)), "rb") as file:
                text = file.read(_SIZE)
        except OSError:
            text = b""
        what = text[1:].split(b"\0", 1)[0].decode(errors="replace")  # behind it: older words
        if not what:
            return "before its first step with the others"
        return f"in its {what}" if text[:1] == _IN else f"behind its {what}"

    def end(self) -> None:
        """Kill those of this machine that are left."""
        for watched in self.there:
            if watched.pid and watched.last != "bye":
                with contextlib.suppress(OSError):
                    os.kill(watched.pid, signal.SIGKILL)


def tell(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"phix.parallel: {text}\n".encode())


def main() -> None:
    number, folder, here, count = sys.argv[1:]
    listening = socket.socket(fileno=int(number))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        Watcher(listening, folder, int(here), int(count)).run()
    finally:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


if __name__ == "__main__":
    main()
