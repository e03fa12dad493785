"""The check of value: QoS, values, deadlines and drawn GPUs are those of the scenario.

Random values are drawn again from the seed as the documentation describes: the stream of a
component is numpy's default generator on SeedSequence(seed, spawn_key=(CRC-32 of the component's
name,)), and each job takes two numbers from it, in the order of (submit time, job id).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from simkit.scenario.workload import (
    AnyQuality,
    FixedQuality,
    Gpus,
    QualityDeadlines,
    SlackDeadlines,
    TwoClasses,
    Value,
)
from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import TICK, Floats, stream

_RELATIVE_ERROR = 1e-9
_DEFAULT_PRICE = 0.5
"""Of one unit of each resource for a time unit, if the scenario has no prices."""


def check_value(run: AuditedRun) -> Check:
    """Check that QoS, values, deadlines and drawn GPUs follow from scenario and seed."""
    check = Check("value", "QoS, values, deadlines and drawn GPUs are those of the scenario")
    there = [name for name in ("qos", "value", "deadline_s") if name in run.columns_of("jobs")]
    section = run.scenario.value
    if section is None and not there:
        return check.skip("jobs have no value")
    check.examined = run.rows_of("jobs")
    for name in ("qos", "value"):
        if section is not None and name not in there:
            check.add(f"the scenario gives jobs a value, but the jobs have no column {name}", {})
    _check_ranges(run, there, check)
    if section is not None and not check.found:
        reasons = [*_check_draws(run, section, check), *_check_values(run, section, check)]
        if reasons and not check.found:
            return check.leave_out("; ".join(reasons))
    return check


def _check_ranges(run: AuditedRun, there: Sequence[str], check: Check) -> None:
    rules = {
        "qos": ("the QoS is not above 0 and at most 1", pl.col("qos").is_between(0, 1, "right")),
        "value": ("the value is not finite and at least 0",
                  (pl.col("value") >= 0) & pl.col("value").is_finite()),
    }  # fmt: skip
    for name, (message, good) in rules.items():
        if name in there:
            check.add_rows(message, run.jobs.filter(~good.fill_null(value=False)))


def _check_draws(run: AuditedRun, section: Value, check: Check) -> list[str]:
    """Draw QoS, deadlines and GPUs again; return what could not be compared."""
    deadlines = section.deadlines
    drawn = {"QoS": isinstance(section.qos, TwoClasses), "GPUs": section.gpu is not None,
             "deadlines": isinstance(deadlines, SlackDeadlines)}  # fmt: skip
    names = [name for name, applies in drawn.items() if applies]
    if names and run.in_order is None:
        order = "the order in which jobs were drawn is not known"
        return [f"{', '.join(names)}: {order}"]
    jobs = run.jobs
    if run.in_order is not None:
        jobs = run.in_order.join(jobs, on="job_id", how="left", maintain_order="left")
    qualities = _qualities(run, section.qos, jobs.height)
    if qualities is not None:
        _compare(jobs, "qos", qualities, "the QoS is not the one drawn from the seed", check)
    if section.gpu is not None:
        gpus = _gpus(run, section.gpu, jobs)
        _compare(jobs, "gpu", gpus, "the GPUs are not those drawn from the seed", check)
    if not isinstance(deadlines, QualityDeadlines | SlackDeadlines):
        return []  # none, or those of the trace
    if (due := _deadlines(run, deadlines, jobs)) is None:
        return ["the requested times of jobs of several tasks, for deadlines, are not known"]
    _compare(jobs, "deadline_s", due, "the deadline is not that of the scenario", check)
    return []


def _compare(jobs: pl.DataFrame, column: str, expected: Floats, message: str, check: Check) -> None:
    if column not in jobs.columns:
        check.add(f"the jobs have no column {column}", {})
        return
    found = jobs[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    wrong = ~np.isclose(found, expected, rtol=_RELATIVE_ERROR, atol=TICK)
    rows = jobs.with_columns(pl.Series("expected", expected)).filter(pl.Series(wrong))
    check.add_rows(message, rows)


def _uniform(run: AuditedRun, component: str, jobs: int) -> Floats:
    """Return (jobs, 2) numbers from the stream of a component."""
    return stream(run.scenario.seed, component).random((jobs, 2))


def _qualities(run: AuditedRun, rule: AnyQuality, jobs: int) -> Floats | None:
    """Return each job's QoS; None if the trace has it."""
    if isinstance(rule, FixedQuality):
        return np.full(jobs, rule.qos)
    if not isinstance(rule, TwoClasses):
        return None
    drawn = _uniform(run, "value.qos", jobs)
    is_high = drawn[:, 0] < rule.high_share
    least = np.where(is_high, rule.high[0], rule.low[0])
    most = np.where(is_high, rule.high[1], rule.low[1])
    return np.asarray(least + (most - least) * drawn[:, 1])


