"""The style of simkit's pictures, their time axis, and how they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from simkit.arrays import Floats
from simkit.dates import date_text, is_dated
from simkit.errors import SimkitError
from simkit.results.metric import RunWindow, run_window
from simkit.results.output_folder import reason
from simkit.results.run_folder import Run
from simkit.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS: Final = ("#0b6e99", "#d1622b", "#4b8b3b", "#8a4f9e", "#b08900", "#5c6670")
"""One a run; readers who do not see red and green can tell them apart."""

INK: Final = "#22272e"
"""Colour of lines and text."""
SOFT: Final = "#57606a"
"""Colour of secondary text."""
_FAINT: Final = "#8b949e"

BODY: Final = 0.925
"""Share of a figure's height of 8.4 inches that is below the title."""

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
_BIN_NAMES: Final = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "hourly", 21600.0: "6 h",
    86400.0: "daily", 604800.0: "weekly", 2419200.0: "4-week",
}  # fmt: skip


def bin_name(length_s: float) -> str:
    """Return the name of means over bins of a length of `bin_length`: ``hourly``."""
    return _BIN_NAMES.get(length_s, f"{length_s / 604800:g}-week")


def save_picture(target: str | PathLike[str], draw: Callable[[], Figure]) -> Path:
    """Draw a figure in simkit's style, save it and return the file.

    Args:
        target: the picture, ``.png`` or ``.svg``; an SVG has the same bytes each time.
        draw: makes the figure; may import matplotlib.

    Raises SimkitError without matplotlib, for another file type, or a file that cannot be written.
    """
    path = Path(target)
    if path.suffix.lower() not in (".png", ".svg"):
        raise SimkitError(f"{path}: a picture is .png or .svg; name it so")
    with _matplotlib():
        figure = draw()
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise SimkitError(
                f"{path}: cannot be written: {reason(error)}; choose another place"
            ) from error
    return path


@contextmanager
def _matplotlib() -> Iterator[None]:
    """Use simkit's style without a display, and leave the user's settings unchanged."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise SimkitError(
            "plot: matplotlib is not installed; pip install 'simkit-cluster[plot]'"
        ) from error
    with mpl.rc_context(cast(Any, _STYLE)):
        yield


def new_figure(top: float = BODY) -> Figure:
    """Return an empty figure; `top` is the share of its height below the title."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.08, rect=(0, 0, 1, top))
    figure = Figure(figsize=(9.6, 8.4), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def write_title(figure: Figure, title: str, facts: Iterable[str]) -> None:
    """Write a title, and short facts below it."""
    figure.text(0.014, 0.985, printable(title), fontsize=14, fontweight="bold", va="top")
    figure.text(0.014, 0.952, printable(" · ".join(facts)), fontsize=9.5, color=SOFT, va="top")


def drawn_window(run: Run) -> RunWindow:
    """Return the window of a whole run; raises SimkitError if it has no jobs."""
    window = run_window(run.scan("jobs"), run.scan("timeline"))
    if window is None:
        raise SimkitError(f"{run.folder}: the run has no jobs, so there is nothing to draw")
    return window


class TimeAxis:
    """The time axis: dates at the site, or days if the trace's epoch is not known."""

    def __init__(self, runs: Sequence[Run], span: tuple[float, float]) -> None:
        epochs = {float(run.info.get("epoch_s") or 0.0) for run in runs}
        epoch = epochs.pop() if len(epochs) == 1 else 0.0
        self.dated = epoch > 0 and is_dated(epoch + span[1])
        self.epoch_s = epoch if self.dated else 0.0
        self.zone = _zone(runs[0].info.get("time_zone"))
        self.start_s, self.end_s = span

    def values(self, time_s: Floats) -> Any:
        """Return days since 1970 (UTC), or since the start, for times in s."""
        return (self.epoch_s + time_s) / 86400 if self.dated else (time_s - self.start_s) / 86400

    def finish(self, axes: Axes) -> None:
        """Set limits, ticks and label."""
        import matplotlib.dates as mdates

        axes.set_xlim(*self.values(np.array([self.start_s, self.end_s])))
        if not self.dated:
            axes.set_xlabel("days since the first submit")
            return
        dates: Any = mdates  # its classes carry no types
        locator = dates.AutoDateLocator(tz=self.zone, minticks=4, maxticks=9)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=self.zone))

    def period(self) -> list[str]:
        """Return first and last day, or the length in days, as text."""
        if not self.dated:
            return [f"{(self.end_s - self.start_s) / 86400:,.1f} days"]
        days = (
            date_text(self.epoch_s + at, "%Y-%m-%d", self.zone) for at in (self.start_s, self.end_s)
        )
        return [" to ".join(days)]


def _zone(name: str | None) -> tzinfo:
    """Return the site's time zone; UTC if it is unknown."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC
