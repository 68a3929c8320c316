"""L-BFGS under optax's names: steps along the gradient, times an estimate of the inverse Hessian.

J. Nocedal and S. Wright, "Numerical Optimization", algorithms 7.4 and 7.5. The last differences of
parameters and gradients are kept in tables, around which a place runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops
from phix.api.control_flow import scan
from phix.core import pytrees
from phix.core.conversion import at_home
from phix.core.given import FLAG, at_least, takes
from phix.optim.base import (
    NO_TREE,
    PAIR,
    RATE,
    GradientTransformationExtraArgs,
    RateLike,
    Transformation,
    chain,
    identity,
    mapped,
    needed,
    no_steps,
    number,
    one_more,
    pair,
    to_dtype,
    wide,
    zeros,
)
from phix.optim.rates import scale, scale_by_learning_rate
from phix.optim.zoom import chosen, dot, real_dtype_of, scale_by_zoom_linesearch


class ScaleByLBFGSState(NamedTuple):
    """The number of the step, the last parameters and updates, and the tables of differences."""

    count: Any
    params: Any
    updates: Any
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Any


def _plus(x: Any, factor: Any, y: Any) -> Any:
    """x + factor y, leaf by leaf, in the dtypes of x."""
    return mapped(lambda a, b: to_dtype(wide(a) + number(factor, a.dtype) * wide(b), a.dtype), x, y)


def _direction(updates: Any, tables: Any, first_scale: Any, place: Any) -> Any:
    """The inverse Hessian times the updates: through the differences backward, and forward."""
    moves, turns, weights = tables
    size = weights.shape[0]
    places = (place + ops.arange(0, size, 1, place.dtype)) % size

    def row(index: Any) -> Any:
        return pytrees.map(lambda x: x[index], (moves, turns))

    def back(vector: Any, index: Any) -> Any:
        move, turn = row(index)
        share = weights[index] * to_dtype(dot(move, vector), weights.dtype)
        return _plus(vector, -share, turn), share

    def forth(vector: Any, at: Any) -> Any:
        index, share = at
        move, turn = row(index)
        own = weights[index] * to_dtype(dot(turn, vector), weights.dtype)
        return _plus(vector, share - own, move), None

    vector, shares = scan(back, updates, places, reverse=True)
    vector = mapped(
        lambda v: to_dtype(to_dtype(first_scale, wide(v).dtype) * wide(v), v.dtype), vector
    )
    return scan(forth, vector, (places, shares))[0]


@takes(memory_size=at_least(1), scale_init_precond=FLAG)
def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformationExtraArgs:
    """The inverse Hessian that the last steps tell, times the update.

    Args:
        memory_size: how many steps are remembered.
        scale_init_precond: begin with a number times the identity that fits the last step, and in
            the first step with min(1, 1 / norm of the update); else with the identity.

    Raises:
        ArgumentError: update is called without the parameters.
        DTypeError: complex parameters.

    >>> import phix
    >>> tx = phix.optim.scale_by_lbfgs()
    >>> x = phix.to_tensor([0.0, 4.0])
    >>> tx.update(x, tx.init(x), x)[0].tolist()
    [0.0, 1.0]
    """

    @at_home
    def init(params: Any) -> ScaleByLBFGSState:
        dtype = real_dtype_of(params)
        rows = mapped(lambda p: ops.zeros([memory_size, *p.shape], p.dtype), params)
        nothing = zeros(params)
        weights = ops.zeros([memory_size], dtype)
        return ScaleByLBFGSState(no_steps(), nothing, nothing, rows, rows, weights)

    @at_home
    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        needed(params)
        params = mapped(lambda p: p, params)
        updates = mapped(lambda u, p: to_dtype(u, p.dtype), updates, params)
        dtype = real_dtype_of(params)
        is_later = state.count > 0
        move, turn = _plus(params, -1.0, state.params), _plus(updates, -1.0, state.updates)
        zero = zeros(params)
        move, turn = chosen(is_later, (move, turn), (zero, zero))
        product = to_dtype(dot(turn, move), dtype)
        inverse = 1 / ops.where(product == 0, 1.0, product)
        # at a minimum, steps are so small that there is no such number
        weight = ops.where((product == 0) | ops.isinf(inverse), 0.0, inverse)
        last = (state.count + (memory_size - 1)) % memory_size
        tables = pytrees.map(
            lambda table, new: table.at[last].set(new),
            (state.diff_params_memory, state.diff_updates_memory, state.weights_memory),
            (move, turn, weight),
        )
        first_scale: Any = ops.full((), 1.0, dtype)
        if scale_init_precond:
            square = to_dtype(dot(turn, turn), dtype)
            fits = ops.where(square > 0, product / ops.where(square > 0, square, 1.0), 1.0)
            norm = ops.sqrt(to_dtype(ops.stop_gradient(dot(updates, updates)), dtype))
            first_scale = ops.where(is_later, fits, ops.minimum(1.0, 1 / norm))
        found = _direction(updates, tables, first_scale, state.count % memory_size)
        return found, ScaleByLBFGSState(one_more(state.count), params, updates, *tables)

    return pair("scale_by_lbfgs", init, update)


@takes(learning_rate=RATE | NO_TREE, memory_size=at_least(1), scale_init_precond=FLAG,
       linesearch=PAIR | NO_TREE)  # fmt: skip
def lbfgs(
    learning_rate: RateLike | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: Transformation | None = scale_by_zoom_linesearch(  # noqa: B008 - it has no state
        max_linesearch_steps=20, initial_guess_strategy="one"
    ),
) -> GradientTransformationExtraArgs:
    """L-BFGS: the updates of :func:`scale_by_lbfgs`, downward, with a length found by a search.

    ``update`` takes ``value``, ``grad`` and ``value_fn`` for the search, as
    :func:`scale_by_zoom_linesearch` does; without one (None) it is as any other.

    Args:
        learning_rate: a number or a schedule by which updates are multiplied before the search;
            None is 1.
        memory_size: how many steps are remembered.
        scale_init_precond: see :func:`scale_by_lbfgs`.
        linesearch: a transformation; None takes the updates as they are.

    >>> import phix
    >>> f = lambda x: ((x - 1.0) ** 2).sum()
    >>> tx, x = phix.optim.lbfgs(), phix.zeros([2])
    >>> state, look = tx.init(x), phix.optim.value_and_grad_from_state(f)
    >>> for _ in range(3):
    ...     value, grad = look(x, state=state)
    ...     step, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=f)
    ...     x = phix.optim.apply_updates(x, step)
    >>> x.round(decimals=4).tolist()
    [1.0, 1.0]
    """
    down = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    own = scale_by_lbfgs(memory_size, scale_init_precond)
    return chain(own, down, identity() if linesearch is None else linesearch)
