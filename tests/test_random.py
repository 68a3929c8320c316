"""phix.random: known answers, independence of shape and batching, and distributions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import phix
from harness.references.random import threefry2x32
from phix import random
from phix.core.errors import ArgumentError, DTypeError, NumberRangeError
from phix.primitives import random as draws

pytestmark = pytest.mark.unoptimised(4)

SIZE = 20_000
# (counter, key, result): the known-answer tests of Random123 for Threefry-2x32, 20 rounds.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_reference_meets_the_published_vectors(counter: Any, key: Any, wanted: Any) -> None:
    words = [np.array([w], np.uint32) for w in (*key, *counter)]
    assert tuple(int(w[0]) for w in threefry2x32(*words)) == wanted


def test_first_block_is_the_published_one() -> None:
    wide = random.bits(random.key(0), [1], 64).numpy()
    assert int(wide[0]) == 0x6B20015999BA4EFE
    assert random.bits(random.key(0), [1]).tolist() == [0x6B200159 ^ 0x99BA4EFE]


def test_bits_meet_the_reference_far_out() -> None:
    seed = 0x13198A2E03707344
    found = random.bits(random.key(seed), [1000], 64).numpy()
    words = [np.full(1000, w, np.uint32) for w in (seed >> 32, seed & 0xFFFFFFFF, 0)]
    first, second = threefry2x32(*words, np.arange(1000, dtype=np.uint32))
    np.testing.assert_array_equal(found >> np.uint64(32), first)
    np.testing.assert_array_equal(found & np.uint64(0xFFFFFFFF), second)


def test_keys() -> None:
    assert random.key(5).tolist() == [0, 5]
    assert random.key(2**32 + 7).tolist() == [1, 7]
    assert random.key(-1).tolist() == [2**32 - 1] * 2
    assert random.key(phix.to_tensor(5)).tolist() == [0, 5]
    with pytest.raises(phix.errors.ArgumentError):
        random.key(1.5)  # type: ignore[arg-type]


def test_split_and_fold_in_give_keys_that_differ() -> None:
    key = random.key(0)
    keys = [*random.split(key, 100).tolist(), random.fold_in(key, 100).tolist()]
    keys += [random.fold_in(random.key(5), 0).tolist()]
    assert len({tuple(k) for k in keys}) == len(keys)
    assert [random.fold_in(key, i).tolist() for i in range(9)] == keys[:9]  # as in JAX
    assert random.split(key, 3).tolist()[:2] == random.split(key).tolist()
    assert random.split(key, (2, 3)).shape == (2, 3, 2)


@pytest.mark.parametrize("call", [random.uniform, random.normal], ids=["uniform", "normal"])
def test_wrong_keys_are_explained(call: Callable[..., Any]) -> None:
    with pytest.raises(phix.errors.DTypeError, match=r"phix\.random\.key"):
        call(phix.to_tensor([0.0, 1.0]), [3])
    with pytest.raises(phix.errors.ShapeError, match=r"phix\.random\.key"):
        call(random.split(random.key(0), 3).numpy()[:, :1], [3])


DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda k: random.uniform(k, [3, 2]),
    "normal": lambda k: random.normal(k, [4], "float64"),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 2.0, [3]),
    "truncated_normal far out": lambda k: random.truncated_normal(k, [-8, 9], [-7, np.inf], [3, 2]),
    "randint": lambda k: random.randint(k, -3, 9, [5]),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, [6]),
    "categorical": lambda k: random.categorical(k, phix.to_tensor([0.0, 1.0, 2.0]), shape=[4]),
    "permutation": lambda k: random.permutation(k, 5),
    "exponential": lambda k: random.exponential(k, [3]),
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 3),
    "gamma": lambda k: random.gamma(k, [0.5, 2.0]),
    "poisson": lambda k: random.poisson(k, [0.5, 20.0]),
    "binomial": lambda k: random.binomial(k, [5, 50], 0.4),
    "multinomial": lambda k: random.multinomial(k, 10, [0.2, 0.3, 0.5]),
    "choice": lambda k: random.choice(k, 5, [2], False, [0.1, 0.2, 0.3, 0.2, 0.2]),
    "shuffled rows": lambda k: random.permutation(k, np.arange(6).reshape(2, 3), 1, True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_vmap_over_keys_is_the_loop(name: str) -> None:
    keys = random.split(random.key(1), 4)
    batch = phix.vmap(DRAWS[name])(keys).numpy()
    _assert_same(batch, np.stack([DRAWS[name](k).numpy() for k in keys]))


def _assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal, but for how floats that are computed together are rounded."""
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_draws_are_the_eager_ones(name: str) -> None:
    key = random.key(2)
    _assert_same(phix.jit(DRAWS[name])(key).numpy(), DRAWS[name](key).numpy())


