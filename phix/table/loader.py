"""The op table: files of entries read, and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping as MappingLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from phix.core.errors import OpTableError
from phix.core.op import REQUIRED, Arg, Op
from phix.table import invoke as invoking
from phix.table.schema import nearest, parse_call, parse_forward

if TYPE_CHECKING:
    from phix.table.entries import Entry

_PACKAGE = Path(__file__).resolve().parents[1]
# An installed phix brings the table inside the package; a checkout has it beside the package.
TABLE = next((p for p in [_PACKAGE / "yaml"] if p.is_dir()), _PACKAGE.parent / "yaml")


def read_table(
    path: str | Path = TABLE, known: MappingLike[str, Op] = MappingProxyType({})
) -> list[Entry]:
    """The entries of a yaml file, or of all ``*.yaml`` files of a folder, in order.

    They may name ops that are known already, but not define them again.

    Raises:
        OpTableError: an entry that is wrong; the text starts with ``file:line``, says what was
            found and what to write instead.
    """
    path = Path(path)
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not files:
        raise OpTableError(f"{path}: no op table: the folder holds no *.yaml file")
    entries = [entry for file in files for entry in _read_file(file)]
    first: dict[str, Entry] = {}
    for entry in entries:
        there = first.get(entry.name) or known.get(entry.name)
        if there is not None:
            raise entry.error(
                "op",
                f"duplicate op {entry.name!r}, in the table already at {there.where}; "
                "give this entry another name or remove it",
            )
        first[entry.name] = entry
    ops = {**known, **{entry.name: entry.op() for entry in entries}}
    for entry in entries:
        _check_backward_exists(entry, ops)
        _check_invoke(entry, ops)
        if entry.is_backward:
            check_forward(entry, ops)
            check_backward_args(entry)
    return entries


def _shown(file: Path) -> str:
    """The file as messages name it: relative to the repository if it lies there."""
    try:
        return file.resolve().relative_to(TABLE.parent).as_posix()
    except ValueError:
        return str(file)


def _read_file(file: Path) -> list[Entry]:
    from phix.table import entries as en
    from phix.table.yaml_reader import Mapping, read_yaml

    shown = _shown(file)
    try:
        document = read_yaml(file.read_text(encoding="utf-8"), shown)
    except OSError as error:
        raise OpTableError(f"{file}: no op table: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OpTableError(f"{file}: no op table: the file is not UTF-8") from None
    defaults = Mapping(1)
    if isinstance(document, Mapping):
        for key, line in document.lines.items():
            if key not in ("defaults", "ops"):
                raise OpTableError(
                    f"{shown}:{line}: unknown key {key!r} at the head of a table; write a list of "
                    "entries, or `defaults:` and `ops:`"
                )
        defaults = document.get("defaults", defaults)
        if not isinstance(defaults, Mapping):
            raise OpTableError(
                f"{shown}:{document.lines['defaults']}: `defaults` is no mapping; "
                "write `defaults: {family: pointwise}`"
            )
        en.check_keys(defaults, en.DEFAULT_KEYS, shown)
        document = document.get("ops", [])
    if document is None:
        return []
    if not isinstance(document, list):
        raise OpTableError(f"{shown}:1: no list of entries; write `- op: name`")
    read = []
    for position, source in enumerate(document):
        if not isinstance(source, Mapping):
            raise OpTableError(
                f"{shown}: entry {position + 1} is no mapping; write `- op: name` with its keys"
            )
        merged = en.merge_defaults(en.modern(source, shown), defaults, shown)
        read.append(en.read_entry(merged, shown))
    return read


def _check_backward_exists(entry: Entry, ops: MappingLike[str, Op]) -> None:
    backward = entry.facts.get("backward")
    if backward is not None and backward not in ops:
        raise entry.error(
            "backward",
            f"op {entry.name!r} names backward {backward!r}, which has no entry; "
            f"add `- backward_op: {backward}`",
        )


def _check_invoke(entry: Entry, ops: MappingLike[str, Op]) -> None:
    """The call under ``invoke`` fits, if it is one of an op: Paddle's may be C++ functions."""
    op = ops[entry.name]
    target = ops.get(parse_call(op.invoke)[0]) if op.invoke is not None else None
    if target is not None:
        try:
            invoking.check(op, target)
        except OpTableError as error:
            raise entry.error("invoke", str(error)) from None


