"""A jitted function: traced and compiled once for each kind of arguments."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from phix.api.arguments import function_name
from phix.api.flat_calls import MISS, FlatCall, flat_call
from phix.api.flattened import meta_key
from phix.api.graphs import trace
from phix.api.lowered import Lowered, Traced, places_of
from phix.api.retracing import CallKind, explanation
from phix.api.signatures import P, R
from phix.api.sizes import Pattern, Sizes
from phix.api.weak_arguments import (
    Structure,
    as_declared,
    lent,
    specs_of,
    taken,
    taken_specs,
    tree_of,
)
from phix.core import collector, context, pickling, pytrees, rewrites, stack
from phix.core.arrays import all_apart
from phix.core.context import deciding
from phix.core.dtypes import default_float
from phix.core.errors import (
    NO_ROOM,
    ArgumentError,
    NestingError,
    OutOfMemoryError,
    RetraceError,
)
from phix.core.exact_keys import Exact, is_hashable
from phix.core.given import named
from phix.core.index_ranges import is_checking
from phix.core.tensor import Tracer, tensor_of
from phix.core.tracebacks import leaving_phix, shorten
from phix.interpreters import subgraphs as _subgraphs  # noqa: F401 - provides transforms
from phix.passes.compiled import can_run

_OFTEN = 3  # calls of a kind before it gets a flat function, which takes a hundred to pay off
_MOST_FLAT = 2


class Known:
    """What is known of calls of one kind: their trace and, where they run at once, how."""

    __slots__ = ("calls", "launch", "order", "pattern", "traced")

    def __init__(self, traced: Traced, launch: Any = None, order: Any = None) -> None:
        self.traced = traced
        self.launch: Any = launch  # a Launcher; None where calls are written out into a graph
        self.order = order  # see ``_order``
        self.pattern: Pattern | None = None  # of the sizes, until a call has succeeded
        self.calls = 0


class Jitted(Generic[P, R]):
    """A function that runs as a compiled program; made by :func:`jit`.

    What it has traced and compiled is found in one place, by all that decides it. A call that runs
    at once is told apart by the structure of its arguments, the static ones, what is donated,
    ``context.deciding``, and of each tensor dtype, dims, contiguity and place; its trace by what
    a trace depends on of these (``_trace_key``). For calls that come often, the look into that
    place is written out (``flat_calls``).
    """

    def __init__(
        self,
        function: Callable[P, R],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        input_spec: Any,
        off: frozenset[str] = frozenset(),
        donated: tuple[int, ...] = (),
        library: str | None = None,
        dynamic: bool = True,
        memory_limit: int | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.static_argnums = static_argnums
        self.static_argnames = static_argnames
        self.input_spec = input_spec
        self.off = off  # rewrites left out
        self.donated = donated  # argument numbers
        self.library = library  # whose kernels come first
        self.memory_limit = memory_limit  # in bytes
        self.trace_count = 0
        self.most_traces: int | None = None  # set by phix.debug.assert_max_traces
        self._calls: list[CallKind] = []  # what each trace was made for, in order
        # Which dims vary; None where they are declared, or each size is to have its program.
        learns = dynamic and input_spec is None and memory_limit is None
        self._sizes = Sizes(function) if learns else None
        self._known: dict[Any, Known] = {}  # by ``call_key`` and ``_trace_key``
        self._flat: tuple[FlatCall, ...] = ()  # finds the last of those that come often
        self._lock = stack.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if not kwargs:
                for call in self._flat:
                    result = call(args)
                    if result is not MISS:
                        return result
                if not self.static_argnums and _here.interpreter is _EAGER:
                    return self._call_plain(args)
            return self._call(args, kwargs)
        except Exception as error:
            if type(error) is MemoryError:  # of native code
                name = function_name(self.function)
                raise OutOfMemoryError(f"jit of {name}: {str(error) or NO_ROOM}") from None
            shorten(error, error.__traceback__)
            raise

    def _call_plain(self, args: tuple[Any, ...]) -> Any:
        """The way for tensors in plain containers: their tree is not looked at if known."""
        count = _here.registrations
        if count < 0:  # in a block that changes what decides programs
            return self._call(args, {})
        leaves: list[Any] = []
        shape = _spread(args, leaves)
        try:
            key = (shape, count, *[x.known_key or x.key for x in leaves])  # see ``call_key``
        except AttributeError:  # a leaf that is no tensor, a tracer, or another container
            key = None
        if key is None:  # outside, so that an error of the call is not one beside this one
            return self._call(args, {})
        found = self._known.get(key)
        if found is None:
            return self._call(args, {}, key)
        tensors = leaves if found.order is None else found.order(leaves)
        outs = [tensor_of(o) for o in found.launch(*[x.data for x in tensors])]
        found.calls += 1
        if found.calls == _OFTEN:
            self._flatten(found, args, leaves, outs, count)
        return found.traced.rebuild(outs)

    def _flatten(
        self, found: Known, args: tuple[Any, ...], leaves: list[Any], outs: list[Any], count: int
    ) -> None:
        """Have a function of its own for what comes so often; ``outs`` are what it gave here."""
        is_placed = any(x.ndim for x in leaves)  # single values alone follow the phix.device
        atoms = found.traced.compiled.graph.outputs
        keys = [
            x.key if is_placed and atom.meta.is_static() else None for x, atom in zip(outs, atoms)
        ]
        made = flat_call(args, found.launch, found.traced.out_tree, keys, count)
        if made is not None:
            self._flat = (made, *self._flat)[:_MOST_FLAT]

    @named("jit")
    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], plain: Any = None) -> Any:
        """The way for all arguments; those in plain containers are known by the key ``plain``."""
        dynamic, static = self._split(args, kwargs)
        name = function_name(self.function)
        flat, treedef = lent(dynamic, name)
        tensors: Any = flat
        runs = context.current() is _EAGER and not any(isinstance(x, Tracer) for x in flat)
        key = (plain or call_key((treedef, static), tensors)) if runs else None
        found = self._known.get(key)
        if found is not None:
            outs = _launched(found, tensors)
            found.calls += 1
            count = _here.registrations
            if found.calls == _OFTEN and count >= 0 and not kwargs and not static:
                self._flatten(found, args, flat, outs, count)
            return found.traced.rebuild(outs)
        call = CallKind(treedef, tuple([x.meta for x in flat]), static, *around())
        order = None if plain is None else _order(treedef, len(flat))

        def ready(traced: Traced) -> Known:
            runs_here = runs and can_run(traced.compiled)
            return Known(traced, traced.compiled.launcher(tensors) if runs_here else None, order)

        with collector.paused():
            found = self._found(call, ready) if runs else ready(self._traced(call))
        if found.launch is None:
            return found.traced.replay(taken(dynamic, name)[0])
        outs, self._known[key] = self._first(call, found, ready, tensors)
        return found.traced.rebuild(outs)

    def _found(self, call: CallKind, ready: Callable[[Traced], Known]) -> Known:
        """What runs a call: the program of its sizes, or one that leaves open those that vary."""
        if self._sizes is None or self._trace_key(call) in self._known:
            return ready(self._traced(call))
        pattern = self._sizes.of(call)
        while pattern.unknown:
            opened = dataclasses.replace(call, metas=self._sizes.opened(call.metas, pattern))
            try:
                found = ready(self._traced(opened, call))
            except RetraceError:
                raise
            except Exception as error:  # the program of these sizes says whether it is the user's
                opener = self._known.get(self._trace_key(opened))
                if opener is not None and self._serves(opener.traced):
                    break
                pattern = self._sizes.without(pattern, error)
                continue
            if found.launch is not None:
                found.pattern = pattern
                return found
            pattern = pattern.reading(pattern.unknown, "its calls are written out into graphs")
        found = ready(self._traced(call))
        found.pattern = pattern
        return found

    def _first(
        self, call: CallKind, found: Known, ready: Callable[[Traced], Known], tensors: Any
    ) -> tuple[list[Any], Known]:
        """The results of the first run of a kind. Where a program of open sizes refuses them, that
        of these sizes runs, or raises an error in numbers that the user knows."""
        pattern = found.pattern
        try:
            outs = _launched(found, tensors)
        except Exception as error:
            if pattern is None or not pattern.unknown or self._sizes is None:
                raise
            refusing, found = found.traced, ready(self._traced(call))
            outs = _launched(found, tensors)
            if not self._serves(refusing):
                pattern = self._sizes.without(pattern, error)
        self._learn(call, pattern)
        return outs, found

    def _serves(self, traced: Traced) -> bool:
        """Whether a trace of open sizes has run for some, so that those it refuses are odd."""
        return any(k.traced is traced and k.launch is not None for k in self._known.values())

    def _learn(self, call: CallKind, pattern: Pattern | None) -> None:
        if pattern is not None and self._sizes is not None:
            self._sizes.keep(call, pattern)

    def _split(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """The arguments that are traced, and those that are static, with their places."""
        if self.input_spec is not None:
            args = tuple(map(as_declared, args, self.input_spec)) + args[len(self.input_spec) :]
        if not self.static_argnums and not self.static_argnames:
            return (args, kwargs), ()
        places = {n % len(args) for n in self.static_argnums if -len(args) <= n < len(args)}
        static: list[tuple[Any, Any]] = [(p, args[p]) for p in sorted(places)]
        static += [(k, kwargs[k]) for k in sorted(kwargs) if k in self.static_argnames]
        for place, value in static:
            if not is_hashable(value):
                raise ArgumentError(
                    f"jit of {function_name(self.function)}: static argument {place!r} must be "
                    f"hashable, found {type(value).__name__}; pass a tuple or a frozen object"
                )
        dynamic = tuple(a for i, a in enumerate(args) if i not in places)
        rest = {k: v for k, v in kwargs.items() if k not in self.static_argnames}
        return (dynamic, rest), tuple([(p, Exact(v)) for p, v in static])

    def _traced(self, call: CallKind, asked: CallKind | None = None) -> Traced:
        """The trace for such calls; made where there is none, for the call ``asked``."""
        key = self._trace_key(call)
        found = self._known.get(key)
        if found is None:
            with self._lock:
                found = self._known.get(key)
                if found is None:
                    found = self._known[key] = Known(self._trace(call, asked or call))
        return found.traced

    def _trace_key(self, call: CallKind) -> Any:
        metas: Any = call.metas
        if self.input_spec is not None:  # one trace for every size of what is declared
            args, kwargs = specs_of(call.treedef, metas)
            as_given = [a for a, d in zip(args, self.input_spec) if d is None]
            metas = pytrees.leaves((as_given, kwargs))
        kinds = tuple(map(meta_key, metas))
        return (call.treedef, call.static, kinds, *call.around())

    def _trace(self, call: CallKind, asked: CallKind) -> Traced:
        specs = specs_of(call.treedef, call.metas)
        if self.input_spec is not None:
            specs = (_declared(self.input_spec, specs[0], self.function), specs[1])
        if self.most_traces is not None and self.trace_count >= self.most_traces:
            raise RetraceError(self._explained(self._calls, asked))
        function = _with_static(self.function, call.static)
        if call is asked:
            self._note(asked)
        with rewrites.without(self.off), _one_trace_deeper(self.function):
            graph, out_tree = trace(function, *specs)
        traced = Traced(graph, out_tree, self.off, self.library, self.memory_limit)
        if call is not asked:  # one that is not possible is no trace
            self._note(asked)
        return traced

    def _note(self, call: CallKind) -> None:
        self._calls.append(call)
        self.trace_count += 1

    @leaving_phix
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The steps from the traced graph to machine code for these arguments or specs."""
        dynamic, static = self._split(args, kwargs)
        metas, treedef = taken_specs(dynamic, function_name(self.function))
        traced = self._traced(CallKind(treedef, tuple(metas), static, *around()))
        return Lowered(traced, treedef, metas, places_of(pytrees.flatten(dynamic)[0]))

    def why_retraced(self, *args: Any, **kwargs: Any) -> str:
        """Which argument made the last new trace, and how it differed.

        With arguments: why a call with them would be traced anew.

        >>> import phix
        >>> f = phix.jit(lambda x: 2.0 * x)
        >>> _ = f(phix.to_tensor([1.0, 2.0])), f(phix.to_tensor([1.0, 2.0, 3.0]))
        >>> print(f.why_retraced().partition(". ")[0])
        <lambda>: traced anew, since against trace 1 of 1 before it, x has dims [3], had [2]
        >>> print(f.why_retraced().partition(". ")[2])
        From now on one program serves all sizes of the dims that varied
        """
        if not args and not kwargs:
            if not self._calls:
                return f"{function_name(self.function)}: never traced"
            return self._explained(self._calls[:-1], self._calls[-1])
        dynamic, static = self._split(args, kwargs)
        metas, treedef = taken_specs(dynamic, function_name(self.function))
        call = CallKind(treedef, tuple(metas), static, *around())
        if self._is_traced(call):
            return f"{function_name(self.function)}: a call with these arguments is not traced anew"
        return self._explained(self._calls, call)

    def _is_traced(self, call: CallKind) -> bool:
        if self._sizes is None or self._trace_key(call) in self._known:
            return self._trace_key(call) in self._known
        opened = self._sizes.opened(call.metas, self._sizes.of(call))
        return self._trace_key(dataclasses.replace(call, metas=opened)) in self._known

    def _explained(self, before: Sequence[CallKind], call: CallKind) -> str:
        name = function_name(self.function)
        note = "" if self._sizes is None else self._sizes.note(call)
        return explanation(before, call, self.function, name, bool(note)) + note

    def cache_clear(self) -> None:
        """Forget every trace and program; the disk cache stays."""
        with self._lock:
            self._known.clear()
            self._flat = ()

    # -- copies and pickles ------------------------------------------------------------------
    def __copy__(self) -> Jitted[P, R]:
        return self  # as functions do

    def __deepcopy__(self, memo: Any) -> Jitted[P, R]:
        return self

    def __reduce__(self) -> Any:
        """By its name, where it has one in its module; else anew of its function, without its
        programs, which the disk cache has."""
        name = pickling.global_name(self)
        if name is not None:
            return name
        what = f"jit of {function_name(self.function)}"
        pickling.check(what, [self.function], "define it, or assign the jitted function, at the "
                       "top of a module; or pickle phix.make_graph(f)(*args)")  # fmt: skip
        return type(self), (
            self.function, self.static_argnums, self.static_argnames, self.input_spec, self.off,
            self.donated, self.library, self._sizes is not None or self.input_spec is not None,
            self.memory_limit,
        )  # fmt: skip

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {function_name(self.function)}>"


