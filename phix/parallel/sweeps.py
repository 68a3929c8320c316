"""map: a function of many inputs, by the workers of an executor that the user has."""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phix.api.arguments import function_name
from phix.api.compilation import jit
from phix.api.graphs import make_graph
from phix.core import pytrees
from phix.core.errors import ArgumentError, PhixError, TaskError
from phix.core.given import FUNCTION, Kind, takes

# Tasks a worker, so that those which take longer do not keep all others waiting.
_TASKS_PER_WORKER = 4
_MOST_LOADED = 8  # functions that a worker keeps
_loaded: dict[str, Callable[[Any], Any]] = {}

_INPUTS = Kind("a list, or what else can be iterated over", lambda v: hasattr(v, "__iter__"))
_EXECUTOR = Kind(
    "an executor (with submit or map), the module ray, or None",
    lambda v: v is None or any(callable(getattr(v, n, None)) for n in ("submit", "map", "remote")),
)


@takes(f=FUNCTION, xs=_INPUTS, executor=_EXECUTOR)
def map(f: Callable[[Any], Any], xs: Iterable[Any], executor: Any = None) -> list[Any]:
    """``[f(x) for x in xs]``, by the workers of an executor.

    Threads of a ``ThreadPoolExecutor`` call the function itself. To others it is sent as a pickle:
    a jitted one by its name, with compiled code from the disk cache where workers share it. One
    that no pickle can hold, as it closes over something, is traced here and sent as graphs: one
    for each kind of tensors and arrays, and for each value of what else inputs have (numbers of
    Python, of which a graph has no inputs, and texts). Inputs go in pieces, several to a worker; a
    worker makes the function once, whatever number of pieces it gets.

    Args:
        f: of one input. What a graph cannot do, it cannot where it is sent as graphs: branch on
            the numbers in a tensor, have effects in the worker, or give what is no tensor, array,
            number or text, or a tree of those; arrays come back as tensors.
        xs: the inputs.
        executor: with ``submit``, as those of ``concurrent.futures`` and ``mpi4py.futures`` and a
            client of Dask, or with ``map`` alone, as a ``multiprocessing.Pool``; or the module
            ``ray``. It stays open. None: this process does all of it.

    Returns:
        The results, in the order of the inputs.

    Raises:
        TaskError: ``f`` has raised; ``index`` says for which input (the first that did), and the
            error itself is its ``__cause__``.
        ArgumentError: the function can neither be pickled nor traced.

    >>> import phix
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> xs = [phix.ones([n]) for n in (3, 4)]
    >>> with ThreadPoolExecutor(2) as pool:
    ...     found = phix.parallel.map(lambda x: (x**2).sum(), xs, pool)
    >>> [v.item() for v in found]
    [3.0, 4.0]
    """
    inputs = list(xs)
    name = function_name(f)
    if executor is None or not inputs:
        outcomes = _run(f, inputs)
    else:
        is_here = isinstance(executor, ThreadPoolExecutor)
        payload = f if is_here else _payload(f, inputs, name)
        pieces = _pieces(inputs, _workers(executor) * _TASKS_PER_WORKER)
        outcomes = [o for piece in _sent(executor, payload, pieces) for o in piece]
    results = []
    for index, (value, error, text) in enumerate(outcomes):
        if text is not None:
            raise TaskError(f"map of {name}: input {index}: {text}", index) from error
        results.append(value)
    return results


# -- what a worker does --------------------------------------------------------------------------
Outcome = tuple[Any, Any, Any]  # the value; or the error, where it is known, and its text


def _run(f: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Outcome]:
    """The outcomes of inputs, up to the first error."""
    found: list[Outcome] = []
    for x in inputs:
        try:
            found.append((f(x), None, None))
        except Exception as error:
            found.append((None, error, f"{type(error).__name__}: {error}"))
            break
    return found


def run_piece(payload: Any, inputs: Sequence[Any]) -> list[Outcome]:
    """A task: the outcomes of a piece of the inputs, such as can be sent back; of the function
    itself, or of its key and pickle."""
    if callable(payload):
        return _run(payload, inputs)
    key, content = payload
    f = _loaded.get(key)
    if f is None:
        f = pickle.loads(content)
        while len(_loaded) >= _MOST_LOADED:
            _loaded.pop(next(iter(_loaded)))
        _loaded[key] = f
    return [(v, None if e is None else _sendable(e), t) for v, e, t in _run(f, inputs)]


def _sendable(error: Exception) -> Exception:
    """The error, or one with its text where no pickle holds it."""
    lines = "".join(traceback.format_exception(error))
    try:
        found = pickle.loads(pickle.dumps(error))
        if type(found) is type(error):
            if hasattr(found, "add_note"):
                found.add_note(lines)
            return found
    except Exception:  # whatever its class does with its arguments
        pass
    return RuntimeError(lines)


