"""Which kernel runs a call: of those that libraries registered, and what engines generate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from phix.core import dtypes as dt
from phix.core.engines import engine, has_engine
from phix.core.errors import KernelNotFoundError
from phix.core.given import NONE, TEXT, Kind, list_of
from phix.core.given import takes as checked
from phix.core.graph import Equation
from phix.core.kernel_arguments import ANY
from phix.core.kernel_context import KernelContext as KernelContext
from phix.core.kernel_context import Unsized as Unsized
from phix.core.kernel_keys import given_dtypes
from phix.core.kernel_registry import (
    BACKENDS,
    KERNELS,
    LISTENERS,
    Backend,
    Kernel,
    KernelKey,
    known_backend,
)
from phix.core.libraries import PRINTED, pinned
from phix.core.memory_layouts import alternatives
from phix.core.op import Op
from phix.core.rules import OPS, get_op


def _name(op: Op | str) -> str:
    return op if isinstance(op, str) else op.name


def chain(backend: str) -> Iterator[Backend]:
    """A backend, what it falls back to, and so on."""
    name: str | None = backend
    while name is not None:
        found = known_backend(name)
        yield found
        name = found.fallback


class Given(NamedTuple):
    """What is known of a call besides its key: for each input the dtypes of its tensors, and the
    layouts with blocks that their sizes do not allow, and the kernels that are not for it."""

    dtypes: tuple[tuple[np.dtype, ...], ...] = ()
    unfit: frozenset[str] = frozenset()
    refusing: frozenset[KernelKey] = frozenset()


NOTHING = Given()


@lru_cache(maxsize=8192)
def lookup(op: Op | str, key: KernelKey, given: Given = NOTHING) -> Kernel | None:
    """The kernel of exactly that backend: in the layout asked for, in any, else in another one.

    One that wants an input in a dtype which does not hold what is ``given`` is passed over.
    """
    name, backend = _name(op), known_backend(key.backend)
    # an engine that is asked has said what the libraries of its place do
    has_code = has_engine(backend.place_kind) and engine(backend.place_kind).supports(
        name, key.dtype
    )
    kernels = KERNELS.get(name, {})
    for layout in (key.layout, *alternatives(key.layout)):
        found = kernels.get(KernelKey(key.backend, layout, key.dtype))
        if found is not None and takes(found, given):
            return found
    if has_code and backend.is_engine:
        return Kernel(name, KernelKey(key.backend, ANY, key.dtype))
    return None


def takes(kernel: Kernel, given: Given) -> bool:
    """Whether the dtypes that the kernel wants inputs in hold all values of those given, and their
    sizes its blocks, and the kernel is for such calls."""
    if kernel.key in given.refusing:
        return False
    asked = zip(kernel.inputs, given.dtypes)
    return kernel.key.layout not in given.unfit and all(
        a is None or all(map(a.holds, dtypes)) for a, dtypes in asked
    )


@lru_cache(maxsize=8192)
def find(op: Op | str, key: KernelKey) -> Kernel:
    """The kernel for ``key``: of its backend, or of what the backend falls back to.

    The kernel's own key says which it is: another place means its inputs are copied there, another
    layout that they are changed to it. A fallback is logged, once for each op and key.

    Raises:
        KernelNotFoundError: there is none; the message says what is registered.

    >>> import phix
    >>> key = phix.kernels.KernelKey("BLAS", "any", phix.float16)
    >>> phix.kernels.find("matmul", key).key.backend
    'CPU'
    """
    for backend in chain(key.backend):
        found = lookup(op, KernelKey(backend.name, key.layout, key.dtype))
        if found is not None:
            if backend.name != key.backend:
                _log_fallback(_name(op), key, found.key)
            return found
    raise not_found(_name(op), key)


def choose(op: Op, key: KernelKey, place_kind: str, given: Given = NOTHING) -> Kernel:
    """The kernel for a call on that kind of place, of whatever library is there.

    ``key`` says layout and dtype; its backend is left open. A library of the place that has it in
    the dtype is preferred, then one that has a wider dtype of the same kind, then the places that
    the libraries fall back to, which is logged once. A pinned library comes before all of these.

    Raises:
        KernelNotFoundError: there is none; the message says what is registered.
    """
    return _choose(op, key, place_kind, given, pinned())


@lru_cache(maxsize=8192)
def _choose(op: Op, key: KernelKey, place_kind: str, given: Given, pin: str | None) -> Kernel:
    asked = replace(key, backend=engine(place_kind).backends[0])
    for kind in fallbacks(place_kind):
        found = _available(op, key, kind, place_kind, given, pin)
        if found is not None:
            if kind != place_kind:
                _log_fallback(op.name, asked, found.key)
            return found
    raise not_found(op.name, asked)


def available(
    op: Op, key: KernelKey, kind: str, place_kind: str | None = None, given: Given = NOTHING
) -> Kernel | None:
    """What ``choose`` finds in the libraries of ``kind`` alone, for calls on ``place_kind``.

    An engine's own code for a composite counts where it is registered (:func:`provides`): a kernel
    generated from the parts is as good.
    """
    return _available(op, key, kind, place_kind or kind, given, pinned())


@lru_cache(maxsize=8192)
def _available(
    op: Op, key: KernelKey, kind: str, place_kind: str, given: Given, pin: str | None
) -> Kernel | None:
    names = _libraries(place_kind)[kind]
    first = [n for n in names if BACKENDS[n].library == pin]
    found = _of_libraries(op, key, first, names, given)
    if found is not None:
        return found
    if pin is not None and not op.is_primitive and any(BACKENDS[n].is_engine for n in first):
        return None  # what is pinned is the engine, which takes the op apart
    found = _of_libraries(op, key, names, names, given)
    is_printed = pin == PRINTED and place_kind == "cpu"  # all that the engine itself has
    if pin is not None and found is not None and not (is_printed and found.function is None):
        _logger().warning(
            "library %s has no kernel of %s for (%s); (%s) runs it", pin, op.name,
            replace(key, backend=place_kind), found.key,
        )  # fmt: skip
    return found


def _of_libraries(
    op: Op, key: KernelKey, names: list[str], casting: list[str], given: Given
) -> Kernel | None:
    """The kernel of one of these backends, what is wider by the casts of others."""
    if not names:
        return None
    for dtype in (key.dtype, *_wider(op, key.dtype, casting)):
        every = (lookup(op, KernelKey(name, key.layout, dtype), given) for name in names)
        own = KERNELS.get(op.name, {})
        found = [k for k in every if k is not None and (op.is_primitive or k.key in own)]
        if found:  # what somebody wrote comes before what is generated
            chosen = next((k for k in found if k.function is not None), found[0])
            for other in found:
                if other.function is not None and other is not chosen:
                    _logger().info(
                        "the kernel of %s for (%s) is not chosen: (%s) comes before it",
                        op.name, other.key, chosen.key,
                    )  # fmt: skip
            return chosen
    return None


def _logger() -> Any:
    import logging  # which takes longer than all that is said with it, mostly nothing

    return logging.getLogger("phix.kernels")


def refusing(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> frozenset[KernelKey]:
    """The keys of the op's kernels that are not for a call with such inputs."""
    kernels = KERNELS.get(op.name, {}).values()
    return frozenset(k.key for k in kernels if k.fits and not k.fits(metas, attrs, None))


