"""Checks of the folder: digest and columns of its tables, scenario and facts of run.json.

Versions, wall time and memory say nothing about the results and are not judged. Before any rule is
checked, what a few keys of the scenario derive is estimated: a stranger's folder may ask in a few
bytes for what takes hours, such as failures every nanosecond or a group of 10⁹ machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

import polars as pl

from simkit.errors import RunError
from simkit.records import JOBS_FURTHER
from simkit.scenario import portable_form
from simkit.scenario.cluster import PartitionSection
from simkit.sections import Section
from simkit.verify.audit import (
    KWH,
    Check,
    NotApplicableError,
    NotAuditedError,
    amount_on_grid,
    is_own,
    rule,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.folder import COLUMNS, RunFolder, digest_of
from simkit.verify.input_tasks import UNREADABLE, epoch_of_table
from simkit.verify.inputs import clock_of_log, log_of

_KEYS: Final = frozenset({
    "format", "status", "error", "name", "scenario", "scenario_sha256", "portable_scenario",
    "inputs", "trace", "tables", "epoch_s", "time_zone", "cluster", "power", "seed", "versions",
    "jobs", "decisions", "wall_time_s", "peak_memory_bytes", "digest", "estimates", "warnings",
    "given", "recorded", "engine",
})  # fmt: skip
"""Keys of run.json."""
MOST: Final = 20_000_000
"""Instants or machines of one key that are audited."""
_SHORTEST_S: Final = 2.0**-20
"""The clock's grid; no period is shorter."""


def refuse_too_much(run: AuditedRun) -> None:
    """Raise RunError if a key of the run's scenario derives more than is audited."""
    for place, number in _derived(run):
        if number > MOST:
            much = "without end" if number == inf else f"{number:,.0f}"
            raise RunError(
                f"{run.path}: {place} of the scenario stands for too many instants or machines "
                f"({much}; at most {MOST:,} are audited), so the run cannot be checked"
            )


def _derived(run: AuditedRun) -> Iterator[tuple[str, float]]:
    """Yield the place of a key and how much it derives."""
    known = [time for time in run.only("timeline", "time_s")["time_s"] if time is not None]
    span_s = float(max(known) - min(known)) if known else 0.0
    machines, cluster = len(run.manifest["cluster"]["machines"]), run.scenario.cluster
    yield "cluster.machines", sum(group.count for group in cluster.machines or ())
    if failures := cluster.failures:
        yield "cluster.failures", 2 * machines * _times(span_s, failures.mtbf + failures.mttr)
    for row, window in enumerate(cluster.maintenance):
        if window.every is not None:
            yield f"cluster.maintenance.{row}.every", machines * _times(span_s, window.every)
    for section in ("scheduling", "power"):
        for place, period in _periods(run.setting(section), section):
            yield place, _times(span_s, period)


