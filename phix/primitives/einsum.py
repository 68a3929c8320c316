"""einsum: an equation taken apart, and a sum of products as reshapes, sums and matrix products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor

# An axis: a letter, or for an axis under the ellipsis its number from the end, -1, -2, ...
Label = Union[str, int]
Labels = tuple[Label, ...]
_ANY_SIZE = 64  # what an unknown dim counts as where the order of products is chosen


class Subscripts(NamedTuple):
    """An equation with the ellipsis written out, for operands of known ranks."""

    inputs: tuple[Labels, ...]
    output: Labels
    sizes: dict[Label, dm.DimLike]


class Term(NamedTuple):
    """A tensor and what its axes are called."""

    labels: Labels
    tensor: Any


def parse(equation: str, metas: Sequence[MetaTensor]) -> Subscripts:
    """The labels of each operand and of the result, and the size each label stands for.

    Raises:
        AttributeValueError: the equation is malformed.
        ShapeError: an operand has another rank, or one label two sizes.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(metas):
        raise AttributeValueError(
            f"{equation!r} names {len(texts)} operands, found {len(metas)}; put a comma between two"
        )
    inputs = tuple(_labels(t, m, equation) for t, m in zip(texts, metas))
    sizes = _sizes(inputs, metas, equation)
    if arrow:
        output = _output(right, sizes, equation)
    else:
        seen = list(itertools.chain(*inputs))
        letters = sorted(x for x in sizes if isinstance(x, str) and seen.count(x) == 1)
        output = (*_ellipsis(sizes), *letters)
    return Subscripts(inputs, output, sizes)


def _ellipsis(sizes: dict[Label, Any]) -> Labels:
    return tuple(sorted(x for x in sizes if isinstance(x, int)))


def _split(text: str, equation: str) -> tuple[str, str | None]:
    """What stands before the ellipsis, and after it (None: there is none)."""
    before, dots, after = text.partition("...")
    for letter in before + after:
        if not (letter.isascii() and letter.isalpha()):
            raise AttributeValueError(
                f"{letter!r} in {equation!r} is no label; write letters, commas, one ... for each "
                "operand and one ->"
            )
    return before, after if dots else None


def _labels(text: str, meta: MetaTensor, equation: str) -> Labels:
    before, after = _split(text, equation)
    under = meta.ndim - len(before) - len(after or "")
    if under < 0 or (after is None and under):
        raise ShapeError(
            f"{text!r} of {equation!r} names {len(before) + len(after or '')} axes, its operand "
            f"{meta} has {meta.ndim}; name each axis, or write ... for the rest"
        )
    return (*before, *range(-under, 0), *(after or ""))


def _sizes(
    inputs: tuple[Labels, ...], metas: Sequence[MetaTensor], equation: str
) -> dict[Label, dm.DimLike]:
    sizes: dict[Label, dm.DimLike] = {}
    for labels, meta in zip(inputs, metas):
        for label, dim in zip(labels, meta.dims):
            met = dm.broadcast(sizes.get(label, 1), dim)
            if met is None:
                name = label if isinstance(label, str) else "..."
                raise ShapeError(
                    f"{name!r} of {equation!r} is {dm.dim_text(sizes[label])} and "
                    f"{dm.dim_text(dim)}; make the sizes equal, or one of them 1"
                )
            sizes[label] = met
    return sizes


def _output(text: str, sizes: dict[Label, dm.DimLike], equation: str) -> Labels:
    before, after = _split(text, equation)
    wanted = before + (after or "")
    unknown = [x for x in wanted if x not in sizes]
    if unknown or len(set(wanted)) < len(wanted):
        what = f"names {unknown[0]!r}, which no operand has" if unknown else "names a label twice"
        raise AttributeValueError(f"the result of {equation!r} {what}")
    if after is None and _ellipsis(sizes):
        raise AttributeValueError(f"the result of {equation!r} lacks the ... of its operands")
    return (*before, *(_ellipsis(sizes) if after is not None else ()), *(after or ""))


@rules.infer_meta("EinsumInferMeta")
def einsum_meta(x: Sequence[MetaTensor], equation: str) -> MetaTensor:
    if not x:
        raise AttributeValueError("einsum takes at least one operand; write einsum([x], 'ij->ji')")
    parsed = parse(equation, x)
    return MetaTensor(tuple(parsed.sizes[k] for k in parsed.output), x[0].dtype)


@rules.decompose("einsum")
def einsum(x: Sequence[Any], equation: str) -> Any:
    """Pairs of operands multiplied until one is left, the pair with the smallest product first."""
    parsed = parse(equation, [t.meta for t in x])
    terms = [_plain(Term(k, t), parsed) for k, t in zip(parsed.inputs, x)]
    terms = [_summed(t, _needed(terms, (t,), parsed)) for t in terms]
    while len(terms) > 1:
        first, second = min(
            itertools.combinations(terms, 2), key=lambda pair: _growth(pair, terms, parsed)
        )
        keep = _needed(terms, (first, second), parsed)
        rest = [t for t in terms if t is not first and t is not second]
        terms = [*rest, _product(first, second, keep, parsed.sizes)]
    return _arranged(terms[0], parsed.output, parsed.sizes)


