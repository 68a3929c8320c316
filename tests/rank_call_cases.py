"""Collectives as calls of MPI in native code, on the ranks of mpiexec: tests/parallel_cases.py runs
them with its own."""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
from phix import ops
from phix.core.fingerprint import fingerprint
from phix.core.rank_ports import BEGUN, PLACES
from phix.parallel import local_parts, mesh, spmd

DTYPES = (
    "float32", "float64", "complex64", "complex128", "int8", "uint8", "int16", "uint16", "int32",
    "uint32", "int64", "uint64", "float16", ml_dtypes.bfloat16, "bool",
)  # fmt: skip
# By the kind of step, what native code calls on two ranks for what MPI adds.
CALLED = {
    "sum": "MPI_Allreduce", "gather": "MPI_Allgather", "exchange": "MPI_Alltoall",
    "permute": "MPI_Sendrecv",
}  # fmt: skip


def check(plain: Any) -> None:
    """All of them; ``plain`` is a mesh of all ranks along "data"."""
    all_kinds(plain)
    only_where_it_may(plain)
    refused(plain)
    others_run(plain)
    one_thread_at_a_time(plain)
    memory(plain)


def text_of(function: Any, *args: Any) -> str:
    """The loops of a program, with its calls and its steps of the host."""
    return str(function.lower(*args).as_text("loop ir"))


def every_kind(x: Any) -> tuple[Any, ...]:
    """What each collective gives of a part, ``[n, 2]``: of no axis in front, and moved."""
    n = x.shape[0]
    if x.dtype == np.bool_:  # is not added as it is
        return phix.all_gather(x, "data"), phix.ppermute(x, "data", [(0, 1)])
    return (
        phix.psum(x, "data"),
        phix.all_gather(x, "data"),
        phix.all_gather(x.T, "data", axis=2),
        phix.ppermute(x, "data", [(k, (k + 1) % n) for k in range(n)]),
        phix.ppermute(x, "data", [(0, 1)]),  # others than the second get zeros
        phix.all_to_all(x, "data", 0, 1),
        phix.psum_scatter(x, "data"),
        x * ops.cast(phix.axis_index("data"), x.dtype),
    )


def all_kinds(on: Any) -> None:
    """Of each dtype, small and large: as on a virtual mesh to the bit, for the sums are exact; and
    the same once more where every second rank has steps of the host."""
    rng, n = np.random.default_rng(11), on.size
    dtypes = DTYPES if n == 2 else DTYPES[::3]  # of more ranks, fewer processors each
    wholes = [rng.integers(0, 5, (n * n, 2)).astype(dtype) for dtype in dtypes]
    # pieces that are added by one rank each, with some left over
    wholes += [rng.integers(0, 9, (n * n, 2003)).astype(dtype) for dtype in ("float32", "float16")]
    wholes += [np.zeros((n * n, 0)), np.full((n * n, 3), -0.0), np.full((n * n, 2003), -0.0)]

    def program(*parts: Any) -> Any:
        # temps, so that their memory is that of the program
        every = [every_kind(x if x.dtype == np.bool_ else x + x) for x in parts]
        return [y[None] for each in every for y in each]

    args = local_parts(tuple(map(phix.to_tensor, wholes)), on, "data")
    native = phix.jit(spmd(program, on, "data", "data"))
    virtual = phix.jit(spmd(program, mesh({"data": n}, virtual=True), "data", "data"))
    left_out = ["native_collectives"] if on.rank % 2 else []
    mixed = phix.jit(spmd(program, on, "data", "data"), disable=left_out)
    expected = virtual(*map(phix.to_tensor, wholes))
    for one, again, other in zip(native(*args), mixed(*args), expected):
        own = np.asarray(other)[on.rank : on.rank + 1]
        assert one.dtype == again.dtype == own.dtype
        assert np.asarray(one).tobytes() == own.tobytes() == np.asarray(again).tobytes()
    lowered = native.lower(*args)
    loops = str(lowered.as_text("loop ir"))
    assert "host rank_step" not in loops
    called = [name for name in CALLED.values() if n == 2 or "red" not in name]
    assert all(f"call {name}(" in loops for name in called)
    begun = [name for name in called if f"begin {BEGUN[name]}(" in loops]
    assert begun == (called if on.groups["data"].overlap else [])
    assert ("host rank_step" in text_of(mixed, *args)) == bool(on.rank % 2)
    # what belongs to this process is no part of the code, nor is the program found by another
    code = str(lowered.as_text("llvm"))
    own_words = [w for w in on.groups["data"].port.table.tolist() if abs(w) > 1 << 16]
    assert len(own_words) > 8 and not any(str(w) in code for w in own_words)
    assert fingerprint(lowered.graph) is None


