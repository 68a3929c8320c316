"""Machine code put into memory without LLVM: objects as LLVM writes them for x86-64 Linux.

Such code stands anywhere, as it names all that lies outside of a section by its full address. What
is not of this kind (another system's objects, another way to name things, a function that is not
found) is left to LLVM's own loader, whose import takes longer than most programs.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from phix.core.records import dataclass

SYMBOLS: dict[str, int] = {}  # native functions that code may call, besides those of the process

# As LLVM writes them; offsets are of the file's head, and of the rows of its tables.
_KIND = struct.Struct("<7s9xHH")
_TABLE_AT, _ROWS = struct.Struct("<40xQ"), struct.Struct("<60xH")
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, ...
_SYMBOL = struct.Struct("<IBBHQQ")  # name, kind, visibility, section, value, size
_RELOCATION = np.dtype([("place", "<i8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<u8")])
_OURS = (b"\x7fELF\x02\x01\x01", 1, 62)  # 64 bits, the lowest first; to be linked; x86-64
_BITS, _SYMBOLS, _RELOCATIONS, _ZEROS, _UNWINDING = 1, 2, 4, 8, 0x70000001
_WRITTEN, _IN_MEMORY, _OF_THREADS = 1, 2, 0x400
_FULL_ADDRESS = 1  # R_X86_64_64
_GLOBAL = 1
_ALIGNED = 64  # a line of the cache


@dataclass(eq=False)
class _Section:
    """A section of an object that is to lie in memory, and where in it."""

    kind: int
    is_written: bool
    content: bytes
    size: int
    alignment: int
    relocations: np.ndarray | None = None
    place: int = 0


@dataclass(eq=False)
class _Object:
    """What lies in memory, by the numbers of its sections; and the table of symbols."""

    sections: dict[int, _Section]
    symbols: list[tuple[int, ...]]
    names: bytes

    def named(self) -> Iterator[tuple[str, int, int, int]]:
        """Each symbol's name, kind, section and place there."""
        for name, kind, _, number, value, _ in self.symbols:
            yield self.names[name : self.names.index(b"\0", name)].decode(), kind, number, value


class Loaded:
    """Objects in memory, which is given back with this."""

    def __init__(self, memory: mmap.mmap, functions: dict[str, int]) -> None:
        self.memory, self.functions = memory, functions

    def address(self, name: str) -> int:
        """Where a function is; 0 where there is none of that name."""
        return self.functions.get(name, 0)


def packed(bodies: Sequence[bytes]) -> bytes:
    """Objects as one: their number, the size of each, themselves."""
    sizes = struct.pack(f"<{1 + len(bodies)}Q", len(bodies), *map(len, bodies))
    return b"".join([sizes, *bodies])


def unpacked(whole: bytes) -> list[bytes]:
    """The objects that are packed."""
    (count,) = struct.unpack_from("<Q", whole)
    ends = list(accumulate(struct.unpack_from(f"<{count}Q", whole, 8), initial=8 * (1 + count)))
    return [whole[a:b] for a, b in pairwise(ends)]


def loaded(bodies: Sequence[bytes]) -> Loaded | None:
    """Objects that may call each other in memory, ready to be called; None where one is not of the
    kind known here."""
    found = []
    for body in bodies:
        if sys.platform != "linux" or len(body) < 64 or _KIND.unpack_from(body) != _OURS:
            return None
        (start,), (rows,) = _TABLE_AT.unpack_from(body), _ROWS.unpack_from(body)
        table = list(_SECTION.iter_unpack(body[start : start + rows * _SECTION.size]))
        sections = _sections(body, table)
        if sections is None:
            return None
        found.append(_Object(sections, *_symbols(body, table)))
    return _placed(found)


def _sections(body: bytes, table: list[tuple[int, ...]]) -> dict[int, _Section] | None:
    """What is to lie in memory, by number; None where some of it is of no kind known here."""
    found: dict[int, _Section] = {}
    for n, (_, kind, flags, _, start, size, _, info, alignment, _) in enumerate(table):
        if kind == _RELOCATIONS and info in found:
            each = np.frombuffer(body[start : start + size], _RELOCATION)
            if (each["type"] != _FULL_ADDRESS).any():
                return None
            found[info].relocations = each
        elif flags & _IN_MEMORY and size and kind != _UNWINDING:  # nothing is thrown through code
            if kind not in (_BITS, _ZEROS) or flags & _OF_THREADS:
                return None
            content = b"" if kind == _ZEROS else body[start : start + size]
            found[n] = _Section(kind, bool(flags & _WRITTEN), content, size, alignment)
    return found


def _symbols(body: bytes, table: list[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], bytes]:
    """The rows of the table of symbols, and the names that they are of."""
    for _, kind, _, _, start, size, link, *_ in table:
        if kind == _SYMBOLS:
            names = table[link][4]
            rows = list(_SYMBOL.iter_unpack(body[start : start + size]))
            return rows, body[names : names + table[link][5]]
    return [], b""


def _placed(every: list[_Object]) -> Loaded | None:
    """Objects in memory; None where they name what is not found."""
    sections = [s for each in every for s in each.sections.values()]
    protected, size = _give_places(sections)
    if not protected:
        return None
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    functions = {
        name: base + each.sections[number].place + value
        for each in every
        for name, kind, number, value in each.named()
        if number in each.sections and kind >> 4 == _GLOBAL
    }
    if not all(_is_filled(each, memory, base, functions) for each in every):
        return None
    is_refused = _protect()(base, protected, mmap.PROT_READ | mmap.PROT_EXEC)
    return None if is_refused else Loaded(memory, functions)


def _is_filled(each: _Object, memory: mmap.mmap, base: int, functions: dict[str, int]) -> bool:
    """Put an object where it goes, unless it names what is not found."""
    addresses = np.zeros(len(each.symbols), np.uint64)
    for n, (name, _, number, value) in enumerate(each.named()):
        if number in each.sections:
            addresses[n] = base + each.sections[number].place + value
        elif not number and name:
            addresses[n] = functions.get(name) or address_of(name)
    for section in each.sections.values():
        place, relocations = section.place, section.relocations
        memory[place : place + len(section.content)] = section.content
        if relocations is None:
            continue
        found = addresses[relocations["symbol"]]
        if not found.all():
            return False
        places = place + relocations["place"][:, None] + np.arange(8)
        content = np.frombuffer(memory, np.uint8)
        content[places] = (found + relocations["addend"]).view(np.uint8).reshape(-1, 8)
    return True


def _give_places(sections: Sequence[_Section]) -> tuple[int, int]:
    """Say where sections go: code and what is read, then, from a page's beginning on, what is
    written. How much is never written again, and how much it is in all."""
    end = protected = 0
    for is_written in (False, True):
        for section in sections:
            if section.is_written == is_written:
                aligned = max(_ALIGNED, section.alignment)
                section.place = -(-end // aligned) * aligned
                end = section.place + section.size
        end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        protected = protected or end
    return protected, end


def address_of(name: str) -> int:
    """Where a native function is: one that was made known, else the process's; 0 for none."""
    known = SYMBOLS.get(name)
    if known is None:
        routine = getattr(_process(), name, None)
        known = 0 if routine is None else ctypes.cast(routine, ctypes.c_void_p).value or 0
    return known


@lru_cache(maxsize=1)
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@lru_cache(maxsize=1)
def _protect() -> ctypes._CFuncPtr:  # type: ignore[name-defined]
    protect = _process().mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return protect
