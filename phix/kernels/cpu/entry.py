"""The native entry of a segment: reads arrays where CPython put them, runs the steps in order.

``entry(self, args, nargs)`` has CPython's METH_FASTCALL convention; each argument is an ndarray,
whose data pointer, dims and strides it reads from the object (NumPy's ABI). The plain entry,
``entry(args, fault)``, is for native code: it knows nothing of Python, and returns what the first
word of ``fault`` says (``faults.py``).
"""

from __future__ import annotations

from phix.core import rewrites
from phix.kernels.cpu import (
    asking,
    faults,
    jit,
    long_loops,
    parallel_callers,
    rank_calls,
    rank_routines,
    rare,
    rows_ahead,
    streaming,
    units,
)
from phix.kernels.cpu.advice import METADATA, crosses_lanes, fills_vectors
from phix.kernels.cpu.known import DATA, Module
from phix.kernels.cpu.native_segment import NativeSegment
from phix.kernels.cpu.steps import Steps
from phix.kernels.loops import linked
from phix.kernels.schedule import workspace

_FIRST_FREE = 6  # the number of attributes that no line below has
# What a fault becomes in Python: the method of ``jit.Held`` raises it.
_RAISE = """
@raise.name = private constant [6 x i8] c"fault\\00"
@raise.takes = private constant [4 x i8] c"LLz\\00"
declare ptr @PyObject_CallMethod(ptr, ptr, ptr, ...)
define internal ptr @raise(ptr %self, ptr %fault) noinline {
  %status = load i64, ptr %fault
  %is_raised = icmp eq i64 %status, RAISED
  br i1 %is_raised, label %done, label %report
report:
  %info.at = getelementptr inbounds i64, ptr %fault, i64 1
  %info = load i64, ptr %info.at
  %title.at = getelementptr inbounds i64, ptr %fault, i64 2
  %title = load ptr, ptr %title.at
  %none = call ptr (ptr, ptr, ptr, ...) @PyObject_CallMethod(ptr %self, ptr @raise.name, ptr @raise.takes, i64 %status, i64 %info, ptr %title)
  ret ptr %none
done:
  ret ptr null
}""".replace("RAISED", str(long_loops.RAISED_IN_PYTHON))  # noqa: E501


def native_text(segment: NativeSegment, is_plain: bool = False) -> str:
    """The LLVM text of a segment's module, with the plain entry or with Python's."""
    return (_PlainEntry if is_plain else _Entry)(segment).text()


