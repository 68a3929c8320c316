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

import phix
from tests.machine_code import unoptimised

_JOB = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_SHARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

ORDERS = ("whole", "backwards", "odd ones first", "threads")
order = "whole"  # one of ORDERS


@cache
def install() -> None:
    """Stand in for ``phix_share``; before any program is compiled that calls it."""
    from phix.kernels.cpu import jit, objects, threads

    threads.bind()
    real = _SHARE(objects.address_of("phix_share"))

    def share(function: int, data: int, extent: int, grain: int) -> None:
        if order == "threads":
            real(function, data, extent, grain)
            return
        job = _JOB(function)
        if order == "whole":
            job(data, 0, extent)
            return
        starts = [0, *range(grain, extent - grain + 1, grain)]
        parts = list(zip(starts, [*starts[1:], extent]))
        parts = parts[::-1] if order == "backwards" else parts[1::2] + parts[::2]
        for start, end in parts:
            job(data, start, end)

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
    library takes. With ``is_quick``, LLVM leaves code much as it is: pieces, of which LLVM would
    make whole vectors, may be shorter than the library's own.
    """
    run = {"shared_run": 16, "shared_run_inside": 16} if is_quick else {}
    patch = pytest.MonkeyPatch()
    patch.setenv("PHIX_CACHE", "0")
    few = phix.debug.settings(
        least_shared_work=work, least_streamed_bytes=256, most_streamed_work=1 << 30,
        tiny_bytes=8, least_freed_bytes=1, **run,
    )  # fmt: skip
    try:
        with few if work else nullcontext(), unoptimised() if is_quick else nullcontext():
            yield
    finally:
        patch.undo()
