"""Functions of whole tensors, with shardings: on virtual meshes, and by the ranks of mpiexec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import phix
from phix import ops, optim
from phix.parallel import even_specs, gather, local_parts, shard

B, T, D, H, V = 4, 6, 8, 4, 12  # sequences, their length, width, heads, words


class Case(NamedTuple):
    """``steps`` counts the steps between the parts in the plan, by kind and axis."""

    function: Callable[..., Any]
    in_specs: Any
    out_specs: Any
    args: tuple[Any, ...]
    steps: dict[tuple[str, str], int]


def drawn(*dims: int) -> np.ndarray:
    return np.random.default_rng(sum(dims)).normal(size=dims) / 3


# -- models ----------------------------------------------------------------------------------------
def mlp(p: Any, x: Any) -> Any:
    return ops.tanh(x @ p["u"] + p["c"]) @ p["d"]


def normed(x: Any, g: Any, b: Any) -> Any:
    c = x - x.mean(-1, keepdims=True)
    return c * ops.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b


def attention(p: Any, x: Any) -> Any:
    def heads(name: str) -> Any:
        return (x @ p[name]).reshape((*x.shape[:2], H, D // H)).transpose((0, 2, 1, 3))

    q, k, v = map(heads, "qkv")
    scores = ops.matmul(q, k, False, True) / np.sqrt(D // H)
    scores = ops.where(ops.tril(ops.ones((T, T), "bool")), scores, -1e9)
    mixed = ops.softmax(scores, -1) @ v
    return mixed.transpose((0, 2, 1, 3)).reshape(x.shape) @ p["o"]


def block(p: Any, x: Any) -> Any:
    x = x + attention(p, normed(x, p["g1"], p["b1"]))
    h = normed(x, p["g2"], p["b2"])
    return x + ops.gelu(h @ p["u"] + p["c"]) @ p["d"] + p["e"]


def language(p: Any, words: Any, following: Any) -> Any:
    x = block(p, ops.embedding(words, p["words"]))
    logits = ops.log_softmax(ops.matmul(x, p["words"], False, True), -1)
    return -ops.take_along_axis(logits, following[..., None], -1).mean()


def layers(p: Any, x: Any) -> Any:
    return phix.scan(lambda c, q: (phix.checkpoint(block)(q, c), None), x, p)[0]


BLOCK = {
    **{name: drawn(D, D) for name in "qkvo"},
    "u": drawn(D, 4 * D), "c": drawn(4 * D), "d": drawn(4 * D, D), "e": drawn(D),
    "g1": 1 + drawn(D), "b1": drawn(D), "g2": 1 + drawn(D), "b2": drawn(D),
}  # fmt: skip
MEGATRON: dict[str, Any] = {
    **dict.fromkeys(BLOCK), **dict.fromkeys("qkvu", (None, "model")),
    "c": "model", "o": "model", "d": "model",
}  # fmt: skip


def squared(f: Callable[..., Any]) -> Callable[..., Any]:
    """The loss of a model, and its gradient."""
    return phix.value_and_grad(lambda p, x: (f(p, x) ** 2).mean())


OPTIMIZER = optim.adam(1e-2)


def trained(p: Any, state: Any, x: Any) -> Any:
    """A step of training: parameters, the optimizer's state, and the loss."""
    value, grads = squared(block)(p, x)
    updates, state = OPTIMIZER.update(grads, state, p)
    return optim.apply_updates(p, updates), state, value


def stacked(specs: dict[str, Any]) -> dict[str, Any]:
    """The specs of weights of layers, one behind the other."""
    wide = lambda s: s if s is None else (None, s) if isinstance(s, str) else (None, *s)  # noqa: E731
    return {name: wide(s) for name, s in specs.items()}


# -- cases -----------------------------------------------------------------------------------------
X = drawn(B, T, D)
WORDS = np.random.default_rng(1).integers(0, V, (2, B, T))
DEEP = {k: np.stack([v, 1.1 * v, 0.9 * v]) for k, v in BLOCK.items()}
MLP = {k: BLOCK[k] for k in "ucd"}
MLP_SPECS = {k: MEGATRON[k] for k in "ucd"}


