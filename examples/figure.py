"""The figure of the demo: two loss curves, and the beam."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

import beam
import digits

EXACT, LEARNT, RAW = "#1b1b1b", "#d1495b", "#b8c4d0"


def draw(classified: digits.Result, solved: beam.Result, path: Path) -> None:
    """Write the figure to ``path`` as PNG."""
    style = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
    }
    with rc_context(style):
        drawn = Figure(figsize=(14, 4), layout="constrained")
        drawn.get_layout_engine().set(wspace=0.06)
        axes = drawn.subplots(1, 3)
        _losses(axes[0], classified.losses, "cross entropy")
        axes[0].set_title(f"Digits: {classified.accuracy:.1%} of test images right")
        _losses(axes[1], solved.losses, "squared residual + boundary")
        axes[1].set_title("Beam: training")
        _deflection(axes[2], solved)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path, dpi=130)


def _losses(axes: Any, losses: np.ndarray, label: str) -> None:
    """The loss of each step, and its geometric mean over windows of steps."""
    steps, window = np.arange(1, len(losses) + 1), max(1, len(losses) // 60)
    mean = np.exp(np.convolve(np.log(losses), np.ones(window) / window, "valid"))
    axes.semilogy(steps, losses, color=RAW, linewidth=0.8, label="each step")
    axes.semilogy(
        steps[window - 1 :], mean, color=LEARNT, linewidth=1.6, label=f"geometric mean of {window}"
    )
    axes.set(xlabel="step", ylabel=label, xlim=(0, len(losses)))
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False)


def _deflection(axes: Any, solved: beam.Result) -> None:
    axes.plot(solved.x, 1e3 * solved.exact, color=EXACT, linewidth=1.6, label="exact")
    axes.plot(
        solved.x[::8],
        1e3 * solved.learnt[::8],
        "o",
        color=LEARNT,
        markersize=5,
        markerfacecolor="white",
        markeredgewidth=1.4,
        label="learnt",
    )
    axes.set_title(f"Beam: relative L2 error {solved.error:.2%}")
    axes.set(xlabel="x", ylabel="deflection u(x), thousandths", xlim=(-0.02, 1.02))
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, loc="upper center")
