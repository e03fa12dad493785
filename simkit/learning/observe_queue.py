"""Observations of any cluster: the head of the queue, and the resources held in the steps ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simkit.learning.encoder import (
    Numbers,
    check_numbers,
    check_resources,
    reciprocal,
    squashed,
)
from simkit.learning.schema import Field, ObservationSchema
from simkit.policy import State, SystemInfo
from simkit.units import TIME_GRID


class QueueTable:
    """A row for each of the first tasks of the queue; for any cluster, at any decision.

    Args:
        info: the system to observe.
        slots: M, the tasks at the head of the queue that have a row.
        time_scale_s: the time that is shown as 1/2, in s.
    """

    def __init__(self, info: SystemInfo, slots: int = 10, time_scale_s: float = 3600.0) -> None:
        check_numbers("queue-table", {"slots": slots}, {"time_scale_s": time_scale_s})
        self._slots, self._scale = slots, float(time_scale_s)
        self._resources = info.resources
        self.schema = self._schema()
        self.reset(info)

    def _schema(self) -> ObservationSchema:
        count, scale, slots = len(self._resources), self._scale, self._slots
        names = ", ".join(self._resources)
        many = f"n / (n + {slots})"
        parts = (
            Field(
                "tasks", (slots, 3 + count), 0, 1, "1",
                f"of each task from the head of the queue on: 1; wait t as t / (t + {scale:g} s); "
                f"estimate likewise; what its waiting instances ask of {names} / capacity, at "
                "most 1; zeros: there is no such task",
            ),
            Field("free", (count,), 0, 1, "1", f"free {names} / capacity at the start"),
            Field("waiting", (1,), 0, 1, "1", f"n tasks in the queue: {many}"),
            Field("backlog", (1,), 0, 1, "1", f"n tasks that admission holds back: {many}"),
            Field("running", (1,), 0, 1, "1", f"n running allocations: {many}"),
        )  # fmt: skip
        given = {"slots": slots, "time_scale_s": scale, "resources": self._resources}
        return ObservationSchema("queue-table", parts, given)

    def reset(self, info: SystemInfo) -> None:
        check_resources("queue-table", self._resources, info)
        self._shares: list[float] = reciprocal(info.capacity.sum(axis=0)).tolist()

    def encode(self, state: State) -> Numbers:
        """Return (M * (3 + R) + R + 3,) float32."""
        shares, scale, slots = self._shares, self._scale, self._slots
        tasks, now = state.queue.tasks, state.now
        numbers: list[float] = []
        for task in tasks[:slots]:
            numbers += (
                1.0,
                squashed(now - task.submit_time_s, scale),
                squashed(task.estimate_s, scale),
            )
            left = task.remaining
            numbers += [min(a * left * s, 1.0) for a, s in zip(task.request, shares, strict=True)]
        numbers += [0.0] * ((3 + len(shares)) * slots - len(numbers))
        numbers += [
            min(max(f * s, 0.0), 1.0) for f, s in zip(state.room.total_free(), shares, strict=True)
        ]
        counts = (len(tasks), state.backlog, len(state.running))
        numbers += [squashed(count, slots) for count in counts]
        return np.array(numbers, np.float32)


class ResourceTime:
    """A row for each step ahead, a column for each resource, over all machines; for any cluster.

    A share is relative to the capacity at the start: the mean over the step of what running and
    reserved tasks are expected to hold, plus the capacity of machines that are down. A task past
    its estimate is expected to end at once.

    Args:
        info: the system to observe.
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
        check_resources("resource-time", self._resources, info)
        self._capacity = info.capacity.sum(axis=0)
        self._shares = reciprocal(self._capacity)

    def encode(self, state: State) -> Numbers:
        """Return (H, R) float32."""
        free = np.tile(np.array(state.room.total_free()), (self._horizon, 1))
        changes = list(_changes(state, self._horizon * self._step))
        if changes:
            when = np.array([time for time, _ in changes]) - state.now
            more = np.array([amounts for _, amounts in changes])
            since = self._ends - np.maximum(when, TIME_GRID)[:, None] / self._step  # (changes, H)
            free += np.clip(since, 0.0, 1.0).T @ more
        image: Numbers = np.clip((self._capacity - free) * self._shares, 0, 1).astype(np.float32)
        return image


def _changes(state: State, ahead_s: float) -> Iterator[tuple[float, Sequence[float]]]:
    """Yield (time, change of the free amounts of all machines) of known changes so far ahead."""
    for allocation in state.running:
        yield allocation.expected_end_s, allocation.held
    for step in state.steps_through(state.now + ahead_s):
        yield step.time_s, step.change
    for task, place in state.reservations.items():
        count = sum(pair[1] for pair in place.on)
        start = max(place.start_s, state.now)
        yield start, [-amount * count for amount in task.request]
        yield start + task.estimate_s, [amount * count for amount in task.request]
