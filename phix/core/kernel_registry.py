"""The registry of kernels: functions that run an op, by backend, layout and dtype.

A backend is a place together with a library: ``BLAS`` and ``CPU`` are both of the place ``cpu``.
Libraries register kernels one by one, with :func:`register_kernel`; what an engine generates from
scalar bodies and lowerings it answers for by ``Engine.supports``; ``kernel_selection`` sees both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, Union

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import KernelRegistrationError
from phix.core.kernel_context import KernelContext as KernelContext
from phix.core.kernel_context import Unsized as Unsized
from phix.core.op import Op
from phix.core.rules import get_op

ANY = "any"  # the layout of kernels that do not care
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class KernelKey:
    """Backend, layout, dtype: what a kernel is for.

    >>> import phix
    >>> str(phix.kernels.KernelKey("CPU", "any", phix.float32))
    'CPU, any, float32'
    """

    backend: str
    layout: str
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.backend}, {self.layout}, {self.dtype}"


@dataclass(frozen=True)
class Backend:
    """A library on a kind of place, and where ops go that it has no kernel for."""

    name: str
    place_kind: str
    library: str
    fallback: str | None = None
    is_engine: bool = False  # whether the engine of the place answers for what is not registered


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
    """

    op_name: str
    key: KernelKey
    function: Callable[..., None] | None = None
    takes_unread: bool = False
    recordable: bool = False
    native: Any = None


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


def check_is_new(name: str) -> None:
    """Refuse the name of a backend that is known."""
    if name in BACKENDS:
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


DTypes = Union[str, np.dtype, type, Iterable[Any]]


def as_dtypes(dtypes: DTypes) -> tuple[np.dtype, ...]:
    """``"float32"``, a group (``"float"``, ``"int"``, ``"bool"``, ``"complex"``, ``"all"``), or
    several of them, as dtypes."""
    given = [dtypes] if isinstance(dtypes, (str, np.dtype, type)) else list(dtypes)
    found: dict[np.dtype, None] = {}
    for each in given:
        group = each == "all" and dt.ALL
        group = group or [d for d in dt.ALL if isinstance(each, str) and dt.kind(d) == each]
        found.update(dict.fromkeys(group or [dt.as_dtype(each)]))
    return tuple(found)


def register_kernel(
    op_name: str,
    backend: str,
    layout: str = ANY,
    dtypes: DTypes = "all",
    *,
    takes_unread: bool = False,
    recordable: bool = False,
    native: Any = None,
) -> Callable[[_F], _F]:
    """Register the decorated function as a kernel of an op.

    Args:
        op_name: a primitive of the op table, or a composite that is to be kept whole.
        backend: a registered backend, such as ``"BLAS"``, ``"GPU"`` or a plug-in's name.
        layout: ``"NCHW"`` or ``"NHWC"`` where the kernel cares, else ``"any"``.
        dtypes: what it is for: names, groups (``"float"``, ``"int"``, ...) or ``"all"``.
        takes_unread: whether it may get None for an output that nothing reads.
        recordable: whether it only starts work on ``ctx.stream`` and never waits for it, in memory
            that is given or comes from ``ctx.allocate``; programs with it may become CUDA graphs.
        native: the same as native code: see ``phix.numba.kernel``.

    The form of the function is that of PHI's kernels, ``kernel(ctx, *inputs, *attrs, *outputs)``:
    see :class:`Kernel`.

    Raises:
        UnknownOpError: the table has no such op; ``phix.load_ops`` comes first for an op of one's
            own.
        KernelRegistrationError: no such backend or layout, or a kernel of that key is there.
    """

    def decorator(function: _F) -> _F:
        how = (takes_unread, recordable, native)
        _warn_unused(get_op(op_name), known_backend(backend))
        _add(op_name, backend, layout, as_dtypes(dtypes), function, how)
        return function

    return decorator


def _warn_unused(op: Op, backend: Backend) -> None:
    """Log where the engine of the place never asks for a kernel of the op."""
    runs_itself = op.binds_dim or op.has_graphs or "data_dependent" in op.traits
    if runs_itself and backend.place_kind in _GENERATING:
        import logging

        logging.getLogger("phix.kernels").warning(
            "a kernel of %s for %s will not be chosen: the engine of %s runs the op itself, since "
            "it has graphs in it, or sizes that its data tell",
            op.name, backend.name, backend.place_kind,
        )  # fmt: skip


_GENERATING = ("cpu", "gpu")  # the kinds of places whose engines generate loops


def unregister_kernel(op_name: str, backend: str) -> None:
    """Forget the kernels that ``backend`` has for an op; what is compiled already keeps them.

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
    _add(op_name, backend, layout, as_dtypes(dtypes), None)


LAYOUTS = (ANY, "NCHW", "NHWC")


def _add(
    op_name: str, backend: str, layout: str, dtypes: Any, function: Any,
    how: tuple[Any, ...] = (),
) -> None:  # fmt: skip
    known_backend(backend)
    if layout not in LAYOUTS:
        raise KernelRegistrationError(
            f"kernel of {op_name!r}: layout is one of {', '.join(LAYOUTS)}, found {layout!r}"
        )
    kernels = KERNELS.setdefault(op_name, {})
    added = [KernelKey(backend, layout, dtype) for dtype in dtypes]
    for key in added:
        if key in kernels:
            there = getattr(kernels[key].function, "__module__", "an engine")
            raise KernelRegistrationError(
                f"op {op_name!r} has a kernel for ({key}) already, of {there}; remove one of the "
                "two, or give them different dtypes or layouts"
            )
    kernels.update((key, Kernel(op_name, key, function, *how)) for key in added)
    notify()


# Called when a kernel comes or goes: what was chosen before may not be what is chosen now.
LISTENERS: list[Callable[[], None]] = []


def notify() -> None:
    """Tell who chose kernels that there are others now."""
    for listen in LISTENERS:
        listen()
