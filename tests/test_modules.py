"""Layers of ``phix.nn``: values by NumPy and PyTorch, trees, training, what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import nn, ops, optim
from phix.core.errors import ArgumentError, PhixError, ShapeError

pytestmark = pytest.mark.unoptimised

KEY = phix.random.key(3)
RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def wide(layer: Any) -> Any:
    """The layer with weights of float64, drawn anew so that none is 0 or 1."""
    return phix.tree.map(lambda w: phix.to_tensor(normal(*w.shape) * 0.5), layer)


def weights(layer: Any) -> dict[str, np.ndarray]:
    return dict(zip(phix.tree.paths(layer), [w.numpy() for w in phix.tree.leaves(layer)]))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# -- by NumPy --------------------------------------------------------------------------------------
def np_conv(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int, groups: int) -> np.ndarray:
    """A cross-correlation of any rank, padded by 1."""
    rank = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(1, 1)] * rank)
    sizes = [(n - k) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:])]
    out = np.empty((len(x), len(w), *sizes))
    into, outs = x.shape[1] // groups, len(w) // groups
    for o in range(len(w)):
        part = x[:, o // outs * into : (o // outs + 1) * into]
        for at in np.ndindex(*sizes):
            cut = tuple(slice(i * stride, i * stride + k) for i, k in zip(at, w.shape[2:]))
            out[(slice(None), o, *at)] = (part[(..., *cut)] * w[o]).reshape(len(x), -1).sum(1)
    return out + b.reshape(-1, *[1] * rank)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_by_their_definition(rank: int) -> None:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
    layer = wide(kind.create(KEY, 4, 6, (2, 3, 2)[:rank], stride=2, padding=1, groups=2))
    x, w = normal(2, 4, *(5, 4, 3)[:rank]), weights(layer)
    expected = np_conv(x, w["weight"], w["bias"], 2, 2)
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10, atol=1e-12)
    # the transpose: what is left of the bias is the adjoint of the convolution
    other = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 1]
    back = other(layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    y = normal(*expected.shape)
    forward = layer(x).numpy() - w["bias"].reshape(-1, *[1] * rank)
    found = back(y).numpy()
    cut = tuple(slice(0, n) for n in found.shape)
    np.testing.assert_allclose((found * x[cut]).sum(), _left((forward * y), layer, x, found, y))


def _left(product: np.ndarray, layer: Any, x: np.ndarray, found: np.ndarray, y: Any) -> Any:
    """The other side of the adjoint, without the elements of x that the transpose does not give."""
    kept = np.zeros_like(x)
    cut = tuple(slice(0, n) for n in found.shape)
    kept[cut] = x[cut]
    bias = layer.bias.numpy().reshape(-1, *[1] * (x.ndim - 2))
    return ((layer(kept).numpy() - bias) * y).sum()


def test_linear_embedding_and_normalisations_by_their_definitions() -> None:
    x = normal(2, 4, 6)
    layer = wide(nn.Linear.create(KEY, 6, 3))
    w = weights(layer)
    np.testing.assert_allclose(layer(x).numpy(), x @ w["weight"] + w["bias"])
    table = wide(nn.Embedding.create(KEY, 5, 3))
    assert (table([[1, 4]]).numpy() == table.weight.numpy()[[[1, 4]]]).all()
    np.testing.assert_allclose(table.attend(normal(3)).shape, (5,))
    norm = wide(nn.LayerNorm.create((4, 6)))
    w = weights(norm)
    mean, spread = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    whole = (x - mean) / np.sqrt(spread + 1e-5)
    np.testing.assert_allclose(norm(x).numpy(), whole * w["weight"] + w["bias"], rtol=1e-7)
    rms = wide(nn.RMSNorm.create(6, epsilon=1e-3))
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3) * rms.weight.numpy()
    np.testing.assert_allclose(rms(x).numpy(), expected, rtol=1e-7)
    group = wide(nn.GroupNorm.create(2, 4))
    parts, w = x.reshape(2, 2, 12), weights(group)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    expected = parts.reshape(x.shape) * w["weight"][:, None] + w["bias"][:, None]
    np.testing.assert_allclose(group(x).numpy(), expected, rtol=1e-7)


def test_batch_norm_has_its_state_beside_it() -> None:
    layer, x = wide(nn.BatchNorm.create(3, momentum=0.75)), normal(5, 3, 2)
    state, w = layer.init_state(), weights(layer)
    assert set(w) == {"weight", "bias"} and state.mean.dtype == "float64"
    y, new = layer(x, state, training=True)
    mean, spread = x.mean((0, 2)), x.var((0, 2))
    np.testing.assert_allclose(new.mean.numpy(), 0.25 * mean)
    np.testing.assert_allclose(new.variance.numpy(), 0.75 + 0.25 * spread)
    expected = (x - mean[:, None]) / np.sqrt(spread + 1e-5)[:, None]
    np.testing.assert_allclose(y.numpy(), expected * w["weight"][:, None] + w["bias"][:, None])
    y, same = layer(x, new)
    assert same is new
    expected = (x - new.mean.numpy()[:, None]) / np.sqrt(new.variance.numpy() + 1e-5)[:, None]
    np.testing.assert_allclose(y.numpy(), expected * w["weight"][:, None] + w["bias"][:, None])
    assert nn.BatchNorm.create(3, dtype="bfloat16").init_state().mean.dtype == "float32"


def np_cell(kind: str, x: Any, h: Any, c: Any, w: Any) -> Any:
    new, old = x @ w[0].T + w[2], h @ w[1].T + w[3]
    if kind == "RNN":
        return np.tanh(new + old), c
    if kind == "LSTM":
        i, f, g, o = np.split(new + old, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (r, z, n), (hr, hz, hn) = np.split(new, 3, -1), np.split(old, 3, -1)
    z = sigmoid(z + hz)
    return (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h, c


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_are_cells_in_a_row(kind: str) -> None:
    layers = wide(getattr(nn, kind).create(KEY, 3, 2))
    x, w = normal(2, 4, 3), [v.numpy() for v in layers.weights]
    h, c, outs = np.zeros((2, 2)), np.zeros((2, 2)), []
    cell, state = getattr(nn, f"{kind}Cell")(*layers.weights), None
    for t in range(4):
        h, c = np_cell(kind, x[:, t], h, c, w)
        outs.append(h)
        state = cell(x[:, t], state)
        own = state[0] if kind == "LSTM" else state
        np.testing.assert_allclose(own.numpy(), h, rtol=1e-10)
    out, last = layers(x)
    np.testing.assert_allclose(out.numpy(), np.stack(outs, 1), rtol=1e-10)
    np.testing.assert_allclose((last[0] if kind == "LSTM" else last)[-1].numpy(), h, rtol=1e-10)
    out, _ = layers(x, lengths=[4, 2])
    assert (out.numpy()[1, 2:] == 0).all()
    np.testing.assert_allclose(out.numpy()[1, 1], outs[1][1], rtol=1e-10)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_cells_may_have_one_bias_alone(kind: str) -> None:
    cell = getattr(nn, f"{kind}Cell").create(KEY, 3, 2)
    x, none = normal(4, 3), np.zeros(cell.bias_ih.shape, "float32")
    for kept in ("bias_ih", "bias_hh"):
        parts = {"weight_ih": cell.weight_ih, "weight_hh": cell.weight_hh}
        other = "bias_hh" if kept == "bias_ih" else "bias_ih"
        one = type(cell)(**parts, **{kept: getattr(cell, kept), other: None})(x)
        both = type(cell)(**parts, **{kept: getattr(cell, kept), other: none})(x)
        without = type(cell)(**parts)(x)
        for found, wanted, away in zip(*map(phix.tree.leaves, (one, both, without))):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
            assert not np.allclose(found.numpy(), away.numpy())


def test_cells_take_their_state_stacked_or_in_parts() -> None:
    cell, x, state = nn.LSTMCell.create(KEY, 3, 2), normal(4, 3), normal(2, 4, 2)
    for h, c in (cell(x, state), cell(x, list(state)), phix.jit(cell)(x, tuple(state))):
        wanted = cell(x, (state[0], state[1]))
        np.testing.assert_allclose(h.numpy(), wanted[0].numpy(), rtol=1e-6)
        np.testing.assert_allclose(c.numpy(), wanted[1].numpy(), rtol=1e-6)


def test_attention_and_its_cache() -> None:
    layer, x = wide(nn.MultiHeadAttention.create(KEY, 8, 2)), normal(2, 5, 8)
    w = weights(layer)
    q, k, v = (
        (x @ w[f"{n}.weight"] + w[f"{n}.bias"]).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
        for n in ("query", "key", "value")
    )
    scores = np.where(np.tril(np.ones((5, 5), bool)), q @ k.swapaxes(-1, -2) / 2, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    y = (shares / shares.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    expected = y @ w["out.weight"] + w["out.bias"]
    np.testing.assert_allclose(layer(x, is_causal=True).numpy(), expected, rtol=1e-9)

    step = phix.jit(lambda layer, x, cache: layer(x, cache=cache))
    cache, found = layer.init_cache(2, 6), []
    for cut in (slice(0, 3), slice(3, 4), slice(4, 5)):
        out, cache = step(layer, x[:, cut], cache)
        found.append(out.numpy())
    np.testing.assert_allclose(np.concatenate(found, 1), expected, rtol=1e-9)
    assert cache.position.item() == 5
    with pytest.raises(ShapeError, match="room for 6 positions, 5 of which"):
        layer(x[:, :2], cache=cache)
    assert np.isnan(step(layer, x[:, :2], cache)[0].numpy()).all()
    assert np.isfinite(step(layer, x[:, :1], cache)[0].numpy()).all()
    with pytest.raises(ArgumentError, match="leave mask"):
        layer(x, cache=cache, is_causal=True)
    crossed = layer(x[:, :2], x)
    assert crossed.shape == (2, 2, 8)


# -- beside PyTorch --------------------------------------------------------------------------------
def _set(layer: Any, module: Any, names: dict[str, str], turned: tuple[str, ...] = ()) -> Any:
    """The layer with the weights of PyTorch's module."""
    given = dict(module.named_parameters())

    def taken(path: str, old: Any) -> Any:
        value = given[names.get(path, path)].detach().numpy()
        return phix.to_tensor(value.T if path in turned else value)

    return phix.tree.map_with_path(taken, layer)


