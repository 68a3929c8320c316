"""Calls of a jitted function that come often, as one flat Python function each.

Arguments in plain containers have been taken apart, looked up and put together again many times
when one like them comes again. For a kind of arguments that has come often, the Python text of just
that is written and compiled: names in place of loops, `is` in place of hashing. A function of two
leaves reads

    def call(args):
        try:
            if len(args) != 2: return MISS
            a0, a1, = args
            if not ((a0.known_key or a0.key) is c0 and (a1.known_key or a1.key) is c1): return MISS
            if here.registrations != count or here.interpreter is not eager: return MISS
        except AttributeError: return MISS
        o0, = launch(a0.data, a1.data)
        r0 = new(Tensor); r0.data = o0; r0.known_key = None; r0._meta = None
        return r0

A leaf may be a plain array of NumPy, which lends its memory for the call: arrays are told from
others of another dtype, shape or layout all at once, and results are kept apart from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import arrays, places, pytrees
from phix.core.context import context
from phix.core.engines import Launcher
from phix.core.tensor import Tensor

# What a flat call gives for arguments of another kind, or such that need a closer look.
MISS: Any = object()

FlatCall = Callable[[tuple[Any, ...]], Any]


def flat_call(
    args: tuple[Any, ...],
    launch: Launcher,
    out_tree: pytrees.TreeDef,
    keys: Sequence[tuple[Any, ...] | None],
    count: int,
) -> FlatCall | None:
    """The flat function for arguments like these: it gives their result, or MISS.

    Args:
        args: tensors and arrays in dicts, lists, tuples.
        launch: runs the program on the data of the tensors, in the order of the flattened tree.
        out_tree: the structure of the result.
        keys: for each leaf of the result what every call gives it as its key; None: not known.
        count: of registrations, for which ``launch`` was found: see ``core.context``.

    Returns:
        None where a container is none of those, a leaf is no tensor and no array as it is lent, or
        nothing looks at arrays.
    """
    writer = _Writer()
    try:
        numbers = writer.take(args, "args")
        writer.look()
    except _NotPlain:
        return None
    order = pytrees.flatten(numbers)[0]
    writer.names |= {
        "launch": launch, "Tensor": Tensor, "new": Tensor.__new__, "MISS": MISS,
        "here": context, "count": count, "eager": context.interpreter,
        "all_apart": arrays.all_apart, "hosts": (None, places.CPU),
    }  # fmt: skip
    writer.give(out_tree, keys, [writer.data(k) for k in order])
    scope = dict(writer.names)
    exec("\n".join(writer.text()), scope)
    made: FlatCall = scope["call"]
    return made


class _NotPlain(Exception):
    """A container that is no dict, list or tuple, or a leaf that is no tensor and no array."""


class _Writer:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {}  # what the text calls by name
        self.taking: list[str] = []
        self.checks: list[str] = []
        self.giving: list[str] = []
        self.lent: dict[int, np.ndarray] = {}  # the leaves that are arrays
        self.count = self.leaves = 0

    def constant(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def text(self) -> list[str]:
        checks = " and ".join(self.checks)
        taking = [*self.taking, f"if not ({checks}): return MISS"] if checks else self.taking
        return [
            "def call(args):",
            " try:",
            *(f"  {line}" for line in taking),
            "  if here.registrations != count or here.interpreter is not eager: return MISS",
            *(["  if here.place not in hosts: return MISS"] if self.lent else []),
            " except AttributeError: return MISS",
            *(f" {line}" for line in self.giving),
        ]

    # -- arguments -------------------------------------------------------------------------
    def take(self, tree: Any, name: str) -> Any:
        """Write how ``tree`` is taken apart; the same tree with the leaves' numbers in it."""
        kind = type(tree)
        if isinstance(tree, Tensor):
            number = self.leaf(name)
            key = self.constant(tree.key)
            self.checks.append(f"(a{number}.known_key or a{number}.key) is {key}")
            return number
        if kind is np.ndarray:
            return self.take_array(tree, name)
        if kind not in (dict, list, tuple):
            raise _NotPlain
        is_args = name == "args"  # always a tuple
        same = [] if is_args else [f"type({name}) is not {kind.__name__}"]
        if kind is dict:
            same.append(f"tuple({name}) != {self.constant(tuple(tree))}")
        else:
            same.append(f"len({name}) != {len(tree)}")
        self.taking.append(f"if {' or '.join(same)}: return MISS")
        self.count += 1
        parts = [f"p{self.count}_{k}" for k in range(len(tree))]
        if parts:
            whole = f"{name}.values()" if kind is dict else name
            self.taking.append(f"{', '.join(parts)}, = {whole}")
        values = tree.values() if kind is dict else tree
        numbers = [self.take(value, part) for value, part in zip(values, parts)]
        return dict(zip(tree, numbers)) if kind is dict else kind(numbers)

    def leaf(self, name: str) -> int:
        """The number of a leaf, which has a name of its own from here on."""
        self.taking.append(f"a{self.leaves} = {name}")
        self.leaves += 1
        return self.leaves - 1

    def take_array(self, array: np.ndarray, name: str) -> int:
        """The number of an array. It goes where arrays go by default, which is the host where no
        ``phix.device`` says otherwise and no tensor is elsewhere."""
        if arrays.plain_array(array) is not array or not places.is_host_alone():
            raise _NotPlain
        number = self.leaf(name)
        self.lent[number] = array
        return number

    def look(self) -> None:
        """Write how the arrays are told from others: last, as it is one call for all of them."""
        if not self.lent:
            return
        look = arrays.look(list(self.lent.values()))
        if look is None:
            raise _NotPlain
        self.checks.append(f"{self.constant(look)}({', '.join(f'a{k}' for k in self.lent)})")

    def data(self, number: int) -> str:
        """What the program is run on, of a leaf."""
        return f"a{number}" if number in self.lent else f"a{number}.data"

    # -- the result ------------------------------------------------------------------------
    def give(self, out_tree: pytrees.TreeDef, keys: Sequence[Any], data: list[str]) -> None:
        """Write how the program is run and its results put together."""
        outs = "".join(f"o{k}, " for k in range(len(keys)))
        run = f"launch({', '.join(data)})"
        if self.lent and not getattr(self.names["launch"], "makes_all", False):
            run = f"all_apart({run}, ({''.join(f'a{k}, ' for k in self.lent)}))"
        self.giving.append(f"{outs}= {run}" if outs else run)
        for k, key in enumerate(keys):
            known = "None" if key is None else self.constant(key)
            self.giving.append(
                f"r{k} = new(Tensor); r{k}.data = o{k}; r{k}.known_key = {known}; r{k}._meta = None"
            )
        leaves = [_Leaf(k) for k in range(len(keys))]
        try:
            result = self.display(pytrees.unflatten(out_tree, leaves))
        except _NotPlain:
            rebuild = self.constant(out_tree.unflatten)
            result = f"{rebuild}([{', '.join(f'r{k}' for k in range(len(keys)))}])"
        self.giving.append(f"return {result}")

    def display(self, tree: Any) -> str:
        """The tree as Python writes it."""
        kind = type(tree)
        if kind is _Leaf:
            return f"r{tree.number}"
        if tree is None:
            return "None"
        if kind is dict:
            items = (f"{self.constant(k)}: {self.display(v)}" for k, v in tree.items())
            return f"{{{', '.join(items)}}}"
        if kind not in (list, tuple):
            raise _NotPlain
        parts = "".join(f"{self.display(v)}, " for v in tree)
        return f"[{parts}]" if kind is list else f"({parts})"


class _Leaf:
    """Where a leaf of the result goes."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number
