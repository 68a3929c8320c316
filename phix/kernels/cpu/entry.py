"""The native entry of a segment: reads arrays where CPython put them, runs the steps in order.

``entry(self, args, nargs)`` has CPython's METH_FASTCALL convention; each argument is an ndarray,
whose data pointer, dims and strides it reads from the object (NumPy's ABI).
"""

from __future__ import annotations

from phix.core import rewrites
from phix.kernels.cpu import blas, jit, product, streaming
from phix.kernels.cpu.advice import METADATA, crosses_lanes, fills_vectors
from phix.kernels.cpu.known import Module
from phix.kernels.cpu.native_segment import NativeSegment
from phix.kernels.cpu.steps import Steps
from phix.kernels.schedule import workspace


def native_text(segment: NativeSegment) -> str:
    """The LLVM text of a segment's module."""
    return _Entry(segment).text()


class _Entry(Steps):
    """Prints a segment as one module."""

    def __init__(self, segment: NativeSegment) -> None:
        super().__init__(segment, Module())

    def text(self) -> str:
        segment, module = self.segment, self.module
        module.apart = workspace.apart(segment.steps)
        module.own = {b for own in module.apart.values() for b in own}
        for buffer in workspace.on_stack(segment.steps):
            if buffer not in module.own:
                self.put_on_stack(buffer)
        self._read_arguments()
        self.block(segment.steps)
        parts = []
        for library in sorted(module.libraries):
            own = streaming.wrapper(library)
            if own is None and rewrites.is_on("own_products"):
                own = product.wrapper(library)
            text_of, needs = own or blas.wrapper(library)
            parts.append(text_of)
            module.declarations.add(needs)
        parts += [f"define internal void {name}{t}" for (t, _), name in module.functions.items()]
        parts += [f"define internal void {name}.piece{t}" for name, t in module.pieces.items()]
        parts += [f"define internal void {name}{t}" for t, name in module.parts.items()]
        body = "\n".join([*self.stack, *self.lines])
        parts.append(
            "define ptr @ENTRY(ptr %self, ptr %args, i64 %nargs) #2 {\nentry:\n"
            f"{body}\n  call void @Py_IncRef(ptr %self)\n  ret ptr %self\n}}"
        )
        self.declare("declare void @Py_IncRef(ptr)")
        parts += sorted(module.declarations)
        attributes = jit.function_attributes()
        parts.append(f"attributes #0 = {{ noinline {attributes} }}")
        parts.append("attributes #1 = { nounwind willreturn memory(none) }")
        parts.append(f"attributes #2 = {{ {attributes} }}")
        apart = "noimplicitfloat " if self._stays_scalar() else ""
        parts.append(f"attributes #3 = {{ alwaysinline {apart}{attributes} }}")
        parts += METADATA
        return "\n".join(parts) + "\n"

    def leaving(self) -> list[str]:
        """Back to Python with a MemoryError."""
        self.declare("declare ptr @PyErr_NoMemory()")
        return ["  call ptr @PyErr_NoMemory()", "  ret ptr null"]

    def _read_arguments(self) -> None:
        """Read the array objects at the head, not in loops; LLVM drops what is not used."""
        for buffer in self.segment.arguments:
            self.data(buffer)
            if buffer.strided:
                self.strides(buffer)
        for name in self.segment.symbols:
            self.symbol(name)

    def _stays_scalar(self) -> bool:
        """Whether LLVM should leave the bodies of small loops as they are, without vectors.

        An iteration waits for the one before: what moves values between lanes makes it wait longer.
        """
        is_crossed = any(map(crosses_lanes, self.module.inlined))
        return is_crossed and not any(map(fills_vectors, self.module.inlined))
