"""The derivatives under autograd's names; what they give is NumPy's arrays, and trees of them.

``argnum`` is the place of the argument, or a tuple of places, for which a tuple is given. Where the
function is complex the derivative is autograd's: of a real function of z = x + i y it is
df/dx - i df/dy.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.api.batching import vmap
from phix.api.checkpointing import checkpoint as _checkpoint
from phix.api.custom import custom_vjp
from phix.api.gradients import jvp as _jvp
from phix.api.gradients import vjp as _vjp
from phix.autograd.dispatch import entered, has_tensor, left
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.default_floats import default_dtype
from phix.core.errors import ArgumentError, DifferentiationError
from phix.core.tensor import TensorBase, Tracer

Function = Callable[..., Any]


# -- one argument of many --------------------------------------------------------------------------
def _unary(
    fun: Function, argnum: Any, args: Any, kwargs: Any, result: Function = entered
) -> tuple[Function, Any]:
    """``fun`` of the arguments of these places alone, as tensors to tensors, and those.

    Where it runs, the default float is float64, as NumPy's is."""
    places = tuple(argnum) if isinstance(argnum, (tuple, list)) else (argnum,)
    if not all(isinstance(p, (int, np.integer)) and -len(args) <= p < len(args) for p in places):
        raise ArgumentError(f"argnum must be a place among the {len(args)} arguments that are "
                            f"given, or a tuple of them, found {argnum!r}")  # fmt: skip
    is_one = not isinstance(argnum, (tuple, list))

    def function(x: Any) -> Any:
        own = list(args)
        for place, value in zip(places, (x,) if is_one else x):
            own[place] = value
        with default_dtype("float64"):
            return result(fun(*own, **kwargs))

    chosen = tuple(args[p] for p in places)
    return function, entered(chosen[0] if is_one else chosen)


def _conjugate(tree: Any) -> Any:
    return pytrees.map(lambda x: ops.conj(x) if dt.is_complex(x.dtype) else x, tree)


def _pulled(function: Function, x: Any) -> tuple[Any, Function]:
    out, pull = _vjp(function, x)

    def back(cotangent: Any) -> Any:
        with default_dtype("float64"):
            return _conjugate(pull(_conjugate(cotangent))[0])

    return out, back


def _ones(tree: Any) -> Any:
    return pytrees.map(ops.ones_like, tree)


def _one_number(out: Any, name: str) -> Any:
    """A cotangent of 1 for a result of one real number."""
    if not isinstance(out, TensorBase) or math.prod(map(int, out.shape)) != 1:
        found = out.meta if isinstance(out, TensorBase) else type(out).__name__
        raise DifferentiationError(
            f"{name} is for functions to one number, found {found}; use jacobian or "
            "elementwise_grad"
        )
    if dt.is_complex(out.dtype):
        raise DifferentiationError(f"{name} is for real functions, found {out.meta}; use "
                                   "holomorphic_grad")  # fmt: skip
    return ops.ones_like(out)


