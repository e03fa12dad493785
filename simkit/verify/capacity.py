"""The check of capacity: machines never hold more than they have.

A sweep over the starts and ends of allocations, by machine and resource. At one instant, as in the
engine, what ends is released first, then capacity changes, then tasks start.

An allocation of length zero starts and ends at one instant, and the rounds within an instant are
not recorded: it must fit next to the allocations that run from before until after the instant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.verify.audit import Check, NotApplicableError, rule
from simkit.verify.audited_run import TASK, AuditedRun, RecordedCapacity, beside
from simkit.verify.numbers import Floats, Ints

_INSTANT = ("machine_id", "time_s", "allocated", "capacity", "started")
"""Columns of instants at which a machine holds too much."""
_AT_ONCE = 500_000
"""Starts of a stretch of time that is swept at once."""


@rule
def check_capacity(run: AuditedRun, check: Check) -> None:
    """Allocated <= capacity on each machine, except for draining work."""
    check.examined = run.rows_of("allocations")
    steps = run.capacity_steps
    for event in run.malformed_capacity_events:
        check.add("the capacity event is malformed", event)
    rows = _facts(run).filter(
        pl.col("machine_id").is_in(list(run.capacity)),
        pl.col("start_time_s").is_not_null(),
        pl.col("end_time_s").is_null() | (pl.col("end_time_s") >= pl.col("start_time_s")),
    )
    for resource in run.requested:
        index = run.resources.index(resource)
        amounts = rows.with_columns(
            (pl.col("count") * pl.col(f"one_{resource}")).alias("amount")
        ).filter(pl.col("amount") > 0)
        for begin, end, some in _stretches(amounts):
            sweep = _Sweep(some, steps, index, run.together)
            for instants in (sweep.overfull(), sweep.overfull_at_zero_length()):
                inside = instants.filter(pl.col("time_s").is_between(begin, end, closed="left"))
                check.add_rows(
                    "more is allocated than the capacity", _with_starters(inside, some, resource)
                )
    # Nothing starts on a machine that is absent or down, unless it requests nothing.
    asking = rows.filter(pl.any_horizontal(pl.col(f"one_{r}") > 0 for r in run.requested))
    empty = np.array([not any(step.capacity) for step in steps], dtype=bool)
    if not empty.any():
        return
    ids, times = (np.array([getattr(s, n) for s in steps]) for n in ("machine_id", "time_s"))
    at = _last_at(asking["machine_id"].to_numpy(), asking["start_time_s"].to_numpy(), ids, times)
    check.add_rows("starts on a machine that is absent or down", asking.filter(empty[at]))


def _facts(run: AuditedRun) -> pl.DataFrame:
    """Return the allocations with what their tasks request; of a large run no other column."""
    if not run.is_large:
        return run.known
    requests = [f"one_{name}" for name in run.requested]
    times = ("start_time_s", "end_time_s")
    own = [name for name in run.together if name not in times]
    return run.known_only(*own, *times, "machine_id", "count", "gang", *requests)


def _stretches(rows: pl.DataFrame) -> Iterator[tuple[float, float, pl.DataFrame]]:
    """Yield stretches of time, from and until, with the rows that hold something in them."""
    if rows.height <= _AT_ONCE:
        yield -inf, inf, rows
        return
    start, end = rows["start_time_s"].to_numpy(), rows["end_time_s"].fill_null(inf).to_numpy()
    cuts = np.unique(np.sort(start)[_AT_ONCE::_AT_ONCE]).tolist()
    for begin, until in pairwise([-inf, *cuts, inf]):
        yield begin, until, rows.filter(pl.Series((start < until) & (end >= begin)))


class _Sweep:
    """The use of one resource on all machines, instant by instant.

    I instants, sorted by (machine, time); several changes at one instant are one.
    """

    def __init__(
        self,
        rows: pl.DataFrame,
        steps: list[RecordedCapacity],
        resource: int,
        together: list[str],
    ) -> None:
        start = rows["start_time_s"].to_numpy()
        end = rows["end_time_s"].fill_null(np.inf).to_numpy()
        amount, machine = rows["amount"].to_numpy(), rows["machine_id"].to_numpy()
        self.brief = rows.with_row_index("row").filter(
            pl.col("start_time_s") == pl.col("end_time_s")
        )
        self._together = together
        lasting = end > start
        held = np.where(lasting, amount, 0.0)
        zeros = np.zeros(len(steps))
        machines = np.concatenate([machine, machine, [s.machine_id for s in steps]])
        times = np.concatenate([start, end, [s.time_s for s in steps]])
        change = np.concatenate([held, -held, zeros])
        started = np.concatenate([held, np.zeros(len(end)), zeros])
        self.machine, self.time, sums = _by_instant(machines, times, change, started)
        self.started = sums[1]
        self.used = _running_sum(self.machine, sums[0])
        # Every machine has a step at minus infinity, so the step in force always exists.
        ids = np.array([s.machine_id for s in steps])
        in_force = _last_at(self.machine, self.time, ids, np.array([s.time_s for s in steps]))
        self.capacity = np.array([s.capacity[resource] for s in steps])[in_force]
        self.forced = np.array([s.forced for s in steps], dtype=bool)[in_force]

    def overfull(self) -> pl.DataFrame:
        """Return the instants at which a machine holds more than it has.

        After a drain, running tasks may exceed the capacity, but nothing may start.
        """
        over = (self.used > self.capacity) & (self.forced | (self.started > 0))
        over &= np.isfinite(self.time)
        columns = (self.machine, self.time, self.used, self.capacity, self.started)
        return pl.DataFrame(dict(zip(_INSTANT, columns, strict=True))).filter(over)

    def overfull_at_zero_length(self) -> pl.DataFrame:
        """Return the same for allocations of length zero, next to what runs on."""
        # The instances of a gang run together; those of a bag may have started in different rounds.
        alone = pl.when("gang").then(0).otherwise(pl.col("row"))
        brief = self.brief.group_by(
            "machine_id", *self._together, alone.alias("alone"), maintain_order=True
        ).agg(pl.col("amount").sum())
        machine, time = brief["machine_id"].to_numpy(), brief["start_time_s"].to_numpy()
        amount = brief["amount"].to_numpy()
        at = _last_at(machine, time, self.machine, self.time)
        used = self.used[at] - self.started[at] + amount
        capacity = self.capacity[at]
        columns = (machine, time, used, capacity, amount)
        return pl.DataFrame(dict(zip(_INSTANT, columns, strict=True))).filter(used > capacity)


def _by_instant(machine: Ints, time: Floats, *values: Floats) -> tuple[Ints, Floats, list[Floats]]:
    """Return the distinct (machine, time) in order, and each of `values` summed over them."""
    order = np.lexsort((time, machine))
    machine, time = machine[order].astype(np.int64), time[order]
    if not len(order):
        return machine, time, [value[order] for value in values]
    new = np.flatnonzero(
        np.concatenate(([True], (machine[1:] != machine[:-1]) | (time[1:] != time[:-1])))
    )
    return machine[new], time[new], [np.add.reduceat(value[order], new) for value in values]


def _running_sum(machine: Ints, change: Floats) -> Floats:
    """Return the sum of changes so far on the same machine; `machine` is sorted."""
    total = np.cumsum(change)
    first = np.searchsorted(machine, machine, side="left")
    return np.asarray(total - (total - change)[first])


def _last_at(machine: Ints, time: Floats, key_machine: Ints, key_time: Floats) -> Ints:
    """Return, for each (machine, time), the index of the last of the sorted keys up to it."""
    keys = len(key_machine)
    # A stable sort with the keys first puts every key before the queries equal to it.
    order = np.lexsort((np.concatenate([key_time, time]), np.concatenate([key_machine, machine])))
    latest = np.cumsum(order < keys) - 1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = latest
    return found[keys:]


def _with_starters(instants: pl.DataFrame, rows: pl.DataFrame, resource: str) -> pl.DataFrame:
    """Add the name of the resource, and a task that starts at that machine and instant, if any."""
    starters = rows.select(
        "machine_id", pl.col("start_time_s").alias("time_s"), "job_id", "task_id"
    ).unique(["machine_id", "time_s"], keep="last", maintain_order=True)
    named = instants.with_columns(pl.lit(resource).alias("resource"))
    return named.join(starters, on=["machine_id", "time_s"], how="left", maintain_order="left")


@rule
def check_machines(run: AuditedRun, check: Check) -> None:
    """Every allocation is on a machine of the cluster."""
    check.examined = run.allocations.height
    strange = ~pl.col("machine_id").is_in(list(run.capacity)).fill_null(False)
    check.add_rows("the cluster has no such machine", run.allocations.filter(strange))


@rule
def check_partitions(run: AuditedRun, check: Check) -> None:
    """Jobs run on machines of their partition, within its limits."""
    if not run.partitions:
        raise NotApplicableError("the cluster has no partitions")
    tasks = tasks_by_partition(run)
    rows = run.allocations.join(tasks, on=TASK, maintain_order="left")
    check.examined = rows.height
    check.add_rows("no partition admits this job", rows.filter(pl.col("position") < 0))
    for number, partition in enumerate(run.partitions):
        inside = rows.filter(pl.col("position") == number)
        elsewhere = inside.filter(~pl.col("machine_id").is_in(machines_of(run, partition)))
        check.add_rows("runs on a machine outside its partition", elsewhere)
    if _ROUTED in run.jobs.columns:
        names = [*(partition["name"] for partition in run.partitions), ""]
        jobs = run.jobs.join(
            tasks.group_by("job_id").agg(pl.col("position").first()), on="job_id", how="left",
            maintain_order="left",
        )  # fmt: skip
        first = pl.col("position").replace_strict([*range(len(names) - 1), -1], names)
        wrong = jobs.filter(pl.col(_ROUTED).ne_missing(first))
        check.add_rows("said to be in another partition than the first that admits it", wrong)


_ROUTED: Final = "site_partition"


def limits_users(run: AuditedRun) -> bool:
    """Return whether a partition limits how many jobs of a user run."""
    return any(p.get("max_running_per_user") is not None for p in run.partitions)


def machines_of(run: AuditedRun, partition: dict[str, Any]) -> list[int]:
    """Return the ids of the partition's machines; without a list it has all."""
    machines = partition.get("machines")
    return list(run.capacity) if machines is None else list(machines)


