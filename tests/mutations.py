"""Small changes to a Python file, each of which should make some test fail.

:func:`mutations` lists those of one file: a comparison swapped, a condition negated, a constant
moved by one, a call left out, ... Left alone is what tests need not notice: error messages and the
asserts beside them, text, annotations, decorators, imports, what prints, and names that say how
much something may cost (``SPEED``), which change how fast programs are but not what they give.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# Constants and functions that decide what is worth its time.
SPEED = re.compile(
    r"cost|worth|cheap|least|most|largest|smallest|limit|budget|every|seconds|_bytes|threshold"
    r"|prefer|patience|lru_cache|grain|width|vector_registers|unroll|unlikely|estimate",
    re.IGNORECASE,
)
PRINTS = re.compile(r"__repr__|__str__|explain|describe|report|message|^text$|_text$|complain|why")

_SKIPPED = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Global)
_COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
_GENERIC = {"Callable", "Union", "TypeVar", "Iterator", "Sequence", "tuple", "dict", "list", "type"}
_NAMES = ("__slots__", "__all__")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# Calls that raise at once with their arguments swapped.
_ORDERED = {"isinstance", "issubclass", "getattr", "hasattr", "setattr", "map", "filter", "cast"}
# Calls that give the same, bit for bit, with their first two arguments swapped.
_SYMMETRIC = {"eq", "ne", "fma", "two_product", "two_sum", "sum_of_products", "same_shape", "times"}
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutation:
    """A change to the file at ``path``: the bytes from ``begin`` to ``end`` become ``text``.

    ``block`` is the line on which the innermost block of statements around it begins; 0 outside of
    functions.
    """

    path: str
    line: int
    column: int
    block: int
    what: str
    original: bytes = field(repr=False)
    begin: int
    end: int
    text: str

    @property
    def source(self) -> str:
        """All of the changed file."""
        changed = self.original[: self.begin] + self.text.encode() + self.original[self.end :]
        return changed.decode()

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}:{self.column} {self.what}"


def mutations(path: str, source: str) -> list[Mutation]:
    """All changes to one file, in the order of its lines."""
    whole = source.encode()
    starts = [0]
    for line in whole.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, block in _nodes(ast.parse(source), 0):
        for part, text in _changes(node):
            begin = starts[part.lineno - 1] + part.col_offset
            end = starts[(part.end_lineno or 0) - 1] + (part.end_col_offset or 0)
            text = text if isinstance(part, ast.stmt) else f"({text})"
            what = f"{_short(ast.unparse(part))} -> {_short(text)}"
            at = (path, part.lineno, part.col_offset, block)
            found.append(Mutation(*at, what, whole, begin, end, text))
    return found


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 70 else f"{text[:33]} ... {text[-33:]}"


def instrumented(path: str, source: str) -> str:
    """The file with ``_reached("path:line")`` at the start of each block in functions."""
    tree = ast.parse(source)
    for node, in_function in _scopes(tree, False):
        for block in _blocks(node) if in_function else ():
            call = ast.parse(f"{_REACHED}('{path}:{block[0].lineno}')").body[0]
            block.insert(1 if _is_text(block[0]) and len(block) > 1 else 0, call)
    return ast.unparse(ast.fix_missing_locations(tree))


# Nothing in processes that tests start.
_REACHED = "__import__('builtins').__dict__.get('_reached', id)"


def _scopes(node: ast.AST, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    in_function = in_function or isinstance(node, ast.FunctionDef)
    yield node, in_function and not isinstance(node, ast.ClassDef)
    for child in list(ast.iter_child_nodes(node)):
        yield from _scopes(child, in_function)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _nodes(node: ast.AST, block: int, inside: bool = False) -> Iterator[tuple[ast.AST, int]]:
    """Statements and expressions that may be changed, with the first lines of their blocks."""
    if isinstance(node, _SKIPPED) or _is_text(node) or _is_typing(node) or _is_left_alone(node):
        return
    yield node, block
    inside = inside or isinstance(node, ast.FunctionDef)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                is_block = inside and isinstance(child, ast.stmt)
                yield from _nodes(child, value[0].lineno if is_block else block, inside)


def _is_typing(node: ast.AST) -> bool:
    """An alias of types, a cast's type, ``if TYPE_CHECKING``, an overload."""
    if isinstance(node, ast.FunctionDef):
        return any(ast.unparse(d) == "overload" for d in node.decorator_list)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value) in _GENERIC
    return isinstance(node, ast.Assign) and ast.unparse(node.value).split("[")[0] in _GENERIC


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return bool(SPEED.search(node.name) or PRINTS.search(node.name))
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = ast.unparse(target)
        return node.value is None or name in _NAMES or bool(SPEED.search(name))
    return isinstance(node, ast.Compare) and bool(SPEED.search(ast.unparse(node)))


