"""Lowering for readers: what an op of many scalar operations computes is a function of its own.

``exp(x)`` stands in a kernel as a call, and once in the module as the arithmetic it is made of.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Element
from phix.kernels.report.explanation import Recorder
from phix.kernels.scalar import language as sc
from phix.kernels.scalar import registry
from phix.kernels.scalar.language import Expr

# A body of fewer operations is as clear where it is used.
_LEAST = 8


@dataclass(frozen=True)
class Body:
    """The scalar body of an op with its attributes, of inputs of these dtypes."""

    op_name: str
    attrs: tuple[tuple[str, Any], ...]
    dtypes: tuple[np.dtype, ...]

    def __str__(self) -> str:
        return f"{self.op_name}_{self.dtypes[0]}"

    __repr__ = __str__

    @cached_property
    def inputs(self) -> tuple[Expr, ...]:
        """The variables that it is a function of."""
        names = "xyzw" if len(self.dtypes) <= 4 else [f"x{k}" for k in range(len(self.dtypes))]
        return tuple([sc.var(name, dtype) for name, dtype in zip(names, self.dtypes)])

    @cached_property
    def expression(self) -> Any:
        """What it computes."""
        return registry.get(self.op_name)(*self.inputs, **dict(self.attrs))

    @cached_property
    def is_long(self) -> bool:
        """Whether it is better read on its own."""
        found = self.expression
        if not isinstance(found, Expr):
            return False
        return len(ir.expressions([ir.Declare(found, found)])) >= _LEAST


class Reader(Recorder):
    """A builder that calls long bodies, and remembers for which equations it makes which kernel."""

    def applied(self, op_name: str, /, *elements: Element, **attrs: Any) -> Any:
        given = tuple([e for e in elements if isinstance(e, Expr)])
        if given and given == elements:
            body = _body(op_name, tuple(attrs.items()), tuple([e.dtype for e in given]))
            if body is not None and body.is_long:
                return Expr("call", given, body.expression.dtype, body)
        return super().applied(op_name, *elements, **attrs)


_bodies: dict[Any, Body | None] = {}


def _body(op_name: str, attrs: Any, dtypes: tuple[np.dtype, ...]) -> Body | None:
    """The one body of that kind; None where attributes cannot be told apart."""
    try:
        return _bodies.setdefault((op_name, attrs, dtypes), Body(op_name, attrs, dtypes))
    except TypeError:
        return None
