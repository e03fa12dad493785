"""Slack: how long a task may still wait without being late."""

from __future__ import annotations

from math import floor, inf, isfinite

from simkit.errors import ScenarioError
from simkit.task import Task
from simkit.units import TIME_GRID, parse_duration


def last_start_s(task: Task, patience_s: float | None = None) -> float:
    """Return when a task must start, in s on the trace's clock, to end in time by its estimate.

    It should end by its deadline; without one, before its quality of service is violated
    (`Task.due_s`). Rounded down to the grid of time, so that it is an instant of the simulation.

    Args:
        task: a waiting task.
        patience_s: how long a task may wait that has neither a deadline nor a quality of service
            below 1; None: not at all, for such a service knows no delay.
    """
    if task.deadline_s < inf:
        last = task.deadline_s - task.estimate_s
    elif patience_s is not None and task.qos >= 1.0:
        last = task.submit_time_s + patience_s
    else:
        last = task.due_s - task.estimate_s
    return floor(last / TIME_GRID) * TIME_GRID


def duration_s(what: str, value: str | float) -> float:
    """Return an argument's seconds; it must be above 0.

    Args:
        what: rule and argument, for the error: ``backfill ready-pool: horizon``.
        value: a duration such as ``"48h"``, or seconds.

    Raises ScenarioError if it is no such duration.
    """
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise ScenarioError(f"{what}: {error}") from None
    if not (isfinite(seconds) and seconds > 0):
        raise ScenarioError(f"{what} is {value!r}; it must be above 0")
    return seconds
