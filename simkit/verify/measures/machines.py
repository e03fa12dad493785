"""Metrics of machines: their use, stranded capacity, and fragmentation over time and machines.

All of them are sums over stretches of time in which nothing changes on a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.verify.audited_run import AuditedRun
from simkit.verify.measures.over_time import Numbers, Window, counted, distribution, share
from simkit.verify.numbers import Floats, Ints

_CELLS = 1 << 21
"""The table of requests has so many cells at most; the most popular requests fill it."""


@dataclass(frozen=True)
class _Stretches:
    """N stretches, sorted by machine and time, each longer than 0 s."""

    machine: Ints
    """(N,) rows of the sorted machine ids."""
    start_s: Floats
    seconds: Floats
    instances: Floats
    held: Floats
    """(N, R)"""
    capacity: Floats
    """(N, R)"""

    @property
    def free(self) -> Floats:
        """(N, R); nothing is free where more is held than there is."""
        return np.asarray(np.maximum(self.capacity - self.held, 0.0))

    @property
    def available(self) -> Floats:
        """(N, R): the capacity, and what drains until it is free."""
        return np.asarray(np.maximum(self.capacity, self.held))


def of_machines(run: AuditedRun, window: Window) -> Numbers:
    """Return the metrics of machines; none if there is only one."""
    if len(run.capacity) < 2:
        return {}
    parts, machines = _stretches(run, window), len(run.capacity)
    asked, weights = _requests(run)
    least = asked.min(axis=0, initial=np.inf)
    least = np.where(np.isfinite(least), least, 0.0)
    numbers: Numbers = {}
    for r, name in enumerate(run.resources):
        used, there = (
            np.bincount(parts.machine, amount[:, r] * parts.seconds, machines)
            for amount in (parts.held, parts.available)
        )
        some = there > 0
        numbers |= distribution(f"machine_utilisation_{name}", used[some] / there[some], machines)
        if len(run.resources) > 1:
            scarce = np.delete(parts.free < least, r, axis=1).any(axis=1)
            left = float((parts.free[:, r] * parts.seconds)[scarce].sum())
            value = share(left, float((parts.available[:, r] * parts.seconds).sum()))
            numbers |= counted(f"stranded_{name}", {"value": value}, machines)
    return (
        numbers | _in_use(parts, machines, window) | _idle_gaps(parts, machines)
        | _fragmentation(run, parts, asked, weights)
    )  # fmt: skip


def _stretches(run: AuditedRun, window: Window) -> _Stretches:
    """Cut the window at every change of a machine."""
    ids, width = sorted(run.capacity), len(run.resources)
    row_of = {machine: row for row, machine in enumerate(ids)}
    held = run.known.filter(
        pl.col("start_time_s").is_not_null(), pl.col("machine_id").is_in(ids)
    ).with_columns(pl.col("end_time_s").fill_null(float("inf")))
    count = held["count"].cast(pl.Float64).to_numpy()
    take = np.zeros((held.height, 1 + 2 * width))
    take[:, 0] = count
    for r, name in enumerate(run.resources):
        if name in run.requested:
            take[:, 1 + r] = count * held[f"one_{name}"].to_numpy()
    steps = np.zeros((len(run.capacity_steps), 1 + 2 * width))
    before: dict[int, Floats] = {}
    for n, step in enumerate(run.capacity_steps):
        now = np.array(step.capacity)
        steps[n, 1 + width :] = now - before.get(step.machine_id, 0.0)
        before[step.machine_id] = now
    on = np.searchsorted(ids, held["machine_id"].to_numpy())
    machine = np.concatenate([on, on, [row_of[s.machine_id] for s in run.capacity_steps]])
    time = np.concatenate([held["start_time_s"], held["end_time_s"],
                           [s.time_s for s in run.capacity_steps]])  # fmt: skip
    time = np.clip(time, window.start_s, max(window.start_s, window.end_s))
    change = np.concatenate([take, -take, steps])
    order = np.lexsort((time, machine))
    machine, time = machine[order].astype(np.int64), time[order]
    total = np.cumsum(change[order], axis=0)
    first = np.searchsorted(machine, machine, side="left")
    state = total - (total - change[order])[first]
    last = np.append(machine[1:] != machine[:-1], True)
    until = np.where(last, max(window.start_s, window.end_s), np.append(time[1:], np.inf))
    some = until > time
    parts = (
        machine,
        time,
        until - time,
        state[:, 0],
        state[:, 1 : 1 + width],
        state[:, 1 + width :],
    )
    return _Stretches(*(part[some] for part in parts))


def _requests(run: AuditedRun) -> tuple[Floats, Floats]:
    """Return the distinct requests (K, R), and how many instances make each."""
    amounts = [
        run.tasks[name].cast(pl.Float64).to_numpy()
        if name in run.requested else np.zeros(run.tasks.height)
        for name in run.resources
    ]  # fmt: skip
    asked, which = np.unique(np.column_stack(amounts), axis=0, return_inverse=True)
    instances = run.tasks["instances"].cast(pl.Float64).to_numpy()
    return asked, np.bincount(which.reshape(-1), instances, len(asked)).astype(np.float64)


def _in_use(parts: _Stretches, machines: int, window: Window) -> Numbers:
    busy = parts.instances > 0
    begin, length = parts.start_s[busy], parts.seconds[busy]
    time, place = np.unique(np.concatenate([begin, begin + length]), return_inverse=True)
    signs = np.repeat([1.0, -1.0], len(begin))
    number = (
        np.cumsum(np.bincount(place.reshape(-1), signs, len(time))) if len(time) else np.zeros(1)
    )
    span = window.end_s - window.start_s
    values = {
        "mean": float(length.sum()) / span if span > 0 else None,
        "max": float(number.max()),
        "used": float(len(np.unique(parts.machine[busy]))),
    }
    return counted("machines_in_use", values, machines)


def _idle_gaps(parts: _Stretches, machines: int) -> Numbers:
    """1 - sum(g^2) / (sum g)^2 over the gaps g in which a machine is there and holds nothing."""
    idle = (parts.instances == 0) & (parts.capacity > 0).any(axis=1)
    before = np.append(False, idle[:-1] & (parts.machine[1:] == parts.machine[:-1]))
    gap = np.cumsum(idle & ~before)[idle] - 1
    length = np.bincount(gap, parts.seconds[idle])
    of = parts.machine[idle & ~before]
    total, squares = (np.bincount(of, w, machines) for w in (length, length**2))
    whole = total**2
    values = 1.0 - np.divide(squares, whole, out=np.ones(machines), where=whole > 0)
    return distribution("fragmentation_idle_time", values, machines)


def _fragmentation(run: AuditedRun, parts: _Stretches, asked: Floats, weights: Floats) -> Numbers:
    """The chance that a free unit is of no use to a random instance, over time and machines."""
    order = np.argsort(-weights, kind="stable")
    kept = len(order)
    while kept > 1 and _cells(asked[order[:kept]]) > _CELLS:
        kept = kept * 3 // 4
    asked, weights = asked[order[:kept]], weights[order[:kept]]
    free, place = np.unique(parts.free, axis=0, return_inverse=True)
    useful = np.zeros(free.shape)
    for amounts, weight in zip(asked, weights, strict=True):
        fits = (free >= amounts).all(axis=1)
        useful[fits] += weight * (amounts > 0)
    unfit = 1.0 - useful / (float(weights.sum()) or 1.0)
    numbers: Numbers = {}
    for r, name in enumerate(run.resources):
        area = parts.free[:, r] * parts.seconds
        value = share(float((area * unfit[place.reshape(-1), r]).sum()), float(area.sum()))
        numbers |= counted(f"fragmentation_{name}", {"value": value}, len(run.capacity))
    return numbers


def _cells(asked: Floats) -> float:
    return float(np.prod([len(np.unique(column)) + 1.0 for column in asked.T]))
