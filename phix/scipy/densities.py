"""Densities of samples by kernels: ``scipy.stats.gaussian_kde``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import linalg, ops, random
from phix.core import pytrees
from phix.core.dims import dim_text
from phix.core.errors import AttributeValueError, ShapeError, described
from phix.core.expectations import expect, expect_dims
from phix.core.given import is_int, named
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.scipy.entropies import floats
from phix.scipy.sums import logsumexp


class gaussian_kde:
    """The density of samples: at each of them a normal density, of one covariance.

    ``density(x) = sum_i weights_i normal(x; dataset_i, covariance)``, with the covariance of the
    samples times the square of a factor. A tree of tensors, which goes through ``jit``, ``vmap``
    and ``grad`` as an argument and as a result.

    Args:
        dataset: ``[d, n]``, n samples of d numbers, or ``[n]``, float32 or float64; n from 2 on.
        bw_method: the factor: ``"scott"`` (the default), neff^(-1 / (d + 4)); ``"silverman"``,
            (neff (d + 2) / 4)^(-1 / (d + 4)); a number; or a function of the density that gives
            one, of its ``neff`` and ``d``.
        weights: ``[n]``, how much each sample counts; all alike if None.

    Attributes: ``dataset`` [d, n]; ``weights`` [n], which add up to 1; ``neff``, which is
    1 / sum(weights^2); ``covariance`` and ``inv_cov`` [d, d].

    Raises:
        ShapeError: there are fewer than two samples, or weights of another shape.
        AttributeValueError: ``bw_method`` is none of those.

    >>> import phix
    >>> kde = phix.scipy.stats.gaussian_kde(phix.to_tensor([-1.0, 0.0, 1.0]))
    >>> round(kde(0.0).item(), 4), kde.covariance.shape
    (0.3182, (1, 1))
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    @named("gaussian_kde")
    def __init__(
        self, dataset: TensorLike, bw_method: Any = None, weights: TensorLike | None = None
    ) -> None:
        (samples,) = floats(dataset)
        samples = ops.unsqueeze(samples, [0]) if samples.ndim < 2 else samples
        refusal = (
            "gaussian_kde: dataset is [d, n], n samples of d numbers, n from 2 on, found "
            f"{samples.meta}"
        )
        samples = expect(samples, refusal, (samples.shape[-1] if samples.ndim == 2 else 0) - 2)
        shares = _shares(samples, weights)
        self.dataset, self.weights = samples, shares
        self.neff = 1 / ops.sum(shares * shares)
        centred = samples - ops.sum(samples * shares, [1], keepdim=True)
        spread = ops.matmul(centred * shares, ops.transpose(centred, [1, 0]))
        factor = _factor(self, bw_method)
        scale = factor * factor / (1 - ops.sum(shares * shares))
        self.covariance = spread * scale
        self.inv_cov = linalg.inv(self.covariance)

    @property
    def d(self) -> Any:
        """How many numbers a sample has."""
        return self.dataset.shape[0]

    @property
    def n(self) -> Any:
        """How many samples there are."""
        return self.dataset.shape[1]

    def evaluate(self, points: TensorLike) -> Tensor:
        """The density at ``points``, [d, m], or [m] where d is 1 (or [d], one point): [m]."""
        return ops.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    @named("gaussian_kde.logpdf")
    def logpdf(self, x: TensorLike) -> Tensor:
        """The logarithm of the density at points as those of :meth:`evaluate`."""
        points = self._points("logpdf", x)
        return self._of_normals(self.dataset, self.weights, points, self.covariance)

    @named("gaussian_kde.integrate_gaussian")
    def integrate_gaussian(self, mean: TensorLike, cov: TensorLike) -> Tensor:
        """The integral of the density times that of one normal, of ``mean`` [d] and ``cov``."""
        centre, spread = self._alike(mean, cov)
        dims = self._square("integrate_gaussian", centre, spread)
        total = self.covariance + ops.reshape(spread, dims)
        found = self._of_normals(self.dataset, self.weights, ops.reshape(centre, [-1, 1]), total)
        return ops.exp(found[0])

    @named("gaussian_kde.integrate_box_1d")
    def integrate_box_1d(self, low: TensorLike, high: TensorLike) -> Tensor:
        """The integral of a density of single numbers from ``low`` to ``high``."""
        if self.d != 1:
            raise ShapeError(f"integrate_box_1d: a density of single numbers has one box, this is "
                             f"one of {self.d} numbers; add up evaluate over a grid")  # fmt: skip
        scale = ops.sqrt(self.covariance[0, 0])
        ends = ((v - self.dataset[0]) / scale for v in self._alike(low, high))
        below, above = map(ops.ndtr, ends)
        return ops.sum((above - below) * self.weights)

    @named("gaussian_kde.integrate_kde")
    def integrate_kde(self, other: gaussian_kde) -> Tensor:
        """The integral of the product of this density and another one of as many numbers."""
        if not isinstance(other, gaussian_kde) or other.d != self.d:
            raise ShapeError(f"integrate_kde: takes a gaussian_kde of {self.d} numbers, found "
                             f"{described(other)}")  # fmt: skip
        total = self.covariance + other.covariance
        logs = self._of_normals(self.dataset, self.weights, other.dataset, total)
        return ops.sum(ops.exp(logs) * other.weights)

    @named("gaussian_kde.resample")
    def resample(self, key: TensorLike, shape: Any = ()) -> Tensor:
        """Draws: a sample for each place of ``shape``, [d, *shape]."""
        dims = (shape,) if is_int(shape) else tuple(shape)
        first, second = random.split(key)
        chosen = random.choice(first, self.n, dims, p=self.weights)
        dtype = self.dataset.dtype
        noise = random.normal(second, [self.d, *dims], dtype=dtype)
        lower = linalg.cholesky(self.covariance)
        flat = ops.matmul(lower, ops.reshape(noise, [self.d, -1]))
        around = ops.gather(self.dataset, ops.reshape(chosen, [-1]), 1)
        return ops.reshape(around + flat, noise.shape)

    def _alike(self, *values: TensorLike) -> list[Any]:
        """The values in the dtype of the samples."""
        dtype = self.dataset.dtype
        return [ops.cast(v, dtype) for v in floats(self.dataset, *values)[1:]]

    def _points(self, name: str, x: TensorLike) -> Tensor:
        (points,) = self._alike(x)
        if points.ndim < 2:
            is_one = points.ndim == 1 and points.shape[0] == self.d != 1
            points = ops.reshape(points, [self.d, 1] if is_one else [1, -1])
        refusal = (
            f"gaussian_kde.{name}: points are [d, m], m of {dim_text(self.d)} numbers each, found "
            f"{points.meta}"
        )
        return expect_dims(points, refusal, (self.d, points.shape[-1]))

    def _square(self, name: str, mean: Tensor, cov: Tensor) -> list[Any]:
        if mean.size != self.d or cov.size != self.d * self.d:
            raise ShapeError(f"gaussian_kde.{name}: mean is [{self.d}] and cov [{self.d}, {self.d}]"
                             f", found {mean.meta} and {cov.meta}")  # fmt: skip
        return [self.d, self.d]

    def _of_normals(self, centres: Any, weights: Any, points: Any, covariance: Any) -> Tensor:
        """The logarithm, at each of the points, of a sum of normal densities around centres."""
        lower = linalg.cholesky(covariance)
        whitened = [linalg.solve_triangular(lower, v, lower=True) for v in (centres, points)]
        gaps = ops.unsqueeze(whitened[1], [2]) - ops.unsqueeze(whitened[0], [1])
        squares = ops.sum(gaps * gaps, [0])
        size = ops.sum(ops.log(ops.diagonal(lower, 0, 0, 1)))
        shift = size + 0.5 * math.log(2 * math.pi) * self.d
        return logsumexp(-0.5 * squares, 1, b=ops.unsqueeze(weights, [0])) - shift


