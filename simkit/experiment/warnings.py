"""Warnings about a run: before it, of units and estimates; after it, of jobs that did not run.

Before: requests in another unit than the machines, resources that nobody asks for, and estimates
that are true run times under the name of requests. After: jobs that wait at the end, with a likely
cause, jobs that were rejected, and changes of the policy that came too late.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import plugins
from simkit.arrays import Floats
from simkit.engine.machines_on import POWER
from simkit.engine.outages import FAILURE
from simkit.policy import Policy
from simkit.policy.declared import reads_estimates
from simkit.policy.estimates import Requests, requests_of
from simkit.results.job_metrics import SINCE_RELEASE
from simkit.results.run_folder import Run
from simkit.scenario import Scenario
from simkit.scenario.cluster import MaintenanceSection
from simkit.scenario.policy import EstimatorChoice
from simkit.text import counted
from simkit.units import format_duration
from simkit.workload import Trace, Workload
from simkit.workload.cluster import MAINTENANCE, Cluster

_CORES: Final = ("cpu", "cpus", "cores", "processors", "gpu", "gpus")
_MEMORY: Final = ("mem", "memory", "ram", "disk")
_FEWEST_TIMES: Final = 5
"""Fewer run times prove nothing."""


def unit_warnings(scenario: Scenario, trace: Trace, cluster: Cluster) -> list[str]:
    """Return what looks like another unit than that of the machines, with the remedy.

    Only recorded traces are checked: for requests mostly beyond every machine, and for run times
    that are all multiples of 1000.
    """
    if not trace.inputs:
        return []
    workload, found = trace.workload, []
    for column, name in enumerate(workload.resources):
        most = float(cluster.capacity[:, cluster.resources.index(name)].max(initial=0.0))
        asked = workload.request[:, column]
        asked = asked[asked > 0]
        if not most or not len(asked) or asked.max() <= most:
            continue
        if np.median(asked) > most and (odd := _odd(name, asked, most)):
            looks, factor = odd
            found.append(
                f"warning: {name}: instances ask for up to {asked.max():.10g}, and no machine has "
                f"more than {most:.10g}; {looks}: {_remedy(scenario, name, factor)}"
            )
    own = workload.instance_run_time_s
    own = own if len(own) else workload.run_time_s
    if not (own % 1000).any() and len(times := np.unique(own)) >= _FEWEST_TIMES:
        found.append(
            f"warning: run times: all are multiples of 1000, up to {times[-1]:.10g} s; they look "
            f"like milliseconds: {_remedy(scenario, 'run_time_s', '0.001')}"
        )
    return found


def unasked_warnings(scenario: Scenario, trace: Trace, cluster: Cluster) -> list[str]:
    """Return which resources of the scenario's machines no job asks for.

    Machines of a trace may have more than its jobs ask for.
    """
    workload, found = trace.workload, []
    declared = () if cluster.inputs or not len(workload) else cluster.resources
    for name in declared:
        column = workload.resources.index(name) if name in workload.resources else None
        if column is not None and workload.request[:, column].any():
            continue
        source = scenario.workload.source_of(name)
        found.append(
            f"warning: {name}: the machines have {name}, but no job of the workload asks for any"
            + (f" ({source})" if source else "")
        )
    return found


def _odd(name: str, asked: Floats, most: float) -> tuple[str, str] | None:
    """Return what requests look like and their factor; None if no other unit would fit."""
    name = name.lower()
    if name in _CORES and not (asked % 5).any():
        for parts, factor in (("hundredths", 100), ("thousandths", 1000)):
            if asked.max() <= most * factor:
                return f"they look like {parts}", f"{1 / factor:g}"
    if name not in _MEMORY or np.median(asked) < 4 * most:
        return None
    if most <= 1:
        return (
            "they look like an amount, and those of the machines like shares of the largest one",
            "1 / what the largest machine has",
        )
    for unit, size in (("MiB", 2.0**10), ("KiB", 2.0**20), ("bytes", 2.0**30)):
        if asked.max() <= most * size:
            return f"they look like {unit}, and those of the machines like GiB", f"{1 / size:.10g}"
    return None


def _remedy(scenario: Scenario, column: str, factor: str) -> str:
    if hasattr(scenario.workload, "factors"):
        return f"if so, set workload.factors: {{{column}: {factor}}}"
    if column == "run_time_s":
        return f"if so, set workload.run_time_scale: {factor}"
    return f"if so, multiply them by {factor} in the reader"


WORTH_SAYING: Final = 0.2
"""Smallest share of tasks with known run times that is mentioned; in most logs of the Parallel
Workloads Archive it is below 0.11: jobs that ran longer than requested."""


def count_true_run_times(workload: Workload) -> int:
    """Return how many tasks have no requested time, or one that equals their run time."""
    requested = workload.requested_time_s
    return int(np.count_nonzero(np.isnan(requested) | (requested == workload.run_time_s)))


def estimates_name(scenario: Scenario, workload: Workload) -> str:
    """Return what the estimates are: ``requested``, ``run times (no requests)``, ….

    A correction follows: ``user-mean + tsafrir``.
    """
    choice, tasks = scenario.estimates, workload.tasks
    with_true_run_time = count_true_run_times(workload)
    given = ",".join(f"{key}={value}" for key, value in choice.args.items())
    name = f"{choice.type}({given})" if given else choice.type
    if choice.correction != "none":
        name += f" + {choice.correction}"
    if not tasks or with_true_run_time < WORTH_SAYING * tasks:
        return name
    requests, share = _requests(choice), f"{with_true_run_time / tasks:.0%}"
    if requests == "used":
        everywhere = with_true_run_time == tasks
        return "run times (no requests)" if everywhere else f"{name} ({share} run times)"
    return f"{name} ({share} at most the run time)" if requests == "bound" else name


def _requests(choice: EstimatorChoice) -> Requests:
    return requests_of(plugins.find("simkit.predictors", choice.type))


def estimates_info(scenario: Scenario, workload: Workload, policy: Policy) -> dict[str, Any]:
    """Return the entry ``estimates`` of run.json."""
    return {
        "name": estimates_name(scenario, workload),
        "used": reads_estimates(policy),
        "tasks": workload.tasks,
        "told_run_time": count_true_run_times(workload),
    }


def estimates_warnings(scenario: Scenario, trace: Trace, policy: Policy) -> list[str]:
    """Return what a reader of the results must know of estimates and the wall-time limit.

    Generated workloads have requests only if their model was given users' estimates, so that
    nothing is said of them.
    """
    if not trace.inputs or not trace.workload.tasks:
        return []
    workload = trace.workload
    perfect = _perfect_knowledge(scenario, workload) if reads_estimates(policy) else ""
    return [text for text in (perfect, _kills_nobody(scenario, workload)) if text]


def _perfect_knowledge(scenario: Scenario, workload: Workload) -> str:
    tasks, requests = workload.tasks, _requests(scenario.estimates)
    with_true_run_time = count_true_run_times(workload)
    if with_true_run_time < WORTH_SAYING * tasks:
        return ""
    by_reader = getattr(scenario.workload, "requested_time", None) == "max"
    who = counted(tasks, "job" if tasks == len(workload) else "task")
    whose = (
        f"none of {who} has"
        if with_true_run_time == tasks
        else f"{with_true_run_time:,} of {who} ({with_true_run_time / tasks:.0%}) lack"
    )
    lacking = f"{whose} a requested time other than the run time"
    raw = "workload.requested_time: raw" if by_reader else ""
    if requests == "used":
        return (
            f"warning: estimates: {lacking}, so the policy knows their true run times; "
            "for less knowledge, choose other estimates (simkit policies lists them)"
            f"{f', with {raw}' if raw else ''}"
        )
    if requests == "bound" and raw:
        return (
            f"warning: estimates: {scenario.estimates.type} is never above the true run time where "
            f"{lacking}, "
            f"because the reader puts that in place of the request; set {raw}"
        )
    return ""


def _kills_nobody(scenario: Scenario, workload: Workload) -> str:
    if not scenario.kills:
        return ""
    requested = workload.requested_time_s
    if (scenario.killed_after_s(requested) < workload.longest_run_time_s()).any():
        return ""
    if np.isnan(requested).all():
        return "warning: walltime: kill kills no job: none has a requested time"
    text = "warning: walltime: kill kills no job: none runs longer than its requested time"
    if getattr(scenario.workload, "requested_time", None) != "max":
        return text
    return (
        f"{text}, because the reader raises requests to run times; set "
        "workload.requested_time: raw to keep them as the log has them"
    )


def late_warnings(run: Run, policy: Policy) -> list[str]:
    """Return what a reader of the results must know after a run of a policy; it needs metrics."""
    waiting = waiting_warning(run, getattr(policy, "holds_back", ""))
    return [text for text in (rejections_warning(run), waiting) if text]


def switches_warning(times_s: Iterable[float], run: Run) -> str:
    """Return a warning about changes of the policy at times after a run's end, or empty."""
    (last,) = run.scan("timeline").select(pl.col("time_s").max()).collect().row(0)
    late = [time_s for time_s in times_s if last is None or time_s > last]
    if not late:
        return ""
    verb = "come" if len(late) > 1 else "comes"
    return (
        f"warning: {counted(len(late), 'change')} of the policy {verb} after the run's last event, "
        "so that it never took effect; times count from the first submission"
    )


