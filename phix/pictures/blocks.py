"""What a picture of a graph is made of: ops, values, kernels around ops, graphs inside ops.

A block knows its size, what it reads and makes, and how it is drawn at a place. What it is made of
is laid out by :mod:`phix.pictures.layout`, one level inside the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any
from unicodedata import east_asian_width

from phix.core import dims as dm
from phix.core.graph import Variable
from phix.core.records import dataclass
from phix.pictures.layout import Box, Link, Point, arrange

LETTER, SMALL_LETTER, LINE = 7.3, 6.1, 15.0  # widths and height of letters, 12 and 10 px high
PAD = 10.0
Lines = list[str]
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def meta_text(variable: Variable) -> str:
    """``float32[8, 64]``."""
    return f"{variable.meta.dtype}{dm.shape_text(variable.meta.dims)}"


def letters(words: str) -> int:
    """The width of a line in letters: those of Chinese, Japanese and Korean take two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in words)


def written(words: str) -> str:
    """Words as text of XML, which has no place for most control characters."""
    return escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", words))


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """A line of letters; ``kind`` is a class of the picture's style."""
    at = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {at} class="{kind}">{written(words)}</text>'


def rectangle(x: float, y: float, box: Any, kind: str, radius: float = 5.0) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{radius:g}" class="{kind}"/>'
    )


class Block:
    """A part of a picture: ``reads`` enter at its upper edge, ``makes`` leave at its lower one."""

    def __init__(self, reads: Iterable[Variable], makes: Iterable[Variable]) -> None:
        self.reads = tuple(dict.fromkeys(reads))
        self.makes = tuple(dict.fromkeys(makes))
        self.width = self.height = 0.0

    def start_of(self, variable: Variable) -> float:
        """How far from the left a value leaves."""
        return self.width * (self.makes.index(variable) + 1) / (len(self.makes) + 1)

    def end_of(self, variable: Variable) -> float:
        """How far from the left a value enters."""
        return self.width * (self.reads.index(variable) + 1) / (len(self.reads) + 1)

    @property
    def room(self) -> float:
        """The width with the names of what leaves, which stand to the right of its lines."""
        ends = [self.start_of(v) + 8 + letters(meta_text(v)) * SMALL_LETTER for v in self.makes]
        return max([self.width, *ends])

    @property
    def width_of_names(self) -> float:
        """The least width at which the names of several values that leave stand apart."""
        widest = max((letters(meta_text(v)) for v in self.makes), default=0) * SMALL_LETTER
        return (widest + 8) * (len(self.makes) + 1) if len(self.makes) > 1 else 0.0

    def draw(self, x: float, y: float) -> Lines:
        """The elements of the block with its corner at a place."""
        raise NotImplementedError


class Note(Block):
    """Some lines of letters in a rectangle: an op, a value, or many of them in short.

    ``title`` is what is shown over it when the pointer rests there.
    """

    def __init__(
        self, reads: Any, makes: Any, words: str, small: Sequence[str], title: str, kind: str
    ) -> None:
        super().__init__(reads, makes)
        self.words, self.small, self.title, self.kind = words, small, title, kind
        widest = max([letters(words) * LETTER, *(letters(s) * SMALL_LETTER for s in small)])
        self.width = max(widest + 2 * PAD, self.width_of_names, 44.0)
        self.height = LINE * (1 + len(small)) + PAD

    def draw(self, x: float, y: float) -> Lines:
        middle = x + self.width / 2
        lines = [f"<g><title>{written(self.title)}</title>", rectangle(x, y, self, self.kind)]
        lines.append(text(middle, y + LINE + 1, self.words, "words", "middle"))
        for k, small in enumerate(self.small):
            lines.append(text(middle, y + LINE * (k + 2), small, "small", "middle"))
        return [*lines, "</g>"]


class _Port(Block):
    """Where a value enters or leaves the frame around other blocks."""

    def __init__(self, reads: Any, makes: Any) -> None:
        super().__init__(reads, makes)
        self.width, self.height = 10.0, 0.5

    @property
    def room(self) -> float:
        return self.width + sum(letters(meta_text(v)) * SMALL_LETTER for v in self.reads)

    def draw(self, x: float, y: float) -> Lines:
        return []


