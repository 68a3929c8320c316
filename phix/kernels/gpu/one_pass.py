"""Sums over the same elements, one behind the other, in one loop.

They read memory once, and a reduction that is one loop can be split among more threads.
"""

from __future__ import annotations

from phix.kernels.gpu.rewriting import Rewriter, assigned, scalars
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Declare, For, If, LibraryCall, Statement, Store, While


def in_one_pass(body: list[Statement]) -> list[Statement]:
    """The statements, with neighbouring reductions of one extent joined, inner ones too."""
    result: list[Statement] = []
    for s in body:
        if isinstance(s, (For, If, While)):
            s.body = in_one_pass(s.body)
        at = _earlier(result, s)
        if at is None:
            result.append(s)
            continue
        first, between = result[at], result[at + 1 :]
        assert isinstance(first, For) and isinstance(s, For)
        own = Rewriter({s.index: first.index}).block(s.body)
        joined = For(first.index, first.extent, in_one_pass([*first.body, *own]), first.kind)
        result[at:] = [*between, joined]
    return result


def _earlier(before: list[Statement], s: Statement) -> int | None:
    """Where the loop is that a loop can join: nothing stands between but what begins sums."""
    if not _is_sum(s):
        return None
    assert isinstance(s, For)
    at = len(before) - 1
    while at >= 0 and isinstance(before[at], Declare):
        at -= 1
    if at < 0 or not _is_sum(before[at]):
        return None
    first = before[at]
    assert isinstance(first, For)
    made = assigned(first.body)
    waits = made & (scalars(s.body) | scalars(before[at + 1 :]))
    is_same = first.extent is s.extent
    return at if is_same and not waits and not assigned(s.body) & scalars(first.body) else None


def _is_sum(s: Statement) -> bool:
    """Whether a statement is a loop that does nothing but change scalars."""
    if not isinstance(s, For) or s.kind != "reduction":
        return False
    return not any(isinstance(x, (Store, LibraryCall, While, If)) for x in ir.walk(s.body))
