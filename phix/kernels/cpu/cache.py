"""Compiled objects on disk: one file an object, named by what it was compiled from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

# Least recently used files go when the folder is larger than this.
LARGEST_BYTES = 512 << 20
_CHECK_EVERY = 64
_MAGIC = b"phix-object-1\n"
_writes = 0


def directory() -> Path | None:
    """Where objects are kept (PHIX_CACHE_DIR, else the user's cache); None if PHIX_CACHE=0."""
    if os.environ.get("PHIX_CACHE", "1") == "0":
        return None
    named = os.environ.get("PHIX_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "phix"


def load(key: str) -> bytes | None:
    """The object kept under ``key``; None where there is none, or where the file is damaged."""
    folder = directory()
    if folder is None:
        return None
    path = folder / f"{key}.o"
    try:
        content = path.read_bytes()
        head, digest, body = content[: len(_MAGIC)], content[len(_MAGIC) :][:32], content[46:]
        if head != _MAGIC or hashlib.sha256(body).digest() != digest:
            return None
        os.utime(path)
    except OSError:
        return None
    return body


def save(key: str, body: bytes) -> None:
    """Keep an object; a folder that cannot be written is no error."""
    global _writes
    folder = directory()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(body).digest() + body)
        os.replace(temporary, folder / f"{key}.o")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return
    _writes += 1
    if _writes % _CHECK_EVERY == 1:
        trim(folder, LARGEST_BYTES)


def trim(folder: Path, largest: int) -> None:
    """Delete the least recently used objects until ``largest`` bytes are left."""
    found = []
    for path in folder.glob("*.o"):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= largest:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
