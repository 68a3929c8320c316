"""``phix.numpy`` beside NumPy: values, derivatives, programs, batches and unknown dims of calls."""

from __future__ import annotations

import re
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import phix
import phix.numpy as pn
import proofs
from numpy_cases import FLOATS, MADE, PLAIN, SMOOTH, VALUES, cases

pytestmark = pytest.mark.unoptimised


def run(module: Any, case: str, **values: Any) -> Any:
    return eval(case, {"np": module, **VALUES, **values})


def names_in(case: str) -> list[str]:
    return [n for n in VALUES if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"=])", case)]


def floats_in(case: str) -> list[str]:
    return [n for n in names_in(case) if n in FLOATS]


def functions_in(case: str) -> tuple[str, ...]:
    return tuple(re.findall(r"np\.[\w.]+", case)[:1])


def leaves(found: Any) -> list[Any]:
    return [np.asarray(x) for x in (found if isinstance(found, (tuple, list)) else (found,))]


def compare(found: Any, expected: Any, of_floats: bool) -> None:
    assert len(leaves(found)) == len(leaves(expected))
    for a, b in zip(leaves(found), leaves(expected)):
        assert a.shape == b.shape and a.dtype.kind == b.dtype.kind
        if of_floats or b.dtype.kind not in "fc":
            assert a.dtype == b.dtype
        if b.dtype.kind == "U":
            assert a == b
            continue
        tolerance = 1e-11 if a.dtype in (np.float64, np.complex128) else 1e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", cases(SMOOTH))
def test_values_of_floats_are_those_of_numpy(case: str) -> None:
    given = {n: phix.to_tensor(VALUES[n]) for n in names_in(case)}
    compare(run(pn, case, **given), run(np, case), True)


@pytest.mark.parametrize("case", cases(PLAIN) + cases(MADE))
def test_values_are_those_of_numpy(case: str) -> None:
    given = {n: phix.to_tensor(VALUES[n]) for n in names_in(case)}
    compare(run(pn, case, **given), run(np, case), False)


def total_of(module: Any, case: str) -> Any:
    """A weighted sum of a case's result as a function of its arrays of floats."""
    names, shape = floats_in(case), np.shape(run(np, case))
    weights = np.cos(np.arange(int(np.prod(shape)))).reshape(shape)

    def total(*given: Any) -> Any:
        return module.sum(run(module, case, **dict(zip(names, given))) * weights)

    return total


def slope_along(case: str, step: float = 1e-6) -> tuple[float, list[np.ndarray]]:
    """The derivative of that along sin of the arrays, by differences, and these directions."""
    total, arrays = total_of(np, case), [VALUES[n] for n in floats_in(case)]
    ways = [np.sin(7 * a) for a in arrays]
    ends = [total(*(a + sign * step * w for a, w in zip(arrays, ways))) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step), ways


@pytest.mark.parametrize("case", cases(SMOOTH))
def test_derivatives_agree_with_differences(case: str) -> None:
    arrays = [phix.to_tensor(VALUES[n]) for n in floats_in(case)]
    expected, ways = slope_along(case)
    slopes = phix.grad(total_of(pn, case), tuple(range(len(arrays))))(*arrays)
    found = sum(float(np.sum(np.asarray(g) * w)) for g, w in zip(slopes, ways))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("case", proofs.thinned(cases(SMOOTH), functions_in))
def test_batches_in_one_program_are_loops(case: str) -> None:
    names = floats_in(case)
    batch = [np.stack([VALUES[n], VALUES[n] * 0.9 + 0.01]) for n in names]

    def called(*given: Any) -> Any:
        return run(pn, case, **dict(zip(names, given)))

    expected = [run(np, case, **dict(zip(names, row))) for row in zip(*batch)]
    found = phix.jit(phix.vmap(called))(*batch)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-10, atol=1e-12)


