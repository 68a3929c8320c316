"""The strings of the op table: argument lists, outputs, forward signatures, default values.

The grammar is PHI's: ``(Tensor x, int[] strides={1, 1}, Scalar(int) axis=-1)``,
``Tensor(out), Tensor[](rest){x.size()}`` and ``add (Tensor x, Tensor y) -> Tensor(out)``. All
of it is parsed by hand, since every op is parsed when ``phix`` is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from phix.core.dtypes import BY_NAME
from phix.core.errors import OpTableError
from phix.core.op import REQUIRED, Arg, Output

TENSOR_TYPES = ("Tensor", "Tensor[]")
# An attribute type -> the Python type of one element; lists end in [] (and IntArray is one).
_ELEMENTS: dict[str, type | None] = {
    "bool": bool,
    "int": int,
    "int64_t": int,
    "size_t": int,
    "float": float,
    "double": float,
    "str": str,
    "Scalar": None,
    "Scalar(bool)": bool,
    "Scalar(int)": int,
    "Scalar(int64_t)": int,
    "Scalar(float)": float,
    "Scalar(double)": float,
}
_LISTED = ("bool", "int", "int64_t", "float", "double", "str", "Scalar")
LIST_TYPES = frozenset(f"{t}[]" for t in _LISTED) | {"IntArray"}
ATTR_TYPES = frozenset(_ELEMENTS) | LIST_TYPES | {
    "DataType", "DataLayout", "Place", "Graph", "Graph[]", "Object",
}  # fmt: skip
_OLDER_TYPES = {"ScalarArray": "IntArray", "std::string": "str", "int64": "int64_t"}
_UNDEFINED_DTYPES = ("UNDEFINED", "ALL_DTYPE")
_CONSTANTS = {
    "INT64_MAX": 2**63 - 1,
    "INT_MAX": 2**31 - 1,
    "INT64_MIN": -(2**63),
    "INT_MIN": -(2**31),
}
_NUMBER_SUFFIX = re.compile(r"(?<=[0-9.])[fFlL]+\b")
_DTYPE = re.compile(r"(?:\w+::)*DataType::(\w+)$")
_LAYOUT = re.compile(r"(?:\w+::)*DataLayout::(\w+)$")
_PLACES = ("{}", "Place()", "CPUPlace()", "phi::Place()", "phi::CPUPlace()")
_MARKS = re.compile(r"""[](){}\[,"']""")  # where a text may be split, and what keeps it together
_OUTPUT = re.compile(r"Tensor(\[\])?\s*(?:\(\s*(\w+)\s*\))?\s*(?:\{(.*)\})?$")
_FORWARD = re.compile(r"(\w+)\s*(\(.*\))\s*->\s*(.+)$", re.DOTALL)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word nearest in spelling."""
    import difflib

    return difflib.get_close_matches(word, sorted(known), n=1, cutoff=0)[0]


def split_top(text: str) -> list[str]:
    """``text`` at each comma outside brackets and quotes; parts stripped, an empty end dropped.

    >>> split_top('int[] a={1, 1}, str b="x,y"')
    ['int[] a={1, 1}', 'str b="x,y"']
    """
    parts, depth, start, quote = [], 0, 0, ""
    for found in _MARKS.finditer(text):
        mark = found[0]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'":
            quote = mark
        elif mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    parts.append(text[start:].strip())
    if parts[-1] == "":
        parts.pop()
    return parts


@cache
def parse_args(text: str) -> tuple[Arg, ...]:
    """The arguments of ``(Tensor x, int axis=-1)``.

    Raises:
        OpTableError: no parentheses, an unknown type, a missing or repeated name, a default
            that is no value of its type, or a tensor with a default.
    """
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")")):
        raise OpTableError(f"args {text!r} stand in no parentheses; write `args: ({text})`")
    args = tuple(_parse_arg(part) for part in split_top(text[1:-1]))
    names = [a.name for a in args]
    for name in names:
        if names.count(name) > 1:
            raise OpTableError(f"args {text!r} have {name!r} twice; give each its own name")
    return args


@cache
def _parse_arg(text: str) -> Arg:
    declaration, equals, default = text.partition("=")
    type_name, _, name = declaration.strip().rpartition(" ")
    type_name = type_name.strip()
    if not type_name or not name.lstrip("&").isidentifier():
        raise OpTableError(f"the argument {text!r} needs a type and a name; write `Tensor {text}`")
    if type_name not in TENSOR_TYPES and type_name not in ATTR_TYPES:
        type_name, name = _plain_type(type_name), name.lstrip("&")
    if type_name in TENSOR_TYPES:
        if equals:
            raise OpTableError(
                f"the tensor {name!r} has a default; write `{type_name} {name}`, and "
                f"`optional: {name}` if it may be left out"
            )
        return Arg(name, type_name)
    if type_name not in ATTR_TYPES:
        raise OpTableError(
            f"the argument {text!r} has the unknown type {type_name!r}; "
            f"write {nearest(type_name, [*TENSOR_TYPES, *ATTR_TYPES])!r}"
        )
    value = parse_default(type_name, default.strip()) if equals else REQUIRED
    return Arg(name, type_name, value)


def _plain_type(type_name: str) -> str:
    """A type of Paddle's oldest tables, ``const std::vector<Tensor>&``, as it is spelled now."""
    plain = type_name.removeprefix("const ").removesuffix("&").strip()
    vector = re.match(r"std::vector<(.+)>$", plain)
    if vector:
        return _OLDER_TYPES.get(vector[1], vector[1]) + "[]"
    return _OLDER_TYPES.get(plain, plain)