def _beside(torch: Any) -> dict[str, tuple[Any, Any, tuple[int, ...]]]:
    t, key = torch.nn, KEY
    rows: dict[str, tuple[Any, Any, tuple[int, ...]]] = {}
    m = t.Linear(4, 3)
    rows["linear"] = (_set(nn.Linear.create(key, 4, 3), m, {}, ("weight",)), m, (2, 4))
    for rank in (1, 2, 3):
        m = getattr(t, f"Conv{rank}d")(4, 6, 3, 2, 2, 2, 2)
        own = getattr(nn, f"Conv{rank}d").create(key, 4, 6, 3, 2, 2, 2, 2)
        rows[f"conv {rank}"] = (_set(own, m, {}), m, (2, 4, *[6] * rank))
        m = getattr(t, f"ConvTranspose{rank}d")(4, 6, 3, 2, 1, 0, 2)
        own = getattr(nn, f"ConvTranspose{rank}d").create(key, 4, 6, 3, 2, 1, 1, 2)
        rows[f"transposed {rank}"] = (_set(own, m, {}), m, (2, 4, *[4] * rank))
    for name, own, m in (
        ("layer norm", nn.LayerNorm.create(4), t.LayerNorm(4)),
        ("group norm", nn.GroupNorm.create(2, 4), t.GroupNorm(2, 4)),
        ("rms norm", nn.RMSNorm.create(4, 1e-6), t.RMSNorm(4, 1e-6)),
    ):
        for p in m.parameters():
            p.data.normal_()
        rows[name] = (_set(own, m, {}), m, (2, 4, 4))
    for kind in ("RNN", "GRU", "LSTM"):
        m = getattr(t, kind)(4, 3, 2, batch_first=True, bidirectional=True)
        own = getattr(nn, kind).create(key, 4, 3, 2, bidirectional=True)
        ends = [f"l{n}{way}" for n in range(2) for way in ("", "_reverse")]
        order = [f"weight_{p}_{e}" for e in ends for p in ("ih", "hh")]
        order += [f"bias_{p}_{e}" for e in ends for p in ("ih", "hh")]
        names = {f"weights.{n}": name for n, name in enumerate(order)}
        rows[kind] = (_set(own, m, names), m, (2, 5, 4))
    return rows