def _periods(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Yield the place and the seconds of every period in a section."""
    parts = dict(value) if isinstance(value, Section | Mapping) else {}
    parts |= dict(enumerate(value)) if isinstance(value, tuple) else {}
    for key, below in parts.items():
        if key in ("step", "every", "resample") and isinstance(below, float):
            yield f"{place}.{key}", below
        else:
            yield from _periods(below, f"{place}.{key}")


def _times(span_s: float, period_s: float) -> float:
    """Return how often a period goes into a span; without end if the clock has no such period."""
    return span_s / period_s if period_s >= _SHORTEST_S else inf


@rule
def check_scenario(run: AuditedRun, check: Check) -> None:
    """The scenario has its SHA-256, and its portable form agrees with it.

    ``portable_scenario`` is what enters the run's digest: inputs by their SHA-256, and no keys at
    their default. ``scenario_sha256`` covers the scenario as it is written.
    """
    info = run.manifest
    found = _hash_of(info["scenario"])
    if found != info["scenario_sha256"]:
        row = {"recorded": info["scenario_sha256"], "recomputed": found}
        check.add("the scenario is not the one that its SHA-256 was taken of", row)
    inputs = {str(entry["path"]): str(entry["sha256"]) for entry in info["inputs"]}
    expected = portable_form(run.scenario, inputs)
    check.examined = 1 + len(expected)
    for place, recorded, due in _differences(info["portable_scenario"], expected):
        row = {"key": place, "found": recorded, "expected": due}
        check.add("the portable form is not that of the scenario", row)


def _hash_of(scenario: Any) -> str:
    """Return the SHA-256 of canonical JSON: sorted keys, no blanks, UTF-8."""
    text = json.dumps(scenario, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _differences(found: Any, expected: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, one value, the other) of all that differs; None for a missing key."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted({*found, *expected}):
            below = f"{place}.{key}" if place else key
            yield from _differences(found.get(key), expected.get(key), below)
    elif type(found) is not type(expected) or found != expected:
        yield place, found, expected


@rule
def check_columns(run: RunFolder, check: Check) -> None:
    """Tables have the columns of a run, in order, and there are no others."""
    for name in run.tables:
        there = run.columns_of(name)
        check.examined += len(there)
        expected = _columns_of(run, name)
        if strange := [column for column in there if column not in expected]:
            row = {"table": name, "columns": ", ".join(strange)}
            check.add("the table has columns that a run does not have", row)
        if missing := [column for column in expected if column not in there]:
            row = {"table": name, "columns": ", ".join(missing)}
            check.add("the table lacks columns", row)
        elif not strange and there != expected:
            row = {"table": name, "found": ", ".join(there)}
            check.add("the columns are not in their order", row)
    for path in sorted(run.path.glob("*.parquet")):
        if path.stem not in run.tables:
            check.add("the folder has a table that the run does not have", {"file": path.name})


def _columns_of(run: RunFolder, table: str) -> list[str]:
    """Return the columns that a table of the run must have, in order."""
    there, asked = run.columns_of(table), []
    if table in ("jobs", "tasks"):  # tasks have the resources in the order of the jobs'
        asked = [name for name in run.columns_of("jobs") if name in run.resources]
    elif table == "timeline":
        asked = [f"{kind}_{name}" for kind in ("allocated", "capacity") for name in run.resources]
    further = [name for name in JOBS_FURTHER if table == "jobs" and name in there]
    return [*COLUMNS[table], *further, *asked]


@rule
def check_digest(run: RunFolder, check: Check) -> None:
    """Tables, metrics and scenario have the recorded digest."""
    check.examined = len(run.tables)
    recorded = run.manifest.get("digest")
    if recorded is None and not run.complete:
        raise NotApplicableError("the run is not complete and has no digest")
    try:
        found = digest_of(run.tables, run.metrics, run.manifest["portable_scenario"])
    except ValueError as error:
        check.add("a column cannot be digested", {"problem": str(error)})
        return
    if found != recorded:
        check.add("the digest differs", {"recorded": recorded, "recomputed": found})


@rule
def check_run_info(run: AuditedRun, check: Check) -> None:
    """The facts of run.json agree with scenario, tables and files."""
    info = run.manifest
    for key in ("name", "seed"):
        _compare(check, key, info[key], run.setting(key))
    if run.complete:
        _compare(check, "jobs", info["jobs"], run.rows_of("jobs"))
        _compare(check, "error", info.get("error", ""), "")
    elif info["jobs"] < run.rows_of("jobs"):
        _compare(check, "jobs", info["jobs"], run.rows_of("jobs"))
    if run.complete:
        _check_estimates(run, check)
    if strange := sorted(info.keys() - _KEYS):
        check.add("run.json has keys that a run does not have", {"keys": ", ".join(strange)})
    _check_power(run, check)
    _check_cluster(run, check)
    _check_clock(run, check)  # last, for it may need a file that is not there


def _compare(check: Check, key: str, found: Any, expected: Any) -> None:
    check.examined += 1
    if type(found) is not type(expected) or found != expected:
        row = {"key": key, "found": found, "expected": expected}
        check.add("the key of run.json does not agree with scenario, tables or files", row)


def _check_estimates(run: AuditedRun, check: Check) -> None:
    """Check what the estimates are called, where each job is one task: the rest has no requests."""
    found, tasks = run.manifest.get("estimates"), run.rows_of("tasks")
    if found is None:
        check.notes["name of estimates not checked"] = "run.json does not have it"
        return
    if not isinstance(found, dict):
        check.add("the entry estimates of run.json is not an object", {"found": str(found)})
        return
    _compare(check, "estimates.tasks", found.get("tasks"), tasks)
    if tasks != run.rows_of("jobs") or not run.only("tasks", "gang")["gang"].all():
        check.notes["name of estimates not checked"] = "jobs have several tasks, or bags"
        return
    jobs = run.only("jobs", "requested_time_s", "trace_run_time_s")
    requested = pl.col("requested_time_s")
    with_true_run_time = jobs.filter(
        requested.is_null() | (requested == pl.col("trace_run_time_s"))
    ).height
    _compare(check, "estimates.told_run_time", found.get("told_run_time"), with_true_run_time)
    if not is_own("simkit.predictors", run.scenario.estimates.type):
        why = "a custom estimator may say what requested times are to it"
        check.notes["name of estimates not checked"] = why
        return
    _compare(check, "estimates.name", found.get("name"), _estimates_name(run, with_true_run_time))
    perfect = 0 < jobs.height == with_true_run_time and run.scenario.estimates.type == "requested"
    read = run.setting("workload", "type") in ("swf", "sacct", "jobs")  # models warn of nothing
    warned = bool(run.manifest.get("warnings")) or not read
    if perfect and found.get("used") and not warned:
        check.add(
            "run.json lacks the warning of run times as estimates", {"told": with_true_run_time}
        )


def _estimates_name(run: AuditedRun, with_true_run_time: int) -> str:
    """Return what estimates are called: from a fifth of the tasks on, run times are named."""
    choice = run.scenario.estimates
    kind, correction, args = choice.type, choice.correction, choice.args
    name = kind + (f"({','.join(f'{k}={v}' for k, v in args.items())})" if args else "")
    name += f" + {correction}" if correction != "none" else ""
    tasks = run.rows_of("tasks")
    if not tasks or with_true_run_time < tasks / 5 or kind not in ("requested", "user-mean"):
        return name
    if kind == "requested":
        return (
            "run times (no requests)"
            if with_true_run_time == tasks
            else f"{name} ({with_true_run_time / tasks:.0%} run times)"
        )
    return f"{name} ({with_true_run_time / tasks:.0%} at most the run time)"


def _check_clock(run: AuditedRun, check: Check) -> None:
    """Check the trace's epoch and time zone."""
    kind = run.setting("workload", "type")
    if kind == "swf":
        try:
            epoch, zone = clock_of_log(log_of(run))
        except (*UNREADABLE, IndexError):
            raise NotAuditedError("the log cannot be read: see the rule trace") from None
        _compare(check, "epoch_s", run.manifest["epoch_s"], epoch)
        _compare(check, "time_zone", run.manifest["time_zone"], zone)
    elif kind == "sacct":
        _compare(
            check, "time_zone", run.manifest["time_zone"], run.setting("workload", "time_zone")
        )
    elif kind == "plugin":
        check.notes["epoch and time zone not checked"] = "the jobs come from a custom reader"
    elif kind in ("jobs", "tasks"):
        _compare(check, "time_zone", run.manifest["time_zone"], run.setting("workload", "zone"))
        try:
            # Which rows are left out, and so which is the earliest, the whole table shows.
            skips = run.setting("workload", "on_error") == "skip" and run.input_tasks.known
            epoch = run.input_tasks.epoch_s if skips else epoch_of_table(run)
            _compare(check, "epoch_s", run.manifest["epoch_s"], epoch)
        except UNREADABLE:
            raise NotAuditedError("the table cannot be read: see the rule tasks") from None
    else:
        for key in ("epoch_s", "time_zone"):
            _compare(check, key, run.manifest[key], None)


def _check_cluster(run: AuditedRun, check: Check) -> None:
    """Check machines and capacities where the scenario gives them as numbers."""
    section = run.scenario.cluster
    _check_partitions(section.partitions, run, check)
    if section.containers or section.trace or section.overcommit:
        return  # the rule machine-capacity is about them
    machines = run.manifest["cluster"]["machines"]
    found = [machine["capacity"] for machine in sorted(machines, key=lambda m: int(m["id"]))]
    pools = [section.processors, *(partition.processors for partition in section.partitions)]
    expected = [{"processors": amount_on_grid(pool)} for pool in pools if pool is not None]
    for group in section.machines or ():
        whole = {name: amount_on_grid(group.capacity.get(name, 0.0)) for name in run.resources}
        expected += [whole] * group.count
    if expected:
        _compare(check, "cluster.machines", found, expected)


_OF_PARTITIONS: Final = (
    "name", "priority", "preempt", "max_processors", "max_running_per_user", "max_waiting_per_user",
)  # fmt: skip
"""Keys of partitions that run.json takes from the scenario as they are."""


def _check_partitions(
    sections: tuple[PartitionSection, ...], run: AuditedRun, check: Check
) -> None:
    """Check that run.json has the limits of the scenario's partitions."""
    for key in _OF_PARTITIONS if sections else ():
        has = [part.get(key) for part in run.partitions]
        wants = [getattr(section, key) for section in sections]
        check.examined += 1
        if has != wants:
            row = {"key": f"cluster.partitions: {key}", "found": has, "expected": wants}
            check.add("the key of run.json does not agree with scenario, tables or files", row)


def _check_power(run: AuditedRun, check: Check) -> None:
    """Check what run.json says of the site's power against scenario and ledger."""
    facts = run.manifest.get("power")
    section = run.scenario.power
    if section is None:
        if facts is not None:
            check.add("run.json has facts about power, but the scenario has none", {})
        return
    if not isinstance(facts, dict):
        check.add("run.json has no facts about power", {"found": facts})
        return
    model = run.setting("power", "battery", "model")
    _compare(check, "power.battery.model", facts.get("battery.model"), model)
    _compare(check, "power.align", facts.get("align"), section.align.type)
    if not run.complete or "power" not in run.tables or not run.tables["power"].height:
        return
    wanted = {f"sources.{name}.generation_kwh" for name in section.sources}
    there = {key for key in facts if key.endswith(".generation_kwh")}
    _compare(check, "power.sources", sorted(there), sorted(wanted))
    check.examined += 1
    numbers = [facts[key] for key in there]
    made = float((run.power["generation_w"] * run.power["seconds"]).sum()) / KWH
    known = all(isinstance(number, (int, float)) for number in numbers)
    if not known or abs(sum(numbers) - made) > 1e-9 * max(made, 1.0):
        row = {"found": numbers, "expected_sum_kwh": made}
        check.add("what the sources generated does not add up to the ledger's generation", row)
