"""Rules of ops are imported when one is asked for, and nobody can tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phix import primitives
from phix.core import patterns, rewrites, rules, tensor_kinds
from phix.core.op import RULES, Op
from phix.kernels.lowering import registry

ALL_RULES = """
from phix.core import patterns, rewrites, rules
print({slot: sorted((n, f.__module__, f.__qualname__) for n, f in known.items())
       for slot, known in rules._RULES.items()})
print([(n, [(r, f.__module__, f.__qualname__) for r, f in known])
       for n, known in sorted(rules._SIMPLIFICATIONS.items())])
print(sorted(rules.INFER_META), list(rewrites.known()), list(patterns.known()))
"""


def output(code: str, **environment: str) -> str:
    """What a new process prints."""
    env = {**os.environ, **environment}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_import_phix_loads_no_rules_no_passes_and_reads_no_entry() -> None:
    code = (
        "import sys, phix\n"
        "print(*sorted(m for m in sys.modules if m.startswith(('phix.primitives.',"
        " 'phix.passes.', 'phix.kernels.cpu', 'phix.kernels.lo', 'phix.array_functions'))))\n"
        "print(sum(op._read is None for op in phix.core.rules.OPS.values()))\n"
        "print(sum(m.startswith('phix') for m in sys.modules))"
    )
    modules, read, count = output(code).splitlines()
    assert modules.split() == [
        f"phix.passes.{n}" for n in ["autocast", "check", "compiled", "pipeline"]
    ]
    assert int(read) == 0
    assert int(count) < 150, "a module that not all programs need is imported where it is used"


def test_an_op_brings_the_rules_of_its_family_alone() -> None:
    code = "import sys, phix; phix.ops.softmax([1.0, 2.0]); print(*sys.modules)"
    modules = output(code).split()
    assert "phix.primitives.activation" in modules
    others = ("linalg", "jet", "convolution", "recurrent", "detection", "random")
    assert not [name for name in others if f"phix.primitives.{name}" in modules]


def test_a_first_call_brings_the_lowerings_of_its_ops_alone(tmp_path: Path) -> None:
    code = "import sys, phix; phix.ops.softmax([1.0, 2.0]); print(*sys.modules)"
    modules = output(code, PHIX_CACHE_DIR=str(tmp_path)).split()
    lowering = "phix.kernels.lowering."
    assert f"{lowering}reduction" in modules
    own = [name.removeprefix(lowering) for name in modules if name.startswith(lowering)]
    others = {"contraction", "convolution", "sorting", "spectral", "attention", "control_flow"}
    assert not others & set(own) and len(own) < 12
    others = {"direct_products", "direct_convolutions", "product", "fourier_call", "blas"}
    assert not [n for n in others if f"phix.kernels.cpu.{n}" in modules]
    assert "phix.primitives.recognition" not in modules


def test_the_table_of_lowerings_says_where_each_is() -> None:
    for family, names in registry._FAMILIES.items():
        registry.load(*names.split())
        for name in names.split():
            assert registry.RULES[name].function.__module__ == f"phix.kernels.lowering.{family}"
    assert registry.RULES.keys() - registry._FAMILY_OF.keys() <= rules.OPS.keys() - rules.BUILT_IN


def test_the_table_of_modules_says_where_each_rule_is() -> None:
    rules.check_table()
    for op in map(rules.get_op, sorted(rules.BUILT_IN)):
        found = {slot: known.get(op.name) for slot, known in rules._RULES.items()}
        found["simplifications"] = op.simplifications[0][1] if op.simplifications else None
        found["infer_meta"] = rules.INFER_META.get(op.infer_meta_name or "")
        for slot, rule in found.items():
            subjects = (op.where, *RULES.get(slot, ()))
            places = [m for subject in subjects for m in primitives._modules_of(subject)]
            room, _, module = getattr(rule, "__module__", "").rpartition(".")
            assert room != "phix.primitives" or module in places, (op, slot, op.where)


def test_every_entry_of_the_generated_file_says_what_reading_it_gives() -> None:
    for name in rules.BUILT_IN:
        op = rules.get_op(name)
        said = op.name, op.receiver, op.inplace, op.where
        read = op.signature() and vars(op)
        assert said == (name, read["receiver"], read["inplace"], read["where"])
        first = op.args[0] if op.args else None
        is_given = first is not None and first.type == "Tensor" and not first.optional
        assert op.receiver == (first.name if first is not None and is_given else "")


def test_each_fact_that_is_not_read_yet_is_read_when_it_is_asked_for() -> None:
    whole = rules.get_op("batch_norm")
    assert whole.args and whole.traits, "read"
    for fact in {*vars(whole)} - {"name", "where", "_read"}:
        op = Op.declared(lambda: whole, name=whole.name, where=whole.where)
        assert getattr(op, fact) == getattr(whole, fact), fact
    op = Op.declared(lambda: whole, name=whole.name, where=whole.where)
    with pytest.raises(AttributeError, match="an op has no attribute 'no_such'"):
        op.no_such  # type: ignore[attr-defined]


def test_rules_are_the_same_in_whatever_order_they_are_imported() -> None:
    backwards = (
        "import phix\nfrom phix.core import rules\n"
        "for op in reversed(rules.OPS.values()):\n    op.batch_rule\n"
        "phix.ops.tanh(1.0).tolist(), phix.derivative(phix.ops.sin, 2)(0.5)\n"
    )
    at_once = "import phix\nphix.core.rules.check_table()\n"
    end = "rules.check_table()\n" + ALL_RULES
    assert output(backwards + end) == output(at_once + "from phix.core import rules\n" + end)


def test_threads_that_ask_first_at_once_get_what_one_alone_gets() -> None:
    code = """
