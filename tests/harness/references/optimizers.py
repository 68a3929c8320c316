"""One step of each optimizer as it is defined: weights and state in, new ones out.

A master copy of the weights, where there is one, stands for the weights; what comes out for them is
then given twice, else None stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def _held(param: Array, master: Array | None) -> Array:
    return param if master is None else master


def _both(new: Array, master: Array | None) -> tuple[Array, Array | None]:
    return new, None if master is None else new


def _given(*outputs: Any) -> tuple[Any, ...]:
    """The outputs that are not absent."""
    return tuple(out for out in outputs if out is not None)


def sgd(param: Array, lr: Array, grad: Array, master: Array | None) -> Any:
    return _given(*_both(_held(param, master) - lr * grad, master))


def momentum(
    param: Array, grad: Array, velocity: Array, lr: Array, master: Array | None, mu: float,
    nesterov: bool, method: str, coeff: float, rescale: float,
) -> Any:  # fmt: skip
    p = _held(param, master)
    g = grad * rescale + (coeff * p if method == "l2_decay" else 0)
    v = mu * velocity + g
    new, copy = _both(p - lr * (g + mu * v if nesterov else v), master)
    return _given(new, v, copy)


def asgd(
    param: Array, grad: Array, lr: Array, d: Array, y: Array, n: Array, master: Array | None
) -> Any:
    total = d - y + grad
    new, copy = _both(_held(param, master) - lr / n * total, master)
    return _given(new, total, grad, copy)


def rprop(
    param: Array, grad: Array, prev: Array, lr: Array, master: Array | None, bounds: Array,
    etas: Array,
) -> Any:  # fmt: skip
    sign = np.sign(grad * prev)
    g = np.where(sign < 0, 0, grad)
    rate = np.clip(lr * np.choose(sign.astype(int) + 1, [etas[0], 1.0, etas[1]]), *bounds)
    new, copy = _both(_held(param, master) - np.sign(g) * rate, master)
    return _given(new, g, rate, copy)


def adagrad(
    param: Array, grad: Array, moment: Array, lr: Array, master: Array | None, epsilon: float
) -> Any:
    m = moment + grad**2
    new, copy = _both(_held(param, master) - lr * grad / (np.sqrt(m) + epsilon), master)
    return _given(new, m, copy)


def decayed_adagrad(
    param: Array, grad: Array, moment: Array, lr: Array, decay: float, epsilon: float
) -> Any:
    m = decay * moment + (1 - decay) * grad**2
    return param - lr * grad / (np.sqrt(m) + epsilon), m


def adadelta(
    param: Array, grad: Array, grads: Array, updates: Array, lr: Array, master: Array | None,
    rho: float, epsilon: float,
) -> Any:  # fmt: skip
    grads = rho * grads + (1 - rho) * grad**2
    step = -np.sqrt(updates + epsilon) / np.sqrt(grads + epsilon) * grad
    new, copy = _both(_held(param, master) + lr * step, master)
    return _given(new, grads, rho * updates + (1 - rho) * step**2, copy)


def rmsprop(
    param: Array, square: Array, grad: Array, moment: Array, lr: Array, mean: Array | None,
    master: Array | None, epsilon: float, decay: float, momentum: float, centered: bool,
) -> Any:  # fmt: skip
    square = decay * square + (1 - decay) * grad**2
    if centered:
        mean = decay * mean + (1 - decay) * grad
    spread = square - (mean**2 if centered else 0)
    step = momentum * moment + lr * grad / np.sqrt(spread + epsilon)
    new, copy = _both(_held(param, master) - step, master)
    return _given(new, step, square, mean, copy)


def ftrl(
    param: Array, squares: Array, linear: Array, grad: Array, lr: Array, l1: float, l2: float,
    power: float,
) -> Any:  # fmt: skip
    new = squares + grad**2
    linear = linear + grad - (new**-power - squares**-power) / lr * param
    shrunk = (l1 * np.sign(linear) - linear) / (new**-power / lr + 2 * l2)
    return np.where(np.abs(linear) > l1, shrunk, 0), new, linear


def average_accumulates(
    param: Array, first: Array, second: Array, third: Array, count: Array, old: Array,
    updates: Array, window: float, most: int, least: int,
) -> Any:  # fmt: skip
    first, count, updates = first + param, count + 1, updates + 1
    if updates.item() % 16384 == 0:
        first, second = first * 0, second + first
    if count.item() >= least and count.item() >= min(most, int(updates.item() * window)):
        first, second, third = first * 0, second * 0, first + second
        count, old = count * 0, count
    return first, second, third, count, old, updates


def update_loss_scaling(
    x: list[Array], found: Array, scaling: Array, good: Array, bad: Array, every: int,
    every_bad: int, grow: float, shrink: float, stop: bool,
) -> Any:  # fmt: skip
    outs = [v * 0 if found.item() else v for v in x]
    if stop:
        return outs, scaling, good, bad
    if found.item():
        good, bad = good * 0, bad + 1
        if bad.item() == every_bad:
            scaling, bad = np.maximum(scaling * shrink, 1), bad * 0
    else:
        good, bad = good + 1, bad * 0
        if good.item() == every:
            scaling, good = scaling * grow, good * 0
    return outs, scaling, good, bad


def adam(
    param: Array, grad: Array, lr: Array, m: Array, v: Array, largest: Array | None, power1: Array,
    power2: Array, master: Array | None, skip: Array | None, beta1: float, beta2: float,
    epsilon: float, keep_powers: bool, amsgrad: bool, decay: float = 0,
) -> Any:  # fmt: skip
    if skip is not None and skip.item():
        return _given(param, m, v, largest, power1, power2, master)
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    if amsgrad:
        largest = np.maximum(v, largest)
    used = largest if amsgrad else v
    mean, square = m / (1 - power1), used / (1 - power2)
    new, copy = _both(
        _held(param, master) * (1 - lr * decay) - lr * mean / (np.sqrt(square) + epsilon), master
    )
    if not keep_powers:
        power1, power2 = power1 * beta1, power2 * beta2
    return _given(new, m, v, largest, power1, power2, copy)


def adamax(
    param: Array, grad: Array, lr: Array, m: Array, norm: Array, power1: Array,
    master: Array | None, beta1: float, beta2: float, epsilon: float,
) -> Any:  # fmt: skip
    m = beta1 * m + (1 - beta1) * grad
    norm = np.maximum(np.abs(grad), beta2 * norm + epsilon)
    new, copy = _both(_held(param, master) - lr / (1 - power1) * m / norm, master)
    return _given(new, m, norm, copy)


def lamb(
    param: Array, grad: Array, lr: Array, m: Array, v: Array, power1: Array, power2: Array,
    master: Array | None, skip: Array | None, decay: float, beta1: float, beta2: float,
    epsilon: float, always: bool,
) -> Any:  # fmt: skip
    p = _held(param, master)
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    step = m / (1 - power1) / (np.sqrt(v / (1 - power2)) + epsilon) + decay * p
    norms = np.linalg.norm(p), np.linalg.norm(step)
    ratio = norms[0] / norms[1] if (decay > 0 or always) and min(norms) > 0 else 1
    new, copy = _both(p - lr * ratio * step, master)
    return _given(new, m, v, power1 * beta1, power2 * beta2, copy)


def nadam(
    param: Array, grad: Array, lr: Array, decayed: Array, power2: Array, product: Array, m: Array,
    v: Array, master: Array | None, beta1: float, beta2: float, epsilon: float, decay: float,
) -> Any:  # fmt: skip
    decayed, power2 = decayed * 0.96, power2 * beta2
    mu = beta1 * (1 - 0.5 * decayed**decay)
    mu_next = beta1 * (1 - 0.5 * (decayed * 0.96) ** decay)
    product = product * mu
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    mean = mu_next * m / (1 - product * mu_next) + (1 - mu) * grad / (1 - product)
    step = lr * mean / (np.sqrt(v / (1 - power2)) + epsilon)
    new, copy = _both(_held(param, master) - step, master)
    return _given(new, decayed, power2, product, m, v, copy)


def radam(
    param: Array, grad: Array, lr: Array, power1: Array, power2: Array, rho: Array, m: Array,
    v: Array, master: Array | None, beta1: float, beta2: float, epsilon: float,
) -> Any:  # fmt: skip
    power1, power2 = power1 * beta1, power2 * beta2
    rho = (rho * (beta2 - power2) + power2) / (1 - power2)
    most = 2 / (1 - beta2) - 1
    length = most - 2 * rho
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    step = m / (1 - power1)
    if length > 5:
        part = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        step = step * np.sqrt(part) * np.sqrt(1 - power2) / (np.sqrt(v) + epsilon)
    new, copy = _both(_held(param, master) - lr * step, master)
    return _given(new, power1, power2, rho, m, v, copy)


def each(step: Callable[..., Any], *args: Any, fixed: tuple[Any, ...]) -> Any:
    """The step for each entry of the lists among ``args``; what is no list is for all."""
    count = max(len(a) for a in args if isinstance(a, list))
    rows = [
        step(*(a[k % len(a)] if isinstance(a, list) else a for a in args), *fixed)
        for k in range(count)
    ]
    return tuple(list(column) for column in zip(*rows))
