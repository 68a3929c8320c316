"""Arrays behind which a page lies that nobody may read: who reads on ends the process."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np

_kept: list[mmap.mmap] = []


def at_the_end_of_memory(x: np.ndarray) -> np.ndarray:
    """A copy that ends where the page begins."""
    whole = (x.nbytes // mmap.PAGESIZE + 1) * mmap.PAGESIZE
    memory = mmap.mmap(-1, whole + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + whole), mmap.PAGESIZE, 0)
    found = np.frombuffer(memory, x.dtype, x.size, whole - x.nbytes).reshape(x.shape)
    found[...] = x
    _kept.append(memory)
    return found


def check_in_a_process(code: str) -> None:
    """Run code that reads such arrays in a process of its own."""
    root = os.path.dirname(os.path.dirname(__file__))
    place = {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{root}:{root}/tests"}
    run = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(run, env=os.environ | place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
