"""The array API standard, 2024.12, section by section: dtypes, shapes and values of its functions
on all dtypes, with axes of no elements among the shapes. What is right is what NumPy gives, which
meets the standard, but where a test writes the standard's own table out."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
import proofs

pytestmark = [pytest.mark.unoptimised, pytest.mark.filterwarnings("ignore")]

SIGNED, UNSIGNED = (tuple(f"{k}{n}" for n in (8, 16, 32, 64)) for k in ("int", "uint"))
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
ALL = ("bool", *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)
SHAPES = [(), (0, 3), (2, 3)]


def kind_of(dtype: str) -> str:
    """Of dtypes that count and of those that measure one is taken in each run, the others are
    proofs."""
    return "ints" if np.dtype(dtype).kind in "biu" else "floats"


def data(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind, count = np.dtype(dtype).kind, int(np.prod(shape))
    line: Any = (np.arange(count) * 7 + 3) % 11 - (0 if kind in "bu" else 5)
    line = line % 2 if kind == "b" else line / 2 if kind in "fc" else line
    return np.asarray(line + (1j * line[::-1] if kind == "c" else 0)).reshape(shape).astype(dtype)


def parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def check(call: Any, *arrays: np.ndarray) -> None:
    """The call of the namespace and the arrays gives what it gives in NumPy."""
    wanted = parts(call(np, *arrays))
    found = parts(call(pn, *map(pn.asarray, arrays)))
    said = [(a.dtype.name, a.shape) for a in arrays]
    assert len(found) == len(wanted), said
    for f, w in zip(map(np.asarray, found), map(np.asarray, wanted)):
        assert (f.dtype, f.shape) == (w.dtype, w.shape), said
        digits = 2e-5 if w.dtype in (np.float32, np.complex64) else 1e-11
        tolerance = digits if w.dtype.kind in "fc" else 0
        np.testing.assert_allclose(f, w, tolerance, tolerance, err_msg=str(said))


# -- type promotion --------------------------------------------------------------------------------
def promoted(a: str, b: str) -> str | None:
    """The standard's tables: of the same kind the wider, of ints one that holds both, and complex
    numbers of the precision of a float beside them; nothing is said of other pairs."""
    for kind in (SIGNED, UNSIGNED, FLOATS, COMPLEX):
        if a in kind and b in kind:
            return kind[max(kind.index(a), kind.index(b))]
    if a in SIGNED and b in UNSIGNED:
        place = max(SIGNED.index(a), UNSIGNED.index(b) + 1)
        return SIGNED[place] if place < 4 else None
    if a in FLOATS and b in COMPLEX:
        return COMPLEX[max(FLOATS.index(a), COMPLEX.index(b))]
    return "bool" if a == b == "bool" else None


def test_two_dtypes_meet_as_the_tables_say() -> None:
    told = 0
    for a, b in itertools.product(ALL, repeat=2):
        wanted = promoted(a, b) or promoted(b, a)
        if wanted is None:
            continue
        x, y = (pn.ones((2,), dtype=getattr(pn, d)) for d in (a, b))
        found = [pn.result_type(x, y), pn.result_type(getattr(pn, a), getattr(pn, b))]
        joined = (pn.concat([x, y]), pn.stack([x, y]), pn.where(x == x, x, y))[told % 3]
        found += [joined.dtype, (x & y if wanted == "bool" else x * y).dtype]
        assert {str(d) for d in found} == {wanted}, (a, b)
        told += 1
    assert told == 1 + 16 + 16 + 2 * 12 + 4 + 4 + 2 * 4


@pytest.mark.parametrize("dtype", ALL)
def test_a_python_number_takes_the_dtype_of_the_array(dtype: str) -> None:
    x, kind = pn.asarray(data((3,), dtype)), np.dtype(dtype).kind
    numbers: Any = {"b": [True], "i": [2], "u": [2], "f": [2, 0.5], "c": [2, 0.5, 1j]}[kind]
    for number in numbers:
        for call in (operator.eq, pn.not_equal):
            assert call(x, number).dtype == call(number, x).dtype == np.bool_
        calls = (
            [operator.and_, pn.logical_or] if kind == "b" else [operator.mul, pn.add, pn.subtract]
        )
        for call in calls:
            assert call(x, number).dtype == call(number, x).dtype == x.dtype
        assert pn.result_type(x, number) == x.dtype == pn.where(x == x, x, number).dtype


# -- creation --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", proofs.thinned(ALL[1:], kind_of))
def test_creation(dtype: str) -> None:
    kind = np.dtype(dtype).kind
    for args in ((0,), (3,), (1, 6, 2), (5, 1), *([] if kind == "u" else [(-1, -6, -2)])):
        if kind != "c":
            check(lambda np, a=args: np.arange(*a, dtype=dtype))
    if kind in "fc":
        for end, count in itertools.product((True, False), (0, 1, 5)):
            check(lambda np, e=end, n=count: np.linspace(1, -2, n, dtype=dtype, endpoint=e))
    for k in (-4, -1, 0, 2):
        check(lambda np, k=k: np.eye(3, 4, k=k, dtype=dtype))
    x = data((2, 3), dtype)
    check(lambda np, x: [f(x) for f in (np.zeros_like, np.ones_like, np.triu, np.tril)], x)
    check(lambda np, x: [np.full_like(x, 3), np.full((), 3, dtype=dtype)], x)
    others = COMPLEX if kind == "c" else ALL[5:]
    check(lambda np, x: [np.astype(x, getattr(np, d)) for d in others], np.abs(x).astype(dtype))


# -- indexing ------------------------------------------------------------------------------------
def test_indexing() -> None:
    line, cube = np.arange(5), np.arange(24.0).reshape(2, 3, 4)
    index: Any
    bounds = (None, 0, 2, -2, 9, -9)
    for index in itertools.starmap(slice, itertools.product(bounds, bounds, (None, 2, -1, -3))):
        check(lambda np, x, i=index: x[i], line)
        check(lambda np, x, i=index: x[:, i], cube[0])
    down = slice(None, None, -1)
    for index in ((0,), (1, -1), (0, 1, 2), (...,), (..., 0), (0, ..., 1), (None, 0), (..., None),
                  (slice(None), None, 1), (None, ..., None), (slice(1, 2), ..., down), (), None,
                  ...):  # fmt: skip
        check(lambda np, x, i=index: x[i], cube)
    rows, columns = np.array([[0, 1], [1, -1]]), np.array([1, 2])
    for index in ((rows,), (rows, columns), (rows, columns, 0), (0, columns, columns)):
        check(lambda np, x, i=index: x[i], cube)
    for axes in (1, 2, 3):
        masked: Any = (slice(None),) * axes + (0,) * (3 - axes)
        check(lambda np, x, m: x[m], cube, cube[masked] % 3 == 1)
    for mask in (True, False):
        check(lambda np, x, m: x[m], cube, np.array(mask))
    for wrong in (5, -6, (0, 0), (..., ...)):
        with pytest.raises(IndexError):
            pn.asarray(line)[wrong]


# -- statistics, utilities, searching, sorting, sets -----------------------------------------------
@pytest.mark.parametrize("dtype", proofs.thinned([*ALL[1:], "bool"], kind_of))
def test_functions_of_one_array(dtype: str) -> None:
    kind = np.dtype(dtype).kind
    names = ["all", "any", "count_nonzero"] + ["sum", "prod"] * (kind != "b")
    whole = ["max", "min"] * (kind in "iuf") + ["mean", "std", "var"] * (kind == "f")
    for shape in SHAPES:
        x = data(shape, dtype)
        axes = [None, *range(-len(shape), len(shape))]
        for axis, keep in itertools.product(axes, (True, False)):
            some = x.size if axis is None else shape[axis]
            for name in names + whole * bool(some):
                check(
                    lambda np, x, n=name, a=axis, k=keep: getattr(np, n)(x, axis=a, keepdims=k), x
                )
        for axis in range(len(shape)):
            check(lambda np, x, a=axis: [np.flip(x, axis=a), np.roll(x, 2, axis=a)], x)
            check(lambda np, x, a=axis: [np.repeat(x, 2, axis=a), np.expand_dims(x, axis=a)], x)
            if kind != "b":
                check(lambda np, x, a=axis: [np.cumulative_sum(x, axis=a, include_initial=True),
                                             np.cumulative_prod(x, axis=a)], x)  # fmt: skip
            if kind in "iuf":
                check(lambda np, x, a=axis: [np.sort(x, axis=a),
                                             np.argsort(x, axis=a, stable=True)], x)  # fmt: skip
                if shape[axis]:
                    check(lambda np, x, a=axis: [np.argmax(x, axis=a), np.argmin(x, axis=a)], x)
        if shape:
            check(lambda np, x: [*np.nonzero(x), *np.unstack(x), np.tile(x, (2, 1))], x)
        check(lambda np, x: [*np.unique_all(x), *np.unique_counts(x)], x)
        check(lambda np, x: np.broadcast_to(x, (2, *x.shape)), x)


# -- products, linear algebra, Fourier transforms --------------------------------------------------
@pytest.mark.parametrize(
    "dtype", proofs.thinned([*SIGNED[2:], *UNSIGNED[:1], *FLOATS, *COMPLEX], kind_of)
)
def test_products(dtype: str) -> None:
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((4, 2, 3), (3, 2)),
                 ((1, 2, 3), (5, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3))):  # fmt: skip
        check(lambda np, x, y: [x @ y, np.matmul(x, y)], data(a, dtype), data(b, dtype))
    x, y = data((2, 3), dtype), data((3, 2), dtype)
    for axes in (0, 1, ((0, 1), (1, 0)), ((), ())):
        check(lambda np, x, y, a=axes: np.tensordot(x, y, axes=a), x, y)
    check(lambda np, x: [np.vecdot(x, x), np.linalg.vecdot(x, x, axis=0), x.mT, x.T], x)
    check(lambda np, x: [np.linalg.outer(x[0], x[1]), np.linalg.cross(x, x[1])], x)
    cube, steps = data((2, 3, 4), dtype), (-2, -1, 0, 3)
    check(lambda np, x: [np.linalg.trace(x, offset=k) for k in steps], cube)
    check(lambda np, x: [np.linalg.diagonal(x, offset=k) for k in steps], cube)


@pytest.mark.parametrize("dtype", proofs.thinned([*COMPLEX, *FLOATS], kind_of))
def test_linear_algebra(dtype: str) -> None:
    for batch, n in (((), 3), ((2,), 3), ((0,), 3), ((), 0)):
        x = data((*batch, n, n), dtype) + 9 * np.eye(n, dtype=dtype)
        h = x @ np.conj(x.mT if hasattr(x, "mT") else np.swapaxes(x, -1, -2))
        check(lambda np, x: [np.linalg.inv(x), np.linalg.det(x), *np.linalg.slogdet(x)], x)
        check(lambda np, x: [np.linalg.matrix_power(x, k) for k in (0, 1, 3, -1)], x)
        check(lambda np, x, y: np.linalg.solve(x, y), x, data((*batch, n, 2), dtype))
        check(lambda np, h: [np.linalg.cholesky(h, upper=u) for u in (True, False)]
              + [np.linalg.eigvalsh(h)], h)  # fmt: skip
        for m in (0, 2) if n else (2,):
            y = data((*batch, n, m), dtype)
            check(
                lambda np, y: [np.linalg.svdvals(y), np.linalg.pinv(y), np.linalg.matrix_rank(y)], y
            )
            for name, shapes in (("qr", (False, True)), ("svd", (False, True))):
                for whole in shapes:
                    given = ({"mode": ("reduced", "complete")[whole]} if name == "qr"
                             else {"full_matrices": whole})  # fmt: skip
                    found, wanted = (getattr(xp.linalg, name)(v, **given) for xp, v in
                                     ((pn, pn.asarray(y)), (np, y)))  # fmt: skip
                    assert [np.shape(f) for f in found] == [w.shape for w in wanted]
                    assert type(found)._fields == type(wanted)._fields
            for order in ("fro", "nuc", 1, 2, np.inf, *((-1, -2, -np.inf) if n and m else ())):
                check(lambda np, y, o=order: np.linalg.matrix_norm(y, ord=o), y)
            for order in (0, 1, 2, 3.5, np.inf, *((-1, -2, -np.inf) if y.size else ())):
                check(lambda np, y, o=order: np.linalg.vector_norm(y, ord=o, axis=(-1, -2)), y)


@pytest.mark.parametrize("dtype", proofs.thinned([*FLOATS, *COMPLEX], kind_of))
def test_fourier_transforms(dtype: str) -> None:
    x = data((4, 5), dtype)
    real = ["rfft", "ihfft"] * (dtype in FLOATS)
    for norm, n, axis in (("backward", 3, 0), ("ortho", 8, 1), ("forward", None, 1)):
        for name in ("fft", "ifft", "hfft", "irfft", *real):
            given = {"n": n, "axis": axis, "norm": norm}
            check(lambda np, x, f=name, g=given: getattr(np.fft, f)(x, **g), x)
    both: list[dict[str, Any]] = [{"axes": (0, 1)}, {"s": (3, 6), "axes": (1, 0)}, {}]
    for given in both:
        for name in ("fftn", "ifftn", "irfftn", *["rfftn"] * (dtype in FLOATS)):
            check(lambda np, x, f=name, g=given: getattr(np.fft, f)(x, **g), x)
    check(lambda np, x: [np.fft.fftshift(x), np.fft.ifftshift(x, axes=1)], x)
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(pn.fft, name)(n, d=0.25, dtype=pn.float64)
            np.testing.assert_array_equal(found, getattr(np.fft, name)(n, d=0.25))


# -- the array object, exchange, inspection ------------------------------------------------------
MEMBERS = """
    dtype device mT ndim shape size T __abs__ __add__ __and__ __array_namespace__ __bool__
    __complex__
    __dlpack__ __dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__
    __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__
    __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device __radd__ __rsub__
    __rmul__ __rtruediv__ __rfloordiv__ __rpow__ __rmod__ __rmatmul__ __rand__ __ror__ __rxor__
    __rlshift__ __rrshift__