def on_model() -> dict[str, Case]:
    """Tensor parallel: the weights' shardings say all."""
    psum = ("psum", "model")
    table = {**BLOCK, "words": drawn(V, D)}
    return {
        "mlp": Case(mlp, (MLP_SPECS, None), None, (MLP, X), {psum: 1}),
        "mlp, gradient": Case(squared(mlp), (MLP_SPECS, None), (None, MLP_SPECS), (MLP, X),
                              {psum: 1}),
        "attention": Case(attention, (MEGATRON, None), None, (BLOCK, X), {psum: 1}),
        "block": Case(block, (MEGATRON, None), None, (BLOCK, X), {psum: 2}),
        "block, gradient": Case(squared(block), (MEGATRON, None), (None, MEGATRON), (BLOCK, X),
                                {psum: 4}),
        "layers, gradient": Case(squared(layers), (stacked(MEGATRON), None),
                                 (None, stacked(MEGATRON)), (DEEP, X), {psum: 5 * 3}),
        "language": Case(phix.value_and_grad(language), ({**MEGATRON, "words": None}, None, None),
                         (None, {**MEGATRON, "words": None}), (table, *WORDS), {psum: 4}),
    }  # fmt: skip


def on_data(parts: Any) -> dict[str, Case]:
    """Data parallel, and with weights divided, too: gathered where they are used, and their
    gradients summed into pieces."""
    count = len(BLOCK)
    state = OPTIMIZER.init(phix.tree.map(phix.to_tensor, BLOCK))
    pieces = even_specs(state, parts, "data")
    zero = {("all_gather", "data"): count, ("psum", "data"): 1, ("psum_scatter", "data"): count}
    return {
        "data": Case(squared(block), (None, "data"), None, (BLOCK, X),
                     {("psum", "data"): 1 + count}),
        "weights divided": Case(squared(block), ("data", "data"), (None, "data"), (BLOCK, X), zero),
        "states divided": Case(trained, (None, pieces, "data"), (None, pieces, None),
                               (BLOCK, state, X), zero),
        "states and weights divided": Case(trained, ("data", pieces, "data"),
                                           ("data", pieces, None), (BLOCK, state, X), zero),
    }  # fmt: skip


def on_both() -> dict[str, Case]:
    count = len(BLOCK)
    return {
        "both": Case(squared(block), (MEGATRON, "data"), (None, MEGATRON), (BLOCK, X),
                     {("psum", "model"): 4, ("psum", "data"): 1 + count}),
    }  # fmt: skip


def steps_of(plan: Any) -> dict[tuple[str, str], int]:
    """How many steps between the parts a plan has, by kind and axis."""
    found: dict[tuple[str, str], int] = {}
    for step in plan.collectives:
        key = (step.kind, step.axis)
        found[key] = found.get(key, 0) + (step.times or 1)
    return found


def check(name: str, case: Case, on: Any, jitted: bool = False) -> None:
    """The sharded function gives what the function does, and its plan has the steps of the case."""
    args = phix.tree.map(phix.to_tensor, case.args)
    sharded = shard(case.function, on, case.in_specs, case.out_specs)
    parts = local_parts(args, on, case.in_specs)
    steps = steps_of(sharded.explain(*parts))
    assert steps == case.steps, f"{name}: {steps}"
    found = gather((phix.jit(sharded) if jitted else sharded)(*parts), on, case.out_specs)
    wanted = case.function(*args)
    for one, other in zip(phix.tree.leaves(found), phix.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=name)


def on_ranks(mesh: Callable[[dict[str, int]], Any], count: int) -> int:
    """Some of the cases by the ranks of a program; how many."""
    rows = mesh({"data": count})
    todo = [(mesh({"model": count}), on_model(), ("block, gradient", "layers, gradient")),
            (rows, on_data(rows), ("data", "states and weights divided"))]  # fmt: skip
    if count == 4:
        todo = [(mesh({"data": 2, "model": 2}), on_both(), ("both",))]
    for on, cases, names in todo:
        for name in names:
            check(name, cases[name], on, jitted=True)
    return sum(len(names) for _, _, names in todo)
