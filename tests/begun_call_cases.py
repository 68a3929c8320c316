"""Collectives that native code begins and waits for, beside those of the host, those that are not
begun, and virtual meshes, on the ranks of mpiexec: tests/parallel_cases.py runs them with its own.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.parallel import local_parts, mesh, spmd
from tests import rank_call_cases

D = "data"
SEEDS = {2: range(4), 4: range(2)}  # of more ranks, fewer processors each


def check(plain: Any) -> None:
    """All of them; ``plain`` is a mesh of all ranks along "data"."""
    overlapping = mesh({D: -1}, overlap=True)
    rank_call_cases.all_kinds(overlapping)
    rank_call_cases.one_thread_at_a_time(overlapping, 600)
    for seed in SEEDS.get(plain.size, range(1)):
        random_program(seed, plain, overlapping)
    interrupted(overlapping)
    if plain.size == 4:
        two_axes()


# -- random programs -----------------------------------------------------------------------------
def program_of(rng: np.random.Generator, count: int, ring: Any) -> Callable[..., Any]:
    """A chain of kernels and collectives of small and of large tensors, in loops too. Numbers stay
    small ints, so that sums are exact whatever is fused."""
    plan = [(rng.integers(9), *rng.integers(0, 100, 2)) for _ in range(count)]

    def turn(c: Any, _: Any) -> Any:
        return (phix.psum(c, D) + phix.ppermute(c, D, ring)) % 5, None

    def small(a: Any) -> Any:  # is not begun
        return phix.psum(a[:1, :3], D).sum()

    def program(x: Any) -> Any:
        values = [x, x * 2.0]
        for what, one, other in plan:
            a, b = values[one % len(values)], values[other % len(values)]
            made = [
                lambda a, b: phix.psum(a, D) - b,
                lambda a, b: phix.all_gather(a, D)[-1] + b,
                lambda a, b: ops.cast(phix.psum(ops.cast(a * b % 7, "float16"), D), a.dtype),
                lambda a, b: phix.ppermute(a, D, ring) + b,
                lambda a, b: phix.ppermute(a, D, [(1, 0)]) - 2.0 * b,
                lambda a, b: small(a) + b,
                lambda a, b: ops.matmul(a % 3, (b % 3).T)[:, : a.shape[1]] + ops.cumsum(a, 0),
                lambda a, b: phix.scan(turn, a, length=2)[0] + b,
                lambda a, b: ops.tile(phix.psum_scatter(a, D, tiled=True)[:1], (a.shape[0], 1)) + b,
            ]  # fmt: skip
            values.append(made[what](a, b) % 11)
        return values[-1], sum(values)

    return program


def random_program(seed: int, plain: Any, overlapping: Any) -> None:
    """The same bits begun by native code, by the host, by either on some ranks, begun and waited
    for at once, not begun, and on a virtual mesh."""
    rng, n = np.random.default_rng(seed), plain.size
    ring = [(k, (k + 1) % n) for k in range(n)]
    program = program_of(rng, 14, ring)
    rows = 4 * n * int(rng.integers(4, 9))
    whole = phix.to_tensor(rng.integers(0, 5, (n * rows, rows)).astype("float64"))
    (mine,) = local_parts((whole,), plain, D)
    bundles = ["bundle_sums"] * (seed % 2)
    host, at_once = [*bundles, "native_collectives"], [*bundles, "overlap_collectives"]
    ways = {
        "native": (overlapping, bundles), "host": (overlapping, host),
        "host on some": (overlapping, host if plain.rank % 2 else bundles),
        "at once": (overlapping, at_once),
        "at once on some": (overlapping, bundles if plain.rank % 2 else at_once),
        "blocking": (plain, bundles),
    }  # fmt: skip
    on = {how: phix.jit(spmd(program, m, D, D), disable=off) for how, (m, off) in ways.items()}
    virtual = phix.jit(spmd(program, mesh({D: n}, virtual=True), D, D))(whole)
    expected = [np.asarray(v) for v in local_parts(virtual, plain, D)]
    text = rank_call_cases.text_of(on["native"], mine)
    assert "begin MPI_I" in text and "wait for MPI_I" in text and "host" not in text, text
    for how, run in on.items():
        for _ in range(2):
            for one, other in zip(run(mine), expected):
                assert np.asarray(one).tobytes() == other.tobytes(), (how, seed)
        assert overlapping.groups[D].busy.tolist() == [0, 0], how


def two_axes() -> None:
    """Steps along two axes are under way at once, each among ranks of its own."""
    on = mesh({D: 2, "model": 2}, overlap=True)
    same = mesh({D: 2, "model": 2}, virtual=True)
    values = np.random.default_rng(3).integers(0, 5, (80, 80)).astype("float64")
    whole = phix.to_tensor(values)

    def program(x: Any) -> Any:
        a, b = phix.psum(x, D), phix.psum(x, "model")
        c, d = phix.all_gather(x, D), ops.cast(phix.psum(ops.cast(x, "float16"), "model"), x.dtype)
        return (ops.cumsum(a, 0) + b % 3 + c[0] * d) % 7

    specs = ((D, "model"),)
    (mine,) = local_parts((whole,), on, specs)
    found = phix.jit(spmd(program, on, specs, specs[0]))(mine)
    expected = local_parts(phix.jit(spmd(program, same, specs, specs[0]))(whole), on, specs[0])
    np.testing.assert_array_equal(found, expected)


# -- what ends them ------------------------------------------------------------------------------
def endless(on: Any, turns: int) -> Any:
    """A loop beside a sum that is under way."""

    def program(x: Any) -> Any:
        total = phix.psum(x, D)
        return total, phix.fori_loop(0, turns, lambda _, c: ops.tanh(c @ x), ops.tanh(x))

    return phix.jit(spmd(program, on, D, D), disable="bundle_sums")


def interrupted(on: Any) -> None:
    """Ctrl-C on every rank, while a sum is under way: nothing is left of it, and all goes on."""
    x = phix.to_tensor(np.full((40, 40), 1.0 + on.rank))
    endless(on, 3)(x)  # the code of its parts is there
    run = endless(on, 10**12)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        ringing = threading.Thread(target=rings, args=(on,))
        ringing.start()
        with pytest.raises(KeyboardInterrupt):
            run(x)
    finally:
        ringing.join()
        signal.signal(signal.SIGALRM, before)
    assert on.groups[D].busy.tolist() == [0, 0]
    total = phix.jit(spmd(lambda x: phix.psum(x, D), on, D, D))(x)
    np.testing.assert_array_equal(total, np.full((40, 40), sum(range(1, on.size + 1))))


def rings(on: Any) -> None:
    """The signal comes once the sum is begun, and the loop runs."""
    while not on.groups[D].busy[1]:
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGALRM)


def killed() -> None:
    """One rank is killed while requests of all are under way: some wait, some compute."""
    on = mesh({D: -1}, overlap=True)
    x = phix.to_tensor(np.full((40, 40), 1.0))
    endless(on, 3)(x)
    if on.rank == 1:
        threading.Thread(target=kills, args=(on,), daemon=True).start()
    elif on.rank == 0:
        phix.jit(spmd(lambda x: phix.psum(x, D), on, D, D))(x)
        endless(on, 3)(x)  # at the latest here it waits for what rank 1 does not come to
    endless(on, 10**12)(x)


def kills(on: Any) -> None:
    while not on.groups[D].busy[1]:
        time.sleep(0.01)
    time.sleep(0.3)
    print(f"killed at {time.time()}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def failing() -> None:
    """Between the halves of a sum by pieces native code of one rank comes to an error: it never
    begins the second half, in which the others wait for it."""
    on = mesh({D: -1}, overlap=True)
    halves, x = (phix.to_tensor(np.ones((80, 80), t)) for t in ("float16", "float64"))

    def program(h: Any, x: Any) -> Any:
        by_pieces = phix.psum(h, D)
        return by_pieces, phix.psum(x, D)

    run = phix.jit(spmd(program, on, D, None), disable="bundle_sums")
    text = rank_call_cases.text_of(run, halves, x)
    second = text.index("call MPI_Allgather")  # begins when what was begun after it is under way
    assert text.index("MPI_Ialltoall") < text.index("MPI_Iallreduce") < second
    run(halves, x)
    if on.rank == 1:
        time.sleep(0.3)  # until the others are there
        print(f"failing at {time.time()}", flush=True)
        with rank_call_cases.refusing(on, 3, "MPI_Iallreduce"):
            run(halves, x)
    run(halves, x)


__all__ = ["check", "failing", "killed"]
