"""What a distribution is made of: its functions at loc 0 and scale 1, and what SciPy puts round.

A row of a table gives some of pdf, cdf, sf, ppf, isf and their logarithms, of z = (x - loc) / scale
and the shapes; the others follow. Outside of the support and for parameters that are none, SciPy's
values are put in, and the formulas see a number from inside instead, so that slopes are finite.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

from phix import ops
from phix.core.errors import ArgumentError
from phix.core.given import named
from phix.scipy.entropies import floats
from phix.scipy.smoothness import in_float64

Function = Callable[..., Any]


def log_less(x: Any) -> Any:
    """log(1 - exp(-x)) for x >= 0."""
    near = x < math.log(2)
    inner = ops.log(-ops.expm1(-ops.where(near, x, 0.5)))
    return ops.where(near, inner, ops.log1p(-ops.exp(-ops.where(near, 1.0, x))))


def less_exp(x: Any) -> Any:
    """1 - exp(-x) for x >= 0; far from 0 without expm1, whose slope is its value and 1 there."""
    near = x < 1
    return ops.where(near, -ops.expm1(-ops.where(near, x, 0.0)), 1 - ops.exp(-x))


def log_of_part(part: Any, rest: Any) -> Any:
    """log(part), by the rest of 1 where that is the smaller one; of nothing -inf, with slopes 0."""
    most, none = part > 0.5, part <= 0
    near = ops.log1p(-ops.where(most, rest, 0.0))
    far = ops.log(ops.where(most | none, 0.5, part))
    return ops.where(none, -math.inf, ops.where(most, near, far))


# Of log((1 - exp(-y)) / y): -y / 2 and B_2k y^2k / (2 k (2 k)!)
_LOG_RATIO = (
    1 / 24, -1 / 2880, 1 / 181440, -1 / 9676800, 1 / 479001600, -691 / 15692092416000,
    1 / 1046139494400, -3617 / 170729965486080000, 43867 / 91963695909076992000,
)  # fmt: skip


def log_less_exp(t: Any) -> Any:
    """log(1 - exp(-exp(t))), about t where exp(t) is next to 0, or 0 itself; from t = 8 on 0."""
    near = t < 0
    y = ops.exp(ops.where(near, t, 0.0))
    total: Any = 0.0
    for c in reversed(_LOG_RATIO):
        total = total * y * y + c
    inner = t + y * (total * y - 0.5)
    far = ops.exp(ops.minimum(ops.where(near, 0.0, t), 8.0))
    return ops.where(near, inner, log_less(far))


class Distribution:
    """The functions of a distribution, under SciPy's names: ``norm.logpdf(x, loc=0, scale=1)``.

    They are elementwise over arguments that broadcast, in the dtype that these have together;
    ints become float32.

    >>> import phix
    >>> phix.scipy.stats.expon.sf([-1.0, 0.0]).tolist()
    [1.0, 1.0]
    """

    def __init__(self, name: str, functions: dict[str, Function]) -> None:
        self._name = name
        for key, function in functions.items():
            setattr(self, key, function)
        self._offered = sorted(functions)

    def __dir__(self) -> list[str]:
        return self._offered

    def __repr__(self) -> str:
        return f"phix.scipy.stats.{self._name}"

    def __call__(self, *shapes: Any, **given: Any) -> Frozen:
        """The distribution of given shapes, loc and scale, whose functions take the rest.

        >>> import phix
        >>> phix.scipy.stats.expon(scale=2.0).sf(0.0).item()
        1.0
        """
        return Frozen(self, shapes, given)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        offered = ", ".join(self._offered)
        if key == "rvs":
            offered += "; draws are functions of a key: phix.random"
        raise AttributeError(f"phix.scipy.stats.{self._name} has no {key!r}; it has {offered}")


class Frozen:
    """A distribution with its shapes, loc and scale, whose functions take the first argument alone.

    >>> import phix
    >>> phix.scipy.stats.norm(1.0, scale=2.0).cdf(1.0).item()
    0.5
    """

    def __init__(self, whole: Distribution, shapes: tuple[Any, ...], given: dict[str, Any]) -> None:
        self._whole, self._shapes, self._given = whole, shapes, given
        name = dir(whole)[0]
        signature = inspect.signature(getattr(whole, name))
        try:
            signature.bind(None, *shapes, **given)
        except TypeError as error:
            raise ArgumentError(f"{whole!r}: {error}; {name} takes {signature}") from None

    def __dir__(self) -> list[str]:
        return dir(self._whole)

    def __repr__(self) -> str:
        return f"{self._whole!r}, frozen"

    def __getattr__(self, key: str) -> Any:
        function = getattr(self._whole, key)

        def called(*args: Any) -> Any:
            if len(args) != 1:
                found = f"{len(args)} arguments found"
                raise ArgumentError(
                    f"{self!r}: {key} takes one argument, {found}; the rest is frozen"
                )
            return function(*args, *self._shapes, **self._given)

        called.__name__, called.__qualname__, called.__doc__ = key, key, function.__doc__
        return called


def public(
    owner: str, name: str, first: str, parameters: dict[str, Any], function: Function
) -> Any:
    """``function`` of tensors of one float dtype, as users call it, by place and by name."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter(n, kind, default=d)
         for n, d in {first: inspect.Parameter.empty, **parameters}.items()]
    )  # fmt: skip
    whole = f"scipy.stats.{owner}.{name}"

    @named(whole)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{error}; write {name}{signature}") from None
        bound.apply_defaults()
        return function(*floats(*bound.arguments.values()))

    called.__name__, called.__qualname__ = name, f"{owner}.{name}"
    called.__signature__ = signature  # type: ignore[attr-defined]
    called.__doc__ = f"scipy.stats.{owner}.{name}, elementwise over what broadcasts."
    return called


