"""Machine code that is put into memory without LLVM, and what is left to LLVM's loader."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import compiler, host, jit, level, objects

ROOT = Path(__file__).resolve().parents[1]
IS_OURS = sys.platform == "linux" and os.uname().machine == "x86_64"
pytestmark = pytest.mark.skipif(not IS_OURS, reason="LLVM puts all objects into memory here")

# Constants of floats, a table that is read, a counter that is written and one that begins at 0.
TEXT = """
@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@count = internal global i64 40
@zeros = internal global [9 x i64] zeroinitializer
declare i64 @labs(i64)
define double @chosen(i64 %k, double %x) {
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %k
  %value = load double, ptr %at
  %sum = fadd double %value, 0.0625
  %all = fmul double %sum, %x
  ret double %all
}
define i64 @counted() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  %at = getelementptr [9 x i64], ptr @zeros, i64 0, i64 8
  %zero = load i64, ptr %at
  store i64 -3, ptr %at
  %size = call i64 @labs(i64 %zero)
  %sum = add i64 %new, %size
  ret i64 %sum
}
"""


def machine_code(*texts: str) -> list[bytes]:
    return [compiler.object_of(text, True) for text in texts]


@pytest.mark.parametrize("load", [objects.loaded, compiler.loaded])
def test_code_does_the_same_whoever_puts_it_into_memory(
    load: Callable[[list[bytes]], object],
) -> None:
    body = machine_code(TEXT)
    for _ in range(2):  # each has variables of its own
        code: object = load(body)
        assert code is not None
        address = code.address  # type: ignore[attr-defined]
        assert address("neither") == 0
        chosen = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)
        assert chosen(address("chosen"))(2, 2.0) == 7.125
        counted = ctypes.CFUNCTYPE(ctypes.c_int64)(address("counted"))
        assert [counted(), counted()] == [41, 45]


def test_what_is_of_another_kind_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in b"", b"\xfe\xed\xfa\xcf" + bytes(60):
        assert objects.loaded([other]) is objects.loaded([*machine_code(TEXT), other]) is None
    calls = "declare void @phix_nowhere()\ndefine void @f() {\n  call void @phix_nowhere()\n"
    body = machine_code(calls + "  ret void\n}\n")
    assert objects.loaded(body) is None
    monkeypatch.setitem(objects.SYMBOLS, "phix_nowhere", objects.address_of("labs"))
    assert objects.loaded(body) is not None
    of_threads = "@own = thread_local global i64 3\ndefine ptr @f() {\n  ret ptr @own\n}\n"
    assert objects.loaded(machine_code(of_threads)) is None
    plain = bytearray(*machine_code(TEXT))
    plain[18] = 183  # the number of another architecture
    assert objects.loaded([bytes(plain)]) is None


# Each calls the other, and has a function of its own of a name that the other has, too.
PING = """
declare i64 @pong(i64)
define internal i64 @less(i64 %k) noinline {
  %found = sub i64 %k, 1
  ret i64 %found
}
define i64 @ping(i64 %k) {
  %is_end = icmp sle i64 %k, 0
  br i1 %is_end, label %end, label %more
more:
  %left = call i64 @less(i64 %k)
  %found = call i64 @pong(i64 %left)
  ret i64 %found
end:
  ret i64 %k
}
"""
PONG = PING.replace("ping", "PING").replace("pong", "ping").replace("PING", "pong")
PONG = PONG.replace("sub i64 %k, 1", "sub i64 %k, 10")


@pytest.mark.parametrize("load", [objects.loaded, compiler.loaded])
def test_objects_call_each_other(load: Callable[[list[bytes]], object]) -> None:
    bodies = machine_code(PING, PONG)
    whole = objects.packed(bodies)
    assert objects.unpacked(whole) == bodies and objects.unpacked(objects.packed([])) == []
    code: object = load(objects.unpacked(whole))
    assert code is not None
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert call(code.address("ping"))(30) == -3  # type: ignore[attr-defined]
    assert call(code.address("pong"))(30) == -2  # type: ignore[attr-defined]
    assert objects.loaded(bodies[:1]) is None  # the other is nowhere


def mapped(how: str = " r-x") -> int:
    """How many bytes of the process's memory may be run: its pieces join and part as they like."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        ends = [line.partition(" ")[0].split("-") for line in lines if how in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ends)


def test_memory_can_be_run_or_written_and_goes_with_its_owner() -> None:
    body = machine_code(TEXT)
    gc.collect()  # what other tests have left goes before it is counted
    before, unsafe = mapped(), mapped(" rwx")
    held = [objects.loaded(body) for _ in range(20)]
    assert None not in held and mapped() >= before + 20 * mmap.PAGESIZE
    assert mapped(" rwx") == unsafe
    held.clear()
    gc.collect()
    assert mapped() <= before


def test_programs_of_every_kind_need_no_loader_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(compiler, "loaded", asked.append)
    x = np.linspace(0.1, 0.9, 48, dtype="f").reshape(6, 8)
    programs: dict[str, Callable[..., object]] = {
        "product": lambda x: ops.matmul(x, x.T) * 1.0625,
        "sort": lambda x: ops.sort(x * 1.0625),
        "half": lambda x: ops.tanh(ops.cast(x, "float16")) * 1.0625,
        "factor": lambda x: ops.cholesky(ops.matmul(x, x.T) + 1.0625 * ops.eye(6)),
        "transform": lambda x: ops.fft_r2c(x * 1.0625, [1], "backward", True, True),
        "loop": lambda x: phix.scan(lambda c, r: (c * 1.0625 + r, c), x[0], x),
    }
    for program in programs.values():
        phix.jit(program)(x)
    assert not asked


# -- the machine, as LLVM knows it ---------------------------------------------------------------
def test_what_llvm_says_of_the_machine_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PHIX_CACHE", raising=False)
    asked: list[str] = []
    own = host._asked

    def counted() -> str:
        asked.append(own())
        return asked[-1]

    monkeypatch.setattr(host, "_asked", counted)
    facts = host.facts.__wrapped__
    assert facts() == facts() == host.facts() and len(asked) == 1
    start = tmp_path / "start"
    start.write_text("another start of the system")
    with monkeypatch.context() as patched:
        patched.setattr(host, "_START", str(start))
        assert facts() == host.facts() and len(asked) == 2
        patched.setattr(host, "_START", "/nowhere")  # a system that does not tell
        assert facts() == facts() == host.facts() and len(asked) == 4
    monkeypatch.setenv("PHIX_CACHE", "0")
    assert facts() == host.facts() and len(asked) == 5
    assert level.level().cpu and jit.identity().count(host.facts()["LLVM"])


def test_a_first_call_from_disk_makes_no_digest_of_sources(tmp_path: Path) -> None:
    script = """
import phix
from phix.core import disk_cache
read = []
own = disk_cache._digest
disk_cache._digest = lambda paths: read.append(len(paths)) or own(paths)
phix.ops.softmax(phix.to_tensor([[1.0, 2.0]]))
print(*read)
"""
    env = {**os.environ, "PHIX_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env.pop("PHIX_CACHE", None)

    def run() -> list[str]:
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env=env, text=True, stdout=-1, check=True).stdout.split()

    assert len(run()) == 1 and run() == []
