"""The resource-time image: which share of each resource cannot be had in each step ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simkit.observation import Numbers
from simkit.observation_scaling import check_numbers, check_resources, reciprocal
from simkit.observation_schema import Field, ObservationSchema
from simkit.policy import State, SystemInfo
from simkit.units import TIME_GRID


class ResourceTime:
    """A row for each step ahead, a column for each resource, over all machines; for any cluster.

    A share is the mean over the step of what running and reserved tasks are expected to hold and
    of what machines that are down lack, of the capacity at the start. A task past its estimate is
    expected to end at once.

    Args:
        info: the system it will look at.
        horizon: H, the number of steps.
        step_s: how long one lasts, in s.
    """

    def __init__(self, info: SystemInfo, horizon: int = 20, step_s: float = 600.0) -> None:
        check_numbers("resource-time", {"horizon": horizon}, {"step_s": step_s})
        self._horizon, self._step = horizon, float(step_s)
        self._resources = info.resources
        text = f"held or missing in each step of {self._step:g} s from now on / capacity"
        parts = tuple(
            Field(f"occupied.{name}", (horizon, 1), 0, 1, "1", f"{name} {text}")
            for name in info.resources
        )
        given = {"horizon": horizon, "step_s": self._step, "resources": info.resources}
        self.schema = ObservationSchema("resource-time", parts, given, horizon)
        self._ends = np.arange(1, horizon + 1, dtype=np.float64)  # of the steps, in steps
        self.reset(info)

    def reset(self, info: SystemInfo) -> None:
        """See `Encoder.reset`."""
        check_resources("resource-time", self._resources, info)
        self._capacity = info.capacity.sum(axis=0)
        self._shares = reciprocal(self._capacity)

    def encode(self, state: State) -> Numbers:
        """Return (H, R) float32."""
        free = np.tile(np.array(state.room.total_free()), (self._horizon, 1))
        changes = list(_changes(state))
        if changes:
            when = np.array([time for time, _ in changes]) - state.now
            more = np.array([amounts for _, amounts in changes])
            since = self._ends - np.maximum(when, TIME_GRID)[:, None] / self._step  # (changes, H)
            free += np.clip(since, 0.0, 1.0).T @ more
        image: Numbers = np.clip((self._capacity - free) * self._shares, 0, 1).astype(np.float32)
        return image


def _changes(state: State) -> Iterator[tuple[float, Sequence[float]]]:
    """Yield (when, how much more is free over all machines) of all that is known to change."""
    for allocation in state.running:
        yield allocation.expected_end_s, allocation.held
    for step in state.steps:
        yield step.time_s, step.change
    for task, place in state.reservations.items():
        count = sum(pair[1] for pair in place.on)
        start = max(place.start or 0.0, state.now)
        yield start, [-amount * count for amount in task.request]
        yield start + task.estimate_s, [amount * count for amount in task.request]
