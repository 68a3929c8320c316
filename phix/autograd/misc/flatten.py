"""Trees of arrays as one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import phix.autograd.numpy as np


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for entry in value for leaf in _leaves(entry)]
    return [value]


def _filled(like: Any, parts: Any) -> Any:
    """A tree of the structure of another, with the next parts as its leaves."""
    if isinstance(like, dict):
        found = {key: _filled(like[key], parts) for key in sorted(like)}
        return {key: found[key] for key in like}
    if isinstance(like, (list, tuple)):
        entries = [_filled(entry, parts) for entry in like]
        return type(like)(*entries) if hasattr(like, "_fields") else type(like)(entries)
    return next(parts)


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The elements of nested lists, tuples and dicts as one vector, and the way back.

    Dicts are gone through in the order of their sorted keys.

    >>> from phix.autograd.misc import flatten
    >>> vector, back = flatten({"b": 3.0, "a": [1.0, 2.0]})
    >>> vector.tolist()
    [1.0, 2.0, 3.0]
    >>> float(back(vector * 2)["b"])
    6.0
    """
    leaves = _leaves(value)
    shapes = [numpy.shape(leaf) for leaf in leaves]
    ends = numpy.cumsum([0, *(int(numpy.prod(s)) for s in shapes)])
    flat: Any = np.concatenate([np.ravel(v) for v in leaves]) if leaves else np.zeros(0)  # type: ignore[attr-defined]

    def unflatten(vector: Any) -> Any:
        parts = (
            np.reshape(vector[a:b], shape)[()]  # type: ignore[attr-defined]
            for a, b, shape in zip(ends, ends[1:], shapes)
        )
        return _filled(value, parts)

    return flat, unflatten


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Any, Any, Any]:
    """``func`` of a tree as one of vectors, the way back to trees, and the example as a vector.

    >>> from phix.autograd.misc.flatten import flatten_func
    >>> flatten_func(lambda tree: [tree[0] * 2.0], [1.0])[0]([3.0]).tolist()
    [6.0]
    """
    vector, unflatten = flatten(example)
    return (lambda x, *args: flatten(func(unflatten(x), *args))[0]), unflatten, vector


__all__ = ["flatten", "flatten_func"]
