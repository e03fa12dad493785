"""Units: durations as text, and the exact grids of times and amounts.

Times enter the simulation on a grid of 2⁻²⁰ s (about a microsecond) and amounts of resources on
one of 2⁻³⁰. Sums and differences of such numbers are exact in a double (times up to `LATEST_S`, 272
years, amounts up to 8 million), so equal instants are equal and a machine that gets back what it
gave is as empty as before.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats

HOUR_S = 3600.0
DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
KWH_J = 3.6e6

TIME_GRID = 2.0**-20
AMOUNT_GRID = 2.0**-30
LONGEST_S = 2.0**32
"""The longest duration, and the earliest time before the zero of a trace; keeps sums exact."""
LATEST_S = 2.0**33
"""The latest instant after the zero of a trace: up to it, times of the grid are exact."""
ENDLESS_S = 2.0**40
"""What an endless time counts as where a formula needs a number: longer than any other time."""
EVER_S = sys.float_info.max
"""The time until what will come at no known time: whatever ends is over by then, what is endless is
not."""
LARGEST_AMOUNT = 2**53
"""The most of a resource that all machines may have together: whole numbers up to it are exact."""

_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|min|m|h|d|w)", re.ASCII)


def parse_duration(text: str | float) -> float:
    """Return seconds of ``90``, ``"15s"``, ``"3h"``, ``"1d 12h"``; units ms, s, m/min, h, d, w.

    Raises ValueError if the text is neither a finite number of seconds nor such a duration.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        seconds = float(text)
    else:
        seconds = _parse_text(str(text))
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is not a finite duration; write 90, 15s, 3h or 1d12h")
    return seconds


def _parse_text(text: str) -> float:
    sign = -1.0 if text.strip().startswith("-") else 1.0
    rest = text.strip().lstrip("+-")
    try:
        return sign * float(rest)
    except ValueError:
        pass
    total, position = 0.0, 0
    while match := _DURATION.match(rest, position):
        total += float(match[1]) * _SECONDS[match[2]]
        position = match.end()
    if position == 0 or rest[position:].strip():
        raise ValueError(f"{text!r} is not a duration; write seconds, or 15s, 30m, 3h, 7d, 1d12h")
    return sign * total


def format_duration(seconds: float) -> str:
    """Return a readable duration: ``1d 02:03:04`` or, below a minute, ``12.5 s``."""
    if not math.isfinite(seconds):
        return "-"
    if abs(seconds) < 60:
        return f"{seconds:.4g} s"
    sign, whole = ("-" if seconds < 0 else ""), round(abs(seconds))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{sign}{days}d {clock}" if days else f"{sign}{clock}"


def time_on_grid(times: npt.ArrayLike) -> Floats:
    """Round times in seconds to the nearest multiple of 2⁻²⁰ s."""
    return _on_grid(times, TIME_GRID)


def instant_on_grid(time_s: float) -> float:
    """Round one time in seconds as `time_on_grid` does; quicker for a single number."""
    return round(time_s / TIME_GRID) * TIME_GRID


def amount_on_grid(amounts: npt.ArrayLike) -> Floats:
    """Round amounts of a resource to the nearest multiple of 2⁻³⁰."""
    return _on_grid(amounts, AMOUNT_GRID)


def request_on_grid(amounts: npt.ArrayLike) -> Floats:
    """Round requests down to a multiple of 2⁻³⁰, so that n requests of 1/n fit into 1.

    Rounded to the nearest multiple, five requests of 0.2 would exceed 1. A value less than a
    millionth of a step below a multiple counts as that multiple: it is a rounding error.
    """
    steps: Floats = np.floor(np.asarray(amounts, dtype=np.float64) / AMOUNT_GRID + 1e-6)
    return steps * AMOUNT_GRID


def _on_grid(values: Any, grid: float) -> Floats:
    steps = np.asarray(values, dtype=np.float64) / grid
    if not isinstance(steps, np.ndarray):  # a single number
        return np.rint(steps) * grid
    np.rint(steps, out=steps)
    steps *= grid
    return steps


def quantity(value: float | None, unit: str) -> str:
    """Return a readable number: durations as ``1d 02:03:04``, others with four digits."""
    if value is None:
        return "-"
    if unit == "s":
        return format_duration(float(value))
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.4g}"
