"""The transformations as users call them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.tensor import Tensor, TensorBase, to_tensor_shared
from phix.interpreters import check, stage
from phix.interpreters import decompose as decomposing
from phix.interpreters import eager as _eager  # noqa: F401 - the base of all interpreters
from phix.interpreters import jvp as forward
from phix.interpreters import vjp as reverse

Argnums = Union[int, Sequence[int]]
_SCALARS = (bool, int, float, complex)


# -- arguments -------------------------------------------------------------------------------
def _tensor(value: Any, where: str) -> TensorBase:
    """A leaf of the arguments as a tensor."""
    if isinstance(value, TensorBase):
        return value
    if isinstance(value, (*_SCALARS, np.ndarray, np.generic)) or hasattr(value, "__dlpack__"):
        return to_tensor_shared(value)
    raise ArgumentError(
        f"{where}: an argument holds {value!r:.80} ({type(value).__name__}), which is no tensor; "
        "pass tensors, arrays or numbers, and other values as static arguments"
    )


def flat_tensors(tree: Any, where: str) -> tuple[list[TensorBase], pytrees.TreeDef]:
    leaves, treedef = pytrees.flatten(tree)
    return [_tensor(leaf, where) for leaf in leaves], treedef


def flat_specs(tree: Any, where: str) -> tuple[list[MetaTensor], pytrees.TreeDef]:
    """Metas of the arguments: of specs themselves, of tensors theirs."""
    leaves, treedef = pytrees.flatten(tree)
    return [x if isinstance(x, MetaTensor) else _tensor(x, where).meta for x in leaves], treedef


class Flattened:
    """A function of trees as one of flat tensors; remembers the structure of what it gave."""

    def __init__(self, function: Callable[..., Any], treedef: pytrees.TreeDef, where: str) -> None:
        self.function, self.treedef, self.where = function, treedef, where
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *flat: Any) -> list[TensorBase]:
        args, kwargs = pytrees.unflatten(self.treedef, flat)
        outs, self.out_tree = flat_tensors(self.function(*args, **kwargs), self.where)
        return outs


def function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _argument_names(function: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """A name for each leaf of the arguments: the parameter's, with the path behind it."""
    if isinstance(function, Graph):
        return [v.name for v in function.inputs]
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        names = list(bound)[: len(args)]
    except (TypeError, ValueError):
        names = []
    out: list[str] = []
    for number, arg in enumerate(args):
        base = names[number] if number < len(names) else f"x{number}"
        leaves = pytrees.leaves(arg)
        plain = len(leaves) == 1 and leaves[0] is arg
        out += [base] if plain else [f"{base}_{i}" for i in range(len(leaves))]
    for key in sorted(kwargs):
        leaves = pytrees.leaves(kwargs[key])
        plain = len(leaves) == 1 and leaves[0] is kwargs[key]
        out += [key] if plain else [f"{key}_{i}" for i in range(len(leaves))]
    return out


# -- graphs ----------------------------------------------------------------------------------
def make_graph(function: Callable[..., Any]) -> Callable[..., Graph]:
    """The graph of ``function`` for given arguments.

    Args:
        function: a pure function of tensors, or trees of them, to tensors or trees of them.

    Returns:
        A function of arguments or specs (``phix.spec``) in their place, giving the Graph: its
        inputs are the leaves of the arguments, its outputs the leaves of the result.

    >>> import phix
    >>> phix.make_graph(lambda x: x * x + 1.0)(phix.spec([3]))
    graph(x: float32[3]) {
      a: float32[3] = multiply(x, x)
      b: float32[3] = add(a, 1.0)
      return b
    }
    """

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Graph:
        return trace(function, args, kwargs)[0]

    return traced


def trace(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Graph, pytrees.TreeDef]:
    """The graph of ``function``, and the structure of its result."""
    metas, treedef = flat_specs((args, kwargs), function_name(function))
    flat = Flattened(function, treedef, f"the result of {function_name(function)}")
    graph = stage.trace(flat, metas, _argument_names(function, args, kwargs))
    return graph, flat.out_tree


def decompose(function: Callable[..., Any]) -> Callable[..., Graph]:
    """The graph of ``function`` in primitives alone.

    Takes what :func:`make_graph` takes; a Graph may stand in place of the function.

    >>> import phix
    >>> phix.decompose(phix.ops.square)(phix.spec([3]))
    graph(x: float32[3]) {
      a: float32[3] = multiply(x, x)
      return a
    }
    """

    def decomposed(*args: Any, **kwargs: Any) -> Graph:
        return decomposing.decompose(trace(function, args, kwargs)[0])

    return functools.wraps(function)(decomposed) if not isinstance(function, Graph) else decomposed