# -- the changes -------------------------------------------------------------------------------
def _changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """Parts of a statement or expression, and what they are changed into."""
    for changed in _RULES[type(node)](node) if type(node) in _RULES else ():
        yield (node, ast.unparse(changed)) if isinstance(changed, ast.AST) else changed


def _with(node: ast.AST, **fields: object) -> Any:
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _negated(node: Any) -> Iterator[Any]:
    if not isinstance(node.test, ast.Compare) or isinstance(node.test.ops[0], _ORDERS):
        yield node.test, f"not ({ast.unparse(node.test)})"


def _looped(node: Any) -> Iterator[Any]:
    yield node.iter, f"list({ast.unparse(node.iter)})[:-1]"


def _compared(node: ast.Compare) -> Iterator[Any]:
    yield _with(node, ops=[_COMPARISONS[type(node.ops[0])](), *node.ops[1:]])


def _joined(node: ast.BoolOp) -> Iterator[Any]:
    yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for k in range(len(node.values)):
        kept = node.values[:k] + node.values[k + 1 :]
        yield kept[0] if len(kept) == 1 else _with(node, values=kept)


def _calculated(node: ast.BinOp) -> Iterator[Any]:
    if type(node.op) in _OPERATORS and not any(map(_is_sequence, (node.left, node.right))):
        yield _with(node, op=_OPERATORS[type(node.op)]())


def _is_sequence(node: ast.AST) -> bool:
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_string or isinstance(node, (ast.JoinedStr, ast.Tuple, ast.List))


def _unsigned(node: ast.UnaryOp) -> Iterator[Any]:
    if isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand


def _counted(node: ast.Constant) -> Iterator[Any]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield ast.Constant(node.value * 2 if node.value else 1.0)


def _called(node: ast.Call) -> Iterator[Any]:
    two = [a for a in node.args[:2] if not isinstance(a, ast.Starred)]
    name = ast.unparse(node.func)
    keeps = name in _ORDERED or name.split(".")[-1] in _SYMMETRIC
    if len(two) == 2 and not keeps and ast.dump(two[0]) != ast.dump(two[1]):
        yield _with(node, args=[two[1], two[0], *node.args[2:]])
    for k, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield _with(node, keywords=node.keywords[:k] + node.keywords[k + 1 :])
    if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _with(node, func=ast.Name(_CALLS[node.func.id]))


def _shortened(node: Any) -> Iterator[Any]:
    if isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        for k in range(len(node.elts)):
            yield _with(node, elts=node.elts[:k] + node.elts[k + 1 :])


def _left_out(node: Any) -> Iterator[Any]:
    if isinstance(node, ast.AugAssign) or isinstance(node.value, ast.Call):
        yield ast.Pass()


_RULES: dict[type, Callable[[Any], Iterator[Any]]] = {
    ast.If: _negated,
    ast.IfExp: _negated,
    ast.While: _negated,
    ast.For: _looped,
    ast.Compare: _compared,
    ast.BoolOp: _joined,
    ast.BinOp: _calculated,
    ast.UnaryOp: _unsigned,
    ast.Constant: _counted,
    ast.Call: _called,
    ast.Tuple: _shortened,
    ast.List: _shortened,
    ast.Expr: _left_out,
    ast.AugAssign: _left_out,
    ast.Continue: lambda node: iter([ast.Break()]),
    ast.Break: lambda node: iter([ast.Continue()]),
}
