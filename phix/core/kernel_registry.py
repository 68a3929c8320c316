"""The registry of kernels: functions that run an op, by backend, layout and dtype.

A backend is a place together with a library: ``BLAS`` and ``CPU`` are both of the place ``cpu``.
Libraries register kernels one by one, with :func:`register_kernel`; what an engine generates from
scalar bodies and lowerings it answers for by ``Engine.supports``; ``kernel_selection`` sees both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Union

import numpy as np

from phix.core import context, registries, rule_modules
from phix.core import dtypes as dt
from phix.core.engines import engine, has_engine
from phix.core.errors import DTypeError, KernelRegistrationError, described
from phix.core.given import FUNCTION, NONE, named, takes
from phix.core.kernel_arguments import ANY, LAYOUTS, KernelArguments, States
from phix.core.kernel_arguments import KernelKey as KernelKey
from phix.core.kernel_context import KernelContext as KernelContext
from phix.core.kernel_context import Unsized as Unsized
from phix.core.op import Op
from phix.core.records import dataclass
from phix.core.rules import get_op

_F = TypeVar("_F", bound=Callable[..., Any])
# fits(metas, attrs, ctx): see register_kernel
Fits = Callable[[tuple[Any, ...], tuple[Any, ...], Union[KernelContext, None]], bool]


@dataclass(frozen=True)
class Backend:
    """A library on a kind of place, and where ops go that it has no kernel for.

    ``before`` is the backend of the place that it is preferred to, if not to all.
    """

    name: str
    place_kind: str
    library: str  # as phix.library knows it
    fallback: str | None = None
    is_engine: bool = False  # whether the engine of the place answers for what is not registered
    before: str | None = None
    about: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel that was found. ``function`` is None where the engine of the place has the code.

    ``function(ctx, *inputs, *attrs, *outputs)`` returns nothing and fills the outputs: storage in
    the order of the op's inputs (None for an absent one, a tuple for a list), attributes, storage
    for each output (a tuple for a list), allocated from its meta. An output whose size depends on
    the data comes as an :class:`Unsized`. With ``takes_unread``, one that nothing reads comes as
    None where the engine knows. A ``recordable`` one only starts work on the stream of ``ctx``, in
    memory that is given or allocated through ``ctx``: an engine may record what it starts. One that
    is ``native`` has code that the engine of the CPU links programs with, in place of the function.
    ``inputs`` and ``outputs`` say where arguments are to differ from the key, and ``fits`` which
    calls it is for.
    """

    op_name: str
    key: KernelKey
    function: Callable[..., Any] | None = None
    takes_unread: bool = False
    recordable: bool = False
    native: Any = None
    inputs: States = ()
    outputs: States = ()
    fits: Fits | None = None

    @property
    def is_plain(self) -> bool:
        """Whether all its arguments are as its key says."""
        return not self.inputs and not self.outputs


BACKENDS: dict[str, Backend] = {}
# op name -> the kernels registered for it by key, in the order of preference
KERNELS: dict[str, dict[KernelKey, Kernel]] = {}


def add_backend(backend: Backend) -> None:
    """Make a backend known.

    Raises:
        KernelRegistrationError: one of that name is known, or its fallback is not.
    """
    check_is_new(backend.name)
    if backend.fallback is not None:
        known_backend(backend.fallback)
    BACKENDS[backend.name] = backend
    notify()


