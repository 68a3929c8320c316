"""``phix/core/tensor_methods.pyi``: what tensors get when phix is imported, for type checkers.

Operators, and the methods that are ops of the table, are put into ``TensorBase`` as the package
loads; editors and type checkers do not run that, they read this file. It is written from the text
of ``phix/ops.py``, whenever that is, and there is no such module at run time.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

from phix.core.operators import BINARY, COMPARE, NO_METHODS, NO_SELF, UNARY

PACKAGE = Path(__file__).resolve().parents[1]
STUB_FILE = PACKAGE / "core" / "tensor_methods.pyi"
TENSOR, OPERATORS = PACKAGE / "core" / "tensor.py", PACKAGE / "core" / "operators.py"
FUNCTIONS = PACKAGE / "array_functions"
# The classes whose members tensors get; of two members of one name the first is it.
WRITTEN = (
    (OPERATORS, "_Members"),
    (FUNCTIONS / "methods.py", "ArrayMethods"),
    (FUNCTIONS / "paddle_methods.py", "PaddleMethods"),
)
WIDTH = 100
HEAD = '''"""The methods and operators that every tensor has: ops whose first argument is a tensor.

Generated from ``phix/ops.py``, with it. For type checkers: see ``phix/table/stubs.py``.
"""

# fmt: off
from collections.abc import Sequence
from typing import Any

from phix.core.annotations import DTypeLike, FloatLike, IntArrayLike, PlaceLike, ScalarLike
from phix.core.dims import DimLike
from phix.core.graph import Graph
from phix.core.index_update import IndexUpdate
from phix.core.tensor import Tensor, TensorLike

class TensorMethods:
'''


def render(ops_text: str) -> str:
    """The text of the stub for a text of ``phix/ops.py``."""
    functions = [n for n in ast.parse(ops_text).body if isinstance(n, ast.FunctionDef)]
    own = {f.name for f in _class_of(TENSOR, "TensorBase")}
    own |= {f.name for where in WRITTEN for f in _class_of(*where)} | set(NO_METHODS)
    methods = [_method(f) for f in functions if _is_method(f) and f.name not in own]
    return HEAD + "\n".join([*_operators(), *_members(), *methods]) + "\n"


def _members() -> Iterator[str]:
    """The members that are written out."""
    for where in WRITTEN:
        for function in _class_of(*where):
            yield from (f"    @{ast.unparse(d)}" for d in function.decorator_list)
            yield _method(function)


def _class_of(file: Path, name: str) -> list[ast.FunctionDef]:
    """The functions that a class is written with."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    own = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    return [n for n in own.body if isinstance(n, ast.FunctionDef)]


def _is_method(function: ast.FunctionDef) -> bool:
    """Whether a tensor is the first argument, and the op no backward op."""
    parameters = function.args.args
    first = parameters[0].annotation if parameters else None
    return (
        first is not None
        and ast.unparse(first) == "TensorLike"
        and parameters[0].arg not in NO_SELF
        and not function.name.endswith("_grad")
    )


def _method(function: ast.FunctionDef) -> str:
    parameters = _parameters(function.args)
    result = ast.unparse(function.returns) if function.returns else "Tensor"
    doc = (ast.get_docstring(function) or "").partition("\n\n")[0]
    if not doc:
        (line,) = _signature(function.name, parameters, result)
        return f"{line} ..."
    text = " ".join(doc.split()).replace("\\", "\\\\").replace('"', "'")
    return "\n".join([*_signature(function.name, parameters, result), *_doc(text)])


def _parameters(args: ast.arguments) -> list[str]:
    """The parameters as they are written, ``self`` for the first."""
    defaults = [None] * (len(args.args) - len(args.defaults)) + list(args.defaults)
    texts = ["self", *map(_parameter, args.args[1:], defaults[1:])]
    if args.vararg is not None:
        texts.append(f"*{_parameter(args.vararg, None)}")
    elif args.kwonlyargs:
        texts.append("*")
    return [*texts, *map(_parameter, args.kwonlyargs, args.kw_defaults)]


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    text = parameter.arg
    if parameter.annotation is not None:
        text += f": {ast.unparse(parameter.annotation)}"
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _signature(name: str, parameters: list[str], result: str) -> Iterator[str]:
    head, tail = f"    def {name}(", f") -> {result}:"
    line = head + ", ".join(parameters) + tail
    if len(line) <= WIDTH:
        yield line
    else:
        yield head
        yield from (f"        {parameter}," for parameter in parameters)
        yield f"    {tail}"


def _doc(text: str) -> list[str]:
    return textwrap.wrap(
        f'"""{text}"""',
        WIDTH,
        initial_indent=" " * 8,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _operators() -> Iterator[str]:
    for python in BINARY:
        yield f"    def __{python}__(self, other: TensorLike) -> Tensor: ..."
        yield f"    def __r{python}__(self, other: TensorLike) -> Tensor: ..."
    for python in COMPARE:
        wider = "  # type: ignore[override]" if python in ("eq", "ne") else ""
        yield f"    def __{python}__(self, other: TensorLike) -> Tensor: ...{wider}"
    yield from (f"    def __{python}__(self) -> Tensor: ..." for python in UNARY)
