"""Boxes in layers: what flows, flows down, along lines that go round the boxes between.

The way of Sugiyama: layers by the longest path, then an order within each layer that leaves few
crossings, then places that bring boxes near to what they are connected with.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise

from phix.core.records import dataclass, field

GAP, ROW_GAP = 16.0, 40.0  # between boxes of a layer, and between layers
NEAR_GAP = 16.0  # below the first layer and above the last, where these are marked so
_SWEEPS = 8
_NARROW = 6.0  # the width of a line on its way through a layer

Point = tuple[float, float]


@dataclass(eq=False)
class Box:
    """A rectangle to be placed: ``x`` and ``y`` are its corner, once it is arranged.

    ``first`` and ``last``: whether it belongs at the top or at the bottom.
    """

    width: float
    height: float
    first: bool = False
    last: bool = False
    x: float = 0.0
    y: float = 0.0
    layer: int = field(default=0, repr=False)
    floor: float = field(default=0.0, repr=False)  # the lower edge of its layer
    is_line: bool = field(default=False, repr=False)


@dataclass(eq=False)
class Link:
    """A line from the lower edge of a box to the upper edge of another, ``points`` once arranged.

    ``start`` and ``end`` are how far from the left of the boxes it begins and ends.
    """

    source: Box
    target: Box
    start: float
    end: float
    points: list[Point] = field(default_factory=list)


@dataclass(eq=False)
class _Part:
    """A piece of a link, between neighbouring layers."""

    source: Box
    target: Box
    start: float
    end: float


def arrange(boxes: Sequence[Box], links: Sequence[Link]) -> tuple[float, float]:
    """Place the boxes, and find the way of each link; the width and height of it all.

    Args:
        boxes: in an order in which every link leads from an earlier one to a later one.
        links: between them.
    """
    if not boxes:
        return 0.0, 0.0
    _set_layers(boxes, links)
    layers: list[list[Box]] = [[] for _ in range(1 + max(b.layer for b in boxes))]
    for box in boxes:
        layers[box.layer].append(box)
    ways = {link: _way(link, layers) for link in links}
    parts = [part for link in links for part in _parts(link, ways[link])]
    above, below = _neighbours(parts)
    _order(layers, above, below)
    _place(layers, above, below)
    height = _stack(layers)
    left = min(b.x for row in layers for b in row)
    for row in layers:
        for box in row:
            box.x -= left
    for link in links:
        link.points = _points(link, ways[link])
    return max(b.x + b.width for row in layers for b in row), height


# -- layers ----------------------------------------------------------------------------------------
def _set_layers(boxes: Sequence[Box], links: Sequence[Link]) -> None:
    """Each box one layer below the lowest that it takes from; what takes nothing just above who
    takes from it."""
    takes: dict[Box, list[Box]] = {b: [] for b in boxes}
    gives: dict[Box, list[Box]] = {b: [] for b in boxes}
    for link in links:
        takes[link.target].append(link.source)
        gives[link.source].append(link.target)
    has_first = any(b.first for b in boxes)
    for box in boxes:
        least = 1 if has_first and not box.first else 0
        box.layer = max([least, *(1 + b.layer for b in takes[box])])
    for box in reversed(boxes):
        if not takes[box] and gives[box] and not box.first:
            box.layer = min(b.layer for b in gives[box]) - 1
    lowest = max(b.layer + (not b.last) for b in boxes)
    for box in boxes:
        if box.last:
            box.layer = max(lowest, box.layer)


def _way(link: Link, layers: list[list[Box]]) -> list[Box]:
    """Narrow boxes for the link in the layers that it goes through."""
    between = range(link.source.layer + 1, link.target.layer)
    made = [Box(_NARROW, 0.0, layer=k, is_line=True) for k in between]
    for box in made:
        layers[box.layer].append(box)
    return made


def _parts(link: Link, way: Sequence[Box]) -> Iterable[_Part]:
    stops = [link.source, *way, link.target]
    for a, b in pairwise(stops):
        start = link.start if a is link.source else _NARROW / 2
        end = link.end if b is link.target else _NARROW / 2
        yield _Part(a, b, start, end)


Neighbours = dict[Box, list[tuple[Box, float, float]]]  # box, place in it, place in the own box


def _neighbours(parts: Iterable[_Part]) -> tuple[Neighbours, Neighbours]:
    above: Neighbours = {}
    below: Neighbours = {}
    for p in parts:
        above.setdefault(p.target, []).append((p.source, p.start, p.end))
        below.setdefault(p.source, []).append((p.target, p.end, p.start))
    return above, below


# -- order -----------------------------------------------------------------------------------------
def _order(layers: list[list[Box]], above: Neighbours, below: Neighbours) -> None:
    """Each box near the middle of its neighbours in the layer before, down and up in turns."""
    for row in layers:
        _spread(row)
    best = [list(row) for row in layers]
    least = _crossings(layers, below)
    for sweep in range(_SWEEPS):
        going_down = sweep % 2 == 0
        near = above if going_down else below
        for row in layers[1:] if going_down else layers[-2::-1]:
            middle = {b: _middle(near.get(b, ()), b) for b in row}
            row.sort(key=middle.__getitem__)
            _spread(row)
        found = _crossings(layers, below)
        if found < least:
            least, best = found, [list(row) for row in layers]
        if not least:
            break
    for row, kept in zip(layers, best):
        row[:] = kept
        _spread(row)


def _spread(row: list[Box]) -> None:
    """Side by side, with the middle of the row at 0."""
    x = -sum(b.width + GAP for b in row) / 2
    for box in row:
        box.x = x
        x += box.width + GAP


def _middle(near: Iterable[tuple[Box, float, float]], box: Box) -> float:
    places = [b.x + there for b, there, _ in near]
    return sum(places) / len(places) if places else box.x + box.width / 2


def _crossings(layers: list[list[Box]], below: Neighbours) -> int:
    """How many pairs of lines cross, counted by insertion into a sorted list."""
    total = 0
    for row in layers:
        ends: list[float] = []
        for box in row:
            lines = sorted((here, b.x + there) for b, there, here in below.get(box, ()))
            for _, end in lines:
                total += len(ends) - bisect_right(ends, end)
                insort(ends, end)
    return total


# -- places ----------------------------------------------------------------------------------------
def _place(layers: list[list[Box]], above: Neighbours, below: Neighbours) -> None:
    """Move boxes to where their lines are straight, as far as their neighbours in the row let."""
    for sweep in range(_SWEEPS):
        going_down = sweep % 2 == 0
        near = above if going_down else below
        for row in layers if going_down else reversed(layers):
            wanted = []
            for box in row:
                places = sorted(b.x + there - here for b, there, here in near.get(box, ()))
                n = len(places)
                # the median: a straight line for one neighbour, no tilt by a far one
                wanted.append((places[(n - 1) // 2] + places[n // 2]) / 2 if n else box.x)
            _arrange(row, wanted)


def _arrange(row: list[Box], wanted: list[float]) -> None:
    """The places in order that are nearest to those wanted: runs that touch share their shift."""
    offsets, x = [], 0.0
    for box in row:
        offsets.append(x)
        x += box.width + (GAP / 2 if box.is_line else GAP)
    runs: list[list[float]] = []  # the sum of what its boxes want, and how many they are
    for want, offset in zip(wanted, offsets):
        runs.append([want - offset, 1.0])
        while len(runs) > 1 and runs[-2][0] / runs[-2][1] >= runs[-1][0] / runs[-1][1]:
            total, count = runs.pop()
            runs[-1][0] += total
            runs[-1][1] += count
    shifts = [total / count for total, count in runs for _ in range(int(count))]
    for box, shift, offset in zip(row, shifts, offsets):
        box.x = shift + offset


def _stack(layers: list[list[Box]]) -> float:
    """Set the places of the layers; the height of them all."""
    y = gap = 0.0
    for row in layers:
        height = max((b.height for b in row), default=0.0)
        y += NEAR_GAP if y and all(b.last or b.is_line for b in row) else gap
        for box in row:
            box.y, box.floor = y, y + height
        y += height
        gap = NEAR_GAP if all(b.first or b.is_line for b in row) else ROW_GAP
    return y


def _points(link: Link, way: Sequence[Box]) -> list[Point]:
    source, target = link.source, link.target
    x = source.x + link.start
    points = [(x, source.y + source.height), (x, source.floor)]
    for box in way:
        x = box.x + _NARROW / 2
        points += [(x, box.y), (x, box.floor)]
    return [*points, (target.x + link.end, target.y)]