def tasks_by_partition(run: AuditedRun) -> pl.DataFrame:
    """Return the tasks with the columns that decide about partitions.

    Columns: `TASK`, ``instances``, ``gang``, the resources, ``position``, the first partition that
    admits all tasks of the job, or -1, and ``known``: whether the tables decide it. A partition is
    open to jobs whose queue or partition number it lists; one without such lists to every job. It
    admits a task within its limits that its empty machines can hold. Of the requested times of
    several tasks only the first is recorded: where time is limited, their position is the one that
    the run names. So it is where a limit of the waiting jobs of a user and reservations meet: a
    reserved job may have started at the instant of a submission, before it.
    """
    first = run.resources[0]
    demand = pl.col(first) * pl.col("instances") if first in run.requested else pl.lit(0.0)
    jobs = run.only("jobs", "job_id", "queue", "partition", "requested_time_s", _ROUTED)
    jobs = jobs.rename({"requested_time_s": "limit_s"})
    tasks = run.only("tasks", *TASK, "instances", "gang", *run.requested)
    tasks = tasks.with_columns(demand.alias("demand"))
    one_each = run.is_large and run.alike
    if not one_each:
        jobs = jobs.unique("job_id", keep="first")
        tasks = tasks.unique(TASK, keep="first", maintain_order=True)
    tasks = beside(tasks, jobs, ["job_id"])

    def of_job(task: pl.Expr) -> pl.Expr:
        """Return whether it is true of all tasks of the job."""
        return task if one_each else task.all().over("job_id")

    room_anywhere = pl.lit(value=False)
    partitions = run.partitions or [{"machines": None}]
    admitted = []
    for number, partition in enumerate(partitions):
        holds = f"room {number}"
        tasks = tasks.with_columns(_room_for(run, partition, tasks).alias(holds))
        room = of_job(pl.col(holds)) & _is_open(partition)
        admitted.append(room & of_job(~_over_limits(partition)))
        room_anywhere = room_anywhere | room
    timed = any(partition.get("max_time_s") is not None for partition in partitions)
    alone = pl.lit(value=True) if one_each else pl.len().over("job_id") == 1
    known = alone | (not timed) | ~room_anywhere
    first_of = [pl.when(fits).then(pl.lit(number)) for number, fits in enumerate(admitted)]
    position = pl.coalesce(*first_of, pl.lit(-1))
    if any(partition.get("max_waiting_per_user") is not None for partition in partitions):
        if "reserved" in run.tables["events"]["kind"]:
            known = pl.lit(value=False)
        fits = tasks.select("job_id", *(e.alias(str(n)) for n, e in enumerate(admitted)))
        tasks = tasks.join(_by_waiting_jobs(run, partitions, fits), on="job_id", how="left")
        position = pl.col("by_waiting")
    tasks = tasks.with_columns(position=position, known=known)
    if _ROUTED in tasks.columns:
        names = [str(partition["name"]) for partition in partitions]
        said = pl.col(_ROUTED).replace_strict(names, range(len(names)), default=-1)
        tasks = tasks.with_columns(position=pl.when("known").then("position").otherwise(said))
    return tasks.select(*TASK, "instances", "gang", *run.requested, "position", "known")