def _always(*shapes: Any) -> Any:
    return True


class Row:
    """What the table says of a distribution: see the module's first lines.

    ``support`` gives its ends from the shapes; ``middle`` a number inside of it; ``valid`` whether
    the shapes are any; ``shapes`` are their names, with defaults; ``vanishes`` says at which ends
    the density is 0, where the slope is that beside the support; ``steep`` where it is infinite at
    z = 0, which what is below does not leave in any scale.
    """

    def __init__(
        self,
        shapes: str = "",
        support: Function = lambda *shapes: (-math.inf, math.inf),
        middle: Function = lambda *shapes: 0.5,
        valid: Function = _always,
        has_scale: bool = True,
        vanishes: Function | None = None,
        steep: Function | None = None,
        **functions: Function,
    ) -> None:
        self.shapes, self.support, self.middle, self.valid = shapes, support, middle, valid
        self.has_scale, self.vanishes, self.functions = has_scale, vanishes, functions
        self.steep = steep

    def parameters(self) -> dict[str, Any]:
        own = dict.fromkeys(self.shapes.split(), inspect.Parameter.empty)
        return {**own, "loc": 0, **({"scale": 1} if self.has_scale else {})}

    def split(self, args: Any) -> tuple[Any, Any, Any, Any]:
        """x, the shapes, loc and the scale."""
        x, *rest = args
        scale = rest.pop() if self.has_scale else ops.ones_like(x)
        return x, rest[:-1], rest[-1], scale


# Of each function: its value below the support, the one above, and how the scale comes in: not at
# all, as a divisor, or by its logarithm.
_ENDS = {
    "pdf": (0.0, 0.0, 1), "pmf": (0.0, 0.0, 0), "logpdf": (-math.inf, -math.inf, 2),
    "logpmf": (-math.inf, -math.inf, 0), "cdf": (0.0, 1.0, 0), "logcdf": (-math.inf, 0.0, 0),
    "sf": (1.0, 0.0, 0), "logsf": (0.0, -math.inf, 0),
}  # fmt: skip

_PARTS = ("cdf", "sf", "logsf")


