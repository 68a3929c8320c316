"""Signals end loops that do not end: the exception of the handler comes out, and all goes on."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu.entry import native_text
from phix.kernels.cpu.native_program import NativeProgram

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
LONG = 10**15


@pytest.fixture
def soon() -> Iterator[Callable[[], None]]:
    """Starts a timer whose signal is answered as Ctrl-C is."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def until(steps: Any, x: Any) -> Any:
    """A loop of little work."""
    return phix.while_loop(lambda c: c[1] < steps, lambda c: (c[0] * 0.5 + 1.0, c[1] + 1), (x, 0))


def in_branches(steps: Any, x: Any) -> Any:
    """Loops of much work in a loop, with memory that is held."""

    def body(c: Any) -> Any:
        rows = phix.fori_loop(0, 3, lambda _, y: ops.tanh(ops.matmul(y, y)), c[0])
        return phix.cond(rows.sum() > 1e9, lambda y: y, lambda y: ops.sort(y), rows), c[1] + 1

    return phix.while_loop(lambda c: c[1] < steps, body, (x, 0))


def counted(steps: Any, x: Any) -> Any:
    return phix.fori_loop(0, steps, lambda i, c: c * 0.5 + i, x), 0


def in_lanes(steps: Any, x: Any) -> Any:
    return phix.vmap(lambda row: until(steps, row))(x)


@pytest.mark.parametrize("loop", [until, in_branches, counted, in_lanes])
def test_a_loop_that_does_not_end_is_interrupted(loop: Any, soon: Callable[[], None]) -> None:
    x = np.full((70, 70), 0.01, "f")
    program = phix.jit(loop)
    first = program(3, x)[0].numpy()
    with pytest.raises(KeyboardInterrupt):
        soon()
        program(LONG, x)
    np.testing.assert_array_equal(program(3, x)[0], first)


def test_kernels_and_callbacks_in_python_are_interrupted(soon: Callable[[], None]) -> None:
    def endless(*_: Any) -> Any:
        soon()
        while True:
            pass

    program = phix.jit(lambda x: phix.pure_callback(endless, phix.spec([2]), x) + 1.0)
    with pytest.raises(KeyboardInterrupt):
        program(np.ones(2, "f"))
    with phix.scoped_registries():
        phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")(endless)
        with pytest.raises(KeyboardInterrupt):
            ops.tanh(np.ones(2, "f"))
    assert ops.tanh(0.0).item() == 0.0


def test_a_handler_that_raises_nothing_may_use_phix() -> None:
    seen: list[float] = []
    program = phix.jit(until)
    found = program(3, 1.0)[0].item()
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(program(3, 1.0)[0].item()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        program(20_000_000, 1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [found]


def test_short_loops_do_not_ask_nor_programs_in_code_that_is_not_pythons() -> None:
    short = phix.jit(lambda x: phix.fori_loop(0, 1000, lambda _, c: c * 0.5, x)).lower(1.0)
    assert "PyErr_CheckSignals" not in short.as_text("llvm")
    endless = phix.jit(until).lower(3, 1.0)
    assert "PyErr_CheckSignals" in endless.as_text("llvm")
    (segment,) = NativeProgram(phix.decompose(until)(3, 1.0), (True, True)).segments
    assert "PyErr_CheckSignals" not in native_text(segment, is_plain=True)


def test_what_was_donated_to_a_loop_that_was_ended_is_gone(soon: Callable[[], None]) -> None:
    """The loop wrote over it."""
    program = phix.jit(lambda x, steps: until(steps, x)[0], donate_argnums=0)
    given = program(phix.full([64, 64], 1.0), 3)
    with pytest.raises(KeyboardInterrupt):
        soon()
        program(given, LONG)
    with pytest.raises(phix.errors.DonatedTensorError):
        given.numpy()


def test_no_label_can_have_the_name_of_a_value() -> None:
    """Both are words with numbers, in one namespace of LLVM, and are counted apart."""
    turned = lambda c: c + 0.5 * ops.transpose(c, [1, 0])[::-1]  # noqa: E731
    f = phix.jit(lambda x: phix.while_loop(lambda c: ops.sum(c) < 1e9, turned, x))
    text = f.lower(np.ones((30, 30))).as_text("llvm")
    labels = {m[1] for m in re.finditer(r"^([a-z]+)\d+:", text, re.M)}
    values = {m[1] for m in re.finditer(r"^ *%([a-z]+)\d+ =", text, re.M)}
    # the carried value ends in one of two memories, and the loop looks for signals now and then
    assert {"test", "copy", "done", "look"} <= labels and len(values) > 3
    assert not labels & values
