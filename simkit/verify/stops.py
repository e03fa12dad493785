"""The audit of stops: what runs where power has gone is stopped as the scenario says.

In a pool of one resource the order is worked out, too: the lowest value density goes first, then
the youngest, and nobody is stopped once what is left fits. The value of a second of one processor
is as the quality of service there, since all pay the same prices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.capacity import capacity_steps
from simkit.verify.ledger import no_power
from simkit.verify.machines import KINDS
from simkit.verify.pieces import power_instants
from simkit.verify.supply import limits_capacity
from simkit.verify.tasks import policy_kills

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder

_OUTCOME: Final = {"suspend": "suspended", "checkpoint": "suspended", "requeue": "lost"}
"""What becomes of running tasks → the outcome of their allocations; those that drain have none."""
_STOPPED: Final = ("suspended", "lost")
_EQUAL: Final = 1e-9
"""Share by which densities may differ and count as equal."""


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
        """Tell whether it is stopped before another one for certain."""
        slack = _EQUAL * max(self.density, other.density)
        if abs(self.density - other.density) > slack:
            return self.density < other.density
        return self.start > other.start


def check_stops(run: RunFolder) -> Check:
    """Tasks stop where power falls, in the manner and the order that the scenario says."""
    check = Check("stops", "tasks stop where power falls, the least valuable first")
    if skipped := no_power(run, check):
        return skipped
    if not limits_capacity(run):
        return check.skip("power does not limit what may run")
    if policy_kills(run):
        return check.leave_out("the policy may stop tasks itself, or name who is to stop")
    if any(run.setting("cluster", kind) for kind in KINDS):
        return check.leave_out("other things than power may stop tasks, too")
    _check_manner(check, run)
    if len(run.capacity) > 1 or len(run.asked) > 1 or not _densities_known(run):
        check.notes["the order of stops is not worked out"] = (
            "several machines or resources, or values that are not the scenario's"
        )
    else:
        _check_order(check, run)
    return check


def _check_manner(check: Check, run: RunFolder) -> None:
    """Only what the scenario says happens to tasks, and only where power falls."""
    stopped = run.allocations.filter(pl.col("outcome").is_in(_STOPPED))
    check.examined += stopped.height
    due = _OUTCOME.get(str(run.setting("power", "supply", "running")))
    otherwise = stopped.filter(pl.col("outcome").ne_missing(pl.lit(due, pl.String)))
    check.add_rows("stopped otherwise than the scenario says", otherwise)
    falls = pl.DataFrame(
        [(machine, time) for machine, time, _ in _falls(run)],
        schema={"machine_id": pl.Int64, "end_time_s": pl.Float64},
        orient="row",
    ).with_columns(pl.lit(value=True).alias("falls"))
    rows = stopped.join(
        falls, on=["machine_id", "end_time_s"], how="left", maintain_order="left"
    ).with_columns(pl.col("falls").fill_null(value=False))
    anywhere = pl.col("falls").any().over("job_id", "task_id", "attempt", "start_time_s")
    check.add_rows("stopped, but no power falls", rows.filter(~anywhere).drop("falls"))


def _falls(run: RunFolder) -> Iterator[tuple[int, float, float]]:
    """Yield (machine, instant, first resource left) where capacity is smaller than before."""
    by_power = set(power_instants(run).to_list())
    steps = capacity_steps(run)
    for number, step in enumerate(steps):
        if step.time_s not in by_power:
            continue
        before = steps[number - 1]  # a machine's first step is at minus infinity
        if any(new < old for new, old in zip(step.capacity, before.capacity, strict=True)):
            yield step.machine_id, step.time_s, step.capacity[run.resources.index(run.asked[0])]


def _densities_known(run: RunFolder) -> bool:
    if run.setting("value"):
        return "qos" in run.jobs.columns and run.setting("workload", "type") not in (
            "jobs",
            "plugin",
        )
    return not {"value", "qos"} & set(run.jobs.columns)


def _check_order(check: Check, run: RunFolder) -> None:
    """At each fall those are stopped who come first, and no more than need be."""
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
        if stopped and time not in several:  # the rounds of an instant are not on record
            _check_fall(check, run, left, stopped, running)


def _check_fall(
    check: Check, run: RunFolder, left: float, stopped: list[_Held], kept: list[_Held]
) -> None:
    last = [a for a in stopped if not any(a.goes_before(b) for b in stopped)]
    for one in kept:
        if all(one.goes_before(b) for b in last):
            check.add("runs on, but is to stop before others that do", _row(run, one))
    held = sum(a.size for a in kept)
    if held + max(a.size for a in last) <= left:
        facts = {"held_by_others": held, "capacity": left}
        check.add("stopped, but what runs has fitted before", _row(run, last[0]) | facts)


def _allocations(run: RunFolder) -> list[_Held]:
    """Return the pool's allocations that hold anything, by start."""
    rows = run.known.with_row_index("row").filter(pl.col("start_time_s").is_not_null())
    quality = pl.lit(0.0).alias("qos")
    if "qos" in run.jobs.columns:
        jobs = run.jobs.select("job_id", "qos").unique("job_id", keep="first")
        rows = rows.join(jobs, on="job_id", how="left", maintain_order="left")
        quality = pl.col("qos").fill_null(0.0)
    size = pl.col("count") * pl.col(f"one_{run.asked[0]}")
    end = pl.col("end_time_s").fill_null(float("inf"))
    stopped = pl.col("outcome").is_in(_STOPPED)
    table = rows.select("row", "start_time_s", end, size.alias("size"), quality, stopped)
    table = table.filter(pl.col("size") > 0).sort("start_time_s", maintain_order=True)
    return [_Held(*values) for values in table.iter_rows()]


def _row(run: RunFolder, held: _Held) -> dict[str, Any]:
    return run.known.row(held.row, named=True)