def chosen_function(equation: Equation) -> Kernel | None:
    """The kernel that was chosen for an equation, if it is a registered function."""
    if equation.kernel is None:
        return None
    found = lookup(equation.op, equation.kernel, Given(given_dtypes(equation)))
    return found if found is not None and found.function is not None else None


@lru_cache(maxsize=64)
def has_functions(place_kind: str) -> bool:
    """Whether somebody registered a function for a backend of that kind of place."""
    return bool(_with_functions(place_kind))


def _with_functions(place_kind: str) -> list[str]:
    """The backends of a kind of place that somebody registered a function for."""
    used = {k.backend for each in KERNELS.values() for k, v in each.items() if v.function}
    return [n for n, b in BACKENDS.items() if b.place_kind == place_kind and n in used]


def fallbacks(place_kind: str) -> tuple[str, ...]:
    """The kinds of places that calls on ``place_kind`` run on, itself first."""
    return tuple(_libraries(place_kind))


@lru_cache(maxsize=64)
def _libraries(place_kind: str) -> dict[str, list[str]]:
    """The backends that calls on a place may go to, by their kinds of places."""
    own = engine(place_kind).backends
    by_kind: dict[str, list[str]] = {place_kind: list(own)}
    _insert_added(by_kind)
    for backend in [b for name in by_kind[place_kind] for b in chain(name)]:
        found = by_kind.setdefault(backend.place_kind, [])
        if backend.name not in found:
            found.append(backend.name)
    _insert_added(by_kind)
    return by_kind


