"""Entries of a test's own in the op table, for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import phix
from phix import ops
from phix.core import rules

Load = Callable[[str], Any]


@contextmanager
def loading(folder: Path) -> Iterator[Load]:
    """Gives a function that adds entries, written to ``folder``; behind the block they are gone."""
    rules.check_table()  # what is imported later would be taken for the test's
    before = set(rules.OPS), {slot: set(known) for slot, known in rules._RULES.items()}
    names, functions = set(vars(ops)), set(rules.INFER_META)

    def loaded(text: str) -> Any:
        file = folder / "my_ops.yaml"
        file.write_text(text)
        return phix.load_ops(file)

    yield loaded
    for name in set(rules.OPS) - before[0]:
        del rules.OPS[name]
    for slot, known in rules._RULES.items():
        for name in set(known) - before[1][slot]:
            del known[name]
    for name in set(rules.INFER_META) - functions:
        del rules.INFER_META[name]
    for name in set(vars(ops)) - names:
        delattr(ops, name)
        ops.__all__.remove(name)
    phix.interpreters.eager.EAGER.plans.clear()