def _deadlines(
    run: AuditedRun, rule: QualityDeadlines | SlackDeadlines, jobs: pl.DataFrame
) -> Floats | None:
    """Return each job's deadline; None if it does not follow from the tables."""
    length = jobs["trace_run_time_s"]
    if rule.of == "requested":
        if run.tasks.height != run.jobs.height:
            longest = _longest_requests(run)
            if longest is None:
                return None
            jobs = jobs.join(longest, on="job_id", how="left", maintain_order="left")
            length = jobs["longest_s"]
        else:
            length = jobs["requested_time_s"].fill_null(jobs["trace_run_time_s"])
    if isinstance(rule, QualityDeadlines):
        factor = 1 / jobs["qos"].to_numpy()
    else:
        least, most = rule.factor
        factor = least + (most - least) * _uniform(run, "value.deadlines", jobs.height)[:, 0]
    return np.asarray(jobs["submit_time_s"].to_numpy() + factor * length.to_numpy())


def _longest_requests(run: AuditedRun) -> pl.DataFrame | None:
    """Return ``job_id`` and ``longest_s``, the longest request of its tasks, or their run time.

    Null if the input is not known, for the table of jobs has only the first request.
    """
    found = run.input_tasks
    if not found.known or found.instance_times is not None or found.tasks["run"].null_count():
        return None
    told = pl.coalesce("requested", "run")
    return found.tasks.group_by("job_id").agg(told.max().alias("longest_s"))


def _gpus(run: AuditedRun, rule: Gpus, jobs: pl.DataFrame) -> Floats:
    """Return the GPUs that are drawn for each job."""
    drawn = _uniform(run, "value.gpu", jobs.height)
    least, most = rule.amount
    amount = least + np.floor(drawn[:, 1] * (most - least + 1))
    amount = np.where(drawn[:, 0] < rule.share, amount, 0.0)
    if rule.per == "processor":
        sizes = run.tasks.group_by("job_id").agg(pl.col("instances").sum())
        amount = amount * jobs.join(sizes, on="job_id", maintain_order="left")["instances"]
    return np.asarray(amount, dtype=np.float64)


def _check_values(run: AuditedRun, section: Value, check: Check) -> list[str]:
    """Check that values are amounts * prices * run time * QoS, summed over a job's tasks.

    Returns what could not be compared. Values of the input are for the rule "trace".
    """
    prices = section.prices
    if prices is None:
        kind, found = run.scenario.workload.type, run.input_tasks
        if kind == "plugin" or (kind == "jobs" and not found.known):
            return ["values may come from the input, which is not read again"]
        if kind == "jobs" and "value" in found.jobs.columns:
            return []
    prices = dict.fromkeys(run.requested, _DEFAULT_PRICE) if prices is None else prices
    priced = (pl.col(name) * pl.col("instances") * price for name, price in prices.items())
    per_unit = sum(priced, pl.lit(0.0))
    factor = section.knob / section.time_unit
    # Of a bag the table has the mean run time, of a gang the longest, which holds all of it.
    amounts = run.tasks.group_by("job_id").agg(
        (per_unit * pl.col("trace_run_time_s")).sum().alias("amount")
    )
    rows = run.jobs.join(amounts, on="job_id", how="left", maintain_order="left").with_columns(
        (pl.col("amount") * pl.col("qos") * factor).alias("expected")
    )
    off = (pl.col("value") - pl.col("expected")).abs() > _RELATIVE_ERROR * pl.col("expected")
    wrong = rows.filter(off.fill_null(value=True)).drop("amount")
    check.add_rows("the value is not amounts * prices * run time * QoS", wrong)
    return []