def only_where_it_may(plain: Any) -> None:
    """Steps of the host: on meshes that check; of sizes that are not known."""
    x = phix.to_tensor(np.ones(3) + plain.rank)
    total = 3.0 * sum(range(1, plain.size + 1))

    def added(v: Any) -> Any:
        return phix.psum(v, "data").sum()

    host = phix.jit(spmd(added, mesh({"data": -1}, checks=True), "data", None))
    assert "host rank_step" in text_of(host, x)
    assert host(x).item() == total
    unknown = phix.jit(spmd(added, plain, "data", None), input_spec=[phix.spec(["n"], "float64")])
    assert "host rank_step" in text_of(unknown, phix.spec(["n"], "float64"))
    assert unknown(x).item() == total

    def two(v: Any) -> Any:  # a size that is computed, in native code that asks for its memory
        return ops.nonzero(v > 1), added(v)

    found, number = phix.jit(spmd(two, plain, "data", ("data", None)))(x)
    assert found.shape == (3 * bool(plain.rank), 1) and number.item() == total


@contextlib.contextmanager
def refusing(on: Any, code: int, *names: str) -> Iterator[None]:
    """Meanwhile native code finds an MPI that answers with an error: by the functions of those
    names, or by those of sums."""
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: code)
    table, address = on.groups["data"].port.table, ctypes.cast(answer, ctypes.c_void_p).value
    places = [PLACES[name] for name in names or ("MPI_Allreduce", "MPI_Allgather")]
    before = table[places]
    table[places] = address
    try:
        yield
    finally:
        table[places] = before


class Broken:
    """A communicator of which mpi4py raises an error."""

    def Allgather(self, *arguments: Any) -> None:  # as MPI spells it
        from mpi4py import MPI

        raise MPI.Exception(MPI.ERR_COMM)


def refused(on: Any) -> None:
    """What MPI says no to is an error with the step and the line, in loops too; and that is all."""
    from mpi4py import MPI

    def program(x: Any) -> Any:
        return phix.psum(x, "data")

    def looped(x: Any) -> Any:  # which lets other threads run first
        turn = lambda c, _: (ops.tanh(c) * psum_of(c), None)  # noqa: E731
        return phix.scan(turn, x, length=3)[0]

    def psum_of(c: Any) -> Any:
        return phix.psum(ops.sin(c).sum(), "data")

    native = phix.jit(spmd(program, on, "data", None))
    in_loop = phix.jit(spmd(looped, on, "data", "data"))
    few, many = (phix.to_tensor(np.full(size, 1.0 + on.rank)) for size in (4, 1 << 18))
    line = rf"over 'data' at {re.escape(__file__)}:\d+: MPI refuses it: "
    before = in_loop(many)
    with refusing(on, MPI.ERR_TYPE):
        for run, x in ((native, few), (in_loop, many)):
            with pytest.raises(
                phix.errors.CollectiveError, match=f"psum {line}.*datatype"
            ) as found:
                run(x)
            assert isinstance(found.value.__cause__, MPI.Exception)
    assert native(few).tolist() == [sum(range(1, on.size + 1))] * 4
    np.testing.assert_array_equal(before, in_loop(many))
    longer = phix.jit(
        spmd(lambda x: phix.ppermute(x, "data", [(0, 1), (1, 0)]), on, "data", "data")
    )
    if on.rank == 0:  # gets more than it takes
        with pytest.raises(phix.errors.CollectiveError, match=f"ppermute {line}.*truncated"):
            longer(phix.to_tensor(np.ones(1)))
    elif on.rank == 1:
        longer(phix.to_tensor(np.ones(2)))
    group, comm = on.groups["data"], on.groups["data"].comm
    try:
        group.comm = Broken()
        with pytest.raises(
            phix.errors.CollectiveError, match="all_gather over 'data': MPI refuses"
        ):
            group.run("gather", (0,), np.ones(2), np.ones((on.size, 2)))
    finally:
        group.comm = comm


