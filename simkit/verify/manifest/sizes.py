"""What a few keys of a scenario derive, estimated before it is audited.

A folder of a stranger may say in some bytes what takes hours: a window of maintenance every
millisecond, failures every nanosecond, a group of 10⁹ machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

from simkit.errors import RunError
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import seconds

MOST: Final = 20_000_000
"""Instants or machines of one key that are audited."""
_SHORTEST_S: Final = 2.0**-20
"""The clock's grid; no period is shorter."""


def refuse_too_much(run: AuditedRun) -> None:
    """Raise RunError if a key of the run's scenario derives more than is audited."""
    for place, number in _derived(run):
        if number > MOST:
            much = "without end" if number == inf else f"{number:,.0f}"
            raise RunError(
                f"{run.path}: {place} of the scenario stands for too many instants or machines "
                f"({much}; at most {MOST:,} are audited), so the run cannot be checked"
            )


def _derived(run: AuditedRun) -> Iterator[tuple[str, float]]:
    """Yield the place of a key and how much it derives."""
    known = [time for time in run.only("timeline", "time_s")["time_s"] if time is not None]
    span_s = float(max(known) - min(known)) if known else 0.0
    machines = len(run.manifest["cluster"]["machines"])
    cluster = _mapping(run.setting("cluster"))
    groups = _mappings(cluster.get("machines"))
    yield "cluster.machines", sum(_number(group.get("count", 1)) for group in groups)
    if failures := _mapping(cluster.get("failures")):
        cycle_s = _seconds(failures.get("mtbf")) + _seconds(failures.get("mttr"))
        yield "cluster.failures", 2 * machines * _times(span_s, cycle_s)
    for row, window in enumerate(_mappings(cluster.get("maintenance"))):
        if (every := window.get("every")) is not None:
            yield f"cluster.maintenance.{row}.every", machines * _times(span_s, _seconds(every))
    for section in ("scheduling", "power"):
        for place, period in _periods(run.setting(section), section):
            yield place, _times(span_s, period)


def _periods(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Yield the place and the seconds of every period in a section."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, below in _mapping(value).items():
        if key in ("step", "every", "resample") and isinstance(below, (int, float, str)):
            yield f"{place}.{key}", _seconds(below)
        else:
            yield from _periods(below, f"{place}.{key}")


def _times(span_s: float, period_s: float) -> float:
    """Return how often a period goes into a span; without end if the clock has no such period."""
    return span_s / period_s if period_s >= _SHORTEST_S else inf


def _seconds(value: Any) -> float:
    """Return a duration; one that cannot be read is endless, for the rules to name."""
    try:
        return seconds(value)
    except (TypeError, ValueError):
        return inf


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[Any, Any]]:
    """Return the rows of a list; what is no list has none, for the rules to name."""
    return [_mapping(row) for row in value] if isinstance(value, list) else []