def check_forward(entry: Entry, ops: MappingLike[str, Op]) -> None:
    """The forward string agrees with the forward's entry, and that entry names this backward.

    As in PHI, types agree in order, attributes at the end may be left out, defaults are not
    repeated, and a name may differ: ``forward_names`` of the op keeps those that do.
    """
    name, args, outputs = parse_forward(entry.forward_text)
    op = ops.get(name)
    if op is None:
        raise entry.error(
            "forward",
            f"{entry.name!r} is the backward of {name!r}, which has no entry; add `- op: {name}`",
        )
    tensors = [a for a in args if a.is_tensor]
    attrs = [a for a in args if not a.is_tensor]
    agree = (
        [a.type for a in tensors] == [a.type for a in op.inputs]
        and [_kind(a) for a in attrs] == [_kind(a) for a in op.attrs[: len(attrs)]]
        and [o.is_list for o in outputs] == [o.is_list for o in op.outputs]
    )
    if not agree:
        raise entry.error(
            "forward",
            f"the forward of {entry.name!r} disagrees with the entry of {name!r} at {op.where}; "
            f"write `forward: {_forward_text(op)}`",
        )
    if op.backward != entry.name:
        raise entry.error(
            "forward",
            f"{entry.name!r} is the backward of {name!r}, but its entry at {op.where} names "
            f"{op.backward or 'none'}; write `backward: {entry.name}` there",
        )
    own = [a.name for a in (*tensors, *attrs)] + [o.name for o in outputs]
    real = [a.name for a in (*op.inputs, *op.attrs[: len(attrs)])] + [o.name for o in op.outputs]
    own += [f"{o.name}_grad" for o in outputs]
    real += [f"{o.name}_grad" for o in op.outputs]
    renamed = tuple((a, b) for a, b in zip(own, real) if a != b)
    if renamed:
        entry.facts["forward_names"] = renamed


def _kind(arg: Arg) -> str:
    return "Scalar" if arg.type.startswith("Scalar(") else arg.type


def _forward_text(op: Op) -> str:
    args = ", ".join(f"{a.type} {a.name}" for a in op.args)
    outs = ", ".join(f"{'Tensor[]' if o.is_list else 'Tensor'}({o.name})" for o in op.outputs)
    return f"{op.name} ({args}) -> {outs}"


def check_backward_args(entry: Entry) -> None:
    """Args come from the forward's inputs, outputs, attributes and its outputs' gradients, and
    the outputs are gradients of its inputs.

    An attribute with a default may be the backward's own, as in PHI.
    """
    _, args, outputs = parse_forward(entry.forward_text)
    known = [a.name for a in args] + [o.name for o in outputs]
    known += [f"{o.name}_grad" for o in outputs]
    for arg in entry.args:
        if arg.name not in known and (arg.is_tensor or arg.default is REQUIRED):
            raise entry.error(
                "args",
                f"{entry.name!r} takes {arg.name!r}, which is no input, output or attribute of "
                f"its forward, nor the gradient of an output; write {nearest(arg.name, known)!r}, "
                f"one of {', '.join(known)}",
            )
    gradients = [f"{a.name}_grad" for a in args if a.is_tensor]
    for output in entry.outputs:
        if output.name not in gradients:
            raise entry.error(
                "output",
                f"{entry.name!r} gives {output.name!r}, which is the gradient of no input of its "
                f"forward; write `Tensor({nearest(output.name, gradients)})`"
                if gradients
                else f"{entry.name!r} gives {output.name!r}, but its forward has no inputs",
            )
