"""The rules that lower structural primitives, by op, and what a rule is told of its equation."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from phix.core import registries, rule_modules
from phix.core.graph import Equation
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.core.rules import note_origin
from phix.core.source import Source
from phix.kernels.loops.builder import Builder

# The modules with rules of phix, and the ops that each has rules of.
_FAMILIES = {
    "shape": "full unsqueeze squeeze reshape expand transpose slice strided_slice split_with_num "
    "split flip roll diagonal arange",
    "boxes": "slice_put concat pad",
    "ranks": "rank_step",
    "reduction": "sum prod max min any all",
    "argmax": "argmax argmin",
    "scan": "cumsum cumprod reduce_as",
    "recurrence": "linear_recurrence cummax cummin",
    "contraction": "matmul",
    "attention": "attention",
    "attention_grad": "attention_grad",
    "factorisation": "lu lu_permutation cholesky",
    "solve": "triangular_solve lu_solve",
    "convolution": "conv2d",
    "fft": "fft_c2c fft_r2c fft_c2r",
    "spectral": "qr svd eigh eig schur",
    "indexing": "gather gather_nd take_along_axis",
    "scatter": "scatter scatter_nd_add index_put put_along_axis",
    "positions": "true_positions",
    "sorting": "sort argsort",
    "sparse_products": "segment_sum_csr sparse_product_counts sparse_product_columns "
    "sparse_product_terms",
    "topk": "topk",
    "random": "random_bits",
    "control_flow": "scan while_loop branch dim_value",
    "callback": "optimization_barrier io_copy io_copy_like pure_callback debug_callback",
}
_FAMILY_OF = {op_name: family for family, names in _FAMILIES.items() for op_name in names.split()}


@dataclass(frozen=True)
class Task:
    """What an equation is to make, and how its graph goes on from there."""

    metas: tuple[MetaTensor, ...]  # of its outputs, lists opened
    is_read: tuple[bool, ...]  # which of them anything reads
    is_consumed: bool = False  # nothing else reads its first input
    is_covered: bool = False  # its output is only read where it was scattered
    is_chosen: bool = False  # it puts one value into each row of a constant
    source: Source | None = None  # the user's line

    @property
    def out(self) -> MetaTensor:
        """The meta of the (first) output."""
        return self.metas[0]


@dataclass(frozen=True)
class LoweringRule:
    """How a primitive is lowered; ``kind`` says how it reads its inputs, ``cost`` how many scalar
    operations it takes to find out where an element is to be read. Equations for which ``moves``
    holds read elements at other indices, whatever the kind of others.
    """

    kind: str
    function: Callable[..., Any]
    takes_task: bool
    cost: int = 0
    moves: Callable[[Equation], bool] | None = None

    def kind_of(self, equation: Equation) -> str:
        """How an equation reads its inputs."""
        return "move" if self.moves is not None and self.moves(equation) else self.kind

    def __call__(self, b: Builder, task: Task, args: tuple[Any, ...]) -> Any:
        if self.takes_task:
            return self.function(b, *args, task=task)
        return self.function(b, *args)


RULES: dict[str, LoweringRule] = {}
registries.additions("lowerings", RULES)


def lowering(
    op_name: str, kind: str, cost: int = 0, moves: Callable[[Equation], bool] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``rule(builder, *args)`` for a primitive: args in the op's order, tensors as Values.

    ``kind`` says how it reads its inputs: see :mod:`phix.kernels.lowering.fusion`; ``cost`` is what
    it takes to read elements at places from the data, ``moves`` says of which equations the kind
    is "move". The rule
    returns a Value, or a tuple for several outputs. One with a keyword ``task`` gets a
    :class:`Task`: the metas of the outputs, and who reads them.
    """

    def decorator(rule: Callable[..., Any]) -> Callable[..., Any]:
        if not rule_modules.is_own():
            load(op_name)  # what somebody else registers takes the place of phix's own
        note_origin(op_name)
        rule_modules.note(("lowerings", op_name))
        takes_task = "task" in inspect.signature(rule).parameters
        RULES[op_name] = LoweringRule(kind, rule, takes_task, cost, moves)
        return rule

    return decorator


def load(*op_names: str) -> None:
    """Have the rules of these ops registered; of one that is not in the table, those of all."""
    for name in op_names:
        if name not in RULES:
            for family in (_FAMILY_OF[name],) if name in _FAMILY_OF else _FAMILIES:
                importlib.import_module(f"phix.kernels.lowering.{family}")


def has_lowering(op_name: str) -> bool:
    """Whether the op has a lowering of its own; whose module says which libraries it calls."""
    load(op_name)
    return op_name in RULES
