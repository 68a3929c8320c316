"""A network on graphs: messages along edges, summed where they arrive by a segment sum.

``python examples/graph_network.py [--plot]``, some seconds on a CPU. Nodes of a random graph carry
a number each. Two rounds of messages learn what a formula gives: the mean, over a node's
neighbours, of the largest number next to them - so a node must hear of those two edges away. A
graph is three arrays; several are one, laid side by side. It is tested on a graph it has not seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture


class Graph(NamedTuple):
    nodes: Any  # [n, features]
    start: Any  # [edges]: the node that an edge leaves
    end: Any  # [edges]: the node it comes to


def segment_sums(x: Any, segments: Any, count: int) -> Any:
    """The sums of the rows of x [edges, ...] of each segment, [count, ...]; empty ones are 0."""
    return ops.full([count, *x.shape[1:]], 0.0, x.dtype).at[segments].add(x)


@nn.module
class Round:
    """New values of all nodes, of their own and the sum of what comes along their edges."""

    message: nn.Linear
    own: nn.Linear
    heard: nn.Linear

    @staticmethod
    def create(key: Any, inputs: int, size: int) -> Round:
        keys = phix.random.split(key, 3)
        message = nn.Linear.create(keys[0], 2 * inputs, size)
        own = nn.Linear.create(keys[1], inputs, size)
        return Round(message, own, nn.Linear.create(keys[2], 2 * size, size, bias=False))

    def __call__(self, graph: Graph) -> Graph:
        x, count = graph.nodes, graph.nodes.shape[0]
        sent = ops.relu(self.message(ops.concat([x[graph.start], x[graph.end]], 1)))
        total = segment_sums(sent, graph.end, count)
        degree = segment_sums(ops.full(graph.end.shape, 1.0), graph.end, count)
        mean = total / ops.maximum(degree, 1.0)[:, None]
        heard = self.heard(ops.concat([total, mean], 1))
        return graph._replace(nodes=ops.relu(self.own(x) + heard))


@nn.module
class GraphNetwork:
    """A number for each node, [n]."""

    rounds: tuple[Round, ...]
    out: nn.Linear

    @staticmethod
    def create(key: Any, inputs: int, size: int, count: int = 2) -> GraphNetwork:
        keys = phix.random.split(key, count + 1)
        sizes = [inputs, *[size] * count]
        rounds = tuple(Round.create(k, a, size) for k, a in zip(keys, sizes[:-1]))
        return GraphNetwork(rounds, nn.Linear.create(keys[-1], size, 1))

    def __call__(self, graph: Graph) -> Any:
        for step in self.rounds:
            graph = step(graph)
        return self.out(graph.nodes)[:, 0]


def drawn(rng: np.random.Generator, nodes: int = 200, edges: int = 300) -> tuple[Graph, np.ndarray]:
    """A random graph, each edge both ways, and what is to be learnt of its nodes."""
    values = rng.uniform(0, 1, nodes).astype("f")
    ends = rng.integers(0, nodes, (2, edges))
    start, end = np.concatenate([ends, ends[::-1]], 1)
    order = np.argsort(end, kind="stable")
    start, end = start[order], end[order]
    largest, sums, degree = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    np.maximum.at(largest, end, values[start])
    np.add.at(sums, end, largest[start])
    np.add.at(degree, end, 1.0)
    wanted = sums / np.maximum(degree, 1.0)
    return Graph(values[:, None], start, end), wanted.astype("f")


class Result(NamedTuple):
    losses: np.ndarray
    wanted: np.ndarray  # of a new graph
    found: np.ndarray

    @property
    def explained(self) -> float:
        """The part of the variance that is explained."""
        return 1.0 - float(((self.found - self.wanted) ** 2).mean() / self.wanted.var())


def train(steps: int = 600, size: int = 32) -> Result:
    rng = np.random.default_rng(0)
    net = GraphNetwork.create(phix.random.key(0), 1, size)
    optimizer = optim.adam(optim.cosine_decay_schedule(5e-3, steps))

    def loss(net: GraphNetwork, graph: Graph, wanted: Any) -> Any:
        return ops.mean((net(graph) - wanted) ** 2)

    @phix.jit(donate_argnums=(0, 1))
    def step(net: GraphNetwork, state: Any, graph: Graph, wanted: Any) -> Any:
        value, grads = phix.value_and_grad(loss)(net, graph, wanted)
        updates, state = optimizer.update(grads, state, net)
        return optim.apply_updates(net, updates), state, value

    state, losses = optimizer.init(net), []
    for _ in range(steps):
        net, state, value = step(net, state, *drawn(rng))
        losses.append(value.item())
    graph, wanted = drawn(rng)
    found = phix.jit(lambda net, graph: net(graph))(net, graph).numpy()
    return Result(np.array(losses), wanted, found)


def draw(axes: Any, result: Result) -> None:
    axes.plot([0, 1], [0, 1], color="#1b1b1b", linewidth=0.8)
    axes.plot(result.wanted, result.found, ".", color="#d1495b", markersize=4)
    axes.set(xlabel="formula", ylabel="network", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    axes.set_title(f"Graph network: {result.explained:.1%} explained")


if __name__ == "__main__":
    result = train()
    print(f"loss {result.losses[0]:.4f} -> {result.losses[-20:].mean():.4f}")
    print(f"of a new graph {result.explained:.1%} of the variance is explained")
    picture("graph_network", draw, result)