def waiting_at_end(metrics: Mapping[str, Any]) -> int:
    """Return how many jobs wait at the end of a run, from its metrics."""
    return int(metrics.get("jobs", {}).get("waiting") or 0)


def waiting_warning(run: Run, holds_back: str = "") -> str:
    """Return a warning about jobs that wait at the end of a run, with a likely cause, or empty.

    Args:
        run: with its metrics.
        holds_back: what the policy says of itself: why it may start nothing, and the remedy.
    """
    waiting = waiting_at_end(run.metrics)
    if not waiting:
        return ""
    counts = run.metrics["jobs"]
    submitted = int(counts["submitted"])
    share = f"{waiting:,} of {counted(submitted, 'job')}" if waiting < submitted else (
        f"all {submitted:,} jobs" if submitted > 1 else "the only job"
    )  # fmt: skip
    verb = "wait" if waiting > 1 else "waits"
    held = _unreleased(run)
    more = f"; of these, {held:,} for a preceding job that has not ended" if held else ""
    reason = _reason(run, waiting, holds_back)
    return f"warning: {share} still {verb} at the end of the run: {reason}{more}"


def _unreleased(run: Run) -> int:
    """Return how many jobs wait for others that have not ended."""
    if SINCE_RELEASE.name not in run.metrics:
        return 0
    jobs = run.scan("jobs").filter(pl.col("status") == "waiting")
    return int(jobs.select(pl.col("release_time_s").null_count()).collect().item())


