"""Plans: how a graph of primitives runs on the parts of a mesh.

Equation by equation, of all ways that the rule of the op allows the cheapest is taken: what its
operands cost to bring into the form it wants, what a result that is left pending will cost to sum,
and a little for what each part computes. A form that a value has been brought into is kept for all
who want it. Bodies of loops and branches are planned in the same way, again and again until what is
carried keeps its form.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phix.core import dtypes as dt
from phix.core.errors import ArgumentError
from phix.core.graph import Equation, Graph, Literal, flat
from phix.core.source import Source
from phix.parallel import sharding_rules as rules
from phix.parallel.forms import (
    LATENCY,
    PENDING,
    WHOLE,
    Form,
    Move,
    fits,
    local_bytes,
    moves,
)
from phix.parallel.plans import Convert, DividedGraph, Run, Sizes, joined_move, work_of
from phix.parallel.sharding_rules import ShardingRule
from phix.parallel.suggestions import suggested

# How one axis of the mesh takes part in an op: None, ("cut", a label) or ("sum", a set of operands)
Mode = Any
# What a step costs that is left for later: another value may be added before, and share it.
_LATER = 0.99 * LATENCY
_TURNS = 4  # how many forms of what a loop carries are tried on the way to one that stays
# At how many values of a whole function a second way is tried, how much smaller than the largest of
# them they may be, what the plan must cost beside the one before, and what share of the work steps
# between parts may take that are not worth it.
_FORKS, _SMALLER, _BETTER, _CHEAP = 4, 64, 0.95, 0.01
_NO_WAY: Mapping[int, Any] = {}
_STEPS_OF_WHILE = 8  # how often a loop runs of which that is not known, for its cost


class Planner:
    """Plans one graph."""

    def __init__(
        self, graph: Graph, inputs: Sequence[Form], sizes: Sizes, taken: Mapping[int, Any] = _NO_WAY
    ) -> None:
        """``taken``: of equations with several ways, by number, the forms of the outputs of that
        to take, where it is not the cheapest at first sight."""
        self.graph, self.sizes, self.taken = graph, sizes, taken
        self.forks: dict[int, tuple[float, Any]] = {}  # where another way is second to one, and it
        self.inputs = tuple(inputs)
        self.forms: dict[Any, list[Form]] = {v: [f] for v, f in zip(graph.inputs, inputs)}
        self.forms.update((c.variable, [WHOLE]) for c in graph.constants)
        self.made: dict[Any, Equation] = {}
        self.zeros: set[Any] = set()
        self.suggested: dict[Any, Any] = {}
        self.uses = Counter(a for e in graph.equations for a in flat(e.inputs))
        self.uses.update(a for a in graph.outputs)
        self.steps: list[Any] = []
        self.cost = self.work = 0.0
        self.uncovered: list[Equation] = []

    def plan(self, outputs: Sequence[Form | None]) -> DividedGraph:
        """``outputs``: the form that each must have, None for that which it has."""
        self.suggested = suggested(self.graph, self.inputs, outputs)
        for number, equation in enumerate(self.graph.equations):
            self.equation(equation, number)
            self.note(equation)
        found = []
        for atom, wanted in zip(self.graph.outputs, outputs):
            form = self.best(atom) if wanted is None else wanted
            source = self.made[atom].source if atom in self.made else None
            self.bring(atom, form, source, "the result")
            found.append(form)
        return DividedGraph(
            self.graph, self.inputs, tuple(found), tuple(self.steps), self.cost,
            self.work, tuple(self.uncovered),
        )  # fmt: skip

    def note(self, equation: Equation) -> None:
        """Remember what is known to be zero, and who makes what."""
        name, outs = equation.op.name, flat(equation.outputs)
        self.made.update(dict.fromkeys(outs, equation))
        if name == "full" and rules.is_zero(equation.op.attr("value", equation.attrs)):
            self.zeros.update(outs)
        moves = ("reshape", "expand", "transpose", "cast", "slice")
        if name in moves and self.is_zero(flat(equation.inputs)[0]):
            self.zeros.update(outs)

    # -- values --------------------------------------------------------------------------------
    def known(self, atom: Any) -> list[Form]:
        return [WHOLE] if isinstance(atom, Literal) else self.forms[atom]

    def best(self, atom: Any) -> Form:
        """The form that a value is handed on in: summed, if it has been by now."""
        return min(self.known(atom), key=lambda f: len(f.pending))

    def is_zero(self, atom: Any) -> bool:
        if isinstance(atom, Literal):
            return bool(atom.value == 0)
        return atom in self.zeros

    def filled(self, atom: Any, before: Form, after: Form) -> Equation | None:
        """What makes a value that is the same all along the dims to be divided."""
        equation = self.made.get(atom)
        if equation is None or before.places:
            return None
        if equation.op.name == "full":
            return equation
        if equation.op.name == "expand":
            source = flat(equation.inputs)[0]
            start = atom.meta.ndim - source.meta.ndim
            cut = [w for _, w in after.places if w != PENDING]
            repeated = all(w < start or source.meta.dims[w - start] == 1 for w in cut)
            if repeated and not after.pending and WHOLE in self.known(source):
                return equation
        return None

    def way(self, atom: Any, after: Form) -> tuple[float, Form, list[Move]]:
        """The cheapest way to a form: its cost, where it begins, and its moves."""
        ways = []
        for before in self.known(atom):
            if self.filled(atom, before, after) is not None and not after.pending:
                return (0.0, before, [])
            steps = moves(atom.meta, before, after, self.sizes)
            if self.is_zero(atom):
                steps = [s for s in steps if s.kind != "one"]
            ways.append((sum(s.cost for s in steps), before, steps))
        return min(ways, key=lambda w: w[0])

    def bring(self, atom: Any, after: Form, source: Source | None, op: str) -> None:
        """See to it that a value is there in a form."""
        known = self.known(atom)
        if after in known:
            return
        cost, before, steps = self.way(atom, after)
        filled = self.filled(atom, before, after) if not after.pending else None
        self.cost += cost
        self.steps.append(Convert(atom, before, after, tuple(steps), source, op, filled))
        if not isinstance(atom, Literal):
            known.append(after)

    # -- equations -----------------------------------------------------------------------------
    def equation(self, equation: Equation, number: int) -> None:
        if equation.op.has_graphs:
            if equation.op.name not in _BY_GRAPHS:
                raise ArgumentError(f"shard: {equation.op.name} has graphs that no rule covers")
            self.run(equation, *_BY_GRAPHS[equation.op.name](self, equation))
            return
        atoms = flat(equation.inputs)
        if equation.op.name == "optimization_barrier":  # each operand as it comes
            forms = [self.best(a) for a in atoms]
            self.run(equation, forms, forms)
            return
        rule = rules.rule_of(equation)
        if rule is None:
            rule = rules.whole(rules.RuleCall(equation))
            if any(self.best(a) != WHOLE for a in atoms):
                self.uncovered.append(equation)
        if all(self.known(a) == [WHOLE] for a in atoms):
            whole = (WHOLE,) * len(rule.outs)
            self.run(equation, (WHOLE,) * len(atoms), whole, rule)
            return
        ways = sorted(self.ways(equation, rule, atoms), key=lambda w: w[0])
        self.note_fork(equation, number, ways)
        taken = (w for w in ways if w[2] == self.taken.get(number))
        _, forms, outs, cut, joined = next(taken, ways[0])
        self.run(equation, forms, outs, rule, cut, joined)

    def note_fork(self, equation: Equation, number: int, ways: Sequence[Any]) -> None:
        """Remember the best way that divides the work otherwise, with the bytes of what it gives:
        operands come divided in dims of which the op can have one divided."""
        other = next((w[2] for w in ways if w[3] and w[3].keys() != ways[0][3].keys()), None)
        if other is not None and ways[0][3] and other != ways[0][2]:
            size = sum(local_bytes(v.meta, WHOLE, self.sizes) for v in flat(equation.outputs))
            self.forks[number] = (size, other)

    def run(
        self,
        equation: Equation,
        forms: Sequence[Form],
        outs: Sequence[Form],
        rule: ShardingRule | None = None,
        cut: Any = None,
        joined: Sequence[tuple[str, str]] = (),
        inner: Sequence[DividedGraph] = (),
        cost: float = 0.0,
    ) -> None:
        atoms, made = flat(equation.inputs), flat(equation.outputs)
        for atom, form in zip(atoms, forms):
            self.bring(atom, form, equation.source, equation.op.name)
        self.forms.update((v, [f]) for v, f in zip(made, outs))
        extra = [joined_move(k, a, made[0].meta, outs[0], self.sizes) for k, a in joined]
        self.cost += cost + sum(m.cost for m in extra)
        if rule is not None:
            self.work += work_of(equation, rule, forms, outs, cut or {}, self.sizes)
        self.steps.append(
            Run(equation, tuple(forms), tuple(outs), rule, cut or {}, tuple(joined), tuple(inner))
        )

    def ways(self, equation: Equation, rule: ShardingRule, atoms: Sequence[Any]) -> Iterator[Any]:
        """The ways to run an op on parts, each with its cost."""
        made = flat(equation.outputs)
        options = [self.modes(axis, rule, atoms) for axis in self.sizes]
        for modes in itertools.product(*options):
            by_axis = dict(zip(self.sizes, modes))
            labels = [m[1] for m in modes if m is not None and m[0] == "cut"]
            if len(set(labels)) != len(labels):
                continue
            forms = [
                Form.of({a: _operand(m, rule, k) for a, m in by_axis.items()})
                for k in range(len(atoms))
            ]
            outs = [
                Form.of({a: _out(m, rule, k) for a, m in by_axis.items()}) for k in range(len(made))
            ]
            pairs = [*zip(atoms, forms), *zip(made, outs)]
            if not all(self.allowed(x, f) for x, f in pairs):
                continue
            cut = {m[1]: (a, self.sizes[a]) for a, m in by_axis.items() if m and m[0] == "cut"}
            joined = [(rule.extremes[x], a) for x, (a, _) in cut.items() if x in rule.extremes]
            cost = self.price(equation, rule, forms, outs, cut, joined)
            yield cost, tuple(forms), tuple(outs), cut, tuple(joined)

    def allowed(self, atom: Any, form: Form) -> bool:
        if form.pending and atom.meta.dtype == dt.bool_:
            return False
        return fits(atom.meta, form, self.sizes)

    def modes(self, axis: str, rule: ShardingRule, atoms: Sequence[Any]) -> list[Mode]:
        """How an axis may take part: as what is divided or pending along it by now suggests."""
        found: list[Mode] = []
        for operands in rule.linear:
            if any(f.at(axis) == PENDING for k in operands for f in self.known(atoms[k])):
                found.append(("sum", operands))
        found.append(None)
        for atom, labels in zip(atoms, rule.operands):
            at = [f.at(axis) for f in self.known(atom)]
            cut = [w for w in at if isinstance(w, int)]
            wanted = [labels[w] for w in cut if labels[w] is not None]
            if cut and not wanted:  # the dim must be whole: another may be divided for it
                wanted = [x for x in labels if x is not None]
            if PENDING in at:
                places = sorted(self.suggested.get(atom, ()))  # on all ranks alike
                wanted += [labels[w] for a, w in places if a == axis and labels[w] is not None]
            found += [("cut", x) for x in dict.fromkeys(wanted) if ("cut", x) not in found]
        return found

    def price(
        self,
        equation: Equation,
        rule: ShardingRule,
        forms: Sequence[Form],
        outs: Sequence[Form],
        cut: Mapping[Any, tuple[str, int]],
        joined: Sequence[tuple[str, str]],
    ) -> float:
        atoms, made = flat(equation.inputs), flat(equation.outputs)
        total = work_of(equation, rule, forms, outs, cut, self.sizes)
        for atom, form in zip(atoms, forms):
            for move in self.way(atom, form)[2]:
                # a sum is there for all who want it
                shared = self.uses[atom] if move.kind in ("psum", "psum_scatter") else 1
                total += move.cost / shared
        for out, form in zip(made, outs):
            size = local_bytes(out.meta, form, self.sizes)
            counts = [self.sizes[a] for a in form.pending]
            total += sum(2 * size * (n - 1) / n + _LATER for n in counts)
        return total + sum(
            joined_move(k, a, made[0].meta, outs[0], self.sizes).cost for k, a in joined
        )


def _operand(mode: Mode, rule: ShardingRule, number: int) -> Any:
    """Where an axis stands in an operand."""
    if mode is None:
        return None
    kind, what = mode
    if kind == "sum":
        return PENDING if number in what else None
    if what in rule.operands[number]:
        return rule.operands[number].index(what)
    return PENDING if what in rule.sums and number in rule.carried else None


def _out(mode: Mode, rule: ShardingRule, number: int) -> Any:
    if mode is None:
        return None
    kind, what = mode
    if kind == "sum":
        return PENDING
    if what in rule.outs[number]:
        return rule.outs[number].index(what)
    return PENDING if what in rule.sums or what in rule.looked_up else None


def best_plan(
    graph: Graph, inputs: Sequence[Form], outputs: Sequence[Form | None], sizes: Sizes
) -> DividedGraph:
    """The plan of a whole function. What is cheapest at first sight may be dear further on: where
    operands of large values meet that are divided in ways of which one must give in, another way
    is tried, the first of them first, and kept if all together is cheaper.
    """
    planner = Planner(graph, inputs, sizes)
    best, at = planner.plan(outputs), -1
    for _ in range(_FORKS):
        if best.cost <= _CHEAP * best.work:
            break
        large = max((size for size, _ in planner.forks.values()), default=0.0) / _SMALLER
        behind = [n for n, (size, _) in planner.forks.items() if n > at and size >= large]
        if not behind:
            break
        at = min(behind)
        other = Planner(graph, inputs, sizes, {**planner.taken, at: planner.forks[at][1]})
        found = other.plan(outputs)
        if found.cost + found.work < _BETTER * (best.cost + best.work):
            best, planner = found, other
    return best


# -- graphs inside ---------------------------------------------------------------------------------
def plan(
    graph: Graph, inputs: Sequence[Form], outputs: Sequence[Form | None], sizes: Sizes
) -> DividedGraph:
    """The plan of a graph whose inputs come in these forms, and whose outputs are to have those."""
    key = ("plan", tuple(inputs), tuple(outputs), tuple(sizes.items()))
    found: DividedGraph | None = graph.memo.get(key)
    if found is None:
        found = graph.memo[key] = Planner(graph, inputs, sizes).plan(outputs)
    return found


def _settled(planner: Planner, atoms: Sequence[Any]) -> list[Form]:
    """The forms in which values go into a graph: what is pending is summed before."""
    found = []
    for atom in atoms:
        form = planner.best(atom)
        found.append(Form.of({a: w for a, w in form.places if w != PENDING}))
    return found


def _lists(equation: Equation) -> list[Any]:
    """What an op with graphs takes, lists as such."""
    return list(equation.inputs)


def _shifted(form: Form, by: int) -> Form:
    return Form.of({a: w if w == PENDING else w + by for a, w in form.places})


def _carried(before: Sequence[Form], after: Sequence[Form], metas: Any, sizes: Sizes) -> list[Form]:
    """Forms nearer to what a body gives back for values that it took in the forms before."""
    found = []
    for one, other, meta in zip(before, after, metas):
        places = {}
        for axis in sizes:
            was, now = one.at(axis), other.at(axis)
            places[axis] = was if isinstance(was, int) and now == PENDING else now
        form = Form.of(places)
        is_bool = bool(form.pending) and meta.dtype == dt.bool_
        found.append(form if fits(meta, form, sizes) and not is_bool else one)
    return found


def _loop(
    planner: Planner, init: Sequence[Any], body: Graph, run: Any, steps: float
) -> tuple[list[Form], list[DividedGraph]]:
    """The forms of what a loop carries, and the plans of its graphs: the cheapest of those tried.

    ``run(forms, wanted)`` plans the graphs for a carry of these forms, the body's as the last.
    """

    def priced(forms: list[Form]) -> tuple[float, list[Form], list[DividedGraph]]:
        plans = run(forms, forms)
        total = steps * sum(p.cost for p in plans)
        for atom, form in zip(init, forms):
            total += planner.way(atom, form)[0]
            if form.pending:
                total += 2 * local_bytes(atom.meta, form, planner.sizes) + LATENCY
        return total, forms, plans

    forms = _settled(planner, init)
    tried: list[list[Form]] = []
    while forms not in tried and len(tried) < _TURNS:
        tried.append(forms)
        given = run(forms, [None] * len(forms))[-1].outputs
        forms = _carried(forms, given, [a.meta for a in init], planner.sizes)
    if [WHOLE] * len(init) not in tried:
        tried.append([WHOLE] * len(init))
    best = min(map(priced, tried), key=lambda x: x[0])
    adding = _added_up(body, len(init))
    for axis in planner.sizes if adding else ():  # what is added up may pend until the end
        pends = [
            f.put(axis, PENDING) if k in adding and f.at(axis) is None else f
            for k, f in enumerate(best[1])
        ]
        if pends != best[1] and all(map(planner.allowed, init, pends)):
            best = min(best, priced(pends), key=lambda x: x[0])
    _, forms, plans = best
    planner.cost += steps * sum(p.cost for p in plans)
    planner.work += steps * sum(p.work for p in plans)
    return forms, plans


def _added_up(body: Graph, count: int) -> set[int]:
    """Which of the values that a loop carries are used by its body for nothing but a sum."""
    uses = Counter(a for e in body.equations for a in flat(e.inputs))
    uses.update(body.outputs)
    made = {v: e for e in body.equations for v in flat(e.outputs)}
    found = set()
    for number, (before, after) in enumerate(zip(body.inputs[:count], body.outputs)):
        maker = made.get(after)
        adds = maker is not None and maker.op.name == "add" and before in maker.inputs
        if adds and uses[before] == 1 and uses[after] == 1 and before.meta.dtype != dt.bool_:
            found.add(number)
    return found


def _scan(planner: Planner, equation: Equation) -> Any:
    carry, xs, constants = _lists(equation)
    body, length = equation.attrs[:2]
    rows = [f if f.holder(0) is None else f.put(f.holder(0), None)  # type: ignore[arg-type]
            for f in _settled(planner, xs)]  # fmt: skip
    given = _settled(planner, constants)
    slices = [_shifted(f, -1) for f in rows]

    def run(forms: Any, wanted: Any) -> list[DividedGraph]:
        free = [None] * (len(body.outputs) - len(forms))
        return [plan(body, [*forms, *slices, *given], [*wanted, *free], planner.sizes)]

    steps = float(length) if isinstance(length, int) else _STEPS_OF_WHILE
    forms, plans = _loop(planner, carry, body, run, steps)
    ys = [_shifted(f, 1) for f in plans[0].outputs[len(forms) :]]
    planner.uncovered += plans[0].uncovered
    return [*forms, *rows, *given], [*forms, *ys], None, None, (), plans


def _while(planner: Planner, equation: Equation) -> Any:
    carry, constants = _lists(equation)
    cond, body = equation.attrs
    given = _settled(planner, constants)

    def run(forms: Any, wanted: Any) -> list[DividedGraph]:
        inputs = [*forms, *given]
        return [
            plan(cond, inputs, [WHOLE] * len(cond.outputs), planner.sizes),
            plan(body, inputs, wanted, planner.sizes),
        ]

    forms, plans = _loop(planner, carry, body, run, _STEPS_OF_WHILE)
    planner.uncovered += [e for p in plans for e in p.uncovered]
    return [*forms, *given], forms, None, None, (), plans


def _branch(planner: Planner, equation: Equation) -> Any:
    _, operands = _lists(equation)
    given = _settled(planner, operands)
    branches = equation.attrs[0]
    free = [None] * len(branches[0].outputs)
    natural = [plan(g, given, free, planner.sizes).outputs for g in branches]
    outs = []
    for atom, *forms in zip(branches[0].outputs, *natural):
        form = Form.of({a: _common([f.at(a) for f in forms]) for a in planner.sizes})
        outs.append(form if planner.allowed(atom, form) else WHOLE)
    plans = [plan(g, given, outs, planner.sizes) for g in branches]
    planner.cost += max(p.cost for p in plans)
    planner.work += max(p.work for p in plans)
    planner.uncovered += [e for p in plans for e in p.uncovered]
    return [WHOLE, *given], outs, None, None, (), plans


def _common(places: Sequence[Any]) -> Any:
    """Where an axis stands in what all branches give: as in all of them, or divided as in one."""
    if len(set(places)) == 1:
        return places[0]
    return next((w for w in places if isinstance(w, int)), None)


_BY_GRAPHS = {"scan": _scan, "while_loop": _while, "branch": _branch}
