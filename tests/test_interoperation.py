"""Tensors among other libraries: what they give, what they take, copies and pickles.

Libraries that are not everywhere are imported inside tests; what they are to see is written out, or
shown by an array that speaks their protocol.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import phix
from phix import errors
from phix.core import foreign

X = np.array([1.0, 2.5, -3.0], np.float32)
HALVES = phix.to_tensor(X).astype("bfloat16")


class Lent:
    """An array of another library, of bfloat16, that speaks DLPack alone."""

    def __init__(self, data: phix.Tensor) -> None:
        self.data = data

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.data.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


class Recorded:
    """A value whose library records its gradients, as PyTorch's parameters are."""

    requires_grad = True
    shape, ndim = (3,), 1

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def detach(self) -> np.ndarray:
        return self.values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("call detach")


class Table:
    """Values with an index, as pandas has them: an array by NumPy's protocol alone."""

    shape, ndim = (3,), 1

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return X


# -- arrays of others ------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}, {"copy": True}])
def test_bfloat16_goes_out_and_in_by_dlpack(options: dict[str, Any]) -> None:
    back = phix.to_tensor(Lent(HALVES))
    assert back.dtype == phix.bfloat16 and back.tolist() == X.tolist()
    assert phix.ops.exp(Lent(HALVES)).dtype == phix.bfloat16
    capsule = HALVES.__dlpack__(**options)
    del capsule  # nobody took it: its memory goes
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(HALVES)  # NumPy itself has none


def test_values_that_gradients_are_recorded_of() -> None:
    assert phix.to_tensor(Recorded(X)).tolist() == X.tolist()
    for call in (phix.ops.exp, phix.jit(lambda x: x)):
        with pytest.raises(errors.ArgumentError, match=r"x\.detach\(\)"):
            call(Recorded(X))


def test_tables_are_arguments() -> None:
    assert phix.jit(lambda x: 2.0 * x)(Table()).tolist() == (2 * X).tolist()
    assert (
        phix.grad(lambda t: (t["a"] ** 2).sum())({"a": Table()})["a"].tolist() == (2 * X).tolist()
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (type("S", (), {"tocsr": None, "shape": (2, 2)})(), "phix.sparse.from_scipy"),
        (type("T", (), {"aval": None})(), "traced by another library"),
        (type("K", (), {"dtype": "key<fry>"})(), "jax.random.key_data"),
        (type("M", (), {"device": "meta"})(), "nothing has values"),
        (type("D", (), {"to_dense": None, "layout": "torch.sparse_coo"})(), r"x\.to_dense\(\)"),
        (np.array(["a"], object), "cat.codes"),
        (np.array(["2020-01-01"], "M8[D]"), "astype\\('int64'\\)"),
    ],
)
def test_what_is_no_array_says_the_way(data: Any, said: str) -> None:
    with pytest.raises((errors.ArgumentError, errors.DTypeError), match=said):
        phix.to_tensor(data)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    bits = torch.arange(4.0).to(torch.bfloat16)
    assert phix.to_tensor(bits).dtype == phix.bfloat16
    assert torch.from_dlpack(HALVES).dtype == torch.bfloat16
    assert torch.from_dlpack(HALVES).float().tolist() == X.tolist()
    shared = foreign.host_array(bits)
    bits[0] = 7.0
    assert shared is not None and float(shared[0]) == 7.0, "no copy on the way in"
    weight = torch.nn.Parameter(torch.ones(2))
    assert phix.to_tensor(weight).tolist() == [1.0, 1.0]
    with pytest.raises(errors.ArgumentError, match="Parameter that its library records"):
        phix.ops.exp(weight)
    turned = torch.tensor([1 + 2j]).conj()
    assert phix.to_tensor(turned).tolist() == [1 - 2j]
    assert phix.to_tensor(turned.imag).tolist() == [-2.0]
    with pytest.raises(errors.ArgumentError, match="to_dense"):
        phix.to_tensor(torch.eye(2).to_sparse())


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    assert phix.to_tensor(jax.numpy.asarray(HALVES)).dtype == phix.bfloat16
    assert jax.dlpack.from_dlpack(HALVES).dtype == "bfloat16"
    with pytest.raises(errors.ArgumentError, match="pure_callback"):
        jax.jit(phix.ops.exp)(jax.numpy.ones(2))


