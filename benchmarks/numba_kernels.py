"""``python -m benchmarks.numba_kernels``: kernels in Numba, and phix inside Numba, beside peers.

Each row does one thing in several ways, whose results are checked equal; then they take turns. The
ratios are how many times longer than the first way the others take. JAX takes part where it is
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

import phix
from benchmarks.peers import jax, jnp
from phix import ops
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.lowering.registry import Task, lowering

Ways = dict[str, Callable[[], Any]]
HAS_JAX = importlib.util.find_spec("jax") is not None
ROWS: dict[str, Callable[[], Ways]] = {}
_ENTRIES = "".join(
    f'- {{op: bench_{name}, args: "(Tensor x, float decay)", output: Tensor(out), '
    "infer_meta: {func: UnchangedInferMeta, param: [x]}}\n"
    for name in ("numba", "lowered", "python")
)


def row(function: Callable[[], Ways]) -> Callable[[], Ways]:
    """Register a function that makes the ways of a row, the first of them the one to judge."""
    ROWS[function.__name__.replace("_", " ")] = function
    return function


# -- the same kernel in Numba, as a lowering of phix, and as a step of Python ----------------------
def smoothed(x: Any, decay: float, out: Any) -> None:
    out[0] = x[0]
    for i in range(1, x.size):
        out[i] = decay * out[i - 1] + (1.0 - decay) * x[i]


def _ops() -> Any:
    if not hasattr(ops, "bench_numba"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "bench.yaml")
            file.write_text(_ENTRIES)
            phix.load_ops(file)
        phix.numba.kernel("bench_numba", dtypes=["float64"], fastmath={"contract"})(smoothed)
        lowering("bench_lowered", "whole")(_lowered)
        in_numba = numba.njit(fastmath={"contract"})(smoothed)
        phix.kernels.register_kernel("bench_python", "CPU", dtypes=["float64"])(
            lambda ctx, x, decay, out: in_numba(x, decay, out)
        )
    return ops


def _lowered(b: Builder, x: Value, decay: float, *, task: Task) -> Value:
    """The loops of ``smoothed`` in phix's own terms."""
    from phix.kernels.loops import nodes as ir
    from phix.kernels.scalar import language as sc

    def write(out: ir.Buffer) -> None:
        source = b.contiguous(x)
        with b.kernel():
            (total,) = b.mutable(ir.load(source, (ir.ZERO,)))
            with b.loop(b.dim(x.dims[0]), "reduction") as i:
                own = ir.load(source, (i,))
                made = total * decay + own * (1.0 - decay)
                b.emit(ir.Assign((total,), (sc.select(sc.eq(i, 0), own, made),)))
                b.store(out, (i,), total)

    (value,) = b.written((task.out,), write)
    return value


@row
def a_kernel_in_a_loop_of_1000_steps() -> Ways:
    table, x = _ops(), np.random.default_rng(0).standard_normal(64)

    def loop(op: Any) -> Callable[[], Any]:
        run = phix.jit(lambda x: phix.fori_loop(0, 1000, lambda _, c: op(c, 0.9) + 0.1, x))
        return lambda: run(x)

    in_numba = numba.njit(fastmath={"contract"})(smoothed)

    @numba.njit
    def alone(x: Any) -> Any:
        out = np.empty_like(x)
        for _ in range(1000):
            in_numba(x, 0.9, out)
            x = out + 0.1
        return x

    ways: Ways = {
        "kernel in Numba": loop(table.bench_numba),
        "lowering of phix": loop(table.bench_lowered),
        "Numba alone": lambda: alone(x),
        "kernel as a step of Python": loop(table.bench_python),
    }
    if HAS_JAX:

        def step(c: Any) -> Any:
            def one(before: Any, v: Any) -> Any:
                after = 0.9 * before + (1.0 - 0.9) * v
                return after, after

            return jnp.concatenate([c[:1], jax.lax.scan(one, c[0], c[1:])[1]]) + 0.1

        with_x64 = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, c: step(c), x))
        ways["JAX"] = lambda: with_x64(x).block_until_ready()
    return ways


