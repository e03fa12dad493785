"""The queue table: the tasks at the head of the queue, what is free, and how many there are."""

from __future__ import annotations

import numpy as np

from simkit.observation import Numbers
from simkit.observation_scaling import check_numbers, check_resources, reciprocal, squashed
from simkit.observation_schema import Field, ObservationSchema
from simkit.policy import State, SystemInfo


class QueueTable:
    """A row for each of the first tasks of the queue; for any cluster, at any decision.

    Args:
        info: the system it will look at.
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
        """See `Encoder.reset`."""
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
