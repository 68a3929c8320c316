"""Pictures of graphs: what is in them, and that nothing lies over anything else."""

from __future__ import annotations

import random
import shutil
import subprocess
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

import phix
from phix import ops
from phix.pictures.blocks import LETTER, SMALL_LETTER, letters
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
        for k, turn in enumerate(np.random.default_rng(0).integers(2, size=120)):  # no loop
            x = x - x.sum(axis=0) * float(k) if turn else phix.ops.sin(x)
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


# -- as browsers draw them -----------------------------------------------------------------------
WIDTH = {"words": LETTER, "title": LETTER, "small": SMALL_LETTER, "edge": SMALL_LETTER}


def _written(picture: phix.debug.Picture) -> list[tuple[float, ...]]:
    """Where the letters of each line are."""
    found = []
    for t in ET.fromstring(picture.svg).iter(f"{SVG}text"):
        width = letters(t.text or "") * WIDTH[t.get("class", "")]
        left = float(t.get("x", 0)) - (width / 2 if t.get("text-anchor") == "middle" else 0)
        found.append((left, float(t.get("y", 0)) - 8, width, 9.0))
    return found


def rnn(h: phix.Tensor, xs: phix.Tensor) -> object:
    def step(h: phix.Tensor, x: phix.Tensor) -> tuple[phix.Tensor, object]:
        return ops.tanh(h + x), (h * 2.0, h.sum(), h > 0, x * x)

    return phix.scan(step, h, xs)


def choose(x: phix.Tensor) -> phix.Tensor:
    return phix.cond(x.sum() > 0, lambda x: ops.exp(x) @ x, lambda x: (x**2).sum(), x)


def a_function_with_a_name_that_is_longer_than_all_that_it_does(x: phix.Tensor) -> phix.Tensor:
    return ops.tanh(x)


def parts(输入的张量: phix.Tensor) -> object:
    return ops.split(ops.tanh(输入的张量), [1] * 6, 0)


def scores(x: phix.Tensor) -> phix.Tensor:
    return ops.softmax(x @ x.T, -1).sum(0)


def long(x: phix.Tensor) -> phix.Tensor:
    for k in range(125):
        x = ops.tanh(x * 1.5) + ops.roll(x, [k % 3], [0])
    return x


SEEN = {
    "training": lambda: phix.debug.draw(
        phix.value_and_grad(mlp, argnums=(0, 1)),
        phix.spec([32, 64]), phix.spec([64]), phix.spec([8, 32]),
    ),
    "scan": lambda: phix.debug.draw(rnn, phix.spec([4]), phix.spec([5, 4])),
    "cond": lambda: phix.debug.draw(choose, phix.spec([16])),
    "name": lambda: phix.debug.draw(
        a_function_with_a_name_that_is_longer_than_all_that_it_does, phix.spec([3])
    ),
    "parts": lambda: phix.debug.draw(parts, phix.spec([6, 128])),
    "unknown": lambda: phix.debug.draw(scores, phix.spec([None, "features_of_the_model"])),
    "long": lambda: phix.debug.draw(long, phix.spec([64]), kernels=False),
}  # fmt: skip
each_picture = pytest.mark.parametrize("name", SEEN)


@pytest.mark.unoptimised
@each_picture
def test_letters_lie_on_the_page_and_over_no_other(name: str) -> None:
    found = SEEN[name]()
    page = ET.fromstring(found.svg)
    whole = (0.0, 0.0, float(page.get("width", 0)), float(page.get("height", 0)))
    lines = _written(found)
    assert all(_is_inside(line, whole) for line in lines)
    assert not any(_meet(a, b) for a, b in combinations(lines, 2))
    boxes = [b for kind in ("op", "apart", "many", "value") for b in _rectangles(found, kind)]
    assert not any(_meet(a, b) for a, b in combinations(boxes, 2))
    both = [(line, box) for line in lines for box in boxes if _meet(line, box)]
    assert all(_is_inside(line, box) for line, box in both)


def test_letters_that_are_two_wide_are_counted_twice() -> None:
    assert letters("tanh") == 4 and letters("名字x") == 5
    (box,) = _rectangles(
        phix.debug.draw(lambda 输入的张量: 输入的张量 + 1.0, phix.spec([2])), "value"
    )[:1]
    assert box[2] >= 10 * LETTER