""".split()  # noqa: SIM905


def test_the_array_object() -> None:
    x = pn.asarray(data((2, 3), "float32"))
    assert not [name for name in MEMBERS if not hasattr(x, name)]
    y = x
    y += 1  # arrays are immutable: another one
    assert y.dtype == x.dtype and (y - x).tolist() == [[1.0] * 3] * 2
    one = pn.asarray(3)
    assert (float(one), int(one), bool(one), complex(one), operator.index(one)) == (
        3,
        3,
        True,
        3,
        3,
    )
    with pytest.raises(TypeError):
        operator.index(pn.asarray(3.0))
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is pn


@pytest.mark.parametrize("dtype", ALL)
def test_arrays_are_exchanged(dtype: str) -> None:
    for shape in SHAPES:
        array = data(shape, dtype)
        x = pn.from_dlpack(array)
        back = np.from_dlpack(x)
        for found in (x, back, pn.from_dlpack(x, copy=True), pn.from_dlpack(x, device="cpu")):
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(found, array)
    assert "dltensor" in repr(x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True))


def test_the_namespace_inspects_itself() -> None:
    info = pn.__array_namespace_info__()
    abilities = info.capabilities()
    assert abilities["boolean indexing"] and abilities["data-dependent shapes"]
    assert abilities["max dimensions"] is None or abilities["max dimensions"] >= 8
    default = info.default_dtypes(device=info.default_device())
    kinds = {"real floating": FLOATS, "complex floating": COMPLEX, "integral": (*SIGNED, *UNSIGNED),
             "bool": ("bool",), "signed integer": SIGNED, "unsigned integer": UNSIGNED,
             "numeric": ALL[1:]}  # fmt: skip
    assert set(default) == {"real floating", "complex floating", "integral", "indexing"}
    assert all(str(default[k]) in kinds.get(k, SIGNED) for k in default)
    for kind, names in kinds.items():
        assert set(info.dtypes(kind=kind)) == set(names)
        for dtype in ALL:
            assert pn.isdtype(getattr(pn, dtype), kind) == (dtype in names)
    assert set(info.dtypes()) == set(ALL)
    with phix.default_dtype("float64"):
        assert info.default_dtypes()["complex floating"] == pn.complex128 == pn.asarray([1j]).dtype
