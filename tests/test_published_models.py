"""Published programs of inference, networks and physics run, compiled as they do eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from benchmarks import (
    programs_inference,
    programs_networks,
    programs_physics,
    published,
)

pytestmark = pytest.mark.unoptimised
MODULES = (programs_inference, programs_networks, programs_physics)
OF_MODELS = {
    name: entry
    for name, entry in published.PROGRAMS.items()
    if entry.build.__module__ in {m.__name__ for m in MODULES}
}
PHIX: Any = published.Library(
    "phix", phix.numpy, phix, phix, phix.nn.functional, phix.scipy.special, phix.random
)


def test_programs_say_where_they_are_from() -> None:
    assert len(OF_MODELS) >= 30
    for name, entry in OF_MODELS.items():
        assert (entry.build.__doc__ or "").endswith("."), name
        assert len(set(entry.sizes)) == 3, name


@pytest.mark.parametrize("name", OF_MODELS)
def test_a_published_program_is_compiled_to_what_it_says(name: str) -> None:
    """At its smallest size, beside the same ops one by one."""
    entry = OF_MODELS[name]
    function, args = entry.build(PHIX, min(entry.sizes))
    tensors = phix.tree.map(phix.to_tensor, args)
    compiled = phix.tree.leaves(phix.jit(function)(*tensors))
    alone = phix.tree.leaves(function(*tensors))
    assert len(compiled) == len(alone)
    for a, b in zip(compiled, alone):
        wanted = np.asarray(b)
        assert a.dtype == b.dtype and np.isfinite(wanted).all()
        size = float(np.abs(wanted).max(initial=0.0))
        np.testing.assert_allclose(np.asarray(a), wanted, rtol=0, atol=entry.tolerance * size)
