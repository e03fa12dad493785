"""The unit of every metric."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = (
    # names, as a regular expression, and their unit; the first that fits counts
    (r"(lost|killed)_instance_s", "s"),
    (r"(?:lost|killed)_(?P<resource>.+)_s", "{resource} s"),
    (r".*_time_s|wait_since_release_s|makespan_s|awrt_s|cloudsimpy_makespan", "s"),
    (r"throughput_.*_per_h", "1/h"),
    (r"jobs|qos_violations|deadline_misses", "jobs"),
    (r"tasks|backlog", "tasks"),
    (r"retries", "instances"),
    (r"starts_past_suspended", "starts"),
    (r"machines_in_use", "machines"),
    (r"job_value", "value"),
    (r"delay_cost", "job h"),
    (r".*_kwh", "kWh"),
    (r"grid_import_peak_w", "W"),
    (r"carbon_kg", "kg CO2e"),
    (r"energy_cost", "currency of the prices"),
)
_RATIO: Final = "1"


def unit_of(metric: str) -> str:
    """Return a metric's unit; ``1`` for ratios."""
    for names, unit in _UNITS:
        if match := re.fullmatch(names, metric):
            return unit.format(**match.groupdict())
    return _RATIO
