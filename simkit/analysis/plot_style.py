"""The style of simkit's pictures, and how they are saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from simkit.errors import SimkitError
from simkit.results.metric import RunWindow, counted_resource, run_window
from simkit.results.output_folder import reason
from simkit.results.run_folder import Run
from simkit.scenario.policy import USUAL_ESTIMATES
from simkit.text import counted, printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike


INK: Final = "#22272e"
"""Colour of lines and text."""
SOFT: Final = "#57606a"
"""Colour of secondary text."""
_FAINT: Final = "#8b949e"

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", INK)
"""One a run: those of Okabe and Ito, "Color Universal Design" (2008). However a reader sees
colours, no two look alike."""
SUN: Final = "#e69f00"
WIND: Final = "#56b4e9"
OF_SOURCES: Final = ("#009e73", "#cc79a7", "#7a4a00", "#4b2e83")
"""Colours of sources that are neither sun nor wind."""
GREY: Final = "#8b949e"
ALARM: Final = "#b3261e"
DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
"""Styles of lines that cross, so that they differ in print too."""

WIDTH: Final = 9.6
HEIGHT: Final = 8.4
"""Size of a figure, in inches."""
BODY: Final = 0.925
"""Share of that height that is below the title."""
LEGEND_LINE: Final = 0.028
"""Share of that height of a line for a run below the title."""
TOGETHER: Final = 2
"""Up to this many runs share the panels over time; more lines would tangle, so each has its own."""

_STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.frameon": False,
    "text.color": INK,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "svg.hashsalt": "simkit",  # ids that do not change from one drawing to the next
    "svg.fonttype": "none",
}
METADATA: Final[dict[str, dict[str, None]]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Ending of a picture → what is left out of it, so that its bytes are always the same."""
_BIN_NAMES: Final = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "hourly", 21600.0: "6 h",
    86400.0: "daily", 604800.0: "weekly", 2419200.0: "4-week",
}  # fmt: skip


def bin_name(length_s: float) -> str:
    """Return the name of means over bins of a length of `bin_length`: ``hourly``."""
    return _BIN_NAMES.get(length_s, f"{length_s / 604800:g}-week")


def finished(draw: Callable[[], Figure], target: str | PathLike[str] | None = None) -> Figure:
    """Draw a figure in simkit's style, save it if a file is named, and return it.

    Args:
        draw: makes the figure; may import matplotlib.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Raises SimkitError without matplotlib, for another file type, or a file that cannot be written.
    """
    path = None if target is None else Path(target)
    if path is not None and path.suffix.lower() not in METADATA:
        raise SimkitError(f"{path}: a picture is .png, .svg or .pdf; name it so")
    with styled():
        figure = draw()
        if path is None:
            figure.draw_without_rendering()  # so that its labels and places can be read and changed
            return figure
        try:
            figure.savefig(path, metadata=METADATA[path.suffix.lower()])
        except OSError as error:
            raise SimkitError(
                f"{path}: cannot be written: {reason(error)}; choose another place"
            ) from error
    return figure


def save_picture(target: str | PathLike[str], draw: Callable[[], Figure]) -> Path:
    """Draw a figure into a file as `finished` does; return the file."""
    finished(draw, target)
    return Path(target)


@contextmanager
def styled() -> Iterator[None]:
    """Use simkit's style without a display, and leave the user's settings unchanged."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise SimkitError(
            "plot: matplotlib is not installed; pip install 'simkit-cluster[plot]'"
        ) from error
    with mpl.rc_context(cast(Any, _STYLE)):
        yield


def new_figure(top: float = BODY, *, height: float = HEIGHT, width: float = WIDTH) -> Figure:
    """Return an empty figure; `top` is the share of `HEIGHT` below the title.

    A figure of another `height` or `width` (inches) has a title of the same size.
    """
    from simkit.analysis.plot_figure import empty_picture

    return empty_picture(styled, width, height, top_share(top, height))


def top_share(share: float, height: float) -> float:
    """Return the height that is a share of `HEIGHT` as far from the top of another height."""
    return 1 - (1 - share) * HEIGHT / height


def write_title(figure: Figure, title: str, facts: Iterable[str]) -> None:
    """Write a title, and short facts below it."""
    height = figure.get_figheight()
    first, second = (top_share(share, height) for share in (0.985, 0.952))
    left = 0.014 * WIDTH / figure.get_figwidth()
    figure.text(left, first, printable(title), fontsize=14, fontweight="bold", va="top")
    figure.text(left, second, printable(" · ".join(facts)), fontsize=9.5, color=SOFT, va="top")


def title_inches(runs: int) -> float:
    """Return the height of a picture's title in inches, with a line for each of several runs."""
    return HEIGHT * (1 - BODY + (LEGEND_LINE * runs if runs > 1 else 0.0))


def write_head(figure: Figure, runs: Sequence[Run], facts: Iterable[str]) -> None:
    """Write the title of a run or of several, with facts; several have a line each."""
    if len(runs) == 1:
        write_title(figure, runs[0].name, [*facts_of(runs[0]), *facts])
        return
    write_title(figure, "Comparison of runs", facts)
    for row, run in enumerate(runs):
        y = top_share(0.924 - LEGEND_LINE * row, figure.get_figheight())
        write_run(figure, y, look_of(row, len(runs)), " · ".join([run.name, *facts_of(run)]))


def write_lines(figure: Figure, lines: Sequence[str]) -> None:
    """Write lines below the title."""
    for row, text in enumerate(lines):
        y = top_share(0.924 - LEGEND_LINE * row, figure.get_figheight())
        figure.text(0.014, y, printable(text), fontsize=9.5, va="top")


