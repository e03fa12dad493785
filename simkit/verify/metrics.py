"""The check of metrics.json: its numbers are recomputed from the tables."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.power.facts import BatteryFacts
from simkit.scenario.bundled import agent_label, agent_names
from simkit.scenario.policy import AgentPolicy, policies_in
from simkit.sections import Section
from simkit.verify.audit import KWH, Bools, Check, Floats, NotApplicableError, is_own, rule
from simkit.verify.audited_run import TASK, UNIT, AuditedRun
from simkit.verify.folder import CUSTOM
from simkit.verify.measures import (
    Numbers,
    Window,
    counted,
    distribution,
    of_machines,
    of_suspensions,
    of_tasks,
    over_time,
    share,
    statuses,
)

_RELATIVE_ERROR = 1e-9
"""Sums of the same numbers in another order differ by less."""
_PARTS = ("order", "backfill", "placement", "fitness")
"""Keys of a policy that name its parts; each is the kind of their entry points too."""
_ABOUT = ("formula", "window")
"""Keys of a metric that are for people."""


@rule
def check_metrics(run: AuditedRun, check: Check) -> None:
    """The metrics follow from the tables."""
    if not run.metrics:
        if not run.complete:
            raise NotApplicableError("the run is not complete and has no metrics")
        check.add("metrics.json is empty", {})
        return
    if custom := run.metrics.get(CUSTOM):
        check.notes["not audited, the user's own"] = sorted(custom)
    expected = _expected(run)
    for (metric, key), value in expected.items():
        check.examined += 1
        entry = run.metrics.get(metric)
        if not (isinstance(entry, dict) and key in entry):
            check.add("the number is missing", {"metric": metric, "number": key})
            continue
        found = entry[key]
        if not _equal(found, value):
            row = {"metric": metric, "number": key, "found": found, "expected": value}
            check.add("the number does not follow from the tables", row)
    _check_form(run, expected, check)


def _check_form(run: AuditedRun, expected: Numbers, check: Check) -> None:
    """Check that there is no other metric or number.

    Metrics that the policy may have brought are noted: their formulas are not known here.
    """
    keys: dict[str, set[str]] = {}
    for metric, key in expected:
        keys.setdefault(metric, set()).add(key)
    for metric, entry in run.metrics.items():
        if metric == CUSTOM:
            continue
        if not isinstance(entry, dict):
            check.add("a metric is not an object", {"metric": metric})
            continue
        if metric not in keys:
            if _may_bring(run.scenario.policy, metric):
                check.notes.setdefault("not audited, the policy's own", []).append(metric)
            else:
                check.add("a run has no such metric", {"metric": metric})
            continue
        for key in sorted(entry.keys() - keys[metric] - {*_ABOUT}):
            check.add("the metric has no such number", {"metric": metric, "number": key})
        for key in _ABOUT:
            if not (isinstance(entry.get(key), str) and entry[key]):
                check.add(f"the metric has no {key}", {"metric": metric})


def _may_bring(section: Section, metric: str) -> bool:
    """Return whether a policy, or a part of one, is code that may bring a metric of its own.

    What a file, a module, another package or an agent's folder brings cannot be seen without
    running its code. Of simkit's own policies only the rules of another simulator bring metrics,
    whose names begin with that of the rules.
    """
    return any(
        metric.startswith(f"{getattr(policy, 'compat', None)}_") or _is_foreign(policy)
        for policy in policies_in(section)
    )


def _is_foreign(policy: Section) -> bool:
    if isinstance(policy, AgentPolicy) and agent_label(policy.agent) not in agent_names():
        return True
    parts = {kind: getattr(policy, kind, None) for kind in _PARTS}
    names = {kind: getattr(part, "type", None) for kind, part in parts.items()}
    names |= {"compat": getattr(policy, "compat", None)}
    names |= {"policy": getattr(policy, "name", getattr(policy, "path", None))}
    return not all(
        is_own("simkit.policies", f"{kind}.{name}")
        for kind, name in names.items() if name is not None
    )  # fmt: skip


def _equal(found: Any, expected: float | str | None) -> bool:
    if isinstance(found, bool):
        return False
    if not isinstance(expected, (int, float)) or not isinstance(found, (int, float)):
        return bool(found == expected)
    return math.isclose(found, expected, rel_tol=_RELATIVE_ERROR, abs_tol=_RELATIVE_ERROR)


def _expected(run: AuditedRun) -> Numbers:
    """Return the numbers that follow from the tables."""
    jobs = _jobs_of(run)
    numbers = statuses("jobs", jobs)
    submits = jobs["submit_time_s"].drop_nulls().to_numpy()
    if not len(submits):
        return numbers
    ends = jobs["end_time_s"].drop_nulls().to_numpy()
    first, last_submit = float(submits.min()), float(submits.max())
    last_end = float(ends.max()) if len(ends) else None
    makespan = None if last_end is None else last_end - first
    unended = jobs.height - len(ends)
    numbers |= counted("makespan_s", {"value": makespan}, len(ends), unended)
    warmup, cooldown = run.scenario.metrics.warmup, run.scenario.metrics.cooldown
    if warmup or cooldown:
        submit = pl.col("submit_time_s")
        jobs = jobs.filter(submit >= first + warmup, submit <= last_submit - cooldown)
        until = last_submit - cooldown
    elif last_end is not None:
        until = max(last_end, first)
    else:
        times = run.only("timeline", "time_s")["time_s"].drop_nulls().to_numpy()
        until = max(first, float(times.max())) if len(times) else last_submit
    numbers |= _offered_loads(run, jobs, first + warmup, last_submit - cooldown)
    window = Window(jobs, first + warmup, until)
    numbers |= over_time(run, window) | of_tasks(run, window) | of_machines(run, window)
    numbers |= _waits(run, jobs) | _instance_waits(run, jobs) | of_suspensions(run)
    return numbers | _value(run, jobs) | _energy(run, first + warmup, until)


def _jobs_of(run: AuditedRun) -> pl.DataFrame:
    """Return the table of jobs; in a large run, the columns that metrics are made of."""
    if not run.is_large:
        return run.jobs
    times = ("submit", "start", "end", "run", "ideal", "turnaround", "release", "trace_run")
    return run.only(
        "jobs", "job_id", "status", "user", *(f"{name}_time_s" for name in times),
        "qos", "value", "deadline_s", run.counted,
    )  # fmt: skip


def _waits(run: AuditedRun, jobs: pl.DataFrame) -> Numbers:
    """Return distributions over the jobs that count, and the means that weigh or group them.

    The slowdown of a job of several tasks or instances (one that has an ideal time) is its
    turnaround / ideal; of another job it is turnaround / run, and the bounded one has wait + run.
    """
    submit, start, end, executed, ideal, turnaround = (
        jobs[f"{name}_time_s"].cast(float).fill_null(np.nan).to_numpy()
        for name in ("submit", "start", "end", "run", "ideal", "turnaround")
    )
    tau = run.scenario.metrics.tau
    size = jobs[run.counted].to_numpy()
    several = ~np.isnan(ideal)
    least = np.where(several, ideal, executed)
    taken = np.where(several, end - submit, start - submit + executed)
    taken[np.isnan(end)] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(least > 0, (end - submit) / least, np.nan)
        bounded = np.maximum(taken / np.maximum(least, tau), 1.0)
        shared = np.maximum(taken / (size * np.maximum(least, tau)), 1.0)
    shared[size <= 0] = np.nan
    numbers: Numbers = {}
    for metric, values in (
        ("wait_time_s", start - submit),
        ("turnaround_time_s", end - submit),
        ("slowdown", slowdown),
        ("bounded_slowdown", bounded),
        ("per_processor_bounded_slowdown", shared),
    ):
        known = values[~np.isnan(values)]
        numbers |= distribution(metric, known, len(values))
    if run.has_releases:
        release = jobs["release_time_s"].cast(float).fill_null(np.nan).to_numpy()
        known = (start - release)[~np.isnan(start - release)]
        numbers |= distribution("wait_since_release_s", known, jobs.height)
    weight = np.where(several, _areas(run, jobs), size * executed)
    both = ~np.isnan(weight) & ~np.isnan(turnaround)
    weighted = float((weight[both] * turnaround[both]).sum())
    mean = share(weighted, float(weight[both].sum()))
    numbers |= counted("awrt_s", {"value": mean}, both.sum(), (~both).sum())
    known_users = _users_known(jobs["user"])
    named = pl.DataFrame({"user": jobs["user"], "value": bounded}).filter(
        known_users, pl.col("value").is_not_nan()
    )
    index = {"value": _jain(named)}
    return numbers | counted("fairness_jain", index, named.height, jobs.height - named.height)


def _users_known(users: pl.Series) -> pl.Series:
    """Return which jobs have a user."""
    if users.dtype == pl.Int64:
        return (users != -1).fill_null(value=False)
    return ~users.cast(pl.String).is_in(["", "-1"]).fill_null(value=True)


def _areas(run: AuditedRun, jobs: pl.DataFrame) -> Floats:
    """Return what each job's tasks ask for, in resource-seconds of the counted resource."""
    if jobs["ideal_time_s"].null_count() == jobs.height:  # none is asked for
        return np.full(jobs.height, np.nan)
    area = pl.col(run.counted) * pl.col("instances") * pl.col("trace_run_time_s")
    sums = run.tasks.group_by("job_id").agg(area.sum().alias("area"))
    found = jobs.select("job_id").join(sums, on="job_id", how="left", maintain_order="left")
    return found["area"].fill_null(np.nan).to_numpy()


