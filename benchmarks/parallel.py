"""Collectives between ranks beside mpi4py's own calls on the same buffers, and steps of training.

``python -m benchmarks.parallel`` starts two ranks by mpiexec; ``--ranks 4`` as many. Each line is a
buffer of every rank, the same memory for all. They take turns in each round, in an order drawn
anew, and each makes a call before it is timed: what ran before is no part of it. The medians of the
rounds are shown, and the shortest: on a machine that does other things as well, a rank waits for
the other to come by, and most rounds take a hundred times as long. With ``--jax`` its collectives
between CPUs are measured beside them. Behind that come steps of training: see
``benchmarks/parallel_steps.py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks import parallel_steps

SIZES = (8, *(1 << k for k in range(12, 25, 2)))  # bytes: one number, and 4 KB to 16 MB
_SPAN = 0.005  # seconds of calls in a round, where one call is no longer
_AS_RANK = "PHIX_BENCHMARK_RANK"

Calls = dict[str, Callable[[], Any]]


def rows(mesh: Any, size: int, jax_calls: Any = None) -> dict[str, Calls]:
    """For a buffer of that many bytes the calls of both, by collective."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    drawn = np.random.default_rng(comm.Get_rank()).normal(size=size // 4).astype(np.float32)
    mine = phix.to_tensor(drawn)
    x = np.asarray(mine)
    total, parts = np.empty_like(x), np.empty((comm.Get_size(), *x.shape), x.dtype)

    def on_mesh(function: Callable[[Any], Any]) -> Callable[[], Any]:
        run = phix.jit(phix.parallel.spmd(function, mesh, "data", None))
        return lambda: run(mine)

    def all_reduce() -> np.ndarray:
        comm.Allreduce(x, total)
        return total

    def all_gather() -> np.ndarray:
        comm.Allgather(x, parts)
        return parts

    found: dict[str, Calls] = {
        "all-reduce": {"mpi4py": all_reduce, "phix": on_mesh(lambda v: phix.psum(v, "data"))},
        "all-gather": {"mpi4py": all_gather, "phix": on_mesh(lambda v: phix.all_gather(v, "data"))},
    }
    if jax_calls is not None:
        for name, call in jax_calls(x).items():
            found[name]["jax"] = call
    return found


def jax_collectives() -> Callable[[np.ndarray], Calls]:
    """JAX's own between the CPUs of all ranks, for a buffer."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = comm.bcast(free.getsockname()[1], 0)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", comm.Get_size(), comm.Get_rank())
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, PartitionSpec("data"))

    def calls(x: np.ndarray) -> Calls:
        whole = jax.make_array_from_process_local_data(rows, x)

        def on_mesh(function: Callable[[Any], Any]) -> Callable[[], Any]:
            run = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=PartitionSpec("data"),
                                        out_specs=PartitionSpec(), check_vma=False))  # fmt: skip
            return lambda: run(whole).block_until_ready().addressable_data(0)

        return {
            "all-reduce": on_mesh(lambda v: jax.lax.psum(v, "data")),
            "all-gather": on_mesh(lambda v: jax.lax.all_gather(v, "data")),
        }

    return calls


def measured(calls: Calls, rounds: int) -> dict[str, tuple[float, float]]:
    """The median and the least seconds of a call of each, in turns; every rank makes as many."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    results = [np.asarray(call()) for call in calls.values()]
    for other in results[1:]:
        np.testing.assert_allclose(results[0], other, rtol=1e-5)
    times: dict[str, list[float]] = {name: [] for name in calls}

    def one(name: str, repeats: int) -> float:
        calls[name]()
        comm.Barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            calls[name]()
        return (time.perf_counter() - start) / repeats

    least = min(one(name, 1) for name in calls for _ in range(9))
    repeats = comm.bcast(max(1, min(20, int(_SPAN / least))))
    order = np.random.default_rng(0)  # on all ranks
    for _ in range(rounds):
        for name in order.permutation(list(calls)):
            times[name].append(one(name, repeats))
    return {name: (statistics.median(found), min(found)) for name, found in times.items()}


def compare(sizes: tuple[int, ...], rounds: int, with_jax: bool) -> None:
    """Print a line a collective and size; only the first rank does."""
    mesh = phix.parallel.mesh({"data": -1})
    jax_calls = jax_collectives() if with_jax else None
    if mesh.rank == 0:
        names = ("mpi4py", "phix", *(("jax",) if with_jax else ()))
        head = "".join(f"{name:>11}" for name in names) + "   ratio"
        print(f"{mesh.size} ranks, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
        print(f"{'':24}{'medians':>{len(head)}}{'shortest rounds':>{len(head)}}")
        print(f"{'':24}{head}{head}")
    for size in sizes:
        for name, calls in rows(mesh, size, jax_calls).items():
            found = measured(calls, rounds)
            if mesh.rank == 0:
                bytes_of = f"{size >> 10} KB" if size >> 10 else f"{size} B"
                print(f"{f'{name} of {bytes_of}':24}" + "".join(map(_shown, *found.values())),
                      flush=True)  # fmt: skip


def _shown(raw: float, own: float, *others: float) -> str:
    """Microseconds of each, and how many times as long as mpi4py's call phix takes."""
    return "".join(f"{t * 1e6:9.1f}us" for t in (raw, own, *others)) + f"{own / raw:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="bytes of a rank")
    parser.add_argument("--jax", action="store_true", help="JAX's collectives beside them")
    parser.add_argument("--only", choices=("collectives", "steps"), help="one of the two")
    given = parser.parse_args()
    if os.environ.get(_AS_RANK):
        if given.only != "steps":
            compare(tuple(given.sizes), given.rounds, given.jax)
        if given.only != "collectives":
            parallel_steps.compare(given.rounds)
        return
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        sys.exit("no mpiexec here: pip install phix[mpi]")
    command = [found, "-n", str(given.ranks), sys.executable, "-m", "benchmarks.parallel"]
    environment = {**os.environ, _AS_RANK: "1", "OMP_NUM_THREADS": "1"}
    sys.exit(subprocess.call([*command, *sys.argv[1:]], env=environment))


if __name__ == "__main__":
    main()
