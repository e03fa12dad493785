"""The picture of a sweep: a metric over a key of the scenario, mean and interval over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from simkit.analysis.plot_style import (
    COLOURS,
    HEIGHT,
    explain,
    finished,
    lie_down,
    look_of,
    name_bars,
    new_figure,
    over_bars,
    plain_numbers,
    short_name,
    time_unit,
    title_inches,
    write_title,
)
from simkit.analysis.runs import SEED, Settings
from simkit.analysis.summary import Cell, Runs, Summary, complete_runs, summarise
from simkit.errors import RunError
from simkit.experiment.sweep import SweepResult
from simkit.results.all_metrics import full_name, metric_numbers, other_names, shown_on
from simkit.results.run_folder import Run
from simkit.shown import heading, table
from simkit.text import counted, printable
from simkit.units import quantity

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINES: Final = 12
_HEIGHT: Final = 5.4
_ROW_INCHES: Final = 0.24
_TALLEST: Final = 24.0
_WIDE_RANGE: Final = 50.0
"""From this ratio of the largest and the smallest value on, an axis of numbers is logarithmic."""
_CLOSEST: Final = 0.07
"""Share of the axis that two labelled values are apart at least."""


class _Lines(NamedTuple):
    """What is drawn: a cell for each value of x and each line; None where there is no run."""

    x: list[str]
    names: list[str]
    cells: dict[tuple[str, str], Cell]
    """(value of x, line) → cell."""


def plot_sweep(
    runs: Runs,
    x: str,
    y: str = "wait_time_s",
    *,
    by: str | Sequence[str] = (),
    level: float = 0.95,
    target: str | PathLike[str] | None = None,
) -> Figure:
    """Draw a metric of many runs over a key of their scenarios: mean and interval over seeds.

    Args:
        runs: a sweep, runs, or folders with runs in them or below them.
        x: a dotted key, ``workload.offered_load`` or ``policy``; numbers make lines with a band,
            names make bars.
        y: a metric as in `simkit.metric_numbers`: ``wait_time_s`` (the mean), ``wait_time_s.p99``.
        by: keys whose values are lines of their own; none: all other keys that differ.
        level: of confidence.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Returns the matplotlib figure.

    Raises RunError for a key or a metric that the runs do not have, with those that there are, and
    for more than 12 lines; SimkitError without matplotlib, for another file type, or a file that
    cannot be written.
    """
    complete, left_out = complete_runs(runs)
    keys = [by] if isinstance(by, str) else list(by)
    summary = _summary(complete, x, y, keys, level)
    return finished(lambda: _draw(complete, summary, x, level, left_out), target)


def _summary(runs: Sequence[Run], x: str, y: str, by: Sequence[str], level: float) -> Summary:
    """Return the metric of each group; its first key is x."""
    settings = Settings(runs)
    for option, key in (("x", x), *(("by", key) for key in by)):
        try:
            values = settings.values(key)
        except RunError as error:
            raise RunError(f"{option}{str(error).removeprefix('by')}") from error
        if option == "x" and len(set(values)) == 1 and len(runs) > 1:
            others = [key for key in settings.varying if key != x]
            raise RunError(
                f"x: {x} is {values[0]} in all {counted(len(runs), 'run')}; they differ in "
                f"{', '.join(others) or 'nothing'}"
            )
    _check_metric(runs, y)
    others = [
        key for key in settings.varying
        if key not in (x, SEED) and not (x.startswith(f"{key}.") or key.startswith(f"{x}."))
    ]  # fmt: skip
    return summarise(runs, [x, *(by or others)], [y], level=level)


def _check_metric(runs: Sequence[Run], y: str) -> None:
    """Raise RunError if no run has this metric."""
    known = dict.fromkeys(name for run in runs for name in metric_numbers(run.metrics))
    if full_name(y, known) not in known:
        raise RunError(f"y: no run has the metric {y!r}{other_names(y, known)}")


def _lines(summary: Summary) -> _Lines:
    cells = {(row.values[0], ", ".join(row.values[1:])): row.cells[0] for row in summary.rows}
    names = list(dict.fromkeys(name for _, name in cells))
    if len(names) > _MOST_LINES:
        raise RunError(
            f"by: {', '.join(summary.by[1:])} make {len(names)} lines, at most {_MOST_LINES} can "
            "be told apart; name fewer keys with by, or keys with fewer values"
        )
    return _Lines(list(dict.fromkeys(value for value, _ in cells)), names, cells)


def _draw(
    runs: Sequence[Run], summary: Summary, x: str, level: float, left_out: Sequence[str]
) -> Figure:
    lines = _lines(summary)
    metric, unit = next(iter(summary.metrics.items()))
    per, shown_unit = _unit(lines, unit)
    numbers = _numbers(lines.x)
    lie = numbers is None and lie_down(lines.x)
    rows = len(lines.x) * max(1.0, len(lines.names) / 2)
    height = min(max(_HEIGHT, _ROW_INCHES * rows + 1.4), _TALLEST) if lie else _HEIGHT
    figure = new_figure(1 - title_inches(1) / HEIGHT, height=height)
    axes = figure.subplots()
    drawn = [
        _line(axes, lines, n, numbers, per)
        if numbers is not None
        else _bars(axes, lines, n, per, lie)
        for n in range(len(lines.names))
    ]
    name = f"{_words(metric)} ({shown_unit})" if shown_unit else _words(metric)
    _finish(axes, lines, numbers, x, name, lie=lie)
    better = f"{summary.better[metric]}er is better" if summary.better[metric] else ""
    axes.set_title(f"{name}{better and f': {better}'}", loc="left", fontsize=10)
    if len(lines.names) > 1:
        named = [(artist, n) for artist, n in zip(drawn, lines.names, strict=True)]
        explain(axes, named, own_lines=True)
    write_title(figure, f"{metric} by {x}", _facts(runs, summary, level, left_out, numbers))
    return figure


def _facts(
    runs: Sequence[Run], summary: Summary, level: float, left_out: Sequence[str],
    numbers: object,
) -> list[str]:  # fmt: skip
    names = list(dict.fromkeys(run.name for run in runs))
    found = [", ".join(names[:2]) + (", …" if len(names) > 2 else ""), counted(len(runs), "run")]
    seeds = max(row.seeds for row in summary.rows)
    if summary.by[0] != SEED:
        found.append(counted(seeds, "seed"))
    if seeds > 1:
        mark = "lines" if numbers is None else "band"
        found.append(f"{mark}: {level:.0%} interval of the mean over seeds")
    if len(summary.by) > 1:
        found.append(f"colour: {', '.join(summary.by[1:])}")
    if summary.mixed:
        found.append(f"means over {', '.join(summary.mixed)}")
    if missing := sum(row.cells[0].mean is None for row in summary.rows):
        found.append(f"{counted(missing, 'point')} without a value")
    if left_out:
        found.append(f"{counted(len(left_out), 'run')} left out, not complete")
    return found


def _unit(lines: _Lines, unit: str) -> tuple[float, str]:
    """Return what numbers are divided by, and the unit that they then have."""
    most = max(
        (abs(cell.mean) for cell in lines.cells.values() if cell.mean is not None), default=0
    )
    if unit == "s":
        return time_unit(most)
    return 1.0, "" if unit == "1" else unit


def _words(metric: str) -> str:
    """Return a metric's name in words: ``wait_time_s.p99`` is ``wait time, p99``."""
    name, _, part = metric.partition(".")
    words = name.removesuffix("_s").replace("_", " ")
    return f"{words}, {part}" if part else words


