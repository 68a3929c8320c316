"""NumPy's own functions on tensors: NumPy's values, and derivatives, batches and programs of them.

Every function of the table stands in a case here, as text that is run by NumPy on arrays, and with
tensors in their place: as they are, under grad (against differences), jit and vmap.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import numpy_cases
import phix
import proofs
from phix import ops
from phix.array_functions.by_name import TABLE
from phix.core.errors import ConcretizationError

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(5)
VALUES: dict[str, Any] = {
    "x": RNG.uniform(0.2, 0.9, (3, 4)),
    "y": RNG.uniform(0.3, 0.8, (3, 4)),
    "s": RNG.standard_normal((3, 4)),  # of both signs
    "v": RNG.standard_normal(4),
    "w": RNG.standard_normal(4),
    "t": RNG.standard_normal((2, 3, 4)),
    "m": np.eye(4) * 3 + RNG.uniform(-0.5, 0.5, (4, 4)),
    "u": RNG.standard_normal((2, 3)),
    "c": RNG.standard_normal(4) + 1j * RNG.standard_normal(4),
    "k": RNG.integers(1, 5, (3, 4)),
    "h": np.array([np.nan, np.inf, -np.inf, 1.5, -0.0]),
    "b": RNG.uniform(0, 1, (3, 4)) < 0.5,
}
FLOATS = "xysvwtmu"
ONE = """
    sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh exp expm1 exp2 log log1p log2
    log10 sqrt cbrt fabs rint deg2rad radians rad2deg degrees absolute negative positive square
    reciprocal sign conjugate floor ceil trunc isfinite isinf isnan logical_not
""".split()  # noqa: SIM905
TWO = """
    add subtract multiply divide floor_divide remainder fmod power float_power maximum minimum
    fmax fmin arctan2 hypot logaddexp logaddexp2 equal not_equal less less_equal greater
    greater_equal logical_and logical_or logical_xor
""".split()  # noqa: SIM905
REDUCTIONS = """
    sum prod mean var std max amax min amin ptp median all any nansum nanprod nanmean nanmax nanmin
    count_nonzero
