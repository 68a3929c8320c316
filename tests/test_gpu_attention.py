"""Attention as one kernel of the GPU: through NVRTC, and run on the CPU against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import compile_all, kept, needs_compiler, program, shapes
from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.graph import Graph
from phix.kernels import KernelKey
from phix.kernels.gpu.attention import Attention
from phix.kernels.gpu.attention_grad import KeyGradient, QueryGradient
from phix.kernels.gpu.products import Product
from phix.kernels.loops import nodes as ir

RNG = np.random.default_rng(0)
pytestmark = [pytest.mark.xdist_group("gpu attention"), pytest.mark.unoptimised]


def normal(*dims: int, dtype: str = "float32") -> np.ndarray:
    return np.array(phix.to_tensor(RNG.standard_normal(dims), dtype))


def expected(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> np.ndarray:
    """softmax(q k^T scale + mask) v in float64, as it is written."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = np.einsum("...qd,...kd->...qk", q, k) * scale
    seen = np.tri(*scores.shape[-2:], dtype=bool) if causal else np.True_
    if mask is not None:
        seen, added = (seen & mask, 0) if mask.dtype == bool else (seen, mask.astype(np.float64))
        scores = scores + added
    with np.errstate(all="ignore"):
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("...qk,...kd->...qd", weights / weights.sum(-1, keepdims=True), v)


def graph_of(arrays: Any, scale: float, causal: bool, specs: Any = None) -> Graph:
    def call(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return ops.attention(q, k, v, mask, scale, causal)

    return kept(call, "attention", like=specs or [phix.Tensor(a) for a in arrays])


def check(arrays: Any, scale: float = 0.3, causal: bool = False, specs: Any = None,
          tolerance: float = 2e-5) -> Any:  # fmt: skip
    made = program(graph_of(arrays, scale, causal, specs))
    (out,) = made.launcher(shapes(arrays))(*arrays)
    mask = arrays[3] if len(arrays) > 3 else None
    wanted = expected(*arrays[:3], mask, scale, causal)
    assert out.dtype == arrays[0].dtype
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    return made


TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-12}


@pytest.mark.one_in(8)
@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("queries", "keys", "size", "width"),
    [(1, 1, 1, 1), (3, 200, 64, 64), (130, 65, 33, 17), (64, 64, 256, 256)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_sizes_and_dtypes(dtype, queries, keys, size, width, causal) -> None:
    arrays = [normal(queries, size, dtype=dtype), normal(keys, size, dtype=dtype),
              normal(keys, width, dtype=dtype)]  # fmt: skip
    made = check(arrays, size**-0.5, causal, tolerance=TOLERANCES[dtype])
    (kernel,) = made.loops.steps
    assert isinstance(kernel, Attention)
    assert not made.loops.temps, "scores never leave the block"


@pytest.mark.one_in(5)
@needs_compiler
@pytest.mark.parametrize("kind", ["bool", "float32", "float16"])
@pytest.mark.parametrize("dims", [(70, 90), (1, 90), (90,), (2, 1, 70, 1), (2, 3, 70, 90)])
def test_masks_broadcast(kind: str, dims: tuple[int, ...]) -> None:
    mask = RNG.random(dims) > 0.2 if kind == "bool" else normal(*dims, dtype=kind)
    arrays = [normal(2, 1, 70, 8), normal(3, 90, 8), normal(90, 5), mask]
    check(arrays)
    check(arrays, causal=True)


@needs_compiler
def test_queries_that_see_nothing_and_numbers_that_are_none() -> None:
    q, k, v = normal(100, 16), normal(80, 16), normal(80, 4)
    mask = RNG.random((100, 80)) > 0.5
    mask[[3, 99]] = False
    q[7, 2] = np.nan
    k[5, 1] = np.inf
    with np.errstate(all="ignore"):
        check([q, k, v, mask])
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    with np.errstate(all="ignore"):
        check([q, k, v, added])
    v[11, 0] = np.inf
    (out,) = program(graph_of([q, k, v], 0.3, False)).launcher(shapes([q, k, v]))(q, k, v)
    with np.errstate(all="ignore"):
        wanted = expected(q, k, v, None, 0.3, False)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(out), np.isinf(wanted))


