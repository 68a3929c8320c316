"""Ragged tensors: functions of sequences against loops over NumPy's arrays, eager and compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)

lod = phix.lod
pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
LENGTHS = ([2, 0, 3, 1], [1, 4], [0, 0], [])
SPEC: Any = lod.LoDTensor(phix.spec(["rows", 2], "float64"), (phix.spec(["offsets"], "int64"),))
FILTER = RNG.standard_normal((6, 3))
PADDING = RNG.standard_normal((2, 2))


def drawn(lengths: Any) -> tuple[Any, list[np.ndarray]]:
    """Sequences of rows of two numbers, as a LoDTensor and as arrays."""
    parts = [RNG.standard_normal((n, 2)) for n in lengths]
    values = np.concatenate([np.zeros((0, 2)), *parts])
    return lod.lod_tensor(values, np.array(lengths, np.int64)), parts


def pooled(how: str) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    pools: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "sum": lambda p: p.sum(0),
        "average": lambda p: p.mean(0),
        "sqrt": lambda p: p.sum(0) / np.sqrt(len(p)),
        "max": lambda p: p.max(0),
        "min": lambda p: p.min(0),
        "first": lambda p: p[0],
        "last": lambda p: p[-1],
    }
    return lambda parts: [pools[how](p) if len(p) else np.full(2, 9.0) for p in parts]


def softmax(parts: list[np.ndarray]) -> list[np.ndarray]:
    found = []
    for p in parts:
        powers = np.exp(p - (p.max(0) if len(p) else 0))
        found.append(powers / powers.sum(0))
    return found


def convolved(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Rows t - 2, t - 1 and t, above which lie those of PADDING."""
    longer = [np.concatenate([PADDING, p]) for p in parts]
    return [
        np.array([x[t : t + 3].reshape(-1) @ FILTER for t in range(len(x) - 2)]).reshape(-1, 3)
        for x in longer
    ]


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[list[np.ndarray]], Any]]] = {
    **{
        how: ((lambda x, h=how: lod.sequence_pool(x, h, pad_value=9.0)), pooled(how))
        for how in ("sum", "average", "sqrt", "max", "min", "first", "last")
    },
    "softmax": (lod.sequence_softmax, softmax),
    "conv": (lambda x: lod.sequence_conv(x, FILTER, 3, -2, PADDING), convolved),
    "reverse": (lod.sequence_reverse, lambda parts: [p[::-1] for p in parts]),
    "concat": (
        lambda x: lod.sequence_concat([x, lod.sequence_reverse(x), x]),
        lambda parts: [np.concatenate([p, p[::-1], p]) for p in parts],
    ),
    "slice": (
        lambda x: lod.sequence_slice(x, x.lengths // 2, x.lengths - x.lengths // 2),
        lambda parts: [p[len(p) // 2 :] for p in parts],
    ),
    "expand": (
        lambda x: lod.sequence_expand(x, x),
        lambda parts: [p for p in parts for _ in range(len(p))],
    ),
    "expand_rows": (
        lambda x: lod.sequence_expand(lod.sequence_pool(x, "sum"), x),
        lambda parts: [p.sum(0) for p in parts for _ in range(len(p))],
    ),
    "expand_as": (
        lambda x: lod.sequence_expand_as(lod.sequence_pool(x, "sum"), x),
        lambda parts: [np.tile(p.sum(0), (len(p), 1)) for p in parts],
    ),
    "pad": (
        lambda x: lod.sequence_unpad(*lod.sequence_pad(x, 5.0)),
        lambda parts: parts,
    ),
    "pad_known": (
        lambda x: lod.sequence_pad(x, 5.0, 4)[0],
        lambda parts: [np.concatenate([p, np.full((4 - len(p), 2), 5.0)]) for p in parts],
    ),
}


def check(found: Any, wanted: list[np.ndarray]) -> None:
    if isinstance(found, lod.LoDTensor):
        assert found.lengths.tolist() == [len(p) for p in wanted]
        flat = np.concatenate(wanted) if wanted else np.zeros(0)
        np.testing.assert_allclose(found.values.numpy().ravel(), flat.ravel(), rtol=1e-12)
    else:
        assert found.shape[0] == len(wanted)
        np.testing.assert_allclose(found.numpy().ravel(), np.array(wanted).ravel(), rtol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_all_lengths(name: str) -> None:
    function, reference = CASES[name]
    compiled = phix.jit(function, input_spec=[SPEC])
    for lengths in LENGTHS:
        x, parts = drawn(lengths)
        check(function(x), reference(parts))
        check(compiled(x), reference(parts))
    assert compiled.trace_count == 1


def _loss(function: Callable[[Any], Any], x: Any) -> Callable[[Any], Any]:
    def loss(v: Any) -> Any:
        out = function(x.with_values(v))
        out = out.values if isinstance(out, lod.LoDTensor) else out
        return ops.sum(ops.sin(out) * (ops.cumsum(ops.ones_like(out), 0) * 0.5))

    return loss


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, _ = CASES[name]
    x, _ = drawn([2, 0, 3])
    loss = _loss(function, x)
    gradient = phix.grad(loss)
    step, direction = 1e-5, RNG.standard_normal((5, 2))
    v = x.values.numpy()

    def slope(f: Callable[[Any], Any]) -> Any:
        return (f(v + step * direction).numpy() - f(v - step * direction).numpy()) / (2 * step)

    found = phix.jit(gradient)(x.values).numpy()
    np.testing.assert_allclose((found * direction).sum(), slope(loss), rtol=1e-6, atol=1e-8)
    curved = phix.hvp(loss, (v,), (direction,)).numpy()
    np.testing.assert_allclose(curved, slope(gradient), rtol=1e-5, atol=1e-6)


def test_batches_of_values() -> None:
    x, _ = drawn([2, 0, 3])
    several = np.stack([x.values.numpy(), 2 * x.values.numpy()])
    for name in ("sum", "max", "softmax", "reverse", "conv", "pad_known", "concat"):
        function, _ = CASES[name]

        def values(v: Any, function: Any = function) -> Any:
            out = function(x.with_values(v))
            return out.values if isinstance(out, lod.LoDTensor) else out

        found = phix.vmap(values)(several).numpy()
        np.testing.assert_allclose(found, [values(v).numpy() for v in several], rtol=1e-12)


def test_pools_with_nan_infinities_and_ties() -> None:
    inf, nan = np.inf, np.nan
    x = lod.from_list([[1.0, nan, inf], [-inf, -inf], [2.0, 2.0, 1.0]])
    most = lod.sequence_pool(x, "max").numpy()
    np.testing.assert_array_equal(most, [nan, -inf, 2.0])
    np.testing.assert_array_equal(lod.sequence_pool(x, "min").numpy(), [nan, -inf, 1.0])
    gradient = phix.grad(lambda v: lod.sequence_pool(x.with_values(v), "max").sum())(x.values)
    assert gradient.tolist() == [0, 1, 0, 1, 0, 1, 0, 0]


def test_softmax_is_stable() -> None:
    x = lod.from_list([[1e4, 1e4 - 1.0], [-1e4], [0.0, -np.inf]])
    found = lod.sequence_softmax(x).values.numpy()
    e = np.exp(-1.0)
    np.testing.assert_allclose(found, [1 / (1 + e), e / (1 + e), 1, 1, 0], rtol=1e-5)
    low = lod.LoDTensor(x.values[:3].astype("float16"), (x.lod[0][:3],))
    assert lod.sequence_softmax(low).dtype == np.float16
    long = lod.lod_tensor(np.full(5000, 1.0, np.float16), [5000])
    assert lod.sequence_pool(long, "average").item() == 1.0


def test_ints() -> None:
    x = lod.from_list([[3, 1, 2], [], [1, 1]])
    assert lod.to_list(lod.sequence_enumerate(x, 2, 7)) == [
        [[3, 1], [1, 2], [2, 7]], [], [[1, 1], [1, 7]],
    ]  # fmt: skip
    for make in (lambda f: f, phix.jit):
        erased = make(lambda x: lod.sequence_erase(x, [1, 5]))(x)
        assert lod.to_list(erased) == [[3, 2], [], []]
    assert lod.to_list(lod.sequence_erase(x, [])) == [[3, 1, 2], [], [1, 1]]
    assert lod.sequence_mask(x).tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 0]]
    assert lod.sequence_mask([1, 2], 2, "bool").tolist() == [[True, False], [True, True]]
    assert phix.jit(lod.sequence_mask)(np.array([0, 0])).shape == (2, 0)


def test_levels() -> None:
    nested = [[[1.0], [2.0, 3.0]], [], [[4.0]]]
    x = lod.from_list(nested, levels=2)
    assert lod.to_list(x) == nested and x.levels == 2 and len(x) == 3
    assert lod.to_list(lod.sequence_pool(x, "sum")) == [[1.0, 5.0], [], [4.0]]
    assert lod.to_list(lod.sequence_reverse(x)) == [[[1.0], [3.0, 2.0]], [], [[4.0]]]
    rows = lod.sequence_expand([10.0, 20.0, 30.0], x, 0)
    assert rows.tolist() == [10.0, 10.0, 30.0]
    assert lod.to_list(phix.jit(lod.sequence_softmax)(x))[2] == [[1.0]]
    assert lod.from_list([np.ones((2, 3)), np.ones((0, 3))]).values.shape == (2, 3)
    tensors = phix.jit(lambda a, b: lod.from_list([a, b]))(np.ones(2), np.zeros(1))
    assert lod.to_list(tensors) == [[1.0, 1.0], [0.0]]


def test_windows_of_images() -> None:
    images = RNG.standard_normal((2, 3, 4, 5))
    found = lod.im2sequence(images, [2, 3], [2, 1])
    assert found.lengths.tolist() == [6, 6] and len(lod.im2sequence(images[:0], 2)) == 0
    for n, (i, j) in itertools.product(range(2), enumerate([(0, 0), (0, 1), (0, 2), (2, 0)])):
        window = images[n, :, j[0] : j[0] + 2, j[1] : j[1] + 3]
        np.testing.assert_array_equal(found.values[n * 6 + i].numpy(), window.ravel())


def test_pad_values_get_gradients() -> None:
    x, _ = drawn([1, 3])
    for pad, wanted in ((np.zeros(2), [2.0, 2.0]), (np.zeros(1), [4.0])):
        gradient = phix.grad(lambda p: lod.sequence_pad(x, p)[0].sum())(pad)
        assert gradient.tolist() == wanted


def test_what_it_shows() -> None:
    assert repr(lod.from_list([[1, 2], [3]])) == (
        "LoDTensor(\n  values=Tensor([1, 2, 3], dtype=int64, shape=[3], place=cpu),\n"
        "  lod=(\n    Tensor([0, 2, 3], dtype=int64, shape=[3], place=cpu),\n  ),\n)"
    )


def test_what_is_refused() -> None:
    x, _ = drawn([2, 1])
    ints = lod.from_list([[1, 2]])
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ShapeError, "of 4 in all, found 3", lambda: lod.lod_tensor(np.ones(3), [2, 2])),
        (ShapeError, "level 0 are of 3", lambda: lod.lod_tensor(np.ones(3), [[3], [2, 1]])),
        (AttributeValueError, "no length", lambda: lod.lod_tensor(np.ones(1), [2, -1])),
        (DTypeError, "lengths must be ints", lambda: lod.lod_tensor(np.ones(1), [1.0])),
        (ArgumentError, "input must be a LoDTensor", lambda: lod.sequence_softmax(np.ones(3))),
        (ArgumentError, "write x.values", lambda: np.asarray(x)),
        (ArgumentError, "write x.values", lambda: lod.sequence_unpad(x, [1])),
        (AttributeValueError, "one of sum, average", lambda: lod.sequence_pool(x, "mean")),
        (DTypeError, "float values", lambda: lod.sequence_pool(ints, "sum")),
        (ShapeError, "6 rows", lambda: lod.sequence_conv(x, np.ones((5, 1)), 3)),
        (ShapeError, r"\(2, 2\)", lambda: lod.sequence_conv(x, FILTER, 3, -1, np.ones((3, 2)))),
        (TensorIndexError, "lie in", lambda: lod.sequence_slice(x, [1, 0], [2, 1])),
        (ShapeError, "one int a", lambda: lod.sequence_slice(x, [1], [1])),
        (TensorIndexError, "0 to 2", lambda: lod.sequence_unpad(np.ones((1, 2)), [3])),
        (AttributeValueError, "longest", lambda: lod.sequence_pad(x, 0.0, 1)),
        (ShapeError, "as many", lambda: lod.sequence_concat([x, ints])),
        (AttributeValueError, "no level of 1", lambda: lod.sequence_expand(x, x, 1)),
        (ShapeError, "for each of the 2", lambda: lod.sequence_expand(np.ones(3), x)),
        (DTypeError, "must be ints", lambda: lod.sequence_erase(x.with_values(np.ones(3)), [1])),
        (AttributeValueError, "win_size", lambda: lod.sequence_enumerate(ints, 0)),
        (ArgumentError, "no numbers yet", lambda: phix.jit(lod.to_list)(x)),
        (ShapeError, "have 3 rows", lambda: x.with_values(np.ones(4))),
    ]
    for kind, text, wrong in cases:
        with pytest.raises(kind, match=text):
            wrong()
