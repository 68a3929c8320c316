"""Models in JAX: the reference's closed forms over jax.numpy, its derivatives by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.networks.backends import Numpy

Function = Callable[..., Any]


class Jax(Numpy):
    """Models in JAX."""

    name = "jax"
    xp = jnp
    jit = staticmethod(lambda f: f)
    checkpoint = staticmethod(jax.checkpoint)
    stop_gradient = staticmethod(jax.lax.stop_gradient)
    hessian = staticmethod(jax.hessian)
    jacrev = staticmethod(jax.jacrev)
    vmap = staticmethod(jax.vmap)
    jvp = staticmethod(jax.jvp)

    @staticmethod
    def grad(f: Function) -> Function:
        """JAX's gradient by a complex number is the conjugate of phix's."""
        return lambda *args: jax.tree.map(jnp.conj, jax.grad(f)(*args))

    @staticmethod
    def value_and_grad(f: Function) -> Function:
        def run(*args: Any) -> Any:
            value, g = jax.value_and_grad(f)(*args)
            return value, jax.tree.map(jnp.conj, g)

        return run

    def erf(self, x: Any) -> Any:
        return jax.scipy.special.erf(x)

    def relu(self, x: Any) -> Any:
        return jax.nn.relu(x)

    def relu6(self, x: Any) -> Any:
        return jax.nn.relu6(x)

    def add_at(self, x: Any, rows: Any, values: Any) -> Any:
        return x.at[rows].add(values)

    def set_at(self, x: Any, rows: Any, values: Any) -> Any:
        return x.at[rows].set(values)

    def scan(self, f: Function, init: Any, xs: Any, length: int | None = None) -> Any:
        return jax.lax.scan(f, init, xs, length=length)

    def fori(self, low: int, high: int, f: Function, value: Any) -> Any:
        return jax.lax.fori_loop(low, high, f, value)

    def while_loop(self, more: Function, f: Function, value: Any) -> Any:
        return jax.lax.while_loop(more, f, value)

    def cond(self, pred: Any, f: Function, g: Function, *operands: Any) -> Any:
        return jax.lax.cond(pred, f, g, *operands)

    @staticmethod
    def vjp(f: Function, primals: Any, cotangent: Function) -> Any:
        out, pull = jax.vjp(f, *primals)
        return pull(jax.tree.map(cotangent, out))

    @staticmethod
    def directional(f: Function, primal: Any, tangent: Any, order: int) -> list[Any]:
        functions: list[Function] = [
            lambda s: f(jax.tree.map(lambda a, b: a + s * b, primal, tangent))
        ]
        for _ in range(order):
            g = functions[-1]
            functions.append(lambda s, g=g: jax.jvp(g, (s,), (jnp.ones_like(s),))[1])
        return [g(jnp.zeros(())) for g in functions]

    @staticmethod
    def linearized(f: Function, primals: Any, tangents: Any) -> Any:
        return jax.jvp(f, primals, tangents)

    def column_derivatives(self, f: Function, x: Any, column: int, order: int, way: str) -> Any:
        direction = jnp.zeros_like(x).at[:, column].set(1.0)
        functions = [f]
        for _ in range(order):
            g = functions[-1]
            functions.append(lambda y, g=g: jax.jvp(g, (y,), (direction,))[1])
        return [g(x) for g in functions]