import sys, threading, phix
from phix import ops
sys.setswitchinterval(1e-6)
calls = [lambda: ops.softmax(x), lambda: ops.cumsum(x), lambda: ops.matmul(y, y),
         lambda: ops.cholesky(y), lambda: ops.argsort(x),
         lambda: phix.grad(lambda x: ops.logsumexp(x, -1))(x), lambda: phix.vmap(ops.sin)(x),
         lambda: phix.jit(ops.gelu)(x)]
x, y = phix.to_tensor([0.5, 1.0, 2.0]), phix.to_tensor([[2.0, 0.0], [0.0, 3.0]])
wrong, start = [], threading.Barrier(16)
def run(call):
    start.wait()
    try: found.append((calls.index(call), str(call())))
    except BaseException as error: wrong.append(repr(error))
found = []
threads = [threading.Thread(target=run, args=(c,)) for c in calls * 2]
[t.start() for t in threads]; [t.join() for t in threads]
assert not wrong, wrong
again = {n: str(call()) for n, call in enumerate(calls)}
assert len(found) == 16 and all(again[n] == text for n, text in found), (found, again)
"""
    output(code)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "phix.core.rules.decompose('cholesky_grad')(lambda *a: a)",
            "op 'cholesky_grad' has a decomposition already, in phix.primitives.linalg; remove it "
            "or the one in __main__",
        ),
        (
            "phix.core.rules.jet('tanh')(lambda x: x)",
            "op 'tanh' has a jet_rule already, in phix.primitives.jet; remove it or the one in "
            "__main__",
        ),
        (
            "phix.core.rules.infer_meta('UnchangedInferMeta')(lambda x: x)",
            "infer_meta function 'UnchangedInferMeta' is registered already",
        ),
        (  # whoever wrote the function: who registers it counts
            "phix.core.rules.decompose('gelu')(phix.ops.tanh)",
            "op 'gelu' has a decomposition already, in phix.primitives.activation; remove it or "
            "the one in phix.ops",
        ),
        (
            "phix.core.rules.decompose('gelu')([].append)",
            "op 'gelu' has a decomposition already, in phix.primitives.activation; remove it or "
            "the one in None",
        ),
        (
            "phix.core.rules.infer_meta_of('UnchangedInferMeta', 'tanh')",
            "infer_meta function 'UnchangedInferMeta' is registered already",
        ),
        (
            "phix.kernels.register_kernel('matmul', 'BLAS', dtypes='float32')(lambda *a: None)",
            "register_kernel: op 'matmul' has a kernel for (BLAS, any, float32) already, of an "
            "engine; remove one of the two, or give them different dtypes or layouts",
        ),
        (
            "phix.kernels.register_kernel('fft_r2c', 'GPUFFT', dtypes='float32')(lambda *a: None)",
            "register_kernel: op 'fft_r2c' has a kernel for (GPUFFT, any, float32) already, of an "
            "engine; remove one of the two, or give them different dtypes or layouts",
        ),
        (
            "from phix.kernels.scalar.registry import body; body('tanh')(lambda x: x)",
            "tanh has a scalar body already: phix.kernels.scalar.exponential",
        ),
        (
            "phix.kernels.add_kind('sparse_coo', type('Mine', (), {}))",
            "add_kind: no kind of tensors 'sparse_coo' for Mine: the name or the class is taken, "
            "or it is no name; there are dense, selected_rows, sparse_coo, sparse_csr",
        ),
    ],
)
def test_a_second_rule_meets_one_that_is_not_imported_yet(code: str, message: str) -> None:
    code = f"import phix\ntry:\n    {code}\nexcept phix.errors.PhixError as error: print(error)\n"
    afterwards = "phix.core.rules.check_table(), phix.sparse.add, phix.jit(phix.ops.gelu)(1.0)\n"
    assert output(code + afterwards).strip() == message


# Imports a module, and has an exception come when that is about to end.
BREAK_OFF = """
import importlib, sys
def break_off(name, error):
    def trace(frame, event, arg):
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] == name:
            if event == "return": raise error
            return trace
    sys.settrace(trace)
    try: importlib.import_module(name)
    except error: return
    finally: sys.settrace(None)
    assert False, f"{name} was imported"
