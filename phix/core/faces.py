"""Faces: the modules that users call, in which ``dir`` shows what is public and nothing else.

A face says once what it offers, in ``__all__``; ``from face import *``, type checkers and, by::

    __dir__ = face(__all__)

``dir`` and the completion of names in editors and notebooks all go by that list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def face(names: Sequence[str]) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module that offers ``names``, its ``__all__``, which may grow."""
    return lambda: sorted(names)
