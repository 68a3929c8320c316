"""Rules of ops are imported when one is asked for, and nobody can tell."""

from __future__ import annotations

import subprocess
import sys

import pytest

from phix import primitives
from phix.core import patterns, rewrites, rules
from phix.core.op import RULES, Op

ALL_RULES = """
from phix.core import patterns, rewrites, rules
print({slot: sorted((n, f.__module__, f.__qualname__) for n, f in known.items())
       for slot, known in rules._RULES.items()})
print([(n, [(r, f.__module__, f.__qualname__) for r, f in known])
       for n, known in sorted(rules._SIMPLIFICATIONS.items())])
print(sorted(rules.INFER_META), list(rewrites.known()), list(patterns.known()))
"""


def output(code: str) -> str:
    """What a new process prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
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
    ],
)
def test_a_second_rule_meets_one_that_is_not_imported_yet(code: str, message: str) -> None:
    code = f"import phix\ntry: {code}\nexcept phix.errors.OpTableError as error: print(error)"
    assert output(code).strip() == message


def test_scopes_leave_rules_that_are_imported_inside_them() -> None:
    code = (
        "import phix\n"
        "with phix.scoped_registries():\n"
        "    phix.ops.softmax([1.0])\n"
        "print(phix.ops.cumsum([1.0, 2.0]).tolist(), phix.jit(phix.ops.softmax)([1.0]).tolist())"
    )
    assert output(code).split("\n")[0] == "[1.0, 3.0] [1.0]"


def test_names_of_rewrites_are_known_before_any_graph_is() -> None:
    assert set(patterns.known()) <= set(rewrites.known())
    code = (
        "import phix\n"
        "try: phix.jit(phix.ops.tanh, disable='no_such')(1.0)\n"
        "except phix.errors.ArgumentError as error: print(error)"
    )
    printed = output(code)
    assert all(name in printed for name in (*patterns.known(), "no_such"))
