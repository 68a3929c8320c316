"""Fully connected networks: parameters are a plain list of (weight, bias) pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import phix

Params = list[tuple[Any, Any]]


def initial_params(rng: np.random.Generator, sizes: Sequence[int], dtype: str) -> Params:
    """Weights with variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010), biases 0."""
    return [
        (
            phix.to_tensor(rng.normal(scale=np.sqrt(2 / (a + b)), size=(a, b)), dtype),
            phix.to_tensor(np.zeros(b), dtype),
        )
        for a, b in pairwise(sizes)
    ]


def forward(params: Params, x: Any, activation: Callable[[Any], Any]) -> Any:
    """The network at ``x``, of shape [batch, sizes[0]], with no activation at the end."""
    for weight, bias in params[:-1]:
        x = activation(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias
