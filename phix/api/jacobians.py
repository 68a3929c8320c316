"""Derivatives as linear functions and as arrays: linearize, jacobians, Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from phix import ops
from phix.api.arguments import check_same_dims, flat_tensors, function_name, split_aux
from phix.api.batching import vmap
from phix.api.dependence import dependent
from phix.api.flattened import FlattenedDense
from phix.api.gradients import (
    Argnums,
    argument_places,
    as_differentiable,
    grad,
    in_dtype,
    jvp,
    vjp,
)
from phix.api.signatures import A, Function, OfArray, OfTensor, P, R
from phix.api.weak_arguments import like_arguments, taken, taken_specs, tree_of
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.attrs import is_traced
from phix.core.conversion import following
from phix.core.errors import ArgumentError, DifferentiationError
from phix.core.given import FLAG, FUNCTION, INTS, LIST, named, takes
from phix.core.graph import Constant, Equation, Graph, copied, flat
from phix.core.meta import MetaTensor
from phix.core.tensor import Tensor
from phix.core.tensor_kinds import dense_tree
from phix.core.tracebacks import leaving_phix
from phix.core.varying import check_tangent
from phix.interpreters import stage
from phix.interpreters import vjp as reverse
from phix.interpreters.decompose import decompose
from phix.interpreters.tape import origin
from phix.interpreters.tape import zeros as zeros_of


# -- linear functions ------------------------------------------------------------------------
@overload
def linearize(
    function: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[..., R]]: ...


@overload
def linearize(
    function: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], A]: ...


@takes(function=FUNCTION, has_aux=FLAG)
def linearize(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``function`` at ``primals``, and its derivative there as a function of tangents.

    Calls of it compute nothing of ``function`` again: it is a graph of the tangents alone.

    Args:
        function: of tensors, or trees of them.
        *primals: its arguments; floats or complex.
        has_aux: whether ``function`` gives ``(out, aux)``.

    Returns:
        ``(out, f_jvp)``, or ``(out, f_jvp, aux)``; ``f_jvp(*tangents)`` is J @ t.

    >>> import phix
    >>> y, f_jvp = phix.linearize(phix.ops.sin, 0.0)
    >>> f_jvp(2.0).item(), f_jvp(3.0).item()
    (2.0, 3.0)
    """
    name = function_name(function)
    values, in_tree = taken((primals, {}), name)
    for x in values:
        as_differentiable(x, "linearize")
    wrapped, aux_of = split_aux(function, has_aux)
    run = FlattenedDense(wrapped, in_tree, f"the result of {name}")
    outs, pull = reverse.vjp(run, values)
    metas = [o.meta for o in outs]

    def forward(*tangents: Any) -> list[Any]:
        # J from ct -> J^T ct, which is linear, by transposing once more
        _, back = reverse.vjp(lambda *cts: pull(cts), list(map(origin, metas)))
        return back(tangents)

    graph = with_known_part_done(stage.trace(forward, [x.meta for x in values]))
    out = pytrees.unflatten(run.out_tree, outs)

    @leaving_phix
    def f_jvp(*tangents: Any) -> Any:
        given, tree = taken((tangents, {}), "the tangents")
        if tree_of(tree) != tree_of(in_tree):
            raise ArgumentError(f"linearize: the arguments are {in_tree}, the tangents {tree}")
        for t, x in zip(given, values):
            check_same_dims("the tangent of", t.meta, x.meta)
            check_tangent(t.meta, x.meta, "linearize")
        fitted = [in_dtype(t, x.dtype, "the tangent") for t, x in zip(given, values)]
        return pytrees.unflatten(run.out_tree, graph(*fitted))

    return (out, f_jvp, aux_of()) if has_aux else (out, f_jvp)