def call_key(structure: Any, tensors: Any) -> tuple[Any, ...]:
    """What a call that runs at once is told apart by. ``structure`` is that of the arguments with
    the static ones and what is donated, or what ``_spread`` gives."""
    return (structure, deciding(), *[x.known_key or x.key for x in tensors])


def _launched(found: Known, tensors: Any) -> list[Any]:
    arrays = [x.data for x in tensors]
    return [tensor_of(o) for o in all_apart(found.launch(*arrays), arrays)]


_CONTAINERS = frozenset({dict, list, tuple})


def _spread(tree: Any, leaves: list[Any]) -> Any:
    """Append what plain containers hold to ``leaves``, dicts in their own order.

    Returns what the containers are; anything else, a namedtuple too, counts as a leaf.
    """
    kind = type(tree)
    if kind not in _CONTAINERS:
        leaves.append(tree)
        return None
    names, parts = (tuple(tree), tree.values()) if kind is dict else (len(tree), tree)
    if _CONTAINERS.isdisjoint(map(type, parts)):
        leaves.extend(parts)
        return (kind, names)
    return (kind, names, *[_spread(part, leaves) for part in parts])


def _order(treedef: Structure, count: int) -> Callable[[list[Any]], Any] | None:
    """What picks the leaves that ``_spread`` gives in the tree's order; None: they are in it."""
    numbers: list[int] = []
    _spread(pytrees.unflatten(tree_of(treedef), range(count))[0], numbers)
    order = sorted(range(count), key=numbers.__getitem__)
    return None if order == list(range(count)) else operator.itemgetter(*order)


