"""The key of a kernel, and what it asks of single arguments.

That is the place, dtype or layout in which one differs from the key, as PHI's
``InputAt(1).SetBackend(...)`` has it. It is declared when the kernel is registered, and brought
about by the pass that assigns kernels:

>>> import phix
>>> def states(kernel):
...     kernel.input(1).place = "cpu"  # the host reads the indices
...     kernel.output("out").dtype = "float32"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np

from phix.core import dtypes as dt
from phix.core import hints, places
from phix.core.errors import DTypeError, KernelRegistrationError, UnknownNameError, shown
from phix.core.memory_layouts import ANY as ANY
from phix.core.memory_layouts import LAYOUTS as LAYOUTS
from phix.core.memory_layouts import is_blocked
from phix.core.op import Op
from phix.core.records import dataclass


@dataclass(frozen=True)
class KernelKey:
    """Backend, layout, dtype: what a kernel is for.

    >>> import phix
    >>> str(phix.kernels.KernelKey("CPU", "any", phix.float32))
    'CPU, any, float32'
    """

    backend: str
    layout: str
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.backend}, {self.layout}, {self.dtype}"


@dataclass(frozen=True)
class Asked:
    """What is asked of one argument; None: as the key of the kernel says."""

    place: str | None = None  # a kind of place
    dtype: np.dtype | None = None
    layout: str | None = None

    @property
    def is_something(self) -> bool:
        """Not by comparison with what asks nothing: to NumPy, float64 equals None."""
        return any(v is not None for v in (self.place, self.dtype, self.layout))

    def holds(self, given: np.dtype) -> bool:
        """Whether each value of dtype ``given`` is one of the dtype that is asked for."""
        own = self.dtype
        if own is None or own == given:
            return True
        return dt.kind(own) == dt.kind(given) and dt.promote(own, given) == own


States = tuple[Union[Asked, None], ...]  # one entry an input, or an output; () asks nothing
NOTHING = Asked()


def each_of(states: States, arguments: Sequence[Any]) -> Iterable[Asked]:
    """What is asked of each of the arguments, or outputs, of an op."""
    return (s or NOTHING for s in states) if states else (NOTHING for _ in arguments)


class ArgumentState:
    """``place``, ``dtype`` and ``layout`` of one argument, to be set where they differ."""

    __slots__ = ("dtype", "layout", "place")

    def __init__(self) -> None:
        self.place: Any = None
        self.dtype: Any = None
        self.layout: str | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise UnknownNameError(
                f"no {name!r} of an argument of a kernel; there are {', '.join(self.__slots__)}; "
                + (hints.proposal(name, self.__slots__) or "set one of these")
            )
        super().__setattr__(name, value)


class KernelArguments:
    """The kernel as ``states`` sees it: its ``key``, and the state of each input and output."""

    def __init__(self, op: Op, key: KernelKey) -> None:
        self.op, self.key = op, key
        self._inputs = {a.name: ArgumentState() for a in op.inputs}
        self._outputs = {o.name: ArgumentState() for o in op.outputs}

    def input(self, which: int | str) -> ArgumentState:
        """The state of a tensor argument, by its number among these or its name."""
        return self._state(self._inputs, which, "input")

    def output(self, which: int | str) -> ArgumentState:
        """The state of an output, by its number or its name."""
        return self._state(self._outputs, which, "output")

    def _state(self, states: dict[str, ArgumentState], which: Any, what: str) -> ArgumentState:
        names = list(states)
        name = names[which] if isinstance(which, int) and 0 <= which < len(names) else which
        if name not in states:
            raise self.error(f"no {what} {shown(which)}; there are {', '.join(names) or 'none'}")
        return states[name]

    def error(self, what: str) -> KernelRegistrationError:
        return KernelRegistrationError(f"kernel of {self.op.name!r} for ({self.key}): {what}")

    def asked(self) -> tuple[States, States]:
        """What was declared, of inputs and of outputs.

        Raises:
            KernelRegistrationError: a place, dtype or layout that is not there.
        """
        return self._asked(self._inputs.items()), self._asked(self._outputs.items())

    def _asked(self, states: Iterable[tuple[str, ArgumentState]]) -> States:
        found = tuple(self._checked(name, state) for name, state in states)
        return found if any(f is not None for f in found) else ()

    def _checked(self, name: str, state: ArgumentState) -> Asked | None:
        kinds = places.kinds()
        kind = getattr(state.place, "kind", state.place)
        if kind is not None and kind not in kinds:
            raise self.error(f"no place {shown(kind)} for {name}; there are {', '.join(kinds)}")
        plain = [layout for layout in LAYOUTS if not is_blocked(layout)]
        if state.layout is not None and state.layout not in plain:
            raise self.error(
                f"no layout {shown(state.layout)} for {name}; there are {', '.join(plain)}"
            )
        try:
            dtype = None if state.dtype is None else dt.as_dtype(state.dtype)
        except DTypeError as error:
            raise self.error(f"{name}: {error}") from None
        asked = Asked(kind, dtype, state.layout)
        return asked if asked.is_something else None