_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")


def _of_fields(_: None, fields: Any) -> gaussian_kde:
    made = object.__new__(gaussian_kde)
    vars(made).update(zip(_FIELDS, fields))
    return made


pytrees.register(
    gaussian_kde, lambda kde: (tuple(getattr(kde, f) for f in _FIELDS), None, _FIELDS), _of_fields
)


def _shares(samples: Any, weights: Any) -> Any:
    count = samples.shape[1]
    if weights is None:
        return ops.full([count], 1, samples.dtype) / count
    given = ops.cast(floats(samples, weights)[1], samples.dtype)
    refusal = (
        f"gaussian_kde: weights are one number for each of {dim_text(count)} samples, found "
        f"{given.meta}"
    )
    given = expect_dims(given, refusal, (count,))
    return given / ops.sum(given)


_NUMBERS = (int, float, np.generic, np.ndarray, TensorBase)


def _factor(density: gaussian_kde, method: Any) -> Any:
    power = -1.0 / (density.d + 4)
    rule = "scott" if method is None else method if isinstance(method, str) else ""
    if rule == "scott":
        return density.neff**power
    if rule == "silverman":
        return (density.neff * ((density.d + 2) / 4)) ** power
    found = method(density) if callable(method) else method
    if isinstance(found, _NUMBERS) and not isinstance(found, bool):
        return density._alike(found)[0]
    raise AttributeValueError(
        "gaussian_kde: bw_method is 'scott', 'silverman', a number, or a function of the density, "
        f"found {described(method)}"
    )