def _by_waiting_jobs(
    run: AuditedRun, partitions: list[dict[str, Any]], fits: pl.DataFrame
) -> pl.DataFrame:
    """Return ``job_id`` and ``by_waiting``: the first partition that admits it, or -1.

    A job waits from its submission to its first start; what starts or ends at an instant does so
    after the submissions of that instant. A user is only refused where as many of their jobs wait
    as the partition allows.

    Args:
        run: the run.
        partitions: the partitions.
        fits: ``job_id`` and for each partition whether it admits the job but for the users' limit.
    """
    left = pl.coalesce("start_time_s", "end_time_s", "left_s").fill_null(inf)
    jobs = run.jobs.join(run.left_unstarted, on="job_id", how="left", maintain_order="left")
    jobs = jobs.unique("job_id", keep="first").sort("submit_time_s", "job_id")
    taken = (pl.col("status") != "rejected") | pl.col("left_s").is_not_null()
    jobs = jobs.select("job_id", "submit_time_s", USER, left, taken)
    rows = jobs.join(fits.unique("job_id", keep="first"), on="job_id", maintain_order="left")
    waiting: dict[tuple[int, Any], list[float]] = defaultdict(list)
    found = []
    for job, submit, user, leaves, taken, *admits in rows.iter_rows():
        position = -1
        for number in (n for n, fit in enumerate(admits) if fit):
            most = partitions[number].get("max_waiting_per_user")
            ends = waiting[number, user]
            while ends and ends[0] < submit:
                heappop(ends)
            if user is None or most is None or len(ends) < most:
                position = number
                break
        if taken and position >= 0:
            heappush(waiting[position, user], leaves)
        found.append((job, position))
    schema: dict[str, Any] = {"job_id": rows.schema["job_id"], "by_waiting": pl.Int32}
    return pl.DataFrame(found, schema=schema, orient="row")


