"""LLVM, through llvmlite (the compiler library of Numba): from text to machine code.

Importing llvmlite takes longer than all that a program found on disk needs, so this module is
imported where there is something to compile.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from phix.kernels.cpu import objects, units
from phix.kernels.cpu.level import (
    LOGIC_UNDER_MASKS,
    SIGNS_OF_VECTORS,
    VECTORS,
    WITHOUT_MASKS,
    WITHOUT_SIGNS_OF_VECTORS,
    has_masks,
    level,
)
from phix.kernels.loops import linked

# By the features that a machine knows.
_idle: dict[str, list[llvm.TargetMachine]] = defaultdict(list)

# Where lines add up to one number, LLVM 22 may end the process as it makes vectors of them, by an
# assertion of its own: gradients of unrolled factors of 6 x 6 do. It is an option of the process,
# which LLVM takes once.
_OPTION = "-slp-vectorize-hor=false"
if getattr(ffi, "_told_by_phix", None) is None:
    llvm.set_option("phix", _OPTION)
    ffi._told_by_phix = _OPTION


@contextlib.contextmanager
def _machine(features: str) -> Iterator[llvm.TargetMachine]:
    """A machine that no other thread uses meanwhile."""
    machine = _idle[features].pop() if _idle[features] else _new_machine(features)
    yield machine
    _idle[features].append(machine)


def _new_machine(features: str) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=level().cpu,
        features=features,
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


def _engine() -> llvm.ExecutionEngine:
    """What puts an object into memory: one an object, as its memory goes only as a whole.

    It compiles nothing: its machine knows no CPU, and the module it begins with, which it would
    compile with the object, is taken out.
    """
    llvm.initialize_native_target()
    target = llvm.Target.from_default_triple()
    empty = llvm.parse_assembly("")
    machine = target.create_target_machine(opt=0, jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(empty, machine)
    engine.remove_module(empty)
    return engine


# -- LLVM's long calls -----------------------------------------------------------------------------
def _unlocked(name: str) -> Callable[..., Any]:
    """A function of llvmlite's library without the lock under which llvmlite makes each call.

    LLVM needs none between threads whose modules have contexts of their own, and machines.
    """
    library = ffi.lib
    function: Callable[..., Any] = getattr(getattr(library, "_lib", library), name)
    return function


def parsed(text: str) -> llvm.ModuleRef:
    """The module of a text, with the native functions from outside phix that it calls."""
    context = llvm.create_context()
    module = _parsed(text.partition(units.MARK)[0], context)
    module.triple = llvm.get_process_triple()
    for name in sorted(set(re.findall(linked.DECLARED, text))):
        module.link_in(_parsed(linked.find(name).make(), context))
        module.get_function(name).linkage = llvm.Linkage.internal
    module.verify()
    return module


def _parsed(text: str, context: llvm.ContextRef) -> llvm.ModuleRef:
    with ffi.OutputString() as said:
        found = _unlocked("LLVMPY_ParseAssembly")(context, text.encode(), said)
        if not found:
            raise RuntimeError(f"LLVM does not understand its text: {said}")
    return llvm.ModuleRef(found, context)


def _optimise(
    module: llvm.ModuleRef,
    machine: llvm.TargetMachine,
    is_final: bool = False,
    vectors: tuple[bool, bool] = VECTORS[0],
) -> None:
    """Run LLVM's passes; with ``is_final``, those alone that find registers.

    Text that has its vectors and loops as they are to be compiles in half the time then.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization, options.loop_vectorization = vectors
    builder = llvm.create_pass_builder(machine, options)
    if not is_final:
        with _disposed(builder.getModulePassManager()) as every:
            _unlocked("LLVMPY_RunNewModulePassManager")(every, module, builder)
        return
    with _disposed(llvm.create_new_function_pass_manager()) as few:
        few.add_sroa_pass()
        few.add_instruction_combine_pass()
        few.add_simplify_cfg_pass()
        for function in module.functions:
            if not function.is_declaration:
                _unlocked("LLVMPY_RunNewFunctionPassManager")(few, function, builder)


def join(module: llvm.ModuleRef, machine: llvm.TargetMachine, text: str) -> None:
    """Put what is rarely needed, which a text has at its end, where it is called."""
    late = text.partition(units.MARK)[2]
    if not late:
        return
    module.link_in(_parsed(late, module._context))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    with _disposed(llvm.create_new_module_pass_manager()) as few:
        few.add_always_inliner_pass()
        _unlocked("LLVMPY_RunNewModulePassManager")(few, module, builder)


def _emitted(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> bytes:
    with ffi.OutputString() as said:
        found = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, said)
        if not found:
            raise RuntimeError(f"LLVM makes no machine code: {said}")
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(found)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(found), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(found)


