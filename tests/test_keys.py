"""Keys are complete: changing any part of what decides a program changes what it is found by.

The parts are generated: every piece of the graphs of all ops of the table, every rewrite, every
fact about the machine; then, end to end, one jitted function is called with arguments that differ
in one thing at a time, in random order.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.api.jitted import call_key
from phix.core import dims as dm
from phix.core import disk_cache, kernel_registry, rewrites, rules
from phix.core import dtypes as dt
from phix.core.exact_keys import exact_key
from phix.core.fingerprint import fingerprint
from phix.core.graph import Constant, Graph, Literal, State, Variable, copied, flat
from phix.core.kernel_registry import KernelKey
from phix.core.meta import MetaTensor
from phix.core.places import CPU, Place
from phix.interpreters import call_keys
from phix.kernels.cpu import jit, stored
from tests.harness.cases import Case, table_cases
from toy_device import toy

pytestmark = pytest.mark.unoptimised(4)

Variants = Iterator[tuple[str, Any]]


# -- one thing changed at a time -------------------------------------------------------------------
def changed_values(value: Any) -> Variants:
    """An attribute, or a number in a graph, with one thing changed."""
    if isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, (int, float, complex)) and not isinstance(value, bool):
        yield "one more", value + 1
        yield "of another kind", float(value) if isinstance(value, int) else complex(value)
        if isinstance(value, float):
            yield "the next float", math.nextafter(value, 2 * value + 1)
            yield "of another sign", -value
    elif isinstance(value, str):
        yield "other text", value + "_"
    elif isinstance(value, tuple):
        for k, part in enumerate(value):
            for what, other in changed_values(part):
                yield f"[{k}] {what}", (*value[:k], other, *value[k + 1 :])
        yield "one more element", (*value, value[-1] if value else 0)
        yield "no elements", None if not value else ()
    elif isinstance(value, np.dtype):
        yield "another dtype", dt.int8 if value != dt.int8 else dt.float64
    elif isinstance(value, Place):
        yield "another place", Place(value.kind, value.index + 1)
    elif isinstance(value, Graph):
        for what, other in changed_graphs(value):
            yield f"inside: {what}", other
    elif value is None:
        yield "given", 1


def changed_metas(meta: MetaTensor) -> Variants:
    """A meta with one thing changed."""
    for dtype in (dt.float64, dt.int32, dt.bfloat16, dt.float16):
        if dtype != meta.dtype:
            yield f"dtype {dtype}", meta.with_dtype(dtype)
    for k, dim in enumerate(meta.dims):
        for what, other in (("one more", dim + 1), ("unknown", dm.symbol())):
            yield f"dim {k} {what}", meta.with_dims((*meta.dims[:k], other, *meta.dims[k + 1 :]))
    yield "one more dim", meta.with_dims((*meta.dims, 1))
    yield "another layout", MetaTensor(meta.dims, meta.dtype, "NHWC")


def changed_variables(variable: Variable) -> Iterator[tuple[str, Variable]]:
    """An input with one thing changed."""
    for what, meta in changed_metas(variable.meta):
        yield what, Variable(variable.name, meta, variable.state)
    for state in (State(Place("gpu")), State(Place("gpu", 1)), State(Place("gpu"), "NHWC")):
        yield f"on {state}", Variable(variable.name, variable.meta, state)


def changed_graphs(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graph with one thing changed, for every thing in it. It need not be one that runs."""
    for k, variable in enumerate(graph.inputs):
        for what, other in changed_variables(variable):
            yield f"input {k}: {what}", _with_input(graph, k, other)
    for k, constant in enumerate(graph.constants):
        for what, value in changed_constants(constant.value):
            kept = list(graph.constants)
            kept[k] = Constant(constant.variable, value)
            yield f"constant {k}: {what}", dataclasses.replace(graph, constants=tuple(kept))
    for k, equation in enumerate(graph.equations):
        for what, other in changed_equations(graph, equation):
            kept_equations = (*graph.equations[:k], other, *graph.equations[k + 1 :])
            yield f"equation {k}: {what}", dataclasses.replace(graph, equations=kept_equations)
    outputs = graph.outputs
    yield "an output twice", dataclasses.replace(graph, outputs=(*outputs, outputs[0]))
    yield "no output", dataclasses.replace(graph, outputs=())
    for k, atom in enumerate(graph.inputs):
        if atom is not outputs[0]:
            yield f"gives input {k}", dataclasses.replace(graph, outputs=(atom, *outputs[1:]))


