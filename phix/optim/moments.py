"""Transformations that scale updates by the moments of the gradients so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops
from phix.core.annotations import DTypeLike
from phix.core.given import takes
from phix.optim.base import (
    NUMBER,
    GradientTransformationExtraArgs,
    Unbias,
    as_tensor,
    mapped,
    mean_of,
    no_steps,
    number,
    of_shape,
    one_more,
    pair,
    split,
    square,
    to_dtype,
    wide,
    zeros,
)


class ScaleByAdamState(NamedTuple):
    """How many steps were made, and the running means of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


class ScaleByLionState(NamedTuple):
    """How many steps were made, and the running mean of gradients."""

    count: Any
    mu: Any


class ScaleByRmsState(NamedTuple):
    """The running mean of squares; count is None unless it is unbiased."""

    nu: Any
    count: Any = None


class ScaleByRStdDevState(NamedTuple):
    """The running means of gradients and of squares; count is None unless they are unbiased."""

    mu: Any
    nu: Any
    count: Any = None


class ScaleByRssState(NamedTuple):
    """The sum of squares."""

    sum_of_squares: Any


class ScaleByAdaDeltaState(NamedTuple):
    """The running means of the squares of gradients and of updates."""

    e_g: Any
    e_x: Any


def _moments(updates: Any, state: Any, b1: Any, b2: Any) -> tuple[Any, Any]:
    """The running means of gradients and of their squares, computed wide."""
    mu = mapped(lambda g, m: mean_of(b1, m, wide(g)), updates, state.mu)
    nu = mapped(lambda g, v: mean_of(b2, v, square(wide(g))), updates, state.nu)
    return mu, nu


def _kept(new: Any, old: Any) -> Any:
    """What goes into the state: in the dtypes it has."""
    return mapped(lambda n, o: to_dtype(n, o.dtype), new, old)


def _root(v: Any, eps_root: Any) -> Any:
    if isinstance(eps_root, (int, float)) and eps_root == 0:
        return ops.sqrt(v)
    return ops.sqrt(v + number(eps_root, v.dtype))


def _unbiased_means(
    updates: Any, mu: Any, nu: Any, count: Any, b1: Any, b2: Any, nesterov: bool
) -> tuple[Any, Any]:
    first, second = Unbias(b1, count), Unbias(b2, count)
    if not nesterov:
        return mapped(first, mu), mapped(second, nu)
    ahead = Unbias(b1, one_more(count))
    mean = mapped(lambda m, g: mean_of(b1, ahead(m), first(wide(g))), mu, updates)
    return mean, mapped(second, nu)


@takes(b1=NUMBER, b2=NUMBER, eps=NUMBER, eps_root=NUMBER)
def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """m / (sqrt(v + eps_root) + eps), with m and v the unbiased running means of g and g ** 2.

    (D. Kingma and J. Ba, "Adam", 2015.) nesterov looks a step ahead (T. Dozat, 2016).

    Args:
        b1, b2: the decays of the means.
        eps, eps_root: added outside and inside the root.
        mu_dtype: the dtype that m is kept in; None: that of the parameter.
        nesterov: whether the mean is that of the next step, with the gradient in its place.

    >>> import phix
    >>> tx = phix.optim.scale_by_adam(eps=0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [1.0]
    """

    def init(params: Any) -> ScaleByAdamState:
        return ScaleByAdamState(no_steps(), zeros(params, mu_dtype), zeros(params, squares=True))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        mu, nu = _moments(updates, state, b1, b2)
        count = one_more(state.count)
        mean, variance = _unbiased_means(updates, mu, nu, count, b1, b2, nesterov)

        def direction(g: Any, m: Any, v: Any) -> Any:
            root = _root(v, eps_root)
            return to_dtype(m / (root + number(eps, v.dtype)), g.dtype)

        new = ScaleByAdamState(count, _kept(mu, state.mu), _kept(nu, state.nu))
        return mapped(direction, updates, mean, variance), new

    return pair("scale_by_adam", init, update)


