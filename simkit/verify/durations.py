"""Durations as a scenario writes them."""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"([0-9.]+)\s*(ms|min|[smhdw])")


def seconds(value: Any) -> float:
    """Return the seconds of a number, or of a text such as ``90``, ``30m``, ``1d 12h``.

    Raises ValueError for anything else.
    """
    if isinstance(value, (int, float)):
        return float(value)
    text = str(value).strip()
    try:
        return float(text)
    except ValueError:
        parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise ValueError(f"{value!r} is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