def _with_slopes_in(
    row: Row, key: str, z: Any, x: Any, shapes: Any, loc: Any, scale: Any
) -> Any:  # fmt: skip
    """(x - loc) / scale again, with slopes of 0 and not NaN where it is infinite, or where it stays
    0 in every scale and the slope behind it is infinite."""
    if row.steep is not None and key in _PARTS:
        scale = ops.where(row.steep(z, *shapes), ops.stop_gradient(scale), scale)
    is_finite = ops.isfinite(z)
    held = (ops.where(is_finite, x, loc) - loc) / ops.where(is_finite, scale, 1.0)
    return ops.where(is_finite, held, ops.stop_gradient(z))


def _at_points(row: Row, function: Function, key: str) -> Function:
    """A function of x, with its values below the support and above."""
    below, above, scaled = _ENDS[key]
    is_mass = key in ("pmf", "logpmf")

    def found(*args: Any) -> Any:
        x, shapes, loc, scale = row.split(args)
        z = (x - loc) / scale
        whole = z == ops.floor(z)
        if not (row.has_scale or is_mass):  # a sum up to z
            z = ops.floor(z)
        low, high = row.support(*shapes)
        inside = (z >= low) & (z <= high) & ops.isfinite(z)
        if row.has_scale:
            z = _with_slopes_in(row, key, z, x, shapes, loc, scale)
        if key == "pdf" and row.vanishes is not None:
            inside = inside & ~row.vanishes(z, *shapes)
        if is_mass:
            inside = inside & whole
        value = function(ops.where(inside, z, row.middle(*shapes)), *shapes)
        if scaled:
            value = value / scale if scaled == 1 else value - ops.log(scale)
        value = ops.where(inside, value, ops.where((z < low) | (z == -math.inf), below, above))
        known = (scale > 0) & row.valid(*shapes) & ~ops.isnan(z)
        return ops.where(known, value, math.nan)

    return found


def _at_parts(row: Row, function: Function, from_above: bool) -> Function:
    """A quantile: of q from 0 to 1, at whose ends it is that of the support."""

    def found(*args: Any) -> Any:
        q, shapes, loc, scale = row.split(args)
        low, high = row.support(*shapes)
        if not row.has_scale:  # below it nothing is certain
            low = low - 1
        if from_above:
            low, high = high, low
        inside = (q > 0) & (q < 1)
        z = function(ops.where(inside, q, 0.5), *shapes)
        z = ops.where(inside, z, ops.where(q == 0, low, ops.where(q == 1, high, math.nan)))
        known = (scale > 0) & row.valid(*shapes)
        return ops.where(known, z * scale + loc, math.nan)

    return found


def _derived(given: dict[str, Function], is_discrete: bool) -> Iterator[tuple[str, Function]]:
    """The functions that follow from those that are given.

    Logarithms are taken in float64, of what float32 has no number for, too.
    """
    density = "pmf" if is_discrete else "pdf"
    for value, rest in ((density, None), ("cdf", "sf"), ("sf", "cdf")):
        log = f"log{value}"
        if value not in given and log in given:
            yield value, lambda *args, f=given[log]: ops.exp(f(*args))
        if log not in given and rest in given and value in given:
            yield log, widened(lambda *args, f=given[value], g=given[rest]: (
                log_of_part(f(*args), g(*args))
            ))  # fmt: skip
        elif log not in given and value in given:
            yield log, widened(lambda *args, f=given[value]: ops.log(f(*args)))


def widened(function: Function) -> Function:
    """``function`` computed in float64, in the dtype of its arguments."""
    return lambda *args: in_float64(function, *args)


def distribution(name: str, row: Row) -> Distribution:
    """The distribution that a row says."""
    given = dict(row.functions)
    given.update(_derived(given, not row.has_scale))
    made: dict[str, Function] = {}
    for key, function in given.items():
        if key in ("ppf", "isf"):
            inner, first = _at_parts(row, function, key == "isf"), "q"
        else:
            inner, first = _at_points(row, function, key), "x" if row.has_scale else "k"
        made[key] = public(name, key, first, row.parameters(), inner)
    return Distribution(name, made)