# -- distributions -------------------------------------------------------------------------
CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "uniform": (lambda k, d: random.uniform(k, [SIZE], d, -1.0, 3.0), scipy.stats.uniform(-1, 4)),
    "normal": (lambda k, d: random.normal(k, [SIZE], d, 1.0, 2.0), scipy.stats.norm(1, 2)),
    "truncated_normal": (
        lambda k, d: random.truncated_normal(k, -1.0, 0.5, [SIZE], d),
        scipy.stats.truncnorm(-1, 0.5),
    ),
    "exponential": (lambda k, d: random.exponential(k, [SIZE], d), scipy.stats.expon()),
    "gumbel": (lambda k, d: random.gumbel(k, [SIZE], d), scipy.stats.gumbel_r()),
    "laplace": (lambda k, d: random.laplace(k, [SIZE], d), scipy.stats.laplace()),
    "logistic": (lambda k, d: random.logistic(k, [SIZE], d), scipy.stats.logistic()),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_over_more_than_the_dtype_counts(dtype: str) -> None:
    """max - min overflows; no warning either (pytest makes errors of them)."""
    most = float(np.finfo(dtype).max) * 0.75
    x = random.uniform(random.key(3), [SIZE], dtype, -most, most).numpy().astype("float64") / most
    assert scipy.stats.kstest(x, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name: str, dtype: str) -> None:
    draw, distribution = CONTINUOUS[name]
    x = draw(random.key(11), dtype).numpy()
    assert x.dtype == dtype
    assert scipy.stats.kstest(x.astype(np.float64), distribution.cdf).pvalue > 1e-3
    deviation = distribution.std()
    assert abs(x.mean() - distribution.mean()) < 4 * deviation / SIZE**0.5
    assert abs(x.std() / deviation - 1) < 0.05
    neighbours = np.corrcoef(x[:-1], x[1:])[0, 1]
    assert abs(neighbours) < 4 / SIZE**0.5


INTERVALS = [
    (-8.0, -7.0), (10.0, np.inf), (-np.inf, -20.0), (5.0, 6.0), (7.0, 7.5), (300.0, 301.0),
    (-1.0, 1.0), (-0.01, 0.02), (-0.51, -0.5), (-1.0, 0.0), (0.0, np.inf), (-3.0, 0.1),
    (-1.0, 30.0), (-np.inf, np.inf), (-40.0, 40.0), (-30.0, -5.0), (2.0, 1e30),
]  # fmt: skip


