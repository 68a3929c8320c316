"""``x[...]`` and ``x.at[...]`` mean what they mean in NumPy, under every transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import phix
from phix import ops
from phix.core import slices
from phix.core.errors import ConcretizationError, PhixError, TensorIndexError

pytestmark = pytest.mark.unoptimised

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


@st.composite
def any_index(draw: Any) -> tuple[tuple[int, ...], Any]:
    """A shape, and an index of it with ints, slices, None, Ellipsis, int arrays and masks."""
    shape = draw(SHAPES)
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    entries: list[Any] = []
    axis, dots = 0, draw(st.booleans())
    count = draw(st.integers(0, len(shape)))
    for _ in range(count):
        if axis >= len(shape):
            break
        if draw(st.integers(0, 5)) == 0:
            entries.append(None)
        if dots and draw(st.booleans()):
            entries.append(Ellipsis)
            axis, dots = axis + len(shape) - count, False
        size = shape[axis]
        kinds = ["slice", "mask"] + (["int", "array"] if size else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "slice":
            entries.append(draw(st.slices(size)))
        elif kind == "int":
            entries.append(draw(st.integers(-size, size - 1)))
        elif kind == "array":
            sides = draw(hnp.broadcastable_shapes(batch, max_dims=len(batch), max_side=3)
                         if batch else st.just(()))  # fmt: skip
            entries.append(draw(hnp.arrays(np.int64, sides, elements=st.integers(-size, size - 1))))
        else:
            entries.append(draw(hnp.arrays(np.bool_, size)))
        axis += 1
    return shape, tuple(entries)


@hypothesis.settings(max_examples=300)
@hypothesis.given(any_index())
def test_an_index_means_what_it_means_in_numpy(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    x = numbered(shape)
    try:
        wanted = x[index]
    except IndexError:
        with pytest.raises(TensorIndexError):
            phix.to_tensor(x)[index]
        return
    np.testing.assert_array_equal(phix.to_tensor(x)[index], wanted)


@hypothesis.settings(max_examples=60)
@hypothesis.given(any_index())
def test_an_index_means_the_same_under_jit_and_grad(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    x = numbered(shape)
    try:
        wanted = x[index]
    except IndexError:
        return
    np.testing.assert_array_equal(phix.jit(lambda t: t[index])(x), wanted)
    weights = np.linspace(1, 2, wanted.size).reshape(wanted.shape)
    gradient = np.zeros(shape)
    np.add.at(gradient, index, weights)
    found = phix.grad(lambda t: (t[index] * weights).sum())(x)
    np.testing.assert_allclose(found, gradient, rtol=1e-12)


@hypothesis.settings(max_examples=80)
@hypothesis.given(any_index())
def test_updates_mean_what_they_mean_in_numpy(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    x = numbered(shape)
    try:
        picked = x[index]
    except IndexError:
        return
    values = -1.5 * np.arange(picked.size).reshape(picked.shape)
    t = phix.to_tensor(x)
    updates: dict[str, Callable[..., Any]] = {
        "add": np.add.at,
        "multiply": np.multiply.at,
        "max": np.maximum.at,
        "min": np.minimum.at,
        "set": lambda out, at, v: out.__setitem__(at, v),
    }
    for name, update in updates.items():
        wanted = x.copy()
        update(wanted, index, values)
        np.testing.assert_allclose(getattr(t.at[index], name)(values), wanted, err_msg=name)
    np.testing.assert_array_equal(t.at[index].get(), picked)


@hypothesis.settings(max_examples=300)
@hypothesis.given(st.integers(0, 6), st.integers(-9, 9), st.integers(-9, 9), st.sampled_from(
    [-(2**63), -8, -3, -2, -1, 1, 2, 3, 9, 2**63 - 1]))  # fmt: skip
def test_bounds_of_a_slice(dim: int, start: int, end: int, stride: int) -> None:
    """Known, unknown, and canonical twice: the same elements each time."""
    wanted = list(range(dim))[start:end:stride]
    n = phix.core.dims.symbol("n")
    env = {next(iter(n.symbols())): dim}
    first, length = (
        phix.core.dims.substitute(v, env) for v in slices.extent(start, end, stride, n)
    )
    assert length == len(wanted)
    assert not wanted or first == wanted[0]
    once = slices.canonical(start, end, stride, dim)
    assert slices.canonical(*once, dim) == once
    assert list(range(dim))[slice(*once)] == wanted
    assert slices.extent(*once, dim)[1] == len(wanted)


_MOST = 2**63 - 1
FAR_SLICES = [
    *(slice(None, None, s) for s in (7, 2**62, _MOST - 1, _MOST, -7, -(2**62), -_MOST, -_MOST - 1)),
    slice(1, _MOST, _MOST), slice(-2, -_MOST - 1, -_MOST), slice(_MOST, -_MOST - 1, -2),
    slice(-_MOST - 1, _MOST, 3), slice(_MOST, None), slice(_MOST - 1, -_MOST, -1),
]  # fmt: skip


@pytest.mark.parametrize("index", FAR_SLICES, ids=str)
def test_slices_far_beyond_the_axis(index: slice) -> None:
    """Everything that takes a slice, at once and compiled for known and unknown sizes."""
    x = np.arange(1.0, 6.0)
    wanted = [x[index], *(x.copy() for _ in range(3))]
    for part, value in zip(wanted[1:], (9, 3 * x[index], x[index] + 0.5)):
        part[index] = value

    def takes(t: Any) -> Any:
        at = t.at[index]
        return t[index], at.set(9.0), at.multiply(3.0), at.add(0.5)

    unknown = phix.jit(takes, input_spec=[phix.spec(["n"], "float64")])
    for way in (takes, phix.jit(takes), unknown):
        for found, want in zip(way(phix.to_tensor(x)), wanted):
            np.testing.assert_array_equal(found, want)


@hypothesis.settings(max_examples=60)
@hypothesis.given(any_index())
def test_gradients_of_updates(case: tuple[tuple[int, ...], Any]) -> None:
    """Of a weighted sum of the result: each weight goes to what stands in its place."""
    shape, index = case
    x = numbered(shape)
    try:
        picked = x[index]
    except IndexError:
        return
    values = 1.0 + np.arange(picked.size).reshape(picked.shape)
    weights = np.linspace(1, 2, x.size).reshape(shape)

    def loss(name: str) -> Any:
        return lambda t, v: (getattr(t.at[index], name)(v) * weights).sum()

    to_x, to_values = phix.jit(phix.grad(loss("add"), argnums=(0, 1)))(x, values)
    np.testing.assert_array_equal(to_x, weights)
    np.testing.assert_array_equal(to_values, weights[index])

    to_x, to_values = phix.jit(phix.grad(loss("set"), argnums=(0, 1)))(x, values)
    writer = np.full(shape, -1)
    turns = np.arange(picked.size).reshape(picked.shape)
    writer[index] = turns
    np.testing.assert_array_equal(to_x, np.where(writer < 0, weights, 0))
    np.testing.assert_array_equal(to_values, np.where(writer[index] == turns, weights[index], 0))


def test_lists_index() -> None:
    x = numbered((2, 3, 4))
    t = phix.to_tensor(x)
    one = phix.to_tensor(1)
    np.testing.assert_array_equal(t[[]], x[[]])
    np.testing.assert_array_equal(t[[one, 0]], x[[1, 0]])
    np.testing.assert_array_equal(phix.jit(lambda i: t[[i, 0]])(1), x[[1, 0]])
    # an Ellipsis keeps indices apart, even one that opens to nothing
    np.testing.assert_array_equal(t[:, 0, ..., [1, 2]], x[:, 0, ..., [1, 2]])


RESHAPED: dict[str, Callable[[Any], Any]] = {
    "concat": lambda x: phix.ops.concat([x, x], 1),
    "sort": lambda x: phix.ops.sort(x, 0),
    "pad": lambda x: phix.ops.pad(x, [1, 0, 0, 2], 0),
    "put_along_axis": lambda x: phix.ops.put_along_axis(x, np.array([[1, 0]] * 3), 9.0, 1),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_what_is_made_whole_may_leave_in_another_shape(name: str) -> None:
    def f(x: Any) -> Any:
        return phix.ops.reshape(RESHAPED[name](x), (2, -1))

    x = phix.to_tensor(-numbered((3, 4)))
    np.testing.assert_array_equal(phix.jit(f)(x), f(x))


# -- tracers as indices ------------------------------------------------------------------------
def test_a_traced_int_indexes() -> None:
    x = numbered((3, 4))
    rows = phix.jit(lambda t, i: t[i])
    for i in (0, 2, -1):
        np.testing.assert_array_equal(rows(x, i), x[i])
    np.testing.assert_array_equal(phix.jit(lambda t, i: t[1, i, None])(x, 2), x[1, 2, None])
    found = phix.jit(lambda t, i: t.at[i, 0].set(-1.0))(x, 1)
    assert found.tolist()[1] == [-1.0, 5.0, 6.0, 7.0]


def test_a_mapped_int_indexes() -> None:
    x, i = numbered((3, 4)), np.array([2, 0, 2, -1])
    np.testing.assert_array_equal(phix.vmap(lambda j: phix.to_tensor(x)[j])(i), x[i])
    np.testing.assert_array_equal(
        phix.vmap(lambda row, j: row[j])(x, i[:3]), x[np.arange(3), i[:3]]
    )
    np.testing.assert_array_equal(
        phix.vmap(lambda row, j: row.at[j].add(1.0))(x, i[:3])[0], [0.0, 1.0, 3.0, 3.0]
    )


def test_gradients_pass_through_updates() -> None:
    x, v = numbered((4,)), np.array([2.0, 3.0])

    def f(x: Any, v: Any) -> Any:
        return (x.at[phix.to_tensor([1, 1])].set(v) ** 2).sum()

    to_x, to_v = phix.grad(f, argnums=(0, 1))(x, v)
    assert to_x.tolist() == [0.0, 0.0, 4.0, 6.0]
    assert to_v.tolist() == [0.0, 6.0]  # the second write stands


# -- unknown dims ------------------------------------------------------------------------------
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "tail": lambda x: x[1:],
    "head": lambda x: x[:-1],
    "last": lambda x: x[-1],
    "backward": lambda x: x[::-1],
    "backward with bounds": lambda x: x[-2:0:-2],
    "every second": lambda x: x[1::2],
    "differences": lambda x: x[1:] - x[:-1],
    "by a dim": lambda x: x[: x.shape[0] // 2],
    "gathered": lambda x: x[[0, 0, -1]],
    "set": lambda x: x.at[1:].set(0.0),
    "added": lambda x: x.at[::2].add(1.0),
    "set from behind": lambda x: x.at[-2::-2].set(x[-2::-2] * 2.0),
    "inner part multiplied": lambda x: x.at[1:-1, 1].multiply(3.0),
    "last row added": lambda x: x.at[-1].add(x[0]),
    "smoothed": lambda x: phix.fori_loop(
        0, 3, lambda _, u: u.at[1:-1].add(0.25 * (u[2:] + u[:-2] - 2.0 * u[1:-1])), x
    ),
    "shape": lambda x: phix.ops.shape(x)[0] * phix.ops.numel(x),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_dims(name: str) -> None:
    f = UNKNOWN[name]
    compiled = phix.jit(f, input_spec=[phix.spec(["n", 2], "float64")])
    gradient = phix.jit(
        lambda x: phix.grad(lambda t: (f(t) * 1.5).sum())(x),
        input_spec=[phix.spec(["n", 2], "float64")],
    )
    for n in (2, 3, 5, 8, 1):
        x = phix.to_tensor(numbered((n, 2)))
        np.testing.assert_array_equal(compiled(x), f(x))
        if name != "shape":
            np.testing.assert_array_equal(gradient(x), phix.grad(lambda t: (f(t) * 1.5).sum())(x))
    assert compiled.trace_count == 1


def test_equal_slices_of_unknown_dims_are_known_to_be_equal() -> None:
    spec = phix.spec(["n"])
    assert str(phix.infer_meta(lambda x: x[1:] * x[:-1])(spec)) == "float32[max(n-1, 0)]"


def test_the_shape_of_known_dims_is_a_constant() -> None:
    graph = phix.decompose(phix.ops.shape)(phix.spec([3, 4]))
    assert not graph.equations
    assert phix.ops.shape(phix.to_tensor(numbered((3, 4)))).tolist() == [3, 4]


# -- what is no index --------------------------------------------------------------------------
WRONG: list[Any] = [
    (0, 0, 0), 3, -4, (0, 9), 1.0, "a", True, (Ellipsis, Ellipsis), [7], ([0, -5], 0),
    slice(0, 1, 0), np.zeros((2, 2), bool), (np.array(True), 0), ([0, 1], [0, 1, 2]),
    np.array([0.5]),
]  # fmt: skip


@pytest.mark.parametrize("flag", [True, False])
def test_a_mask_without_axes_adds_one(flag: bool) -> None:
    """As in NumPy, and in the array API standard."""
    for shape in ((), (2, 3)):
        x, want = phix.to_tensor(numbered(shape)), numbered(shape)[np.array(flag)]
        for mask in (phix.to_tensor(flag), np.array(flag)):
            np.testing.assert_array_equal(x[mask], want)
        np.testing.assert_array_equal(phix.jit(lambda t, m: t[m])(x, phix.to_tensor(flag)), want)
    slope = phix.grad(lambda t: phix.ops.sum(t[t.sum() > -1] ** 2))(x)
    np.testing.assert_array_equal(slope, 2 * x)
    with pytest.raises(PhixError, match=r"ops\.where"):
        phix.vmap(lambda t: t[t > 1])(x[:, 0])


@pytest.mark.parametrize("index", WRONG, ids=repr)
def test_a_wrong_index_is_refused(index: Any) -> None:
    x = phix.to_tensor(numbered((3, 4)))
    with pytest.raises(TensorIndexError):
        x[index]
    with pytest.raises(PhixError):
        phix.jit(lambda t: t[index])(x)


def test_masks_of_lanes_are_refused() -> None:
    with pytest.raises(ConcretizationError, match="where"):
        phix.vmap(lambda x: x[x > 0])(numbered((3, 2)))
    x = phix.to_tensor(numbered((3,)))
    assert phix.grad(lambda t: t[t > 0].sum())(x).tolist() == [0.0, 1.0, 1.0]


def test_basic_indexing_gives_views() -> None:
    x = phix.to_tensor(numbered((3, 4)))
    for index in (0, (1, 2), (slice(None), 1), (Ellipsis, None), slice(None, None, -1)):
        assert np.shares_memory(x[index].data, x.data)


@pytest.mark.parametrize(
    ("given", "meant"), [([5, 2], [2, 2]), ([-7, 0], [0, 0]), ([0, 9], [0, 2])]
)
def test_products_at_indices_out_of_range_have_the_gradients_of_the_nearest(given, meant) -> None:
    """As mode clip writes there."""

    def total(x: Any, values: Any, index: Any) -> Any:
        return ops.sum(ops.put_along_axis(x, index, values, 0, "mul", True, "clip"))

    x, values = np.array([2.0, 3.0, 5.0]), np.array([7.0, 11.0])
    slopes = phix.jit(phix.grad(total, (0, 1)))
    for found, expected in zip(
        slopes(x, values, np.array(given)), slopes(x, values, np.array(meant)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert phix.jit(total)(x, values, np.array(given)) == phix.jit(total)(
        x, values, np.array(meant)
    )


def test_a_number_is_put_where_a_mask_of_the_whole_holds_also_in_lanes() -> None:
    x = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0], [7.0, 8.0, 9.0]])
    wanted = {
        "set": 2.0,
        "add": x + 2,
        "multiply": x * 2,
        "max": np.maximum(x, 2),
        "min": np.minimum(x, 2),
    }
    for name, new in wanted.items():
        put = lambda x, name=name: getattr(x.at[x > 0], name)(2.0)  # noqa: E731
        for f in (put, phix.jit(put), phix.vmap(put), phix.jit(phix.vmap(put))):
            np.testing.assert_array_equal(f(phix.to_tensor(x)).numpy(), np.where(x > 0, new, x))
    slopes = phix.vmap(
        phix.grad(lambda x, c: (x.at[x > 0].multiply(c) ** 2).sum(), argnums=1), (0, None)
    )
    np.testing.assert_allclose(slopes(phix.to_tensor(x), 3.0), 6 * np.where(x > 0, x * x, 0).sum(1))


# What puts a bool where a mask holds, and NumPy's name of it.
OF_BOOLS: dict[str, Any] = {
    "set": lambda x, value: np.full_like(x, value), "add": np.logical_or,
    "multiply": np.logical_and, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", OF_BOOLS)
def test_bools_are_put_where_a_mask_holds_in_each_lane(name: str, value: bool) -> None:
    rng = np.random.default_rng(0)
    x, mask = (rng.random((2, 3, 4)) < 0.5 for _ in range(2))
    wanted = np.where(mask, OF_BOOLS[name](x, value), x)

    def put(x: Any, mask: Any) -> Any:
        return getattr(x.at[mask], name)(value)

    for function in (put, phix.jit(put), phix.vmap(put), phix.jit(phix.vmap(put))):
        found = function(phix.to_tensor(x), phix.to_tensor(mask))
        assert found.dtype == bool
        np.testing.assert_array_equal(found, wanted)
