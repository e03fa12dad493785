"""The maintenance audit: capacity follows the windows of the scenario, worked out afresh."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_capacity import capacity_steps

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

Floats = npt.NDArray[np.float64]

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"([0-9.]+)\s*(ms|min|[smhdw])")


def check_maintenance(run: RunFolder) -> Check:
    """Whenever something starts, the pool's capacity is what the maintenance windows leave."""
    check = Check("maintenance", "capacity at each start is what the windows leave")
    windows = run.setting("cluster", "maintenance") or []
    if not windows:
        return check.skip("the scenario has no maintenance")
    if len(run.capacity) != 1 or len(run.resources) != 1:
        return check.skip("the cluster is no pool: the rule machine-capacity has its windows")
    starts = run.allocations["start_time_s"].drop_nulls().unique().sort().to_numpy()
    check.examined = len(starts)
    if not len(starts):
        return check
    total = next(iter(run.capacity.values()))[0]
    try:
        away = [span for w in windows for span in spans(w, run, float(starts[-1]), total)]
    except (KeyError, TypeError, ValueError) as error:
        return check.leave_out(f"a window cannot be placed in time: {error}")
    down = np.zeros(len(starts))
    for first, last, amount in away:
        down += np.where((starts >= first) & (starts < last), amount, 0.0)
    expected = np.maximum(total - down, 0.0)
    steps = capacity_steps(run)
    at = np.searchsorted([step.time_s for step in steps], starts, side="right") - 1
    found = np.array([step.capacity[0] for step in steps])[at]
    limited = run.setting("power", "supply", "limit") in ("power", "resources")
    wrong = found > expected if limited else found != expected  # power may take of it, too
    for row in np.flatnonzero(wrong):
        instant = {"time_s": starts[row], "capacity": found[row], "expected": expected[row]}
        check.add(
            "the capacity is not what the maintenance windows leave",
            {name: float(value) for name, value in instant.items()},
        )
    return check


def _on_grid(time_s: float) -> float:
    """Round to the run's time grid, 2**-20 s."""
    return round(time_s * 2**20) / 2**20


def spans(
    window: dict[str, Any], run: RunFolder, horizon: float, total: float
) -> list[tuple[float, float, float]]:
    """Return (start, end, amount) of a window and its repetitions up to the horizon."""
    start = _on_grid(_instant(window["start"], run))
    if window.get("duration") is not None:
        end = _on_grid(start + seconds(window["duration"]))
    else:
        end = _on_grid(_instant(window["end"], run))
    length = end - start
    amount = window.get(run.resources[0])
    amount = total if amount is None else float(amount)
    period = window.get("every")
    if period is None:
        return [(start, start + length, amount)]
    step = _on_grid(seconds(period))
    if not step > 0:
        raise ValueError(f"every: {period!r} is not a positive duration")
    count = max(int((horizon - start) // step) + 1, 0)
    return [(start + i * step, start + i * step + length, amount) for i in range(count)]


def _instant(value: Any, run: RunFolder) -> float:
    """Return seconds on the trace's clock of a duration since its zero, or an ISO date."""
    if not isinstance(value, str) or not re.match(r"\s*[0-9]{4}-", value):
        return seconds(value)
    epoch = run.manifest.get("epoch_s")
    if epoch is None:
        raise ValueError(f"{value!r} is a date, and the trace's epoch is unknown")
    moment = datetime.fromisoformat(value.strip())
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment.timestamp() - float(epoch)


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
