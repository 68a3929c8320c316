"""This machine as LLVM knows it, which one process asks LLVM, and later ones the disk cache.

What LLVM said is kept for this start of the system, these words of the system about its CPU and
this library of llvmlite: where all of them are the same, so is the answer.
"""

from __future__ import annotations

import os
from functools import lru_cache

import llvmlite

from phix.core import disk_cache

_START = "/proc/sys/kernel/random/boot_id"
_CPU = "/proc/cpuinfo"
_CHANGING = ("cpu MHz", "bogomips", "BogoMIPS")  # what is said anew each time, or means nothing


def llvmlite_version() -> str:
    return llvmlite.__version__


@lru_cache(maxsize=1)
def facts() -> dict[str, str]:
    """The version of LLVM, the triple of this process, and the CPU with its features, in LLVM's
    words."""
    lines = disk_cache.remembered(_stamp(), _asked).split("\n")
    return dict(zip(_NAMES, lines))


_NAMES = ("LLVM", "triple", "CPU", "features")


def _asked() -> str:
    """The facts, a line each."""
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    return "\n".join((version, llvm.get_process_triple(), llvm.get_host_cpu_name(), features))


def _stamp() -> str | None:
    """What the facts follow from; None where the system does not tell."""
    folder = os.path.join(os.path.dirname(llvmlite.__file__), "binding")
    try:
        files = sorted((e.name, e.stat()) for e in os.scandir(folder) if e.is_file())
        with open(_START, encoding="ascii") as start, open(_CPU, encoding="utf-8") as cpu:
            said = [start.read(), *_first(cpu.read(_MUCH))]
    except (OSError, ValueError):
        return None
    stamps = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for name, s in files]
    return repr(("host", llvmlite.__version__, folder, stamps, said))


_MUCH = 1 << 14  # of what may be said of hundreds of CPUs


def _first(text: str) -> list[str]:
    """The lines about the first CPU that stay what they are."""
    return [n for n in text.partition("\n\n")[0].split("\n") if not n.startswith(_CHANGING)]
