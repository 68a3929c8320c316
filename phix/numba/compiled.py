"""Functions of phix as functions of Numba's: ``phix.numba.njit``."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

from phix.api.graphs import trace
from phix.core import pytrees
from phix.core.errors import ArgumentError, described
from phix.passes import pipeline
from phix.passes.check import infer_again


def compiled(function: Callable[..., Any], specs: tuple[Any, ...]) -> Any:
    """See :func:`phix.numba.njit`."""
    from phix.kernels.numba.callable import NativeCall, function_of

    graph, out_tree = trace(function, specs, {})
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() and not iskeyword(name) else "function"
    taken = _names(function, len(specs))
    paths = [p for n, spec in zip(taken, specs) for p in _paths(n, spec)]
    result = _result(pytrees.unflatten(out_tree, [f"{{{k}}}" for k in range(len(graph.outputs))]))
    lowered = pipeline.last(pipeline.run("cpu", graph))
    call = NativeCall(name, lowered)
    return function_of(call, lambda shapes: infer_again(graph, shapes), taken, paths, result)


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the parameters, where they are to be had."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        found = []
    plain = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = (n for k in itertools.count(len(plain)) if (n := f"argument{k}") not in plain)
    return [*plain[:count], *itertools.islice(rest, max(0, count - len(plain)))]


def _paths(name: str, spec: Any) -> list[str]:
    """The arrays of an argument, each as an expression: tuples are taken apart."""
    if isinstance(spec, tuple):
        return [p for k, each in enumerate(spec) for p in _paths(f"{name}[{k}]", each)]
    if [*pytrees.leaves(spec)] and pytrees.leaves(spec)[0] is spec:
        return [name]
    raise ArgumentError(
        f"njit: {name} is {described(spec)}; Numba passes arrays, numbers and tuples of them: "
        "write a tuple, and take it apart in the function"
    )


def _result(tree: Any) -> str:
    """The result as Python writes it, with the marks of its outputs."""
    if isinstance(tree, str):
        return tree
    if tree is None:
        return "None"
    if isinstance(tree, (tuple, list)):
        return f"({''.join(_result(each) + ', ' for each in tree)})"
    raise ArgumentError(
        f"njit: the function returns {type(tree).__name__}; Numba passes arrays, numbers and "
        "tuples of them: return a tuple"
    )