USER: Final = pl.when(~pl.col("user").cast(pl.String).is_in(["-1", ""])).then("user").alias("user")
"""Null for jobs without a user, who are not limited."""


def _is_open(partition: dict[str, Any]) -> pl.Expr:
    """Return whether a partition is open to a job's queue or partition in the trace."""
    is_open = pl.lit(not (partition.get("queues") or partition.get("partitions")))
    for column, key in (("queue", "queues"), ("partition", "partitions")):
        names = [str(name) for name in partition.get(key) or ()]
        if names:
            is_open = is_open | pl.col(column).cast(pl.String).is_in(names).fill_null(value=False)
    return is_open


def _over_limits(partition: dict[str, Any]) -> pl.Expr:
    """Return whether a task asks for more than the partition allows; null is no limit."""
    over = pl.lit(value=False)
    for column, key in (("limit_s", "max_time_s"), ("demand", "max_processors")):
        if partition.get(key) is not None:
            over = over | (pl.col(column) > partition[key]).fill_null(value=False)
    return over


def _room_for(run: AuditedRun, partition: dict[str, Any], tasks: pl.DataFrame) -> pl.Series:
    """Return whether each task fits empty machines: gangs as a whole, bags one by one."""
    machines = [run.capacity[m] for m in machines_of(run, partition) if m in run.capacity]
    columns = [run.resources.index(name) for name in run.requested]
    capacity = np.array(machines, dtype=np.float64).reshape(len(machines), len(run.resources))
    sorts, each = np.unique(capacity[:, columns], axis=0, return_counts=True)
    needed = np.where(tasks["gang"], tasks["instances"], 1).astype(np.float64)
    asked = tasks.select(pl.col(run.requested).cast(pl.Float64)).to_numpy()
    places = np.zeros(tasks.height)
    for has, machines_of_sort in zip(sorts, each, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(asked > 0, np.floor(has / asked), np.inf)
        places += most.min(axis=1, initial=np.inf) * machines_of_sort
    return pl.Series(places >= needed)


@rule
def check_limits(run: AuditedRun, check: Check) -> None:
    """Nothing happens after the simulated time, no task restarts too often."""
    seconds, retries = run.scenario.limits.simulated_time, run.scenario.limits.retries
    if seconds is None and retries is None and run.own_retries is None:
        raise NotApplicableError("neither the simulated time nor retries are limited")
    check.examined = run.rows_of("allocations")
    _check_own_retries(run, check)
    if retries is not None:
        often = _where(run, pl.col("attempt") > retries + 1, "attempt")
        if not run.complete:  # what runs may have started in the last decision before the stop
            often = often.filter(pl.col("outcome") != "running")
        check.add_rows(f"attempt after more than {retries} retries", often)
    if seconds is not None and run.rows_of("jobs"):
        first = run.only("jobs", "submit_time_s")["submit_time_s"].min()
        last = float(first) + seconds + 2.0**-20  # type: ignore[arg-type]
        times = pl.max_horizontal("start_time_s", "end_time_s")
        late = _where(run, times > last, "start_time_s", "end_time_s")
        check.add_rows("after the end of the simulated time", late)


def _where(run: AuditedRun, wrong: pl.Expr, *columns: str) -> pl.DataFrame:
    """Return the allocations that are wrong by these columns, with all columns."""
    rows = run.only("allocations", *columns).select(wrong.alias("wrong"))["wrong"]
    return run.allocations.filter(rows) if rows.any() else run.tables.head("allocations")


def _check_own_retries(run: AuditedRun, check: Check) -> None:
    """Check that tasks with retries of their own are killed when the work of the last is lost."""
    if run.own_retries is None:
        return
    rows = run.allocations.join(run.own_retries, on=TASK, maintain_order="left")
    again = rows.filter(pl.col("attempt") > pl.col("allowed") + 1)
    check.add_rows("attempt after all retries of the task", again)
    lost = rows.filter(pl.col("outcome") == "lost", pl.col("attempt") > pl.col("allowed"))
    check.add_rows("its work was lost after all its retries, but it was not killed", lost)
    if not run.policy_may_kill:
        instants = pl.Series(
            [event.row["time_s"] for event in run.capacity_events], dtype=pl.Float64
        )
        alone = run.given_up.filter(~pl.col("time_s").is_in(instants.implode()))
        check.add_rows("killed at its last attempt, but no capacity changes then", alone)
