"""What published programs are: written once over a :class:`Library`, registered by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import benchmarks


@dataclass(frozen=True)
class Library:
    """What programs are written over.

    Attributes:
        np: NumPy's functions.
        fx: the transformations: grad, vmap, jvp, vjp, hessian, checkpoint, ...
        lax: scan, fori_loop, while_loop, cond, switch.
        nn: relu, gelu, softmax, log_softmax, ...
        special: gammaln, erf, logsumexp, ...
        random: key, split, normal, ...: the same numbers in both.
    """

    name: str
    np: Any
    fx: Any
    lax: Any
    nn: Any
    special: Any
    random: Any


@dataclass(frozen=True)
class Program:
    """A published program, at a few sizes; the first is the one it is known for."""

    name: str
    build: Callable[[Library, int], tuple[Callable[..., Any], tuple[Any, ...]]]
    sizes: tuple[int, ...]
    tolerance: float


PROGRAMS: dict[str, Program] = {}


def program(name: str, *sizes: int, tolerance: float = 1e-5) -> Callable[[Any], Any]:
    """Register a program; ``tolerance`` is relative to the largest entry of a result."""

    def register(build: Any) -> Any:
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, build, sizes, tolerance)
        return build

    return register


def load() -> None:
    """Import the modules of programs, which register theirs."""
    for found in pkgutil.iter_modules(benchmarks.__path__):
        if found.name.startswith("programs_"):
            importlib.import_module(f"benchmarks.{found.name}")


def own() -> Library:
    """phix."""
    import phix
    import phix.scipy.special

    modules = (phix.numpy, phix, phix, phix.nn.functional, phix.scipy.special, phix.random)
    return Library("phix", *modules)


def libraries() -> dict[str, Library]:
    import jax
    import jax.scipy.special

    theirs = (jax.numpy, jax, jax.lax, jax.nn, jax.scipy.special, jax.random)
    return {"phix": own(), "jax": Library("jax", *theirs)}
