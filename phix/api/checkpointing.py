"""Derivatives that compute again what they could have kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from phix import checkpoint_policies, ops
from phix.api.arguments import flat_tensors, function_name
from phix.api.flattened import Flattened, Graphs
from phix.api.signatures import P, R, X
from phix.api.weak_arguments import taken
from phix.core import context, pytrees
from phix.core.exact_keys import Exact
from phix.core.given import FUNCTION, INTS, NONE, TEXT, named, takes
from phix.core.tensor import Tracer


@overload
def checkpoint(
    function: Callable[P, R],
    *,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | tuple[int, ...] = (),
) -> Callable[P, R]: ...


@overload
def checkpoint(
    function: None = None,
    *,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | tuple[int, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


@takes(function=FUNCTION | NONE, policy=FUNCTION | NONE, static_argnums=INTS)
def checkpoint(
    function: Callable[..., Any] | None = None,
    *,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | tuple[int, ...] = (),
) -> Any:
    """``function``, of which reverse mode keeps the arguments alone and computes the rest again.

    Args:
        function: a pure function of tensors, or trees of them. Without it, a decorator.
        policy: says what may be kept all the same: ``policy(op, *metas, **attrs)`` is asked of
            each equation, see ``phix.checkpoint_policies``.
        static_argnums: arguments that are Python values.

    >>> import phix
    >>> f = phix.checkpoint(lambda x: phix.ops.sin(phix.ops.sin(x)))
    >>> round(phix.grad(f)(1.0).item(), 3)
    0.36
    """
    if function is None:
        return functools.partial(checkpoint, policy=policy, static_argnums=static_argnums)
    chosen = policy or checkpoint_policies.nothing_saveable
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    graphs = Graphs()

    @functools.wraps(function)
    @named("checkpoint")
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        fixed = {n % len(args): args[n] for n in static if -len(args) <= n < len(args)}
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        flat, treedef = taken((dynamic, kwargs), function_name(function))

        def of_dynamic(*own: Any, **named: Any) -> Any:
            supply = iter(own)
            full = [fixed[i] if i in fixed else next(supply) for i in range(len(args))]
            return function(*full, **named)

        run = Flattened(of_dynamic, treedef, f"the result of {function_name(function)}")
        if context.is_eager() and not any(isinstance(x, Tracer) for x in flat):
            outs: Any = run(*flat)
            return pytrees.unflatten(run.out_tree, outs)
        settings = (len(args), *((p, Exact(fixed[p])) for p in sorted(fixed)))
        graph, closed, out_tree = graphs.of(run, flat, settings)
        outs = ops.checkpoint([*flat, *closed], graph, chosen)
        return pytrees.unflatten(out_tree, outs)

    return checkpointed


@takes(name=TEXT)
def checkpoint_name(x: X, name: str) -> X:
    """``x``, a tree of tensors, under a name by which a policy of :func:`checkpoint` can keep it.

    >>> import phix
    >>> policy = phix.checkpoint_policies.save_only_these_names("hidden")
    >>> def f(x):
    ...     return phix.ops.sin(phix.checkpoint_name(phix.ops.exp(x), "hidden"))
    >>> round(phix.grad(phix.checkpoint(f, policy=policy))(0.0).item(), 4)
    0.5403
    """
    flat, treedef = flat_tensors(x, "checkpoint_name")
    return pytrees.unflatten(treedef, [ops.checkpoint_name(v, name) for v in flat])


remat = checkpoint  # the name it has in the literature

__all__ = ["checkpoint", "checkpoint_name", "remat"]
