"""From LLVM text to callable machine code, through llvmlite (the compiler library of Numba)."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from phix.kernels.cpu import cache

# Raise when the convention of ``entry`` or the layout of what it reads changes.
ENTRY_VERSION = 2
_METH_FASTCALL = 0x80

_lock = threading.RLock()
_loaded: dict[str, int] = {}
# CPython keeps a pointer to a method's definition for as long as the function lives.
_definitions: list[Any] = []


class _MethodDefinition(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@lru_cache(maxsize=1)
def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


@lru_cache(maxsize=1)
def _engine() -> llvm.ExecutionEngine:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


@lru_cache(maxsize=1)
def _identity() -> str:
    """What besides the text decides the machine code."""
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    parts = (llvmlite.__version__, version, llvm.get_host_cpu_name(), features, ENTRY_VERSION)
    return repr(parts)


@lru_cache(maxsize=1)
def function_attributes() -> str:
    """Attributes of every kernel: LLVM prefers narrower vectors than the CPU has."""
    width = 512 if llvm.get_host_cpu_features().get("avx512f") else 256
    return f'nounwind "prefer-vector-width"="{width}"'


def _optimised(text: str) -> llvm.ModuleRef:
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def assembly(text: str) -> str:
    """The machine code of a module as assembly text."""
    with _lock:
        return str(_machine().emit_assembly(_optimised(text.replace("@ENTRY", "@entry"))))


def compiled(text: str) -> Callable[..., Any]:
    """The function ``@ENTRY`` of a module, callable from Python with METH_FASTCALL."""
    key = _key(text)
    name = f"phix_{key[:32]}"
    with _lock:
        address = _loaded.get(key)
        if address is None:
            (address,) = _load(key, text.replace("@ENTRY", f"@{name}"), (name,))
            _loaded[key] = address
    return _python_function(address)


def addresses(text: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """The addresses of functions of a module, which is to be loaded once."""
    with _lock:
        return _load(_key(text), text, names)


def _key(text: str) -> str:
    return hashlib.sha256((_identity() + text).encode()).hexdigest()


def _load(key: str, text: str, names: tuple[str, ...]) -> tuple[int, ...]:
    code = cache.load(key)
    if code is None:
        code = _machine().emit_object(_optimised(text))
        cache.save(key, code)
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found = tuple(int(engine.get_function_address(name)) for name in names)
    if not all(found):
        raise RuntimeError(f"the compiled object lacks one of the functions {names}")
    return found


def _python_function(address: int) -> Callable[..., Any]:
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    definition = _MethodDefinition(b"phix_program", address, _METH_FASTCALL, None)
    _definitions.append(definition)
    function: Callable[..., Any] = new(ctypes.addressof(definition), None, None)
    return function


def add_symbol(name: str, address: int) -> None:
    """Make a native function known to compiled code under ``name``."""
    llvm.add_symbol(name, address)