@takes()
def add_library(place: str, library: str, *, before: str | None = None, about: str = "") -> Backend:
    """Add a library to a place that is there; kernels are then registered for its backend.

    Args:
        place: a kind of place: ``"cpu"``, ``"gpu"``, or that of a plug-in.
        library: a name for it, as in ``phix.library("mylib")``. In capitals it is the backend of
            the CPU, ``"MYLIB"``, with the place in front that of others, ``"GPUMYLIB"``.
        before: the library of the place that it is preferred to, such as ``"phix"``, what the
            engine generates; by default it comes before all.
        about: what it is, for listings.

    Raises:
        KernelRegistrationError: no such place, a library of that name is there, no library of the
            place has the name in ``before``.

    >>> import phix
    >>> with phix.scoped_registries():
    ...     backend = phix.kernels.add_library("cpu", "mylib", before="phix").name
    ...     @phix.kernels.register_kernel("tanh", backend, dtypes="float32")
    ...     def tanh(ctx, x, out):
    ...         out[...] = 7.0
    ...     print(phix.ops.tanh(0.0).item(), phix.ops.sin(0.0).item())
    ...     with phix.library("phix"):
    ...         print(phix.ops.tanh(0.0).item())
    7.0 0.0
    0.0
    """
    there = {b.library: b for b in BACKENDS.values() if b.place_kind == place}
    if not library.isidentifier() or library in there or not there:
        kinds = ", ".join(dict.fromkeys(b.place_kind for b in BACKENDS.values()))
        why = f"{place!r} has it already" if library in there else f"the places are {kinds}"
        raise KernelRegistrationError(
            f"no library {library!r} can be added to {place!r}: {why}; write a name such as 'mylib'"
        )
    if before is not None and before not in there:
        raise KernelRegistrationError(
            f"add_library: {place} has no library {before!r}; there are {', '.join(there)}"
        )
    engine = next((b.name for b in there.values() if b.is_engine), None)
    name = library.upper() if place == "cpu" else f"{place}{library}".upper()
    first = None if before is None else there[before].name
    backend = Backend(name, place, library, engine, before=first, about=about)
    add_backend(backend)
    return backend


def check_is_new(name: str) -> None:
    """Refuse the name of a backend that is known."""
    if not rule_modules.is_free(("backend", name), name in BACKENDS):
        raise KernelRegistrationError(f"backend {name!r} is registered already; take another name")


def remove_backend(name: str) -> None:
    """Forget a backend and its kernels."""
    del BACKENDS[name]
    for kernels in KERNELS.values():
        for key in [k for k in kernels if k.backend == name]:
            del kernels[key]
    notify()


def known_backend(name: str) -> Backend:
    if name not in BACKENDS:
        raise KernelRegistrationError(
            f"no backend {name!r}; there are {', '.join(BACKENDS)}; phix.register_backend adds one"
        )
    return BACKENDS[name]


_GROUPS = ("all", *dt.GROUPS)
DTypes = Union[str, np.dtype, type, Iterable[Any]]


def as_dtypes(dtypes: DTypes) -> tuple[np.dtype, ...]:
    """``"float32"``, a group (``"float"``, ``"int"``, ``"bool"``, ``"complex"``, ``"all"``), or
    several of them, as dtypes."""
    found: dict[np.dtype, None] = {}
    for each in listed_dtypes(dtypes):
        name = each if isinstance(each, str) else ""
        group = dt.ALL if name == "all" else [d for d in dt.ALL if dt.kind(d) == name]
        found.update(dict.fromkeys(group or [dt.as_dtype(each)]))
    return tuple(found)


def listed_dtypes(dtypes: DTypes) -> list[Any]:
    """One name, or several of any iterable, as a list.

    Raises:
        DTypeError: it is neither.
    """
    if isinstance(dtypes, (str, np.dtype, type)):
        return [dtypes]
    try:
        return list(dtypes)
    except Exception:  # whatever the value answers
        raise DTypeError(
            f"dtypes are names such as 'float32', groups such as {', '.join(map(repr, _GROUPS))}, "
            f"or a list of these; found {described(dtypes)}"
        ) from None


