"""The check of estimates: the policy saw the run times that the scenario's estimator gives.

With a correction, an estimate that the job outlived became the first longer one that it had not
outlived, or the last. Tsafrir, Etsion and Feitelson, "Backfilling using system-generated
predictions rather than user runtime estimates" (2007).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.scenario.policy import EstimatorChoice
from simkit.scenario.value import (
    AnyQuality,
    FixedQuality,
    Gpus,
    QualityDeadlines,
    SlackDeadlines,
    TwoClasses,
    Value,
)
from simkit.verify.audit import (
    TICK,
    Check,
    Floats,
    NotApplicableError,
    NotAuditedError,
    not_audited_if,
    on_grid,
    rule,
    stream,
    times_on_grid,
)
from simkit.verify.audited_run import UNIT, AuditedRun, beside

ADDED_S: Final = {
    "none": (),
    "tsafrir": tuple(60.0 * m for m in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)),
    "request": (np.inf,),
}
"""Correction → what it adds to the first estimate, in s."""


@rule
def check_estimates(run: AuditedRun, check: Check) -> None:
    """The policy saw the estimates of the scenario's estimator.

    The longest estimate of a job of several tasks is recorded.
    """
    setting = run.scenario.estimates
    kind = setting.type
    if kind not in ("requested", "actual", "perturbed", "user-mean"):
        raise NotAuditedError(f"{kind} estimates are not recomputed")
    if kind == "user-mean":
        one_each = run.tasks["job_id"].is_unique().all() and run.tasks["gang"].all()
        not_audited_if({
            "jobs have several tasks, or instances that end one by one": not one_each,
            "the policy may kill jobs, which the estimator ignores": run.policy_may_kill,
        })  # fmt: skip
    single = run.tasks if run.alike else run.tasks.filter(pl.len().over("job_id") == 1)
    jobs = beside(run.jobs, single.select("job_id", "gang"), ["job_id"], how="inner")
    if run.run_times_may_differ and not single["gang"].all():
        jobs = _with_means(run, jobs)
        if jobs["trace_run_time_s"].null_count():
            raise NotAuditedError("the mean run time of the instances is not known")
    drawn = _stretches(run, setting) if kind == "perturbed" else None
    jobs = _with_bounds(jobs, setting, drawn).filter(pl.col("status") != "rejected")
    check.examined = jobs.height
    inside = pl.col("estimate_s").is_between("least_s", "most_s").fill_null(value=False)
    what = "within its bounds" if kind == "perturbed" and drawn is None else f"the {kind} time"
    check.add_rows(f"estimate_s is not {what}", jobs.filter(~inside))
    check_corrections(check, jobs, setting.correction)
    if kind == "perturbed" and drawn is None and not check.found:
        raise NotAuditedError("the order in which the estimates were drawn is not known")
    _check_several(run, check, setting, drawn)


def _check_several(
    run: AuditedRun, check: Check, setting: EstimatorChoice, drawn: pl.DataFrame | None
) -> None:
    """Check the longest estimates of jobs of several tasks, by the tasks of the input."""
    if run.alike:
        return
    several = run.tasks.filter(pl.len().over("job_id") > 1).select("job_id").unique()
    if several.is_empty():
        return
    found = run.input_tasks
    if not found.known or found.tasks["run"].null_count():
        raise NotAuditedError("the run times and requests of jobs of several tasks are not known")
    tasks = found.tasks.select("job_id", "run", "requested").with_columns(
        nth=pl.int_range(pl.len()).over("job_id")
    )
    if drawn is not None:
        tasks = tasks.join(drawn, on=["job_id", "nth"], how="left", maintain_order="left")
    # The mean of different run times may differ by a step of the grid.
    loose = 0.0 if found.instance_times is None else TICK * (2 + _factor(setting))
    tasks = tasks.with_columns(expected_s=_estimate_of(setting.type, pl.col("run"), "requested"))
    expected = (
        tasks.join(several, on="job_id", how="semi")
        .group_by("job_id")
        .agg(pl.col("expected_s").max())
    )
    jobs = run.jobs.filter(pl.col("status") != "rejected")
    rows = jobs.join(expected, on="job_id", maintain_order="left")
    check.examined += rows.height
    estimate, due = pl.col("estimate_s"), pl.col("expected_s")
    same = (estimate == due) | ((estimate - due).abs() <= loose)
    what = f"the longest {setting.type} time of its tasks"
    check.add_rows(f"estimate_s is not {what}", rows.filter(~same.fill_null(value=False)))


def correction_instants(run: AuditedRun) -> Floats | None:
    """Return when estimates of running tasks were corrected; None if the tables do not tell.

    A piece of work that begins after d seconds of its attempt outlives the estimate e at
    start + e - d, and is corrected if there is a longer one.
    """
    added = ADDED_S.get(run.scenario.estimates.correction)
    if not added:
        return None if added is None else np.empty(0)
    if not run.tasks["job_id"].is_unique().all():
        return None  # only the longest estimate of a job is recorded
    span = pl.col("end_time_s") - pl.col("start_time_s")
    done = (span.cum_sum() - span).over(*UNIT, "attempt")
    stated = run.jobs.select("job_id", "estimate_s")
    pieces = run.pieces.with_columns(done=done, over=done + span).join(stated, on="job_id")
    found = []
    for estimate, longer in pairwise(_estimates(added)):
        due = (estimate < longer) & estimate.is_between(
            pl.col("done"), pl.col("over"), closed="left"
        )
        when = pl.col("start_time_s") + estimate - pl.col("done")
        found.append(pieces.filter(due).select(when=when)["when"])
    return np.unique(pl.concat(found).to_numpy())


def stale_corrections(run: AuditedRun, pieces: pl.DataFrame) -> Floats:
    """Return when the estimates of pieces of work are over, whether or not they still run then.

    Args:
        run: the run.
        pieces: ``job_id`` and ``begun``, the start less what was done before.
    """
    added = ADDED_S.get(run.scenario.estimates.correction)
    if not added:
        return np.empty(0)
    stated = run.jobs.select("job_id", "estimate_s", "requested_time_s").unique("job_id")
    rows = pieces.select("job_id", "begun").join(stated, on="job_id")
    due = [rows.select(due=pl.col("begun") + estimate)["due"] for estimate in _estimates(added)]
    times = pl.concat(due).drop_nulls().to_numpy()
    return np.asarray(times[np.isfinite(times)])


def _estimates(added: Sequence[float]) -> list[pl.Expr]:
    """Return the first estimate and what corrections may make of it, none less than the last."""
    first = pl.col("estimate_s")
    most = pl.col("requested_time_s").fill_null(np.inf)
    longer = [pl.max_horizontal(first, pl.min_horizontal(first + more, most)) for more in added]
    endless = pl.col("requested_time_s").is_infinite().fill_null(value=False)
    return [first, *(pl.when(e.is_finite() | endless).then(e).otherwise(first) for e in longer)]


def check_corrections(check: Check, jobs: pl.DataFrame, correction: str) -> None:
    """Check what became of the estimates of gangs that have ended."""
    added = ADDED_S.get(correction)
    if not added:
        return
    column, run_time = "corrected_estimate_s", pl.col("run_time_s")
    if column not in jobs.columns:
        check.add(f"{column} is missing", {"correction": correction})
        return
    estimates = _estimates(added)
    lasting = [pl.when(e >= run_time).then(e) for e in estimates]
    expected = pl.coalesce(*lasting, pl.max_horizontal(*estimates))
    found = jobs.filter(pl.col("gang"), run_time.is_not_null()).with_columns(expected=expected)
    check.add_rows(
        f"{column} is not the estimate after its corrections",
        found.filter(~pl.col(column).eq_missing(pl.col("expected"))),
    )


def _with_means(run: AuditedRun, jobs: pl.DataFrame) -> pl.DataFrame:
    """Replace the longest run time of a job's instances by their mean, from the input.

    Sums of the same numbers may differ by a step of the grid: then the recorded estimate counts.
    """
    jobs = jobs.drop("trace_run_time_s")
    if not run.input_tasks.known:
        return jobs.with_columns(trace_run_time_s=pl.lit(None, pl.Float64))
    mean = run.input_tasks.tasks.select("job_id", pl.col("run").alias("trace_run_time_s"))
    jobs = jobs.join(mean.unique("job_id"), on="job_id", how="left", maintain_order="left")
    truth, stated = pl.col("trace_run_time_s"), pl.col("estimate_s")
    near = (truth - stated).abs() <= TICK
    return jobs.with_columns(pl.when(near).then(stated).otherwise(truth).alias("trace_run_time_s"))


def _with_bounds(
    jobs: pl.DataFrame, setting: EstimatorChoice, drawn: pl.DataFrame | None
) -> pl.DataFrame:
    """Add ``least_s`` and ``most_s``, the bounds of the estimate; they are mostly equal."""
    truth, kind = pl.col("trace_run_time_s"), setting.type
    if kind == "user-mean":
        means = pl.Series(user_means(jobs, int(str(setting.args.get("last", 2)))), dtype=pl.Float64)
        return jobs.with_columns(least_s=means, most_s=means)
    if kind == "perturbed" and drawn is None:
        most = times_on_grid(truth * (1 + _factor(setting)))
        return jobs.with_columns(least_s=truth, most_s=pl.max_horizontal(most, truth))
    if drawn is not None:
        first = drawn.filter(pl.col("nth") == 0)
        jobs = jobs.join(first, on="job_id", how="left", maintain_order="left")
    estimate = _estimate_of(kind, truth, "requested_time_s")
    return jobs.with_columns(least_s=estimate, most_s=estimate)


def _factor(setting: EstimatorChoice) -> float:
    """Return by how many run times a perturbed estimate may be too long."""
    return float(str(setting.args.get("factor", 5.0)))


def _estimate_of(kind: str, truth: pl.Expr, requested: str) -> pl.Expr:
    """Return the estimates from true run times and requests, or ``stretch``."""
    if kind == "perturbed":
        return pl.max_horizontal(times_on_grid(truth * pl.col("stretch")), truth)
    return truth if kind == "actual" else pl.coalesce(requested, truth)


def _stretches(run: AuditedRun, setting: EstimatorChoice) -> pl.DataFrame | None:
    """Draw the factors of perturbed estimates again; None if their order is not known.

    Each task takes a number from the stream "predictor", in the order of the workload; its estimate
    is uniform between the run time and (1 + factor) times that.

    Returns columns ``job_id``, ``nth`` (of the task in its job, from 0) and ``stretch``.
    """
    if run.in_order is None:
        return None
    counts = run.tasks.group_by("job_id").agg(pl.len().alias("tasks"))
    jobs = run.in_order.join(counts, on="job_id", how="left", maintain_order="left")
    if jobs["tasks"].null_count():
        return None  # the rule "identity" says so
    drawn = stream(run.scenario.seed, "predictor").random(run.rows_of("tasks"))
    stretch = 1.0 + _factor(setting) * drawn
    rows = jobs.with_columns(nth=pl.int_ranges("tasks")).explode("nth")
    return rows.select("job_id", "nth", stretch=pl.Series(stretch))


def user_means(jobs: pl.DataFrame, last: int) -> list[float]:
    """Return for each row the mean run time of the user's last jobs, at most the request, if any.

    Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than
    user runtime estimates" (2007). It is the request (or the run time, if there is none) until
    `last` jobs of the user have ended, and for unknown users.

    Args:
        jobs: rows of the table of jobs, in order of end.
        last: the number of jobs in the mean.
    """
    rows = jobs.select(
        "user", "submit_time_s", "start_time_s", "end_time_s", "run_time_s",
        pl.coalesce("requested_time_s", "trace_run_time_s").alias("first"),
        pl.col("requested_time_s").fill_null(float("inf")).alias("most"),
    ).rows()  # fmt: skip
    arrivals = jobs.with_row_index("row").sort("submit_time_s", "job_id")["row"].to_list()
    ended = (row for row in rows if row[2] is not None and row[3] is not None)
    seen: dict[Any, deque[float]] = defaultdict(lambda: deque(maxlen=last))
    means = [0.0] * len(rows)
    coming = next(ended, None)
    for arrival in arrivals:
        user, now, _, _, _, first, most = rows[arrival]
        # Jobs that start and end at this instant do so after its arrivals.
        while coming is not None and coming[3] <= now and coming[2] < now:
            seen[coming[0]].append(coming[4])
            coming = next(ended, None)
        history = seen[user]
        known = str(user) not in ("", "-1", "None") and len(history) == last
        means[arrival] = min(on_grid(sum(history) / last), most) if known else first
    return means


_RELATIVE_ERROR = 1e-9
_DEFAULT_PRICE = 0.5
"""Price of one unit of each resource for a time unit, if the scenario has no prices."""


@rule
def check_value(run: AuditedRun, check: Check) -> None:
    """Values, QoS, deadlines and drawn GPUs are those of the scenario."""
    there = [name for name in ("qos", "value", "deadline_s") if name in run.columns_of("jobs")]
    section = run.scenario.value
    if section is None and not there:
        raise NotApplicableError("jobs have no value")
    check.examined = run.rows_of("jobs")
    for name in ("qos", "value"):
        if section is not None and name not in there:
            check.add(f"the scenario gives jobs a value, but the jobs have no column {name}", {})
    _check_ranges(run, there, check)
    if section is not None and not check.found:
        reasons = [*_check_draws(run, section, check), *_check_values(run, section, check)]
        if reasons:
            raise NotAuditedError("; ".join(reasons))


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
        if run.rows_of("tasks") != run.rows_of("jobs"):
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
    estimate = pl.coalesce("requested", "run")
    return found.tasks.group_by("job_id").agg(estimate.max().alias("longest_s"))


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
    # The table has the mean run time of a bag, and the longest of a gang, which holds all of it.
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
