"""What the pictures of studies share: empty figures, lines of answers, logarithmic ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from simkit.arrays import Floats
from simkit.learners.studies.results import Results

if TYPE_CHECKING:
    from matplotlib import figure as figures

__all__ = ["Figure", "distances", "draw_line", "empty_figure", "log_ticks"]

Figure: TypeAlias = "figures.Figure"


def empty_figure(width: float = 8.0, height: float = 3.8) -> Figure:
    """Return an empty figure of a size in inches; imports matplotlib, which is optional."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_line(
    axes: Any, results: Results, x: Sequence[float], asked: Iterable[str], *, band: float = 0.0,
    **style: Any,
) -> None:  # fmt: skip
    """Draw a line through the answers to questions.

    Args:
        axes: of matplotlib.
        results: what is asked.
        x: where the answers are.
        asked: a question for each.
        band: opacity of a band between the bounds of the intervals; 0: none.
        style: of the line.
    """
    found = [results.ask(one) for one in asked]
    axes.plot(x, [one.value for one in found], **style)
    if band and all(one.low is not None for one in found):
        low, high = ([getattr(one, bound) for one in found] for bound in ("low", "high"))
        axes.fill_between(x, low, high, color=style["color"], alpha=band, linewidth=0)


def distances(results: Results, asked: Iterable[str]) -> tuple[Floats, Floats]:
    """Return (n,) answers and (2, n) their distances to the bounds; 0 where there is none."""
    found = [results.ask(one) for one in asked]
    values = np.array([one.value for one in found])
    low, high = (
        np.array([getattr(one, bound) or one.value for one in found]) for bound in ("low", "high")
    )
    return values, np.maximum((values - low, high - values), 0)


def log_ticks(axes: Any, ticks: Sequence[float], axis: str = "y") -> None:
    """Make an axis logarithmic, with these ticks alone."""
    axes.set(**{f"{axis}scale": "log"})
    getattr(axes, f"set_{axis}ticks")(ticks, labels=[f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()