@takes(states=FUNCTION | NONE, fits=FUNCTION | NONE)
def register_kernel(
    op_name: str,
    backend: str,
    layout: str = ANY,
    dtypes: DTypes = "all",
    *,
    takes_unread: bool = False,
    recordable: bool = False,
    native: Any = None,
    states: Callable[[KernelArguments], None] | None = None,
    fits: Callable[..., bool] | None = None,
) -> Callable[[_F], _F]:
    """Register the decorated function as a kernel of an op.

    Args:
        op_name: a primitive of the op table, or a composite that is to be kept whole.
        backend: a registered backend, such as ``"BLAS"``, ``"GPU"`` or a plug-in's name.
        layout: ``"NCHW"``, ``"NHWC"``, ``"NCHW16c"``, ... where the kernel cares, else ``"any"``.
        dtypes: what it is for: names, groups (``"float"``, ``"int"``, ...) or ``"all"``.
        takes_unread: whether it may get None for an output that nothing reads.
        recordable: whether it only starts work on ``ctx.stream`` and never waits for it, in memory
            that is given or comes from ``ctx.alloc``; programs with it may become CUDA graphs.
        native: the same as native code: see ``phix.numba.kernel``.
        states: called with the kernel of each dtype, it sets where an argument is to differ from
            the key: ``kernel.input(1).place = "cpu"``, ``kernel.output("mean").dtype =
            "float32"``, ``kernel.input("filter").layout = "NHWC"``. Copies, casts and
            transpositions are put in where programs are made. A kernel that asks for a dtype
            which cannot hold what a call gives is not chosen for that call.
        fits: whether the kernel is for a call, as ``fits(metas, attrs, ctx)``: a MetaTensor for
            each input (None for an absent one, a tuple for a list), the attributes, and None for
            ``ctx`` where programs are made, when sizes may be unknown. Where it says no, the next
            one that has the op is chosen. A program of a GPU asks again before it runs with sizes
            it has not met, and ``ctx`` is that of the run then.

    The form of the function is that of PHI's kernels, ``kernel(ctx, *inputs, *attrs, *outputs)``:
    see :class:`Kernel`.

    Raises:
        UnknownOpError: the table has no such op; ``phix.load_ops`` comes first for an op of one's
            own.
        KernelRegistrationError: no such backend or layout, a function that cannot be called so, a
            dtype that the op does not have, or a kernel of that key is there.
    """

    wanted = listed_dtypes(dtypes)

    @named("register_kernel", of_ops=True)
    def decorator(function: _F) -> _F:
        op = get_op(op_name)
        _check_signature(op, function)
        _warn_unused(op, known_backend(backend))
        how = {"takes_unread": takes_unread, "recordable": recordable, "native": native}
        how["fits"] = fits
        own = _own_dtypes(op, wanted)
        _load_provided(op_name, known_backend(backend))
        _add(op_name, backend, layout, own, states, function=function, **how)
        return function

    return decorator


def argument_names(op: Op) -> tuple[str, ...]:
    """What the op's kernels take after the context: ``kernel: {param: ...}``, else all args, and
    the outputs, whose names get an underscore where an arg has the same."""
    args = tuple(op.kernel.get("param", [a.name for a in op.args]))
    return (*args, *(f"{o.name}_" if o.name in args else o.name for o in op.outputs))


