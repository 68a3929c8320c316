"""The base class of interpreters: one way to give ops a meaning.

Interpreters form a chain: each has a ``parent`` that gives meaning to the ops it performs in turn;
the base of the chain runs ops eagerly. A tracer belongs to one interpreter, its tag, so nested
transformations never confuse their perturbations. ``core.context`` knows which is at work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import context
from phix.core.op import Op
from phix.core.places import Place


class Interpreter:
    """One way to give ops a meaning. ``process`` gets normalised inputs and attributes."""

    name = "interpreter"
    stages = False  # whether ops are written down, not run
    watches = False  # whether it only looks at the ops it performs
    axis_name: str | None = None  # the name of the axis it maps over
    size: Any = None  # the size of that axis

    def __init__(self, parent: Interpreter | None) -> None:
        self.parent = parent
        self.alive = True
        # whether a program is being made that looks at the sizes of the user's calls
        self.asks: bool = parent is not None and parent.asks
        self.sources: dict[int, Any] | None = None  # of tracers by id, where they are recorded

    def launch_cached(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """The result straight from a program compiled before, else None (eager alone has some)."""
        return None

    def plan_of(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """What runs calls like this one, a function of the inputs' data (eager alone has some)."""
        return None

    def remember(self, op: Op, given: Any, given_attrs: Any, inputs: Any, attrs: Any) -> None:
        """After a call: what the user gave, and what became of it (for ``launch_cached``)."""

    def as_dim(self, value: Any, largest: bool, refusal: str) -> Any:
        """The size that an int tracer of this interpreter stands for."""
        return value.item()

    def own(self, value: Any, place: Place | None) -> Any:
        """What stays of an array-like value: a tensor with memory of its own."""
        return (self.parent or context.base()).own(value, place)

    def examine(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
        """Check a call that comes from the user, where ``process`` would not find it wrong."""

    def ask(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
        """Have the program that is being made, if one is, look at the sizes of a call that it may
        not hold as it is: of which it takes a derivative alone, or a part."""
        if self.parent is not None:
            self.parent.ask(op, inputs, attrs)

    def process_donated(
        self, op: Op, inputs: Any, attrs: Any, donated: tuple[int, ...], end: Callable[[], None]
    ) -> Any:
        """As ``process``; results may take the memory of the tensors of these numbers.

        ``end`` ends what was given, before its memory is written: other threads may run meanwhile.
        """
        outs = self.process(op, inputs, attrs)
        end()
        return outs

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Perform ``op``: one tensor, or a tuple with one entry an output (lists as tuples)."""
        raise TypeError(f"{type(self).__name__} gives ops no meaning")
