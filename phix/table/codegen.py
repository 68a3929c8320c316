"""The text of ``phix/ops.py`` written from the op table: one documented function an op.

What users call is typed, and says in its docstring what it takes. A backward op is called by rules
and interpreters: its function is a line that they, and whoever looks for it, can call.
"""

from __future__ import annotations

import itertools
import keyword
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core.op import REQUIRED, Arg, Op, Output

if TYPE_CHECKING:
    from phix.table.entries import Entry

WIDTH = 100
HEAD = '''"""One function an op of the table in ``yaml/``.

Generated: edit the table, then write this file anew with ``make ops``.
"""

# fmt: off
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phix.core.dispatch import bind, bind_in_place
from phix.core.faces import face
from phix.table.definition import definer

if TYPE_CHECKING:
    from phix.core.annotations import DTypeLike, FloatLike, IntArrayLike, PlaceLike, ScalarLike
    from phix.core.dims import DimLike
    from phix.core.graph import Graph
    from phix.core.tensor import Tensor, TensorLike
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
    **dict.fromkeys(("float", "double"), "FloatLike"),
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
    **dict.fromkeys(("float", "double"), "float or one-element tensor"),
}


_INDENT = "    "
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


def _annotation(arg: Arg, op: Op) -> str:
    base = _base(arg.type)
    if base in _ANNOTATIONS:
        text = _ANNOTATIONS[base]
    else:
        element = _ANNOTATIONS[base[:-2]]
        text = f"Sequence[{element}]" if element == "str" else f"{element} | Sequence[{element}]"
    none = arg.optional or op.takes_none(arg)
    return f"{text} | None" if none and "None" not in text else text


def literal(value: Any) -> str:
    """Python source of a default or fact, in double quotes as ruff writes it."""
    if isinstance(value, np.dtype):
        return literal(str(value))
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + escaped.replace(quote, f"\\{quote}") + quote


def _pieces(text: str, width: int) -> list[str]:
    """Literals that together are the text, broken after commas where they exceed the width."""
    lines, line = [], ""
    for word in re.split(r"(?<=, )", text):
        if line and len(_string(line + word)) > width:
            lines.append(_string(line))
            line = word
        else:
            line += word
    return [*lines, _string(line)]


def _words(prefix: str, value: Any, closing: int = 0) -> list[str]:
    """``prefix`` and the literal of ``value``: one word, or several if no line would hold it.

    ``closing`` is how many characters, such as brackets, may have to stand beside it.
    """
    flat = prefix + literal(value)
    if (
        len(flat) < WIDTH - len(_INDENT) - closing
        or not value
        or not isinstance(value, (str, tuple, dict))
    ):
        return [flat]
    if isinstance(value, str):
        words = _pieces(value, WIDTH - len(f"{_INDENT},"))
    elif isinstance(value, tuple):
        words = _joined([_words("", item, closing + len(prefix) + 2) for item in value])
        words = _closed("(", words, ",)" if len(value) == 1 else ")")
    else:
        room = closing + len(prefix) + 1
        words = _joined([_words(f"{literal(k)}: ", item, room) for k, item in value.items()])
        words = _closed("{", words, "}")
    return [prefix + words[0], *words[1:]]


def _closed(start: str, words: list[str], end: str) -> list[str]:
    """The words, of which the first and the last may be one, in brackets."""
    words = [start + words[0], *words[1:]]
    return [*words[:-1], words[-1] + end]


def _joined(items: Sequence[list[str]]) -> list[str]:
    """The words of all items, a comma behind each item but the last."""
    words = [word for item in items[:-1] for word in (*item[:-1], f"{item[-1]},")]
    return words + items[-1] if items else []


def _call(head: str, items: Sequence[list[str]], tail: str = "", indent: str = "") -> str:
    """``head(items)tail``, on one line or filled into several."""
    words = _joined(items)
    flat = f"{indent}{head}({' '.join(words)}){tail}"
    if len(flat) <= WIDTH:
        return flat
    rows = _filled(words, WIDTH - len(indent + _INDENT))
    return "\n".join(
        [f"{indent}{head}(", *(f"{indent}{_INDENT}{row}" for row in rows), f"{indent}){tail}"]
    )


def _filled(words: Iterable[str], width: int) -> list[str]:
    """Rows of as many words as each holds."""
    rows: list[str] = []
    for word in words:
        if rows and len(rows[-1]) + 1 + len(word) <= width:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    return rows


def _definition(entry: Entry, shared: Mapping[str, Any]) -> str:
    items = [_words("", text) for text in (entry.name, entry.args_text, entry.output_text)]
    for key, value in entry.facts.items():
        if key != "doc" and (key not in shared or shared[key] != value):
            items.append(_words(f"{key}=", value))
    return _call(f"_{entry.name} = define", items)


def _parameters(op: Op, typed: bool = True) -> list[list[str]]:
    """A default holds only where nothing required follows, as Python wants it."""
    parameters: list[list[str]] = []
    open_end = True
    for arg in reversed(op.args):
        default = None if arg.optional else arg.default
        open_end = open_end and default is not REQUIRED
        text = python_name(arg.name)
        if typed:
            text += f": {_annotation(arg, op)}"
        if open_end:
            text += f"{' = ' if typed else '='}{_default_text(arg, default)}"
        parameters.append([text])
    return parameters[::-1]


def _default_text(arg: Arg, default: Any) -> str:
    """A default as Python source; FLOAT32 of a dtype is ``float``, whatever that is set to."""
    return "float" if arg.type == "DataType" and default == "float32" else literal(default)


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


def _body(op: Op, bind: str) -> str:
    """The call of ``bind``, and the choice of the public outputs among all of them."""
    items = [[f"_{op.name}"], _names(op.inputs), _names(op.attrs)]
    shown = _public(op)
    if len(shown) == len(op.outputs):
        select = ""
    elif len(shown) == 1:
        select = f"[{shown[0]}]"
    elif shown == list(range(len(shown))):
        select = f"[:{len(shown)}]"
    else:
        picked = ", ".join(f"outputs[{i}]" for i in shown)
        return _call(f"outputs = {bind}", items, "", "    ") + f"\n    return {picked}"
    return _call(f"return {bind}", items, select, "    ")


def _names(args: Sequence[Arg]) -> list[str]:
    """The words of a tuple of the variables that the args are."""
    names = [python_name(a.name) for a in args]
    flat = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
    return [flat] if len(flat) < WIDTH - 2 * len(_INDENT) else flat.split(" ")


def _docstring(entry: Entry, op: Op) -> str:
    doc = entry.facts.get("doc", f"The op {op.name}.")
    text = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    text = f" {text}" if text.startswith('"') else text
    lines = textwrap.wrap(f'    """{text}', WIDTH, subsequent_indent="    ", **_UNBROKEN)
    if op.args:
        lines += ["", "    Args:"]
    groups = entry.facts.get("dtypes", ())
    for meaning, args in itertools.groupby(op.args, lambda arg: _meaning(arg, op, groups)):
        line = f"{', '.join(python_name(a.name) for a in args)}: {meaning}."
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
    none = arg.optional or op.takes_none(arg)
    return f"{text}, may be None" if none and "None" not in text else text


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _function(entry: Entry, op: Op) -> str:
    bind = "bind_in_place" if ends_arguments(op) else "bind"
    tail = f" -> {_result_annotation(op)}:"
    head = _call(f"def {python_name(op.name)}", _parameters(op), tail)
    return f"{head}\n{_docstring(entry, op)}\n{_body(op, bind)}"


def _backward_function(op: Op) -> str:
    """What rules and interpreters call: neither types nor words about each argument."""
    head = _call(f"def {python_name(op.name)}", _parameters(op, typed=False), ":")
    return f'{head}\n    """Backward of :func:`{op.forward}`."""\n{_body(op, "bind")}'


def _in_place_function(op: Op) -> str:
    """The function that works in place."""
    tail = f" -> {_result_annotation(op)}:"
    head = _call(f"def {in_place_name(op)}", _parameters(op), tail)
    given = " and ".join(source for source, _ in op.inplace)
    text = f":func:`{python_name(op.name)}` in the memory of {given}, not to be used after it."
    doc = textwrap.wrap(f'    """{text}"""', WIDTH, subsequent_indent="    ", **_UNBROKEN)
    return "\n".join([head, *doc, _body(op, "bind_in_place")])


def functions(entry: Entry, op: Op) -> list[str]:
    """The text of each function of the entry."""
    if op.forward is not None:
        return [_backward_function(op)]
    own = [_function(entry, op)]
    return own if in_place_name(op) is None else [*own, _in_place_function(op)]


def names_of(op: Op) -> list[str]:
    """The names of the op's functions."""
    other = in_place_name(op)
    return [python_name(op.name), *([] if other is None else [other])]


def render(entries: Sequence[Entry]) -> str:
    """The text of ``phix/ops.py``."""
    parts = [HEAD, _all(sorted((n for e in entries for n in names_of(e.op())), key=_natural))]
    for file, group in itertools.groupby(entries, lambda entry: entry.file):
        parts.append(_section(file, list(group)))
    return "\n".join(parts)


def _section(file: str, entries: list[Entry]) -> str:
    """The ops of one file of the table, facts that all of them have said once."""
    families = {entry.facts.get("family") for entry in entries}
    shared = {"family": families.pop()} if len(families) == 1 else {}
    head = [_words(f"{key}=", value) for key, value in shared.items() if value is not None]
    text = f"\n# -- {file} {'-' * (WIDTH - len(f'# -- {file} '))}\n"
    text += _call("define = definer", [[literal(file)], *head]) + "\n"
    for entry in entries:
        op = entry.op()
        text += "\n".join(["", _definition(entry, shared), "\n\n".join(functions(entry, op)), ""])
    return text


def _natural(name: str) -> list[tuple[int, int | str]]:
    """Sorts as ruff does: numbers inside a name by value, log2 before log10."""
    parts = re.findall(r"\d+|\D", name)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _all(names: list[str]) -> str:
    """A row for each two letters that names begin with, so that a new name moves few others."""
    text = "__all__ = [\n"
    for _, group in itertools.groupby(names, lambda name: name[:2]):
        rows = _filled([f"{literal(name)}," for name in group], WIDTH - len(_INDENT))
        text += "".join(f"{_INDENT}{row}\n" for row in rows)
    return text + "]\n__dir__ = face(__all__)\n"
