"""Functions that Numba compiles, as modules of LLVM that programs are linked with.

What Numba is given is a short wrapper, written for the call: it takes addresses and numbers, makes
arrays of them, and calls the user's function. So Numba's own conventions matter in one place, the
shim, which turns its status and exceptions into a fault (``kernels/cpu/faults.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from phix.core.errors import KernelRegistrationError
from phix.kernels.cpu import faults
from phix.kernels.cpu import instructions as ins

# Code that calls these needs Numba's runtime in the process.
RUNTIME = "phix_numba_runtime"
# What print calls, and objmode to take its results apart.
_OF_PYTHON = ("PySys_FormatStdout", "PyTuple_GetItem")
# A variable with the address of a function that Numba compiles after the one that calls it.
_RECURSION = re.compile(r'^@"\.numba\.unresolved\$(_ZN[^"]+)" = external', re.MULTILINE)
_DIGITS = re.compile(r"\d+")
_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "nogil": True}


@cache
def jitted(function: Any, digest: str, **options: Any) -> Any:
    """The function for Numba's compiler; one that is decorated already keeps its own options.

    Numba takes globals when it first compiles; a function with another digest is compiled anew.
    """
    import numba

    if hasattr(function, "py_func"):
        return numba.jit(**function.targetoptions)(function.py_func)
    flags = options["fastmath"]
    options["fastmath"] = set(flags) if isinstance(flags, tuple) else flags
    return numba.njit(**options)(function)


@cache
def inlined(function: Callable[..., Any]) -> Any:
    """A function of ours for Numba's compiler, whose code becomes a part of who calls it."""
    import numba

    return numba.njit(**_OPTIONS)(function)


def compiled(title: str, function: Callable[..., Any], signature: Any) -> tuple[Any, str]:
    """The module that Numba makes of a function for a signature, and the name of its code.

    Raises:
        KernelRegistrationError: Numba cannot compile it for these types.
    """
    import numba

    if getattr(numba.config, "DISABLE_JIT", False):
        raise KernelRegistrationError(
            f"{title}: Numba compiles nothing under NUMBA_DISABLE_JIT; unset it, or step through "
            "the function with arrays of your own"
        )
    wrapped = numba.njit(**_OPTIONS)(function)
    try:
        wrapped.compile(signature)
    except numba.core.errors.NumbaError as error:
        raise KernelRegistrationError(
            f"{title}: Numba cannot compile it: {_short(error)}"
        ) from None
    result = wrapped.overloads[signature.args]
    module = llvm.parse_assembly(_checked(title, result.library.get_llvm_str()))
    name = result.fndesc.llvm_func_name
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = llvm.Linkage.internal
    return module, name


def _checked(title: str, text: str) -> str:
    """The text, if it is all of the function.

    Raises:
        KernelRegistrationError: Python runs a part of it, or Numba adds a part when it links.
    """
    if any(f"@{name}(" in text for name in _OF_PYTHON):
        raise KernelRegistrationError(
            f"{title} has a part that Python runs, print or objmode: leave it out, or write the "
            "kernel as a Python function with phix.kernels.register_kernel"
        )
    called = _RECURSION.search(text)
    if called is not None:
        raise KernelRegistrationError(
            f"{title} calls {_plain_name(called[1])}, which calls itself with arguments of other "
            "types than it is called with: a literal is one, and so is an input, which is "
            "read-only. Write it as a loop"
        )
    return text


def _plain_name(mangled: str) -> str:
    """The last part of the name of a function, as Numba writes it: ``_ZN8__main__3recB2v3...``."""
    rest, name = mangled.removeprefix("_ZN"), mangled
    while (size := _DIGITS.match(rest)) is not None:
        end = size.end() + int(size[0])
        name, rest = rest[size.end() : end], rest[end:]
    return name


def typed(title: str, function: Any, kinds: tuple[Any, ...]) -> Any:
    """What a function gives for arguments of these types of Numba's.

    Raises:
        KernelRegistrationError: Numba cannot compile it for these types.
    """
    import numba

    try:
        function.compile(kinds)
    except numba.core.errors.NumbaError as error:
        raise KernelRegistrationError(
            f"{title}: Numba cannot compile it: {_short(error)}"
        ) from None
    return function.overloads[kinds].signature.return_type


