"""Derivatives of high order: ``python -m benchmarks.pinn [--repeats N] [--orders 1 8]``.

Loss and parameter gradient of a physics-informed network whose residual is the n-th derivative of
the network (3 hidden layers of 32, tanh), at 256 points in float32. Taylor mode against gradients
of gradients and tangents of tangents, all vmapped over the points and jitted. The graphs of
gradients of gradients, and the time to trace tangents of tangents, double with each order, so these
stop at ``NESTED_UP_TO``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks.harness import Measurement, machine, measure, summary, write_json
from phix import ops

SIZES = (1, 32, 32, 32, 1)
POINTS = 256
NESTED_UP_TO = 6
Function = Callable[..., Any]


def network(x: Any, layers: Any) -> Any:
    """One number to one number."""
    h = ops.reshape(x, (1, 1))
    for weight, bias in layers[:-1]:
        h = ops.tanh(h @ weight + bias)
    weight, bias = layers[-1]
    return ops.reshape(h @ weight + bias, ())


def arguments(dtype: Any = np.float32) -> tuple[Any, Any]:
    """The layers and the points."""
    rng = np.random.default_rng(0)
    layers = [
        (rng.standard_normal((m, n)) / math.sqrt(m), 0.1 * rng.standard_normal(n))
        for m, n in itertools.pairwise(SIZES)
    ]
    points = np.linspace(-1.0, 1.0, POINTS)
    return phix.tree.map(lambda a: phix.to_tensor(a.astype(dtype)), (layers, points))


# -- the contenders ------------------------------------------------------------------------------
def reverse(function: Function, order: int) -> Function:
    for _ in range(order):
        function = phix.grad(function)
    return function


def _tangent(function: Function) -> Function:
    def derived(x: Any, *rest: Any) -> Any:
        return phix.jvp(lambda at: function(at, *rest), (x,), (ops.full((), 1, x.dtype),))[1]

    return derived


def forward(function: Function, order: int) -> Function:
    for _ in range(order):
        function = _tangent(function)
    return function


MODES: dict[str, Callable[[Function, int], Function]] = {
    "jet": phix.derivative,
    "reverse": reverse,
    "forward": forward,
}


def contenders(order: int) -> list[str]:
    return [mode for mode in MODES if mode == "jet" or order <= NESTED_UP_TO]


def step(mode: str, order: int) -> Function:
    """Loss and gradient, of the layers and the points."""
    u_n = MODES[mode](network, order)

    def loss(layers: Any, points: Any) -> Any:
        return (phix.vmap(lambda x: u_n(x, layers))(points) ** 2).mean()

    return phix.value_and_grad(loss)


# -- measuring -----------------------------------------------------------------------------------
def check(order: int) -> None:
    """Raise AssertionError unless all contenders agree in float64."""
    args = arguments(np.float64)
    results = {m: phix.tree.leaves(phix.jit(step(m, order))(*args)) for m in contenders(order)}
    for mode, found in results.items():
        for a, b in zip(found, results["jet"]):
            size = float(np.abs(np.asarray(b)).max())
            np.testing.assert_allclose(
                np.asarray(a), np.asarray(b), rtol=1e-8, atol=1e-9 * size,
                err_msg=f"order {order}: {mode} is not jet",
            )  # fmt: skip


def equations(mode: str, order: int) -> int:
    """The size of the graph as it was traced."""
    return len(phix.make_graph(step(mode, order))(*arguments()).equations)


@contextlib.contextmanager
def no_disk_cache() -> Iterator[None]:
    before = os.environ.get("PHIX_CACHE")
    os.environ["PHIX_CACHE"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PHIX_CACHE"]
        else:
            os.environ["PHIX_CACHE"] = before


def first_calls(order: int, repeats: int) -> list[Measurement]:
    """Tracing, compiling and one run, with nothing taken from the disk."""
    args = arguments()
    times: dict[str, list[float]] = {mode: [] for mode in contenders(order)}
    with no_disk_cache():
        for _ in range(repeats):
            for mode, found in times.items():
                start = time.perf_counter()
                phix.jit(step(mode, order))(*args)
                found.append(time.perf_counter() - start)
    return [summary(f"u^({order}), first call", mode, found) for mode, found in times.items()]


def calls(order: int, repeats: int) -> list[Measurement]:
    args = arguments()
    compiled = {mode: phix.jit(step(mode, order)) for mode in contenders(order)}
    # the loss alone is compared here; in float64 ``check`` compares the gradients too
    return measure(
        f"u^({order})",
        {mode: lambda f=f: f(*args)[0] for mode, f in compiled.items()},  # type: ignore[misc]
        repeats,
    )


def run(repeats: int, orders: range = range(1, 9)) -> list[Measurement]:
    """All rows, each order checked before it is timed."""
    with no_disk_cache():
        phix.jit(step("jet", 1))(*arguments())  # the compiler's own start
    found: list[Measurement] = []
    for order in orders:
        check(order)
        found += first_calls(order, max(1, min(repeats, 3)))
        found += calls(order, repeats)
    return found


def report(measurements: list[Measurement], orders: range) -> str:
    """One line for each order and contender; times in milliseconds."""
    times = {(m.row, m.contender): 1e3 * m.median for m in measurements}
    lines = [f"{'n':>2} {'contender':<9} {'equations':>9} {'first call':>11} {'call':>9}"]
    for order in orders:
        for mode in contenders(order):
            first, call = (times[f"u^({order}){rest}", mode] for rest in (", first call", ""))
            count = equations(mode, order)
            lines.append(f"{order:>2} {mode:<9} {count:>9} {first:>8.0f} ms {call:>6.2f} ms")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pinn", description=__doc__)
    parser.add_argument("--repeats", type=int, default=31, help="of each row (31)")
    parser.add_argument("--orders", type=int, nargs=2, default=(1, 8), help="first and last (1 8)")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    args = parser.parse_args()
    orders = range(args.orders[0], args.orders[1] + 1)
    found = run(args.repeats, orders)
    print(", ".join(f"{k} {v}" for k, v in machine().items()))
    print(report(found, orders))
    if args.json:
        write_json(args.json, found)


if __name__ == "__main__":
    main()
