"""Calls of functions that ``phix.numpy`` has, as text: run by NumPy and by phix and compared."""

from __future__ import annotations

from typing import Any

import numpy as np

RNG = np.random.default_rng(7)
VALUES: dict[str, Any] = {
    "x": RNG.uniform(0.2, 0.9, (3, 4)),
    "s": RNG.standard_normal((3, 4)),
    "v": RNG.standard_normal(5),
    "w": RNG.standard_normal(5),
    "m": np.eye(4) * 3 + RNG.uniform(-0.5, 0.5, (4, 4)),
    "t": RNG.standard_normal((2, 3, 4)),
    "c": RNG.standard_normal(4) + 1j * RNG.standard_normal(4),
    "k": RNG.integers(-6, 7, (3, 4)),
    "n": np.array([[1, 2, 3, 6], [4, 5, 9, 0]]),
    "u": np.array([3, 200, 0, 255], np.uint8),
    "h": np.array([[np.nan, 1.0, -2.0, np.inf], [3.0, np.nan, np.nan, -1.5]]),
    "d": np.array([2.0, -1.0, 2.0, 0.0, -1.0, 7.0]),
    "b": RNG.uniform(0, 1, (3, 4)) < 0.5,
}
FLOATS = "xsvwmt"
# Of floats, so that derivatives can be compared; those behind a bar are of known sizes alone.
SMOOTH = """
    np.copysign(s, v[:4])
    np.ldexp(x, n[0])
    np.frexp(x)[0]
    np.nanvar(s)
    np.nanstd(s, axis=1, ddof=1)
    np.nanmedian(s, axis=0)
    np.nanquantile(t, [0.2, 0.7], axis=(0, 2))
    np.nanmean(s, where=s > -0.3)
    np.sum(s, where=s > 0, initial=2.0)
    np.prod(s, axis=1, where=x > 0.4)
    np.mean(t, axis=1, where=t > -1.3, keepdims=True)
    np.var(t, axis=-1, where=t > -1.0)
    np.std(s, axis=0, mean=np.mean(s, axis=0, keepdims=True))
    np.max(s, axis=1, where=s < 0.5, initial=-9.0)
    np.min(s, initial=0.1)
    np.cumulative_sum(v, include_initial=True)
    np.cumulative_prod(x, axis=1)
    np.diff(s, prepend=0.0, append=s[:, :1])
    np.quantile(v, 0.37, method="hazen")
    np.quantile(v, [0.1, 0.5], method="averaged_inverted_cdf")
    np.quantile(s, 0.3, axis=1, method="median_unbiased")
    np.cov(s)
    np.cov(s, rowvar=False, bias=True)
    np.cov(v, w)
    np.cov(s, aweights=np.array([1.0, 2, 0.5, 1]), fweights=np.array([1, 2, 1, 3]))
    np.corrcoef(s)
    np.pad(s, 2, mode="edge")
    np.pad(s, ((1, 2), (3, 0)), mode="reflect")
    np.pad(v, (4, 7), mode="symmetric")
    np.pad(v, (6, 7), mode="wrap")
    np.pad(s, ((1, 2), (0, 1)), mode="linear_ramp", end_values=3.0)
    np.pad(v, 2, mode="mean")
    np.pad(v, (2, 1), mode="maximum", stat_length=2)
    np.pad(v, 2, mode="reflect", reflect_type="odd")
    np.pad(s, 1, constant_values=((1.0, 2.0), (3.0, 4.0)))
    np.delete(s, 1, axis=1)
    np.delete(v, [0, -1])
    np.delete(v, slice(0, 4, 2))
    np.insert(v, 2, 9.0)
    np.insert(s, [0, 2], w[:3, None], axis=1)
    np.insert(s, 1, v[:4], axis=0)
    np.insert(v, [1, 1, 3], [5.0, 6.0, 7.0])
    np.resize(v, (2, 4))
    np.block([[m, m[:, :1]], [m[:1], np.zeros((1, 1))]])
    np.choose(n % 3, [x[:2], s[:2], -1.0])
    np.select([s > 0.5, s > 0], [s, 2 * s], 0.5)
    np.unstack(s, axis=1)[2]
    np.rollaxis(t, 2)
    np.rollaxis(t, 0, 3)
    np.ediff1d(v, to_begin=1.0, to_end=[2.0, 3.0])
    np.sort(v, stable=True)
    np.partition(v, 2)
    np.polyval(v, x)
    np.polyadd(v, w[:3])
    np.polysub(v[:2], w)
    np.polymul(v, w[:3])
    np.polydiv(v, w[:3])[0]
    np.polydiv(v, w[:3])[1]
    np.polyder(v, 2)
    np.polyint(v, 2, k=[1.0, 2.0])
    np.poly(v)
    np.vander(v)
    np.vander(v, 3, increasing=True)
    np.polyfit(v, w, 2)
    np.polyfit(v, w, 1, cov=True)[1]
    np.convolve(v, w[:3])
    np.convolve(v[:2], w, mode="same")
    np.convolve(v, w[:3], mode="valid")
    np.correlate(v, w[:3])
    np.correlate(v[:3], w, mode="full")
    np.correlate(v, w[:2], mode="same")
    np.correlate(v[:2], w, mode="same")
    np.i0(v)
    np.gradient(v)
    np.gradient(s, 0.5, axis=1, edge_order=2)
    np.gradient(v, np.cumsum(w ** 2))
    np.gradient(v, np.cumsum(w ** 2), edge_order=2)
    np.gradient(t, axis=(0, 2))[1]
    np.unwrap(9 * s)
    np.unwrap(9 * v, period=4.0)
    np.apply_along_axis(lambda r: r[1:] * r[:-1], 1, t)
    np.apply_along_axis(lambda r: np.sum(r * r), 0, s)
    np.apply_over_axes(np.sum, t, [0, 2])
    np.piecewise(s, [s < 0, s > 0.5], [lambda a: -a, lambda a: a * a, 7.0])
    np.vecdot(s, x)
    np.vecdot(t, s[:2, :3, None], axis=1)
    np.matvec(m, s)
    np.vecmat(s, m)
    np.linalg.tensorinv(np.reshape(m, (2, 2, 4)), 2)
    np.linalg.tensorsolve(np.reshape(m, (2, 2, 4)), np.reshape(m[0], (2, 2)))
    np.linalg.diagonal(t, offset=1)
    np.linalg.matmul(s, m)
    np.linalg.vecdot(s, x)
    np.linalg.trace(t, offset=-1)
    np.interp(s, [0.0, 0.5, 1.0], v[:3])
    np.linspace(v[0], w, 4)
    np.trapezoid(s, dx=0.3)
    np.nan_to_num(s)
    np.logaddexp.reduce(s, axis=1)
    np.add.outer(v, w)
    np.full((2, 3), v[0])
    np.r_[v, 1.0, w[:2]]
    np.c_[v, w]
    np.histogram(v, bins=3, range=(-2, 2), weights=w)[0]
    np.meshgrid(v, w[:2], sparse=True)[0]
    np.astype(s, np.float64)
    np.broadcast_arrays(v[:4], s)[0]
    np.take(v, [7, -9], mode="wrap")
    np.take(v, [7, -9], mode="clip")
    np.reshape(s, (4, 3), order="F")
    np.ravel(s, order="F")
    np.permute_dims(t, (1, 2, 0))
"""
PLAIN = """
    np.signbit(s)
    np.nextafter(v, 1.0)
    np.spacing(v)
    np.ldexp(np.float64(1.5), np.array([-1074, 1023, -1060]))
    np.frexp(s)[1]
    np.frexp(1e-310 * x)[0]
    np.frexp(h)[1]
    np.gcd(k, 12)
    np.lcm(k, n[0])
    np.bitwise_count(k)
    np.bitwise_count(u)
    np.packbits(b)
    np.packbits(u)
    np.packbits(np.arange(10, dtype=np.uint8))
    np.isclose(u, u[::-1] + np.uint8(1), atol=200)
    np.isclose(np.array([-128, 3], np.int8), np.array([127, 4], np.int8), atol=1)
    np.trace(np.reshape(u, (2, 2)))
    np.linalg.matrix_power(np.array([[1, 1], [1, 0]]), 90)
    np.linalg.matrix_power(k[:, :3], 0)
    np.fmod(np.array([-128, 127, -7, 7, 5], np.int8), np.array([3, -3, 3, -3, 2], np.int8))
    np.fmod(np.array([2**64 - 1, 5], np.uint64), np.array([10, 3], np.uint64))
    np.fmod(np.array([-2.5, 2.5]), np.array([-128, 2], np.int8))
    np.heaviside(k[:1].astype(np.float32), 3)
    np.angle(-(np.abs(c) + 0j))
    np.angle(-np.array([complex(-np.inf, -2.0)]))
    np.packbits(b, axis=0, bitorder="little")
    np.unpackbits(u)
    np.unpackbits(u, count=-3, bitorder="little")
    np.isposinf(h)
    np.isneginf(h)
    np.iscomplex(c)
    np.isreal(c)
    np.sign(c)
    np.rint(c)
    np.round(c, 1)
    np.abs(b)
    np.nansum(h, axis=1)
    np.nanmax(h, axis=1)
    np.nanmin(h)
    np.nanargmax(h, axis=0)
    np.nanargmin(h[1])
    np.nanmedian(h, axis=0)
    np.nanquantile(h, 0.4, axis=1)
    np.nanpercentile(h[1], [10, 90])
    np.nancumsum(h, axis=1)
    np.quantile(n, 0.4, method="inverted_cdf")
    np.quantile(s, [0.0, 0.4], 1, method="inverted_cdf", weights=np.array([1.0, 0.5, 2.0, 0.0]))
    np.quantile(d, [0.2, 0.5], method="closest_observation")
    np.quantile(d, [0.0, 0.25, 1.0], method="weibull")
    np.quantile(d, 0.31, method="normal_unbiased")
    np.percentile(d, 61, method="interpolated_inverted_cdf")
    np.median(k, axis=1, keepdims=True)
    np.sum(u)
    np.prod(u[:2])
    np.cumsum(u)
    np.all(b, axis=0, where=k > 0)
    np.any(k, where=b)
    np.argsort(d, stable=True)
    np.argsort(c)
    np.sort(c)
    np.sort_complex(d)
    np.argpartition(d, 2)[:1] * 0
    np.lexsort((k[0], n[0]))
    np.searchsorted(np.sort(d), [0.0, 2.0, 9.0])
    np.searchsorted(np.sort(d), np.array([[0.0, 2.0]]), side="right")
    np.searchsorted(d, 2.0, sorter=np.argsort(d))
    np.digitize(d, np.array([-1.0, 0.0, 2.0]))
    np.digitize(d, np.array([2.0, 0.0, -1.0]), right=True)
    np.unique_all(d).counts
    np.unique_all(n).indices
    np.unique_counts(h).values
    np.unique_counts(h).counts
    np.unique_inverse(d).inverse_indices
    np.unique_inverse(k).values
    np.sort(np.unique_values(n))
    np.sort(np.unique_values(c))
    np.isin(k, [1, 2, -3])
    np.isin(k, [1, 2, -3], invert=True)
    np.intersect1d(d, [2.0, 7.0, 8.0])
    np.intersect1d(d, [2.0, 7.0, 8.0], return_indices=True)[1]
    np.setdiff1d(d, [2.0])
    np.setxor1d(d, [2.0, 5.0])
    np.union1d(d, [5.0])
    np.histogram(d, bins=4)[0]
    np.histogram(d, bins=4)[1]
    np.histogram(d, bins=[-1.0, 0.5, 2.0], density=True)[0]
    np.histogram(n, bins=3, range=(1, 7))[0]
    np.histogram2d(v, w, bins=2)[0]
    np.histogramdd(np.stack([v, w], 1), bins=(2, 3))[0]
    np.histogram_bin_edges(d, 5)
    np.ix_([0, 2], [1, 3])[1]
    np.diag_indices_from(m)[0]
    np.tril_indices_from(s, 1)[1]
    np.triu_indices_from(s)[0]
    np.ravel_multi_index((n[0] % 3, n[1] % 4), (3, 4))
    np.ravel_multi_index((n[0], n[1]), (3, 4), mode="wrap")
    np.ravel_multi_index((n[0], n[1]), (3, 4), mode="clip")
    np.unravel_index(n, (3, 4))[0]
    np.unravel_index(n, (3, 4), order="F")[0]
    np.ravel_multi_index((n[0] % 3, n[1] % 4), (3, 4), order="F")
    np.trim_zeros(np.array([0, 0, 3, 0, 1, 0]) * d[:1].astype(int))
    np.choose(n, [k[:1], 7], mode="clip")
    np.sort(np.roots(d[:4]))
    np.sort(np.roots(np.array([0.0, 1.0, -3.0, 4.0, 0.0]) * x[0, 0]))
    np.einsum("ij,j", s, v[:4])
    np.vecdot(c, c)
    np.vdot(c, c)
    np.cov(c, c[::-1])
    np.array_equiv(s, s[None])
    np.array_equal(h, h, equal_nan=True)
    np.result_type(k, 1) == np.result_type(k)
    np.broadcast_shapes((3, 1), (2, 1, 4))
    np.full_like(u, 7)
    np.tri(3, 4, 1) * x[0, 0]
    np.unwrap(k)
    np.diff(b)
    np.diff(u)
    np.count_nonzero(k, axis=0)
    np.where(k > 0)
    np.linalg.cond(m, 1)
    np.linalg.svdvals(s)
    np.real(np.fft.fftn(t))
    np.size(t, 1)
    np.pad(u, 2, mode="mean")
    np.pad(k, 1, mode="median")
    np.pad(k, (2, 3), mode="linear_ramp")
    np.pad(k, ((1, 3), (4, 2)), mode="linear_ramp", end_values=((5, -4), (7, 1)))
    np.pad(n[0], (2, 3), mode="linear_ramp", end_values=(5, 0))
    np.piecewise(k[0], [True, False, False, True], [2, 3])
    np.piecewise(k[0], b[:2], [2, 3])
    np.linalg.matrix_power(b[:, :3], 3)
    np.linalg.matrix_power(b[:, :3], 0)
    np.linalg.matrix_power(k[:, :3], 1)
    np.size(t, (0, 2))
    np.piecewise(k[0, 0], b[0], [2, 3, 4, 5])
"""
# Made of Python's numbers alone: of phix's default float.
MADE = """
    np.arange(5)
    np.arange(1, 2, 0.3)
    np.arange(5, 1, -2)
    np.linspace(0, 1, 7)
    np.linspace(2, 5, 4, endpoint=False)
    np.linspace(0, 10, 5, dtype=int)
    np.linspace(1, 2, 3, retstep=True)[1]
    np.logspace(0, 2, 5)
    np.logspace(0, 3, 4, base=2)
    np.geomspace(1, 1000, 4)
    np.geomspace(-2, -32, 5)
    np.geomspace(-1, 1, 5, dtype=complex)
    np.geomspace(-1 + 0j, 1 + 0j, 5)
    np.geomspace([1j, 2 + 1j], -1 - 3j, 4)
    np.logspace(2, 3, 4, base=np.array([2, 3]), axis=-1)
    np.logspace([1, 2], 3, 4, base=np.array([[2], [3]]), axis=1)
    np.arange(4, dtype=complex)
    np.arange(1, 7, 2, dtype=np.complex64)
    np.eye(3, 4, 1)
    np.eye(2, dtype=int)
    np.identity(3)
    np.tri(3, 4, -1)
    np.zeros((2, 3))
    np.ones(3, dtype=np.int32)
    np.full((2,), 7)
    np.full((2, 2), [1.5, 2.5])
    np.array([[1, 2], [3, 4]])
    np.array([1.5], ndmin=3)
    np.asarray([True, False])
    np.indices((2, 3))
    np.indices((2, 3), sparse=True)[1]
    np.fromfunction(lambda i, j: i + 2 * j, (2, 3), dtype=int)
    np.frombuffer(b"abcd", dtype=np.uint8)
    np.fromiter(range(4), dtype=np.int32)
    np.mgrid[0:3, 1:2:3j]
    np.ogrid[0:3, 0:2][1]
    np.r_[1:4, 0, [5, 6]]
    np.r_["0,2", [1, 2], [3, 4]]
    np.c_[[1, 2], [3, 4]]
    np.r_["1,2,0", [1, 2], [3, 4]]
    np.diag_indices(3)[1]
    np.tril_indices(3, 1)[0]
    np.triu_indices(3, -1, 4)[1]
    np.mask_indices(3, np.triu, 1)[0]
    np.bartlett(6)
    np.blackman(5)
    np.hamming(4)
    np.hanning(7)
    np.kaiser(6, 8.6)
    np.hanning(1)
    np.vander([1, 2, 3])
    np.sin([0, 1, 2])
    np.mean([1, 2, 4])
    np.sum([[1.5, 2.5]], axis=0)
    np.concatenate(([1, 2], [3]))
    np.add(1, 2)
    np.divide(1, 2)
    np.fft.fftfreq(5)
    np.fft.rfftfreq(6, 0.5)
    np.vectorize(lambda a, b: np.where(a > b, a - b, a + b))([1, 2, 3, 4], 2)
    np.vectorize(lambda a, b: np.sum(a) * b, signature="(i),()->()")([[1.0, 2.0], [3.0, 4.0]], 2.0)
    np.poly([2, 3])
    np.select([[True, False], [True, True]], [[1, 2], [3, 4]])
    np.cross([1, 2, 3], [4, 5, 6])
    np.interp(2.5, [1, 2, 3], [3, 2, 0])
    np.einsum("i,i->", [1, 2], [3, 4])
    np.isscalar(3.0)
    np.iinfo(np.int8).max
    np.float64(np.finfo(np.float32).eps)
    np.isdtype(np.dtype("int32"), "integral")
    np.issubdtype(np.float32, np.floating)
    np.can_cast(np.int32, np.int64)
    np.array_str(np.arange(3))
"""


def cases(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