@dataclass
class _Line:
    """The lines of one value out of one block: its name stands at the first of them."""

    variable: Variable
    links: list[Link]


class Frame(Block):
    """Blocks laid out in a frame with a title; what they read from outside enters at the top."""

    def __init__(
        self, blocks: Sequence[Block], reads: Any, makes: Any, title: str, kind: str
    ) -> None:
        super().__init__(reads, makes)
        self.title, self.kind = title, kind
        self.head = LINE + 8 if title else 0.0
        self.pad = PAD + 4 if kind else 0.0
        ins = [_Port((), (v,)) for v in self.reads]
        outs = [_Port((v,), ()) for v in self.makes]
        self.blocks: list[Block] = [*ins, *blocks, *outs]
        self.boxes = {
            b: Box(b.width if b in ins else b.room, b.height, b in ins, b in outs)
            for b in self.blocks
        }
        self.lines = self._lines()
        links = [link for line in self.lines for link in line.links]
        width, height = arrange([*self.boxes.values()], links)
        self.width = max(width, letters(title) * LETTER + PAD) + 2 * self.pad
        self.height = height + self.head + 2 * self.pad
        self.ports = {b: self.boxes[b].x + b.width / 2 + self.pad for b in (*ins, *outs)}
        self._ins, self._outs = dict(zip(self.reads, ins)), dict(zip(self.makes, outs))

    def start_of(self, variable: Variable) -> float:
        return self.ports[self._outs[variable]]

    def end_of(self, variable: Variable) -> float:
        return self.ports[self._ins[variable]]

    def _lines(self) -> list[_Line]:
        makers = {v: b for b in self.blocks for v in b.makes}
        found: dict[Variable, _Line] = {}
        for block in self.blocks:
            for v in block.reads:
                maker = makers.get(v)
                if maker is not None:
                    ends = (self.boxes[maker], self.boxes[block])
                    link = Link(*ends, maker.start_of(v), block.end_of(v))
                    found.setdefault(v, _Line(v, [])).links.append(link)
        return [*found.values()]

    def draw(self, x: float, y: float) -> Lines:
        lines = [rectangle(x, y, self, self.kind, 8)] if self.kind else []
        if self.title:
            lines.append(text(x + PAD, y + LINE + 1, self.title, "title"))
        left, top = x + self.pad, y + self.pad + self.head
        ins = {self.boxes[p] for p in self._ins.values()}
        outs = {self.boxes[p] for p in self._outs.values()}
        for line in self.lines:
            for link in line.links:
                points = [(left + a, top + b) for a, b in link.points]
                if link.source in ins:  # from below the title, and on to the frame's edge
                    points[0] = points[0][0], y + self.head
                if link.target in outs:
                    points[-1] = points[-1][0], y + self.height
                lines.append(_path(points, line.variable, link.target not in outs))
        for block, box in self.boxes.items():
            lines += block.draw(left + box.x, top + box.y)
        for line in self.lines:
            first = line.links[0]
            # what only comes from outside, or goes there, is named there
            if first.source not in ins and any(k.target not in outs for k in line.links):
                a, b = first.points[0]
                lines.append(text(left + a + 4, top + b + 11, meta_text(line.variable), "edge"))
        return lines


def _path(points: Sequence[Point], variable: Variable, has_tip: bool) -> str:
    """A smooth line through the points, which leaves and arrives vertically."""
    x, y = points[0]
    parts = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in points[1:]:
        half = (y + to_y) / 2
        is_straight = abs(to_x - x) < 0.05
        curve = f"C{x:.1f},{half:.1f} {to_x:.1f},{half:.1f} {to_x:.1f},{to_y:.1f}"
        parts.append(f"V{to_y:.1f}" if is_straight else curve)
        x, y = to_x, to_y
    title = f"<title>{written(f'{variable.name}: {meta_text(variable)}')}</title>"
    tip = ' marker-end="url(#tip)"' if has_tip else ""
    return f'<path d="{" ".join(parts)}" class="line"{tip}>{title}</path>'
