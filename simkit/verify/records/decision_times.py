"""The check of decision times: with a clock of the scheduler, tasks start at its ticks alone.

That holds on every cluster and for every policy: nothing starts between two decisions but what was
reserved for that instant.
"""

from __future__ import annotations

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, AuditedRun


def check_decision_times(run: AuditedRun) -> Check:
    """Check that every start, but of what was reserved, is at a multiple of the period."""
    check = Check("decision-times", "tasks start at the ticks of the scheduler's clock alone")
    if run.period_s is None:
        return check.skip("the scheduler decides whenever something changes")
    check.examined = run.rows_of("allocations")
    late = (pl.col("start_time_s") % run.period_s != 0).fill_null(value=False)
    rows = run.allocations.filter(late)
    if rows.is_empty():
        return check
    reserved = run.tables["events"].filter(kind="reserved").select(TASK).unique()
    rows = rows.join(reserved, on=TASK, how="anti", maintain_order="left")
    # When nothing else is to come, a slot that gets free is filled at once.
    if run.scenario.admission.slots is not None or run.policy_may_kill:
        rows = rows.filter(pl.col("start_time_s") < _last_change(run))
    check.add_rows("starts between two ticks of the scheduler's clock", rows)
    return check


def _last_change(run: AuditedRun) -> float:
    """Return the last time at which something came, ended or changed, but for starts, in s."""
    times = pl.concat([
        run.jobs["submit_time_s"], run.allocations["end_time_s"], run.tables["events"]["time_s"],
    ])  # fmt: skip
    return float(times.max() or 0.0)  # type: ignore[arg-type]