def _jain(values: pl.DataFrame) -> float | None:
    """Return Jain's index over the means of users: (sum of means)^2 / (users * sum of squares)."""
    means = values.group_by("user").agg(pl.col("value").mean())["value"].to_list()
    if not means:
        return None
    return math.fsum(means) ** 2 / (len(means) * math.fsum(mean**2 for mean in means))


def _instance_waits(run: AuditedRun, jobs: pl.DataFrame) -> Numbers:
    """Return the waits of instances from when their task was ready until their first start."""
    if run.only("tasks", "gang")["gang"].all():
        return {}
    tasks = run.tasks.join(jobs, on="job_id", how="semi")
    first = run.pieces.filter(pl.col("attempt") == 1)
    first = pl.concat([
        first.filter("quiet").select(*TASK, "count", "start_time_s"),
        first.filter(~pl.col("quiet")).group_by(*UNIT)
        .agg(pl.col("count").first(), pl.col("start_time_s").min())
        .select(*TASK, "count", "start_time_s"),
    ])  # fmt: skip
    rows = first.join(tasks.select(*TASK, "ready_time_s"), on=TASK)
    waits = (rows["start_time_s"] - rows["ready_time_s"]).to_numpy()
    values = np.repeat(waits, rows["count"].to_numpy())
    return distribution("instance_wait_time_s", values, int(tasks["instances"].sum()))


