"""Rows that go to experts on the parts of a mesh, as many to each as the data say, and back."""

from __future__ import annotations

from phix import ops
from phix.core.dims import DimLike
from phix.core.given import FLAG, SIZE, takes
from phix.core.tensor import Tensor, TensorLike


@takes(rows=SIZE, drops=FLAG)
def global_scatter(
    x: TensorLike, local_count: TensorLike, axis_name: str, *, rows: DimLike, drops: bool = False
) -> tuple[Tensor, Tensor]:
    """The rows that all parts send to the experts of this one: Paddle's op of this name.

    Each part of the axis has as many experts. The first rows of ``x`` go to expert 0 of part 0, the
    next ones to its expert 1, those of the last experts to the last part. What arrives stands by
    expert, then by the part it is from. The sizes go along, so parts cannot disagree about them.

    Args:
        x: the rows of this part, [n, ...]. Those behind the last that is counted are not sent.
        local_count: ints, [parts * experts of a part]: how many rows go to each.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.
        rows: how many rows the result has, the same on all parts, for shapes do not depend on data.
            Behind what arrives are zeros.
        drops: whether what arrives beyond ``rows`` is dropped, as by experts of a capacity, and
            numbers are taken as the nearest that can be. Otherwise each run looks at them.

    Returns:
        [rows, ...], and Paddle's global_count, [parts * experts of a part]: how many rows each part
        has sent to each expert here. All have arrived where ``global_count.sum() <= rows``.

    Raises:
        ShapeError: local_count does not have as many numbers for each part.
        DTypeError: its numbers are no ints.
        TensorValueError: more rows arrive than the result has; local_count counts more rows than
            ``x`` has, or less than none. Not with ``drops``.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"expert": 2}, virtual=True)
    >>> sent = lambda x, n: phix.parallel.global_scatter(x, n, "expert", rows=3)
    >>> x, counts = phix.to_tensor([1.0, 2.0, 3.0, 4.0]), phix.to_tensor([0, 2, 1, 1])
    >>> [v.tolist() for v in phix.parallel.spmd(sent, mesh, "expert", "expert")(x, counts)]
    [[3.0, 0.0, 0.0, 1.0, 2.0, 4.0], [0, 1, 2, 1]]
    """
    out, global_count = ops.scatter_rows(x, local_count, axis_name, rows, drops)
    return out, global_count


@takes(rows=SIZE, drops=FLAG)
def global_gather(
    x: TensorLike, local_count: TensorLike, axis_name: str, *, rows: DimLike, drops: bool = False
) -> Tensor:
    """The rows that :func:`global_scatter` has sent, back where they came from, in their order.

    Args:
        x: a row for each that came to the experts of this part, [n, ...], in the order in which
            ``global_scatter`` gives them.
        local_count: what ``global_scatter`` was given on this part.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.
        rows: how many rows the result has, those of the x that was sent, say. Behind the last that
            is counted are zeros.
        drops: whether what is beyond ``rows`` is dropped, and what ``x`` has no row for is zeros.

    Returns:
        [rows, ...].

    Raises:
        ShapeError: local_count does not have as many numbers for each part.
        DTypeError: its numbers are no ints.
        TensorValueError: more rows come back than the result has, ``x`` has not all of the rows
            that came here, or a number is less than none. Not with ``drops``.

    >>> import phix
    >>> def doubled(x, n):
    ...     there, _ = phix.parallel.global_scatter(x, n, "expert", rows=4)
    ...     return phix.parallel.global_gather(2.0 * there, n, "expert", rows=2)
    >>> mesh = phix.parallel.mesh({"expert": 2}, virtual=True)
    >>> x, counts = phix.to_tensor([1.0, 2.0, 3.0, 4.0]), phix.to_tensor([0, 2, 1, 1])
    >>> phix.parallel.spmd(doubled, mesh, "expert", "expert")(x, counts).tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    return ops.gather_rows(x, local_count, axis_name, rows, drops)


__all__ = ["global_gather", "global_scatter"]