def test_truncated_normal_of_nothing() -> None:
    key = random.key(3)
    with pytest.raises(phix.errors.AttributeValueError, match="nothing lies between lower=2"):
        random.truncated_normal(key, 2, 1.0, [3])
    bounds = np.array([-1.0, 2.0, 3.0]), np.array([1.0, 1.0, 3.0])
    draw = lambda k, low, high: random.truncated_normal(k, low, high, [3], "float64")  # noqa: E731
    for function in (draw, phix.jit(draw)):
        drawn = function(key, *bounds).numpy()
        assert abs(drawn[0]) <= 1 and np.isnan(drawn[1]) and drawn[2] == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_truncated_normal_of_any_interval(low: float, high: float, dtype: str) -> None:
    drawn = random.truncated_normal(random.key(21), low, high, [SIZE], dtype)
    x = drawn.numpy().astype(np.float64)
    ends = np.array([low, high]).astype(dtype).astype(np.float64)
    assert np.isfinite(x).all() and (x >= ends[0]).all() and (x <= ends[1]).all()
    distribution = scipy.stats.truncnorm(low, high)
    assert scipy.stats.kstest(x, distribution.cdf).pvalue > 1e-3
    assert abs(x.mean() - distribution.mean()) < 4 * distribution.std() / SIZE**0.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_outermost_draw_around_0_is_finite(dtype: str) -> None:
    v = np.array(1, dtype) - np.finfo(dtype).epsneg
    for low in (-np.inf, -40.0, -3.0, -1.0, -0.25):
        for high in (0.25, 0.8, 1.0, 1.7, 3.0, np.inf):
            ends = (phix.to_tensor(low, dtype), phix.to_tensor(high, dtype))
            for outermost in (v, -v):
                z = draws.between_around_0(phix.to_tensor(outermost), *ends).item()
                assert np.isfinite(z), (low, high, outermost)


@pytest.mark.parametrize(("low", "high"), [(-8.0, -7.0), (4.0, np.inf), (-1.0, 2.0)])
def test_truncated_normal_derivatives_keep_the_quantile(low: float, high: float) -> None:
    """Each number moves with mean and std so that what lies below it stays the same part."""
    truncnorm = scipy.stats.truncnorm
    ends = np.array([low, high])

    def draw(mean: Any, std: Any) -> Any:
        return random.truncated_normal(random.key(22), low, high, [20], "float64", mean, std)

    args = np.array([0.25, 1.5])
    x = draw(*args).numpy()
    below = truncnorm.cdf(x, *(ends - args[0]) / args[1], *args)
    for number in (0, 1):
        slope = np.asarray(phix.jacfwd(draw, argnums=number)(*args))
        shift = np.where(np.arange(2) == number, 1e-4, 0)
        up, down = (
            truncnorm.ppf(below, *(ends - p[0]) / p[1], *p) for p in (args + shift, args - shift)
        )
        np.testing.assert_allclose(slope, (up - down) / 2e-4, rtol=1e-4, atol=1e-5)
        total = phix.grad(lambda *p: phix.ops.sum(draw(*p)), argnums=number)(*args)
        np.testing.assert_allclose(total.item(), slope.sum(), rtol=1e-9)


# -- distributions without a simple inverse --------------------------------------------------
def _moments_fit(x: np.ndarray, distribution: Any) -> None:
    mean, variance, kurtosis = distribution.stats("mvk")
    assert abs(x.mean() - mean) < 4 * (variance / x.size) ** 0.5
    assert abs(x.var() / variance - 1) < 5 * ((kurtosis + 2) / x.size) ** 0.5


OF_A_SHAPE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "gamma": (lambda k, a: random.gamma(k, a, [SIZE]), scipy.stats.gamma),
    "loggamma": (lambda k, a: random.loggamma(k, a, [SIZE], "float64"), scipy.stats.loggamma),
    "beta": (lambda k, a: random.beta(k, a, 2.0, [SIZE]), lambda a: scipy.stats.beta(a, 2.0)),
    "t": (lambda k, a: random.t(k, a + 4.0, [SIZE]), lambda a: scipy.stats.t(a + 4)),
    "dirichlet": (
        lambda k, a: random.dirichlet(k, [a, 1.0, 2.0], [SIZE])[:, 0],
        lambda a: scipy.stats.beta(a, 3.0),
    ),
}


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", OF_A_SHAPE)
def test_distributions_of_a_shape(name: str) -> None:
    draw, distribution = OF_A_SHAPE[name]
    for a in (0.3, 1.0, 40.0):
        x = draw(random.key(31), a).numpy().astype(np.float64)
        assert scipy.stats.kstest(x, distribution(a).cdf).pvalue > 1e-3, a
        _moments_fit(x, distribution(a))


