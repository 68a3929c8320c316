"""A graph as a picture: which ops one kernel computes, and what goes from kernel to kernel."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phix.core import dtypes as dt
from phix.core import stack
from phix.core.graph import (
    Equation,
    Graph,
    Literal,
    Variable,
    flat,
    graphs_in,
    graphs_inside,
)
from phix.core.graph_text import equation_text
from phix.core.op import REQUIRED
from phix.pictures.blocks import (
    LETTER,
    LINE,
    PAD,
    Block,
    Frame,
    Note,
    letters,
    rectangle,
    text,
    written,
)

_MARGIN = 16.0
_WIDEST = 30  # letters of one line in a box
_WIDEST_TITLE = 100
_MOST_GROUPS = 60  # boxes of one graph
# A page has other elements too: each rule is for those of pictures alone.
_STYLE = """
.phix text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.phix text { fill: #1f2733; }
.phix .words, .phix .title { font-size: 12px; font-weight: 600; }
.phix .title { fill: #39506e; }
.phix .small, .phix .edge { font-size: 10px; }
.phix .small { fill: #66707f; }
.phix .edge { fill: #4b5563; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
.phix .line { fill: none; stroke: #8592a6; stroke-width: 1.2px; }
.phix .page { fill: #ffffff; }
.phix .op { fill: #ffffff; stroke: #7d8fa9; }
.phix .apart { fill: #fffdf5; stroke: #b59b4c; stroke-dasharray: 4 3; }
.phix .kernel { fill: #e9f1fb; stroke: #6f9bd1; }
.phix .many { fill: #dce8f7; stroke: #4f7fbd; stroke-width: 1.6px; }
.phix .graph { fill: #f5effb; stroke: #a585c9; }
.phix .value { fill: #eef6ee; stroke: #7fae86; }
"""
_TIP = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0,1 L7,4 L0,7 z" fill="#8592a6"/></marker>
</defs>"""


class Picture:
    """An SVG: notebooks show it, ``save`` writes it, ``show`` opens it in a browser."""

    def __init__(self, svg: str, what: str) -> None:
        self.svg, self.what = svg, what

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture of {self.what}: .save('graph.svg') or .show()>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def show(self) -> None:
        """Open the picture in a browser, from a file in the folder for temporary ones."""
        handle, path = tempfile.mkstemp(".svg", "phix-")
        os.close(handle)
        self.save(path)
        webbrowser.open(Path(path).as_uri())


Groups = Sequence[tuple[str, Sequence[Equation]]]


def picture(name: str, graph: Graph, groups: Groups, most: int) -> Picture:
    """The picture of a graph.

    Args:
        name: of the function.
        graph: whose equations are drawn, and those of the graphs inside them.
        groups: names of kernels, and the equations in each.
        most: the number of equations of one graph that are drawn each; of a graph with more,
            kernels are drawn as one box, and when these are too many, several as one.
    """
    kernels: dict[Equation, list[str]] = {}
    for title, equations in groups:
        for equation in equations:
            kernels.setdefault(equation, []).append(title)
    frame = _Drawing(graph, kernels, most).whole(graph, "", "")
    shown = _cut(name, _WIDEST_TITLE)
    width = max(frame.width, letters(shown) * LETTER) + 2 * _MARGIN
    height = frame.height + 2 * _MARGIN + 24
    count = len(graph.equations)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'class="phix" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{written(name)}: {count} equations</title>",
        f"<style>{_STYLE}</style>",
        _TIP,
        f'<rect width="{width:.0f}" height="{height:.0f}" class="page"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN + 8}" class="title">{written(shown)}</text>',
        *frame.draw(_MARGIN, _MARGIN + 24),
        "</svg>",
    ]
    return Picture("\n".join(lines), f"{name}, {count} equations")


class _Drawing:
    """Makes blocks of equations; ``kernels`` says in which each is."""

    def __init__(self, graph: Graph, kernels: Mapping[Equation, Sequence[str]], most: int) -> None:
        self.kernels, self.most = kernels, most
        self.homes = {e: g for g in graphs_inside(graph) for e in g.equations}
        # a kernel is drawn in the innermost graph that it computes equations of
        self.frames: dict[str, Graph] = {}
        for equation, home in self.homes.items():
            for title in kernels.get(equation, ()):
                self.frames.setdefault(title, home)  # those inside come first

    # -- one graph -------------------------------------------------------------------------------
    @stack.nests
    def whole(self, graph: Graph, title: str, kind: str) -> Frame:
        """All of a graph, in a frame."""
        pieces = _pieces(graph.equations, self._kernel_of)
        is_large = len(graph.equations) > self.most
        if is_large:
            pieces = _fewer(pieces)
        used = {v for e in graph.equations for v in _reads(e)} | set(graph.outputs)
        blocks: list[Block] = []
        for variable in graph.inputs:
            blocks.append(self._value(variable, variable.name, "an input"))
        for constant in graph.constants:
            if constant.variable in used:
                blocks.append(self._value(constant.variable, "constant", "a tensor closed over"))
        for piece in pieces:
            needed = used_outside(piece, graph)
            blocks.append(self._piece(graph, piece, needed, is_large))
        for number, atom in enumerate(graph.outputs):
            if isinstance(atom, Variable):
                words = "result" if len(graph.outputs) == 1 else f"result {number}"
                blocks.append(Note((atom,), (), words, [], f"{atom}", "value"))
        return Frame(blocks, (), (), title, kind)

    def _value(self, variable: Variable, words: str, what: str) -> Note:
        return Note((), (variable,), _cut(words), [], f"{variable}, {what}", "value")

    def _kernel_of(self, equation: Equation) -> str | None:
        """The kernel that an equation is drawn in: none if it has graphs in it, or stands outside
        of the loop that the kernel is in."""
        if any(True for _ in graphs_in(equation.attrs)):
            return None
        home = self.homes[equation]
        titles = self.kernels.get(equation, ())
        return next((t for t in titles if self.frames[t] is home), None)

    # -- its parts -------------------------------------------------------------------------------
    def _piece(
        self, graph: Graph, piece: Piece, needed: Sequence[Variable], is_large: bool
    ) -> Block:
        equations = piece.equations
        made = {v for e in equations for v in _makes(e)}
        reads = [v for e in equations for v in _reads(e) if v not in made]
        if is_large and (len(equations) > 1 or piece.titles):
            return self._short(piece, reads, needed)
        blocks = [self._equation(graph, e) for e in equations]
        if not piece.titles:
            return blocks[0]
        return Frame(blocks, reads, needed, ", ".join(piece.titles), "kernel")

    def _short(self, piece: Piece, reads: Any, needed: Any) -> Note:
        """Many equations in one box."""
        ops = Counter(e.op.name for e in piece.equations)
        texts = [name if n == 1 else f"{name} x{n}" for name, n in ops.most_common()]
        small = [_cut(", ".join(texts[:3]) + (", ..." if len(texts) > 3 else ""))]
        lines = list(dict.fromkeys(filter(None, map(_at, piece.equations))))
        small += [_cut(", ".join(lines[:2]) + (", ..." if len(lines) > 2 else ""))] if lines else []
        words = f"{len(piece.equations)} equations"
        if piece.titles:
            first, last = piece.titles[0], piece.titles[-1]
            words = first if first == last else f"{first} to {last.removeprefix('kernel ')}"
        title = "\n".join([*piece.titles, *texts, *lines])
        return Note(reads, needed, words, small, title, "many")

    def _equation(self, graph: Graph, equation: Equation) -> Block:
        reads, makes = _reads(equation), _makes(equation)
        inside = list(graphs_in(equation.attrs))
        if inside:
            return _Nest(reads, makes, equation.op.name, [
                self.whole(g, words if len(inside) > 1 else f"{equation.op.name}: {words}", "graph")
                for g, words in zip(inside, _graph_names(equation))
            ])  # fmt: skip
        where, drawn = self.kernels.get(equation, ()), self._kernel_of(equation)
        small = [*filter(None, (_facts(equation), _at(equation)))]
        others = [t for t in where if t != drawn]
        if others:
            small.append(_cut(f"{'again ' if drawn else ''}in {', '.join(others[:2])}"))
        source = "" if equation.source is None else f"\n{equation.source}"
        title = equation_text(graph, equation) + source
        kind = "op" if drawn or not self.kernels else "apart"
        return Note(reads, makes, equation.op.name, small, title, kind)


class _Nest(Block):
    """An op with graphs in it: their frames side by side, in one of its own if they are several."""

    def __init__(self, reads: Any, makes: Any, name: str, frames: Sequence[Frame]) -> None:
        super().__init__(reads, makes)
        self.name, self.frames = name, frames
        self.pad, self.head = (PAD, LINE + 8) if len(frames) > 1 else (0.0, 0.0)
        self.inner = sum(f.width for f in frames) + 8.0 * (len(frames) - 1)
        self.width = max(self.inner + 2 * self.pad, self.width_of_names)
        self.height = max(f.height for f in frames) + self.head + self.pad

    def draw(self, x: float, y: float) -> list[str]:
        lines: list[str] = []
        if self.pad:
            lines.append(rectangle(x, y, self, "graph", 8))
            lines.append(text(x + PAD, y + LINE + 1, self.name, "title"))
            y += self.head
        x += (self.width - self.inner) / 2
        for frame in self.frames:
            lines += frame.draw(x, y)
            x += frame.width + 8
        return lines


def _graph_names(equation: Equation) -> list[str]:
    """What the graphs in an equation are for: the names of its attributes."""
    names = []
    for arg, value in zip(equation.op.attrs, equation.attrs):
        count = sum(1 for _ in graphs_in((value,)))
        names += [arg.name if count == 1 else f"{arg.name} {k}" for k in range(count)]
    return names


def _reads(equation: Equation) -> list[Variable]:
    return [a for a in flat(equation.inputs) if isinstance(a, Variable)]


def _makes(equation: Equation) -> list[Variable]:
    return [v for v in flat(equation.outputs) if isinstance(v, Variable)]


def used_outside(piece: Piece, graph: Graph) -> list[Variable]:
    """What the equations of a piece make for others, or for the result."""
    own = set(piece.equations)
    wanted = {v for e in graph.equations if e not in own for v in _reads(e)}
    wanted |= {a for a in graph.outputs if isinstance(a, Variable)}
    return [v for e in piece.equations for v in _makes(e) if v in wanted]


def _facts(equation: Equation) -> str:
    """The numbers among an equation's inputs, and its attributes that are not as usual."""
    texts = [f"{a.value:g}" if isinstance(a.value, float) else str(a.value)
             for a in flat(equation.inputs) if isinstance(a, Literal)]  # fmt: skip
    for arg, value in zip(equation.op.attrs, equation.attrs):
        if arg.type != "Object" and (arg.default is REQUIRED or not dt.alike(value, arg.default)):
            texts.append(f"{arg.name}={value}")
    return _cut(" ".join(texts))


def _at(equation: Equation) -> str:
    source = equation.source
    return (
        "" if source is None else _cut(f"{os.path.basename(source.file)}:{source.line}", last=True)
    )


def _cut(words: str, most: int = _WIDEST, last: bool = False) -> str:
    """Words of at most so many letters: their first ones, or their last."""
    if len(words) <= most:
        return words
    return f"...{words[3 - most :]}" if last else f"{words[: most - 3]}..."


# -- which equations stand together --------------------------------------------------------------
class Piece:
    """Equations that are drawn in one frame; nothing leads out of it and back into it."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.titles = list(titles)
        self.equations: list[Equation] = []
        self.readers: set[Piece] = set()


def _pieces(equations: Sequence[Equation], kernel_of: Any) -> list[Piece]:
    """The kernels of a graph and the equations beside them, each after what it reads."""
    made: dict[Variable, Piece] = {}
    newest: dict[str, Piece] = {}
    found: list[Piece] = []
    for equation in equations:
        title = kernel_of(equation)
        makers = {made[v] for v in _reads(equation) if v in made}
        piece = newest.get(title)
        if piece is None or _leads_to(piece, makers - {piece}):
            piece = Piece([] if title is None else [title])
            found.append(piece)
            if title is not None:
                newest[title] = piece
        piece.equations.append(equation)
        for maker in makers - {piece}:
            maker.readers.add(piece)
        made.update((v, piece) for v in _makes(equation))
    return _in_order(found)


def _leads_to(piece: Piece, others: Iterable[Piece]) -> bool:
    """Whether one of the others reads, by some way, what the piece makes."""
    wanted, seen, waiting = set(others), {piece}, [piece]
    while waiting and wanted:
        for reader in waiting.pop().readers:
            if reader in wanted:
                return True
            if reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return False


def _in_order(pieces: Sequence[Piece]) -> list[Piece]:
    """Each piece after those that it reads, else as they were."""
    left = dict.fromkeys(pieces, 0)
    for piece in pieces:
        for reader in piece.readers:
            left[reader] += 1
    order = {p: k for k, p in enumerate(pieces)}
    ready = sorted((p for p in pieces if not left[p]), key=order.__getitem__, reverse=True)
    found = []
    while ready:
        piece = ready.pop()
        found.append(piece)
        for reader in piece.readers:
            left[reader] -= 1
            if not left[reader]:
                ready.append(reader)
        ready.sort(key=order.__getitem__, reverse=True)
    return found


def _fewer(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours in order as one, where they are too many."""
    size = -(-len(pieces) // _MOST_GROUPS)
    if size == 1:
        return [*pieces]
    found = []
    for start in range(0, len(pieces), size):
        some = pieces[start : start + size]
        piece = Piece([t for p in some for t in p.titles])
        piece.equations = [e for p in some for e in p.equations]
        found.append(piece)
    return found
