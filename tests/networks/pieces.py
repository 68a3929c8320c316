"""Threads without luck: what loops that threads share do to pieces in any order.

Compiled code hands a loop's pieces to ``phix_share``. Here that is a function of the test's own,
which runs them in one go, from the last to the first, or by the real pool of two threads; and
loops are shared however little they do, so that small programs have them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_JOB = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_SHARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

ORDERS = ("whole", "backwards", "odd ones first", "threads")
order = "whole"  # one of ORDERS


@cache
def install() -> None:
    """Stand in for ``phix_share``; before any program is compiled that calls it."""
    from llvmlite import binding as llvm

    from phix.kernels.cpu import jit, threads

    threads.bind()
    real = _SHARE(llvm.address_of_symbol("phix_share"))

    def share(function: int, data: int, extent: int, grain: int) -> None:
        if order == "threads":
            real(function, data, extent, grain)
            return
        job = _JOB(function)
        if order == "whole":
            job(data, 0, extent)
            return
        starts = list(range(0, extent, max(1, grain)))
        if order == "backwards":
            starts.reverse()
        else:
            starts = starts[1::2] + starts[::2]
        for start in starts:
            job(data, start, min(extent, start + grain))

    stand_in = _SHARE(share)
    _KEPT.append((stand_in, real))
    address = ctypes.cast(stand_in, ctypes.c_void_p).value
    assert address is not None
    jit.add_symbol("phix_share", address)


_KEPT: list[object] = []


@contextmanager
def in_order(name: str) -> Iterator[None]:
    """Inside a with block, shared loops run so."""
    global order
    before, order = order, name
    try:
        yield
    finally:
        order = before


@contextmanager
def shared_from(work: int, grain: int) -> Iterator[None]:
    """Inside a with block, programs share loops of that much work; none goes to disk."""
    from phix.kernels.primitive import sharing

    names = ("LEAST_WORK", "_GRAIN", "_GRAIN_INSIDE")
    before = [getattr(sharing, n) for n in names]
    cached = os.environ.get("PHIX_CACHE")
    os.environ["PHIX_CACHE"] = "0"
    for name, value in zip(names, (work, grain, grain)):
        setattr(sharing, name, value)
    try:
        yield
    finally:
        for name, value in zip(names, before):
            setattr(sharing, name, value)
        os.environ.pop("PHIX_CACHE")
        if cached is not None:
            os.environ["PHIX_CACHE"] = cached