@pytest.mark.unoptimised
def test_counts() -> None:
    for mean in (0.3, 9.5, 10.5, 300.0):
        x = random.poisson(random.key(32), mean, [SIZE]).numpy()
        _fits_counts(x, scipy.stats.poisson(mean))
    for n, p in ((6, 0.3), (100, 0.02), (100, 0.4), (1000, 0.97), (10**6, 0.5)):
        x = random.binomial(random.key(33), n, p, [SIZE], "int64").numpy()
        _fits_counts(x, scipy.stats.binom(n, p))


def _fits_counts(x: np.ndarray, distribution: Any) -> None:
    _moments_fit(x, distribution)
    edges = np.unique(distribution.ppf(np.linspace(0, 1, 21)[1:-1]))
    seen = np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
    below = np.concatenate([[0], distribution.cdf(edges), [1]])
    wanted = np.diff(below) * len(x)
    use = wanted > 5
    scale = seen[use].sum() / wanted[use].sum()
    assert scipy.stats.chisquare(seen[use], wanted[use] * scale).pvalue > 1e-3


def test_counts_at_the_edges() -> None:
    key = random.key(34)
    assert random.binomial(key, [0, 7, 10**15], [0.5, 1.0, 0.0]).tolist() == [0, 7, 0]
    assert np.isnan(random.binomial(key, [-1, 5, 5], [0.5, 1.5, np.nan]).numpy()).all()
    assert random.poisson(key, [0.0, -1.0, np.nan, np.inf]).tolist() == [0, -1, -1, -1]
    far = random.poisson(key, 1e12, [2000], "float64").numpy()
    assert abs(far.mean() / 1e12 - 1) < 1e-7 and abs(far.std() / 1e6 - 1) < 0.1
    far = random.binomial(key, 1e12, 0.25, [2000], "float64").numpy()
    assert abs(far.std() / (1e12 * 0.25 * 0.75) ** 0.5 - 1) < 0.1
    assert random.poisson(key, np.zeros([0])).shape == (0,)
    assert random.geometric(key, [1e-30, 1.0]).tolist() == [2**63 - 1, 1]
    assert random.geometric(key, 1e-25, [2], "int32").tolist() == [2**31 - 1] * 2
    assert random.geometric(key, 0.001, [200], "int8").min() > 0


def test_multinomial_counts_and_draws() -> None:
    chances = np.array([0.1, 0.2, 0.0, 0.7])
    counts = random.multinomial(random.key(35), 50, np.tile(chances, (4000, 1))).numpy()
    assert (counts.sum(-1) == 50).all() and (counts[:, 2] == 0).all()
    np.testing.assert_allclose(counts.mean(0), 50 * chances, atol=0.3)
    covariance = 50 * (np.diag(chances) - np.outer(chances, chances))
    np.testing.assert_allclose(np.cov(counts.T), covariance, atol=0.7)
    weights = np.tile(3 * chances, (4000, 1))
    with_return = phix.ops.multinomial(random.key(36), weights, 5, True).numpy()
    np.testing.assert_allclose(np.bincount(with_return.ravel()) / 20000, chances, atol=0.02)
    once = phix.ops.multinomial(random.key(36), weights, 3).numpy()
    assert (np.sort(once, -1) == [0, 1, 3]).all()
    np.testing.assert_allclose(np.bincount(once[:, 0]) / 4000, chances, atol=0.03)


