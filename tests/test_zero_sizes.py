"""Tensors without elements, and without axes, where ops read sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import AttributeValueError, DTypeError, ShapeError

pytestmark = pytest.mark.unoptimised

# shape of x, shape asked for, shape wanted (None: refused)
RESHAPES: list[tuple[tuple[int, ...], list[int], tuple[int, ...] | None]] = [
    ((2, 0), [0, 1], (0, 1)),
    ((2, 0), [0, 0], (2, 0)),
    ((2, 0), [0, -1], (2, 0)),
    ((0, 3), [0, -1], (0, 3)),
    ((3, 0), [-1, 0], (3, 0)),
    ((2, 3), [0, 0], (2, 3)),
    ((2, 3, 4), [0, -1], (2, 12)),
    ((2, 0, 4), [0, 0, 2, 2], (2, 0, 2, 2)),
    ((2, 1), [0, 1], (2, 1)),
    ((2, 3), [0, 1], None),
    ((2, 3), [0, 4], None),
]


@pytest.mark.parametrize(("dims", "shape", "wanted"), RESHAPES)
def test_a_0_in_a_reshape_means_the_same_for_sizes_known_and_unknown(
    dims: tuple[int, ...], shape: list[int], wanted: tuple[int, ...] | None
) -> None:
    x = phix.zeros(dims)
    unsized = phix.jit(lambda x: ops.reshape(x, shape), input_spec=[phix.spec([-1] * len(dims))])
    if wanted is None:
        for f in (unsized, lambda x: ops.reshape(x, shape)):
            with pytest.raises(ShapeError, match="does not hold the 6 elements"):
                f(x)
    else:
        assert ops.reshape(x, shape).shape == wanted
        assert unsized(x).shape == wanted


# shape of x, and one with a -1 beside a size that is 0 in this run: what the -1 cancels is lost
BESIDE: list[tuple[tuple[int, ...], Callable[[Any], list[Any]]]] = [
    ((0, 6), lambda x: [x.shape[0] * 3, -1]),
    ((0, 6), lambda x: [x.shape[0], -1]),
    ((0, 6), lambda x: [-1, x.shape[0]]),
    ((0, 2, 3), lambda x: [x.shape[0] * x.shape[1], -1]),
    ((2, 0, 3), lambda x: [x.shape[0] * x.shape[1], -1]),
    ((2, 0, 3), lambda x: [x.shape[0], -1, x.shape[2]]),
    ((2, 0, 3), lambda x: [-1, x.shape[1] * x.shape[2]]),
    ((6, 0), lambda x: [x.shape[1], -1]),
    ((6, 0), lambda x: [-1, 2 * x.shape[1]]),
    ((6, 0), lambda x: [3, x.shape[1], -1]),
    ((6, 0), lambda x: [1, 1, x.shape[1], -1]),
]


@pytest.mark.parametrize(("dims", "shape"), BESIDE)
def test_a_rest_beside_a_size_that_turns_out_0_is_that_of_known_sizes_or_refused(
    dims: tuple[int, ...], shape: Callable[[Any], list[Any]]
) -> None:
    x = phix.zeros(dims)

    def f(x: Any) -> Any:
        return ops.reshape(x, shape(x))

    def found(f: Callable[[Any], Any]) -> Any:
        try:
            return f(x).shape
        except (ShapeError, AttributeValueError):
            return None

    def unsized(spec: list[Any]) -> Callable[[Any], Any]:
        return phix.jit(f, input_spec=[phix.spec(spec)])

    def batched(spec: list[Any]) -> Callable[[Any], Any]:
        rows = phix.jit(phix.vmap(f), input_spec=[phix.spec(["b", *spec])])
        return lambda x: rows(x[None])[0]

    named = [f"n{k}" for k in range(len(dims))]
    for spec in (named, [n if d == 0 else d for n, d in zip(named, dims)], [-1] * len(dims)):
        for g in (unsized(spec), batched(spec)):
            assert found(g) in (found(f), None)
    full = phix.zeros([d or 6 for d in dims])
    assert unsized(named)(full).shape == f(full).shape


DIVIDED = {
    "reshape": lambda x: ops.reshape(x, [x.shape[0] * 3, -1]),
    "floordiv": lambda x: ops.full([x.shape[1] // x.shape[0]], 1.0),
    "mod": lambda x: ops.full([x.shape[1] % x.shape[0]], 1.0),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_size_divided_by_one_that_turns_out_0_is_refused(name: str) -> None:
    unsized = phix.jit(DIVIDED[name], input_spec=[phix.spec(["n", "m"])])
    assert unsized(phix.zeros([1, 3])).size == {"mod": 0}.get(name, 3)
    with pytest.raises(ShapeError, match="divided by a size that is 0 in this run"):
        unsized(phix.zeros([0, 3]))


REDUCTIONS = ["sum", "mean", "max", "min", "amax", "amin", "prod", "logsumexp"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1, [0], []])
def test_a_tensor_without_axes_is_reduced_over_axis_0(name: str, axis: Any) -> None:
    reduce = getattr(ops, name)
    f = lambda x: reduce(x, axis=axis)  # noqa: E731
    assert f(3.0).item() == phix.jit(f)(3.0).item() == pytest.approx(3.0)
    assert reduce(3.0, axis=axis, keepdim=True).shape == ()
    assert phix.grad(f)(3.0).item() == pytest.approx(1.0)
    np.testing.assert_allclose(phix.vmap(f)(phix.to_tensor([2.0, 3.0])), [2.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("name", ["any", "all"])
def test_a_truth_without_axes_is_reduced_over_axis_0(name: str) -> None:
    assert getattr(ops, name)(True, axis=-1).item() is True


def test_an_axis_that_a_tensor_without_axes_has_not_is_refused() -> None:
    with pytest.raises(AttributeValueError, match=r"sum.*axis 1 is out of range for 0 axes"):
        ops.sum(1.0, axis=1)


def doubled(x: Any) -> Any:
    return phix.while_loop(lambda v: v < 100.0, lambda v: 2.0 * v, x)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_loops_over_a_batch_of_any_size(size: int) -> None:
    x = phix.to_tensor(np.arange(1.0, size + 1.0))
    steps = np.ceil(np.log2(100.0 / np.arange(1.0, size + 1.0)))
    for f in (phix.vmap(phix.grad(doubled)), phix.jit(phix.vmap(phix.grad(doubled)))):
        np.testing.assert_allclose(f(x), 2.0**steps)
    unsized = phix.jit(phix.vmap(phix.grad(doubled)), input_spec=[phix.spec(["n"], "float64")])
    np.testing.assert_allclose(unsized(x), 2.0**steps)


def test_a_loop_whose_condition_is_no_single_bool_is_refused_under_vmap() -> None:
    x = phix.ones([2, 3])
    for f in (phix.vmap(doubled), phix.jit(phix.vmap(doubled)), phix.vmap(phix.grad(doubled))):
        with pytest.raises(DTypeError, match="cond must give one bool"):
            f(x)


@pytest.mark.parametrize("dims", [(0, 0), (3, 0)])
def test_branches_over_batches_without_lanes(dims: tuple[int, int]) -> None:
    f = lambda x: phix.cond(x > 0, ops.sin, ops.cos, x)  # noqa: E731
    assert phix.vmap(phix.vmap(f))(phix.ones(dims)).shape == dims


def test_a_flipped_tensor_without_axes_is_one() -> None:
    assert ops.flip(phix.to_tensor(2.0), []).item() == 2.0


@pytest.mark.parametrize("shape", [[-1, 3], [2, -1, 3], [-1, -1, -1]])
def test_a_new_axis_of_an_expansion_has_a_size(shape: list[int]) -> None:
    for x in (np.ones(3, np.float32), phix.spec(["n"])):
        with pytest.raises(ShapeError, match=r"-1 for an axis that .* does not have; write its"):
            phix.infer_meta(lambda x: ops.expand(x, shape))(x)
    assert ops.expand(np.ones(3, np.float32), [2, -1]).shape == (2, 3)


@pytest.mark.parametrize("shape", [(0, 0, 5), (0, 2, 5), (2, 0, 5), (0, 0, 0)])
@pytest.mark.parametrize("compiled", [False, True])
def test_axes_that_are_parted_again_may_all_be_empty(
    shape: tuple[int, ...], compiled: bool
) -> None:
    """Where several are, a 0 is the size of an axis, and copies none."""
    run: Any = phix.jit if compiled else lambda f: f
    x = phix.zeros(shape)
    for y in (phix.zeros(shape[2:]), phix.zeros((shape[2], 1)), phix.zeros((1, shape[2], 1))):
        found = run(phix.numpy.dot)(x, y)
        assert tuple(found.shape) == np.dot(np.zeros(shape), np.zeros(y.shape)).shape
        slopes = run(phix.grad(lambda x, y: ops.sum(phix.numpy.dot(x, y) ** 2), (0, 1)))(x, y)
        assert [s.shape for s in slopes] == [x.shape, y.shape]
    none = phix.zeros(shape[:2])
    slope = phix.grad(lambda x: ops.sum(x.reshape(0, 1) ** 2))
    assert run(slope)(none).shape == none.shape
    assert run(phix.vmap(slope))(phix.zeros((3, *none.shape))).shape == (3, *none.shape)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_extreme_of_nothing_is_where_it_starts(name: str, axis: Any) -> None:
    function = getattr(phix.numpy, name)
    calls = (
        lambda x: function(x, axis=axis, initial=2.0),
        lambda x: phix.to_tensor(getattr(x, name)(axis=axis, initial=2.0, keepdims=True)),
    )
    for call in calls:
        unsized = phix.jit(call, input_spec=[phix.spec(["n", "m"], "float64")])
        for shape in ((2, 3), (2, 0), (0, 3), (0, 0)):
            x = np.arange(float(np.prod(shape))).reshape(shape)
            keeps = {} if call is calls[0] else {"keepdims": True}
            wanted = getattr(np, name)(x, axis=axis, initial=2.0, **keeps)
            for run in (call, phix.jit(call), unsized):
                np.testing.assert_array_equal(run(phix.to_tensor(x)), wanted)


@pytest.mark.parametrize("name", ["logsumexp", "log_softmax"])
def test_rows_that_turn_out_empty_have_no_largest_element_to_look_for(name: str) -> None:
    f = lambda x: getattr(ops, name)(x, axis=-1)  # noqa: E731
    slope = phix.grad(lambda x: ops.sum(f(x) * f(x)))
    calls = (slope, phix.vmap(f), phix.vmap(slope), lambda x: phix.jvp(f, (x,), (x,))[1])
    for call in calls:
        unsized = phix.jit(call, input_spec=[phix.spec(["n", "m"], "float64")])
        for shape in ((3, 4), (3, 0), (0, 4), (1, 1)):
            x = phix.to_tensor(np.arange(float(np.prod(shape))).reshape(shape) * 300 - 900)
            np.testing.assert_allclose(unsized(x).numpy(), call(x).numpy(), rtol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", ["conv2d", "conv2d_transpose"])
def test_filters_of_their_own_for_no_lanes(name: str, groups: int) -> None:
    """Lanes with filters of their own are groups, of which a convolution has one at least."""
    f = phix.vmap(lambda x, w: getattr(ops, name)(x, w, groups=groups))
    slopes = phix.grad(lambda x, w: ops.sum(f(x, w)), (0, 1))
    for lanes in (0, 2):
        x, w = (
            phix.ones([lanes, 1, 2, 4, 4]),
            phix.ones([lanes, 2, 2 // groups, 3, 3]),
        )
        specs = [phix.spec(["n", *t.shape[1:]]) for t in (x, w)]
        for call in (f, phix.jit(f), phix.jit(f, input_spec=specs)):
            assert call(x, w).shape[0] == lanes
            np.testing.assert_allclose(call(x, w).numpy(), f(x, w).numpy())
        assert [t.shape for t in slopes(x, w)] == [x.shape, w.shape]
