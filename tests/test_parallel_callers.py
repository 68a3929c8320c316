"""Threads of Python that call compiled functions: who lets the interpreter go, and the results."""

from __future__ import annotations

import re
import sys
import threading
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

LARGE = (400, 500)
GONE = "call void @let_go"


def text(function: Any, *shapes: Any, **options: Any) -> str:
    specs = [s if hasattr(s, "dims") else phix.spec(s) for s in shapes]
    return str(phix.jit(function, **options).lower(*specs).as_text("llvm"))


# -- who lets it go --------------------------------------------------------------------------------
def test_programs_of_much_work_let_the_interpreter_go() -> None:
    large = text(ops.tanh, LARGE)
    assert f"{GONE}(ptr %lock)" in large and "@PyEval_RestoreThread" in large
    assert f"{GONE}(ptr %lock)" in text(ops.matmul, (200, 200), (200, 200))
    loop = text(lambda x: phix.fori_loop(0, 9000, lambda i, c: ops.tanh(c), x), (30,))
    assert f"{GONE}(ptr %lock)" in loop


def test_programs_of_little_work_keep_it() -> None:
    assert "PyEval" not in text(ops.tanh, (30, 40))
    assert "PyEval" not in text(ops.matmul, (40, 40), (40, 40))
    assert "PyEval" not in text(ops.tanh, LARGE, disable="parallel_callers")
    assert "PyEval" not in text(lambda x: ops.nonzero(x > 0), (600, 700))  # it asks Python


def test_programs_of_unknown_sizes_go_by_their_arguments() -> None:
    assert "call void @let_go_where(ptr %lock, i64 %" in text(ops.tanh, phix.spec(["n", 4]))


def counting(steps: Any, x: Any) -> Any:
    return phix.while_loop(lambda c: c[1] < steps, lambda c: (c[0] * 0.5 + 1.0, c[1] + 1), (x, 0))


def test_long_loops_over_few_elements_let_it_go_when_they_have_asked_for_signals() -> None:
    found = text(counting, phix.spec([], "int64"), (20,))
    after = found[found.index("= call i32 @PyErr_CheckSignals()") :]
    assert re.search(r"\nstay\d+:\n  call void @let_go\(ptr %lock\)\n", after)
    bare = text(counting, phix.spec([], "int64"), (20,), disable="parallel_callers")
    assert "PyErr_CheckSignals" in bare and "let_go" not in bare


def test_another_thread_runs_during_a_long_loop_over_few_elements() -> None:
    call = phix.jit(counting)
    x = np.ones(20, "f")
    first = call(3, x)[0].numpy()
    _other_runs_during(lambda: call(3_000_000, x))
    np.testing.assert_array_equal(call(3, x)[0], first)


def test_another_thread_runs_during_a_call() -> None:
    x = phix.to_tensor(np.zeros(3_000_000, "float32"))
    call = phix.jit(lambda x: ops.sum(ops.sin(ops.cos(ops.sin(x)))))
    call(x)
    _other_runs_during(lambda: call(x))


def _other_runs_during(call: Any) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # nobody takes the interpreter from a thread that keeps it
    try:
        assert any(_ran_meanwhile(call) for _ in range(20))
    finally:
        sys.setswitchinterval(interval)


def _ran_meanwhile(call: Any) -> bool:
    begin, ran = threading.Event(), threading.Event()

    def other() -> None:
        begin.wait()
        ran.set()

    thread = threading.Thread(target=other)
    thread.start()
    begin.set()
    call()
    found = ran.is_set()
    thread.join()
    return found


# -- results ---------------------------------------------------------------------------------------
def layers(x: Any, w: Any) -> Any:
    h = ops.gelu(ops.matmul(x, w))
    return ops.softmax(h, 1), ops.sum(h, 0), ops.sum(h * h)


def network(x: Any, w: Any) -> Any:
    loss = lambda w: ops.mean(ops.tanh(ops.matmul(x, w)) ** 2)  # noqa: E731
    return w - 0.1 * phix.grad(loss)(w)


def steps(x: Any, w: Any) -> Any:
    return phix.fori_loop(0, 40, lambda i, c: ops.tanh(ops.matmul(c, w)) + 0.5 * c, x)


def constants(x: Any, w: Any) -> Any:
    table = np.linspace(-1.0, 1.0, 300).astype("float32")
    return ops.sort(x * table, 1), ops.cumsum(x + table, 1)


def with_python(x: Any, w: Any) -> Any:
    made = phix.pure_callback(np.cos, phix.spec(x.shape, "float32"), ops.tanh(x))
    return ops.abs(made) + 1.0, ops.matmul(x, w)


def spectra(x: Any, w: Any) -> Any:
    return ops.abs(phix.fft.fft(ops.tanh(x))) + 1.0, ops.real(phix.fft.ifft2(w))


FUNCTIONS = (layers, network, steps, constants, with_python, spectra)


@pytest.mark.parametrize("is_donated", [False, True])
def test_callers_beside_each_other_get_what_they_get_alone(is_donated: bool) -> None:
    """The same and other functions, each thread with data of its own: bit by bit."""
    rng = np.random.default_rng(0)
    options = {"donate_argnums": (0,)} if is_donated else {}
    with phix.debug.settings(least_shared_work=1):
        compiled = [phix.jit(f, **options) for f in FUNCTIONS]
        data = [rng.standard_normal((2, 300, 300)).astype("float32") / 8 for _ in range(4)]
        wanted = [[_leaves(f, x, w) for f in compiled] for x, w in data]
        faults: list[str] = []

        def call(number: int) -> None:
            x, w = data[number]
            for turn in range(12):
                k = (turn + number * (turn % 2)) % len(compiled)
                for found, right in zip(_leaves(compiled[k], x, w), wanted[number][k]):
                    if found.tobytes() != right.tobytes():
                        faults.append(f"{FUNCTIONS[k].__name__} in thread {number}")

        threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not faults


def _leaves(function: Any, x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    with phix.debug.settings(least_shared_work=1):
        found = function(phix.to_tensor(x.copy()), phix.to_tensor(w))
    return [np.array(leaf) for leaf in phix.tree.leaves(found)]