# -- machine code ----------------------------------------------------------------------------------
def object_of(text: str, is_final: bool) -> bytes:
    """The machine code of a module as an object file."""
    body = _object_for(level().features, text, is_final)
    if may_lose_masks(body):
        body = _object_for(level().features + WITHOUT_SIGNS_OF_VECTORS, text, is_final)
    if may_mix_operands(body):
        return _object_for(level().features + WITHOUT_MASKS, text, is_final)
    return body


def _object_for(features: str, text: str, is_final: bool) -> bytes:
    with _machine(features) as machine:
        for vectors in VECTORS:
            module = parsed(text)
            _optimise(module, machine, is_final, vectors)
            join(module, machine, text)
            if _is_sound(module):
                return _emitted(module, machine)
    raise RuntimeError("LLVM's passes make nothing of its text that it takes")


def _is_sound(module: llvm.ModuleRef) -> bool:
    """Whether LLVM finds its own work in order, after its passes.

    Where it makes vectors of lines, LLVM 22 may put a value behind its use, which ends the process
    as machine code is made, if not in a wrong number.
    """
    with ffi.OutputString() as said:
        return not _unlocked("LLVMPY_VerifyModule")(module, said)


def objects_of(text: str, is_final: bool) -> list[bytes]:
    """The machine code of a module in several object files, which are made side by side."""
    first, *others = units.divided(text, is_final)
    begun = [Emission(unit.text, unit.is_final) for unit in others]
    return [object_of(first.text, first.is_final), *(each.result() for each in begun)]


def begun(text: str, is_final: bool) -> list[Emission]:
    """The object files of a module, all on their way."""
    return [Emission(unit.text, unit.is_final) for unit in units.divided(text, is_final)]


class Emission(threading.Thread):
    """A module on its way to machine code, beside all else: LLVM needs no lock of the interpreter.

    What the thread calls returns to Python, where it may wait for another one to let the
    interpreter go. So it pays where the caller waits, too, or has other things to do.
    """

    under_way: ClassVar[set[Emission]] = set()

    def __init__(self, text: str, is_final: bool) -> None:
        super().__init__()
        self.given = text, is_final
        self.body: bytes | None = None
        self.under_way.add(self)
        try:
            self.start()
        except RuntimeError:  # there are no more threads, or Python is about to end
            self.run()

    def run(self) -> None:
        try:
            with contextlib.suppress(Exception):
                self.body = object_of(*self.given)
        finally:
            self.under_way.discard(self)

    def wait(self) -> None:
        """Wait for its end."""
        if self.ident is not None:
            self.join()

    def result(self) -> bytes:
        """The object file, waited for; the error where there is none."""
        self.wait()
        return object_of(*self.given) if self.body is None else self.body


def may_lose_masks(body: bytes) -> bool:
    """Whether machine code has signs of a vector in an int, of a CPU that has masks.

    Of a comparison with 0, LLVM 22 takes them from the vector itself, and leaves the mask out; it
    overlooks that the mask is read once more where that instruction also writes it (its
    X86CompressEVEX), which then reads whatever was there. And of registers from 16 on, which that
    instruction cannot name, it takes the signs of those from 0 on.
    """
    return has_masks() and re.search(SIGNS_OF_VECTORS, body) is not None


def may_mix_operands(body: bytes) -> bool:
    """Whether machine code has bitwise logic of three vectors that leaves lanes as they are.

    Where a vector is in memory, and not the last one, LLVM 22 puts them into another order, and
    writes the table of the logic for a wrong one, in two of the six (its VPTERNLOG231 and
    VPTERNLOG312, swapped): ``where(m, x & 15 | y & ~15, x)`` had bits of ``y`` where those of ``x``
    belong. Which order it was cannot be seen, nor what was in memory, as loads leave loops later.
    """
    return has_masks() and re.search(LOGIC_UNDER_MASKS, body) is not None


@contextlib.contextmanager
def _disposed(manager: Any) -> Iterator[Any]:
    """A pass manager, given back in the end: llvmlite forgets to, 80 KB for each program."""
    try:
        yield manager
    finally:
        NewPassManager._dispose(manager)
        manager.detach()


def assembly(text: str) -> str:
    """The machine code of a module as assembly text."""
    module = parsed(text)
    with _machine(level().features) as machine:
        _optimise(module, machine)
        join(module, machine, text)
        return str(machine.emit_assembly(module))


class Placed:
    """Objects in the memory of LLVM's own loader."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        for name, address in objects.SYMBOLS.items() - _told.items():
            llvm.add_symbol(name, address)
            _told[name] = address
        self.engine = _engine()
        for body in bodies:
            self.engine.add_object_file(llvm.ObjectFileRef.from_data(body))
        self.engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function is; 0 where there is none of that name."""
        return int(self.engine.get_function_address(name))


_told: dict[str, int] = {}  # where LLVM knows native functions to be
loaded = Placed