""".split()  # noqa: SIM905
CASES = [
    *(f"np.{name}(x)" for name in ONE),
    *(f"np.{name}(k)" for name in ("sin", "sqrt", "absolute", "square", "sign", "exp")),
    *(f"np.{name}(x, y)" for name in TWO),
    *(f"np.{name}(x, v)" for name in ("add", "multiply", "maximum", "less")),
    *(f"np.{name}(2.0, x)" for name in ("add", "divide", "power", "arctan2", "hypot", "logaddexp")),
    *(f"np.{name}(A(x), y)" for name in ("add", "divide", "power", "fmod", "floor_divide")),
    "np.logaddexp.reduce(s, axis=1)",
    "np.arccosh(x + 1)", "np.heaviside(s, 0.5)", "np.abs(s)", "np.absolute(c)", "np.fmod(s, y)",
    "np.remainder(s, y)", "np.power(x, 2)", "np.power(x, 3.0)", "x ** A(y)", "np.divmod(s, y)[0]",
    "np.divmod(s, y)[1]", "np.modf(s)[0]", "np.modf(s)[1]", "np.cbrt(s)",
    "np.add(x, [1.5, 2, 3, 0.1])",
    "np.bitwise_and(k, 3)", "np.bitwise_or(k, 8)", "np.bitwise_xor(k, 5)", "np.invert(k)",
    "np.left_shift(k, 2)", "np.right_shift(k, 1)", "np.matmul(x, m)", "np.matmul(v, w)",
    "np.add(x, y, dtype=np.float64)", "np.multiply(k, k, dtype=np.float64)",
    "A(x) + y", "A(x) - y", "A(x) * y", "A(x) / y", "A(v) @ m", "A(m) @ v", "np.float64(2) * x",
    "np.float64(2) - x", "A(x) < y", "A(k) + k", "-A(x) ** y",
    *(f"np.{name}(s)" for name in REDUCTIONS),
    *(f"np.{name}(s, axis=1)" for name in REDUCTIONS),
    *(f"np.{name}(t, axis=(0, -1))" for name in REDUCTIONS),
    *(f"np.{name}(t, axis=1, keepdims=True)" for name in REDUCTIONS),
    *(f"np.{name}(s, 0)" for name in ("sum", "prod", "mean", "max", "argmax", "argmin", "ptp")),
    "np.sum(s, axis=())", "np.mean(s, ())", "np.sum(k)", "np.sum(b)", "np.prod(k, axis=0)",
    "np.mean(k)",
    "np.sum(s, 1, np.float64)", "np.mean(k, axis=1)", "np.var(s, ddof=1)",
    "np.std(s, axis=0, ddof=1)",
    "np.var(c)", "np.var(k, axis=0)", "np.all(b)", "np.any(b, axis=0)", "np.all(s > 0, axis=1)",
    "np.argmax(s)", "np.argmin(s)", "np.argmax(s, axis=1)", "np.argmin(t, axis=0)",
    "np.argmax(s, axis=1, keepdims=True)", "np.argmin(s, keepdims=True)",
    "np.cumsum(s)", "np.cumsum(s, axis=1)", "np.cumprod(s)", "np.cumprod(s, 0)", "np.cumsum(b)",
    "np.average(s)", "np.average(s, axis=1, weights=v)", "np.average(s, weights=x)",
    "np.average(s, 0, x, True)[1]", "TRAPEZOID(s)",
    "TRAPEZOID(s, x=np.cumsum(y, axis=1))", "TRAPEZOID(s, dx=0.5, axis=0)", "TRAPEZOID(v, A(w))",
    "np.diff(s)", "np.diff(t, 2, axis=1)", "np.diff(b, axis=0)", "np.median(t, axis=(0, 2))",
    "np.quantile(t, 0.3, axis=(0, 2))", "np.quantile(x, [0.0, 0.25, 1.0], axis=1, keepdims=True)",
    "np.percentile(s, 37)", "np.percentile(v, [[10, 50], [75, 100]], method='midpoint')",
    "np.quantile(k, 0.3, method='lower')", "np.quantile(s, 0.6, 0, method='nearest')",
    "np.nancumsum(h[3:])", "np.nancumsum(h[:2])", "np.nancumprod(h[3:])", "np.nancumsum(k, axis=1)",
    "np.add.reduce(s)", "np.add.reduce(s, 1, keepdims=True)", "np.add.reduce(s, axis=None)",
    "np.multiply.reduce(s)", "np.maximum.reduce(s)", "np.minimum.reduce(s, axis=1)",
    "np.logical_and.reduce(b)", "np.logical_or.reduce(b, 1)", "np.add.accumulate(s)",
    "np.multiply.accumulate(s, 1)", "np.maximum.accumulate(s)", "np.minimum.accumulate(s, 1)",
    *(f"np.{n}.{way}(k)" for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
      for way in ("reduce", "accumulate")),
    *(f"np.{n}.{way}(s, 1)" for n in ("logaddexp", "logaddexp2", "hypot")
      for way in ("reduce", "accumulate")),
    *(f"np.logical_{n}.{way}(b, 1)" for n in ("and", "or", "xor")
      for way in ("reduce", "accumulate")),
    *(f"np.{n}.{way}(k, 1)" for n in ("floor_divide", "remainder", "fmod", "left_shift",
      "right_shift", "subtract") for way in ("reduce", "accumulate")),
    *(f"np.{n}.{way}(u)" for n in ("subtract", "divide", "copysign", "heaviside",
      "nextafter", "fmax", "fmin") for way in ("reduce", "accumulate")),
    *(f"np.{n}.{way}(y[:2])" for n in ("power", "float_power", "arctan2")
      for way in ("reduce", "accumulate")),
    *(f"np.{n}.{way}(b, 1)" for n in ("equal", "not_equal", "less", "less_equal", "greater",
      "greater_equal") for way in ("reduce", "accumulate")),
    *(f"np.{n}.reduceat(s, [0, 3, 1], 1)" for n in ("add", "subtract", "multiply", "divide",
      "maximum", "minimum", "fmax", "fmin", "copysign", "heaviside", "nextafter", "logaddexp",
      "logaddexp2", "hypot")),
    *(f"np.{n}.reduceat(y, [0, 2, 1])" for n in ("power", "float_power", "arctan2")),
    *(f"np.{n}.reduceat(k, [1, 2, 0, 1], 1)" for n in ("add", "multiply", "floor_divide",
      "remainder", "fmod", "left_shift", "right_shift", "gcd", "lcm", "bitwise_and", "bitwise_or",
      "bitwise_xor")),
    *(f"np.{n}.reduceat(b, [0, 2])" for n in ("equal", "not_equal", "less", "less_equal",
      "greater", "greater_equal", "logical_and", "logical_or", "logical_xor")),
    "np.where(s > 0, x, y)", "np.where(b, x, 0.0)", "np.where(k, x, y)", "np.clip(s, -0.5, 0.5)",
    "np.clip(s, v, None)", "np.clip(s, None, 0.3)", "np.clip(s, a_min=-1, a_max=x)",
    "np.round(s, 1)",
    "np.around(s)", "np.nan_to_num(h)", "np.fix(s)", "np.sinc(s)", "np.angle(c)",
    "np.angle(c, deg=True)", "np.real(c)", "np.imag(c)", "np.real(x)", "np.imag(x)", "np.conj(c)",
    "np.isclose(x, x + 1e-9)", "np.allclose(x, x)", "np.allclose(x, y)", "np.array_equal(x, x)",
    "np.array_equal(x, v)", "np.interp(s, A(np.sort(v)), w)",
    "np.interp(s, [-1., 0, 1], [3., 1, 2])",
    "np.interp(s, [-.1, .1], [3., 1], left=0., right=9.)",
    "np.size(x)", "np.size(x, 1)", "np.copy(x)", "np.shape(x)", "np.ndim(x)", "np.iscomplexobj(c)",
    "np.isrealobj(x)",
    "np.concatenate([x, y])", "np.concatenate((x, A(y)), axis=1)",
    "np.concatenate([x, v], axis=None)",
    "np.stack([x, y])", "np.stack([x, y], axis=-1)", "np.vstack([v, w])", "np.vstack([x, v])",
    "np.hstack([v, w])", "np.hstack([x, y])", "np.dstack([x, y])", "np.dstack([v, w])",
    "np.column_stack([v, w])", "np.append(x, v)", "np.append(x, y, axis=0)",
    "np.atleast_1d(x[0, 0])", "np.atleast_2d(v)", "np.atleast_3d(v)", "np.atleast_3d(x)",
    "np.array_split(v, 3)[0]", "np.split(x, 2, axis=1)[1]", "np.split(v, [1, 3])[1]",
    "np.hsplit(x, 2)[0]", "np.vsplit(x, 3)[1]", "np.dsplit(t, 2)[1]",
    "np.reshape(x, (2, 6))", "np.reshape(x, -1)", "np.ravel(x)", "np.transpose(x)",
    "np.transpose(t, (1, 0, 2))", "np.swapaxes(t, 0, 2)", "np.moveaxis(t, 0, -1)",
    "np.moveaxis(t, (0, 1), (-1, 0))", "np.expand_dims(x, 1)", "np.expand_dims(x, (0, -1))",
    "np.squeeze(x[:, :1])", "np.squeeze(x[:1], axis=0)", "np.broadcast_to(v, (3, 4))",
    "np.broadcast_arrays(v, x)[0]", "np.flip(x)", "np.flip(x, 1)", "np.fliplr(x)", "np.flipud(x)",
    "np.rot90(x)", "np.rot90(t, 3, (1, 2))", "np.roll(x, 1)", "np.roll(x, -1, axis=1)",
    "np.roll(x, (1, 2), (0, 1))", "np.sort(s)", "np.sort(s, axis=0)", "np.sort(s, axis=None)",
    "np.argsort(s)", "np.argsort(s, 0)", "np.tile(v, 3)", "np.tile(x, (2, 1))",
    "np.tile(v, (2, 2))",
    "np.repeat(v, 3)", "np.repeat(x, 2, axis=1)", "np.repeat(x, [1, 0, 2], axis=0)",
    "np.nonzero(b)", "np.argwhere(b)", "np.flatnonzero(b)", "np.bincount(k[0])",
    "np.extract(A(x) > 0, x)", "np.compress([True, False, True], x, axis=0)", "np.unique(x)",
    "np.pad(x, 1)", "np.pad(x, ((1, 0), (0, 2)))",
    "np.pad(v, (1, 2), constant_values=5.0)", "np.take(v, [0, 2])",
    "np.take(x, A(k[0]) % 3, axis=0)",
    "np.take(x, 1, axis=1)", "np.take_along_axis(x, np.argsort(A(x), 1), 1)", "np.diagonal(m)",
    "np.diagonal(m, 1)", "np.trace(m)", "np.diag(v)", "np.diag(v, -1)", "np.diag(v, 2)",
    "np.diag(m, 1)",
    "np.diagflat(x)", "np.tril(m)", "np.triu(m, 1)", "np.meshgrid(v, w)[0]",
    "np.meshgrid(v, w, indexing='ij')[1]", "np.full_like(x, 2)", "np.full_like(x, v)",
    "np.zeros_like(x)", "np.ones_like(x)", "np.zeros_like(x, dtype=int)", "0 * np.empty_like(x)",
    "np.zeros_like(x, shape=(2,))",
    "np.dot(v, w)", "np.dot(x, m)", "np.dot(t, m)", "np.dot(2.0, x)", "np.dot(A(v), m)",
    "np.vdot(v, w)", "np.vdot(c, c)", "np.inner(v, w)", "np.inner(x, y)", "np.outer(v, w)",
    "np.tensordot(x, y)", "np.tensordot(t, x, axes=([1, 2], [0, 1]))", "np.tensordot(x, m, 1)",
    "np.einsum('ij,jk->ik', x, m)", "np.einsum('ii', m)",
    "np.einsum(x, [0, 1], m, [1, 2])", "np.einsum(x, [30, 2], m, [2, 9], [9, 30])",
    "np.einsum(m, [0, 0])", "np.kron(v, w)",
    "np.cross(t[..., :3], u[:, None])",
    "np.cross(u, A(u) ** 2)",
    "np.linalg.norm(v)", "np.linalg.norm(x)", "np.linalg.norm(x, axis=1)", "np.linalg.norm(c)",
    "np.linalg.norm(v, 1)", "np.linalg.norm(v, np.inf)", "np.linalg.norm(v, -np.inf)",
    "np.linalg.norm(v, 3)", "np.linalg.norm(x, 'fro')", "np.linalg.norm(x, 1)",
    "np.linalg.norm(x, -1)",
    "np.linalg.norm(x, np.inf)", "np.linalg.norm(t, axis=(0, 2), keepdims=True)",
    "np.linalg.norm(x, axis=0, keepdims=True)", "np.linalg.norm(x, keepdims=True)",
    "np.linalg.solve(m, v)", "np.linalg.solve(m, A(x).T)", "np.linalg.inv(m)", "np.linalg.det(m)",
    "np.linalg.slogdet(m)[1]", "np.linalg.cholesky(m @ m.T)", "np.linalg.matrix_power(m, 3)",
    "np.linalg.multi_dot([x, m, v])", "np.linalg.norm(x, 2)", "np.linalg.norm(x, 'nuc')",
    "np.linalg.svd(x)[1]", "np.abs(np.linalg.qr(x)[1])", "np.linalg.qr(x, 'complete')[0].shape",
    "np.linalg.eigh(m + m.T)[0]", "np.linalg.eigvalsh(m + m.T)",
    "np.abs(np.linalg.eig(m)[0]).sum()", "np.real(np.linalg.eigvals(m)).sum()",
    "np.linalg.pinv(x)", "np.linalg.matrix_rank(x)",
    "np.linalg.lstsq(m, v, rcond=None)[0]", "np.linalg.cond(m)", "np.linalg.cond(m, 'fro')",
    *(f"np.abs(np.fft.{n}(v))" for n in ("fft", "ifft", "rfft", "ihfft")),
    *(f"np.abs(np.fft.{n}(x))" for n in ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn")),
    "np.fft.irfft(np.fft.rfft(v))", "np.fft.irfft2(np.fft.rfft2(x))", "np.fft.hfft(v)",
    "np.fft.irfftn(np.fft.rfftn(x))", "np.fft.fftshift(v)", "np.fft.ifftshift(x, axes=1)",
    "np.abs(np.fft.fft(v, 6))", "np.abs(np.fft.fft(x, axis=0, norm='ortho'))",
    "np.add.outer(v, w)", "np.multiply.outer(v, x)", "np.maximum.outer(v, w)",
]  # fmt: skip
if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    CASES += ["np.matrix_transpose(x)", "np.permute_dims(t, (2, 0, 1))", "np.concat([x, y])"]
    CASES += ["np.linalg.matrix_transpose(x)", "np.linalg.svdvals(x)", "np.linalg.trace(m)"]
    CASES += ["np.linalg.vector_norm(x)", "np.linalg.matrix_norm(x, ord=-2)"]
    CASES += ["np.linalg.outer(v, w)", "np.linalg.cross(x[:, :3], y[:, :3])"]
    CASES += ["np.linalg.tensordot(x, m, axes=1)"]
TRAPEZOID = getattr(np, "trapezoid", None) or getattr(np, "trapz")  # noqa: B009
SCOPE = {"np": np, "A": lambda a: a, "TRAPEZOID": TRAPEZOID}


def names_in(case: str) -> list[str]:
    """The arrays a case is about, but those that stay arrays: A(x)."""
    rest = re.sub(r"A\((?:[^()]|\([^()]*\))*\)", "", case)
    return [n for n in VALUES if re.search(rf"(?<![\w.']){n}(?![\w'])(?!=[^=])", rest)]


def run(case: str, **values: Any) -> Any:
    return eval(case, {**SCOPE, **VALUES, **values})


def leaves(found: Any) -> list[Any]:
    return [np.asarray(x) for x in (found if isinstance(found, (tuple, list)) else (found,))]


def floats_in(case: str) -> list[str]:
    return [n for n in names_in(case) if n in FLOATS]


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_numpy(case: str) -> None:
    """Each case as it is, and in one program."""
    given = {n: phix.to_tensor(VALUES[n]) for n in names_in(case)}
    assert given, "a case is about tensors"
    expected, found = run(case), run(case, **given)
    facts = not isinstance(expected, (np.ndarray, np.generic)) or isinstance(found, (bool, tuple))
    assert facts or isinstance(found, phix.Tensor)
    results = [found]
    if not facts:
        results.append(phix.jit(lambda *a: run(case, **dict(zip(given, a))))(*given.values()))
    for result in results:
        for a, b in zip(leaves(result), leaves(expected)):
            assert a.shape == b.shape and a.dtype.kind == b.dtype.kind
            assert facts or a.dtype.itemsize == b.dtype.itemsize
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def differences(function: Callable[..., Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    step, found = 1e-6, []
    for number, array in enumerate(arrays):
        slope = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[number][place] += sign * step
                ends.append(function(*moved))
            slope[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(slope)
    return found


def is_smooth(case: str) -> bool:
    """Whether the result is floats, of which a derivative can be taken."""
    result = run(case)
    return isinstance(result, (np.ndarray, np.floating)) and np.asarray(result).dtype.kind == "f"


SMOOTH = [case for case in CASES if floats_in(case) and is_smooth(case)]


def functions_in(case: str) -> tuple[str, ...]:
    return tuple(re.findall(r"np\.[\w.]+", case))


def total_of(case: str) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A weighted sum of a case's result as a function of its arrays, and these."""
    names = floats_in(case)
    weights = np.cos(np.arange(np.size(run(case)))).reshape(np.shape(run(case)))

    def total(*given: Any) -> Any:
        return np.sum(run(case, **dict(zip(names, given))) * weights)

    return total, [VALUES[n] for n in names]


