"""phix.random: known answers, independence of shape and batching, and distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import phix
from harness.references import threefry2x32
from phix import random

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
    assert random.bits(random.key(0), [1]).tolist() == [0x6B200159]


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
    keys = [*random.split(key, 100).tolist(), *(random.fold_in(key, i).tolist() for i in range(9))]
    keys += [random.fold_in(random.key(5), 0).tolist(), random.fold_in(random.key(0), 5).tolist()]
    assert len({tuple(k) for k in keys}) == len(keys) - 1  # fold_in(key(0), 5) stands there twice
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
    "randint": lambda k: random.randint(k, -3, 9, [5]),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, [6]),
    "categorical": lambda k: random.categorical(k, phix.to_tensor([0.0, 1.0, 2.0]), shape=[4]),
    "permutation": lambda k: random.permutation(k, 5),
    "exponential": lambda k: random.exponential(k, [3]),
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 3),
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
}


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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_draws(dtype: str) -> None:
    x = random.uniform(random.key(3), [SIZE], dtype, 1.0, 2.0).numpy().astype(np.float64)
    assert x.min() >= 1
    assert x.max() < 2
    z = random.normal(random.key(3), [SIZE], dtype).numpy().astype(np.float64)
    assert abs(z.mean()) < 0.05
    assert abs(z.std() - 1) < 0.05


def test_uniform_leaves_max_out() -> None:
    x = random.uniform(random.key(0), [1 << 16], "float32", 1e6, 1e6 + 0.25).numpy()
    assert set(np.unique(x)) <= {np.float32(1e6 + k / 16) for k in range(4)}


def test_randint_is_uniform_and_in_range() -> None:
    x = random.randint(random.key(4), -2, 8, [SIZE]).numpy()
    counts = np.bincount(x + 2, minlength=10)
    assert len(counts) == 10
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    full = random.randint(random.key(4), -(2**63), 2**63, [SIZE]).numpy()
    assert abs((full < 0).mean() - 0.5) < 0.02
    assert random.randint(random.key(4), 0, 256, [SIZE], "uint8").numpy().max() == 255


def test_bernoulli_and_categorical_frequencies() -> None:
    hits = random.bernoulli(random.key(5), 0.3, [SIZE]).numpy()
    assert hits.dtype == bool
    assert abs(hits.mean() - 0.3) < 4 * (0.21 / SIZE) ** 0.5
    p = np.array([0.1, 0.2, 0.7])
    x = random.categorical(random.key(6), np.log(p), shape=[SIZE]).numpy()
    assert scipy.stats.chisquare(np.bincount(x, minlength=3), p * SIZE).pvalue > 1e-3


def test_permutation() -> None:
    assert sorted(random.permutation(random.key(7), 50).tolist()) == list(range(50))
    x = phix.to_tensor(np.arange(12).reshape(4, 3))
    shuffled = random.permutation(random.key(8), x)
    assert sorted(map(tuple, shuffled.tolist())) == sorted(map(tuple, x.tolist()))
    keys = random.split(random.key(9), 3000)
    orders = phix.vmap(lambda k: random.permutation(k, 3))(keys).numpy()
    _, counts = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_derivatives_pass_through_draws() -> None:
    key = random.key(10)

    def mean(low: Any, high: Any) -> Any:
        return phix.ops.mean(random.uniform(key, [1000], "float64", low, high))

    low, high = phix.grad(mean, argnums=(0, 1))(np.float64(0), np.float64(2))
    assert abs(low.item() + high.item() - 1) < 1e-12
    assert abs(high.item() - 0.5) < 0.05
    slope = phix.grad(lambda s: phix.ops.sum(random.normal(key, [100], "float64", 0.0, s) ** 2))
    z = random.normal(key, [100], "float64").numpy()
    np.testing.assert_allclose(slope(np.float64(3)).item(), 6 * (z * z).sum(), rtol=1e-12)
