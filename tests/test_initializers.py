"""``phix.nn.initializers``: the moments, bounds and shapes that each promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import phix
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.nn import initializers

pytestmark = pytest.mark.unoptimised
KEY = phix.random.key(3)
# name -> what n is of (fan_in, fan_out), and the variance times n
SCALED: dict[str, tuple[Any, float]] = {
    "glorot": (lambda i, o: (i + o) / 2, 1.0), "xavier": (lambda i, o: (i + o) / 2, 1.0),
    "he": (lambda i, o: i, 2.0), "kaiming": (lambda i, o: i, 2.0), "lecun": (lambda i, o: i, 1.0),
}  # fmt: skip
CUT = 0.8796256610342398  # the deviation of a normal number within 2 of 0


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("shape", [(60, 200), (3, 3, 20, 100)])
def test_variances_go_by_how_many_numbers_a_sum_has(name: str, shape: tuple[int, ...]) -> None:
    counts, scale = SCALED[name]
    window = math.prod(shape[:-2])
    deviation = math.sqrt(scale / counts(shape[-2] * window, shape[-1] * window))
    for kind, most in (("uniform", math.sqrt(3)), ("normal", 2 / CUT)):
        found = getattr(initializers, f"{name}_{kind}")()(KEY, shape).numpy()
        assert found.shape == shape and found.dtype == np.float32
        assert abs(found.mean()) < 0.05 * deviation
        np.testing.assert_allclose(found.std(), deviation, rtol=0.03)
        largest = abs(found).max() / deviation
        assert 0.97 * most < largest <= most * (1 + 1e-6)


def test_modes_and_axes_of_variance_scaling() -> None:
    shape = (40, 30, 5, 2)  # [out, in, window, batch]
    wanted = {"fan_in": 150, "fan_out": 200, "fan_avg": 175, "fan_geo_avg": math.sqrt(150 * 200)}
    for mode, n in wanted.items():
        for distribution in ("uniform", "normal", "truncated_normal"):
            init = initializers.variance_scaling(3.0, mode, distribution, 1, 0, 3, "float64")  # type: ignore[arg-type]
            found = init(KEY, shape)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found.std(), math.sqrt(3 / n), rtol=0.04)
    several = initializers.variance_scaling(1.0, "fan_in", "normal", (0, 1), (2, 3))(KEY, shape)
    np.testing.assert_allclose(several.std(), math.sqrt(1 / 1200), rtol=0.04)
    again = initializers.he_normal(in_axis=1, out_axis=0)(KEY, (8, 4, 3, 3))
    same = initializers.variance_scaling(2.0, "fan_in", "truncated_normal", 1, 0)(KEY, (8, 4, 3, 3))
    np.testing.assert_array_equal(again, same)
    vector = initializers.variance_scaling(1.0, "fan_in", "normal", 0, ())(KEY, [4000])
    np.testing.assert_allclose(vector.std(), 4000**-0.5, rtol=0.04)


def test_draws_of_one_distribution() -> None:
    n = [4000]
    flat = initializers.uniform(0.5)(KEY, n).numpy()
    assert flat.min() >= 0 and flat.max() <= 0.5 and abs(flat.mean() - 0.25) < 0.01
    np.testing.assert_allclose(initializers.normal(0.3)(KEY, n).std(), 0.3, rtol=0.04)
    cut = initializers.truncated_normal(0.3, lower=-1.0, upper=0.5)(KEY, n).numpy()
    assert -0.3 <= cut.min() < -0.29 and 0.14 < cut.max() <= 0.15
    assert initializers.zeros(KEY, (2, 3)).tolist() == [[0.0] * 3] * 2
    assert initializers.ones(KEY, (2,), "float16").dtype == np.float16
    assert initializers.constant([1.0, 2.0])(KEY, (3, 2)).tolist() == [[1.0, 2.0]] * 3
    assert initializers.constant(0.1, "float64")(KEY, ()).item() == 0.1
    for dtype in ("float16", "bfloat16"):
        narrow = initializers.glorot_normal(dtype=dtype)(KEY, (50, 50))
        assert narrow.dtype == dtype
        np.testing.assert_allclose(narrow.astype("float32").std(), 0.141, rtol=0.05)
        assert initializers.orthogonal()(KEY, (3, 3), dtype).dtype == dtype
    with phix.default_dtype("float64"):
        assert initializers.normal()(KEY, n).dtype == np.float64


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 4), (3, 0)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_matrices_are_orthogonal(shape: tuple[int, ...], axis: int) -> None:
    found = initializers.orthogonal(3.0, axis, "float64")(KEY, shape).numpy()
    assert found.shape == shape
    matrix = np.moveaxis(found, axis, -1).reshape(math.prod(shape) // max(shape[axis], 1), -1) if (
        found.size) else found  # fmt: skip
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    if found.size:
        np.testing.assert_allclose(product, 9 * np.eye(len(product)), atol=1e-12)


@pytest.mark.parametrize("window", [(3,), (4, 5), (1, 2, 3)])
def test_windows_are_orthogonal_in_the_middle(window: tuple[int, ...]) -> None:
    found = initializers.delta_orthogonal(2.0, dtype="float64")(KEY, (*window, 3, 4)).numpy()
    middle = found[tuple((n - 1) // 2 for n in window)]
    np.testing.assert_allclose(middle @ middle.T, 4 * np.eye(3), atol=1e-12)
    assert np.count_nonzero(found) == np.count_nonzero(middle)
    x = phix.random.normal(KEY, [1, 3, 6, 7], "float64")
    weight = initializers.delta_orthogonal(dtype="float64")(KEY, (3, 3, 3, 8))
    out = phix.nn.functional.conv2d(x, weight.transpose(3, 2, 0, 1), padding=1)
    np.testing.assert_allclose((out * out).sum(), (x * x).sum())


def test_weights_in_programs_and_layers() -> None:
    init = initializers.he_uniform()
    whole = phix.jit(lambda key: init(key, [3, 4]))(KEY)
    np.testing.assert_array_equal(whole, init(KEY, [3, 4]))
    lanes = phix.vmap(lambda key: init(key, [3, 4]))(phix.random.split(KEY, 2))
    np.testing.assert_array_equal(lanes[1], init(phix.random.split(KEY, 2)[1], [3, 4]))
    layer = phix.nn.Linear(whole, initializers.zeros(KEY, [4]))
    assert layer(phix.ones([2, 3])).shape == (2, 4)


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: initializers.he_normal()(KEY, [3]), ShapeError, "say in_axis="),
        (lambda: initializers.he_normal(0, 0)(KEY, [3, 3]), AttributeValueError, "twice"),
        (lambda: initializers.he_normal(5)(KEY, [3, 3]), AttributeValueError, "range"),
        (lambda: initializers.variance_scaling(0.0, "fan_in", "normal"), AttributeValueError,
         "scale is above 0"),
        (lambda: initializers.variance_scaling(1.0, "fan", "normal"), ArgumentError, "mode"),
        (lambda: initializers.variance_scaling(1.0, "fan_in", "cauchy"), ArgumentError, "distrib"),
        (lambda: initializers.orthogonal()(KEY, [3]), ShapeError, "two axes or more"),
        (lambda: initializers.delta_orthogonal()(KEY, [3, 4]), ShapeError, "one to three axes"),
        (lambda: initializers.delta_orthogonal()(KEY, [3, 4, 3]), ShapeError, "at most out"),
        (lambda: initializers.normal(dtype="int32")(KEY, [3]), DTypeError, "weights are floats"),
        (lambda: initializers.ones(KEY, [3], "complex64"), DTypeError, "weights are floats"),
        (lambda: initializers.normal()(KEY, "ab"), ArgumentError, "shape"),
    ],
)  # fmt: skip
def test_what_is_refused(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()


@pytest.mark.parametrize("value", [1 + 2j, [1.0, 2j]])
def test_constants_have_no_imaginary_parts(value: Any) -> None:
    with pytest.raises(DTypeError, match=r"weights are floats.*take its real part"):
        initializers.constant(value)(KEY, (2,))