def write_run(figure: Figure, y: float, look: tuple[str, Any], text: str) -> None:
    """Write a line of the legend of runs: a piece of the line, and text."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    ends = [0.14 / width, 0.42 / width]
    middle = y - 0.07 / height
    colour, dashes = look
    figure.add_artist(
        Line2D(ends, [middle] * 2, color=colour, linestyle=dashes, linewidth=2.2,
               transform=figure.transFigure)
    )  # fmt: skip
    figure.text(0.5 / width, y, printable(text), fontsize=9.5, va="top")


def look_of(row: int, runs: int) -> tuple[str, Any]:
    """Return colour and dashes of one run's line; lines that share panels differ in both."""
    dashes = DASHES[row % len(DASHES)] if runs <= TOGETHER or row >= len(COLOURS) else DASHES[0]
    return COLOURS[row % len(COLOURS)], dashes


def facts_of(run: Run) -> list[str]:
    """Return policy, size, jobs and seed as short texts, and the status unless complete."""
    jobs, resource = run.info.get("jobs"), counted_resource(run.resources)
    facts = [f"policy {run.policy}"]
    if run.estimates not in ("", USUAL_ESTIMATES):
        facts.append(f"estimates {run.estimates}")
    facts.append(f"{run.capacity[resource]:,.15g} {resource}")
    facts += [counted(jobs, "job")] if isinstance(jobs, int) else []
    return [*facts, f"seed {run.seed}", *([] if run.status == "complete" else [run.status])]


def drawn_window(run: Run) -> RunWindow:
    """Return the window of a whole run; raises SimkitError if it has no jobs."""
    window = run_window(run.scan("jobs"), run.scan("timeline"))
    if window is None:
        raise SimkitError(f"{run.folder}: the run has no jobs, so there is nothing to draw")
    return window


def plain_numbers(axis: Axis) -> None:
    """Write the numbers of an axis as people do: 0.5, 20, 1,000; never as powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float, _place: int | None = None) -> str:
    return f"{value:,.12g}"


_MOST_UPRIGHT: Final = 8
_MOST_LETTERS: Final = 70
"""With more bars, or longer names, they lie, so that every name has a line of its own."""
_LONGEST_NAME: Final = 22


_TIME_UNITS: Final = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return the length in s and the name of the unit in which times are readable."""
    return next(((s, name) for s, name in _TIME_UNITS if longest_s >= 2 * s), _TIME_UNITS[-1])


def lie_down(names: Sequence[str]) -> bool:
    """Return whether the bars of these names lie, so that every name has room."""
    return len(names) > _MOST_UPRIGHT or sum(len(short_name(n)) for n in names) > _MOST_LETTERS


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name that leaves room for the bars, its middle cut if need be."""
    text = printable(name)
    end = longest * 2 // 5
    return text if len(text) <= longest else f"{text[: longest - end - 1]}…{text[-end:]}"


def name_bars(axes: Axes, names: Sequence[str], label: str, *, lie: bool) -> None:
    """Write the names of bars at the places 0, 1, …, and what they are."""
    shown, places = [short_name(name) for name in names], range(len(names))
    axes.grid(visible=False, axis="y" if lie else "x")
    if lie:
        axes.set_ylim(len(names) - 0.4, -0.6)  # the first above
        axes.set_yticks(places, labels=shown)
        axes.set_ylabel(label)
    else:
        axes.set_xticks(places, labels=shown)
        axes.set_xlabel(label)


def over_bars(draw: Callable[..., Any], at: ArrayLike, first: ArrayLike, last: ArrayLike) -> None:
    """Draw dark lines that are seen on bars of any colour; `draw` is ``axes.hlines`` or so."""
    draw(at, first, last, color="white", linewidth=2.4, zorder=3)
    draw(at, first, last, color=INK, linewidth=1.2, zorder=3)


def explain(axes: Axes, names: Sequence[tuple[Artist, str]], *, own_lines: bool = False) -> None:
    """Name marks and bands at the panel itself: beside its title, or below it where that is full.

    Args:
        axes: the panel; it has its title.
        names: what is drawn, and what it is.
        own_lines: always below the title.
    """
    if not names:
        return
    texts = [printable(name) for _, name in names]
    title, room = axes.get_title(loc="left"), _inches(axes)
    columns = max(1, min(int((room + 0.2) / max(map(_legend_inches, texts))), len(names)))
    beside = 0.075 * len(title) + sum(map(_legend_inches, texts)) < room
    if beside and not own_lines:
        columns = len(names)
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
    else:
        pad = 6 + 12.5 * math.ceil(len(names) / columns)
        axes.set_title(title, loc="left", fontsize=10, pad=pad)
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    axes.legend(
        [artist for artist, _ in names], texts, **place, ncols=columns, fontsize=8.5,
        columnspacing=1.4, handlelength=1.6, borderaxespad=0.4, borderpad=0.0, labelspacing=0.3,
    )  # fmt: skip


def _legend_inches(text: str) -> float:
    """Return about how wide a name is in a legend, with its mark."""
    return 0.45 + 0.067 * len(text)


def _inches(axes: Axes) -> float:
    """Return about how wide a panel is."""
    place, figure = axes.get_subplotspec(), axes.get_figure()
    width = float(figure.get_figwidth())  # type: ignore[union-attr]
    share = 1.0 if place is None else len(place.colspan) / place.get_gridspec().ncols
    names = max((len(label.get_text()) for label in axes.get_yticklabels()), default=0)
    return width * share - 0.65 - 0.075 * names
