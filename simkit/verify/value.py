"""The audit of worth: QoS, values, deadlines and drawn GPUs are those of the scenario.

What the scenario draws is drawn here once more from the seed, as its documentation says: the
stream of a component is numpy's default generator on SeedSequence(seed, spawn_key=(CRC-32 of the
component's name,)), and each job takes two numbers of it, in the order of (submit time, job id).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.durations import seconds

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder

Floats = npt.NDArray[np.float64]

RELATIVE_ERROR = 1e-9
DEFAULT_PRICE = 0.5
"""Of a unit of each resource for a time unit, where the scenario names no prices."""


def check_value(run: RunFolder) -> Check:
    """Qualities of service, values, deadlines and drawn GPUs follow from scenario and seed."""
    check = Check("value", "QoS, value, deadline and drawn GPUs are as the scenario says")
    there = [name for name in ("qos", "value", "deadline_s") if name in run.jobs.columns]
    section = run.setting("value")
    if not section and not there:
        return check.skip("jobs have no value")
    check.examined = run.jobs.height
    wanted = ["qos", "value"] if section else []
    for name in wanted:
        if name not in there:
            check.add(f"the scenario gives jobs a value, but jobs have no column {name}", {})
    _check_ranges(run, there, check)
    if section and not check.found:
        _check_draws(run, section, check)
        _check_values(run, section, check)
    return check


def _check_ranges(run: RunFolder, there: Sequence[str], check: Check) -> None:
    rules = {
        "qos": ("the QoS is not above 0 and at most 1", pl.col("qos").is_between(0, 1, "right")),
        "value": ("the value is not finite and at least 0",
                  (pl.col("value") >= 0) & pl.col("value").is_finite()),
    }  # fmt: skip
    for name, (message, good) in rules.items():
        if name in there:
            check.add_rows(message, run.jobs.filter(~good.fill_null(value=False)))


def _check_draws(run: RunFolder, section: dict[str, Any], check: Check) -> None:
    """Draw QoS, deadlines and GPUs again, where every job of the workload is on record."""
    if not run.complete or run.jobs.schema["job_id"] != pl.Int64:
        check.notes["not drawn again"] = "a job is missing, or ids are no numbers"
        return
    jobs = run.jobs.sort("submit_time_s", "job_id")
    qos = _qualities(run, section.get("qos") or {}, jobs.height)
    if qos is not None:
        _compare(jobs, "qos", qos, "the QoS is not what the seed draws", check)
    if (due := _deadlines(run, section.get("deadlines") or {}, jobs)) is not None:
        _compare(jobs, "deadline_s", due, "the deadline is not what the scenario says", check)
    if section.get("gpu"):
        gpus = _gpus(run, section["gpu"], jobs)
        _compare(jobs, "gpu", gpus, "the GPUs are not what the seed draws", check)


def _compare(jobs: pl.DataFrame, column: str, expected: Floats, message: str, check: Check) -> None:
    if column not in jobs.columns:
        check.add(f"jobs have no column {column}", {})
        return
    found = jobs[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    wrong = ~np.isclose(found, expected, rtol=RELATIVE_ERROR, atol=2.0**-20)
    rows = jobs.with_columns(pl.Series("expected", expected)).filter(pl.Series(wrong))
    check.add_rows(message, rows)


def _uniform(run: RunFolder, component: str, jobs: int) -> Floats:
    """Return (jobs, 2) numbers of the component's stream."""
    seed = int(run.setting("seed") or 0)
    key = (crc32(component.encode()),)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)).random((jobs, 2))


def _qualities(run: RunFolder, rule: dict[str, Any], jobs: int) -> Floats | None:
    """Return each job's QoS; None where the trace gives it."""
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


def _deadlines(run: RunFolder, rule: dict[str, Any], jobs: pl.DataFrame) -> Floats | None:
    """Return each job's deadline; None where there is none or the trace gives it.

    Of a job of several tasks the table has the first requested time alone, so that only what
    follows from true run times can be told.
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


def _gpus(run: RunFolder, rule: dict[str, Any], jobs: pl.DataFrame) -> Floats:
    """Return what each job asks for of the GPUs that are drawn."""
    drawn = _uniform(run, "value.gpu", jobs.height)
    least, most = rule["amount"]
    amount = least + np.floor(drawn[:, 1] * (most - least + 1))
    amount = np.where(drawn[:, 0] < rule["share"], amount, 0.0)
    if rule.get("per") == "processor":
        sizes = run.tasks.group_by("job_id").agg(pl.col("instances").sum())
        amount = amount * jobs.join(sizes, on="job_id", maintain_order="left")["instances"]
    return np.asarray(amount, dtype=np.float64)


def _check_values(run: RunFolder, section: dict[str, Any], check: Check) -> None:
    """Hold values against amounts * prices * run time * QoS, of jobs of one gang."""
    prices = section.get("prices")
    if prices is None and run.setting("workload", "type") in ("jobs", "plugin"):
        check.notes["values not worked out again"] = "the trace may give them"
        return
    prices = dict.fromkeys(run.asked, DEFAULT_PRICE) if prices is None else prices
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
    off = (pl.col("value") - pl.col("expected")).abs() > RELATIVE_ERROR * pl.col("expected")
    wrong = rows.filter("single", off.fill_null(value=True)).drop("single")
    check.add_rows("the value is not amounts * prices * run time * QoS", wrong)
    if others := rows.height - int(rows["single"].sum()):
        check.notes["values not worked out again"] = f"{others} jobs of several tasks or of bags"
