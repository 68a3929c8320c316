"""What was compiled, kept on disk: one file an entry, named by what it was made from.

A file appears whole or not at all, so several processes may share the folder. Each holds a digest
of its name and content: one that is damaged, or has another's name, counts as missing, and is
written anew. So does one that somebody else owns, since what is kept is machine code that will run:
unless PHIX_CACHE_SHARED says that the folder is a team's.

Nothing is deleted but files of this suffix that begin with this magic: the folder may be one that
the user keeps other things in.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from phix.core import settings
from phix.core.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

# Modules that take milliseconds to import are imported where they are used: `import phix` needs
# none of this.

# Least recently used files go when the folder is too large, down to three quarters of the bound.
_STALE_SECONDS = 3600  # a file still being written after that long has no writer any more
_MAGIC = b"phix-entry-3\n"
_BODY = len(_MAGIC) + 32
_SUFFIX = ".phixcache"
_UNFINISHED = ".phixcache-tmp"

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# What stands between a traced graph and machine code.
_ROOMS = ("core", "interpreters", "kernels", "numba", "passes", "primitives", "table")
_IMPORTED = time.time_ns()

_counts = {"hits": 0, "misses": 0, "writes": 0}
_trims_due: dict[str, int] = {}  # by folder: at which write of this process it is looked through


@dataclass(frozen=True)
class CacheInfo:
    """The state of the disk cache, and what this process asked of it."""

    folder: Path | None  # None: switched off
    entries: int
    bytes: int
    largest_bytes: int
    hits: int
    misses: int


def directory() -> str | None:
    """Where entries are kept (PHIX_CACHE_DIR, else the user's cache); None if PHIX_CACHE=0."""
    if os.environ.get("PHIX_CACHE", "1") == "0":
        return None
    named = os.environ.get("PHIX_CACHE_DIR")
    if named:
        return named
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "phix")


def load(key: str) -> bytes | None:
    """What is kept under ``key``; None where there is nothing, or where the file is damaged."""
    folder = directory()
    found = None if folder is None else _read(_path(folder, key))
    _counts["misses" if found is None else "hits"] += 1
    return found


def has(key: str) -> bool:
    """Whether something is kept under ``key``; ``load`` says whether it is whole."""
    folder = directory()
    return folder is not None and os.path.exists(_path(folder, key))


def _path(folder: str, key: str) -> str:
    return os.path.join(folder, f"{key}{_SUFFIX}")


def is_shared() -> bool:
    """Whether the folder is a team's: entries of others are trusted, and own ones readable."""
    return os.environ.get("PHIX_CACHE_SHARED", "0") == "1"


def _head(path: str, body: bytes) -> bytes:
    """What stands before the content of a file: a digest of it and of the file's name."""
    from phix.core.digests import sha256

    name = os.path.basename(path).encode()
    return _MAGIC + sha256(name + b"\n" + body).digest()


def _is_ours(file: int) -> bool:
    """Whether an open file is a plain one, of ours or of the team's."""
    status = os.fstat(file)
    owned = is_shared() or not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISREG(status.st_mode) and owned


def _open(path: str) -> int:
    """An entry for reading; no link is followed, and no pipe waited for."""
    return os.open(path, os.O_RDONLY | _CAUTION)


_CAUTION = sum(getattr(os, f"O_{n}", 0) for n in ("BINARY", "CLOEXEC", "NOFOLLOW", "NONBLOCK"))


def _read(path: str) -> bytes | None:
    try:
        with os.fdopen(_open(path), "rb") as file:
            if not _is_ours(file.fileno()):
                return None
            content = file.read()
    except OSError:
        return None
    head, body = content[:_BODY], content[_BODY:]
    if head != _head(path, body):
        return None
    with contextlib.suppress(OSError):  # a folder that is read alone
        os.utime(path)  # used now, so among the last to go
    return body


def save(key: str, body: bytes) -> None:
    """Keep ``body`` under ``key``; a folder that cannot be written is no error."""
    folder = directory()
    if folder is None:
        return
    import tempfile

    try:
        os.makedirs(folder, 0o777 if is_shared() else 0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=_UNFINISHED)  # for nobody else
    except OSError:
        return
    path = _path(folder, key)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_head(path, body) + body)
        if is_shared():
            os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return
    _counts["writes"] += 1
    _trim_if_due(folder)


def remembered(stamp: str | None, make: Callable[[], str]) -> str:
    """What ``make`` gives, kept under all that it follows from; None: that is not known."""
    folder = directory()
    if stamp is None or folder is None:
        return make()
    from phix.core.digests import sha256

    key = sha256(stamp.encode()).hexdigest()
    found = _read(_path(folder, key))
    if found is None:
        found = make().encode()
        save(key, found)
    return found.decode()


