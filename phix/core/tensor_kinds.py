"""Kinds of tensors besides dense ones: an entry of the table says which kernel is for which.

``kernel: func: scale {dense -> dense}, scale_sr {selected_rows -> selected_rows}`` has a function
named ``scale_sr`` for calls on objects of the kind ``selected_rows``. Such an object is a pytree of
dense tensors and the function is made of ops, so that it is compiled, differentiated and batched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import optree

from phix.core import pytrees, registries, rule_modules
from phix.core.attrs import convert
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    KernelError,
    KernelNotFoundError,
    KernelRegistrationError,
    shown,
)
from phix.core.given import CLASS, FUNCTION, NONE, Kind, named, naming, takes, wrong
from phix.core.op import Op

DENSE = "dense"
_Function = TypeVar("_Function", bound=Callable[..., Any])

KINDS: dict[type, str] = {}
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_OF_OPS: dict[str, dict[str, Callable[..., Any]]] = {}
registries.contents(KINDS, _FUNCTIONS, _OF_OPS)


def _are_functions(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and callable(each) for name, each in value.items()
    )


@takes(cls=CLASS, functions=Kind("a dict of functions by names of ops", _are_functions) | NONE)
def add_kind(
    name: str, cls: type, functions: Mapping[str, Callable[..., Any]] | None = None
) -> None:
    """Make objects of a class tensors of a kind, which entries of tables name in their kernels.

    The class is to be a pytree of tensors: see ``phix.tree.register``. ``functions`` has by names
    of ops what calls with such tensors run where the entry says nothing: they take the op's args
    in their order, and see to other kinds and to dense tensors beside theirs.

    Raises:
        KernelRegistrationError: the name or the class is known.

    >>> import phix
    >>> class Rows: ...
    >>> with phix.scoped_registries():
    ...     phix.kernels.add_kind("rows", Rows)
    """
    if not name.isidentifier() or name == DENSE or name in KINDS.values() or cls in KINDS:
        raise KernelRegistrationError(
            f"no kind of tensors {shown(name)} for {cls.__name__}: the name or the class is taken, "
            f"or it is no name; there are {', '.join((DENSE, *KINDS.values()))}"
        )
    KINDS[cls] = name
    _OF_OPS[name] = dict(functions or {})


@takes()
def kind_kernel(name: str) -> Callable[[_Function], _Function]:
    """Register the decorated function under a name that an entry has for tensors of other kinds.

    It takes the op's args in their order, tensors of other kinds as their objects, and gives the
    outputs, made of ops.

    Raises:
        KernelRegistrationError: there is one of that name.
    """

    @named("kind_kernel", of_ops=True)
    def decorator(function: _Function) -> _Function:
        if not FUNCTION.holds(function):
            raise wrong("kind_kernel", "what is decorated", FUNCTION, function)
        rule_modules.import_before(function, rule_modules.KIND_KERNELS)
        if name in _FUNCTIONS:
            there = _FUNCTIONS[name].__module__
            raise KernelRegistrationError(f"kernel {name!r} is registered already, in {there}")
        _FUNCTIONS[name] = function
        return function

    return decorator


def concerns(inputs: tuple[Any, ...]) -> bool:
    """Whether one of the inputs is of another kind than dense."""
    return any(_kind(x) != DENSE for x in inputs)


def dense(x: Any) -> Any:
    """x, as a dense tensor if it is of another kind and can be one."""
    return x.to_dense() if type(x) in KINDS and hasattr(x, "to_dense") else x


def dense_tree(tree: Any, only: str | None = None) -> Any:
    """A tree whose tensors of other kinds, or of one of them only, are made dense."""
    kinds = [cls for cls, name in KINDS.items() if only in (None, name)]
    if not kinds:
        return tree

    def is_meant(x: Any) -> bool:
        return type(x) in kinds

    try:
        return optree.tree_map(
            lambda x: dense(x) if is_meant(x) else x,
            tree,
            is_leaf=is_meant,
            namespace=pytrees.NAMESPACE,
        )
    except RecursionError:
        pytrees.flatten(tree)  # which says so
        raise


def checked_factor(number: Any, divides: bool = False) -> Any:
    """A number that zeros which are not stored stay zeros under; numbers alone are looked at, not
    what tensors hold.

    Raises:
        AttributeValueError: it is NaN, an infinite factor or a divisor of 0, and makes NaN of them.
    """
    if not isinstance(number, (float, complex, int, np.number)):
        return number
    safe = not np.isnan(number) and (number != 0 if divides else np.isfinite(number))
    if not safe:
        how = "divided" if divides else "multiplied"
        raise AttributeValueError(
            f"zeros that are not stored would be NaN when {how} by {number}; write x.to_dense() "
            "first, or change the stored values alone"
        )
    return number


def _kind(value: Any) -> str:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return KINDS.get(type(first), DENSE)


def call(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """A call of ``op`` on tensors of other kinds.

    Raises:
        ArgumentError: the entry of the op has no kernel for these kinds, or a list is of several.
        KernelNotFoundError: it names one that is not registered.
        KernelError: that gave other kinds than the entry says.
    """
    kinds = tuple(map(_kind, inputs))
    rows = op.kernel.get("func", ())
    row = next((r for r in rows if (r[1] or (DENSE,) * len(kinds)) == kinds), None)
    if row is None:
        own = next((_OF_OPS[k].get(op.name) for k in kinds if k != DENSE), None)
        if own is not None:
            return own(*op.merge(inputs, convert(op, attrs)))
        known = ", ".join(f"{n} {{{', '.join(i)} -> {', '.join(o)}}}" for n, i, o in rows if i)
        raise ArgumentError(
            f"{op.name}: no kernel takes tensors of the kinds ({', '.join(kinds)}); its entry has "
            f"{known or 'those for dense ones alone'}"
        )
    name, _, wanted = row
    rule_modules.import_for(rule_modules.KIND_KERNELS)
    if name not in _FUNCTIONS:
        raise KernelNotFoundError(
            f"{op.name}: no kernel {name!r} for tensors of the kinds ({', '.join(kinds)}); "
            f"register one with @phix.kernels.kind_kernel({name!r})"
        )
    for arg, value in zip(op.inputs, inputs):
        within = {_kind(x): x for x in value} if isinstance(value, (list, tuple)) else {}
        if len(within) > 1:
            raise ArgumentError(
                f"{op.name}: {arg.name} has tensors of the kinds ({', '.join(within)}), and the "
                f"kernel {name!r} takes one kind; bring them to one, as by x.to_dense()"
            )
    with naming(op.name):
        outs = _FUNCTIONS[name](*op.merge(inputs, convert(op, attrs)))
    found = tuple(map(_kind, (outs,) if len(op.outputs) == 1 else outs))
    if found != wanted:
        raise KernelError(
            f"the kernel {name!r} of {op.name!r} gave tensors of the kinds ({', '.join(found)}); "
            f"its entry says ({', '.join(wanted)})"
        )
    return outs