def _numbers(values: Sequence[str]) -> list[float] | None:
    """Return values as numbers; None if one is none."""
    try:
        found = [float(value) for value in values]
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _cells(lines: _Lines, number: int, per: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (points,) mean, low and high of a line; NaN where there is none."""
    cells = [lines.cells.get((value, lines.names[number]), Cell(None)) for value in lines.x]
    found = np.array([[c.mean, c.low, c.high] for c in cells], dtype=np.float64) / per
    return found[:, 0], found[:, 1], found[:, 2]


def _line(axes: Axes, lines: _Lines, number: int, numbers: Sequence[float], per: float) -> Artist:
    """Draw a line with its band."""
    order = np.argsort(numbers)
    at = np.asarray(numbers)[order]
    mean, low, high = (column[order] for column in _cells(lines, number, per))
    colour, dashes = look_of(number, 1 + len(COLOURS) if len(lines.names) > len(COLOURS) else 2)
    known = np.isfinite(mean)
    if np.isfinite(low).any():
        axes.fill_between(at, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.vlines(at, low, high, color=colour, linewidth=1.0, alpha=0.6)
    (line,) = axes.plot(
        at[known], mean[known], color=colour, linestyle=dashes, linewidth=1.6, marker="o",
        markersize=4.5,
    )  # fmt: skip
    return line


def _bars(axes: Axes, lines: _Lines, number: int, per: float, lie: bool) -> Artist:
    """Draw the bars of a line beside those of the others."""
    width = 0.8 / len(lines.names)
    places = np.arange(len(lines.x)) - 0.4 + (number + 0.5) * width
    mean, low, high = _cells(lines, number, per)
    colour = COLOURS[number % len(COLOURS)]
    hatch = "////" if number >= len(COLOURS) else None
    draw = axes.barh if lie else axes.bar
    bars = draw(places, mean, 0.92 * width, color=colour, alpha=0.85, hatch=hatch)
    over_bars(axes.hlines if lie else axes.vlines, places, low, high)
    patch: Artist = bars[0]
    return patch


def _finish(
    axes: Axes, lines: _Lines, numbers: Sequence[float] | None, x: str, name: str, *, lie: bool
) -> None:
    """Set scales, ticks and labels."""
    if numbers is None:
        name_bars(axes, lines.x, printable(x), lie=lie)
        (axes.set_xlabel if lie else axes.set_ylabel)(name)
        if all(cell.mean is None or cell.mean >= 0 for cell in lines.cells.values()):
            (axes.set_xlim if lie else axes.set_ylim)(0.0)
        plain_numbers(axes.xaxis if lie else axes.yaxis)
        return
    _number_ticks(axes, numbers)
    axes.set_xlabel(printable(x))
    axes.set_ylabel(name)
    low, high = axes.get_ylim()
    below = any(cell.mean is not None and cell.mean < 0 for cell in lines.cells.values())
    if low < 0.5 * high and not below:  # from zero on, unless that would flatten the lines
        axes.set_ylim(bottom=0.0)
    plain_numbers(axes.yaxis)


def _number_ticks(axes: Axes, numbers: Sequence[float]) -> None:
    """Label the values that were swept where there is room, else round numbers."""
    from matplotlib.ticker import NullLocator

    values = np.array(sorted(set(numbers)))
    places = values
    if values[0] > 0 and values[-1] / values[0] >= _WIDE_RANGE:
        axes.set_xscale("log")
        places = np.log(values)
    if len(values) > 1 and np.diff(places).min() >= _CLOSEST * (places[-1] - places[0]):
        axes.set_xticks(values, labels=[f"{value:,.6g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        plain_numbers(axes.xaxis)


_MOST_ROWS: Final = 60
"""Runs in the table of a notebook."""


def sweep_html(result: SweepResult) -> str:
    """Return the runs of a sweep as a table for a notebook."""
    found = [metric_numbers(outcome.metrics) for outcome in result]
    known = dict.fromkeys(name for one in found for name in one)
    usual = (full_name(name, known) for name in shown_on("summary"))
    metrics = [name for name in usual if name in known]
    keys = list(result[0].assignment) if len(result) else []
    rows = [
        [
            *(short_name(_value(outcome.assignment[key]), 40) for key in keys),
            outcome.state,
            *(_shown(numbers, name) for name in metrics),
            outcome.error.splitlines()[0] if outcome.error else "",
        ]
        for outcome, numbers in zip(result, found, strict=True)
    ]
    heads = (*keys, "state", *metrics, "error" if any(row[-1] for row in rows) else "")
    more = [] if len(rows) <= _MOST_ROWS else [f"{len(rows) - _MOST_ROWS:,} more: frame() has all"]
    return heading(f"sweep in {result.folder}", counted(len(result), "run"), *more) + table(
        heads, rows[:_MOST_ROWS], names=len(keys) + 1, text=1
    )


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_value(one)}" for key, one in value.items())
    return str(value)


def _shown(numbers: Mapping[str, object], name: str) -> str:
    number = numbers.get(name)
    return "-" if number is None else quantity(number.value, number.unit)  # type: ignore[attr-defined]