@needs_compiler
def test_causal_blocks_read_no_key_behind_their_queries() -> None:
    q, k, v = normal(64, 8), normal(500, 8), normal(500, 8)
    poisoned = v.copy()
    poisoned[64:] = np.nan  # a weight of 0 would make NaN of it
    made = program(graph_of([q, k, v], 0.3, True))
    launch = made.launcher(shapes([q, k, v]))
    np.testing.assert_array_equal(launch(q, k, poisoned)[0], launch(q, k, v)[0])


@needs_compiler
def test_one_program_for_all_sizes() -> None:
    specs = [phix.spec(["b", "q", 8]), phix.spec(["k", 8]), phix.spec(["k", 8]),
             phix.spec(["q", 1], "bool")]  # fmt: skip
    for b, q, k in [(1, 1, 1), (2, 70, 3), (3, 5, 129), (0, 4, 4), (2, 0, 4)]:
        mask = np.ones((q, 1), bool)
        check([normal(b, q, 8), normal(k, 8), normal(k, 8), mask], specs=specs)


@needs_compiler
@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_are_too_large_or_unknown_go_by_products(causal: bool) -> None:
    mask = RNG.random((2, 9, 11)) > 0.2
    mask[..., 0] = True
    arrays = [normal(2, 9, 300), normal(2, 11, 300), normal(2, 11, 3), mask]
    assert len(check(arrays, 0.05, causal).loops.steps) == 3
    specs = [phix.spec([9, "d"], "float16"), phix.spec([11, "d"], "float16"),
             phix.spec([11, "w"], "float16"), phix.spec([1, 11])]  # fmt: skip
    half = [normal(9, 20, dtype="float16"), normal(11, 20, dtype="float16"),
            normal(11, 7, dtype="float16"), normal(1, 11)]  # fmt: skip
    check(half, 0.2, causal, specs, tolerance=4e-3)


@needs_compiler
def test_it_is_the_same_on_every_run_and_in_any_batch() -> None:
    q, k, v = normal(3, 70, 16), normal(3, 90, 16), normal(3, 90, 16)
    launch = program(graph_of([q, k, v], 0.25, False)).launcher(shapes([q, k, v]))
    alone = program(graph_of([q[1], k[1], v[1]], 0.25, False)).launcher(shapes([q[1], k[1], v[1]]))
    (out,) = launch(q, k, v)
    assert out.tobytes() == launch(q, k, v)[0].tobytes()
    assert out[1].tobytes() == alone(q[1], k[1], v[1])[0].tobytes()


