"""The infer-meta interpreter: what is known of an op's outputs without running it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any

from phix.core import context, later, size_checks, slices, varying
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import normalize, with_call
from phix.core.errors import DTypeError, OpTableError, PhixError, ShapeError
from phix.core.graph import Equation, flat, map_entries, substitute_attrs
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaConfig, MetaTensor
from phix.core.op import REQUIRED, Op
from phix.core.refusals import no_value
from phix.core.rules import OPS, MetaOf, infer_meta_rule
from phix.core.tensor import Tensor, Tracer

COMPILE_TIME = MetaConfig(is_runtime=False)
RUN_TIME = MetaConfig(is_runtime=True)


class MetaTracer(Tracer):
    """A tensor of which the meta alone is known."""

    __slots__ = ("_meta",)

    def __init__(self, interpreter: Interpreter, meta: MetaTensor) -> None:
        self.interpreter = interpreter
        self._meta = meta

    @property
    def meta(self) -> MetaTensor:
        return self._meta

    def concrete(self, asked: str) -> Tensor:
        raise no_value(self, asked)


class InferMeta(Interpreter):
    """Runs decompositions on metas, for ops whose entry names no infer_meta function."""

    name = "infer_meta"

    def __init__(self, config: MetaConfig) -> None:
        super().__init__(None)
        self.config = config

    def as_dim(self, value: Any, largest: bool, refusal: str) -> Any:
        """A size that nothing is known of."""
        return dm.computed_symbol()

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        outs = infer(op, map_entries(lambda x: x.meta, inputs), attrs, self.config)
        tracers = map_entries(lambda m: MetaTracer(self, m), outs)
        return tracers[0] if len(tracers) == 1 else tracers


def infer(
    op: Op,
    metas: tuple[Any, ...],
    attrs: tuple[Any, ...],
    config: MetaConfig = COMPILE_TIME,
) -> tuple[Any, ...]:
    """The metas of the outputs: one entry an output, a tuple for a list.

    Raises:
        ShapeError, DTypeError, AttributeValueError: the call is wrong; the message names the op,
            the metas, the user's line, and what to write instead.
    """
    try:
        check_dtypes(op, metas)
        _check_storage(op, metas)
        if op.infer_meta_name is None and op.decomposition is not None:
            is_tracked = bool(context.context.tracked) and not op.has_graphs
            with context.untracked() if is_tracked else nullcontext():
                outs = _infer_decomposed(op, metas, attrs, config)
        else:
            outs = _infer_named(op, metas, attrs, config)
        for out in outs:
            for meta in out if isinstance(out, tuple) else (out,):
                check_size(meta)
    except PhixError as error:
        raise with_call(error, op, metas) from None
    return varying.typed(op, metas, attrs, outs) if context.context.tracked else outs


_MOST_AXES = 64  # of NumPy's arrays
_MOST_BYTES = (1 << 63) - 1


def check_size(meta: MetaTensor | None) -> None:
    """Raise ShapeError for a tensor that no memory can hold."""
    if meta is None:
        return
    if len(meta.dims) > _MOST_AXES:
        raise ShapeError(
            f"the result would have {len(meta.dims)} axes; a tensor has {_MOST_AXES} at most"
        )
    size = meta.dtype.itemsize
    for dim in meta.dims:
        if isinstance(dim, int):
            size *= dim or 1  # a tensor without elements has strides, too
    if size > _MOST_BYTES:
        raise ShapeError(
            f"the result would be {meta}, of more bytes than an address can count; write a "
            "smaller shape"
        )


def _check_storage(op: Op, metas: tuple[Any, ...]) -> None:
    """Raise DTypeError where a primitive that does more than move its inputs is given numbers of a
    dtype of storage; a composite is looked at in what it is made of."""
    if op.decomposition is not None or "stores" in op.traits:
        return
    seen = None
    for meta in flat(metas):
        if meta.dtype is not seen and meta.dtype in dt.STORAGE:
            raise DTypeError(
                f"{meta.dtype} is a dtype of storage: tensors of it are moved and cast, and "
                "nothing computes with them; cast the input first, x.astype('float32')"
            )
        seen = meta.dtype


def check_dtypes(op: Op, metas: tuple[Any, ...]) -> None:
    """Raise DTypeError where a promoted input's dtype is not one the op claims, or they differ."""
    if "promote" not in op.traits:
        return
    found = None
    for arg, entry in zip(op.inputs, metas):
        if op.promoted and arg.name not in op.promoted:
            continue
        for meta in entry if isinstance(entry, tuple) else () if entry is None else (entry,):
            if meta.dtype is found:
                continue
            if not op.takes(meta.dtype):
                names = ", ".join(n for n, d in dt.BY_NAME.items() if d in op.dtypes)
                raise DTypeError(f"{arg.name} must be one of {names}, found {meta.dtype}; cast it")
            if found is not None and meta.dtype != found:
                raise DTypeError(f"the inputs must have one dtype, found {found} and {meta.dtype}")
            found = meta.dtype