def rejections_warning(run: Run) -> str:
    """Return why jobs were rejected, the most frequent reasons first; empty if none was."""
    if not run.metrics["jobs"]["rejected"]:
        return ""
    rejected = run.scan("jobs").filter(pl.col("status") == "rejected")
    reasons = (
        rejected.group_by("reason", maintain_order=True)
        .agg(pl.len(), pl.col("job_id").first().cast(pl.String))
        .sort("len", descending=True, maintain_order=True)
        .collect()
    )
    total = int(reasons["len"].sum())
    lines = [f"warning: {counted(total, 'job')} rejected"]
    for reason, count, job in reasons.head(3).rows():
        more = f" and {counted(count - 1, 'other')}" if count > 1 else ""
        lines.append(f"  job {job}{more}: {reason}")
    if reasons.height > 3:
        lines.append(
            f"  and {counted(reasons.height - 3, 'other reason')}; see reason in jobs.parquet"
        )
    return "\n".join(lines)


def _reason(run: Run, waiting: int, holds_back: str) -> str:
    if reason := _no_gap_is_long_enough(run):
        return reason
    takes = _what_takes_capacity(run)
    if takes and not _some_would_fit(run):
        return takes
    counts = run.metrics["jobs"]
    started = int(counts["submitted"]) - waiting - int(counts.get("rejected") or 0)
    did = "left them in the queue" if started else "placed nothing"
    policy = run.policy.rsplit("/", 1)[-1]
    decisions = counted(int(run.info.get("decisions", 0)), "decision")
    why = (
        holds_back
        or _rules_that_hold_back(run)
        or (
            "check that its `schedule` yields a Place for every task that fits, and test it with "
            "simkit.check_policy"
        )
    )
    return f"the policy {policy} {did} in {decisions}; {why}" + (
        f"; besides, {takes}" if takes else ""
    )


_RECURRING: Final = "recurring maintenance"
_UNKNOWN: Final = "check what takes the machines away"
_CAUSES: Final = {
    _RECURRING: (
        "maintenance that recurs",
        "make the windows rarer or shorter, or let them take less capacity",
    ),
    MAINTENANCE: ("maintenance", "check when the window ends"),
    POWER: (
        "the limited supply of power",
        "raise what sources, battery or the grid's import_limit_w give",
    ),
    FAILURE: ("failures of machines", "check the times of the repairs"),
    "add": ("machines that have not joined yet", "check when they are added"),
    "remove": ("the removal of machines", "check when they are removed"),
}
"""Cause in the table of events → what it is called, and the remedy."""


def _what_takes_capacity(run: Run) -> str:
    """Return what leaves the machines less than they have at the end of a run; empty if nothing."""
    left = _left_at_end(run)
    missing = ", ".join(
        f"{name} {left[name]:,.10g} of {total:,.10g}"
        for name, total in run.capacity.items()
        if left and left[name] < total
    )
    if not missing:
        return ""
    causes = [_CAUSES.get(c, (f"{c!r} in the table of events", _UNKNOWN)) for c in _causes(run)]
    names, remedies = zip(*(causes or [("something", _UNKNOWN)]), strict=True)
    remedy = ", and ".join(dict.fromkeys(remedies))
    return f"{' and '.join(names)} left only {missing} by then; {remedy}"


