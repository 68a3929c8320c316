"""An op: one entry of the op table, with the rules that interpreters ask it for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core import rule_modules
from phix.core.dtypes import STORAGE
from phix.core.records import dataclass, field


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
_TENSORS = ("Tensor", "Tensor[]")
NUMBERS = frozenset({"float", "double", "Scalar", "Scalar(float)", "Scalar(double)"})


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of an op, as the table declares it."""

    name: str
    type: str  # Tensor, Tensor[], or an attribute type: int, int[], Scalar, IntArray, ...
    default: Any = REQUIRED
    optional: bool = False  # a tensor that may be None

    @property
    def is_tensor(self) -> bool:
        return self.type in _TENSORS

    @property
    def is_list(self) -> bool:
        return self.type == "Tensor[]"


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an op."""

    name: str
    is_list: bool = False
    size: str = ""  # for a list: the expression in braces, e.g. ``inputs.size()``
    intermediate: bool = False  # kept for the backward, not part of the public result
    optional: bool = False


@dataclass(eq=False)
class Op:
    """An op of the table. Compared by identity; one object an op name.

    The facts come from the table (``yaml/``), the rules from ``phix/primitives``. An op with a
    ``decomposition`` is a composite, one without is a primitive.
    """

    name: str
    args: tuple[Arg, ...]
    outputs: tuple[Output, ...]
    family: str = ""
    infer_meta_name: str | None = None
    infer_meta_params: tuple[str, ...] | None = None
    backward: str | None = None
    forward: str | None = None  # for a backward op: the name of its forward op
    # For a backward op whose forward string names an arg or output otherwise than the forward's own
    # entry does: (name there, name in the entry), and (name_grad there, name_grad) of an output.
    forward_names: tuple[tuple[str, str], ...] = ()
    jvp: str | None = None  # linear, bilinear, pointwise; None: a rule in Python, or derived
    traits: frozenset[str] = frozenset()  # pointwise, promote, promote_float, view, random, ...
    dtypes: frozenset[np.dtype] = frozenset()  # what the promoted inputs may be; empty: anything
    promoted: tuple[str, ...] = ()  # tensor args that meet in one dtype; () is all of them
    with_layout: tuple[str, ...] = ()  # inputs and outputs that lie as its data_format says
    invariant: tuple[str, ...] = ()  # lists that its graphs take last, each time the same
    no_need_buffer: frozenset[str] = frozenset()
    invoke: str | None = None
    inplace: tuple[tuple[str, str], ...] = ()
    view: tuple[tuple[str, str], ...] = ()
    kernel: dict[str, Any] = field(default_factory=dict)
    where: str = ""  # the file of the entry; with its line where that was read just now

    # Rules, filled in by core.rules: an op has none until one is asked for.
    decomposition: Callable[..., Any] | None = field(init=False)
    jvp_rule: Callable[..., Any] | None = field(init=False)
    vjp_rule: Callable[..., Any] | None = field(init=False)
    kind_vjp_rule: Callable[..., Any] | None = field(init=False)
    jet_rule: Callable[..., Any] | None = field(init=False)
    batch_rule: Callable[..., Any] | None = field(init=False)
    collective_rule: Callable[..., Any] | None = field(init=False)
    rank_rule: Callable[..., Any] | None = field(init=False)
    normalize: Callable[..., Any] | None = field(init=False)
    index_rule: Callable[..., Any] | None = field(init=False)
    operand_rule: Callable[..., Any] | None = field(init=False)
    size_rule: Callable[..., Any] | None = field(init=False)
    simplifications: tuple[tuple[str, Callable[..., Any]], ...] = field(init=False)

    def __post_init__(self) -> None:
        inputs: list[Arg] = []
        attrs: list[Arg] = []
        places: list[tuple[bool, int]] = []
        # Attributes that may be equal and yet mean another call: 1, 1.0 and True; 0.0 and -0.0.
        inexact: list[int] = []
        # Attributes that may be tensors under a transformation: see core.operands.
        number_slots: list[int] = []
        # Dtypes that are the default float of the call where they are not given.
        float_slots: list[int] = []
        self.has_graphs = self.has_lists = False
        self.tensors_first = True
        for arg in self.args:  # one loop for all: it runs for every op when phix is imported
            kind = arg.type
            if kind in _TENSORS:
                places.append((True, len(inputs)))
                inputs.append(arg)
                self.tensors_first = self.tensors_first and not attrs
                self.has_lists = self.has_lists or kind == "Tensor[]"
                continue
            here = len(attrs)
            places.append((False, here))
            attrs.append(arg)
            if kind.startswith(("Scalar", "float", "double")):
                inexact.append(here)
            if kind in NUMBERS:
                number_slots.append(here)
            if kind == "DataType" and arg.default == "float32":
                float_slots.append(here)
            self.has_graphs = self.has_graphs or kind.startswith("Graph")
        self.inputs, self.attrs, self._merge = tuple(inputs), tuple(attrs), tuple(places)
        self.attr_names = tuple([a.name for a in attrs])
        self.inexact, self.number_slots = tuple(inexact), tuple(number_slots)
        self.float_slots = tuple(float_slots)
        names = dict(self.forward_names)
        bases = [o.name.removesuffix("_grad") for o in self.outputs]
        # For a backward op: the input of the forward that each output is the gradient of.
        self.gradient_of = tuple([names.get(base, base) for base in bases])
        self.binds_dim = "binds_dim" in self.traits
        self.asks = "asks" in self.traits
        # A traced program has what the op is made of: the size of its result is computed there.
        self.is_written_out = "data_dependent" in self.traits
        # Run as what it is made of wherever it is called: that depends on the mesh around.
        self.is_ring = "ring" in self.traits
        self.has_effect = "side_effect" in self.traits and not self.binds_dim
        self.joins_ranks = "collective" in self.traits and "local" not in self.traits
        # The tensor that the op is a method of.
        first = self.args[0] if self.args else None
        is_given = first is not None and first.type == "Tensor" and not first.optional
        self.receiver = first.name if first is not None and is_given else ""
        self.single_output = len(self.outputs) == 1 and not self.outputs[0].is_list

    @classmethod
    def declared(cls, read: Callable[[], Op], **facts: Any) -> Op:
        """An op with these facts; all are read when one of the others is first asked for."""
        op = cls.__new__(cls)
        vars(op).update(facts, _read=read)
        return op

    if not TYPE_CHECKING:  # which would take every name for one of these

        def __getattr__(self, name: str) -> Any:
            """What the op does not have yet: its facts are read, and for a rule the modules of its
            family imported."""
            known = vars(self)
            read = known.get("_read")
            if read is not None:  # two threads may both read them, to the same effect
                known.update(vars(read()), _read=None)
            if name in known:
                return known[name]
            if name not in RULES:
                raise AttributeError(f"an op has no attribute {name!r}")
            for subject in (self.where, *RULES[name]):
                rule_modules.import_for(subject)
            return known.setdefault(name, () if name == "simplifications" else None)

    @property
    def is_primitive(self) -> bool:
        return self.decomposition is None

    @property
    def is_pointwise(self) -> bool:
        return "pointwise" in self.traits

    def takes(self, dtype: np.dtype) -> bool:
        """Whether the op claims a dtype of its promoted inputs."""
        if not self.dtypes or dtype in self.dtypes:
            return True
        return "stores" in self.traits and dtype in STORAGE

    def takes_none(self, attr: Arg) -> bool:
        """Whether an attribute may be None by what the table says of it, not by its type."""
        is_axes = "reduces" in self.traits and attr.name == "axis"
        return attr.default is None or attr.default == () or is_axes

    def merge(self, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Inputs and attributes in the order of the op's args, as rules receive them."""
        if self.tensors_first:
            return inputs + attrs
        return tuple(inputs[i] if tensor else attrs[i] for tensor, i in self._merge)

    def split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Inputs and attributes of args in the op's order."""
        pairs = list(zip(self.args, args))
        return tuple(v for a, v in pairs if a.is_tensor), tuple(
            v for a, v in pairs if not a.is_tensor
        )

    def attr(self, name: str, attrs: tuple[Any, ...]) -> Any:
        return attrs[self.attr_names.index(name)]

    def signature(self) -> str:
        """``add(Tensor x, Tensor y) -> Tensor(out)``."""
        outs = ", ".join(f"{'Tensor[]' if o.is_list else 'Tensor'}({o.name})" for o in self.outputs)
        args = (f"{a.type} {a.name}" + _default_text(a) for a in self.args)
        return f"{self.name}({', '.join(args)}) -> {outs}"

    def __repr__(self) -> str:
        return f"<op {self.name}>"


# A default is one of __init__ alone: on the class it would answer for facts that are not read yet.
for _fact in fields(Op):
    if _fact.name in vars(Op):
        delattr(Op, _fact.name)

# Rule -> subjects of core.rule_modules with rules of that kind, besides the op's family.
RULES: dict[str, tuple[str, ...]] = {
    "decomposition": (), "jvp_rule": (), "vjp_rule": (), "kind_vjp_rule": (),
    "jet_rule": (rule_modules.JETS,), "batch_rule": (), "collective_rule": (), "rank_rule": (),
    "normalize": (), "index_rule": (), "operand_rule": (), "size_rule": (),
    "simplifications": (rule_modules.REWRITES,),
}  # fmt: skip


def _default_text(arg: Arg) -> str:
    return "" if arg.default is REQUIRED else f"={arg.default!r}"