@cache
def parse_outputs(text: str) -> tuple[Output, ...]:
    """The outputs of ``Tensor(out), Tensor[](rest){x.size()}``; a lone one without a name is out.

    Raises:
        OpTableError: not of that form, or a name repeated or (beside others) missing.
    """
    parts = split_top(text.strip())
    outputs = []
    for part in parts:
        match = _OUTPUT.match(part)
        if match is None:
            raise OpTableError(
                f"the output {part!r} is not of the form `Tensor(name)` or "
                "`Tensor[](name){size}`; write `Tensor(out)`"
            )
        is_list, name, size = match.groups()
        if name is None and len(parts) > 1:
            raise OpTableError(f"the output {part!r} of several has no name; write `Tensor(name)`")
        outputs.append(Output(name or "out", bool(is_list), (size or "").strip()))
    names = [o.name for o in outputs]
    if not names or len(set(names)) < len(names):
        raise OpTableError(f"the outputs {text!r} need names that differ; write `Tensor(out)`")
    return tuple(outputs)


def parse_forward(text: str) -> tuple[str, tuple[Arg, ...], tuple[Output, ...]]:
    """Name, args and outputs of ``tanh (Tensor x) -> Tensor(out)``.

    Raises:
        OpTableError: not of that form.
    """
    match = _FORWARD.match(text.strip())
    if match is None:
        raise OpTableError(
            f"the forward {text!r} is not of the form `name (args) -> outputs`; "
            "write `forward: tanh (Tensor x) -> Tensor(out)`"
        )
    name, args, outputs = match.groups()
    return name, parse_args(args), parse_outputs(outputs)


def parse_call(text: str) -> tuple[str, tuple[str, ...]]:
    """Name and arguments of ``fn(a, b)``, as in ``invoke`` and ``composite``; ``fn`` has none.

    Raises:
        OpTableError: not of that form.
    """
    match = re.match(r"(\w+)\s*(?:\((.*)\))?$", text.strip(), re.DOTALL)
    if match is None:
        raise OpTableError(f"{text!r} is not of the form `fn(args)`")
    return match[1], tuple(split_top(match[2] or ""))


@cache
def parse_default(type_name: str, text: str) -> Any:
    """The Python value of a default: ``{1, 1}`` is ``(1, 1)``, ``DataType::INT64`` a dtype.

    ``DataType::UNDEFINED`` and every Place are None: the caller's choice, or the inputs'. So is
    ``none`` of any type: what is left out, where no value of the type says so.

    Raises:
        OpTableError: the text is no value of the type.
    """
    if text == "none":
        return None
    try:
        if type_name == "DataType":
            return _dtype_value(text)
        if type_name == "Place":
            return dict.fromkeys(_PLACES)[text]
        if type_name == "DataLayout":
            match = _LAYOUT.match(text)
            return match[1] if match else _element("str", text)
        if type_name == "IntArray":
            return _list_value("int64_t", text)
        if type_name.endswith("[]"):
            return _list_value(type_name[:-2], text)
        return _element(type_name, text)
    except (ValueError, KeyError, SyntaxError, ArithmeticError):
        raise OpTableError(
            f"the default {text!r} is no {type_name}; write a value such as {_EXAMPLES[type_name]}"
        ) from None


def _dtype_value(text: str) -> np.dtype | None:
    match = _DTYPE.match(text)
    if match is None:
        raise ValueError(text)
    return None if match[1] in _UNDEFINED_DTYPES else BY_NAME[match[1].lower()]


def _list_value(element: str, text: str) -> tuple[Any, ...]:
    if text.startswith("{") and text.endswith("}"):
        return tuple(_element(element, part) for part in split_top(text[1:-1]))
    return (_element(element, text),)


def _element(type_name: str, text: str) -> Any:
    wanted = _ELEMENTS[type_name]
    if wanted is str:
        if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
            raise ValueError(text)
        return text[1:-1]
    value: Any = {"true": True, "false": False}.get(text)
    if value is None:
        value = _number(text)
    if wanted is None or type(value) is wanted:
        return value
    if wanted is bool or type(value) is bool or (wanted is int and value != int(value)):
        raise ValueError(text)
    return wanted(value)


def _number(text: str) -> int | float:
    """A C++ constant expression: ``1.0e-8f``, ``10000L``, ``(2 << 12) - 1``, ``INT64_MAX``."""
    plain = _NUMBER_SUFFIX.sub("", text)
    for convert in (int, float):
        try:
            return convert(plain)
        except ValueError:
            pass
    return _evaluate(ast.parse(plain, mode="eval").body)


def _evaluate(node: ast.expr) -> int | float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name):
        return _CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    raise ValueError(ast.unparse(node))


def _divide(a: int | float, b: int | float) -> int | float:
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C++ rounds toward zero
    return a / b


_ARITHMETIC: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: _divide,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
}
_EXAMPLES = {
    "bool": "true",
    "str": '"mean"',
    "DataType": "DataType::FLOAT32",
    "DataLayout": "DataLayout::NCHW",
    "Place": "{}",
    "bool[]": "{true}",
    "str[]": '{"x"}',
    **dict.fromkeys(("int", "int64_t", "size_t", "Scalar(int)", "Scalar(int64_t)"), "-1"),
    **dict.fromkeys(("float", "double", "Scalar(float)", "Scalar(double)", "Scalar"), "1.0"),
    **dict.fromkeys(("int[]", "int64_t[]", "IntArray", "Scalar[]"), "{1, 1}"),
    **dict.fromkeys(("float[]", "double[]"), "{1.0, 1.0}"),
    "Scalar(bool)": "false",
}