UNKNOWN = [
    "np.nanmedian(s, axis=0)", "np.quantile(s, [0.2, 0.7], axis=0)", "np.var(s, axis=0, ddof=1)",
    "np.sum(s, where=s > 0, initial=2.0)", "np.cov(s)",
    "np.pad(s, 2, mode='edge')", "np.pad(s, ((1, 2), (0, 0)), mode='symmetric')",
    "np.gradient(s, axis=0)",
    "np.unwrap(9 * s, axis=0)", "np.cumulative_sum(s, axis=0, include_initial=True)",
    "np.diff(s, axis=0, prepend=0.0)", "np.vecdot(s, x)", "np.roll(s, 1, axis=0)",
    "np.searchsorted(np.sort(s[:, 0]), [0.0, 0.5])", "np.histogram(s, bins=4)[0]",
    "np.trapezoid(s, axis=0)", "np.take(s, [4, -1], axis=0, mode='wrap')", "np.median(s)",
    "np.linspace(s[0], s[-1], 3)", "np.isin(s > 0, [True])", "np.vander(s[:, 0], 3)",
    "np.convolve(s[:, 0], s[:2, 1])", "np.convolve(s[:, 0], s[:2, 1], 'same')",
    "np.convolve(s[:2, 0], s[:, 1], 'valid')", "np.correlate(s[:, 0], s[1:, 1], 'full')",
    "np.correlate(s[:, 0], s[:2, 1])", "np.pad(s, 2, mode='mean', stat_length=2)",
    "np.pad(s, 1, mode='maximum', stat_length=9)", "np.linalg.norm(s, 1)",
    "np.linalg.norm(s[:, 0], np.inf)", "np.digitize(s, np.sort(s[:, 1]))",
]  # fmt: skip


