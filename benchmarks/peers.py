"""The libraries compared, each behind the same few functions.

``jax``, ``jnp``, ``jet``, ``torch`` and ``F`` (torch.nn.functional) are imported on first use, so
rows may name them where they are not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import phix

Call = Callable[[], Any]
LEARNING_RATE = 0.01


class Lazy:
    """A module, imported when one of its names is asked for; names are kept."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


jax: Any = Lazy("jax")
jnp: Any = Lazy("jax.numpy")
jet: Any = Lazy("jax.experimental.jet")
torch: Any = Lazy("torch")
F: Any = Lazy("torch.nn.functional")


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


# -- trees: lists, tuples and dicts, with leaves in the same order in all libraries ---------------
def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)(tree_map(function, t) for t in tree)
    if isinstance(tree, dict):
        return {key: tree_map(function, tree[key]) for key in sorted(tree)}
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


# -- contenders ----------------------------------------------------------------------------------
class Functional:
    """phix and JAX: the transformations have the same names."""

    differentiates = True

    def __init__(self, name: str, unknown: Any = None) -> None:
        self.name, self.unknown = name, unknown
        self.module: Any = phix if name == "phix" else jax

    def array(self, x: np.ndarray) -> Any:
        return phix.to_tensor(x) if self.name == "phix" else jnp.asarray(x)

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def wrapped(self, function: Callable[..., Any], mode: str) -> Callable[..., Any]:
        """What the mode asks for, as a function to compile."""
        module = self.module
        if mode == "vjp":

            def with_cotangent(cotangent: Any, *args: Any) -> Any:
                out, pull = module.vjp(function, *args)
                return out, pull(cotangent)

            return with_cotangent
        if mode == "value_and_grad":
            return module.value_and_grad(function)
        if mode == "sgd":

            def step(params: Any, *rest: Any) -> Any:
                loss, grads = module.value_and_grad(function)(params, *rest)
                return loss, module.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)

            return step
        return function

    def bind(self, function: Callable[..., Any], mode: str, args: tuple[Any, ...]) -> Call:
        """A call without arguments that ends when the result is there."""
        arrays = tree_map(self.array, args)
        options = {} if self.unknown is None else {"input_spec": _specs(args, self.unknown)}
        wrapped = self.wrapped(function, mode)
        run = function if mode == "uncompiled" else self.module.jit(wrapped, **options)
        if self.name == "phix":
            return lambda: run(*arrays)
        wait = jax.block_until_ready
        return lambda: wait(run(*arrays))

    def for_unknown(self, dims: Any) -> Functional:
        """This library, compiling for every size of the dims that have a name."""
        return Functional(self.name, dims)


def _specs(args: Any, dims: Any) -> Any:
    """phix's specs of a tree of arrays, from a like tree of their dims."""
    if isinstance(args, (list, tuple)):
        return type(args)(_specs(a, d) for a, d in zip(args, dims))
    if isinstance(args, dict):
        return {key: _specs(args[key], dims[key]) for key in args}
    return phix.spec(dims, args.dtype.name)


class Torch:
    """PyTorch: eager, or with the function compiled."""

    differentiates = True

    def __init__(self, name: str = "torch", compiled: bool = False) -> None:
        self.name, self.compiled = name, compiled

    def array(self, x: np.ndarray) -> Any:
        return torch.from_numpy(np.array(x))

    def numpy(self, x: Any) -> np.ndarray:
        return x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)

    def bind(self, function: Callable[..., Any], mode: str, args: tuple[Any, ...]) -> Call:
        arrays = tree_map(self.array, args)
        if self.compiled:
            torch._dynamo.reset()
            function = torch.compile(function)
        if mode in ("call", "uncompiled"):
            return lambda: function(*arrays)
        gradient = torch.autograd.grad
        if mode == "vjp":
            cotangent, *inputs = arrays
            inputs = [x.requires_grad_() for x in inputs]

            def pulled() -> Any:
                out = function(*inputs)
                return out, gradient(out, inputs, cotangent)

            return pulled
        wanted = [x.requires_grad_() for x in leaves(arrays[0])]
        plain = [x.detach() for x in wanted]

        def step() -> Any:
            loss = function(*arrays)
            grads = gradient(loss, wanted, materialize_grads=True)
            if mode == "value_and_grad":
                return loss, grads
            return loss, torch._foreach_add(plain, grads, alpha=-LEARNING_RATE)

        return step


class NumPy:
    name = "numpy"
    differentiates = False

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def bind(self, function: Callable[..., Any], mode: str, args: tuple[Any, ...]) -> Call:
        return lambda: function(*args)


def libraries(names: tuple[str, ...], compiled: bool) -> dict[str, Any]:
    """Those asked for and installed; ``compiled`` adds torch.compile as a contender."""
    found: dict[str, Any] = {}
    for name in names:
        if is_installed(name):
            made = {"numpy": NumPy, "torch": Torch}.get(name, lambda name=name: Functional(name))
            found[name] = made()
    if compiled and "torch" in found:
        found["torch.compile"] = Torch("torch.compile", compiled=True)
    return found
