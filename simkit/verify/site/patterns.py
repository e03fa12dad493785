"""Signals that need no file: patterns of the day or the week, and random levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np

from simkit.verify.numbers import Floats, on_grid, seconds
from simkit.verify.site.clock import DAY, Clock, offsets, zone_of
from simkit.verify.site.course import Course, NotRecomputedError, pieces_of

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_GROUPS = {"weekdays": _DAYS[:5], "weekend": _DAYS[5:]}
_BLOCK = 1024
"""Levels that are drawn at once."""
_MONDAY = 3.0 * DAY
"""Unix time 0 was a Thursday, three days into its week."""


def schedule(section: Mapping[str, Any], clock: Clock, first: float, last: float) -> Course:
    """Return a pattern of the day or the week over a span of the run, on the clock of a place."""
    weekly = section.get("week") is not None
    period = 7.0 * DAY if weekly else DAY
    entries = _of_week(section["week"]) if weekly else _of_day(section["day"])
    at, values = (np.array(column) for column in zip(*sorted(entries.items()), strict=True))
    shift = _MONDAY if weekly else 0.0
    pieces_of(first, last, period / len(at), "a schedule")
    begins, ahead = offsets(
        zone_of(section.get("zone") or clock.shown), clock.epoch + first, clock.epoch + last
    )
    times, found = [], []
    for begin, end, offset in zip(begins, [*begins[1:], clock.epoch + last], ahead, strict=True):
        local = begin + offset + shift, end + offset + shift
        periods = np.arange(np.floor(local[0] / period), np.floor(local[1] / period) + 1.0)
        edges = (periods[:, None] * period + at).ravel()
        row = int(np.searchsorted(edges, local[0], side="right"))
        inside = edges[row : np.searchsorted(edges, local[1], side="left")]
        times.append(np.append(local[0], inside) - offset - shift - clock.epoch)
        # before the first entry of a period the last one holds
        found.append(values[np.arange(row - 1, row + len(inside)) % len(at)])
    return Course(np.concatenate(times), np.concatenate(found))


def _of_day(entries: Mapping[str, Any]) -> dict[float, float]:
    return {on_grid(_second(at)): float(value) for at, value in entries.items()}


def _of_week(week: Mapping[str, Mapping[str, Any]]) -> dict[float, float]:
    found: dict[float, float] = {}
    for name, entries in week.items():
        for day in _GROUPS.get(name, (name,)):
            for at, value in _of_day(entries).items():
                at += _DAYS.index(day) * DAY
                if found.setdefault(at, value) != value:
                    raise NotRecomputedError(f"a schedule names an instant twice, as of {name}")
    return found


def _second(text: str) -> float:
    """Return the second of the day of a number, a duration, or ``7:00``."""
    parts = str(text).split(":")
    if len(parts) == 1:
        return seconds(text)
    return float(sum(float(part) * 60.0 ** (2 - place) for place, part in enumerate(parts)))


def levels(section: Mapping[str, Any], seed: int, place: str, first: float, last: float) -> Course:
    """Return random levels over a span of the run; each depends on seed, place and number alone."""
    step = on_grid(seconds(section["step"]))
    pieces_of(first, last, step, "a signal of levels")
    numbers = np.arange(np.floor(first / step), np.floor(last / step) + 1.0)
    blocks = np.floor(numbers / _BLOCK).astype(np.int64)
    drawn = [_drawn(int(block), seed, place) for block in np.unique(blocks)]
    within = (numbers - float(blocks[0]) * _BLOCK).astype(np.int64)
    high = np.concatenate(drawn)[within] < float(section["high_share"])
    return Course(numbers * step, np.where(high, section["high_w"], section["low_w"]).astype(float))


def _drawn(block: int, seed: int, place: str) -> Floats:
    source = np.random.SeedSequence([seed, crc32(place.encode())], spawn_key=(block % 2**64,))
    return np.random.default_rng(source).random(_BLOCK)
