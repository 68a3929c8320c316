"""Looking into programs while they run."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from phix import ops
from phix.api import flat_tensors, function_name
from phix.core import dispatch, pytrees
from phix.core.tensor import Tracer


@dataclass(frozen=True)
class _Effect:
    """A user's function of trees of arrays as one of flat arrays."""

    function: Callable[..., Any]
    tree: Any

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return function_name(self.function)

    def __call__(self, arrays: Sequence[Any]) -> None:
        args, kwargs = pytrees.unflatten(self.tree, arrays)
        self.function(*args, **kwargs)


@dataclass(frozen=True)
class _Printer:
    text: str

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return "print"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        builtins.print(self.text.format(*args, **kwargs), flush=True)


def callback(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call ``function`` on the values of the arguments, each time a program gets there.

    It is called once a run in the order of the program, once a lane under vmap, and for the
    primal values alone under derivatives.

    Args:
        function: of trees of NumPy arrays; what it returns is dropped.
        *args, **kwargs: trees of tensors.

    >>> import phix
    >>> seen = []
    >>> @phix.jit
    ... def f(x):
    ...     phix.debug.callback(lambda v: seen.append(v.item()), x)
    ...     return 2.0 * x
    >>> f(1.0).item(), f(3.0).item(), seen
    (2.0, 6.0, [1.0, 3.0])
    """
    flat, tree = flat_tensors((args, kwargs), "debug.callback")
    effect = _Effect(function, tree)
    if dispatch.is_eager() and not any(isinstance(x, Tracer) for x in flat):
        effect([x.numpy() for x in flat])
    else:
        ops.debug_callback(flat, effect)


def print(text: str, *args: Any, **kwargs: Any) -> None:
    """Print the values of the arguments, each time a program gets there.

    Args:
        text: a format for ``str.format``: ``{}`` or ``{name}`` where a value goes.
        *args, **kwargs: tensors, or trees of them.

    >>> import phix
    >>> @phix.jit
    ... def f(x):
    ...     phix.debug.print("x is {} and its square {square}", x, square=x * x)
    ...     return x
    >>> _ = f(3.0)
    x is 3.0 and its square 9.0
    """
    callback(_Printer(text), *args, **kwargs)


__all__ = ["callback", "print"]
