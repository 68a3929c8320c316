"""The texts of functions that are called again and again: see ``repeated.py``."""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu import units
from phix.kernels.cpu.llvm import KernelText
from phix.kernels.cpu.repeated import Repeated
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, For, Kernel, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.bottom_up import bottom_up, with_operands
from phix.kernels.scalar.language import Expr

_PURE = "noinline nounwind willreturn memory(none)"


def definitions(function: Repeated, attributes: str) -> tuple[list[str], set[str]]:
    """The function of one number and that of a vector, and what they declare.

    The vector lies in memory for a loop of its lanes, of which LLVM makes one of vectors; that of
    one number, which is hardly ever called, fills a vector with it.
    """
    loop = KernelText(_loop(function))
    name, n = function.name, function.lanes
    given, made = (ins.TYPES[e.dtype] for e in (function.given, function.made))
    vector, result = f"<{n} x {given}>", f"<{n} x {made}>"
    body = loop.text.replace(f" {units.KERNEL} {{", f" {units.TAKEN_IN} {{", 1)
    texts = [
        f"define internal void @{name}.loop{body}",
        f"define internal {result} @{name}.{n}({vector} %x) {_PURE} {attributes} {{\n"
        f"  %in = alloca {vector}, align 64\n  %out = alloca {result}, align 64\n"
        f"  store {vector} %x, ptr %in, align 64\n"
        f"  call void @{name}.loop({_passed(loop)})\n"
        f"  %r = load {result}, ptr %out, align 64\n  ret {result} %r\n}}",
        f"define internal {made} @{name}({given} %x) {_PURE} {attributes} {{\n"
        f"  %one = insertelement {vector} poison, {given} %x, i64 0\n"
        f"  %all = shufflevector {vector} %one, {vector} poison, <{n} x i32> zeroinitializer\n"
        f"  %found = call {result} @{name}.{n}({vector} %all)\n"
        f"  %r = extractelement {result} %found, i64 0\n  ret {made} %r\n}}",
    ]
    return texts, loop.declarations


def _loop(function: Repeated) -> Kernel:
    """The lanes of a vector, one after the other."""
    n = function.lanes
    index = sc.var("i0", dt.int64)
    source = Buffer("x0", function.given.dtype, (n,), "input")
    target = Buffer("o0", function.made.dtype, (n,), "output")
    read = ir.load(source, (index,))
    assert isinstance(read, Expr)
    value = bottom_up(function.made, {function.given: read}, with_operands)
    loop = For(index, sc.const(n, dt.int64), [Store(target, (index,), value)], "parallel")
    loop.is_vector = True
    return Kernel([loop])


def _passed(loop: KernelText) -> str:
    places = {"x0": "ptr %in", "o0": "ptr %out"}
    return ", ".join(places[getattr(what, "name", "")] for _, what in loop.parameters)
