"""Float and Scalar attributes that are tensors: every such slot of every op of the table.

Under a transformation the tensor is an operand: differentiated, batched, traced. A slot whose value
decides what is computed is refused with a typed error; these are named here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import phix
from harness.cases import Call, Case, table_cases
from phix import ops
from phix.core import dtypes as dt
from phix.core.errors import ConcretizationError, DTypeError, ShapeError
from phix.core.op import REQUIRED
from phix.testing import derivatives as differences

pytestmark = pytest.mark.unoptimised

CASES = {c.op.name: c for c in table_cases() if "elsewhere" not in c.test}
SLOTS = [
    pytest.param(c, c.op.attrs[i].name, id=f"{name}-{c.op.attrs[i].name}")
    for name, c in CASES.items()
    for i in c.op.number_slots
]
MUST_BE_KNOWN = {
    *((name, "axis") for name in ("gather", "cumsum", "concat")),
    *(("eye", name) for name in ("num_rows", "num_columns")),
    ("rms_norm", "quant_scale"),
    ("celu", "alpha"),
    ("clip_by_norm", "max_norm"),
    ("cudnn_lstm", "dropout_prob"),
    ("diag", "padding_value"),
    ("exponential_", "lam"),
    ("flash_attn", "dropout"),
    ("flash_attn_qkvpacked", "dropout"),
    ("flash_attn_unpadded", "dropout"),
    ("flash_attn_v3", "softcap"),
    ("flash_attn_v3_varlen", "softcap"),
    ("flash_attn_varlen_qkvpacked", "dropout"),
    ("flashmask_attention", "dropout"),
    ("ftrl", "lr_power"),
    ("generate_proposals", "eta"),
    *(
        ("fused_rms_norm_quant", slot)
        for slot in ("quant_max_bound", "quant_min_bound", "quant_scale")
    ),
    ("gumbel_softmax", "temperature"),
    ("lamb_", "weight_decay"),
    ("logit", "eps"),
    *(("margin_cross_entropy", slot) for slot in ("margin1", "margin2")),
    ("masked_multihead_attention_", "out_scale"),
    *(("memory_efficient_attention", slot) for slot in ("dropout_p", "scale")),
    ("nadam_", "momentum_decay"),
    *(("prior_box", slot) for slot in ("step_h", "step_w")),
    *(("renorm", slot) for slot in ("max_norm", "p")),
    ("rnn", "dropout_prob"),
    *(("rrelu", slot) for slot in ("lower", "upper")),
    ("softshrink", "threshold"),
    ("temporal_shift", "shift_ratio"),
    ("warprnnt", "fastemit_lambda"),
}
# Ops whose tensors end with the call, or that round, draw, or choose by the number: differences of
# them say nothing, and their values alone are compared.
VALUES_ALONE = {
    "moe_combine_no_weight", "prior_box", "psroi_pool", "roi_align", "roi_pool", "spectral_norm",
    "gaussian_inplace", "uniform_inplace", "uniform_random_batch_size_like",
}  # fmt: skip
# How many boxes are left depends on the number: the count is a size (tests/test_run_time_sizes.py),
# another in each lane of a batch.
COUNTED = {"generate_proposals", "matrix_nms", "multiclass_nms3"}
# The number is a size of the result, or no float, or the tensors of the samples end with the first
# call.
OTHERS = {
    *(("histogram", slot) for slot in ("min", "max")),
    *(("adam_", slot) for slot in ("beta1", "beta2", "epsilon")),
    *((op, slot) for op in ("arange", "range_v2") for slot in ("start", "end", "step")),
    ("update_loss_scaling_", "stop_update"),
}
# Where an attribute of that value is no number among others: no difference can be taken there.
# Of the first sample in every run, of the next three as proofs: how a number becomes an operand is
# decided once for all samples of an op.
SAMPLES = [slice(0, 1), pytest.param(slice(1, 4), marks=pytest.mark.prove)]
SINGULAR = {("p_norm", "porder"): (0.0, np.inf, -np.inf)}


def given(call: Call, slot: str) -> Any:
    """The attribute as the sample has it, or its default."""
    arg = next(a for a in call.case.op.attrs if a.name == slot)
    value = call.sample.attrs.get(slot, arg.default)
    return None if value is REQUIRED or value is None else value


def with_slot(call: Call, slot: str) -> Any:
    """The call as a function of its arrays and then the attribute."""

    def fn(*tensors: Any) -> tuple[Any, ...]:
        *arrays, number = tensors
        attrs = {**call.sample.attrs, slot: number}
        sample = dataclasses.replace(call.sample, attrs=attrs)
        return tuple(
            out
            for out in dataclasses.replace(call, sample=sample).fn(*arrays)
            if dt.is_differentiable(out.dtype)
        )

    return fn


def calls(case: Case, slot: str) -> Iterator[tuple[Call, float]]:
    known = case.double_calls() if case.op.inputs else case.calls()
    for call in known:
        value = given(call, slot)
        if value is not None and np.all([np.isfinite(a).all() for a in call.arrays]):
            yield call, float(value)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("taken", SAMPLES, ids=lambda taken: f"from {taken.start}")
@pytest.mark.parametrize(("case", "slot"), SLOTS)
def test_a_tensor_in_the_slot_is_an_operand(case: Case, slot: str, taken: slice, seed: int) -> None:
    if case.op.name in COUNTED or (case.op.name, slot) in MUST_BE_KNOWN | OTHERS:
        return
    seen = 0
    some = islice(calls(dataclasses.replace(case, seed=seed), slot), taken.start, taken.stop)
    for call, value in some:
        fn, number = with_slot(call, slot), np.float64(value)
        point = [*call.arrays, number]
        expected = [np.asarray(x) for x in fn(*call.arrays, value)]
        if not expected:
            seen += not any(dt.is_differentiable(x.dtype) for x in call.fn(*call.arrays))
            continue
        seen += 1
        metas = [(x.shape, x.dtype) for x in expected]
        rows = phix.vmap(fn, in_axes=(*(None for _ in call.arrays), 0))(
            *call.arrays, np.stack([number, number])
        )
        traced = [phix.jit(fn)(*point), tuple(r[1] for r in rows)]
        for found in traced:
            assert [(x.shape, x.dtype) for x in found] == metas
            for a, b in zip(found, expected):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
        if case.op.name in VALUES_ALONE or case.op.name.endswith("_"):
            continue
        if value in SINGULAR.get((case.op.name, slot), ()) or not _is_smooth(fn, point):
            continue
        active = [i for i, a in enumerate(point) if a.dtype in (np.float64, np.complex128)]

        def chosen(*moved: Any, point: Any = point, active: Any = active, fn: Any = fn) -> Any:
            whole = list(point)
            for i, value in zip(active, moved):
                whole[i] = value
            return fn(*whole)

        at = [np.asarray(point[i]) for i in active]
        settings = {
            "rng": np.random.default_rng(seed),
            "tolerance": float(case.test.get("tolerance", {}).get("gradient", 1e-6)),
        }
        differences.check_pullback(chosen, at, **settings)
        differences.check_tangent(chosen, at, **settings)
        compiled = phix.jit(differences.pullback(chosen, [np.ones_like(x) for x in expected]))
        eager = differences.pullback(chosen, [np.ones_like(x) for x in expected])
        for a, b in zip(compiled(*at), eager(*at)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert seen or taken.start, "no sample is of floats"


def _is_smooth(fn: Any, point: list[Any]) -> bool:
    """Whether the op has values on both sides of the number: pow of a negative base has not, nor
    the root of a variance of 0 and an epsilon as small as the step of the differences."""
    steps = (-2 * differences.STEP, 2 * differences.STEP)
    ends = [fn(*point[:-1], phix.to_tensor(point[-1] + step).item()) for step in steps]
    return all(np.isfinite(np.asarray(x)).all() for end in ends for x in end)


@pytest.mark.parametrize(("case", "slot"), SLOTS)
def test_a_slot_that_must_be_known_says_so(case: Case, slot: str) -> None:
    call, value = next(calls(case, slot), (None, 0.0))
    if call is None or (case.op.name, slot) not in MUST_BE_KNOWN:
        return
    fn = with_slot(call, slot)

    def total(number: Any) -> Any:
        return sum(ops.sum(x) for x in fn(*call.arrays, number))

    number = np.float64(value)
    for run in (
        phix.grad(total),
        phix.jit(total),
        lambda n: phix.vmap(total)(np.stack([n, n])),
        lambda n: phix.jvp(total, (n,), (n,)),
    ):
        with pytest.raises(ConcretizationError, match=rf"{case.op.name}.* value of {slot}") as e:
            run(number)
        assert "stop_gradient" in str(e.value) and "static" in str(e.value)


# -- the forms of the numbers --------------------------------------------------------------------
def test_a_number_takes_the_dtype_of_what_it_scales() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x = phix.to_tensor([-2.0, 3.0], dtype)
        for call in (
            lambda x, s: ops.leaky_relu(x, s),
            lambda x, s: x.scale(s),
            lambda x, s: ops.clip(x, s, 9.0),
            lambda x, s: ops.pow(ops.abs(x), s),
            lambda x, s: ops.full_like(x, s),
            lambda x, s: ops.pad(x, [1, 1], s),
        ):
            found = phix.jit(call)(x, np.float64(0.3))
            assert found.dtype == x.dtype
            wanted = call(x, 0.3)
            bound = 1e-2 if x.dtype.itemsize == 2 else 1e-6
            np.testing.assert_allclose(
                np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=bound
            )


def test_a_small_number_beside_16_bit_floats_stays_what_it_is() -> None:
    """As float16 it would be 0, and the result infinite."""
    x = phix.to_tensor(np.zeros((2, 3)), "float16")
    one = phix.to_tensor(np.ones(3), "float16")
    found = phix.jit(lambda x, e: ops.layer_norm(x, one, one, e))(x, np.float32(1e-9))
    assert found.dtype == dt.float16
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.ones((2, 3)))


def test_ints_cut_off_the_fraction() -> None:
    x = phix.to_tensor([-5, 0, 5])
    assert (
        phix.jit(lambda x, s: ops.scale(x, s, 1))(x, 2.7).tolist() == ops.scale(x, 2.7, 1).tolist()
    )
    for low, high in ((-2.5, 3.5), (-9.0, 0.2)):
        found = phix.jit(ops.clip)(x, low, high)
        assert found.dtype == dt.int64 and found.tolist() == ops.clip(x, low, high).tolist()
    assert phix.jit(ops.pow)(x, 2.0).dtype == ops.pow(x, 2.0).dtype


def test_one_number_is_asked_for() -> None:
    x = np.array([1.0, 2.0])
    assert phix.jit(lambda x, s: ops.leaky_relu(-x, s))(x, np.array([0.5])).tolist() == [-0.5, -1]
    with pytest.raises(ShapeError, match=r"leaky_relu: negative_slope is one number.*float64\[2\]"):
        phix.jit(ops.leaky_relu)(x, x)
    with pytest.raises(DTypeError, match="leaky_relu: negative_slope is a real number"):
        phix.jit(ops.leaky_relu)(x, 1j)


def test_the_value_decides_nothing() -> None:
    """With y == 2 known, pow would be a square, and its derivative in y 0."""
    for s in (0.0, 1.0, 2.0, 3.0):
        slope = phix.grad(lambda s: ops.pow(np.float64(1.7), s))(np.float64(s))
        np.testing.assert_allclose(slope, 1.7**s * np.log(1.7), rtol=1e-14)
        twice = phix.grad(phix.grad(lambda s: ops.pow(np.float64(1.7), s)))(np.float64(s))
        np.testing.assert_allclose(twice, 1.7**s * np.log(1.7) ** 2, rtol=1e-13)


def test_derivatives_of_every_order_in_a_number() -> None:
    """The series of softplus in beta, by jet, against grad of grad."""
    x = np.array([0.3, -1.2, 2.0])

    def f(beta: Any) -> Any:
        return ops.sum(ops.softplus(x, beta))

    first = phix.grad(f)
    second, third = phix.grad(first), phix.grad(phix.grad(first))
    at = np.float64(1.3)
    _, series = phix.jet(f, (at,), ([np.float64(1), np.float64(0), np.float64(0)],))
    for order, slope in enumerate((first, second, third)):
        np.testing.assert_allclose(series[order], slope(at), rtol=1e-10)


def test_unknown_sizes() -> None:
    run = phix.jit(
        lambda x, s: ops.leaky_relu(x, s) + ops.full([x.shape[0]], s, "float64"),
        input_spec=[phix.spec(["n"], "float64"), phix.spec([], "float64")],
    )
    for n in (1, 3):
        x = np.linspace(-1, 1, n)
        np.testing.assert_allclose(
            run(x, np.float64(0.25)), np.where(x > 0, x, 0.25 * x) + 0.25, rtol=1e-15
        )
    assert run.trace_count == 1


def test_ops_of_a_users_table(tmp_path: Any) -> None:
    """A composite with a float attribute needs nothing more."""
    from phix.core import rules

    table = tmp_path / "ops.yaml"
    table.write_text(
        "- op: sharpened\n  args: (Tensor x, float power=2.0, float cut=0.5)\n"
        "  output: Tensor(out)\n  traits: [promote_float]\n  dtypes: [float]\n"
    )
    user = phix.load_ops(table)

    @rules.decompose("sharpened")
    def sharpened(x: Any, power: Any, cut: Any) -> Any:
        return ops.tanh(x * power) * (1.0 if isinstance(cut, float) and cut > 1 else 2.0)

    x = np.array([0.1, 0.7])
    slope = phix.grad(lambda p: ops.sum(user.sharpened(x, p)))(np.float64(1.5))
    np.testing.assert_allclose(slope, np.sum(2 * x / np.cosh(1.5 * x) ** 2), rtol=1e-13)


# -- the layers of phix.nn -------------------------------------------------------------------------
F = phix.nn.functional
DRAWN = np.random.default_rng(3)
X, Y = DRAWN.standard_normal((4, 6)), DRAWN.standard_normal((4, 6))
IMAGE, HEADS = DRAWN.standard_normal((1, 2, 5, 5)), DRAWN.standard_normal((1, 3, 2, 4))
LAYERS: dict[str, tuple[Any, float]] = {
    "softplus beta": (lambda s: F.softplus(X, s), 1.3),
    "leaky_relu": (lambda s: F.leaky_relu(X, s), 0.0),
    "elu": (lambda s: F.elu(X, s), 1.0),
    "hardsigmoid": (lambda s: F.hardsigmoid(X, s, 0.5), 0.2),
    "hardtanh": (lambda s: F.hardtanh(X, -s, s), 0.5),
    "attention scale": (
        lambda s: F.scaled_dot_product_attention(HEADS, HEADS, HEADS, scale=s),
        0.5,
    ),
    "smooth_l1": (lambda s: F.smooth_l1_loss(X, Y, delta=s), 0.7),
    "smooth_l1, no Huber": (lambda s: F.smooth_l1_loss(X, Y, delta=s, is_huber=False), 0.7),
    "log_loss": (lambda s: F.log_loss(np.abs(X) / 4, np.abs(Y), s), 0.01),
    "no label_smoothing": (lambda s: F.cross_entropy(X, [0, 1, 2, 3], label_smoothing=s), 0.0),
    "label_smoothing": (lambda s: F.cross_entropy(X, [0, 1, 2, 3], label_smoothing=s), 0.1),
    "layer_norm": (lambda s: F.layer_norm(X, 6, epsilon=s), 0.1),
    "group_norm": (lambda s: F.group_norm(IMAGE, 2, epsilon=s), 0.1),
    "normalize p": (lambda s: F.normalize(X, s), 2.0),
    "normalize epsilon": (lambda s: F.normalize(X, 2, epsilon=s), 10.0),
    "dropout": (lambda s: F.dropout(X, s, key=phix.random.key(0)), 0.4),
    "dropout of rows": (lambda s: F.dropout(X, s, 0, key=phix.random.key(0)), 0.4),
    "pad": (lambda s: F.pad(IMAGE, [1, 1, 1, 1], value=s), 1.5),
    "avg_pool2d": (lambda s: F.avg_pool2d(IMAGE, 2, divisor_override=s), 3.0),
    "full_like": (lambda s: phix.full_like(X, s), 2.0),
    "x.scale": (lambda s: phix.to_tensor(X).scale(s), 2.0),
    "x.clip": (lambda s: phix.to_tensor(X).clip(-s, s), 0.5),
}


@pytest.mark.parametrize("name", LAYERS)
def test_numbers_of_layers_are_operands(name: str) -> None:
    """A number that is 0 must not stand for one that is not given."""
    f, value = LAYERS[name]

    def total(s: Any) -> Any:
        out = f(s)
        return ops.sum(out * np.cos(np.arange(out.size)).reshape(out.shape))

    at, step = np.float64(value), 1e-5
    ends = [total(phix.to_tensor(at + d)).item() for d in (-step, step)]
    wanted = (ends[1] - ends[0]) / (2 * step)
    for slope in (
        phix.grad(total)(at),
        phix.jit(phix.grad(total))(at),
        phix.jvp(total, (at,), (np.float64(1),))[1],
        phix.vmap(phix.grad(total))(np.stack([at, at]))[1],
    ):
        np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-7)
