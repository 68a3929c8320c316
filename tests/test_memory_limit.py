"""``jit(f, memory_limit=...)``: what is planned falls, results stay, and what cannot be is refused.

Results are compared with NumPy, or with the program that has no limit. What is held is read from
``memory_analysis``, whose plan is that of the native code, and once from the system, in new
processes.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.analysis import HeldVariable
from phix.core.graph import flat
from phix.core.rules import get_op
from phix.kernels.loops import slot_check
from phix.kernels.loops.nodes import Buffer
from phix.kernels.schedule import workspace
from phix.passes import simulated_memory
from phix.passes.simulated_memory import LimitedRun, is_repeatable, units_of

pytestmark = pytest.mark.unoptimised(4)

ROWS, WIDTH, LAYERS = 256, 32, 12
ONE = 4 * ROWS * WIDTH  # bytes of the activations of a layer


def network(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = activation(x @ w)
        return ops.sum(x * x)

    return loss


def arguments(width: int = WIDTH) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(width, width)) / width**0.5 for _ in range(LAYERS)]
    tensors = [phix.to_tensor(w.astype("float32")) for w in weights]
    return tensors, phix.to_tensor(rng.normal(size=(ROWS, width)).astype("float32"))


def held(function: Any, *args: Any) -> int:
    memory = function.lower(*args).memory_analysis()
    return int(memory.temp_size_in_bytes + memory.output_size_in_bytes)


def in_graph(function: Any, *args: Any) -> Counter[str]:
    return Counter(e.op.name for e in function.lower(*args).graph.equations)


def same(found: Any, wanted: Any) -> None:
    """Within rounding: sums may be added up in another order where loops are joined otherwise."""
    for a, b in zip(phix.tree.leaves(found), phix.tree.leaves(wanted), strict=True):
        size = np.abs(b.numpy()).max()
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=4e-6 * size)


# -- what falls, and what stays ----------------------------------------------------------------
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
@pytest.mark.parametrize("part", [0.75, 0.5, 0.35])
def test_the_plan_falls_to_the_limit_and_results_stay(activation: str, part: float) -> None:
    args = arguments()
    slope = phix.grad(network(getattr(ops, activation)))
    plain = phix.jit(slope)
    limit = int(part * held(plain, *args))
    limited = phix.jit(slope, memory_limit=limit)
    assert held(limited, *args) <= limit
    same(limited(*args), plain(*args))
    assert limited.lower(*args).cost_analysis().flops > plain.lower(*args).cost_analysis().flops


def test_the_gradient_is_that_of_numpy() -> None:
    weights, x = arguments()
    plain = phix.jit(phix.grad(network(ops.tanh)))
    limited = phix.jit(phix.grad(network(ops.tanh)), memory_limit=held(plain, weights, x) // 2)
    values = [x.numpy().astype("float64")]
    for w in weights:
        values.append(np.tanh(values[-1] @ w.numpy()))
    slope = 2.0 * values[-1]
    wanted = []
    for w, before, after in zip(weights[::-1], values[-2::-1], values[::-1]):
        slope = slope * (1.0 - after * after)
        wanted.append(before.T @ slope)
        slope = slope @ w.numpy().T
    for found, right in zip(limited(weights, x), wanted[::-1]):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4 * np.abs(right).max())


def test_what_is_cheap_is_computed_again_and_products_are_kept() -> None:
    args = arguments(128)
    slope = phix.grad(network(ops.gelu))
    plain = phix.jit(slope)
    mild = phix.jit(slope, memory_limit=int(0.7 * held(plain, *args)))
    hard = phix.jit(slope, memory_limit=int(0.3 * held(plain, *args)))
    counts = [in_graph(f, *args) for f in (plain, mild, hard)]
    products = [c["matmul"] for c in counts]
    assert products[0] == products[1] < products[2]
    functions = [c["ndtr"] + c["multiply"] for c in counts]
    assert functions[0] < functions[1] < functions[2]


def test_a_program_that_fits_computes_nothing_again() -> None:
    args = arguments()
    plain = phix.jit(phix.grad(network(ops.gelu)))
    limited = phix.jit(phix.grad(network(ops.gelu)), memory_limit=held(plain, *args))
    assert in_graph(limited, *args) == in_graph(plain, *args)
    assert "graph: rematerialise" in limited.lower(*args).sections
    assert "graph: rematerialise" not in plain.lower(*args).sections


def test_a_wide_value_is_computed_again_and_not_joined_to_where_it_was_first() -> None:
    """Both loops read the same array, so that one pass over it would hold the result anyway."""

    def f(x: Any) -> Any:
        wide = ops.exp(ops.sin(x))  # of one kernel, and read at both ends
        y = ops.sort(wide, axis=1)
        for _ in range(3):
            y = ops.sort(ops.tanh(y) * 2.0, axis=0)
        return ops.sum(wide * y, axis=0)

    x = phix.to_tensor(np.random.default_rng(1).normal(size=(128, 256)).astype("float32"))
    plain = phix.jit(f)
    one = 4 * 128 * 256
    limited = phix.jit(f, memory_limit=held(plain, x) - one // 2)
    assert in_graph(limited, x)["exp"] == 2
    assert held(limited, x) <= held(plain, x) - one // 2
    same(limited(x), plain(x))


# -- under other transformations ---------------------------------------------------------------
def test_values_gradients_lanes_and_donation() -> None:
    weights, x = arguments()
    both = phix.value_and_grad(network(ops.gelu))
    for f, args, options in (
        (both, (weights, x), {}),
        (both, (weights, x), {"donate_argnums": 0}),
        (phix.vmap(phix.grad(network(ops.tanh)), (None, 0)), (weights, ops.stack([x, -x])), {}),
        (lambda w, x: phix.jvp(phix.grad(network(ops.tanh)), (w, x), (w, x))[1], (weights, x), {}),
    ):
        plain = phix.jit(f)
        limited = phix.jit(f, memory_limit=int(0.6 * held(plain, *args)), **options)
        wanted = plain(*args)
        assert held(limited, *args) <= 0.6 * held(plain, *args)
        given = [w * 1.0 for w in weights]
        for a, b in zip(phix.tree.leaves(limited(given, args[1])), phix.tree.leaves(wanted)):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * float(ops.max(ops.abs(b))))


def test_inside_a_trace_the_outermost_limit_holds() -> None:
    weights, x = arguments()
    inner = phix.jit(network(ops.gelu), memory_limit=10**9)
    plain = phix.jit(phix.grad(network(ops.gelu)))
    limit = held(plain, weights, x) // 2
    limited = phix.jit(phix.grad(inner), memory_limit=limit)
    assert held(limited, weights, x) <= limit
    same(limited(weights, x), plain(weights, x))
    same(phix.grad(inner)(weights, x), plain(weights, x))


def test_loops_of_steps() -> None:
    """A scan is computed as a whole; what stands around it may be computed again."""
    weights, x = arguments()
    stacked = ops.stack(weights)

    def loss(stacked: Any, x: Any) -> Any:
        y = ops.gelu(ops.gelu(x) @ stacked[0])
        z, _ = phix.scan(lambda h, w: (ops.tanh(h @ w), None), y, stacked)
        return ops.sum(z * ops.gelu(y @ stacked[1]))

    plain = phix.jit(phix.grad(loss))
    wanted = plain(stacked, x)
    with pytest.raises(phix.errors.MemoryLimitError) as error:
        held(phix.jit(phix.grad(loss), memory_limit=1), stacked, x)
    for limit in (error.value.smallest, held(plain, stacked, x) - 1):
        limited = phix.jit(phix.grad(loss), memory_limit=limit)
        assert held(limited, stacked, x) <= limit
        np.testing.assert_allclose(limited(stacked, x), wanted, rtol=1e-5, atol=1e-5)


def test_with_checkpoint_less_is_possible() -> None:
    weights, x = arguments()

    def loss(stacked: Any, x: Any, wrap: Any) -> Any:
        step = wrap(lambda h, w: ops.gelu(ops.gelu(h @ w) @ w))
        return ops.sum(phix.scan(lambda h, w: (step(h, w), None), x, stacked)[0])

    found = []
    for wrap in (lambda f: f, phix.checkpoint):
        slope = phix.grad(lambda s, x, wrap=wrap: loss(s, x, wrap))
        with pytest.raises(phix.errors.MemoryLimitError) as error:
            held(phix.jit(slope, memory_limit=1), ops.stack(weights), x)
        found.append(error.value.smallest)
    assert found[1] < 0.7 * found[0]


# -- what is made once -------------------------------------------------------------------------
def test_random_numbers_are_those_without_a_limit() -> None:
    weights, x = arguments()

    def loss(weights: Any, x: Any, key: Any) -> Any:
        for k, w in enumerate(weights):
            x = ops.tanh(x @ w)
            kept = phix.random.bernoulli(phix.random.fold_in(key, k), 0.5, x.shape)
            x = ops.where(kept, x * 2.0, 0.0)
        return ops.sum(x * x)

    args = (weights, x, phix.random.key(3))
    plain = phix.jit(phix.grad(loss))
    limited = phix.jit(phix.grad(loss), memory_limit=int(0.6 * held(plain, *args)))
    same(limited(*args), plain(*args))


def test_callbacks_run_once_and_in_their_order() -> None:
    weights, x = arguments()
    calls: list[str] = []

    def passed(name: str, x: Any) -> Any:
        def host(value: Any) -> Any:
            calls.append(name)
            return np.asarray(value)

        return phix.pure_callback(host, phix.spec(x.shape, x.dtype), x)

    def f(weights: Any, x: Any) -> Any:
        h = [x]
        for w in weights[:6]:
            h.append(ops.gelu(h[-1] @ w))
        low = passed("low", h[2])
        phix.debug.callback(lambda v: calls.append("seen"), ops.sum(low))
        high = passed("high", h[6])
        return ops.sum(sum(a * b for a, b in zip(h, h[::-1])) * low * high)

    plain = phix.jit(f)
    wanted = plain(weights, x)
    order = list(calls)
    assert sorted(order) == ["high", "low", "seen"]
    with pytest.raises(phix.errors.MemoryLimitError) as error:
        held(phix.jit(f, memory_limit=1), weights, x)
    limited = phix.jit(f, memory_limit=error.value.smallest)
    assert held(limited, weights, x) == error.value.smallest
    calls.clear()
    np.testing.assert_allclose(limited(weights, x), wanted, rtol=1e-5)
    assert calls == order


# -- what cannot be ----------------------------------------------------------------------------
def test_a_limit_that_cannot_be_kept_is_an_error_that_says_what_can() -> None:
    args = arguments()
    slope = phix.grad(network(ops.gelu))
    limited = phix.jit(slope, memory_limit=ONE)
    with pytest.raises(phix.errors.MemoryLimitError) as error:
        limited(*args)
    text, smallest = str(error.value), error.value.smallest
    assert error.value.limit == ONE < smallest < held(phix.jit(slope), *args) / 4
    for part in (f"memory_limit={ONE} bytes", f"is {smallest} bytes", "test_memory_limit.py:",
                 "phix.checkpoint", "smaller batches"):  # fmt: skip
        assert part in text
    for ask in (lambda: limited.lower(*args).compile(), lambda: held(limited, *args)):
        with pytest.raises(phix.errors.MemoryLimitError):
            ask()
    best = phix.jit(slope, memory_limit=smallest)
    assert held(best, *args) == smallest
    same(best(*args), phix.jit(slope)(*args))


def test_what_is_not_known_is_refused() -> None:
    x = np.ones((4, 4), np.float32)
    double = lambda x: ops.exp(x) * 2.0  # noqa: E731
    with pytest.raises(phix.errors.ArgumentError, match=r"depends on the dim n, .*input_spec"):
        phix.jit(double, memory_limit=1 << 20, input_spec=[phix.spec(["n", 4])])(x)
    with pytest.raises(phix.errors.ArgumentError, match="whose size depends on the data"):
        phix.jit(lambda x: ops.exp(ops.nonzero(x) * 1.0), memory_limit=1 << 20)(x)
    with pytest.raises(phix.errors.ArgumentError, match="printed for Numba"):
        phix.jit(double, memory_limit=1 << 20, library="numba")(x)
    for wrong in (-1, 2.5, "1 MiB", True):
        with pytest.raises(phix.errors.ArgumentError, match="memory_limit must be an int from 0"):
            phix.jit(double, memory_limit=wrong)  # type: ignore[arg-type]
    known = phix.jit(double, memory_limit=1 << 20, input_spec=[phix.spec([4, 4])])
    np.testing.assert_allclose(known(x), 2.0 * np.exp(x), rtol=1e-6)


# -- keys --------------------------------------------------------------------------------------
def test_each_size_has_its_program_and_its_check() -> None:
    f = phix.jit(lambda x: ops.sum(ops.sort(ops.exp(x))), memory_limit=4 * 64 * 3)
    for n in (8, 16, 32):
        assert f(np.zeros(n, np.float32)).item() == n
    assert f.trace_count == 3
    with pytest.raises(phix.errors.MemoryLimitError):
        f(np.zeros(4096, np.float32))


def test_programs_of_other_limits_are_others_on_disk_too(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    args = arguments()
    own = lambda x: ops.gelu(x * 1.0625)  # noqa: E731 - code that no other test has in memory
    slope = phix.grad(network(own))
    most = held(phix.jit(slope), *args)
    ways: list[dict[str, Any]] = [{}, *({"memory_limit": int(p * most)} for p in (0.6, 0.3))]
    names = []
    for _ in range(2):  # the second time from the disk
        for way in ways:
            lowered = phix.jit(slope, **way).lower(*args)
            compiled = lowered._traced.compiled
            count = len(compiled.graph.inputs)
            program: Any = compiled.program((True,) * count, *lowered._places)
            names.append(program.call.code.key)
            assert ("source" in vars(program)) == (len(names) <= len(ways))
    assert names[:3] == names[3:] and len(set(names)) == 3


def test_copies_and_pickles_keep_the_limit() -> None:
    f = phix.jit(ops.exp, memory_limit=123)
    assert copy.copy(f) is f
    again = pickle.loads(pickle.dumps(f))
    assert again.memory_limit == 123
    assert phix.jit(memory_limit=5)(ops.exp).memory_limit == 5


def test_the_limit_of_a_block_holds_for_what_is_jitted_in_it() -> None:
    args = arguments()
    slope = phix.jit(phix.grad(network(ops.gelu)))
    most = held(slope, *args)
    with phix.debug.settings(memory_limit=most // 2):
        assert held(slope, *args) <= most // 2
        assert (args[1] + 1.0).shape == args[1].shape
    assert held(slope, *args) == most


# -- the run on paper --------------------------------------------------------------------------
_MADE = (
    lambda near, far: ops.sin(far),
    lambda near, far: near * far,
    lambda near, far: ops.matmul(near, far) * 0.25,
    lambda near, far: near - ops.max(far, [1], True),
)


def drawn_graph(rng: np.random.Generator) -> Any:
    """A graph of many small ops, whose values are read near and far."""
    count = int(rng.integers(5, 30))
    picks = rng.integers(0, 1 << 30, (count, 2))
    kinds = rng.integers(0, 4, count)

    def f(x: Any, y: Any) -> Any:
        values = [x, y]
        for kind, (a, b) in zip(kinds, picks):
            near, far = values[-1 - a % min(len(values), 4)], values[b % len(values)]
            values.append(_MADE[kind](near, far))
        return values[-1], values[len(values) // 2]

    return phix.make_graph(f)(phix.spec([3, 3], "float64"), phix.spec([3, 3], "float64"))


def test_a_run_on_paper_computes_the_same_in_its_budget(rng: np.random.Generator) -> None:
    limited = 0
    for _ in range(60):
        graph = drawn_graph(rng)
        every = [v for e in graph.equations for v in flat(e.outputs)]
        own = [v for v in every if rng.random() < 0.7 or v in graph.outputs]
        sizes = rng.choice([8, 16, 24], len(own))
        order = rng.permutation(len(own)) if rng.random() < 0.5 else range(len(own))
        found = [HeldVariable(v, int(n), int(k)) for v, n, k in zip(own, sizes, order)]
        units = units_of(graph, found)
        most = LimitedRun(graph, units, 1 << 40, lambda u: 1.0)
        assert most.again == 0 and len(most.graph.equations) <= len(graph.equations)
        x, y = rng.normal(size=(2, 3, 3))
        wanted = graph(x, y)
        for part in (1.0, 0.8, 0.6, 0.4):
            run = LimitedRun(graph, units, int(part * most.peak), lambda u: 1.0 + u.size)
            if not run.is_whole:
                continue
            limited += run.again > 0 and run.peak <= part * most.peak
            for a, b in zip(run.graph(x, y), wanted):
                np.testing.assert_array_equal(a, b)
    assert limited > 30


def test_what_is_not_repeatable_is_written_once(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = 0
    for _ in range(40):
        graph = drawn_graph(rng)
        once = {e for e in graph.equations if rng.random() < 0.3}
        monkeypatch.setattr(simulated_memory, "is_repeatable", lambda e, once=once: e not in once)
        found = [
            HeldVariable(v, 8, k) for k, e in enumerate(graph.equations) for v in flat(e.outputs)
        ]
        units = units_of(graph, found)
        most = LimitedRun(graph, units, 1 << 40, lambda u: 1.0).peak
        run = LimitedRun(graph, units, int(0.6 * most), lambda u: 1.0)
        if run.is_whole:
            written = Counter((e.op.name, e.source, e.attrs) for e in run.graph.equations)
            outputs = {v for e in run.graph.equations for v in flat(e.outputs)}
            made = {v for e in once for v in flat(e.outputs)}
            assert made <= outputs and sum(written.values()) <= len(graph.equations) + run.again
            again += run.again
    assert again > 10


def test_what_may_be_repeated() -> None:
    def equations(f: Any, *args: Any) -> list[Any]:
        return list(phix.make_graph(f)(*args).equations)

    x = phix.spec([4])
    (sine,) = equations(ops.sin, x)
    assert is_repeatable(sine)
    seen = equations(lambda x: phix.debug.callback(print, x), x)
    assert not any(map(is_repeatable, seen))
    host = equations(lambda x: phix.pure_callback(np.sin, phix.spec([4]), x), x)
    assert [e.op.name for e in host if not is_repeatable(e)] == ["pure_callback"]
    inside = equations(
        lambda x: phix.fori_loop(0, 3, lambda i, c: phix.pure_callback(np.sin, x, c), x), x
    )
    assert not any(is_repeatable(e) for e in inside if e.op.has_graphs)
    summed = equations(phix.vmap(lambda x: phix.psum(x, "i"), axis_name="i"), phix.spec([3, 4]))
    assert all(map(is_repeatable, summed))  # it is a sum by now
    assert get_op("psum").traits >= {"collective"}


# -- where temps lie ---------------------------------------------------------------------------
def test_temps_are_packed_and_none_lies_in_another(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = 0
    for _ in range(40):
        count = int(rng.integers(2, 40))
        begins, lengths = rng.integers(0, 20, count), rng.integers(1, 8, count)
        lives = {
            Buffer(f"t{k}", np.dtype("int8"), (int(n),), "temp"): (int(b), int(b + d))
            for k, (n, b, d) in enumerate(zip(rng.integers(0, 900, count), begins, lengths))
        }
        monkeypatch.setattr(workspace, "lifetimes", lambda steps, lives=lives: lives)
        packing = workspace.plan([], lambda b: True, 64)
        slots = workspace.plan_slots([], lambda b: True)
        by_slots = sum(-(-max(b.dims[0] for b in slot) // 64) * 64 for slot in slots)
        alive = [sum(-(-b.dims[0] // 64) * 64 for b, (s, e) in lives.items() if s <= t < e)
                 for t in range(28)]  # fmt: skip
        assert max(alive) <= packing.size <= by_slots and not packing.slots
        better += packing.size < by_slots
        groups = packing.groups()
        for a, (first, last) in lives.items():
            at = packing.offsets[a]
            assert at % 64 == 0 and at + a.dims[0] <= packing.size
            for b, (begin, end) in lives.items():
                meets = (
                    a is not b
                    and at < packing.offsets[b] + b.dims[0]
                    and (packing.offsets[b] < at + a.dims[0])
                )
                if meets:
                    assert last <= begin or end <= first
                assert meets == any(a is not b and a in g and b in g for g in groups)
    assert better > 10


def test_a_temp_may_share_memory_with_several() -> None:
    from tests.test_verifier import OUT, X, buffer, step

    a, b, c = (buffer(f"t{k}", 4) for k in range(3))
    steps = [step([X], [a]), step([X], [b]), step([a], [OUT]), step([b], [OUT]),
             step([X], [c]), step([c], [OUT])]  # fmt: skip
    assert not list(slot_check.faults(steps, [[a, c], [b, c]]))
    assert list(slot_check.faults([*steps[:2], steps[4], *steps[2:4], steps[5]], [[a], [b, c]]))
    assert list(slot_check.faults([*steps, steps[2]], [[a, c], [b, c]]))


def test_a_view_of_what_is_in_memory_has_no_memory_of_its_own() -> None:
    """The input of a layer is read by its product as it is, and by the gradient as a matrix."""

    def loss(w: Any, scale: Any, x: Any) -> Any:
        h = ops.tanh(x * scale) * scale + ops.exp(x)
        return ops.sum(ops.sin(h @ w))

    x, w = phix.ones([4, 64, 32]), phix.ones([32, 32])
    memory = phix.jit(phix.grad(loss)).lower(w, phix.ones([32]), x).memory_analysis()
    assert memory.temp_size_in_bytes < 2.2 * 4 * 4 * 64 * 32  # h, and its product


# -- the system's word -------------------------------------------------------------------------
RESIDENT = """
import sys
from pathlib import Path
import numpy as np
import phix
from phix import ops

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))

def loss(ws, x):
    for w in ws:
        x = ops.gelu(x @ w)
    return ops.sum(x)

part = float(sys.argv[1])
rng = np.random.default_rng(0)
x = phix.to_tensor(rng.normal(size=(4096, 256)).astype("float32"))
ws = [phix.to_tensor(rng.normal(size=(256, 256)).astype("float32") / 16) for _ in range(10)]
plain = phix.jit(phix.grad(loss)).lower(ws, x).memory_analysis()
most = plain.temp_size_in_bytes + plain.output_size_in_bytes
limit = None if part == 1 else int(part * most)
run = phix.jit(phix.grad(loss), memory_limit=limit).lower(ws, x).compile()
phix.ones([64, 64]) @ phix.ones([64, 64])
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
out = run(ws, x)
print(most, status("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_resident_memory_falls_with_the_plan() -> None:
    found = []
    for part in ("1", "0.4"):
        command = [sys.executable, "-c", RESIDENT, part]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append([int(n) for n in run.stdout.split()])
    (most, plain), (_, limited) = found
    assert plain > 0.7 * most
    assert limited < 0.4 * most + (20 << 20) < 0.75 * plain
