"""Warnings about a run: jobs that wait at its end, and jobs that were rejected."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import polars as pl

from simkit.results.job_metrics import SINCE_RELEASE
from simkit.results.run_folder import Run
from simkit.scenario.cluster import MaintenanceSection
from simkit.text import counted
from simkit.units import format_duration


def late_warnings(run: Run) -> list[str]:
    """Return what a reader of the results must know after a run; it needs its metrics."""
    return [text for text in (rejections_warning(run), waiting_warning(run)) if text]


def waiting_at_end(metrics: Mapping[str, Any]) -> int:
    """Return how many jobs wait at the end of a run, from its metrics."""
    return int(metrics.get("jobs", {}).get("waiting") or 0)


def waiting_warning(run: Run) -> str:
    """Return a warning about jobs that wait at the end of a run, with a likely cause, or empty."""
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
    return f"warning: {share} still {verb} at the end of the run: {_reason(run, waiting)}{more}"


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


def _reason(run: Run, waiting: int) -> str:
    if reason := _no_gap_is_long_enough(run):
        return reason
    last = run.scan("timeline").tail(1).collect()
    missing = ", ".join(
        f"{name} {last[f'capacity_{name}'][0]:,.10g} of {total:,.10g}"
        for name, total in run.capacity.items()
        if last.height and last[f"capacity_{name}"][0] < total
    )
    if missing:
        return f"the machines hold less than at the start ({missing}); check what takes them away"
    counts = run.metrics["jobs"]
    started = int(counts["submitted"]) - waiting - int(counts.get("rejected") or 0)
    did = "left them in the queue" if started else "placed nothing"
    policy = run.policy.rsplit("/", 1)[-1]
    decisions = counted(int(run.info.get("decisions", 0)), "decision")
    why = _rules_that_hold_back(run) or (
        "check that its `schedule` yields a Place for every task that fits, and test it with "
        "simkit.check_policy"
    )
    return f"the policy {policy} {did} in {decisions}; {why}"


def _rules_that_hold_back(run: Run) -> str:
    """Return what holds a job back under rules that have names; empty for custom code."""
    policy = run.info.get("scenario", {}).get("policy")
    if not isinstance(policy, dict) or "backfill" not in policy:
        return ""  # not composed of rules
    rules = [rule if isinstance(rule, dict) else {"type": rule} for rule in policy.values()]
    if any(":" in str(rule.get("type")) for rule in rules):
        return ""
    for rule in rules:
        if rule.get("type") == "power-cap":
            return _power_is_short(rule.get("cap_w"))
    return (
        "what waits may never have had room until its expected end; compare its request and its "
        "estimate_s in jobs.parquet with the maintenance and the power of the site"
    )


def _power_is_short(cap_w: float | None) -> str:
    if cap_w is None:
        cap, remedy = "what sources, grid and battery give", "raise the grid's import_limit_w"
    else:
        cap, remedy = f"its cap_w of {cap_w:,.10g} W", "raise cap_w"
    return (
        f"backfill power-cap starts a job only if the site's load stays within {cap}, and what "
        f"waits needs more power than that leaves; {remedy}, or make the jobs smaller"
    )


def _no_gap_is_long_enough(run: Run) -> str:
    """Return that what waits runs longer than the time between recurring windows, or empty."""
    section = run.info.get("scenario", {}).get("cluster") or {}
    windows = [MaintenanceSection.model_validate(each) for each in section.get("maintenance") or ()]
    gaps = [w.every - w.length_s for w in windows if w.every is not None and w.length_s is not None]
    if not gaps:
        return ""
    jobs = run.scan("jobs").filter(pl.col("status") == "waiting")
    shortest = jobs.select(pl.col("estimate_s").min()).collect().item()
    if shortest is None or shortest <= (gap := min(gaps)):
        return ""
    waits = f"is expected to run for at least {format_duration(shortest)}"
    if shortest == inf:
        waits = "has no time limit, so that no policy can know that it ends before the next window"
    return (
        f"maintenance recurs and leaves {format_duration(gap)} in between, and what waits "
        f"{waits}; make the windows rarer or "
        "shorter, or let them take less capacity"
    )
