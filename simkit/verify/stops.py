"""The check of stops: running tasks stop only where power falls.

In a pool of one resource the order is checked as well. Where power falls, the lowest value density
is stopped first, then the youngest task, and nothing is stopped once the rest fits. There, value
densities are in the order of the quality of service, since all jobs pay the same prices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.ledger import no_power

_OUTCOME: Final = {"suspend": "suspended", "checkpoint": "suspended", "requeue": "lost"}
"""Treatment of running tasks → the outcome of their allocations; draining tasks have none."""
_STOPPED: Final = ("suspended", "lost")
_EQUAL: Final = 1e-9
"""Densities that differ by a smaller share count as equal."""


@dataclass(frozen=True)
class _Held:
    """An allocation of the pool."""

    row: int
    """Of the table of allocations."""
    start: float
    end: float
    size: float
    density: float
    stopped: bool

    def goes_before(self, other: _Held) -> bool:
        """Return whether it is certainly stopped before another one."""
        slack = _EQUAL * max(self.density, other.density)
        if abs(self.density - other.density) > slack:
            return self.density < other.density
        return self.start > other.start


def check_stops(run: AuditedRun) -> Check:
    """Check that tasks stop where power falls, in the way and the order of the scenario."""
    check = Check("stops", "tasks stop only where power falls, the least valuable first")
    if skipped := no_power(run, check):
        return skipped
    if not run.power_limits_capacity:
        return check.skip("power does not limit what may run")
    if run.policy_may_kill:
        return check.leave_out("the policy may stop tasks, or choose which tasks stop")
    if run.machines_change:
        return check.leave_out("tasks may stop for reasons other than power")
    _check_outcomes(check, run)
    if len(run.capacity) > 1 or len(run.requested) > 1 or not _densities_known(run):
        if check.examined and not check.found:
            return check.leave_out(
                "the order of stops is not judged on several machines or with several resources, "
                "nor for values that do not come from the scenario"
            )
    else:
        _check_order(check, run)
    return check


def _check_outcomes(check: Check, run: AuditedRun) -> None:
    """Check that tasks are stopped as the scenario says, and only where power falls."""
    stopped = run.allocations.filter(pl.col("outcome").is_in(_STOPPED))
    check.examined += stopped.height
    due = _OUTCOME.get(run.setting("power", "supply", "running"))
    otherwise = stopped.filter(pl.col("outcome").ne_missing(pl.lit(due, pl.String)))
    check.add_rows("stopped in another way than the scenario says", otherwise)
    falls = pl.DataFrame(
        [(machine, time) for machine, time, _ in _falls(run)],
        schema={"machine_id": pl.Int64, "end_time_s": pl.Float64},
        orient="row",
    ).with_columns(pl.lit(value=True).alias("falls"))
    rows = stopped.join(
        falls, on=["machine_id", "end_time_s"], how="left", maintain_order="left"
    ).with_columns(pl.col("falls").fill_null(value=False))
    anywhere = pl.col("falls").any().over("job_id", "task_id", "attempt", "start_time_s")
    check.add_rows("stopped, but power does not fall", rows.filter(~anywhere).drop("falls"))


def _falls(run: AuditedRun) -> Iterator[tuple[int, float, float]]:
    """Yield (machine, instant, what is left of the first resource) where power takes capacity."""
    by_power = set(run.power_instants.tolist())
    steps = run.capacity_steps
    for number, step in enumerate(steps):
        if step.time_s not in by_power:
            continue
        before = steps[number - 1]  # a machine's first step is at minus infinity
        if any(new < old for new, old in zip(step.capacity, before.capacity, strict=True)):
            yield step.machine_id, step.time_s, step.capacity[run.resources.index(run.requested[0])]


def _densities_known(run: AuditedRun) -> bool:
    if run.scenario.value is not None:
        brought = run.scenario.workload.type in ("jobs", "plugin")
        return "qos" in run.jobs.columns and not brought
    return not {"value", "qos"} & set(run.jobs.columns)


def _check_order(check: Check, run: AuditedRun) -> None:
    """Check that at each fall the first in the order are stopped, and no more than necessary."""
    allocations = _allocations(run)
    several = {held.start for held in allocations if held.start == held.end}
    running: list[_Held] = []
    begun = 0
    for _, time, left in _falls(run):
        while begun < len(allocations) and allocations[begun].start < time:
            running.append(allocations[begun])
            begun += 1
        running = [a for a in running if a.end > time or (a.end == time and a.stopped)]
        stopped = [a for a in running if a.end == time]
        running = [a for a in running if a.end > time]
        if stopped and time not in several:  # the rounds of an instant are not recorded
            _check_fall(check, run, left, stopped, running)


def _check_fall(
    check: Check, run: AuditedRun, left: float, stopped: list[_Held], kept: list[_Held]
) -> None:
    last = [a for a in stopped if not any(a.goes_before(b) for b in stopped)]
    for one in kept:
        if all(one.goes_before(b) for b in last):
            check.add(
                "runs on, but should be stopped before others that were",
                run.known.row(one.row, named=True),
            )
    held = sum(a.size for a in kept)
    if held + max(a.size for a in last) <= left:
        facts = {"held_by_others": held, "capacity": left}
        row = run.known.row(last[0].row, named=True)
        check.add("stopped, but the rest had fitted before", row | facts)


def _allocations(run: AuditedRun) -> list[_Held]:
    """Return the allocations of the pool that hold anything, by start."""
    rows = run.known.with_row_index("row").filter(pl.col("start_time_s").is_not_null())
    quality = pl.lit(0.0).alias("qos")
    if "qos" in run.jobs.columns:
        jobs = run.jobs.select("job_id", "qos").unique("job_id", keep="first")
        rows = rows.join(jobs, on="job_id", how="left", maintain_order="left")
        quality = pl.col("qos").fill_null(0.0)
    size = pl.col("count") * pl.col(f"one_{run.requested[0]}")
    end = pl.col("end_time_s").fill_null(float("inf"))
    stopped = pl.col("outcome").is_in(_STOPPED)
    table = rows.select("row", "start_time_s", end, size.alias("size"), quality, stopped)
    table = table.filter(pl.col("size") > 0).sort("start_time_s", maintain_order=True)
    return [_Held(*values) for values in table.iter_rows()]
