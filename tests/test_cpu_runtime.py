"""Routines that LLVM calls: conversions the CPU has no instruction for."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import jit, runtime


def test_float64_to_float16_rounds_once():
    text, _ = runtime.ROUTINES["__truncdfhf2"]
    loop = """
define void @convert(ptr %x, ptr %out, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr double, ptr %x, i64 %i
  %value = load double, ptr %from
  %half = call half @phix_truncdfhf2(double %value)
  %to = getelementptr half, ptr %out, i64 %i
  store half %half, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
    (address,) = jit.addresses(text.replace("@phix_truncdfhf2", "@phix_truncdfhf2_again")
                               + loop.replace("@phix_truncdfhf2", "@phix_truncdfhf2_again"),
                               ("convert",))  # fmt: skip
    convert = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        middles = (halves[:-1] + halves[1:]) / 2
        near = np.concatenate([middles * (1 + e) for e in (0, 2.0**-40, -(2.0**-40), 2.0**-52)])
        rng = np.random.default_rng(0)
        random = rng.normal(size=10000) * 10.0 ** rng.integers(-12, 12, 10000)
        x = np.concatenate([halves, near, random, [5e-324, -5e-324, 1e308, -1e308]])
        out = np.empty(x.shape, np.float16)
        convert(x.ctypes.data, out.ctypes.data, x.size)
        wanted = x.astype(np.float16)
    np.testing.assert_array_equal(out, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(out[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("spec", [["n"], [4]])
def test_a_sign_read_from_a_float16_that_came_from_a_float64(spec):
    """LLVM reads the sign of the result straight from the float64, rounding it on the way."""
    x = np.array([-0.0, 0.25, 1.25, -0.5], np.float16)
    f = phix.jit(lambda x: (x % 0.75, ops.tanh(x % 0.75)), input_spec=[phix.spec(spec, "float16")])
    rest, squashed = f(x)
    np.testing.assert_array_equal(rest, x % np.float16(0.75))
    np.testing.assert_allclose(squashed, np.tanh((x % np.float16(0.75)).astype("f")), rtol=2e-3)


# What Python does when it ends, made to go wrong each time: modules are cleared before functions,
# what they held is freed and written over (with floats whose bits, read as the flags of a method,
# say that it has a class), and the collector visits the functions.
_END = """
import gc, struct, sys
import phix

phix.jit(lambda x: x * 2.0 + 1.0)(1.0)
programs = [o for o in gc.get_objects() if getattr(o, "__name__", "") == "phix_program"]
assert programs
sys.modules["phix.kernels.cpu.jit"].__dict__.clear()
gc.collect()
bits = struct.pack("<II", 0x200, 0x3FF00000)
floats = [struct.unpack("d", bits) for _ in range(100000)]
gc.collect()
"""


def test_programs_outlive_the_modules_that_made_them():
    run = subprocess.run([sys.executable, "-c", _END], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
