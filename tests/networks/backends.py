"""The functions that models are written in, in phix, in NumPy and in JAX.

Each backend has the same methods. The reference ones are closed forms, loops in Python and
shifted slices; nothing there is meant to be fast.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

import phix
import phix.nn.functional as F
from phix import ops
from phix.core import pytrees

Function = Callable[..., Any]
EPSILON = 1e-3  # of norms: large enough that a row of equal values is no matter of luck


class Phix:
    """Models in phix."""

    name = "phix"
    sin, cos, tanh, exp, log = ops.sin, ops.cos, ops.tanh, ops.exp, ops.log
    sqrt, rsqrt, abs, erf, square = ops.sqrt, ops.rsqrt, ops.abs, ops.erf, ops.square
    relu, relu6, gelu, silu, sigmoid = ops.relu, ops.relu6, ops.gelu, ops.silu, ops.sigmoid
    softplus, softsign, elu, leaky_relu = ops.softplus, ops.softsign, ops.elu, ops.leaky_relu
    hardswish, logsigmoid, atan, log1p = ops.hardswish, ops.logsigmoid, ops.atan, ops.log1p
    maximum, minimum, where, conj = ops.maximum, ops.minimum, ops.where, ops.conj
    real, imag, cast, einsum = ops.real, ops.imag, ops.cast, ops.einsum
    reshape, concat, stack, tril = ops.reshape, ops.concat, ops.stack, ops.tril
    transpose, flip, expm1, reciprocal = ops.transpose, ops.flip, ops.expm1, ops.reciprocal
    grad, value_and_grad, vmap = phix.grad, phix.value_and_grad, phix.vmap
    hessian, jacrev, stop_gradient = phix.hessian, phix.jacrev, phix.stop_gradient

    @staticmethod
    def to_float(x: Any, like: Any) -> Any:
        return ops.cast(x, like.dtype)

    @staticmethod
    def clip(x: Any, low: float, high: float) -> Any:
        return ops.clip(x, low, high)

    @staticmethod
    def hardtanh(x: Any) -> Any:
        return ops.hardtanh(x, -1.0, 1.0)

    @staticmethod
    def sum(x: Any, axis: Any = (), keep: bool = False) -> Any:
        return ops.sum(x, axis, keepdim=keep)

    @staticmethod
    def mean(x: Any, axis: Any = (), keep: bool = False) -> Any:
        return ops.mean(x, axis, keepdim=keep)

    @staticmethod
    def max(x: Any, axis: Any = (), keep: bool = False) -> Any:
        return ops.max(x, axis, keepdim=keep)

    @staticmethod
    def min(x: Any, axis: Any = (), keep: bool = False) -> Any:
        return ops.min(x, axis, keepdim=keep)

    @staticmethod
    def prod(x: Any, axis: Any = (), keep: bool = False) -> Any:
        return ops.prod(x, axis, keepdim=keep)

    @staticmethod
    def var(x: Any, axis: Any, keep: bool = False) -> Any:
        return ops.var(x, axis, keepdim=keep, unbiased=False)

    @staticmethod
    def logsumexp(x: Any, axis: Any, keep: bool = False) -> Any:
        return ops.logsumexp(x, axis, keepdim=keep)

    @staticmethod
    def argmax(x: Any, axis: int) -> Any:
        return ops.argmax(x, axis)

    @staticmethod
    def cumsum(x: Any, axis: int, reverse: bool = False) -> Any:
        return ops.cumsum(x, axis, reverse=reverse)

    @staticmethod
    def sort(x: Any, axis: int) -> Any:
        return ops.sort(x, axis)

    @staticmethod
    def softmax(x: Any, axis: int = -1) -> Any:
        return ops.softmax(x, axis)

    @staticmethod
    def log_softmax(x: Any, axis: int = -1) -> Any:
        return ops.log_softmax(x, axis)

    @staticmethod
    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        return ops.layer_norm(x, scale, bias, EPSILON, x.ndim - 1)

    @staticmethod
    def rms_norm(x: Any, scale: Any) -> Any:
        return F.rms_norm(x, x.shape[-1], scale, EPSILON)[0]

    @staticmethod
    def batch_norm(x: Any, scale: Any, bias: Any) -> Any:
        zeros = ops.full_like(scale, 0.0)
        return ops.batch_norm(x, zeros, zeros + 1.0, scale, bias, False, 0.9, EPSILON)[0]

    @staticmethod
    def group_norm(x: Any, scale: Any, bias: Any, groups: int) -> Any:
        return ops.group_norm(x, scale, bias, EPSILON, groups)

    @staticmethod
    def instance_norm(x: Any, scale: Any, bias: Any) -> Any:
        return ops.instance_norm(x, scale, bias, EPSILON)

    @staticmethod
    def linear(x: Any, w: Any, b: Any) -> Any:
        return F.linear(x, w, b)

    @staticmethod
    def embedding(ids: Any, table: Any) -> Any:
        return F.embedding(ids, table)

    @staticmethod
    def take(x: Any, rows: Any) -> Any:
        return x[rows]

    @staticmethod
    def add_at(x: Any, rows: Any, values: Any) -> Any:
        return x.at[rows].add(values)

    @staticmethod
    def set_at(x: Any, rows: Any, values: Any) -> Any:
        return x.at[rows].set(values)

    @staticmethod
    def pick(x: Any, at: Any) -> Any:
        """One entry a row of the last axis."""
        return ops.squeeze(ops.take_along_axis(x, ops.unsqueeze(at, [-1]), x.ndim - 1), [-1])

    @staticmethod
    def roll(x: Any, shift: int, axis: int) -> Any:
        return ops.roll(x, [shift], [axis])

    @staticmethod
    def pad(x: Any, widths: Sequence[tuple[int, int]]) -> Any:
        return ops.pad(x, [w for pair in widths for w in pair], 0.0)

    @staticmethod
    def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        """[n, t, heads, size] each."""
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    @staticmethod
    def conv2d(x: Any, w: Any, b: Any, stride: int, padding: int, groups: int = 1) -> Any:
        return F.conv2d(x, w, b, stride, padding, groups=groups)

    @staticmethod
    def conv2d_transpose(x: Any, w: Any, stride: int) -> Any:
        return F.conv2d_transpose(x, w, None, stride)

    @staticmethod
    def max_pool(x: Any, size: int, stride: int) -> Any:
        return F.max_pool2d(x, size, stride)

    @staticmethod
    def avg_pool(x: Any, size: int, stride: int) -> Any:
        return F.avg_pool2d(x, size, stride)

    @staticmethod
    def cross_entropy(x: Any, label: Any) -> Any:
        return F.cross_entropy(x, label)

    @staticmethod
    def bce_logits(x: Any, y: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x, y)

    @staticmethod
    def smooth_l1(x: Any, y: Any) -> Any:
        return F.smooth_l1_loss(x, y)

    @staticmethod
    def bernoulli(seed: int, shape: Any, like: Any) -> Any:
        return ops.cast(phix.random.bernoulli(phix.random.key(seed), 0.7, shape), like.dtype)

    @staticmethod
    def index_zero() -> Any:
        """What loops count from."""
        return phix.zeros([], "int64")

    scan = staticmethod(lambda f, init, xs, length=None: phix.scan(f, init, xs, length=length))
    fori = staticmethod(phix.fori_loop)
    while_loop = staticmethod(phix.while_loop)
    cond = staticmethod(phix.cond)
    zeros = staticmethod(lambda shape, like: ops.full(shape, 0.0, like.dtype))

    @staticmethod
    def jit(f: Function) -> Function:
        return phix.jit(f)

    @staticmethod
    def checkpoint(f: Function) -> Function:
        return phix.checkpoint(f)

    @staticmethod
    def jvp(f: Function, primals: Any, tangents: Any) -> Any:
        return phix.jvp(f, primals, tangents)

    @staticmethod
    def vjp(f: Function, primals: Any, cotangent: Function) -> Any:
        """``cotangent`` makes it of the outputs."""
        out, pull = phix.vjp(f, *primals)
        return pull(pytrees.map(cotangent, out))

    @staticmethod
    def directional(f: Function, primal: Any, tangent: Any, order: int) -> list[Any]:
        """The derivatives along a line, of trees of one structure."""
        flat, tree = pytrees.flatten(primal)
        rows = [[t] + [ops.full_like(t, 0.0)] * (order - 1) for t in pytrees.leaves(tangent)]
        value, series = phix.jet(lambda *x: f(pytrees.unflatten(tree, x)), tuple(flat), tuple(rows))
        return [value, *series]

    @staticmethod
    def linearized(f: Function, primals: Any, tangents: Any) -> Any:
        out, push = phix.linearize(f, *primals)
        return out, push(*tangents)

    @staticmethod
    def column_derivatives(f: Function, x: Any, column: int, order: int, way: str) -> list[Any]:
        """f, and its derivatives by one column of x up to an order; rows are independent.

        ``f`` maps [n, k] to [n, m]; ``way`` says by which transformations.
        """
        direction = ops.full_like(x, 0.0).at[:, column].set(1.0)
        if way == "jet":
            rows = [direction] + [ops.full_like(x, 0.0)] * (order - 1)
            value, series = phix.jet(f, (x,), (rows,))
            return [value, *series]
        if way == "jvp":
            functions = [f]
            for _ in range(order):
                g = functions[-1]
                functions.append(lambda y, g=g: phix.jvp(g, (y,), (direction,))[1])
            return [g(x) for g in functions]
        values = [f(x)]  # reverse mode, for one output
        below: Function = lambda y: f(y)[:, 0]  # noqa: E731
        for _ in range(order):
            g = below
            below = lambda y, g=g: phix.grad(lambda z: ops.sum(g(z)))(y)[:, column]  # noqa: E731
            values.append(ops.unsqueeze(below(x), [1]))
        return values


class Numpy:
    """Models in NumPy, in whatever precision its arrays have."""

    name = "numpy"
    xp: Any = np

    def __getattr__(self, name: str) -> Any:
        return getattr(self.xp, name)

    def to_float(self, x: Any, like: Any) -> Any:
        return self.xp.asarray(x).astype(like.dtype)

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def conj(self, x: Any) -> Any:
        return self.xp.conj(x)

    def erf(self, x: Any) -> Any:
        return special.erf(np.asarray(x, np.float64)).astype(x.dtype)

    def relu(self, x: Any) -> Any:
        return self.xp.maximum(x, 0)

    def relu6(self, x: Any) -> Any:
        return self.xp.clip(x, 0, 6)

    def hardtanh(self, x: Any) -> Any:
        return self.xp.clip(x, -1, 1)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + self.erf(x / math.sqrt(2)))

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + self.xp.exp(-x))

    def silu(self, x: Any) -> Any:
        return x * self.sigmoid(x)

    def softplus(self, x: Any) -> Any:
        return self.xp.logaddexp(x, 0 * x)

    def logsigmoid(self, x: Any) -> Any:
        return -self.softplus(-x)

    def softsign(self, x: Any) -> Any:
        return x / (1 + self.xp.abs(x))

    def elu(self, x: Any) -> Any:
        return self.xp.where(x > 0, x, self.xp.expm1(self.xp.minimum(x, 0)))

    def leaky_relu(self, x: Any) -> Any:
        return self.xp.where(x > 0, x, 0.02 * x)

    def hardswish(self, x: Any) -> Any:
        return x * self.xp.clip(x + 3, 0, 6) / 6

    def rsqrt(self, x: Any) -> Any:
        return 1 / self.xp.sqrt(x)

    def atan(self, x: Any) -> Any:
        return self.xp.arctan(x)

    def reciprocal(self, x: Any) -> Any:
        return 1 / x

    def concat(self, xs: Any, axis: int) -> Any:
        return self.xp.concatenate(xs, axis)

    def einsum(self, xs: Any, equation: str) -> Any:
        return self.xp.einsum(equation, *xs)

    def _over(self, name: str, x: Any, axis: Any, keep: bool) -> Any:
        axis = None if axis == () else tuple(axis) if isinstance(axis, list) else axis
        return getattr(self.xp, name)(x, axis=axis, keepdims=keep)

    def sum(self, x: Any, axis: Any = (), keep: bool = False) -> Any:
        return self._over("sum", x, axis, keep)

    def mean(self, x: Any, axis: Any = (), keep: bool = False) -> Any:
        return self._over("mean", x, axis, keep)

    def max(self, x: Any, axis: Any = (), keep: bool = False) -> Any:
        return self._over("max", x, axis, keep)

    def min(self, x: Any, axis: Any = (), keep: bool = False) -> Any:
        return self._over("min", x, axis, keep)

    def prod(self, x: Any, axis: Any = (), keep: bool = False) -> Any:
        return self._over("prod", x, axis, keep)

    def var(self, x: Any, axis: Any, keep: bool = False) -> Any:
        return self._over("var", x, axis, keep)

    def logsumexp(self, x: Any, axis: Any, keep: bool = False) -> Any:
        top = self.xp.max(x, axis=axis, keepdims=True)
        out = self.xp.log(self.xp.sum(self.xp.exp(x - top), axis=axis, keepdims=True)) + top
        return out if keep else self.xp.squeeze(out, axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return self.xp.argmax(x, axis)

    def cumsum(self, x: Any, axis: int, reverse: bool = False) -> Any:
        if reverse:
            return self.xp.flip(self.xp.cumsum(self.xp.flip(x, axis), axis), axis)
        return self.xp.cumsum(x, axis)

    def flip(self, x: Any, axes: Any) -> Any:
        return self.xp.flip(x, tuple(axes))

    def sort(self, x: Any, axis: int) -> Any:
        return self.xp.sort(x, axis)

    def softmax(self, x: Any, axis: int = -1) -> Any:
        e = self.xp.exp(x - self.xp.max(x, axis=axis, keepdims=True))
        return e / self.xp.sum(e, axis=axis, keepdims=True)

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        return x - self.logsumexp(x, axis, True)

    def _standard(self, x: Any, axes: Any) -> Any:
        centred = x - self.xp.mean(x, axis=axes, keepdims=True)
        return centred / self.xp.sqrt(self.xp.mean(centred**2, axis=axes, keepdims=True) + EPSILON)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return self._standard(x, (-1,)) * scale + bias

    def rms_norm(self, x: Any, scale: Any) -> Any:
        return x / self.xp.sqrt(self.xp.mean(x * x, axis=-1, keepdims=True) + EPSILON) * scale

    def _channels(self, x: Any, scale: Any) -> Any:
        return self.xp.reshape(scale, (-1,) + (1,) * (x.ndim - 2))

    def batch_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        done = self._standard(x, (0, *range(2, x.ndim)))
        return done * self._channels(x, scale) + self._channels(x, bias)

    def group_norm(self, x: Any, scale: Any, bias: Any, groups: int) -> Any:
        split = self.xp.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
        done = self.xp.reshape(self._standard(split, tuple(range(2, split.ndim))), x.shape)
        return done * self._channels(x, scale) + self._channels(x, bias)

    def instance_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        done = self._standard(x, tuple(range(2, x.ndim)))
        return done * self._channels(x, scale) + self._channels(x, bias)

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    def embedding(self, ids: Any, table: Any) -> Any:
        return table[ids]

    def take(self, x: Any, rows: Any) -> Any:
        return x[rows]

    def add_at(self, x: Any, rows: Any, values: Any) -> Any:
        out = x.copy()
        np.add.at(out, rows, values)
        return out

    def set_at(self, x: Any, rows: Any, values: Any) -> Any:
        out = x.copy()
        out[rows] = values
        return out

    def pick(self, x: Any, at: Any) -> Any:
        return self.xp.take_along_axis(x, at[..., None], -1)[..., 0]

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return self.xp.roll(x, shift, axis)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = self.xp.einsum("nqhd,nkhd->nhqk", q, k) / math.sqrt(q.shape[-1])
        if causal:
            seen = np.arange(k.shape[1])[None] <= np.arange(q.shape[1])[:, None]
            scores = self.xp.where(seen, scores, -1e30)
        return self.xp.einsum("nhqk,nkhd->nqhd", self.softmax(scores), v)

    def _taps(self, x: Any, size: tuple[int, int], stride: int) -> list[list[Any]]:
        """x as each tap of a window sees it."""
        high, wide = x.shape[2] - size[0], x.shape[3] - size[1]
        return [
            [x[:, :, i : i + high + 1 : stride, j : j + wide + 1 : stride] for j in range(size[1])]
            for i in range(size[0])
        ]

    def conv2d(self, x: Any, w: Any, b: Any, stride: int, padding: int, groups: int = 1) -> Any:
        x = self.xp.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        taps = self._taps(x, w.shape[2:], stride)
        n, m = x.shape[1] // groups, w.shape[0] // groups
        parts = []
        for g in range(groups):
            total: Any = 0
            for i in range(w.shape[2]):
                for j in range(w.shape[3]):
                    seen = taps[i][j][:, g * n : (g + 1) * n]
                    weight = w[g * m : (g + 1) * m, :, i, j]
                    total = total + self.xp.einsum("nchw,oc->nohw", seen, weight)
            parts.append(total)
        return self.xp.concatenate(parts, 1) + self.xp.reshape(b, (-1, 1, 1))

    def conv2d_transpose(self, x: Any, w: Any, stride: int) -> Any:
        """Each value puts its filter, scaled, where it stands; w is [in, out, kh, kw]."""
        kh, kw = w.shape[2:]
        high, wide = (x.shape[2] - 1) * stride + kh, (x.shape[3] - 1) * stride + kw
        total: Any = 0
        for i in range(x.shape[2]):
            for j in range(x.shape[3]):
                part = self.xp.einsum("nc,cohw->nohw", x[:, :, i, j], w)
                at, to = i * stride, j * stride
                widths = ((0, 0), (0, 0), (at, high - at - kh), (to, wide - to - kw))
                total = total + self.xp.pad(part, widths)
        return total

    def max_pool(self, x: Any, size: int, stride: int) -> Any:
        taps = [t for row in self._taps(x, (size, size), stride) for t in row]
        return self.xp.max(self.xp.stack(taps), axis=0)

    def avg_pool(self, x: Any, size: int, stride: int) -> Any:
        taps = [t for row in self._taps(x, (size, size), stride) for t in row]
        return sum(taps) / len(taps)

    def cross_entropy(self, x: Any, label: Any) -> Any:
        return -self.xp.mean(self.pick(self.log_softmax(x), label))

    def bce_logits(self, x: Any, y: Any) -> Any:
        return self.xp.mean(self.softplus(x) - x * y)

    def smooth_l1(self, x: Any, y: Any) -> Any:
        off = self.xp.abs(x - y)
        return self.xp.mean(self.xp.where(off < 1, 0.5 * off * off, off - 0.5))

    def bernoulli(self, seed: int, shape: Any, like: Any) -> Any:
        """The mask that phix draws: it is data to a model."""
        drawn = np.asarray(phix.random.bernoulli(phix.random.key(seed), 0.7, list(shape)))
        return self.xp.asarray(drawn.astype(like.dtype))

    def index_zero(self) -> Any:
        return self.xp.zeros((), np.int64)

    def zeros(self, shape: Any, like: Any) -> Any:
        return self.xp.zeros(tuple(shape), like.dtype)

    def scan(self, f: Function, init: Any, xs: Any, length: int | None = None) -> Any:
        steps = length if xs is None else pytrees.leaves(xs)[0].shape[0]
        carry, rows = init, []
        for i in builtins.range(steps):
            row = None if xs is None else pytrees.map(lambda x, i=i: x[i], xs)
            carry, y = f(carry, row)
            rows.append(y)
        return carry, pytrees.map(lambda *parts: self.xp.stack(parts), *rows)

    def fori(self, low: int, high: int, f: Function, value: Any) -> Any:
        for i in builtins.range(int(low), int(high)):
            value = f(i, value)
        return value

    def while_loop(self, more: Function, f: Function, value: Any) -> Any:
        while bool(more(value)):
            value = f(value)
        return value

    def cond(self, pred: Any, f: Function, g: Function, *operands: Any) -> Any:
        return f(*operands) if bool(pred) else g(*operands)

    @staticmethod
    def jit(f: Function) -> Function:
        return f

    checkpoint = jit

    @staticmethod
    def stop_gradient(x: Any) -> Any:
        """Differences would go through it: models that stop gradients have no such reference."""
        raise NotImplementedError

    grad = value_and_grad = vmap = hessian = jacrev = jvp = vjp = linearized = directional = None

    def column_derivatives(self, f: Function, x: Any, column: int, order: int, way: str) -> Any:
        """Central differences of an even polynomial's precision, in extended precision."""
        h = 2.0**-6
        reach = 5
        points = np.arange(-reach, reach + 1)
        values = []
        for k in points:
            moved = x.astype(np.longdouble)  # fourth differences in float64 keep eight digits
            moved[:, column] += k * h
            values.append(f(moved))
        powers = np.vander(points.astype(np.longdouble), increasing=True).T
        out = [f(x)]
        for n in builtins.range(1, order + 1):
            wanted = np.zeros(len(points), np.longdouble)
            wanted[n] = math.factorial(n)
            weights = np.zeros_like(wanted)
            for _ in builtins.range(3):  # solved in float64, and what that leaves
                left = (wanted - powers @ weights).astype(float)
                weights += np.linalg.solve(powers.astype(float), left)
            out.append(sum(w * v for w, v in zip(weights, values)) / h**n)
        return out


def jax_backend() -> Any:
    """Models in JAX, or None where it is not installed."""
    try:
        import jax
    except ImportError:
        return None
    from tests.networks.jax_backend import Jax

    jax.config.update("jax_enable_x64", True)
    return Jax()
