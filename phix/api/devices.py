"""Which devices are there."""

from __future__ import annotations

from phix.core import places
from phix.core.engines import has_engine
from phix.core.errors import DeviceError
from phix.core.given import NONE, TEXT, takes
from phix.core.places import Place
from phix.core.records import dataclass


@dataclass(frozen=True)
class DeviceFacts:
    """One device.

    Attributes:
        place: what ``x.to(place)`` and ``phix.device(place)`` take; so is its name, ``str``.
        kind: "cpu", "gpu", or that of a plug-in.
        description: the hardware in words.
        memory_in_bytes: of the device, all of it; None where that is not told.
        engine: what compiles programs for it: "loops" where an engine of phix or a plug-in does,
            "kernels" where ops run one by one.
    """

    place: Place
    kind: str
    description: str
    memory_in_bytes: int | None
    engine: str

    def __str__(self) -> str:
        return str(self.place)


@takes(kind=TEXT | NONE)
def devices(kind: str | None = None) -> list[DeviceFacts]:
    """The devices of this machine that phix can use, the CPU first.

    Args:
        kind: "cpu", "gpu" or that of a plug-in: those of that kind alone.

    Raises:
        DeviceError: no such kind is known here. One without hardware gives no devices.

    >>> import phix
    >>> cpu = phix.devices()[0]
    >>> str(cpu), cpu.engine, cpu.memory_in_bytes > 0
    ('cpu', 'loops', True)
    """
    known = places.kinds(search=True)
    if kind is not None and kind not in known:
        raise DeviceError(f"devices: no kind {kind!r}; there is {', '.join(known)}")
    found = []
    for one in known if kind is None else (kind,):
        device = places.device_of(one)
        for index in range(device.count()):
            facts = device.describe(index), device.memory(index)
            engine = "loops" if has_engine(one) else "kernels"
            found.append(DeviceFacts(Place(one, index), one, *facts, engine))
    return sorted(found, key=lambda d: d.kind != places.CPU.kind)
