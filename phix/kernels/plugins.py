"""Backends that others add: at run time, or from installed packages.

A package names a function in the entry point group ``phix.backends``; it is called, without
arguments, when a place is asked for that nobody knows yet, and calls :func:`register_backend`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from phix.core import kernel_registry, places, registries
from phix.core.engines import Engine, has_engine, register_engine, unregister_engine
from phix.core.errors import KernelRegistrationError, shown
from phix.core.given import NONE, Kind, takes
from phix.core.kernel_registry import Backend
from phix.core.places import Device
from phix.kernels.kernel_engine import KernelEngine

GROUP = "phix.backends"

_loaded: list[str] = []
_added: list[str] = []  # the names of the backends of others
registries.contents(_loaded, _added)


_DEVICE = Kind("a phix.kernels.Device", lambda v: isinstance(v, Device))
_KERNELS = Kind("a dict of kernels by names of ops", lambda v: isinstance(v, Mapping))
_ENGINE = Kind("an engine, which compiles graphs", lambda v: hasattr(v, "compile"))


class BackendWarning(UserWarning):
    """An installed backend could not be loaded; everything else works."""


@takes(device=_DEVICE, kernels_by_op=_KERNELS | NONE, engine=_ENGINE | NONE)
def register_backend(
    name: str,
    device: Device,
    kernels_by_op: Mapping[str, Callable[..., None]] | None = None,
    *,
    dtypes: Any = "all",
    engine: Engine | None = None,
    library: str = "",
) -> None:
    """Add a kind of device to phix.

    Args:
        name: what its places are called, as in ``phix.device("npu")``; in capitals it is the
            backend that kernels are registered for, as in ``register_kernel("add", "NPU")``.
        device: its memory: a :class:`phix.kernels.Device` with allocator and copies.
        kernels_by_op: kernels by op name, in PHI's form ``kernel(ctx, *inputs, *attrs, *outputs)``;
            more can follow with ``phix.kernels.register_kernel``.
        dtypes: the dtypes that ``kernels_by_op`` are for, where the ops have them.
        engine: what compiles graphs for it; by default graphs run equation by equation on the
            registered kernels. Ops without one run on the CPU, with copies there and back.
        library: the library behind the kernels, for listings.

    Raises:
        DeviceError, KernelRegistrationError: the name, or a kernel, is registered already.

    With primitives alone every composite, gradient, vmap and jit works;
    ``phix.kernels.missing(name.upper())`` lists what is still owed.

    >>> import numpy as np
    >>> import phix
    >>> class Storage:  # memory that NumPy code does not take for its own
    ...     def __init__(self, array):
    ...         self.array, self.shape, self.dtype = array, array.shape, array.dtype
    >>> class Toy(phix.kernels.Device):
    ...     storage = Storage
    ...     def allocate(self, shape, dtype, index):
    ...         return Storage(np.empty(shape, dtype))
    ...     def from_host(self, array, index):
    ...         return Storage(array.copy())
    ...     def to_host(self, storage):
    ...         return storage.array.copy()
    >>> def multiply(ctx, x, y, out):
    ...     out.array[...] = x.array * y.array
    >>> phix.register_backend("toy", Toy(), {"multiply": multiply})
    >>> with phix.device("toy"):
    ...     print(phix.ops.square(phix.to_tensor([1.0, 2.0])))
    Tensor([1., 4.], dtype=float32, shape=[2], place=toy:0)
    >>> phix.kernels.unregister_backend("toy")
    """
    backend = name.upper()
    kernel_registry.check_is_new(backend)
    places.register_device(name, device)
    register_engine(name, engine or KernelEngine(name, backend))
    kernel_registry.add_backend(Backend(backend, name, name, _fallback(), True, about=library))
    _added.append(name)
    try:
        _register_all(backend, kernels_by_op or {}, dtypes)
    except Exception:
        unregister_backend(name)
        raise


def _register_all(backend: str, kernels_by_op: Mapping[str, Any], dtypes: Any) -> None:
    dtypes = kernel_registry.as_dtypes(dtypes)
    for op_name, function in kernels_by_op.items():
        own = kernel_registry.common_dtypes(op_name, dtypes)
        kernel_registry.register_kernel(op_name, backend, dtypes=own)(function)


def _fallback() -> str | None:
    return "CPU" if has_engine("cpu") else None


@takes()
def unregister_backend(name: str) -> None:
    """Take a backend away again; tensors on its places cannot be used any more.

    Raises:
        KernelRegistrationError: no backend was registered under that name.
    """
    if name not in _added:
        raise KernelRegistrationError(
            f"unregister_backend: no backend {shown(name)} was registered; "
            f"there {'are ' + ', '.join(_added) if _added else 'is none'}"
        )
    _added.remove(name)
    kernel_registry.remove_backend(name.upper())
    places.unregister_device(name)
    unregister_engine(name)


def load_installed() -> None:
    """Load the backends of installed packages, once.

    One that fails is reported by a :class:`BackendWarning` and kept in ``places.FAILURES``.
    """
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    for entry in entry_points(group=GROUP):
        if entry.name in _loaded:
            continue
        _loaded.append(entry.name)
        try:
            entry.load()()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            places.FAILURES[f"{entry.name} ({entry.value})"] = why
            import logging

            logging.getLogger("phix.kernels").warning(
                "backend %s failed to load: %s", entry.name, why
            )
            warnings.warn(
                f"the backend {entry.name!r} of {entry.value} failed to load and is left out: "
                f"{why}",
                BackendWarning,
                stacklevel=2,
            )


places.SEARCHES.append(load_installed)
