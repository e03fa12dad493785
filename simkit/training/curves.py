"""Pictures of trainings: learning curves, the held-out metrics first, and the best agent marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.analysis.plot_style import (
    HEIGHT,
    INK,
    explain,
    finished,
    look_of,
    new_figure,
    plain_numbers,
    title_inches,
    top_share,
    write_run,
    write_title,
)
from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.text import counted, printable
from simkit.training.train import CLOCK, HELD_OUT, Trained, open_training

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NOT_DRAWN: Final = ("iteration", "decisions", *CLOCK)
"""Columns of a training's speed, which are not curves."""
_MOST_PANELS: Final = 12
_MOST_TRAININGS: Final = 6
_PANEL_INCHES: Final = 2.1
_SMOOTH_FROM: Final = 60
"""From this many values on, a mean over neighbours is drawn, and the values themselves pale."""
_WINDOWS: Final = 40
"""Windows of that mean in a training."""
_WIDE_RANGE: Final = 100.0


def plot_training(
    trainings: Trained | str | PathLike[str] | Sequence[Trained | str | PathLike[str]],
    target: str | PathLike[str] | None = None,
) -> Figure:
    """Draw the learning curves of trainings: what was held out, returns, losses.

    Args:
        trainings: one or several, or their folders; also such as are under way.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Returns the matplotlib figure.

    Raises RunError for folders without a training or with nothing logged yet, and for more than 6;
    SimkitError without matplotlib, for another file type, or a file that cannot be written.
    """
    given = [trainings] if isinstance(trainings, Trained | str | PathLike) else list(trainings)
    opened = [one if isinstance(one, Trained) else open_training(one) for one in given]
    if not 0 < len(opened) <= _MOST_TRAININGS:
        raise RunError(
            f"plot: {counted(len(opened), 'training')}; a picture shows 1 to {_MOST_TRAININGS}"
        )
    for one in opened:
        if not _names([one]):
            raise RunError(f"{one.folder}: nothing was logged yet; wait for its first iteration")
    return finished(lambda: _draw(opened), target)


def _names(trainings: Sequence[Trained]) -> list[str]:
    """Return the metrics that are drawn: held-out ones first, the criterion before the others."""
    found = dict.fromkeys(name for one in trainings for row in one.rows for name in row)
    criteria = [one.criterion for one in trainings]
    names = [name for name in found if name not in _NOT_DRAWN]
    return sorted(
        names,
        key=lambda name: (name not in criteria, not name.startswith(HELD_OUT), name != "return"),
    )


def _draw(trainings: Sequence[Trained]) -> Figure:
    names, constant = _names(trainings), _constants(trainings)
    names = [name for name in names if name not in constant] or names
    shown, more = names[:_MOST_PANELS], len(names) - _MOST_PANELS
    columns = 1 if len(shown) == 1 else 2
    rows = math.ceil(len(shown) / columns)
    head = title_inches(len(trainings))
    height = head + (_PANEL_INCHES + 0.4) * rows + 0.3
    figure = new_figure(1 - head / HEIGHT, height=max(height, 4.0))
    grid = figure.subplots(rows, columns, squeeze=False)
    panels = list(grid.flat)
    for axes, name in zip(panels, shown, strict=False):
        _panel(axes, name, trainings)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    for axes in panels[max(len(shown) - columns, 0) : len(shown)]:
        axes.set_xlabel("iteration")
    facts = [f"{counted(more, 'more metric')} not drawn"] if more > 0 else []
    lines = [f"{_words(name)} {value:,.6g}" for name, value in constant.items()]
    if lines:
        # there is room for the name of one
        told = f"constant: {lines[0]}" if len(lines) == 1 else f"{len(lines)} constant metrics"
        facts.append(told)
    _head(figure, trainings, facts)
    return figure


