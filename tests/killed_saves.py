"""Saves that are killed at random moments, in a process of its own:

    python -m tests.killed_saves forks FOLDER COUNT SEED
    mpiexec -n 2 python -m tests.killed_saves ranks FOLDER SECONDS

``forks`` starts processes that save one version after the other, kills each at some moment of the
saves behind its first, and loads what is there: it must be one version, whole, and none older than
the last that was known to be saved.
With ``ranks`` the second rank kills itself after some seconds of saves.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import phix
from phix.parallel import load, mesh, save

SPECS = {"w": "data", "b": None, "version": None}


def tree(version: int, rows: int) -> Any:
    return {
        "w": np.full((rows, 300), version),
        "b": np.full(500, float(version)),
        "version": version,
    }


def version_of(folder: str) -> int:
    """The version in a folder, all of it."""
    found = load(folder, mesh({"all": 1}), None)
    version = int(found["version"])
    for name in ("w", "b"):
        assert (np.asarray(found[name]) == version).all(), f"torn: {name} of {version}"
    return version


def saving(folder: str, first: int) -> None:
    """Versions from ``first``, for ever; each is noted when it is saved."""
    on = mesh({"data": 1})
    for version in range(first, first + 10**6):
        save(folder, tree(version, 40), on, SPECS)
        Path(f"{folder}.note").write_text(str(version))
        os.replace(f"{folder}.note", f"{folder}.saved")


def noted(folder: str) -> int:
    """The last version known to be saved; 0 where there is no note yet."""
    file = Path(f"{folder}.saved")
    return int(file.read_text()) if file.exists() else 0


def forks(folder: str, count: int, seed: int) -> None:
    draw = random.Random(seed)
    save(folder, tree(0, 40), mesh({"data": 1}), SPECS)
    version = 0
    for _ in range(count):
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                saving(folder, version + 1)
            finally:
                os._exit(1)
        while noted(folder) <= version:
            assert os.waitpid(child, os.WNOHANG)[0] == 0, "it ended by itself"
            time.sleep(0.0005)
        time.sleep(draw.uniform(0.0, 2 * (time.monotonic() - start)))
        known = noted(folder)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        version = version_of(folder)
        assert version >= known > 0, (version, known)
    save(folder, tree(version + 1, 40), mesh({"data": 1}), SPECS)
    left = sorted(os.listdir(folder))
    assert len(left) == 2 and left[0] == "index.json", left
    print(f"{count} kills, {version} versions")


def ranks(folder: str, seconds: float) -> None:
    on = mesh({"data": -1})
    save(folder, tree(0, 20), on, SPECS)
    print("saved", flush=True)
    if on.rank == 1:
        pid = os.getpid()
        threading.Timer(seconds, lambda: os.kill(pid, signal.SIGKILL)).start()
    for version in range(1, 10**6):
        save(folder, tree(version, 20), on, SPECS)


if __name__ == "__main__":
    assert phix.__file__
    if sys.argv[1] == "forks":
        forks(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        ranks(sys.argv[2], float(sys.argv[3]))
