"""Kernels: which function runs an op, chosen by backend, layout and dtype.

A backend is a place together with a library: ``BLAS`` and ``CPU`` are both of the place ``cpu``.
Libraries register kernels one by one, with :func:`register_kernel`; what an engine generates from
scalar bodies and lowerings it answers for by ``Engine.supports``. :func:`find` sees both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, Union

import numpy as np

from phix.core import dtypes as dt
from phix.core.conversion import tensor_place
from phix.core.engines import engine, has_engine
from phix.core.errors import KernelNotFoundError, KernelRegistrationError
from phix.core.graph import Equation, flat
from phix.core.kernel_context import KernelContext as KernelContext
from phix.core.kernel_context import Unsized as Unsized
from phix.core.op import Op
from phix.core.places import Place
from phix.core.rules import OPS, get_op

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
    memory that is given or allocated through ``ctx``: an engine may record what it starts.
    """

    op_name: str
    key: KernelKey
    function: Callable[..., None] | None = None
    takes_unread: bool = False
    recordable: bool = False


BACKENDS: dict[str, Backend] = {}
# op name -> the kernels registered for it by key, in the order of preference
_KERNELS: dict[str, dict[KernelKey, Kernel]] = {}


def add_backend(backend: Backend) -> None:
    """Make a backend known.

    Raises:
        KernelRegistrationError: one of that name is known, or its fallback is not.
    """
    if backend.name in BACKENDS:
        raise KernelRegistrationError(
            f"backend {backend.name!r} is registered already; take another name"
        )
    if backend.fallback is not None:
        _known(backend.fallback)
    BACKENDS[backend.name] = backend
    _clear()


def remove_backend(name: str) -> None:
    """Forget a backend and its kernels."""
    del BACKENDS[name]
    for kernels in _KERNELS.values():
        for key in [k for k in kernels if k.backend == name]:
            del kernels[key]
    _clear()


