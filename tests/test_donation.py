"""donate_argnums: whose memory results have, and what is left of what was given away."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import donation
from phix.core.errors import ArgumentError, DonatedTensorError

pytestmark = pytest.mark.unoptimised(4)


def tensor(*dims):
    return phix.to_tensor(np.random.default_rng(0).normal(size=dims))


def address(x):
    return x.data.__array_interface__["data"][0]


def step(w, g):
    return w - 0.1 * g


# Programs of (x, w), and whether the result can lie where x did.
PROGRAMS = {
    "pointwise": (lambda x, w: x * 2.0 + w, True),
    "x twice": (lambda x, w: x * ops.sin(x), True),
    "x itself": (lambda x, w: x, True),
    "one row": (lambda x, w: x.at[2].set(w[0]), True),
    "one row, read before": (lambda x, w: x.at[2].set(ops.sum(x, 0)), True),
    "a loop": (lambda x, w: phix.fori_loop(0, 3, lambda i, v: v.at[i].add(w[i]), x), True),
    "reshaped": (lambda x, w: ops.reshape(ops.exp(x), [x.size]), True),
    "reshaped, nothing else": (lambda x, w: ops.reshape(x, [x.size]), True),
    "its sum is read before": (lambda x, w: ops.exp(x * ops.sum(x)), True),
    "a product reads all of x": (lambda x, w: x @ w, False),
    "rows the other way": (lambda x, w: x[::-1] + w, False),
    "its transpose": (lambda x, w: x + x.T, False),
    "running sums": (lambda x, w: ops.cumsum(x[::-1], 0), False),
    "another dtype": (lambda x, w: ops.cast(x, "float32"), False),
    "smaller": (lambda x, w: ops.sum(x, 0), False),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_results_lie_where_a_donated_argument_did(name, unknown):
    f, fits = PROGRAMS[name]
    spec = phix.spec(["n", "n"], "float64")
    settings = {"input_spec": [spec, spec]} if unknown else {}
    expected = np.asarray(f(tensor(4, 4), tensor(4, 4) + 1))
    donating = phix.jit(f, donate_argnums=0, **settings)
    for _ in range(2):
        x, w = tensor(4, 4), tensor(4, 4) + 1
        before = address(x)
        out = donating(x, w)
        np.testing.assert_allclose(out, expected, rtol=1e-14)
        assert (address(out) == before) is fits
        np.testing.assert_array_equal(w, tensor(4, 4) + 1)
        with pytest.raises(DonatedTensorError):
            x + 1.0


def test_a_training_loop_stays_in_its_memory():
    update = phix.jit(
        lambda params, grads: {k: step(params[k], grads[k]) for k in params}, donate_argnums=0
    )
    params = {"w": tensor(3, 5), "b": tensor(5)}
    grads = {k: ops.full_like(v, 1.0) for k, v in params.items()}
    places = {k: address(v) for k, v in params.items()}
    first = {k: v.numpy().copy() for k, v in params.items()}
    for _ in range(4):
        params = update(params, grads)
    assert {k: address(v) for k, v in params.items()} == places
    for k, v in params.items():
        np.testing.assert_allclose(v, first[k] - 0.4, rtol=1e-12)
    assert update.trace_count == 1


def test_two_results_of_one_donated_argument():
    x = tensor(6)
    before, values = address(x), x.numpy().copy()
    a, b = phix.jit(lambda x: (x + 1.0, x * 2.0), donate_argnums=(0,))(x)
    np.testing.assert_array_equal(a, values + 1)
    np.testing.assert_array_equal(b, values * 2)
    assert before in (address(a), address(b)) and address(a) != address(b)


def test_a_dead_tensor_says_where_it_went():
    x = tensor(3)

    def advance(v):
        return v + 1.0

    phix.jit(advance, donate_argnums=0)(x)
    assert (x.shape, x.dtype, x.ndim) == ((3,), np.float64, 1)
    assert "donated to advance (at " in repr(x)
    uses = (x.numpy, x.item, lambda: x[0], lambda: x + 1.0, lambda: phix.jit(advance)(x),
            lambda: phix.grad(lambda v: ops.sum(v))(x), lambda: np.asarray(x))  # fmt: skip
    for use in uses:
        with pytest.raises(DonatedTensorError, match=r"donated to advance \(at .*test_donation"):
            use()
    with pytest.raises(DonatedTensorError):
        phix.jit(advance, donate_argnums=0)(x)


def test_a_gift_ends_before_its_memory_is_written():
    """Other threads run meanwhile; here what the program itself calls stands for them."""
    seen = []

    def look(_):
        with pytest.raises(DonatedTensorError):
            x.numpy()
        seen.append(True)
        return np.float64(1.0)

    f = phix.jit(
        lambda v: ops.tanh(v * 2.0) + phix.pure_callback(look, phix.spec([], "float64"), v[0]),
        donate_argnums=0,
    )
    for _ in range(2):
        x = tensor(4)
        f(x)
    assert seen == [True, True]


def test_what_another_thread_has_begun_to_read_is_copied(monkeypatch):
    f = phix.jit(lambda v: v * 2.0, donate_argnums=0)
    f(tensor(5))
    for turn in range(3):  # alone, read since it was found free, read as a view
        x = tensor(5)
        before, found, seen = address(x), x.numpy().copy(), []
        end = donation.end

        def end_later(t, *story, turn=turn, seen=seen, end=end):
            seen.append([None, t.data, t.data[1:]][turn])
            end(t, *story)

        monkeypatch.setattr(donation, "end", end_later)
        out = f(x)
        monkeypatch.undo()
        assert (address(out) == before) is (turn == 0)
        np.testing.assert_array_equal(out, found * 2.0)
        if turn:
            np.testing.assert_array_equal(seen[0], found[turn - 1 :])


def test_an_op_in_place_ends_its_tensor_before_it_writes():
    """Other threads run meanwhile; here a kernel in Python stands for them."""
    seen = []

    def look(ctx, x, out):
        with pytest.raises(DonatedTensorError, match=r"donated to tanh_ \(at .*test_donation"):
            given.numpy()
        seen.append(True)
        np.tanh(x, out=out)

    with phix.scoped_registries():
        phix.kernels.register_kernel("tanh", "CPU", dtypes="float64")(look)
        for _ in range(2):
            given = tensor(4)
            np.testing.assert_allclose(ops.tanh_(given), np.tanh(tensor(4)), rtol=1e-15)
    assert seen


def test_what_another_thread_reads_is_not_written_in_place(monkeypatch):
    for turn in range(4):  # alone (cold and warm), read since it was found free, read as a view
        x = tensor(5)
        before, found, seen = address(x), x.numpy().copy(), []
        end = donation.end

        def end_later(t, *story, turn=turn, seen=seen, end=end):
            seen.append([None, None, t.data, t.data[1:]][turn])
            end(t, *story)

        monkeypatch.setattr(donation, "end", end_later)
        out = ops.exp_(x)
        monkeypatch.undo()
        assert (address(out) == before) is (turn < 2)
        np.testing.assert_allclose(out, np.exp(found), rtol=1e-15)
        if turn > 1:
            np.testing.assert_array_equal(seen[0], found[turn - 2 :])


def test_a_refused_call_in_place_leaves_its_tensors():
    x, y = tensor(5), tensor(4)
    with pytest.raises(phix.errors.ShapeError):
        ops.add_(x, y)
    with pytest.raises(ArgumentError):
        ops.scale_(x, bias="one")
    np.testing.assert_array_equal(x, tensor(5))
    np.testing.assert_array_equal(y, tensor(4))


@pytest.mark.parametrize("give", [ops.exp_, phix.jit(lambda v: v * 2.0, donate_argnums=0)])
def test_of_two_threads_that_give_a_tensor_one_has_it(give, monkeypatch):
    """The other stands where it has taken the data, and not yet ended the tensor."""
    give(tensor(6))
    x, results, end = tensor(6), [], donation.end

    def end_second(t, *story):
        monkeypatch.undo()
        results.append(give(x))
        end(t, *story)

    monkeypatch.setattr(donation, "end", end_second)
    with pytest.raises(DonatedTensorError, match="after it was donated to"):
        give(x)
    np.testing.assert_array_equal(results[0], give(tensor(6)))


def test_a_tensor_is_ended_once_by_whoever_is_first(monkeypatch):
    """Between any two steps of ``end`` another thread may end the same tensor."""
    real, ended = donation.DonatedTensor, []

    class Slot:
        def __delete__(self, x):
            if not ended:
                ended.append(True)
                donation.end(x, "the other", "")
            memory.__delete__(x)

    memory = donation._MEMORY
    monkeypatch.setattr(donation, "_MEMORY", Slot())
    x = tensor(3)
    with pytest.raises(DonatedTensorError, match="donated to the other; use"):
        donation.end(x, "this one", "")
    assert type(x) is real and "donated to the other" in repr(x)


def test_memory_that_others_see_is_left_alone():
    f = phix.jit(lambda x: x * 2.0, donate_argnums=0)
    array = np.arange(3.0)
    np.testing.assert_array_equal(f(array), [0, 2, 4])  # an array is no tensor: it stays
    np.testing.assert_array_equal(array, [0, 1, 2])
    for share in (lambda x: x.numpy(), np.asarray, lambda x: x.numpy()[1:], np.from_dlpack,
                  lambda x: phix.Tensor(x.data), lambda x: ops.reshape(x, [1, 3])):  # fmt: skip
        x = phix.to_tensor(array)
        seen = share(x)
        kept = np.array(seen)
        np.testing.assert_array_equal(f(x), [0, 2, 4])
        np.testing.assert_array_equal(seen, kept)
        with pytest.raises(DonatedTensorError):
            x.item()
    shared = phix.Tensor(array)
    np.testing.assert_array_equal(f(shared), [0, 2, 4])
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_a_tensor_given_twice_or_closed_over():
    x = tensor(3)
    values = x.numpy().copy()
    out = phix.jit(lambda a, b: a * 2.0 + ops.cumsum(b), donate_argnums=0)(x, x)
    np.testing.assert_allclose(out, values * 2 + np.cumsum(values), rtol=1e-14)
    w = tensor(3)
    out = phix.jit(lambda a: a * 2.0 + ops.cumsum(w), donate_argnums=0)(w)
    np.testing.assert_allclose(out, values * 2 + np.cumsum(values), rtol=1e-14)


def test_inside_transformations_nothing_is_given_away():
    f = phix.jit(lambda x: ops.sum(x * x), donate_argnums=0)
    x = tensor(3)
    np.testing.assert_array_equal(phix.grad(f)(x), 2 * x.numpy())
    np.testing.assert_array_equal(phix.vmap(f)(x), x.numpy() ** 2)
    assert phix.jit(lambda y: f(y) + 1.0)(x).item() == pytest.approx(np.sum(x.numpy() ** 2) + 1)
    assert f(x).item() == pytest.approx(np.sum(tensor(3).numpy() ** 2))


def test_numbers_are_not_used_up():
    f = phix.jit(lambda x: x + 1.0, donate_argnums=0)
    one = phix.make_graph(lambda x: 1.0)(0.0)(0.0)[0]
    assert f(2.0).item() == f(2.0).item() == 3.0
    assert f(one).item() == 2.0 and ops.add(np.float32(1.0), 1.0).item() == 2.0


def test_programs_that_reuse_memory_are_found_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        update = phix.jit(lambda x: x.at[0].set(7.0), donate_argnums=0)
        x = tensor(5)
        before = address(x)
        out = update(x)
        assert address(out) == before and out[0].item() == 7.0
        plain = phix.jit(lambda x: x.at[0].set(7.0))
        y = tensor(5)
        assert address(plain(y)) != address(y) and y[0].item() != 7.0


def test_a_tensor_donated_twice_is_read_as_it_was():
    x = tensor(5)
    values = x.numpy().copy()
    a, b = phix.jit(lambda a, b: (a + 1.0, b * 2.0), donate_argnums=(0, 1))(x, x)
    np.testing.assert_array_equal(a, values + 1)
    np.testing.assert_array_equal(b, values * 2)
    with pytest.raises(DonatedTensorError):
        x.item()


def test_numbers_of_arguments_that_no_call_has_are_refused():
    def f(a, b=2.0):
        return a + b

    for wrong in (2, -3, (0, 7)):
        for setting in ("donate_argnums", "static_argnums"):
            with pytest.raises(ArgumentError, match=f"{setting} names argument .*f has 2 by place"):
                phix.jit(f, **{setting: wrong})
    x = tensor(3)
    expected = x.numpy() + 2.0
    np.testing.assert_array_equal(phix.jit(f, donate_argnums=(0, 1))(x), expected)
    several = phix.jit(lambda *xs: xs[0] + 1.0, donate_argnums=2)
    several(tensor(3), tensor(3), tensor(3))
    with pytest.raises(ArgumentError, match=r"donate_argnums names argument 2, .* has 1 by place"):
        several(tensor(3))


@pytest.mark.parametrize("rows", [8, 20_000], ids=["small", "large"])
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jitted"])
def test_what_phix_has_computed_can_be_donated(rows, jitted):
    """Large results are views of memory that is kept to be used again."""
    make = (lambda x: x + 1.0) if not jitted else phix.jit(lambda x: (x + 1.0).reshape(-1, 4, 5))
    x = make(tensor(rows, 4, 5))
    expected, before = x.numpy() * 2.0, address(x)
    out = phix.jit(lambda x: x * 2.0, donate_argnums=0)(x)
    assert address(out) == before
    np.testing.assert_array_equal(out, expected)
    view = out.numpy()  # somebody sees the memory: it is not written over
    phix.jit(lambda x: x + 7.0, donate_argnums=0)(out)
    np.testing.assert_array_equal(view, expected)


@pytest.mark.parametrize(
    "update",
    [
        lambda x, i: x.at[i].set(x[i] * 0.5),
        lambda x, i: x.at[i].add(ops.tanh(x[i])),
        lambda x, i: ops.index_put(x, [i], ops.gather(x, i) + ops.gather(x, i + 1)),
    ],
)
def test_rows_are_changed_in_place_by_what_is_read_of_them(update):
    index = np.array([3, 70, 3, 9_000])
    x = tensor(20_000, 4) + 0.0
    expected = np.asarray(update(tensor(20_000, 4) + 0.0, index))
    before = address(x)
    out = phix.jit(update, donate_argnums=0)(x, index)
    assert address(out) == before
    np.testing.assert_allclose(out, expected, rtol=1e-14)