def test_values_and_slopes_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for name, (layer, module, shape) in _beside(torch).items():
        x = RNG.normal(size=shape).astype("f4")

        def loss(layer: Any, x: Any) -> Any:
            out = layer(x)
            return ops.sum(ops.tanh(out[0] if isinstance(out, tuple) else out))

        value, slopes = phix.value_and_grad(loss)(layer, x)
        out = module(torch.tensor(x))
        expected = torch.tanh(out[0] if isinstance(out, tuple) else out).sum()
        expected.backward()
        np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-4, err_msg=name)
        mine = sum(float((g * g).sum()) for g in phix.tree.leaves(slopes))
        theirs = sum(float((p.grad**2).sum()) for p in module.parameters())
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, err_msg=name)


# -- trees -----------------------------------------------------------------------------------------
@nn.module
class Net:
    first: Any
    dropout: Any
    second: Any
    activation: Callable[..., Any] = nn.static(default=ops.tanh)

    @staticmethod
    def create(key: Any) -> Net:
        keys = phix.random.split(key)
        first = nn.Linear.create(keys[0], 3, 8)
        return Net(first, nn.Dropout(0.5), nn.Linear.create(keys[1], 8, 1))

    def __call__(self, x: Any, key: Any = None) -> Any:
        return self.second(self.dropout(self.activation(self.first(x)), key))


