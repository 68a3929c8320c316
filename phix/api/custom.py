"""Functions with derivatives of the user's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic

from phix import ops
from phix.api.arguments import check_same_dims, flat_tensors, function_name
from phix.api.flattened import Flattened, Graphs
from phix.api.signatures import P, R, X
from phix.api.weak_arguments import given_back, taken, tree_of
from phix.core import context, pytrees
from phix.core.errors import ArgumentError, DifferentiationError
from phix.core.exact_keys import Exact
from phix.core.given import FUNCTION, INTS, naming, takes, wrong
from phix.core.records import dataclass
from phix.core.tensor import TensorBase, Tracer
from phix.core.tensor_kinds import dense


@takes()
def stop_gradient(x: X) -> X:
    """``x``, a tree of tensors, as a constant to every derivative.

    >>> import phix
    >>> phix.grad(lambda x: x * phix.stop_gradient(x))(3.0).item()
    3.0
    """
    flat, treedef = flat_tensors(x, "stop_gradient")
    return pytrees.unflatten(treedef, [ops.stop_gradient(v) for v in flat])


# -- calls -----------------------------------------------------------------------------------
class Fixed:
    """The arguments that are not differentiated, compared by value where they can be."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)

    def __hash__(self) -> int:
        return hash(tuple(map(type, self.values)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed):
            return NotImplemented
        pairs = list(zip(self.values, other.values))
        return len(self.values) == len(other.values) and all(
            a is b or (type(a) is type(b) and not isinstance(a, TensorBase) and _equal(a, b))
            for a, b in pairs
        )


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(Exact(a) == Exact(b))
    except Exception:
        return False


@dataclass(frozen=True)
class CustomRule:
    """What both kinds of rules know of one call: the functions, and the trees of its arguments."""

    name: str
    fixed: Fixed
    in_tree: Any
    out_tree: Any
    count: int

    @property
    def __name__(self) -> str:
        return self.name

    def leaves(self, tree: Any, what: str, like: Any) -> list[TensorBase]:
        """The leaves of what a user's function gave, which must have a certain structure."""
        found, treedef = flat_tensors(tree, f"{what} of {self.name}")
        if treedef != like:
            raise ArgumentError(
                f"{what} of {self.name} must give a tree of structure {like}, gave {treedef}"
            )
        return found


def _fitted(found: Any, like: Any, what: str) -> Any:
    """A derivative of the dims and dtype of what it is the derivative of."""
    check_same_dims(f"{what}: the derivative of", found.meta, like.meta)
    return found if found.dtype == like.dtype else found.astype(like.dtype)


@dataclass(frozen=True)
class ReverseRule(CustomRule):
    """See :class:`phix.primitives.transformation.VJPRule`."""

    fwd: Callable[..., Any]
    bwd: Callable[..., Any]
    places: tuple[int, ...]

    def forward(self, *operands: Any) -> Any:
        args, _ = given_back(self.in_tree, operands)
        with context.by_user():
            result = self.fwd(*_woven(args, self.places, self.fixed.values))
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ArgumentError(
                f"the forward rule of {self.name} must return (out, residuals), "
                f"found {type(result).__name__}"
            )
        outs = self.leaves(result[0], "the forward rule", self.out_tree)
        residuals, tree = taken(result[1], f"the residuals of {self.name}")
        metas = [x.meta for x in operands]

        def backward(residuals: Any, cts: Any) -> Any:
            held = given_back(tree, residuals)
            with context.by_user():
                grads = self.bwd(*self.fixed.values, held, pytrees.unflatten(self.out_tree, cts))
            return self.gradients(grads, metas)

        return outs, residuals, backward

    def gradients(self, grads: Any, metas: Sequence[Any]) -> list[Any]:
        """One for each operand; None for an argument, or a leaf, stands for zeros."""
        args, _ = pytrees.unflatten(tree_of(self.in_tree), metas)
        if not isinstance(grads, (tuple, list)) or len(grads) != len(args):
            found = f"{len(grads)}" if isinstance(grads, (tuple, list)) else type(grads).__name__
            raise ArgumentError(
                f"the backward rule of {self.name} must return a tuple with the cotangent of each "
                f"of the {len(args)} arguments, found {found}"
            )
        out: list[Any] = []
        for arg, grad in zip(args, grads):
            what = f"the backward rule of {self.name}"
            own = list(map(dense, pytrees.aligned(grad, arg, what)))
            given, _ = flat_tensors([g for g in own if g is not None], what)
            supply = iter(given)
            for g, meta in zip(own, pytrees.leaves(arg)):
                out.append(None if g is None else _fitted(next(supply), meta, what))
        return out


@dataclass(frozen=True)
class ForwardRule(CustomRule):
    """See :class:`phix.primitives.transformation.JVPRule`."""

    rule: Callable[..., Any]

    def tangents(self, primals: Any, tangents: Any) -> Any:
        trees = [given_back(self.in_tree, values)[0] for values in (primals, tangents)]
        with context.by_user():
            result = self.rule(*self.fixed.values, *trees)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ArgumentError(
                f"the jvp rule of {self.name} must return (out, tangent), "
                f"found {type(result).__name__}"
            )
        outs = self.leaves(result[0], "the jvp rule", self.out_tree)
        ts = self.leaves(result[1], "the tangent of the jvp rule", self.out_tree)
        return outs, [_fitted(t, o, f"the jvp rule of {self.name}") for t, o in zip(ts, outs)]


def _woven(args: Sequence[Any], places: tuple[int, ...], fixed: Sequence[Any]) -> list[Any]:
    """All arguments in order: those of ``places`` from ``fixed``, the others from ``args``."""
    given, held = iter(args), iter(fixed)
    return [next(held) if i in places else next(given) for i in range(len(args) + len(fixed))]


class _Custom(Generic[P, R]):
    """What custom_vjp and custom_jvp have in common: how a call becomes an op."""

    def __init__(self, function: Callable[P, R], nondiff_argnums: int | Sequence[int]) -> None:
        for argument, kind, value in (
            ("function", FUNCTION, function),
            ("nondiff_argnums", INTS, nondiff_argnums),
        ):
            if not kind.holds(value):
                raise wrong(type(self).__name__, argument, kind, value)
        functools.update_wrapper(self, function)
        self.function: Callable[..., Any] = function
        self.graphs = Graphs()
        self.nondiff_argnums: tuple[int, ...] = (
            (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        )

    def rule(self, fixed: Fixed, places: tuple[int, ...], trees: Any, count: int) -> Any:
        raise NotImplementedError

    def bind(self, operands: Any, graph: Any, rule: Any) -> Any:
        raise NotImplementedError

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        with naming(type(self).__name__):
            found: R = self._called(args, kwargs)
            return found

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = function_name(self.function)
        args = self._positional(args, kwargs)
        places = tuple(sorted({n % len(args) for n in self.nondiff_argnums if n < len(args)}))
        fixed = Fixed([args[p] for p in places])
        if any(isinstance(v, Tracer) for v in pytrees.leaves(list(fixed.values))):
            raise DifferentiationError(
                f"{type(self).__name__} of {name}: an argument of nondiff_argnums is being traced; "
                "these are Python values. Pass the tensor as an argument like others, and give it "
                "no derivative"
            )
        rest = tuple(a for i, a in enumerate(args) if i not in places)
        flat, in_tree = taken((rest, {}), name)

        def of_rest(*own: Any) -> Any:
            return self.function(*_woven(own, places, fixed.values))

        run = Flattened(of_rest, in_tree, f"the result of {name}")
        if context.is_eager() and not any(isinstance(x, Tracer) for x in flat):
            outs = run(*flat)
            return pytrees.unflatten(run.out_tree, outs)
        settings = (places, *map(Exact, fixed.values))
        graph, closed, out_tree = self.graphs.of(run, flat, settings)
        rule = self.rule(fixed, places, (in_tree, out_tree), len(flat))
        outs = self.bind([*flat, *closed], graph, rule)
        return pytrees.unflatten(out_tree, outs)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in order, so that rules get them by place."""
        bound = None
        try:
            signature = inspect.signature(self.function)
            bound = signature.bind(*args, **kwargs)
        except ValueError:  # a callable without a signature
            pass
        except TypeError as error:
            name = function_name(self.function)
            raise ArgumentError(f"{name}{signature} was called otherwise: {error}") from None
        if bound is None:
            return args
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(
                f"{function_name(self.function)}: rules get arguments by place, found the keywords "
                f"{sorted(bound.kwargs)}; make these parameters positional"
            )
        return bound.args

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _zeros(x: Any) -> Any:
    return ops.full(x.shape, 0, x.dtype)


def _missing(what: str, name: str, call: str) -> DifferentiationError:
    return DifferentiationError(f"{name} is a {what} without a rule; write {name}.{call}")


class custom_vjp(_Custom[P, R]):
    """A function whose reverse mode is the user's own; forward mode follows by transposition.

    Args:
        function: of tensors or trees of them, by place.
        nondiff_argnums: the arguments that are Python values, without derivative: the backward
            rule gets them first.

    ``defvjp(fwd, bwd)`` gives the rules: ``fwd`` takes the arguments and returns ``(out,
    residuals)``; ``bwd(*nondiff, residuals, ct)`` returns a tuple with the cotangent of each
    other argument, None for zeros. For forward mode ``bwd`` must be linear in ``ct``.

    Raises:
        DifferentiationError: a call without rules, or differentiated by what it closes over.

    >>> import phix
    >>> @phix.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda x: (x, None), lambda _, ct: (phix.ops.clip(ct, -1.0, 1.0),)
    ... )
    >>> phix.grad(lambda x: 5.0 * clip_gradient(x))(2.0).item()
    1.0
    """

    def __init__(self, function: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the forward and the backward rule."""
        self.fwd, self.bwd = fwd, bwd

    def rule(self, fixed: Fixed, places: tuple[int, ...], trees: Any, count: int) -> Any:
        name = function_name(self.function)
        if self.fwd is None or self.bwd is None:
            raise _missing("custom_vjp", name, "defvjp(fwd, bwd)")
        return ReverseRule(name, fixed, trees[0], trees[1], count, self.fwd, self.bwd, places)

    def bind(self, operands: Any, graph: Any, rule: Any) -> Any:
        return ops.custom_vjp_call(operands, graph, rule)


class custom_jvp(_Custom[P, R]):
    """A function whose forward mode is the user's own; reverse mode follows by transposition.

    Args:
        function: of tensors or trees of them, by place.
        nondiff_argnums: the arguments that are Python values, without derivative: the rule gets
            them first.

    ``defjvp(rule)`` gives the rule: ``rule(*nondiff, primals, tangents)``, two tuples, returns
    ``(out, tangent)``, the tangent linear in the tangents. ``defjvps`` takes one rule an argument.

    Raises:
        DifferentiationError: a call without a rule, or differentiated by what it closes over.

    >>> import phix
    >>> @phix.custom_jvp
    ... def log1pexp(x):
    ...     return phix.ops.log(1.0 + phix.ops.exp(x))
    >>> log1pexp.defjvps(lambda t, out, x: t * phix.ops.sigmoid(x))
    >>> phix.grad(log1pexp)(100.0).item()
    1.0
    """

    def __init__(self, function: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self.jvp: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; works as a decorator."""
        self.jvp = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """One rule an argument, ``rule(tangent, out, *primals)`` to its part of the tangent of
        out; None for a part that is zero."""
        if self.nondiff_argnums:
            raise ArgumentError("defjvps takes no nondiff_argnums; use defjvp")

        def joined(primals: Any, tangents: Any) -> Any:
            own: Any = self
            out = own(*primals)
            parts = [r(t, out, *primals) for r, t in zip(rules, tangents) if r is not None]
            if not parts:
                return out, pytrees.map(_zeros, out)
            return out, functools.reduce(lambda a, b: pytrees.map(ops.add, a, b), parts)

        self.jvp = joined

    def rule(self, fixed: Fixed, places: tuple[int, ...], trees: Any, count: int) -> Any:
        name = function_name(self.function)
        if self.jvp is None:
            raise _missing("custom_jvp", name, "defjvp(rule)")
        return ForwardRule(name, fixed, trees[0], trees[1], count, self.jvp)

    def bind(self, operands: Any, graph: Any, rule: Any) -> Any:
        return ops.custom_jvp_call(operands, graph, rule)


__all__ = ["custom_jvp", "custom_vjp", "stop_gradient"]
