"""Routines that LLVM may call where the CPU has no instruction, and no library has them for sure.

LLVM shortens chains of conversions. What goes from float64 by float32 to float16 may then need
one step from float64 to float16, a call of ``__truncdfhf2``; left alone, it would call nothing.
"""

from __future__ import annotations

# float32 in between, rounded to odd: its last bit says that something was lost, so the second
# rounding cannot see a tie that the first one made.
_TRUNCDFHF2 = """
declare double @llvm.fabs.f64(double)
define half @phix_truncdfhf2(double %x) nounwind {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %is_exact = fcmp ueq double %back, %x
  %size = call double @llvm.fabs.f64(double %x)
  %rounded = call double @llvm.fabs.f64(double %back)
  %is_above = fcmp ogt double %rounded, %size
  %step = sext i1 %is_above to i32
  %bits = bitcast float %near to i32
  %below = add i32 %bits, %step
  %odd = or i32 %below, 1
  %chosen = select i1 %is_exact, i32 %bits, i32 %odd
  %value = bitcast i32 %chosen to float
  %result = fptrunc float %value to half
  ret half %result
}
"""

# The name that LLVM calls -> the module with the routine, and its name there.
ROUTINES: dict[str, tuple[str, str]] = {"__truncdfhf2": (_TRUNCDFHF2, "phix_truncdfhf2")}
_bound: set[str] = set()


def bind(code: bytes) -> None:
    """Make the routines that an object file names known to compiled code."""
    from phix.kernels.cpu import jit

    for name, (text, own) in ROUTINES.items():
        if name not in _bound and name.encode() in code:
            _bound.add(name)
            (address,) = jit.addresses(text, (own,))
            jit.add_symbol(name, address)