@pytest.mark.parametrize("case", proofs.thinned(UNKNOWN, functions_in))
def test_sizes_may_be_unknown(case: str) -> None:
    called = phix.jit(
        lambda s, x: run(pn, case, s=s, x=x), input_spec=[phix.spec([-1, 4], "float64")] * 2
    )
    for count in (3, 5):
        s, x = (np.sin(np.arange(4.0 * count) * f).reshape(count, 4) for f in (1.7, 2.3))
        np.testing.assert_allclose(called(s, x), run(np, case, s=s, x=x), rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ddof", (1, 3))
def test_covariances_of_too_few_samples_have_no_sign(ddof: int) -> None:
    def called(x: Any) -> Any:
        return pn.cov(x, rowvar=False, ddof=ddof)

    compiled = phix.jit(called, input_spec=[phix.spec(["n", 2], "float64")])
    for count in (5, 2, 1, 0):
        x = np.sin(np.arange(2.0 * count)).reshape(count, 2)
        expected = np.cov(x, rowvar=False, ddof=ddof)
        np.testing.assert_allclose(called(x), expected)
        np.testing.assert_allclose(compiled(x), expected)


def test_a_grid_of_indices_whose_number_is_unknown() -> None:
    def rows(x: Any, i: Any, mask: Any) -> Any:
        return x[pn.ix_(i, mask)]

    specs = [phix.spec(["n", 4], "float64"), phix.spec(["k"], "int64"), phix.spec([4], "bool")]
    x = np.arange(12.0).reshape(3, 4)
    for compiled in (phix.jit(rows), phix.jit(rows, input_spec=specs)):
        for i, mask in (([2, -1], [1, 0, 1, 1]), ([0, 1, 0], [0, 0, 0, 1]), ([], [0, 0, 0, 0])):
            own, held = np.array(i, np.int64), np.array(mask, bool)
            np.testing.assert_array_equal(compiled(x, own, held), x[np.ix_(own, held)])


def test_shapes_with_a_zero_are_of_empty_arrays() -> None:
    full, empty = pn.ones((3, 4)), pn.ones((0, 4))
    for x, shape in ((full, (0,)), (full, (0, 12)), (empty, (-1, 0))):
        for reshape in (lambda x, s: pn.reshape(x, s), lambda x, s: x.reshape(s)):
            with pytest.raises(ValueError, match="has other elements than the shape"):
                reshape(x, shape)
    assert empty.reshape(2, 0).shape == (2, 0)
    called = phix.jit(lambda x: x.reshape(0, 2), input_spec=[phix.spec(["n", 4])])
    assert called(empty).shape == (0, 2)
    with pytest.raises(ValueError, match="does not hold"):
        called(pn.ones((1, 4)))


def test_a_shape_may_be_a_tensor() -> None:
    sizes = pn.asarray([2, 3])
    assert pn.zeros(sizes).shape == (2, 3)
    assert pn.full(sizes[1], 1).shape == (3,)


def test_a_number_is_no_tensor_of_a_dtype_too_narrow() -> None:
    assert pn.int8(-128).item() == -128 and pn.uint8(True).item() == 1 and pn.int8(2.7).item() == 2
    for dtype, value in ((pn.int8, 200), (pn.uint8, -1), (pn.int64, 2**63)):
        with pytest.raises(OverflowError, match="out of the range"):
            dtype(value)


def test_a_number_alone_has_no_unbiased_variance() -> None:
    for less in (1, 2):
        assert np.isnan(pn.var(3.0, ddof=less)) and np.isnan(pn.asarray(3.0).std(ddof=less))


def test_a_covariance_of_too_few_is_infinite() -> None:
    assert pn.cov([1.0, 3.0], ddof=3).item() == np.inf
    assert pn.cov([1.0, 3.0], ddof=5, aweights=[1, 2]).item() == np.inf


def test_ints_have_no_negative_powers() -> None:
    x = pn.asarray([1, 2])
    for call in (lambda: pn.power(x, -1), lambda: pn.pow(2, x - 2), lambda: np.power(x, [-1, 1]),
                 lambda: x ** -1, lambda: 2 ** -x, lambda: x ** -x, lambda: x ** [1, -1],
                 lambda: np.array([2, 3]) ** -x):  # fmt: skip
        with pytest.raises(ValueError, match="no negative powers"):
            call()
    assert phix.jit(lambda x: 2**-x)(x).tolist() == [0, 0]
    assert (2.0**-x).tolist() == [0.5, 0.25]
    assert (x**-1.0).tolist() == [1, 0.5]
    assert pn.power(x, 2).tolist() == [1, 4] and pn.power(x.astype(float), -1).tolist() == [1, 0.5]


def test_casts_stay_within_a_kind() -> None:
    x, n = pn.asarray([1.5, -2.5]), pn.asarray([1, 2])
    for call in (lambda **k: pn.concatenate([x, n], **k), lambda **k: pn.stack([x, n], **k)):
        with pytest.raises(TypeError, match="float32 to int32; write casting='unsafe'"):
            call(dtype="int32")
        assert call(dtype="int32", casting="unsafe").dtype == np.int32
        assert call(dtype="bfloat16").dtype == "bfloat16"
    with pytest.raises(TypeError, match="int64 to uint8"):
        pn.hstack([n, n], dtype="uint8")


def test_bins_want_ends_that_are_finite() -> None:
    x = pn.asarray([1.0, np.nan])
    for call in (pn.histogram, pn.histogram_bin_edges, lambda x: pn.histogram2d(x, x)):
        with pytest.raises(ValueError, match="no bins lie between nan and nan"):
            call(x)
    with pytest.raises(ValueError, match="range goes up"):
        pn.histogram(x, range=(2, 0))
    assert pn.histogram(x, 2, range=(0, 2))[0].tolist() == [0, 1]


def test_half_precision_is_kept() -> None:
    for dtype in ("float16", "bfloat16"):
        x = pn.asarray([0.5, 1.5, -2.0], dtype)
        for name in ("sin", "cumsum", "nanmean", "nanvar", "median", "gradient", "sort", "sinc",
                     "spacing", "nan_to_num", "unwrap", "i0"):  # fmt: skip
            found = getattr(pn, name)(x)
            assert found.dtype == x.dtype, name
            assert np.all(np.isfinite(np.asarray(found, np.float32)))
        assert [f.dtype for f in pn.frexp(x)] == [x.dtype, np.int32]
        assert pn.hypot(x, x).dtype == x.dtype and pn.ldexp(x, 2).dtype == x.dtype


def test_derivatives_of_sinc_beside_zero() -> None:
    mp.mp.dps = 40
    sinc = lambda v: mp.sinc(mp.pi * v)  # noqa: E731
    for x in (0.0, 1e-9, -1e-4, 0.02, 0.3, -0.5, 0.52, 0.9, 3.3):
        derived = pn.sinc
        for order in range(4):
            wanted = float(mp.diff(sinc, mp.mpf(x), order)) if order else float(sinc(mp.mpf(x)))
            for call in (derived, phix.jit(derived)):
                found = call(np.float64(x)).item()
                assert found == pytest.approx(wanted, rel=2e-13, abs=2e-15), (x, order)
            assert derived(np.float32(x)).item() == pytest.approx(wanted, rel=2e-4, abs=1e-5)
            derived = phix.grad(derived)


def test_second_derivatives() -> None:
    x = pn.asarray(VALUES["x"])
    for case in ("np.nanvar(x)", "np.cov(x)[0, 1]", "np.gradient(x * x)[0][1, 1]",
                 "np.convolve(x[0], x[1])[3]", "np.polyval(x[0], x[1])[2]", "np.hypot(x, x)[0, 0]",
                 "np.quantile(x * x, 0.4)"):  # fmt: skip
        found = phix.hvp(lambda v, c=case: run(pn, c, x=v), (x,), (pn.cos(x),))
        step = 1e-5
        ends = [phix.grad(lambda v, c=case: run(pn, c, x=v))(x + s * step * pn.cos(x))
                for s in (1, -1)]  # fmt: skip
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float64"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "trace", "cumsum", "cumprod", "nancumsum",
                                  "nancumprod", "cumulative_sum", "cumulative_prod"])  # fmt: skip
