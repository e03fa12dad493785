"""The time axis of a picture: dates at the site, or days where the trace's epoch is not known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simkit.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


class TimeAxis:
    """Turns the trace's seconds into dates, or into days where the epoch is not known."""

    def __init__(self, runs: Sequence[Run], span: tuple[float, float]) -> None:
        epochs = {float(run.info.get("epoch_s") or 0.0) for run in runs}
        epoch = epochs.pop() if len(epochs) == 1 else 0.0
        self.dated = isfinite(epoch) and epoch > 0
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
            datetime.fromtimestamp(self.epoch_s + at, self.zone).date().isoformat()
            for at in (self.start_s, self.end_s)
        )
        return [" to ".join(days)]


def _zone(name: str | None) -> tzinfo:
    """Return the site's time zone, UTC where it is unknown."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC
