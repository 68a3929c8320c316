"""Sizes that printed modules refuse: those that phix refuses, and no others.

A printed module knows nothing of ops. What an op asks of sizes stands in it as conditions, which
``phix/kernels/numba/printed/conditions.py`` finds by asking the op's rule.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from harness.cases import Case, table_cases
from numba_code import in_place_of_llvm, plain
from phix import numpy as pn
from phix import ops
from phix.api.graphs import trace
from phix.core import dims as dm
from phix.core.errors import KernelNotFoundError, PhixError
from phix.kernels.numba.printed import conditions as cs
from phix.passes.check import infer_again
from proofs import thinned

pytestmark = pytest.mark.unoptimised

OPS = [case for case in table_cases() if "elsewhere" not in case.test and "ref" in case.test]
# Conditions of few kinds refuse some sizes that these fit, or are none; they never let others pass.
STRICT = {
    "crf_decoding", "flash_attn_varlen_qkvpacked", "sequence_conv", "weight_dequantize",
    "weight_only_linear",
}  # fmt: skip


def positives(x: Any) -> Any:
    return x[pn.nonzero(x > 0)[0]]


def added_up(x: Any, y: Any) -> Any:
    return phix.fori_loop(0, 3, lambda _, total: total + y * 2.0, x)


# A function of arrays with all dims unknown, shapes that it takes, shapes that it does not, and
# what the entry says of these.
CASES: dict[str, tuple[Callable[..., Any], Any, Any, str]] = {
    "sum": (lambda x, y: x + y, [(3,), (1,)], [(3,), (2,)], "add asks for .* x_dim == y_dim"),
    "broadcast": (lambda x, y: x + y, [(1, 2), (3, 2)], [(3, 2), (2, 2)], "add asks"),
    "index": (lambda x: x[3], [(4,)], [(3,)], "slice asks for sizes with .* >= 4"),
    "index from the end": (lambda x: x[-2], [(2,)], [(1,)], "slice asks"),
    "far index": (lambda x: x[2500], [(2501,)], [(2500,)], ">= 2501"),
    "max": (lambda x: pn.max(x, axis=1), [(0, 1)], [(2, 0)], "max asks for sizes with x_dim1 > 0"),
    "matmul": (lambda x, y: x @ y, [(2, 3), (3, 4)], [(2, 3), (2, 4)], "matmul asks"),
    "concat": (lambda x, y: pn.concatenate([x, y]), [(2, 3), (1, 3)], [(2, 3), (1, 2)], "concat"),
    "reshape": (lambda x: pn.reshape(x, [-1, 3]), [(2, 6)], [(2, 5)], "reshape asks"),
    "reshape to known": (lambda x: pn.reshape(x, [2, 6]), [(3, 4)], [(3, 5)], "== 12"),
    "convolution": (
        lambda x, w: ops.conv2d(x, w), [(1, 2, 5, 4), (3, 2, 3, 3)], [(1, 2, 5, 2), (3, 2, 3, 3)],
        "conv2d asks"),
    "put": (lambda x, y: x.at[1:-1].set(y), [(6,), (4,)], [(6,), (3,)], "slice_put asks"),
    "equal parts": (lambda x: ops.split_with_num(x, 3, 0)[1], [(6,)], [(7,)], "x_dim % 3 == 0"),
    "shuffled pixels": (
        lambda x: ops.pixel_shuffle(x, 2), [(1, 8, 2, 3)], [(1, 6, 2, 3)], "x_dim1 % 4 == 0"),
    "average": (lambda x, w: pn.average(x, weights=w), [(3,), (3,)], [(3,), (1,)], "weights"),
    "in a loop": (added_up, [(3,), (3,)], [(3,), (2,)], "asks for sizes"),
    "gradient": (
        phix.grad(lambda x, y: pn.sum((x @ y) ** 2)), [(2, 3), (3, 4)], [(2, 3), (2, 4)], "matmul"),
    "computed": (lambda x: positives(x)[2], [(7,)], [(3,)], "slice asks for sizes with .* >= 3"),
    "computed, of an argument": (
        lambda x, y: positives(x) + y, [(7,), (4,)], [(7,), (3,)], "add asks"),
}  # fmt: skip


def numbers(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int), dtype="d").reshape(shape) - 2.5) / 2


def specs(shapes: Any) -> list[Any]:
    named = "xyz"
    names = [
        [f"{named[k]}_dim{'' if a == 0 else a}" for a in range(len(shape))]
        for k, shape in enumerate(shapes)
    ]
    return [phix.spec(dims, "float64") for dims in names]


@pytest.mark.parametrize("name", CASES)
def test_an_entry_refuses_sizes_that_do_not_fit(name: str) -> None:
    function, fitting, unfit, message = CASES[name]
    space: dict[str, Any] = {}
    with plain():
        text = phix.numba.source(lambda *args: function(*args), *specs(fitting))
        exec(text, space)
        found = space["function"](*[numbers(*shape) for shape in fitting])
        np.testing.assert_allclose(
            found, function(*[phix.to_tensor(numbers(*shape)) for shape in fitting]).numpy()
        )
        with pytest.raises(ValueError, match=message):
            space["function"](*[numbers(*shape) for shape in unfit])


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("computed")])
def test_programs_of_numba_refuse_computed_sizes(name: str) -> None:
    function, fitting, unfit, message = CASES[name]
    with in_place_of_llvm():
        compiled = phix.jit(lambda *args: function(*args), input_spec=specs(fitting))
        compiled(*[numbers(*shape) for shape in fitting])
        with pytest.raises((ValueError, IndexError), match=message):
            compiled(*[numbers(*shape) for shape in unfit])


def test_what_cannot_be_printed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cs, "_candidates", lambda equation, tried: [])
    with pytest.raises(KernelNotFoundError, match="which sizes slice fits is more than can"):
        phix.numba.source(lambda x: x[3], phix.spec(["n"]))
    phix.numba.source(lambda x: x[3], phix.spec([4, "n"]))


# -- against what infers shapes ------------------------------------------------------------------
def shapes_near(shapes: list[tuple[int, ...]], draw: random.Random) -> list[tuple[int, ...]]:
    """Shapes of which some dims are others."""

    def near(d: int) -> int:
        return d if draw.random() < 0.6 else draw.choice([0, 1, 2, 3, 4, 6, d + 1, 2 * d])

    return [tuple(map(near, shape)) for shape in shapes]


def fits(graph: Any, shapes: list[tuple[int, ...]]) -> bool:
    try:
        infer_again(graph, shapes)
    except PhixError:
        return False
    return True


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "case", thinned(OPS, lambda c: str(c.op.where).split(":")[0], ids=lambda c: c.op.name)
)
def test_conditions_tell_what_fits(case: Case, seed: int) -> None:
    """For the first samples of an op, all of whose dims have names of their own."""
    draw = random.Random(seed)
    for call in list(case.calls())[:3]:
        sizes = iter(range(100))
        own = [phix.spec([f"d{next(sizes)}" for _ in a.shape], a.dtype) for a in call.arrays]
        try:
            graph, _ = trace(call.fn, tuple(own), {})
        except PhixError:
            continue  # it asks for sizes that are known
        solved = dm.solutions([v.meta.dims for v in graph.inputs])
        asked = [cs.conditions(e) for e in cs.equations_of(graph, set(solved))]
        if any(found is None for found in asked) or graph.bound_symbols:
            continue  # it is not printed, or looks at more in the middle
        wanted = [c for found in asked for c in found or ()]
        base = [a.shape for a in call.arrays]
        for shapes in [base, *(shapes_near(base, draw) for _ in range(30))]:
            env = {s: shapes[place.number][place.axis] for s, place in solved.items()}
            tried = cs._Tried([(env, True)])
            holds = all(tried.holds(c)[0] for c in wanted)
            where = call, shapes, [c.text(dm.dim_text) for c in wanted]
            if holds:
                assert fits(graph, shapes), where
            elif case.op.name not in STRICT:
                assert not fits(graph, shapes), where
