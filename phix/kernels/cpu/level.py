"""Which instructions generated code may use: those of this CPU, or of a named level.

``PHIX_CPU`` names the level, so that one folder of programs, or one set of bits, serves machines
that differ. It is read when the first program is compiled.
"""

from __future__ import annotations

import os
from functools import lru_cache

from phix.core.errors import ArgumentError
from phix.core.records import dataclass
from phix.kernels.cpu import host

NATIVE = "native"
# What LLVM makes vectors of: lines of a loop's body, and loops. The next is tried where it finds
# fault with what it made.
VECTORS: tuple[tuple[bool, bool], ...] = ((True, True), (False, True), (False, False))
# vmovmskps, vmovmskpd and vpmovmskb from a register, after prefixes of two and of three bytes.
SIGNS_OF_VECTORS = (
    rb"(?:\xc5|\xc4[\x01\x21\x41\x61\x81\xa1\xc1\xe1])"
    rb"[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd][\x50\xd7][\xc0-\xff]"
)
# Features that leave out the instructions which make a mask of the signs of a vector.
WITHOUT_SIGNS_OF_VECTORS = ",-avx512dq,-avx512bw"
# vpternlogd and vpternlogq that leave lanes as they are: of the bytes of the prefix, the last one
# names a mask, and does not say that what is left out is 0.
LOGIC_UNDER_MASKS = (
    rb"\x62[\x03\x13\x23\x33\x43\x53\x63\x73\x83\x93\xa3\xb3\xc3\xd3\xe3\xf3]"
    rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d"
    rb"\x85\x8d\x95\x9d\xa5\xad\xb5\xbd\xc5\xcd\xd5\xdd\xe5\xed\xf5\xfd]"
    rb"(?![\x00\x08\x10\x18\x20\x28\x30\x38\x40\x48\x50\x58\x60\x68\x70\x78])[\x00-\x7f]\x25"
)
# Features that leave out all instructions with masks.
WITHOUT_MASKS = ",-avx512f"
_V2 = frozenset(["cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2"])
_V3 = _V2 | frozenset(["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"])
_V4 = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
# The levels by architecture, each with what a CPU must have; LLVM knows the x86-64 ones as CPUs.
_LEVELS: dict[str, dict[str, frozenset[str]]] = {
    "x86_64": {
        "x86-64": frozenset(), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4,
    },
    "aarch64": {
        "armv8-a": frozenset({"neon"}),
        "armv8.2-a": frozenset({"neon", "lse", "rdm", "fullfp16"}),
        "armv9-a": frozenset({"neon", "lse", "rdm", "fullfp16", "sve", "sve2"}),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Level:
    """A CPU as LLVM names it, its features, and those of them that are on, by name."""

    cpu: str
    features: str
    has: frozenset[str]


@lru_cache(maxsize=1)
def level() -> Level:
    """What code is generated for.

    Raises:
        ArgumentError: ``PHIX_CPU`` names no level of this machine's kind, or one above it.
    """
    name = os.environ.get("PHIX_CPU", "").strip() or NATIVE
    found = host.facts()
    has = frozenset(f[1:] for f in found["features"].split(",") if f.startswith("+"))
    if name == NATIVE:
        return Level(found["CPU"], found["features"] + _tuning(found["CPU"]), has)
    architecture = found["triple"].partition("-")[0].replace("arm64", "aarch64")
    levels = _LEVELS.get(architecture, {})
    if name not in levels:
        known = ", ".join((NATIVE, *levels))
        raise ArgumentError(f"PHIX_CPU={name!r} names no level of this machine; write {known}")
    missing = sorted(levels[name] - has)
    if missing:
        raise ArgumentError(
            f"PHIX_CPU={name!r} asks for what this CPU has not: {', '.join(missing)}; "
            f"write a lower level, or {NATIVE}"
        )
    if architecture == "x86_64":
        return Level(name, "", levels[name])
    return Level("generic", ",".join(f"+{f}" for f in sorted(levels[name])), levels[name])


def _tuning(cpu: str) -> str:
    """What LLVM does not know of a CPU: AMD's gather no faster than by one load after another."""
    return ",+prefer-no-gather" if cpu.startswith("znver") else ""


@lru_cache(maxsize=1)
def has_masks() -> bool:
    """Whether a vector instruction of the CPU can leave out some of its lanes."""
    return "avx512f" in level().has
