"""Instants of a table that are dates, as an auditor reads them: seconds from the earliest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from simkit.verify.inputs import MissingInputError

_SECONDS = {
    "seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86_400.0, "milliseconds": 1e-3,
    "microseconds": 1e-6, "nanoseconds": 1e-9,
}  # fmt: skip


def are_dates(words: pl.Series, rules: Mapping[str, Any]) -> bool:
    """Return whether submit times are dates: as declared, or because the first is no number."""
    if words.dtype.is_temporal() or rules.get("time_format") or rules.get("zero"):
        return True
    first = words.drop_nulls().head(1)
    return bool(len(first)) and first.cast(pl.Float64, strict=False).null_count() == 1


def unix_times(words: pl.Series, rules: Mapping[str, Any]) -> list[float | None]:
    """Return the Unix times of text; None where it is empty or no date.

    Raises MissingInputError for what an auditor does not read: an hour that the clock showed
    twice, Unix times that were recognised, and more.
    """
    unit = _SECONDS.get(str(rules.get("time_format")))
    if unit is not None or rules.get("zero"):
        start = _unix(str(rules["zero"]), None, rules) if rules.get("zero") else 0.0
        numbers = words.cast(pl.Float64, strict=False).to_list()
        if start is None:
            raise MissingInputError("the zero of its times is not read again")
        return [None if n is None else start + n * (unit or 1.0) for n in numbers]
    if words.dtype.is_temporal():
        words = words.dt.to_string("iso")
    return [None if w is None else _unix(w, rules.get("time_format"), rules) for w in words]


def start_of(rules: Mapping[str, Any]) -> float | None:
    """Return the declared Unix time of second 0; None if it is the first submit time."""
    return _unix(str(rules["zero"]), None, rules) if rules.get("zero") else None


def _unix(word: str, form: str | None, rules: Mapping[str, Any]) -> float | None:
    if word.lower().lstrip("+") in ("inf", "infinity"):
        return float("inf")
    try:
        date = datetime.strptime(word, form) if form else datetime.fromisoformat(word)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        zone = _zone(rules.get("zone"))
        date = date.replace(tzinfo=zone)
        if date.utcoffset() != date.replace(fold=1).utcoffset():
            raise MissingInputError(
                "its times lie in an hour that the clock showed twice, or never"
            )
    return date.timestamp()


def _zone(name: str | None) -> tzinfo:
    text = (name or "UTC").strip()
    if text.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if text[:3].upper() in ("UTC", "GMT") and text[3:].strip()[:1] in ("+", "-"):
        sign, digits = text[3:].strip()[0], text[3:].strip()[1:].replace(":", "")
        hours, minutes = int(digits[:2] if len(digits) != 3 else digits[0]), int(digits[-2:] or 0)
        if len(digits) <= 2:
            minutes = 0
        return timezone((-1 if sign == "-" else 1) * timedelta(hours=hours, minutes=minutes))
    return ZoneInfo(text)
