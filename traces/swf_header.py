"""The header of an SWF log: the comment lines ``; Key: value`` and what they say of the machine."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

_ENTRY = re.compile(r"\s*;\s*([A-Za-z][A-Za-z0-9_ ]*?)\s*:\s*(.*?)\s*$", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")


class SwfHeader:
    """Comment lines as they come, and the first value of each key.

    Attributes:
        lines: all comment lines of the file, without line ends.
        values: key in lower case → text of its first occurrence.
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.values: dict[str, str] = {}

    def add(self, line: bytes) -> None:
        """Take in one comment line (bytes: the archive's older headers are in Latin-1)."""
        self.lines.append(line.strip())
        if entry := _ENTRY.match(line.decode("latin-1")):
            self.values.setdefault(entry[1].lower(), entry[2])

    def replace(self, key: str, value: str) -> None:
        """Set a key: its line, or its lines, give way to one at the end."""
        kept = (line for line in self.lines if not _has_key(line, key))
        self.lines = [*kept, f"; {key}: {value}".encode()]
        self.values[key.lower()] = value

    def number(self, key: str) -> float | None:
        """Return the first number in a value: 338 for "338 (batch partition; 512 total)"."""
        found = _NUMBER.search(self.values.get(key.lower(), ""))
        return float(found[0]) if found else None

    @property
    def capacity(self) -> dict[str, float]:
        """``{"processors": n}`` of MaxProcs, else of MaxNodes; empty where neither says."""
        for key in ("MaxProcs", "MaxNodes"):
            count = self.number(key)
            if count is not None and count >= 1:
                return {"processors": count}
        return {}

    @property
    def epoch_s(self) -> float:
        """UnixStartTime, the Unix time of the log's zero; NaN where it is absent or 0."""
        start = self.number("UnixStartTime")
        return start if start is not None and start > 0 else float("nan")

    @property
    def time_zone(self) -> str | None:
        """TimeZoneString, or None where it is absent or unknown to the IANA data base."""
        name = self.values.get("timezonestring", "")
        return name if is_time_zone(name) else None


def _has_key(line: bytes, key: str) -> bool:
    entry = _ENTRY.match(line.decode("latin-1"))
    return entry is not None and entry[1].lower() == key.lower()


def is_time_zone(name: str) -> bool:
    """Tell whether a name is in the IANA time zone data base."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not known, not a name, or the name of a folder
        return False
    return True