def loss(net: Any, x: Any, y: Any, key: Any = None) -> Any:
    return ops.mean(ops.square(net(x, key) - y))


def test_layers_are_trees_whose_static_fields_are_structure() -> None:
    net = Net.create(KEY)
    assert phix.tree.paths(net) == ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert nn.parameter_count(net) == 41
    other = dataclasses.replace(net, activation=ops.relu)
    assert phix.tree.flatten(net)[1] != phix.tree.flatten(other)[1]
    traced = phix.jit(loss)
    x, y = phix.ones([4, 3]), phix.ones([4, 1])
    assert traced(net, x, y).item() != traced(other, x, y).item()
    assert repr(nn.BatchNorm.create(2)) == (
        "BatchNorm(weight=float32[2], bias=float32[2], momentum=0.9, epsilon=1e-05)"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        net.first = None  # type: ignore[misc]
    drawn = [net(x, phix.random.key(n)).tolist() for n in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_frozen_parts_stay_and_the_rest_learns(tmp_path: Path) -> None:
    net = Net.create(KEY)
    trained, frozen = phix.tree.partition(net, lambda path, leaf: path.startswith("second"))
    assert nn.parameter_count(trained) == 9 and trained.first.weight is None
    optimizer = optim.adam(0.05)
    x = phix.random.normal(phix.random.key(1), [16, 3])
    y = ops.sum(x, -1, keepdim=True)

    @phix.jit(donate_argnums=(0, 1))
    def step(trained: Any, state: Any, key: Any) -> Any:
        value, slopes = phix.value_and_grad(
            lambda part: loss(phix.tree.combine(part, frozen), x, y, key)
        )(trained)
        updates, state = optimizer.update(slopes, state, trained)
        return optim.apply_updates(trained, updates), state, value

    state, losses = optimizer.init(trained), []
    for n in range(60):
        trained, state, value = step(trained, state, phix.random.key(n))
        losses.append(value.item())
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
    learnt = phix.tree.combine(trained, frozen)
    assert learnt.first.weight.tolist() == net.first.weight.tolist()
    phix.save(tmp_path / "net", learnt)
    with pytest.raises(ArgumentError, match="function, say"):
        phix.load(tmp_path / "net")
    read = phix.load(tmp_path / "net", like=net)
    assert read(x).tolist() == learnt(x).tolist()


def test_ensembles_and_unknown_sizes() -> None:
    keys = phix.random.split(KEY, 3)
    nets = phix.vmap(Net.create)(keys)
    x = phix.random.normal(KEY, [5, 3])
    together = phix.vmap(lambda net: net(x))(nets)
    assert together.shape == (3, 5, 1)
    one = Net.create(keys[1])
    np.testing.assert_allclose(together[1].numpy(), one(x).numpy(), rtol=1e-5, atol=1e-6)
    conv = nn.Conv2d.create(KEY, 1, 2, 3, padding="SAME")
    any_size = phix.jit(lambda x: conv(x), input_spec=[phix.spec(["n", 1, "h", 5])])
    for n, h in ((1, 4), (2, 7)):
        given = phix.ones([n, 1, h, 5])
        np.testing.assert_allclose(any_size(given).numpy(), conv(given).numpy(), rtol=1e-6)


def step(kind: Any, state: Any) -> Any:
    """A step of a cell for two rows."""
    return kind.create(KEY, 2, 3)(phix.ones([2, 2]), state)


BAD: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: nn.Linear.create(KEY, 0, 2), ArgumentError, "in_features must be an int from 1"),
    (lambda: nn.Linear.create(KEY, 2, 2)(phix.ones([3])), ShapeError, "linear"),
    (lambda: nn.Conv2d.create(KEY, 3, 4, 3, groups=2), ArgumentError, "groups 2 must divide"),
    (lambda: nn.Conv2d.create(KEY, 3, 4, (3, 3, 3)), ArgumentError, "kernel_size"),
    (lambda: nn.Conv1d.create(KEY, 3, 4, 3, padding="full"), ArgumentError, "padding"),
    (lambda: nn.Conv1d.create(KEY, 3, 4, 3)(phix.ones([3, 9])), ShapeError, "Conv1d: x has 3"),
    (lambda: nn.GroupNorm.create(2, 3), ArgumentError, "must divide"),
    (lambda: nn.BatchNorm.create(2)(phix.ones([1, 2]), None), ArgumentError, "init_state"),
    (lambda: nn.MultiHeadAttention.create(KEY, 8, 3), ArgumentError, "must divide"),
    (lambda: nn.LSTM.create(KEY, 2, 2)(phix.ones([2, 2])), ShapeError, r"\[n, time, in\]"),
    (lambda: nn.GRU.create(KEY, 2, 2)(phix.ones([1, 2, 3])), ShapeError, "input_size"),
    (lambda: nn.LSTM.create(KEY, 2, 2)(phix.ones([1, 2, 2]), 3.0), ArgumentError, r"pair \(h, c\)"),
    (lambda: step(nn.LSTMCell, phix.ones([2, 3])), ShapeError, r"h must be \[2, 3\] beside x"),
    (lambda: step(nn.LSTMCell, [phix.ones([2, 3])] * 3), ArgumentError, "found 3 entries"),
    (lambda: step(nn.LSTMCell, 3.0), ArgumentError, r"pair \(h, c\), found float 3.0"),
    (lambda: step(nn.LSTMCell, (phix.ones([2, 3]), phix.ones([2, 1]))), ShapeError, "c must be"),
    (lambda: step(nn.GRUCell, phix.ones([3])), ShapeError, r"GRUCell: state must be \[2, 3\]"),
    (lambda: step(nn.RNNCell, phix.ones([4, 3])), ShapeError, "RNNCell: state must be"),
    (lambda: nn.RNNCell(np.ones((3, 2)), np.ones((3, 3)), np.ones(1))(np.ones((2, 2))), ShapeError,
     "RNNCell: a bias must be"),
    (lambda: nn.Embedding.create(KEY, 3, 2, 5), ArgumentError, "padding_idx 5"),
    (lambda: nn.Sequential.create(3), ArgumentError, "layers and functions"),
    (lambda: nn.module(3), ArgumentError, "takes a class"),
    (lambda: phix.tree.combine({"a": 1}, [1]), ArgumentError, "tree.combine"),
    (lambda: phix.tree.partition({"a": 1}, {"a": 2}), ArgumentError, "tree.partition"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_calls_are_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()


def test_a_layer_called_with_sizes_names_what_makes_one() -> None:
    nn = phix.nn
    for call, said in (
        (lambda: nn.Linear(2, 3), r"int 2; write Linear\.create\(key, in_features, out_features\)"),
        (lambda: nn.LayerNorm(4), r"LayerNorm\.create\(normalized_shape\)"),
        (lambda: nn.LSTM(2, 3), r"LSTM\.create\(key"),
        (lambda: nn.BatchNorm(4), r"BatchNorm\.create\("),
        (lambda: nn.Conv2d(3, 8, kernel_size=3), r"Conv2d\.create\(key"),
        (lambda: nn.Sequential(phix.ops.relu, phix.ops.tanh), r"Sequential\.create\("),
    ):
        with pytest.raises(ArgumentError, match=said):
            call()
    layer = nn.Linear.create(phix.random.key(0), 2, 3)
    assert phix.tree.map(lambda _: 0, layer).weight == 0
