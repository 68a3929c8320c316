"""Tensors, eager calls and jit on the place ``gpu``, played by the CPU: see ``emulated_gpu``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import phix
from emulated_gpu import EmulatedRuntime, GpuArray, emulated
from gpu_programs import needs_compiler
from harness.cases import table_cases
from harness.checks import CHECKS
from phix import ops
from phix.core.errors import DeviceError, DonatedTensorError, TensorIndexError
from tests.test_control_flow import CASES as LOOPS

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu place"), pytest.mark.unoptimised]
CASES = {case.op.name: case for case in table_cases() if "elsewhere" not in case.test}
# Ops of several kinds: with a body, a view, a reduction, a step for the host, a call of a library,
# a routine, one without inputs, one that the engine has whole.
SOME = ("add", "transpose", "sum", "sort", "matmul", "conv2d", "arange", "attention")
RNG = np.random.default_rng(0)


@pytest.fixture
def gpu() -> Iterator[EmulatedRuntime]:
    with emulated() as runtime:
        yield runtime


def on(*dims: int, dtype: str = "float32") -> Any:
    return phix.to_tensor(RNG.standard_normal(dims), dtype, place="gpu")


def address(x: Any) -> int:
    return int(x.data.array.ctypes.data)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("check", ["forward", "jit"])
def test_the_table(gpu, name: str, check: str, seed: int) -> None:
    case = dataclasses.replace(CASES[name], seed=seed)
    with phix.device("gpu"):
        if check not in case.skip:
            CHECKS[check](case)


def test_results_live_where_their_inputs_do(gpu) -> None:
    x = on(4, 5)
    loss = phix.jit(lambda x: ops.sum(ops.tanh(x @ x.T)))
    grad, batch = phix.grad(loss)(x), phix.vmap(loss)(x[None])
    for made in (x, x + 1.0, ops.softmax(x), x[1:, ::2], grad, batch):
        assert str(made.place) == "gpu:0" and isinstance(made.data, GpuArray)
    expected = phix.grad(loss)(x.to("cpu"))
    np.testing.assert_allclose(grad, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(DeviceError, match="x on gpu:0, y on cpu"):
        ops.add(x, phix.to_tensor(np.ones((4, 5), np.float32)))


def test_a_limit_of_memory_holds_there_too(gpu) -> None:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = ops.gelu(x @ w)
        return ops.sum(x)

    def held(function: Any) -> int:
        memory = function.lower(weights, x).memory_analysis()
        return int(memory.temp_size_in_bytes + memory.output_size_in_bytes)

    weights, x = [on(16, 16) * 0.25 for _ in range(6)], on(64, 16)
    plain = phix.jit(phix.grad(loss))
    limit = int(0.6 * held(plain))
    limited = phix.jit(phix.grad(loss), memory_limit=limit)
    assert held(limited) <= limit
    for a, b in zip(limited(weights, x), plain(weights, x)):
        assert str(a.place) == "gpu:0"
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    other = phix.jit(lambda x: ops.exp(x.to("cpu")) * 2.0, memory_limit=1 << 20)
    with pytest.raises(phix.errors.ArgumentError, match=r"several places \(cpu, gpu\)"):
        other(x)


def test_a_training_step_stays_in_its_memory(gpu) -> None:
    def loss(w: Any, x: Any) -> Any:
        return ops.mean(ops.tanh(x @ w) ** 2)

    step = phix.jit(lambda w, x: w - 0.5 * phix.grad(loss)(w, x), donate_argnums=0)
    w, x = on(6, 6), on(20, 6)
    host, place = w.to("cpu"), address(w)
    for _ in range(4):
        old, w = w, step(w, x)
        host = host - 0.5 * phix.grad(loss)(host, x.to("cpu"))
        with pytest.raises(DonatedTensorError):
            old.numpy()
    assert address(w) == place and step.trace_count == 1
    np.testing.assert_allclose(w, host, rtol=1e-4, atol=1e-5)


def test_ops_in_place_take_the_memory(gpu) -> None:
    x = on(5, 7)
    wanted, place = np.tanh(x.numpy()) * 2 + 1, address(x)
    x = ops.reshape_(x.tanh_().multiply_(2.0).add_(1.0), [35])
    assert address(x) == place
    np.testing.assert_allclose(x, wanted.ravel(), rtol=1e-5)
    shown = x[3:]
    y = x.exp_()
    assert address(y) != place, "another tensor sees it"
    np.testing.assert_allclose(shown, wanted.ravel()[3:], rtol=1e-5)


def test_attention_is_kept_whole_for_the_gpu(gpu) -> None:
    q, k, v = on(2, 9, 8), on(2, 11, 8), on(2, 11, 4)
    attend = phix.jit(lambda q, k, v: ops.attention(q, k, v, None, 0.3, True))
    assert "attention_float32" in attend.lower(q, k, v).as_text("loop ir")
    wanted = attend(*(x.to("cpu") for x in (q, k, v)))
    np.testing.assert_allclose(attend(q, k, v), wanted, rtol=1e-4, atol=1e-5)


def test_gradients_of_attention_are_kept_whole_for_the_gpu(gpu) -> None:
    q, k, v = on(2, 9, 8), on(2, 11, 8), on(2, 11, 4)

    def loss(q: Any, k: Any, v: Any) -> Any:
        return ops.sum(ops.sin(ops.attention(q, k, v, None, 0.3, True)))

    def gradients(q: Any, k: Any, v: Any) -> Any:
        return phix.grad(loss, (0, 1, 2))(q, k, v)

    def curvature(q: Any, k: Any, v: Any) -> Any:
        return phix.grad(lambda q: ops.sum(phix.grad(loss, 1)(q, k, v) ** 2))(q)

    def batched(q: Any, k: Any, v: Any) -> Any:
        return phix.vmap(gradients, (0, 0, None))(q, k, v[0])

    def forward(q: Any, k: Any, v: Any) -> Any:
        return phix.jvp(lambda q: gradients(q, k, v), (q,), (ops.cos(q),))

    for function in (gradients, batched):
        text = phix.jit(function).lower(q, k, v).as_text("loop ir")
        assert "querygrad_float32" in text and "keygrad_float32" in text
    for function in (gradients, curvature, batched, forward):
        found = phix.tree.leaves(phix.jit(function)(q, k, v))
        wanted = phix.tree.leaves(function(*(x.to("cpu") for x in (q, k, v))))
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-3, atol=1e-4)


def test_training_with_attention_written_out_is_fused(gpu) -> None:
    def loss(q: Any, k: Any, v: Any) -> Any:
        seen = ops.reshape(ops.arange(0, 9, 1, "int64"), (9, 1)) >= ops.arange(0, 9, 1, "int64")
        scores = ops.where(seen, ops.matmul(q * 0.3, k, False, True), float("-inf"))
        return ops.sum(ops.sin(ops.softmax(scores, -1) @ v))

    step = phix.jit(phix.value_and_grad(loss, (0, 1, 2)))
    q, k, v = on(2, 9, 8), on(2, 9, 8), on(2, 9, 4)
    text = step.lower(q, k, v).as_text("loop ir")
    assert [text.count(f"{n}_float32(") for n in ("attention", "querygrad", "keygrad")] == [1] * 3
    assert "9, 9]" not in text, "no scores in memory"
    found = phix.tree.leaves(step(q, k, v))
    wanted = phix.tree.leaves(step(*(x.to("cpu") for x in (q, k, v))))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


def test_kernels_that_may_wait_for_data_are_not_recorded(gpu, monkeypatch) -> None:
    monkeypatch.setattr(gpu, "recorded", lambda run: pytest.fail("recorded"))
    memory = gpu.empty((5,), np.dtype(np.float32))

    def tanh(ctx: Any, x: Any, out: Any) -> None:
        out.array[...] = np.tanh(x.array)

    with phix.scoped_registries():
        phix.kernels.register_kernel("tanh", "GPU", dtypes="float32")(tanh)
        x, f = on(5), phix.jit(ops.tanh)
        monkeypatch.setattr(gpu, "empty", lambda shape, dtype: memory)
        for _ in range(4):
            np.testing.assert_allclose(f(x), np.tanh(x.numpy()), rtol=1e-6)


def test_registered_kernels_are_steps_of_programs(gpu) -> None:
    seen = []

    def split(ctx: Any, x: Any, sections: Any, axis: int, parts: Any) -> None:
        seen.append((str(ctx.place), sections, axis, [p.shape for p in parts]))
        for part, value in zip(
            parts, np.split(x.array, np.cumsum(sections)[:-1], axis), strict=True
        ):
            part.array[...] = value

    with phix.scoped_registries():
        phix.kernels.register_kernel("split", "GPUDNN", dtypes="float32")(split)
        x = on(6, 4)
        f = phix.jit(lambda x: ops.sin(ops.split(ops.exp(x), [3, 3], 0)[1]) * 2.0)
        np.testing.assert_allclose(f(x), 2 * np.sin(np.exp(x.numpy()[3:])), rtol=1e-5, atol=1e-5)
        rows = phix.jit(
            lambda x: ops.split(x, [x.shape[0] - 1, 1], 0)[1], input_spec=[phix.spec(["n", "m"])]
        )
        for n in (2, 8):
            x = on(n, 3)
            np.testing.assert_array_equal(rows(x), x.numpy()[-1:])
    assert seen[0] == ("gpu:0", (3, 3), 0, [(3, 4), (3, 4)])
    assert [s[1:] for s in seen[1:]] == [((1, 1), 0, [(1, 3)] * 2), ((7, 1), 0, [(7, 3), (1, 3)])]


def _over_two_places(x: Any, w: Any) -> Any:
    y = ops.tanh(x.to("gpu") @ w)
    return ops.sum(y.to("cpu") * 2.0, (1,)), ops.sum(y, (0,))


def test_what_a_graph_over_two_places_costs(gpu) -> None:
    x, w = phix.zeros([64, 16]), phix.zeros([16, 32]).to("gpu")
    cost = phix.jit(_over_two_places).lower(x, w).cost_analysis()
    (cpu, here), (card, there) = cost.places
    assert (str(cpu), str(card)) == ("cpu", "gpu:0") and not cost.uncounted
    product, elements = 2 * 64 * 16 * 32, 64 * 32
    assert (here.flops, there.flops) == (2 * elements, product + elements)
    assert (here.transcendentals, there.transcendentals) == (0, elements)
    # x is read to be copied, the copy of y is read; written are that copy and the sums
    assert here.bytes_read == 4 * (64 * 16 + elements)
    assert here.bytes_written == 4 * (elements + 64)
    assert cost.flops == here.flops + there.flops
    assert cost.bytes_accessed == here.bytes_accessed + there.bytes_accessed
    named = phix.jit(lambda x: ops.exp(x.to("gpu")).to("cpu") + 1.0).lower(phix.spec(["n"]))
    assert repr(named.cost_analysis().flops) == "n" and named.cost_analysis(n=7).flops == 7
    assert "on gpu:0:\n  flops: 67584" in str(cost)


def test_the_memory_of_a_graph_over_two_places(gpu) -> None:
    x, w = phix.zeros([64, 16]), phix.zeros([16, 32]).to("gpu")
    memory = phix.jit(_over_two_places).lower(x, w).memory_analysis()
    (_, here), (_, there) = memory.places
    sizes = [
        (m.argument_size_in_bytes, m.output_size_in_bytes, m.temp_size_in_bytes)
        for m in (here, there)
    ]
    rows, copy, moved = 64 * 4, 64 * 32 * 4, 64 * 16 * 4
    # the program on the card keeps the product beside its result
    assert sizes == [(moved, rows, copy), (16 * 32 * 4, 32 * 4, moved + 2 * copy)]
    assert memory.peak_memory_in_bytes == sum(map(sum, sizes))
    assert memory.holders[0].size_in_bytes == copy
    assert memory.peak_source is not None and memory.peak_source.function == "_over_two_places"
    loop = phix.jit(
        lambda x, w: phix.fori_loop(0, 3, lambda i, v: ops.sin(v.to("gpu") @ w).to("cpu"), x)
    )
    square = phix.zeros([16, 16]).to("gpu")
    assert "step by step: scan" in loop.lower(x, square).as_text("segments")
    cost = loop.lower(x, square).cost_analysis()
    assert cost.flops == 2 * 64 * 16 * 16 and "turns of scan beyond the first" in str(cost)
    inside = dict(loop.lower(x, square).memory_analysis().places)[phix.Place("gpu")]
    assert inside.temp_size_in_bytes >= 2 * moved, "the copy there and what comes of it"


def test_donated_arguments_of_two_places(gpu) -> None:
    def step(x: Any, y: Any, z: Any) -> Any:
        total = ops.sum(y).to("cpu")
        return x * 2.0 + total, ops.exp(y) + ops.sum(x).to("gpu"), z + 1.0

    def host(t: Any) -> int:
        return int(t.data.ctypes.data)

    x, y, z = on(300).to("cpu"), on(7, 5), on(4)
    wanted = [np.asarray(t.to("cpu")) for t in step(x, y, z)]
    before = host(x), address(y), address(z)
    donating = phix.jit(step, donate_argnums=(0, 1))
    found = donating(x, y, z)
    for f, e in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5)
    after = host(found[0]), address(found[1]), address(found[2])
    assert after[:2] == before[:2] and after[2] != before[2]
    for dead in (x, y):
        with pytest.raises(DonatedTensorError):
            dead.numpy()
    np.testing.assert_allclose(found[2], z.numpy() + 1, rtol=1e-6)


def test_what_a_segment_hands_on_gives_its_memory(gpu, monkeypatch) -> None:
    @phix.jit
    def f(x: Any) -> Any:
        here = ops.exp(x.to("cpu")) * 2.0
        return ops.sin(here.to("gpu")) + 1.0, here

    x = on(50)
    made = []
    allocate = gpu.empty
    monkeypatch.setattr(gpu, "empty", lambda *args: made.append(args) or allocate(*args))
    there, here = f(x)
    np.testing.assert_allclose(here, 2 * np.exp(x.numpy()), rtol=1e-5)
    np.testing.assert_allclose(there, np.sin(2 * np.exp(x.numpy())) + 1, rtol=1e-4, atol=1e-5)
    assert not made, "the copy's memory is the result's"


def test_a_loop_hands_on_what_it_was_given_and_it_is_left_alone(gpu) -> None:
    @partial(phix.jit, donate_argnums=0)
    def f(x: Any, n: Any) -> Any:
        doubled = x + x
        moved = phix.while_loop(
            lambda s: s[0] < n,
            lambda s: (s[0] + 1, ops.sin(s[1].to("gpu")).to("cpu")),
            (phix.to_tensor(0), doubled),
        )[1]
        return moved * 3.0, doubled - 1.0

    values = RNG.standard_normal(20)
    for turns in (0, 2):
        x = phix.to_tensor(values)
        wanted = 2 * values
        for _ in range(turns):
            wanted = np.sin(wanted)
        tripled, less = f(x, phix.to_tensor(turns))
        np.testing.assert_allclose(tripled, 3 * wanted, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(less, 2 * values - 1, rtol=1e-6, atol=1e-7)


def test_a_call_that_comes_again_is_replayed(gpu, monkeypatch) -> None:
    recorded = []
    monkeypatch.setattr(gpu, "recorded", lambda run: recorded.append(run) or run)
    x, f = on(100), phix.jit(lambda x: ops.sin(x) * 2.0)
    memory = gpu.empty((100,), np.dtype(np.float32))
    monkeypatch.setattr(gpu, "empty", lambda shape, dtype: memory)
    for _ in range(4):
        np.testing.assert_allclose(f(x), 2 * np.sin(x.numpy()), rtol=1e-5)
    assert len(recorded) == 1


def test_loops_with_small_bodies_run_as_one_kernel(gpu) -> None:
    xs, w = on(20, 8), on(8, 8) * 0.3
    rnn = phix.jit(lambda xs, w: phix.scan(lambda c, x: (ops.tanh(c @ w + x), c), xs[0], xs))
    for found, wanted in zip(rnn(xs, w), rnn(xs.to("cpu"), w.to("cpu")), strict=True):
        assert found.place.kind == "gpu"
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_over_single_values(gpu, name: str) -> None:
    """The same constants go into each of these calls: no call may leave results in their memory."""
    f, twin, points = LOOPS[name]
    with phix.device("gpu"):
        for x in map(np.asarray, points):
            np.testing.assert_allclose(f(x), twin(float(x)), rtol=1e-13)
            slope = (twin(float(x) + 1e-6) - twin(float(x) - 1e-6)) / 2e-6
            np.testing.assert_allclose(phix.grad(f)(x), slope, rtol=1e-6, atol=1e-7)
    assert phix.to_tensor(0.0).to("gpu").item() == 0.0


def test_sizes_that_data_tell_in_branches(gpu) -> None:
    def total(x: Any) -> Any:
        sums = phix.scan(lambda c, v: (c, x[x > v].sum()), 0.0, x)[1]
        return phix.cond(x[0] > 0, lambda s: (s[s > 1] ** 2.0).sum(), lambda s: s.sum(), sums)

    x = np.array([0.5, 2.0, 3.0])
    for sign, wanted in ((1.0, 5.0**2 + 3.0**2), (-1.0, -0.5 - 2.5)):
        assert phix.jit(total)(phix.to_tensor(sign * x, place="gpu")).item() == wanted


def test_bases_of_empty_matrices_are_those_of_numpy(gpu) -> None:
    for shape in ((3, 0), (2, 3, 0), (0, 3)):
        a = np.ones(shape)
        for ours, theirs in (
            (
                phix.linalg.qr(phix.to_tensor(a, place="gpu"), "complete"),
                np.linalg.qr(a, "complete"),
            ),
            (phix.linalg.svd(phix.to_tensor(a, place="gpu"), True), np.linalg.svd(a, True)),
        ):
            for x, y in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(x.numpy(), y)


def test_numbers_brought_to_another_place_are_not_written_to(gpu) -> None:
    g = on() * 0.0 + 5.0
    assert phix.to_tensor(1.0).add_(g).item() == 6.0
    assert (g + 1.0).item() == 6.0 and (g * phix.to_tensor(1.0)).item() == 5.0
    added = phix.jit(lambda x, g: x + g, donate_argnums=0)
    assert [added(phix.to_tensor(2.0), g).item() for _ in range(2)] == [7.0, 7.0]
    assert (g * phix.to_tensor(2.0)).item() == 10.0


def test_arrays_of_other_libraries_are_taken_where_they_are(gpu) -> None:
    theirs = GpuArray(np.arange(12, dtype=np.float32).reshape(3, 4).T)
    ours = phix.to_tensor(theirs)
    assert str(ours.place) == "gpu:0"
    np.testing.assert_array_equal(ours.numpy(), theirs.array)
    found = phix.jit(lambda x: x * 2.0)(theirs)
    assert str(found.place) == "gpu:0"
    theirs.array[...] = 0.0  # ours has its own memory
    np.testing.assert_array_equal(found.numpy(), ours.numpy() * 2)
    assert str(phix.to_tensor(theirs, place="cpu").place) == "cpu"


def test_arrays_of_devices_that_no_place_has() -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (10, 0)

    with pytest.raises(DeviceError, match="Elsewhere on a device of DLPack's kind 10"):
        phix.to_tensor(Elsewhere())


def test_the_place_is_gone_afterwards() -> None:
    with emulated():
        phix.zeros([2]).to("gpu")
    with pytest.raises(DeviceError, match="no place 'gpu'"):
        phix.zeros([2]).to("gpu")


# -- indices ---------------------------------------------------------------------------------------
def test_arrays_and_lists_out_of_range_are_refused_before_they_go_there(gpu) -> None:
    x = phix.to_tensor(np.arange(12.0).reshape(3, 4), place="gpu")
    calls: list[Any] = [
        lambda: x[[7]], lambda: x[np.array([0, -4])], lambda: x[1, np.array([4])],
        lambda: x[..., [4]], lambda: x.at[[7]].set(1.0), lambda: x[[True, False, True], [0, 9]],
        lambda: phix.grad(lambda x: ops.sum(x[[0, 5]]))(x),
        lambda: phix.vmap(lambda row: row[[9]])(x),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(TensorIndexError, match=r"index -?\d is out of range for axis"):
            call()


def test_tensors_there_are_looked_at_where_that_is_asked_for(gpu) -> None:
    x = phix.to_tensor(np.arange(12.0).reshape(3, 4), place="gpu")
    i = phix.to_tensor([7], place="gpu")
    np.testing.assert_array_equal(x[i], [[8, 9, 10, 11]])
    with phix.debug.check_indices():
        for call in (lambda: x[i], lambda: ops.gather(x, i), lambda: x.at[i].set(0.0)):
            with pytest.raises(TensorIndexError, match="holds 7, out of range"):
                call()


def test_ints_beside_lists_go_where_the_tensor_is(gpu) -> None:
    host = np.arange(12.0).reshape(3, 4)
    x = phix.to_tensor(host, place="gpu")
    np.testing.assert_array_equal(x[[0, 2], 1], host[[0, 2], 1])
    np.testing.assert_array_equal(x[-1, [0, 2]], host[-1, [0, 2]])
    wanted = host.copy()
    wanted[[0, 2], 1] += 5
    np.testing.assert_array_equal(x.at[[0, 2], 1].add(5.0), wanted)
