"""A function has one meaning, whatever runs it: what each interpreter gives, against eager calls.

``fn`` takes flat tensors and gives a tuple of tensors; ``arrays`` are its inputs. ``tolerance``
says what is allowed where dtypes take part: :func:`phix.testing.comparison.tolerance_of`, say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.api.batching import vmap
from phix.api.graphs import decompose, infer_meta, make_graph, parse_graph
from phix.api.jit import jit
from phix.core import pytrees
from phix.core.errors import PhixError, TensorIndexError, TensorValueError
from phix.core.graph import Graph, graphs_inside
from phix.core.meta import MetaTensor, covers, spec
from phix.debug import check_indices
from phix.testing.comparison import CheckFailed, Tolerance, about, close, require

Function = Callable[..., tuple[Any, ...]]
Arrays = Sequence[np.ndarray]
Allowed = Callable[[list[np.dtype]], Tolerance]

EAGER = "run eagerly"


def metas(tensors: Sequence[Any]) -> list[MetaTensor]:
    """What is known of tensors without their data."""
    return [MetaTensor(tuple(t.shape), t.dtype) for t in tensors]


def flat(result: Any) -> tuple[Any, ...]:
    """The tensors of a result, whatever holds them."""
    return tuple(pytrees.leaves(result))


def agree(
    arrays: Arrays, found: Sequence[Any], wanted: Sequence[Any], tolerance: Allowed, by: str = EAGER
) -> None:
    """Results of the same inputs: of the same dtypes, and close."""
    __tracebackhide__ = True
    given, expected = [f.dtype for f in found], [w.dtype for w in wanted]
    require(
        given == expected,
        f"the outputs have dtypes {', '.join(map(str, given))}, expected "
        f"{', '.join(map(str, expected))} ({by})",
    )
    close(found, wanted, tolerance([a.dtype for a in arrays] + given), by)


# -- metas -----------------------------------------------------------------------------------------
def check_metas(fn: Function, arrays: Arrays) -> None:
    """What is inferred of the results is what they are."""
    __tracebackhide__ = True
    inferred, real = list(flat(infer_meta(fn)(*metas(arrays)))), metas(fn(*arrays))
    fits = len(inferred) == len(real) and all(
        a == b if a.is_static() else covers(a, b)  # only running it tells what is unknown
        for a, b in zip(inferred, real)
    )
    require(fits, f"the outputs are inferred to be {inferred}, and are {real}")


def unknown_specs(arrays: Arrays) -> list[MetaTensor]:
    """The metas of inputs with all dims unknown."""
    return [spec([-1] * a.ndim, a.dtype) for a in arrays]


def unknown_variants(arrays: Arrays) -> Iterator[list[MetaTensor]]:
    """The metas of inputs with one dim unknown, for each dim, and with all unknown."""
    known = metas(arrays)
    for i, m in enumerate(known):
        for axis in range(m.ndim):
            dims = [-1 if a == axis else d for a, d in enumerate(m.dims)]
            yield [*known[:i], spec(dims, m.dtype), *known[i + 1 :]]
    yield unknown_specs(arrays)


def check_covered(fn: Function, arrays: Arrays) -> None:
    """What is inferred with dims unknown covers what the results are."""
    __tracebackhide__ = True
    concrete = metas(fn(*arrays))
    for specs in unknown_variants(arrays):
        with about(f"inferred for inputs {specs}"):
            general = flat(infer_meta(fn)(*specs))
            require(
                len(general) == len(concrete),
                f"{len(general)} outputs, expected {len(concrete)} ({EAGER})",
            )
            for number, (inferred, real) in enumerate(zip(general, concrete)):
                require(
                    covers(inferred, real),
                    f"output {number} is {inferred}, which does not cover {real} ({EAGER})",
                )


# -- programs --------------------------------------------------------------------------------------
def check_compiled(fn: Function, arrays: Arrays, tolerance: Allowed) -> None:
    """Compiled for known dims it gives what it gives eagerly."""
    __tracebackhide__ = True
    agree(arrays, jit(fn)(*arrays), fn(*arrays), tolerance)


def compiled_for_all_sizes(fn: Function, arrays: Arrays) -> Any:
    """The function compiled once, all dims unknown."""
    return jit(fn, input_spec=unknown_specs(arrays))


def check_as_eager(fn: Function, compiled: Any, arrays: Arrays, tolerance: Allowed) -> None:
    """The program gives what the function gives eagerly, and refuses what that refuses."""
    __tracebackhide__ = True
    try:
        wanted = fn(*arrays)
    except (
        TensorIndexError,
        TensorValueError,
    ) as error:  # programs clamp, unless they are to check
        with check_indices():
            _check_refuses(jit(fn), arrays, error)
    except PhixError as error:
        _check_refuses(compiled, arrays, error)
    else:
        agree(arrays, compiled(*arrays), wanted, tolerance)


def _check_refuses(program: Any, arrays: Arrays, error: PhixError) -> None:
    """The program raises an error of that kind."""
    kind = type(error)
    try:
        program(*arrays)
    except kind:
        return
    except Exception as other:
        raise CheckFailed(f"it raises {type(other).__name__}, expected {kind.__name__}") from other
    raise CheckFailed(f"it runs; expected {kind.__name__}, as {EAGER}: {error}")


def check_decomposed(fn: Function, arrays: Arrays, tolerance: Allowed) -> None:
    """The decomposed graph holds primitives alone and gives the same."""
    __tracebackhide__ = True
    graph = decompose(fn)(*arrays)
    # what holds graphs, as a function with rules of its own does, is decomposed inside
    parts = {e.op for e in graph.equations if not e.op.is_primitive and not e.op.has_graphs}
    composites = {op.name for op in parts} - {"stop_gradient"}
    require(not composites, f"the graph still has {', '.join(sorted(composites))}")
    agree(arrays, jit(graph)(*arrays), fn(*arrays), tolerance)  # one program, not one an equation


def _has_objects(graph: Graph) -> bool:
    equations = (e for g in graphs_inside(graph) for e in g.equations)
    return any(arg.type == "Object" for e in equations for arg in e.op.attrs)


def check_text(
    fn: Function, arrays: Arrays, tolerance: Allowed, runs: Sequence[Any] = (make_graph, decompose)
) -> None:
    """The graph's text, and that of the decomposed one, parses back to a graph with the same text,
    and the same values for those that ``runs`` names. Text does not hold Python functions: where
    one is an attribute, nothing is checked."""
    __tracebackhide__ = True
    for make in (make_graph, decompose):
        made = make(fn)(*arrays)
        if _has_objects(made):
            continue
        text = str(made)
        with about(f"parsed from the text\n{text}"):
            graph = parse_graph(text, constants=[c.value for c in made.constants])
            require(str(graph) == text, f"it prints as\n{graph}")
            if make in runs:
                agree(arrays, graph(*arrays), fn(*arrays), tolerance)


# -- layouts ---------------------------------------------------------------------------------------
def _reversed_strides(array: np.ndarray) -> np.ndarray:
    flip = (slice(None, None, -1),) * array.ndim
    return array[flip].copy()[flip]


def _every_second(array: np.ndarray) -> np.ndarray:
    wide = np.zeros([2 * d for d in array.shape], array.dtype)
    view = wide[(slice(None, None, 2),) * array.ndim]
    view[...] = array
    return view


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "column-major": np.asfortranarray,
    "negative strides": _reversed_strides,
    "every second element": _every_second,
}


def check_strided(fn: Function, arrays: Arrays, tolerance: Allowed) -> None:
    """Inputs that are not contiguous give the same, eagerly and, the last of them, compiled."""
    __tracebackhide__ = True
    wanted = fn(*arrays)
    for name, layout in LAYOUTS.items():
        laid = [layout(a) if a.ndim else a for a in arrays]
        with about(f"inputs with {name}"):
            agree(arrays, fn(*laid), wanted, tolerance, "of contiguous inputs")
    with about(f"inputs with {name}, compiled"):
        agree(arrays, jit(fn)(*laid), wanted, tolerance, "of contiguous inputs")


def _prime_dims(array: np.ndarray) -> list[int]:
    """Dims of another number of axes, or in another order, for the elements of an array.

    They are primes, so that their products are as far from those of the array's dims as they come.
    """
    left, dims, divisor = array.size, list[int](), 2
    while left > 1:
        while left % divisor == 0:
            dims.insert(0, divisor)
            left //= divisor
        divisor += 1
    return [array.size] if not dims or tuple(dims) == array.shape else dims


def check_reshaped(fn: Function, arrays: Arrays, tolerance: Allowed) -> None:
    """Compiled, it gives the same of inputs that come in other dims and are reshaped first: where
    an element lies follows from the dims of the tensor, not from those of the memory it is in."""
    __tracebackhide__ = True
    dims = [list(a.shape) for a in arrays]

    def reshaping(*given: Any) -> tuple[Any, ...]:
        return fn(*[ops.reshape(x, d) for x, d in zip(given, dims)])

    given = [a.reshape(_prime_dims(a)) for a in arrays]
    with about(f"inputs that are reshaped from {[list(g.shape) for g in given]}, compiled"):
        agree(arrays, jit(reshaping)(*given), fn(*arrays), tolerance)


# -- batching --------------------------------------------------------------------------------------
def mapped_choices(count: int) -> list[set[int]]:
    """Each of so many inputs alone, and all of them together."""
    choices = [{i} for i in range(count)]
    return choices if count == 1 else [*choices, set(range(count))]


def check_batched(
    fn: Function, rows: Sequence[Arrays], mapped: set[int], tolerance: Allowed
) -> None:
    """Mapped over the inputs with these numbers it gives what a loop over ``rows`` gives."""
    __tracebackhide__ = True
    first = rows[0]
    lanes = [[r[i] if i in mapped else a for i, a in enumerate(first)] for r in rows]
    stacked = [
        np.stack([lane[i] for lane in lanes]) if i in mapped else a for i, a in enumerate(first)
    ]
    in_axes = tuple(0 if i in mapped else None for i in range(len(stacked)))
    found = vmap(fn, in_axes=in_axes)(*stacked)
    loop = [[np.asarray(out) for out in fn(*lane)] for lane in lanes]
    agree(first, found, [np.stack(outs) for outs in zip(*loop)], tolerance, "a loop over the rows")
