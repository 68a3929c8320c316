"""YAML to plain Python values that remember their lines; the one module that imports PyYAML.

PyYAML follows YAML 1.1, which reads ``on`` and ``no`` as booleans and ``1e-5`` as a string,
and lets the last of two equal keys win. Here only ``true`` and ``false`` are booleans, every
spelling of a float is one (YAML 1.2's core schema), and a second key is an error.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from phix.core.errors import OpTableError

_SCALARS = [
    ("tag:yaml.org,2002:null", re.compile(r"(?:~|null|)$"), ["~", "n", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"(?:true|false)$"), list("tf")),
    (
        "tag:yaml.org,2002:int",
        re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
        list("-+0123456789"),
    ),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+0123456789."),
    ),
]


class _CoreLoader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2's core schema."""


class _QuickLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same in C, where PyYAML has it: ten times as quick."""


# Their own table of scalars: PyYAML's are those of YAML 1.1, and add_implicit_resolver copies them.
for _loader in (_CoreLoader, _QuickLoader):
    _loader.yaml_implicit_resolvers = {}
    for _tag, _pattern, _first in _SCALARS:
        _loader.add_implicit_resolver(_tag, _pattern, _first)


class Mapping(dict[str, Any]):
    """A YAML mapping with the line it starts in, and the line of each key."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class Sequence(list[Any]):
    """A YAML sequence with the line it starts in."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


def read_yaml(text: str, file: str) -> Any:
    """The value of a YAML document: Mapping, Sequence, str, int, float, bool or None.

    Raises:
        OpTableError: no YAML, two documents, a key twice in one mapping, or a key that is no
            scalar; the message starts with ``file:line``.
    """
    try:
        node = _composed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise OpTableError(
            f"{file}:{line}: no YAML: {error.problem or error.context}; "
            'put text with `: `, ` #` or brackets into "quotes"'
        ) from None
    except yaml.YAMLError as error:
        raise OpTableError(f"{file}:1: no YAML: {error}") from None
    return None if node is None else _value(node, file)


def _composed(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_QuickLoader)
    except yaml.YAMLError:  # the other one says better what is wrong
        return yaml.compose(text, Loader=_CoreLoader)


def _value(node: yaml.Node, file: str) -> Any:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, line, file)
    if isinstance(node, yaml.SequenceNode):
        items = Sequence(line)
        items.extend(_value(item, file) for item in node.value)
        return items
    return _scalar(node.tag.rpartition(":")[2], node.value)


def _mapping(node: yaml.MappingNode, line: int, file: str) -> Mapping:
    mapping = Mapping(line)
    for key_node, value_node in node.value:
        key, key_line = key_node.value, key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise OpTableError(f"{file}:{key_line}: a key must be a word; write `key: value`")
        if key in mapping:
            raise OpTableError(
                f"{file}:{key_line}: duplicate key {key!r}, given in line {mapping.lines[key]} "
                "already; keep one of the two"
            )
        mapping[key] = _value(value_node, file)
        mapping.lines[key] = key_line
    return mapping


def _scalar(tag: str, text: str) -> Any:
    if tag == "null":
        return None
    if tag == "bool":
        return text == "true"
    if tag == "int":
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if tag == "float":
        special = text.lower().replace(".", "")
        return float(special if special.lstrip("+-") in ("inf", "nan") else text)
    return text
