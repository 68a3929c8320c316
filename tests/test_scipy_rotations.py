"""phix.scipy.spatial.transform beside SciPy's; derivatives beside finite differences, at the
identity and beside it."""

from __future__ import annotations

import doctest
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import transform as of_scipy

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    TensorIndexError,
    UnknownDimError,
)
from phix.scipy.spatial import transform
from phix.scipy.spatial.transform import Rotation, Slerp

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(7)
QUATS = RNG.standard_normal((30, 4))
QUATS[:8] = [
    [0, 0, 0, 1], [0, 0, 0, -1], [1, 0, 0, 0], [0, -1, 0, 0], [1e-9, 0, 0, 1],
    [1, 1, 0, 0], [0.1, 0.1, 0.1, -1], [0, 1, 0, 1],
]  # fmt: skip
OWN, WANTED = Rotation.from_quat(QUATS), of_scipy.Rotation.from_quat(QUATS)
VECTORS = RNG.standard_normal((30, 3))
SEQUENCES = [
    "".join(s)
    for n in (1, 2, 3)
    for s in itertools.product("xyz", repeat=n)
    if all(a != b for a, b in itertools.pairwise(s))
]


def same(found: Any, want: Any, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol, atol)


def numeric(f: Callable[[Any], Any], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The Jacobian of a function of an array, by central differences."""
    columns = []
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / 2e-6)
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


# -- values ---------------------------------------------------------------------------------------
def test_rotations_as_numbers() -> None:
    same(OWN.as_quat(), WANTED.as_quat())
    same(OWN.as_quat(canonical=True), WANTED.as_quat(canonical=True))
    same(OWN.as_quat(scalar_first=True), WANTED.as_quat(scalar_first=True))
    same(Rotation.from_quat(QUATS, scalar_first=True).as_matrix(),
         of_scipy.Rotation.from_quat(QUATS, scalar_first=True).as_matrix())  # fmt: skip
    for name in ("as_matrix", "as_rotvec", "as_mrp", "magnitude"):
        same(getattr(OWN, name)(), getattr(WANTED, name)())
    same(OWN.as_rotvec(degrees=True), WANTED.as_rotvec(degrees=True))


def test_rotations_from_numbers() -> None:
    made, wanted = Rotation, of_scipy.Rotation
    matrices = WANTED.as_matrix()
    same(made.from_matrix(matrices).as_quat(), wanted.from_matrix(matrices).as_quat())
    same(made.from_matrix(matrices, assume_valid=True).as_matrix(), matrices)
    for far in (1e-3, 0.3, 1.0, 100.0):
        others = matrices + far * RNG.standard_normal((30, 3, 3))
        others = others[np.linalg.det(others) > 0]
        same(
            made.from_matrix(others).as_matrix(), wanted.from_matrix(others).as_matrix(), 1e-8, 1e-8
        )
    assert np.isnan(np.asarray(made.from_matrix(-np.eye(3)).quat)).all()
    for scale in (1e-9, 0.3, 1.0, 9.0):
        same(
            made.from_rotvec(scale * VECTORS).as_quat(),
            wanted.from_rotvec(scale * VECTORS).as_quat(),
        )
        same(
            made.from_mrp(scale * VECTORS).as_matrix(), wanted.from_mrp(scale * VECTORS).as_matrix()
        )
    same(made.from_rotvec(VECTORS, degrees=True).as_quat(),
         wanted.from_rotvec(VECTORS, degrees=True).as_quat())  # fmt: skip


@pytest.mark.parametrize("seq", ["x", "y", "z", "xy", "zx", *SEQUENCES[9::2]])
def test_angles_about_axes(seq: str) -> None:
    angles = RNG.uniform(-4.0, 4.0, (12, len(seq)))
    own, wanted = Rotation(QUATS[8:]), of_scipy.Rotation.from_quat(QUATS[8:])
    for case in (seq, seq.upper()):
        want = of_scipy.Rotation.from_euler(case, angles)
        same(Rotation.from_euler(case, angles).as_matrix(), want.as_matrix())
        if len(seq) == 3:
            same(own.as_euler(case, degrees=True), wanted.as_euler(case, degrees=True))


@pytest.mark.parametrize("seq", SEQUENCES[-12::2])
def test_angles_where_axes_coincide(seq: str) -> None:
    angles = RNG.uniform(-3.0, 3.0, (4, 3))
    angles[:, 1] = [0.0, np.pi] * 2 if seq[0] == seq[2] else [0.5 * np.pi, -0.5 * np.pi] * 2
    for case in (seq, seq.upper()):
        want = of_scipy.Rotation.from_euler(case, angles)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            locked = want.as_euler(case)
        found = np.asarray(Rotation.from_quat(want.as_quat()).as_euler(case))
        same(np.cos(found - locked), np.ones((4, 3)), 1e-9)
        same(Rotation.from_euler(case, found).as_matrix(), want.as_matrix(), 1e-6, 1e-7)
        assert (found[:, 2] == 0.0).all()


def test_products_and_vectors() -> None:
    same((OWN * OWN[::-1]).as_quat(), (WANTED * WANTED[::-1]).as_quat())
    same((OWN[3] * OWN).as_quat(), (WANTED[3] * WANTED).as_quat())
    same(OWN.apply(VECTORS), WANTED.apply(VECTORS))
    same(OWN.apply(VECTORS[0]), WANTED.apply(VECTORS[0]))
    same(OWN[9].apply(VECTORS, inverse=True), WANTED[9].apply(VECTORS, inverse=True))
    same(OWN.inv().as_matrix(), WANTED.inv().as_matrix())
    grid = Rotation.from_quat(QUATS.reshape(5, 6, 4))
    same(grid.apply(VECTORS.reshape(5, 6, 3)), WANTED.apply(VECTORS).reshape(5, 6, 3))
    assert grid.shape == (5, 6) and len(grid[1]) == 6 and grid[1, 2].single


def test_means_are_those_of_scipy() -> None:
    near = Rotation.from_rotvec(0.4 * VECTORS) * OWN[8]
    wanted = of_scipy.Rotation.from_rotvec(0.4 * VECTORS) * WANTED[8]
    weights = RNG.uniform(0.0, 1.0, 30)
    for given in ((), (weights,)):
        same(near.mean(*given).as_matrix(), wanted.mean(*given).as_matrix())
    same(OWN[9].mean().as_matrix(), WANTED[9].as_matrix())


@pytest.mark.parametrize(
    ("dtype", "large"), [("float16", 2e3), ("float32", 1e30), ("float64", 1e300)]
)
def test_quaternions_are_of_any_length(dtype: str, large: float) -> None:
    for length in (large, 1.0 / large):
        quat = phix.to_tensor([0.0, 0.0, 0.6 * length, -0.8 * length], dtype=dtype)
        np.testing.assert_allclose(Rotation(quat).quat, [0.0, 0.0, 0.6, -0.8], 2e-3)
    slopes = phix.jacrev(lambda q: Rotation(q).quat), phix.hessian(lambda q: Rotation(q).quat[0])
    wanted = phix.jacrev(unit), phix.hessian(lambda q: unit(q)[0])
    for found, want in zip(slopes, wanted):
        same(found(QUATS[9]), want(QUATS[9]))


def unit(q: Any) -> Any:
    return q / ops.sqrt(ops.sum(q * q))


def test_rotations_are_sequences() -> None:
    assert len(OWN) == 30 and not OWN.single and OWN[2].single and bool(OWN[:0])
    same(OWN[2:5].quat, OWN.quat[2:5])
    same(OWN[np.array([3, 1])].quat, np.asarray(OWN.quat)[[3, 1]])
    assert len(list(OWN[:3])) == 3
    with pytest.raises(UnknownDimError):  # not a loop without an end
        phix.jit(
            lambda q: [r.quat for r in Rotation(q)], input_spec=[phix.spec(["n", 4], "float64")]
        )(QUATS)
    both = Rotation.concatenate([OWN[:2], OWN[4]])
    same(both.as_quat(), of_scipy.Rotation.concatenate([WANTED[:2], WANTED[4]]).as_quat())
    assert Rotation.identity().quat.tolist() == [0.0, 0.0, 0.0, 1.0]
    assert Rotation.identity(2, "float64").as_matrix().tolist() == [np.eye(3).tolist()] * 2
    drawn = Rotation.random(phix.random.key(0), 2000)
    same(drawn.quat.square().sum(-1), np.ones(2000), 1e-5)
    same(drawn.as_matrix().mean([0]), np.zeros((3, 3)), 0.0, 0.06)
    assert Rotation.random(phix.random.key(0)).single
    assert Rotation.from_euler("x", 1).single and len(Rotation.from_euler("x", [1, 2])) == 2
    narrow = Rotation.from_rotvec(phix.zeros([3]))
    assert narrow.quat.dtype == "float32" and narrow.as_euler("xyz").dtype == "float32"
    assert "Rotation.from_quat" in repr(narrow)
    half = Rotation.from_rotvec(phix.zeros([2, 3], "float16")).mean()
    assert half.quat.dtype == "float16" and abs(half.quat.tolist()[3]) == 1.0


def test_slerp_is_that_of_scipy() -> None:
    times = np.sort(RNG.standard_normal(30))
    at = np.concatenate([times, RNG.uniform(times[0], times[-1], 20)])
    own, wanted = Slerp(times, OWN), of_scipy.Slerp(times, WANTED)
    same(own(at).as_matrix(), wanted(at).as_matrix())
    same(own(at[40]).as_matrix(), wanted(at[40]).as_matrix())
    same(phix.jit(lambda s, t: s(t))(own, at).as_matrix(), wanted(at).as_matrix())
    same(Slerp.init(times, OWN)(at).quat, own(at).quat)
    assert np.isnan(np.asarray(own([times[0] - 1.0, np.nan]).quat)).all()
    t = np.asarray(at[35])
    found = phix.grad(lambda t: own(t).as_rotvec().sum())(phix.to_tensor(t))
    want = (wanted(t + 1e-6).as_rotvec().sum() - wanted(t - 1e-6).as_rotvec().sum()) / 2e-6
    same(found, want, 1e-6, 1e-7)


# -- derivatives ----------------------------------------------------------------------------------
def to_cube(v: Any) -> Any:
    return Rotation.from_rotvec(v).as_matrix()


@pytest.mark.parametrize("scale", [0.0, 0.499, 2.0])
def test_slopes_of_vectors(scale: float) -> None:
    v = phix.to_tensor(scale * VECTORS[0] / np.linalg.norm(VECTORS[0]))
    found = phix.jit(phix.jacrev(to_cube))(v)
    want = numeric(lambda v: of_scipy.Rotation.from_rotvec(v).as_matrix(), np.asarray(v))
    same(found, want, 1e-7, 1e-8)
    same(phix.jit(phix.jacrev(lambda v: Rotation.from_rotvec(v).as_rotvec()))(v), np.eye(3))
    twice = phix.jit(phix.hessian(lambda v: Rotation.from_rotvec(v).as_rotvec().sum()))(v)
    same(twice, np.zeros((3, 3)), 0.0, 1e-10)
    second = phix.jit(phix.jacfwd(phix.jacrev(to_cube)))(v)
    same(
        second,
        numeric(lambda v: phix.jacrev(to_cube)(phix.to_tensor(v)), np.asarray(v)),
        1e-6,
        1e-7,
    )


def test_second_slopes_at_the_identity() -> None:
    """exp(K) = 1 + K + K^2 / 2 + ..., and K^2 = v v^T - v^T v."""
    found = phix.jacfwd(phix.jacrev(to_cube))(phix.zeros([3], "float64"))
    one = np.eye(3)
    want = np.zeros((3, 3, 3, 3))
    for i, j in np.ndindex(3, 3):
        want[i, j] = 0.5 * (np.outer(one[i], one[j]) + np.outer(one[j], one[i])) - (i == j) * one
    same(found, want)
    slope = phix.grad(lambda v: Rotation.from_rotvec(v).magnitude())(phix.zeros([3]))
    assert slope.tolist() == [0.0, 0.0, 0.0]
    half = phix.to_tensor([1.0, 0.0, 0.0, 0.0])
    assert np.isfinite(np.asarray(phix.jacrev(lambda q: Rotation(q).as_rotvec())(half))).all()
    assert phix.grad(lambda q: Rotation(q).magnitude())(half).tolist() == [0.0] * 4


def turned(of: Any, v: Any) -> Any:
    return of.from_rotvec(v + np.asarray([0.3, -0.2, 0.5]))


def of_a_mean(of: Any, v: Any) -> Any:
    return of.concatenate([turned(of, v), turned(of, -v), of.from_rotvec(v)]).mean().as_rotvec()


@pytest.mark.parametrize(
    "f",
    [
        lambda of, v: turned(of, v).as_euler("xyz"),
        lambda of, v: of.from_euler("YXZ", v).as_euler("ZXZ"),
        lambda of, v: of.from_mrp(v).as_mrp(),
        lambda of, v: of.from_matrix(np.diag([1.0, 2.0, 3.0]) + 0.3 * v).as_quat(),
        lambda of, v: (turned(of, v) * turned(of, 2.0 * v).inv()).apply(v),
        lambda of, v: turned(of, v).magnitude(),
        of_a_mean,
    ],
)
def test_slopes_of_all_else(f: Any) -> None:
    v = VECTORS[1] * 0.4
    own = phix.jit(phix.jacrev(lambda v: f(Rotation, v)))
    same(own(v), numeric(lambda v: f(of_scipy.Rotation, v), v), 1e-6, 1e-8)
    second = phix.jacfwd(phix.jacrev(lambda v: f(Rotation, v)))(phix.to_tensor(v))
    same(second, numeric(own, v), 1e-5, 1e-6)
    if f is of_a_mean:
        lanes = phix.vmap(lambda v: f(Rotation, v))(phix.to_tensor(np.stack([v, 0.5 * v])))
        same(lanes, [f(of_scipy.Rotation, v), f(of_scipy.Rotation, 0.5 * v)])


def test_the_slope_of_a_mean_of_equal_rotations() -> None:
    v = phix.to_tensor(np.stack([VECTORS[0], VECTORS[0]]) * 0.5)
    found = phix.jacrev(lambda v: Rotation.from_rotvec(v).mean().as_rotvec())(v)
    same(found, np.stack([np.eye(3) / 2.0] * 2, 1), 1e-9, 1e-10)


def test_rotations_are_trees() -> None:
    def loss(r: Rotation, v: Any) -> Any:
        return ops.sum(ops.square(r.apply(v)[..., 0]))

    slope = phix.jit(phix.grad(loss))(OWN, VECTORS)
    assert isinstance(slope, Rotation) and slope.quat.shape == (30, 4)
    lanes = phix.vmap(lambda r, v: r.apply(v))(OWN, phix.to_tensor(VECTORS))
    same(lanes, WANTED.apply(VECTORS))
    made = phix.vmap(Rotation.from_rotvec)(phix.to_tensor(VECTORS))
    assert isinstance(made, Rotation) and len(made) == 30
    (leaf,) = phix.tree.leaves(OWN)
    assert leaf is OWN.quat
    program = phix.jit(
        lambda q, v: (Rotation(q).inv() * Rotation(q).mean()).apply(v),
        input_spec=[phix.spec(["n", 4], "float64"), phix.spec(["n", 3], "float64")],
    )
    near = (WANTED[8] * of_scipy.Rotation.from_rotvec(0.3 * VECTORS)).as_quat()
    of_near = of_scipy.Rotation.from_quat(near)
    same(program(near, VECTORS), (of_near.inv() * of_near.mean()).apply(VECTORS))


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: Rotation([1.0, 2.0]), ShapeError, r"Rotation: quat must be \[..., 4\]"),
        (lambda: Rotation(QUATS + 0j), DTypeError, "takes real numbers"),
        (lambda: Rotation.from_matrix(np.eye(4)), ShapeError, r"from_matrix: .*\[..., 3, 3\]"),
        (lambda: Rotation.from_rotvec(1.0), ShapeError, r"rotvec must be \[..., 3\]"),
        (lambda: Rotation.from_rotvec(VECTORS, degrees="yes"), ArgumentError, "degrees must be"),
        (lambda: Rotation.from_euler("xyX", VECTORS), ArgumentError, "seq must be"),
        (lambda: Rotation.from_euler("xxy", VECTORS), ArgumentError, "same axis twice"),
        (lambda: Rotation.from_euler("xy", VECTORS), ShapeError, r"angles must be \[..., 2\]"),
        (lambda: OWN.as_euler("xy"), ArgumentError, "seq must be 3"),
        (lambda: OWN.apply([1.0, 2.0]), ShapeError, "apply: vectors must be"),
        (lambda: Rotation.identity(dtype="int32"), DTypeError, "identity: dtype must be a float"),
        (lambda: Rotation.identity(-1), ArgumentError, "num must be"),
        (lambda: Rotation.concatenate([]), ArgumentError, "must be a list"),
        (lambda: OWN[:0].mean(), ShapeError, "no mean"),
        (lambda: OWN.mean([1.0]), ShapeError, "weights must be"),
        (lambda: OWN[:1].mean([-1.0]), ArgumentError, "weights must be from 0"),
        (lambda: len(OWN[0]), ArgumentError, "no len"),
        (lambda: OWN[0][0], TensorIndexError, "no elements"),
        (lambda: list(OWN[0]), ArgumentError, "no elements to go through"),
        (lambda: OWN * 2.0, TypeError, "unsupported"),
        (lambda: Slerp([0.0, 1.0], 3), ArgumentError, "must be a Rotation"),
        (lambda: Slerp([0.0, 1.0], OWN), ShapeError, "n from 2"),
        (lambda: Slerp([0.0], OWN[:1]), ShapeError, "n from 2"),
        (lambda: Slerp([1.0, 0.0], OWN[:2]), ArgumentError, "must ascend"),
    ],
)
def test_what_does_not_fit_is_refused(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()


def test_examples() -> None:
    assert doctest.testmod(transform).failed == 0
