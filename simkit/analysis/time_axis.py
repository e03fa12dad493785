"""The time axis of pictures: dates at the site, or time since the first submit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simkit.arrays import Floats
from simkit.dates import date_text, is_dated
from simkit.results.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAY_S: Final = 86400.0
_UNITS: Final = (
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
        self.zone = _zone(_dated(runs[0], "zone", "time_zone"))
        self.start_s, self.end_s = span
        length = self.end_s - self.start_s
        self.unit_s, self.unit = next((s, name) for least, s, name in _UNITS if length >= least)

    def values(self, time_s: Floats) -> Any:
        """Return days since 1970 (UTC), or `unit` since the start, for times in s."""
        if self.dated:
            return (self.epoch_s + time_s) / _DAY_S
        return (time_s - self.start_s) / self.unit_s

    def finish(self, axes: Axes, *, label: bool = True, most: int = MOST_TICKS) -> None:
        """Set limits, at most about so many ticks and, if it is wanted, the label."""
        axes.set_xlim(*self.values(np.array([self.start_s, self.end_s])))
        if not self.dated:
            if most < MOST_TICKS:
                axes.locator_params(axis="x", nbins=most)
            if label:
                axes.set_xlabel(f"{self.unit} since the first submit")
            return
        at = self._dates(*axes.get_xlim(), most)
        axes.set_xticks([_days(date) for date in at], labels=tick_labels(at))
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
    """Return at most about so many round dates from begin to end, both in one zone.

    Every so many seconds to hours of a day, days, months or years; at least the begin.
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


def _days(date: datetime) -> float:
    return date.timestamp() / _DAY_S


def _dated(run: Run, of_site: str, of_log: str) -> Any:
    """Return what the site says of the date, or else the log; None if neither does."""
    site = run.info.get("power") or {}
    found = site.get(of_site)
    return run.info.get(of_log) if found is None else found


def _zone(name: str | None) -> tzinfo:
    """Return the site's time zone; UTC if it is unknown."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC
