"""Panels over time: what runs have in common, drawn in one panel or in a panel for each run.

A `Quantity` knows how one run is drawn; `draw_panels` puts quantities and runs on a figure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simkit.analysis.plot_style import (
    DASHES,
    HEIGHT,
    INK,
    TOGETHER,
    WIDTH,
    bin_name,
    drawn_window,
    explain,
    look_of,
    new_figure,
    title_inches,
    write_head,
)
from simkit.arrays import Floats
from simkit.dates import date_text, is_dated, zone_of
from simkit.results.run_folder import Run
from simkit.results.timeline import bin_edges, bin_length
from simkit.text import printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec

_COLUMNS: Final = 3
"""Panels side by side, at most."""
_UNITS: Final = 6
"""Columns of the grid: a row has 1, 2 or 3 panels of equal width."""
_WIDE: Final = 13.2
"""Width of a figure with three panels side by side, in inches."""
_FEW_TICKS: Final = 5
"""On the time axis of a panel that has others beside it."""
_SMALL: Final = 0.95
"""Height of a panel of one of many runs, in inches."""
_LABELS: Final = 0.4
"""Height of the title of a panel, or of the labels below it, in inches."""


@dataclass(frozen=True)
class Bins:
    """Equal bins over runs, and their time axis."""

    axis: TimeAxis
    length_s: float

    def edges(self, run: Run) -> Floats:
        """Return (bins + 1,) edges in s; the last bin is cut at the run's end."""
        end = drawn_window(run).end_s
        edges = bin_edges(self.axis.start_s, end, self.length_s)
        edges[-1] = max(end, edges[-2] + 1.0) if len(edges) > 1 else end
        return edges

    @property
    def name(self) -> str:
        """``hourly``, of means."""
        return bin_name(self.length_s)


@dataclass(frozen=True)
class Look:
    """How a run's line is drawn."""

    colour: str
    dashes: Any = DASHES[0]
    alone: bool = True
    """Whether the panel has no other run, so that there is room for areas and bands."""
    many: bool = False
    """Whether other runs have such panels too, all explained by one legend."""


class Quantity(ABC):
    """Something that changes over time in a run, drawn as means over bins."""

    title: str
    label: str
    inches: float = 1.5
    """Height of its panel."""
    apart: bool = False
    """Whether each run has a panel of its own, however few they are."""
    once: bool = False
    """Whether one line stands for all runs that have the same."""

    def same(self, run: Run) -> str:
        """Return what two runs have in common if one line stands for both."""
        return str(run.folder)

    @abstractmethod
    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        """Draw a run; return what has to be explained."""

    @abstractmethod
    def scale(self, axes: Axes, *, small: bool) -> None:
        """Set limits and ticks of the vertical axis, after all runs."""

    def legend(self, axes: Axes, names: Sequence[tuple[Artist, str]]) -> None:
        """Explain marks and bands beside the title, or below it."""
        explain(axes, names)


def draw_line(axes: Axes, values: Floats, edges: Floats, bins: Bins, look: Look) -> Artist:
    """Draw means over bins; with the area below them if the run has the panel alone."""
    times = bins.axis.values(edges)
    if look.alone:
        axes.stairs(values, times, fill=True, color=look.colour, alpha=0.22, linewidth=0)
    line: Artist = axes.stairs(
        values, times, color=look.colour, linewidth=1.1, linestyle=look.dashes, baseline=None
    )
    return line


@dataclass(frozen=True)
class _Cell:
    """A panel: a quantity of some runs."""

    quantity: Quantity
    runs: tuple[int, ...]
    first: bool = True
    """Whether it is the uppermost of its quantity, which has the title."""


@dataclass(frozen=True)
class _Row:
    """Panels side by side."""

    cells: tuple[_Cell, ...]
    inches: float
    """Height with titles and labels."""
    labelled: bool
    """Whether the time is written below them."""

    @property
    def labels(self) -> float:
        """Height of titles and labels in inches."""
        return _LABELS * (self.cells[0].first + self.labelled)