def others_run(on: Any) -> None:
    """While a rank waits in native code, its other threads run: it is one of these that lets the
    last rank come. Of a program that keeps the interpreter, and of one that has let it go."""
    from mpi4py import MPI

    first, last = on.rank == 0, on.rank == on.size - 1
    one = phix.jit(spmd(lambda x: phix.psum(ops.tanh(x).sum(), "data"), on, "data", None))
    for number, size in enumerate((3, 1 << 18)):
        x = phix.to_tensor(np.full(size, 0.5))
        one(x)
        if last:
            MPI.COMM_WORLD.recv(source=0, tag=7 + number)
        thread = threading.Thread(target=MPI.COMM_WORLD.send, args=(0, on.size - 1, 7 + number))
        starter = threading.Timer(0.1, thread.start)
        if first:
            starter.start()
        np.testing.assert_allclose(one(x), on.size * size * np.tanh(0.5), rtol=1e-12)
        if first:
            starter.join()
            thread.join()


def one_thread_at_a_time(on: Any, size: int = 3) -> None:
    """A thread that comes to a step while another one waits in a step of the same mesh is refused:
    MPI would give each of them what is meant for the other. The first has its result."""
    from mpi4py import MPI

    x = phix.to_tensor(np.full(size, 1.0 + on.rank))
    expected = [sum(range(1, on.size + 1))] * size
    for left_out in ([], ["native_collectives"]):
        run = phix.jit(spmd(lambda x: phix.psum(x, "data"), on, "data", None), disable=left_out)
        assert run(x).tolist() == expected
        if on.rank == on.size - 1:
            MPI.COMM_WORLD.recv(source=0, tag=9)
        if on.rank:
            assert run(x).tolist() == expected
            continue
        found: list[Any] = []
        first = threading.Thread(target=lambda run=run, to=found: to.append(run(x)))
        first.start()
        while first.is_alive() and not on.groups["data"].busy[0]:
            time.sleep(0.001)
        with pytest.raises(
            phix.errors.CollectiveError, match=r"psum over 'data' at .*: another thread"
        ):
            run(x)
        MPI.COMM_WORLD.send(0, on.size - 1, 9)
        first.join()
        assert found[0].tolist() == expected


def memory(on: Any) -> None:
    """Calls never write over what they read: of donated arguments, and of carries of loops; also
    in programs of many functions."""
    n = on.size
    total = sum(range(1, n + 1))
    taken = phix.jit(spmd(lambda x: phix.psum(x, "data"), on, "data", None), donate_argnums=0)
    ring = [(k, (k + 1) % n) for k in range(n)]

    def turn(c: Any, _: Any) -> Any:
        return phix.ppermute(c, "data", ring), None

    def long(x: Any) -> Any:  # more steps than stand in one function
        for _ in range(70):
            x = phix.ppermute(ops.cumsum(x, 0), "data", ring) % 1009
        return phix.scan(turn, x, length=n + 1)[0]

    for size in (3, 70_000):
        found = taken(phix.to_tensor(np.full(size, 1.0 + on.rank)))
        np.testing.assert_array_equal(found, np.full(size, float(total)))
    run = phix.jit(spmd(long, on, "data", "data"))
    mine = phix.to_tensor(np.arange(5) + on.rank)
    assert text_of(run, mine).count("call MPI_Sendrecv(") == 71
    values = np.arange(5) + np.arange(n)[:, None]
    for _ in range(70):
        values = np.roll(np.cumsum(values, 1), 1, 0) % 1009
    np.testing.assert_array_equal(run(mine), np.roll(values, n + 1, 0)[on.rank])


__all__ = ["check"]
