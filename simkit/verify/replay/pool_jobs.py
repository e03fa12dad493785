"""The jobs of a pool as a replay needs them: when they come, what they ask for, what is known."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf
from typing import Self

import numpy as np
import polars as pl

from simkit.verify.audited_run import AuditedRun
from simkit.verify.limits import tasks_by_partition
from simkit.verify.numbers import ENDLESS, Bools, Floats, Ints

_DEFAULT_PRICE = 0.5
"""Of one unit for a time unit, if the scenario has no prices."""


@dataclass(frozen=True)
class PoolJobs:
    """Jobs of one gang each on a pool of one resource; arrays of shape (J,)."""

    row: Ints
    """Row in the table of jobs."""
    rank: Ints
    """Place in the order of (submit time, job id), rejected jobs included."""
    rejected: Bools
    """Whether it never enters the queue."""
    submit: Floats
    run: Floats
    """From start to end in s: the true run time, or the requested time if the job is killed."""
    requested: Floats
    """NaN if there is no request."""
    estimate: Floats
    """At submission."""
    size: Floats
    """What all instances request together."""
    instances: Floats
    request: Floats
    """What one instance requests."""
    priority: Floats
    """Of its partition; larger goes first."""
    treatment: list[str | None]
    """How it is preempted, as its partition says: ``requeue``, ``cancel``, or None, not at all.
    Empty if no job is."""
    retries: Floats
    """How often it may start over; infinity without a limit of its own."""
    account: Ints
    """Number of the pair of user and partition whose running jobs are limited; -1: none."""
    most_running: Floats
    """How many jobs of the account may run at a time."""
    qos: Floats
    value: Floats
    """By the estimate; NaN if it does not follow from the scenario."""
    deadline: Floats
    """Infinity if there is none."""

    @classmethod
    def of(cls, run: AuditedRun) -> Self:
        """Return the jobs by rank."""
        jobs = _jobs(run)
        estimate, size = _floats(jobs, "estimate_s"), _floats(jobs, run.requested[0])
        qos = _floats(jobs, "qos", 1.0)
        account, most_running = _accounts(run, jobs)
        priorities = [float(p.get("priority") or 0.0) for p in run.partitions] or [0.0]
        treatments = [p.get("preempt") for p in run.partitions] or [None]
        positions = np.maximum(jobs["position"].to_numpy(), 0)
        some = [treatments[n] for n in positions.tolist()] if any(treatments) else []
        return cls(
            row=jobs["row"].cast(pl.Int64).to_numpy(),
            rank=np.arange(jobs.height),
            rejected=(jobs["status"] == "rejected").to_numpy(),
            submit=_floats(jobs, "submit_time_s"),
            run=_floats(jobs, "trace_run_time_s")
            if run.scenario.walltime != "kill"
            else np.fmin(_floats(jobs, "trace_run_time_s"), _floats(jobs, "requested_time_s")),
            requested=_floats(jobs, "requested_time_s"),
            estimate=estimate,
            size=size,
            instances=_floats(jobs, "instances"),
            request=_floats(jobs, "request"),
            priority=np.array(priorities)[positions]
            if len(set(priorities)) > 1
            else _always(priorities[0], jobs.height),
            treatment=some,
            retries=_retries(run, jobs),
            account=account,
            most_running=most_running,
            qos=qos,
            value=_values(run, size, qos, estimate),
            deadline=_floats(jobs, "deadline_s", np.inf),
        )

    def take(self, order: Ints) -> Self:
        """Return the jobs renumbered: the first is the one that `order` names first."""
        if np.array_equal(order, np.arange(len(order))):
            return self
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "treatment"}
        treatment = [self.treatment[job] for job in order.tolist()] if self.treatment else []
        taken = {n: column[order] for n, column in arrays.items() if column.strides != (0,)}
        return replace(self, treatment=treatment, **taken)

    @property
    def overrun(self) -> bool:
        """Whether a job runs past its estimate."""
        return bool((self.run > self.estimate)[~self.rejected].any())


def _jobs(run: AuditedRun) -> pl.DataFrame:
    """Return the jobs with what a replay needs, by submission; ``row`` is that of the table."""
    tasks = tasks_by_partition(run).select(
        "job_id", "position", pl.col("instances").cast(pl.Float64),
        pl.col(run.requested[0]).cast(pl.Float64).alias("request"),
    )  # fmt: skip
    jobs = run.only(
        "jobs", "job_id", "user", "submit_time_s", "requested_time_s", "estimate_s",
        "trace_run_time_s", "status", "qos", "value", "deadline_s", *run.resources,
    ).with_row_index("row")  # fmt: skip
    if run.is_large and run.alike:
        jobs = jobs.hstack(tasks.drop("job_id"))
    else:
        jobs = jobs.join(tasks, on="job_id", maintain_order="left")
    return jobs.sort("submit_time_s", "job_id")


def _always(value: float, jobs: int) -> Floats:
    """Return a column of one value, which takes no memory."""
    return np.broadcast_to(np.float64(value), (jobs,))


def _retries(run: AuditedRun, jobs: pl.DataFrame) -> Floats:
    """Return (J,) how often each job may start over by a limit of its own; each has one task."""
    if run.own_retries is None:
        return _always(inf, jobs.height)
    own = run.own_retries.select("job_id", "allowed").unique("job_id", keep="first")
    return _floats(jobs.join(own, on="job_id", how="left", maintain_order="left"), "allowed", inf)


def _accounts(run: AuditedRun, jobs: pl.DataFrame) -> tuple[Ints, Floats]:
    """Return (J,) the account of each job, -1 if nothing limits it, and (J,) what it may run."""
    limits = [partition.get("max_running_per_user") for partition in run.partitions] or [None]
    if not any(limits):
        return np.broadcast_to(np.int64(-1), (jobs.height,)), _always(inf, jobs.height)
    most = np.array([np.inf if limit is None else float(limit) for limit in limits])
    most_running = most[np.maximum(jobs["position"].to_numpy(), 0)]
    known = ~jobs["user"].cast(pl.String).fill_null("").is_in(["-1", ""]).to_numpy()
    pair = jobs.select(pl.struct("position", "user").rank("dense").cast(pl.Int64)).to_series()
    account: Ints = np.where(known & np.isfinite(most_running), pair.to_numpy(), -1)
    return account, most_running


def _floats(jobs: pl.DataFrame, column: str, default: float = np.nan) -> Floats:
    if column not in jobs.columns:
        return _always(default, jobs.height)
    return jobs[column].cast(pl.Float64).fill_null(default).to_numpy()


def _values(run: AuditedRun, size: Floats, qos: Floats, estimate: Floats) -> Floats:
    """Return what a job is worth by its estimate; 0 without values, NaN if it is not known.

    That is amount * price / time unit * knob * QoS * estimate. A table of jobs may bring values of
    its own, which the run's table does not tell apart from values that were computed.
    """
    section = run.scenario.value
    if section is None:
        return _always(np.nan if "value" in run.columns_of("jobs") else 0.0, len(size))
    prices = section.prices
    if prices is None and run.scenario.workload.type in ("jobs", "plugin"):
        return _always(np.nan, len(size))
    price = _DEFAULT_PRICE if prices is None else prices.get(run.requested[0], 0.0)
    worth = size * price / section.time_unit * section.knob * qos
    return np.asarray(worth * np.minimum(estimate, ENDLESS))