@pytest.mark.parametrize("case", SMOOTH)
def test_derivatives_agree_with_differences(case: str) -> None:
    total, arrays = total_of(case)
    expected = differences(total, arrays)
    for found, slope in zip(phix.grad(total, tuple(range(len(arrays))))(*arrays), expected):
        np.testing.assert_allclose(found, slope, rtol=2e-6, atol=1e-7)
    tangents = [np.sin(a) for a in arrays]
    along = phix.jvp(total, tuple(arrays), tuple(tangents))[1]
    whole = sum(np.sum(a * b) for a, b in zip(expected, tangents))
    np.testing.assert_allclose(along, whole, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("case", proofs.thinned(SMOOTH, functions_in))
def test_derivatives_in_one_program(case: str) -> None:
    total, arrays = total_of(case)
    compiled = phix.jit(phix.grad(total, tuple(range(len(arrays)))))
    for found, slope in zip(compiled(*arrays), differences(total, arrays)):
        np.testing.assert_allclose(found, slope, rtol=2e-6, atol=1e-7)


# In a batch each lane would have a result of a size of its own.
OF_ONE_SIZE = [case for case in SMOOTH if not {"np.extract", "np.unique"} & {*functions_in(case)}]


@pytest.mark.parametrize("case", proofs.thinned(OF_ONE_SIZE, functions_in))
def test_batches_are_loops(case: str) -> None:
    names = floats_in(case)
    batch = [np.stack([VALUES[n], VALUES[n] * 0.9 + 0.01]) for n in names]

    def call(*given: Any) -> Any:
        return run(case, **dict(zip(names, given)))

    found = phix.vmap(call)(*batch)
    for row in range(2):
        np.testing.assert_allclose(
            np.asarray(found)[row], call(*(b[row] for b in batch)), rtol=1e-11, atol=1e-13
        )


def test_every_function_of_the_table_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    met = set()
    monkeypatch.setattr("phix.core.numpy_protocol._tables", [_Noting(met)])
    for case in CASES:
        run(case, **{n: phix.to_tensor(VALUES[n]) for n in names_in(case)})
    names = set(re.findall(r"np\.([a-z_0-9.]+)\(", numpy_cases.SMOOTH + numpy_cases.PLAIN))
    met |= {operator.attrgetter(n)(np) for n in names if hasattr(np, n.partition(".")[0])}
    met.add(np.einsum_path)  # of numbers alone
    assert np.einsum_path("ij,jk", *[phix.to_tensor(VALUES["m"])] * 2)[0] == ["einsum_path", (0, 1)]
    missing = [key for key in TABLE if key not in met]
    missing = [k for k in missing if not (isinstance(k, tuple) and k[1] == "outer")]
    assert not missing


class _Noting(dict):  # type: ignore[type-arg]
    def __init__(self, met: set[Any]) -> None:
        super().__init__(TABLE)
        self.met = met

    def get(self, key: Any, default: Any = None) -> Any:
        self.met.add(key)
        return super().get(key, default)


# -- what phix has not ---------------------------------------------------------------------------
def test_an_eager_tensor_goes_to_numpy_where_phix_has_no_function() -> None:
    x = phix.to_tensor(VALUES["m"])
    for call in (
        lambda m: np.linalg.svd(m, hermitian=True)[1],
        lambda m: np.sin(m, where=m > 0, out=np.zeros((4, 4))),
        lambda m: scipy.special.gamma(m),
        lambda m: np.unique(m, axis=0, equal_nan=False),
    ):
        found = call(x)
        assert isinstance(found, np.ndarray | np.generic)
        np.testing.assert_array_equal(found, call(VALUES["m"]))


NOT_OFFERED = {
    "np.linalg.svd takes no hermitian=": lambda m: np.linalg.svd(m, hermitian=True)[1],
    "np.sin takes no out=": lambda m: np.sin(m, out=np.zeros((4, 4))),
    "np.sin takes no where=": lambda m: np.sin(m, where=np.ones((4, 4), bool)),
    "np.sum takes no out=": lambda m: np.sum(m, None, None, np.zeros(())),
    "np.gamma is no function": lambda m: scipy.special.gamma(m),
    "np.unique takes no equal_nan=False beside axis=": lambda m: np.unique(
        m, axis=0, equal_nan=False
    ),
    "np.add takes no out=": lambda m: _in_place(m),
    "np.copyto is no function": lambda m: np.copyto(np.zeros((4, 4)), m),
    "np.add is no function": lambda m: np.add.at(np.zeros((4, 4)), [0], m[:1]),
}


def _in_place(m: Any) -> Any:
    total = np.zeros((4, 4))
    total += m
    return total


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_a_tracer_is_refused_where_phix_has_no_function(name: str) -> None:
    def total(m: Any) -> Any:
        return ops.sum(NOT_OFFERED[name](m))

    m = VALUES["m"]
    function, _, rest = name.partition(" ")
    pattern = rf"{re.escape(function)} \(at .*\) {re.escape(rest)}"
    for transform in (
        phix.grad(total),
        phix.jit(total),
        lambda m: phix.vmap(total)(np.stack([m, m])),
        lambda m: phix.jvp(total, (m,), (m,)),
        lambda m: phix.jet(total, (m,), ([m, m],)),
    ):
        with pytest.raises(ConcretizationError, match=pattern) as error:
            transform(m)
        for word in ("phix.ops", "stop_gradient", "pure_callback", __file__):
            assert word in str(error.value)


def test_arrays_written_in_place() -> None:
    """An eager tensor is an array to NumPy; a tracer cannot be written into one."""
    total = np.zeros(3)
    same = total
    total += phix.to_tensor([1.0, 2.0, 3.0])
    assert total is same and total.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ConcretizationError, match="a = a \\+ x"):
        phix.grad(lambda m: ops.sum(_in_place(m)))(VALUES["m"])

    def put(x: Any) -> Any:
        array = np.zeros(3)
        array[0] = x
        return ops.sum(phix.to_tensor(array))

    with pytest.raises(ValueError, match="array element") as error:  # NumPy's, because of ours
        phix.grad(put)(2.0)
    assert isinstance(error.value.__cause__, ConcretizationError)


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nansum", "nanprod"])
def test_reductions_without_nan_keep_ints(name: str) -> None:
    a = np.array([[2**53 + 1, 3], [5, 1]])
    for axis in (None, 0, -1):
        wanted = getattr(np, name)(a, axis)
        for found in (getattr(np, name)(phix.to_tensor(a), axis),
                      phix.jit(lambda x, k=axis: getattr(np, name)(x, k))(a)):  # fmt: skip
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_have_the_values_and_dtypes_of_numpy(method: str) -> None:
    for dtype, tolerance in (("float16", 4e-3), ("float32", 1e-6), ("float64", 1e-12)):
        for count in (1, 2, 7, 8):
            x = RNG.standard_normal((count, 3)).astype(dtype)
            for q in (0.0, 0.5, 0.3, 1.0, [0.1, 0.9], np.float32(0.25), np.float64(0.3)):
                expected = np.quantile(x, q, axis=0, method=method)
                found = np.quantile(phix.to_tensor(x), q, axis=0, method=method)
                assert isinstance(found, phix.Tensor) and found.dtype == expected.dtype
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    with pytest.raises(ConcretizationError, match=r"np.quantile.* takes no out="):
        phix.jit(lambda x: np.quantile(x, 0.5, out=np.ones(())))(x[:, 0])
    with pytest.raises(ValueError, match=r"percentile: q goes from 0 to 100, found 101"):
        np.percentile(phix.to_tensor(x), 101)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex128", "bool"])