# -- derivatives of quantiles --------------------------------------------------------------------
@pytest.mark.unoptimised
def test_gamma_moves_with_its_shape_as_the_quantile() -> None:
    a = np.repeat([0.02, 0.4, 1.0, 3.0, 60.0, 2e4], 8)
    key = random.key(37)

    def total(a: Any) -> Any:
        return phix.ops.sum(random.loggamma(key, a, None, "float64"))

    logs = random.loggamma(key, a, None, "float64").numpy()
    slope = phix.grad(total)(a).numpy()
    x, step = np.exp(logs), a * 1e-4
    below = x < a
    ends = []
    for shifted in (a + step, a - step):
        low = scipy.special.gammaincinv(shifted, scipy.special.gammainc(a, x))
        high = scipy.special.gammainccinv(shifted, scipy.special.gammaincc(a, x))
        ends.append(np.log(np.where(below, low, high)))
    near = logs > -600  # where the quantile is a number
    np.testing.assert_allclose(slope[near], ((ends[0] - ends[1]) / (2 * step))[near], rtol=1e-5)
    expected = -logs / a + (scipy.special.digamma(a + 1)) / a  # as x goes to 0
    np.testing.assert_allclose(slope[~near], expected[~near], rtol=1e-6)
    x64 = phix.jvp(lambda a: random.gamma(key, a, None, "float64"), (a,), (np.ones_like(a),))[1]
    np.testing.assert_allclose(x64, slope * x, rtol=1e-9)


@pytest.mark.unoptimised
def test_second_derivative_of_gamma() -> None:
    """Along the curve of a fixed probability, against differences of the first one."""
    key, a = random.key(38), np.array([0.5, 2.0, 7.0])

    def total(a: Any) -> Any:
        return phix.ops.sum(random.loggamma(key, a, None, "float64"))

    found = phix.jvp(phix.grad(total), (a,), (np.ones(3),))[1].numpy()
    x = np.exp(random.loggamma(key, a, None, "float64").numpy())
    below = scipy.special.gammainc(a, x)
    h = 1e-3
    logs = [np.log(scipy.special.gammaincinv(a + k * h, below)) for k in (-1, 0, 1)]
    np.testing.assert_allclose(found, (logs[0] - 2 * logs[1] + logs[2]) / h**2, rtol=1e-3)


@pytest.mark.unoptimised
def test_dirichlet_and_beta_derivatives_fit_their_means() -> None:
    """E[x] is known, and the mean of the derivatives is its derivative."""
    key = random.key(39)

    def first(alpha: Any) -> Any:
        return phix.ops.mean(random.dirichlet(key, alpha, [4000], "float64")[:, 0])

    alpha = np.array([0.5, 1.0, 2.5])
    total = alpha.sum()
    wanted = np.where(np.arange(3) == 0, total - alpha[0], -alpha[0]) / total**2
    np.testing.assert_allclose(phix.grad(first)(alpha), wanted, atol=2e-2)

    def second(a: Any, b: Any) -> Any:
        return phix.ops.mean(random.beta(key, a, b, [4000], "float64"))

    found = [g.item() for g in phix.grad(second, argnums=(0, 1))(0.5, 2.0)]
    np.testing.assert_allclose(found, [2.0 / 2.5**2, -0.5 / 2.5**2], atol=2e-2)


@pytest.mark.unoptimised
def test_wald_moves_with_its_mean_as_the_quantile() -> None:
    """Also where the smaller and the larger root change places."""
    mean = np.repeat([0.05, 0.3, 1.0, 4.0], 16)
    key = random.key(40)

    def slope(mean: Any) -> Any:
        draw = functools.partial(random.wald, key, dtype="float64")
        return phix.jvp(draw, (mean,), (np.ones_like(mean),))[1]

    below = scipy.stats.invgauss.cdf(random.wald(key, mean, dtype="float64"), mean)
    h = 1e-3 * mean
    ends = [scipy.stats.invgauss.ppf(below, mean + k * h) for k in (-1, 0, 1)]
    np.testing.assert_allclose(slope(mean), (ends[2] - ends[0]) / (2 * h), rtol=1e-4)
    found = phix.jvp(slope, (mean,), (np.ones_like(mean),))[1]
    bend = (ends[0] - 2 * ends[1] + ends[2]) / h**2
    np.testing.assert_allclose(found, bend, rtol=1e-2, atol=1e-3)


