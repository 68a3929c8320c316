"""A scalar function in Numba as the body of a pointwise op: it fuses and vectorises like others.

The function is compiled for each dtype and value of attributes, when a program is lowered; its
LLVM code is put into the loops where it is called.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import KernelNotFoundError, KernelRegistrationError
from phix.core.rules import note_code
from phix.kernels.loops import linked
from phix.kernels.loops.linked import Linked
from phix.kernels.numba.identity import digest, python_function
from phix.kernels.scalar import registry
from phix.kernels.scalar.language import Complex, Expr

# What a function that cannot raise returns: that all went well.
_RETURNS = re.compile(r"^  ret i32 (\S+)", re.MULTILINE)


class ScalarBody:
    """The body of an op: called on scalars, it is the call of a function to be linked."""

    def __init__(
        self, op_name: str, function: Callable[..., Any], gives_bools: bool | None, **options: Any
    ) -> None:
        self.function, self.gives_bools, self.options = function, gives_bools, options
        self.title = f"the Numba scalar function of {op_name!r}"
        self.op_name = op_name
        self.known: dict[Any, tuple[Linked, np.dtype]] = {}

    @property
    def digest(self) -> str | None:
        """What the code follows from; None where nothing tells."""
        made, is_lasting = self._described()
        return made if is_lasting else None

    def _described(self) -> tuple[str, bool]:
        return digest(self.function, self.op_name, sorted(self.options.items()))

    def __call__(self, *scalars: Any, **attrs: Any) -> Expr:
        if any(isinstance(x, Complex) for x in scalars):
            raise KernelNotFoundError(
                f"{self.title} takes real numbers; write complex ones as a whole kernel with "
                "phix.numba.kernel, or of two real parts"
            )
        made = self._described()
        key = (made, tuple(x.dtype for x in scalars), repr(sorted(attrs.items())))
        if key not in self.known:
            self.known[key] = self._linked(key[1], attrs, key[2], *made)
        function, dtype = self.known[key]
        return Expr("call", scalars, dtype, function.name)

    def _linked(
        self, dtypes: tuple[np.dtype, ...], attrs: dict[str, Any], shown: str,
        code: str, is_lasting: bool,
    ) -> tuple[Linked, np.dtype]:  # fmt: skip
        parts = (code, [str(d) for d in dtypes], shown)
        name = linked.PREFIX + hashlib.sha256(repr(parts).encode()).hexdigest()[:40]
        from phix.kernels.numba.calls import needs

        text, result = self._module(name, dtypes, attrs, code)
        plain = python_function(self.function)
        return linked.add(Linked(
            name=name,
            title=self.title,
            declaration="",  # who prints an expression declares what it calls
            make=lambda: text,
            needs=lambda: needs(text),
            meaning=lambda *scalars: plain(*scalars, **attrs),
            is_lasting=is_lasting,
        )), result  # fmt: skip

    def _module(
        self, name: str, dtypes: tuple[np.dtype, ...], attrs: dict[str, Any], code: str
    ) -> tuple[str, np.dtype]:
        import numba

        from phix.kernels.numba import calls

        kinds = tuple(numba.from_dtype(d) for d in dtypes)
        inner = calls.jitted(self.function, code, **self.options)
        result = self._result(inner, kinds, dtypes, attrs)
        # floats are weak beside the inputs, as in phix: in float32 they are float32
        own = dtypes[0].type
        weak = [own(v) if isinstance(v, float) else v for v in attrs.values()]
        constants = {f"c{k}": v for k, v in enumerate(weak)}
        taken = [f"a{k}" for k in range(len(dtypes))]
        given = [*taken, *(f"{n}={c}" for n, c in zip(attrs, constants))]
        source = f"def call({', '.join(taken)}):\n    return kind(inner({', '.join(given)}))\n"
        scope = {"inner": inner, "kind": numba.from_dtype(result), **constants}
        exec(compile(source, f"<{self.title}>", "exec"), scope)
        signature = numba.from_dtype(result)(*kinds)
        module, called = calls.compiled(self.title, scope["call"], signature)
        if set(_RETURNS.findall(str(module.get_function(called)))) - {"0"}:
            raise KernelRegistrationError(
                f"{self.title} may raise an exception, and runs where nothing can stop the loops "
                "around it; give a value such as nan in its place, or write a whole kernel with "
                "phix.numba.kernel"
            )
        shim = calls.scalar_shim(name, called, dtypes, result)
        return calls.joined(module, shim, called, inlined=True), result

    def _result(
        self, inner: Any, kinds: tuple[Any, ...], dtypes: tuple[np.dtype, ...],
        attrs: dict[str, Any],
    ) -> np.dtype:  # fmt: skip
        """The dtype of the result: bool, or that of the inputs; where it is open, the function
        says which."""
        from numba import typeof

        from phix.kernels.numba.calls import typed

        found = typed(self.title, inner, (*kinds, *(typeof(v) for v in attrs.values())))
        if str(found) not in ("bool", "none") and not hasattr(found, "bitwidth"):
            raise KernelRegistrationError(
                f"{self.title} gives {found} for {', '.join(map(str, dtypes))}; it is to give one "
                "real number or bool"
            )
        gives_bools = str(found) == "bool" if self.gives_bools is None else self.gives_bools
        return dt.bool_ if gives_bools else dtypes[0]


def register(
    op_name: str, function: Callable[..., Any], gives_bools: bool | None = None, **options: Any
) -> ScalarBody:
    """Make a function the scalar body of a pointwise op, whose result is bool or not, or may be.

    Raises:
        PhixError: the op has a body already.
    """
    body = ScalarBody(op_name, function, gives_bools, **options)
    registry.body(op_name, native=True)(body)
    note_code(op_name, lambda: body.digest)
    return body