def infer_meta(function: Callable[..., Any]) -> Callable[..., Any]:
    """The metas of what ``function`` would give, without computing it.

    >>> import phix
    >>> phix.infer_meta(phix.ops.matmul)(phix.spec(["n", 4]), phix.spec([4, 2]))
    float32[n, 2]
    """

    @functools.wraps(function)
    def inferred(*args: Any, **kwargs: Any) -> Any:
        graph, out_tree = trace(function, args, kwargs)
        return pytrees.unflatten(out_tree, [a.meta for a in graph.outputs])

    return inferred


def eval_shape(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The metas of ``function(*args, **kwargs)``: :func:`infer_meta` under the name of JAX.

    >>> import phix
    >>> phix.eval_shape(phix.ops.matmul, phix.spec([3, 4]), phix.spec([4, 2]))
    float32[3, 2]
    """
    return infer_meta(function)(*args, **kwargs)


def parse_graph(text: str, constants: Sequence[Any] = ()) -> Graph:
    """The graph that a text, as ``str(graph)`` gives it, stands for.

    Args:
        text: the text; every meta in it is inferred again and compared.
        constants: the tensors that the text names ``constants[0]``, ``constants[1]``, ...

    Raises:
        GraphError: the text is no well-formed graph; the message names the line.

    >>> import phix
    >>> graph = phix.parse_graph("graph(x: float32[2]) { a: float32[2] = abs(x) return a }")
    >>> graph(phix.to_tensor([1.0, -2.0]))[0].tolist()
    [1.0, 2.0]
    """
    return check.parse(text, constants)


def check_graph(graph: Graph) -> None:
    """Raise GraphError unless ``graph`` is well-formed and every meta is what its op infers.

    >>> import phix
    >>> phix.check_graph(phix.make_graph(phix.ops.tanh)(phix.spec([3])))
    """
    check.check(graph)


# -- derivatives -----------------------------------------------------------------------------
def as_differentiable(x: TensorBase, what: str) -> TensorBase:
    if not dt.is_differentiable(x.dtype):
        raise DifferentiationError(
            f"{what} takes derivatives with respect to floats, found {x.meta}; cast the argument "
            "to a float, or leave it out of argnums"
        )
    return x


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``function`` at ``primals``, and the function that pulls cotangents back through it.

    Args:
        function: of tensors, or trees of them, to tensors or trees of them.
        *primals: its arguments; floats or complex.
        has_aux: whether ``function`` gives ``(out, aux)``, aux to be handed on as it is.

    Returns:
        ``(out, pullback)``, or ``(out, pullback, aux)``. ``pullback(ct)``, ct of out's structure
        and metas, gives a tuple with the cotangent of each argument: ct @ J.

    Raises:
        DifferentiationError: an argument is no float, or an op on the way has no derivative.

    >>> import phix
    >>> y, pullback = phix.vjp(phix.ops.sin, 0.0)
    >>> pullback(2.0)[0].item()
    2.0
    """
    flat, treedef = flat_tensors((primals, {}), function_name(function))
    for x in flat:
        as_differentiable(x, "vjp")
    wrapped, aux_of = split_aux(function, has_aux)
    run = Flattened(wrapped, treedef, f"the result of {function_name(function)}")
    outs, pull = reverse.vjp(run, flat)

    def pullback(ct: Any) -> Any:
        cts, ct_tree = flat_tensors(ct, "the cotangent")
        if ct_tree != run.out_tree:
            raise ArgumentError(
                f"the cotangent must have the structure of the result, {run.out_tree}, found "
                f"{ct_tree}"
            )
        fitted = [_fit_cotangent(c, o) for c, o in zip(cts, outs)]
        return pytrees.unflatten(treedef, pull(fitted))[0]

    out = pytrees.unflatten(run.out_tree, outs)
    return (out, pullback, aux_of()) if has_aux else (out, pullback)


def _fit_cotangent(ct: TensorBase, out: TensorBase) -> Any:
    if not dm.same_shape(ct.meta.dims, out.meta.dims):
        raise ShapeError(
            f"the cotangent of a result {out.meta} must have its dims, found {ct.meta}"
        )
    return ct if ct.dtype == out.dtype else ct.astype(out.dtype)


def split_aux(function: Callable[..., Any], has_aux: bool) -> tuple[Any, Callable[[], Any]]:
    """The function without its aux, and where the aux of the last call is."""
    if not has_aux:
        return function, lambda: None
    kept: list[Any] = []

    def without_aux(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ArgumentError(
                f"has_aux: {function_name(function)} must return (out, aux), "
                f"found {type(result).__name__}"
            )
        kept[:] = [result[1]]
        return result[0]

    return without_aux, lambda: pytrees.map(_surfaced, kept[0])


def _surfaced(value: Any) -> Any:
    """An aux value as the caller's interpreter knows it: out of the ended transformation."""
    while isinstance(value, TensorBase) and not isinstance(value, Tensor):
        if value.interpreter.alive or not hasattr(value, "value"):
            break
        value = value.value
    return value


def jvp(function: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """``function`` at ``primals``, and its derivative along ``tangents``: J @ t.

    Args:
        function: of tensors, or trees of them, to tensors or trees of them.
        primals, tangents: tuples of arguments, of one structure and the same metas.
        has_aux: whether ``function`` gives ``(out, aux)``.

    Returns:
        ``(out, tangent_out)``, or ``(out, tangent_out, aux)``.

    >>> import phix
    >>> phix.jvp(phix.ops.sin, (0.0,), (2.0,))[1].item()
    2.0
    """
    flat, treedef = flat_tensors((tuple(primals), {}), function_name(function))
    flat_t, tangent_tree = flat_tensors((tuple(tangents), {}), "the tangents")
    if treedef != tangent_tree:
        raise ArgumentError(f"jvp: primals are {treedef}, tangents {tangent_tree}; match them")
    for x in flat:
        as_differentiable(x, "jvp")
    flat_t = [_fit_tangent(t, x) for t, x in zip(flat_t, flat)]
    wrapped, aux_of = split_aux(function, has_aux)
    run = Flattened(wrapped, treedef, f"the result of {function_name(function)}")
    outs, out_tangents = forward.jvp(run, flat, flat_t)
    out = pytrees.unflatten(run.out_tree, outs)
    tangent = pytrees.unflatten(run.out_tree, out_tangents)
    return (out, tangent, aux_of()) if has_aux else (out, tangent)


def _fit_tangent(t: TensorBase, x: TensorBase) -> Any:
    if not dm.same_shape(t.meta.dims, x.meta.dims):
        raise ShapeError(
            f"jvp: the tangent of a primal {x.meta} must have its dims, found {t.meta}"
        )
    return t if t.dtype == x.dtype else t.astype(x.dtype)


def value_and_grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the value of ``function`` and its gradient.

    Args:
        function: gives one real number (a 0-d float tensor), or that and an aux.
        argnums: the argument, or arguments, to differentiate with respect to; trees welcome.
        has_aux: whether ``function`` gives ``(value, aux)``.

    Returns:
        A function of the same arguments, giving ``(value, gradient)``, or ``((value, aux),
        gradient)``; the gradient has the structure of the argument (a tuple of them where
        argnums is a sequence).

    Raises:
        DifferentiationError: an argument is no float, or the result no real number.

    >>> import phix
    >>> value, gradient = phix.value_and_grad(lambda x: x**3)(2.0)
    >>> value.item(), gradient.item()
    (8.0, 12.0)
    """

    @functools.wraps(function)
    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        places = argument_places(argnums, args, function)
        wrapped, aux_of = split_aux(function, has_aux)

        def of_chosen(*chosen: Any) -> Any:
            full = list(args)
            for place, value in zip(places, chosen):
                full[place] = value
            return wrapped(*full, **kwargs)

        flat, treedef = flat_tensors((tuple(args[p] for p in places), {}), function_name(function))
        for x in flat:
            as_differentiable(x, "grad")
        run = Flattened(of_chosen, treedef, f"the result of {function_name(function)}")
        outs, pull = reverse.vjp(run, flat)
        _check_scalar(outs, function)
        grads = pytrees.unflatten(treedef, pull([_one(outs[0])]))[0]
        value = pytrees.unflatten(run.out_tree, outs)
        found = grads[0] if isinstance(argnums, int) else grads
        return ((value, aux_of()), found) if has_aux else (value, found)

    return with_gradient


def argument_places(
    argnums: Argnums, args: Sequence[Any], function: Callable[..., Any]
) -> list[int]:
    """Where the arguments that ``argnums`` names stand."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    return [_argnum(n, len(args), function) for n in numbers]


def _argnum(number: int, count: int, function: Callable[..., Any]) -> int:
    if not -count <= number < count:
        raise ArgumentError(
            f"argnums names argument {number} of {function_name(function)}, which was "
            f"called with {count} positional arguments"
        )
    return number % count


def _check_scalar(outs: list[Any], function: Callable[..., Any]) -> None:
    if len(outs) != 1 or outs[0].ndim or not dt.is_float(outs[0].dtype):
        found = ", ".join(str(o.meta) for o in outs) or "nothing"
        raise DifferentiationError(
            f"grad needs a function that gives one real number, {function_name(function)} "
            f"gave {found}; sum the result, pass has_aux=True for extra results, or use phix.vjp"
        )


def _one(x: TensorBase) -> Tensor:
    return Tensor(np.ones((), x.dtype))


def grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of ``function``; see :func:`value_and_grad`.

    With has_aux it gives ``(gradient, aux)``.

    >>> import phix
    >>> phix.grad(phix.grad(lambda x: x**3))(2.0).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


__all__ = [
    "DTypeError",
    "check_graph",
    "decompose",
    "eval_shape",
    "grad",
    "infer_meta",
    "jvp",
    "make_graph",
    "parse_graph",
    "trace",
    "value_and_grad",
    "vjp",
]