def test_convolutions_of_all_sizes_and_modes(dtype: str) -> None:
    rng = np.random.default_rng(3)
    sizes = [(1, 1), (5, 1), (5, 2), (6, 3), (7, 3), (20, 4), (4, 20), (3, 3)]
    for n, m in sizes:
        a, v = (5.0 * rng.standard_normal(k) for k in (n, m))
        a, v = (a > 0, v > 0) if dtype == "bool" else (a.astype(dtype), v.astype(dtype))
        for mode in ("full", "same", "valid"):
            for function in (np.convolve, np.correlate):
                found, wanted = function(phix.to_tensor(a), v, mode), function(a, v, mode)
                assert found.dtype == wanted.dtype, (n, m, mode)
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_convolution_has_no_terms_beyond_its_vectors() -> None:
    """0 times infinity would be NaN."""
    a, v = np.arange(1.0, 9.0), np.array([1.0, np.inf, 2.0])
    for mode in ("full", "same", "valid"):
        assert np.array_equal(np.convolve(phix.to_tensor(a), v, mode), np.convolve(a, v, mode))


@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_ints_and_bools_have_divisors_in_the_dtype_that_they_share(name: str) -> None:
    values = [np.array([1, 0, 1], "bool"), np.array([6, 4, 0], "uint8"), np.array([4, -6, 3])]
    for x, y in itertools.product(values, values):
        if x.dtype != "bool" or y.dtype != "bool":  # of two NumPy has none
            found, wanted = getattr(phix.numpy, name)(x, y), getattr(np, name)(x, y)
            assert found.dtype == wanted.dtype and np.array_equal(found, wanted), (x, y)