def _constants(trainings: Sequence[Trained]) -> dict[str, float]:
    """Return the metrics that never change, in any training, and their values."""
    values = {
        name: {row[name] for one in trainings for row in one.rows if name in row}
        for name in _names(trainings)
    }
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def _head(figure: Figure, trainings: Sequence[Trained], facts: Sequence[str]) -> None:
    if len(trainings) == 1:
        write_title(figure, trainings[0].name, [*_facts(trainings[0]), *facts])
        return
    write_title(figure, "Trainings", [counted(len(trainings), "training"), *facts])
    for row, one in enumerate(trainings):
        y = top_share(0.924 - 0.028 * row, figure.get_figheight())
        text = " · ".join([one.name, *_facts(one)])
        write_run(figure, y, look_of(row, len(trainings)), text)


def _facts(training: Trained) -> list[str]:
    info = training.info
    done, whole = int(info.get("iteration", 0)), int(info.get("iterations", 0))
    status = str(info.get("status", "incomplete"))
    facts = [f"learner {info.get('learner', '?')}", f"seed {info.get('seed', '?')}"]
    at = f"iteration {done:,} of {whole:,}" if done < whole else counted(whole, "iteration")
    facts.append(at)
    judged = _column(training, training.criterion)[1]
    if len(judged):
        facts.append(f"best {_words(training.criterion)} {judged.min():,.4g}")
    return facts if status == "complete" else [*facts, status]


def _panel(axes: Axes, name: str, trainings: Sequence[Trained]) -> None:
    """Draw a metric of all trainings."""
    names: dict[str, Artist] = {}
    lowest, highest = math.inf, -math.inf
    for number, training in enumerate(trainings):
        at, values = _column(training, name)
        if not len(at):
            continue
        lowest, highest = min(lowest, values.min()), max(highest, values.max())
        colour, dashes = look_of(number, len(trainings))
        for artist, what in _curve(axes, at, values, colour, dashes):
            names.setdefault(what, artist)
        if name == training.criterion:
            single = len(trainings) == 1
            for artist, what in _best(axes, at, values, INK if single else colour, single):
                names.setdefault(what, artist)
    axes.set_title(printable(_words(name)), loc="left", fontsize=10)
    explain(axes, [(artist, what) for what, artist in names.items()])
    if lowest > 0 and highest / lowest > _WIDE_RANGE:
        axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    plain_numbers(axes.xaxis)
    last = max((row["iteration"] for one in trainings for row in one.rows), default=0.0)
    axes.set_xlim(-0.03 * max(last, 1.0), 1.03 * max(last, 1.0))
    axes.locator_params(axis="x", nbins=5)


def _column(training: Trained, name: str) -> tuple[Floats, Floats]:
    """Return the iterations at which a metric was measured, and its values."""
    found = [(row["iteration"], row[name]) for row in training.rows if name in row]
    table = np.array(found, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _curve(
    axes: Axes, at: Floats, values: Floats, colour: str, dashes: object
) -> list[tuple[Artist, str]]:
    """Draw the values, and the mean over neighbours where there are many."""
    if len(values) < _SMOOTH_FROM:
        axes.plot(at, values, color=colour, linestyle=dashes, linewidth=1.4, marker=".")
        return []
    width = max(2, len(values) // _WINDOWS)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    mean = (sums[width:] - sums[:-width]) / width
    (pale,) = axes.plot(at, values, color=colour, alpha=0.25, linewidth=0.8)
    (line,) = axes.plot(at[width - 1 :], mean, color=colour, linestyle=dashes, linewidth=1.4)
    return [(pale, "each"), (line, f"mean of the last {width}")]


def _best(
    axes: Axes, at: Floats, values: Floats, colour: str, numbers: bool
) -> list[tuple[Artist, str]]:
    """Mark the best value, and the level of the agent before its training."""
    row = int(np.argmin(values))
    (mark,) = axes.plot(
        [at[row]], [values[row]], marker="o", markersize=7, markerfacecolor="none",
        markeredgecolor=colour, linestyle="",
    )  # fmt: skip
    names: list[tuple[Artist, str]] = [(mark, f"best: {values[row]:,.4g}" if numbers else "best")]
    if at[0] == 0:
        line = axes.axhline(values[0], color=colour, linewidth=0.9, linestyle=":")
        names.append((line, f"untrained: {values[0]:,.4g}" if numbers else "untrained"))
    return names


def _words(name: str) -> str:
    words = name.removeprefix(HELD_OUT).replace("_", " ")
    return f"held out: {words}" if name.startswith(HELD_OUT) else words
