"""First derivatives, forwards and backwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, Union, overload

import numpy as np

from phix.api.arguments import check_same_dims, flat_tensors, function_name, split_aux
from phix.api.flattened import Flattened, FlattenedDense
from phix.api.signatures import (
    A,
    ArrayOrNumber,
    Function,
    OfArray,
    OfTensor,
    OfTree,
    OfTrees,
    P,
    R,
    X,
    Y,
)
from phix.api.weak_arguments import like_arguments, taken, taken_arguments, tree_of
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor, tensor_place
from phix.core.errors import ArgumentError, DifferentiationError, DTypeError
from phix.core.given import FLAG, FUNCTION, INTS, LIST, named, naming, takes
from phix.core.places import Place
from phix.core.tensor import Tensor, TensorBase
from phix.core.tracebacks import leaving_phix
from phix.core.varying import check_tangent
from phix.interpreters import eager as _eager  # noqa: F401 - the base of all interpreters
from phix.interpreters import jvp as forward
from phix.interpreters import vjp as reverse

Argnums = Union[int, Sequence[int]]


def as_differentiable(x: TensorBase, what: str) -> TensorBase:
    if not dt.is_differentiable(x.dtype):
        raise DifferentiationError(
            f"{what} takes derivatives with respect to floats, found {x.meta}; cast the argument "
            "to a float, or leave it out of argnums"
        )
    return x


@overload
def vjp(
    function: Callable[[Tensor], R], primal: ArrayOrNumber, /, *, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Tensor]]]: ...


@overload
def vjp(
    function: Callable[[Tensor, Tensor], R],
    first: ArrayOrNumber,
    second: ArrayOrNumber,
    /,
    *,
    has_aux: Literal[False] = False,
) -> tuple[R, Callable[[Any], tuple[Tensor, Tensor]]]: ...


@overload
def vjp(
    function: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...


@overload
def vjp(
    function: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[Any, ...]], A]: ...


@overload
def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool) -> Any: ...


@takes(function=FUNCTION, has_aux=FLAG)
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
    flat, treedef = taken((primals, {}), function_name(function))
    for x in flat:
        as_differentiable(x, "vjp")
    wrapped, aux_of = split_aux(function, has_aux)
    run = FlattenedDense(wrapped, treedef, f"the result of {function_name(function)}")
    outs, pull = reverse.vjp(run, flat)

    @leaving_phix
    def pullback(ct: Any) -> Any:
        cts, ct_tree = flat_tensors(ct, "the cotangent")
        if ct_tree != run.out_tree:
            raise ArgumentError(
                f"the cotangent must have the structure of the result, {run.out_tree}, found "
                f"{ct_tree}"
            )
        fitted = [_fit_cotangent(c, o) for c, o in zip(cts, outs)]
        return like_arguments(treedef, pull(fitted, any_kind=True))[0]

    out = pytrees.unflatten(run.out_tree, outs)
    return (out, pullback, aux_of()) if has_aux else (out, pullback)


def in_dtype(x: TensorBase, dtype: np.dtype, what: str) -> Any:
    """A tangent or cotangent in the dtype that it must have.

    Raises:
        DTypeError: it is complex, and that is not.
    """
    if dt.is_complex(x.dtype) and not dt.is_complex(dtype):
        raise DTypeError(
            f"{what} of what is {dtype} is complex, found {x.meta}; give its real part, or cast "
            "the argument to a complex dtype"
        )
    return x if x.dtype == dtype else x.astype(dtype)


def _fit_cotangent(ct: TensorBase, out: TensorBase) -> Any:
    check_same_dims("the cotangent of a result", ct.meta, out.meta)
    return in_dtype(ct, out.dtype, "the cotangent")


@overload
def jvp(
    function: Callable[..., R], primals: Any, tangents: Any, has_aux: Literal[False] = False
) -> tuple[R, R]: ...


@overload
def jvp(
    function: Callable[..., tuple[R, A]], primals: Any, tangents: Any, has_aux: Literal[True]
) -> tuple[R, R, A]: ...


@overload
def jvp(function: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool) -> Any: ...


@takes(function=FUNCTION, primals=LIST, tangents=LIST, has_aux=FLAG)
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
    flat, treedef = taken((tuple(primals), {}), function_name(function))
    flat_t, tangent_tree = taken((tuple(tangents), {}), "the tangents")
    if tree_of(treedef) != tree_of(tangent_tree):
        raise ArgumentError(f"jvp: primals are {treedef}, tangents {tangent_tree}; match them")
    for x in flat:
        as_differentiable(x, "jvp")
    flat_t = [_fit_tangent(t, x) for t, x in zip(flat_t, flat)]
    wrapped, aux_of = split_aux(function, has_aux)
    run = FlattenedDense(wrapped, treedef, f"the result of {function_name(function)}")
    outs, out_tangents = forward.jvp(run, flat, flat_t)
    out = pytrees.unflatten(run.out_tree, outs)
    tangent = pytrees.unflatten(run.out_tree, out_tangents)
    return (out, tangent, aux_of()) if has_aux else (out, tangent)


def _fit_tangent(t: TensorBase, x: TensorBase) -> Any:
    check_same_dims("jvp: the tangent of a primal", t.meta, x.meta)
    check_tangent(t.meta, x.meta, "jvp")
    return in_dtype(t, x.dtype, "jvp: the tangent")


@overload
def value_and_grad(
    function: OfTensor[P, tuple[R, A]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> OfArray[P, tuple[tuple[R, A], Tensor]]: ...


@overload
def value_and_grad(
    function: OfTensor[P, R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> OfArray[P, tuple[R, Tensor]]: ...


@overload
def value_and_grad(
    function: OfTree[X, P, R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Function[Concatenate[X, P], tuple[R, X]]: ...


@overload
def value_and_grad(  # type: ignore[overload-overlap]
    function: OfTrees[X, Y, P, R], argnums: Literal[1], has_aux: Literal[False] = False
) -> Function[Concatenate[X, Y, P], tuple[R, Y]]: ...


@overload
def value_and_grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Function[..., Any]: ...


@takes(function=FUNCTION, argnums=INTS, has_aux=FLAG)
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

    made = _with_gradient(function, argnums, has_aux)
    return functools.wraps(function)(named("value_and_grad")(made))


def _with_gradient(
    function: Callable[..., Any], argnums: Argnums, has_aux: bool
) -> Callable[..., Any]:
    name = function_name(function)
    where = f"the result of {name}"

    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        places = argument_places(argnums, args, function)
        wrapped, aux_of = split_aux(function, has_aux)

        def of_chosen(*chosen: Any) -> Any:
            full = list(args)
            for place, value in zip(places, chosen):
                full[place] = value
            return wrapped(*full, **kwargs)

        flat, treedef = taken_arguments(tuple(map(args.__getitem__, places)), name)
        for x in flat:
            as_differentiable(x, "grad")
        run = Flattened(of_chosen, treedef, where)
        outs, pull = reverse.vjp(run, flat)
        _check_scalar(outs, function)
        ones = [_one(outs[0].dtype, tensor_place(outs[0]))]
        grads = like_arguments(treedef, pull(ones, any_kind=True))[0]
        value = pytrees.unflatten(run.out_tree, outs)
        found = grads[0] if isinstance(argnums, int) else grads
        return ((value, aux_of()), found) if has_aux else (value, found)

    return with_gradient


def argument_places(
    argnums: Argnums, args: Sequence[Any], function: Callable[..., Any]
) -> list[int]:
    """Where the arguments that ``argnums`` names stand, each named once.

    Raises:
        ArgumentError: argnums name no argument, or one of them twice.
    """
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    places = [_argnum(n, len(args), function) for n in numbers]
    if len(set(places)) < len(places):
        twice = next(p for p in places if places.count(p) > 1)
        raise ArgumentError(
            f"argnums {argnums} names argument {twice} of {function_name(function)} twice; name "
            "each argument once"
        )
    return places


def _argnum(number: int, count: int, function: Callable[..., Any]) -> int:
    if not -count <= number < count:
        raise ArgumentError(
            f"argnums names argument {number} of {function_name(function)}, which was "
            f"called with {count} positional arguments; pass it by place, or name another"
        )
    return number % count


def _check_scalar(outs: list[Any], function: Callable[..., Any]) -> None:
    if len(outs) == 1 and not outs[0].ndim and dt.is_float(outs[0].dtype):
        return
    found = ", ".join(str(o.meta) for o in outs) or "nothing"
    raise DifferentiationError(
        f"grad needs a function that gives one real number, {function_name(function)} "
        f"gave {found}; {_way_out(outs)}"
    )


def _way_out(outs: list[Any]) -> str:
    """What to write where a result has no gradient."""
    if len(outs) != 1:
        return "sum them, pass has_aux=True for extra results, or use phix.jacrev or phix.vjp"
    if dt.is_complex(outs[0].dtype):
        return (
            "take a real number of it (ops.real, ops.abs), or, for the derivative of a holomorphic "
            "function, use phix.jacrev or phix.vjp"
        )
    if outs[0].ndim:
        return (
            "sum the result, use phix.jacrev for the derivative of each element, or phix.vjp for "
            "products with it"
        )
    return "cast it to a float"


@functools.cache
def _one(dtype: np.dtype, place: Place | None) -> Tensor:
    return owned_tensor(np.ones((), dtype), place)


_IN_GRAD = naming("grad", of_ops=False)  # as ``named`` does it, which takes a call more


@overload
def grad(
    function: OfTensor[P, tuple[R, A]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> OfArray[P, tuple[Tensor, A]]: ...


@overload
def grad(
    function: OfTensor[P, R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> OfArray[P, Tensor]: ...


@overload
def grad(
    function: OfTree[X, P, R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Function[Concatenate[X, P], X]: ...


@overload
def grad(  # type: ignore[overload-overlap]
    function: OfTrees[X, Y, P, R], argnums: Literal[1], has_aux: Literal[False] = False
) -> Function[Concatenate[X, Y, P], Y]: ...


@overload
def grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Function[..., Any]: ...


@takes(function=FUNCTION, argnums=INTS, has_aux=FLAG)
def grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of ``function``; see :func:`value_and_grad`.

    With has_aux it gives ``(gradient, aux)``.

    >>> import phix
    >>> phix.grad(phix.grad(lambda x: x**3))(2.0).item()
    12.0
    """
    both = _with_gradient(function, argnums, has_aux)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        with _IN_GRAD:
            value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient
