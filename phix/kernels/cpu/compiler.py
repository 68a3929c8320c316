"""LLVM, through llvmlite (the compiler library of Numba): from text to machine code.

Importing llvmlite takes longer than all that a program found on disk needs, so this module is
imported where there is something to compile.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from phix.kernels.cpu import objects
from phix.kernels.cpu.level import VECTORS, has_masks, level
from phix.kernels.loops import linked


@lru_cache(maxsize=1)
def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=level().cpu,
        features=level().features,
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


def _engine() -> llvm.ExecutionEngine:
    """What puts an object into memory: one an object, as its memory goes only as a whole.

    It compiles nothing: its machine knows no CPU, and the module it begins with, which it would
    compile with the object, is taken out.
    """
    _machine()  # makes the targets known
    target = llvm.Target.from_default_triple()
    empty = llvm.parse_assembly("")
    machine = target.create_target_machine(opt=0, jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(empty, machine)
    engine.remove_module(empty)
    return engine


def parsed(text: str) -> llvm.ModuleRef:
    """The module of a text, with the native functions from outside phix that it calls."""
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    for name in sorted(set(re.findall(linked.DECLARED, text))):
        module.link_in(llvm.parse_assembly(linked.find(name).make()))
        module.get_function(name).linkage = llvm.Linkage.internal
    module.verify()
    return module


def _optimised(
    text: str, is_final: bool = False, vectors: tuple[bool, bool] = VECTORS[0]
) -> llvm.ModuleRef:
    """The module after LLVM's passes; with ``is_final``, those alone that find registers.

    Text that has its vectors and loops as they are to be compiles in half the time then.
    """
    machine, module = _machine(), parsed(text)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization, options.loop_vectorization = vectors
    builder = llvm.create_pass_builder(machine, options)
    if not is_final:
        with _disposed(builder.getModulePassManager()) as every:
            every.run(module, builder)
        return module
    with _disposed(llvm.create_new_function_pass_manager()) as few:
        few.add_sroa_pass()
        few.add_instruction_combine_pass()
        few.add_simplify_cfg_pass()
        for function in module.functions:
            if not function.is_declaration:
                few.run(function, builder)
    return module


def object_of(text: str, is_final: bool) -> bytes:
    """The machine code of a module as an object file."""
    for vectors in VECTORS:
        body = bytes(_machine().emit_object(_optimised(text, is_final, vectors)))
        if is_final or not may_lose_masks(body):
            break
    return body


# vmovmskps, vmovmskpd and vpmovmskb from a register, after prefixes of two and of three bytes
_SIGNS = re.compile(
    rb"(?:\xc5|\xc4[\x41\x61\xc1\xe1])[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd][\x50\xd7][\xc0-\xff]"
)


def may_lose_masks(body: bytes) -> bool:
    """Whether machine code has signs of a vector in an int, of a CPU that has masks.

    Of a comparison with 0, LLVM 22 takes them from the vector itself, and leaves the mask out; it
    overlooks that the mask is read once more where that instruction also writes it (its
    X86CompressEVEX), which then reads whatever was there. One program in a hundred has any.
    """
    return has_masks() and _SIGNS.search(body) is not None


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
    return str(_machine().emit_assembly(_optimised(text)))


class Placed:
    """An object in the memory of LLVM's own loader."""

    def __init__(self, body: bytes) -> None:
        for name, address in objects.SYMBOLS.items() - _told.items():
            llvm.add_symbol(name, address)
            _told[name] = address
        self.engine = _engine()
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(body))
        self.engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function is; 0 where there is none of that name."""
        return int(self.engine.get_function_address(name))


_told: dict[str, int] = {}  # where LLVM knows native functions to be
loaded = Placed


class Emission(threading.Thread):
    """A module on its way to machine code, beside Python: LLVM needs no lock of the interpreter.

    One long call is all that the thread makes. Each return from a call waits until another thread
    lets the interpreter go, which takes that one as long as a good part of the work.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.module = _optimised(text, is_final=True)
        self.body: bytes | None = None  # None in the end: it went wrong, as it will again
        self.start()

    def run(self) -> None:
        with contextlib.suppress(Exception):
            self.body = _machine().emit_object(self.module)

    def result(self) -> bytes | None:
        self.join()
        return self.body