def _offered_loads(run: AuditedRun, jobs: pl.DataFrame, first: float, last: float) -> Numbers:
    """Return what the jobs ask for / what there is of each resource from `first` to `last`."""
    tasks = run.only("tasks", "job_id", "instances", "trace_run_time_s", *run.requested)
    if not (run.alike and tasks.height == jobs.height):
        tasks = tasks.join(jobs, on="job_id", how="semi")
    seconds_asked = tasks["instances"] * tasks["trace_run_time_s"]
    asked = {name: float((tasks[name] * seconds_asked).sum()) for name in run.requested}
    del tasks, seconds_asked  # the tables of a large run take much memory
    times = run.only("timeline", "time_s")["time_s"].to_numpy()
    time = np.concatenate([[first], times, [last]])
    del times
    lengths = np.diff(np.clip(time, first, last, out=time))
    del time
    numbers: Numbers = {}
    for index, resource in enumerate(run.resources):
        at_first = sum(capacity[index] for capacity in run.capacity.values())
        capacity = run.only("timeline", f"capacity_{resource}").to_series().to_numpy()
        held = np.concatenate([[at_first], capacity])
        there = float((held * lengths).sum())
        load = {"value": share(asked.get(resource, 0.0), there)}
        numbers |= counted(f"offered_load_{resource}", load, jobs.height, unit="1")
    return numbers


