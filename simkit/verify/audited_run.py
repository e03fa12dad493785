"""The run under audit: its folder, and the derived tables that several checks use.

Allocations become pieces of work: what one unit did without a break. A gang moves as one, so it is
one unit however many instances and machines it has. Every instance of a bag is a unit. The pieces
of a unit follow each other: it is suspended and resumed, or lost and started over as the next
attempt. A bag whose instances each ran once and finished keeps its rows as they are (*quiet*
rows): a trace of millions of instances does not need a row for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import polars as pl

from simkit.verify.audit import Floats, on_grid
from simkit.verify.folder import RunFolder
from simkit.verify.input_tasks import TASK_TABLES, read_input_tasks
from simkit.verify.inputs import InputTasks

_Made = TypeVar("_Made")
TASK = ["job_id", "task_id"]
"""The key of a task."""
UNIT = [*TASK, "instance"]
"""The key of a unit."""
_AT_ONCE = "at_once"
_NUMBER = "number of the row"
_SUSPENDED_AT_ONCE = (pl.col("start_time_s") == pl.col("end_time_s")) & (
    pl.col("outcome") == "suspended"
)
POWER = "power"
"""The recorded cause of capacity that changes with the power."""
_MUCH_DENSER = 1e4
"""Factor of the load from which on different submit times may become equal."""
_OF_SEGMENTS = (
    *TASK, "attempt", "start_time_s", "count", "end_time_s", "last_end_s", "open", "rows",
    "outcome", "outcomes", "instances", "task_status", "job_status", "requested_time_s",
    "trace_run_time_s", "tasks_of_job",
)  # fmt: skip
"""Columns of `segments`."""
_FACTS = (
    "gang", "task_status", "job_status", "requested_time_s", "trace_run_time_s", "tasks_of_job",
)  # fmt: skip


class CapacityEvent(NamedTuple):
    """An event of kind ``capacity`` or ``switched``."""

    row: dict[str, Any]
    """The row of the table of events."""
    detail: dict[str, Any]
    """Its parsed JSON object; empty if the detail is something else."""

    @property
    def by_power(self) -> bool:
        """Whether the power caused it."""
        return self.detail.get("cause") == POWER


@dataclass(frozen=True)
class RecordedCapacity:
    """The capacity of a machine from an instant on."""

    machine_id: int
    time_s: float
    capacity: tuple[float, ...]
    """One number per resource, in the order of the cluster."""
    forced: bool
    """True: running tasks must make room (requeue, suspend); False: they may end first (drain)."""


class AuditedRun(RunFolder):
    """A run folder with what follows from its tables; each derived table is made once."""

    @cached_property
    def known(self) -> pl.DataFrame:
        """The allocations whose job and task exist, with facts of these.

        Added columns: ``instances``, ``gang``, ``task_status``, ``submit_time_s``, ``job_status``,
        ``requested_time_s``, ``trace_run_time_s``, ``tasks_of_job`` and for each resource
        ``one_<resource>`` (the request of one instance). Where tasks are suspended at the instant
        of their start, ``at_once`` numbers those pieces of each; it is -1 of others.
        """
        requests = [pl.col(r).cast(pl.Float64).alias(f"one_{r}") for r in self.requested]
        number = pl.lit(1) if self.alike else pl.len().over("job_id")
        tasks = self.tasks.select(
            *TASK, "instances", "gang", pl.col("status").alias("task_status"), *requests,
            number.cast(pl.Int64).alias("tasks_of_job"),
        )  # fmt: skip
        jobs = self.jobs.select(
            "job_id", "submit_time_s", "requested_time_s", "trace_run_time_s",
            pl.col("status").alias("job_status"),
        )  # fmt: skip
        if self.alike:
            begun = self.tasks["start_time_s"].is_not_null()
            facts = (tasks.filter(begun).drop(TASK), jobs.filter(begun).drop("job_id"))
            rows = pl.concat([self.allocations, *facts], how="horizontal")
        else:
            tasks, jobs = tasks.unique(TASK, keep="first"), jobs.unique("job_id", keep="first")
            rows = self.allocations.join(tasks, on=TASK, maintain_order="left")
            rows = rows.join(jobs, on="job_id", maintain_order="left")
        return _with_pauses_at_once(rows) if self._pauses_at_once else rows

    def known_only(self, *columns: str) -> pl.DataFrame:
        """Return some columns of `known`, those of allocations and tasks alone."""
        if not self.is_large or self._pauses_at_once:
            return self.known.select(columns)
        rows = self.only("allocations", *dict.fromkeys((*TASK, *columns)))
        requests = {f"one_{r}": r for r in self.requested}
        facts = ("start_time_s", "instances", "gang", *requests.values())
        tasks = self.only("tasks", *TASK, *facts)
        of_tasks = [name for name in columns if name not in rows.columns]
        wanted = [pl.col(requests.get(name, name)).alias(name) for name in of_tasks]
        if self.alike:
            started = tasks.filter(pl.col("start_time_s").is_not_null())
            return rows.hstack(started.select(wanted)).select(columns)
        once = tasks.select(*TASK, *wanted).unique(TASK, keep="first")
        rows = rows.join(once, on=TASK, maintain_order="left")
        jobs = self.only("jobs", "job_id")
        return rows.join(jobs, on="job_id", how="semi", maintain_order="left").select(columns)

    @cached_property
    def alike(self) -> bool:
        """Whether jobs, tasks and those that started have one row each, in the same order."""
        jobs, tasks = self.only("jobs", "job_id"), self.only("tasks", *TASK, "start_time_s")
        same = jobs["job_id"].equals(tasks["job_id"], null_equal=False)
        if not same or jobs["job_id"].is_duplicated().any():
            return False
        started = tasks.filter(pl.col("start_time_s").is_not_null()).select(TASK)
        return started.equals(self.only("allocations", *TASK), null_equal=False)

    def grouped(
        self, rows: pl.DataFrame, key: list[str], aggregates: Iterable[pl.Expr]
    ) -> pl.DataFrame:
        """Return aggregates of the rows of each key, in the order of the first of each.

        Where every row is known to be of another job, numbers that ascend stand for the keys:
        polars groups these at once.
        """
        if not self._each_of_another_job(rows):
            return rows.group_by(key, maintain_order=True).agg(aggregates)
        numbered = rows.with_row_index(_NUMBER)
        found = numbered.group_by(_NUMBER, maintain_order=True).agg(aggregates)
        return rows.select(key).hstack(found.drop(_NUMBER))

    def _each_of_another_job(self, rows: pl.DataFrame) -> bool:
        """Return whether no two rows are of one job, as far as that is seen without a search."""
        ids = rows["job_id"]
        if not ids.null_count() and (ids > ids.shift(1)).all():
            return True
        names = ("jobs", "allocations") if self.alike else ()
        return any(ids.equals(self.only(name, "job_id")["job_id"]) for name in names)

    @cached_property
    def _pauses_at_once(self) -> bool:
        rows = self.only("allocations", "start_time_s", "end_time_s", "outcome")
        return bool(rows.select(_SUSPENDED_AT_ONCE.any()).item())

    @cached_property
    def together(self) -> list[str]:
        """The columns of `known` that rows share which belong to one start of a gang."""
        at_once = [_AT_ONCE] if self._pauses_at_once else []
        return [*TASK, "attempt", "start_time_s", *at_once]

    @cached_property
    def left_unstarted(self) -> pl.DataFrame:
        """The jobs that were rejected after they had waited: ``job_id``, ``left_s``, ``reason``.

        Its event says when each left; the rule on events checks their number.
        """
        events = self.tables["events"].filter(kind="rejected").unique("job_id", keep="first")
        rejected = self.only("jobs", "job_id", "status", "reason").filter(
            pl.col("status") == "rejected", pl.col("reason").str.contains("^(late|policy): ")
        )
        return rejected.unique("job_id", keep="first").join(
            events.select("job_id", pl.col("time_s").alias("left_s")), on="job_id",
            maintain_order="left",
        ).select("job_id", "left_s", "reason")  # fmt: skip

    @property
    def released(self) -> pl.Expr:
        """When each job was released: of the table of jobs; without releases, at its submission.

        A job that is rejected at its submission has no release, and the submission stands for it.
        """
        if not self.has_releases:
            return pl.col("submit_time_s")
        refused = pl.when(pl.col("status") == "rejected").then("submit_time_s")
        return pl.coalesce("release_time_s", refused)

    @property
    def has_releases(self) -> bool:
        """Whether jobs may have to wait for their release."""
        return "release_time_s" in self.columns_of("jobs")

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row per (gang, attempt, start): ``count`` instances that start together.

        Further columns: the first and last of their ends (``end_time_s``, ``last_end_s``; null
        while one runs), ``outcomes`` (number of different ones) and those of `known`.
        """
        end = pl.col("end_time_s")
        rows = self.known.filter("gang", pl.col("start_time_s").is_not_null())
        if self.alike or not rows.select(pl.struct(self.together).is_duplicated().any()).item():
            alone = rows.with_columns(
                pl.lit(1, pl.UInt32).alias("rows"), pl.lit(1, pl.UInt32).alias("outcomes"),
                end.alias("last_end_s"), end.is_null().cast(pl.UInt32).alias("open"),
            )  # fmt: skip
            return alone.select(_OF_SEGMENTS)
        return (
            rows.group_by(self.together, maintain_order=True)
            .agg(
                pl.col("count").sum(),
                pl.when(end.is_null().any()).then(None).otherwise(end.min()).alias("end_time_s"),
                end.max().alias("last_end_s"),
                end.is_null().sum().alias("open"),
                pl.len().alias("rows"),
                pl.col("outcome").first(),
                pl.col("outcome").n_unique().alias("outcomes"),
                pl.col(
                    "instances", "task_status", "job_status", "requested_time_s",
                    "trace_run_time_s", "tasks_of_job",
                ).first(),
            )
            .select(_OF_SEGMENTS)
        )  # fmt: skip

    @cached_property
    def pieces(self) -> pl.DataFrame:
        """One row per piece of work, sorted by unit and start; a gang is instance 0.

        Columns: `UNIT`, ``count`` (instances from `instance` on that are in the row: 1, all of a
        gang, or those of a quiet row), ``quiet`` (each instance of the task finished at its first
        attempt), ``gang``, ``attempt``, ``start_time_s``, ``end_time_s``, ``outcome``,
        ``task_status``, ``job_status``, ``requested_time_s``, ``trace_run_time_s``,
        ``tasks_of_job``.
        """
        times = ("start_time_s", "end_time_s")
        columns = (*UNIT, "count", "quiet", *_FACTS, "attempt", *times, "outcome")
        gangs = self.segments.with_columns(
            pl.lit(0, pl.Int64).alias("instance"),
            gang=pl.lit(value=True), quiet=pl.lit(value=False),
        ).select(columns)  # fmt: skip
        bags = self.known.filter(
            ~pl.col("gang"),
            pl.col("start_time_s").is_not_null(),
            pl.col("count").is_between(1, pl.col("instances")),
        )
        once = (pl.col("attempt") == 1) & (pl.col("outcome") == "finished")
        once &= pl.col("end_time_s").is_not_null()
        bags = bags.with_columns(once.fill_null(value=False).all().over(TASK).alias("quiet"))
        quiet = bags.filter("quiet").with_columns(pl.col("first_instance").alias("instance"))
        after = pl.col("first_instance") + pl.col("count")
        single = (
            bags.filter(~pl.col("quiet"))
            .with_columns(pl.int_ranges("first_instance", after).alias("instance"))
            .explode("instance")
            .with_columns(pl.lit(1, pl.Int64).alias("count"))
        )
        last = pl.col("end_time_s").fill_null(float("inf"))
        moving = pl.concat([gangs, single.select(columns)])
        moving = moving.sort(*UNIT, "start_time_s", last, maintain_order=True)
        return pl.concat([moving, quiet.select(columns)])

    @cached_property
    def work(self) -> pl.DataFrame:
        """One row per (unit, attempt) that has ended: its executed time and its last outcome.

        ``redone_s`` is the time in which it repeated work, or restarted, after it was stopped for
        lack of power; ``executed_s`` does not contain it. Attempts with a piece that still runs
        are left out: their time is not known.
        """
        span = pl.col("end_time_s") - pl.col("start_time_s")
        facts = (
            span.sum().alias("executed_s"),
            pl.col("end_time_s").is_null().any().alias("open"),
            pl.col("start_time_s").first(),
            pl.col("end_time_s", "outcome").last(),
            pl.col("count", *_FACTS).first(),
        )
        pieces = self.pieces.filter(~pl.col("quiet"))
        moving = self.grouped(pieces, [*UNIT, "attempt"], facts).filter(~pl.col("open"))
        moving = moving.drop("open")
        quiet = self.pieces.filter("quiet").with_columns(span.alias("executed_s"))
        rows = pl.concat([moving, quiet.select(moving.columns)])
        if self.redone is None:
            return rows.with_columns(pl.lit(0.0).alias("redone_s"))
        redone = self.redone.drop("count")
        rows = rows.join(redone, on=[*UNIT, "attempt"], how="left", maintain_order="left")
        again = pl.col("redone_s").fill_null(0.0)
        return rows.with_columns(again, (pl.col("executed_s") - again).alias("executed_s"))

    @cached_property
    def redone(self) -> pl.DataFrame | None:
        """``redone_s`` of each attempt that was stopped for lack of power, by `redone_s`.

        Columns: `UNIT`, ``attempt``, ``count`` (instances of the unit), ``redone_s``. None if the
        scenario has no checkpoints.
        """
        saved = self.setting("power", "supply", "checkpoints")
        if saved is None:
            return None
        stopped = pl.col("end_time_s").is_in(pl.Series(self.power_instants).implode())
        stopped &= pl.col("outcome") == "suspended"
        rows = self.pieces.filter(~pl.col("quiet"), pl.col("end_time_s").is_not_null())
        rows = rows.with_columns(
            (pl.col("end_time_s") - pl.col("start_time_s")).alias("length_s"),
            stopped.alias("stopped"),
        ).filter(pl.col("stopped").any().over(*UNIT, "attempt"))
        key = [*UNIT, "attempt", "count"]
        found = [
            (
                *names,
                redone_s(group.select("length_s", "stopped").rows(), saved.every, saved.restart),
            )
            for names, group in rows.group_by(key, maintain_order=True)
        ]
        schema = {name: rows.schema[name] for name in key} | {"redone_s": pl.Float64}
        return pl.DataFrame(found, schema=schema, orient="row")

    @cached_property
    def capacity_events(self) -> list[CapacityEvent]:
        """The events of kind ``capacity`` in the order of the table."""
        events = []
        for row in self.tables["events"].filter(pl.col("kind") == "capacity").iter_rows(named=True):
            try:
                detail = json.loads(row["detail"])
            except (TypeError, ValueError):
                detail = None
            events.append(CapacityEvent(row, detail if isinstance(detail, dict) else {}))
        return events

    @cached_property
    def switches(self) -> dict[int, list[CapacityEvent]]:
        """Machine → its events of kind ``switched``, in the order of the table.

        The detail of a machine is ``{"state": "on" | "booting" | "shutting down" | "off"}``, that
        of a pool ``{"on": processors, "booting": processors}``.
        """
        found: dict[int, list[CapacityEvent]] = {}
        rows = self.tables["events"].filter(pl.col("kind") == "switched")
        for row in rows.iter_rows(named=True):
            event = CapacityEvent(row, json.loads(row["detail"]))
            found.setdefault(int(row["machine_id"]), []).append(event)
        return found

    @cached_property
    def power_instants(self) -> Floats:
        """The instants at which capacity changes with the power, sorted."""
        return np.array(sorted({e.row["time_s"] for e in self.capacity_events if e.by_power}))

    @cached_property
    def capacity_steps(self) -> list[RecordedCapacity]:
        """The capacity of machines over time, sorted by machine and time.

        Every machine begins with its capacity at minus infinity. A capacity event holds
        ``{"capacity": {resource: total}, "running": "drain" | "requeue" | "suspend"}``; resources
        that it omits stay as they are, and so does an absent ``running``.
        """
        return [step for of_machine in self._steps[0].values() for step in of_machine]

    @property
    def malformed_capacity_events(self) -> list[dict[str, Any]]:
        """Rows of capacity events that are not as `capacity_steps` describes them."""
        return self._steps[1]

    @cached_property
    def _steps(self) -> tuple[dict[int, list[RecordedCapacity]], list[dict[str, Any]]]:
        steps = {
            machine: [RecordedCapacity(machine, -np.inf, capacity, False)]
            for machine, capacity in sorted(self.capacity.items())
        }
        malformed = []
        for row, detail in self.capacity_events:
            try:
                of_machine = steps[row["machine_id"]]
                of_machine.append(self._next_step(of_machine[-1], row["time_s"], detail))
            except (KeyError, TypeError, ValueError, AttributeError):
                malformed.append(row)
        for of_machine in steps.values():
            of_machine.sort(key=lambda step: step.time_s)
        return steps, malformed

    def _next_step(
        self, before: RecordedCapacity, time_s: float, detail: dict[str, Any]
    ) -> RecordedCapacity:
        totals = detail["capacity"]
        capacity = tuple(
            float(totals.get(r, old))
            for r, old in zip(self.resources, before.capacity, strict=True)
        )
        running = detail.get("running")
        forced = before.forced if running is None else running != "drain"
        # Only a loss of capacity forces tasks out; capacity that returns finds them as they are.
        forced &= any(new < old for new, old in zip(capacity, before.capacity, strict=True))
        return RecordedCapacity(before.machine_id, float(time_s), capacity, forced)

    def capacity_at(self, machine: int, times: Floats) -> Floats:
        """Return (T, R): the recorded capacity of a machine, changes of each instant included."""
        steps = self._steps[0][machine]
        at = np.searchsorted([step.time_s for step in steps], times, side="right") - 1
        return np.array([step.capacity for step in steps])[at]

    @cached_property
    def power(self) -> dict[str, Floats]:
        """The columns of the table "power", and ``seconds``, the length of each row."""
        table = self.tables["power"]
        found = {name: table[name].to_numpy() for name in table.columns}
        return {**found, "seconds": found["end_s"] - found["start_s"]}

    def once(self, make: Callable[[AuditedRun], _Made]) -> _Made:
        """Return what a function or class makes of the run, made when it is first asked for."""
        if make not in self._made:
            self._made[make] = make(self)
        found: _Made = self._made[make]
        return found

    @cached_property
    def _made(self) -> dict[Callable[[AuditedRun], Any], Any]:
        return {}

    @cached_property
    def one_gang_each(self) -> bool:
        """Whether every job is one task whose instances start together."""
        tasks, jobs = self.only("tasks", "job_id", "gang", "instances"), self.only("jobs", "job_id")
        if not (tasks["gang"] | (tasks["instances"] == 1)).all():
            return False
        ids, others = jobs["job_id"].sort(), tasks["job_id"].sort()
        return ids.equals(others) and ids.n_unique() == len(ids)

    @cached_property
    def input_tasks(self) -> InputTasks:
        """The tasks of the input, read again."""
        return read_input_tasks(self)

    @cached_property
    def in_order(self) -> pl.DataFrame | None:
        """The ids of the jobs in the order of the workload: ``job_id``; None if it is not known.

        Jobs are in order of submission. Those of one instant are in the order of their ids, but for
        tables of tasks, where they are in the order of their first rows, and custom readers.
        """
        if not self.complete:
            return None
        kind = self.setting("workload", "type")
        if kind in TASK_TABLES and self.input_tasks.known:
            ids = self.input_tasks.tasks.select("job_id").unique(maintain_order=True)
            same = (
                ids.schema == self.jobs.select("job_id").schema and ids.height == self.jobs.height
            )
            return ids if same else None
        jobs = self.jobs.sort("submit_time_s", "job_id").select("job_id", "submit_time_s")
        numbered = jobs.schema["job_id"] == pl.Int64 or kind == "jobs"
        by_id = numbered and kind not in ("tasks", "alibaba2017", "plugin")
        # Very many times the load may put several instants together.
        workload = self.scenario.workload
        denser = workload.target_load is not None or workload.load > _MUCH_DENSER
        if not (by_id and not denser) and jobs["submit_time_s"].is_duplicated().any():
            return None
        return jobs.select("job_id")

    @property
    def run_times_may_differ(self) -> bool:
        """Whether instances of one task may have different run times."""
        kind = self.setting("workload", "type")
        if kind == "tasks":
            rows, gang = (self.setting("workload", name) for name in ("rows", "gang"))
            return rows == "instance" and not gang
        if kind == "alibaba2017" and self.input_tasks.known:
            return self.input_tasks.instance_times is not None
        return kind in ("alibaba2017", "plugin") or not self.manifest["inputs"]

    @property
    def retries_known(self) -> bool:
        """Whether it is known how often each task may start over: the input says, or cannot."""
        kinds = ("jobs", "tasks", "plugin")
        return self.input_tasks.known or self.setting("workload", "type") not in kinds

    @cached_property
    def own_retries(self) -> pl.DataFrame | None:
        """Columns `TASK` and ``allowed``: how often tasks with retries of their own may start over.

        The limit of the scenario is the most. None if the table of the input says nothing of it.
        """
        found, most = self.input_tasks, self.scenario.limits.retries
        if not found.known or not found.tasks["retries"].count():
            return None
        if any(found.tasks.schema[name] != self.tables.head("tasks").schema[name] for name in TASK):
            return None  # the rule "tasks" says so
        allowed = pl.col("retries") if most is None else pl.min_horizontal("retries", pl.lit(most))
        own = found.tasks.filter(pl.col("retries").is_not_null()).unique(TASK, keep="first")
        return own.select(*TASK, allowed.alias("allowed"))

    @cached_property
    def given_up(self) -> pl.DataFrame:
        """`TASK` and ``time_s`` of tasks that an event says were killed at their last attempt.

        Without the input, of those whose event gives this reason.
        """
        events = self.tables["events"].filter(pl.col("kind") == "killed")
        killed = events.select(*TASK, "time_s").unique(TASK, keep="first")
        if not self.retries_known:
            final = events.filter(pl.col("detail").str.contains("may not start over again"))
            return killed.join(final, on=TASK, how="semi", maintain_order="left")
        if self.own_retries is None:
            return killed.clear()
        last = self.allocations.join(self.own_retries, on=TASK).filter(
            pl.col("outcome") == "killed", pl.col("attempt") == pl.col("allowed") + 1
        )
        return killed.join(last, on=TASK, how="semi", maintain_order="left")


