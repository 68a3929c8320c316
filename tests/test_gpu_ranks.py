"""Collectives of tensors on GPUs: NCCL played by threads, kernels by the emulator."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nccl_library
import phix
from emulated_gpu import GpuArray
from gpu_programs import needs_compiler
from nccl_library import HERE, STREAM
from phix import ops
from phix.core.errors import CollectiveError, DeviceError, TensorValueError
from phix.kernels.gpu import nccl
from phix.parallel.exchange import Group
from phix.parallel.failures import Whereabouts
from tests.parallel_cases import Data
from tests.ragged_cases import ragged_cases

pytestmark = [pytest.mark.xdist_group("gpu place"), pytest.mark.unoptimised]


@pytest.fixture
def gpu() -> Iterator[nccl_library.Runtime]:
    with nccl_library.emulated() as runtime:
        yield runtime


# -- the calls of NCCL ---------------------------------------------------------------------------
def step(mesh: Any, gpu: Any, kind: str, detail: Any, x: np.ndarray) -> np.ndarray:
    """A step on this rank, by NCCL alone."""
    group = mesh.groups["data"]
    link = gpu.link(group)
    out = GpuArray(np.full(group.shape(kind, detail, x.shape), 7).astype(x.dtype))
    link.run(kind, detail, GpuArray(x.copy()), out, STREAM, None)
    return out.array


ADDED = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64",
         "complex64", "complex128")  # fmt: skip
MOVED = (*ADDED, "int16", "float16", ml_dtypes.bfloat16)


@pytest.mark.parametrize("n", [2, 4])
def test_each_step_gives_what_numpy_gives(gpu: Any, n: int, rng: Any) -> None:
    def check(mesh: Any) -> None:
        k = mesh.rank
        for dtype in MOVED:
            x = (9 * rows + 3j * rows[::-1]).astype(dtype) if "complex" in str(dtype) else rows
            x = x.astype(dtype)
            own = x[k]
            if dtype in ADDED:
                total = x.any(0) if dtype == "bool" else x.sum(0, dtype=dtype)
                np.testing.assert_allclose(step(mesh, gpu, "sum", (), own), total, rtol=1e-6)
                scattered = step(mesh, gpu, "scatter", (0,), own)
                np.testing.assert_allclose(scattered, total[k], rtol=1e-6)
            np.testing.assert_array_equal(step(mesh, gpu, "gather", (0,), own), x)
            np.testing.assert_array_equal(step(mesh, gpu, "rows", (0,), own), x)
            np.testing.assert_array_equal(step(mesh, gpu, "exchange", (0, 0), own), x[:, k])
            ring = (*range(n), *((i + 1) % n for i in range(n)))
            np.testing.assert_array_equal(step(mesh, gpu, "permute", ring, own), x[k - 1])
            some = (0, 1, 1, 0)  # the first two exchange, the others send and receive nothing
            expected = x[1 - k] if k < 2 else np.zeros_like(own)
            np.testing.assert_array_equal(step(mesh, gpu, "permute", some, own), expected)
            assert step(mesh, gpu, "sum" if dtype in ADDED else "rows", (0,), own[:, :0]).size == 0

    rows = np.round(40 * rng.normal(size=(n, n, 3)) ** 2)
    nccl_library.run(check, data=n)
    assert {name for _, name, _ in gpu.library.calls} == {
        "allReduce", "allGather", "reduceScatter", "send", "recv",
    }  # fmt: skip


# -- programs ------------------------------------------------------------------------------------
def everything(x: Any, half: Any) -> Any:
    """Each collective, along other axes than the first, with work before and behind."""
    total = phix.psum(ops.tanh(x), "data")
    turned = phix.all_gather(x * 2, "data", axis=1)
    mixed = phix.all_to_all(turned.sum(0), "data", 0, 1)
    ring = phix.ppermute(x, "data", [(0, 1)])
    piece = phix.psum_scatter(turned * total.sum(), "data", scatter_dimension=1)
    return (
        total, turned, mixed, ring, piece, phix.pmax(x, "data"), phix.psum(half, "data"),
        phix.axis_index("data") + 0 * x[0], phix.psum(x.sum(), "data"),
    )  # fmt: skip


def expected(x: np.ndarray, half: np.ndarray, k: int) -> tuple[Any, ...]:
    total = np.tanh(x).sum(0)
    turned = np.moveaxis(2 * x, 0, 1)
    sums = turned.sum(0)  # rank, column
    return (
        total, turned, np.stack([sums[k]] * len(x), 1), x[0] if k == 1 else 0 * x[0],
        len(x) * turned[:, k] * total.sum(), x.max(0),
        half.astype("float32").sum(0).astype(half.dtype), k + 0 * x[0, 0], x.sum(),
    )  # fmt: skip


_SPECS = (None, None, "data", "data", "data", None, None, "data", None)


def called(run: Any, *args: Any, fresh: bool = False) -> list[np.ndarray]:
    """The results of a call, in the memory of the one before or, ``fresh``, in other memory."""
    HERE.taken = 0
    if fresh:
        HERE.old, HERE.pool = HERE.pool, []
    outs = phix.tree.leaves(run(*args))
    assert all(o.place.kind == "gpu" for o in outs)
    return [o.numpy() for o in outs]


@needs_compiler
def test_a_program_is_recorded_by_all_ranks_or_by_none(gpu: Any, rng: Any) -> None:
    n = 2
    x = rng.normal(size=(n, 3, 2)).astype("float32")
    half = (100 * rng.normal(size=(n, 2))).astype("float16")

    def check(mesh: Any) -> list[tuple[Any, ...]]:
        run = phix.jit(phix.parallel.spmd(everything, mesh, "data", _SPECS))
        mine = [phix.to_tensor(v[mesh.rank], place="gpu") for v in (x, half)]
        bits, replays = set(), []
        for call in range(10):
            found = called(run, *mine, fresh=call == 3 and mesh.rank == 0)
            for one, other in zip(found, expected(x, half, mesh.rank), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
            bits.add(tuple(v.tobytes() for v in found))
            replays.append(gpu.replays.count(mesh.rank))
        assert len(bits) == 1
        # recorded in the second call; not used once a rank has other memory, and made anew
        assert replays == [0, 1, 2, 2, 2, 2, 2, 2, 3, 4]
        return [c[1:] for c in gpu.library.calls if c[0] == mesh.rank and c[1] not in _PAIRS]

    first, second = nccl_library.run(check, data=n)
    assert first == second and len(first) == 8 * 6  # in one order; recordings start theirs once


_PAIRS = ("send", "recv")


@needs_compiler
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", ["all rows to experts", "slices with places"])
def test_as_many_rows_as_the_data_say(gpu: Any, n: int, name: str) -> None:
    case = ragged_cases(Data(n))[name]

    def check(mesh: Any) -> None:
        function = phix.parallel.spmd(case.function, mesh, case.in_specs, case.out_specs)
        own = [phix.to_tensor(v.reshape(n, -1, *v.shape[1:])[mesh.rank], place="gpu")
               for v in case.args]  # fmt: skip
        run = phix.jit(function)
        for _ in range(3):
            for found, wanted in zip(called(run, *own), case.expected, strict=True):
                part = wanted.reshape(n, -1, *wanted.shape[1:])[mesh.rank]
                np.testing.assert_allclose(found, part, rtol=1e-12)
        assert mesh.rank not in gpu.replays  # how many rows go is asked in each run

    nccl_library.run(check, data=n)
    assert {"send", "recv"} <= {name for _, name, _ in gpu.library.calls}


@needs_compiler
def test_rows_that_have_no_room_are_an_error_before_any_goes(gpu: Any) -> None:
    def check(mesh: Any) -> None:
        run = phix.jit(on(mesh, lambda x: ops.all_to_allv(x, counts, "data", rows=3), "data"))
        with pytest.raises(TensorValueError, match=r"all_to_allv over 'data' at .*: 4 rows come"):
            called(run, phix.to_tensor(np.ones((4, 2)), place="gpu"))

    counts = np.array([2, 2])
    nccl_library.run(check, data=2)
    assert not [call for call in gpu.library.calls if call[1] in _PAIRS]


@needs_compiler
def test_two_axes_on_four_ranks(gpu: Any, rng: Any) -> None:
    x = rng.normal(size=(2, 2, 3))

    def both(x: Any) -> Any:
        rows = phix.psum(x * 2, "a")
        return rows, phix.psum(rows, "b"), phix.all_gather(x, "b")

    def check(mesh: Any) -> None:
        i, j = mesh.index["a"], mesh.index["b"]
        specs = ((None, "b"), None, "a")
        run = phix.jit(phix.parallel.spmd(both, mesh, (("a", "b"),), specs))
        mine = phix.to_tensor(x[i, j][None], place="gpu")
        for _ in range(3):
            found = called(run, mine)
            wanted = (2 * x[:, j].sum(0), 2 * x.sum((0, 1)), x[i][:, None])
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.squeeze(one), np.squeeze(other))
        assert gpu.replays.count(mesh.rank) == 2

    nccl_library.run(check, a=2, b=2)


def sums(x: Any) -> Any:
    return phix.psum(x, "data"), phix.all_gather(x, "data")


def on(mesh: Any, function: Any = sums, out_specs: Any = None) -> Any:
    return phix.parallel.spmd(function, mesh, "data", out_specs)


def test_ranks_whose_programs_differ_record_nothing(gpu: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)

    def check(mesh: Any) -> None:
        run = on(mesh) if mesh.rank else phix.jit(on(mesh))  # a rank looks at each op by itself
        mine = phix.to_tensor(x[mesh.rank], place="gpu")
        for _ in range(4):
            for found, wanted in zip(called(run, mine), (x.sum(0), x), strict=True):
                np.testing.assert_array_equal(found, wanted)
        # What rank 1 replays is the addition of 0.0 to its term: no collective is in it.
        assert 0 not in gpu.replays and not nccl._LINKS[0].records

    nccl_library.run(check, data=2)


def test_checks_look_at_each_step(gpu: Any) -> None:
    seen: list[Any] = []

    def check(mesh: Any) -> None:
        mesh.groups["data"].watch = lambda group, kind, detail, x, place: seen.append((kind, place))
        run = phix.jit(lambda x: on(mesh)(x))
        graph = phix.to_tensor(np.ones(2), place="gpu")
        with pytest.MonkeyPatch.context() as patch:  # those of spmd itself compare by MPI
            patch.setattr("phix.parallel.programs._check_same", lambda *a: None)
            patch.setattr("phix.parallel.programs._check_end", lambda *a: None)
            for _ in range(3):
                called(run, graph)

    nccl_library.run(check, data=2)
    assert sorted(seen) == sorted([("sum", "gpu"), ("gather", "gpu")] * 6) and not gpu.replays


# -- what goes wrong -----------------------------------------------------------------------------
def on_two(gpu: Any, times: int = 1) -> None:
    def check(mesh: Any) -> None:
        run, mine = phix.jit(on(mesh)), phix.to_tensor(np.ones(3), place="gpu")
        for _ in range(times):
            np.testing.assert_array_equal(called(run, mine)[0], np.full(3, 2.0))

    nccl_library.run(check, data=2)


def test_two_ranks_with_one_gpu(gpu: Any) -> None:
    gpu.shared = True
    with pytest.raises(
        DeviceError, match=r"ranks 0 and 1 have one GPU \(0000:00:00.0\).*mesh.place"
    ):
        on_two(gpu)


@pytest.mark.parametrize("why", ["missing", "old", "off"])
def test_without_nccl_it_goes_through_the_host(gpu: Any, why: str, caplog: Any, monkeypatch: Any):
    pytest.importorskip("mpi4py", reason="no mpi4py here: pip install phix[mpi]")
    monkeypatch.setattr(Group, "nccl", why != "off")
    gpu.library.available, gpu.library.version = why != "missing", 20604 if why == "old" else 22501
    on_two(gpu, times=3)
    assert not gpu.library.calls and not gpu.replays
    said = {"missing": "phix[nccl12]", "old": "too old", "off": "nccl=False"}[why]
    assert "rank 0: " in caplog.text and said in caplog.text


@pytest.mark.parametrize("call", ["init", "allReduce"])
def test_what_nccl_refuses_names_the_rank_and_the_step(gpu: Any, call: str) -> None:
    gpu.library.fails[call] = "unhandled cuda error"
    what = (
        "NCCL cannot join" if call == "init" else r"psum over 'data' of float64\[3\] at .*ranks.py"
    )
    with pytest.raises(CollectiveError, match=rf"rank \d, gpu:0.*{what}.*unhandled.*NCCL_DEBUG"):
        on_two(gpu)


def test_a_group_of_calls_is_ended_where_one_fails(gpu: Any) -> None:
    gpu.library.fails["recv"] = "unhandled system error"

    def check(mesh: Any) -> None:
        with pytest.raises(CollectiveError, match="ppermute over 'data'"):
            step(mesh, gpu, "permute", (0, 1, 1, 0), np.ones(2))
        assert HERE.group is None

    nccl_library.run(check, data=2)


def test_a_rank_keeps_to_one_gpu(gpu: Any) -> None:
    def check(mesh: Any) -> None:
        gpu.link(mesh.groups["data"])
        with pytest.raises(DeviceError, match=r"others along 'data' by gpu:0.*on gpu:1"):
            nccl.link(mesh.groups["data"], 1, gpu.cuda)

    nccl_library.run(check, data=2)


def test_after_a_fault_nothing_is_trusted(gpu: Any) -> None:
    on_two(gpu)
    links = list(nccl._LINKS)
    assert [link.fault() for link in links] == [None, None]
    gpu.library.fails["async"] = "remote process exited or there was a network error"
    nccl._abort(links[0].fault())
    assert gpu.library.ended == ["abort"] * 2
    with pytest.raises(
        CollectiveError, match=r"NCCL has stopped: remote process exited.*all_gather"
    ):
        nccl.check()
    nccl._close()
    assert gpu.library.ended == ["abort"] * 2  # what is aborted is not destroyed


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no watcher is there")
def test_who_waits_for_a_rank_that_is_gone_is_let_go(gpu: Any, monkeypatch: Any) -> None:
    here, watcher = socket.socketpair()
    with here, watcher:
        whereabouts = Whereabouts()
        assert not whereabouts.is_ending()
        whereabouts.connection = here
        assert not whereabouts.is_ending()
        watcher.sendall(b"!")
        assert whereabouts.is_ending() and whereabouts.is_ending()
        on_two(gpu)
        monkeypatch.setattr(nccl, "_PAUSE", 0.001)
        nccl_library.WATCH(whereabouts)
    assert gpu.library.ended == ["abort"] * 2
    with pytest.raises(CollectiveError, match=r"another rank of the program is gone"):
        nccl.check()


def test_communicators_end_behind_their_recordings(gpu: Any) -> None:
    ended: list[Any] = []

    def check(mesh: Any) -> None:
        run, mine = phix.jit(on(mesh)), phix.to_tensor(np.ones(3), place="gpu")
        for _ in range(2):
            called(run, mine)
        mesh.groups["data"].comm.allgather(0)
        if mesh.rank == 0:
            ended.extend(len(r.numbers) for r in nccl.RECORDINGS)
            nccl._close()
            ended.extend(len(r.numbers) for r in nccl.RECORDINGS)
        mesh.groups["data"].comm.allgather(0)

    nccl_library.run(check, data=2)
    assert 1 in ended[: len(ended) // 2] and not any(ended[len(ended) // 2 :])
    assert gpu.library.ended == ["destroy"] * 2


def test_each_process_has_a_gpu_of_its_own(gpu: Any) -> None:
    for local, index in ((0, 0), (3, 1), (6, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("emulated_gpu.EmulatedDevice.count", lambda self: 2)
            mesh = phix.parallel.Mesh({"data": 8}, None, local, local)
            assert str(mesh.place) == f"gpu:{index}"