def test_draws_in_the_shape_of_a_tensor() -> None:
    key, x = random.key(40), np.zeros([200, 100], np.float32)
    drawn = phix.ops.exponential_(key, x, 4.0).numpy().ravel()
    assert (
        scipy.stats.kstest(drawn.astype(np.float64), scipy.stats.expon(0, 0.25).cdf).pvalue > 1e-3
    )
    drawn = phix.ops.uniform_inplace(key, np.zeros([3, 4]), diag_num=3, diag_step=4).numpy()
    assert (np.diag(drawn) == 1).all() and (np.abs(drawn) <= 1).all()
    slopes = phix.ops.rrelu(key, -np.ones([20_000]), 0.2, 0.6)[1].numpy()
    assert scipy.stats.kstest(slopes, scipy.stats.uniform(0.2, 0.4).cdf).pvalue > 1e-3
    rows, order, following = phix.ops.shuffle_batch(np.arange(12).reshape(2, 3, 2), key)
    np.testing.assert_array_equal(rows.numpy().reshape(6, 2), np.arange(12).reshape(6, 2)[order])
    assert following.shape == (2,) and following.tolist() != key.tolist()
    soft = phix.ops.gumbel_softmax(key, np.log([[0.1, 0.2, 0.7]] * 20_000), 0.5, True).numpy()
    np.testing.assert_allclose(soft.mean(0), [0.1, 0.2, 0.7], atol=0.015)
    ints = phix.ops.random(key, x, -2, 3).numpy()
    assert ints.dtype == np.float32 and set(np.unique(ints)) == {-2, -1, 0, 1, 2}


@pytest.mark.unoptimised
def test_draws_of_unknown_sizes() -> None:
    key = random.key(41)
    for draw in (
        lambda x: random.gamma(key, x), lambda x: random.poisson(key, x),
        lambda x: random.binomial(key, 9, x / 40), lambda x: random.permutation(key, x),
    ):  # fmt: skip
        compiled = phix.jit(draw, input_spec=[phix.spec(["n"], "float32")])
        for size in (2, 3, 1700):
            x = np.linspace(0.5, 30, size, dtype=np.float32)
            np.testing.assert_allclose(compiled(x), draw(x).numpy(), rtol=2e-5)


@pytest.mark.parametrize("seed", [2**64, 2**64 + 1, -(2**63) - 1, 10**400])
def test_a_seed_of_more_than_64_bits_is_refused(seed):
    for make in (phix.random.key, lambda n: phix.random.fold_in(phix.random.key(0), n)):
        with pytest.raises(NumberRangeError, match=r"64 bits.*from -2\*\*63 to 2\*\*64 - 1"):
            make(seed)


def test_a_negative_seed_is_that_of_its_bits():
    assert phix.random.key(-1).tolist() == phix.random.key(2**64 - 1).tolist() == [2**32 - 1] * 2
    assert phix.random.key(-(2**63)).tolist() == phix.random.key(2**63).tolist() == [2**31, 0]
    assert phix.random.key(phix.to_tensor(-1)).tolist() == [2**32 - 1] * 2


def test_one_program_draws_any_number_of_choices() -> None:
    p = phix.to_tensor([0.2, 0.3, 0.5])

    def draw(x: Any) -> Any:
        return phix.random.choice(phix.random.key(0), 3, [x.shape[0]], p=p)

    compiled = phix.jit(draw, input_spec=[phix.spec(["n"])])
    for n in (0, 1, 7):
        assert compiled(phix.zeros([n])).tolist() == draw(phix.zeros([n])).tolist()