def _left_at_end(run: Run) -> dict[str, float]:
    """Return the capacity at the last decision, by resource; empty if there was none."""
    last = run.scan("timeline").tail(1).collect()
    names = run.capacity if last.height else ()
    return {name: float(last[f"capacity_{name}"][0]) for name in names}


def _steps(run: Run) -> Iterator[tuple[float, int, str, int]]:
    """Yield time in s, machine, cause and sign of each change of capacity; less is -1."""
    installed = {machine["id"]: machine["capacity"] for machine in run.machines}
    changes = run.scan("events").filter(pl.col("kind") == "capacity")
    for time_s, machine, detail in (
        changes.select("time_s", "machine_id", "detail").collect().rows()
    ):
        facts = json.loads(detail)
        step = sum(facts["capacity"].values()) - sum(installed[machine].values())
        installed[machine] = facts["capacity"]
        yield time_s, machine, facts["cause"], (step > 0) - (step < 0)


def _causes(run: Run) -> list[str]:
    """Return which causes have taken capacity of machines and not given it back, by name."""
    taken: Counter[tuple[int, str]] = Counter()
    for _, machine, cause, sign in _steps(run):
        taken[machine, cause] = max(0, taken[machine, cause] - sign)
    recurs = any(window.every is not None for window in _windows(run))
    found = sorted({cause for (_, cause), count in taken.items() if count})
    return [_RECURRING if cause == MAINTENANCE and recurs else cause for cause in found]


def _some_would_fit(run: Run) -> bool:
    """Return whether what is left at the end has room for a task that waits, all in all."""
    left = _left_at_end(run)
    gang = pl.when("gang").then("instances").otherwise(1)
    waiting = run.scan("tasks").filter(pl.col("status") == "waiting")
    fits = pl.all_horizontal(pl.col(name) * gang <= amount for name, amount in left.items())
    return bool(left) and bool(waiting.select(fits.any()).collect().item())


def _rules_that_hold_back(run: Run) -> str:
    """Return what holds a job back under rules that have names; empty for custom code."""
    policy = run.info.get("scenario", {}).get("policy")
    if not isinstance(policy, dict) or "backfill" not in policy:
        return ""  # not composed of rules
    rules = [rule if isinstance(rule, dict) else {"type": rule} for rule in policy.values()]
    if any(":" in str(rule.get("type")) for rule in rules):
        return ""
    return (
        "what waits may never have had room until its expected end; compare its request and its "
        "estimate_s in jobs.parquet with the maintenance and the power of the site"
    )


def _windows(run: Run) -> list[MaintenanceSection]:
    section = run.info.get("scenario", {}).get("cluster") or {}
    return [MaintenanceSection.model_validate(each) for each in section.get("maintenance") or ()]


def _no_gap_is_long_enough(run: Run) -> str:
    """Return which waiting jobs run longer than the time between recurring windows, or empty."""
    windows = [each for each in _windows(run) if each.every is not None]
    gaps = [w.every - w.length_s for w in windows if w.every is not None and w.length_s is not None]
    if not gaps:
        return ""
    jobs = run.scan("jobs").filter(pl.col("status") == "waiting")
    waiting = jobs.select("job_id", "estimate_s").sort("estimate_s").collect()
    gap = min(gaps) if len(windows) == 1 else min(*gaps, _longest_without(run))
    long = waiting.filter(pl.col("estimate_s") > gap)
    if long.is_empty():
        return ""
    return (
        f"maintenance recurs and leaves {format_duration(gap)} in between, and "
        f"{_too_long(long, len(waiting))}; make the windows rarer or shorter, or let them take "
        "less capacity"
    )


def _too_long(long: pl.DataFrame, waiting: int) -> str:
    """Return which jobs fit no gap, and that the others may wait behind them."""
    shortest = float(long["estimate_s"][0])
    lasts = (
        "has no time limit, so that no policy can know that it ends before the next window"
        if shortest == inf
        else f"is expected to run for at least {format_duration(shortest)}"
    )
    if len(long) == waiting:
        return f"what waits {lasts}"
    if len(long) > 1:
        lasts += f" ({len(long) - 1:,} more are too long as well)"
    return f"job {long['job_id'][0]} {lasts}; others may wait behind it"


def _longest_without(run: Run) -> float:
    """Return the longest time of a run in which maintenance took nothing, in s.

    A run with tasks left goes on for at least one cycle of its windows.
    """
    longest, taken, since = (
        0.0,
        0,
        run.scan("timeline").select(pl.col("time_s").min()).collect().item(),
    )
    for time_s, _, cause, sign in _steps(run):
        if cause == MAINTENANCE:
            longest = longest if taken else max(longest, time_s - since)
            taken, since = max(0, taken - sign), time_s
    return longest