def test_the_dtype_asked_for_is_that_of_the_result(name: str, dtype: str) -> None:
    values = np.arange(9.0).reshape(3, 3) + 2
    options: dict[str, Any] = {"dtype": dtype} if name == "trace" else {"dtype": dtype, "axis": 1}
    found = getattr(pn, name)(pn.asarray(values), **options)
    wanted = getattr(np, name)(values, **options)
    assert (str(found.dtype), found.tolist()) == (str(wanted.dtype), wanted.tolist())


def test_the_mean_of_large_ints_keeps_their_digits() -> None:
    assert pn.mean(pn.asarray([2**40 + 1] * 3), dtype="int64").item() == 2**40 + 1


@pytest.mark.parametrize("name", ["var", "std", "nanmean", "nanvar", "nanstd"])
def test_a_spread_is_no_int(name: str) -> None:
    with pytest.raises(phix.errors.DTypeError, match="found int32; leave it out"):
        getattr(pn, name)(pn.asarray([1.0, 2.5]), dtype="int32")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_open_grids_of_any_number_of_vectors(indexing: Any, count: int) -> None:
    vectors = [np.arange(n + 2.0) for n in range(count)]
    found = pn.meshgrid(*map(pn.asarray, vectors), sparse=True, indexing=indexing)
    wanted = np.meshgrid(*vectors, sparse=True, indexing=indexing)
    assert [g.tolist() for g in found] == [g.tolist() for g in wanted]


@pytest.mark.parametrize("axes", [{"a": 1}, ((0,), (0,), (1,)), "ab", None, 1.5])
def test_axes_of_tensordot_that_are_none_are_refused(axes: Any) -> None:
    x = pn.zeros((2, 3))
    with pytest.raises(phix.errors.ArgumentError, match="tensordot"):
        pn.tensordot(x, x, axes)


@pytest.mark.parametrize("axes", [np.int64(1), np.array([[1], [0]]), np.array([1, 0]), ([-1], 0)])
def test_axes_of_tensordot_may_be_arrays(axes: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    found, wanted = pn.tensordot(pn.asarray(x), pn.asarray(x.T), axes), np.tensordot(x, x.T, axes)
    np.testing.assert_allclose(found.numpy(), wanted)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: pn.apply_along_axis(lambda v: v.sum(), 1j, x),
        lambda x: pn.apply_over_axes(pn.sum, x, 1.5),
    ],
)
def test_an_axis_that_is_no_int_is_named(call: Any) -> None:
    with pytest.raises(phix.errors.ArgumentError, match=r"apply_.*: an axis is an int, found 1"):
        call(pn.zeros((2, 3)))
