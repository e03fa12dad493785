"""What the charts of a report share: the time axis, and columns packed for the page.

The axis has its span, its dates, and the unit in which times are stored.

Columns of whole numbers and texts are packed, a few bytes a row instead of a line: neighbours in a
column are alike, so each number is stored as its difference from the one before; then all lowest
bytes follow each other, all second bytes, and so on, which gzip packs well. The page undoes this
with a loop, see ``assets/decode.js``.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats
from simkit.dates import is_dated, zone_of
from simkit.results.metric import run_window
from simkit.results.run_folder import Run
from simkit.why.rerun import dates_of

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
    unfinished = pl.col("status").is_in(["running", "waiting"]).any()
    for run in runs:  # what is unfinished may go on after the last end
        if run.status != "complete" or run.scan("jobs").select(unfinished).collect().item():
            (last,) = run.scan("timeline").select("time_s").max().collect().row(0)
            ends.append(start if last is None else float(last))
    end = max(start + 1.0, *ends)
    unit = next(u for u in _UNITS_S if (end - start) / u < _MOST_TICKS)
    dates = {dates_of(run) for run in runs}
    epoch, name = dates.pop() if len(dates) == 1 else (None, None)
    if epoch is None or not (is_dated(epoch + start) and is_dated(epoch + end)):
        return Clock(start, end, unit, None, "", ())
    zone, name = zone_of(name)
    return Clock(start, end, unit, epoch, name, _offsets(zone, epoch + start, epoch + end))


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


LARGEST: Final = 2**32 - 1
"""The largest number of a column."""
_LEVEL: Final = 6
"""Level of gzip; higher ones take several times as long for a few per cent."""


class Packed:
    """Named columns, packed one after the other into one gzipped block."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._columns: list[dict[str, Any]] = []

    def numbers(self, name: str, values: npt.ArrayLike) -> None:
        """Add whole numbers from 0 to `LARGEST`, by their differences."""
        given = np.asarray(values, dtype=np.int64)
        assert not len(given) or (given.min() >= 0 and given.max() <= LARGEST), name
        steps = np.diff(given, prepend=0).astype(np.uint32)  # modulo 2**32, as the page adds them
        planes = steps.astype("<u4").view(np.uint8).reshape(-1, 4).T
        self._add(name, "numbers", len(given), planes.tobytes())

    def bytes_of(self, name: str, values: npt.NDArray[np.uint8]) -> None:
        """Add numbers from 0 to 255 as they are."""
        self._add(name, "bytes", values.size, values.tobytes())

    def texts(self, name: str, values: Sequence[str]) -> None:
        """Add texts."""
        self._add(name, "texts", len(values), json.dumps(list(values)).encode())

    def _add(self, name: str, kind: str, count: int, part: bytes) -> None:
        self._parts.append(part)
        self._columns.append({"name": name, "kind": kind, "count": count, "bytes": len(part)})

    def finish(self) -> dict[str, Any]:
        """Return the columns' names, kinds and sizes, and the block as base64 text."""
        block = gzip.compress(b"".join(self._parts), _LEVEL, mtime=0)
        return {"columns": self._columns, "block": b64encode(block).decode()}


def whole(values: Floats, start: float, unit: float, most: int = LARGEST) -> npt.NDArray[np.int64]:
    """Return times as whole numbers of a unit since a start, within 0 and `most`; NaN as 0."""
    ticks = np.nan_to_num((values - start) / unit, nan=0.0, posinf=float(most), neginf=0.0)
    return np.rint(np.clip(ticks, 0, most)).astype(np.int64)
