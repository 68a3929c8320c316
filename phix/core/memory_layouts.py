"""Layouts by name: the axes of a tensor in the order in which they lie, ``NCHW`` or ``NHWC``.

One axis may be cut into blocks, which lie last: ``NCHW16c`` has 16 channels beside each other, and
five axes in memory: images, blocks of channels, rows, columns, channels of a block.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from phix.core import registries
from phix.core.errors import KernelRegistrationError, shown
from phix.core.given import takes

ANY = "any"  # the layout of kernels that do not care
LAYOUTS: list[str] = [ANY, "NCHW", "NHWC", "NCDHW", "NDHWC", "NCHW16c"]
registries.contents(LAYOUTS)
_NAME = re.compile(r"([A-Z]{2,})(?:([1-9][0-9]*)([a-z]))?$")


class Parts(NamedTuple):
    """The axes of a layout by their letters, and how many of which are a block."""

    axes: str
    size: int = 0
    block: str = ""


@cache
def parts(layout: str) -> Parts:
    """The parts of a layout; ``any`` has none."""
    match = _NAME.match(layout)
    if match is None:
        return Parts("")
    return Parts(match[1], int(match[2] or 0), (match[3] or "").upper())


@takes()
def add_layout(layout: str) -> None:
    """Make a layout known, so that kernels may be registered for it.

    Args:
        layout: a letter an axis, each once; behind them, where one axis is cut into blocks, their
            size and its letter in small, as in ``"NCHW8c"``.

    Raises:
        KernelRegistrationError: no name of that form, or it is known.

    >>> import phix
    >>> with phix.scoped_registries():
    ...     phix.kernels.add_layout("CHWN")
    """
    axes, size, block = parts(layout)
    if not axes or len(set(axes)) < len(axes) or (size and block not in axes) or layout in LAYOUTS:
        why = "is known" if layout in LAYOUTS else "is none"
        raise KernelRegistrationError(
            f"the layout {shown(layout)} {why}; write a letter an axis, as in 'CHWN' or 'NCHW8c'"
        )
    LAYOUTS.append(layout)


def is_blocked(layout: str) -> bool:
    """Whether an axis is cut into blocks."""
    return bool(parts(layout).size)


@cache
def goes_to(layout: str, other: str) -> bool:
    """Whether tensors in ``layout`` can be brought to the other one: it has the same axes."""
    own = parts(layout)
    return bool(own.axes) and not own.size and sorted(own.axes) == sorted(parts(other).axes)


def alternatives(layout: str) -> tuple[str, ...]:
    """The layouts of kernels for calls in ``layout``, in the order of preference."""
    if layout == ANY:
        return tuple(other for other in LAYOUTS if not is_blocked(other))
    return tuple(dict.fromkeys((layout, ANY, *(o for o in LAYOUTS if goes_to(layout, o)))))
