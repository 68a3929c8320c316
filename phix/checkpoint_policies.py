"""What ``phix.checkpoint`` may keep: functions of an equation's op, metas and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core.faces import face
from phix.core.records import dataclass

__all__ = ["dots_saveable", "everything_saveable", "nothing_saveable", "save_only_these_names"]
__dir__ = face(__all__)


def everything_saveable(op: Any, *metas: Any, **attrs: Any) -> bool:
    """All results are kept, as without a checkpoint.

    >>> import phix
    >>> f = phix.checkpoint(phix.ops.exp, policy=phix.checkpoint_policies.everything_saveable)
    >>> phix.grad(f)(0.0).item()
    1.0
    """
    return True


def nothing_saveable(op: Any, *metas: Any, **attrs: Any) -> bool:
    """All results are computed again: the policy where none is named.

    >>> import phix
    >>> f = phix.checkpoint(phix.ops.exp, policy=phix.checkpoint_policies.nothing_saveable)
    >>> phix.grad(f)(0.0).item()
    1.0
    """
    return False


def dots_saveable(op: Any, *metas: Any, **attrs: Any) -> bool:
    """The results of matrix products, convolutions and their kin are kept: they cost the most.

    >>> import phix
    >>> f = phix.checkpoint(
    ...     lambda x: phix.ops.sum(phix.ops.sin(x @ x)),
    ...     policy=phix.checkpoint_policies.dots_saveable,
    ... )
    >>> phix.grad(f)(phix.to_tensor([[0.0]])).tolist()
    [[0.0]]
    """
    return bool(op.family == "contraction")


@dataclass(frozen=True)
class _Names:
    names: frozenset[str]

    def __call__(self, op: Any, *metas: Any, **attrs: Any) -> bool:
        return op.name == "checkpoint_name" and attrs["name"] in self.names


def save_only_these_names(*names: str) -> Callable[..., bool]:
    """A policy that keeps what ``phix.checkpoint_name`` gave one of these names.

    >>> import phix
    >>> policy = phix.checkpoint_policies.save_only_these_names("a", "b")
    >>> f = lambda x: phix.ops.exp(phix.checkpoint_name(2.0 * x, "a"))
    >>> phix.grad(phix.checkpoint(f, policy=policy))(0.0).item()
    2.0
    """
    return _Names(frozenset(names))
