"""Kernels and the engines that compile them; here, what is registered and how it is found.

``BACKENDS`` has each kind of kernel by its name: a place and a library, as in ``GPUDNN``.
"""

from phix.core.faces import face
from phix.core.kernel_context import KernelContext, seed
from phix.core.kernel_functions import KernelFunction, find
from phix.core.kernel_registry import (
    BACKENDS,
    Backend,
    Kernel,
    KernelKey,
    add_library,
    register_kernel,
    unregister_kernel,
)
from phix.core.kernel_selection import keys, missing
from phix.core.memory_layouts import add_layout
from phix.core.places import Device
from phix.core.tensor_kinds import add_kind, kind_kernel
from phix.kernels.plugins import BackendWarning, register_backend, unregister_backend

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendWarning",
    "Device",
    "Kernel",
    "KernelContext",
    "KernelFunction",
    "KernelKey",
    "add_kind",
    "add_layout",
    "add_library",
    "find",
    "keys",
    "kind_kernel",
    "missing",
    "register_backend",
    "register_kernel",
    "seed",
    "unregister_backend",
    "unregister_kernel",
]
__dir__ = face(__all__)
