"""What the workers of a run are given: the tests of one group, or of one function, together."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadGroupScheduling


class Scheduling(LoadGroupScheduling):
    """xdist's scheduling by groups, in which functions are groups and tests that ran are forgotten.

    To see what a worker has left, xdist goes through all that it was ever given. Of 26,000 tests,
    each given by itself, that took more time than many of the tests do.
    """

    def _split_scope(self, nodeid: str) -> str:
        function, _, group = nodeid.partition("[")
        return super()._split_scope(nodeid) if "@" in group.rpartition("]")[2] else function

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        given = self.assigned_work[node]
        for scope in [name for name, tests in given.items() if all(tests.values())]:
            del given[scope]