def _energy(run: AuditedRun, start_s: float, end_s: float) -> Numbers:
    """Return the metrics of energy over a window of time in s."""
    if "power" not in run.tables or not run.tables["power"].height:
        return {}
    row = run.power
    inside = np.minimum(row["end_s"], end_s) - np.maximum(row["start_s"], start_s)
    length = np.clip(inside, 0, None)

    def flowed(power: Floats) -> float:
        return float(np.sum((power * length).astype(np.longdouble)))

    load = np.where(row["load_w"] > 0, row["load_w"], np.inf)
    jobs_w = row["machines_w"] - row["standing_w"]
    joule = {name.removesuffix("_w"): flowed(row[name]) for name in row if name.endswith("_w")}
    overhead = flowed((row["pue"] - 1.0) * row["machines_w"])
    numbers: Numbers = {
        ("load_kwh", "value"): joule["load"] / KWH,
        ("load_kwh", "machines"): joule["machines"] / KWH,
        ("load_kwh", "idle"): joule["standing"] / KWH,
        ("load_kwh", "jobs"): (joule["machines"] - joule["standing"]) / KWH,
        ("load_kwh", "overhead"): overhead / KWH,
        ("load_kwh", "critical"): (joule["load"] - joule["machines"] - overhead) / KWH,
        ("unserved_kwh", "value"): joule["unserved"] / KWH,
        ("unserved_kwh", "share"): share(joule["unserved"], joule["load"]),
        ("unserved_kwh", "jobs"): flowed(jobs_w * row["unserved_w"] / load) / KWH,
        ("unserved_kwh", "idle"): flowed(row["standing_w"] * row["unserved_w"] / load) / KWH,
        ("generation_kwh", "value"): joule["generation"] / KWH,
        ("generation_kwh", "used"): (joule["generation"] - joule["curtailment"]) / KWH,
        ("curtailment_kwh", "value"): joule["curtailment"] / KWH,
        ("curtailment_kwh", "share"): share(joule["curtailment"], joule["generation"]),
        ("grid_kwh", "import"): joule["import"] / KWH,
        ("grid_kwh", "export"): joule["export"] / KWH,
        ("grid_import_peak_w", "value"): float(row["import_w"][length > 0].max(initial=0.0)),
        ("carbon_kg", "value"): flowed(row["carbon_g_per_s"]) / 1000.0,
        ("carbon_kg", "load"): flowed(row["load_carbon_g_per_s"]) / 1000.0,
        ("energy_cost", "value"): flowed(row["cost_per_s"]),
        ("energy_cost", "load"): flowed(row["load_cost_per_s"]),
    }
    numbers |= _of_sources(joule) | _of_battery(run, joule, (start_s, end_s))
    rows = float((length > 0).sum())
    for metric in {metric for metric, _ in numbers}:
        numbers |= counted(metric, {}, rows, unit=_OF_BILLS.get(metric))
    return numbers


_OF_BILLS: Final = {"carbon_kg": "kg CO2e", "energy_cost": "currency of the prices"}
"""Units of what energy carries."""


def _of_sources(joule: dict[str, float]) -> Numbers:
    """Return which sources served the load, and the shares of renewables."""
    parts = {name: joule[f"load_{name}"] for name in ("renewable", "battery", "grid")}
    served, made = sum(parts.values()), joule["generation"]
    green = parts["renewable"] + parts["battery"] - joule["load_battery_grid"]
    kept = parts["renewable"] + joule["charge_renewable"]
    numbers: Numbers = {("served_kwh", name): value / KWH for name, value in parts.items()}
    numbers["served_kwh", "value"] = served / KWH
    numbers["renewable_fraction", "value"] = green / served if served > 0 else None
    numbers["self_consumption", "value"] = kept / made if made > 0 else None
    return numbers


def _of_battery(run: AuditedRun, joule: dict[str, float], window: tuple[float, float]) -> Numbers:
    """Return the use of the battery within a window in s; nothing if there is none."""
    battery: BatteryFacts | None = run.setting("power", "battery")
    if battery is None:
        return {}
    capacity = battery.capacity_kwh * KWH
    entered = joule["charge"] * battery.charge_efficiency
    left = joule["discharge"] / battery.discharge_efficiency
    row = run.power
    times = np.append(row["start_s"][0], row["end_s"])
    content = np.append(capacity * battery.initial_soc, row["stored_j"])
    before, after = np.interp(window, times, content)
    stored = float(after - before)
    leaked = entered - left - stored
    noise = 1e-12 * (entered + left + capacity)
    return {
        ("battery_kwh", "charge"): joule["charge"] / KWH,
        ("battery_kwh", "discharge"): joule["discharge"] / KWH,
        ("battery_kwh", "conversion"): (joule["charge"] - entered + left - joule["discharge"])
        / KWH,
        ("battery_kwh", "self_discharge"): leaked / KWH if abs(leaked) > noise else 0.0,
        ("battery_kwh", "stored"): stored / KWH if abs(stored) > 1e-9 * capacity else 0.0,
        ("battery_full_cycles", "value"): (entered + left) / (2.0 * capacity),
    }


