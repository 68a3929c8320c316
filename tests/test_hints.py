"""What is said of names and arguments that are not there."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import phix
from phix.core import synonyms
from phix.core.errors import ArgumentError, UnknownNameError, UnrolledLoopWarning

X = phix.to_tensor(np.arange(6.0).reshape(2, 3))
PATH = re.compile(r"\bphix(?:\.[A-Za-z_]\w*)+")


def _resolved(path: str) -> Any:
    value: Any = phix
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("table", ["NAMES", "OF_TENSORS"])
def test_what_the_tables_propose_is_there(table: str) -> None:
    for name, text in getattr(synonyms, table).items():
        for path in PATH.findall(text):
            assert _resolved(path) is not None, (name, path)
        if table == "OF_TENSORS":
            for member in re.findall(r"\bx\.([A-Za-z_]\w*)", text):
                assert hasattr(X, member), (name, member)
        for function in re.findall(r"\bnp\.([a-z_]+)\(", text):
            assert hasattr(np, function), (name, function)


def test_no_row_is_of_a_name_that_is_there() -> None:
    """A name of the face itself would never be looked up."""
    assert not [n for n in synonyms.NAMES if n in phix.__all__]
    of_traced_tensors = {"data", "place"}
    assert not [n for n in synonyms.OF_TENSORS if hasattr(X, n) and n not in of_traced_tensors]


def test_what_is_proposed_for_slices_at_run_time_works_traced() -> None:
    """In a loop, as a cache of keys is filled: there i is no number that Python knows."""
    taken, written = (synonyms.NAMES[n] for n in ("dynamic_slice", "dynamic_update_slice"))

    def fill(x: Any, i: Any) -> tuple[Any, Any]:
        scope = {"x": x, "i": i, "n": 2, "values": -x[:2], "phix": phix}
        return eval(written, scope), eval(taken, scope)

    last, parts = phix.jit(lambda x: phix.scan(fill, x, phix.arange(3)))(np.arange(1.0, 6.0))
    x = np.arange(1.0, 6.0)
    for i in range(3):
        np.testing.assert_array_equal(parts[i].numpy(), x[i : i + 2])
        x[i : i + 2] = -x[:2]
    np.testing.assert_array_equal(last.numpy(), x)


@pytest.mark.parametrize(
    ("path", "proposed"),
    [
        ("phix.arctan", "phix.ops.atan("),
        ("phix.sin", "write phix.ops.sin"),
        ("phix.relu", "phix.nn.functional.relu"),
        ("phix.cat", "phix.ops.concat("),
        ("phix.lax", "phix.cond"),
        ("phix.grads", "did you mean phix.grad"),
        ("phix.value_and_grad_", "phix.value_and_grad"),
        ("phix.jnp", "dir(phix)"),
        ("phix.no_grad", "phix.stop_gradient"),
        ("phix.GradientTape", "phix.grad"),
        ("phix.ops.tahn", "phix.ops.tanh"),
        ("phix.ops.reduce_sum", "phix.ops.sum"),
        ("phix.ops.mm", "phix.ops.matmul"),
        ("phix.ops.clamp", "phix.ops.clip"),
        ("phix.ops.jit", "write phix.jit"),
        ("phix.Linear", "phix.nn.Linear.create("),
        ("phix.Module", "@phix.nn.module"),
        ("phix.nn.Module", "@phix.nn.module"),
        ("phix.nn.ReLU", "phix.nn.functional.relu"),
        ("phix.nn.Linaer", "did you mean phix.nn.Linear"),
        ("phix.nn.functional.rellu", "phix.nn.functional.relu"),
        ("phix.linalg.nrom", "phix.linalg.norm"),
        ("phix.fft.fftt", "phix.fft.fft"),
        ("phix.random.randn", "phix.random.normal"),
        ("phix.random.PRNGKey", "phix.random.key"),
        ("phix.sparse.to_sparse", "phix.sparse.to_sparse_coo"),
        ("phix.tree.tree_map", "phix.tree.map"),
        ("phix.debug.nan", "float('nan')"),
        ("phix.debug.leak", "phix.debug.leaks"),
        ("phix.errors.ShapesError", "phix.errors.ShapeError"),
    ],
)
def test_modules_propose(path: str, proposed: str) -> None:
    module, _, name = path.rpartition(".")
    assert not hasattr(_resolved(module), name)
    with pytest.raises(AttributeError, match=re.escape(proposed)) as caught:
        _resolved(path)
    assert isinstance(caught.value, UnknownNameError) and repr(name) in str(caught.value)


def test_private_and_special_names_are_no_questions() -> None:
    for name in ("__wrapped__", "__path_of_phix__"):
        with pytest.raises(AttributeError) as caught:
            getattr(phix.ops, name)
        assert type(caught.value) is AttributeError


def test_tensors_propose_traced_ones_too() -> None:
    for name in ("permute", "backward", "clamp", "float", "fill"):
        assert not hasattr(X, name) and not hasattr(phix.Tensor, name)
        assert name not in dir(X)
        with pytest.raises(UnknownNameError, match=f"no attribute '{name}'; "):
            getattr(X, name)
        with pytest.raises(UnknownNameError, match=f"no attribute '{name}'; "):
            phix.jit(lambda x, name=name: getattr(x, name))(X)
    with pytest.raises(UnknownNameError, match=r"phix\.grad"):
        X.sum().backward()
    with pytest.raises(UnknownNameError, match=r"phix\.grad"):
        X.requires_grad = True
    assert {"sum", "reshape", "T", "shape"} <= set(dir(X)) and "sum_grad" not in dir(X)


def test_ops_propose_names_of_other_libraries() -> None:
    with pytest.raises(phix.errors.UnknownOpError, match="did you mean atan"):
        phix.core.rules.get_op("arctan")


# Of torch.Tensor, by how often programs write them: each is right, or says what to write.
OF_TORCH = """
view reshape permute transpose unsqueeze squeeze flatten contiguous detach cpu cuda to numpy item
tolist clone float double half long int bool type size dim numel shape dtype device ndim sum mean
std var max min argmax argmin norm prod abs exp log sqrt pow sin cos tan tanh sigmoid relu softmax
log_softmax clamp clamp_min clamp_max round floor ceil sign mm bmm matmul mv dot t T mT expand
expand_as repeat repeat_interleave chunk split unbind gather scatter scatter_add index_select
masked_fill masked_select nonzero where topk sort argsort cumsum cumprod any all eq ne lt le gt ge
logical_and logical_or logical_not isnan isinf isfinite requires_grad requires_grad_ backward grad
grad_fn is_leaf zero_ fill_ copy_ add_ mul_ sub_ div_ clamp_ normal_ uniform_ add sub mul div
logsumexp median kthvalue unique flip roll tril triu diag diagonal trace inverse det logdet
cholesky svd qr erf erfinv lgamma digamma rsqrt reciprocal square neg lerp addmm baddbmm outer
fmod remainder floor_divide atan2 type_as view_as reshape_as new_zeros new_ones new_full new_tensor
is_cuda is_contiguous stride storage data data_ptr element_size nelement register_hook retain_grad
real imag conj angle narrow unfold swapaxes movedim softplus tile take_along_dim
"""


@pytest.mark.parametrize("name", OF_TORCH.split())
def test_names_of_torch_are_there_or_answered(name: str) -> None:
    try:
        getattr(X, name)
    except UnknownNameError as error:
        assert re.search("write|read", str(error))


# -- loops of Python ---------------------------------------------------------------------------
def _steps(x: Any, count: int) -> Any:
    for _ in range(count):
        x = x * 1.5  # the line that is named
    return x


def test_an_unrolled_loop_is_warned_of_once_with_its_line() -> None:
    line = _steps.__code__.co_firstlineno + 2
    with phix.debug.settings(most_calls_of_a_line=20):
        phix.make_graph(lambda x: _steps(x, 20))(X)
        with pytest.warns(UnrolledLoopWarning, match=r"multiply 21 times.*phix\.fori_loop") as seen:
            phix.make_graph(lambda x: _steps(x, 21))(X)
        assert [(w.filename, w.lineno) for w in seen] == [(__file__, line)]
        phix.make_graph(lambda x: _steps(x, 22))(X)  # would be an error if it warned again


def test_calls_beside_each_other_are_no_unrolled_loop() -> None:
    with phix.debug.settings(most_calls_of_a_line=20):
        phix.make_graph(lambda *xs: [x * 2 for x in xs])(*[X] * 30)


def test_derivatives_and_bodies_are_no_unrolled_loops() -> None:
    def f(x: Any) -> Any:
        return phix.fori_loop(0, 1000, lambda i, x: x * 1.5, x).sum()

    with phix.debug.settings(most_calls_of_a_line=3):
        phix.make_graph(phix.grad(lambda x: _chain(x).sum()))(X)
        phix.make_graph(phix.grad(f))(X)


def _chain(x: Any) -> Any:
    return (x * x).sin().exp() + x.cos()


# -- objects of one's own ----------------------------------------------------------------------
class Point:
    def __init__(self, x: Any) -> None:
        self.x = x


@dataclasses.dataclass
class Pair:
    x: Any


@pytest.mark.parametrize("transform", [phix.jit, phix.grad, phix.vmap])
@pytest.mark.parametrize("kind", [Point, Pair])
def test_objects_as_arguments_are_told_how_to_be_trees(transform: Any, kind: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"{kind.__name__}.*phix\.tree\.register_dataclass"):
        transform(lambda p: p.x.sum())(kind(X))


def test_registered_they_are_arguments() -> None:
    @phix.tree.register_dataclass
    @dataclasses.dataclass
    class Line:
        x: Any

    grad = phix.jit(phix.grad(lambda line: (line.x**2).sum()))(Line(X))
    assert np.allclose(grad.x, 2 * X.numpy())


# -- arguments ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: X.sum(dim=0), r"x\.sum .*no argument 'dim'; write axis="),
        (lambda: X.softmax(dim=1), r"x\.softmax .*no argument 'dim'; write axis="),
        (lambda: X.clip(a_min=0), "no argument 'a_min'; write min="),
        (lambda: X.max(axes=1), "write axis="),
        (lambda: phix.linalg.norm(X, dim=1), "norm.*write axis="),
        (lambda: phix.nn.functional.softmax(X, dim=1), "softmax.*write axis="),
        (lambda: phix.grad(lambda x: x, argnum=1), "grad.*no argument 'argnum'; write argnums="),
        (lambda: phix.random.normal(phix.random.key(0), size=[2]), "normal.*write shape="),
        (lambda: phix.zeros([2], device="cpu"), "zeros.*leave it out, the arguments are shape"),
        (lambda: phix.fft.fft(X[0], dim=0), "fft.*write axis="),
    ],
)  # fmt: skip
def test_unknown_arguments_are_answered(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_ops_in_transformed_functions_too() -> None:
    with pytest.raises(TypeError, match=r"keyword argument 'dim': no argument 'dim'; write axis="):
        phix.jit(lambda x: phix.ops.softmax(x, dim=1))(X)


def test_functions_of_other_names_are_left_alone() -> None:
    def helper(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match=r"keyword argument 'dim'$"):
        phix.jit(lambda x: helper(x, dim=1))(X)


def test_sparse_tensors_propose_functions_of_their_own() -> None:
    sparse = phix.sparse.to_sparse_coo(X, 2)
    assert not hasattr(sparse, "sum") and not hasattr(sparse, "_private")
    with pytest.raises(UnknownNameError, match=r"phix\.sparse\.sum\(x\), or x\.to_dense\(\)"):
        _ = sparse.sum
    with pytest.raises(UnknownNameError, match=r"'argmax'; write x\.to_dense\(\)"):
        _ = sparse.argmax


@pytest.mark.parametrize("name", [*synonyms.OF_UPDATES, "sett", "scatter"])
def test_an_update_that_is_not_there_says_what_to_write(name: str) -> None:
    assert not hasattr(X.at[0], name)
    with pytest.raises(UnknownNameError) as caught:
        getattr(X.at[0], name)
    way = str(caught.value).partition("; write ")[2]
    if name == "scatter":
        assert way == "one of get, set, add, multiply, max, min"
        return
    names = {"x": X, "i": 0, "values": 2.0, "f": lambda v: v * v}
    found = eval(way.replace("...", "values"), names)
    one = {"sub": lambda v: v - 2, "div": lambda v: v / 2, "mul": lambda v: v * 2,
           "pow": np.square, "app": np.square, "max": lambda v: np.maximum(v, 2),
           "min": lambda v: np.minimum(v, 2), "set": lambda v: v * 0 + 2}[name[:3]]  # fmt: skip
    np.testing.assert_allclose(found, np.stack([one(X.numpy()[0]), X.numpy()[1]]))


def test_an_update_without_an_index_says_where_it_stands() -> None:
    with pytest.raises(UnknownNameError, match=r"index it first, x\.at\[i\]\.set\("):
        X.at.set(1.0)  # type: ignore[attr-defined]
