"""The time axis of a report: its span, its dates, and the unit in which times are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

import polars as pl

from simkit.dates import is_dated
from simkit.results.metric import run_window
from simkit.results.run_folder import Run
from simkit.why.clock import dates_of

_UNITS_S: Final = tuple(10.0**power for power in range(-3, 100))
_MOST_TICKS: Final = 2**31
_MOST_DAYS: Final = 200 * 366
"""Days that are searched for changes of the clock."""


@dataclass(frozen=True)
class Clock:
    """Times of several runs on one axis."""

    start_s: float
    """First submit, on the trace's clock."""
    end_s: float
    """Last end; later than the start."""
    unit_s: float
    """Times are stored as whole numbers of this unit since the start."""
    epoch_s: float | None
    """Unix time of the trace's zero; None: the times have no dates."""
    zone: str
    offsets: tuple[tuple[float, float], ...]
    """Unix time, in s → what the zone's clock is ahead of UTC from then on, in s."""

    @property
    def ticks(self) -> int:
        """The span in units."""
        return max(1, round((self.end_s - self.start_s) / self.unit_s))

    def as_json(self) -> dict[str, Any]:
        """Return what the page needs to write times."""
        return {
            "start": self.start_s, "end": self.end_s, "unit": self.unit_s, "ticks": self.ticks,
            "epoch": self.epoch_s, "zone": self.zone, "offsets": self.offsets,
        }  # fmt: skip


def clock_of(runs: Sequence[Run]) -> Clock | None:
    """Return the clock of some runs; None if no job was ever submitted in any of them."""
    windows = [run_window(run.scan("jobs"), run.scan("timeline")) for run in runs]
    known = [window for window in windows if window is not None]
    if not known:
        return None
    start = min(window.first_submit_s for window in known)
    ends = [window.last_end_s for window in known]
    for run in runs:
        if _has_unfinished(run):  # which may go on after the last end
            (last,) = run.scan("timeline").select("time_s").max().collect().row(0)
            ends.append(start if last is None else float(last))
    end = max(start + 1.0, *ends)
    unit = next(u for u in _UNITS_S if (end - start) / u < _MOST_TICKS)
    epoch, name = _dates(runs)
    if epoch is None or not (is_dated(epoch + start) and is_dated(epoch + end)):
        return Clock(start, end, unit, None, "", ())
    zone, name = _zone(name)
    return Clock(start, end, unit, epoch, name, _offsets(zone, epoch + start, epoch + end))


def _has_unfinished(run: Run) -> bool:
    unfinished = pl.col("status").is_in(["running", "waiting"])
    return run.status != "complete" or run.scan("jobs").select(unfinished.any()).collect().item()


def _dates(runs: Sequence[Run]) -> tuple[float | None, str | None]:
    """Return the Unix time of zero and the zone, if all runs have the same."""
    found = {dates_of(run) for run in runs}
    return found.pop() if len(found) == 1 else (None, None)


def _zone(name: str | None) -> tuple[tzinfo, str]:
    """Return the site's time zone and its name; UTC if it is unknown."""
    from zoneinfo import ZoneInfo

    try:
        return (ZoneInfo(name), name) if name else (UTC, "UTC")
    except (KeyError, ValueError, OSError):
        return UTC, "UTC"


def _offsets(zone: tzinfo, begin: float, end: float) -> tuple[tuple[float, float], ...]:
    """Return the changes of a zone's clock, found to the minute."""

    def ahead(at: float) -> float:
        offset = datetime.fromtimestamp(at, zone).utcoffset()
        return (offset or timedelta()).total_seconds()

    found = [(begin, ahead(begin))]
    for day in range(min(_MOST_DAYS, int((end - begin) // 86400) + 1)):
        low, high = begin + 86400.0 * day, begin + 86400.0 * (day + 1)
        if ahead(high) == found[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) / 2
            low, high = (middle, high) if ahead(middle) == found[-1][1] else (low, middle)
        found.append((round(high / 60) * 60.0, ahead(high)))
    return tuple(found)