@pytest.mark.parametrize(
    ("p", "replace", "words"),
    [
        ([0.0, 1.0, 0.0], False, "1 entries of p are above 0, 2 are needed"),
        ([0.0, 0.0, 0.0], True, "0 entries of p are above 0, 1 are needed"),
        ([0.5, -0.25, 0.6], True, "p holds probabilities, found -0.25 at 1"),
        ([0.5, 0.2, float("nan")], False, "found nan at 2"),
    ],
)
def test_choices_that_p_does_not_allow_are_refused(p: list[float], replace: bool, words: str):
    with pytest.raises(ArgumentError, match=words):
        random.choice(random.key(0), 3, [2], replace, p)
    assert random.choice(random.key(0), 3, [0], replace, [0.0] * 3).shape == (0,)


@pytest.mark.parametrize("shape", [-0.5, -1.0, -3.25, np.nan])
def test_gammas_of_a_shape_below_zero_are_no_numbers(shape: float) -> None:
    for drawn in (phix.random.gamma, phix.random.loggamma):
        assert np.isnan(drawn(phix.random.key(0), shape, [4])).all()
    assert np.isnan(phix.random.chisquare(phix.random.key(0), 2 * shape, shape=[4])).all()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64"])
def test_ints_between_tensors_are_those_between_ints(dtype: str) -> None:
    key, limits = random.key(41), np.iinfo(dtype)
    bounds = [(0, 1), (1, 7), (limits.max // 3, limits.max), (limits.min, limits.max)]
    if dtype != "int64":
        bounds.append((limits.min, limits.max + 1))
    drawn = phix.jit(lambda a, b: random.randint(key, a, b, [50], dtype))
    for low, high in bounds:
        wanted = random.randint(key, low, high, [50], dtype).numpy()
        for found in (drawn, lambda a, b: random.randint(key, a, b, [50], dtype)):
            x = found(np.int64(low), phix.to_tensor(np.int64(high)))
            np.testing.assert_array_equal(x, wanted, strict=True)


def test_ints_between_tensors_of_many_bounds() -> None:
    low, high = np.array([-3, 0, 5, -1000]), np.array([[9], [300]])
    x = random.randint(random.key(42), low, high, [SIZE, 2, 4], "int16").numpy()
    for row, column in np.ndindex(2, 4):
        drawn = x[:, row, column] - low[column]
        counts = np.bincount(drawn, minlength=high[row, 0] - low[column])
        assert len(counts) == high[row, 0] - low[column]
        assert scipy.stats.chisquare(counts).pvalue > 1e-4
    keys = random.split(random.key(43), 3)
    lanes = phix.vmap(lambda k, n: random.randint(k, 0, n, [2]))(keys, np.array([4, 50, 6]))
    alone = [random.randint(k, 0, n, [2]).tolist() for k, n in zip(keys, (4, 50, 6), strict=True)]
    assert lanes.tolist() == alone


def test_ints_between_tensors_out_of_order_and_beyond_the_dtype() -> None:
    key, low = random.key(44), phix.to_tensor([5, 6, -300])
    assert random.randint(key, low, 5, [3]).tolist()[:2] == [5, 6]
    x = random.randint(key, low[2], 300, [SIZE], "int8").numpy()
    assert (x.min(), x.max()) == (-128, 127)
    with pytest.raises(DTypeError, match="randint: dtype must be an int dtype, found float32"):
        random.randint(key, low, 9, [3], "float32")
    for wrong in (2.5, [3], phix.to_tensor([0.5])):
        with pytest.raises(ArgumentError, match="low must be an int or a tensor of ints"):
            random.randint(key, wrong, 9, [1])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("of", ["int64", "uint64"])
def test_bounds_that_are_tensors_stop_at_the_limits(of: str, dtype: str) -> None:
    key, limits, own = random.key(3), np.iinfo(dtype), np.iinfo(of)
    least, most = max(limits.min, own.min), min(limits.max, own.max)
    low, high = np.array([own.min, own.max], of), np.array([least + 3, own.max], of)
    x = phix.jit(lambda a, b: random.randint(key, a, b, [300, 2], dtype))(low, high).numpy()
    assert x.dtype == dtype
    assert set(x[:, 0].tolist()) == {least, least + 1, least + 2}
    assert set(x[:, 1].tolist()) == {most}
