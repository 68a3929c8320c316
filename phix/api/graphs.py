"""Functions as graphs: traced, decomposed, their metas inferred, read from text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from phix.api.arguments import Flattened, argument_names, flat_specs, function_name
from phix.core import pytrees
from phix.core.given import FUNCTION, LIST, TEXT, Kind, named, takes
from phix.core.graph import Graph
from phix.interpreters import decompose as decomposing
from phix.interpreters import eager as _eager  # noqa: F401 - the base of all interpreters
from phix.interpreters import stage
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
    metas, treedef = flat_specs((args, kwargs), function_name(function))
    flat = Flattened(function, treedef, f"the result of {function_name(function)}")
    graph = stage.trace(flat, metas, argument_names(function, args, kwargs))
    return graph, flat.out_tree


@takes(function=FUNCTION)
def decompose(function: Callable[..., Any]) -> Callable[..., Graph]:
    """The graph of ``function`` in primitives alone.

    Its derivatives are those of the function, so calls with a derivative of their own stay, with
    what is in them decomposed: ``stop_gradient``, ``custom_vjp`` and ``custom_jvp``.

    Takes what :func:`make_graph` takes; a Graph may stand in place of the function.

    >>> import phix
    >>> phix.decompose(phix.ops.square)(phix.spec([3]))
    graph(x: float32[3]) {
      a: float32[3] = multiply(x, x)
      return a
    }
    """

    @named("decompose")
    def decomposed(*args: Any, **kwargs: Any) -> Graph:
        traced = trace(function, args, kwargs)[0]
        return decomposing.decompose(traced, decomposing.keep_derivatives)

    return functools.wraps(function)(decomposed) if not isinstance(function, Graph) else decomposed


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