@dataclass(frozen=True)
class Below:
    """A panel below those over time."""

    draw: Callable[[Axes], None]
    inches: float


def draw_panels(
    runs: Sequence[Run], quantities: Sequence[Quantity], below: Below | None = None
) -> Figure:
    """Return a figure of quantities over time and, if there is one, a panel below them."""
    rows = list(_rows(len(runs), quantities))
    head = title_inches(len(runs))
    height = head + sum(row.inches for row in rows) + (below.inches if below else 0.0)
    wide = max(len(row.cells) for row in rows) == _COLUMNS
    figure = new_figure(1 - head / HEIGHT, height=height, width=_WIDE if wide else WIDTH)
    heights = [row.inches - row.labels for row in rows]
    heights += [below.inches - 2 * _LABELS] if below else []
    grid = figure.add_gridspec(len(heights), _UNITS, height_ratios=heights)
    bins = common_bins(runs)
    _draw_rows(figure, grid, rows, runs, bins)
    if below is not None:
        below.draw(figure.add_subplot(grid[len(rows), :]))
    write_head(figure, runs, bins.axis.period())
    return figure


def _rows(runs: int, quantities: Sequence[Quantity]) -> Iterator[_Row]:
    """Yield the rows of panels over time, from above."""
    every = tuple(range(runs))
    own = [q for q in quantities if not q.once and (q.apart or runs > TOGETHER) and runs > 1]
    many = own if runs > TOGETHER else []
    full = [q for q in quantities if q not in many]
    for place, q in enumerate(full):
        if q in own:  # two runs side by side
            yield _Row(tuple(_Cell(q, (run,)) for run in every), q.inches + 2 * _LABELS, True)
            continue
        last = place == len(full) - 1 or full[place + 1] in own
        yield _Row((_Cell(q, every),), q.inches + _LABELS * (1 + last), last)
    for begin in range(0, len(many), _COLUMNS):
        some = many[begin : begin + _COLUMNS]
        for run in every:
            last = run == runs - 1
            inches = _SMALL + _LABELS * ((run == 0) + last)
            yield _Row(tuple(_Cell(q, (run,), run == 0) for q in some), inches, last)


def common_bins(runs: Sequence[Run]) -> Bins:
    """Return bins from the first submit to the last end."""
    windows = [drawn_window(run) for run in runs]
    start = min(w.start_s for w in windows)
    end = max(start + 1.0, *(w.end_s for w in windows))
    most = 800 if len(runs) == 1 else 200  # lines that cross need wider bins than one that fills
    return Bins(TimeAxis(runs, (start, end)), bin_length(end - start, most))


def _draw_rows(
    figure: Figure, grid: GridSpec, rows: Sequence[_Row], runs: Sequence[Run], bins: Bins
) -> None:
    """Draw all panels over time."""
    scales: dict[Quantity, Axes] = {}
    names: dict[Quantity, dict[str, Artist]] = {}
    for number, row in enumerate(rows):
        width = _UNITS // len(row.cells)
        for column, cell in enumerate(row.cells):
            place = grid[number, column * width : (column + 1) * width]
            axes = figure.add_subplot(place, sharey=scales.get(cell.quantity))
            scales.setdefault(cell.quantity, axes)
            found = _draw_cell(axes, cell, runs, bins)
            if len(runs) <= TOGETHER:
                _explain_cell(axes, cell, found, runs, bins)
            names[cell.quantity] = found | names.get(cell.quantity, {})
            most = MOST_TICKS if len(row.cells) == 1 else _FEW_TICKS
            bins.axis.finish(axes, label=row.labelled, most=most)
            axes.tick_params(labelbottom=row.labelled)
    for quantity, axes in scales.items():
        axes.autoscale(axis="y")
        quantity.scale(axes, small=len(runs) > TOGETHER and not quantity.once)
        if len(runs) > TOGETHER:  # the uppermost panel speaks for those below it
            _explain_cell(axes, _Cell(quantity, (0,)), names[quantity], runs, bins)


