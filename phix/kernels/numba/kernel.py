"""A whole kernel in Numba: a Python function over arrays, as a routine that programs call.

For each kind of call, dtypes, ranks and attributes, the function is compiled once; sizes are
arguments. What is compiled is asked for where a program is linked, not before.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import graph as gr
from phix.core import kernel_keys, stages, unfilled
from phix.core.dims import DimLike
from phix.core.errors import KernelRegistrationError
from phix.core.graph import Equation
from phix.core.kernel_registry import as_dtypes, register_kernel
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place
from phix.core.records import dataclass, field
from phix.core.rules import get_op
from phix.kernels.loops import linked
from phix.kernels.loops.linked import Linked
from phix.kernels.numba import filling
from phix.kernels.numba.identity import checked, digest, python_function

BACKEND = "NUMBA"
# Numba has no arithmetic in 16 bits on a CPU.
DTYPES = tuple(d for d in dt.ALL if d not in (dt.float16, dt.bfloat16))


@dataclass
class _Wrapped:
    """How a kernel is called: what its arguments are, as Python writes them in a wrapper.

    Each array is an address, ``p0``, ``p1``, ..., and a number an axis; attributes are constants,
    or numbers where they are unknown dims.
    """

    arrays: list[MetaTensor] = field(default_factory=list)
    numbers: list[DimLike] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    outputs: list[int] = field(default_factory=list)  # which of the arrays
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def array(self, meta: MetaTensor, output: str) -> str:
        k, first = len(self.arrays), len(self.numbers)
        self.arrays.append(meta)
        self.numbers += meta.dims
        shape = "".join(f"n{first + axis}, " for axis in range(meta.ndim))
        if not output:
            return f"read_only(carray(p{k}, ({shape})))"
        self.outputs.append(k)
        form = unfilled.FORMS[meta.dtype]
        before, after = filling.lines(k, output, shape, form.is_sure, stages.is_verifying())
        self.before += before
        self.after += after
        return f"a{k}"

    def entry(self, entry: Any, output: str = "") -> str:
        """A tensor, several, or none; of an output with its name."""
        if isinstance(entry, tuple):
            return f"({''.join(self.array(m, output) + ', ' for m in entry)})"
        return "None" if entry is None else self.array(entry, output)

    def source(self, given: list[str]) -> str:
        """The wrapper, which gives these arguments to the kernel."""
        taken = [f"p{k}" for k in range(len(self.arrays))]
        taken += [f"n{k}" for k in range(len(self.numbers))]
        body = [*self.before, f"kernel({', '.join(given)})", *self.after]
        return "\n    ".join([f"def call({', '.join(taken)}):", *body]) + "\n"

    def marks(self) -> dict[str, Any]:
        """What the source names for :mod:`~phix.kernels.numba.filling`, but its functions."""
        forms = [unfilled.FORMS[meta.dtype] for meta in self.arrays]
        words = {f"word{k}": form.word.type for k, form in enumerate(forms)}
        marks = {f"marks{k}": form.marks for k, form in enumerate(forms)}
        return {**words, **marks, "Unfilled": unfilled.Unfilled}

    def attribute(self, value: Any, title: str) -> str:
        if isinstance(value, tuple):
            return f"({''.join(self.attribute(v, title) + ', ' for v in value)})"
        if isinstance(value, dm.Dim):
            self.numbers.append(value)
            return f"n{len(self.numbers) - 1}"
        if value is None:
            return "None"
        given = str(value) if isinstance(value, Place) else value
        if not isinstance(given, (bool, int, float, complex, str, np.dtype, np.number)):
            raise KernelRegistrationError(
                f"{title}: Numba cannot be given an attribute of type {type(value).__name__}; "
                "write this kernel as a function with phix.kernels.register_kernel"
            )
        name = f"c{len(self.constants)}"
        self.constants[name] = given
        return name


class NumbaKernel:
    """The kernel of an op in Numba; equations that it runs call it as a routine."""

    def __init__(self, op: Op, function: Callable[..., Any], **options: Any) -> None:
        self.op, self.function, self._options = op, function, options
        self.title = f"the Numba kernel of {op.name!r}"

    @property
    def options(self) -> dict[str, Any]:
        """What Numba is told: under PHIX_VERIFY, to look at indices as well."""
        checks = {"boundscheck": True} if stages.is_verifying() else {}
        return {**checks, **self._options}

    @property
    def digest(self) -> str:
        """What its code follows from."""
        return self._described()[0]

    @property
    def is_lasting(self) -> bool:
        """Whether the digest tells, in other processes too."""
        return self._described()[1]

    def _described(self) -> tuple[str, bool]:
        return digest(self.function, self.op.name, sorted(self.options.items()))

    def __call__(self, ctx: Any, *arguments: Any) -> Any:
        """Run on arrays of the host, as kernels of libraries are."""
        from phix.kernels.numba.calls import jitted

        return jitted(self.function, self.digest, **self.options)(*arguments)

    def call_of(self, equation: Equation) -> tuple[Linked, list[MetaTensor], tuple[DimLike, ...]]:
        """What an equation calls: the routine, the arrays it takes in order, and the numbers."""
        call, op = _Wrapped(), self.op
        metas = gr.map_entries(lambda a: a.meta, equation.inputs)
        inputs = tuple(call.entry(m) for m in metas)
        attrs = tuple(call.attribute(a, self.title) for a in equation.attrs)
        given = list(kernel_keys.kernel_arguments(op, inputs, attrs))
        outputs = gr.map_entries(lambda v: v.meta, equation.outputs)
        given += [call.entry(m, o.name) for m, o in zip(outputs, op.outputs)]
        return self._linked(call, call.source(given)), call.arrays, tuple(call.numbers)

    def _linked(self, call: _Wrapped, source: str) -> Linked:
        from phix.kernels.numba.calls import needs

        dtypes = [m.dtype for m in call.arrays]
        parts = (self.digest, source, [str(d) for d in dtypes], repr(call.constants))
        name = linked.PREFIX + hashlib.sha256(repr(parts).encode()).hexdigest()[:40]
        kinds = ["ptr"] * len(dtypes) + ["i64"] * len(call.numbers)
        make = cache(lambda: self._module(name, source, dtypes, call, kinds))
        return linked.add(Linked(
            name=name,
            title=self.title,
            declaration=f"declare void @{name}({', '.join([*kinds, 'ptr'])})",
            make=make,
            needs=lambda: needs(make()),
            meaning=lambda *given: self._meaning(source, call, given),
            is_lasting=self.is_lasting,
        ))  # fmt: skip

    def _module(
        self, name: str, source: str, dtypes: list[np.dtype], call: _Wrapped, kinds: list[str]
    ) -> str:
        import numba
        from numba import types

        from phix.kernels.numba import arrays, calls

        scope = {
            "kernel": calls.jitted(self.function, self.digest, **self.options),
            "carray": numba.carray,
            "read_only": arrays.read_only,
            "mark": calls.inlined(filling.mark),
            "is_left": calls.inlined(filling.is_left),
            **call.marks(),
            **call.constants,
        }
        exec(compile(source, f"<{self.title}>", "exec"), scope)
        pointers = [types.CPointer(numba.from_dtype(d)) for d in dtypes]
        signature = types.void(*pointers, *([types.int64] * len(call.numbers)))
        module, called = calls.compiled(self.title, scope["call"], signature)
        self._check_returns(scope["kernel"])
        code = python_function(self.function).__code__
        where = f"{self.title}\n{code.co_filename}:{code.co_firstlineno}"
        shim = calls.routine_shim(name, called, where, kinds)
        return calls.joined(module, shim, called, inlined=False)

    def _check_returns(self, compiled: Any) -> None:
        """Refuse a function that returns something: nobody would read it."""
        given = {str(found.signature.return_type) for found in compiled.overloads.values()}
        if given - {"none"}:
            where = _return_line(python_function(self.function))
            raise KernelRegistrationError(
                f"{self.title} returns {', '.join(sorted(given - {'none'}))}, at {where}; a kernel "
                "fills its outputs, and returns nothing: write out[...] = value"
            )

    def _meaning(self, source: str, call: _Wrapped, given: tuple[Any, ...]) -> None:
        """The call in Python: on copies, as loops are evaluated on memory of their own."""
        places, numbers = given[: len(call.arrays)], given[len(call.arrays) :]
        made: dict[int, np.ndarray] = {}

        def carray(place: Any, shape: tuple[int, ...]) -> np.ndarray:
            if id(place) not in made:
                made[id(place)] = place.read(int(np.prod(shape)))
            return made[id(place)].reshape(shape)

        def read_only(array: np.ndarray) -> np.ndarray:
            array.flags.writeable = False
            return array

        scope = {"kernel": python_function(self.function), "carray": carray,
                 "read_only": read_only, "mark": filling.mark, "is_left": filling.is_left,
                 **call.marks(), **call.constants}  # fmt: skip
        exec(source, scope)
        scope["call"](*places, *map(int, numbers))
        for k in call.outputs:
            places[k].write(made[id(places[k])])


def register(
    op_name: str, dtypes: Any, layout: str, function: Callable[..., Any], **options: Any
) -> None:
    """Make a function the kernel of an op in Numba.

    Raises:
        UnknownOpError: the table has no such op.
        KernelRegistrationError: it takes other arguments than the op's kernels do, or a dtype that
            Numba does not have.
    """
    op = get_op(op_name)
    _check_arguments(op, function)
    lacking = [str(d) for d in as_dtypes(dtypes) if d not in DTYPES]
    if lacking:
        raise KernelRegistrationError(
            f"a Numba kernel of {op_name!r} for {', '.join(lacking)}: Numba has no arithmetic in "
            "16 bits on a CPU; leave them out, and float32 takes their place by casts"
        )
    kernel = NumbaKernel(op, function, **options)
    register_kernel(op_name, BACKEND, layout, dtypes, native=kernel)(kernel)


def _check_arguments(op: Op, function: Callable[..., Any]) -> None:
    names = [str(n) for n in kernel_keys.kernel_arguments(op, tuple(a.name for a in op.inputs),
                                                          tuple(op.attr_names))]  # fmt: skip
    names += [o.name for o in op.outputs]
    plain = checked(f"the Numba kernel of {op.name!r}", function)
    taken = list(_positional(plain))
    if len(taken) != len(names):
        raise KernelRegistrationError(
            f"the Numba kernel {plain.__name__} of {op.name!r} takes "
            f"({', '.join(taken)}); it is called with inputs, attributes and outputs, as "
            f"({', '.join(names)})"
        )


def _return_line(function: Callable[..., Any]) -> str:
    """Where a function returns something; where it begins, if its source is not to be had."""
    code = function.__code__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return f"{code.co_filename}:{code.co_firstlineno}"
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None)
    first = next((n.lineno for n in found), 1)
    return f"{code.co_filename}:{code.co_firstlineno + first - 1}"


def _positional(function: Callable[..., Any]) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            yield parameter.name