def _with_pauses_at_once(rows: pl.DataFrame) -> pl.DataFrame:
    """Number what is suspended at the instant of its start, and may go on at that instant."""
    brief = _SUSPENDED_AT_ONCE.fill_null(value=False)
    key = [*TASK, "attempt", "start_time_s", "machine_id", "first_instance"]
    nth = pl.int_range(pl.len()).over(*key, brief)
    return rows.with_columns(pl.when(brief).then(nth).otherwise(-1).alias(_AT_ONCE))


def previous(column: str | pl.Expr, key: list[str]) -> pl.Expr:
    """Return a column's value in the row before if that has the same key, by which rows are sorted.

    This is ``shift(1).over(key)``, at once for millions of keys.
    """
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in key)
    value = pl.col(column) if isinstance(column, str) else column
    return pl.when(same).then(value.shift(1))


def beside(
    rows: pl.DataFrame,
    facts: pl.DataFrame,
    on: list[str],
    *,
    how: Literal["left", "inner"] = "left",
) -> pl.DataFrame:
    """Join facts, one row a key, to rows; at once if both have the same keys in the same order."""
    if _same_keys(rows, facts, on):
        others = facts.drop(on)
        names = {name: f"{name}_right" for name in others.columns if name in rows.columns}
        return rows.hstack(others.rename(names))
    return rows.join(facts, on=on, how=how, maintain_order="left")


