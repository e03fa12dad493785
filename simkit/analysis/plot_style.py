"""The style of simkit's pictures, and how they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from simkit.errors import SimkitError
from simkit.results.metric import RunWindow, run_window
from simkit.results.output_folder import reason
from simkit.results.run_folder import Run
from simkit.text import printable

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


COLOURS: Final = ("#0b6e99", "#d1622b", "#4b8b3b", "#8a4f9e", "#b08900", "#5c6670")
"""One a run; readers who do not see red and green can tell them apart."""

INK: Final = "#22272e"
"""Colour of lines and text."""
SOFT: Final = "#57606a"
"""Colour of secondary text."""
_FAINT: Final = "#8b949e"

HEIGHT: Final = 8.4
"""Of a figure, in inches."""
BODY: Final = 0.925
"""Share of that height that is below the title."""

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
_METADATA: Final[dict[str, dict[str, None]]] = {
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


def save_picture(target: str | PathLike[str], draw: Callable[[], Figure]) -> Path:
    """Draw a figure in simkit's style, save it and return the file.

    Args:
        target: the picture, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.
        draw: makes the figure; may import matplotlib.

    Raises SimkitError without matplotlib, for another file type, or a file that cannot be written.
    """
    path = Path(target)
    if (ending := path.suffix.lower()) not in _METADATA:
        raise SimkitError(f"{path}: a picture is .png, .svg or .pdf; name it so")
    with styled():
        figure = draw()
        try:
            figure.savefig(path, metadata=_METADATA[ending])
        except OSError as error:
            raise SimkitError(
                f"{path}: cannot be written: {reason(error)}; choose another place"
            ) from error
    return path


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


def new_figure(top: float = BODY, *, height: float = HEIGHT) -> Figure:
    """Return an empty figure; `top` is the share of `HEIGHT` below the title.

    A figure of another `height` (inches) has a title of the same size.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.08, rect=(0, 0, 1, top_share(top, height)))
    figure = Figure(figsize=(9.6, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def top_share(share: float, height: float) -> float:
    """Return the height that is a share of `HEIGHT` as far from the top of another height."""
    return 1 - (1 - share) * HEIGHT / height


def write_title(figure: Figure, title: str, facts: Iterable[str]) -> None:
    """Write a title, and short facts below it."""
    height = figure.get_figheight()
    first, second = (top_share(share, height) for share in (0.985, 0.952))
    figure.text(0.014, first, printable(title), fontsize=14, fontweight="bold", va="top")
    figure.text(0.014, second, printable(" · ".join(facts)), fontsize=9.5, color=SOFT, va="top")


def drawn_window(run: Run) -> RunWindow:
    """Return the window of a whole run; raises SimkitError if it has no jobs."""
    window = run_window(run.scan("jobs"), run.scan("timeline"))
    if window is None:
        raise SimkitError(f"{run.folder}: the run has no jobs, so there is nothing to draw")
    return window


def plain_numbers(axis: Axis) -> None:
    """Write the numbers of an axis as people do: 0.5, 20, 1,000; never as powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())
