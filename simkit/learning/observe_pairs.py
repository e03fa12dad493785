"""Fitness pairs: a row of numbers for each machine and task that fits on it.

A network that scores rows can be trained on the whole table, and then be the `scores` of a
`FitnessPolicy`: both see `pair_features`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.arrays import Floats, Ints
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
from simkit.policy.pairs import MachineTaskPairs, TaskColumns
from simkit.policy.task import Task


def pair_features(
    pairs: MachineTaskPairs,
    waiting: int,
    shares: Floats,
    *,
    time_scale_s: float = 3600.0,
    count_scale: float = 10.0,
) -> Numbers:
    """Return (P, 3R + 3) float32, all between 0 and 1, a row for each pair.

    Columns: what is free on the machine, its capacity and the instance's request, R each, times
    the shares, at most 1; the estimate e as e / (e + time_scale_s); the task's remaining instances
    and the waiting tasks n as n / (n + count_scale).

    Args:
        pairs: P feasible pairs.
        waiting: tasks in the queue.
        shares: (R,) 1 / the largest capacity of a machine.
        time_scale_s: the time shown as 1/2, in s.
        count_scale: the count shown as 1/2.
    """
    amounts = np.concatenate([pairs.free, pairs.capacity, pairs.request], axis=1)
    rows = np.empty((len(pairs), amounts.shape[1] + 3), np.float32)
    rows[:, :-3] = np.clip(amounts * np.tile(shares, 3), 0.0, 1.0)
    rows[:, -3] = squashed_column(pairs.estimate_s, time_scale_s)
    rows[:, -2] = squashed_column(pairs.remaining, count_scale)
    rows[:, -1] = squashed(waiting, count_scale)
    return rows


def feasible_pairs(state: State, most: int | None = None) -> MachineTaskPairs:
    """Return pairs of a waiting task and a machine that has room for one of its instances now.

    In order of the queue, then of machines. A gang's pairs are there only if all of it fits now.

    Args:
        state: the system.
        most: how many pairs at most; None: all.
    """
    free, count = state.room.free(), 0
    tasks: list[Task] = []
    found: list[Ints] = []
    machines: list[Ints] = []
    for task in state.queue.tasks:
        if most is not None and count >= most:
            break
        if task.gang and state.fit(task) is None:
            continue
        rows = _with_room(task, free)[: None if most is None else most - count]
        if len(rows):
            found.append(np.full(len(rows), len(tasks)))
            machines.append(rows)
            tasks.append(task)
            count += len(rows)
    return _pairs_of(state, tasks, found, machines)


def _with_room(task: Task, free: Floats) -> Ints:
    """Return the rows of machines, ascending, that have room for an instance."""
    request = np.array(task.request)
    rows: Ints = np.flatnonzero(((free >= request) | (request <= 0)).all(axis=1))
    return rows if task.machines is None else np.intersect1d(rows, task.machines)


def _pairs_of(
    state: State, tasks: Sequence[Task], found: Sequence[Ints], machines: Sequence[Ints]
) -> MachineTaskPairs:
    facts = TaskColumns(tasks, len(state.info.resources))
    none = np.empty(0, np.int64)
    task = np.concatenate([none, *found])
    machine = np.concatenate([none, *machines])
    return MachineTaskPairs(
        facts, task, machine, state.room.free()[machine], state.room.capacity[machine]
    )


class FitnessPairs:
    """A table of the first feasible pairs, one a row; rows that are left over are zeros.

    Args:
        info: the system to observe.
        rows: P, how many pairs are shown.
        time_scale_s: the time that is shown as 1/2, in s.
        count_scale: the number of instances or tasks that is shown as 1/2.
    """

    def __init__(
        self,
        info: SystemInfo,
        rows: int = 64,
        time_scale_s: float = 3600.0,
        count_scale: float = 10.0,
    ) -> None:
        scales = {"time_scale_s": time_scale_s, "count_scale": count_scale}
        check_numbers("fitness-pairs", {"rows": rows}, scales)
        self._rows, self._time, self._count = rows, float(time_scale_s), float(count_scale)
        self._resources = info.resources
        self.schema = self._schema()
        self.reset(info)

    def _schema(self) -> ObservationSchema:
        rows, count, names = self._rows, len(self._resources), ", ".join(self._resources)
        largest = f"{names} / those of the largest machine"
        parts = (
            Field("there", (rows, 1), 0, 1, "1", "1: the row is a pair; 0: it is left over"),
            Field("free", (rows, count), 0, 1, "1", f"free on the machine: {largest}"),
            Field("capacity", (rows, count), 0, 1, "1", f"of the machine: {largest}"),
            Field("request", (rows, count), 0, 1, "1", f"of an instance: {largest}"),
            Field("estimate", (rows, 1), 0, 1, "1", f"run time t as t / (t + {self._time:g} s)"),
            Field(
                "remaining", (rows, 1), 0, 1, "1",
                f"n instances that are not placed, as n / (n + {self._count:g})",
            ),
            Field("waiting", (rows, 1), 0, 1, "1", f"n tasks, as n / (n + {self._count:g})"),
        )  # fmt: skip
        given = {
            "rows": rows,
            "time_scale_s": self._time,
            "count_scale": self._count,
            "resources": self._resources,
        }
        return ObservationSchema("fitness-pairs", parts, given, rows)

    def reset(self, info: SystemInfo) -> None:
        check_resources("fitness-pairs", self._resources, info)
        self._shares = reciprocal(info.capacity.max(axis=0))
        self.pairs: MachineTaskPairs | None = None
        """The pairs of the last observation, in order of its rows."""

    def encode(self, state: State) -> Numbers:
        """Return (P, 3R + 4) float32: a 1, then `pair_features`."""
        self.pairs = pairs = feasible_pairs(state, self._rows)
        table = np.zeros(self.schema.shape, np.float32)
        table[: len(pairs), 0] = 1.0
        table[: len(pairs), 1:] = pair_features(
            pairs, len(state.queue.tasks), self._shares,
            time_scale_s=self._time, count_scale=self._count,
        )  # fmt: skip
        return table
