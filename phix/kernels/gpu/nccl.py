"""Collectives between GPUs by NCCL, through CuPy: a communicator for each axis of a mesh.

What a step does is started on the current stream, with all else there, and may be recorded. The
ranks along an axis make their communicator together, when they first come to a program with steps
between them on tensors on GPUs; where one of them has no NCCL, all go through the host's memory.

A thread asks NCCL for errors, and whether a rank is gone: the kernels of the others, which would
wait for it for ever, are stopped then, and who reads a result is told.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import CollectiveError, DeviceError
from phix.core.source import Source

log = logging.getLogger("phix.kernels")

# What is added, by its name among NCCL's constants, and how many of those a number is.
_ADDED = {
    dt.bool_: ("UINT8", 1), dt.int8: ("INT8", 1), dt.uint8: ("UINT8", 1), dt.int32: ("INT32", 1),
    dt.uint32: ("UINT32", 1), dt.int64: ("INT64", 1), dt.uint64: ("UINT64", 1),
    dt.float32: ("FLOAT32", 1), dt.float64: ("FLOAT64", 1), dt.complex64: ("FLOAT32", 2),
    dt.complex128: ("FLOAT64", 2),
}  # fmt: skip
_OLDEST = 20700  # the first version that sends and receives
# Seconds between questions for errors, and in which communicators go when a program ends.
_PAUSE, _PATIENCE = 0.25, 10.0
_INSTALL = 'pip install "phix[nccl12]" (or "phix[nccl13]" with CUDA 13)'
_WHY = "NCCL_DEBUG=WARN in the environment prints why"


class Link:
    """The communicator of the ranks along one axis, each of which has a GPU of its own."""

    def __init__(self, group: Any, index: int, cuda: Any, communicator: Any) -> None:
        self.group, self.index, self.communicator = group, index, communicator
        self.cuda, self.nccl = cuda, _library(cuda)
        self.last = "nothing"  # the step that was started last
        self.records = True  # whether programs with its steps are recorded
        self.count = 0  # the number of the last recording
        self.lock = threading.Lock()

    @property
    def who(self) -> str:
        """This rank."""
        return f"rank {self.group.rank}, gpu:{self.index}"

    def run(
        self, kind: str, detail: Any, x: Any, out: Any, stream: int, source: Source | None
    ) -> None:
        """Start a step on a stream: ``out`` is filled by what the ranks' ``x`` are. Both are whole
        memory, and what is a rank's is a row. ``detail``: as of ``Group.run``.

        Raises:
            CollectiveError: NCCL refuses, or has failed before.
        """
        check()
        group = self.group
        group.enter(kind, detail, x, source, "gpu")
        if kind == "ragged":
            detail = detail, group.arriving(detail, x.shape[0], out.shape[0], source)
        at = "" if source is None else f" at {source}"
        self.last = f"{group.text(kind)} of {x.dtype}{list(x.shape)}{at}"
        with self.lock:
            try:
                if prod(x.shape) or prod(out.shape):
                    _CALLS[kind](self, detail, x, out, stream)
            except Exception as error:
                raise CollectiveError(
                    f"{self.who}: NCCL refuses {self.last}: {error}; {_WHY}"
                ) from None
        group.leave()

    def type(self, name: str) -> int:
        """A dtype, as NCCL numbers it."""
        return int(getattr(self.nccl, f"NCCL_{name}"))

    def added(self, x: Any, out: Any) -> tuple[int, int, int]:
        """How many numbers of which dtype ``out`` has, and how they are added."""
        name, parts = _ADDED[np.dtype(x.dtype)]
        how = self.nccl.NCCL_MAX if x.dtype == dt.bool_ else self.nccl.NCCL_SUM
        return prod(out.shape) * parts, self.type(name), int(how)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls that NCCL starts at once: what one sends another receives."""
        self.nccl.groupStart()
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self.nccl.groupEnd()
            raise
        self.nccl.groupEnd()

    def fault(self) -> str | None:
        """What NCCL says has happened, if anything."""
        if not self.lock.acquire(blocking=False):  # it is at work
            return None
        try:
            self.communicator.check_async_error()
        except Exception as error:
            return str(error)
        finally:
            self.lock.release()
        return None


def _at(array: Any) -> int:
    return int(array.data.ptr)


def _bytes(array: Any) -> int:
    return prod(array.shape) * int(array.dtype.itemsize)


def _sum(link: Link, detail: Any, x: Any, out: Any, stream: int) -> None:
    link.communicator.allReduce(_at(x), _at(out), *link.added(x, out), stream)


def _gather(link: Link, detail: Any, x: Any, out: Any, stream: int) -> None:
    link.communicator.allGather(_at(x), _at(out), _bytes(x), link.type("UINT8"), stream)


def _scatter(link: Link, detail: Any, x: Any, out: Any, stream: int) -> None:
    link.communicator.reduceScatter(_at(x), _at(out), *link.added(x, out), stream)


def _exchange(link: Link, detail: Any, x: Any, out: Any, stream: int) -> None:
    row, kind = _bytes(x) // link.group.size, link.type("UINT8")
    with link.together():
        for peer in range(link.group.size):
            link.communicator.send(_at(x) + peer * row, row, kind, peer, stream)
            link.communicator.recv(_at(out) + peer * row, row, kind, peer, stream)


def _permute(link: Link, detail: Any, x: Any, out: Any, stream: int) -> None:
    half, own, kind = len(detail) // 2, link.group.index, link.type("UINT8")
    pairs = list(zip(detail[:half], detail[half:]))
    targets, sources = [t for s, t in pairs if s == own], [s for s, t in pairs if t == own]
    if not sources:
        link.cuda.runtime.memsetAsync(_at(out), 0, _bytes(out), stream)
    if targets or sources:
        with link.together():
            for peer in targets:
                link.communicator.send(_at(x), _bytes(x), kind, peer, stream)
            for peer in sources:
                link.communicator.recv(_at(out), _bytes(out), kind, peer, stream)


def _ragged(link: Link, tables: Any, x: Any, out: Any, stream: int) -> None:
    row, kind = prod(x.shape[1:]) * int(x.dtype.itemsize), link.type("UINT8")
    counts, came = ([row * int(n) for n in table] for table in tables)
    if sum(came) < _bytes(out):
        link.cuda.runtime.memsetAsync(_at(out) + sum(came), 0, _bytes(out) - sum(came), stream)
    if not any(counts) and not any(came):
        return
    start, place = _at(x), _at(out)
    with link.together():
        for peer, (sent, taken) in enumerate(zip(counts, came)):
            if sent:
                link.communicator.send(start, sent, kind, peer, stream)
            if taken:
                link.communicator.recv(place, taken, kind, peer, stream)
            start, place = start + sent, place + taken


_CALLS: dict[str, Callable[[Link, Any, Any, Any, int], None]] = {
    "sum": _sum, "gather": _gather, "rows": _gather, "scatter": _scatter, "exchange": _exchange,
    "permute": _permute, "ragged": _ragged,
}  # fmt: skip


# -- what ranks record ---------------------------------------------------------------------------
# Wishes for a call of a program: not to be recorded; on memory that is new, or that it has run on.
NEVER, UNSEEN, SEEN = -3, -2, -1


def decide(links: Sequence[Link | None], digest: int, wish: int) -> tuple[int, int]:
    """What the ranks of these links do with a call of a program that has steps between them: the
    number of the recording to replay, SEEN to record it, or UNSEEN to do neither; and the number
    that a new one has.

    NCCL wants a step recorded by all ranks or by none. A recording is found by the addresses that
    it works on, and those are each rank's own; so each says its ``wish``: the number of the
    recording that it has, or one of the above. ``digest`` stands for the steps of the program:
    ranks along an axis whose programs have other steps do not come to equally many calls. They
    ask each other no more then, and record nothing with steps along it.

    Along each axis in turn, so that all ranks of all axes know of each other; of several axes
    twice, since along one of them ranks may have found that they do not fit behind the others.
    """
    low = high = wish
    count = max((link.count for link in links if link is not None), default=0)
    for _ in range(min(len(links), 2)):
        if not all(link is not None and link.records for link in links):
            low = NEVER
        for link in links:
            if link is None or not link.records:
                continue
            said = np.array([low, -high, digest, -digest, -count], np.int64)
            low, high, first, last, count = (int(n) for n in link.group.least(said))
            high, last, count = -high, -last, -count
            if first != last:
                link.records, low = False, NEVER
                log.info(
                    "the ranks along %r run programs with other collectives: those are not "
                    "recorded any more", link.group.name,
                )  # fmt: skip
    return (low if low == high and low >= SEEN else UNSEEN), count + 1


# -- making and ending them ----------------------------------------------------------------------
_LINKS: list[Link] = []
RECORDINGS: WeakSet[Any] = WeakSet()  # those with steps between ranks
_over = threading.Event()
_errors: list[str] = []


def check() -> None:
    """Raise CollectiveError if NCCL has failed: then no result can be trusted."""
    if _errors:
        raise CollectiveError(f"{_errors[0]}. Start the program anew")


def link(group: Any, index: int, cuda: Any) -> Any:
    """What joins the GPUs of the ranks of a group, which all ask for it when they first need it.
    None: one of them has no NCCL, and steps go through the memory of the host.

    Raises:
        DeviceError: two ranks have one GPU, or this one had another one before.
        CollectiveError: NCCL cannot join the ranks.
    """
    if group.link is None:
        group.link = (_made(group, index, cuda), index)
    found, before = group.link
    if found is not None and index != before:
        raise DeviceError(
            f"rank {group.rank} has joined the others along {group.name!r} by gpu:{before}, and "
            f"now meets tensors on gpu:{index}; keep those of a mesh on one GPU, mesh.place"
        )
    return found