def test_roots_have_derivatives_compiled_or_not() -> None:
    """Of (x - 1) (x - 2) (x - 3) with a leading 0; their sum is less the second coefficient."""
    coefficients = np.array([0.0, 1.0, -6.0, 11.0, -6.0])
    total = lambda p: phix.numpy.sum(phix.numpy.real(phix.numpy.roots(p)))  # noqa: E731
    np.testing.assert_allclose(phix.grad(total)(coefficients), [0, -6, -1, 0, 0], atol=1e-12)
    found = phix.jit(phix.grad(total))(coefficients[1:])
    np.testing.assert_allclose(found, [-6, -1, 0, 0], atol=1e-12)


SEEN = {
    "histogram": lambda np, x: np.histogram(x, 3)[1],
    "range": lambda np, x: np.histogram(x, 3, range=(x[0], x[2]), weights=x)[1],
    "edges": lambda np, x: np.histogram(x, x[:2], weights=x)[0],
    "digitize": lambda np, x: np.digitize(x, x[:3]) * x,
}


@pytest.mark.parametrize("name", SEEN)
def test_numbers_that_eager_calls_look_at_may_have_derivatives(name: str) -> None:
    x, f = np.array([0.0, 1.0, 5.0, 2.0]), lambda x: SEEN[name](phix.numpy, x)
    wanted = phix.jit(phix.jacrev(f))(x)
    np.testing.assert_allclose(phix.jacrev(f)(x), wanted)
    np.testing.assert_allclose(phix.jvp(f, (x,), (x,))[1], wanted.numpy() @ x)
    np.testing.assert_allclose(f(x), SEEN[name](np, x))