@takes(b1=NUMBER, b2=NUMBER, eps=NUMBER)
def scale_by_adamax(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformationExtraArgs:
    """m / v with m the unbiased running mean of g, and v = max(abs(g) + eps, b2 * v).

    >>> import phix
    >>> tx = phix.optim.scale_by_adamax()
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [1.0]
    """

    def init(params: Any) -> ScaleByAdamState:
        return ScaleByAdamState(no_steps(), zeros(params), zeros(params, squares=True))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        mu = mapped(lambda g, m: mean_of(b1, m, wide(g)), updates, state.mu)

        def largest(g: Any, v: Any) -> Any:
            grown = ops.abs(wide(g)) + number(eps, g.dtype)
            return ops.maximum(grown, number(b2, v.dtype) * wide(v))

        nu = mapped(largest, updates, state.nu)
        count = one_more(state.count)
        unbias = Unbias(b1, count)
        out = mapped(lambda g, m, v: to_dtype(unbias(m) / v, g.dtype), updates, mu, nu)
        return out, ScaleByAdamState(count, _kept(mu, state.mu), _kept(nu, state.nu))

    return pair("scale_by_adamax", init, update)


@takes(b1=NUMBER, b2=NUMBER, eps=NUMBER, eps_root=NUMBER, threshold=NUMBER)
def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Rectified Adam: r * m / (sqrt(v + eps_root) + eps) once enough is known of v, m before.

    (L. Liu et al., "On the variance of the adaptive learning rate and beyond", 2020.) With
    s = 2 / (1 - b2) - 1 and t = s - 2 * n * b2 ** n / (1 - b2 ** n) after n steps,
    r = sqrt((t - 4) * (t - 2) * s / ((s - 4) * (s - 2) * t)), and enough is t >= threshold.

    >>> import phix
    >>> tx = phix.optim.scale_by_radam()
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [4.0]
    """

    def init(params: Any) -> ScaleByAdamState:
        return ScaleByAdamState(no_steps(), zeros(params), zeros(params, squares=True))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        mu, nu = _moments(updates, state, b1, b2)
        count = one_more(state.count)
        mean, variance = _unbiased_means(updates, mu, nu, count, b1, b2, nesterov)
        steps = count.astype("float64")  # t is a small difference of numbers about s
        decay = number(b2, steps.dtype)
        most = 2.0 / (1.0 - decay) - 1.0
        unseen = Unbias(decay, count)(ops.full((), 1.0, "float64"))  # 1 / (1 - b2 ** n)
        length = most - 2.0 * steps * (unseen - 1.0)
        is_long = length >= threshold
        told = ops.where(is_long, length, ops.maximum(as_tensor(5.0), threshold))
        ratio = ops.sqrt((told - 4) * (told - 2) * most / ((most - 4) * (most - 2) * told))

        def direction(g: Any, m: Any, v: Any) -> Any:
            root = _root(v, eps_root) + number(eps, v.dtype)
            return to_dtype(ops.where(is_long, to_dtype(ratio, v.dtype) * m / root, m), g.dtype)

        new = ScaleByAdamState(count, _kept(mu, state.mu), _kept(nu, state.nu))
        return mapped(direction, updates, mean, variance), new

    return pair("scale_by_radam", init, update)


@takes(b1=NUMBER, b2=NUMBER)
def scale_by_lion(
    b1: float = 0.9, b2: float = 0.99, mu_dtype: DTypeLike | None = None
) -> GradientTransformationExtraArgs:
    """sign(b1 * m + (1 - b1) * g), with m the running mean of g by b2.

    (X. Chen et al., "Symbolic discovery of optimization algorithms", 2023.)

    >>> import phix
    >>> tx = phix.optim.scale_by_lion()
    >>> tx.update([phix.full([1], -4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-1.0]
    """

    def init(params: Any) -> ScaleByLionState:
        return ScaleByLionState(no_steps(), zeros(params, mu_dtype))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        out = mapped(lambda g, m: to_dtype(ops.sign(mean_of(b1, m, wide(g))), g.dtype),
                     updates, state.mu)  # fmt: skip
        mu = mapped(lambda g, m: to_dtype(mean_of(b2, m, wide(g)), m.dtype), updates, state.mu)
        return out, ScaleByLionState(one_more(state.count), mu)

    return pair("scale_by_lion", init, update)


def _by_squares(
    name: str, decay: Any, eps: Any, initial_scale: Any, eps_in_sqrt: bool, unbiased: bool,
    centered: bool,
) -> GradientTransformationExtraArgs:  # fmt: skip
    """g / sqrt(v + eps), or g / (sqrt(v) + eps); v less the squared mean if it is centered."""

    def init(params: Any) -> Any:
        nu = zeros(params, value=initial_scale, squares=True)
        count = no_steps() if unbiased else None
        return ScaleByRStdDevState(zeros(params), nu, count) if centered else ScaleByRmsState(
            nu, count)  # fmt: skip

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        nu = mapped(lambda g, v: mean_of(decay, v, square(wide(g))), updates, state.nu)
        count = one_more(state.count) if unbiased else None
        unbias = Unbias(decay, count) if unbiased else (lambda x: x)
        spread, mu = mapped(unbias, nu), None
        if centered:
            mu = mapped(lambda g, m: mean_of(decay, m, wide(g)), updates, state.mu)
            # no spread at all may round to less than none
            spread = mapped(lambda v, m: ops.maximum(v - square(unbias(m)), 0.0), spread, mu)

        def scaled(g: Any, v: Any) -> Any:
            e = number(eps, v.dtype)
            root = ops.rsqrt(v + e) if eps_in_sqrt else 1 / (ops.sqrt(v) + e)
            return to_dtype(wide(g) * root, g.dtype)

        kept = _kept(nu, state.nu)
        new = (ScaleByRStdDevState(_kept(mu, state.mu), kept, count) if centered
               else ScaleByRmsState(kept, count))  # fmt: skip
        return mapped(scaled, updates, spread), new

    return pair(name, init, update)


@takes(decay=NUMBER, eps=NUMBER, initial_scale=NUMBER)
def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformationExtraArgs:
    """g / sqrt(v + eps), with v the running mean of g ** 2, which begins at initial_scale.

    eps_in_sqrt=False adds eps to the root; bias_correction divides v by 1 - decay ** n.

    >>> import phix
    >>> tx = phix.optim.scale_by_rms(0.75, eps=0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [2.0]
    """
    return _by_squares(
        "scale_by_rms", decay, eps, initial_scale, eps_in_sqrt, bias_correction, False
    )


@takes(decay=NUMBER, eps=NUMBER, initial_scale=NUMBER)
def scale_by_stddev(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformationExtraArgs:
    """As :func:`scale_by_rms`, with v less the square of the running mean of g.

    >>> import phix
    >>> tx = phix.optim.scale_by_stddev(0.5, eps=0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [2.0]
    """
    return _by_squares(
        "scale_by_stddev", decay, eps, initial_scale, eps_in_sqrt, bias_correction, True
    )


@takes(initial_accumulator_value=NUMBER, eps=NUMBER)
def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformationExtraArgs:
    """g / sqrt(s + eps), with s the sum of g ** 2 and the initial value; 0 where s is 0.

    >>> import phix
    >>> tx = phix.optim.scale_by_rss(0.0, 0.0)
    >>> tx.update([phix.full([1], 4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [1.0]
    """

    def init(params: Any) -> ScaleByRssState:
        return ScaleByRssState(zeros(params, value=initial_accumulator_value, squares=True))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        sums = mapped(lambda g, s: square(wide(g)) + wide(s), updates, state.sum_of_squares)

        def scaled(g: Any, s: Any) -> Any:
            root = ops.rsqrt(ops.where(s > 0, s, 1.0) + number(eps, s.dtype))
            return to_dtype(wide(g) * ops.where(s > 0, root, 0.0), g.dtype)

        return mapped(scaled, updates, sums), ScaleByRssState(_kept(sums, state.sum_of_squares))

    return pair("scale_by_rss", init, update)


@takes(rho=NUMBER, eps=NUMBER)
def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> GradientTransformationExtraArgs:
    """u = sqrt(x + eps) / sqrt(v + eps) * g, with v and x the running means of g ** 2 and u ** 2.

    (M. Zeiler, "ADADELTA", 2012.)

    >>> import phix
    >>> tx = phix.optim.scale_by_adadelta(0.0, 1.0)
    >>> tx.update([phix.full([1], 0.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [0.0]
    """

    def init(params: Any) -> ScaleByAdaDeltaState:
        return ScaleByAdaDeltaState(zeros(params, squares=True), zeros(params, squares=True))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        def one(g: Any, v: Any, x: Any) -> Any:
            v, x = of_shape(v, g), of_shape(x, g)
            e = number(eps, g.dtype)
            new_v = mean_of(rho, v, square(wide(g)))
            u = ops.sqrt(wide(x) + e) / ops.sqrt(new_v + e) * wide(g)
            new_x = mean_of(rho, x, square(u))
            return to_dtype(u, g.dtype), to_dtype(new_v, v.dtype), to_dtype(new_x, x.dtype)

        out, e_g, e_x = split(3, one, updates, state.e_g, state.e_x)
        return out, ScaleByAdaDeltaState(e_g, e_x)

    return pair("scale_by_adadelta", init, update)
