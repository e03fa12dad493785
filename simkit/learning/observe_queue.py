"""Observations of any cluster: tasks of the queue, machines, resources held in the steps ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simkit.learning.encoder import (
    Numbers,
    check_numbers,
    check_resources,
    reciprocal,
    squashed,
    squashed_column,
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


class QueueSet:
    """The first tasks of the queue as a set: a row for each, a named column for each feature.

    For any cluster, at any decision. Columns of the whole are the same in every row, so that a
    network can score each task with the same weights. Rows without a task are zeros before them.

    Args:
        info: the system to observe.
        slots: M, the tasks at the head of the queue that have a row.
        time_scale_s: the time that is shown as 1/2, in s.
        count_scale: the number of instances, tasks or allocations that is shown as 1/2.
    """

    def __init__(
        self,
        info: SystemInfo,
        slots: int = 10,
        time_scale_s: float = 3600.0,
        count_scale: float = 10.0,
    ) -> None:
        scales = {"time_scale_s": time_scale_s, "count_scale": count_scale}
        check_numbers("queue-set", {"slots": slots}, scales)
        self._slots, self._time, self._count = slots, float(time_scale_s), float(count_scale)
        self._resources = info.resources
        self.schema = self._schema()
        self._whole = 6 + len(info.resources)  # columns of the tasks
        self.reset(info)

    def _schema(self) -> ObservationSchema:
        time, count = f"t / (t + {self._time:g} s)", f"n / (n + {self._count:g})"
        tasks = {
            "there": "1: the row is a task; 0: it is left over",
            "fits": "1: all of it, or of a bag at least an instance, fits into what is free now",
            "wait": f"t since its submission, as {time}",
            "estimate": f"run time t of an instance, as {time}",
            **{f"request.{r}": f"{r} of its waiting instances / capacity" for r in self._resources},
            "instances": f"n that are not placed, as {count}",
            "priority": "of its partition p, as p / (p + 1)",
        }
        whole = {
            **{f"free.{r}": f"{r} that is free / capacity at the start" for r in self._resources},
            "waiting": f"n tasks in the queue, as {count}",
            "backlog": f"n tasks that admission holds back, as {count}",
            "running": f"n running allocations, as {count}",
            "next_end": f"t until one of them is expected to end, as {time}; 1: none runs",
        }
        parts = tuple(
            Field(name, (self._slots, 1), 0, 1, "1", text) for name, text in (tasks | whole).items()
        )
        given = {
            "slots": self._slots,
            "time_scale_s": self._time,
            "count_scale": self._count,
            "resources": self._resources,
        }
        return ObservationSchema("queue-set", parts, given, self._slots)

    def reset(self, info: SystemInfo) -> None:
        check_resources("queue-set", self._resources, info)
        self._shares = reciprocal(info.capacity.sum(axis=0))

    def encode(self, state: State) -> Numbers:
        """Return (M, 2R + 10) float32."""
        table, shares = np.zeros(self.schema.shape, np.float32), self._shares
        tasks, whole = state.queue.tasks[: self._slots], self._whole
        if count := len(tasks):
            rows, columns = table[:count, :whole], state.queue.columns()
            rows[:, 0] = 1.0
            rows[:, 1] = [state.fit(task) is not None for task in tasks]
            waited = state.now - columns.submit_time_s[:count]
            rows[:, 2] = squashed_column(waited, self._time)
            rows[:, 3] = squashed_column(columns.estimate_s[:count], self._time)
            left = [[amount * task.remaining for amount in task.request] for task in tasks]
            rows[:, 4:-2] = np.minimum(np.array(left) * shares, 1.0)
            rows[:, -2] = squashed_column(columns.remaining[:count], self._count)
            rows[:, -1] = squashed_column(columns.priority[:count], 1.0)
        table[:, whole:-4] = np.clip(np.array(state.room.total_free()) * shares, 0.0, 1.0)
        counts = (len(state.queue), state.backlog, len(state.running))
        table[:, -4:-1] = [squashed(number, self._count) for number in counts]
        ends = state.expected_ends
        table[:, -1] = squashed(ends[0][0] - state.now, self._time) if len(ends) else 1.0
        return table


class MachineSet:
    """The machines as a set: a row for each, a named column for each feature; for any cluster.

    Args:
        info: the system to observe.
        machines: rows; machines beyond them are not shown. None: as many as there are.
        time_scale_s: the time that is shown as 1/2, in s.
        count_scale: the number of allocations that is shown as 1/2.
    """

    def __init__(
        self,
        info: SystemInfo,
        machines: int | None = None,
        time_scale_s: float = 3600.0,
        count_scale: float = 10.0,
    ) -> None:
        rows = len(info.machine_names) if machines is None else machines
        scales = {"time_scale_s": time_scale_s, "count_scale": count_scale}
        check_numbers("machine-set", {"machines": rows}, scales)
        self._rows, self._time, self._count = rows, float(time_scale_s), float(count_scale)
        self._resources = info.resources
        self.schema = self._schema()
        self.reset(info)

    def _schema(self) -> ObservationSchema:
        largest, time = "/ that of the largest machine", f"t / (t + {self._time:g} s)"
        columns = {
            "there": "1: the row is a machine; 0: it is left over",
            **{f"free.{name}": f"{name} that is free {largest}" for name in self._resources},
            **{f"capacity.{name}": f"{name} there is now {largest}" for name in self._resources},
            "running": f"n allocations on it, as n / (n + {self._count:g})",
            "next_end": f"t until one of them is expected to end, as {time}; 1: none runs",
            "last_end": f"t until all of them are expected to have ended, as {time}",
        }
        rows = self._rows
        parts = tuple(Field(name, (rows, 1), 0, 1, "1", text) for name, text in columns.items())
        given = {
            "machines": rows,
            "time_scale_s": self._time,
            "count_scale": self._count,
            "resources": self._resources,
        }
        return ObservationSchema("machine-set", parts, given, rows)

    def reset(self, info: SystemInfo) -> None:
        check_resources("machine-set", self._resources, info)
        self._shares = reciprocal(info.capacity.max(axis=0))

    def encode(self, state: State) -> Numbers:
        """Return (rows, 2R + 4) float32."""
        count, shown = len(self._resources), min(self._rows, len(state.room.capacity))
        table = np.zeros(self.schema.shape, np.float32)
        rows = table[:shown]
        rows[:, 0] = 1.0
        rows[:, 1 : 1 + count] = np.clip(state.room.free()[:shown] * self._shares, 0.0, 1.0)
        rows[:, 1 + count : -3] = np.clip(state.room.capacity[:shown] * self._shares, 0.0, 1.0)
        running, first = np.zeros(shown), np.full(shown, np.inf)
        last = np.zeros(shown)
        for allocation in state.running:
            left = max(allocation.expected_end_s - state.now, 0.0)
            for machine, _ in allocation.on:
                if machine < shown:
                    running[machine] += 1
                    first[machine] = min(first[machine], left)
                    last[machine] = max(last[machine], left)
        some = running > 0
        rows[:, -3] = squashed_column(running, self._count)
        rows[:, -2] = 1.0
        rows[some, -2] = squashed_column(first[some], self._time)
        rows[:, -1] = squashed_column(last, self._time)
        return table


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