def _needed(terms: list[Term], taken: tuple[Term, ...], parsed: Subscripts) -> set[Label]:
    """The labels that the result and the terms not taken have."""
    others = [t.labels for t in terms if not any(t is u for u in taken)]
    return set(parsed.output).union(*others)


def _volume(labels: Any, sizes: dict[Label, dm.DimLike]) -> int:
    known = (sizes[k] for k in labels)
    return math.prod(d if isinstance(d, int) else _ANY_SIZE for d in known)


def _growth(pair: tuple[Term, Term], terms: list[Term], parsed: Subscripts) -> tuple[int, int]:
    """How much larger the product of two terms is than they are; then the work it takes."""
    a, b = pair
    keep = _needed(terms, pair, parsed)
    both = set(a.labels) | set(b.labels)
    sizes = parsed.sizes
    larger = _volume(both & keep, sizes) - _volume(a.labels, sizes) - _volume(b.labels, sizes)
    return larger, _volume(both, sizes)


def _plain(term: Term, parsed: Subscripts) -> Term:
    """Each label once, and of its full size: diagonals taken, axes of 1 dropped or stretched."""
    labels, tensor = term
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = _diagonal(tensor, first, second, parsed.sizes[label])
            labels = (*(k for i, k in enumerate(labels) if i not in (first, second)), label)
    dims = tensor.meta.dims
    sizes = [parsed.sizes[k] for k in labels]
    kept = [not dm.is_one(d) or dm.is_one(s) for d, s in zip(dims, sizes)]
    if not all(kept):
        dims = tuple(d for d, keep in zip(dims, kept) if keep)
        tensor = ops.reshape(tensor, dims)
        labels = tuple(k for k, keep in zip(labels, kept) if keep)
    full = tuple(parsed.sizes[k] for k in labels)
    return Term(labels, tensor if dm.same_shape(dims, full) else ops.expand(tensor, full))


def _diagonal(tensor: Any, first: int, second: int, size: dm.DimLike) -> Any:
    """The elements with equal indices on two axes, which become the last; axes of 1 stretch."""
    dims = list(tensor.meta.dims)
    if not (dm.same(dims[first], size) and dm.same(dims[second], size)):
        dims[first] = dims[second] = size
        tensor = ops.expand(tensor, dims)
    return ops.diagonal(tensor, 0, first, second)


def _summed(term: Term, keep: set[Label]) -> Term:
    """The term summed over the labels that nothing else needs."""
    axes = [i for i, k in enumerate(term.labels) if k not in keep]
    if not axes:
        return term
    total = ops.sum(term.tensor, axes, term.tensor.dtype)
    return Term(tuple(k for k in term.labels if k in keep), total)


def _product(a: Term, b: Term, keep: set[Label], sizes: dict[Label, dm.DimLike]) -> Term:
    """Two terms multiplied, and summed over the labels that are not kept."""
    a, b = _summed(a, keep | set(b.labels)), _summed(b, keep | set(a.labels))
    shared = [k for k in a.labels if k in b.labels]
    batch = tuple(k for k in shared if k in keep)
    inner = tuple(k for k in shared if k not in keep)
    rows = tuple(k for k in a.labels if k not in shared)
    columns = tuple(k for k in b.labels if k not in shared)
    labels = (*batch, *rows, *columns)
    if not inner:
        return Term(labels, _spread(a, labels, sizes) * _spread(b, labels, sizes))
    left, turn_left = _matrix(a, batch, rows, inner, sizes)
    right, turn_right = _matrix(b, batch, inner, columns, sizes)
    out = ops.matmul(left, right, turn_left, turn_right)
    return Term(labels, ops.reshape(out, [sizes[k] for k in labels]))


def _spread(term: Term, labels: Labels, sizes: dict[Label, dm.DimLike]) -> Any:
    """The tensor with its axes in the order of ``labels``, and 1s for those it has not."""
    own = tuple(k for k in labels if k in term.labels)
    shape = [sizes[k] if k in own else 1 for k in labels]
    return ops.reshape(_arranged(term, own, sizes), shape)


def _matrix(
    term: Term, batch: Labels, rows: Labels, columns: Labels, sizes: dict[Label, dm.DimLike]
) -> tuple[Any, bool]:
    """A (batch of a) matrix, and whether it stands transposed: as it lies in memory if it can."""
    turned = term.labels == (*batch, *columns, *rows) and bool(rows)
    first, second = (columns, rows) if turned else (rows, columns)
    tensor = _arranged(term, (*batch, *first, *second), sizes)
    shape = [dm.product(tuple(sizes[k] for k in part)) for part in (first, second)]
    return ops.reshape(tensor, (*(sizes[k] for k in batch), *shape)), turned


def _arranged(term: Term, labels: Labels, sizes: dict[Label, dm.DimLike]) -> Any:
    """The tensor with exactly these axes; one it lacks was of size 1 and dropped."""
    own = [k for k in labels if k in term.labels]
    tensor = term.tensor
    if tuple(own) != term.labels:
        tensor = ops.transpose(tensor, [term.labels.index(k) for k in own])
    return tensor if len(own) == len(labels) else ops.expand(tensor, [sizes[k] for k in labels])
