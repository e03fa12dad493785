"""Observations of any cluster: queue, machines, steps ahead, fitness pairs, and the site's power.

A fitness pair is a row of numbers for a machine and a task that fits on it. A network that scores
rows can be trained on the whole table, and then be the `scores` of a `FitnessPolicy`: both see
`pair_features`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

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
from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.policy import State, SystemInfo
from simkit.policy.pairs import MachineTaskPairs, TaskColumns
from simkit.policy.state import Foreseen, PowerState
from simkit.policy.task import Task
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

    @staticmethod
    def is_whole(column: str) -> bool:
        """Return whether a column is of the whole system, and so the same in every row."""
        return column.startswith("free.") or column in ("waiting", "backlog", "running", "next_end")

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
        machines: rows; machines beyond them are not shown. None: all.
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


NOW = ("generation", "load", "machines", "available", "price", "carbon", "soc")
"""What is shown of the present, in order."""


class PowerForecast:
    """The site's power now, then a number for each step ahead of each signal that is forecast.

    An amount x is shown as x / (|x| + its scale), so that prices below 0 stay distinct; an amount
    without limit is 1, an unknown one 0. The scenario must have a section `power`, and a forecast
    of what is shown.

    Args:
        info: the system to observe.
        signals: those of generation, available, price and carbon whose forecast is shown.
        steps: H, how many steps of the forecast are shown.
        power_scale_w: the power that is shown as 1/2, in W.
        price_scale: the price that is shown as 1/2, per kWh.
        carbon_scale: the carbon intensity that is shown as 1/2, in g/kWh.
    """

    def __init__(
        self,
        info: SystemInfo,
        signals: Sequence[Foreseen] = ("generation",),
        steps: int = 24,
        power_scale_w: float = 10_000.0,
        price_scale: float = 0.1,
        carbon_scale: float = 300.0,
    ) -> None:
        scales = {
            "power_scale_w": power_scale_w, "price_scale": price_scale, "carbon_scale": carbon_scale
        }  # fmt: skip
        check_numbers("power-forecast", {"steps": steps}, scales)
        known = get_args(Foreseen)
        if isinstance(signals, str) or [name for name in signals if name not in known]:
            raise ScenarioError(
                f"observation 'power-forecast': signals is {signals!r}; it must be a list of "
                f"{', '.join(known)}, or empty"
            )
        self._signals, self._steps = tuple(signals), steps
        self._scales = {"price": price_scale, "carbon": carbon_scale}
        self._power_scale_w = power_scale_w
        self._now_scales = np.array([self._scale(name) for name in NOW[:-1]])
        self.schema = self._schema(scales)

    def _scale(self, name: str) -> float:
        return self._scales.get(name, self._power_scale_w)

    def _schema(self, scales: dict[str, float]) -> ObservationSchema:
        units = {"price": "per kWh", "carbon": "g/kWh"}

        def told(name: str) -> str:
            return (
                f"{name} x as x / (|x| + {self._scale(name):g} {units.get(name, 'W')}); 0: unknown"
            )

        now = [Field(f"now.{name}", (1,), -1, 1, "1", told(name)) for name in NOW if name != "soc"]
        soc = Field("now.soc", (1,), 0, 1, "1", "state of charge; 0: there is no battery")
        ahead = [
            Field(f"ahead.{name}", (self._steps,), -1, 1, "1", f"mean of each step: {told(name)}")
            for name in self._signals
        ]
        given = {"signals": self._signals, "steps": self._steps, **scales}
        return ObservationSchema("power-forecast", (*now, soc, *ahead), given)

    def reset(self, info: SystemInfo) -> None:
        pass

    def encode(self, state: State) -> Numbers:
        """Return (7 + signals * H,) float32.

        Raises ScenarioError if the scenario has no power, or its forecast is shorter; PolicyError
        if it has no forecast of a signal.
        """
        power = state.power
        if power is None:
            raise ScenarioError(
                "observation 'power-forecast' shows the site's power, which the scenario does not "
                "have; add a section `power`, or take another observation"
            )
        amounts = {
            "generation": power.generation_w, "load": power.load_w, "machines": power.machines_w,
            "available": power.available_w, "price": power.price_per_kwh,
            "carbon": power.carbon_gco2_per_kwh,
        }  # fmt: skip
        now = _shown(np.array(list(amounts.values())), self._now_scales)
        ahead = [_shown(self._ahead(power, name), self._scale(name)) for name in self._signals]
        return np.concatenate([now, [power.soc], *ahead]).astype(np.float32)

    def _ahead(self, power: PowerState, name: Foreseen) -> Floats:
        forecast = power.forecast(name)
        if len(forecast) < self._steps:
            raise ScenarioError(
                f"observation 'power-forecast': steps is {self._steps}, but the forecast has "
                f"{len(forecast)}; take fewer, or a longer power.forecast.horizon"
            )
        return forecast[: self._steps]


def _shown(amounts: Floats, scale: float | Floats) -> Floats:
    """Return amounts as x / (|x| + scale), without limit as 1; 0 for what is not known."""
    known = np.nan_to_num(amounts)  # an infinite amount is the largest number
    shown: Floats = known / (np.abs(known) + scale)
    return shown


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
