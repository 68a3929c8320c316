"""Recurrent networks, one sequence after the other and step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


_ACTIVE = {
    "identity": lambda x: x,
    "sigmoid": logistic,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}
_BY_NUMBER = list(_ACTIVE.values())


def _cell(mode: str, x: Any, state: list[Any], w: list[Any]) -> list[Any]:
    w_ih, w_hh, b_ih, b_hh = w
    given, own = w_ih @ x + b_ih, w_hh @ state[0] + b_hh
    if mode == "LSTM":
        i, f, g, o = np.split(given + own, 4)
        c = logistic(f) * state[1] + logistic(i) * np.tanh(g)
        return [logistic(o) * np.tanh(c), c]
    if mode == "GRU":
        (x_r, x_z, x_n), (h_r, h_z, h_n) = np.split(given, 3), np.split(own, 3)
        r, z = logistic(x_r + h_r), logistic(x_z + h_z)
        n = np.tanh(x_n + r * h_n)
        return [(1 - z) * n + z * state[0]]
    return [_ACTIVE["tanh" if mode == "RNN_TANH" else "relu"](given + own)]


def rnn(
    x: np.ndarray,
    pre_state: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    lengths: np.ndarray | None,
    layers: int,
    bidirectional: bool,
    mode: str,
    key: Any,
    width: int | None = None,
) -> tuple[Any, ...]:
    """The output, the key as it came, and the final states."""
    steps, batch, found = x.shape
    if width not in (None, found):
        raise ValueError("another width than input_size says")
    directions = 2 if bidirectional else 1
    half = len(weights) // 2
    finals = [np.array(s) for s in pre_state]
    for layer in range(layers):
        size = pre_state[0].shape[2]
        out = np.zeros((steps, batch, size * directions))
        for direction in range(directions):
            k = layer * directions + direction
            w = [*weights[2 * k : 2 * k + 2], *weights[half + 2 * k : half + 2 * k + 2]]
            for b in range(batch):
                state = [s[k, b] for s in pre_state]
                end = steps if lengths is None else int(lengths[b])
                for t in range(end)[:: -1 if direction else 1]:
                    state = _cell(mode, x[t, b], state, w)
                    out[t, b, direction * size : (direction + 1) * size] = state[0]
                for final, value in zip(finals, state):
                    final[k, b] = value
        x = out
    return (x, key, *finals)


def cudnn_lstm(
    x: Any, h: Any, c: Any, w: Any, weights: Any, lengths: Any, size: int, layers: int, both: bool
) -> tuple[Any, ...]:
    """As :func:`rnn`; the flat weights are cut first. What is kept of the key is 0."""
    if w is not None:
        directions = 2 if both else 1
        shapes: list[tuple[int, ...]] = []
        for k in range(layers * directions):
            inner = x.shape[2] if k < directions else directions * size
            shapes += [(4 * size, inner), (4 * size, size)]
        shapes += [(4 * size,)] * (2 * layers * directions)
        ends = np.cumsum([int(np.prod(s)) for s in shapes])
        weights = [part.reshape(s) for part, s in zip(np.split(w, ends[:-1]), shapes)]
    out, key, *finals = rnn(x, [h, c], weights, lengths, layers, both, "LSTM", np.zeros(2, "u4"))
    return (out, *finals, key)


def lstm(
    x: Any, h: Any, c: Any, weight: Any, bias: Any, peepholes: bool, reverse: bool,
    gate: str, cell: str, candidate: str,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Hidden states and cells of one sequence."""
    size = len(weight)
    h = np.zeros(size) if h is None else h[0]
    c = np.zeros(size) if c is None else c[0]
    on_c = np.split(bias[0, 4 * size :], 3) if peepholes else [np.zeros(size)] * 3
    hidden, cells = np.zeros((len(x), size)), np.zeros((len(x), size))
    for t in range(len(x))[:: -1 if reverse else 1]:
        g, i, f, o = np.split(x[t] + h @ weight + bias[0, : 4 * size], 4)
        i, f = _ACTIVE[gate](i + on_c[0] * c), _ACTIVE[gate](f + on_c[1] * c)
        c = f * c + i * _ACTIVE[candidate](g)
        h = _ACTIVE[gate](o + on_c[2] * c) * _ACTIVE[cell](c)
        hidden[t], cells[t] = h, c
    return hidden, cells


def gru_unit(
    x: Any, h: Any, weight: Any, bias: Any, active: int, gate: int, origin_mode: bool
) -> np.ndarray:
    """The new states of rows."""
    size = len(weight)
    gates = weight.ravel()[: 2 * size * size].reshape(size, 2 * size)
    inner = weight.ravel()[2 * size * size :].reshape(size, size)
    x = x if bias is None else x + bias
    u, r = np.split(_BY_NUMBER[gate](x[:, : 2 * size] + h @ gates), 2, axis=1)
    c = _BY_NUMBER[active](x[:, 2 * size :] + (r * h) @ inner)
    return u * h + (1 - u) * c if origin_mode else (1 - u) * h + u * c


def gru(
    x: Any, h: Any, weight: Any, bias: Any, active: str, gate: str, reverse: bool, origin: bool
) -> np.ndarray:
    """The hidden states of one sequence."""
    h = np.zeros((1, len(weight))) if h is None else h
    hidden = np.zeros((len(x), len(weight)))
    names = list(_ACTIVE)
    for t in range(len(x))[:: -1 if reverse else 1]:
        row = x[t : t + 1]
        h = gru_unit(row, h, weight, bias, names.index(active), names.index(gate), origin)
        hidden[t] = h[0]
    return hidden


def attention_lstm(
    x: Any, c: Any, h: Any, w: Any, b: Any, scalar: Any, shift: Any, lstm_w: Any, lstm_b: Any,
    gate: str, cell: str, candidate: str,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Hidden states and cells of one sequence."""
    size = c.shape[1]
    c, h = c[0], np.zeros(size) if h is None else h[0]
    hidden, cells = [], []
    for _ in x:
        rows = np.concatenate([x, np.tile(c, (len(x), 1))], 1)
        scores = np.maximum((rows @ w)[:, 0] + (0 if b is None else b.item()), 0)
        if scalar is not None:
            more = 0 if shift is None else shift.item()
            scores = np.maximum(scores * scalar.item() + more, 0)
        weights = np.exp(scores) / np.exp(scores).sum()
        f, i, o, g = np.split(np.concatenate([h, weights @ x]) @ lstm_w + lstm_b[0], 4)
        c = c * _ACTIVE[gate](f) + _ACTIVE[gate](i) * _ACTIVE[candidate](g)
        h = _ACTIVE[gate](o) * _ACTIVE[cell](c)
        hidden.append(h)
        cells.append(c)
    return np.reshape(hidden, (len(x), size)), np.reshape(cells, (len(x), size))
