"""What layers are: frozen dataclasses whose fields are children of a tree, or static."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, described
from phix.core.given import takes
from phix.core.nodes import REGISTERED
from phix.core.tensor import TensorBase

C = TypeVar("C", bound=type)
_HERE = __name__.removesuffix("base")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda function: function


def static(*, default: Any = dataclasses.MISSING) -> Any:
    """A field of a :func:`module` that belongs to its structure: a number, a name, a function.

    What is compiled depends on it; it is no parameter, and must be hashable.

    >>> import phix
    >>> @phix.nn.module
    ... class Power:
    ...     weight: object
    ...     exponent: int = phix.nn.static(default=2)
    >>> len(phix.tree.leaves(Power(phix.ones([3]))))
    1
    """
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static,))
def module(cls: C) -> C:
    """Make a class a frozen dataclass and a tree: fields are children, but for :func:`static` ones.

    Transformations, optimizers and ``phix.save`` see through it; ``dataclasses.replace`` gives one
    with other fields.

    >>> import phix
    >>> @phix.nn.module
    ... class Scaled:
    ...     layer: object
    ...     factor: float = phix.nn.static(default=2.0)
    ...
    ...     def __call__(self, x):
    ...         return self.layer(x) * self.factor
    >>> linear = phix.nn.Linear(phix.ones([1, 1]), None)
    >>> Scaled(linear)(phix.ones([1])).tolist()
    [2.0]
    >>> Scaled(linear)
    Scaled(layer=Linear(weight=float32[1, 1], bias=None), factor=2.0)
    """
    if not isinstance(cls, type):
        raise ArgumentError(f"module takes a class, found {described(cls)}")
    if cls in REGISTERED:
        raise ArgumentError(f"module: {cls.__name__} is a node of trees already")
    made: Any = dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
    if hasattr(cls, "create") and cls.__module__.startswith(_HERE):
        made.__init__ = _of_parameters(made, made.__init__)
    if "__repr__" not in vars(cls):
        made.__repr__ = _text
    names = [f.name for f in dataclasses.fields(made) if f.metadata.get("static")]
    pytrees.register_dataclass(made, meta_fields=names)
    return made


def _of_parameters(cls: Any, init: Callable[..., None]) -> Callable[..., None]:
    """``init``, which answers calls with sizes, as of layers that draw their own parameters."""

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **fields: Any) -> None:
        try:
            if not args or type(args[0]) is not int:
                init(self, *args, **fields)
                return
            said = f"found the int {args[0]}"
        except TypeError as error:
            if "__init__()" not in str(error):
                raise
            said = str(error)
        given = inspect.signature(cls.create).parameters.values()
        text = ", ".join(str(p).partition(":")[0] for p in given if p.default is p.empty)
        names = ", ".join(f.name for f in dataclasses.fields(cls))
        raise ArgumentError(
            f"{cls.__name__} is made of its parameters, ({names}): {said}; write "
            f"{cls.__name__}.create({text}), which makes them"
        )

    return checked


_WIDE = 88


def _text(node: Any) -> str:
    """A layer with the dtypes and shapes of its tensors, on one line if there is room."""
    fields = [(f.name, getattr(node, f.name)) for f in dataclasses.fields(node)]
    return _enclosed(f"{type(node).__name__}(", [f"{n}={_shown(v)}" for n, v in fields], ")")


def _enclosed(begin: str, parts: list[str], end: str) -> str:
    line = begin + ", ".join(parts) + end
    if len(line) <= _WIDE and "\n" not in line:
        return line
    inner = "".join("  " + p.replace("\n", "\n  ") + ",\n" for p in parts)
    return f"{begin}\n{inner}{end}"


def _shown(value: Any) -> str:
    if isinstance(value, (TensorBase, np.ndarray)):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if type(value) in (tuple, list):
        begin, end = "()" if type(value) is tuple else "[]"
        return _enclosed(begin, [_shown(v) for v in value], end)
    if type(value) is dict:
        return _enclosed("{", [f"{k!r}: {_shown(v)}" for k, v in value.items()], "}")
    name = getattr(value, "__qualname__", None)
    return str(name) if callable(value) and name else repr(value)


@takes()
def parameter_count(tree: Any) -> int:
    """How many numbers the float and complex tensors of a tree hold together.

    >>> import phix
    >>> phix.nn.parameter_count(phix.nn.Linear.create(phix.random.key(0), 3, 4))
    16
    """
    total = 0
    for leaf in pytrees.leaves(tree):
        dtype = getattr(leaf, "dtype", None)
        if isinstance(dtype, np.dtype) and dt.is_differentiable(dtype):
            total += int(np.prod([int(d) for d in leaf.shape], dtype=np.int64))
    return total


def is_layer(value: Any) -> bool:
    return type(value) in REGISTERED


def drawn(key: Any, shape: Any, fan_in: int, dtype: Any) -> Any:
    """Weights uniform between -1 / sqrt(fan_in) and its opposite."""
    bound = 1.0 / float(np.sqrt(max(fan_in, 1)))
    return ops.cast(ops.uniform(key, list(shape), "float32", -bound, bound), dt.as_dtype(dtype))
