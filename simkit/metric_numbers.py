"""The numbers of a run's metrics by name: `carbon_kg`, `grid_kwh.import`, `wait_time_s.p99`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_ABOUT: Final = ("unit", "formula", "window", "count", "censored")
"""Keys of a metric that are none of its numbers."""


class Number(NamedTuple):
    """One number of a metric."""

    value: float | None
    """None: it is undefined, such as the mean over no jobs."""
    unit: str


def metric_numbers(metrics: Mapping[str, Any]) -> dict[str, Number]:
    """Return every number of a run's metrics.

    Args:
        metrics: the content of metrics.json.

    Returns NAME.KEY → number, and NAME → its `value`, or else its `mean`.
    """
    found: dict[str, Number] = {}
    for name, metric in metrics.items():
        numbers = {key: number for key, number in metric.items() if key not in _ABOUT}
        for key in ("value", "mean"):
            if key in numbers:
                found[name] = Number(numbers[key], metric["unit"])
                break
        for key, number in numbers.items():
            found[f"{name}.{key}"] = Number(number, metric["unit"])
    return found
