"""Recurrent cells, and layers of them along a sequence."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

from phix import ops, random
from phix.core import dims as dm
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError, ShapeError, described
from phix.core.expectations import expect_dims
from phix.core.given import at_least, takes
from phix.core.tensor import TensorLike
from phix.nn.activations import as_tensor
from phix.nn.modules.base import drawn, module, static

Cell = TypeVar("Cell", bound="_Cell")
Layers = TypeVar("Layers", bound="_Layers")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Cell:
    """One step; weights are [gates * hidden, in], those of a gate below those of the one before."""

    gates: ClassVar[int]

    weight_ih: Any
    weight_hh: Any
    bias_ih: Any = None
    bias_hh: Any = None

    @classmethod
    @takes(input_size=at_least(1), hidden_size=at_least(1))
    def create(
        cls: type[Cell],
        key: TensorLike,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: DTypeLike = float,
    ) -> Cell:
        """A cell with weights uniform between -1 / sqrt(hidden_size) and its opposite."""
        keys, rows = random.split(key, 4), cls.gates * hidden_size
        shapes = [[rows, input_size], [rows, hidden_size], [rows], [rows]]
        parts = [drawn(keys[n], s, hidden_size, dtype) for n, s in enumerate(shapes)]
        return cls(*(parts if bias else [*parts[:2], None, None]))

    @property
    def hidden_size(self) -> int:
        """The size of the state."""
        return int(self.weight_hh.shape[1])

    def _sums(self, x: Any, h: Any) -> tuple[Any, Any]:
        """What comes of the input and of the state, for all gates."""
        name = type(self).__name__
        new = _product(name, x, self.weight_ih, self.bias_ih)
        return new, _product(name, h, self.weight_hh, self.bias_hh)

    def _state(self, x: Any, state: Any, part: str = "state") -> Any:
        """What is given for the state, or zeros, of the shape that goes with x."""
        dims = (*x.shape[:-1], self.hidden_size)
        if state is None:
            return ops.full(dims, 0.0, x.dtype)
        found = as_tensor(state)
        refusal = (
            f"{type(self).__name__}: {part} must be {dm.shape_text(dims)} beside x {x.meta}, found "
            f"{found.meta}"
        )
        return expect_dims(found, refusal, dims)


def _product(name: str, x: Any, weight: Any, bias: Any) -> Any:
    out = ops.matmul(x, weight, False, True)
    if bias is None:
        return out
    found, rows = as_tensor(bias), out.meta.dims[-1:]
    refusal = (
        f"{name}: a bias must be {dm.shape_text(rows)}, one a row of weights, found {found.meta}"
    )
    return out + expect_dims(found, refusal, rows)


def _pair(name: str, state: Any) -> tuple[Any, Any]:
    """The two parts of the state of an LSTM: a tuple or a list, or what is stacked."""
    try:
        parts = tuple(state)
    except Exception:  # whatever the value answers
        raise ArgumentError(
            f"{name}: state must be a pair (h, c), found {described(state)}"
        ) from None
    if len(parts) != 2:
        raise ArgumentError(f"{name}: state must be a pair (h, c), found {len(parts)} entries")
    return parts[0], parts[1]


@module
class RNNCell(_Cell):
    """h' = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh).

    >>> import phix
    >>> cell = phix.nn.RNNCell.create(phix.random.key(0), 3, 4)
    >>> cell(phix.ones([2, 3])).shape
    (2, 4)
    """

    gates: ClassVar[int] = 1

    @takes()
    def __call__(self, x: TensorLike, state: Any = None) -> Any:
        """[..., in] and the state [..., hidden], zeros if None -> the new state."""
        given = as_tensor(x)
        new, old = self._sums(given, self._state(given, state))
        return ops.tanh(new + old)


@module
class GRUCell(_Cell):
    """h' = (1 - z) * n + z * h, with r, z = sigmoid(..), n = tanh(x_n + r * h_n).

    >>> import phix
    >>> cell = phix.nn.GRUCell.create(phix.random.key(0), 3, 4)
    >>> cell(phix.ones([2, 3])).shape
    (2, 4)
    """

    gates: ClassVar[int] = 3

    @takes()
    def __call__(self, x: TensorLike, state: Any = None) -> Any:
        """[..., in] and the state [..., hidden], zeros if None -> the new state."""
        given = as_tensor(x)
        h = self._state(given, state)
        new, old = self._sums(given, h)
        new_r, new_z, new_n = ops.split_with_num(new, 3, -1)
        old_r, old_z, old_n = ops.split_with_num(old, 3, -1)
        z = ops.sigmoid(new_z + old_z)
        n = ops.tanh(new_n + ops.sigmoid(new_r + old_r) * old_n)
        return (1 - z) * n + z * h


@module
class LSTMCell(_Cell):
    """c' = f * c + i * g, h' = o * tanh(c'), with i, f, o = sigmoid(..), g = tanh(..).

    >>> import phix
    >>> cell = phix.nn.LSTMCell.create(phix.random.key(0), 3, 4)
    >>> h, c = cell(phix.ones([2, 3]))
    >>> h.shape
    (2, 4)
    """

    gates: ClassVar[int] = 4

    @takes()
    def __call__(self, x: TensorLike, state: Any = None) -> Any:
        """[..., in] and the state (h, c), zeros if None -> the new state."""
        given = as_tensor(x)
        first, second = (None, None) if state is None else _pair("LSTMCell", state)
        h, c = self._state(given, first, "h"), self._state(given, second, "c")
        new, old = self._sums(given, h)
        i, f, g, o = ops.split_with_num(new + old, 4, -1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c), c


class _Layers:
    """Layers of cells along sequences, by ``phix.ops.rnn``."""

    mode: ClassVar[str]
    gates: ClassVar[int]

    weights: tuple[Any, ...]
    num_layers: int
    bidirectional: bool

    @classmethod
    @takes(input_size=at_least(1), hidden_size=at_least(1), num_layers=at_least(1))
    def create(
        cls: type[Layers],
        key: TensorLike,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dtype: DTypeLike = float,
    ) -> Layers:
        """Layers with weights uniform between -1 / sqrt(hidden_size) and its opposite.

        weights has w_ih, [gates * hidden_size, in], and w_hh of each layer and direction, then b_ih
        and b_hh of each.
        """
        ways, rows = 2 if bidirectional else 1, cls.gates * hidden_size
        shapes: list[list[int]] = []
        for layer in range(num_layers):
            wide = input_size if layer == 0 else hidden_size * ways
            shapes += [[rows, wide], [rows, hidden_size]] * ways
        shapes += [[rows]] * (2 * num_layers * ways)
        keys = random.split(key, len(shapes))
        parts = [drawn(keys[n], s, hidden_size, dtype) for n, s in enumerate(shapes)]
        return cls(tuple(parts), num_layers, bidirectional)  # type: ignore[call-arg]

    @takes()
    def __call__(self, x: TensorLike, state: Any = None, lengths: TensorLike | None = None) -> Any:
        """[n, time, in] -> [n, time, hidden * directions], and the last state.

        Args:
            x: the sequences.
            state: [layers * directions, n, hidden], of LSTM (h, c); None: zeros.
            lengths: how many steps of each sequence count; those behind give 0. None: all.
        """
        given = as_tensor(x)
        name = type(self).__name__
        if given.ndim != 3:
            raise ShapeError(f"{name}: x is [n, time, in], found {given.meta}")
        count = 2 if self.mode == "LSTM" else 1
        hidden = int(self.weights[1].shape[1])
        rows = self.num_layers * (2 if self.bidirectional else 1)
        if state is None:
            zeros = ops.full([rows, given.shape[0], hidden], 0.0, given.dtype)
            states = [zeros] * count
        else:
            states = list(_pair(name, state)) if count == 2 else [state]
        out, _, last = ops.rnn(
            ops.transpose(given, [1, 0, 2]), states, list(self.weights), lengths,
            ops.full((2,), 0, "uint32"), 0.0, self.bidirectional, int(self.weights[0].shape[1]),
            hidden, self.num_layers, self.mode,
        )  # fmt: skip
        return ops.transpose(out, [1, 0, 2]), (tuple(last) if count == 2 else last[0])


@module
class RNN(_Layers):
    """Layers of :class:`RNNCell`.

    >>> import phix
    >>> layers = phix.nn.RNN.create(phix.random.key(0), 3, 4, num_layers=2)
    >>> out, state = layers(phix.ones([2, 5, 3]))
    >>> out.shape, state.shape
    ((2, 5, 4), (2, 2, 4))
    """

    mode: ClassVar[str] = "RNN_TANH"
    gates: ClassVar[int] = 1

    weights: tuple[Any, ...]
    num_layers: int = static(default=1)
    bidirectional: bool = static(default=False)


@module
class GRU(_Layers):
    """Layers of :class:`GRUCell`.

    >>> import phix
    >>> layers = phix.nn.GRU.create(phix.random.key(0), 3, 4, bidirectional=True)
    >>> out, state = layers(phix.ones([2, 5, 3]))
    >>> out.shape, state.shape
    ((2, 5, 8), (2, 2, 4))
    """

    mode: ClassVar[str] = "GRU"
    gates: ClassVar[int] = 3

    weights: tuple[Any, ...]
    num_layers: int = static(default=1)
    bidirectional: bool = static(default=False)


@module
class LSTM(_Layers):
    """Layers of :class:`LSTMCell`.

    >>> import phix
    >>> layers = phix.nn.LSTM.create(phix.random.key(0), 3, 4)
    >>> out, (h, c) = layers(phix.ones([2, 5, 3]))
    >>> out.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))
    """

    mode: ClassVar[str] = "LSTM"
    gates: ClassVar[int] = 4

    weights: tuple[Any, ...]
    num_layers: int = static(default=1)
    bidirectional: bool = static(default=False)