def without(rows: pl.DataFrame, others: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """Return the rows whose keys others lack; at once if all or none do as is seen."""
    if rows.is_empty() or others.is_empty():
        return rows
    if _same_keys(rows, others, on):
        return rows.clear()
    return rows.join(others, on=on, how="anti", maintain_order="left")


def _same_keys(rows: pl.DataFrame, others: pl.DataFrame, on: list[str]) -> bool:
    """Return whether both have the same keys in the same order; a null is the key of no row."""
    return rows.height == others.height and rows.select(on).equals(
        others.select(on), null_equal=False
    )


def redone_s(pieces: Iterable[tuple[float, bool]], every: float, restart: float) -> float:
    """Return the run time of one attempt that did not advance its work, in s.

    Work is saved at checkpoints. A stop loses the work since the last checkpoint, and continuing
    costs a restart before more work is done. If nothing has been saved, work starts over without
    a restart. A checkpoint stays valid if the restart is cut short.

    Args:
        pieces: (length in s, whether lack of power stopped it), one after another.
        every: work between two checkpoints, in s.
        restart: run time that continuing from a checkpoint costs, in s.
    """
    done = saved = again = 0.0
    for length, stopped in pieces:
        done += length
        if stopped:
            saved = max(saved, done // every * every)
            left = on_grid(saved - (restart if saved else 0.0))
            again += done - left
            done = left
    return again