@row
def a_scalar_function_among_others() -> Ways:
    x = np.random.default_rng(0).standard_normal(1_000_000).astype("f")
    name = "bench_soft_step"
    if not hasattr(ops, name):

        @phix.numba.scalar(name)
        def soft_step(x: Any) -> Any:
            return x / (np.float32(1) + abs(x))

    in_numba = phix.jit(lambda x: ops.sum(getattr(ops, name)(x * 2.0) * 3.0))
    written = phix.jit(lambda x: ops.sum(x * 2.0 / (1.0 + ops.abs(x * 2.0)) * 3.0))

    @numba.njit(fastmath={"reassoc"})
    def alone(x: Any) -> Any:
        total = np.float32(0)
        for v in x:
            y = v * np.float32(2)
            total += y / (np.float32(1) + abs(y)) * np.float32(3)
        return total

    ways: Ways = {
        "scalar function in Numba": lambda: in_numba(x),
        "ops of phix": lambda: written(x),
        "Numba alone": lambda: alone(x),
    }
    if HAS_JAX:
        peer = jax.jit(lambda x: jnp.sum(x * 2.0 / (1.0 + jnp.abs(x * 2.0)) * 3.0))
        ways["JAX"] = lambda: peer(x).block_until_ready()
    return ways


@row
def descent_of_10000_steps_inside_numba() -> Ways:
    start = np.zeros(8)

    def loss(x: Any) -> Any:
        return ((x - 3.0) ** 2).sum() + 0.1 * (x[1:] * x[:-1]).sum()

    slope = phix.numba.njit(phix.grad(loss), phix.spec(["n"], "float64"))
    from_python = phix.jit(phix.grad(loss))

    @numba.njit
    def by_hand(x: Any) -> Any:
        made = 2.0 * (x - 3.0)
        made[1:] += 0.1 * x[:-1]
        made[:-1] += 0.1 * x[1:]
        return made

    def descent(slope: Any) -> Callable[..., Any]:
        @numba.njit
        def run(x: Any) -> Any:
            for _ in range(10_000):
                x = x - 0.001 * slope(x)
            return x

        return run

    inside, hand = descent(slope), descent(by_hand)

    def outside() -> Any:
        x = start
        for _ in range(10_000):
            x = x - 0.001 * from_python(x).numpy()
        return x

    whole = phix.jit(
        lambda x: phix.fori_loop(0, 10_000, lambda _, x: x - 0.001 * phix.grad(loss)(x), x)
    )
    ways: Ways = {
        "gradient of phix inside Numba": lambda: inside(start),
        "gradient by hand in Numba": lambda: hand(start),
        "the whole loop in phix": lambda: whole(start),
        "gradient of phix from Python": outside,
    }
    if HAS_JAX:
        peer = jax.jit(
            lambda x: jax.lax.fori_loop(0, 10_000, lambda _, x: x - 0.001 * jax.grad(loss)(x), x)
        )
        ways["JAX"] = lambda: peer(start).block_until_ready()
    return ways


# -- measuring -----------------------------------------------------------------------------------
def measured(ways: Ways, repeats: int, of: Callable[..., float]) -> dict[str, float]:
    """The seconds of each way, in turns, after a look that they give the same."""
    first, *others = (np.asarray(way()) for way in ways.values())
    for name, other in zip(list(ways)[1:], others):
        np.testing.assert_allclose(other, first, rtol=1e-4, err_msg=name)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            way()  # the threads of the way before come to rest, and caches hold this one's data
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    return {name: of(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", default="", help="only rows whose names hold this")
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--lowest", action="store_true", help="the lowest times, not the medians")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if HAS_JAX:
        jax.config.update("jax_enable_x64", True)
    found, of = {}, min if options.lowest else statistics.median
    for name, make in ROWS.items():
        if options.row not in name:
            continue
        found[name] = medians = measured(make(), options.repeats, of)
        first, own = next(iter(medians.items()))
        print(f"{name}: {first} takes {1e6 * own:.0f} us")
        for way, seconds in list(medians.items())[1:]:
            print(f"  {seconds / own:8.2f}  {way}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
