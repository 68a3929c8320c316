"""Solutions of equations, with the derivatives of what the equation says.

How a solution was found is of no account: neither the steps of the solver nor where it began.

What users give is traced once, into graphs that take what they close over as their last inputs:
derivatives of any order are made of these graphs, when the tracers that were closed over are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.api.arguments import flat_tensors
from phix.api.custom import custom_vjp
from phix.api.flattened import Flattened
from phix.api.gradients import jvp, vjp
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from phix.core.given import FLAG, FUNCTION, NONE, takes
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.core.transforms import transforms

Tensors = Sequence[Any]
Flat = Callable[[Tensors, Tensors], Tensors]  # of tensors and what is closed over, to like tensors


# -- systems of flat tensors ----------------------------------------------------------------------
@dataclass(frozen=True)
class _System:
    """A linear system and the transposed one: what they compute, and the graphs that solve them,
    of right sides, what the system closes over, and what the solver does."""

    apply: Flat
    transposed: Flat
    solve: Graph
    back: Graph | None

    def solution(self, b: Tensors, closed: Tensors, held: Tensors, held_back: Tensors) -> Tensors:
        """What ``solve`` gives, with derivatives by b and ``closed``."""

        @custom_vjp
        def solution(b: Any, closed: Any, held: Any, held_back: Any) -> Any:
            return list(self.solve(*b, *closed, *held))

        def forward(b: Any, closed: Any, held: Any, held_back: Any) -> Any:
            outs = solution(b, closed, held, held_back)
            return outs, (outs[: len(b)], closed, held, held_back)

        def backward(residuals: Any, cts: Any) -> Any:
            x, closed, held, held_back = residuals
            if self.back is None:
                raise DifferentiationError(
                    "custom_linear_solve: reverse mode solves the transposed system; give "
                    "transpose_solve, or symmetric=True if it is the same"
                )
            swapped = _System(self.transposed, self.apply, self.back, self.solve)
            w = swapped.solution(cts[: len(x)], closed, held_back, held)[: len(x)]
            return w, _answers(lambda own: self.apply(x, own), closed, w), None, None

        solution.defvjp(forward, backward)
        return solution(list(b), list(closed), list(held), list(held_back))


@dataclass(frozen=True)
class _Root:
    """An equation, the graph that solves it, and the systems of cotangents and tangents at the
    solution."""

    value: Flat
    solve: Graph
    tangents: _System

    def solution(self, guess: Tensors, closed: Tensors, held: Tensors, *of_tangents: Any) -> Any:
        """What ``solve`` gives, with derivatives by ``closed``."""

        @custom_vjp
        def root(guess: Any, closed: Any, held: Any, *of_tangents: Any) -> Any:
            return list(self.solve(*guess, *closed, *held))

        def forward(guess: Any, closed: Any, held: Any, *of_tangents: Any) -> Any:
            outs = root(guess, closed, held, *of_tangents)
            return outs, (outs[: len(guess)], closed, *of_tangents)

        def backward(residuals: Any, cts: Any) -> Any:
            x, closed, *of_tangents = residuals
            w = self.tangents.solution(cts[: len(x)], [*x, *closed], *of_tangents)
            grads = _answers(lambda own: self.value(x, own), closed, w)
            return None, grads, None, *[None for _ in of_tangents]

        root.defvjp(forward, backward)
        return root(list(guess), list(closed), list(held), *map(list, of_tangents))


def _answers(function: Callable[[Tensors], Any], closed: Tensors, w: Tensors) -> list[Any]:
    """The cotangents of ``closed`` for -w: the unknown answers so that the value stays."""
    places = [i for i, c in enumerate(closed) if dt.is_differentiable(c.dtype)]
    out: list[Any] = [None] * len(closed)

    def of_floats(own: Tensors) -> Any:
        every = list(closed)
        for i, value in zip(places, own):
            every[i] = value
        return list(function(every))

    if places:
        grads = vjp(of_floats, [closed[i] for i in places])[1](list(w))[0]
        for i, grad in zip(places, grads):
            out[i] = ops.scale(grad, -1.0)
    return out


# -- what users give ------------------------------------------------------------------------------
class _Problem:
    """A function from a tree to a like tree, as a graph, and what it closes over."""

    def __init__(self, function: Callable[..., Any], unknown: Any, name: str, called: str) -> None:
        self.name = name
        self.flat, self.tree = flat_tensors(unknown, name)
        self.metas = [x.meta for x in self.flat]
        for meta in self.metas:
            if not dt.is_differentiable(meta.dtype):
                raise DTypeError(
                    f"{name} solves for floats or complex numbers, found {meta}; cast it"
                )
        self.graph, self.closed, found = self._traced(
            lambda *x: function(pytrees.unflatten(self.tree, x)), self.flat, called
        )
        self._check(f"{name}: {called}", found, [v.meta for v in self.graph.outputs])

    def _traced(
        self, function: Callable[..., Any], flat: Tensors, called: str
    ) -> tuple[Graph, list[Any], Any]:
        """The graph of a function of tensors, what it closes over, and the tree that it gives."""
        _, args = pytrees.flatten((tuple(flat), {}))
        run = Flattened(function, args, f"the result of {called} of {self.name}")
        graph, closed = transforms().trace(run, [x.meta for x in flat])
        return graph, closed, run.out_tree

    def _check(self, what: str, tree: Any, metas: Sequence[MetaTensor]) -> None:
        if tree != self.tree:
            raise ArgumentError(f"{what} must give a tree of structure {self.tree}, gave {tree}")
        for found, meta in zip(metas, self.metas):
            if found.ndim != meta.ndim or not all(map(dm.may_equal, found.dims, meta.dims)):
                raise ShapeError(f"{what} must give {meta}, as it is given, gave {found}")
            if found.dtype != meta.dtype:
                raise DTypeError(f"{what} must give {meta}, as it is given, gave {found}")

    # -- functions of (x, closed), flat
    def value(self, x: Tensors, closed: Tensors) -> Tensors:
        found: Tensors = self.graph(*x, *closed)
        return found

    def pulled(self, g: Tensors, point: Tensors) -> Tensors:
        """The transpose of the derivative; ``point`` is x and what is closed over."""
        x, closed = point[: len(g)], point[len(g) :]
        found: Tensors = vjp(lambda v: list(self.value(v, closed)), list(x))[1](list(g))[0]
        return found

    def pushed(self, t: Tensors, point: Tensors) -> Tensors:
        """The derivative."""
        x, closed = point[: len(t)], point[len(t) :]
        found: Tensors = jvp(lambda v: list(self.value(v, closed)), (list(x),), (list(t),))[1]
        return found

    def solved_by(
        self, solve: Callable[..., Any], of: Flat, closed: Tensors, called: str, has_aux: bool
    ) -> tuple[Graph, list[Any], Any]:
        """The graph of ``solve(function, given)``, what ``solve`` closes over, and the tree that it
        gives. ``of`` is the function, closing over ``closed``."""
        count = len(self.flat)

        def run(*flat: Any) -> Any:
            def function(x: Any) -> Any:
                leaves, tree = flat_tensors(x, self.name)
                self._check(f"{self.name}: {called}", tree, [v.meta for v in leaves])
                return pytrees.unflatten(self.tree, list(of(leaves, flat[count:])))

            return solve(function, pytrees.unflatten(self.tree, flat[:count]))

        graph, held, tree = self._traced(run, [*self.flat, *closed], called)
        given = pytrees.unflatten(tree, [v.meta for v in graph.outputs])
        if has_aux and not (isinstance(given, tuple) and len(given) == 2):
            raise ArgumentError(f"{self.name}: {called} must return (x, aux), as has_aux says")
        metas, structure = pytrees.flatten(given[0] if has_aux else given)
        self._check(f"{self.name}: {called}", structure, metas)
        return graph, held, tree


@takes(
    matvec=FUNCTION, solve=FUNCTION, transpose_solve=FUNCTION | NONE, symmetric=FLAG, has_aux=FLAG
)
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x with ``matvec(x) = b`` that a solver finds, with the derivatives of that equation.

    For a cotangent g of x, b gets the w with ``transposed(w) = g``, and what ``matvec`` closes over
    gets the cotangents of ``-matvec(x)`` for w. Both modes, of any order. What ``solve`` closes
    over, as a first guess, has no derivative.

    Args:
        matvec: a linear function of a tree like b that gives such a tree.
        b: a tensor of floats or complex numbers, or a tree of them.
        solve: ``solve(matvec, b)`` gives x.
        transpose_solve: ``transpose_solve(transposed, g)`` solves the transposed system; needed
            where derivatives are taken. For complex numbers it is the conjugate transpose.
        symmetric: the transposed system is the same, and so is its solver.
        has_aux: the solvers give ``(x, aux)``; aux has no derivative.

    Returns:
        x, or (x, aux).

    Raises:
        ArgumentError: matvec or solve gives a tree of other structure.
        ShapeError, DTypeError: the same of dims and dtypes, or b holds ints.
        DifferentiationError: differentiated in reverse without a transpose_solve.

    >>> import phix
    >>> def halved(matvec, b):  # Richardson's iteration
    ...     return phix.fori_loop(0, 60, lambda i, x: x + 0.5 * (b - matvec(x)), 0.0 * b)
    >>> def f(d):
    ...     b = phix.to_tensor([3.0, 6.0])
    ...     return phix.custom_linear_solve(lambda x: d * x, b, halved, symmetric=True).sum()
    >>> [round(v, 3) for v in phix.grad(f)(phix.to_tensor([1.5, 2.0])).tolist()]
    [-1.333, -1.5]
    """
    problem = _Problem(matvec, b, "custom_linear_solve", "matvec")
    closed = problem.closed

    def transposed(g: Tensors, closed: Tensors) -> Tensors:
        return problem.pulled(g, [*g, *closed])  # of a linear function anywhere

    graph, held, tree = problem.solved_by(solve, problem.value, closed, "solve", has_aux)
    system, held_back = _System(problem.value, problem.value, graph, graph), held
    if not symmetric:
        back: Graph | None = None
        if transpose_solve is not None:
            back, held_back, _ = problem.solved_by(
                transpose_solve, transposed, closed, "transpose_solve", has_aux
            )
        system = _System(problem.value, transposed, graph, back)
    return pytrees.unflatten(tree, system.solution(problem.flat, closed, held, held_back))


