"""``phix.optim``: numbers by NumPy and, where installed, optax; signatures; compiled steps."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    PhixError,
    ShapeError,
)

optim = phix.optim
pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(5)
PARAMS = {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)}
GRADS = [{n: RNG.normal(size=p.shape) for n, p in PARAMS.items()} for _ in range(5)]


def typed(tree: Any, dtype: Any = "float32") -> Any:
    return phix.tree.map(lambda x: phix.to_tensor(x, dtype), tree)


def run(tx: Any, dtype: Any = "float32", grads: Any = GRADS) -> Any:
    """The parameters after some steps, as float64 arrays."""
    params = typed(PARAMS, dtype)
    state = tx.init(params)
    for grad in grads:
        updates, state = tx.update(typed(grad, dtype), state, params)
        params = optim.apply_updates(params, updates)
    assert all(p.dtype == dtype for p in params.values())
    return {n: p.numpy().astype(np.float64) for n, p in params.items()}


# -- by NumPy --------------------------------------------------------------------------------------
Memory = dict[str, Any]


def np_sgd(p: Any, g: Any, s: Memory, n: int) -> Any:
    s["t"] = g + 0.9 * s.get("t", 0.0)
    return p - 0.1 * (g + 0.9 * s["t"])


def _adam(g: Any, s: Memory, n: int, b1: float = 0.9, b2: float = 0.999) -> tuple[Any, Any]:
    s["m"] = b1 * s.get("m", 0.0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0.0) + (1 - b2) * g * g
    return s["m"] / (1 - b1**n), s["v"] / (1 - b2**n)


def np_adam(p: Any, g: Any, s: Memory, n: int) -> Any:
    m, v = _adam(g, s, n)
    return p - 0.1 * m / (np.sqrt(v) + 1e-8)


def np_adamw(p: Any, g: Any, s: Memory, n: int) -> Any:
    m, v = _adam(g, s, n)
    return p - 0.1 * (m / (np.sqrt(v) + 1e-8) + 0.3 * p)


def np_nadam(p: Any, g: Any, s: Memory, n: int) -> Any:
    _, v = _adam(g, s, n)
    m = 0.9 * s["m"] / (1 - 0.9 ** (n + 1)) + 0.1 * g / (1 - 0.9**n)
    return p - 0.1 * m / (np.sqrt(v) + 1e-8)


def np_adamax(p: Any, g: Any, s: Memory, n: int) -> Any:
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["u"] = np.maximum(np.abs(g) + 1e-8, 0.999 * s.get("u", 0.0))
    return p - 0.1 * s["m"] / (1 - 0.9**n) / s["u"]


def np_radam(p: Any, g: Any, s: Memory, n: int) -> Any:
    m, v = _adam(g, s, n, 0.9, 0.9)
    t = 19 - 2 * n * 0.9**n / (1 - 0.9**n)
    if t < 5:
        return p - 0.1 * m
    part = (t - 4) * (t - 2) * 19 / (15 * 17 * t)
    return p - 0.1 * np.sqrt(part) * m / (np.sqrt(v) + 1e-8)


def np_lamb(p: Any, g: Any, s: Memory, n: int) -> Any:
    m, v = _adam(g, s, n)
    u = m / (np.sqrt(v) + 1e-6) + 0.3 * p
    return p - 0.1 * np.linalg.norm(p) / np.linalg.norm(u) * u


def np_lion(p: Any, g: Any, s: Memory, n: int) -> Any:
    m = s.get("m", 0.0)
    s["m"] = 0.99 * m + 0.01 * g
    return p - 0.1 * (np.sign(0.9 * m + 0.1 * g) + 1e-3 * p)


def np_adagrad(p: Any, g: Any, s: Memory, n: int) -> Any:
    s["s"] = s.get("s", 0.1) + g * g
    return p - 0.1 * g / np.sqrt(s["s"] + 1e-7)


def np_adadelta(p: Any, g: Any, s: Memory, n: int) -> Any:
    s["v"] = 0.9 * s.get("v", 0.0) + 0.1 * g * g
    u = np.sqrt(s.get("x", 0.0) + 1e-6) / np.sqrt(s["v"] + 1e-6) * g
    s["x"] = 0.9 * s.get("x", 0.0) + 0.1 * u * u
    return p - 10.0 * u


def np_rmsprop(p: Any, g: Any, s: Memory, n: int) -> Any:
    s["v"] = 0.9 * s.get("v", 0.0) + 0.1 * g * g
    s["t"] = -0.1 * g / np.sqrt(s["v"] + 1e-8) + 0.5 * s.get("t", 0.0)
    return p + s["t"]


def np_rmsprop_centered(p: Any, g: Any, s: Memory, n: int) -> Any:
    s["v"] = 0.9 * s.get("v", 0.0) + 0.1 * g * g
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    spread = np.maximum(s["v"] / (1 - 0.9**n) - (s["m"] / (1 - 0.9**n)) ** 2, 0.0)
    return p - 0.1 * g / (np.sqrt(spread) + 0.1)


def np_rprop(p: Any, g: Any, s: Memory, n: int) -> Any:
    same = np.sign(g) * np.sign(s.get("g", np.zeros_like(g)))
    size = s.get("size", np.full_like(g, 0.1)) * np.where(same > 0, 1.2, np.where(same < 0, 0.5, 1))
    s["g"], s["size"] = np.where(same < 0, 0.0, g), size
    return p - size * np.sign(s["g"])


def np_adafactor(p: Any, g: Any, s: Memory, n: int) -> Any:
    keep = 1 - n**-0.8
    squares = g * g + 1e-30
    if g.ndim < 2:
        s["v"] = keep * s.get("v", 0.0) + (1 - keep) * squares
        u = g / np.sqrt(s["v"])
    else:
        s["r"] = keep * s.get("r", 0.0) + (1 - keep) * squares.mean(1)
        s["c"] = keep * s.get("c", 0.0) + (1 - keep) * squares.mean(0)
        u = g * np.sqrt(s["r"].mean()) / np.sqrt(np.outer(s["r"], s["c"]))
    u = u / max(1.0, np.sqrt(np.mean(u * u)))
    return p - 0.1 * u * max(1e-3, np.sqrt(np.mean(p * p)))


CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "sgd": (lambda: optim.sgd(0.1, 0.9, nesterov=True), np_sgd),
    "adam": (lambda: optim.adam(0.1), np_adam),
    "adamw": (lambda: optim.adamw(0.1, weight_decay=0.3), np_adamw),
    "nadam": (lambda: optim.nadam(0.1), np_nadam),
    "adamax": (lambda: optim.adamax(0.1), np_adamax),
    "radam": (lambda: optim.radam(0.1, b2=0.9), np_radam),
    "lamb": (lambda: optim.lamb(0.1, weight_decay=0.3), np_lamb),
    "lion": (lambda: optim.lion(0.1), np_lion),
    "adagrad": (lambda: optim.adagrad(0.1), np_adagrad),
    "adadelta": (lambda: optim.adadelta(10.0), np_adadelta),
    "rmsprop": (lambda: optim.rmsprop(0.1, momentum=0.5), np_rmsprop),
    "centered": (
        lambda: optim.rmsprop(0.1, eps=0.1, eps_in_sqrt=False, centered=True,
                              bias_correction=True), np_rmsprop_centered),
    "rprop": (lambda: optim.rprop(0.1), np_rprop),
    "adafactor": (lambda: optim.adafactor(0.1, min_dim_size_to_factor=2), np_adafactor),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_the_definition(name: str) -> None:
    make, step = CASES[name]
    memory: dict[str, Memory] = {n: {} for n in PARAMS}
    expected, grads = dict(PARAMS), GRADS * 2
    for n, grad in enumerate(grads, 1):
        expected = {k: step(p, grad[k], memory[k], n) for k, p in expected.items()}
    found = run(make(), "float64", grads)
    for k, value in expected.items():
        np.testing.assert_allclose(found[k], value, rtol=2e-6, atol=1e-7, err_msg=k)


# -- beside optax ----------------------------------------------------------------------------------
def optax_run(optax: Any, tx: Any, dtype: str) -> Any:
    import jax
    import jax.numpy as jnp

    params = jax.tree.map(lambda x: jnp.asarray(x, dtype), PARAMS)
    state = tx.init(params)
    step = jax.jit(tx.update)
    for grad in GRADS:
        grad = jax.tree.map(lambda x: jnp.asarray(x, dtype), grad)
        updates, state = step(grad, state, params)
        params = optax.apply_updates(params, updates)
    return {n: np.asarray(p).astype(np.float64) for n, p in params.items()}


MASK = {"w": True, "b": False}
BESIDE: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda o: o.sgd(o.linear_schedule(0.3, 0.0, 7), 0.9),
    "adam": lambda o: o.adam(0.1, eps_root=1e-3, mu_dtype="float32"),
    "nadamw": lambda o: o.nadamw(0.1, weight_decay=0.1, mask=MASK),
    "adamaxw": lambda o: o.adamaxw(0.1, weight_decay=0.1, mask=lambda p: MASK),
    "radam": lambda o: o.radam(0.1, b2=0.7, nesterov=True),
    "lamb": lambda o: o.lamb(0.1, weight_decay=0.1),
    "lion": lambda o: o.lion(0.1),
    "adagrad": lambda o: o.adagrad(0.1),
    "adadelta": lambda o: o.adadelta(1.0, weight_decay=0.1),
    "rmsprop": lambda o: o.rmsprop(0.1, momentum=0.9, nesterov=True, bias_correction=True),
    "centered": lambda o: o.rmsprop(0.1, eps=1e-2, centered=True),
    "adafactor": lambda o: o.adafactor(
        0.1, min_dim_size_to_factor=2, momentum=0.9, weight_decay_rate=0.1),
    "clipped": lambda o: o.chain(o.clip(1.0), o.clip_by_global_norm(1.0), o.clip_by_block_rms(0.3),
                                 o.adaptive_grad_clip(0.1), o.scale(-1.0)),
    "ema": lambda o: o.chain(o.ema(0.9), o.scale_by_learning_rate(0.1)),
    "labels": lambda o: o.multi_transform({"a": o.adam(0.1), "s": o.sgd(0.1)},
                                          {"w": "a", "b": "s"}),
    "frozen": lambda o: o.chain(o.adam(0.1), o.masked(o.set_to_zero(), MASK)),
    "injected": lambda o: o.inject_hyperparams(o.adam)(o.linear_schedule(0.3, 0.0, 7), eps=1e-3),
    "injected counts": lambda o: o.inject_hyperparams(
        o.adafactor, static_args=("min_dim_size_to_factor", "decay_offset"))(0.1),
    "grouped": lambda o: o.MultiSteps(o.adam(0.1), 2),
    "finite": lambda o: o.apply_if_finite(o.adam(0.1), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_numbers_are_those_of_optax(name: str) -> None:
    optax = pytest.importorskip("optax")
    make = BESIDE[name]
    for dtype, bound in (("float32", 3e-5), ("bfloat16", 0.05)):
        if dtype == "bfloat16" and name not in ("adam", "sgd", "lamb"):
            continue
        ours, theirs = run(make(optim), dtype), optax_run(optax, make(optax), dtype)
        for k in PARAMS:
            np.testing.assert_allclose(ours[k], theirs[k], rtol=bound, atol=bound, err_msg=k)


@pytest.mark.parametrize("name", [
    "adam", "adamw", "nadam", "nadamw", "adamax", "radam", "lamb", "rmsprop", "adagrad",
    "adadelta", "adafactor",
])  # fmt: skip
def test_small_gradients_of_float16_have_squares(name: str) -> None:
    """1e-3 squared is a number of float16, a thousandth of that is 0; 1e-30 always is."""
    found = {}
    for dtype in ("float16", "float32"):
        params = {"w": phix.ones([128, 128], dtype), "b": phix.ones([3], dtype)}
        slopes = phix.tree.map(lambda p: phix.full_like(p, 1e-3), params)
        optimizer = getattr(optim, name)(0.5)
        state = optimizer.init(params)
        for _ in range(9):
            updates, state = optimizer.update(slopes, state, params)
        assert updates["w"].dtype == dtype
        found[dtype] = np.stack([updates["w"].numpy()[0, :3], updates["b"].numpy()])
    np.testing.assert_allclose(found["float16"], found["float32"], rtol=0.01)


# name: its arguments, with defaults where there are any
SIGNATURES: dict[str, str] = {
    "sgd": "learning_rate momentum=None nesterov=False accumulator_dtype=None",
    "adam": "learning_rate b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 mu_dtype=None nesterov=False",
    "nadam": "learning_rate b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 mu_dtype=None nesterov=True",
    "adamw": "learning_rate b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 mu_dtype=None "
             "weight_decay=0.0001 mask=None nesterov=False",
    "nadamw": "learning_rate b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 mu_dtype=None "
              "weight_decay=0.0001 mask=None nesterov=True",
    "adamax": "learning_rate b1=0.9 b2=0.999 eps=1e-08",
    "adamaxw": "learning_rate b1=0.9 b2=0.999 eps=1e-08 weight_decay=0.0001 mask=None",
    "radam": "learning_rate b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 threshold=5.0 nesterov=False",
    "lamb": "learning_rate b1=0.9 b2=0.999 eps=1e-06 eps_root=0.0 weight_decay=0.0 mask=None",
    "lion": "learning_rate b1=0.9 b2=0.99 mu_dtype=None weight_decay=0.001 mask=None",
    "adagrad": "learning_rate initial_accumulator_value=0.1 eps=1e-07",
    "adadelta": "learning_rate=None rho=0.9 eps=1e-06 weight_decay=0.0 weight_decay_mask=None",
    "rmsprop": "learning_rate decay=0.9 eps=1e-08 initial_scale=0.0 eps_in_sqrt=True "
               "centered=False momentum=None nesterov=False bias_correction=False",
    "rprop": "learning_rate eta_minus=0.5 eta_plus=1.2 min_step_size=1e-06 max_step_size=50.0",
    "adafactor": "learning_rate=None min_dim_size_to_factor=128 decay_rate=0.8 decay_offset=0 "
                 "multiply_by_parameter_scale=True clipping_threshold=1.0 momentum=None "
                 "dtype_momentum=float32 weight_decay_rate=None eps=1e-30 factored=True "
                 "weight_decay_mask=None",
    "lbfgs": "learning_rate=None memory_size=10 scale_init_precond=True",
    "scale_by_lbfgs": "memory_size=10 scale_init_precond=True",
    "scale_by_zoom_linesearch":
        "max_linesearch_steps max_learning_rate=None tol=0.0 increase_factor=2.0 slope_rtol=0.0001 "
        "curv_rtol=0.9 approx_dec_rtol=1e-06 stepsize_precision=1e-05 initial_guess_strategy=keep",
    "value_and_grad_from_state": "value_fn",
    "scale": "step_size", "identity": "", "set_to_zero": "", "clip": "max_delta",
    "scale_by_schedule": "step_size_fn",
    "scale_by_learning_rate": "learning_rate=None flip_sign=True",
    "scale_by_adam": "b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 mu_dtype=None nesterov=False",
    "scale_by_adamax": "b1=0.9 b2=0.999 eps=1e-08",
    "scale_by_radam": "b1=0.9 b2=0.999 eps=1e-08 eps_root=0.0 threshold=5.0 nesterov=False",
    "scale_by_lion": "b1=0.9 b2=0.99 mu_dtype=None",
    "scale_by_rms": "decay=0.9 eps=1e-08 initial_scale=0.0 eps_in_sqrt=True bias_correction=False",
    "scale_by_stddev":
        "decay=0.9 eps=1e-08 initial_scale=0.0 eps_in_sqrt=True bias_correction=False",
    "scale_by_rss": "initial_accumulator_value=0.1 eps=1e-07",
    "scale_by_adadelta": "rho=0.9 eps=1e-06",
    "scale_by_rprop":
        "learning_rate eta_minus=0.5 eta_plus=1.2 min_step_size=1e-06 max_step_size=50.0",
    "scale_by_trust_ratio": "min_norm=0.0 trust_coefficient=1.0 eps=0.0",
    "scale_by_factored_rms":
        "factored=True decay_rate=0.8 step_offset=0 min_dim_size_to_factor=128 epsilon=1e-30",
    "scale_by_param_block_rms": "min_scale=0.001",
    "trace": "decay nesterov=False accumulator_dtype=None",
    "ema": "decay debias=True accumulator_dtype=None",
    "clip_by_global_norm": "max_norm", "clip_by_block_rms": "threshold",
    "adaptive_grad_clip": "clipping eps=0.001 axis=None",
    "add_decayed_weights": "weight_decay=0.0 mask=None",
    "masked": "inner mask", "multi_transform": "transforms param_labels",
    "apply_if_finite": "inner max_consecutive_errors",
    "inject_hyperparams": "inner_factory static_args=() hyperparam_dtype=None",
    "MultiSteps": "opt every_k_schedule use_grad_mean=True accumulator_dtype=float32",
    "apply_updates": "params updates", "global_norm": "updates", "chain": "args",
    "incremental_update": "new_tensors old_tensors step_size",
    "constant_schedule": "value",
    "linear_schedule": "init_value end_value transition_steps transition_begin=0",
    "polynomial_schedule": "init_value end_value power transition_steps transition_begin=0",
    "cosine_decay_schedule": "init_value decay_steps alpha=0.0 exponent=1.0",
    "exponential_decay": "init_value transition_steps decay_rate transition_begin=0 "
                         "staircase=False end_value=None",
    "piecewise_constant_schedule": "init_value boundaries_and_scales=None",
    "piecewise_interpolate_schedule": "interpolate_type init_value boundaries_and_scales=None",
    "linear_onecycle_schedule": "transition_steps peak_value pct_start=0.3 pct_final=0.85 "
                                "div_factor=25.0 final_div_factor=10000.0",
    "cosine_onecycle_schedule": "transition_steps peak_value pct_start=0.3 div_factor=25.0 "
                                "final_div_factor=10000.0",
    "sgdr_schedule": "cosine_kwargs",
    "join_schedules": "schedules boundaries",
    "warmup_constant_schedule": "init_value peak_value warmup_steps",
    "warmup_cosine_decay_schedule":
        "init_value peak_value warmup_steps decay_steps end_value=0.0 exponent=1.0",
    "warmup_exponential_decay_schedule":
        "init_value peak_value warmup_steps transition_steps decay_rate transition_begin=0 "
        "staircase=False end_value=None",
    "with_extra_args_support": "tx",
}  # fmt: skip
# What optax has beside, all of it with defaults.
LEFT_OUT = {"mask_compatible_extra_args", "should_skip_update_fn", "mode", "smooth_beta",
            "decay_rate_fn", "linesearch", "verbose"}  # fmt: skip


def arguments(function: Any) -> str:
    def text(p: inspect.Parameter) -> str:
        default = getattr(p.default, "__name__", p.default)
        return p.name if p.default is p.empty else f"{p.name}={default}"

    parameters = inspect.signature(function).parameters.values()
    return " ".join(text(p) for p in parameters if p.name not in LEFT_OUT)


def test_signatures_are_those_of_optax() -> None:
    assert {n: arguments(getattr(optim, n)) for n in SIGNATURES} == SIGNATURES
    own = {"EmptyState", "GradientTransformation", "GradientTransformationExtraArgs", "partition",
           "dynamic_loss_scaling"}  # fmt: skip
    assert set(optim.__all__) - own == set(SIGNATURES)
    optax = pytest.importorskip("optax")
    assert {n: arguments(getattr(optax, n)) for n in SIGNATURES} == SIGNATURES


# -- schedules -------------------------------------------------------------------------------------
SCHEDULES: dict[str, tuple[Callable[[Any], Any], Callable[[int], float]]] = {
    "constant": (lambda o: o.constant_schedule(0.5), lambda n: 0.5),
    "linear": (lambda o: o.linear_schedule(1.0, 0.2, 4, 2),
               lambda n: 1 - 0.8 * min(max(n - 2, 0), 4) / 4),
    "polynomial": (lambda o: o.polynomial_schedule(1.0, 0.2, 2, 5),
                   lambda n: 0.8 * (1 - min(n, 5) / 5) ** 2 + 0.2),
    "cosine": (lambda o: o.cosine_decay_schedule(2.0, 6, 0.1, 2.0),
               lambda n: 2 * (0.9 * (0.5 * (1 + math.cos(math.pi * min(n, 6) / 6))) ** 2 + 0.1)),
    "warmup": (lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 3, 8, 0.2),
               lambda n: 0.1 + 0.3 * n if n < 3
               else 0.8 * 0.5 * (1 + math.cos(math.pi * min(n - 3, 5) / 5)) + 0.2),
    "exponential": (lambda o: o.exponential_decay(1.0, 3, 0.5, 1, True, 0.3),
                    lambda n: max(0.5 ** ((n - 1) // 3) if n > 1 else 1.0, 0.3)),
    "warmup exponential": (lambda o: o.warmup_exponential_decay_schedule(0.0, 1.0, 2, 2, 0.25),
                           lambda n: n / 2 if n < 2 else 0.5 ** (n - 2)),
    "piecewise": (lambda o: o.piecewise_constant_schedule(1.0, {3: 0.5, 6: 0.1}),
                  lambda n: 1.0 if n < 3 else 0.5 if n < 6 else 0.05),
    "joined": (lambda o: o.join_schedules([o.constant_schedule(1.0), o.linear_schedule(1.0, 0.0, 3),
                                           o.constant_schedule(7.0)], [2, 6]),
               lambda n: 1.0 if n < 2 else max(1 - (n - 2) / 3, 0.0) if n < 6 else 7.0),
    "degenerate": (lambda o: o.linear_schedule(0.5, 1.0, 0), lambda n: 0.5),
    "interpolated": (lambda o: o.piecewise_interpolate_schedule("linear", 2.0, {3: 0.5, 7: 4.0}),
                     lambda n: np.interp(n, [0, 3, 7], [2.0, 1.0, 4.0])),
    "interpolated from 0": (lambda o: o.piecewise_interpolate_schedule("cosine", 2.0, {0: 0.5}),
                            lambda n: 1.0),
    "one cycle": (lambda o: o.linear_onecycle_schedule(8, 3.0, 0.25, 0.75, 6.0, 10.0),
                  lambda n: np.interp(n, [0, 2, 6, 8], [0.5, 3.0, 0.5, 0.05])),
    "one cycle of cosines": (lambda o: o.cosine_onecycle_schedule(8, 3.0, 0.25, 6.0, 10.0),
                             lambda n: 1.75 - 1.25 * math.cos(math.pi * n / 2) if n < 2
                             else 1.525 + 1.475 * math.cos(math.pi * min(n - 2, 6) / 6)),
    "restarts": (lambda o: o.sgdr_schedule([
        {"init_value": 0.0, "peak_value": p, "warmup_steps": 1, "decay_steps": 4} for p in (2, 1)
    ]), lambda n: (2, 1)[n // 4] * (n % 4 and 0.5 + 0.5 * math.cos(math.pi * (n % 4 - 1) / 3))
        if n < 8 else 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_by_their_formulas(name: str) -> None:
    make, formula = SCHEDULES[name]
    schedule = make(optim)
    expected = [formula(n) for n in range(10)]
    counts = phix.arange(10).astype("int32")
    found = phix.jit(lambda c: phix.map(schedule, c))(counts).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert schedule(4).item() == pytest.approx(expected[4], rel=1e-5)
    if "optax" in sys.modules:
        theirs = [float(make(sys.modules["optax"])(n)) for n in range(10)]
        np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-6)


# -- wrappers --------------------------------------------------------------------------------------
def test_ops_of_the_table_make_the_same_steps() -> None:
    p, g, rate = phix.to_tensor(PARAMS["w"]), phix.to_tensor(GRADS[0]["w"]), np.float64(0.1)
    tx = optim.adam(0.1)
    found = optim.apply_updates(p, tx.update(g, tx.init(p), p)[0])
    zero, b1, b2 = phix.zeros_like(p), np.float64(0.9), np.float64(0.999)
    expected = ops.adam_(p, g, rate, zero, zero, None, b1, b2)[0]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_none_among_the_parameters_is_structure() -> None:
    params = {"w": phix.ones([2]), "fixed": None}
    tx = optim.adamw(0.1)
    updates, _ = tx.update(params, tx.init(params), params)
    assert updates["fixed"] is None
    assert optim.apply_updates(params, updates)["fixed"] is None


def test_zeros_are_no_multiples_of_what_is_not_finite() -> None:
    bad = phix.full([2], math.nan)
    assert optim.set_to_zero().update(bad, ())[0].tolist() == [0.0, 0.0]
    tx = optim.MultiSteps(optim.sgd(1.0), 2)
    assert tx.update(bad, tx.init(bad))[0].tolist() == [0.0, 0.0]


def test_multi_steps_move_by_the_mean() -> None:
    tx = optim.MultiSteps(optim.sgd(1.0), lambda step: 2)
    params = phix.zeros([1])
    state, seen = tx.init(params), []
    for g in (1.0, 3.0, 5.0, 7.0):
        updates, state = tx.update(phix.full([1], g), state, params)
        seen.append((updates.item(), bool(tx.has_updated(state))))
    assert seen == [(0.0, False), (-2.0, True), (0.0, False), (-6.0, True)]
    total = optim.MultiSteps(optim.sgd(1.0), 2, use_grad_mean=False)
    _, state = total.update(params + 1.0, total.init(params))
    assert total.update(params + 2.0, state)[0].item() == -3.0


@pytest.mark.parametrize("make", [
    lambda: optim.MultiSteps(optim.sgd(0.1), 1),
    lambda: optim.inject_hyperparams(optim.sgd)(0.1),
    lambda: optim.inject_hyperparams(optim.sgd)(lambda count: 0.1),
    lambda: optim.sgd(lambda count: 0.1),
    lambda: optim.chain(optim.scale(0.0), optim.add_decayed_weights(lambda count: 0.1),
                        optim.scale(-1.0)),
    lambda: optim.sgd(optim.constant_schedule(0.1)),
    lambda: optim.sgd(optim.cosine_decay_schedule(0.1, 9)),
    lambda: optim.sgd(optim.linear_schedule(0.1, 0.7, 9)),
    lambda: optim.sgd(optim.exponential_decay(0.1, 9, 0.7)),
    lambda: optim.sgd(optim.piecewise_constant_schedule(0.3, {0: 1.0 / 3.0})),
    lambda: optim.sgd(optim.join_schedules([lambda n: 0.3, optim.constant_schedule(0.1)], [0])),
    lambda: optim.sgd(optim.warmup_cosine_decay_schedule(0.1, 0.3, 3, 9)),
    lambda: optim.inject_hyperparams(optim.sgd)(optim.cosine_decay_schedule(0.1, 9)),
    lambda: optim.chain(optim.scale(0.0), optim.scale(-1.0),
                        optim.add_decayed_weights(optim.linear_schedule(-0.1, 0.7, 9))),
], ids=["multi steps", "hyperparams", "scheduled hyperparams", "schedule", "decay", "constant",
        "cosine", "linear", "exponential", "piecewise", "join", "warmup", "cosine hyperparams",
        "linear decay"])  # fmt: skip
@pytest.mark.parametrize("transformed", [lambda f: f, phix.jit], ids=["at once", "jit"])
def test_float64_keeps_its_digits_in_wrappers(make: Any, transformed: Any) -> None:
    """What they keep is float32 at least, and as wide as the parameters: rates and sums of float32
    had moved parameters of float64 by eight digits."""
    tx = make()
    third = phix.full([1], 1.0 / 3.0, "float64")
    updates, state = transformed(tx.update)(third, tx.init(third), third)
    assert updates.dtype == "float64" and updates.item() == pytest.approx(-0.1 / 3, rel=1e-15)
    dtypes = [x.dtype for x in phix.tree.leaves(tx.init(third))]
    assert [x.dtype for x in phix.tree.leaves(state)] == dtypes  # as a loop carries them


def test_gradients_that_are_not_finite_are_left_out() -> None:
    tx = optim.apply_if_finite(optim.sgd(1.0, 0.9), 2)
    params = phix.zeros([1])
    state = tx.init(params)
    bad, good = phix.full([1], math.nan), phix.ones([1])
    _, state = tx.update(good, state)
    for count in (1, 2):
        updates, state = tx.update(bad, state)
        assert updates.item() == 0.0 and state.notfinite_count.item() == count
    assert tx.update(good, state)[0].item() == pytest.approx(-1.9)
    assert math.isnan(tx.update(bad, state)[0].item())


def test_loss_scaling_keeps_small_gradients_and_halves_on_overflow() -> None:
    tx = optim.dynamic_loss_scaling(optim.sgd(1.0), 2.0**15, incr_every_n_steps=2)
    w = phix.ones([1], "float16")
    state = tx.init(w)

    @phix.jit
    def step(w: Any, state: Any, x: Any) -> Any:
        grad = phix.grad(lambda w: (w * x).sum().astype("float32") * state.scale)(w)
        updates, state = tx.update(grad, state, w)
        return updates, state

    small = phix.full([1], 2.0**-24, "float16")
    updates, state = step(w, state, small)
    assert updates.item() == -(2.0**-24) and state.good_steps.item() == 1
    updates, state = step(w, state, phix.full([1], 8.0, "float16"))  # 2 ** 18 is none of float16
    assert updates.item() == 0.0 and state.scale.item() == 2.0**14
    for _ in range(2):
        _, state = step(w, state, small)
    assert state.scale.item() == 2.0**15 and state.good_steps.item() == 0


@pytest.mark.parametrize("transformed", [lambda f: f, phix.jit, phix.checkpoint])
def test_loss_scaling_leaves_gradients_and_the_old_state_to_the_caller(transformed: Any) -> None:
    tx = optim.dynamic_loss_scaling(optim.sgd(1.0), 4.0)
    start = phix.ones([1])

    @transformed
    def step(grad: Any, state: Any) -> Any:
        first, _ = tx.update(grad, state)
        again, new = tx.update(grad, state)
        return first, again, grad / state.scale, new.good_steps - state.good_steps

    got = step(phix.full([1], 8.0), tx.init(start))
    assert [x.item() for x in got] == [-2.0, -2.0, 2.0, 1]


# -- compiled --------------------------------------------------------------------------------------
def test_a_step_is_one_program_that_works_in_place() -> None:
    tx = optim.adamw(1e-2)
    params = [phix.full([k % 7 + 1, 3], 1.0 + k) for k in range(100)]

    def step(params: Any, state: Any, grads: Any) -> Any:
        updates, state = tx.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    expected, _ = step(params, tx.init(params), params)
    grads, state = [p + 0.0 for p in params], tx.init(params)
    found, new = phix.jit(step, donate_argnums=(0, 1))(params, state, grads)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert new[0].count.item() == 1
    with pytest.raises(PhixError, match="donated"):
        params[0].numpy()


def test_steps_under_scan_vmap_and_unknown_dims() -> None:
    tx = optim.adam(optim.linear_schedule(0.1, 0.0, 10))

    def loss(w: Any, x: Any) -> Any:
        return ops.mean(ops.square(x @ w - 1.0))

    def trained(w: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            w, state = carry
            value, grad = phix.value_and_grad(loss)(w, x)
            updates, state = tx.update(grad, state, w)
            return (optim.apply_updates(w, updates), state), value

        (w, _), losses = phix.scan(step, (w, tx.init(w)), xs)
        return w, losses

    ws = phix.to_tensor(RNG.normal(size=(3, 2)), "float32")
    xs = phix.to_tensor(RNG.normal(size=(4, 5, 2)), "float32")
    together = phix.jit(phix.vmap(trained, in_axes=(0, None)))(ws, xs)
    for k in range(3):
        for a, b in zip(together, trained(ws[k], xs)):
            np.testing.assert_allclose(a[k].numpy(), b.numpy(), rtol=1e-5, atol=1e-6)

    def update(w: Any, g: Any) -> Any:
        return optim.apply_updates(w, tx.update(g, tx.init(w), w)[0])

    spec = [phix.spec(["n", 2])] * 2
    np.testing.assert_allclose(
        phix.jit(update, input_spec=spec)(ws, ws).numpy(), update(ws, ws).numpy(), rtol=1e-6
    )


def test_states_are_saved_and_loaded(tmp_path: Any) -> None:
    tx = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(0.1, mask={"w": True, "b": False}))
    params = typed(PARAMS)
    _, state = tx.update(params, tx.init(params), params)
    phix.save(tmp_path / "state", (params, state))
    read = phix.load(tmp_path / "state", like=(params, tx.init(params)))
    assert phix.tree.flatten(read)[1] == phix.tree.flatten((params, state))[1]
    for a, b in zip(phix.tree.leaves(read), phix.tree.leaves((params, state))):
        assert a.tolist() == b.tolist()


def test_derivatives_at_zeros_are_those_of_norms() -> None:
    """Of a leaf of zeros, as a bias begins: a size is the least there, or a norm's slope is 0."""
    zeros, ones = np.zeros(3), np.ones(3)
    close = lambda f, x, expected: np.testing.assert_allclose(phix.grad(f)(x), expected)  # noqa: E731
    close(lambda g: optim.global_norm({"a": g, "b": 0 * g}), zeros, zeros)

    def moved(tx: Any) -> Callable[[Any], Any]:
        """The sum of parameters p after a step with the gradient p - 1."""
        return lambda p: ops.sum(p + tx.update(p - 1.0, tx.init(p), p)[0])

    def bounded(tx: Any) -> Callable[[Any], Any]:
        return lambda g: ops.sum(tx.update(g, tx.init(g), g)[0])

    close(moved(optim.adafactor(0.1)), zeros, ones)
    close(moved(optim.scale_by_param_block_rms(0.25)), zeros, 1.25 * ones)
    for tx in (optim.clip_by_global_norm(1.0), optim.clip_by_block_rms(1.0)):
        close(bounded(tx), zeros, ones)
    close(bounded(optim.adaptive_grad_clip(1.0)), zeros, ones)


