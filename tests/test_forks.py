"""Processes that fork while other threads trace, compile and take memory: the child does too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")

BEGIN = """
import gc, os, signal, threading, time
import numpy as np, phix
from phix import ops
from phix.kernels.cpu import compiler, jit, results
held, go = threading.Event(), threading.Event()

def child(check):
    number = os.fork()
    if not number:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 20)  # who waits for ever is ended
        code = 1
        try:
            check()
            code = 0
        finally:
            os._exit(code)
    return lambda: os.waitpid(number, 0)[1]

def forked(hold, check):
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    status = child(check)
    go.set()
    thread.join()
    found = status()
    assert found == 0, found
    check()
"""

AGAIN = "held.clear(); go.clear()\n"

COMPILING = """
real = compiler.object_of
def slow(*args):
    held.set()
    time.sleep(0.1)  # the fork waits meanwhile, or is early: either must do
    return real(*args)
def hold():
    compiler.object_of = slow
    phix.jit(ops.tanh)(np.ones(3, "f"))
def check():
    compiler.object_of = real
    assert phix.jit(lambda x: x * 2.0)(np.ones(2, "f")).tolist() == [2.0, 2.0]
    assert not jit._lock.is_own
forked(hold, check)
"""

EMITTING = """
real = compiler.object_of
ended = []
def slow(*args):
    held.set()
    time.sleep(0.1)
    ended.append(1)
    return real(*args)
def hold():
    compiler.object_of = slow
    compiler.Emission("define void @f() {\\n  ret void\\n}\\n", True)
def check():
    assert ended
    compiler.object_of = real
    assert phix.jit(lambda x: x * 2.0)(np.ones(2, "f")).tolist() == [2.0, 2.0]
forked(hold, check)
"""

TRACING = """
@phix.jit
def double(x):
    if threading.current_thread() is not threading.main_thread():
        held.set()
        go.wait()
    return x * 2.0
def hold():
    with results._lock:
        double(np.ones(2, "f"))
def check():
    assert gc.isenabled()
    assert double(np.ones(3, "f")).tolist() == [2.0, 2.0, 2.0]
    assert ops.exp(np.zeros(100_000)).numpy().sum() == 100_000
    with phix.core.collector.paused():
        assert not gc.isenabled()
    assert gc.isenabled()
forked(hold, check)
"""

OWN = """
from phix.core import collector
with jit._lock, collector.paused():  # what the thread that forks holds itself, stays its own
    def check():
        assert jit._lock.is_own and not gc.isenabled()
        assert phix.jit(lambda x: x * 2.0)(np.ones(2, "f")).tolist() == [2.0, 2.0]
    assert child(check)() == 0
assert gc.isenabled() and not jit._lock.is_own
"""


def test_a_child_compiles_whatever_other_threads_held() -> None:
    env = {**os.environ, "PHIX_CACHE": "0", "PHIX_NUM_THREADS": "1"}
    program = AGAIN.join((BEGIN + COMPILING, EMITTING, TRACING, OWN))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=env, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


IMPORTING = """
import os, signal, sys, threading, time
import phix
held = threading.Event()
def trace(frame, event, arg):  # the import waits at its end
    if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] == MODULE:
        if event == "return":
            held.set()
            time.sleep(0.1)
        return trace
def check():
    softmax = phix.ops.softmax([1.0, 1.0])
    assert softmax.tolist() == [0.5, 0.5]
def hold():
    sys.settrace(trace)
    check()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
number = os.fork()
if not number:
    signal.alarm(20)  # who waits for ever is ended
    check()
    os._exit(0)
thread.join()
assert os.waitpid(number, 0)[1] == 0
assert not phix.core.rule_modules.lock.is_own
"""


@pytest.mark.parametrize("module", ["phix.primitives.activation", "phix.kernels.cpu"])
def test_a_child_has_whole_modules_that_another_thread_was_importing(module: str) -> None:
    program = f"MODULE = {module!r}{IMPORTING}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
