"""``phix/ops.py`` written from the op table: one typed, documented function an op.

``python -m phix.ops`` writes it; ``python -m phix.ops --check`` exits 1 when it is stale. The
text comes out as ``ruff format`` would leave it, without needing ruff.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core.op import REQUIRED, Arg, Op, Output

if TYPE_CHECKING:
    from phix.table.entries import Entry

WIDTH = 100
OPS_FILE = Path(__file__).resolve().parents[1] / "ops.py"
HEAD = '''"""One function an op of the table in ``yaml/``.

Generated: edit the table, then write this file anew with ``python -m phix.ops``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phix.core.dispatch import bind, bind_in_place
from phix.core.faces import face
from phix.table.definition import define

if TYPE_CHECKING:
    from phix.core.arguments import DTypeLike, IntArrayLike, PlaceLike, ScalarLike
    from phix.core.dims import DimLike
    from phix.core.graph import Graph
    from phix.core.tensor import Tensor, TensorLike

if __name__ == "__main__":
    import sys

    from phix.table.codegen import main

    sys.exit(main(sys.argv[1:]))
'''
_ANNOTATIONS = {
    "Tensor": "TensorLike",
    "Tensor[]": "Sequence[TensorLike]",
    "bool": "bool",
    "str": "str",
    "DataLayout": "str",
    "IntArray": "IntArrayLike",
    "DataType": "DTypeLike",
    "Place": "PlaceLike | None",
    "Graph": "Graph",
    "Graph[]": "Sequence[Graph]",
    "Object": "object",
    "Scalar": "ScalarLike",
    **dict.fromkeys(("int[]", "int64_t[]"), "IntArrayLike"),
    **dict.fromkeys(("int", "size_t"), "int"),
    "int64_t": "DimLike",
    **dict.fromkeys(("float", "double"), "float"),
}
_MEANINGS = {
    "Tensor": "tensor",
    "Tensor[]": "sequence of tensors",
    "IntArray": "ints, a tensor of ints, or a list that mixes ints and 0-d tensors",
    "Scalar": "number or one-element tensor",
    "DataType": "dtype",
    "DataLayout": "layout",
    "Place": "place; None is the default place",
    "Graph": "graph",
    "Graph[]": "sequence of graphs",
    "Object": "hashable Python object",
    **dict.fromkeys(("int", "int64_t", "size_t"), "int"),
    **dict.fromkeys(("float", "double"), "float"),
}


_UNBROKEN: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def python_name(name: str) -> str:
    """``name``, with an underscore behind it where Python has it as a keyword."""
    return f"{name}_" if keyword.iskeyword(name) else name


def ends_arguments(op: Op) -> bool:
    """Whether the op is named as one that works in place alone, as ``sgd_`` is."""
    return bool(op.inplace) and op.name.endswith("_")


def in_place_name(op: Op) -> str | None:
    """The name of the function that works in place, beside the op's own; None where none does."""
    if not op.inplace or op.forward or ends_arguments(op):
        return None
    return f"{python_name(op.name)}_"


def _base(type_name: str) -> str:
    return "Scalar" if type_name.startswith("Scalar(") else type_name


def _annotation(arg: Arg) -> str:
    base = _base(arg.type)
    if base in _ANNOTATIONS:
        text = _ANNOTATIONS[base]
    else:
        element = _ANNOTATIONS[base[:-2]]
        text = f"Sequence[{element}]" if element == "str" else f"{element} | Sequence[{element}]"
    none = arg.optional or (arg.type == "DataType" and arg.default is None)
    return f"{text} | None" if none and "None" not in text else text


class _Code(str):
    """Source text, as opposed to a string that source text would quote."""


def literal(value: Any) -> str:
    """Python source of a default or fact, in double quotes as ruff writes it."""
    if isinstance(value, _Code):
        return value
    if isinstance(value, np.dtype):
        return literal(str(value))
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + escaped.replace(quote, f"\\{quote}") + quote


def _call(head: str, items: Sequence[tuple[str, Any]], tail: str = "", indent: str = "") -> str:
    """``head(items)tail``, an item being a prefix and a value, broken as ruff breaks it.

    That is on one line, or with all items on the next, or with one item a line.
    """
    flat = ", ".join(prefix + literal(value) for prefix, value in items)
    inner = indent + "    "
    if len(indent) + len(head) + len(flat) + len(tail) + 2 <= WIDTH:
        return f"{indent}{head}({flat}){tail}"
    if len(items) > 1 and len(inner) + len(flat) <= WIDTH:
        return f"{indent}{head}(\n{inner}{flat}\n{indent}){tail}"
    rows = "".join(_broken(prefix, value, inner) for prefix, value in items)
    return f"{indent}{head}(\n{rows}{indent}){tail}"


def _broken(prefix: str, value: Any, indent: str, suffix: str = ",") -> str:
    """``prefix`` and the literal on lines of their own, containers opened where they must be."""
    line = f"{indent}{prefix}{literal(value)}{suffix}"
    inner = indent + "    "
    if len(line) <= WIDTH:
        return line + "\n"
    if isinstance(value, tuple):
        rows = "".join(_broken("", item, inner) for item in value)
        return f"{indent}{prefix}(\n{rows}{indent}){suffix}\n"
    if isinstance(value, dict):
        rows = "".join(_broken(f"{literal(k)}: ", item, inner) for k, item in value.items())
        return f"{indent}{prefix}{{\n{rows}{indent}}}{suffix}\n"
    if isinstance(value, _Code) or not isinstance(value, str):
        return line + "\n"
    if not prefix:
        width = WIDTH - len(indent)
        return "\n".join(indent + piece for piece in _pieces(value, width - 1)) + f"{suffix}\n"
    rows = "".join(f"{inner}{piece}\n" for piece in _pieces(value, WIDTH - len(inner)))
    return f"{indent}{prefix}(\n{rows}{indent}){suffix}\n"


def _pieces(text: str, width: int) -> list[str]:
    """Literals of at most that width that together are the text, broken at spaces."""
    lines, line = [], ""
    for word in re.findall(r"[^ ]+ ?| ", text):
        if line and len(_string(line + word)) > width:
            lines.append(_string(line))
            line = word
        else:
            line += word
    return [*lines, _string(line)]


def _definition(entry: Entry) -> str:
    facts = {key: value for key, value in entry.facts.items() if key != "doc"}
    if "doc" in entry.facts:
        facts["doc"] = entry.facts["doc"]
    items = [("", entry.name), ("", entry.args_text), ("", entry.output_text)]
    items += [(f"{key}=", value) for key, value in {**facts, "where": entry.where}.items()]
    return _call(f"_{entry.name} = define", items)


def _parameters(op: Op) -> list[tuple[str, Any]]:
    """A default holds only where nothing required follows, as Python wants it."""
    parameters: list[tuple[str, Any]] = []
    open_end = True
    for arg in reversed(op.args):
        default = None if arg.optional else arg.default
        open_end = open_end and default is not REQUIRED
        text = f"{python_name(arg.name)}: {_annotation(arg)}"
        parameters.append(("", _Code(f"{text} = {literal(default)}" if open_end else text)))
    return parameters[::-1]


def _public(op: Op) -> list[int]:
    """Positions of the outputs a caller gets; all of them if each is intermediate."""
    shown = [i for i, o in enumerate(op.outputs) if not o.intermediate]
    return shown or list(range(len(op.outputs)))


def _output_annotation(output: Output) -> str:
    text = "tuple[Tensor, ...]" if output.is_list else "Tensor"
    return f"{text} | None" if output.optional else text


def _result_annotation(op: Op) -> str:
    texts = [_output_annotation(op.outputs[i]) for i in _public(op)]
    if len(texts) == 1:
        return texts[0]
    flat = f"tuple[{', '.join(texts)}]"
    rows = "".join(f"    {text},\n" for text in texts)
    return flat if len(flat) + len(") -> :") <= WIDTH else f"tuple[\n{rows}]"


def _body(op: Op, bind: str) -> list[str]:
    """The call of ``bind``, and the choice of the public outputs among all of them."""
    inputs, attrs = ([a.name for a in args] for args in (op.inputs, op.attrs))
    items = [("", _Code(f"_{op.name}")), ("", _tuple(inputs)), ("", _tuple(attrs))]
    shown = _public(op)
    if len(shown) == len(op.outputs):
        select = ""
    elif len(shown) == 1:
        select = f"[{shown[0]}]"
    elif shown == list(range(len(shown))):
        select = f"[:{len(shown)}]"
    else:
        picked = ", ".join(f"outputs[{i}]" for i in shown)
        return [_call(f"outputs = {bind}", items, "", "    "), f"    return {picked}"]
    return [_call(f"return {bind}", items, select, "    ")]


def _tuple(names: list[str]) -> tuple[_Code, ...]:
    return tuple(_Code(python_name(n)) for n in names)


def _docstring(entry: Entry, op: Op) -> str:
    doc = entry.facts.get("doc")
    if doc is None:
        doc = f"Backward of :func:`{op.forward}`." if op.forward else f"The op {op.name}."
    text = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    text = f" {text}" if text.startswith('"') else text
    lines = textwrap.wrap(f'    """{text}', WIDTH, subsequent_indent="    ", **_UNBROKEN)
    if op.args:
        lines += ["", "    Args:"]
    for arg in op.args:
        line = f"{python_name(arg.name)}: {_meaning(arg, op, entry.facts.get('dtypes', ()))}."
        lines += textwrap.wrap(
            line, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12, **_UNBROKEN
        )
    shown = [op.outputs[i].name for i in _public(op)]
    if len(shown) > 1:
        lines += ["", "    Returns:"]
        lines += textwrap.wrap(
            f"{', '.join(shown)}.", WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    if len(lines) > 1 or len(lines[0]) + 3 > WIDTH:
        return "\n".join([*lines, '    """'])
    return lines[0] + (' """' if text.endswith('"') else '"""')


def _meaning(arg: Arg, op: Op, groups: Sequence[str]) -> str:
    base = _base(arg.type)
    text = _MEANINGS.get(base) or (
        f"sequence of {_MEANINGS.get(base[:-2], base[:-2])}s" if base.endswith("[]") else base
    )
    if arg.is_tensor and groups and (not op.promoted or arg.name in op.promoted):
        text += f", {_listed(groups)}"
    return f"{text}, may be None" if arg.optional else text


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _function(entry: Entry, op: Op) -> str:
    tail = f" -> {_result_annotation(op)}:"
    head = _call(f"def {python_name(op.name)}", _parameters(op), tail)
    bind = "bind_in_place" if ends_arguments(op) else "bind"
    return "\n".join([head, _docstring(entry, op), *_body(op, bind)])


def _in_place_function(op: Op) -> str:
    """The function that works in place."""
    tail = f" -> {_result_annotation(op)}:"
    head = _call(f"def {in_place_name(op)}", _parameters(op), tail)
    given = " and ".join(source for source, _ in op.inplace)
    text = f":func:`{python_name(op.name)}` in the memory of {given}, not to be used after it."
    doc = textwrap.wrap(f'    """{text}"""', WIDTH, subsequent_indent="    ", **_UNBROKEN)
    return "\n".join([head, *doc, *_body(op, "bind_in_place")])


def _functions(entry: Entry, op: Op) -> list[str]:
    own = [_function(entry, op)]
    return own if in_place_name(op) is None else [*own, _in_place_function(op)]


def names_of(op: Op) -> list[str]:
    """The names of the op's functions."""
    other = in_place_name(op)
    return [python_name(op.name), *([] if other is None else [other])]


def render(entries: Sequence[Entry]) -> str:
    """The text of ``phix/ops.py``."""
    ops = [entry.op() for entry in entries]
    names = sorted((name for op in ops for name in names_of(op)), key=_natural)
    parts = [HEAD, _all(names)]
    for entry, op in zip(entries, ops):
        functions = "\n\n\n".join(_functions(entry, op))
        parts.append(f"\n{_definition(entry)}\n\n\n{functions}\n")
    return "\n".join(parts)


def _natural(name: str) -> list[tuple[int, int | str]]:
    """Sorts as ruff does: numbers inside a name by value, log2 before log10."""
    parts = re.findall(r"\d+|\D", name)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _all(names: list[str]) -> str:
    rows = "".join(f"    {literal(name)},\n" for name in names)
    return f"__all__ = [\n{rows}]\n__dir__ = face(__all__)\n"


def functions_for(entry: Entry, op: Op) -> dict[str, Callable[..., Any]]:
    """The functions ``phix/ops.py`` would have for the entry, by name, bound to ``op``."""
    from phix.core.dispatch import bind, bind_in_place

    source = "\n".join(["from __future__ import annotations", *_functions(entry, op)])
    scope: dict[str, Any] = {f"_{op.name}": op, "__name__": "phix.ops"}
    scope |= {"bind": bind, "bind_in_place": bind_in_place}
    # Named like a file of phix, so that the search for the user's line passes over it.
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    exec(compile(source, os.path.join(folder, f"<{entry.where}>"), "exec"), scope)
    return {name: scope[name] for name in names_of(op)}


def main(arguments: Sequence[str] = ()) -> int:
    """Write ``phix/ops.py``; with ``--check``, only say whether it is up to date."""
    from phix.core.errors import OpTableError
    from phix.table import stubs
    from phix.table.loader import read_table

    if list(arguments) not in ([], ["--check"]):
        print("usage: python -m phix.ops [--check]", file=sys.stderr)
        return 2
    try:
        text = render(read_table())
    except OpTableError as error:
        print(error, file=sys.stderr)
        return 1
    fresh = OPS_FILE.exists() and OPS_FILE.read_text(encoding="utf-8") == text
    if not stubs.write(text, check=bool(arguments)) and arguments:
        fresh = False
    if arguments and not fresh:
        print("phix/ops.py is stale; run `python -m phix.ops`", file=sys.stderr)
        return 1
    if not fresh:
        compile(text, str(OPS_FILE), "exec")
        # In one step, so that a process that imports phix meanwhile sees a whole file.
        fresh_file = OPS_FILE.with_suffix(f".{os.getpid()}.tmp")
        fresh_file.write_text(text, encoding="utf-8")
        os.replace(fresh_file, OPS_FILE)
    return 0
