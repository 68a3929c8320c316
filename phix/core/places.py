"""Places: where data lives, and the devices that hold it.

Each kind of place has one :class:`Device`, which owns its memory. The CPU's is here; others are
registered with the path of the module that has them, or by a plug-in, and are looked for when a
place of their kind is first named.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phix.core import registries
from phix.core.arrays import read_only as read_only_array
from phix.core.context import context, note_registration
from phix.core.errors import DeviceError, OutOfMemoryError, shown
from phix.core.records import dataclass


@dataclass(frozen=True)
class Place:
    """A device: its kind and number. Prints as ``cpu`` or ``gpu:0``.

    >>> import phix
    >>> phix.to_tensor(1.0).place == phix.Place("cpu")
    True
    """

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"


CPU = Place("cpu")


class Device:
    """The memory of one kind of place: its allocator and its copies. Subclass it for a new one.

    Data there is held by objects of the class ``storage``, which have ``shape`` and ``dtype``.
    Host code never reads them: it asks for a copy.
    """

    storage: Any = object
    # DLPack's number of the kind of device, if arrays of other libraries there can be taken in
    dlpack_type: int | None = None

    def from_dlpack(self, array: Any, copy: bool) -> Any:
        """Contiguous storage with the values of another library's array that lies on the device;
        ``copy``: in memory of its own, else the array's where it can be read as it lies."""
        raise NotImplementedError

    def count(self) -> int:
        """How many devices of the kind are there; 0 without hardware or driver."""
        return 1

    def problem(self) -> str:
        """Why there is none, in words; asked when ``count`` is 0."""
        return "no such device is there"

    def describe(self, index: int) -> str:
        """The device in words, for ``python -m phix info``."""
        return type(self).__name__

    def memory(self, index: int) -> int | None:
        """The bytes that the device has; None where it does not tell."""
        return None

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Any:
        """Storage whose values do not matter yet. Raises MemoryError where there is no room."""
        raise NotImplementedError

    def from_host(self, array: np.ndarray, index: int) -> Any:
        """Storage with a copy of a C-contiguous host array."""
        raise NotImplementedError

    def to_host(self, storage: Any) -> np.ndarray:
        """A host array with a copy of the values, all work on them done."""
        raise NotImplementedError

    def index_of(self, storage: Any) -> int:
        """The number of the device that holds ``storage``."""
        return 0

    def is_contiguous(self, storage: Any) -> bool:
        """Whether the values lie in C order without gaps."""
        return True

    def is_alone(self, storage: Any) -> bool:
        """Whether no other storage shows the memory: a result may then take it over."""
        return False

    def read_only(self, storage: Any) -> Any:
        """The same memory, such that kernels cannot write to it; itself where there is no such."""
        return storage

    def stream(self, index: int) -> Any:
        """What kernels are to start their work on (``ctx.stream``); None where there are none."""

    def copy(self, target: Any, source: Any) -> None:
        """Put the values of storage into other storage of the same shape and dtype; without it, a
        kernel of ``reshape`` does."""
        raise NotImplementedError

    def empty_pool(self) -> None:
        """Give memory back that is kept for later."""


class Host(Device):
    """The memory NumPy arrays are in."""

    storage = np.ndarray

    def describe(self, index: int) -> str:
        import platform

        return platform.processor() or platform.machine()

    def memory(self, index: int) -> int | None:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):  # not every system tells
            return None

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Any:
        return np.empty(shape, dtype)

    def from_host(self, array: np.ndarray, index: int) -> Any:
        return array

    def to_host(self, storage: Any) -> np.ndarray:
        return storage

    def is_contiguous(self, storage: Any) -> bool:
        return storage.flags.c_contiguous

    def empty_pool(self) -> None:
        for give_back in HOST_POOLS:
            give_back()


# What keeps memory of the host for later, as functions that give it back.
HOST_POOLS: list[Callable[[], None]] = []
_DEVICES: dict[str, Device] = {"cpu": Host()}
_MODULES: dict[str, str] = {}  # kind -> the module whose variable DEVICE serves it
# The devices in use, by class of storage, the host's left out: those that something has been
# found on. As long as there are none, nothing can be in the wrong place.
_FOREIGN: dict[type, tuple[str, Device]] = {}
_found: dict[Any, Place] = {}
# Called when a kind is asked for that nobody registered: they may register more.
SEARCHES: list[Callable[[], None]] = []
# Called when a device is added: what was decided with the CPU alone in mind may not hold any more.
LISTENERS: list[Callable[[], None]] = [note_registration]
# What failed while devices were looked for: name -> what to say of it.
FAILURES: dict[str, str] = {}


