"""Arguments whose memory a jitted function may use for its results."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from phix.api.arguments import flat_tensors, function_name
from phix.api.jitted import Jitted
from phix.core import dispatch, pytrees
from phix.core.errors import DonatedTensorError
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, Tracer
from phix.interpreters.jit import can_run


class Donating(Jitted):
    """A jitted function with ``donate_argnums``.

    Run by itself it ends the tensors it is given; inside a transformation they are arguments like
    others.
    """

    donated: tuple[int, ...] = ()  # argument numbers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        gifts = self._gifts(args)
        dynamic, static = self._split(args, kwargs)
        flat, treedef = flat_tensors(dynamic, function_name(self.function))
        if not gifts or not dispatch.is_eager() or any(isinstance(x, Tracer) for x in flat):
            return super()._call(args, kwargs)
        tensors: Any = flat
        times = Counter(map(id, tensors))
        free = {id(x) for x in gifts if times[id(x)] == 1 and _is_its_own(x)}
        numbers = tuple(k for k, x in enumerate(tensors) if id(x) in free)
        key = (treedef, static, numbers, *[x.key for x in tensors])
        found = self._launchers.get(key)
        if found is None:
            traced = self._traced(dynamic, static, [x.meta for x in tensors], treedef)
            if not can_run(traced.compiled) or free & set(map(id, traced.closed)):
                return super()._call(args, kwargs)
            found = self._launchers[key] = (traced.compiled.launcher(tensors, numbers), traced)
        launch, traced = found
        outs = launch(*[x.data for x in tensors])
        where = f"{function_name(self.function)}{at_user_line()}"
        for x in gifts:
            _end(x, where)
        return traced.rebuild([Tensor(o) for o in outs])

    def _gifts(self, args: tuple[Any, ...]) -> list[Tensor]:
        """The tensors among the donated arguments; arrays, numbers and constants stay."""
        given = [args[n] for n in self.donated if -len(args) <= n < len(args)]
        tensors = (x for x in pytrees.leaves(given) if isinstance(x, Tensor))
        return [x for x in tensors if isinstance(x.data, np.ndarray) and x.data.flags.writeable]


# -- whose memory it is ----------------------------------------------------------------------
def _references(x: Tensor) -> int:
    return sys.getrefcount(x.data)


def _references_of_base(x: Tensor) -> int:
    return sys.getrefcount(x.data.base)


_ONE = _references(Tensor(np.empty(1)))  # of an array that nothing but its tensor refers to


def _is_its_own(x: Tensor) -> bool:
    """Whether nothing else can see the tensor's memory: no array, no other tensor, no view."""
    data = x.data
    base, owns = data.base, data.flags.owndata
    if base is not None:
        owns = isinstance(base, np.ndarray) and base.flags.owndata
    is_whole = data.flags.c_contiguous
    del data
    if not (owns and is_whole) or _references(x) != _ONE:
        return False
    return base is None or _references_of_base(x) == _ONE + 1  # ``base`` is one more


# -- what is left of it ----------------------------------------------------------------------
def _end(x: Tensor, where: str) -> None:
    """Take the memory away from a tensor; whoever asks for it is told where it went."""
    if isinstance(x, DonatedTensor):
        return
    _ = x.meta  # kept: it may still be asked for
    x.data = None
    x.known_key = (where,)
    x.__class__ = DonatedTensor


def _used(x: Any) -> Any:
    raise DonatedTensorError(
        f"a tensor ({x.meta}) is used{at_user_line()} after it was donated to {x.known_key[0]}; "
        "use what that call returned, pass a copy (phix.to_tensor(x)), or leave the argument out "
        "of donate_argnums"
    )


class DonatedTensor(Tensor):
    """A tensor without memory: a call it was donated to has used it. Its meta is still known."""

    __slots__ = ()

    data = property(_used)
    key = property(_used)
    shape = property(lambda self: self.meta.dims)
    dtype = property(lambda self: self.meta.dtype)
    ndim = property(lambda self: len(self.meta.dims))

    def __repr__(self) -> str:
        where = self.known_key and self.known_key[0]
        return f"Tensor({self.meta}, donated to {where})"