def _insert_added(by_kind: dict[str, list[str]]) -> None:
    """Put in the libraries that somebody else added to the places, the last first: they are there
    to be used."""
    for kind, names in by_kind.items():
        for name in _with_functions(kind):
            if name not in names:
                before = BACKENDS[name].before
                names.insert(names.index(before) if before in names else 0, name)


def is_kept(op: Op, kinds: Iterable[str]) -> bool:
    """Whether a composite has a kernel, in some dtype, on one of these kinds of places."""
    backends = {b for kind in kinds for b in _libraries(kind)[kind]}
    return any(key.backend in backends for key in KERNELS.get(op.name, ()))


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
    own, other = BACKENDS[asked.backend].place_kind, BACKENDS[found.backend].place_kind
    copies = f"; its inputs are copied from {own} to {other}, its results back"
    _logger().warning(
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
    for k in _keys(name, tuple(BACKENDS)):
        listed.setdefault((k.backend, k.layout), []).append(str(k.dtype))
    there = "; ".join(f"{b}, {where}: {' '.join(d)}" for (b, where), d in listed.items())
    return KernelNotFoundError(
        f"no kernel of {name!r} for ({key}); there are: {there or 'none'}. Register one with "
        f'@phix.kernels.register_kernel("{name}", "{key.backend}", "{key.layout}", "{key.dtype}")'
    )


_NAMES = list_of(TEXT, "a list or tuple of names of backends", set, frozenset, dict)


@checked(op=TEXT | Kind("an op", lambda v: isinstance(v, Op)), backends=_NAMES | NONE)
def keys(op: Op | str, backends: Iterable[str] | None = None) -> tuple[KernelKey, ...]:
    """Every key the op has a kernel for, those of ``backends`` alone if they are given.

    Raises:
        UnknownOpError: the table has no such op.
        KernelRegistrationError: there is no such backend.
    """
    wanted = tuple(BACKENDS) if backends is None else tuple(known_backend(b).name for b in backends)
    return _keys(get_op(op).name if isinstance(op, str) else op.name, wanted)


def _keys(name: str, wanted: tuple[str, ...]) -> tuple[KernelKey, ...]:
    claimed = OPS[name].dtypes if name in OPS else frozenset()
    dtypes = [d for d in dt.ALL if not claimed or d in claimed]
    generated = [
        key
        for backend in wanted
        for key in (KernelKey(backend, ANY, dtype) for dtype in dtypes)
        if lookup(name, key) is not None and BACKENDS[backend].is_engine
    ]
    registered = [k for k in KERNELS.get(name, ()) if k.backend in wanted]
    return tuple(dict.fromkeys([*registered, *generated]))


@checked()
def missing(backend: str) -> dict[str, tuple[np.dtype, ...]]:
    """The primitives ``backend`` has no kernel for, with the dtypes that are missing.

    Raises:
        KernelRegistrationError: no such backend.
    """
    known_backend(backend)
    owed: dict[str, tuple[np.dtype, ...]] = {}
    for name, op in OPS.items():
        if not op.is_primitive or "collective" in op.traits:
            continue  # a collective is gone once the vmap around it is
        have = {k.dtype for k in _keys(name, (backend,))}
        lacking = tuple(d for d in dt.ALL if (d in op.dtypes or not op.dtypes) and d not in have)
        if lacking:
            owed[name] = lacking
    return owed


def _forget() -> None:
    for cached in (lookup, find, _choose, _available, has_functions, _libraries):
        cached.cache_clear()


LISTENERS.insert(0, _forget)
