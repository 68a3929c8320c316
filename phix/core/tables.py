"""Tensors as tables of HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

_MOST = 10  # rows and columns; of more, the first and the last half of these
_GAP = "&#8230;"


def html(tensor: Any) -> str:
    """A table of a tensor of one or two axes, else its text."""
    facts = f"{tensor.dtype}{list(tensor.shape)} on {tensor.place}"
    if tensor.ndim not in (1, 2) or 0 in tensor.shape:
        return f"<pre>{escape(repr(tensor))}</pre>"
    values = np.atleast_2d(tensor.host)
    rows, columns = _shown(values.shape[0]), _shown(values.shape[1])
    lines = [f"<table><caption>{escape(facts)}</caption>"]
    head = "".join(f"<th>{_GAP if c is None else c}</th>" for c in columns)
    lines.append(f"<tr><th></th>{head}</tr>")
    for row in rows:
        cells = (_GAP if row is None or c is None else _number(values[row, c]) for c in columns)
        name = _GAP if row is None else "" if tensor.ndim == 1 else row
        lines.append(f"<tr><th>{name}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>")
    return "\n".join([*lines, "</table>"])


def _shown(size: int) -> list[int | None]:
    """The numbers of the rows to show; None for those left out."""
    if size <= _MOST:
        return list(range(size))
    half = _MOST // 2
    return [*range(half), None, *range(size - half, size)]


def _number(value: Any) -> str:
    is_exact = isinstance(value, (np.bool_, np.integer, np.complexfloating))
    return str(value) if is_exact else f"{float(value):.6g}"
