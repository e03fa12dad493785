"""Progress bars on stderr: of a simulation, of several runs, of a download."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from simkit.dates import date_of
from simkit.text import printable

PATIENCE_S = 2.0
"""Nothing is shown before this time; most runs end earlier."""
_CLOCK_EVERY = 256
"""Decisions between two readings of the clock."""
_DRAW_EVERY_S = 0.1


class RunProgress:
    """A bar that appears when a simulation takes longer than `PATIENCE_S`."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._decisions = 0
        self._begin = self._drawn = perf_counter()
        self._bar: Any = None
        self._row: Any = None

    def __call__(self, simulation: Any) -> None:
        """Count a decision."""
        self._decisions += 1
        if self._decisions % _CLOCK_EVERY:
            return
        now = perf_counter()
        if now - self._begin < PATIENCE_S or now - self._drawn < _DRAW_EVERY_S:
            return
        self._drawn = now
        if self._bar is None:
            self._bar = progress_bar("[cyan]{task.fields[date]}", "{task.fields[rate]} jobs/s")
            self._row = self._bar.add_task("", total=self._jobs, date="", rate="")
            self._bar.start()
        done = simulation.jobs_ended
        self._bar.update(
            self._row,
            completed=done,
            date=simulated_date(simulation.now, simulation.info.epoch_s),
            rate=f"{done / (now - self._begin):,.0f}",
        )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def watch_progress(jobs: int, *, enabled: bool) -> Iterator[Callable[[Any], None] | None]:
    """Yield what to call at every decision: a bar, or None if stderr is not a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    progress = RunProgress(jobs)
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def runs_progress(
    runs: int, label: Callable[[Any], str], enabled: bool
) -> Iterator[Callable[[Any], None]]:
    """Yield what to call with the outcome of every run; `label` names an outcome on the bar."""
    if not (enabled and sys.stderr.isatty()):
        yield lambda _outcome: None
        return
    with progress_bar("runs", "{task.fields[last]}") as bar:
        row = bar.add_task("", total=runs, last="")
        yield lambda outcome: bar.update(row, advance=1, last=_plain(label(outcome)))


def simulated_date(now_s: float, epoch_s: float) -> str:
    """Return the date (UTC) of an instant, or the time since the trace's zero."""
    date = date_of(epoch_s + now_s)
    if date is None:
        from simkit.units import format_duration  # imports NumPy, which `--help` must not

        return format_duration(now_s)
    return date.strftime("%Y-%m-%d %H:%M")


def _plain(text: str) -> str:
    """Return a text that rich shows as it is: without control characters and marks of style."""
    from rich.markup import escape

    return escape(printable(text))


def progress_bar(before: str, after: str) -> Any:
    """Return a bar of rich on stderr that vanishes when it stops."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    return Progress(
        before,
        BarColumn(),
        MofNCompleteColumn(),
        after,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def download_progress(*, enabled: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield what to call with (bytes received, bytes in total), or None."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    with progress_bar("bytes", "") as bar:
        row = bar.add_task("", total=None)
        yield lambda received, total: bar.update(row, completed=received, total=total)