def _made(group: Any, index: int, cuda: Any) -> Link | None:
    if group.comm is None:
        return None
    said = group.comm.allgather((group.rank, _address(index, cuda), _problem(group, cuda)))
    problems = [f"rank {rank}: {why}" for rank, _, why in said if why]
    if problems:
        log.warning(
            "collectives along %r of tensors on GPUs go through the memory of the host (%s)",
            group.name, problems[0],
        )  # fmt: skip
        return None
    seen: dict[Any, int] = {}
    for rank, address, _ in said:
        first = seen.setdefault(address, rank)
        if first != rank:
            raise DeviceError(
                f"ranks {first} and {rank} have one GPU ({address[1]}), and NCCL joins GPUs: put "
                "the tensors of each rank on one of its own, as in phix.device(mesh.place), or "
                "start no more ranks than there are GPUs; phix.parallel.mesh(..., nccl=False) goes "
                "through the memory of the host"
            )
    made = Link(group, index, cuda, _communicator(group, index, cuda))
    if not _LINKS:
        atexit.register(_close)
        threading.Thread(target=_watch, args=(group,), name="phix-nccl", daemon=True).start()
        group.at_failure(lambda: _abort("this rank has failed"))
    _LINKS.append(made)
    return made


def _address(index: int, cuda: Any) -> tuple[str, str]:
    """What no two GPUs have in common: the machine, and where the GPU is in it."""
    try:  # the name of a container may be another than that of the one beside it
        machine = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        machine = platform.node()
    return machine, str(cuda.runtime.deviceGetPCIBusId(index))


def _library(cuda: Any) -> Any:
    """CuPy's module for NCCL, which is no attribute of ``cupy.cuda`` before it is imported."""
    try:
        return importlib.import_module(f"{cuda.__name__}.nccl")
    except ImportError:
        return None


def _problem(group: Any, cuda: Any) -> str:
    """Why this rank has no NCCL; empty where it has."""
    if not group.nccl:
        return "its mesh has nccl=False"
    library = _library(cuda)
    if library is None or not library.available:
        return f"CuPy finds no NCCL; {_INSTALL}"
    if library.get_version() < _OLDEST:
        return f"its NCCL is too old ({library.get_version()}); {_INSTALL}"
    return ""


def _communicator(group: Any, index: int, cuda: Any) -> Any:
    """The communicator of a group, which all of its ranks make at once."""
    what = f"rank {group.rank}, gpu:{index}: NCCL cannot join the ranks along {group.name!r}"
    why, mark = "", None
    if group.index == 0:
        try:
            mark = _library(cuda).get_unique_id()
        except Exception as error:  # the others wait to hear of it
            why = str(error)
    why, mark = group.comm.bcast((why, mark), 0)
    if mark is None:
        raise CollectiveError(f"{what}: {why}; {_WHY}")
    try:
        with cuda.Device(index):
            return _library(cuda).NcclCommunicator(group.size, mark, group.index)
    except Exception as error:
        raise CollectiveError(f"{what}: {error}; {_WHY}") from None


def _watch(group: Any) -> None:
    """Ask for faults until there is one, or the program ends."""
    while not _over.wait(_PAUSE):
        found = [why for link in list(_LINKS) if (why := link.fault())]
        if group.is_ending():
            found = ["another rank of the program is gone"]
        if found:
            _abort(found[0])


def _abort(why: str) -> None:
    """Stop what is under way; results are not what they should be from here on."""
    _over.set()
    if _errors or not _LINKS:
        return
    last = ", ".join(f"{link.last} (axis {link.group.name!r})" for link in _LINKS)
    _errors.append(f"{_LINKS[0].who}: NCCL has stopped: {why}; started last: {last}")
    for link in _LINKS:
        with suppress(Exception):
            link.communicator.abort()


def _close() -> None:
    """Let go of the communicators, in time, where the program ends well."""
    _over.set()
    if not _errors:
        closing = threading.Thread(target=_destroy, daemon=True)
        closing.start()
        closing.join(_PATIENCE)
        if closing.is_alive():
            log.warning("the communicators of NCCL do not end within %g seconds", _PATIENCE)


def _destroy() -> None:
    for recordings in list(RECORDINGS):  # NCCL waits for those of its steps
        recordings.forget()
    for link in _LINKS:
        with suppress(Exception), link.cuda.Device(link.index):
            link.cuda.Device(link.index).synchronize()
            link.communicator.destroy()
    _LINKS.clear()
