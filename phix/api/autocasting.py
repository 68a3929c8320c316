"""Functions in mixed precision."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from phix.api.arguments import function_name
from phix.api.flattened import Flattened, Graphs
from phix.api.signatures import P, R
from phix.api.weak_arguments import taken
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DTypeError
from phix.core.given import FUNCTION, NAMES, NONE, named, takes
from phix.core.op import Op
from phix.core.rules import get_op
from phix.passes.autocast import Policy
from phix.passes.autocast import autocast as rewrite

LOW_DTYPES = (dt.bfloat16, dt.float16)


@overload
def autocast(
    function: Callable[P, R],
    dtype: Any = "bfloat16",
    *,
    allow: str | tuple[str, ...] = (),
    deny: str | tuple[str, ...] = (),
) -> Callable[P, R]: ...


@overload
def autocast(
    function: None = None,
    dtype: Any = "bfloat16",
    *,
    allow: str | tuple[str, ...] = (),
    deny: str | tuple[str, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


@takes(function=FUNCTION | NONE, allow=NAMES, deny=NAMES)
def autocast(
    function: Callable[..., Any] | None = None,
    dtype: Any = "bfloat16",
    *,
    allow: str | tuple[str, ...] = (),
    deny: str | tuple[str, ...] = (),
) -> Any:
    """``function`` in mixed precision: products in a low dtype, sums and exponentials in float32.

    The function is staged for its arguments, and its graph rewritten:

    - float32 inputs of ops with the trait ``low_precision`` (matrix products, convolutions, einsum,
      ``linear``) are cast to ``dtype``; what the op gives stays low;
    - ops with the trait ``full_precision`` (sums, means, exp, log, powers, softmax, norms,
      normalisations, losses, scans along an axis) get back as float32 what was lowered;
    - all others run in the widest dtype of their inputs, Python numbers aside.

    Only float32 is lowered. Results have the dtypes that ``function`` gives them, and so have the
    carries of loops and the operands of branches, whose bodies are rewritten too. Derivatives flow
    through the casts, so that those of float32 arguments are float32; float16 may want the loss
    scaled, lest small ones vanish.

    Args:
        function: a pure function of tensors, or trees of them. Without it, a decorator.
        dtype: ``bfloat16`` or ``float16``.
        allow: names of further ops to run in ``dtype``, as ``make_graph`` prints them.
        deny: names of ops to keep in float32.

    Raises:
        DTypeError: another dtype, or one that an op in ``allow`` does not take.
        UnknownOpError: a name that is no op.
        ArgumentError: a name among both.

    >>> import phix
    >>> f = phix.autocast(lambda x, w: phix.ops.exp(phix.ops.matmul(x, w)))
    >>> phix.make_graph(f)(phix.spec([2, 3]), phix.spec([3, 2]))
    graph(x: float32[2, 3], w: float32[3, 2]) {
      a: bfloat16[2, 3] = cast(x, dtype=bfloat16)
      b: bfloat16[3, 2] = cast(w, dtype=bfloat16)
      c: bfloat16[2, 2] = matmul(a, b)
      d: float32[2, 2] = cast(c, dtype=float32)
      e: float32[2, 2] = exp(d)
      return e
    }
    """
    if function is None:
        return functools.partial(autocast, dtype=dtype, allow=allow, deny=deny)
    policy = _policy(dtype, allow, deny)
    graphs = Graphs()

    @functools.wraps(function)
    @named("autocast")
    def in_mixed_precision(*args: Any, **kwargs: Any) -> Any:
        name = function_name(function)
        leaves, treedef = taken((args, kwargs), name)
        run = Flattened(function, treedef, f"the result of {name}")
        graph, closed, out_tree = graphs.of(run, leaves, ())
        return pytrees.unflatten(out_tree, rewrite(graph, policy)(*leaves, *closed))

    return in_mixed_precision


def _policy(dtype: Any, allow: Any, deny: Any) -> Policy:
    policy = Policy(_low(dtype), _ops(allow), _ops(deny))
    if both := policy.allow & policy.deny:
        raise ArgumentError(
            f"autocast: {min(op.name for op in both)!r} is both in allow and in deny; keep one"
        )
    for op in policy.allow:
        if op.dtypes and policy.dtype not in op.dtypes:
            takes = ", ".join(n for n, d in dt.BY_NAME.items() if d in op.dtypes)
            raise DTypeError(
                f"autocast: {op.name} takes {takes}, not {policy.dtype}; leave it out of allow"
            )
    return policy


def _low(dtype: Any) -> Any:
    found = dt.as_dtype(dtype)
    if found not in LOW_DTYPES:
        raise DTypeError(f"autocast lowers float32 to bfloat16 or float16, found {found}")
    return found


def _ops(names: Any) -> frozenset[Op]:
    return frozenset(get_op(n) for n in ((names,) if isinstance(names, str) else names))


__all__ = ["autocast"]