def _trim_if_due(folder: str) -> None:
    """Trim a folder after so many writes, or an eighth of what is in it: looking through it takes
    some microseconds an entry, which so many writes are to share. Processes that write little
    share it too: a process begins anywhere between two trims."""
    bounds, count = settings.current(), _counts["writes"]
    if folder not in _trims_due:
        _trims_due[folder] = count + time.time_ns() // 1000 % bounds.writes_between_trims
    if count >= _trims_due[folder]:
        found = trim(folder, bounds.most_cache_bytes)
        _trims_due[folder] = count + max(bounds.writes_between_trims, found // 8)


def _entries(folder: str, suffix: str = _SUFFIX) -> Iterator[tuple[float, int, str]]:
    """When each file was last used, its size, and where it is."""
    names: list[str] = []
    with contextlib.suppress(OSError):  # there is no such folder yet
        names = os.listdir(folder)
    for name in names:
        if name.endswith(suffix):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # another process deleted it
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    yield status.st_mtime, status.st_size, path


def trim(folder: str, largest: int) -> int:
    """Delete the least recently used entries if they are more than ``largest`` bytes together; how
    many there were."""
    found = sorted(_entries(folder))
    total = sum(size for _, size, _ in found)
    wanted = total if total <= largest else largest * 3 // 4
    for _, size, path in found:
        if total <= wanted:
            break
        if _delete(path):
            total -= size
    for written, _, path in _entries(folder, _UNFINISHED):
        if written < time.time() - _STALE_SECONDS:
            _delete(path)
    return len(found)


def _delete(path: str) -> bool:
    """Delete a file that begins as those of this cache do; whether it is gone."""
    try:
        with os.fdopen(_open(path), "rb") as file:
            if not _is_ours(file.fileno()) or not _MAGIC.startswith(file.read(len(_MAGIC))):
                return False  # one that is being written may have nothing in it yet
        os.unlink(path)
    except OSError:
        return False
    return True


def cache_info() -> CacheInfo:
    """Where compiled programs are kept, how many they are, and how often they were found.

    Returns:
        A CacheInfo: ``folder`` (None if PHIX_CACHE=0), ``entries`` and their ``bytes``, the bound
        ``largest_bytes``, and the ``hits`` and ``misses`` of this process.

    >>> import phix
    >>> info = phix.cache_info()
    >>> info.bytes <= info.largest_bytes
    True
    """
    from pathlib import Path

    folder = directory()
    sizes = [] if folder is None else [size for _, size, _ in _entries(folder)]
    return CacheInfo(
        None if folder is None else Path(folder),
        len(sizes),
        sum(sizes),
        settings.current().most_cache_bytes,
        _counts["hits"],
        _counts["misses"],
    )


def clear_cache() -> None:
    """Delete every compiled program from the disk cache; programs in memory stay, and so does
    whatever else is in the folder.

    >>> import phix
    >>> phix.clear_cache()  # phix.cache_info().entries is 0 now, if no other process is at work
    """
    folder = directory()
    if folder is None:
        return
    for suffix in (_SUFFIX, _UNFINISHED):
        for _, _, path in _entries(folder, suffix):
            _delete(path)


@lru_cache(maxsize=1)
def source_digest() -> str | None:
    """A digest of what phix makes programs with: the files of its rules, interpreters and engines.

    None where the files cannot be read, or are newer than this process: it may run older ones.
    They are read where they are not as they were when they were read last: the system notes when
    a file was changed in any way, and this process has seen none since.
    """
    try:
        found = sorted(_sources())
        if any(status.st_mtime_ns > _IMPORTED for _, status in found):
            return None
        stamps = [
            (path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for path, s in found
        ]
        return remembered(repr(stamps), lambda: _digest([path for path, _ in found]))
    except OSError:
        return None


def _digest(paths: list[str]) -> str:
    from phix.core.digests import blake2b

    digest = blake2b()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(f"{path[len(_PACKAGE) :]}\n".encode())
            digest.update(file.read())
    return digest.hexdigest()


def _sources() -> Iterator[tuple[str, os.stat_result]]:
    """The files of that. Names are strings, as this is done before a first result."""
    own = os.path.join(_PACKAGE, "ops.py")
    yield own, os.stat(own)
    folders = [os.path.join(_PACKAGE, room) for room in _ROOMS]
    while folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.path, entry.stat()
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