def _draw_cell(axes: Axes, cell: _Cell, runs: Sequence[Run], bins: Bins) -> dict[str, Artist]:
    """Draw a quantity of some runs; return what has to be explained."""
    names: dict[str, Artist] = {}
    alone = len(cell.runs) == 1
    for number in _longest_of_same(cell.quantity, cell.runs, runs):
        look = Look(*look_of(number, len(runs)), alone=alone, many=len(runs) > TOGETHER)
        if alone:
            look = replace(look, dashes=DASHES[0])
        for artist, name in cell.quantity.draw(axes, runs[number], bins, look):
            names.setdefault(name, artist)
    axes.set_ylabel(cell.quantity.label)
    return names


def _explain_cell(
    axes: Axes, cell: _Cell, names: Mapping[str, Artist], runs: Sequence[Run], bins: Bins
) -> None:
    """Write the title of a panel, and what its marks are."""
    title, colour = f"{cell.quantity.title}, {bins.name} means", INK
    if len(cell.runs) == 1 < len(runs) <= TOGETHER:
        run = cell.runs[0]
        title, colour = title[:1].lower() + title[1:], look_of(run, len(runs))[0]
        title = f"{runs[run].policy}: {title}"
    axes.set_title(printable(title), loc="left", fontsize=10, color=colour)
    cell.quantity.legend(axes, [(artist, name) for name, artist in names.items()])


def _longest_of_same(
    quantity: Quantity, numbers: Sequence[int], runs: Sequence[Run]
) -> Sequence[int]:
    """Return the runs that are drawn: of those that have the same, the one that lasts longest."""
    if not quantity.once:
        return numbers
    found: dict[str, int] = {}
    for number in numbers:
        key = quantity.same(runs[number])
        best = found.setdefault(key, number)
        if drawn_window(runs[number]).end_s > drawn_window(runs[best]).end_s:
            found[key] = number
    return list(found.values())


_DAY_S: Final = 86400.0
_TIME_UNITS: Final = (
    (3 * 365.25 * _DAY_S, 365.25 * _DAY_S, "years"),
    (3 * _DAY_S, _DAY_S, "days"),
    (3 * 3600.0, 3600.0, "hours"),
    (180.0, 60.0, "minutes"),
    (0.0, 1.0, "seconds"),
)
"""Spans from which on a unit is used, its length in s, and its name."""
MOST_TICKS: Final = 8
_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    2 * 86400, 4 * 86400, 7 * 86400, 14 * 86400,
)  # fmt: skip
_STEPS_MONTHS: Final = (1, 2, 3, 6, *(12 * years for years in (1, 2, 5, 10, 20, 50, 100, 500)))
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip


