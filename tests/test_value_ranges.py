"""Lengths, counts, offsets and weights that an op cannot mean: refused where calls run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import TensorValueError

pytestmark = pytest.mark.unoptimised(4)

KEY = phix.random.key(0)
ROWS = phix.to_tensor(np.linspace(-1.0, 1.0, 5 * 2 * 3).reshape(5, 2, 3))
BATCH = phix.to_tensor(np.linspace(-1.0, 1.0, 2 * 3 * 4).reshape(2, 3, 4))
SQUARE = phix.to_tensor(np.linspace(-1.0, 1.0, 16).reshape(4, 4))
IMAGES = phix.to_tensor(np.arange(32.0).reshape(2, 1, 4, 4))
BOXES = phix.to_tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0], [0.0, 1.0, 2.0, 3.0]])
EDGES = phix.to_tensor([1, 2, 0, 2])
STATE = phix.to_tensor(np.zeros((1, 2, 2)))
WEIGHTS = [phix.to_tensor(np.full(s, 0.1)) for s in ((2, 4), (2, 2), (2,), (2,))]


def ints(values: Any) -> Any:
    return phix.to_tensor(values, dtype="int64")


def packed(marks: Any) -> Any:
    return ops.flash_attn_unpadded(ROWS, ROWS, ROWS, marks, [0, 2, 5], None, None, 3, 3, 0.5)[0]


def efficient(lengths: Any) -> Any:
    query = phix.to_tensor(np.ones((2, 3, 1, 2)))
    return ops.memory_efficient_attention(
        query, query, query, None, None, None, None, lengths, 3, 3, False, 0.0, 1.0, True
    )[0]


def recurrent(lengths: Any) -> Any:
    x = ops.transpose(BATCH, [1, 0, 2])
    return ops.rnn(x, [STATE], WEIGHTS, lengths, ints([0]), input_size=4, hidden_size=2)[0]


def neighbours(colptr: Any) -> Any:
    return ops.graph_sample_neighbors(
        KEY, EDGES, colptr, ints([0, 1]), None, None, 2, False, False
    )[1]


TAGS = phix.to_tensor(np.zeros((6, 4)))
# A function of one input, values that the op can mean, ones it cannot, and what is said of these.
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any, str]] = {
    "offsets that descend": (packed, ints([0, 2, 5]), ints([0, 4, 2]), "from 4 to 2"),
    "offsets behind the rows": (packed, ints([0, 2, 5]), ints([0, 2, 6]), "holds 6, .* 5 rows"),
    "keys of a sequence": (efficient, ints([3, 1]), ints([3, 4]), "holds 4, .* 3 keys"),
    "steps of a network": (recurrent, ints([3, 1]), ints([4, 1]), "holds 4, .* 3 steps"),
    "steps of a path": (
        lambda n: ops.viterbi_decode(BATCH, SQUARE, n)[0], ints([3, 1]), ints([3, -1]), "holds -1"
    ),
    "steps of tags": (
        lambda n: ops.crf_decoding(BATCH, TAGS, None, n), ints([3, 0]), ints([4, 0]), "holds 4"
    ),
    "steps of labels": (
        lambda n: ops.ctc_align(ints([[1, 1, 0]]), n), ints([3]), ints([4]), "holds 4, .* 3 steps"
    ),
    "boxes of images": (
        lambda n: ops.roi_align(IMAGES, BOXES, n, 2, 2), ints([1, 2]), ints([1, 1]),
        "counts 2 boxes, there are 3",
    ),
    "negative counts of boxes": (
        lambda n: ops.roi_pool(IMAGES, BOXES, n, 2, 2)[0], ints([1, 2]), ints([4, -1]), "holds -1"
    ),
    "edges of a graph": (neighbours, ints([0, 2, 4]), ints([0, 3, 2]), "from 3 to 2"),
    "edges that are not there": (neighbours, ints([0, 2, 4]), ints([0, 2, 9]), "4 edges"),
    "fewer alternatives than draws": (
        lambda x: ops.multinomial(KEY, x, 2), phix.to_tensor([0.0, 1.0, 2.0]),
        phix.to_tensor([0.0, 0.0, 2.0]), "1 weights above 0, and 2 alternatives",
    ),
    "a negative weight": (
        lambda x: ops.multinomial(KEY, x, 1, True), phix.to_tensor([0.0, 1.0]),
        phix.to_tensor([2.0, -1.0]), "holds -1; write finite weights",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_calls_that_run_at_once_refuse(name: str) -> None:
    f, right, wrong, said = CASES[name]
    f(right)
    for _ in range(2):  # by the plan that the first call left, too
        with pytest.raises(TensorValueError, match=said):
            f(wrong)


@pytest.mark.parametrize("name", [n for n in CASES if "KEY" not in CASES[n][0].__code__.co_names])
def test_lanes_are_looked_at_each_by_itself(name: str) -> None:
    f, right, wrong, said = CASES[name]
    phix.vmap(f)(ops.stack([right, right]))
    with pytest.raises(TensorValueError, match=said):
        phix.vmap(f)(ops.stack([right, wrong]))


@pytest.mark.parametrize(
    "name",
    [
        "offsets that descend",
        "steps of a network",
        "boxes of images",
        "fewer alternatives than draws",
    ],
)
def test_programs_refuse_where_they_are_told_to_look(name: str) -> None:
    f, right, wrong, said = CASES[name]
    compiled = phix.jit(f)
    np.testing.assert_allclose(compiled(right), f(right), rtol=1e-12)
    compiled(wrong)
    with phix.debug.check_indices():
        np.testing.assert_allclose(compiled(right), f(right), rtol=1e-12)
        with pytest.raises(TensorValueError, match=said):
            compiled(wrong)


def test_unknown_sizes_are_those_of_the_call() -> None:
    f = phix.jit(
        lambda x, n: ops.roi_align(IMAGES, x, n, 2, 2),
        input_spec=[phix.spec(["n", 4], "float64"), phix.spec([2], "int64")],
    )
    with phix.debug.check_indices():
        f(BOXES.astype("float64"), ints([1, 2]))
        with pytest.raises(TensorValueError, match="counts 3 boxes, there are 2"):
            f(BOXES[:2].astype("float64"), ints([1, 2]))


def test_a_derivative_of_one_call_refuses_too() -> None:
    def loss(x: Any, lengths: Any) -> Any:
        return ops.sum(ops.viterbi_decode(x, SQUARE, lengths)[0])

    phix.grad(loss)(BATCH, ints([3, 2]))
    with pytest.raises(TensorValueError, match="holds 5, and there are 3 steps"):
        phix.grad(loss)(BATCH, ints([3, 5]))