def _value(run: AuditedRun, jobs: pl.DataFrame) -> Numbers:
    """Return the metrics of value; none if jobs have no value."""
    there = {"qos", "value", "deadline_s"} & set(jobs.columns)
    if not there:
        return {}
    last = _last_instant(run)
    status = jobs["status"]
    finished = (status == "finished").to_numpy()
    last_submit = float(run.jobs["submit_time_s"].to_numpy().max())
    early = finished & (jobs["end_time_s"].fill_null(np.inf) <= last_submit).to_numpy()
    ratios = {"value": finished, "by_last_submit": early}
    done = {name: share(int(which.sum()), jobs.height) for name, which in ratios.items()}
    numbers = counted("completion_ratio", done, jobs.height)
    in_time = finished
    if "qos" in there:
        due = jobs.select(pl.col("submit_time_s") + pl.col("trace_run_time_s") / pl.col("qos"))
        late, known = _lateness(jobs, due.to_series().to_numpy(), last)
        in_time = finished & ~late
        numbers |= _of_lateness("qos_violations", late, known)
    if "deadline_s" in there and jobs["deadline_s"].is_not_null().any():
        some = jobs.filter(pl.col("deadline_s").is_not_null())
        late, known = _lateness(some, some["deadline_s"].to_numpy(), last)
        numbers |= _of_lateness("deadline_misses", late, known)
    if "value" in there:
        worth = jobs["value"].to_numpy()
        parts = {"value": finished, "by_last_submit": early, "in_time": in_time}
        for name, which in parts.items():
            if name != "in_time" or "qos" in there:
                numbers["job_value", name] = float(worth[which].sum())
                numbers["value_ratio", name] = share(float(worth[which].sum()), float(worth.sum()))
        numbers |= counted("job_value", {}, finished.sum(), (~finished).sum(), "value")
        numbers |= counted("value_ratio", {}, jobs.height)
    hours = _delay_s(run, jobs, last) / 3600
    return numbers | counted("delay_cost", {"value": hours}, jobs.height, unit="job h")


def _last_instant(run: AuditedRun) -> float:
    """Return the last instant of the timeline and of all jobs."""
    columns = (run.tables["timeline"]["time_s"], run.jobs["end_time_s"], run.jobs["submit_time_s"])
    return max(float(c.drop_nulls().to_numpy().max()) for c in columns if c.drop_nulls().len())


def _lateness(jobs: pl.DataFrame, due: Floats, last: float) -> tuple[Bools, Bools]:
    """Return which jobs were late, and for which it is known whether they were."""
    status = jobs["status"].to_numpy()
    over = np.isin(status, ("finished", "killed", "rejected"))
    end = np.where(status == "finished", jobs["end_time_s"].fill_null(np.nan).to_numpy(), last)
    late = (end > due) | np.isin(status, ("killed", "rejected"))
    return late, over | late


def _of_lateness(name: str, late: Bools, known: Bools) -> Numbers:
    count, of = int(late.sum()), int(known.sum())
    values = {"value": float(count), "share": share(count, of)}
    return counted(name, values, of, len(known) - of, "jobs")


def _delay_s(run: AuditedRun, jobs: pl.DataFrame, last: float) -> float:
    """Return the time in s, summed over admitted jobs, in which a job held no allocation.

    This is one sweep over submits, ends, and starts and ends of allocations, job by job.
    """
    rows = jobs.filter(pl.col("status") != "rejected").with_row_index("row")
    rows = rows.with_columns(pl.col("end_time_s").fill_null(last))
    held = run.allocations.join(rows.select("job_id", "row"), on="job_id", how="inner")
    job = np.concatenate([rows["row"], rows["row"], held["row"], held["row"]]).astype(np.int64)
    time = np.concatenate(
        [rows["submit_time_s"], rows["end_time_s"], held["start_time_s"],
         held["end_time_s"].fill_null(last)]
    )  # fmt: skip
    inside = np.repeat([1, -1, 0, 0], [rows.height, rows.height, held.height, held.height])
    running = np.repeat([0, 0, 1, -1], [rows.height, rows.height, held.height, held.height])
    order = np.lexsort((time, job))
    job, time = job[order], time[order]
    idle = (np.cumsum(inside[order]) > 0) & (np.cumsum(running[order]) == 0)
    same = job[1:] == job[:-1]
    return float(np.diff(time)[idle[:-1] & same].sum()) if len(time) else 0.0
