"""The op table extended at run time: ``phix.load_ops``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from phix.core import registries
from phix.core.given import Kind, takes
from phix.core.op import Op
from phix.core.operators import install_methods, remove_method
from phix.core.rules import OPS, add_op
from phix.table import invoke as invoking
from phix.table.schema import parse_call

if TYPE_CHECKING:
    from pathlib import Path

    from phix.table.entries import Entry


@registries.part
def _as_they_are() -> Callable[[], None]:
    """The functions in ``phix.ops`` and the methods of tensors."""
    module = sys.modules.get("phix.ops")
    names = [] if module is None else list(module.__all__)

    def restore() -> None:
        if module is not None:
            for name in module.__all__[len(names) :]:
                remove_method(name, vars(module).get(name))
                vars(module).pop(name, None)
            module.__all__[:] = names

    return restore


@takes(path=Kind("a path", lambda v: isinstance(v, (str, os.PathLike))))
def load_ops(path: str | Path) -> SimpleNamespace:
    """Extend the op table by a yaml file (or a folder of them), at run time.

    Returns:
        A namespace with one function an op, signatures as in ``phix.ops``, where they are
        found too from then on.

    Raises:
        OpTableError: something is wrong with an entry, or its name is taken; nothing is added.

    >>> from pathlib import Path
    >>> import phix
    >>> entry = "- {op: twice, args: (Tensor x), output: Tensor(out)}"
    >>> _ = Path("my_ops.yaml").write_text(entry)
    >>> my_ops = phix.load_ops("my_ops.yaml")
    >>> @phix.core.rules.decompose("twice")
    ... def twice(x):
    ...     return x + x
    >>> my_ops.twice(1.5).item()
    3.0
    """
    from phix.table.codegen import names_of
    from phix.table.loader import read_table

    entries = read_table(path, OPS)
    ops_module = sys.modules.get("phix.ops")
    ops = [entry.op() for entry in entries]
    functions: dict[str, Any] = {}
    for entry, op in zip(entries, ops):
        for name in names_of(op):
            if hasattr(ops_module, name) or name in functions:
                raise entry.error(
                    "op", f"the name {name!r} is taken in phix.ops; give the op another one"
                )
        functions |= functions_for(entry, op)
    for op in ops:
        if op.invoke is not None and op.decomposition is None:
            known = {**OPS, **{other.name: other for other in ops}}
            if parse_call(op.invoke)[0] in known:
                op.decomposition = invoking.decomposition(op)
        add_op(op)
    if ops_module is not None:
        vars(ops_module).update(functions)
        ops_module.__all__.extend(functions)
        install_methods(ops_module)
    return SimpleNamespace(**functions)


def functions_for(entry: Entry, op: Op) -> dict[str, Callable[..., Any]]:
    """The functions ``phix/ops.py`` would have for the entry, by name, bound to ``op``."""
    from phix.core.dispatch import bind, bind_in_place
    from phix.table.codegen import functions, names_of

    source = "\n".join(["from __future__ import annotations", *functions(entry, op)])
    scope: dict[str, Any] = {f"_{op.name}": op, "__name__": "phix.ops"}
    scope |= {"bind": bind, "bind_in_place": bind_in_place}
    # Named like a file of phix, so that the search for the user's line passes over it.
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    exec(compile(source, os.path.join(folder, f"<{entry.where}>"), "exec"), scope)
    return {name: scope[name] for name in names_of(op)}
