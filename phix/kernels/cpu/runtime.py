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

# By bits, for CPUs without conversions of float16. A float32 that holds the exponent and fraction
# of a float16 is 2^-112 times too small; infinities and NaN have the largest exponent.
_EXTENDHFSF2 = """
define float @phix_extendhfsf2(half %x) nounwind {
  %narrow = bitcast half %x to i16
  %bits = zext i16 %narrow to i32
  %size = and i32 %bits, 32767
  %moved = shl i32 %size, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %is_special = icmp uge i32 %size, 31744
  %special = or i32 %moved, 2139095040
  %chosen = select i1 %is_special, i32 %special, i32 %finite
  %top = and i32 %bits, 32768
  %sign = shl i32 %top, 16
  %result = or i32 %chosen, %sign
  %value = bitcast i32 %result to float
  ret float %value
}
"""
# Half to even: by the bits above the last one kept, and for subnormals by adding a number whose
# last bit is the smallest float16.
_TRUNCSFHF2 = """
define half @phix_truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %biased = sub i32 %size, 939520001
  %sum = add i32 %biased, %odd
  %normal = lshr i32 %sum, 13
  %magnitude = bitcast i32 %size to float
  %moved = fadd float %magnitude, 5.000000e-01
  %shifted = bitcast float %moved to i32
  %subnormal = sub i32 %shifted, 1056964608
  %is_small = icmp ult i32 %size, 947912704
  %finite = select i1 %is_small, i32 %subnormal, i32 %normal
  %is_large = icmp uge i32 %size, 1199570944
  %bounded = select i1 %is_large, i32 31744, i32 %finite
  %is_nan = icmp ugt i32 %size, 2139095040
  %chosen = select i1 %is_nan, i32 32256, i32 %bounded
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %result = or i32 %chosen, %sign
  %narrow = trunc i32 %result to i16
  %value = bitcast i16 %narrow to half
  ret half %value
}
"""

# The name that LLVM calls -> the module with the routine, and its name there.
ROUTINES: dict[str, tuple[str, str]] = {
    "__truncdfhf2": (_TRUNCDFHF2, "phix_truncdfhf2"),
    "__truncsfhf2": (_TRUNCSFHF2, "phix_truncsfhf2"),
    "__extendhfsf2": (_EXTENDHFSF2, "phix_extendhfsf2"),
}