def test_known_numbers_are_looked_at_while_others_are_traced() -> None:
    f = phix.jit(lambda x: phix.numpy.roots(phix.to_tensor([0.0, 1.0, -3.0, 2.0])).real + x)
    np.testing.assert_allclose(f(1.0), [3.0, 2.0])


@pytest.mark.parametrize("namespace", [np, phix.numpy], ids=["numpy", "phix.numpy"])
def test_whether_all_elements_agree_is_a_tensor_where_values_are_not_known(namespace: Any) -> None:
    """So that a loop can end when nothing changes any more; else a bool, as in NumPy."""

    def agree(x: Any) -> list[Any]:
        y = namespace.round(x)
        return [f(x, y) for f in (namespace.allclose, namespace.array_equal, namespace.array_equiv)]

    same, other = phix.to_tensor([1.0, 2.0]), phix.to_tensor([1.0, 2.25])
    for x, wanted in ((same, True), (other, False)):
        assert all(found is wanted for found in agree(x))
        assert [x.item() for x in phix.jit(agree)(x)] == [wanted] * 3
    mapped = phix.vmap(agree)(phix.ops.stack([same, other]))
    assert [x.tolist() for x in mapped] == [[True, False]] * 3
    unknown = phix.jit(agree, input_spec=[phix.spec(["n"])])
    assert [x.item() for x in unknown(other)] == [False] * 3

    def heron(a: Any) -> Any:
        return phix.while_loop(
            lambda s: phix.ops.logical_not(namespace.allclose(s[0], s[1], 1e-6)),
            lambda s: (0.5 * (s[0] + a / s[0]), s[0]),
            (a, 0.0 * a),
        )[0]

    for f in (heron, phix.jit(heron), phix.vmap(heron)):
        np.testing.assert_allclose(f(phix.to_tensor([2.0, 9.0])), [2**0.5, 3], 1e-6)