class Graphs:
    """A function as graphs, one for each kind of inputs that it was traced for: of the tensors
    that vary, with the tree of what it gives and what is no tensor there, by place."""

    def __init__(self, name: str, kinds: dict[Any, tuple[Any, Any, dict[int, Any]]]) -> None:
        self.name, self.kinds = name, kinds
        self.compiled: dict[Any, Callable[..., Any]] = {}

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.kinds)

    def __call__(self, x: Any) -> Any:
        leaves, _ = pytrees.flatten(x)
        key = _kind(x)
        graph, tree, fixed = self.kinds[key]
        if key not in self.compiled:
            self.compiled[key] = jit(graph)
        outs = iter(self.compiled[key](*(v for v in leaves if not _is_fixed(v))))
        count = len(fixed) + len(graph.outputs)
        return pytrees.unflatten(
            tree, [fixed[k] if k in fixed else next(outs) for k in range(count)]
        )


def _is_fixed(v: Any) -> bool:
    """Whether a graph holds it as it is: as an input a number would be a tensor of fewer digits."""
    is_known = isinstance(v, (bool, int, float, complex, str, bytes, type(None)))
    return is_known and not hasattr(v, "dtype")  # np.float64 is a float


def _kind(x: Any) -> Any:
    """What a graph depends on of an input; of numbers all bits, so that 0.0 is not -0.0."""
    leaves, treedef = pytrees.flatten(x)
    return treedef, tuple(
        (type(v), repr(v)) if _is_fixed(v)
        else (str(v.dtype), tuple(v.shape)) if hasattr(v, "dtype") else type(v)
        for v in leaves
    )  # fmt: skip


# -- what is sent --------------------------------------------------------------------------------
def _payload(f: Callable[[Any], Any], inputs: Sequence[Any], name: str) -> tuple[str, bytes]:
    """The function as bytes, and what tells them from others."""
    try:
        content = pickle.dumps(f)
    except Exception as refusal:  # whatever is closed over
        content = pickle.dumps(_graphs(f, inputs, name, refusal))
    return hashlib.sha256(content).hexdigest(), content


def _graphs(f: Callable[[Any], Any], inputs: Sequence[Any], name: str, refusal: Any) -> Graphs:
    kinds: dict[Any, tuple[Any, Any, dict[int, Any]]] = {}
    done = 0
    try:
        for x in inputs:
            key = _kind(x)
            if key not in kinds:
                kinds[key] = _graph(f, x)
            done += 1
    except PhixError as error:
        raise ArgumentError(
            f"map: {name} cannot be sent: no pickle holds it ({refusal}), and it cannot be traced "
            f"({error}); define it at the top of a module"
        ) from error
    except Exception as error:  # of the function itself, for this input
        text = f"map of {name}: input {done}: {type(error).__name__}: {error}"
        raise TaskError(text, done) from error
    return Graphs(name, kinds)


def _graph(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any, dict[int, Any]]:
    """The graph of the function for one kind of inputs, its tree, and what is no tensor there."""
    leaves, treedef = pytrees.flatten(x)
    made: list[Any] = []

    def flat(*values: Any) -> Any:
        given = iter(values)
        whole = [v if _is_fixed(v) else next(given) for v in leaves]
        outs, tree = pytrees.flatten(f(pytrees.unflatten(treedef, whole)))
        made.append((tree, {k: v for k, v in enumerate(outs) if _is_fixed(v)}))
        return [v for v in outs if not _is_fixed(v)]

    graph = make_graph(flat)(*(v for v in leaves if not _is_fixed(v)))
    return (graph, *made[-1])


def _workers(executor: Any) -> int:
    """How many workers there may be."""
    for name in ("_max_workers", "num_workers", "_processes"):
        found = getattr(executor, name, None)
        if isinstance(found, int) and found > 0:
            return found
    return os.cpu_count() or 1


def _pieces(inputs: Sequence[Any], count: int) -> list[list[Any]]:
    """The inputs in so many pieces at most, which differ by one in length."""
    count = min(count, len(inputs))
    ends = [len(inputs) * k // count for k in range(count + 1)]
    return [list(inputs[a:b]) for a, b in itertools.pairwise(ends)]


def _sent(executor: Any, payload: Any, pieces: Sequence[list[Any]]) -> list[list[Outcome]]:
    """The outcomes of pieces, in order; those behind one with an error may be missing."""
    if all(callable(getattr(executor, n, None)) for n in ("remote", "put", "get")):  # ray
        task, here = executor.remote(run_piece), executor.put(payload)
        return list(executor.get([task.remote(here, piece) for piece in pieces]))
    if not callable(getattr(executor, "submit", None)):
        return list(executor.map(_Piece(payload), pieces))
    if callable(getattr(executor, "scatter", None)):  # a client of Dask: once to each worker
        payload = executor.scatter(payload, broadcast=True)
    futures = [executor.submit(run_piece, payload, piece) for piece in pieces]
    found: list[list[Outcome]] = []
    try:
        for future in futures:
            found.append(future.result())
            if any(text is not None for _, _, text in found[-1]):
                break
    finally:
        for future in futures[len(found) :]:
            future.cancel()
    return found


class _Piece:
    """``run_piece`` of one argument, for executors that have ``map`` alone."""

    def __init__(self, payload: Any) -> None:
        self.payload = payload

    def __call__(self, piece: list[Any]) -> list[Outcome]:
        return run_piece(self.payload, piece)


__all__ = ["map"]
