"""The op table's loader: what it accepts, its messages, and the functions written from it."""

from __future__ import annotations

import difflib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phix
from harness.cases import table_entries
from phix import ops
from phix.core import annotations, rules
from phix.core.errors import OpTableError
from phix.core.op import REQUIRED
from phix.core.tensor import TensorBase
from phix.table import __main__ as generator
from phix.table import codegen, loader
from phix.table.definition import TRAITS
from phix.table.entries import KNOWN_KEYS
from phix.table.loader import TABLE, read_table
from phix.table.schema import parse_args, parse_default, parse_forward, parse_outputs
from phix.table.yaml_reader import read_yaml

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(__file__).parent / "data"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A path to write a table to; what is loaded from it leaves the registries after the test."""
    monkeypatch.chdir(tmp_path)
    known, names, methods = set(rules.OPS), set(vars(ops)), set(vars(TensorBase))
    yield Path("my_ops.yaml")
    for name in set(vars(TensorBase)) - methods:
        delattr(TensorBase, name)
    for name in set(rules.OPS) - known:
        del rules.OPS[name]
    for name in set(vars(ops)) - names:
        delattr(ops, name)
        ops.__all__.remove(name)


# -- the table of the repository -------------------------------------------------------------
def test_generated_functions_are_fresh() -> None:
    assert generator.OPS_FILE.read_text() == codegen.render(table_entries()), "run `make ops`"


def test_check_option_says_whether_the_functions_are_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generator, "OPS_FILE", tmp_path / "ops.py")
    monkeypatch.setattr(loader, "read_table", table_entries)  # read once for all
    assert generator.main(["--check"]) == 1
    assert capsys.readouterr().err == "ops.py is stale; run `make ops`\n"
    assert not (tmp_path / "ops.py").exists()
    assert generator.main() == 0
    assert generator.main(["--check"]) == 0
    assert generator.main(["--force"]) == 2


def test_generator_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "phix" / "table"), "--check"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_an_entry_moves_little_of_the_generated_text() -> None:
    """What is there of other ops stays as it is: no line numbers, and names in short rows."""
    entries = table_entries()
    before = codegen.render([e for e in entries if not e.name.startswith("softplus")]).splitlines()
    after = codegen.render(entries).splitlines()
    changed = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    moved = [row for _, start, end, _, _ in changed[1::2] for row in before[start:end]]
    assert len(moved) <= 2 and all(row.startswith('    "so') for row in moved)
    assert len(after) - len(before) < 30


def test_every_op_has_a_doc_and_plain_names() -> None:
    for entry in table_entries():
        assert entry.is_backward or entry.facts.get("doc"), f"{entry.where}: no doc"
        assert "forward_names" not in entry.facts, f"{entry.where}: names differ from the forward's"
        assert entry.facts.get("family"), f"{entry.where}: no family"


def test_registry_holds_what_the_table_says() -> None:
    for entry in table_entries():
        op, said = rules.OPS[entry.name], entry.op()
        for fact in ("args", "outputs", "traits", "dtypes", "infer_meta_name", "backward"):
            assert getattr(op, fact) == getattr(said, fact), (entry.name, fact)
        assert (op.family, op.where) == (said.family, entry.file)


def test_all_names_every_function() -> None:
    functions = {name for name, value in vars(ops).items() if inspect.isfunction(value)}
    assert functions - {
        "__dir__",
        "__getattr__",
        "bind",
        "bind_in_place",
        "definer",
        "face",
    } == set(ops.__all__)


def test_signature_and_docstring() -> None:
    signature = inspect.signature(ops.sum)
    assert list(signature.parameters) == ["x", "axis", "dtype", "keepdim"]
    assert [p.default for p in signature.parameters.values()] == [
        inspect.Parameter.empty,
        (),
        None,
        False,
    ]
    assert signature.return_annotation == "Tensor"
    assert inspect.signature(ops.batch_norm).return_annotation.startswith("tuple[Tensor, Tensor,")
    assert str(inspect.signature(ops.add_grad)) == "(x, y, out_grad)"
    assert ops.add_grad.__doc__ == "Backward of :func:`add`."
    assert ops.tanh.__doc__ is not None
    assert ops.tanh.__doc__.startswith("Hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x)")
    assert "Args:\n        x: tensor, float or complex." in ops.tanh.__doc__


def test_slots_that_take_tensors_are_annotated_so() -> None:
    """Of a number that may be a tensor under a transformation; backward ops have no annotations."""
    found = set()
    for entry in table_entries():
        op = rules.OPS[entry.name]
        parameters = inspect.signature(getattr(ops, codegen.python_name(op.name))).parameters
        names = [op.attr_names[i] for i in op.number_slots if not op.forward]
        found |= {parameters[codegen.python_name(n)].annotation for n in names}
    assert found == {"FloatLike", "ScalarLike", "ScalarLike | None"}
    for kind in (annotations.FloatLike, annotations.ScalarLike):
        assert {float, np.generic, TensorBase} <= set(typing.get_args(kind))


# -- Paddle's entries ------------------------------------------------------------------------
def test_paddle_entries_load_unchanged() -> None:
    entries = {e.name: e for e in read_table(DATA / "paddle_entries.yaml")}
    found = {name: entry.op() for name, entry in entries.items()}
    assert len(found) == 49
    assert found["concat"].signature() == "concat(Tensor[] x, Scalar axis=0) -> Tensor(out)"
    assert [a.default for a in found["conv2d"].attrs] == [
        (1, 1),
        (0, 0),
        "EXPLICIT",
        (1, 1),
        1,
        "NCHW",
    ]
    assert [a.default for a in found["full"].attrs] == [REQUIRED, REQUIRED, np.float32, None]
    assert found["uniform"].attrs[-1].default is None
    assert [a.optional for a in found["layer_norm"].inputs] == [False, True, True]
    assert [o.intermediate for o in found["layer_norm"].outputs] == [False, True, True]
    assert found["unbind"].outputs[0].is_list
    assert found["meshgrid"].outputs[0].size == "inputs.size()"
    assert found["squeeze"].view == (("x", "out"),)
    assert found["batch_norm"].view == (("mean", "mean_out"), ("variance", "variance_out"))
    assert found["real_grad"].invoke == "real_grad_impl(out_grad, x_grad)"
    assert found["trace_grad"].no_need_buffer == {"x"}
    assert found["matmul_grad"].infer_meta_params == ("x", "y")
    assert [a.default for a in found["generate_proposals"].attrs] == [
        8191,
        2**63 - 1,
        10000,
        1 / 3,
        0.5,
        (),
    ]
    assert found["scale"].kernel["func"] == (
        ("scale", ("dense",), ("dense",)),
        ("scale_sr", ("selected_rows",), ("selected_rows",)),
    )
    assert [name for name, _, _ in found["add_coo"].kernel["func"]] == [
        "add_coo_coo",
        "add_csr_csr",
        "add_coo_dense",
    ]
    assert found["dropout"].traits == frozenset()


def test_names_of_a_forward_string_may_differ() -> None:
    found = {e.name: e.op() for e in read_table(DATA / "paddle_entries.yaml")}
    assert found["split_grad"].forward_names == (("num_or_sections", "sections"),)
    assert found["einsum_grad"].forward_names == (
        ("x_shape", "xshape"),
        ("x_shape_grad", "xshape_grad"),
    )
    double = found["add_double_grad"]
    assert dict(double.forward_names)["grad_x_grad"] == "x_grad_grad"
    assert double.gradient_of == ("out_grad",)
    assert found["matmul_grad"].forward_names == ()
    assert found["matmul_grad"].gradient_of == ("x", "y")


def test_older_spelling_loads_unchanged() -> None:
    found = {e.name: e.op() for e in read_table(DATA / "paddle_older_entries.yaml")}
    assert found["matmul_grad"].forward == "matmul"
    assert [o.name for o in found["squeeze"].outputs] == ["out", "xshape"]
    assert found["scale"].signature() == (
        "scale(Tensor x, Scalar scale, float bias, bool bias_after_scale) -> Tensor(out)"
    )
    assert [a.type for a in found["concat"].args] == ["Tensor[]", "Scalar"]
    assert [a.type for a in found["reshape"].args] == ["Tensor", "IntArray", "int64_t[]"]


def test_functions_of_paddle_entries_compile() -> None:
    entries = read_table(DATA / "paddle_entries.yaml")
    text = codegen.render(entries)
    compile(text, "ops.py", "exec")
    assert max(map(len, text.splitlines())) <= 100
    assert "    return bind(_layer_norm, (x, scale, bias), (epsilon, begin_norm_axis))[0]\n" in text
    assert (
        "def layer_norm(\n    x: TensorLike, scale: TensorLike | None = None, "
        "bias: TensorLike | None = None,\n    epsilon: FloatLike = 1e-05, "
        "begin_norm_axis: int = 1\n) -> Tensor:\n" in text
    )
    assert "def unbind(input: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:\n" in text


def test_generated_text_passes_the_linter(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    file = tmp_path / "ops.py"
    file.write_text(codegen.render(read_table(DATA / "paddle_entries.yaml")))
    command = [sys.executable, "-m", "ruff", "check", "--ignore=F401", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


# -- strings of the schema -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bool", "true", True),
        ("int", "-100", -100),
        ("int", "(2 << 12) - 1", 8191),
        ("int64_t", "INT64_MAX", 2**63 - 1),
        ("int64_t", "10000L", 10000),
        ("float", "1e-5", 1e-5),
        ("float", "1.0f", 1.0),
        ("float", "1.0f/8", 0.125),
        ("float", "0.", 0.0),
        ("double", "0", 0.0),
        ("Scalar", "1.0", 1.0),
        ("Scalar", "0", 0),
        ("Scalar", "false", False),
        ("Scalar(int)", "1", 1),
        ("Scalar(double)", "0", 0.0),
        ("int[]", "{1,1}", (1, 1)),
        ("IntArray", "{}", ()),
        ("IntArray", "-1", (-1,)),
        ("float[]", "{0, 0.5f}", (0.0, 0.5)),
        ("str[]", '{"a", "b,c"}', ("a", "b,c")),
        ("str", '""', ""),
        ("str", "'NCHW'", "NCHW"),
        ("DataType", "DataType::BFLOAT16", "bfloat16"),
        ("DataType", "DataType::UNDEFINED", None),
        ("Scalar(int64_t)", "none", None),
        ("DataLayout", "DataLayout::NCHW", "NCHW"),
        ("Place", "{}", None),
        ("Place", "CPUPlace()", None),
    ],
)
def test_default_values(kind: str, text: str, value: object) -> None:
    found = parse_default(kind, text)
    found = str(found) if isinstance(found, np.dtype) else found
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "example"),
    [
        ("bool", "1", "true"),
        ("bool", "yes", "true"),
        ("int", "1.5", "-1"),
        ("int", "{1}", "-1"),
        ("int", "abs(1)", "-1"),
        ("int", "1/0", "-1"),
        ("float", "true", "1.0"),
        ("str", "NCHW", '"mean"'),
        ("int[]", "{1, x}", "{1, 1}"),
        ("DataType", "FLOAT32", "DataType::FLOAT32"),
        ("DataType", "DataType::FLOAT31", "DataType::FLOAT32"),
        ("Place", "GPUPlace()", "{}"),
    ],
)
def test_wrong_default_values(kind: str, text: str, example: str) -> None:
    with pytest.raises(OpTableError) as error:
        parse_default(kind, text)
    assert str(error.value) == f"the default {text!r} is no {kind}; write a value such as {example}"


def test_strings_of_an_entry() -> None:
    args = parse_args('(Tensor x, Tensor[] ys, int[] a={1, 1}, str b="x, y=(")')
    assert [(a.type, a.name) for a in args] == [
        ("Tensor", "x"),
        ("Tensor[]", "ys"),
        ("int[]", "a"),
        ("str", "b"),
    ]
    assert args[3].default == "x, y=("
    assert parse_args("()") == ()
    assert [(o.name, o.is_list) for o in parse_outputs("Tensor(out), Tensor[](r) {x.size()}")] == [
        ("out", False),
        ("r", True),
    ]
    name, args, outputs = parse_forward("f(Tensor x)-> Tensor[]")
    assert (name, args[0].name, outputs[0].is_list) == ("f", "x", True)


def test_yaml_scalars() -> None:
    text = "{on: yes, b: 1e-5, c: no, d: true, e: 0x10, f: ~, g: 'true', h: 012, i: 1.5e3, j: .inf}"
    assert read_yaml(text, "x.yaml") == {
        "on": "yes",
        "b": 1e-5,
        "c": "no",
        "d": True,
        "e": 16,
        "f": None,
        "g": "true",
        "h": 12,
        "i": 1500.0,
        "j": float("inf"),
    }


# -- messages --------------------------------------------------------------------------------
HEAD = """\
- op: shift
  args: (Tensor x, int by=1)
  output: Tensor(out)
