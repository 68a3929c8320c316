"""The collector of cycles stands still while functions are traced and compiled."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import phix
from phix.core import collector


def test_the_collector_stands_still_while_a_function_is_traced() -> None:
    seen: list[bool] = []

    @phix.jit
    def f(x):
        seen.append(gc.isenabled())
        return x + 1.0

    assert gc.isenabled()
    f(np.ones(3, np.float32))
    assert seen == [False]
    assert gc.isenabled()


def test_a_function_that_raises_leaves_the_collector_on() -> None:
    @phix.jit
    def f(x):
        raise KeyError("no")

    with pytest.raises(KeyError):
        f(np.ones(3, np.float32))
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_of_several_blocks_starts_it_again() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector.paused():
            inside.set()
            assert leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    with collector.paused(), collector.paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