# -- by reverse mode -------------------------------------------------------------------------------
def value_and_grad(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives the value of ``fun``, one number, and its gradient.

    >>> from phix.autograd import value_and_grad
    >>> value, slope = value_and_grad(lambda x: x**2)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        out, back = _pulled(function, x)
        return left((out, back(_one_number(out, "value_and_grad"))))

    return called


def grad(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives the gradient of ``fun``, one number, in an argument.

    >>> from phix.autograd import grad
    >>> float(grad(lambda x: x**2)(3.0))
    6.0
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        out, back = _pulled(function, x)
        return left(back(_one_number(out, "grad")))

    return called


def grad_and_aux(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives the gradient of the first of two results, and the second.

    >>> from phix.autograd import grad_and_aux
    >>> slope, rest = grad_and_aux(lambda x: (x**2, "more"))(3.0)
    >>> float(slope), rest
    (6.0, 'more')
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs, lambda both: (entered(both[0]), both[1]))
        out, pull, aux = _vjp(function, x, has_aux=True)
        one = _one_number(out, "grad_and_aux")
        return left((_conjugate(pull(one)[0]), aux))

    return called


def elementwise_grad(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives the sums of the Jacobian's columns: of a function that works element
    by element, its slopes.

    >>> import phix.autograd.numpy as np
    >>> from phix.autograd import elementwise_grad
    >>> elementwise_grad(lambda x: x**2)(np.array([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        out, back = _pulled(function, x)
        if any(dt.is_complex(v.dtype) for v in pytrees.leaves(out)):
            raise DifferentiationError("elementwise_grad is for real functions; use "
                                       "holomorphic_grad")  # fmt: skip
        return left(back(_ones(out)))

    return called


def jacobian(fun: Function, argnum: int = 0) -> Function:
    """A function that gives the Jacobian, of the shape of the result and then the argument's.

    >>> import phix.autograd.numpy as np
    >>> from phix.autograd import jacobian
    >>> jacobian(lambda x: np.sin(x) * 2.0)(np.zeros(2)).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        if not isinstance(x, TensorBase):
            raise DifferentiationError("jacobian is in one array, found a tree; flatten it with "
                                       "phix.autograd.misc.flatten")  # fmt: skip
        out, back = _pulled(function, x)
        size = int(np.prod(out.shape))
        basis = owned_tensor(np.eye(size, dtype=np.dtype(str(out.dtype))))
        rows = vmap(back)(ops.reshape(basis, [size, *out.shape]))
        return left(ops.reshape(rows, [*out.shape, *x.shape]))

    return called


def hessian(fun: Function, argnum: int = 0) -> Function:
    """A function that gives the Jacobian of the Jacobian.

    >>> import phix.autograd.numpy as np
    >>> from phix.autograd import hessian
    >>> hessian(lambda x: np.sum(x**3))(np.ones(2)).tolist()
    [[6.0, 0.0], [0.0, 6.0]]
    """
    return jacobian(jacobian(fun, argnum), argnum)


def holomorphic_grad(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives the derivative of a holomorphic function of one number.

    >>> from phix.autograd import holomorphic_grad
    >>> complex(holomorphic_grad(lambda z: z**2)(1.0 + 2.0j))
    (2+4j)
    """
    return grad(lambda *args, **kwargs: ops.real(entered(fun(*args, **kwargs))), argnum)


def make_vjp(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives ``(vjp, value)``: what pulls a cotangent back, and the result.

    >>> from phix.autograd import make_vjp
    >>> pull, value = make_vjp(lambda x: 2.0 * x)(3.0)
    >>> float(pull(1.0)), float(value)
    (2.0, 6.0)
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        out, back = _pulled(function, x)
        return (lambda g: left(back(_like(g, out)))), left(out)

    return called


def _like(tree: Any, other: Any) -> Any:
    return pytrees.map(lambda g, o: ops.cast(_tensor(g), o.dtype), tree, other)


def _tensor(value: Any) -> Any:
    return entered(value)


def make_jvp(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives ``jvp``: of a tangent to the result and its tangent.

    >>> from phix.autograd import make_jvp
    >>> value, tangent = make_jvp(lambda x: x**2)(3.0)(1.0)
    >>> float(value), float(tangent)
    (9.0, 6.0)
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        return lambda v: left(_jvp(function, (x,), (_like(v, x),)))

    return called


def deriv(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives the tangent of the result for a tangent of ones.

    >>> from phix.autograd import deriv
    >>> float(deriv(lambda x: x**2)(3.0))
    6.0
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        function, x = _unary(fun, argnum, args, kwargs)
        return left(_jvp(function, (x,), (_ones(x),))[1])

    return called


# -- products with the Jacobian and the Hessian ----------------------------------------------------
def make_hvp(fun: Function, argnum: Any = 0) -> Function:
    """A function that gives ``(hvp, gradient)``: hvp takes a vector to the Hessian's product.

    >>> from phix.autograd import make_hvp
    >>> float(make_hvp(lambda x: x**3)(2.0)[0](1.0))
    12.0
    """
    return make_vjp(grad(fun, argnum), argnum)


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """A function of the arguments and a tensor: that tensor times the Jacobian.

    >>> import phix.autograd.numpy as np
    >>> from phix.autograd import vector_jacobian_product
    >>> vector_jacobian_product(lambda x: x**2)(np.ones(2), np.array([1.0, 0.5])).tolist()
    [2.0, 1.0]
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        *own, tensor = args
        return make_vjp(fun, argnum)(*own, **kwargs)[0](tensor)

    return called


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """A function of the arguments and a tensor: the Hessian times that tensor.

    >>> from phix.autograd import hessian_vector_product
    >>> float(hessian_vector_product(lambda x: x**3)(2.0, 1.0))
    12.0
    """
    return tensor_jacobian_product(grad(fun, argnum), argnum)


vector_jacobian_product = tensor_jacobian_product
hessian_vector_product = hessian_tensor_product


# -- by name ---------------------------------------------------------------------------------------
def grad_named(fun: Function, argname: str) -> Function:
    """The gradient in the argument of a name.

    >>> from phix.autograd import grad_named
    >>> float(grad_named(lambda x, y: x * y, "y")(2.0, 3.0))
    2.0
    """
    names = list(inspect.signature(fun).parameters)
    if argname not in names:
        raise ArgumentError(f"grad_named: the function has no argument {argname!r}; it has "
                            f"{', '.join(names)}")  # fmt: skip
    return grad(fun, names.index(argname))


def multigrad_dict(fun: Function) -> Function:
    """A function that gives the gradients in all arguments, as a dict by their names.

    >>> from phix.autograd import multigrad_dict
    >>> {k: float(v) for k, v in multigrad_dict(lambda x, y=2.0: x * y)(3.0).items()}
    {'x': 2.0, 'y': 3.0}
    """
    signature = inspect.signature(fun)

    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_dict(values: dict[str, Any]) -> Any:
            own = inspect.BoundArguments(signature, dict(values))
            return fun(*own.args, **own.kwargs)

        return grad(of_dict)(dict(bound.arguments))

    return called


# -- functions of one's own ------------------------------------------------------------------------
def checkpoint(fun: Function) -> Function:
    """``fun``, of which nothing is kept for the way back: it is computed again there.

    >>> from phix.autograd import checkpoint, grad
    >>> float(grad(checkpoint(lambda x: x**2))(3.0))
    6.0
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        if not (has_tensor(args) or has_tensor(kwargs)):
            return fun(*args, **kwargs)
        values, rebuilt = _split((args, kwargs))

        def of_values(*own: Any) -> Any:
            rest, more = rebuilt(own)
            return fun(*rest, **more)

        return _checkpoint(of_values)(*values)

    return called


def _split(tree: Any) -> tuple[list[Any], Function]:
    """The tensors, floats and complex numbers of a tree, as tensors, and what makes the tree of
    others in their places; ints, bools and all else are settings, which stay what they are."""
    leaves, treedef = pytrees.flatten(tree)
    places = [i for i, v in enumerate(leaves) if _is_value(v)]

    def rebuilt(values: Any) -> Any:
        found = list(leaves)
        for place, value in zip(places, values):
            found[place] = value
        return pytrees.unflatten(treedef, found)

    return [entered(leaves[i]) for i in places], rebuilt


def _is_value(leaf: Any) -> bool:
    if isinstance(leaf, (TensorBase, float, complex)):
        return True
    return isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "fc"


def _has_slope(leaf: Any) -> bool:
    return isinstance(leaf, TensorBase) and dt.is_differentiable(leaf.dtype)


class NoVJPError(DifferentiationError, NotImplementedError):
    """A derivative in an argument that a primitive has none for."""


class primitive:
    """A function with derivatives of its own, which :func:`defvjp` gives.

    It is made of ``phix.autograd.numpy``'s functions, as it is traced; what only NumPy can
    compute goes through ``phix.pure_callback``.

    >>> from phix.autograd import defvjp, grad, primitive
    >>> import phix.autograd.numpy as np
    >>> @primitive
    ... def logistic(x):
    ...     return 1 / (1 + np.exp(-x))
    >>> defvjp(logistic, lambda ans, x: lambda g: g * ans * (1 - ans))
    >>> float(grad(logistic)(0.0))
    0.25
    """

    def __init__(self, fun: Function) -> None:
        self.fun, self.makers = fun, dict[int, Function | None]()
        self.__name__, self.__doc__ = getattr(fun, "__name__", "primitive"), fun.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (has_tensor(args) or has_tensor(kwargs)):
            return self.fun(*args, **kwargs)

        values, rebuilt = _split(args)
        count = len(values)
        places: dict[Any, Any] = dict(enumerate(rebuilt(values)))
        places |= kwargs
        guards = self._refused({p: v for p, v in places.items() if p not in self.makers})

        def whole(*own: Any) -> Any:
            return entered(self.fun(*rebuilt(own[:count]), **kwargs))

        def forward(*own: Any) -> Any:
            out = whole(*own)
            return out, (out, own)

        def backward(kept: Any, g: Any) -> Any:
            out, own = kept
            full = rebuilt(own[:count])
            found: list[Any] = []
            for place, arg in enumerate(full):
                leaves = pytrees.leaves(arg)
                slopes: list[Any] = [None] * len(leaves)
                maker = self.makers.get(place)
                if maker is not None and any(map(_has_slope, leaves)):
                    slope = _conjugate(entered(maker(out, *full, **kwargs)(_conjugate(g))))
                    slopes = pytrees.aligned(slope, arg, f"the VJP of {self.__name__}")
                found += [ops.cast(s, v.dtype) if s is not None and _has_slope(v) else None
                          for s, v in zip(slopes, leaves) if _is_value(v)]  # fmt: skip
            return (*found, *map(ops.zeros_like, own[count:]))

        ruled: Any = custom_vjp(whole)
        ruled.defvjp(forward, backward)
        return ruled(*values, *guards)

    def _refused(self, arguments: dict[Any, Any]) -> list[Any]:
        """The traced tensors of these arguments, of which no derivative can be taken: a primitive
        takes them besides, so that one is asked for where it is of the arguments."""
        found = []
        for place, tree in arguments.items():
            traced = (x for x in pytrees.leaves(tree) if isinstance(x, Tracer) and _has_slope(x))
            found += [self._guarded(x, place) for x in traced]
        return found

    def _guarded(self, x: Any, place: Any) -> Any:
        def backward(kept: Any, g: Any) -> Any:
            raise NoVJPError(
                f"primitive {self.__name__} has no VJP for argument {place!r}; give one for its "
                "place with defvjp, or None where the derivative is 0"
            )

        same: Any = custom_vjp(lambda x: x)
        same.defvjp(lambda x: (x, None), backward)
        return same(x)


def defvjp(fun: primitive, *makers: Function | None, argnums: Any = None) -> None:
    """Say how cotangents go back through a primitive.

    Args:
        fun: what :class:`primitive` made.
        makers: one for each argument, ``maker(ans, *args)`` to a function of the cotangent; None
            for an argument without derivative.
        argnums: the places that they are for, if not the first ones.

    >>> from phix.autograd import defvjp, primitive
    >>> defvjp(primitive(lambda x: 2.0 * x), lambda ans, x: lambda g: 2.0 * g)
    """
    if not isinstance(fun, primitive):
        raise ArgumentError("defvjp: the first argument must be what phix.autograd.primitive made, "
                            f"found {type(fun).__name__}")  # fmt: skip
    for place, maker in zip(argnums or range(len(makers)), makers):
        fun.makers[place] = maker
