"""What a step of a LLaMA with 7 billion parameters costs on many devices: docs/scaling.md.

``python -m benchmarks.scaling`` writes that page. No device is needed: plans are made of shapes
alone, on virtual meshes. What a plan has (work of a device, steps between them with their bytes,
what a device holds) is exact; times follow from it by the assumptions that the page names.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import phix
from benchmarks import plan_costs
from phix import ops, parallel
from phix.parallel.explaining import Collective
from phix.parallel.explaining import size as bytes_text

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"
DEVICES = (8, 64, 256, 1024)


class Model(NamedTuple):
    """The sizes of a LLaMA and of its batch."""

    layers: int = 32
    width: int = 4096
    wide: int = 11008
    heads: int = 32
    words: int = 32000
    length: int = 2048
    batch: int = 1024


class Machine(NamedTuple):
    """Assumptions. ``fast`` links join the devices of a node, ``slow`` ones the nodes."""

    rate: float = 400e12  # operations a second that products of bfloat16 reach
    node: int = 8
    fast: float = 300e9  # bytes a second of a device
    slow: float = 40e9
    latency: float = 20e-6  # seconds of a step between devices


# -- the model -------------------------------------------------------------------------------------
def shapes(m: Model) -> dict[str, tuple[int, ...]]:
    """Of all weights; those of layers lie one behind the other."""
    d, w = m.width, m.wide
    each = {**dict.fromkeys(("q", "k", "v", "o"), (d, d)), "gate": (d, w), "up": (d, w),
            "down": (w, d), "first": (d,), "second": (d,)}  # fmt: skip
    layers = {n: (m.layers, *s) for n, s in each.items()}
    return {**layers, "table": (m.words, d), "norm": (d,), "head": (d, m.words)}


def normed(x: Any, gain: Any) -> Any:
    wide = ops.cast(x, "float32")
    scale = ops.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    return ops.cast(wide * scale, x.dtype) * gain


def attention(p: Any, x: Any, heads: int) -> Any:
    batch, length, width = x.shape

    def parts(name: str) -> Any:
        return (x @ p[name]).reshape((batch, length, heads, width // heads)).transpose((0, 2, 1, 3))

    q, k, v = map(parts, "qkv")
    scores = ops.cast(ops.matmul(q, k, False, True), "float32") * (width // heads) ** -0.5
    seen = ops.tril(ops.ones((length, length), "bool"))
    weights = ops.softmax(ops.where(seen, scores, float("-inf")), -1)
    mixed = ops.cast(weights, x.dtype) @ v
    return mixed.transpose((0, 2, 1, 3)).reshape(x.shape) @ p["o"]


def layer(p: Any, x: Any, heads: int) -> Any:
    x = x + attention(p, normed(x, p["first"]), heads)
    seen = normed(x, p["second"])
    return x + (ops.silu(seen @ p["gate"]) * (seen @ p["up"])) @ p["down"]


def loss(p: Any, words: Any, following: Any, heads: int) -> Any:
    """Layers are computed again going backward."""
    stacked = {n: w for n, w in p.items() if n not in ("table", "norm", "head")}
    again = phix.checkpoint(lambda q, x: layer(q, x, heads))
    x = ops.embedding(words, p["table"])
    x = phix.scan(lambda c, q: (again(q, c), None), x, stacked)[0]
    logits = ops.cast(normed(x, p["norm"]) @ p["head"], "float32")
    return phix.nn.functional.cross_entropy(logits, following).mean()


def trainer(heads: int) -> Any:
    """A step of Adam: weights in bfloat16, and of each in float32 a copy and two averages."""

    def step(p: Any, state: Any, words: Any, following: Any) -> Any:
        value, grads = phix.value_and_grad(loss)(p, words, following, heads)
        grads = phix.tree.map(lambda g: ops.cast(g, "float32"), grads)
        mean = phix.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], grads)
        square = phix.tree.map(lambda s, g: 0.95 * s + 0.05 * g * g, state["square"], grads)
        copy = phix.tree.map(
            lambda w, m, s: w - 3e-4 * m * ops.rsqrt(s + 1e-12), state["copy"], mean, square
        )
        p = phix.tree.map(lambda w: ops.cast(w, "bfloat16"), copy)
        return p, {"copy": copy, "mean": mean, "square": square}, value

    return step


# -- plans -----------------------------------------------------------------------------------------
def megatron(m: Model) -> dict[str, Any]:
    """By columns what opens a layer, by rows what closes it."""
    columns, rows = (None, None, "model"), (None, "model")
    by = {**dict.fromkeys(("q", "k", "v", "gate", "up"), columns), "o": rows, "down": rows}
    return {n: by.get(n) for n in shapes(m)}


PLANS = ("data", "states divided", "states and weights divided", "tensor", "tensor, states divided")
MEANING = {
    "data": "each device has all weights and its rows of the batch",
    "states divided": "the optimizer's copy and averages in pieces (ZeRO 1 and 2)",
    "states and weights divided": "the weights as well, gathered where they are used (ZeRO 3)",
    "tensor": "weights among the devices of a node, as Megatron-LM does, rows among the nodes",
    "tensor, states divided": "both",
    "stages": "layers among the devices of a node, one row a microbatch (1F1B), rows among the "
    "nodes; no plan of `shard`, but by the turns that `pipeline` takes, in which a stage is "
    "computed again, and in it each layer",
}


def planned(name: str, count: int, m: Model, node: int) -> tuple[Any, dict[str, int]]:
    """The plan of that name on so many devices, and the sizes of the mesh."""
    inside = node if name.startswith("tensor") else 1
    axes = {"data": count // inside, "model": inside}
    mesh = parallel.mesh(axes, virtual=True)
    weights = {n: phix.spec(s, "bfloat16") for n, s in shapes(m).items()}
    kept = {n: phix.spec(s, "float32") for n, s in shapes(m).items()}
    by_weight: Any = megatron(m) if inside > 1 else dict.fromkeys(weights)
    by_state = dict(by_weight)
    if "states" in name:
        by_state = {n: _with_data(n, s, shapes(m)[n], axes) for n, s in by_weight.items()}
    if "weights divided" in name:
        by_weight = by_state
    states = dict.fromkeys(("copy", "mean", "square"), by_state)
    rows = phix.spec((m.batch, m.length), "int64")
    step = parallel.shard(
        trainer(m.heads), mesh, (by_weight, states, "data", "data"), (by_weight, states, None)
    )
    state = dict.fromkeys(states, kept)
    return step.explain(weights, state, rows, rows), {a: n for a, n in axes.items() if n > 1}


def _with_data(name: str, spec: Any, dims: tuple[int, ...], axes: dict[str, int]) -> Any:
    """The spec with a dim along ``data``: the first that it fits behind that of the layers, which
    nobody divides."""
    places = list(spec or ())
    places += [None] * (len(dims) - len(places))
    for at in range(0 if name in ("table", "norm", "head") else 1, len(dims)):
        if places[at] is None and dims[at] % axes["data"] == 0:
            places[at] = "data"
            break
    return tuple(places)


class Row(NamedTuple):
    """What a plan costs on so many devices."""

    name: str
    count: int
    computing: float  # seconds
    moving: float
    held: float  # bytes
    kept: float  # bytes of what enters each layer
    steps: Any


def row(name: str, count: int, m: Model, machine: Machine) -> Row:
    plan, sizes = planned(name, count, m, machine.node)
    work = plan_costs.work(plan.plan, sizes)
    steps = plan.collectives
    slow = count > machine.node  # a ring over nodes is as fast as its slowest link
    speed = {"model": machine.fast, "data": machine.slow if slow else machine.fast}
    latency = dict.fromkeys(speed, machine.latency)
    rows = m.batch // sizes.get("data", 1)
    kept = 2.0 * m.layers * rows * m.length * m.width
    moving = plan_costs.seconds(steps, latency, speed)
    computing = 2 * work.multiplied / machine.rate
    return Row(name, count, computing, moving, plan_costs.held(plan, sizes, ("p", "state")), kept,
               steps)  # fmt: skip


def staged(whole: Row, m: Model, machine: Machine) -> Row:
    """A pipeline among the devices of a node, rows among the nodes, one row a microbatch: by the
    turns of ``phix.parallel.pipeline``, of which no plan is made. ``whole``: the same devices with
    all weights."""
    stages, nodes = machine.node, whole.count // machine.node
    count = m.batch // nodes
    turns = count + 2 * (stages - 1)
    row_bytes = 2.0 * m.length * m.width
    gradients = 2 * 2 * _parameters(m) / stages * (nodes - 1) / nodes
    steps = [
        Collective("ppermute", "model", row_bytes, "x", "pipeline", None, 2 * turns),
        Collective("psum", "data", gradients, "w", "pipeline", None, 1),
    ]
    speed = {"model": machine.fast, "data": machine.slow}
    moving = plan_costs.seconds(steps, dict.fromkeys(speed, machine.latency), speed)
    kept = (2 * stages - 1 + m.layers / stages) * row_bytes
    again = 5 / 4  # the stage is computed again, and in it each layer
    return Row("stages", whole.count, again * whole.computing * turns / count, moving,
               whole.held / stages, kept, steps)  # fmt: skip


# -- the page --------------------------------------------------------------------------------------
def page(m: Model, machine: Machine, devices: tuple[int, ...]) -> str:
    rows = [row(name, n, m, machine) for name in PLANS for n in devices]
    rows += [staged(whole, m, machine) for whole in rows[: len(devices)]]
    lines = [_HEAD.format(m=m, machine=machine, count=_parameters(m) / 1e9,
                          rate=machine.rate / 1e12, fast=machine.fast / 1e9,
                          slow=machine.slow / 1e9, latency=machine.latency * 1e6)]  # fmt: skip
    lines += ["| plan | devices | computing | moving | moving, share | weights and states | kept "
              "for backward |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for r in rows:
        share = r.moving / (r.moving + r.computing)
        lines.append(
            f"| {r.name} | {r.count} | {r.computing:.2f} s | {r.moving:.2f} s | {share:.0%} | "
            f"{bytes_text(r.held)} | {bytes_text(r.kept)} |"
        )
    lines += ["", *(f"- *{name}*: {text}." for name, text in MEANING.items()), ""]
    lines += ["## The steps between devices", "", _STEPS.format(count=devices[1]), "```text"]
    for r in rows:
        if r.count == devices[1]:
            lines += [f"{r.name}:", *_totals(r.steps)]
    return "\n".join([*lines, "```", "", _TAIL])


def _totals(steps: Any) -> list[str]:
    count: Counter[tuple[str, str]] = Counter()
    total: dict[tuple[str, str], float] = {}
    for s in steps:
        key = (s.kind, s.axis)
        count[key] += s.times or 1
        total[key] = total.get(key, 0.0) + s.bytes * (s.times or 1)
    return [f"  {n} {k} over {a}: {bytes_text(total[k, a])}" for (k, a), n in count.items()]


def _parameters(m: Model) -> float:
    total = 0
    for dims in shapes(m).values():
        product = 1
        for d in dims:
            product *= d
        total += product
    return total


_HEAD = """# What a large model costs on many devices