"""
BACK = """\
  backward: shift_grad
- backward_op: shift_grad
  forward: shift (Tensor x, int by) -> Tensor(out)
  args: (Tensor x, Tensor out_grad, int by)
  output: Tensor(x_grad)
"""
MESSAGES = [
    (
        HEAD + "  infermeta: {func: UnchangedInferMeta}\n",
        "my_ops.yaml:4: unknown key 'infermeta'; write `infer_meta`, one of the keys args, "
        "backward, backward_op, ",
    ),
    (
        HEAD + "  infer_meta: {fun: UnchangedInferMeta}\n",
        "my_ops.yaml:4: unknown key 'fun' in `infer_meta`; write `func`",
    ),
    (
        HEAD + "  family: shape\n  family: nn\n",
        "my_ops.yaml:5: duplicate key 'family', given in line 4 already; keep one of the two",
    ),
    (
        HEAD + HEAD,
        "my_ops.yaml:4: duplicate op 'shift', in the table already at my_ops.yaml:1; "
        "give this entry another name or remove it",
    ),
    (
        "defaults:\n  family: shape\nops:\n" + HEAD + "  family: shape\n",
        "my_ops.yaml:7: redundant key 'family': it repeats the default of line 2; remove it",
    ),
    (HEAD + "  jvp:\n", "my_ops.yaml:4: key 'jvp' is empty; give it a value or remove it"),
    (
        HEAD + "  doc: 1e-5\n",
        "my_ops.yaml:4: `doc` is the float 1e-05, not text; "
        'write `doc: "What it computes, with the formula."`',
    ),
    (
        HEAD + "  family: true\n",
        "my_ops.yaml:4: `family` is the bool true, not text; write `family: pointwise`",
    ),
    (
        HEAD + "  infer_meta: UnchangedInferMeta\n",
        "my_ops.yaml:4: `infer_meta` is the str UnchangedInferMeta, not a mapping; "
        "write `infer_meta: {func: UnchangedInferMeta}`",
    ),
    (
        HEAD + "  infer_meta: {param: [x]}\n",
        "my_ops.yaml:4: `infer_meta` has no func; write `{func: UnchangedInferMeta}`",
    ),
    (
        HEAD + "  jvp: liner\n",
        "my_ops.yaml:4: `jvp` is 'liner', not one of linear, bilinear, pointwise; "
        "write `jvp: linear`, or register a rule in Python",
    ),
    (
        HEAD + "  traits: [promote(x, y)]\n",
        "my_ops.yaml:4: `traits` of 'shift' names 'y', but the entry has x; write 'x'",
    ),
    (
        HEAD + "  traits: [point_wise]\n",
        "my_ops.yaml:4: unknown trait 'point_wise'; write 'pointwise'",
    ),
    (
        HEAD + "  dtypes: [floats]\n",
        "my_ops.yaml:4: unknown dtype or group 'floats'; write 'float'",
    ),
    (
        HEAD + "  dtypes: [1]\n",
        "my_ops.yaml:4: `dtypes` is a list, not names; write `dtypes: [name, name]`",
    ),
    (
        HEAD + "  optional: by\n",
        "my_ops.yaml:4: `optional` of 'shift' names 'by', but the entry has x, out; ",
    ),
    (
        HEAD + "  inplace: x -> out\n",
        "my_ops.yaml:4: `inplace` 'x -> out' is no pair; write `inplace: (x -> out)`",
    ),
    (
        HEAD + '  test: {samples: [{y: "float[3]"}]}\n',
        "my_ops.yaml:4: `test` of 'shift' names 'y', but the entry has x, by; ",
    ),
    (
        HEAD + '  test: {sample: [{x: "float[3]"}]}\n',
        "my_ops.yaml:4: unknown key 'sample' in `test`; write `samples`",
    ),
    (
        HEAD + '  test: {samples: {x: "float[3]"}}\n',
        'my_ops.yaml:4: `samples` is no list of mappings; write `samples: [{x: "float[3]"}]`',
    ),
    (
        "- op: shift\n  args: (Tensor x)\n",
        "my_ops.yaml:1: the entry has no 'output'; write `output: Tensor(out)`",
    ),
    (
        "- args: (Tensor x)\n  output: Tensor(out)\n",
        "my_ops.yaml:1: the entry has no 'op'; write `op: tanh`",
    ),
    (
        HEAD + "  forward: f (Tensor x) -> Tensor(out)\n",
        "my_ops.yaml:4: 'forward' does not belong here; an op has `op`, a backward op has "
        "`backward_op` and `forward`",
    ),
    (
        "- op: shift\n  args: Tensor x\n  output: Tensor\n",
        "my_ops.yaml:2: `args`: args 'Tensor x' stand in no parentheses; write `args: (Tensor x)`",
    ),
    (
        "- op: shift\n  args: (Tensor x, ints a)\n  output: Tensor\n",
        "my_ops.yaml:2: `args`: the argument 'ints a' has the unknown type 'ints'; write 'int'",
    ),
    (
        "- op: shift\n  args: (Tensor x, int x)\n  output: Tensor\n",
        "my_ops.yaml:2: `args`: args '(Tensor x, int x)' have 'x' twice; give each its own name",
    ),
    (
        "- op: shift\n  args: (Tensor x, y)\n  output: Tensor\n",
        "my_ops.yaml:2: `args`: the argument 'y' needs a type and a name; write `Tensor y`",
    ),
    (
        "- op: shift\n  args: (Tensor x={})\n  output: Tensor\n",
        "my_ops.yaml:2: `args`: the tensor 'x' has a default; write `Tensor x`, and "
        "`optional: x` if it may be left out",
    ),
    (
        "- op: shift\n  args: (Tensor x)\n  output: out\n",
        "my_ops.yaml:3: `output`: the output 'out' is not of the form `Tensor(name)` or "
        "`Tensor[](name){size}`; write `Tensor(out)`",
    ),
    (
        HEAD + "  backward: shift_grad\n",
        "my_ops.yaml:4: op 'shift' names backward 'shift_grad', which has no entry; "
        "add `- backward_op: shift_grad`",
    ),
    (
        HEAD + BACK.replace("by) ->", "float by) ->").replace("int float", "float"),
        "my_ops.yaml:6: the forward of 'shift_grad' disagrees with the entry of 'shift' at "
        "my_ops.yaml:1; write `forward: shift (Tensor x, int by) -> Tensor(out)`",
    ),
    (
        HEAD + BACK.replace("forward: shift", "forward: shit"),
        "my_ops.yaml:6: 'shift_grad' is the backward of 'shit', which has no entry; "
        "add `- op: shit`",
    ),
    (
        HEAD + BACK.removeprefix("  backward: shift_grad\n"),
        "my_ops.yaml:5: 'shift_grad' is the backward of 'shift', but its entry at my_ops.yaml:1 "
        "names none; write `backward: shift_grad` there",
    ),
    (
        HEAD + BACK.replace("Tensor out_grad", "Tensor outgrad"),
        "my_ops.yaml:7: 'shift_grad' takes 'outgrad', which is no input, output or attribute of "
        "its forward, nor the gradient of an output; write 'out_grad', one of x, by, out, out_grad",
    ),
    (
        HEAD + BACK.replace("Tensor(x_grad)", "Tensor(grad_x)"),
        "my_ops.yaml:8: 'shift_grad' gives 'grad_x', which is the gradient of no input of its "
        "forward; write `Tensor(x_grad)`",
    ),
    (
        HEAD + "  api: shift\n",
        "my_ops.yaml:4: 'op' and its older spelling in one entry; keep `op`",
    ),
    (
        "op: shift\n",
        "my_ops.yaml:1: unknown key 'op' at the head of a table; write a list of entries, or "
        "`defaults:` and `ops:`",
    ),
    ("shift\n", "my_ops.yaml:1: no list of entries; write `- op: name`"),
    ("- shift\n", "my_ops.yaml: entry 1 is no mapping; write `- op: name` with its keys"),
    (
        HEAD + "  doc: Shift: x + by.\n",
        "my_ops.yaml:4: no YAML: mapping values are not allowed here; "
        'put text with `: `, ` #` or brackets into "quotes"',
    ),
    (
        "defaults: {op: shift}\nops: []\n",
        "my_ops.yaml:1: unknown key 'op'; write `output`, one of the keys args, dtypes, family, ",
    ),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES)
def test_messages(table: Path, text: str, message: str) -> None:
    table.write_text(text)
    with pytest.raises(OpTableError) as error:
        read_table(table)
    assert str(error.value).startswith(message)
    assert str(error.value) == message or message.endswith((" ", ", "))


def test_default_of_a_file_and_how_to_leave_it(table: Path) -> None:
    table.write_text(
        "defaults: {family: pointwise, jvp: linear, traits: [pointwise, 'promote(x)']}\nops:\n"
        + HEAD
        + BACK
        + HEAD.replace("shift", "other")
        + "  jvp: ~\n  traits: []\n"
    )
    shift, grad, other = (entry.op() for entry in read_table(table))
    assert (shift.jvp, shift.traits, shift.promoted) == ("linear", {"pointwise", "promote"}, ("x",))
    assert (other.jvp, other.traits) == (None, frozenset())
    assert (grad.family, grad.jvp, grad.traits) == ("pointwise", None, frozenset())


def test_test_key_is_kept(table: Path) -> None:
    table.write_text(HEAD + '  test: {ref: x + by, samples: [{x: "float[3]", by: 1e-5}]}\n')
    (entry,) = read_table(table)
    assert entry.test == {"ref": "x + by", "samples": [{"x": "float[3]", "by": 1e-5}]}
    assert (entry.file, entry.line) == ("my_ops.yaml", 1)


# -- load_ops --------------------------------------------------------------------------------
def test_load_ops_adds_functions(table: Path) -> None:
    table.write_text(
        HEAD.replace("shift", "test_shift")
        + "  infer_meta: {func: UnchangedInferMeta}\n  doc: x moved on.\n"
    )
    loaded = phix.load_ops(table)
    assert loaded.test_shift is ops.test_shift
    assert rules.OPS["test_shift"].where == "my_ops.yaml:1"
    assert (
        str(inspect.signature(loaded.test_shift)) == "(x: 'TensorLike', by: 'int' = 1) -> 'Tensor'"
    )
    assert loaded.test_shift.__doc__.startswith("x moved on.")
    assert loaded.test_shift.__module__ == "phix.ops"


def test_loaded_op_runs_by_its_decomposition(table: Path) -> None:
    table.write_text(HEAD.replace("shift", "test_moved"))
    loaded = phix.load_ops(table)
    try:
        rules.decompose("test_moved")(lambda x, by: ops.add(x, by))
        np.testing.assert_array_equal(np.asarray(loaded.test_moved(np.ones(2), by=2)), [3.0, 3.0])
        moved = phix.to_tensor(np.ones(2)).test_moved(by=2)
        np.testing.assert_array_equal(np.asarray(moved), [3.0, 3.0])
    finally:
        rules._RULES["decomposition"].pop("test_moved")


def test_load_ops_names_the_core_table(table: Path) -> None:
    table.write_text("- op: tanh\n  args: (Tensor x)\n  output: Tensor\n")
    where = rules.OPS["tanh"].where
    with pytest.raises(OpTableError) as error:
        phix.load_ops(table)
    assert str(error.value) == (
        f"my_ops.yaml:1: duplicate op 'tanh', in the table already at {where}; "
        "give this entry another name or remove it"
    )
    table.write_text("- op: bind\n  args: (Tensor x)\n  output: Tensor\n")
    with pytest.raises(
        OpTableError, match=r"my_ops\.yaml:1: the name 'bind' is taken in phix\.ops"
    ):
        phix.load_ops(table)


def test_load_ops_is_all_or_nothing(table: Path) -> None:
    table.write_text(HEAD.replace("shift", "test_first") + HEAD + "  jvp: liner\n")
    known, names = dict(rules.OPS), set(vars(ops))
    with pytest.raises(OpTableError):
        phix.load_ops(table)
    assert known == rules.OPS and names == set(vars(ops))


def test_load_ops_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(OpTableError, match=r"nowhere\.yaml: no op table: No such file"):
        phix.load_ops("nowhere.yaml")
    with pytest.raises(OpTableError, match=r"no op table: the folder holds no \*\.yaml file"):
        phix.load_ops(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("- op: é\n".encode("latin-1"))
    with pytest.raises(OpTableError, match=r"latin\.yaml: no op table: the file is not UTF-8"):
        phix.load_ops(tmp_path)


def test_op_named_like_a_keyword(table: Path) -> None:
    table.write_text("- op: lambda\n  args: (Tensor x, float from=1.0)\n  output: Tensor\n")
    function = phix.load_ops(table).lambda_
    assert function is vars(ops)["lambda_"]
    assert list(inspect.signature(function).parameters) == ["x", "from_"]


def test_importing_phix_reads_no_yaml() -> None:
    code = "import sys, phix; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_table_is_found_beside_the_package() -> None:
    assert ROOT / "yaml" == TABLE


def test_schema_page_names_every_key_and_trait() -> None:
    page = (TABLE / "README.md").read_text()
    missing = {word for word in KNOWN_KEYS | set(TRAITS) if f"`{word}`" not in page}
    assert not missing