def _with_input(graph: Graph, number: int, other: Variable) -> Graph:
    mine = copied(graph)
    own = mine.inputs[number]
    own.meta, own.state = other.meta, other.state
    return mine


def changed_constants(value: Any) -> Variants:
    data = np.array(value.host)
    bits = data.reshape(-1).view(np.uint8)
    for at in {0, bits.size // 2, bits.size - 1} if bits.size else ():
        changed = data.copy()
        changed.reshape(-1).view(np.uint8)[at] ^= 0x80 if data.dtype != bool else 1
        yield f"byte {at}", phix.Tensor(changed)
    yield "other dims", phix.Tensor(data[None])
    if data.dtype in (np.float32, np.float64) and data.ndim:
        yield "the same bits as ints", phix.Tensor(data.view(f"i{data.itemsize}"))


def test_constants_of_the_same_bits_and_another_dtype_are_others() -> None:
    zeros = [phix.to_tensor(np.zeros(4, dtype)) for dtype in ("f4", "i4", "u4")]
    graphs = [phix.make_graph(lambda x, z=z: x[z.cast("int64")])(np.ones(4)) for z in zeros]
    assert len({fingerprint(g) for g in graphs}) == len(set(graphs)) == len(zeros)


def changed_equations(graph: Graph, equation: Any) -> Variants:
    replaced = dataclasses.replace
    other_op = rules.OPS["tanh" if equation.op.name != "tanh" else "exp"]
    yield "another op", replaced(equation, op=other_op)
    yield "a kernel", replaced(equation, kernel=KernelKey("BLAS", "any", dt.float32))
    for k, value in enumerate(equation.attrs):
        for what, changed in changed_values(value):
            if exact_key(changed) != exact_key(value):
                attrs = (*equation.attrs[:k], changed, *equation.attrs[k + 1 :])
                yield f"{equation.op.attr_names[k]} {what}", replaced(equation, attrs=attrs)
    atoms = [*graph.inputs, *(c.variable for c in graph.constants)]
    for k, entry in enumerate(equation.inputs):
        others: list[Any] = [a for a in atoms if a is not entry]
        if isinstance(entry, Literal):
            changed = [v for _, v in changed_values(entry.value)]
            own = exact_key(entry.value)
            others += [Literal(v, entry.meta) for v in changed if exact_key(v) != own]
            others += [Literal(entry.value, m) for _, m in changed_metas(entry.meta)][:1]
        if isinstance(entry, tuple):
            others.append((*entry, *entry[:1], *atoms[:1]))
        others.append(() if entry is None else None)
        for number, other in enumerate(others):
            inputs = (*equation.inputs[:k], other, *equation.inputs[k + 1 :])
            yield f"reads {number} as {k}", replaced(equation, inputs=inputs)


def _graph_of(case: Case) -> Graph | None:
    call = next(case.calls(), None)
    if call is None:
        return None
    return phix.make_graph(call.fn)(*call.arrays)


@pytest.mark.parametrize("case", table_cases(), ids=repr)
def test_every_part_of_a_graph_is_in_its_keys(case: Case) -> None:
    graph = _graph_of(case)
    if graph is None or not graph.outputs:
        return
    base, seen = fingerprint(graph), {}
    changes = list(changed_graphs(graph))
    chosen = np.random.default_rng(0).permutation(len(changes))[:40]
    for what, other in (changes[k] for k in chosen):
        assert other != graph and hash(other) != hash(graph), what
        content = fingerprint(other)
        assert content is None or content != base, what
        seen[what] = other
    assert len(seen) >= 4
    same = copied(graph)
    for number, variable in enumerate(same.inputs):
        variable.name = f"renamed{number}"
    assert same == graph and hash(same) == hash(graph) and fingerprint(same) == base


def test_which_dims_are_one_is_in_the_keys() -> None:
    """All ways to give three dims names, up to renaming: one key each."""
    prints: dict[Any, Any] = {}
    graphs: dict[Any, Graph] = {}
    for names in itertools.product(("a", "b", "c", None), repeat=3):
        known = {n: dm.symbol(n) for n in ("a", "b", "c")}
        specs = [MetaTensor((known[n] if n else dm.symbol(),), "float32") for n in names]
        graph = phix.make_graph(lambda x, y, z: ops.concat([x, y, z], 0))(*specs)
        numbered: dict[Any, int] = {}
        kinds = [(n or object()) for n in names]
        pattern = tuple(numbered.setdefault(k, len(numbered)) for k in kinds)
        content = fingerprint(graph)
        assert prints.setdefault(pattern, content) == content
        assert graphs.setdefault(pattern, graph) == graph
    assert len(set(prints.values())) == len(set(graphs.values())) == len(prints) == 5


def test_which_dims_an_attribute_names_is_in_the_keys() -> None:
    """Dims in attributes are those of the inputs, whose names another process may choose anew."""

    def filled(number: int, more: int) -> Graph:
        specs = [MetaTensor((dm.symbol(name),), "float32") for name in "nm"]
        return phix.make_graph(lambda *xs: ops.full([xs[number].shape[0] + more], 1.0))(*specs)

    ways = list(itertools.product((0, 1), (0, 1)))
    graphs, again = [filled(*w) for w in ways], [filled(*w) for w in ways]
    assert graphs == again and len(set(graphs)) == len(ways)
    prints = [fingerprint(g) for g in graphs]
    assert prints == [fingerprint(g) for g in again]
    assert None not in prints and len(set(prints)) == len(ways)


# -- the disk --------------------------------------------------------------------------------------
@pytest.mark.unoptimised(1)  # asks for the name that optimised code has
def test_every_fact_and_switch_is_in_the_key_of_a_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PHIX_CACHE", raising=False)
    graph = phix.make_graph(lambda x, y: ops.tanh(x) + y)(phix.spec([3, 4]), phix.spec([3, 4]))

    def key(contiguous: Any = (True, True), donated: Any = ()) -> str | None:
        jit.identity.cache_clear()
        return stored.key(graph, contiguous, donated)

    keys = {"as it is": key(), "code": jit._key("text")}
    for fact in jit.FACTS:
        with monkeypatch.context() as patched:
            patched.setitem(jit.FACTS, fact, lambda: "another")
            keys[f"{fact} is another"] = key()
            keys[f"{fact} is another: code"] = jit._key("text")
    keys["other text: code"] = jit._key("texts")
    for name in rewrites.known():
        with rewrites.without(frozenset({name})):
            keys[f"without {name}"] = key()
    with monkeypatch.context() as patched:
        patched.setattr(disk_cache, "source_digest", lambda: "another")
        keys["another source"] = key()
    for contiguous in itertools.product((True, False), repeat=2):
        for donated in ((), (0,), (1,), (0, 1)):
            if (contiguous, donated) != ((True, True), ()):
                keys[f"{contiguous} {donated}"] = key(contiguous, donated)
    jit.identity.cache_clear()
    assert None not in keys.values()
    assert len(set(keys.values())) == len(keys)
    assert key() == keys["as it is"]


def test_every_source_that_makes_programs_is_in_the_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = Path(phix.__file__).parent
    files = {Path(p).relative_to(package).as_posix() for p, _ in disk_cache._sources()}
    # Faces say which ops are called; all other rooms have a say in what becomes of them.
    faces = {
        "api", "array_functions", "fft", "files", "linalg", "lod", "nn", "numpy", "optim",
        "parallel", "pictures", "random", "scipy", "selected_rows", "sparse", "strings", "testing",
        "autograd",
    }  # fmt: skip
    rooms = {p.parent.name for p in package.glob("*/__init__.py")} - faces
    assert "ops.py" in files
    assert {f.split("/")[0] for f in files} - {"ops.py"} == rooms
    for name in ("a.py", "sub/b.py"):
        (tmp_path / "core" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "core" / name).write_text("x = 1\n")
    (tmp_path / "ops.py").write_text("")
    monkeypatch.setattr(disk_cache, "_PACKAGE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_IMPORTED", 1 << 62)
    digest: Callable[[], str | None] = disk_cache.source_digest.__wrapped__
    seen = [digest()]
    (tmp_path / "core" / "sub" / "b.py").write_text("x = 2\n")
    seen.append(digest())
    (tmp_path / "core" / "a.py").rename(tmp_path / "core" / "c.py")
    seen.append(digest())
    assert None not in seen and len(set(seen)) == 3


# -- eager calls -----------------------------------------------------------------------------------
@pytest.mark.parametrize("case", table_cases(), ids=repr)
def test_every_part_of_an_eager_call_is_in_the_key_of_its_plan(case: Case) -> None:
    graph = _graph_of(case)
    if graph is None or not graph.equations:
        return
    equation = next((e for e in graph.equations if e.op is case.op), graph.equations[0])
    op, attrs = equation.op, equation.attrs

    def tensor(atom: Any, dtype: Any = None, dims: Any = None, whole: bool = True) -> Any:
        shape = tuple(atom.meta.dims) if dims is None else dims
        data = np.zeros((*shape, 2), dtype or atom.meta.dtype)[..., 0]
        return phix.Tensor(np.ascontiguousarray(data).reshape(shape) if whole else data)

    def entries(change: int = -1, **how: Any) -> Any:
        count = itertools.count()

        def made(atom: Any) -> Any:
            return tensor(atom, **how) if next(count) == change else tensor(atom)

        return tuple(
            tuple(map(made, e)) if isinstance(e, tuple) else None if e is None else made(e)
            for e in equation.inputs
        )

    base = entries()
    keys = {"as it is": call_keys.plan_key(op, base, attrs)}
    for k, atom in enumerate(flat(equation.inputs)):
        meta = atom.meta
        for dtype in {dt.float32, dt.float64, dt.int32} - {meta.dtype}:
            keys[f"{k} {dtype}"] = call_keys.plan_key(op, entries(k, dtype=dtype), attrs)
        shape = tuple(meta.dims)
        keys[f"{k} larger"] = call_keys.plan_key(op, entries(k, dims=(*shape, 2)), attrs)
        if math.prod(shape) > 1:
            keys[f"{k} strided"] = call_keys.plan_key(op, entries(k, whole=False), attrs)
    for k, entry in enumerate(base):
        other = (*base[:k], None if entry is not None else tensor(graph.outputs[0]), *base[k + 1 :])
        if not isinstance(entry, tuple):
            keys[f"{k} absent"] = call_keys.plan_key(op, other, attrs)
    for k, value in enumerate(attrs):
        declared = op.attrs[k].type
        for what, changed in changed_values(value):
            kind_changed = "of another kind" in what
            if exact_key(changed) == exact_key(value):
                continue
            if kind_changed and not declared.startswith(("Scalar", "float", "double")):
                continue  # it would have been converted
            key = call_keys.plan_key(op, base, (*attrs[:k], changed, *attrs[k + 1 :]))
            keys[f"{op.attr_names[k]} {what}"] = key
    for one, other in itertools.combinations(keys, 2):
        assert keys[one] != keys[other], (one, other)


# -- jitted functions, end to end ------------------------------------------------------------------
def _described(x: Any, scale: Any = 2.0, more: Any = None) -> Any:
    """A result that shows the dtype, the dims, the layout and the structure of what came in."""
    total = ops.cast(x, "float64") * float(scale)
    weights = np.arange(1, total.size + 1, dtype="d").reshape(total.shape)
    out = {"sum": ops.sum(total * weights), "kind": x * 0}
    if more is not None:
        out["more"] = sum(v if k != "b" else -v for k, v in sorted(more.items()))
    return out


def _wanted(x: np.ndarray, scale: Any = 2.0, more: Any = None) -> dict[str, Any]:
    weights = np.arange(1, x.size + 1, dtype="d").reshape(x.shape)
    out = {
        "sum": (x.astype("d") * float(scale) * weights).sum(),
        "kind": x * 0,
    }
    if more is not None:
        out["more"] = sum(np.asarray(v if k != "b" else -v) for k, v in sorted(more.items()))
    return out


BASE = np.arange(1, 13, dtype="f").reshape(3, 4)
ARRAYS = [
    *(BASE.astype(d) for d in ("f", "d", "i4", "i8", "f2")),
    BASE.reshape(4, 3), BASE.reshape(12), BASE.reshape(2, 6)[:1], BASE[:, :1],
    BASE.reshape(4, 3).T, np.asfortranarray(BASE), BASE[::-1], BASE[:, ::-1],
    np.broadcast_to(BASE[:1], (3, 4)), np.repeat(BASE, 2, 1)[:, ::2],
]  # fmt: skip
SCALES = (2.0, -2.0, 2, True, 0.0, -0.0, float("inf"))
ONE, TWO = np.float32(1), np.float32(2)
MORE = (None, {"a": ONE}, {"b": ONE}, {"a": ONE, "b": TWO}, {"a": np.float64(1)}, {"c": ONE})


def _called(f: Any, g: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A call drawn at random, and what NumPy says of it."""
    x = ARRAYS[rng.integers(len(ARRAYS))]
    given = [x, phix.to_tensor(x), phix.Tensor(x)][rng.integers(3)]
    scale, more = SCALES[rng.integers(len(SCALES))], MORE[rng.integers(len(MORE))]
    how = rng.integers(4)
    with np.errstate(all="ignore"):
        if how == 0:
            return f(given), _wanted(x)
        if how == 1:
            return f(given, scale), _wanted(x, scale)
        if how == 2:
            return f(given, scale=scale, more=more), _wanted(x, scale, more)
        return g(phix.to_tensor(x), scale, more), _wanted(x, scale, more)


@pytest.mark.parametrize("seed", range(2))
def test_a_jitted_function_never_runs_the_program_of_other_arguments(seed: int) -> None:
    f = phix.jit(_described, static_argnames="scale")
    g = phix.jit(_described, static_argnames="scale", donate_argnums=0)
    rng = np.random.default_rng(seed)
    for _ in range(80):
        found, wanted = _called(f, g, rng)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert found[name].dtype == value.dtype, name
            np.testing.assert_allclose(found[name], value, rtol=1e-12, err_msg=name)


# What decides a call besides the kinds of its tensors, as blocks that change it.
@contextmanager
def _registered() -> Iterator[None]:
    phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")(
        lambda ctx, x, out: np.copyto(out, np.tanh(x))
    )
    try:
        yield
    finally:
        phix.kernels.unregister_kernel("tanh", "CPU")


AROUND: dict[str, Callable[[], Any]] = {
    "settings": lambda: phix.debug.settings(block_terms=64),
    "other settings": lambda: phix.debug.settings(block_terms=128),
    "rewrites": lambda: rewrites.without(frozenset({"fuse"})),
    "other rewrites": lambda: rewrites.without(frozenset({"join_loops"})),
    "library": lambda: phix.library("scipy"),
    "another library": lambda: phix.library("phix"),
    "default float": lambda: phix.default_dtype("float64"),
    "another default float": lambda: phix.default_dtype("bfloat16"),
    "kernels": _registered,
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "plain": (phix.to_tensor(ONE),),
    "another dtype": (phix.to_tensor(np.float64(1)),),
    "another shape": (phix.to_tensor([1.0]),),
    "another structure": ([phix.to_tensor(ONE)],),
    "strided": (phix.Tensor(np.ones((2, 4), "f")[:, ::2]),),
    "not strided": (phix.Tensor(np.ones((2, 2), "f")),),
    "static": (phix.to_tensor(ONE), 1),
    "another static": (phix.to_tensor(ONE), 1.0),
}


def test_every_part_of_a_call_is_in_its_key() -> None:
    def key(args: tuple[Any, ...], donated: tuple[int, ...] = ()) -> Any:
        dynamic, static = jitted._split(args, {})
        leaves, treedef = phix.tree.flatten(dynamic)
        return call_key((treedef, static, donated), leaves)

    jitted = phix.jit(lambda x, k=1: x, static_argnums=1)
    keys = {name: key(args) for name, args in ARGUMENTS.items()}
    keys["donated"] = key(ARGUMENTS["plain"], (0,))
    for name, block in AROUND.items():
        with block():
            keys[name] = key(ARGUMENTS["plain"])
            assert keys[name] == key(ARGUMENTS["plain"])
    assert len(set(keys.values())) == len(keys)
    after = key(ARGUMENTS["plain"])
    assert after == key(ARGUMENTS["plain"]) != keys["kernels"]


@pytest.mark.parametrize("calls", [1, 2, 6], ids="after {} calls".format)
@pytest.mark.parametrize("name", AROUND)
def test_a_call_runs_the_program_of_what_is_around_it(name: str, calls: int) -> None:
    jitted, x = phix.jit(lambda x: ops.exp(ops.tanh(x))), phix.to_tensor([0.5, 1.0])

    def programs() -> set[Any]:
        kinds = {known.traced for known in jitted._known.values()}
        return {
            (id(traced), key, contiguous)
            for traced in kinds
            for key, built in traced.compiled.known.items()
            for contiguous in built.programs
        }

    def run() -> None:
        for _ in range(calls):
            np.testing.assert_allclose(jitted(x), np.exp(np.tanh(x.numpy())), rtol=1e-6)

    run()
    outside = programs()
    for _ in range(2):
        with AROUND[name]():
            run()
            inside = programs()
            assert inside > outside
        run()
        assert programs() == inside
        outside = inside if name == "kernels" else outside


def test_a_kernel_that_is_registered_runs_in_the_next_call() -> None:
    jitted, x = phix.jit(lambda x: ops.tanh(x) * 2), phix.to_tensor([0.5, 1.0])
    for wanted in (np.tanh(x.numpy()), np.full(2, 7.0), np.tanh(x.numpy())):
        for _ in range(6):
            np.testing.assert_allclose(jitted(x), wanted * 2, rtol=1e-6)
        if "CPU" in {key.backend for key in kernel_registry.KERNELS.get("tanh", {})}:
            phix.kernels.unregister_kernel("tanh", "CPU")
        else:
            phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")(
                lambda ctx, x, out: out.fill(7)
            )
    phix.kernels.unregister_kernel("tanh", "CPU")


def test_single_values_follow_a_device_that_came_after_the_first_call() -> None:
    jitted, x = phix.jit(lambda x: x * 3), phix.to_tensor(2.0)
    for _ in range(6):
        assert jitted(x).place == CPU
    with toy("toy"):
        with phix.device("toy"):
            found = jitted(x)
            assert found.place.kind == "toy" and found.item() == 6
        assert jitted(x).place == CPU


def test_why_retraced_names_the_rewrites_around() -> None:
    jitted = phix.jit(lambda x: x + 1)
    jitted(1.0)
    with rewrites.without(frozenset({"fuse"})):
        jitted(1.0)
    text = jitted.why_retraced()
    assert "the rewrites left out around it are fuse, were none" in text


def test_the_named_axes_in_scope_are_part_of_a_trace() -> None:
    f = phix.jit(lambda x: phix.psum(x, "rows"))
    for n in (2, 3, 2):
        found = phix.vmap(f, axis_name="rows")(np.ones(n, "f"))
        np.testing.assert_array_equal(found, np.full(n, n))
