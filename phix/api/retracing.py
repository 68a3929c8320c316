"""Why a jitted function was traced again: what set one call apart from those before."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from phix.api.weak_arguments import Structure, kinds_of, tree_of
from phix.core import dims as dm
from phix.core.exact_keys import Exact
from phix.core.meta import MetaTensor
from phix.core.records import dataclass

_NOTHING = object()


@dataclass(frozen=True)
class CallKind:
    """What a trace is made for: the kinds of the arguments, not their values."""

    treedef: Structure
    metas: tuple[MetaTensor, ...]
    static: tuple[tuple[Any, Exact], ...]  # place or name, value
    axes: tuple[tuple[str, Any], ...]  # the named axes in scope
    checks_indices: bool  # whether it looks at indices each time it runs
    left_out: frozenset[str]  # the rewrites that blocks around leave out
    floats: Any  # the default float: a dtype

    def around(self) -> tuple[Any, ...]:
        """What it depends on besides the arguments."""
        return self.axes, self.checks_indices, self.left_out, self.floats

    def leaves(self, function: Callable[..., Any]) -> dict[str, MetaTensor]:
        """The meta of each leaf by its path, as in ``params['w'][0]``."""
        return dict(zip(self._paths(function), self.metas))

    def numbers(self, function: Callable[..., Any]) -> dict[str, type | None]:
        """What each leaf is, if it is a Python number that stays one; by its path."""
        return dict(zip(self._paths(function), kinds_of(self.treedef)))

    def _paths(self, function: Callable[..., Any]) -> list[str]:
        names = parameter_names(function)
        fixed = {p for p, _ in self.static if isinstance(p, int)}
        free = [n for n in range(len(names) + len(self.metas)) if n not in fixed]
        return [_path(p, names, free) for p in tree_of(self.treedef).paths()]

    def settings(self, function: Callable[..., Any]) -> dict[str, Any]:
        """The value of each static argument by its name."""
        names = parameter_names(function)
        return {
            names[p] if isinstance(p, int) and p < len(names) else str(p): v.value
            for p, v in self.static
        }


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that arguments are passed to by place."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _path(path: Sequence[Any], names: Sequence[str], free: Sequence[int]) -> str:
    """A path into (args, kwargs) as one would write it in the function."""
    kind, first, *rest = path
    if kind:
        head = str(first)
    else:
        place = free[first]
        head = names[place] if place < len(names) else f"argument {place}"
    return head + "".join(f"[{entry!r}]" for entry in rest)


def differences(old: CallKind, new: CallKind, function: Callable[..., Any]) -> list[str]:
    """One line for each thing that sets ``new`` apart from ``old``."""
    return [*_settings(old, new, function), *_leaves(old, new, function), *_scope(old, new)]


def _settings(old: CallKind, new: CallKind, function: Callable[..., Any]) -> Iterator[str]:
    before, now = old.settings(function), new.settings(function)
    for name in {**before, **now}:
        a, b = before.get(name, _NOTHING), now.get(name, _NOTHING)
        if a is _NOTHING or b is _NOTHING:
            change = "was not given before" if a is _NOTHING else "was given before, and is not now"
            yield f"static argument {name} {change}"
        elif Exact(a) != Exact(b):
            yield f"static argument {name} is {_short(b)}, was {_short(a)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _leaves(old: CallKind, new: CallKind, function: Callable[..., Any]) -> Iterator[str]:
    before, now = old.leaves(function), new.leaves(function)
    was, is_ = old.numbers(function), new.numbers(function)
    for path, meta in now.items():
        if path not in before:
            yield f"{path} is new: {meta}"
        elif was[path] != is_[path]:
            yield f"{path} is {_named(is_[path], meta)}, was {_named(was[path], before[path])}"
        elif meta.dtype != before[path].dtype:
            yield f"{path} has dtype {meta.dtype}, had {before[path].dtype}"
        elif _text(meta) != _text(before[path]):
            yield f"{path} has dims {_text(meta)}, had {_text(before[path])}"
    for path, meta in before.items():
        if path not in now:
            yield f"{path} is missing: it was {meta}"
    structures = tree_of(new.treedef), tree_of(old.treedef)
    if structures[0] != structures[1] and set(before) == set(now):
        yield f"the arguments have structure {structures[0]}, had {structures[1]}"


def _named(kind: type | None, meta: MetaTensor) -> str:
    return f"the tensor {meta}" if kind is None else f"a Python {kind.__name__}"


def _text(meta: MetaTensor) -> str:
    return dm.shape_text(meta.dims)


def _scope(old: CallKind, new: CallKind) -> Iterator[str]:
    if old.axes != new.axes:
        yield f"the named axes in scope are {dict(new.axes)}, were {dict(old.axes)}"
    if old.checks_indices != new.checks_indices:
        now, before = ("inside", "outside") if new.checks_indices else ("outside", "inside")
        yield f"it is called {now} phix.debug.check_indices(), was {before}"
    if old.left_out != new.left_out:
        here, there = (", ".join(sorted(c.left_out)) or "none" for c in (new, old))
        yield f"the rewrites left out around it are {here}, were {there}"
    if old.floats != new.floats:
        yield f"the default float is {new.floats}, was {old.floats}"


def explanation(
    calls: Sequence[CallKind],
    new: CallKind,
    function: Callable[..., Any],
    name: str,
    learns: bool = False,
) -> str:
    """Why ``new`` fits none of the ``calls`` that were traced: how it differs from the nearest.

    Where ``jit`` learns which sizes vary, nobody has to declare them.
    """
    if not calls:
        return f"{name}: the first call is traced, whatever its arguments"
    ranked = [(len(differences(old, new, function)), -n) for n, old in enumerate(calls)]
    nearest = -min(ranked)[1]
    found = differences(calls[nearest], new, function)
    what = "; ".join(found) or "nothing that is kept; cache_clear() was called in between"
    times = f"trace {nearest + 1} of {len(calls)} before it"
    remedy = _remedy(found, learns)
    return f"{name}: traced anew, since against {times}, {what}{'. ' * bool(remedy)}{remedy}"


def _remedy(found: Sequence[str], learns: bool) -> str:
    if not learns and any(" has dims " in line for line in found):
        return "Declare the dims that vary unknown: input_spec=[phix.spec([-1, ...])]"
    if any(line.startswith("static argument") for line in found):
        return "Pass what varies as a tensor, if the trace does not depend on it"
    if any(" Python " in line for line in found):
        return "Pass numbers of one kind each time, or tensors each time"
    if any(" has dtype " in line for line in found):
        return "Cast the argument before the call"
    return ""