class _Entry(Steps):
    """Prints a segment as one module."""

    def __init__(self, segment: NativeSegment) -> None:
        super().__init__(segment, Module(may_ask_python=self.is_of_python))
        self.scopes[0][faults.KEY] = "%fault"
        if rank_calls.begins(segment.steps):
            self.scopes[0][rank_routines.KEY] = "%flights"
            block = rank_routines.MEMORY
            self.stack.append(f"  %flights = alloca {block}, align 8")
            self.stack.append(f"  store {block} zeroinitializer, ptr %flights")

    def text(self) -> str:
        segment, module = self.segment, self.module
        module.apart = workspace.apart(segment.steps)
        module.own = {b for own in module.apart.values() for b in own}
        for buffer in workspace.on_stack(segment.steps):
            if buffer not in module.own:
                self.put_on_stack(buffer)
        self._read_arguments()
        lines = self._let_go()
        before = len(self.lines)
        self.block(segment.steps)
        parts = []
        for library in sorted(module.libraries):
            own = _declared(library) or streaming.wrapper(library) or rows_ahead.wrapper(library)
            text_of, needs = own or _routine(library)
            parts.append(text_of)
            module.declarations |= set(needs.splitlines())
        self._declare_needs()
        self.lines[before:before] = lines
        if self.known(parallel_callers.KEY):
            is_kept = self._calls_from_outside()  # they may ask Python
            self.declare(parallel_callers.KEPT if is_kept else parallel_callers.FUNCTIONS)
            module.declarations |= set() if is_kept else set(parallel_callers.DECLARATIONS)
        self._returns()
        parts += [f"define internal void {name}{t}" for (t, _), name in module.functions.items()]
        parts += [f"define internal void {name}.piece{t}" for name, t in module.pieces.items()]
        parts += [f"define internal void {name}{t}" for t, name in module.parts.items()]
        body = "\n".join([*self.stack, *self.lines])
        parts.append(f"define {self.takes} #2 {{\nentry:\n{body}\n}}")
        attributes = jit.function_attributes()
        if module.repeated:
            self._define_repeated(parts, attributes)
        more = [function.variants() for function in module.repeated.values()]
        parts, variants = rare.told(parts, module.declarations, _FIRST_FREE, more)
        parts += [*sorted(module.declarations), *variants]
        parts.append(f"attributes {units.KERNEL} = {{ noinline {attributes} }}")
        parts.append("attributes #1 = { nounwind willreturn memory(none) }")
        parts.append(f"attributes #2 = {{ {attributes} }}")
        apart = "noimplicitfloat " if self._stays_scalar() else ""
        parts.append(f"attributes {units.OF_STEPS} = {{ alwaysinline {apart}{attributes} }}")
        parts.append(f"attributes {units.TAKEN_IN} = {{ alwaysinline {attributes} }}")
        parts.append(f"attributes {units.WRITTEN_OUT} = {{ noinline {attributes} }}")
        parts += METADATA
        return "\n".join(parts) + "\n" + rare.definitions(module.declarations)

    def _define_repeated(self, parts: list[str], attributes: str) -> None:
        from phix.kernels.cpu import repeated_code  # few programs need it

        for function in self.module.repeated.values():
            texts, needs = repeated_code.definitions(function, attributes)
            parts += texts
            self.module.declarations |= needs

    def _declare_needs(self) -> None:
        """Name the functions of phix that functions from outside call: who loads the code, later
        too, sees to it that they are there."""
        module = self.module
        called = {d.partition("@")[2].partition("(")[0] for d in module.declarations}
        for name in filter(linked.is_linked, called | module.libraries):
            for need in linked.find(name).needs():
                self.declare(f"declare void @{need}()")

    takes = "ptr @ENTRY(ptr %self, ptr %args, i64 %nargs)"
    is_of_python = True

    def _let_go(self) -> list[str]:
        """The lines that let the interpreter go; none where that does not pay."""
        pays = parallel_callers.pays(self.segment) if self.is_of_python else False
        if pays is False:
            return []
        self.scopes[0][parallel_callers.KEY] = "%lock"
        self.stack += ["  %lock = alloca ptr", "  store ptr null, ptr %lock"]
        if pays:
            return ["  call void @let_go(ptr %lock)"]
        arrays = filter(self.has_dims, self.segment.arguments)
        size = self.value(self.segment.dim_expr(parallel_callers.elements(arrays)))
        return [f"  call void @let_go_where(ptr %lock, i64 {size})"]

    def _calls_from_outside(self) -> bool:
        names = {d.partition("@")[2].partition("(")[0] for d in self.module.declarations}
        return any(map(linked.is_linked, names | self.module.libraries))

    def _take_back(self) -> None:
        if self.known(parallel_callers.KEY):
            self.lines.append("  call void @take_back(ptr %lock)")

    def _returns(self) -> None:
        """The end of the entry, where all went well."""
        if self.module.can_fail:
            block = f"[{faults.WORDS} x i64]"
            self.stack.append(f"  %fault = alloca {block}")
            self.stack.append(f"  store {block} zeroinitializer, ptr %fault")
            self.declare(_RAISE)
        self._take_back()
        self.declare("declare void @Py_IncRef(ptr)")
        self.lines += ["  call void @Py_IncRef(ptr %self)", "  ret ptr %self"]

    def leave(self) -> None:
        """Return to Python with the exception for the fault."""
        self._take_back()
        raised = self.let("call ptr @raise(ptr %self, ptr %fault)")
        self.lines.append(f"  ret ptr {raised}")

    def _read_arguments(self) -> None:
        """Read the array objects at the head, not in loops; LLVM drops what is not used.

        Parts read those of their own, and the entry calls one after the other.
        """
        for buffer in () if self.is_in_parts(self.segment.steps) else self.segment.arguments:
            self.data(buffer)
            if buffer.strided:
                self.strides(buffer)
        for name in self.segment.symbols:
            self.symbol(name)
        if self.segment.asking is None:
            return
        for number, key in enumerate(asking.KEYS, len(self.segment.arguments)):
            at = self.let(f"getelementptr inbounds ptr, ptr %args, i64 {number}")
            found = self.let(f"load ptr, ptr {at}")
            if key == asking.TABLE:  # an array, of which the elements are asked for
                at = self.let(f"getelementptr inbounds i8, ptr {found}, i64 {DATA}")
                found = self.let(f"load ptr, ptr {at}")
            self.scopes[0][key] = found

    def _stays_scalar(self) -> bool:
        """Whether LLVM should leave the bodies of small loops as they are, without vectors.

        An iteration waits for the one before: what moves values between lanes makes it wait longer.
        """
        is_crossed = any(map(crosses_lanes, self.module.inlined))
        return is_crossed and not any(map(fills_vectors, self.module.inlined))


class _PlainEntry(_Entry):
    """The entry that native code calls."""

    takes = "i64 @ENTRY(ptr %args, ptr %fault)"
    is_of_python = False

    def _returns(self) -> None:
        self.lines.append("  ret i64 0")

    def leave(self) -> None:
        """Return with what the fault says."""
        status = self.let("load i64, ptr %fault")
        self.lines.append(f"  ret i64 {status}")


def _routine(name: str) -> tuple[str, str]:
    """The text of a routine, and what it needs; most programs call none."""
    from phix.kernels.cpu import (
        blas,
        direct_convolutions,
        direct_products,
        fourier_call,
        product,
        sort_code,
    )

    own = direct_products.wrapper(name) or fourier_call.wrapper(name) or sort_code.wrapper(name)
    own = own or direct_convolutions.wrapper(name)
    if own is None and rewrites.is_on("own_products"):
        own = product.wrapper(name)
    return own or blas.wrapper(name)


def _declared(name: str) -> tuple[str, str] | None:
    """What a call of a routine from outside phix needs; None for a name of phix's own."""
    if not linked.is_linked(name):
        return None
    return "", linked.find(name).declaration