@pytest.mark.unoptimised
def test_branches_stand_in_a_frame_that_what_they_read_leads_to() -> None:
    found = SEEN["cond"]()
    outer, *inner = sorted(_rectangles(found, "graph"), key=lambda r: -r[2])
    assert len(inner) == 2 and all(_is_inside(i, outer) for i in inner)
    assert {"branch", "branches 0", "branches 1"} <= set(_texts(found))
    paths = [p.get("d", "") for p in ET.fromstring(found.svg).iter(f"{SVG}path")]
    assert any(p.startswith("M") and p.endswith(f"{outer[1]:.1f}") for p in paths)
    assert sum(p.split(",")[1].startswith(f"{outer[1] + outer[3]:.1f}") for p in paths) == 1


@pytest.mark.unoptimised
def test_lines_go_on_to_the_edge_of_a_kernel() -> None:
    found = phix.debug.draw(a_function_with_a_name_that_is_longer_than_all_that_it_does,
                            phix.spec([3]))  # fmt: skip
    ((_, top, _, height),) = _rectangles(found, "kernel")
    paths = [p.get("d", "") for p in ET.fromstring(found.svg).iter(f"{SVG}path")]
    assert [p for p in paths if p.endswith(f"V{top + height:.1f}")], "from the op, inside"
    assert [p for p in paths if f",{top + height:.1f} V" in p], "and from there to the result"


def test_what_xml_has_no_place_for_is_replaced(tmp_path: Path) -> None:
    odd = "a\x01<&>\ud800\x00b"
    found = phix.debug.draw(lambda x: phix.checkpoint_name(x, odd), phix.spec([2]), kernels=False)
    found.save(tmp_path / "a.svg")
    root = ET.parse(tmp_path / "a.svg").getroot()
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert "name=a\N{REPLACEMENT CHARACTER}<&>" + "\N{REPLACEMENT CHARACTER}" * 2 + "b" in texts


def test_styles_are_for_pictures_alone() -> None:
    """A notebook puts the SVG among its own elements."""
    root = ET.fromstring(phix.debug.draw(mlp, *[phix.spec([4, 4])] * 3, kernels=False).svg)
    (style,) = root.iter(f"{SVG}style")
    rules = [rule.partition("{")[0] for rule in (style.text or "").split("}")]
    selectors = [each.strip() for rule in rules for each in rule.split(",") if each.strip()]
    assert selectors and all(each.startswith(".phix ") for each in selectors)
    assert root.get("class") == "phix"


NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
# The page says which letters leave their box or the picture, by the browser's own measure.
MEASURE = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
%s
<pre id="said"></pre>
<script>
const leaves = (a, b) => a.left < b.left || a.right > b.right || a.bottom > b.bottom;
const place = element => element.getBoundingClientRect();
const texts = [...document.querySelectorAll("svg text")];
const out = texts.filter(t => leaves(place(t), place(t.closest("svg"))) ||
  (t.parentNode.tagName === "g" && leaves(place(t), place(t.parentNode.querySelector("rect")))));
document.getElementById("said").textContent =
  `${texts.length} texts, outside: ${out.map(t => t.textContent).join()}`;
</script>"""


def _dumped(tmp_path: Path, page: Path) -> str:
    """The document that a browser makes of a page."""
    options = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking "
        "--disable-component-update --disable-sync --no-first-run --disable-dev-shm-usage"
    )
    command = [str(BROWSER), *options.split(), f"--user-data-dir={tmp_path / 'profile'}"]
    try:
        done = subprocess.run(
            [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the browser does not start here: it took more than a minute")
    if done.returncode or "<" not in done.stdout:
        pytest.skip(f"the browser does not start here: {done.stderr.strip()[-300:]}")
    return done.stdout


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
@pytest.mark.unoptimised
def test_a_browser_draws_all_letters_inside_their_boxes(tmp_path: Path) -> None:
    pictures = [SEEN[name]() for name in ("training", "scan", "cond", "name", "unknown")]
    page = tmp_path / "page.html"
    page.write_text(MEASURE % "\n".join(p.svg for p in pictures), "utf-8")
    count = sum(len(_texts(p)) for p in pictures)
    assert f'<pre id="said">{count} texts, outside: </pre>' in _dumped(tmp_path, page)


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
def test_a_browser_reads_the_file_as_svg(tmp_path: Path) -> None:
    found = phix.debug.draw(mlp, *[phix.spec([4, 4])] * 3, kernels=False)
    found.save(tmp_path / "a.svg")
    document = _dumped(tmp_path, tmp_path / "a.svg")
    assert "parsererror" not in document and "result" in document
