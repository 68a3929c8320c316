"""Transformations of functions, for the rules of ops that have graphs in them.

Rules may not import interpreters; the interpreters fill these in instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from phix.core.dims import DimLike
from phix.core.graph import Equation, Graph
from phix.core.meta import MetaTensor
from phix.core.records import dataclass

Function = Callable[..., Sequence[Any]]  # of flat tensors, to flat tensors


@dataclass(frozen=True)
class Split:
    """A graph's reverse mode in two graphs.

    ``forward(*inputs)`` gives the outputs and then the residuals; ``backward(*kept, *residuals,
    *cts)`` gives the cotangents of the active inputs. ``kept`` are the inputs of the numbers
    ``kept``, ``cts`` the cotangents of the float outputs.
    """

    forward: Graph
    backward: Graph
    kept: tuple[int, ...]


class Transforms(Protocol):
    """What the interpreters provide."""

    def trace(self, function: Function, metas: Sequence[MetaTensor]) -> tuple[Graph, list[Any]]:
        """The graph of ``function``, and what it closes over, which the graph takes as its last
        inputs."""

    def jvp(self, function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Outputs and their tangents; None is a tangent that is zero, in and out."""

    def jet(self, function: Function, inputs: Sequence[list[Any]]) -> list[list[Any]]:
        """Power series of the inputs to power series of the outputs (see ``rules.jet``)."""

    def vjp(self, function: Function, primals: Sequence[Any]) -> tuple[list[Any], Any]:
        """Outputs, and the function from their cotangents to those of the primals; None is a
        cotangent that is zero, in and out."""

    def split(
        self,
        graph: Graph,
        active: Sequence[bool],
        invariant: Sequence[bool],
        saveable: Callable[[Equation], bool] | None = None,
        inside: bool = False,
        given: Sequence[bool] | None = None,
    ) -> Split:
        """Reverse mode with respect to the active inputs.

        What depends on nothing but the invariant inputs is computed again, not kept, but for the
        outputs of equations that are ``saveable``. ``inside``: the graph is one of an equation's,
        where no size may get out that is found inside; so what has such dims is computed again.
        ``given``: the backward takes no notice of the other cotangents of float outputs, which are
        zero, so nothing is multiplied by them; it takes and the forward gives what it would anyway.
        """

    def batch(
        self, function: Function, args: Sequence[Any], batched: Sequence[bool], size: DimLike
    ) -> Any:
        """Outputs for a batch in front of the batched args, and which of them have a batch."""

    def on_ranks(
        self, function: Function, args: Sequence[Any], varies: Sequence[bool], group: Any
    ) -> Any:
        """Outputs on this rank of a group, of parts that may differ between the ranks where
        ``varies`` says so, and which outputs may."""

    def ranked(self, graph: Graph, group: Any) -> tuple[Graph, list[bool]]:
        """A graph on this rank of a group, and which outputs may differ between the ranks."""


_provided: list[Transforms] = []


def provide(transforms: Transforms) -> None:
    _provided[:] = [transforms]


def transforms() -> Transforms:
    return _provided[0]
