"""How compiled code calls Fourier transforms."""

from __future__ import annotations

# What is on either side: complex numbers (0), real ones before (1; 3: all
# points of these) or behind (2); the direction;
# the dims [outer, points, inner] of the side with all points; by what, or by the root of what, the
# results are divided.
ARGUMENTS = (
    "i64 %kind, i64 %forward, i64 %points, i64 %outer, i64 %inner, i64 %divisor, i64 %rooted, "
    "ptr %x, ptr %out, ptr %fault"
)


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines ``fft_<dtype>``, and what it declares; None for other routines."""
    routine, _, dtype = library.rpartition("_")
    if routine != "fft":
        return None
    return forwarded(library, f"phix_fft_{dtype}", ARGUMENTS)


def forwarded(library: str, target: str, arguments: str) -> tuple[str, str]:
    """LLVM text of a function that calls another with what it is given; the other's declaration."""
    kinds = ", ".join(a.split()[0] for a in arguments.split(", "))
    called = f"call void @{target}({arguments})"
    return (
        f"define internal void @{library}({arguments}) {{\n  {called}\n  ret void\n}}",
        f"declare void @{target}({kinds})",
    )
