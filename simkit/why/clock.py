"""The clock of an explanation: its times as dates on the run's clock, or since the trace's zero."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from math import isfinite, nan
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from simkit.dates import date_text, is_dated, parse_zone
from simkit.errors import RunError, TraceError
from simkit.results.run_folder import Run
from simkit.sections import Instant as ScenarioInstant
from simkit.units import format_duration

_CLOCK: Final = re.compile(
    r"\s*(-?)(?:(\d+)d )?\s*(\d{1,}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?\s*", re.ASCII
)
"""A time as it is printed: ``13:57:42`` or ``3d 17:33:38``."""
_DATE: Final = re.compile(r"\s*\d{4}-\d")


@dataclass(frozen=True)
class RunClock:
    """How the times of a run are written and read."""

    epoch_s: float = nan
    """Unix time of the trace's zero; NaN: it has no date."""
    zone: tzinfo = UTC
    zone_name: str = "UTC"
    first_s: float = nan
    """When the first job came, in s; NaN: unknown."""

    def text(self, time_s: float) -> str:
        """Return a time as a date in the zone, or since the trace's zero if it has no date."""
        if is_dated(self.epoch_s + time_s):
            return date_text(self.epoch_s + time_s, "%Y-%m-%d %H:%M:%S", self.zone)
        return format_duration(time_s)

    @property
    def line(self) -> str:
        """Which clock it is, in words."""
        if is_dated(self.epoch_s):
            return f"times in {self.zone_name}"
        if not isfinite(self.first_s):
            return "times since the trace's zero"
        return f"times since the trace's zero; the first job came at {self.text(self.first_s)}"

    def time_of(self, text: str | float) -> float:
        """Return seconds on the trace's clock of a time, in every form in which it is printed.

        Besides: seconds or a duration since the trace's zero, and dates with a zone.

        Raises RunError for anything else, and for a date where the zero's date is unknown.
        """
        if isinstance(text, str) and (match := _CLOCK.fullmatch(text)):
            sign, days, hours, minutes, seconds = match.groups()
            parts = float(days or 0), float(hours), float(minutes), float(seconds or 0)
            length = ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3]
            return -length if sign else length
        moment = _instant(self._with_zone(text))
        if not isinstance(moment, datetime):
            return moment
        if not is_dated(self.epoch_s):
            raise RunError(
                f"--at {text}: the run has no dates; give a time since the trace's zero "
                "(10d, 3h, 3d 17:33:38)"
            )
        return moment.timestamp() - self.epoch_s

    def _with_zone(self, text: str | float) -> str | float | datetime:
        """Return a date that names no zone as one in the run's; anything else as it is."""
        if not isinstance(text, str) or not _DATE.match(text):
            return text
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            return text
        return moment.replace(tzinfo=self.zone) if moment.tzinfo is None else moment


def _instant(given: str | float | datetime) -> float | datetime:
    try:
        found: float | datetime = TypeAdapter(ScenarioInstant).validate_python(given)
    except ValidationError as error:
        told = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise RunError(f"--at: {told}; or write a time as it is printed: 3d 17:33:38") from None
    return found


def dates_of(run: Run) -> tuple[float | None, str | None]:
    """Return the Unix time of a run's zero and its zone, None where unknown.

    Sun and prices may have dates even if the log has none.
    """
    site = run.info.get("power") or {}
    epoch, zone = run.info.get("epoch_s"), run.info.get("time_zone")
    if not epoch:
        epoch, zone = site.get("epoch_s"), site.get("zone") or zone
    return (float(epoch) if epoch else None), zone


def clock_of(run: Run, first_s: Any = None) -> RunClock:
    """Return the clock of a run; `first_s` is when its first job came, None if that is unknown."""
    epoch, name = dates_of(run)
    first = nan if first_s is None else float(first_s)
    if epoch is None:
        return RunClock(first_s=first)
    try:
        zone, name = (parse_zone(name), name) if name else (UTC, "UTC")
    except TraceError:
        zone, name = UTC, "UTC"
    return RunClock(epoch, zone, name, first)
