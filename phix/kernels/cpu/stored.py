"""Programs in the disk cache: found by the traced graph, so a hit neither lowers nor prints.

An entry is a literal of Python on a line, which names the object with the machine code, the native
functions that it calls, and its constants: numbers of the graph's own, or values that rules made,
which follow.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import disk_cache, libraries, rewrites, settings
from phix.core import dtypes as dt
from phix.core.digests import sha256
from phix.core.engines import as_array
from phix.core.fingerprint import fingerprint
from phix.core.graph import Graph, graphs_in
from phix.core.records import dataclass
from phix.kernels.cpu import jit
from phix.kernels.cpu.questions import NO_QUESTIONS, Questions

_LARGEST_CONSTANT = 1 << 20  # bytes of a value that rules made


@dataclass(frozen=True)
class NativeCall:
    """A program that is one native function of its inputs, constants and outputs."""

    code: jit.Code
    constants: tuple[np.ndarray, ...]
    outputs: tuple[tuple[dm.Shape, np.dtype], ...]
    values: tuple[Any, ...]  # what the constants are the arrays of
    reused: tuple[int | None, ...]  # for each output, the input whose memory it has
    asked: Questions = NO_QUESTIONS

    @cached_property
    def function(self) -> Callable[..., Any]:
        return jit.python_function(self.code)


def key(graph: Graph, contiguous: tuple[bool, ...], donated: tuple[int, ...] = ()) -> str | None:
    """What the program of a graph is kept under; None where it cannot be kept."""
    if disk_cache.directory() is None:
        return None
    source, graph_print = disk_cache.source_digest(), fingerprint(graph)
    if source is None or graph_print is None:
        return None
    switches = (sorted(rewrites.left_out()), settings.deciding(), libraries.pinned())
    parts = (jit.identity(), source, switches, graph_print, contiguous, donated)
    return sha256(repr(parts).encode()).hexdigest()


def _constants_in(graph: Graph) -> Iterator[Any]:
    """The values of the graph's constants, and of those of the graphs inside."""
    graphs = [graph]
    while graphs:
        one = graphs.pop()
        yield from (constant.value for constant in one.constants)
        inner = [g for e in one.equations if e.op.has_graphs for g in graphs_in(e.attrs)]
        graphs += reversed(inner)


def _outputs(graph: Graph) -> tuple[tuple[dm.Shape, np.dtype], ...]:
    return tuple((a.meta.dims, a.meta.dtype) for a in graph.outputs)


def keep(key: str, graph: Graph, call: NativeCall) -> None:
    """Write the entry of a program; not where the graph says less about it than the program, and
    not where there is something to check on the way."""
    if call.asked.checks:
        return
    for (dims, dtype), (own_dims, own_dtype) in zip(_outputs(graph), call.outputs):
        if dtype != own_dtype or not dm.same_shape(dims, own_dims):
            return
    numbers = {id(value): k for k, value in enumerate(_constants_in(graph))}
    constants: list[Any] = []
    content = b""
    for value, array in zip(call.values, call.constants):
        if id(value) in numbers:
            constants.append(numbers[id(value)])
        elif array.nbytes > _LARGEST_CONSTANT:
            return
        else:
            constants.append([array.dtype.name, array.shape, array.nbytes])
            content += array.tobytes()
    head = {
        "object": call.code.key,
        "calls": call.code.calls,
        "constants": constants,
        "reused": call.reused,
    }
    disk_cache.save(key, repr(head).encode() + b"\n" + content)


def recall(key: str, graph: Graph) -> NativeCall | None:
    """The program kept under ``key``; None where there is none, or not all of it."""
    entry = disk_cache.load(key)
    if entry is None:
        return None
    line, _, content = entry.partition(b"\n")
    try:
        head = ast.literal_eval(line.decode())
        name, calls, reused = str(head["object"]), tuple(head["calls"]), tuple(head["reused"])
        values = list(_recalled_values(head["constants"], content, graph))
    except (ValueError, SyntaxError, LookupError, TypeError, AttributeError):
        return None  # no entry as this version writes it
    code = jit.recalled(name, calls) if _is_sound(name, calls, reused, graph) else None
    if code is None:
        return None
    constants = tuple(map(as_array, values))
    asked = Questions((), _computed(graph))
    return NativeCall(code, constants, _outputs(graph), tuple(values), reused, asked)


def _computed(graph: Graph) -> tuple[int, ...]:
    """The numbers of the outputs whose dims the program computes."""
    known = set(dm.solutions([v.meta.dims for v in graph.inputs]))
    dims = [[s for d in a.meta.dims for s in dm.symbols(d)] for a in graph.outputs]
    return tuple([n for n, symbols in enumerate(dims) if not known.issuperset(symbols)])


def _recalled_values(described: Any, content: bytes, graph: Graph) -> Iterator[Any]:
    """What the constants are the arrays of: the graph's own by number, others from the entry."""
    own = list(_constants_in(graph)) if described else []
    for each in described:
        if isinstance(each, int):
            yield own[each]
        else:
            dtype, shape, size = each
            yield np.frombuffer(content[:size], dt.BY_NAME[dtype]).reshape(shape)
            content = content[size:]


def _is_sound(name: str, calls: Any, reused: Any, graph: Graph) -> bool:
    """Whether an entry names code as it is kept, functions there are, and inputs of the graph."""
    is_digest = len(name) == 64 and set(name) <= set("0123456789abcdef")
    are_names = all(isinstance(c, str) and c.startswith("phix_") for c in calls)
    numbers = {None, *range(len(graph.inputs))}
    return is_digest and are_names and len(reused) == len(graph.outputs) and set(reused) <= numbers