@registries.part
def _as_they_are() -> Callable[[], None]:
    """The devices that are there. Those of phix that are first asked for inside the scope stay."""
    devices, modules, failures = dict(_DEVICES), dict(_MODULES), dict(FAILURES)

    def restore() -> None:
        for kind, device in list(_DEVICES.items()):
            loaded = getattr(sys.modules.get(modules.get(kind, "")), "DEVICE", None)
            if device is not devices.get(kind, loaded):
                unregister_device(kind)
        own = {kind: m for kind, m in _MODULES.items() if m.startswith("phix.")}
        _MODULES.clear()
        _MODULES.update(modules | own)
        for kind, device in devices.items():
            if kind not in _DEVICES:
                _add(kind, device)
        FAILURES.clear()
        FAILURES.update(failures)

    return restore


# -- the registry --------------------------------------------------------------------------
def register_device(kind: str, device: Device | str) -> None:
    """Say what holds the memory of a kind of place: a Device, or the module with one in DEVICE.

    Raises:
        DeviceError: the kind has one already.
    """
    if not kind.isidentifier():
        raise DeviceError(f"{kind!r} is no name for a kind of place; write one such as 'npu'")
    if kind in _DEVICES or kind in _MODULES:
        raise DeviceError(f"places of kind {kind!r} are registered already; take another name")
    if isinstance(device, str):
        _MODULES[kind] = device
    else:
        _add(kind, device)


def unregister_device(kind: str) -> None:
    """Forget a kind of place; its tensors cannot be used any more."""
    device = _DEVICES.pop(kind, None)
    _MODULES.pop(kind, None)
    for known in [p for p in _found if _found[p].kind == kind]:
        del _found[known]
    if device is not None:
        _FOREIGN.pop(device.storage, None)


def _add(kind: str, device: Device) -> None:
    _DEVICES[kind] = device
    if device.count():
        _use(kind, device)


def _use(kind: str, device: Device) -> None:
    """From now on there may be data on the device."""
    if isinstance(device, Host) or device.storage in _FOREIGN:
        return
    _FOREIGN[device.storage] = (kind, device)
    for listen in LISTENERS:
        listen()


def kinds(search: bool = False) -> tuple[str, ...]:
    """The kinds of places that are registered; with ``search``, plug-ins are looked for first."""
    if search:
        _search()
    there = [k for k, module in _MODULES.items() if _is_installed(module)]
    return tuple(dict.fromkeys((*_DEVICES, *there)))


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _search() -> None:
    for search in SEARCHES:
        search()


def device_of(kind: str) -> Device:
    """The device of that kind of place.

    Raises:
        DeviceError: no such kind; the message says which there are, and which failed to load.
    """
    found = _DEVICES.get(kind)
    if found is not None:
        return found
    if kind not in _MODULES:
        _search()
    module = _MODULES.get(kind)
    if module is not None and _is_installed(module):
        _add(kind, importlib.import_module(module).DEVICE)
    if kind not in _DEVICES:
        if kind in ("cuda", "hip", "xpu"):
            raise DeviceError(f"no place {kind!r}; write 'gpu', or 'gpu:1' for the second one")
        failed = "".join(f"; {name} failed to load: {why}" for name, why in FAILURES.items())
        raise DeviceError(
            f"no place {kind!r}; the places of this installation: {', '.join(kinds())}{failed}"
        )
    return _DEVICES[kind]


def as_place(value: Any) -> Place | None:
    """A Place from ``"cpu"``, ``"gpu:0"`` or a Place; None stays None (follow the inputs).

    Raises:
        DeviceError: no such kind of device is installed, or it has no driver, or fewer devices.
    """
    if value is None:
        return None
    if not isinstance(value, (str, Place)):
        raise DeviceError(
            f"no place {shown(value)}; write a name such as 'cpu' or 'gpu:0', or a phix.Place"
        )
    found = _found.get(value)
    if found is None:
        found = _found[value] = _checked(value)
    return found


def _checked(value: Any) -> Place:
    kind, _, index = str(value).partition(":")
    if index and not index.isdigit():
        raise DeviceError(f"no place {value!r}; write a kind and a number, as in 'gpu:0'")
    device, number = device_of(kind), int(index or 0)
    count = device.count()
    if not count:
        raise DeviceError(f"no place {value!r}: {device.problem()}; there is {', '.join(kinds())}")
    if number >= count:
        raise DeviceError(
            f"no place {value!r}: there are {count} of kind {kind}, numbered from 0; write "
            f"'{kind}:{count - 1}' for the last"
        )
    _use(kind, device)  # its driver may have come after it was added
    return Place(kind, number)


# -- where things are, and where they go -----------------------------------------------------
def is_host_alone() -> bool:
    """Whether no device but the CPU is in use, so that nothing can be in the wrong place."""
    return not _FOREIGN


_called_at_home: Callable[..., Any]


def provide_called_at_home(call: Callable[..., Any]) -> None:
    """Say how a function is called that is to make new tensors where those among its arguments
    are: ``core.conversion`` does, which knows tensors."""
    global _called_at_home
    _called_at_home = call