P = {"w": phix.ones([2])}
BAD: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: optim.sgd("a"), ArgumentError, "sgd: learning_rate must be a number, or"),
    (lambda: optim.adam(0.1, b1=None), ArgumentError, "b1 must be a number"),
    (lambda: optim.chain(optim.sgd(0.1), 3), ArgumentError, "chain: each of args"),
    (lambda: optim.adamw(0.1).update(P, optim.adamw(0.1).init(P)), ArgumentError, "needs the para"),
    (lambda: optim.sgd(0.1).update(P, ()), ArgumentError, "chain: state must be"),
    (lambda: optim.adam(0.1).update([P["w"]], optim.adam(0.1).init(P)), ArgumentError, "structure"),
    (lambda: optim.adam(0.1).update(P, optim.sgd(0.1).init(P)), ArgumentError, "as init gives it"),
    (lambda: optim.adam(0.1).update({"w": phix.ones([2, 1])}, optim.adam(0.1).init(P)), ShapeError,
     "of one shape"),
    (lambda: optim.apply_updates(P, {"w": phix.ones([1])}), ShapeError, "apply_updates.*one shape"),
    (lambda: optim.scale(-0.1).update([phix.to_tensor([1])], ()), DTypeError, "scale.*int64"),
    (lambda: optim.scale_by_schedule(lambda n: phix.ones([2])).update(
        P, optim.scale_by_schedule(lambda n: 1.0).init(P)), ShapeError, "one number"),
    (lambda: optim.apply_updates(P, {"v": 1.0}), ArgumentError, "apply_updates: updates"),
    (lambda: optim.masked(optim.sgd(0.1), {"v": True}).init(P), ArgumentError, "masked: mask must"),
    (lambda: optim.masked(optim.sgd(0.1), {"w": 0.5}).init(P), ArgumentError, "bools"),
    (lambda: optim.multi_transform({"a": optim.sgd(1)}, {"w": "b"}).init(P), ArgumentError, "'b'"),
    (lambda: optim.MultiSteps(optim.sgd(0.1), 0), ArgumentError, "every_k_schedule"),
    (lambda: optim.cosine_decay_schedule(1.0, 0), AttributeValueError, "decay_steps"),
    (lambda: optim.warmup_cosine_decay_schedule(0.0, 1.0, 5, 5), AttributeValueError, "larger"),
    (lambda: optim.join_schedules([], []), ArgumentError, "schedules"),
    (lambda: optim.piecewise_constant_schedule(1.0, {1: -1.0}), AttributeValueError, "from 0"),
    (lambda: optim.piecewise_interpolate_schedule("cubic", 1.0), AttributeValueError, "linear"),
    (lambda: optim.piecewise_interpolate_schedule("linear", 1.0, [3]), ArgumentError, "a dict"),
    (lambda: optim.linear_onecycle_schedule(0, 1.0), AttributeValueError, "onecycle.*from 1"),
    (lambda: optim.cosine_onecycle_schedule(-1, 1.0), AttributeValueError, "cosine_onecycle"),
    (lambda: optim.sgdr_schedule(3), ArgumentError, "sgdr_schedule: cosine_kwargs must be dicts"),
    (lambda: optim.sgdr_schedule([{"peak_value": 1.0}]), ArgumentError, "dicts of the arguments"),
    (lambda: optim.linear_schedule(0.0, 1.0, 3)("a"), ArgumentError, "linear|polynomial"),
    (lambda: optim.inject_hyperparams(3), ArgumentError, "inner_factory"),
    (lambda: optim.inject_hyperparams(optim.sgd, "x"), ArgumentError, "static_args"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_calls_are_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()


def test_it_is_imported_on_first_use() -> None:
    code = "import sys, phix; print([m for m in sys.modules if m.startswith(('phix.optim', "
    code += "'phix.files', 'safetensors'))])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