def _known(name: str) -> Backend:
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

    The form of the function is that of PHI's kernels, ``kernel(ctx, *inputs, *attrs, *outputs)``:
    see :class:`Kernel`.

    Raises:
        UnknownOpError: the table has no such op; ``phix.load_ops`` comes first for an op of one's
            own.
        KernelRegistrationError: no such backend or layout, or a kernel of that key is there.
    """

    def decorator(function: _F) -> _F:
        how = (takes_unread, recordable)
        _warn_unused(get_op(op_name), _known(backend))
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
    kernels = _KERNELS.get(op_name, {})
    found = [key for key in kernels if key.backend == backend]
    if not found:
        raise KernelRegistrationError(f"{backend} has no registered kernel of {op_name!r}")
    for key in found:
        del kernels[key]
    _clear()


def provides(op_name: str, backend: str, dtypes: DTypes, layout: str = ANY) -> None:
    """Say that code the engine generates for the op calls ``backend`` in these dtypes."""
    _add(op_name, backend, layout, as_dtypes(dtypes), None)


LAYOUTS = (ANY, "NCHW", "NHWC")


def _add(
    op_name: str, backend: str, layout: str, dtypes: Any, function: Any,
    how: tuple[bool, bool] = (False, False),
) -> None:  # fmt: skip
    _known(backend)
    if layout not in LAYOUTS:
        raise KernelRegistrationError(
            f"kernel of {op_name!r}: layout is one of {', '.join(LAYOUTS)}, found {layout!r}"
        )
    kernels = _KERNELS.setdefault(op_name, {})
    added = [KernelKey(backend, layout, dtype) for dtype in dtypes]
    for key in added:
        if key in kernels:
            there = getattr(kernels[key].function, "__module__", "an engine")
            raise KernelRegistrationError(
                f"op {op_name!r} has a kernel for ({key}) already, of {there}; remove one of the "
                "two, or give them different dtypes or layouts"
            )
    kernels.update((key, Kernel(op_name, key, function, *how)) for key in added)
    _clear()


# Called when a kernel comes or goes: what was chosen before may not be what is chosen now.
LISTENERS: list[Callable[[], None]] = []


def _clear() -> None:
    for cached in (lookup, find, choose, available, has_functions, _libraries):
        cached.cache_clear()
    for listen in LISTENERS:
        listen()


# -- finding ---------------------------------------------------------------------------------
def _name(op: Op | str) -> str:
    return op if isinstance(op, str) else op.name


def chain(backend: str) -> Iterator[Backend]:
    """A backend, what it falls back to, and so on."""
    name: str | None = backend
    while name is not None:
        found = _known(name)
        yield found
        name = found.fallback


@lru_cache(maxsize=8192)
def lookup(op: Op | str, key: KernelKey) -> Kernel | None:
    """The kernel of exactly that backend: in the layout asked for, in any, else in another one."""
    name, backend = _name(op), _known(key.backend)
    # an engine that is asked has said what the libraries of its place do
    has_code = has_engine(backend.place_kind) and engine(backend.place_kind).supports(
        name, key.dtype
    )
    kernels = _KERNELS.get(name, {})
    for layout in dict.fromkeys((key.layout, ANY, *LAYOUTS)):
        found = kernels.get(KernelKey(key.backend, layout, key.dtype))
        if found is not None:
            return found
    if has_code and backend.is_engine:
        return Kernel(name, KernelKey(key.backend, ANY, key.dtype))
    return None


@lru_cache(maxsize=8192)
def find(op: Op | str, key: KernelKey) -> Kernel:
    """The kernel for ``key``: of its backend, or of what the backend falls back to.

    The kernel's own key says which it is: another place means its inputs are copied there, another
    layout that they are changed to it. A fallback is logged, once for each op and key.

    Raises:
        KernelNotFoundError: there is none; the message says what is registered.

    >>> import phix
    >>> kernel = phix.kernels.find("matmul", phix.kernels.KernelKey("BLAS", "any", phix.float16))
    >>> kernel.key.backend
    'CPU'
    """
    for backend in chain(key.backend):
        found = lookup(op, KernelKey(backend.name, key.layout, key.dtype))
        if found is not None:
            if backend.name != key.backend:
                _log_fallback(_name(op), key, found.key)
            return found
    raise not_found(_name(op), key)


@lru_cache(maxsize=8192)
def choose(op: Op, key: KernelKey, place_kind: str) -> Kernel:
    """The kernel for a call on that kind of place, of whatever library is there.

    ``key`` says layout and dtype; its backend is left open. A library of the place that has it in
    the dtype is preferred, then one that has a wider dtype of the same kind, then the places that
    the libraries fall back to, which is logged once.

    Raises:
        KernelNotFoundError: there is none; the message says what is registered.
    """
    asked = replace(key, backend=engine(place_kind).backends[0])
    for kind in fallbacks(place_kind):
        found = available(op, key, kind, place_kind)
        if found is not None:
            if kind != place_kind:
                _log_fallback(op.name, asked, found.key)
            return found
    raise not_found(op.name, asked)


@lru_cache(maxsize=8192)
def available(op: Op, key: KernelKey, kind: str, place_kind: str | None = None) -> Kernel | None:
    """What ``choose`` finds in the libraries of ``kind`` alone, for calls on ``place_kind``.

    An engine's own code for a composite counts where it is registered (:func:`provides`): a kernel
    generated from the parts is as good.
    """
    names = _libraries(place_kind or kind)[kind]
    for dtype in (key.dtype, *_wider(op, key.dtype, names)):
        every = (lookup(op, KernelKey(name, key.layout, dtype)) for name in names)
        own = _KERNELS.get(op.name, {})
        found = [k for k in every if k is not None and (op.is_primitive or k.key in own)]
        if found:  # what somebody wrote comes before what is generated
            return next((k for k in found if k.function is not None), found[0])
    return None


def chosen_function(equation: Equation) -> Kernel | None:
    """The kernel that was chosen for an equation, if it is a registered function."""
    found = None if equation.kernel is None else lookup(equation.op, equation.kernel)
    return found if found is not None and found.function is not None else None


@lru_cache(maxsize=64)
def has_functions(place_kind: str) -> bool:
    """Whether somebody registered a function for a backend of that kind of place."""
    return any(
        kernel.function is not None and BACKENDS[key.backend].place_kind == place_kind
        for kernels in _KERNELS.values()
        for key, kernel in kernels.items()
    )


def _with_functions(place_kind: str) -> Iterator[str]:
    """The backends of a kind of place that somebody registered a function for."""
    used = {k.backend for each in _KERNELS.values() for k, v in each.items() if v.function}
    return (n for n, b in BACKENDS.items() if b.place_kind == place_kind and n in used)


def fallbacks(place_kind: str) -> tuple[str, ...]:
    """The kinds of places that calls on ``place_kind`` run on, itself first."""
    return tuple(_libraries(place_kind))


@lru_cache(maxsize=64)
def _libraries(place_kind: str) -> dict[str, list[str]]:
    """The backends that calls on a place may go to, by their kinds of places."""
    own = engine(place_kind).backends
    # libraries that somebody else added to the place, the last first: they are there to be used
    added = [n for n in _with_functions(place_kind) if n not in own]
    first = (*reversed(added), *own)
    falling = [b.name for name in first for b in chain(name)]
    by_kind: dict[str, list[str]] = {}
    for name in dict.fromkeys((*first, *falling)):
        by_kind.setdefault(_known(name).place_kind, []).append(name)
    return by_kind


def is_kept(op: Op, kinds: Iterable[str]) -> bool:
    """Whether a composite has a kernel, in some dtype, on one of these kinds of places."""
    backends = {b for kind in kinds for b in _libraries(kind)[kind]}
    return any(key.backend in backends for key in _KERNELS.get(op.name, ()))


def _wider(op: Op, dtype: np.dtype, backends: Iterable[str]) -> Iterator[np.dtype]:
    """Dtypes that hold all values of ``dtype``, of its kind, where the libraries can cast to them.

    What restates its input does so in the dtype it has, and graphs inside have dtypes of their own.
    """
    kind = dt.kind(dtype)
    if kind == "bool" or "restates" in op.traits or op.has_graphs:
        return
    for wide in dt.ALL:
        fits = dt.kind(wide) == kind and wide.itemsize > dtype.itemsize
        fits = fits and dt.promote(wide, dtype) == wide
        if fits and (not op.dtypes or wide in op.dtypes):
            casts = [lookup("cast", KernelKey(b, ANY, d)) for d in (dtype, wide) for b in backends]
            if any(casts[: len(casts) // 2]) and any(casts[len(casts) // 2 :]):
                yield wide


def _log_fallback(name: str, asked: KernelKey, found: KernelKey) -> None:
    import logging  # which takes longer than all that is said with it, mostly nothing

    own, other = BACKENDS[asked.backend].place_kind, BACKENDS[found.backend].place_kind
    copies = f"; its inputs are copied from {own} to {other}, its results back"
    logging.getLogger("phix.kernels").warning(
        "%s has no kernel for (%s); (%s) runs it%s", name, asked, found,
        copies if own != other else "",
    )  # fmt: skip


def not_found(name: str, key: KernelKey) -> KernelNotFoundError:
    """The error for a call that nothing has a kernel for, with what is registered."""
    op = OPS.get(name)
    if op is not None and not op.is_primitive:
        return KernelNotFoundError(
            f"{name!r} is a composite and has no kernel for ({key}); decompose it "
            "(phix.decompose), or register one with @phix.kernels.register_kernel"
        )
    listed: dict[tuple[str, str], list[str]] = {}
    for k in keys(name):
        listed.setdefault((k.backend, k.layout), []).append(str(k.dtype))
    there = "; ".join(f"{b}, {where}: {' '.join(d)}" for (b, where), d in listed.items())
    return KernelNotFoundError(
        f"no kernel of {name!r} for ({key}); there are: {there or 'none'}. Register one with "
        f'@phix.kernels.register_kernel("{name}", "{key.backend}", "{key.layout}", "{key.dtype}")'
    )


def keys(op: Op | str, backends: Iterable[str] | None = None) -> tuple[KernelKey, ...]:
    """Every key the op has a kernel for, those of ``backends`` alone if they are given."""
    wanted = tuple(BACKENDS) if backends is None else tuple(backends)
    name = _name(op)
    claimed = OPS[name].dtypes if name in OPS else frozenset()
    dtypes = [d for d in dt.ALL if not claimed or d in claimed]
    generated = [
        key
        for backend in wanted
        for key in (KernelKey(backend, ANY, dtype) for dtype in dtypes)
        if lookup(name, key) is not None and BACKENDS[backend].is_engine
    ]
    registered = [k for k in _KERNELS.get(name, ()) if k.backend in wanted]
    return tuple(dict.fromkeys([*registered, *generated]))


def missing(backend: str) -> dict[str, tuple[np.dtype, ...]]:
    """The primitives ``backend`` has no kernel for, with the dtypes that are missing.

    Raises:
        KernelRegistrationError: no such backend.
    """
    _known(backend)
    owed: dict[str, tuple[np.dtype, ...]] = {}
    for name, op in OPS.items():
        if not op.is_primitive or "collective" in op.traits:
            continue  # a collective is gone once the vmap around it is
        have = {k.dtype for k in keys(name, [backend])}
        lacking = tuple(d for d in dt.ALL if (d in op.dtypes or not op.dtypes) and d not in have)
        if lacking:
            owed[name] = lacking
    return owed


def select_kernel(
    op_name: str, dtype: np.dtype, backends: tuple[str, ...], layout: str = ANY
) -> Kernel | None:
    """The first of ``backends`` with a kernel for the op and dtype."""
    for backend in backends:
        found = lookup(op_name, KernelKey(backend, layout, dtype))
        if found is not None:
            return found
    return None


# -- the key of a call ---------------------------------------------------------------------------
def key_dtype(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Any) -> np.dtype:
    """The dtype that the op's kernels are chosen by.

    It follows ``kernel: {data_type: ...}`` of the entry: an argument, or several (``dtype > x``:
    the first that is given), or a dtype. Without it: that of the first tensor, else of the first
    output.
    """
    named = _choices(op, "data_type")
    given = dict(zip((a.name for a in op.inputs), inputs)) | dict(zip(op.attr_names, attrs))
    values = [given.get(n) for n in named] if named else list(inputs)
    constant = next((dt.BY_NAME[n.lower()] for n in named if n.lower() in dt.BY_NAME), None)
    for value in (*values, constant, out):
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, np.dtype):
            return first
        if first is not None and hasattr(first, "dtype"):
            return first.dtype
        if first is not None and hasattr(first, "meta"):
            return first.meta.dtype
    raise KernelNotFoundError(f"{op.name}: no argument says which dtype its kernel is for")


def kernel_key(equation: Equation, backend: str) -> KernelKey:
    """What the kernel of an equation is looked up by."""
    op, out = equation.op, next(flat(equation.outputs), None)
    dtype = key_dtype(op, equation.inputs, equation.attrs, out)
    return KernelKey(backend, key_layout(op, equation.attrs), dtype)


def key_layout(op: Op, attrs: tuple[Any, ...]) -> str:
    """The layout that the op's kernels are chosen by: its layout attribute, else any.

    ``kernel: {layout: ...}`` of the entry names the attribute; ``data_format`` is one by itself.
    """
    name = layout_attr(op)
    value = ANY if name is None else str(op.attr(name, attrs))
    return value if value in LAYOUTS else ANY


def layout_attr(op: Op) -> str | None:
    """The attribute that names the layout; see :func:`key_layout`."""
    names = (*_choices(op, "layout"), "data_format")
    return next((n for n in names if n in op.attr_names), None)


def key_place(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Place | None:
    """The place that the entry's ``kernel: {backend: ...}`` names: the first that is given of the
    arguments there, a Place or the place of a tensor. None: the entry names none, or none is given.

    The other tensors of the call are brought to it.
    """
    named = place_args(op)
    if not named:
        return None
    given = dict(zip((a.name for a in op.inputs), inputs)) | dict(zip(op.attr_names, attrs))
    for value in (given.get(name) for name in named):
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, Place):
            return first
        if first is not None:
            return tensor_place(first)
    return None


def place_args(op: Op) -> tuple[str, ...]:
    """The arguments, tensors or Places, that say where the op runs; see :func:`key_place`."""
    return _choices(op, "backend")


def kernel_arguments(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the op's kernels take before the outputs: ``kernel: {param: ...}``, else all args."""
    args = op.merge(inputs, attrs)
    if "param" not in op.kernel:
        return args
    by_name = dict(zip((a.name for a in op.args), args))
    return tuple([by_name[name] for name in op.kernel["param"]])


def _choices(op: Op, key: str) -> tuple[str, ...]:
    """``dtype > x`` as names."""
    return tuple(part.strip() for part in str(op.kernel.get(key, "")).split(">") if part.strip())


add_backend(Backend("CPU", "cpu", "LLVM", is_engine=True))
add_backend(Backend("BLAS", "cpu", "the BLAS of SciPy", "CPU"))
add_backend(Backend("NUMPY", "cpu", "NumPy", "CPU"))
add_backend(Backend("SCIPY", "cpu", "SciPy", "CPU"))
add_backend(Backend("GPU", "gpu", "NVRTC", "CPU", is_engine=True))
add_backend(Backend("GPUDNN", "gpu", "cuDNN", "GPU"))
add_backend(Backend("GPUBLAS", "gpu", "cuBLAS", "GPU"))
add_backend(Backend("GPUSOLVER", "gpu", "cuSOLVER", "GPU"))
add_backend(Backend("GPUFFT", "gpu", "cuFFT", "GPU"))
