"""Observations of the queue of any cluster: a row for each of the first waiting tasks."""

from __future__ import annotations

import numpy as np

from simkit.agent.encoder import (
    Field,
    Numbers,
    ObservationSchema,
    check_numbers,
    check_resources,
    reciprocal,
    squashed,
    squashed_column,
)
from simkit.policy import State, SystemInfo


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
