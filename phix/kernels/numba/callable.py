"""A program of phix as a function that Numba's code calls: no Python between, arrays in and out.

The program is compiled with the plain entry (``kernels/cpu/entry.py``). What Numba compiles is a
wrapper, written for the program: it looks at sizes, makes the results, and calls the entry by its
address, with array objects built on the stack. Numba keeps no such code on disk.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.core.errors import ArgumentError, KernelError, OutOfMemoryError, PhixError, ShapeError
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.records import dataclass, field
from phix.kernels.cpu import faults, jit
from phix.kernels.cpu.entry import native_text
from phix.kernels.cpu.known import DATA, DIMS, STRIDES
from phix.kernels.cpu.native_program import NativeProgram
from phix.kernels.loops import nodes as loops
from phix.kernels.loops.effects import has_effect

_WORD = ir.IntType(64)
_OBJECT = (STRIDES + 8) // 8  # words of an array object
_SEEN = 64  # sets of sizes that are known to fit
# Of a function that is called with a graph's sizes, and raises where they do not fit.
Check = Callable[[Sequence[tuple[int, ...]]], Any]


class NativeCall:
    """The program of a graph in primitives, for C-contiguous inputs of the host.

    Raises:
        ArgumentError: Python runs a part of it, or it finds sizes on its way.
    """

    def __init__(self, name: str, graph: Graph) -> None:
        metas = [v.meta for v in graph.inputs]
        _refuse_dtypes(name, [*metas, *(a.meta for a in graph.outputs)])
        program = NativeProgram(graph, (True,) * len(metas))
        if program.stepwise is not None or program.asked or has_effect(program.loops.steps):
            _refuse_python(name, program.loops.steps)
        self.name, self.inputs = name, metas
        self.outputs = [MetaTensor(d, x) for d, x in program.sizes]
        self.constants = [program.constants[k] for k in program.kept]
        (segment,) = program.segments
        self.code = jit.code_of(native_text(segment, is_plain=True))


def _refuse_dtypes(name: str, metas: list[MetaTensor]) -> None:
    for dtype in (m.dtype for m in metas):
        if dtype in (dt.float16, dt.bfloat16):
            raise ArgumentError(
                f"njit of {name}: Numba has no arithmetic in {dtype}; let it take and give "
                "float32, and cast inside"
            )


def _refuse_python(name: str, steps: list[loops.Step]) -> None:
    every = loops.walk_steps(steps)
    names = sorted({s.name for s in every if isinstance(s, loops.HostStep)})
    why = f"Python runs {', '.join(names)}" if names else "the data tell the sizes of its results"
    raise ArgumentError(
        f"njit of {name}: {why}, so it is no native function alone; call it from Python as "
        "phix.jit of it, or leave that part out"
    )


# -- what calls the program --------------------------------------------------------------------
def _entered(call: NativeCall) -> Any:
    """An intrinsic: of a tuple of the inputs and outputs, the first word of the fault."""

    @intrinsic
    def enter(typing_context: Any, arrays: Any) -> Any:
        return types.int64(arrays), codegen

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args[0].types
        given = cgutils.unpack_tuple(builder, arguments[0], len(kinds))
        inputs, outputs = len(call.inputs), len(call.outputs)
        objects = [_array_object(context, builder, k, v) for k, v in zip(kinds, given)]
        address = context.add_dynamic_addr
        constants = [address(builder, id(c), info="phix constant") for c in call.constants]
        constants = [builder.ptrtoint(c, _WORD) for c in constants]
        passed = [*objects[:inputs], *constants, *objects[inputs : inputs + outputs]]
        table = cgutils.alloca_once(builder, _WORD, max(1, len(passed)))
        for k, word in enumerate(passed):
            builder.store(word, builder.gep(table, [_WORD(k)]))
        fault = cgutils.alloca_once(builder, _WORD, faults.WORDS)
        for k in range(faults.WORDS):
            builder.store(_WORD(0), builder.gep(fault, [_WORD(k)]))
        kind = ir.FunctionType(_WORD, [_WORD.as_pointer(), _WORD.as_pointer()])
        entry = builder.bitcast(
            address(builder, call.code.address, info="phix program"), kind.as_pointer()
        )
        return builder.call(entry, [table, fault])

    return enter


def _array_object(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The address of an array as the entry reads it: its data, dims and strides."""
    array = context.make_array(kind)(context, builder, value)
    words = cgutils.alloca_once(builder, _WORD, _OBJECT)

    def put(offset: int, pointer: Any) -> None:
        at = builder.gep(words, [_WORD(offset // 8)])
        builder.store(builder.ptrtoint(pointer, _WORD), at)

    put(DATA, array.data)
    for offset, numbers in ((DIMS, array.shape), (STRIDES, array.strides)):
        each = cgutils.unpack_tuple(builder, numbers, kind.ndim)
        memory = cgutils.alloca_once(builder, _WORD, max(1, kind.ndim))
        for axis, number in enumerate(each):
            builder.store(number, builder.gep(memory, [_WORD(axis)]))
        put(offset, memory)
    return builder.ptrtoint(words, _WORD)


def _given(function: str, name: str, meta: MetaTensor) -> Any:
    """An intrinsic: the argument, of a type that fits what is declared."""

    @intrinsic
    def given(typing_context: Any, argument: Any) -> Any:
        kind = types.unliteral(argument)
        fits = _is_array(kind, meta) if meta.ndim else _is_number(kind, meta.dtype)
        if not fits:
            wanted = "an array of that dtype and rank" if meta.ndim else "a number of that kind"
            raise TypingError(
                f"{function}: argument {name} is declared {meta}, found {kind}; give {wanted}, or "
                "declare another spec to phix.numba.njit"
            )
        return kind(kind), codegen

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])

    return given


def _is_array(kind: Any, meta: MetaTensor) -> bool:
    fits = isinstance(kind, types.Array) and kind.ndim == meta.ndim
    return fits and kind.dtype == numba.from_dtype(meta.dtype)


# By the kind of a dtype, what numbers it takes.
_KINDS = (types.Boolean, types.Integer, types.Float, types.Complex)
_NUMBERS = {"b": _KINDS[:1], "u": _KINDS[:2], "i": _KINDS[:2], "f": _KINDS[:3], "c": _KINDS}


def _is_number(kind: Any, dtype: np.dtype) -> bool:
    """Whether all numbers of a kind are in that of a dtype: ints are floats, no floats are ints."""
    return isinstance(kind, _NUMBERS[dtype.kind])


# -- sizes -------------------------------------------------------------------------------------
@dataclass
class _Sizes:
    """The sizes that the graph's checks have passed, as Numba reads and Python writes them: how
    many there are, then those of each call."""

    check: Check
    shapes: list[dm.Shape]
    symbols: list[dm.Symbol]
    memory: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.memory = np.zeros(1 + _SEEN * len(self.symbols), np.int64)
        self.callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))(self.ask)

    def ask(self, sizes: Any) -> int:
        """Whether sizes fit, by all checks of all ops: 0, or 1 where one refuses them."""
        values = [sizes[k] for k in range(len(self.symbols))]
        env: dict[dm.Symbol, DimLike] = dict(zip(self.symbols, values))
        shapes = [tuple(int(dm.substitute(d, env)) for d in dims) for dims in self.shapes]
        try:
            self.check(shapes)
        except PhixError:
            return 1
        count = int(self.memory[0])
        if count < _SEEN:  # a reader sees an entry once it is whole
            first = 1 + count * len(values)
            self.memory[first : first + len(values)] = values
            self.memory[0] = count + 1
        return 0

    def reader(self) -> Any:
        """An intrinsic that gives the memory: a global array would be a constant to Numba."""
        kind = types.CPointer(types.int64)

        @intrinsic
        def seen(typing_context: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                pointer = context.get_value_type(kind)
                found = context.add_dynamic_addr(
                    builder, self.memory.ctypes.data, info="phix sizes"
                )
                return builder.bitcast(found, pointer)

            return kind(), codegen

        return seen


# -- the wrapper -------------------------------------------------------------------------------
def function_of(
    call: NativeCall, check: Check, taken: list[str], paths: list[str], result: str
) -> Any:
    """The program as a function of Numba's.

    Args:
        call: the program.
        check: what is asked for new sizes; it raises where they do not fit.
        taken: the names of the parameters.
        paths: each input as an expression of them.
        result: what is returned, with ``{0}``, ``{1}``, ... for the outputs.
    """
    shapes = [m.dims for m in call.inputs]
    solutions = dm.solutions(shapes)
    sizes = _Sizes(check, shapes, list(solutions))
    names = {symbol: f"n{k}" for k, symbol in enumerate(solutions)}
    scope: dict[str, Any] = {
        "np": np, "enter": _entered(call), "seen": sizes.reader(), "carray": numba.carray,
        "ask": sizes.callback, "KernelError": KernelError, "ShapeError": ShapeError,
        "OutOfMemoryError": OutOfMemoryError,
    }  # fmt: skip
    lines = [f"def body({', '.join(f'a{k}' for k in range(len(paths)))}):"]
    for k, meta in enumerate(call.inputs):
        scope[f"dtype{k}"] = meta.dtype
        scope[f"given{k}"] = _given(call.name, paths[k], meta)
        made = f"np.ascontiguousarray(g{k})" if meta.ndim else f"np.array(g{k}, dtype{k})"
        lines += [f"    g{k} = given{k}(a{k})", f"    x{k} = {made}"]
        if not meta.ndim and meta.dtype.kind in "iu":
            lines += [
                f"    if x{k}[()] != g{k}:",
                f"        raise OverflowError('{call.name}: {paths[k]} is declared {meta}, and is "
                "larger')",
            ]
    for symbol, found in solutions.items():
        size = f"(x{found.number}.shape[{found.axis}] - {found.rest}) // {found.factor}"
        lines.append(f"    {names[symbol]} = {size}")
    lines += _checks(call, paths, names)
    for k, meta in enumerate(call.outputs):
        scope[f"kind{k}"] = meta.dtype
        dims = "".join(f"{_text(d, names)}, " for d in meta.dims)
        lines.append(f"    o{k} = np.empty(({dims}), kind{k})")
    arrays = [f"x{k}" for k in range(len(paths))] + [f"o{k}" for k in range(len(call.outputs))]
    lines.append(f"    status = enter(({', '.join(arrays)},))")
    lines += [
        f"    if status == {faults.NO_ROOM}:",
        f"        raise OutOfMemoryError('{call.name}: no memory for what is computed on the way')",
        "    if status:",
        f"        raise KernelError('{call.name}: a kernel of the program raised an exception')",
    ]
    outputs = [f"o{k}" if m.ndim else f"o{k}[()]" for k, m in enumerate(call.outputs)]
    lines.append(f"    return {result.format(*outputs)}")
    function = _named(call.name, taken, paths, _compiled(call.name, "body", lines, scope))
    function.phix = (call, sizes)  # lives as long as what calls it
    return function


def _named(name: str, taken: list[str], paths: list[str], body: Any) -> Any:
    """A function with the user's names, which may be any, around one with those of this file."""
    inner = next(n for k in range(len(taken) + 2) if (n := f"body{k}") not in (name, *taken))
    lines = [f"def {name}({', '.join(taken)}):", f"    return {inner}({', '.join(paths)})"]
    return _compiled(name, name, lines, {inner: body})


def _compiled(title: str, name: str, lines: list[str], scope: dict[str, Any]) -> Any:
    exec(compile("\n".join(lines), f"<phix.numba.njit of {title}>", "exec"), scope)
    return numba.njit(nogil=True)(scope[name])


def _checks(call: NativeCall, paths: list[str], names: dict[dm.Symbol, str]) -> list[str]:
    """Lines that look at the sizes of the arguments."""
    lines = []
    for k, (path, meta) in enumerate(zip(paths, call.inputs)):
        for axis, d in enumerate(meta.dims):
            lines += [
                f"    if x{k}.shape[{axis}] != {_text(d, names)}:",
                f"        raise ShapeError('{call.name}: axis {axis} of {path} has another size "
                f"than declared, {meta}')",
            ]
    if names:
        count = len(names)
        same = [f"known[1 + k * {count} + {j}] == {n}" for j, n in enumerate(names.values())]
        lines += [
            f"    known = carray(seen(), ({1 + _SEEN * count},))",
            "    fits = False",
            "    for k in range(known[0]):",
            f"        fits = fits or ({' and '.join(same)})",
            "    if not fits:",
            f"        sizes = np.array(({''.join(n + ', ' for n in names.values())}), np.int64)",
            "        if ask(sizes.ctypes):",
            f"            raise ShapeError('{call.name}: the sizes do not fit the function; "
            "phix.jit of it, called with such arrays, says which op refuses them')",
        ]
    return lines


def _text(dim: DimLike, names: dict[dm.Symbol, str]) -> str:
    """A dim as Python computes it."""
    if isinstance(dim, int):
        return str(dim)
    terms = ["*".join([str(c), *(_atom(a, names) for a in m)]) for m, c in dim.terms]
    return " + ".join(terms) or "0"


def _atom(atom: dm.Atom, names: dict[dm.Symbol, str]) -> str:
    if isinstance(atom, dm.Symbol):
        return names[atom]
    a, b = (f"({_text(x, names)})" for x in atom.args)
    return _ATOMS[atom.fn].format(a=a, b=b)


_ATOMS = {
    "floordiv": "({a} // {b})", "mod": "({a} % {b})", "max": "max({a}, {b})",
    "min": "min({a}, {b})", "broadcast": "({b} if {a} == 1 else {a})",
}  # fmt: skip
