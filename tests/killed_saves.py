"""Saves that are killed at random moments, in a process of its own:

    python -m tests.killed_saves forks FOLDER COUNT SEED
    python -m tests.killed_saves launches MPIEXEC FOLDER COUNT SEED

``forks`` starts processes that save one version after the other, kills each at some moment of the
saves behind its first, and loads what is there: it must be one version, whole, and none older than
the last that was known to be saved.
``launches`` does so with one rank of trainings on several, each of which goes on from the save that
the one before has left: all ranks must end within ten seconds, and it is said which of them was
killed, and at which line each was.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import phix
from phix.parallel import load, mesh, save, spmd

SPECS = {"w": "data", "b": None, "version": None}


def tree(version: int, rows: int) -> Any:
    return {
        "w": np.full((rows, 300), version),
        "b": np.full(500, float(version)),
        "version": version,
    }


def version_of(folder: str) -> int:
    """The version in a folder, all of it."""
    found = load(folder, mesh({"all": 1}, virtual=True), None)
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


def ranks(folder: str) -> None:
    """Steps of a training that goes on from the last whole save, each saved, for ever."""
    on = mesh({"data": -1})
    specs = {"w": "data", "b": None, "version": None}
    begun = os.path.exists(f"{folder}/index.json")
    state = load(folder, on, specs) if begun else tree(0, 24 // on.size)

    def step(w: Any, b: Any) -> Any:
        one = phix.psum(phix.ops.ones([]), "data") / on.size
        return w + one, b + one

    run = phix.jit(spmd(step, on, ("data", None), ("data", None)))
    Path(f"{folder}.rank-{on.rank}").write_text(str(os.getpid()))
    while True:
        w, b = run(state["w"], state["b"])
        state = {"w": w, "b": b, "version": int(state["version"]) + 1}
        save(folder, state, on, specs)
        if on.rank == 0:
            Path(f"{folder}.note").write_text(str(state["version"]))
            os.replace(f"{folder}.note", f"{folder}.saved")


def is_there(pid: int) -> bool:
    """Whether a process runs; one that nobody has asked about since it ended does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def launches(mpiexec: str, folder: str, count: int, seed: int) -> None:
    """Trainings of 2 or 4 ranks, of each of which one is killed at some moment."""
    draw = random.Random(seed)
    version, slowest = 0, 0.0
    for number in range(count):
        n = draw.choice([2, 4])
        for old in Path(folder).parent.glob("*.rank-*"):
            old.unlink()
        command = [mpiexec, "-n", str(n), sys.executable, "-m", "tests.killed_saves", "ranks"]
        process = subprocess.Popen(
            [*command, folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            seconds, said = _kill_one(process, folder, n, version, draw)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        slowest = max(slowest, seconds)
        known = noted(folder)
        version = version_of(folder)
        assert version >= known > 0, (number, version, known)
    print(f"{count} kills, {version} versions, all ended within {slowest:.1f} s")
    print(said)


def _kill_one(
    process: subprocess.Popen[str], folder: str, n: int, version: int, draw: random.Random
) -> tuple[float, str]:
    """Kill a rank; how long all took to end, and what was said."""
    deadline = time.monotonic() + 120
    files = [Path(f"{folder}.rank-{k}") for k in range(n)]
    while noted(folder) <= version or not all(f.exists() and f.read_text() for f in files):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no save was made"
        time.sleep(0.001)
    time.sleep(draw.uniform(0.0, 0.3))
    pids, victim = [int(f.read_text()) for f in files], draw.randrange(n)
    start = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    said, _ = process.communicate(timeout=10)
    seconds = time.monotonic() - start
    assert process.returncode, said
    assert not any(map(is_there, pids)), "a rank is there still"
    gone = rf"rank {victim} of {n} \(process {pids[victim]}\) is gone: .* at .*\.py:\d+"
    assert re.search(gone, said), said
    for other in set(range(n)) - {victim}:
        assert re.search(rf"rank {other} of {n} is ended, .* at .*\.py:\d+", said), said
    return seconds, said


if __name__ == "__main__":
    assert phix.__file__
    if sys.argv[1] == "forks":
        forks(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "launches":
        launches(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        ranks(sys.argv[2])
