"""What type checkers know of transformed functions: the signatures go through.

A function of tensors first stays one: its first argument may then be any array or number, and what
has the argument's structure is a tensor. Functions of trees keep their types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, Union

import numpy as np

from phix.core.tensor import Tensor, TensorBase

P = ParamSpec("P")  # the parameters of a function, or those behind its first ones
R = TypeVar("R")  # what it gives
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")  # an aux beside it
X = TypeVar("X")  # a tree of tensors
Y = TypeVar("Y")
C = TypeVar("C")  # what a loop carries

ArrayOrNumber = Union[TensorBase, np.ndarray, np.generic, bool, int, float, complex]


class Function(Protocol[P, R_co]):
    """A function of those parameters. Checkers that cannot tell which overload a lambda fits then
    know a function all the same, which they would not of a ``Callable``."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


OfTensor = Callable[Concatenate[Tensor, P], R]  # what users write
OfArray = Function[Concatenate[ArrayOrNumber, P], R]  # what they get for it
OfTree = Callable[Concatenate[X, P], R]
OfTrees = Callable[Concatenate[X, Y, P], R]
