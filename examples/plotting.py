"""Pictures of examples: ``python examples/NAME.py --plot`` writes examples/pictures/NAME.png."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).resolve().parent / "pictures"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}


def picture(
    name: str, draw: Callable[..., None], *shown: Any, columns: int = 1, wide: float = 1.0
) -> None:
    """Write pictures/name.png if ``--plot`` is asked for: ``draw(axes, *shown)`` fills the axes.

    Args:
        draw: takes one axes, or an array of them where there are several columns.
        wide: how wide an axes is, against its height.
    """
    if "--plot" not in sys.argv:
        return
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from PIL import Image

    with rc_context(STYLE):
        figure = Figure(figsize=(1 + 3.2 * columns * wide, 3.2), layout="constrained")
        draw(figure.subplots(1, columns), *shown)
        PICTURES.mkdir(exist_ok=True)
        path = PICTURES / f"{name}.png"
        figure.savefig(path, dpi=80)
    with Image.open(path) as drawn:  # 64 colours take a third of the room
        drawn.convert("RGB").quantize(64).save(path, optimize=True)
    print(path)
