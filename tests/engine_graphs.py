"""Graphs written by hand, for tests of the engine below the op table."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import graph as gr
from phix.core.meta import MetaTensor, spec
from phix.core.op import Arg, Op, Output


def make_op(signature: str, traits: str = "") -> Op:
    """``make_op("sum(Tensor x, int[] axis) -> out")``."""
    name, rest = signature.split("(", 1)
    args, outs = rest.split(") -> ")
    parsed = [a.strip().split(" ") for a in args.split(",") if a.strip()]
    outputs = []
    for o in outs.split(","):
        o = o.strip()
        outputs.append(Output(o.rstrip("[]"), o.endswith("[]")))
    return Op(
        name,
        tuple(Arg(n, t) for t, n in parsed),
        tuple(outputs),
        traits=frozenset(traits.split()),
    )


class GraphWriter:
    """Builds a Graph equation by equation."""

    def __init__(self) -> None:
        self.inputs: list[gr.Variable] = []
        self.constants: list[gr.Constant] = []
        self.equations: list[gr.Equation] = []

    def input(self, dims: Any, dtype: Any = "float32") -> gr.Variable:
        v = gr.Variable(f"x{len(self.inputs)}", spec(dims, dtype))
        self.inputs.append(v)
        return v

    def constant(self, value: np.ndarray) -> gr.Variable:
        v = gr.Variable(f"c{len(self.constants)}", MetaTensor(value.shape, value.dtype))
        self.constants.append(gr.Constant(v, value))
        return v

    def add(self, op: Op, inputs: Any, attrs: Any, *metas: Any) -> Any:
        """An equation; ``metas`` are (dims, dtype), or for a list output a list of those."""
        outs: list[Any] = []
        for k, meta in enumerate(metas):
            if isinstance(meta, list):
                outs.append(tuple(self._out(k, m) for m in meta))
            else:
                outs.append(self._out(k, meta))
        self.equations.append(gr.Equation(op, tuple(inputs), tuple(attrs), tuple(outs)))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _out(self, k: int, meta: Any) -> gr.Variable:
        dims, dtype = meta
        return gr.Variable(f"v{len(self.equations)}_{k}", MetaTensor(tuple(dims), dtype))

    def graph(self, *outputs: Any) -> gr.Graph:
        return gr.Graph(
            tuple(self.inputs), tuple(self.constants), tuple(self.equations), tuple(outputs)
        )