def _infer_named(
    op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...], config: MetaConfig
) -> tuple[Any, ...]:
    rule = infer_meta_rule(op)
    args = op.merge(metas, attrs)
    if op.infer_meta_params is not None:
        args = tuple([args[n] for n in _parameter_places(op)])
    if isinstance(rule, MetaOf):
        return _infer_other(op, OPS[rule.op_name], args, config)
    outs = rule(*args, config=config) if _takes_config(rule) else rule(*args)
    return (outs,) if len(op.outputs) == 1 else outs


def _infer_other(op: Op, other: Op, args: tuple[Any, ...], config: MetaConfig) -> tuple[Any, ...]:
    """What ``other`` infers for these args; those that are not given have their defaults. Outputs
    that ``op`` has besides are absent, which the entry must allow them to be."""
    given = [*args[: len(other.args)], *(a.default for a in other.args[len(args) :])]
    wrong = next((a for a, v in zip(other.args, given) if v is REQUIRED and not a.optional), None)
    outs: tuple[Any, ...] = ()
    if wrong is None:
        inputs, attrs = other.split(tuple([None if v is REQUIRED else v for v in given]))
        outs = infer(other, inputs, normalize(other, inputs, attrs), config)
    absent = op.outputs[len(outs) :]
    if wrong is not None or not all(o.optional or o.intermediate for o in absent):
        raise OpTableError(
            f"{op.where}: {op.infer_meta_name} takes the args and gives the outputs of "
            f"{other.signature()}; found {op.signature()}"
        )
    return (*outs[: len(op.outputs)], *(None for _ in absent))


@cache
def _parameter_places(op: Op) -> tuple[int, ...]:
    """Where the parameters of an op's infer_meta function stand among its args."""
    names = [a.name for a in op.args]
    return tuple(map(names.index, op.infer_meta_params or ()))


@cache
def _takes_config(rule: Any) -> bool:
    code = getattr(rule, "__code__", None)  # a signature takes longer than the rule
    if code is None or hasattr(rule, "__wrapped__"):
        return "config" in inspect.signature(rule).parameters
    return "config" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _infer_decomposed(
    op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...], config: MetaConfig
) -> tuple[Any, ...]:
    assert op.decomposition is not None
    interpreter = InferMeta(config)
    with context.transformation(interpreter), context.inside():
        tracers = map_entries(lambda m: MetaTracer(interpreter, m), metas)
        outs = op.decomposition(*op.merge(tracers, attrs))
    outs = (outs,) if len(op.outputs) == 1 else outs
    return map_entries(lambda t: t.meta, tuple(map(_as_tuple, outs)))


def _as_tuple(out: Any) -> Any:
    return tuple(out) if isinstance(out, list) else out


def infer_for_sizes(
    equation: Equation,
    metas: tuple[Any, ...],
    env: Mapping[dm.Symbol, Any],
    config: MetaConfig = RUN_TIME,
) -> tuple[Any, ...]:
    """The metas of an equation's outputs for inputs of ``metas``, unknown dims having the sizes of
    ``env``.

    Raises:
        ShapeError or its like: it does not fit them, or means something else for them.
    """
    attrs = substitute_attrs(equation.attrs, env)
    slices.check_positions(equation.op, metas, equation.attrs, attrs)
    return infer(equation.op, metas, attrs, config)


def _infer_alone(equation: Equation, env: Mapping[dm.Symbol, Any]) -> tuple[Any, ...]:
    metas = map_entries(lambda a: a.meta.substitute(env), equation.inputs)
    return infer_for_sizes(equation, metas, env, RUN_TIME if env else COMPILE_TIME)


later.provide_infer(infer)
size_checks.provide(_infer_alone)
