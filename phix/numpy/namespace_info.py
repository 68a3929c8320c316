"""What the array API standard has a namespace tell of itself."""

from __future__ import annotations

from typing import Any

from phix.core import dtypes as dt
from phix.core import places
from phix.core.errors import AttributeValueError
from phix.numpy.dtypes import isdtype

# The dtypes of the standard, which has no float16 and no bfloat16.
_STANDARD = tuple(d for d in dt.ALL if d not in (dt.float16, dt.bfloat16))


class NamespaceInfo:
    """The capabilities, devices and dtypes of phix.numpy, as the standard asks for them.

    >>> import phix.numpy as np
    >>> np.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether masks may be indices, whether data may tell sizes, how many axes there may be."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where new arrays are made."""
        return places.default()

    def devices(self) -> list[Any]:
        """The places that are here."""
        return [
            places.Place(kind, index)
            for kind in places.kinds()
            for index in range(places.device_of(kind).count())
        ]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of what is made without one."""
        places.as_place(device)
        return {
            "real floating": dt.default_float(),
            "complex floating": dt.default_complex(),
            "integral": dt.DEFAULT_INT,
            "indexing": dt.DEFAULT_INT,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes of the standard of a kind, by name."""
        places.as_place(device)
        if kind is not None and not isinstance(kind, (str, tuple)):
            raise AttributeValueError(f"dtypes: kind is a str or a tuple of them, found {kind!r}")
        return {str(d): d for d in _STANDARD if kind is None or isdtype(d, kind)}