# -- sizes that are not known ----------------------------------------------------------------------
# What NumPy's namespace, or that of phix, makes of two vectors of any sizes.
OF_ANY_SIZE: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{f"correlate, {mode}": lambda np, a, v, m=mode: np.correlate(a, v, m)
       for mode in ("full", "same", "valid")},
    **{f"convolve, {mode}": lambda np, a, v, m=mode: np.convolve(a, v, m)
       for mode in ("full", "same", "valid")},
    **{name: lambda np, a, v, n=name: getattr(np, n)(a.shape[0] - 1) * 1.0
       for name in ("bartlett", "blackman", "hamming", "hanning")},
    "kaiser": lambda np, a, v: np.kaiser(v.shape[0] + a.shape[0] - 2, 3.5),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_one_program_serves_all_sizes(name: str) -> None:
    function = OF_ANY_SIZE[name]
    specs = [phix.spec(["n"], "float64"), phix.spec(["m"], "float64")]
    compiled = phix.jit(lambda a, v: function(phix.numpy, a, v), input_spec=specs)
    for n, m in itertools.product((1, 2, 3, 6), (1, 2, 3, 5)):
        a, v = RNG.standard_normal(n), RNG.standard_normal(m)
        wanted = function(np, a, v)
        for found in (compiled(a, v), function(phix.numpy, a, v)):
            np.testing.assert_allclose(found, wanted, atol=1e-6, err_msg=f"{n}, {m}")
