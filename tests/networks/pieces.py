"""Threads without luck: what loops that threads share do to pieces in any order.

Compiled code hands a loop's pieces to ``phix_share``. Here that is a function of the test's own,
which runs them in one go, from the last to the first, or by the real pool of two threads; and
loops are shared however little they do, so that small programs have them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

import pytest

from phix.kernels.loops import nodes as ir
from tests.machine_code import unoptimised

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
def compiling(work: int, is_quick: bool) -> Iterator[None]:
    """Inside a with block, programs share loops of that much work; none goes to disk.

    Other things that only large programs are worth are done as well. ``work`` 0: what the
    library takes. With ``is_quick``, LLVM leaves code much as it is.
    """
    from phix.kernels.cpu import streaming
    from phix.kernels.schedule import ordering, sharing

    patch = pytest.MonkeyPatch()
    patch.setenv("PHIX_CACHE", "0")
    if work:
        for owner, name, value in (
            (sharing, "LEAST_WORK", work), (sharing, "_GRAIN", 16), (sharing, "_GRAIN_INSIDE", 16),
            (streaming, "least_bytes", lambda: 256), (streaming, "_MOST_WORK", 1 << 30),
            (ir, "TINY_BYTES", 8), (ordering, "LEAST_FREED", 1),
        ):  # fmt: skip
            patch.setattr(owner, name, value)
    try:
        with unoptimised() if is_quick else nullcontext():
            yield
    finally:
        patch.undo()
