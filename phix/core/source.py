"""The user's line: the innermost frame outside phix."""

from __future__ import annotations

import os
import sys
from types import FrameType

from phix.core.graph import Source

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_source() -> Source | None:
    """Where in the user's code the call under way was made."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def at_user_line() -> str:
    """`` (at file:line)`` for messages; empty where no frame is the user's."""
    source = user_source()
    return f" (at {source})" if source else ""