def with_known_part_done(graph: Graph) -> Graph:
    """The graph with what depends on none of its inputs computed once, as constants."""
    late = set(graph.inputs)
    early: list[Equation] = []
    for e in graph.equations:
        own = flat(e.inputs)
        # what takes nothing in (zeros, say) costs less to make again than to keep
        if own and not any(a in late for a in own):
            early.append(e)
        else:
            late.update(flat(e.outputs) if own else ())
    first = {v for e in early for v in flat(e.outputs)}
    done = set(early)
    rest = [e for e in graph.equations if e not in done]
    sources = [e for e in rest if not flat(e.inputs)]
    read = [a for e in rest for a in flat(e.inputs)] + list(graph.outputs)
    needed = tuple(dict.fromkeys(a for a in read if a in first))
    if not needed or any(e.op.binds_dim for e in early):
        return graph
    before = Graph((), graph.constants, (*sources, *early), needed)
    known = tuple(Constant(v, x) for v, x in zip(needed, before()))
    after = Graph(graph.inputs, (*graph.constants, *known), tuple(rest), graph.outputs)
    return stage.finish(copied(after))


@takes(function=FUNCTION)
def linear_transpose(function: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """The transpose of a linear ``function``.

    Args:
        function: linear in its arguments, tensors or trees of them.
        *primals: arguments or specs: their metas alone matter.

    Returns:
        A function of a cotangent of the result, giving a tuple with that of each argument.

    Raises:
        DifferentiationError: the function is not linear. One that adds something of its own, as
            2 * x + 1 does, is found by its value at zero: where sizes and what it closes over are
            known.

    >>> import phix
    >>> transpose = phix.linear_transpose(lambda x: 3.0 * x, phix.spec([2]))
    >>> transpose(phix.to_tensor([1.0, 10.0]))[0].tolist()
    [3.0, 30.0]
    """
    name = function_name(function)
    metas, in_tree = taken_specs((primals, {}), name)
    run = FlattenedDense(function, in_tree, f"the result of {name}")
    traced = stage.trace(run, metas)
    count = len(metas)

    def joint(*args: Any) -> list[Any]:
        _, pull = reverse.vjp(traced, list(args[:count]))
        return pull(args[count:])

    graph = stage.trace(joint, [*metas, *(a.meta for a in traced.outputs)])
    _check_linear(graph, count, name)
    _check_zero_at_zero(traced, metas, name)

    @named("linear_transpose")
    def transposed(ct: Any) -> Any:
        cts, tree = flat_tensors(ct, "the cotangent")
        if tree != run.out_tree:
            raise ArgumentError(f"linear_transpose: the result is {run.out_tree}, found {tree}")
        fitted = [in_dtype(c, a.meta.dtype, "the cotangent") for c, a in zip(cts, traced.outputs)]
        nothing = [zeros_of(m) for m in metas]
        return like_arguments(in_tree, graph(*nothing, *fitted))[0]

    return transposed


def _check_linear(graph: Graph, count: int, name: str) -> None:
    """Raise where the transpose would depend on where it is taken."""

    def is_so(graph: Graph) -> bool:
        return any(dependent(graph, [k < count for k in range(len(graph.inputs))]))

    # a gradient that takes both operands of a product, and gives one, does not show what it reads
    if is_so(graph) and is_so(decompose(graph)):
        raise DifferentiationError(
            f"linear_transpose: {name} is not linear in its arguments; use phix.vjp, which takes "
            "the derivative at a point"
        )


def _check_zero_at_zero(traced: Graph, metas: Sequence[MetaTensor], name: str) -> None:
    """Raise where a function of constant slope is known not to be 0 at 0: it is affine."""
    if not all(m.is_static() for m in metas):
        return
    for found in traced(*(zeros_of(m) for m in metas)):
        largest = ops.any(found != 0) if dt.is_differentiable(found.dtype) else None
        if largest is not None and not is_traced(largest) and bool(largest):
            raise DifferentiationError(
                f"linear_transpose: {name} adds something to what is linear in its arguments: it "
                "is not 0 where they are; leave that out, or use phix.vjp"
            )


# -- jacobians -------------------------------------------------------------------------------
def _basis(leaves: Sequence[Any]) -> list[Any]:
    """For each leaf the unit tensors of all leaves together: [total, *dims]."""
    sizes = [dm.product(x.meta.dims) for x in leaves]
    total: Any = sum(sizes[1:], sizes[0]) if sizes else 0
    out: list[Any] = []
    start: Any = 0
    for x, size in zip(leaves, sizes):
        with following((x,)):
            eye = ops.eye(total, total, x.dtype)[:, start : start + size]
        out.append(ops.reshape(eye, (total, *x.meta.dims)))
        start = start + size
    return out


def _rows(x: Any, leaves: Sequence[Any]) -> list[Any]:
    """``x``, whose first axis counts the elements of all leaves, cut to [*leaf dims, ...]."""
    out: list[Any] = []
    start: Any = 0
    for leaf in leaves:
        size = dm.product(leaf.meta.dims)
        part = x[start : start + size]
        out.append(ops.reshape(part, (*leaf.meta.dims, *x.meta.dims[1:])))
        start = start + size
    return out


def _of_chosen(function: Any, args: Any, kwargs: Any, argnums: Argnums) -> tuple[Any, Any]:
    """``function`` of the chosen arguments alone, and these."""
    places = argument_places(argnums, args, function)

    @functools.wraps(function)
    def of_chosen(*chosen: Any) -> Any:
        full = list(args)
        for place, value in zip(places, chosen):
            full[place] = value
        return function(*full, **kwargs)

    return of_chosen, tuple(args[p] for p in places)


@overload
def jacrev(
    function: OfTensor[P, Tensor], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> OfArray[P, Tensor]: ...


@overload
def jacrev(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Function[..., Any]: ...


@takes(function=FUNCTION, argnums=INTS, has_aux=FLAG)
def jacrev(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the Jacobian of ``function``, row by row, in reverse mode.

    Right for fewer results than arguments; see :func:`jacfwd` for the other case. A complex
    function of complex arguments is taken to be holomorphic.

    Args:
        function: of tensors, or trees of them, to tensors or trees of them.
        argnums: the argument, or arguments, to differentiate with respect to.
        has_aux: whether ``function`` gives ``(out, aux)``.

    Returns:
        A function of the same arguments: a tree of the structure of the result, each leaf of it a
        tree of the structure of the argument (a tuple of them where argnums is a sequence) with
        leaves of dims ``[*result, *argument]``; ``(jacobian, aux)`` with has_aux.

    >>> import phix
    >>> phix.jacrev(lambda x: x * x)(phix.to_tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(function)
    @named("jacrev")
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen = _of_chosen(function, args, kwargs, argnums)
        found = vjp(of_chosen, *chosen, has_aux=has_aux)
        out, pull = found[0], lambda ct: dense_tree(found[1](ct))
        leaves, out_tree = pytrees.flatten(out)
        basis = _basis(leaves)
        columns, in_tree = _pulled(pull, out_tree, basis)
        cut = [_rows(c, leaves) for c in columns]  # of each argument, of each result
        if any(dt.is_complex(x.dtype) for x in leaves):
            turned, _ = _pulled(pull, out_tree, [_turned(b) for b in basis])
            cut = [
                [_complex_rows(*pair, x) for pair, x in zip(zip(rows, _rows(c, leaves)), leaves)]
                for rows, c in zip(cut, turned)
            ]
        per_out = [pytrees.unflatten(in_tree, rows) for rows in zip(*cut)]
        result = pytrees.unflatten(out_tree, [_single(p, argnums) for p in per_out])
        return (result, found[2]) if has_aux else result

    return jacobian


def _pulled(pull: Any, out_tree: Any, basis: list[Any]) -> Any:
    """The cotangents of all arguments for each row of the basis, and their tree."""
    return pytrees.flatten(vmap(pull)(pytrees.unflatten(out_tree, basis)))


def _turned(row: Any) -> Any:
    return row * 1j if dt.is_complex(row.dtype) else row


def _complex_rows(rows: Any, turned: Any, result: Any) -> Any:
    """Rows of a Jacobian from cotangents, which are adjoint: those of 1 give the conjugate of
    f', or its real part for real arguments; those of i its imaginary part."""
    if not dt.is_complex(result.dtype):
        return rows
    if dt.is_complex(rows.dtype):
        return ops.conj(rows)
    return ops.complex(rows, turned)


@overload
def jacfwd(
    function: OfTensor[P, Tensor], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> OfArray[P, Tensor]: ...


@overload
def jacfwd(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Function[..., Any]: ...


@takes(function=FUNCTION, argnums=INTS, has_aux=FLAG)
def jacfwd(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the Jacobian of ``function``, column by column, in forward mode.

    Right for fewer arguments than results; takes and gives what :func:`jacrev` does.

    Raises:
        DifferentiationError: an argument is no float, or complex where a result is real: there is
            no one number that is its derivative (``jacrev`` gives the gradient).

    >>> import phix
    >>> phix.jacfwd(lambda x: phix.ops.stack([x, x**2]))(3.0).tolist()
    [1.0, 6.0]
    """

    @functools.wraps(function)
    @named("jacfwd")
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen = _of_chosen(function, args, kwargs, argnums)
        leaves, in_tree = flat_tensors(chosen, function_name(function))
        for x in leaves:
            as_differentiable(x, "jacfwd")
        kept: list[Any] = []

        def pushed(*tangents: Any) -> Any:
            given = pytrees.unflatten(in_tree, tangents)
            found = jvp(of_chosen, chosen, given, has_aux=has_aux)
            kept[:] = found[2:]
            return found[1]

        columns = vmap(pushed, out_axes=-1)(*_basis(leaves))
        _check_holomorphic(leaves, pytrees.leaves(columns), function)
        result = pytrees.map(lambda c: _arguments(c, leaves, in_tree, argnums), columns)
        return (result, kept[0]) if has_aux else result

    return jacobian


def _check_holomorphic(leaves: Sequence[Any], columns: Sequence[Any], function: Any) -> None:
    complex_in = next((x for x in leaves if dt.is_complex(x.dtype)), None)
    real_out = next((c for c in columns if dt.is_float(c.dtype)), None)
    if complex_in is not None and real_out is not None:
        raise DifferentiationError(
            f"jacfwd: {function_name(function)} takes {complex_in.meta} to a real result, so it is "
            "not holomorphic; use phix.jacrev, which gives df/dx + i df/dy, or take the real and "
            "imaginary parts as two arguments"
        )


def _arguments(column: Any, leaves: Sequence[Any], in_tree: Any, argnums: Argnums) -> Any:
    """A result's derivative, the last axis counting the elements of all arguments, as a tree."""
    out: list[Any] = []
    start: Any = 0
    for leaf in leaves:
        size = dm.product(leaf.meta.dims)
        part = column[..., start : start + size]
        out.append(ops.reshape(part, (*column.meta.dims[:-1], *leaf.meta.dims)))
        start = start + size
    return _single(pytrees.unflatten(in_tree, out), argnums)


def _single(found: Any, argnums: Argnums) -> Any:
    return found[0] if isinstance(argnums, int) else found


@overload
def hessian(
    function: OfTensor[P, Tensor], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> OfArray[P, Tensor]: ...


@overload
def hessian(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Function[..., Any]: ...


@takes(function=FUNCTION, argnums=INTS, has_aux=FLAG)
def hessian(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives all second derivatives of ``function``: jacfwd of jacrev.

    Takes what :func:`jacrev` does; each leaf of the result, of dims ``[*result, *argument,
    *argument]``, lies at the end of a path through result, argument and argument again.

    >>> import phix
    >>> phix.hessian(lambda x: x[0] ** 2 * x[1])(phix.to_tensor([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """
    return functools.wraps(function)(
        named("hessian")(jacfwd(jacrev(function, argnums, has_aux), argnums, has_aux))
    )


@takes(function=FUNCTION, primals=LIST, tangents=LIST)
def hvp(function: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """The Hessian of ``function`` times tangents, without the Hessian.

    Args:
        function: gives one real number.
        primals, tangents: tuples of arguments, of one structure and the same metas.

    Returns:
        The product, of the structure of the argument; a tuple where there are several.

    >>> import phix
    >>> x, v = phix.to_tensor([1.0, 2.0]), phix.to_tensor([1.0, 1.0])
    >>> phix.hvp(lambda x: phix.ops.sum(x**3), (x,), (v,)).tolist()
    [6.0, 12.0]
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(function, argnums), primals, tangents)[1]


__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "linear_transpose", "linearize"]
