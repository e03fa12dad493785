"""Panels over time: what runs have in common, drawn in one panel or in a panel for each run.

A `Quantity` knows how one run is drawn; `draw_panels` puts quantities and runs on a figure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

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
from simkit.analysis.time_axis import MOST_TICKS, TimeAxis
from simkit.arrays import Floats
from simkit.results.run_folder import Run
from simkit.results.time_bins import bin_edges, bin_length
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
        title, colour = f"{runs[run].policy}: {_lower(title)}", look_of(run, len(runs))[0]
    axes.set_title(printable(title), loc="left", fontsize=10, color=colour)
    cell.quantity.legend(axes, [(artist, name) for name, artist in names.items()])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


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
