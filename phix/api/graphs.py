"""Functions as graphs: traced, decomposed, their metas inferred, read from text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phix.api.arguments import argument_names, function_name
from phix.api.flattened import Flattened
from phix.api.weak_arguments import traced_specs
from phix.core import pytrees
from phix.core.errors import GraphError
from phix.core.given import FUNCTION, LIST, NAMES, NONE, TEXT, Kind, named, takes
from phix.core.graph import Graph, graphs_inside
from phix.core.op import Op
from phix.core.rules import get_op
from phix.interpreters import computed_sizes as _computed_sizes  # noqa: F401 - looks at calls
from phix.interpreters import decompose as decomposing
from phix.interpreters import eager as _eager  # noqa: F401 - the base of all interpreters
from phix.interpreters import stage
from phix.interpreters.unrolled import warn_of_unrolled_loops
from phix.passes import check


@takes(function=FUNCTION)
def make_graph(function: Callable[..., Any]) -> Callable[..., Graph]:
    """The graph of ``function`` for given arguments.

    Args:
        function: a pure function of tensors, or trees of them, to tensors or trees of them.

    Returns:
        A function of arguments or specs (``phix.spec``) in their place, giving the Graph: its
        inputs are the leaves of the arguments, its outputs the leaves of the result.

    >>> import phix
    >>> phix.make_graph(lambda x: x * x + 1.0)(phix.spec([3]))
    graph(x: float32[3]) {
      a: float32[3] = multiply(x, x)
      b: float32[3] = add(a, 1.0)
      return b
    }
    """

    @functools.wraps(function)
    @named("make_graph")
    def traced(*args: Any, **kwargs: Any) -> Graph:
        return trace(function, args, kwargs)[0]

    return traced


def trace(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Graph, pytrees.TreeDef]:
    """The graph of ``function``, and the structure of its result."""
    metas, treedef = traced_specs((args, kwargs), function_name(function))
    flat = Flattened(function, treedef, f"the result of {function_name(function)}")
    graph = stage.trace(flat, metas, argument_names(function, args, kwargs))
    warn_of_unrolled_loops(graph.equations)
    return graph, flat.out_tree


@takes(function=FUNCTION, keep=NAMES, to=NAMES | NONE)
def decompose(
    function: Callable[..., Any],
    *,
    keep: str | Iterable[str] = (),
    to: str | Iterable[str] | None = None,
) -> Callable[..., Graph]:
    """The graph of ``function`` in primitives alone, or in the ops of a target.

    Its derivatives are those of the function, so calls with a derivative of their own stay, with
    what is in them decomposed: ``stop_gradient``, ``custom_vjp`` and ``custom_jvp``. A graph for
    a target is made to be run, and those calls are opened too, unless the target has them.

    Takes what :func:`make_graph` takes; a Graph may stand in place of the function.

    Args:
        function: a pure function of tensors, or trees of them, to tensors or trees of them.
        keep: names of ops that are not decomposed.
        to: names of all ops that the target has, besides those in ``keep``.

    Raises:
        GraphError: the graph needs ops that are not in ``to``, and are not made of others; the
            message lists them.
        UnknownOpError: a name is no op's.

    >>> import phix
    >>> phix.decompose(phix.ops.square)(phix.spec([3]))
    graph(x: float32[3]) {
      a: float32[3] = multiply(x, x)
      return a
    }
    >>> phix.decompose(phix.ops.silu, to=["sigmoid", "multiply"])(phix.spec([3]))
    graph(x: float32[3]) {
      a: float32[3] = sigmoid(x)
      b: float32[3] = multiply(x, a)
      return b
    }
    """
    kept, wanted = _ops(keep), None if to is None else _ops(to)

    def stays(op: Op) -> bool:
        if op in kept:
            return True
        return decomposing.keep_derivatives(op) if wanted is None else op in wanted

    @named("decompose")
    def decomposed(*args: Any, **kwargs: Any) -> Graph:
        traced = trace(function, args, kwargs)[0]
        graph = decomposing.decompose(traced, stays)
        if wanted is not None:
            _check_reached(graph, kept | wanted)
        return graph

    return functools.wraps(function)(decomposed) if not isinstance(function, Graph) else decomposed


def _ops(names: str | Iterable[str]) -> frozenset[Op]:
    return frozenset(get_op(n) for n in ((names,) if isinstance(names, str) else names))


def _check_reached(graph: Graph, wanted: frozenset[Op]) -> None:
    """Raise GraphError where the graph, or one inside it, has another op."""
    used = {e.op for inside in graphs_inside(graph) for e in inside.equations}
    if beyond := sorted(op.name for op in used - wanted):
        raise GraphError(
            f"decompose: what the graph needs is neither in `to` nor made of other ops: "
            f"{', '.join(beyond)}; add it to `to`, or name ops made of it in `keep`"
        )


@takes(function=FUNCTION)
def infer_meta(function: Callable[..., Any]) -> Callable[..., Any]:
    """The metas of what ``function`` would give, without computing it.

    >>> import phix
    >>> phix.infer_meta(phix.ops.matmul)(phix.spec(["n", 4]), phix.spec([4, 2]))
    float32[n, 2]
    """

    @functools.wraps(function)
    @named("infer_meta")
    def inferred(*args: Any, **kwargs: Any) -> Any:
        graph, out_tree = trace(function, args, kwargs)
        return pytrees.unflatten(out_tree, [a.meta for a in graph.outputs])

    return inferred


@takes(function=FUNCTION)
def eval_shape(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The metas of ``function(*args, **kwargs)``: :func:`infer_meta` under the name of JAX.

    >>> import phix
    >>> phix.eval_shape(phix.ops.matmul, phix.spec([3, 4]), phix.spec([4, 2]))
    float32[3, 2]
    """
    return infer_meta(function)(*args, **kwargs)


@takes(text=TEXT, constants=LIST)
def parse_graph(text: str, constants: Sequence[Any] = ()) -> Graph:
    """The graph that a text, as ``str(graph)`` gives it, stands for.

    Args:
        text: the text; every meta in it is inferred again and compared.
        constants: the tensors that the text names ``constants[0]``, ``constants[1]``, ...

    Raises:
        GraphError: the text is no well-formed graph; the message names the line.

    >>> import phix
    >>> graph = phix.parse_graph("graph(x: float32[2]) { a: float32[2] = abs(x) return a }")
    >>> graph(phix.to_tensor([1.0, -2.0]))[0].tolist()
    [1.0, 2.0]
    """
    return check.parse(text, constants)


@takes(graph=Kind("a graph", lambda v: isinstance(v, Graph)))
def check_graph(graph: Graph) -> None:
    """Raise GraphError unless ``graph`` is well-formed and every meta is what its op infers.

    >>> import phix
    >>> phix.check_graph(phix.make_graph(phix.ops.tanh)(phix.spec([3])))
    """
    check.check(graph)