def _short(error: Exception) -> str:
    """What Numba says, without the lines on how its compiler came there."""
    if "(readonly array" in str(error):
        return "it sets elements of an input, which kernels get read-only; write into an output"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cut = next((k for k, x in enumerate(lines) if x.startswith(("During", "This error"))), None)
    return " ".join(lines[:cut][:12])


def joined(module: Any, shim: str, name: str, inlined: bool) -> str:
    """The text of Numba's module with the shim ``name``, which calls its function, in it.

    The function's name there is a hash that no other process makes again; it is left behind.
    """
    found = module.get_function(name)
    if inlined:
        for function in module.functions:
            if not function.is_declaration:
                function.add_function_attribute("alwaysinline")
    found.linkage = llvm.Linkage.external
    module.link_in(llvm.parse_assembly(shim))
    module.get_function(name).linkage = llvm.Linkage.internal
    return str(module)


def needs(text: str) -> tuple[str, ...]:
    """What a module needs to be linked: Numba's runtime, which has memory for arrays and what
    calls Python, if it calls that."""
    module = llvm.parse_assembly(text)
    outside = (f.name for f in module.functions if f.is_declaration)
    is_needed = any(n.startswith(("NRT_", "numba_", "Py", "_Py")) for n in outside)
    return (RUNTIME,) if is_needed else ()


def provide(_: str) -> None:
    """Make the functions of Numba's runtime known to compiled code; see ``jit._provide``."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    from phix.kernels.cpu import jit

    rtsys.initialize(cpu_target.target_context)
    jit.add_symbol(RUNTIME, 0)


# -- shims -------------------------------------------------------------------------------------
def routine_shim(name: str, called: str, title: str, kinds: list[str]) -> str:
    """LLVM text: ``name`` takes arguments of these types and a fault, and calls ``called``.

    It does nothing after an earlier fault: an exception ends what the kernel does.
    """
    taken = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
    types = ", ".join(["ptr", "ptr", *kinds])
    given = ", ".join(["ptr %result", "ptr %exception", *taken.split(", ")])
    content = title.encode()
    text = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in content)
    return f"""
declare i32 @{called}({types})
@title = private constant [{len(content) + 1} x i8] c"{text}\\00"
define void @{name}({taken}, ptr %fault) nounwind {{
entry:
  %result = alloca ptr
  %exception = alloca ptr
  %before = load i64, ptr %fault
  %is_well = icmp eq i64 %before, 0
  br i1 %is_well, label %go, label %done
go:
  store ptr null, ptr %exception
  %status = call i32 @{called}({given})
  %is_none = icmp eq i32 %status, -2
  %is_zero = icmp eq i32 %status, 0
  %is_fine = or i1 %is_none, %is_zero
  br i1 %is_fine, label %done, label %failed
failed:
  {faults.report("%fault", faults.RAISED).strip()}
  %found = load ptr, ptr %exception
  %info = getelementptr inbounds i64, ptr %fault, i64 1
  store ptr %found, ptr %info
  %named = getelementptr inbounds i64, ptr %fault, i64 2
  store ptr @title, ptr %named
  br label %done
done:
  ret void
}}
"""


def scalar_shim(name: str, called: str, dtypes: tuple[np.dtype, ...], result: np.dtype) -> str:
    """LLVM text: ``name`` of scalars is the value of ``called``, which does not fail."""
    kinds = [ins.TYPES[d] for d in dtypes]
    taken = [f"{kind} %a{k}" for k, kind in enumerate(kinds)]
    # Numba passes bools as a byte
    own = ["i8" if kind == "i1" else kind for kind in (*kinds, ins.TYPES[result])]
    widened = [f"  %b{k} = zext i1 %a{k} to i8" for k, kind in enumerate(kinds) if kind == "i1"]
    given = [f"i8 %b{k}" if kind == "i1" else f"{kind} %a{k}" for k, kind in enumerate(kinds)]
    kind, memory = ins.TYPES[result], own[-1]
    back = "  %out = trunc i8 %value to i1\n  ret i1 %out" if kind == "i1" \
        else f"  ret {kind} %value"  # fmt: skip
    return f"""
declare i32 @{called}({", ".join(["ptr", "ptr", *own[:-1]])})
define {kind} @{name}({", ".join(taken)}) nounwind alwaysinline {{
  %result = alloca {memory}
  %exception = alloca ptr
{chr(10).join(widened)}
  %status = call i32 @{called}({", ".join(["ptr %result", "ptr %exception", *given])})
  %value = load {memory}, ptr %result
{back}
}}
"""
