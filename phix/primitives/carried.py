"""Derivatives of the user's own where their functions run in another way: for each lane of a batch,
or on one of several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix.primitives.flat import are_given, select, spread


class Carried:
    """A derivative of the user's own, a ``VJPRule`` or a ``JVPRule``, and one of these itself.

    Who inherits says how functions run (``run``), and what becomes of outputs and cotangents.
    """

    rule: Any
    flags: tuple[bool, ...]  # which operands differ between lanes or ranks
    outs: tuple[bool, ...]  # ... which outputs

    @property
    def count(self) -> int:
        return int(self.rule.count)

    @property
    def __name__(self) -> str:
        return str(self.rule.__name__)

    def run(self, function: Any, args: Sequence[Any], flags: Sequence[bool]) -> Any:
        """What a function of values in one lane or on one rank gives, and which of it differs."""
        raise NotImplementedError

    def as_outs(self, values: Sequence[Any], differ: Sequence[bool]) -> list[Any]:
        """Outputs as the graph gives them."""
        raise NotImplementedError

    def as_operand(self, grad: Any, differs: bool, wanted: bool) -> Any:
        """A cotangent as its operand, which differs or does not."""
        raise NotImplementedError

    def forward(self, *operands: Any) -> Any:
        """See ``VJPRule``."""
        made: list[Any] = []

        def outputs(*args: Any) -> list[Any]:
            outs, residuals, backward = self.rule.forward(*args)
            made[:] = [len(outs), backward]
            return [*outs, *residuals]

        found, differ = self.run(outputs, operands, self.flags)
        count, backward = made

        def pulled(residuals: Any, cts: Any) -> Any:
            on = [*differ[count:], *self.outs]
            return self.backward(backward, residuals, cts, on)

        return self.as_outs(found[:count], differ), found[count:], pulled

    def backward(self, backward: Any, residuals: Any, cts: Any, on: list[bool]) -> Any:
        given: list[bool] = []

        def gradients(*args: Any) -> list[Any]:
            grads = backward(args[: len(residuals)], args[len(residuals) :])
            given[:] = are_given(grads)
            return select(grads, given)

        found, differ = self.run(gradients, [*residuals, *cts], on)
        back = spread(list(zip(found, differ)), given)
        return [
            None if g is None else self.as_operand(g[0], g[1], f) for g, f in zip(back, self.flags)
        ]

    def tangents(self, primals: Any, tangents: Any) -> Any:
        """See ``JVPRule``."""
        count = len(primals)
        made: list[int] = []

        def outputs(*args: Any) -> list[Any]:
            outs, ts = self.rule.tangents(args[:count], args[count:])
            made[:] = [len(outs)]
            return [*outs, *ts]

        found, differ = self.run(outputs, [*primals, *tangents], [*self.flags, *self.flags])
        at = made[0]
        return self.as_outs(found[:at], differ), self.as_outs(found[at:], differ[at:])