class TimeAxis:
    """The time axis of runs: dated if all of them begin at the same known date.

    Sun and prices may have a date even if the log has none: then it is theirs.
    """

    def __init__(self, runs: Sequence[Run], span: tuple[float, float]) -> None:
        epochs = {float(_dated(run, "epoch_s", "epoch_s") or 0.0) for run in runs}
        epoch = epochs.pop() if len(epochs) == 1 else 0.0
        self.dated = epoch > 0 and is_dated(epoch + span[1])
        self.epoch_s = epoch if self.dated else 0.0
        self.zone, _ = zone_of(_dated(runs[0], "zone", "time_zone"))
        self.start_s, self.end_s = span
        length = self.end_s - self.start_s
        self.unit_s, self.unit = next(
            (s, name) for least, s, name in _TIME_UNITS if length >= least
        )

    def values(self, time_s: Floats) -> Any:
        """Return days since 1970 (UTC), or `unit` since the start, for times in s."""
        if self.dated:
            return (self.epoch_s + time_s) / _DAY_S
        return (time_s - self.start_s) / self.unit_s

    def finish(self, axes: Axes, *, label: bool = True, most: int = MOST_TICKS) -> None:
        """Set limits, about `most` ticks at most and, if it is wanted, the label."""
        axes.set_xlim(*self.values(np.array([self.start_s, self.end_s])))
        if not self.dated:
            if most < MOST_TICKS:
                axes.locator_params(axis="x", nbins=most)
            if label:
                axes.set_xlabel(f"{self.unit} since the first submit")
            return
        at = self._dates(*axes.get_xlim(), most)
        axes.set_xticks([date.timestamp() / _DAY_S for date in at], labels=tick_labels(at))
        if label:
            axes.set_xlabel(f"time in {self.zone}")

    def _dates(self, low: float, high: float, most: int) -> list[datetime]:
        """Return the dates of the ticks within two values of the axis."""
        begin, end = (datetime.fromtimestamp(at * _DAY_S, self.zone) for at in (low, high))
        return tick_dates(begin, end, most)

    def period(self) -> list[str]:
        """Return first and last day, or the length, as text."""
        if not self.dated:
            return [f"{(self.end_s - self.start_s) / self.unit_s:,.3g} {self.unit}"]
        days = (
            date_text(self.epoch_s + at, "%Y-%m-%d", self.zone) for at in (self.start_s, self.end_s)
        )
        return [" to ".join(dict.fromkeys(days))]


def tick_dates(begin: datetime, end: datetime, most: int = MOST_TICKS) -> list[datetime]:
    """Return about `most` round dates at most from begin to end, both in one zone.

    They are evenly spaced seconds to hours of a day, days, months or years; at least the begin.
    """
    span_s = end.timestamp() - begin.timestamp()
    first = begin.replace(tzinfo=None)
    step = next((s for s in _STEPS_S if span_s <= s * most), None)
    if step is not None:
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
        if step > _DAY_S:  # the same days, wherever the picture begins
            midnight -= timedelta(days=midnight.toordinal() % int(step / _DAY_S))
        steps = range(int((first - midnight).total_seconds() // step), 1 << 30)
        naive = (midnight + timedelta(seconds=n * step) for n in steps)
    else:
        months = next(m for m in _STEPS_MONTHS if span_s <= m * 30 * _DAY_S * most)
        start = (first.year * 12 + first.month - 1) // months * months
        naive = (datetime(n // 12, n % 12 + 1, 1) for n in range(start, 12 * 9999, months))
    found = []
    for at in naive:
        if at > end.replace(tzinfo=None) + timedelta(hours=3):  # the clock may be put back
            break
        date = at.replace(tzinfo=begin.tzinfo)
        if begin.timestamp() <= date.timestamp() <= end.timestamp():
            found.append(date)
    return found or [begin]


def tick_labels(dates: Sequence[datetime]) -> list[str]:
    """Return a label for each tick that cannot be misread, with what is new in a second line.

    Times of day have the date below them where it changes; days and months have the year below
    them where that changes. Months have names.
    """
    by_time = any((date.hour, date.minute, date.second) != (0, 0, 0) for date in dates)
    by_day = by_time or any(date.day != 1 for date in dates)
    by_month = by_day or any(date.month != 1 for date in dates)
    seconds = any(date.second for date in dates)
    labels, shown = [], ""
    for date in dates:
        month, year = _MONTHS[date.month - 1], str(date.year)
        if by_time:
            text, below = (
                date.strftime("%H:%M:%S" if seconds else "%H:%M"),
                f"{date.day} {month} {year}",
            )
        elif by_day:
            text, below = f"{date.day} {month}", year
        elif by_month:
            text, below = month, year
        else:
            text, below = year, shown
        labels.append(text if below == shown else f"{text}\n{below}")
        shown = below
    return labels


def _dated(run: Run, of_site: str, of_log: str) -> Any:
    """Return what the site says of the date, or else the log; None if neither does."""
    site = run.info.get("power") or {}
    found = site.get(of_site)
    return run.info.get(of_log) if found is None else found
