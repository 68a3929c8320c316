"""What makes two calls of an op equal, so that one of them is enough."""

from __future__ import annotations

from typing import Any

from phix.core import rewrites
from phix.core.dims import Dim
from phix.core.exact_keys import exact_key
from phix.core.graph import graphs_in
from phix.core.op import Op
from phix.core.rules import OPS, origin
from phix.core.tensor import Tensor, TensorBase, Tracer


def call_key(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """What equal calls have in common; None where each must be made.

    Tensors are told apart by their addresses: whoever keeps the key keeps the inputs alive.
    """
    if not rewrites.is_on("common_subexpressions"):
        return None
    if "side_effect" in op.traits or any(g.has_effects for g in graphs_in(attrs)):
        return None
    keys = tuple(map(_input_key, inputs))
    return op, attr_key(attrs), frozenset(keys) if may_swap(op) else keys


_DEEPEST = 6  # calls inside calls that are compared


def made_alike(value: Any, depth: int = _DEEPEST) -> Any:
    """What traced values have in common that equal calls made of the same; each by itself where
    calls are not to be merged.

    Whoever keeps this keeps the value alive.
    """
    if isinstance(value, tuple):
        # of a list, no more than the tensors: there may be many
        return tuple([made_alike(v, depth if depth == _DEEPEST else 0) for v in value])
    if not isinstance(value, TensorBase):
        return attr_key(value)
    made = origin(value) if depth and rewrites.is_on("common_subexpressions") else None
    if made is None or not OPS[made.op].traits.isdisjoint(("random", "side_effect")):
        return _input_key(value)
    return (made.op, *[made_alike(v, depth - 1) for v in made.args])


def may_swap(op: Op) -> bool:
    """Whether the two inputs may change places, in derivatives as well.

    Not so those of maximum and its like: which of them has the gradient at a tie, or the sign of
    a zero, depends on their order.
    """
    return "commutative" in op.traits and op.jvp in ("linear", "bilinear")


def _input_key(entry: Any) -> Any:
    if isinstance(entry, tuple):
        return tuple(map(_input_key, entry))
    if isinstance(entry, Tracer):
        return entry.identity
    if isinstance(entry, Tensor) and entry.ndim == 0:
        return (entry.dtype, entry.host.tobytes())
    return id(entry)


def attr_key(value: Any) -> Any:
    """Attributes compared exactly: 0.0 is not -0.0, True is not 1, one unknown dim not another."""
    if isinstance(value, tuple):
        return tuple(map(attr_key, value))
    return value.key if isinstance(value, Dim) else exact_key(value)
