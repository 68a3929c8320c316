"""Recurrent networks: cells, and layers of them as scans along time.

What a step takes of the input is one product for all steps, made before the scan; inside it stands
the product with the state alone. Sums are of float32 at least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.primitives import random as rand
from phix.primitives.lengths import check_dims, check_lengths, of_steps, within
from phix.primitives.steps import scanned
from phix.primitives.widening import as_dtype, widened

Cell = Callable[[Any, Sequence[Any]], Sequence[Any]]


def parts(x: Any, count: int, size: Any) -> Any:
    """``x`` cut along its last axis into parts of one size."""
    return ops.split(x, [size] * count, -1)


# -- rnn ---------------------------------------------------------------------------------------
def _lstm_cell(size: Any, w_hh: Any, b_hh: Any) -> Cell:
    def cell(x: Any, state: Sequence[Any]) -> Sequence[Any]:
        h, c = state
        i, f, g, o = parts(x + ops.matmul(h, w_hh, False, True), 4, size)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c), c

    return cell


def _gru_cell(size: Any, w_hh: Any, b_hh: Any) -> Cell:
    """The reset gate is in front of the product's bias, which therefore is not the input's."""
    bias = parts(b_hh, 3, size)[2]

    def cell(x: Any, state: Sequence[Any]) -> Sequence[Any]:
        (h,) = state
        x_r, x_z, x_n = parts(x, 3, size)
        h_r, h_z, h_n = parts(ops.matmul(h, w_hh, False, True), 3, size)
        n = ops.tanh(x_n + ops.sigmoid(x_r + h_r) * (h_n + bias))
        return (n + ops.sigmoid(x_z + h_z) * (h - n),)

    return cell


def _simple_cell(activation: Callable[[Any], Any]) -> Callable[..., Cell]:
    def make(size: Any, w_hh: Any, b_hh: Any) -> Cell:
        return lambda x, state: (activation(x + ops.matmul(state[0], w_hh, False, True)),)

    return make


class Mode(NamedTuple):
    """A kind of cell: its gates, its states, and what makes one of it."""

    gates: int
    states: int
    make: Callable[..., Cell]


MODES = {
    "LSTM": Mode(4, 2, _lstm_cell),
    "GRU": Mode(3, 1, _gru_cell),
    "RNN_TANH": Mode(1, 1, _simple_cell(lambda x: ops.tanh(x))),
    "RNN_RELU": Mode(1, 1, _simple_cell(lambda x: ops.relu(x))),
}


def _input_bias(mode: str, size: Any, b_ih: Any, b_hh: Any) -> Any:
    """What is added to the input's product; a GRU's last part is added inside its cell."""
    if mode != "GRU":
        return b_ih + b_hh
    r, z, n = parts(b_hh, 3, size)
    return b_ih + ops.concat([r, z, n * 0.0], 0)


def run_cell(
    cell: Cell, x: Any, state: Sequence[Any], mask: Any, reverse: bool
) -> tuple[Sequence[Any], Any]:
    """A cell along time: the final state, and its first part after each step, 0 where ``mask``
    (bool[time, batch, 1], or None) is False and the state stands still."""

    def step(carry: Sequence[Any], row: Sequence[Any]) -> Any:
        after = cell(row[0], carry)
        if mask is None:
            return after, (after[0],)
        kept = [ops.where(row[1], new, old) for new, old in zip(after, carry)]
        return kept, (ops.where(row[1], after[0], 0.0),)

    final, ys = scanned(step, state, [x] if mask is None else [x, mask], reverse)
    return final, ys[0]


@rules.normalize("rnn")
def rnn_attrs(*args: Any) -> Any:
    *_, p, is_bidirec, input_size, hidden_size, num_layers, mode, seed, is_test = args
    if mode not in MODES:
        raise AttributeValueError(f"mode must be one of {', '.join(MODES)}, found {mode!r}")
    if num_layers < 1:
        raise AttributeValueError(f"num_layers must be 1 or more, found {num_layers}")
    _check_chance(p)
    return p, is_bidirec, input_size, hidden_size, num_layers, mode, seed, is_test


def _check_chance(p: float) -> None:
    if not 0 <= p <= 1:
        raise AttributeValueError(f"dropout_prob is a probability, from 0 to 1, found {p}")


def _drops(p: float, num_layers: int, is_test: bool) -> bool:
    return p > 0 and num_layers > 1 and not is_test


def _check_rnn(x: Any, pre_state: Any, weights: Any, sizes: tuple[int, int, int], mode: str) -> Any:
    """Raise where shapes do not fit each other and the attributes."""
    input_size, hidden_size, num_layers = sizes
    directions = 1
    gates, states, _ = MODES[mode]
    if x.ndim != 3:
        raise ShapeError(f"x must be [time, batch, input_size], found {x.meta}; reshape it")
    check_dims("x", x, (None, None, input_size), f"[time, batch, input_size {input_size}]")
    if len(pre_state) != states:
        raise ArgumentError(f"pre_state of {mode} holds {states} tensors, found {len(pre_state)}")
    if len(weights) % (4 * num_layers) or len(weights) // (4 * num_layers) not in (1, 2):
        raise ArgumentError(
            f"weight_list holds w_ih and w_hh of each of the {num_layers} layers and directions, "
            f"then b_ih and b_hh of each, found {len(weights)} tensors"
        )
    directions = len(weights) // (4 * num_layers)
    batch = x.meta.dims[1]
    for s in pre_state:
        wanted = (num_layers * directions, batch, hidden_size)
        check_dims("pre_state", s, wanted, f"[layers * directions, batch, hidden_size {wanted}]")
    rows = gates * hidden_size
    half = len(weights) // 2
    for number in range(half):
        first = number // 2 < directions
        columns = hidden_size if number % 2 else input_size if first else directions * hidden_size
        name = f"weight_list[{number}]"
        check_dims(name, weights[number], (rows, columns), f"[{rows}, {columns}]")
        name = f"weight_list[{half + number}]"
        check_dims(name, weights[half + number], (rows,), f"[{rows}]")


def _layers(
    x: Any, states: Any, weights: Any, lengths: Any, keys: Any, p: float,
    directions: int, size: int, num_layers: int, mode: str,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """All layers: the output of the last, and the final states."""
    steps = x.meta.dims[0]
    mask = None
    if lengths is not None:
        seen = within(lengths, steps)
        mask = ops.reshape(seen, (*seen.meta.dims, 1))
    half = len(weights) // 2
    finals: list[list[Any]] = [[] for _ in states]
    for layer in range(num_layers):
        if layer and keys is not None:
            kept = rand.unit_uniform(keys[layer], x.meta.dims, dt.float32) >= p
            x = ops.where(kept, x if p == 1 else x * (1 / (1 - p)), 0.0)
        outs = []
        for direction in range(directions):
            number = layer * directions + direction
            w_ih, w_hh = weights[2 * number : 2 * number + 2]
            b_ih, b_hh = weights[half + 2 * number : half + 2 * number + 2]
            bias = _input_bias(mode, size, b_ih, b_hh)
            given = ops.matmul(x, w_ih, False, True) + bias
            cell = MODES[mode].make(size, w_hh, b_hh)
            final, out = run_cell(cell, given, [s[number] for s in states], mask, direction == 1)
            outs.append(out)
            for found, value in zip(finals, final):
                found.append(value)
        x = ops.concat(outs, -1) if directions > 1 else outs[0]
    return x, [ops.stack(found, 0) for found in finals]


def _all_widened(tensors: Sequence[Any]) -> list[Any]:
    return [widened(t) for t in tensors]


for _name, _place in (("rnn", 3), ("cudnn_lstm", 5)):
    rules.indices(_name)(lambda *args, at=_place: of_steps("sequence_length", args[at], args[0], 0))


@rules.decompose("rnn")
def rnn(
    x: Any, pre_state: Any, weight_list: Any, sequence_length: Any, dropout_state_in: Any,
    dropout_prob: float, is_bidirec: bool, input_size: int, hidden_size: int, num_layers: int,
    mode: str, seed: int, is_test: bool,
) -> Any:  # fmt: skip
    _check_rnn(x, pre_state, weight_list, (input_size, hidden_size, num_layers), mode)
    directions = 2 if is_bidirec else 1
    if len(weight_list) != 4 * num_layers * directions:
        raise ArgumentError(
            f"weight_list holds {4 * num_layers * directions} tensors where is_bidirec is "
            f"{is_bidirec}, found {len(weight_list)}"
        )
    lengths = None
    if sequence_length is not None:
        lengths = check_lengths("sequence_length", sequence_length, x.meta.dims[1])
    keys, after = None, dropout_state_in
    if _drops(dropout_prob, num_layers, is_test):
        keys = _keys(dropout_state_in, num_layers)
        after = keys[0]
    out, finals = _layers(
        widened(x), _all_widened(pre_state), _all_widened(weight_list), lengths, keys,
        dropout_prob, directions, hidden_size, num_layers, mode,
    )  # fmt: skip
    states = tuple(as_dtype(s, x.dtype) for s in finals)
    return as_dtype(out, x.dtype), after, states, ops.full((0,), 0, x.dtype)


def _keys(key: Any, count: int) -> Any:
    """A key for each layer behind the first, in its row; the first row is left over."""
    rand.check_key(key.meta)
    if key.ndim != 1:
        raise ShapeError(f"dropout takes one key, uint32[2], found {key.meta}; use vmap")
    return ops.random_bits(key, (count, 2), 32)


# -- cudnn_lstm --------------------------------------------------------------------------------
@rules.normalize("cudnn_lstm")
def cudnn_lstm_attrs(*args: Any) -> Any:
    *tensors, p, is_bidirec, hidden_size, num_layers, is_test, seed = args
    if num_layers < 1:
        raise AttributeValueError(f"num_layers must be 1 or more, found {num_layers}")
    _check_chance(p)
    if not seed and _drops(p, num_layers, is_test):
        raise AttributeValueError(
            "cudnn_lstm drops by the key of its seed, since there is no hidden random state: "
            "pass a seed other than 0, or is_test=True"
        )
    if (tensors[3] is None) == (not tensors[4]):
        raise ArgumentError("cudnn_lstm takes its weights as w, one axis, or as weight_list")
    return p, is_bidirec, hidden_size, num_layers, is_test, seed


def _weights_of(w: Any, x: Any, size: int, num_layers: int, directions: int) -> list[Any]:
    """The matrices of all layers, then the biases, that lie in ``w`` one behind the other."""
    shapes: list[tuple[Any, ...]] = []
    for number in range(num_layers * directions):
        first = number < directions
        shapes += [(4 * size, x.meta.dims[2] if first else directions * size), (4 * size, size)]
    shapes += [(4 * size,)] * (2 * num_layers * directions)
    sizes = [dm.product(shape) for shape in shapes]
    whole = sum(sizes[1:], start=sizes[0])
    check_dims("w", w, (whole,), f"one axis of the {dm.dim_text(whole)} weights of all layers")
    return [ops.reshape(part, shape) for part, shape in zip(ops.split(w, sizes, 0), shapes)]


@rules.decompose("cudnn_lstm")
def cudnn_lstm(
    x: Any, init_h: Any, init_c: Any, w: Any, weight_list: Any, sequence_length: Any,
    dropout_prob: float, is_bidirec: bool, hidden_size: int, num_layers: int, is_test: bool,
    seed: int,
) -> Any:  # fmt: skip
    if x.ndim != 3:
        raise ShapeError(f"x must be [time, batch, input_size], found {x.meta}; reshape it")
    directions = 2 if is_bidirec else 1
    if w is not None:
        weight_list = _weights_of(w, x, hidden_size, num_layers, directions)
    words = [(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF]
    key = ops.stack([ops.full((), word, dt.uint32) for word in words], 0)
    out, after, (last_h, last_c), reserve = rnn(
        x, (init_h, init_c), weight_list, sequence_length, key, dropout_prob, is_bidirec,
        x.meta.dims[2], hidden_size, num_layers, "LSTM", seed, is_test,
    )  # fmt: skip
    return out, last_h, last_c, reserve, after


# -- lstm, gru of one sequence, gru_unit -------------------------------------------------------
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "sigmoid": lambda x: ops.sigmoid(x),
    "tanh": lambda x: ops.tanh(x),
    "relu": lambda x: ops.relu(x),
}
_BY_NUMBER = tuple(ACTIVATIONS)


def _check_activations(**given: str) -> None:
    for name, value in given.items():
        if value not in ACTIVATIONS:
            raise AttributeValueError(
                f"{name} must be one of {', '.join(ACTIVATIONS)}, found {value!r}"
            )


def _initial(h0: Any, size: Any, like: Any) -> Any:
    if h0 is None:
        return ops.full((1, size), 0, like.dtype)
    check_dims("the initial state", h0, (1, size), f"[1, {dm.dim_text(size)}], of one sequence")
    return widened(h0)


@rules.normalize("lstm")
def lstm_attrs(*args: Any) -> Any:
    _, h0, c0, _, _, peepholes, is_reverse, is_test, gate, cell, candidate = args
    if (h0 is None) != (c0 is None):
        raise ArgumentError("lstm takes both of h0 and c0, or neither")
    _check_activations(gate_activation=gate, cell_activation=cell, candidate_activation=candidate)
    return peepholes, is_reverse, is_test, gate, cell, candidate


@rules.decompose("lstm")
def lstm(
    input: Any, h0: Any, c0: Any, weight: Any, bias: Any, use_peepholes: bool, is_reverse: bool,
    is_test: bool, gate_activation: str, cell_activation: str, candidate_activation: str,
) -> Any:  # fmt: skip
    check_dims("weight", weight, (None, None), "[size, 4 * size]")
    size = weight.meta.dims[0]
    check_dims("weight", weight, (size, 4 * size), "[size, 4 * size]")
    check_dims("input", input, (None, 4 * size), f"[time, 4 * size], size {dm.dim_text(size)}")
    count = 7 if use_peepholes else 4
    check_dims("bias", bias, (1, count * size), f"[1, {count} * size]")
    w, b = widened(weight), widened(bias)
    biases = parts(b, count, size)
    gate, active, candidate = (
        ACTIVATIONS[n] for n in (gate_activation, cell_activation, candidate_activation)
    )
    peep = biases[4:] or [None] * 3

    def seen(x: Any, c: Any, weights: Any) -> Any:
        return x if weights is None else x + weights * c

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        g, i, f, o = parts(ops.reshape(row[0], (1, 4 * size)) + ops.matmul(h, w), 4, size)
        g = candidate(g)
        i, f = gate(seen(i, c, peep[0])), gate(seen(f, c, peep[1]))
        c = f * c + i * g
        o, a = gate(seen(o, c, peep[2])), active(c)
        h = o * a
        return (h, c), [ops.reshape(y, (y.meta.dims[1],)) for y in
                        (h, c, ops.concat([g, i, f, o], -1), a)]  # fmt: skip

    x = widened(input) + ops.concat(list(biases[:4]), -1)
    state = [_initial(h0, size, x), _initial(c0, size, x)]
    _, ys = scanned(step, state, [x], is_reverse)
    return tuple(as_dtype(y, input.dtype) for y in ys)


def gru_step(
    x: Any, h: Any, w_gates: Any, w_candidate: Any, size: Any,
    gate: Callable[[Any], Any], active: Callable[[Any], Any], origin_mode: bool,
) -> Any:  # fmt: skip
    """One step on rows: the gates u, r and the candidate side by side, r * h, the new state."""
    x_gates, x_candidate = ops.split(x, [2 * size, size], -1)
    u, r = parts(gate(x_gates + ops.matmul(h, w_gates)), 2, size)
    reset = r * h
    c = active(x_candidate + ops.matmul(reset, w_candidate))
    out = c + u * (h - c) if origin_mode else h + u * (c - h)
    return ops.concat([u, r, c], -1), reset, out


def gru_weights(weight: Any) -> tuple[Any, Any, Any]:
    """The matrices [size, 2 size] and [size, size] that lie one behind the other, and size."""
    check_dims("weight", weight, (None, None), "[size, 3 * size]")
    size = weight.meta.dims[0]
    check_dims("weight", weight, (size, 3 * size), "[size, 3 * size]")
    flat = ops.reshape(widened(weight), (3 * size * size,))
    gates, candidate = ops.split(flat, [2 * size * size, size * size], 0)
    return ops.reshape(gates, (size, 2 * size)), ops.reshape(candidate, (size, size)), size


@rules.normalize("gru")
def gru_attrs(*args: Any) -> Any:
    *_, activation, gate, is_reverse, origin_mode, is_test = args
    _check_activations(activation=activation, gate_activation=gate)
    return activation, gate, is_reverse, origin_mode, is_test


def _with_bias(input: Any, bias: Any, size: Any) -> Any:
    check_dims("input", input, (None, 3 * size), f"[rows, 3 * size], size {dm.dim_text(size)}")
    if bias is None:
        return widened(input)
    check_dims("bias", bias, (1, 3 * size), f"[1, 3 * size], size {dm.dim_text(size)}")
    return widened(input) + widened(bias)


@rules.decompose("gru")
def gru(
    input: Any, h0: Any, weight: Any, bias: Any, activation: str, gate_activation: str,
    is_reverse: bool, origin_mode: bool, is_test: bool,
) -> Any:  # fmt: skip
    gates, candidate, size = gru_weights(weight)
    x = _with_bias(input, bias, size)
    gate, active = ACTIVATIONS[gate_activation], ACTIVATIONS[activation]

    def step(carry: Any, row: Any) -> Any:
        x = ops.reshape(row[0], (1, 3 * size))
        found = gru_step(x, carry[0], gates, candidate, size, gate, active, origin_mode)
        return found[2:], [ops.reshape(y, (y.meta.dims[1],)) for y in found]

    _, ys = scanned(step, [_initial(h0, size, x)], [x], is_reverse)
    gate_rows, reset, hidden = (as_dtype(y, input.dtype) for y in ys)
    return gate_rows, reset, hidden, hidden


@rules.normalize("gru_unit")
def gru_unit_attrs(*args: Any) -> Any:
    *_, activation, gate_activation, origin_mode = args
    for name, value in (("activation", activation), ("gate_activation", gate_activation)):
        if not 0 <= value < len(_BY_NUMBER):
            known = ", ".join(f"{i} ({n})" for i, n in enumerate(_BY_NUMBER))
            raise AttributeValueError(f"{name} must be one of {known}, found {value}")
    return activation, gate_activation, origin_mode


@rules.decompose("gru_unit")
def gru_unit(
    input: Any, hidden_prev: Any, weight: Any, bias: Any, activation: int, gate_activation: int,
    origin_mode: bool,
) -> Any:  # fmt: skip
    gates, candidate, size = gru_weights(weight)
    x = _with_bias(input, bias, size)
    check_dims("hidden_prev", hidden_prev, (x.meta.dims[0], size), "[rows of input, size]")
    gate, active = (ACTIVATIONS[_BY_NUMBER[n]] for n in (gate_activation, activation))
    found = gru_step(x, widened(hidden_prev), gates, candidate, size, gate, active, origin_mode)
    return tuple(as_dtype(y, input.dtype) for y in found)


# -- attention_lstm ----------------------------------------------------------------------------
@rules.normalize("attention_lstm")
def attention_lstm_attrs(*args: Any) -> Any:
    *_, gate, cell, candidate = args
    _check_activations(gate_activation=gate, cell_activation=cell, candidate_activation=candidate)
    return gate, cell, candidate


@rules.decompose("attention_lstm")
def attention_lstm(
    x: Any, c0: Any, h0: Any, attention_weight: Any, attention_bias: Any, attention_scalar: Any,
    attention_scalar_bias: Any, lstm_weight: Any, lstm_bias: Any, gate_activation: str,
    cell_activation: str, candidate_activation: str,
) -> Any:  # fmt: skip
    check_dims("x", x, (None, None), "[time, width]")
    check_dims("c0", c0, (1, None), "[1, size], of one sequence")
    steps, width = x.meta.dims
    size = c0.meta.dims[1]
    both = width + size
    text = f"width {dm.dim_text(width)} and size {dm.dim_text(size)}"
    check_dims("attention_weight", attention_weight, (both, 1), f"[width + size, 1], {text}")
    check_dims("lstm_weight", lstm_weight, (both, 4 * size), f"[width + size, 4 * size], {text}")
    check_dims("lstm_bias", lstm_bias, (1, 4 * size), f"[1, 4 * size], {text}")
    rows = widened(x)
    on_x, on_cell = ops.split(widened(attention_weight), [width, size], 0)
    w_h, w_x = ops.split(widened(lstm_weight), [size, width], 0)
    gate, active, candidate = (
        ACTIVATIONS[n] for n in (gate_activation, cell_activation, candidate_activation)
    )
    seen = ops.matmul(rows, on_x)
    if attention_bias is not None:
        seen = seen + _number("attention_bias", attention_bias)
    scale, shift = (
        None if t is None else _number(n, t)
        for n, t in (("attention_scalar", attention_scalar),
                     ("attention_scalar_bias", attention_scalar_bias))
    )  # fmt: skip

    def step(carry: Any, row: Any) -> Any:
        h, c = carry[:2]
        scores = ops.relu(seen + ops.matmul(c, on_cell))
        if scale is not None:
            scores = ops.relu(scores * scale if shift is None else scores * scale + shift)
        weights = ops.softmax(scores, 0)
        mixed = ops.matmul(weights, rows, True, False)
        gates = ops.matmul(mixed, w_x) + ops.matmul(h, w_h) + widened(lstm_bias)
        f, i, o, g = parts(gates, 4, size)
        c = gate(f) * c + gate(i) * candidate(g)
        h = gate(o) * active(c)
        return (h, c, weights, mixed, gates), [ops.reshape(y, (size,)) for y in (h, c)]

    zero = lambda *dims: ops.full(dims, 0, rows.dtype)  # noqa: E731
    state = [_initial(h0, size, rows), widened(c0)]
    scratch = [zero(steps, 1), zero(1, width), zero(1, 4 * size)]

    final, ys = scanned(step, [*state, *scratch], [rows])
    outs = (*ys, seen, *final[2:])
    return tuple(as_dtype(y, x.dtype) for y in outs)


def _number(name: str, x: Any) -> Any:
    """The one element of a tensor, as [1, 1]."""
    if not dm.may_equal(x.meta.size, 1):
        raise ShapeError(f"{name} holds one number, [1, 1], found {x.meta}")
    return ops.reshape(widened(x), (1, 1))
