"""Graphs over several places: ``to`` inside jit, results elsewhere, derivatives, loops, errors."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import DeviceError
from random_graphs import Node, difference, draw_program
from toy_device import FUNCTIONS, Toy, toy

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(5)


@pytest.fixture
def device() -> Iterator[Toy]:
    with toy("toy") as made:
        yield made


def on(place: str, data: Any) -> Any:
    return phix.to_tensor(data, place=place)


def normal(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype("float32")


def places(*tensors: Any) -> list[str]:
    return [str(t.place) for t in tensors]


def test_data_move_inside_a_compiled_function(device: Toy) -> None:
    @phix.jit
    def f(x: Any) -> Any:
        return ops.tanh(x.to("toy") * 2.0).to("cpu") + x

    x = phix.to_tensor(normal(5))
    found = f(x)
    assert places(found) == ["cpu"]
    np.testing.assert_allclose(found, np.tanh(x.numpy() * 2) + x.numpy(), rtol=1e-6)
    assert device.counted(lambda: f(x)) == {"in": 1, "multiply": 1, "tanh": 1, "out": 1}


def test_results_live_where_they_were_made(device: Toy) -> None:
    @phix.jit
    def f(x: Any, y: Any) -> Any:
        there = x.to("toy")
        return x + 1.0, there * y, y, there, ops.sum(y)

    x, y = phix.to_tensor([1.0, 2.0]), on("toy", [3.0, 4.0])
    found = f(x, y)
    assert places(*found) == ["cpu", "toy:0", "toy:0", "toy:0", "toy:0"]
    assert [r.tolist() for r in found] == [[2.0, 3.0], [3.0, 8.0], [3.0, 4.0], [1.0, 2.0], 7.0]


def test_there_and_back_is_no_copy(device: Toy) -> None:
    f = phix.jit(lambda x: ops.exp(x.to("toy").to("cpu").to("toy").to("cpu")))
    x = phix.to_tensor(normal(3))
    np.testing.assert_allclose(f(x), np.exp(x.numpy()), rtol=1e-6)
    assert not device.counted(lambda: f(x))


def test_single_values_go_along(device: Toy) -> None:
    @phix.jit
    def f(x: Any, y: Any, s: Any) -> Any:
        return x * s + ops.max(x), y * s * ops.max(x) + ops.arange(0, 2, 1, "float32")

    x, y = phix.to_tensor([1.0, 2.0]), on("toy", [3.0, 4.0])
    here, there = f(x, y, 10.0)
    assert places(here, there) == ["cpu", "toy:0"]
    assert (here.tolist(), there.tolist()) == ([12.0, 22.0], [60.0, 81.0])


def test_cotangents_come_back_to_the_place_of_the_primal(device: Toy) -> None:
    def loss(x: Any, w: Any) -> Any:
        return ops.sum(ops.sin(x.to("toy") * w).to("cpu") * x)

    x, w = normal(4), normal(4)
    c = np.cos(x * w)
    wanted = (np.sin(x * w) + c * w * x, c * x * x)
    for f in (loss, phix.jit(loss)):
        for grad in (phix.grad(f, argnums=(0, 1)), phix.jit(phix.grad(f, argnums=(0, 1)))):
            found = grad(phix.to_tensor(x), on("toy", w))
            assert places(*found) == ["cpu", "toy:0"]
            for a, b in zip(found, wanted):
                np.testing.assert_allclose(a, b, rtol=1e-5)


def test_second_derivatives_tangents_and_batches(device: Toy) -> None:
    def f(x: Any) -> Any:
        return ops.sum((x.to("toy") ** 3).to("cpu") * 2.0)

    x = phix.to_tensor([1.0, 2.0])
    second = phix.jit(phix.grad(lambda x: ops.sum(phix.grad(f)(x))))(x)
    assert (places(second), second.tolist()) == (["cpu"], [12.0, 24.0])
    _, tangent = phix.jvp(phix.jit(f), (x,), (phix.ones_like(x),))
    assert tangent.item() == 30.0
    rows = phix.to_tensor(normal(3, 2))
    batched = phix.jit(phix.vmap(lambda r: ops.exp(r.to("toy")) / ops.sum(r).to("toy")))(rows)
    assert places(batched) == ["toy:0"]
    np.testing.assert_allclose(
        batched, np.exp(rows.numpy()) / rows.numpy().sum(1, keepdims=True), rtol=1e-5
    )


def test_one_program_for_all_sizes(device: Toy) -> None:
    def f(x: Any) -> Any:
        pairs = ops.reshape(x, [-1, 2]).to("toy")
        return ops.sum(pairs, 1).to("cpu") * x.shape[0]

    run = phix.jit(f, input_spec=[phix.spec(["n"])])
    for n in (2, 6):
        x = normal(n)
        np.testing.assert_allclose(run(phix.to_tensor(x)), x.reshape(-1, 2).sum(1) * n, rtol=1e-5)
    assert run.trace_count == 1


def test_sizes_that_data_tell(device: Toy) -> None:
    @phix.jit
    def f(n: Any, x: Any) -> Any:
        ones = ops.full([n], 1.0).to("toy")
        return ops.sum(ones * x), ops.cumsum(ones.to("cpu"))

    total, numbers = f(3, on("toy", 2.0))
    assert (total.item(), numbers.tolist()) == (6.0, [1.0, 2.0, 3.0])
    assert f(5, on("toy", 1.0))[1].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("looping", ["scan", "while", "branch", "nested"])
def test_loops_and_branches_over_several_places(device: Toy, looping: str) -> None:
    def f(x: Any, w: Any, there: str) -> Any:
        def step(c: Any) -> Any:
            return (c.to(there) * w).to("cpu") + 1.0

        if looping == "scan":
            return phix.scan(lambda c, r: (step(c) + r, c), x[0], x)
        if looping == "while":
            return phix.while_loop(lambda c: ops.sum(c) < 50.0, step, x[0])
        if looping == "branch":
            return phix.cond(ops.sum(x) > 0.0, step, lambda c: c - 1.0, x[0])
        twice = lambda i, c: phix.fori_loop(0, 2, lambda i, c: step(c), c)  # noqa: E731
        return phix.fori_loop(0, 2, twice, x[0])

    x, w = phix.to_tensor([[1.0, 1.0], [0.5, 0.25], [2.0, 4.0]]), phix.to_tensor([2.0, 3.0])
    wanted = phix.tree.leaves(f(x, w, "cpu"))
    for run in (phix.jit(lambda x, w: f(x, w, "toy")), lambda x, w: f(x, w, "toy")):
        found = phix.tree.leaves(run(x, w.to("toy")))
        assert places(*found) == ["cpu"] * len(found)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_loops_over_several_places_of_unknown_sizes(device: Toy) -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]

        def body(c: Any, r: Any) -> Any:
            there = (c * r).to("toy") + phix.arange(n, dtype="float32")
            return there.to("cpu"), ops.sum(there)

        return phix.scan(body, x, x)

    run = phix.jit(f, input_spec=[phix.spec(["n"])])
    for n in (3, 2):
        x = phix.to_tensor(normal(n))
        c, sums = x.numpy(), []
        for r in x.numpy():
            c = c * r + np.arange(n, dtype="f")
            sums.append(c.sum())
        final, ys = run(x)
        assert places(final, ys) == ["cpu", "cpu"]
        np.testing.assert_allclose(final, c, rtol=1e-5)
        np.testing.assert_allclose(ys, sums, rtol=1e-5)
    assert run.trace_count == 1


def test_what_a_loop_does_not_change_is_copied_once(device: Toy) -> None:
    @phix.jit
    def f(x: Any, w: Any) -> Any:
        return phix.fori_loop(0, 4, lambda i, c: c * w.to("toy"), x)

    x, w = on("toy", [1.0, 2.0]), phix.to_tensor([2.0, 3.0])
    assert f(x, w).tolist() == [16.0, 162.0]
    assert device.counted(lambda: f(x, w))["in"] == 1


def test_effects_keep_their_order(device: Toy) -> None:
    seen: list[Any] = []

    @phix.jit
    def f(x: Any) -> Any:
        phix.debug.callback(lambda v: seen.append(v.item()), x.to("toy") + 1.0)
        phix.debug.callback(lambda v: seen.append(v.item()), x + 2.0)
        phix.debug.callback(lambda v: seen.append(v.item()), x.to("toy") + 3.0)
        return x

    for _ in range(2):
        f(phix.to_tensor([0.0]))
    assert seen == [1.0, 2.0, 3.0] * 2


def test_segments_are_few(device: Toy) -> None:
    def f(x: Any) -> Any:
        y = x.to("toy")
        parts = []
        for k in range(4):  # the two chains do not wait for each other
            x, y = ops.tanh(x) + k, ops.tanh(y) + k
            parts.append(x)
        return ops.sum(x + y.to("cpu")), parts[0]

    x = phix.to_tensor(normal(3))
    lowered = phix.jit(f).lower(x)
    assert len(lowered.as_text("segments").splitlines()) == 5
    assert phix.jit(f)(x)[0].item() == pytest.approx(f(x)[0].item(), rel=1e-5)


def test_the_reports_of_several_places(device: Toy) -> None:
    lowered = phix.jit(lambda x: ops.exp(x.to("toy") * 2.0).to("cpu") + x).lower(normal(3))
    steps = lowered.as_text("segments").splitlines()
    assert steps[0].startswith("0: copy x to toy:0") and steps[1] == "1: on toy:0: multiply, exp"
    assert str(lowered.fusion()) == lowered.as_text("segments")
    assert "define" in lowered.as_text("3: llvm") and "TOY" in lowered.as_text("1: kernels")
    cost, memory = lowered.cost_analysis(), lowered.memory_analysis()
    (_, here), (_, there) = cost.places
    assert (here.flops, here.bytes_read, here.bytes_written) == (3, 12 + 24, 12 + 12)
    assert (there.flops, there.bytes_read, there.bytes_written) == (0, 12, 12), "the copies"
    assert [n.partition(": ")[::2] for n in cost.uncounted] == [
        ("what runs on toy:0", "registered kernels do not say what they cost; lower the function "
         'on a place whose engine generates loops, as in `with phix.device("cpu")`')
    ]  # fmt: skip
    assert [m.temp_size_in_bytes for _, m in memory.places] == [12, 24]
    compiled = lowered.compile()
    x = phix.to_tensor(normal(3))
    np.testing.assert_allclose(compiled(x), np.exp(2 * x.numpy()) + x.numpy(), rtol=1e-6)


def test_mixed_places_say_what_lives_where(device: Toy) -> None:
    def f(x: Any, y: Any) -> Any:
        z = ops.sin(y)
        return ops.concat([x, z])

    x, y = phix.to_tensor([1.0]), on("toy", [1.0])
    with pytest.raises(DeviceError) as error:
        phix.jit(f)(x, y)
    text = str(error.value)
    assert text.startswith("concat (at ") and "test_several_places.py" in text
    assert "x[0] is argument 0 (x) on cpu" in text
    assert (
        "x[1] is a of sin (at " in text and "on toy:0; bring them to one, as in .to('cpu')" in text
    )
    assert phix.jit(lambda x, y: (x + 1.0, y + 1.0))(x, y)[1].tolist() == [2.0]


def test_programs_of_the_cpu_alone_are_left_as_they_were(device: Toy) -> None:
    lowered = phix.jit(lambda x: ops.tanh(x.to("cpu")) * 2.0).lower(normal(4))
    assert "graph: choose kernels" not in lowered.sections
    assert not {"toy", "# "} & set(lowered.as_text("decompose"))


def test_a_device_with_few_kernels_in_a_network() -> None:
    names = [n for n in FUNCTIONS if n not in ("exp", "max", "divide")]

    def loss(w: Any, x: Any) -> Any:
        return -ops.mean(ops.log_softmax(ops.tanh(x @ w))[:, 0])

    w, x = normal(4, 3), normal(5, 4)
    with toy("toy", names) as device:
        found = phix.jit(phix.value_and_grad(loss))(on("toy", w), on("toy", x))
        wanted = phix.value_and_grad(loss)(phix.to_tensor(w), phix.to_tensor(x))
        for a, b in zip(found, wanted):
            assert places(a) == ["toy:0"]
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert device.counts["matmul"] == 2
        del found


# -- random graphs -----------------------------------------------------------------------------
HALF = [name for number, name in enumerate(sorted(FUNCTIONS)) if number % 2]
DTYPES = ["bool", "int64", "uint32", "float32", "float64", "complex128"]


def wandering(node: Node, rng: random.Random) -> Node:
    """A step of a random program that takes its inputs to some place first."""
    run, place = node.run, rng.choice(["cpu", "half", "toy"])
    if run is None:
        return node
    return dataclasses.replace(node, run=lambda *xs: run(*(x.to(place) for x in xs)))


@pytest.mark.parametrize("group", range(4))
def test_random_graphs_wander_between_places(device: Toy, group: int, seed: int) -> None:
    """A device with all kernels, one with half of them and the CPU, against NumPy; eager and
    compiled results live in the same places."""
    with toy("half", HALF, DTYPES, {"conv2d": "NHWC"}):
        for number in range(1000 * seed + 4 * group, 1000 * seed + 4 * group + 4):
            program, rng = draw_program(number), random.Random(number)
            nodes = [wandering(node, rng) for node in program.nodes]
            moving = dataclasses.replace(program, nodes=nodes)
            inputs = [on(rng.choice(["cpu", "half", "toy"]), x) for x in program.inputs]
            found = moving(*inputs), phix.jit(moving)(*inputs)
            assert places(*found[0]) == places(*found[1])
            for results in found:
                for result, node in zip(results, program.expected(), strict=True):
                    assert not difference(result.to("cpu"), node), f"seed {number}:\n{program}"
            del found, results, result, inputs


SPECIAL = {
    "expn": lambda x: phix.scipy.special.expn(2.0, x),
    "dawsn": lambda x: phix.scipy.special.dawsn(x),
    "owens_t": lambda x: phix.scipy.special.owens_t(x, 0.5),
    "fresnel": lambda x: phix.scipy.special.fresnel(x),
    "sici": lambda x: phix.scipy.special.sici(x),
    "bessel_jn": lambda x: phix.scipy.special.bessel_jn(x, v=3),
    "wofz": lambda x: phix.scipy.special.wofz(x),
    "multigammaln": lambda x: phix.scipy.special.multigammaln(x + 3.0, 2),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_what_functions_know_by_heart_goes_where_their_arguments_are(
    device: Toy, name: str
) -> None:
    """Nodes and weights of their rules, say, in calls that are not compiled."""
    x = np.array([0.3, 1.7, 9.0])
    for found, wanted in zip(*(phix.tree.leaves(SPECIAL[name](on(p, x))) for p in ("toy", "cpu"))):
        assert places(found) == ["toy:0"]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