@pytest.mark.one_in(3)
@needs_compiler
@pytest.mark.parametrize(("dtype", "size"), [("float32", 20), ("float32", 72), ("float64", 10)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_rows_of_a_tile_change_no_result(dtype, size, causal, monkeypatch) -> None:
    arrays = [normal(2, 75, size, dtype=dtype), normal(67, size, dtype=dtype),
              normal(67, 9, dtype=dtype)]  # fmt: skip
    like = [phix.Tensor(a) for a in arrays]
    found: dict[int, list[bytes]] = {}
    for few in (0, 2 * 2 + 1, 1 << 30):  # tiles of 64, 32 and 16 queries; of float64 of 32 and 16
        monkeypatch.setattr(Attention, "FEW_BLOCKS", few)
        check(arrays, 0.2, causal, tolerance=TOLERANCES[dtype])
        made = program(kept(grads(0.2, causal, 3), "attention", "attention_grad", like=like))
        (step, *_) = [s for s in made.loops.steps if isinstance(s, Attention)]
        outs = made.launcher(shapes(arrays))(*arrays)
        found[step.rows] = [o.tobytes() for o in outs]
    check_grads(arrays, 0.2, causal, tolerance=2 * TOLERANCES[dtype])
    assert sorted(found) == ([16, 32] if dtype == "float64" else [16, 32, 64])
    assert all(outs == found[16] for outs in found.values())


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operands_need_not_be_aligned(dtype: str) -> None:
    def shifted(*dims: int) -> np.ndarray:
        flat = normal(int(np.prod(dims)) + 1, dtype=dtype)
        return flat[1 if flat.ctypes.data % 16 == 0 else 0 :][: flat.size - 1].reshape(dims)

    arrays = [shifted(20, 16), shifted(40, 16), shifted(40, 8)]
    assert all(a.ctypes.data % 16 for a in arrays)
    check(arrays, tolerance=TOLERANCES[dtype])
    check_grads(arrays, tolerance=2 * TOLERANCES[dtype])


@needs_compiler
def test_it_stands_inside_loops_and_beside_other_kernels() -> None:
    xs = normal(4, 5, 8)

    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = ops.tanh(c + ops.attention(x, c, c * 2.0, None, 0.5, True))
            return c, ops.sum(c)

        return phix.scan(step, xs[0] * 0.0, xs)

    graph = kept(f, "attention", like=[phix.Tensor(xs)])
    found = program(graph).launcher(shapes([xs]))(xs)
    for got, wanted in zip(found, phix.tree.leaves(f(phix.Tensor(xs))), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


# -- gradients ---------------------------------------------------------------------------------
def grads(scale: float, causal: bool, count: int) -> Any:
    """The gradients of a function of attention to its first ``count`` arguments."""

    def call(*arrays: Any) -> Any:
        def loss(*args: Any) -> Any:
            mask = args[3] if len(args) > 3 else None
            return ops.sum(ops.sin(ops.attention(*args[:3], mask, scale, causal)))

        return phix.grad(loss, tuple(range(count)))(*arrays)

    return call


def check_grads(arrays: Any, scale: float = 0.3, causal: bool = False, specs: Any = None,
                tolerance: float = 2e-5) -> Any:  # fmt: skip
    """The kernels' gradients against those of the parts, in float64."""
    count = len(arrays) - (len(arrays) > 3 and arrays[3].dtype == bool)
    function = grads(scale, causal, count)
    like = specs or [phix.Tensor(a) for a in arrays]
    made = program(kept(function, "attention", "attention_grad", like=like))
    found = made.launcher(shapes(arrays))(*arrays)
    wide = [a if a.dtype == bool else a.astype(np.float64) for a in arrays]
    for got, wanted, array in zip(found, function(*map(phix.Tensor, wide)), arrays, strict=False):
        assert got.dtype == array.dtype and got.shape == array.shape
        largest = max(np.nanmax(np.abs(wanted.numpy()), initial=0), 1e-3)
        np.testing.assert_allclose(
            got.astype(np.float64), wanted, rtol=0, atol=tolerance * largest, equal_nan=True
        )
    return made


@pytest.mark.one_in(8)
@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("queries", "keys", "size", "width"),
    [(1, 1, 1, 1), (3, 200, 64, 64), (130, 65, 33, 17), (17, 20, 256, 256)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_sizes_and_dtypes(dtype, queries, keys, size, width, causal) -> None:
    arrays = [normal(queries, size, dtype=dtype), normal(keys, size, dtype=dtype),
              normal(keys, width, dtype=dtype)]  # fmt: skip
    made = check_grads(arrays, size**-0.5, causal, tolerance=2 * TOLERANCES[dtype])
    found = [s for s in made.loops.steps if type(s) is not ir.Kernel]
    for step, kind in zip(found, (Attention, QueryGradient, KeyGradient), strict=True):
        assert isinstance(step, kind)
    squares = [t for t in made.loops.temps if dm.same(dm.product(t.dims), queries * keys)]
    assert not squares or 1 in (queries, keys), "scores never leave the block"


@pytest.mark.one_in(5)
@needs_compiler
@pytest.mark.parametrize("kind", ["bool", "float32", "float16"])
@pytest.mark.parametrize("dims", [(70, 90), (1, 90), (90,), (2, 1, 70, 1), (2, 3, 70, 90)])
def test_gradients_where_masks_and_operands_broadcast(kind: str, dims: tuple[int, ...]) -> None:
    mask = RNG.random(dims) > 0.2 if kind == "bool" else normal(*dims, dtype=kind)
    arrays = [normal(2, 1, 70, 8), normal(3, 90, 8), normal(90, 5), mask]
    tolerance = 2e-3 if kind == "float16" else 5e-5
    if kind == "bool" or dims[-1] != 1:  # numbers for whole rows change nothing: all noise
        check_grads(arrays, tolerance=tolerance)
    if dims[-1] != 1:
        if kind == "bool":
            mask[..., 0] = True  # else rows that see nothing make other keys NaN, or do not
        check_grads(arrays, causal=True, tolerance=tolerance)


@needs_compiler
def test_gradients_of_queries_that_see_nothing() -> None:
    q, k, v = normal(100, 16), normal(80, 16), normal(80, 4)
    mask = RNG.random((100, 80)) > 0.5
    mask[[3, 99]] = False
    made = program(kept(grads(0.3, False, 3), "attention", "attention_grad",
                        like=[phix.Tensor(a) for a in (q, k, v, mask)]))  # fmt: skip
    found = made.launcher(shapes([q, k, v, mask]))(q, k, v, mask)
    with np.errstate(all="ignore"):
        wanted = grads(0.3, False, 3)(*map(phix.Tensor, (q, k, v, mask)))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want.numpy()))
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)
    assert np.isnan(found[0][[3, 99]]).all() and not np.isnan(found[0][:3]).any()


@needs_compiler
def test_one_program_of_gradients_for_all_sizes() -> None:
    specs = [phix.spec(["b", "q", 8]), phix.spec(["k", 8]), phix.spec(["k", 8]),
             phix.spec(["q", 1], "bool")]  # fmt: skip
    for b, q, k in [(1, 1, 1), (2, 70, 3), (3, 5, 129), (0, 4, 4), (2, 0, 4)]:
        mask = np.ones((q, 1), bool)
        check_grads([normal(b, q, 8), normal(k, 8), normal(k, 8), mask], specs=specs)


@needs_compiler
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_heads_that_are_too_large_or_unknown(causal: bool) -> None:
    arrays = [normal(2, 9, 300), normal(2, 11, 300), normal(11, 3), normal(9, 11)]
    made = check_grads(arrays, 0.05, causal, tolerance=5e-5)
    assert not any(isinstance(s, Attention) for s in made.loops.steps)
    specs = [phix.spec([9, "d"], "float16"), phix.spec([11, "d"], "float16"),
             phix.spec([11, "w"], "float16")]  # fmt: skip
    half = [normal(9, 20, dtype="float16"), normal(11, 20, dtype="float16"),
            normal(11, 7, dtype="float16")]  # fmt: skip
    check_grads(half, 0.2, causal, specs, tolerance=4e-3)


@pytest.mark.parametrize("wanted", [False, True])
def test_scores_are_in_memory_where_a_mask_has_a_gradient(wanted: bool) -> None:
    arrays = [normal(9, 8), normal(11, 8), normal(11, 3), normal(9, 11)]
    like = [phix.Tensor(a) for a in arrays]
    made = program(kept(grads(0.3, False, 3 + wanted), "attention", "attention_grad", like=like))
    kinds = {type(s) for s in made.loops.steps}
    assert Attention in kinds and (Product in kinds) is wanted
    assert ({QueryGradient, KeyGradient} <= kinds) is not wanted


@pytest.mark.one_in(8)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("size", "width"), [(64, 64), (128, 128), (256, 256), (33, 1)])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_it_compiles_for_the_gpu(dtype: str, size: int, width: int, causal: bool) -> None:
    dims = [["b", "h", "q", size], ["b", "h", "k", size], ["b", "h", "k", width]]
    specs = [phix.spec(d, dtype) for d in dims]
    mask = [] if causal else [phix.spec(["q", "k"], "bool" if size == 64 else dtype)]
    made = program(graph_of((), 0.125, causal, [*specs, *mask]))
    both = kept(grads(0.125, causal, 3), "attention", "attention_grad", like=[*specs, *mask])
    compile_all([made.sections["cuda"], program(both).sections["cuda"]])


@pytest.mark.one_in(5)  # a second or more each
@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 64), ("float32", 128), ("float32", 256), ("float64", 256), ("float16", 256)],
)
def test_all_tiles_fit_a_block(dtype: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [phix.spec([2, 128, size], dtype)] * 3
    modules = []
    for few in (5, 1 << 30):  # the largest tiles are those of unknown sizes
        monkeypatch.setattr(Attention, "FEW_BLOCKS", few)
        graph = kept(grads(0.125, True, 3), "attention", "attention_grad", like=specs)
        modules.append(program(graph).sections["cuda"])
    compile_all(modules)


def test_the_engine_says_that_it_has_it() -> None:
    for dtype in (dt.float16, dt.bfloat16, dt.float32, dt.float64):
        for name in ("attention", "attention_grad"):
            assert phix.kernels.find(name, KernelKey("GPU", "any", dtype)).key.backend == "GPU"