def test_pandas() -> None:
    pd = pytest.importorskip("pandas")
    x, series = phix.to_tensor(X), pd.Series(X)
    frame = pd.DataFrame({"a": X, "b": X})
    assert phix.jit(lambda s, f: s.sum() + f.sum())(series, frame).item() == 3 * X.sum()
    assert pd.Series(x).tolist() == X.tolist() and pd.DataFrame(frame).shape == (3, 2)
    assert isinstance(series + x, pd.Series) and isinstance(x + series, phix.Tensor)
    with pytest.raises(errors.DTypeError, match=r"cat\.codes"):
        phix.to_tensor(pd.Series(["a"]))


# -- libraries on top of NumPy ---------------------------------------------------------------------
def _minimised(method: str) -> Any:
    from scipy import optimize

    loss = phix.jit(lambda x: ((x - 1.0) ** 2).sum())
    found = optimize.minimize(loss, np.zeros(3), jac=phix.jit(phix.grad(loss)), method=method)
    return found.x


def _stiff() -> Any:
    from scipy import integrate

    f = phix.jit(lambda t, y: -y)
    jac = phix.jit(phix.jacfwd(lambda t, y: -y, argnums=1))
    return integrate.solve_ivp(f, (0.0, 1.0), phix.ones([1]), method="BDF", jac=jac).y[:, -1]


def _least_squares() -> Any:
    from scipy import optimize

    f = phix.jit(lambda x: x * x - 4.0)
    return optimize.least_squares(f, phix.ones([2]), jac=phix.jit(phix.jacfwd(f))).x


def _sparse() -> Any:
    from scipy import sparse

    index = phix.arange(3)
    matrix = sparse.csr_array((phix.to_tensor(X), (index, index)), shape=(3, 3))
    return matrix @ phix.ones([3])


def _classified() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = phix.to_tensor(np.linspace(-1.0, 1.0, 20)).reshape([10, 2])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, x[:, 0] > 0)
    return model.predict(x)


ON_NUMPY: dict[str, tuple[Callable[[], Any], Any]] = {
    "BFGS": (lambda: _minimised("BFGS"), np.ones(3)),
    "L-BFGS-B": (lambda: _minimised("L-BFGS-B"), np.ones(3)),
    "solve_ivp": (_stiff, [np.exp(-1.0)]),
    "least_squares": (_least_squares, [2.0, 2.0]),
    "sparse": (_sparse, X),
    "sklearn": (_classified, np.linspace(-1.0, 1.0, 20)[::2] > 0),
}


@pytest.mark.parametrize("name", ON_NUMPY)
def test_libraries_on_numpy(name: str) -> None:
    run, wanted = ON_NUMPY[name]
    found = run()
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, wanted, rtol=2e-2)


def test_matplotlib() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, square = phix.to_tensor(X), phix.numpy.outer(X, phix.to_tensor(X))
    figure, axes = plt.subplots()
    assert axes.plot(x, HALVES)[0].get_ydata().tolist() == X.tolist()
    axes.bar(x, x)
    axes.scatter(x, x, c=x, s=x * x)
    axes.hist(x)
    axes.imshow(square)
    axes.errorbar(x, x, yerr=x * x)
    solid = figure.add_subplot(projection="3d")
    solid.plot_surface(square, square, square)
    plt.close(figure)


def test_numpy_gives_arrays_to_libraries_and_tensors_to_users() -> None:
    code = "import numpy as np\ndef f(x): return np.atleast_1d(x)"
    library, own = ModuleType("scipy.somewhere"), ModuleType("users")
    exec(code, vars(library))
    exec(code, vars(own))
    x = phix.to_tensor(2.0)
    assert type(library.f(x)) is np.ndarray and isinstance(own.f(x), phix.Tensor)
    assert phix.grad(lambda x: library.f(x).sum())(3.0).item() == 1.0, "tracers stay tracers"


