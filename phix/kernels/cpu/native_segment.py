"""Steps that one native call runs, and where the sizes in them are read from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import dims as dm
from phix.core.records import dataclass
from phix.kernels.loops.nodes import Buffer, Step
from phix.kernels.scalar import language as sc


@dataclass(frozen=True)
class SymbolSource:
    """A symbol is (size of the buffer's dim - rest) / factor; without an axis, its one value."""

    buffer: Buffer
    axis: int | None = None
    factor: int = 1
    rest: int = 0


class NativeSegment:
    """Steps that run in one native call; ``arguments`` are its arrays, in order."""

    def __init__(
        self,
        steps: list[Step],
        arguments: list[Buffer],
        symbols: dict[str, SymbolSource],
        dim_expr: Callable[[dm.DimLike], sc.Expr],
        symbol_names: dict[dm.Symbol, str],
        asking: Any = None,
    ) -> None:
        self.steps, self.arguments, self.symbols = steps, arguments, symbols
        self.dim_expr, self.symbol_names = dim_expr, symbol_names
        self.asking = asking  # an ``Asking``, where Python is asked: three more arguments then
        self.places = {buffer: k for k, buffer in enumerate(arguments)}
        self.text = ""  # once it is printed
