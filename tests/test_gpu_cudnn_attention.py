"""Attention by cuDNN: every argument against a stand-in, on the emulated place ``gpu``; what needs
no card against the package itself, and the kernels on a card, where these are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from cuda_emulator import STREAM
from cudnn_frontend import Frontend
from emulated_gpu import emulated
from gpu_programs import needs_compiler
from phix import ops
from phix.core.errors import DeviceError
from phix.kernels.gpu import cudnn, cudnn_attention, device, program
from phix.kernels.gpu.recordings import Recordings

RNG = np.random.default_rng(0)
pytestmark = [pytest.mark.xdist_group("gpu cudnn attention"), pytest.mark.unoptimised]
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2}
# lanes, queries, keys, size
SHAPES = {"plain": ((2, 3), 5, 5, 8), "one lane": ((2,), 4, 7, 16), "no lanes": ((), 9, 3, 8)}


def registered() -> list[str]:
    return [n for n in cudnn_attention.KERNELS if phix.kernels.keys(n, ["GPUDNN"])]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Frontend]:
    """The emulated GPU, with a stand-in of the front end and the kernels registered."""
    made = Frontend()
    monkeypatch.setattr(cudnn_attention, "frontend", lambda: made)
    monkeypatch.setattr(cudnn_attention, "problem", lambda: "")
    monkeypatch.setattr(cudnn_attention, "_handles", {})
    monkeypatch.setattr(cudnn, "library", lambda: None)
    monkeypatch.setattr(cudnn_attention, "load_helpers", lambda: None)
    cudnn_attention._say_once.cache_clear()
    with emulated():
        assert cudnn_attention.register()
        yield made
        for name in registered():
            phix.kernels.unregister_kernel(name, "GPUDNN")


def operands(dtype: str, lanes: Any, queries: int, keys: int, size: int, place: str = "gpu") -> Any:
    """Query, key, value and a cotangent."""
    rows = (queries, keys, keys, queries)
    arrays = [RNG.standard_normal((*lanes, n, size)) for n in rows]
    return [phix.to_tensor(a, dtype, place=place) for a in arrays]


def wide(*tensors: Any) -> list[np.ndarray]:
    return [np.asarray(t.numpy(), np.float64) for t in tensors]


def expected(q: Any, k: Any, v: Any, g: Any, scale: float, causal: bool) -> list[np.ndarray]:
    """Results and gradients as they are written, in float64."""
    q, k, v, g = wide(q, k, v, g)
    scores = np.einsum("...qd,...kd->...qk", q, k) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    slopes = np.einsum("...qd,...kd->...qk", g, v)
    slopes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True)) * scale
    to_key = np.einsum("...qk,...qd->...kd", slopes, q)
    return [weights @ v, slopes @ k, to_key, np.einsum("...qk,...qd->...kd", weights, g)]


def attention(scale: float, causal: bool) -> Any:
    return phix.jit(lambda q, k, v: ops.attention(q, k, v, None, scale, causal))


def gradients(scale: float, causal: bool) -> Any:
    def call(q: Any, k: Any, v: Any, g: Any) -> Any:
        return phix.vjp(lambda *x: ops.attention(*x, None, scale, causal), q, k, v)[1](g)

    return phix.jit(call)


def check(found: Any, wanted: Any, dtype: str) -> None:
    for f, w in zip(found, wanted, strict=True):
        assert str(f.dtype) == dtype
        atol = TOLERANCES[dtype] * max(np.abs(w).max(), 1)
        np.testing.assert_allclose(*wide(f), w, rtol=0, atol=atol)


def work(library: Frontend) -> list[str]:
    """What was computed, in order."""
    return [c[0] for c in library.calls if c[0] != "planned"]


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_and_gradients_against_numpy(
    stand_in: Frontend, shape: str, causal: bool, dtype: str
) -> None:
    given = operands(dtype, *SHAPES[shape])
    wanted = expected(*given, 0.3, causal)
    check([attention(0.3, causal)(*given[:3])], wanted[:1], dtype)
    assert work(stand_in) == ["forward"] and stand_in.stream == STREAM
    assert stand_in.calls[-1][1:] == (causal, ["k", "o", "q", "v"])
    stand_in.calls.clear()
    check(gradients(0.3, causal)(*given), wanted[1:], dtype)
    assert work(stand_in) == ["forward", "backward"]
    assert stand_in.calls[-2][2] == ["k", "o", "q", "stats", "v"]


def both(scale: float, causal: bool, after: Any = lambda y: y) -> Any:
    """Results and gradients in one program; ``after`` is done to the results."""

    def call(q: Any, k: Any, v: Any, g: Any) -> Any:
        found, back = phix.vjp(lambda *x: ops.attention(*x, None, scale, causal), q, k, v)
        return [after(found), *back(g)]

    return phix.jit(call)


@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_the_attention_finds_is_kept_for_its_gradient(
    stand_in: Frontend, shape: str, causal: bool, dtype: str
) -> None:
    given = operands(dtype, *SHAPES[shape])
    f = both(0.3, causal)
    for _ in range(2):
        check(f(*given), expected(*given, 0.3, causal), dtype)
    assert work(stand_in) == ["forward", "backward"] * 2
    assert stand_in.calls[-2][2] == ["k", "o", "q", "stats", "v"]


@needs_compiler
def test_it_is_kept_for_all_sizes_and_in_loops(stand_in: Frontend) -> None:
    spec = phix.spec(["b", "n", 8], "float16")
    f = both(0.5, True)
    g = phix.jit(lambda *x: f(*x), input_spec=[spec] * 4)
    for n in (3, 6, 3):
        given = operands("float16", (2,), n, n, 8)
        check(g(*given), expected(*given, 0.5, True), "float16")
    assert work(stand_in) == ["forward", "backward"] * 3

    def steps(q: Any, k: Any, v: Any) -> Any:
        run = phix.scan(lambda c, _: (ops.attention(c, k, v), ops.sum(c)), q, length=3)
        return ops.sum(ops.cast(run[0], "float32") ** 2)

    q, k, v, _ = operands("float16", (2,), 4, 4, 8)
    slope = phix.jit(phix.grad(steps, (0, 1, 2)))
    there = phix.grad(steps, (0, 1, 2))(*(t.to("cpu") for t in (q, k, v)))
    for found, wanted in zip(slope(q, k, v), there, strict=True):
        np.testing.assert_allclose(*wide(found), *wide(wanted), rtol=0, atol=3e-2)


@needs_compiler
def test_other_operands_and_other_scales_share_nothing(stand_in: Frontend) -> None:
    def call(q: Any, k: Any, v: Any, g: Any) -> Any:
        found = ops.attention(q, k, v, None, 0.3, False)
        _, other_scale = phix.vjp(lambda *x: ops.attention(*x, None, 0.4, False), q, k, v)
        _, other_keys = phix.vjp(lambda *x: ops.attention(*x, None, 0.3, False), q, v, k)
        return [found, *other_scale(g), *other_keys(g)]

    given = operands("float16", *SHAPES["plain"])
    q, k, v, g = given
    wanted = [
        *expected(*given, 0.3, False)[:1], *expected(*given, 0.4, False)[1:],
        *expected(q, v, k, g, 0.3, False)[1:],
    ]  # fmt: skip
    check(phix.jit(call)(*given), wanted, "float16")
    assert sorted(work(stand_in)) == ["backward"] * 2 + ["forward"] * 3


@needs_compiler
def test_gradients_of_networks_with_two_attentions(stand_in: Frontend) -> None:
    def loss(x: Any, w: Any) -> Any:
        for _ in range(2):
            x = x + ops.tanh(ops.attention(x @ w, x, x * 0.5, None, 0.3, True))
        return ops.sum(ops.cast(x, "float32") ** 2)

    x, w = (phix.to_tensor(RNG.standard_normal(d) / 3, "float16", place="gpu")
            for d in [(2, 6, 8), (8, 8)])  # fmt: skip
    there = phix.value_and_grad(loss, (0, 1))(x.to("cpu"), w.to("cpu"))
    found = phix.jit(phix.value_and_grad(loss, (0, 1)))(x, w)
    assert sorted(work(stand_in)) == ["backward"] * 2 + ["forward"] * 2
    for f, t in zip(phix.tree.leaves(found), phix.tree.leaves(there), strict=True):
        np.testing.assert_allclose(*wide(f), *wide(t), rtol=5e-2, atol=0.2)


@needs_compiler
def test_gradients_that_nothing_reads(stand_in: Frontend) -> None:
    given = operands("float16", *SHAPES["plain"])
    found = phix.jit(lambda *x: gradients(0.3, True)(*x)[1])(*given)
    check([found], [expected(*given, 0.3, True)[2]], "float16")
    assert work(stand_in) == ["forward", "backward"]


@needs_compiler
def test_a_plan_for_each_size(stand_in: Frontend) -> None:
    spec = phix.spec(["b", "n", 8], "float16")
    f = phix.jit(lambda q, k, v: ops.attention(q, k, v), input_spec=[spec] * 3)
    for n in (3, 4, 3):
        given = operands("float16", (2,), n, n, 8)
        check([f(*given[:3])], expected(*given, 1.0, False)[:1], "float16")
    assert f.trace_count == 1
    assert [c[0] for c in stand_in.calls] == ["planned", "forward"] * 2 + ["forward"]


# what differs of: dtype, dims of query, of key, of value, mask, scale
ELSEWHERE: dict[str, dict[str, Any]] = {
    "float32": {"dtype": "float32"},
    "a mask": {"mask": np.ones((4, 4), bool)},
    "lanes that broadcast": {"key": (4, 8), "value": (4, 8)},
    "an odd size": {"query": (2, 4, 6), "key": (2, 4, 6), "value": (2, 4, 6)},
    "values of another size": {"value": (2, 4, 16)},
    "a scale below 0": {"scale": -1.0},
    "no scale": {"scale": 0.0},
    "no lanes at all": {"query": (0, 4, 8), "key": (0, 4, 8), "value": (0, 4, 8)},
    "no queries": {"query": (2, 0, 8)},
}


@needs_compiler
@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_the_engine_does_itself(stand_in: Frontend, case: str) -> None:
    how = {"dtype": "float16", "mask": None, "scale": 1.0, **ELSEWHERE[case]}
    q, k, v = (
        phix.to_tensor(RNG.standard_normal(how.get(n, (2, 4, 8))), how["dtype"], place="gpu")
        for n in ("query", "key", "value")
    )
    mask = how["mask"] if how["mask"] is None else phix.to_tensor(how["mask"], place="gpu")
    found = phix.jit(lambda *x: ops.attention(*x, how["scale"]))(q, k, v, mask)
    there = [None if t is None else t.to("cpu") for t in (q, k, v, mask)]
    wanted = ops.attention(*there, how["scale"])
    np.testing.assert_allclose(*wide(found), *wide(wanted), rtol=0, atol=4e-3)
    assert not stand_in.calls


@needs_compiler
@pytest.mark.parametrize("step", ["validate", "check_support", "build_plans"])
def test_what_cudnn_refuses_the_engine_does(stand_in: Frontend, step: str, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "phix.kernels")
    stand_in.refuses = {"backward": step}
    given = operands("float16", *SHAPES["plain"])
    f = gradients(0.3, True)
    for _ in range(2):
        check(f(*given), expected(*given, 0.3, True)[1:], "float16")
    assert not work(stand_in)
    assert [r.message for r in caplog.records if "refuses" in r.message] == [
        f"attention (backward) is a kernel of phix where cuDNN refuses it: {step} of backward"
    ]
    check([attention(0.3, True)(*given[:3])], expected(*given, 0.3, True)[:1], "float16")
    assert work(stand_in) == ["forward"], "results are cuDNN's still"


@needs_compiler
def test_a_refusal_inside_a_loop_and_of_some_sizes_alone(stand_in: Frontend) -> None:
    def steps(q: Any, k: Any, v: Any) -> Any:
        return phix.scan(lambda c, _: (ops.attention(c, k, v), c), q, length=2)[0]

    spec = phix.spec(["n", 8], "float16")
    f = phix.jit(steps, input_spec=[spec] * 3)
    for n, is_refused in ((3, False), (5, True), (3, False)):
        stand_in.refuses = {"forward": "check_support"} if is_refused else {}
        stand_in.calls.clear()
        q, k, v, _ = operands("float16", (), n, n, 8)
        there = steps(*(t.to("cpu") for t in (q, k, v)))
        np.testing.assert_allclose(*wide(f(q, k, v)), *wide(there), rtol=0, atol=4e-3)
        assert work(stand_in) == ([] if is_refused else ["forward"] * 2)
    assert f.trace_count == 1


@needs_compiler
def test_too_much_memory_is_refused(stand_in: Frontend) -> None:
    stand_in.workspace = (1 << 30) + 1
    given = operands("bfloat16", *SHAPES["plain"])
    check([attention(0.3, False)(*given[:3])], expected(*given, 0.3, False)[:1], "bfloat16")
    assert not work(stand_in)


@needs_compiler
def test_old_versions_have_no_gradient_for_parts_of_a_tile(stand_in: Frontend) -> None:
    """Their front end masks the rest by lengths that it keeps on the host."""
    stand_in.version = 91500
    given = operands("float16", (1,), 3, 5, 8)
    check(gradients(0.3, False)(*given), expected(*given, 0.3, False)[1:], "float16")
    assert not work(stand_in)
    given = operands("float16", (1,), 3, 128, 8)
    check(gradients(0.3, False)(*given), expected(*given, 0.3, False)[1:], "float16")
    assert work(stand_in) == ["forward", "backward"]


@needs_compiler
def test_a_library_that_does_not_work_is_left_alone(
    stand_in: Frontend, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fails() -> int:
        raise RuntimeError("cudnnHandle Create failed")

    monkeypatch.setattr(stand_in, "create_handle", fails)
    given = operands("float16", *SHAPES["plain"])
    for _ in range(2):
        check([attention(0.3, True)(*given[:3])], expected(*given, 0.3, True)[:1], "float16")
    assert [r.message for r in caplog.records] == [
        "attention is a kernel of phix: cuDNN's front end fails (cudnnHandle Create failed)"
    ]


@needs_compiler
def test_a_recording_keeps_plans_and_memory(
    monkeypatch: pytest.MonkeyPatch, stand_in: Frontend
) -> None:
    runtime, made = device.runtime(), []
    replayed = []

    class Watched(Recordings):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def record(run: Any) -> Any:
        run()
        return lambda: replayed.append(True)

    monkeypatch.setattr(program, "Recordings", Watched)
    monkeypatch.setattr(runtime, "recorded", record)
    given = operands("float16", (1,), 4, 4, 8)[:3]
    f = attention(0.3, True)
    assert "kernel of a library attention" in f.lower(*given).as_text("loop ir")
    memory = runtime.empty((1, 4, 8), np.dtype(np.float16))
    monkeypatch.setattr(runtime, "empty", lambda shape, dtype: memory)
    for _ in range(3):
        f(*given)
    assert len(replayed) == 2
    ((_, kept),) = made[0].seen.values()
    memory_of_it, plan = kept[0]
    assert memory_of_it.shape == (256,) and isinstance(plan, cudnn_attention.Plan)


@needs_compiler
def test_kernels_that_find_kernels(stand_in: Frontend) -> None:
    q, k, v, _ = operands("float16", (2,), 4, 4, 8)
    ctx = device.runtime().context([])
    found = phix.kernels.find("attention", ctx.place, "float16")
    out = device.runtime().empty((2, 4, 8), np.dtype(np.float16))
    wanted = expected(q, k, v, q, 0.3, False)[0]
    for _ in range(2):
        found(ctx, q.data, k.data, v.data, None, 0.3, False, out)
        np.testing.assert_allclose(out.array.astype(float), wanted, rtol=0, atol=4e-3)
        assert work(stand_in) == ["forward"]
        stand_in.refuses = {"forward": "validate"}
        cudnn_attention._handles.clear()


def test_kernels_can_be_taken_away(stand_in: Frontend) -> None:
    key = phix.kernels.KernelKey("GPUDNN", "any", phix.float16)
    assert phix.kernels.find("attention", key).key.backend == "GPUDNN"
    phix.kernels.unregister_kernel("attention", "GPUDNN")
    assert phix.kernels.find("attention", key).key.backend == "GPU"


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (None, "nvidia-cudnn-frontend is not installed"),
        ("1.19.1", "nvidia-cudnn-frontend 1.19.1 is none of the versions from 1.20 to below 1.27"),
        ("1.27.0", "nvidia-cudnn-frontend 1.27.0 is none of the versions from 1.20 to below 1.27"),
        ("1.26.0", ""), ("1.20", ""),
    ],
)  # fmt: skip
def test_which_packages_are_taken(monkeypatch: Any, version: str | None, why: str) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise cudnn_attention.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(cudnn_attention.metadata, "version", installed)
    assert cudnn_attention.problem() == why


def absent() -> Any:
    raise DeviceError("nor is it here")


def test_without_a_package_nothing_changes(monkeypatch: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "phix.kernels")
    before = registered()
    for front_end, why in [("there is none", "there is none"), ("", "no cuDNN (nor is it here)")]:
        monkeypatch.setattr(cudnn_attention, "problem", lambda why=front_end: why)
        monkeypatch.setattr(cudnn_attention.cudnn, "library", absent)
        assert not cudnn_attention.register() and registered() == before
        assert caplog.records[-1].message == f"attention is a kernel of phix: {why}"


# -- the package itself --------------------------------------------------------------------------
@pytest.fixture
def real() -> Any:
    try:
        return cudnn_attention.frontend()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "what",
    [cudnn_attention.FORWARD, cudnn_attention.WITH_STATISTICS, cudnn_attention.BACKWARD],
)
@pytest.mark.parametrize("dtype", cudnn_attention.DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_the_package_takes_our_graphs(real: Any, what: str, dtype: Any, causal: bool) -> None:
    problem = cudnn_attention.Problem(what, dtype, (2, 3), 129, 65, 64, 0.125, causal)
    graph = cudnn_attention.Description(real, problem, sm_version=90).graph
    graph.validate()


def test_the_package_has_its_functions(real: Any) -> None:
    assert real.backend_version() >= 90000
    assert callable(real.create_handle) and "handle: int, stream: int" in real.set_stream.__doc__
    steps = ("build_operation_graph", "create_execution_plans", "check_support", "build_plans",
             "get_workspace_size")  # fmt: skip
    assert all(hasattr(real.pygraph, name) for name in steps)
    assert "workspace: int, handle: " in real.pygraph._execute.__doc__


# -- on a card -----------------------------------------------------------------------------------
on_a_card = [
    pytest.mark.gpu,
    pytest.mark.skipif(not device.DEVICE.count(), reason=f"no GPU: {device.DEVICE.problem()}"),
    pytest.mark.xdist_group("gpu"),
]
# lanes, queries, keys, size
ON_A_CARD = [
    ((2, 3), 256, 256, 64), ((6,), 129, 129, 64), ((2, 2), 64, 333, 64), ((2, 2), 333, 64, 128),
    ((3,), 1, 200, 128), ((), 200, 1, 40), ((2,), 7, 5, 8),
]  # fmt: skip


def _needs_cudnn() -> None:
    if not registered():
        pytest.skip("no cuDNN front end: pip install phix[cudnn13,attention13]")


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ON_A_CARD, ids=str)
class TestOnACard:
    pytestmark = on_a_card

    def test_against_numpy_recorded_and_replayed(
        self, shape: Any, causal: bool, dtype: str
    ) -> None:
        """Of sizes that cuDNN refuses, too."""
        _needs_cudnn()
        given = operands(dtype, *shape)
        scale = shape[-1] ** -0.5
        wanted = expected(*given, scale, causal)
        forward, backward = attention(scale, causal), gradients(scale, causal)
        together = both(scale, causal)
        seen = set()
        for _ in range(5):
            found, at_once = [forward(*given[:3]), *backward(*given)], together(*given)
            check(found, wanted, dtype)
            check(at_once, wanted, dtype)
            seen.add(b"".join(f.numpy().tobytes() for f in [*found, *at_once]))
        assert len(seen) == 1, "the same on every run"


@pytest.mark.parametrize("size", [64, 128])
class TestOnACardByCudnn:
    pytestmark = on_a_card

    def test_cudnn_takes_what_networks_have(self, size: int) -> None:
        _needs_cudnn()
        given = operands("bfloat16", (2, 4), 512, 512, size)
        check(gradients(0.125, True)(*given), expected(*given, 0.125, True)[1:], "bfloat16")
        found = cudnn_attention.handle(0)
        assert found is not None
        made = [p for p, plan in found.plans.items() if plan is not None and p.size == size]
        assert {p.what for p in made if p.queries == 512} == {
            cudnn_attention.WITH_STATISTICS, cudnn_attention.BACKWARD,
        }  # fmt: skip
