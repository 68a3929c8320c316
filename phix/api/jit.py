"""jit as users call it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union, overload

from phix.api.arguments import check_places, function_name
from phix.api.donation import Donating
from phix.api.jitted import Jitted
from phix.api.signatures import P, R
from phix.core import libraries, rewrites
from phix.core.errors import ArgumentError
from phix.core.given import FLAG, FUNCTION, INTS, LIST, NAMES, NONE, at_least, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

Static = Union[int, Iterable[int], None]


class Options(TypedDict, total=False):
    """What :func:`jit` takes by name."""

    static_argnums: Static
    static_argnames: str | Iterable[str] | None
    input_spec: Sequence[Any] | None
    donate_argnums: Static
    disable: str | Iterable[str]
    library: str | None
    dynamic: bool
    memory_limit: int | None


@overload
def jit(function: Callable[P, R], **options: Unpack[Options]) -> Jitted[P, R]: ...


@overload
def jit(
    function: None = None, **options: Unpack[Options]
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


@takes(
    function=FUNCTION | NONE,
    static_argnums=INTS | NONE,
    static_argnames=NAMES | NONE,
    input_spec=LIST | NONE,
    donate_argnums=INTS | NONE,
    disable=NAMES,
    library=NAMES | NONE,
    dynamic=FLAG,
    memory_limit=at_least(0) | NONE,
)
def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: Static = None,
    static_argnames: str | Iterable[str] | None = None,
    input_spec: Sequence[Any] | None = None,
    donate_argnums: Static = None,
    disable: str | Iterable[str] = (),
    library: str | None = None,
    dynamic: bool = True,
    memory_limit: int | None = None,
) -> Any:
    """A function that is traced once for each kind of arguments and runs as one native program.

    Args:
        function: a pure function of tensors, or trees of them. Without it, a decorator.
        static_argnums: positional arguments that are no tensors: hashable Python values, each
            of which makes its own program.
        static_argnames: the same for keyword arguments. One of the two is enough.
        input_spec: one ``phix.spec`` (or tree of them) for each positional argument, None for one
            that is as given, as those by name are. One program then serves all unknown sizes.
        donate_argnums: arguments the caller will not use again: the tensors in them are dead
            after a call, and results of their sizes and dtypes take their memory where the program
            is done with it, and no array, view or other tensor shares it; never that of arrays.
        disable: names of rewrites to leave out, to see what they do or whether one is at fault;
            ``phix.debug.passes()`` lists them. Derivatives from outside have all of them.
        library: whose kernels come first, as in ``phix.library``; not in derivatives from outside.
        dynamic: compile for all sizes of a dim when a second one comes, not for each.
        memory_limit: bytes for temps and results, as ``memory_analysis`` counts them; what is more
            is computed again where it is read, the cheapest first. Each size has its own program;
            not in derivatives from outside.

    Returns:
        A function of the same arguments. It can be differentiated, batched and traced, to any
        order, and stays compiled under eager grad, jvp and vmap; ``.lower(*args)`` shows every
        step, its cost and its memory, ``.lower(*args).compile()`` gives a function that never
        traces, ``.trace_count`` counts traces.

    Raises:
        ArgumentError: an argument is no tensor, a static one is not hashable, or there is no
            argument of such a number, or no such rewrite or library.
        ShapeError: an argument does not fit its input_spec, or a check left open while tracing
            fails at the sizes given.
        DonatedTensorError: a tensor is used after it was donated.
        MemoryLimitError: no program was found that needs so little; ``.smallest`` is the best.

    >>> import phix
    >>> f = phix.jit(lambda x: 2.0 * x + 1.0, input_spec=[phix.spec(["n"])])
    >>> f(phix.to_tensor([1.0, 2.0])).tolist(), f(phix.to_tensor([3.0])).tolist()
    ([3.0, 5.0], [7.0])
    >>> f.trace_count
    1
    """
    options = {name: given for name, given in locals().items() if name != "function"}
    return functools.partial(jit, **options) if function is None else _jitted(function, options)


def _jitted(function: Callable[..., Any], options: dict[str, Any]) -> Jitted[Any, Any]:
    static, donate = options["static_argnums"], options["donate_argnums"]
    numbers, names, donated = map(_as_tuple, (static, options["static_argnames"], donate))
    for setting, given in (("static", numbers), ("donate", donated)):
        check_places(function, f"{setting}_argnums", given)
    off = rewrites.checked(options["disable"], "jit")
    library = libraries.checked(options["library"], "jit")
    kind = Donating if donated else Jitted
    return kind(
        function, *_both_ways(function, numbers, names), options["input_spec"], off, donated,
        library, options["dynamic"], options["memory_limit"],
    )  # fmt: skip


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (int, str)) else tuple(value)


def _both_ways(
    function: Callable[..., Any], numbers: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments found by place or by name, however they are passed."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    unknown = [n for n in names if n not in {p.name for p in parameters}]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise ArgumentError(
            f"static_argnames names {unknown}, but {function_name(function)} takes "
            f"{[p.name for p in parameters]}"
        )
    by_number = {plain[n] for n in numbers if -len(plain) <= n < len(plain)}
    by_name = {plain.index(n) for n in names if n in plain}
    return tuple(sorted({*numbers, *by_name})), tuple(sorted({*names, *by_number}))