def _check_signature(op: Op, function: Any) -> None:
    """Refuse what cannot be called as a kernel of the op."""
    wanted = ("ctx", *argument_names(op))
    told = f"write def {op.name}({', '.join(wanted)})"
    if not callable(function):
        raise KernelRegistrationError(
            f"kernel of {op.name!r}: found {described(function)}, no function; {told}"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # of what is written in C, nothing may be known
    try:
        signature.bind(*wanted)
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise KernelRegistrationError(
            f"kernel of {op.name!r}: {name}{signature} cannot be called with the {len(wanted)} "
            f"arguments that kernels of {op.signature()} get ({error}); {told}"
        ) from None


def common_dtypes(op_name: str, dtypes: DTypes) -> tuple[np.dtype, ...]:
    """Those of ``dtypes`` that the op has: for what registers many kernels at once."""
    own = get_op(op_name).dtypes
    return tuple(d for d in as_dtypes(dtypes) if not own or d in own)


def _own_dtypes(op: Op, dtypes: DTypes) -> tuple[np.dtype, ...]:
    """The dtypes of ``dtypes`` that the op has; those of a group that it has not are left out."""
    given = as_dtypes(dtypes)
    own = common_dtypes(op.name, dtypes)
    every = listed_dtypes(dtypes)
    single = {dt.as_dtype(d) for d in every if not isinstance(d, str) or d not in _GROUPS}
    wrong = [d for d in given if d not in own and d in single] or ([] if own else given)
    if wrong:
        has = ", ".join(str(d) for d in dt.ALL if d in op.dtypes)
        raise KernelRegistrationError(
            f"kernel of {op.name!r} for {', '.join(map(str, wrong)) or 'no dtype'}, which it never "
            f"has; its dtypes are {has or 'all'}"
        )
    return own


def reason_unused(op: Op, backend: Backend) -> str:
    """Why the engine of the place never asks for a kernel of the op; nothing where it does."""
    runs_itself = op.binds_dim or op.has_graphs or "data_dependent" in op.traits
    if not runs_itself or backend.place_kind not in _GENERATING:
        return ""
    return (
        f"the engine of {backend.place_kind} runs the op itself, since it has graphs in it, or "
        "sizes that its data tell"
    )


def _warn_unused(op: Op, backend: Backend) -> None:
    """Log where the engine of the place never asks for a kernel of the op."""
    why = reason_unused(op, backend)
    if why:
        import logging

        text = "a kernel of %s for %s will not be chosen: %s"
        logging.getLogger("phix.kernels").warning(text, op.name, backend.name, why)


_GENERATING = ("cpu", "gpu")  # the kinds of places whose engines generate loops


@takes()
def unregister_kernel(op_name: str, backend: str) -> None:
    """Forget the kernels that ``backend`` has for an op: from the next call on, others run.

    Raises:
        KernelRegistrationError: it has none.
    """
    kernels = KERNELS.get(op_name, {})
    found = [key for key in kernels if key.backend == backend]
    if not found:
        raise KernelRegistrationError(f"{backend} has no registered kernel of {op_name!r}")
    for key in found:
        del kernels[key]
    notify()


def provides(op_name: str, backend: str, dtypes: DTypes, layout: str = ANY) -> None:
    """Say that code the engine generates for the op calls ``backend`` in these dtypes."""
    _add(op_name, backend, layout, as_dtypes(dtypes))


def _load_provided(op_name: str, backend: Backend) -> None:
    """Have the engine of the place say first which kernels its code calls, if others add some."""
    generates = backend.place_kind in _GENERATING and has_engine(backend.place_kind)
    if generates and not rule_modules.is_own():
        engine(backend.place_kind).supports(op_name, dt.float32)


def _add(
    op_name: str, backend: str, layout: str, dtypes: Iterable[np.dtype], states: Any = None,
    **how: Any,
) -> None:  # fmt: skip
    """Put kernels in; the one place where they are made."""
    known_backend(backend)
    if layout not in LAYOUTS:
        raise KernelRegistrationError(
            f"kernel of {op_name!r}: layout is one of {', '.join(LAYOUTS)}, found {layout!r}"
        )
    kernels = KERNELS.setdefault(op_name, {})
    added = [KernelKey(backend, layout, dtype) for dtype in dtypes]
    for key in added:
        if not rule_modules.is_free((op_name, key), key in kernels):
            there = getattr(kernels[key].function, "__module__", "an engine")
            raise KernelRegistrationError(
                f"op {op_name!r} has a kernel for ({key}) already, of {there}; remove one of the "
                "two, or give them different dtypes or layouts"
            )
    made = []
    for key in added:
        inputs, outputs = _states(op_name, key, states)
        made.append(Kernel(op_name, key, **how, inputs=inputs, outputs=outputs))
    kernels.update((kernel.key, kernel) for kernel in made)
    notify()


# What brings values into states.
_RESTATING = ("cast", "concat", "io_copy", "reshape", "slice", "transpose")


def _states(op_name: str, key: KernelKey, declare: Any) -> tuple[States, States]:
    if declare is None:
        return (), ()
    op = get_op(op_name)
    arguments = KernelArguments(op, key)
    if op_name in _RESTATING or op.has_graphs:
        raise arguments.error("it has no states of its own: it brings values of others into theirs")
    declare(arguments)
    return arguments.asked()


@registries.part
def _as_they_are() -> Callable[[], None]:
    """Backends and kernels. Those of engines that are first asked for inside the scope stay."""
    backends, kernels = dict(BACKENDS), registries.copied(KERNELS)

    def restore() -> None:
        for name, added in KERNELS.items():
            own = {key: kernel for key, kernel in added.items() if _is_of_phix(kernel)}
            kernels[name] = own | kernels.get(name, {})
        BACKENDS.clear()
        BACKENDS.update(backends)
        KERNELS.clear()
        KERNELS.update(kernels)
        notify()

    return restore


def _is_of_phix(kernel: Kernel) -> bool:
    module = getattr(kernel.function, "__module__", None) or "phix"
    return module.partition(".")[0] == "phix" and kernel.native is None


# Called when a kernel comes or goes: what was chosen before may not be what is chosen now.
LISTENERS: list[Callable[[], None]] = [context.note_registration]


def notify() -> None:
    """Tell who chose kernels that there are others now."""
    for listen in LISTENERS:
        listen()