This page is written by `python -m benchmarks.scaling`, from plans that `phix.parallel.shard` makes
of the shapes of a LLaMA: {count:.1f} billion parameters in {m.layers} layers of width {m.width}, a
batch of {m.batch} rows of {m.length} words, weights in bfloat16, the optimizer's copy and averages
in float32, layers computed again going backward. The same plans run where there are processes for
them; here they are simulated, and nothing is measured.

Exact are the multiplications of a device, the steps between devices with their bytes, and what a
device holds. Times follow from assumptions: products reach {rate:.0f} TFLOP/s; {machine.node}
devices of a node tell each other {fast:.0f} GB/s each, and nodes {slow:.0f} GB/s for each
device, to which a sum over more than a node is bound; a step takes {latency:.0f} us besides its
bytes; nothing is moved while something is computed; what is no product costs nothing. So a step
takes what is in the columns *computing* and *moving* together.

The batch is the same on any number of devices. What is kept for backward is what enters each layer,
of the whole batch: where it is too much, the batch comes in pieces one after the other, whose
gradients are added, with the same work. Positions are left out of the model: they cost next to
nothing. A dim that devices do not divide evenly stays whole; of the table the words on 1,024, where
its columns are divided.

## Steps of training
"""
_STEPS = "Of a device, for a step on {count} devices:\n"
_TAIL = """## The cost model beside measurements

The planner counts bytes moved, a fixed cost for each step between parts, multiplications and bytes
touched, in one unit (`LATENCY`, `MULTIPLIED` and `TOUCHED` in `phix/parallel/forms.py`).
`python -m benchmarks.parallel` prints beside each step that it measures on ranks of `mpiexec` what
this model makes of it, from the time of one rank alone and of two sums between them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--explain", metavar="PLAN", choices=PLANS, help="print one, on 64 devices")
    given = parser.parse_args()
    if given.explain:
        print(planned(given.explain, 64, Model(), Machine().node)[0])
        return
    PAGE.write_text(page(Model(), Machine(), DEVICES), "utf-8")


if __name__ == "__main__":
    main()
