"""Pictures of studies: panels of lines whose points are answers to questions.

    picture(panel(line("slowdown | SJF | [x] %", label="SJF"), xlabel="load, %", log=[1, 3, 10]))

is a function of results that draws the mean slowdown of SJF in all cases whose name is a number and
``%``. A mark is a function of axes and results; studies have further ones of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from simkit.analysis.intervals import Estimate
from simkit.analysis.plot_style import INK, SOFT
from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.learners.studies.results import Results

if TYPE_CHECKING:
    from matplotlib import figure as figures

__all__ = ["ERRORS", "Figure", "Mark", "curve", "distances", "empty_figure", "line", "panel",
           "picture"]  # fmt: skip

Figure: TypeAlias = "figures.Figure"
Mark = Callable[[Any, Results], None]
"""Draws into axes of matplotlib; a RunError leaves out what a small version did not measure."""
ERRORS: Final = {"linewidth": 0.9, "ecolor": SOFT}
"""The look of the error bars of bars."""


def empty_figure(width: float = 8.0, height: float = 3.8) -> Figure:
    """Return an empty figure of a size in inches; imports matplotlib, which is optional."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def picture(
    *panels: Mark, width: float = 8.0, height: float = 3.8, rows: int = 1,
    legend: Mapping[str, Any] | None = None, **layout: Any,
) -> Callable[[Results], Figure]:  # fmt: skip
    """Return a function of results that draws panels in rows; sizes are in inches.

    `legend`: arguments of one of the first panel's labels, below all; `layout`: of ``subplots``.
    """

    def draw(results: Results) -> Figure:
        figure = empty_figure(width, height)
        places = figure.subplots(rows, len(panels) // rows, squeeze=False, **layout).ravel()
        for axes, one in zip(places, panels, strict=True):
            one(axes, results)
        if legend is not None:
            named = places[0].get_legend_handles_labels()
            figure.legend(*named, loc="outside lower center", **legend)
        return figure

    return draw


def panel(
    *marks: Mark, log: Sequence[float] = (), log_x: Sequence[float] = (), title: str = "",
    level: float | None = None, legend: Mapping[str, Any] | None = None, **look: Any,
) -> Mark:  # fmt: skip
    """Return what draws marks and names the axes.

    `log` and `log_x`: ticks of an axis, which they make logarithmic; `level`: of a thin horizontal
    line; `legend`: its arguments; `look`: those of ``Axes.set``, such as ``xlabel``.
    """

    def draw(axes: Any, results: Results) -> None:
        for mark in marks:
            with suppress(RunError):
                mark(axes, results)
        if level is not None:
            axes.axhline(level, color=INK, linewidth=0.7)
        axes.set(**look)
        for axis, ticks in (("y", log), ("x", log_x)):
            if ticks:
                axes.set(**{f"{axis}scale": "log"})
                labels = [f"{tick:,g}" for tick in ticks]
                getattr(axes, f"set_{axis}ticks")(ticks, labels=labels)
                axes.minorticks_off()
        if title:
            axes.set_title(title, fontsize=9.5)
        if legend is not None:
            axes.legend(**legend)

    return draw


def line(question: str, *, band: float = 0.0, bars: bool = False, **look: Any) -> Mark:
    """Return what draws the answers for each number that ``[x]`` stands for in a question's case.

    The intervals are a band of some opacity, or error bars; `look` is that of the line.
    """

    def draw(axes: Any, results: Results) -> None:
        x, found = [], []
        for number in results.numbers(question.split("|")[2].strip()):
            with suppress(RunError):
                found.append(results.ask(question.replace("[x]", number)))
                x.append(float(number))
        if not found:
            raise RunError(f"no results of {question!r}")
        values, reach = distances(found)
        if bars:
            axes.errorbar(x, values, reach, elinewidth=0.8, **look)
            return
        axes.plot(x, values, **look)
        if band and all(one.low is not None for one in found):
            low, high = ([getattr(one, bound) for one in found] for bound in ("low", "high"))
            axes.fill_between(x, low, high, color=look["color"], alpha=band, linewidth=0)

    return draw


def curve(
    metric: str, arm: str, case: str, label: str | None = None, *, seeds: int | None = None,
    **look: Any,
) -> Mark:  # fmt: skip
    """Return what draws the values of an arm over the items, a line for each of the first seeds."""

    def draw(axes: Any, results: Results) -> None:
        values, items = results.values(metric, arm, case)
        axes.plot(items, values[0], label=label, **look)
        axes.plot(items, values[1:seeds].T, **look)

    return draw


def distances(found: Sequence[Estimate]) -> tuple[Floats, Floats]:
    """Return (n,) answers and (2, n) their distances to the bounds; 0 where there is none."""
    values = np.array([one.value for one in found])
    low, high = (
        np.array([getattr(one, bound) or one.value for one in found]) for bound in ("low", "high")
    )
    return values, np.maximum((values - low, high - values), 0)
