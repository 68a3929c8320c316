"""Registries that can be put back as they were: :func:`scoped_registries`.

Each module that keeps what users add says, by :func:`part`, how that is remembered and restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from phix.core import rule_modules

Restore = Callable[[], None]
Save = TypeVar("Save", bound=Callable[[], Restore])

_PARTS: list[Callable[[], Restore]] = []


def part(save: Save) -> Save:
    """Make ``save`` one of those that are called when a scope begins; what it gives is called when
    the scope ends, the last of them first."""
    _PARTS.append(save)
    return save


def copied(container: Any) -> Any:
    """A dict, list or set with copies of those that it holds."""
    if isinstance(container, dict):
        return {key: copied(value) for key, value in container.items()}
    return container.copy() if isinstance(container, (list, set)) else container


def contents(*containers: Any) -> None:
    """A part for dicts, lists and sets: they get their contents back."""

    @part
    def save() -> Restore:
        before = [copied(c) for c in containers]

        def restore() -> None:
            for container, content in zip(containers, before):
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(content)

        return restore


@contextmanager
def scoped_registries() -> Iterator[None]:
    """What is registered inside the with block is taken back at its end.

    That holds for ops (``phix.load_ops``, their functions in ``phix.ops`` and methods), rules of
    any kind, InferMeta functions, rewrites and patterns, kernels, libraries, backends and devices;
    also what the block removes is there again. Tensors on a place of the block cannot be used after
    it, and functions compiled inside keep the kernels that they were compiled with. Registries are
    those of the process: other threads see what is added, and should add nothing meanwhile.

    >>> import numpy as np
    >>> import phix
    >>> with phix.scoped_registries():
    ...     @phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")
    ...     def tanh(ctx, x, out):
    ...         out[...] = 7.0
    ...     print(phix.ops.tanh(0.0).item())
    7.0
    >>> phix.ops.tanh(0.0).item()
    0.0
    """
    rule_modules.import_for(rule_modules.ALL)  # what is imported later would be taken back, too
    restores = [save() for save in _PARTS]
    try:
        yield
    finally:
        for restore in reversed(restores):
            restore()
