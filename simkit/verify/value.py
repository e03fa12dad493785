"""The check of value: QoS, values, deadlines and drawn GPUs are those of the scenario.

Random values are drawn again from the seed as the documentation describes: the stream of a
component is numpy's default generator on SeedSequence(seed, spawn_key=(CRC-32 of the component's
name,)), and each job takes two numbers from it, in the order of (submit time, job id).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import TICK, Floats, seconds

_RELATIVE_ERROR = 1e-9
_DEFAULT_PRICE = 0.5
"""Of one unit of each resource for a time unit, if the scenario has no prices."""


def check_value(run: AuditedRun) -> Check:
    """Check that QoS, values, deadlines and drawn GPUs follow from scenario and seed."""
    check = Check("value", "QoS, values, deadlines and drawn GPUs are those of the scenario")
    there = [name for name in ("qos", "value", "deadline_s") if name in run.columns_of("jobs")]
    section = run.setting("value")
    if not section and not there:
        return check.skip("jobs have no value")
    check.examined = run.rows_of("jobs")
    for name in ("qos", "value"):
        if section and name not in there:
            check.add(f"the scenario gives jobs a value, but the jobs have no column {name}", {})
    _check_ranges(run, there, check)
    if section and not check.found:
        _check_draws(run, section, check)
        _check_values(run, section, check)
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


def _check_draws(run: AuditedRun, section: dict[str, Any], check: Check) -> None:
    """Draw QoS, deadlines and GPUs again, if every job of the workload is recorded."""
    if not run.complete or run.jobs.schema["job_id"] != pl.Int64:
        check.notes["not drawn again"] = "jobs are missing, or ids are not numbers"
        return
    jobs = run.jobs.sort("submit_time_s", "job_id")
    qos = _qualities(run, section.get("qos") or {}, jobs.height)
    if qos is not None:
        _compare(jobs, "qos", qos, "the QoS is not the one drawn from the seed", check)
    if (due := _deadlines(run, section.get("deadlines") or {}, jobs)) is not None:
        _compare(jobs, "deadline_s", due, "the deadline is not that of the scenario", check)
    if section.get("gpu"):
        gpus = _gpus(run, section["gpu"], jobs)
        _compare(jobs, "gpu", gpus, "the GPUs are not those drawn from the seed", check)


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
    seed = int(run.setting("seed") or 0)
    key = (crc32(component.encode()),)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)).random((jobs, 2))


def _qualities(run: AuditedRun, rule: dict[str, Any], jobs: int) -> Floats | None:
    """Return each job's QoS; None if the trace has it."""
    if rule.get("type") == "fixed":
        return np.full(jobs, float(rule["qos"]))
    if rule.get("type") != "two-classes":
        return None
    drawn = _uniform(run, "value.qos", jobs)
    high, low = rule["high"], rule["low"]
    is_high = drawn[:, 0] < rule["high_share"]
    least = np.where(is_high, high[0], low[0])
    most = np.where(is_high, high[1], low[1])
    return np.asarray(least + (most - least) * drawn[:, 1])


def _deadlines(run: AuditedRun, rule: dict[str, Any], jobs: pl.DataFrame) -> Floats | None:
    """Return each job's deadline; None if there is none, or if it does not follow from the tables.

    For jobs of several tasks the table has only the first requested time, so that only deadlines
    from true run times can be recomputed.
    """
    kind, requested = rule.get("type"), rule.get("of") == "requested"
    several = run.tasks.height != run.jobs.height
    if kind not in ("qos", "slack") or (requested and several) or "qos" not in jobs.columns:
        return None
    length = jobs["trace_run_time_s"]
    if requested:
        length = jobs["requested_time_s"].fill_null(jobs["trace_run_time_s"])
    if kind == "qos":
        factor = 1 / jobs["qos"].to_numpy()
    else:
        least, most = rule["factor"]
        factor = least + (most - least) * _uniform(run, "value.deadlines", jobs.height)[:, 0]
    return np.asarray(jobs["submit_time_s"].to_numpy() + factor * length.to_numpy())


def _gpus(run: AuditedRun, rule: dict[str, Any], jobs: pl.DataFrame) -> Floats:
    """Return the GPUs that are drawn for each job."""
    drawn = _uniform(run, "value.gpu", jobs.height)
    least, most = rule["amount"]
    amount = least + np.floor(drawn[:, 1] * (most - least + 1))
    amount = np.where(drawn[:, 0] < rule["share"], amount, 0.0)
    if rule.get("per") == "processor":
        sizes = run.tasks.group_by("job_id").agg(pl.col("instances").sum())
        amount = amount * jobs.join(sizes, on="job_id", maintain_order="left")["instances"]
    return np.asarray(amount, dtype=np.float64)


def _check_values(run: AuditedRun, section: dict[str, Any], check: Check) -> None:
    """Check that values are amounts * prices * run time * QoS, for jobs of one gang."""
    prices = section.get("prices")
    if prices is None and run.setting("workload", "type") in ("jobs", "plugin"):
        check.notes["values not recomputed"] = "they may come from the trace"
        return
    prices = dict.fromkeys(run.requested, _DEFAULT_PRICE) if prices is None else prices
    per_hour = sum(
        (pl.col(name).cast(pl.Float64) * price for name, price in prices.items()), pl.lit(0.0)
    )
    factor = float(section.get("knob") or 1.0) / seconds(section.get("time_unit") or 3600.0)
    single = run.tasks.group_by("job_id").agg(
        ((pl.len() == 1) & pl.col("gang").all()).alias("single")
    )
    rows = run.jobs.join(single, on="job_id", how="left", maintain_order="left").with_columns(
        (per_hour * pl.col("trace_run_time_s") * pl.col("qos") * factor).alias("expected")
    )
    off = (pl.col("value") - pl.col("expected")).abs() > _RELATIVE_ERROR * pl.col("expected")
    wrong = rows.filter("single", off.fill_null(value=True)).drop("single")
    check.add_rows("the value is not amounts * prices * run time * QoS", wrong)
    if others := rows.height - int(rows["single"].sum()):
        check.notes["values not recomputed"] = f"{others} jobs with several tasks or with bags"