def called_at_home(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The call of a function, which makes new tensors where those among its arguments are. Who
    calls it looks before whether there is a device (:func:`is_host_alone`)."""
    return _called_at_home(function, args, kwargs)


def place_of(storage: Any) -> Place:
    """Where the data of a tensor lives."""
    if isinstance(storage, np.ndarray):
        return CPU
    kind, device = _owner(storage)
    return Place(kind, device.index_of(storage))


def _owner(storage: Any) -> tuple[str, Device]:
    found = _FOREIGN.get(type(storage))
    if found is None:
        raise DeviceError(
            f"data of type {type(storage).__name__} belongs to no place; phix.Tensor takes a NumPy "
            "array or the storage of a registered device, phix.to_tensor anything else"
        )
    return found


# DLPack's kinds of devices whose memory the host reads: its own, and what is pinned or managed.
_READ_BY_THE_HOST = (1, 3, 13)


def storage_of(array: Any, copy: bool) -> Any:
    """Storage with another library's array that lies on a device; None for one of the host.

    Raises:
        DeviceError: no place takes arrays of that kind of device.
    """
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__"):
        return None
    try:
        number, _ = array.__dlpack_device__()
    except Exception:  # of an array without values; who makes an array of it says so
        return None
    if number in _READ_BY_THE_HOST:
        return None
    for kind in kinds():
        device = device_of(kind)
        if device.dlpack_type == number and device.count():
            _use(kind, device)
            return device.from_dlpack(array, copy)
    raise DeviceError(
        f"found an array of type {type(array).__name__} on a device of DLPack's kind {number}, "
        f"which no place of {', '.join(kinds())} takes; copy it to the host"
    )


def is_contiguous(storage: Any) -> bool:
    """Whether storage outside the host lies in C order without gaps."""
    return _owner(storage)[1].is_contiguous(storage)


def is_alone(storage: Any) -> bool:
    """Whether nothing else shows the memory of storage outside the host."""
    return _owner(storage)[1].is_alone(storage)


def read_only(storage: Any) -> Any:
    """Storage as kernels get their inputs: they cannot write to it, where its device has that."""
    if isinstance(storage, np.ndarray):
        return read_only_array(storage)
    found = _FOREIGN.get(type(storage))
    return storage if found is None else found[1].read_only(storage)


def to_host(storage: Any) -> np.ndarray:
    """The values as a host array: the array itself, or a copy of what another device holds."""
    return storage if isinstance(storage, np.ndarray) else _owner(storage)[1].to_host(storage)


def allocate(place: Place, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Storage on ``place``; where there is no room, its pool is emptied and it is asked again.

    Raises:
        OutOfMemoryError: there is still no room.
    """
    device = device_of(place.kind)
    return with_room(place, shape, dtype, lambda: device.allocate(shape, dtype, place.index))


def moved(storage: Any, place: Place) -> Any:
    """The data on ``place``: itself where it is there already, else a copy."""
    if place_of(storage) == place:
        return storage
    array = to_host(storage)
    if place == CPU:
        return array
    array = np.asarray(array, order="C")
    device = device_of(place.kind)
    return with_room(place, array.shape, array.dtype, lambda: device.from_host(array, place.index))


def with_room(place: Place, shape: Any, dtype: np.dtype, make: Callable[[], Any]) -> Any:
    """What ``make`` allocates on ``place``; where it raises MemoryError, the memory that is kept
    there for later is given back, and it is called again.

    Raises:
        OutOfMemoryError: there is still no room.
    """
    try:
        return make()
    except MemoryError:
        device_of(place.kind).empty_pool()
    try:
        return make()
    except MemoryError as error:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raise OutOfMemoryError(
            f"out of memory on {place}: asked for {size} bytes ({dtype}{list(shape)}), also after "
            f"the pool was emptied{f' ({error})' if str(error) else ''}; use smaller batches, "
            "phix.checkpoint, or drop tensors that are not needed"
        ) from None


# -- the place of what has no inputs to follow -------------------------------------------------
def default() -> Place:
    """Where new data go in this thread: the place of the innermost ``phix.device``."""
    return context.place or CPU


@contextmanager
def device(place: Any) -> Iterator[Place]:
    """Inside the with block, new tensors are made on ``place``.

    New are results of ops that have no tensor among their arguments, and arrays, lists and numbers
    given where a tensor is expected. Everything else follows its inputs.

    Args:
        place: ``"cpu"``, ``"gpu"``, ``"gpu:1"``, the name of a plug-in's device, or a Place.

    Raises:
        DeviceError: no such device is here.

    >>> import phix
    >>> with phix.device("cpu") as here:
    ...     x = phix.zeros([2])
    >>> x.place == here
    True
    """
    here = as_place(place)
    if here is None:
        raise DeviceError("phix.device takes a place, found None; write one such as 'cpu'")
    before = context.place
    context.place = here
    try:
        yield here
    finally:
        context.place = before


register_device("gpu", "phix.kernels.gpu")
