"""Pictures of graphs: what is in them, and that nothing lies over anything else."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import pytest

import phix
from phix import ops
from phix.pictures.graph_picture import _facts, _pieces
from phix.pictures.layout import Box, Link, arrange

SVG = "{http://www.w3.org/2000/svg}"


def _texts(picture: phix.debug.Picture) -> list[str]:
    root = ET.fromstring(picture.svg)
    return [t.text or "" for t in root.iter(f"{SVG}text")]


def _rectangles(picture: phix.debug.Picture, kind: str) -> list[tuple[float, ...]]:
    found = (r for r in ET.fromstring(picture.svg).iter(f"{SVG}rect") if r.get("class") == kind)
    return [tuple(float(r.get(n, 0)) for n in ("x", "y", "width", "height")) for r in found]


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def _is_inside(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    ends = a[0] + a[2] <= b[0] + b[2] and a[1] + a[3] <= b[1] + b[3]
    return b[0] <= a[0] and b[1] <= a[1] and ends


def mlp(w: phix.Tensor, b: phix.Tensor, x: phix.Tensor) -> phix.Tensor:
    return phix.ops.mean(phix.ops.tanh(x @ w + b) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_boxes_lie_apart_and_lines_lead_down(seed: int) -> None:
    draw = random.Random(seed)
    boxes = [Box(draw.uniform(10, 90), draw.uniform(10, 40)) for _ in range(40)]
    links = []
    for k, box in enumerate(boxes[1:], 1):
        for source in draw.sample(boxes[:k], min(k, draw.randint(0, 3))):
            links.append(Link(source, box, source.width / 2, box.width / 3))
    width, height = arrange(boxes, links)
    places = [(b.x, b.y, b.width, b.height) for b in boxes]
    assert not any(_meet(a, b) for a, b in combinations(places, 2))
    assert all(_is_inside(p, (-1e-6, 0, width + 1e-6, height + 1e-6)) for p in places)
    for link in links:
        assert link.points[0] == (link.source.x + link.start, link.source.y + link.source.height)
        assert link.points[-1] == (link.target.x + link.end, link.target.y)
        assert all(a[1] <= b[1] for a, b in pairwise(link.points))


def test_a_straight_chain_is_drawn_straight() -> None:
    boxes = [Box(20, 10), Box(60, 10), Box(40, 10)]
    links = [Link(a, b, a.width / 2, b.width / 2) for a, b in pairwise(boxes)]
    arrange(boxes, links)
    assert len({round(x, 6) for link in links for x, _ in link.points}) == 1


def test_kernels_are_frames_around_their_ops() -> None:
    found = phix.debug.draw(mlp, phix.spec([32, 64]), phix.spec([64]), phix.spec([8, 32]))
    texts = _texts(found)
    assert {"mlp", "kernel 0", "kernel 1", "matmul", "add", "tanh", "pow", "result"} <= set(texts)
    assert {"float32[8, 64]", "float32[32, 64]", "float32[]"} <= set(texts)
    assert any(t.startswith("test_pictures.py:") for t in texts), "the user's line"
    kernels, ops = _rectangles(found, "kernel"), _rectangles(found, "op")
    assert not any(_meet(a, b) for a, b in combinations(kernels, 2))
    assert not any(_meet(a, b) for a, b in combinations(ops, 2))
    assert [sum(_is_inside(o, k) for k in kernels) for o in ops] == [1] * len(ops)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_a_dtype_that_is_not_as_usual_is_shown(dtype: str) -> None:
    graph = phix.make_graph(lambda x: ops.sum(x, dtype=dtype))(phix.spec([3], "float32"))
    assert f"dtype={dtype}" in _facts(graph.equations[0])


def test_the_graph_as_traced_has_no_kernels() -> None:
    args = (phix.spec([32, 64]), phix.spec([64]), phix.spec(["n", 32]))
    found = phix.debug.draw(mlp, *args, kernels=False)
    assert "mean" in _texts(found) and not _rectangles(found, "kernel")
    assert "float32[n, 64]" in _texts(found)
    again = phix.debug.draw(phix.make_graph(mlp)(*args), kernels=False)
    assert {"mean", "graph"} <= set(_texts(again))


def test_a_loop_has_its_body_in_it() -> None:
    def loop(x: phix.Tensor) -> tuple[phix.Tensor, phix.Tensor]:
        return phix.scan(lambda h, u: (phix.ops.tanh(h + u), h.sum()), x, phix.ones([5, 4]))

    found = phix.debug.draw(loop, phix.spec([4]))
    assert "scan: body" in _texts(found) and "in kernel 1" in _texts(found)
    ((frame),) = _rectangles(found, "graph")
    kernels = _rectangles(found, "kernel")
    assert kernels and all(_is_inside(k, frame) for k in kernels)


def test_large_graphs_are_drawn_in_short() -> None:
    def long(x: phix.Tensor) -> phix.Tensor:
        for k in range(120):
            x = x - x.sum(axis=0) * float(k)
        return x

    made = phix.make_graph(long)(phix.spec([4, 4]))
    found = phix.debug.draw(made, most=40)
    assert len(_rectangles(found, "op")) == 0
    boxes = _rectangles(found, "many")
    assert 1 < len(boxes) <= 60
    assert not any(_meet(a, b) for a, b in combinations(boxes, 2))


def test_no_frame_is_read_by_what_it_reads() -> None:
    """A kernel whose equations stand around another's is two frames."""
    x = phix.spec([4])
    graph = phix.make_graph(lambda x: phix.ops.exp(phix.ops.sin(phix.ops.tanh(x))))(x)
    first, second, third = graph.equations
    titles = {first: "a", second: "b", third: "a"}
    pieces = _pieces(graph.equations, titles.get)
    assert [p.titles for p in pieces] == [["a"], ["b"], ["a"]]
    titles[second] = "a"
    assert [len(p.equations) for p in _pieces(graph.equations, titles.get)] == [3]


def test_pictures_are_saved_shown_and_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = phix.debug.draw(lambda x: x < 1.0, phix.spec([2]))
    assert "<lambda>" in _texts(found), "escaped in the text, whole once parsed"
    found.save(tmp_path / "a.svg")
    assert ET.parse(tmp_path / "a.svg").getroot().tag == f"{SVG}svg"
    assert found._repr_svg_() == (tmp_path / "a.svg").read_text("utf-8")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found.show()
    assert opened[0].startswith("file://") and opened[0].endswith(".svg")