# -- places and dtypes -----------------------------------------------------------------------------
def test_to_takes_places_and_dtypes() -> None:
    x = phix.to_tensor(X)
    for dtype in ("float64", np.float64, phix.float64, np.dtype("float64")):
        assert x.to(dtype).dtype == np.float64
    assert x.to("cpu", "int32").dtype == np.int32 and x.to(dtype=phix.int8).dtype == np.int8
    assert x.to(phix.zeros([1], "float16")).dtype == np.float16
    assert x.to("cpu") is x or x.to("cpu").tolist() == X.tolist()
    assert phix.jit(lambda x: x.to("float64"))(x).dtype == np.float64
    assert phix.grad(lambda x: x.to("float64").sum())(x).dtype == np.float32
    for wrong, said in (("cuda", "write 'gpu'"), ("flaot64", "no place"), ([1], "no place")):
        with pytest.raises(errors.DeviceError, match=said):
            x.to(wrong)


def test_devices() -> None:
    (first, *_) = phix.devices()
    assert (str(first), first.kind, first.engine) == ("cpu", "cpu", "loops")
    assert first.memory_in_bytes is None or first.memory_in_bytes > 1 << 20
    assert phix.devices("cpu") == [first] and phix.zeros([1]).to(first.place).place == first.place
    with pytest.raises(errors.DeviceError, match="no kind 'tpu'"):
        phix.devices("tpu")


def test_notebooks_show_tables() -> None:
    table = phix.arange(40).reshape([20, 2])._repr_html_()
    assert "<caption>int64[20, 2] on cpu</caption>" in table and "<td>39</td>" in table
    assert table.count("<tr>") == 12 and "&#8230;" in table
    assert phix.to_tensor([1.5])._repr_html_().count("<td>") == 1
    assert phix.ones([2, 2, 2])._repr_html_().startswith("<pre>Tensor(")


# -- copies and pickles ----------------------------------------------------------------------------
def twice(x: phix.Tensor) -> phix.Tensor:
    return 2.0 * x


jitted_twice = phix.jit(twice)
slope = phix.jit(phix.grad(lambda x: (x * x).sum()))


@phix.jit
def decorated(x: phix.Tensor) -> phix.Tensor:
    return x + 1.0


def _again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


KEPT: dict[str, Any] = {
    "tensor": HALVES,
    "tree": {"a": [phix.to_tensor(X)], "b": (1, None)},
    "spec": phix.spec(["n", 3]),
    "graph": phix.make_graph(twice)(phix.spec([3])),
    "module": phix.nn.Linear.create(phix.random.key(0), 3, 2),
    "state": phix.optim.adam(1e-3).init({"w": phix.to_tensor(X)}),
    "key": phix.random.key(3),
    "place": phix.Place("gpu", 1),
    "error": errors.ShapeError("wrong"),
}


@pytest.mark.parametrize("name", KEPT)
def test_values_are_copied_and_pickled(name: str) -> None:
    value = KEPT[name]
    for again in (_again(value), copy.copy(value), copy.deepcopy(value)):
        assert str(again) == str(value) and type(again) is type(value)


def test_jitted_functions_are_pickled_by_name() -> None:
    x = phix.to_tensor(X)
    assert _again(decorated) is decorated and _again(slope) is slope
    assert copy.deepcopy({"f": slope})["f"] is slope and copy.copy(slope) is slope
    again = _again(phix.jit(twice, dynamic=False))
    assert again is not jitted_twice and again(x).tolist() == (2 * X).tolist()
    donating = _again(phix.jit(twice, donate_argnums=0))
    assert donating.donated == (0,)


def test_what_is_not_pickled_says_the_way() -> None:
    lowered = jitted_twice.lower(phix.spec([3]))
    local = lambda x: x  # noqa: E731
    for value, said in (
        (phix.jit(local), "top of a module"),
        (lowered, "pickle the jitted function"),
        (lowered.compile(), "pickle the jitted function"),
        (phix.optim.adam(1e-3), "pickle its state"),
    ):
        with pytest.raises(errors.ArgumentError, match=said):
            pickle.dumps(value)
    assert copy.deepcopy(phix.optim.adam(1e-3)) is not None
    compiled = lowered.compile()
    assert copy.deepcopy(compiled)(phix.to_tensor(X)).tolist() == (2 * X).tolist()


def test_nothing_of_it_is_imported_with_phix() -> None:
    late = ("phix.core.capsules", "phix.core.tables", "phix.api.devices", "phix.pictures",
            "phix.api.profiling", "pandas", "torch", "jax")  # fmt: skip
    code = f"import sys, phix; print([m for m in {late} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