def _declared(input_spec: Any, args: Any, function: Any) -> Any:
    """The declared specs, which must have the structure of the arguments; of an argument whose
    spec is None, those of the argument."""
    declared = tuple(input_spec)
    where = f"jit of {function_name(function)}: input_spec declares"
    if len(declared) != len(args):
        raise ArgumentError(
            f"{where} {len(declared)} arguments, found {len(args)}; declare a spec for each, or "
            "None for one that is to be as it is given"
        )
    filled = tuple(a if d is None else d for a, d in zip(args, declared))
    for number, (have, want) in enumerate(zip(args, filled)):
        given, said = pytrees.flatten(have)[1], pytrees.flatten(want)[1]
        if given != said:
            raise ArgumentError(
                f"{where} {_cut(said)} for argument {number}, which is {_cut(given)}; declare one "
                "spec for each tensor of it, or None for all of it as it is given"
            )
    return filled


def _cut(structure: pytrees.TreeDef) -> str:
    """The structure as text, the beginning alone of a long one."""
    text = str(structure).replace(", namespace='phix'", "")[len("PyTreeSpec(") : -1]
    return text if len(text) <= 120 else f"{text[:100]} ... ({structure.num_leaves} tensors)"


def around() -> tuple[Any, bool, frozenset[str], Any]:
    """What a trace depends on besides the arguments: see ``CallKind``."""
    return context.bound_axes(), is_checking(), rewrites.left_out(), default_float()


@contextmanager
def _one_trace_deeper(function: Callable[..., Any]) -> Iterator[None]:
    """A trace inside those under way. Each has a stack of its own in the end, so that Python would
    not end a recursion that has no end."""
    if context.context.traces >= sys.getrecursionlimit() // 4:
        raise NestingError(
            f"{function_name(function)} is traced inside {context.context.traces} other traces: a "
            "jitted function that calls itself has no end while it is traced; write "
            "phix.while_loop, or call the function that is not jitted"
        )
    context.context.traces += 1
    try:
        yield
    finally:
        context.context.traces -= 1


def _with_static(function: Callable[..., Any], static: tuple[Any, ...]) -> Callable[..., Any]:
    """The function of the traced arguments alone."""
    if not static:
        return function
    named = {p: v.value for p, v in static if isinstance(p, str)}
    placed = {p: v.value for p, v in static if isinstance(p, int)}

    @functools.wraps(function)
    def partial(*args: Any, **kwargs: Any) -> Any:
        supply = iter(args)
        full = [placed[i] if i in placed else next(supply) for i in range(len(args) + len(placed))]
        return function(*full, **kwargs, **named)

    return partial


_EAGER = context.current()
_here = context.context