@takes(f=FUNCTION, solve=FUNCTION, tangent_solve=FUNCTION, has_aux=FLAG)
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """The x with ``f(x) = 0`` that a solver finds, with the derivatives of that equation.

    By the implicit function theorem: for a cotangent g of x, what f closes over gets the
    cotangents of ``-f(x)`` for the w with J^T w = g, J being the Jacobian of f at x. Both modes,
    of any order. The guess, and what ``solve`` closes over, have no derivative.

    Args:
        f: a function of a tree like the guess that gives such a tree.
        initial_guess: a tensor of floats or complex numbers, or a tree of them.
        solve: ``solve(f, initial_guess)`` gives x.
        tangent_solve: ``tangent_solve(g, y)`` gives the x with g(x) = y, for linear functions g: J,
            or its transpose.
        has_aux: ``solve`` gives ``(x, aux)``; aux has no derivative.

    Returns:
        x, or (x, aux).

    Raises:
        ArgumentError: f or solve gives a tree of other structure.
        ShapeError, DTypeError: the same of dims and dtypes, or the guess holds ints.

    >>> import phix
    >>> def newton(f, x):
    ...     return phix.fori_loop(0, 8, lambda i, x: x - f(x) / phix.grad(f)(x), x)
    >>> def root(a):
    ...     return phix.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> root(9.0).item(), round(phix.grad(root)(9.0).item(), 5)
    (3.0, 0.16667)
    """
    problem = _Problem(f, initial_guess, "custom_root", "f")
    graph, held, tree = problem.solved_by(solve, problem.value, problem.closed, "solve", has_aux)
    point = [*problem.flat, *problem.closed]
    (back, held_back, _), (forth, held_forth, _) = (
        problem.solved_by(tangent_solve, of, point, "tangent_solve", False)
        for of in (problem.pulled, problem.pushed)
    )
    tangents = _System(problem.pulled, problem.pushed, back, forth)
    root = _Root(problem.value, graph, tangents)
    outs = root.solution(problem.flat, problem.closed, held, held_back, held_forth)
    return pytrees.unflatten(tree, outs)


__all__ = ["custom_linear_solve", "custom_root"]