"""


def test_an_import_that_was_broken_off_is_made_anew() -> None:
    modules = [
        "primitives.pointwise", "primitives.activation", "primitives.infer_meta",
        "primitives.simplifications", "primitives.index_simplifications", "primitives.recognition",
        "primitives.selected_rows", "kernels.scalar.exponential", "kernels.lowering.contraction",
        "sparse.kinds",
    ]  # fmt: skip
    broken = "".join(
        f"break_off('phix.{name}', {error})\n"
        for name in modules
        for error in ("KeyboardInterrupt", "RecursionError")
    )
    end = (
        "x = [[1.0, 2.0]]\n"
        "print(phix.jit(lambda x: phix.ops.gelu(x @ x.T))(phix.to_tensor(x)).tolist())\n"
        "print((phix.sparse.sparse_coo_tensor([[0], [1]], [3.0]) * 2.0).values.tolist())\n"
        "phix.core.rules.check_table()\n"
    )
    start = "import phix\n"
    found = output(start + BREAK_OFF + broken + end + ALL_RULES)
    assert found == output(start + end + ALL_RULES)
    assert found.startswith("[[4.9999985")  # gelu(5) is 5 * 0.99999971


@pytest.mark.parametrize("name", ["phix.ops", "phix.core.kernel_keys", "phix"])
def test_import_phix_can_be_broken_off_and_made_anew(name: str) -> None:
    end = "import phix; print(phix.grad(phix.ops.softplus)(0.0).item())"
    assert output(f"{BREAK_OFF}break_off({name!r}, KeyboardInterrupt)\n{end}").strip() == "0.5"


def test_scopes_leave_rules_that_are_imported_inside_them() -> None:
    code = (
        "import phix\n"
        "with phix.scoped_registries():\n"
        "    phix.ops.softmax([1.0])\n"
        "print(phix.ops.cumsum([1.0, 2.0]).tolist(), phix.jit(phix.ops.softmax)([1.0]).tolist())"
    )
    assert output(code).split("\n")[0] == "[1.0, 3.0] [1.0]"


def test_what_is_imported_inside_a_scope_stays_and_what_is_added_goes(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "- {op: mine, args: (Tensor x), output: Tensor(out), traits: [pointwise, promote_float],"
        " infer_meta: {func: UnchangedInferMeta}}"
    )
    code = f"""
import phix
for factor in (2.0, 3.0):
    with phix.scoped_registries():
        from phix.kernels.scalar import bodies
        mine = phix.load_ops({str(tmp_path / "mine.yaml")!r}).mine
        bodies.body("mine")(lambda x: x * factor)
        x = phix.sparse.sparse_coo_tensor([[0], [1]], [3.0])
        print(mine(5.0).item(), phix.ops.scale(x, 2.0).values.tolist())
print(phix.ops.scale(x, 3.0).values.tolist(), "mine" in bodies.names())
"""
    assert output(code).splitlines() == ["10.0 [6.0]", "15.0 [6.0]", "[9.0] False"]


def test_kinds_of_phix_are_known_before_their_modules_are() -> None:
    code = "import phix; phix.sparse; phix.selected_rows; print(*sorted(K.KINDS.values()))"
    own = output("from phix.core import tensor_kinds as K\n" + code).split()
    assert own == sorted(tensor_kinds.OF_PHIX)


def test_names_of_rewrites_are_known_before_any_graph_is() -> None:
    assert set(patterns.known()) <= set(rewrites.known())
    code = (
        "import phix\n"
        "try: phix.jit(phix.ops.tanh, disable='no_such')(1.0)\n"
        "except phix.errors.ArgumentError as error: print(error)"
    )
    printed = output(code)
    assert all(name in printed for name in (*patterns.known(), "no_such"))
