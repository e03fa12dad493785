"""The check of run.json's facts: they agree with scenario, tables and files.

What tells how the run was made, and nothing of its results, is not judged: versions, wall time and
memory.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any, Final
from zoneinfo import available_timezones

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.folder import unpacked
from simkit.verify.inputs import MissingInputError, log_of
from simkit.verify.numbers import KWH, LARGEST
from simkit.verify.task_inputs.read import table_epoch

_KEYS: Final = frozenset({
    "format", "status", "error", "name", "scenario", "scenario_sha256", "portable_scenario",
    "inputs", "trace", "tables", "epoch_s", "time_zone", "cluster", "power", "seed", "versions",
    "jobs", "decisions", "wall_time_s", "peak_memory_bytes", "digest", "estimates", "warnings",
    "given", "recorded",
})  # fmt: skip
"""Keys of run.json."""
_LATEST_S: Final = 7_258_118_400.0
"""The end of 2199: a later Unix time is no date of a log."""
_ABSOLUTE_S: Final = 1e9
"""Submit times from here on are seconds since 1970: the first of them becomes the trace's zero."""


def check_run_info(run: AuditedRun) -> Check:
    """Check name, seed, number of jobs, epoch, time zone and facts about power."""
    check = Check("run-info", "the facts of run.json agree with scenario, tables and files")
    info, scenario = run.manifest, run.manifest["scenario"]
    for key in ("name", "seed"):
        _compare(check, key, info[key], scenario.get(key))
    if run.complete:
        _compare(check, "jobs", info["jobs"], run.rows_of("jobs"))
        _compare(check, "error", info.get("error", ""), "")
    elif info["jobs"] < run.rows_of("jobs"):
        _compare(check, "jobs", info["jobs"], run.rows_of("jobs"))
    if run.complete:
        _check_estimates(run, check)
    if strange := sorted(info.keys() - _KEYS):
        check.add("run.json has keys that a run does not have", {"keys": ", ".join(strange)})
    _check_clock(run, check)
    _check_power(run, check)
    _check_cluster(run, check)
    return check


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
    told = jobs.filter(requested.is_null() | (requested == pl.col("trace_run_time_s"))).height
    _compare(check, "estimates.told_run_time", found.get("told_run_time"), told)
    _compare(check, "estimates.name", found.get("name"), _estimates_name(run, told))
    perfect = 0 < jobs.height == told and _kind_of_estimates(run)[0] == "requested"
    read = run.setting("workload", "type") in ("swf", "sacct", "jobs")  # models warn of nothing
    warned = bool(run.manifest.get("warnings")) or not read
    if perfect and found.get("used") and not warned:
        check.add("run.json lacks the warning of run times as estimates", {"told": told})


def _kind_of_estimates(run: AuditedRun) -> tuple[str, str, dict[str, Any]]:
    """Return type, correction and arguments of the scenario's estimates."""
    choice = run.setting("estimates")
    args = dict(choice) if isinstance(choice, dict) else {"type": choice}
    return str(args.pop("type")), str(args.pop("correction", "none")), args


def _estimates_name(run: AuditedRun, told: int) -> str:
    """Return what estimates are called: from a fifth of the tasks on, run times are told so."""
    kind, correction, args = _kind_of_estimates(run)
    name = kind + (f"({','.join(f'{k}={v}' for k, v in args.items())})" if args else "")
    name += f" + {correction}" if correction != "none" else ""
    tasks = run.rows_of("tasks")
    if not tasks or told < tasks / 5 or kind not in ("requested", "user-mean"):
        return name
    if kind == "requested":
        return (
            "run times (no requests)" if told == tasks else f"{name} ({told / tasks:.0%} run times)"
        )
    return f"{name} ({told / tasks:.0%} at most the run time)"


def _check_clock(run: AuditedRun, check: Check) -> None:
    """Check the trace's epoch and time zone."""
    kind = run.setting("workload", "type")
    if kind == "swf":
        try:
            epoch, zone = _clock_of(log_of(run))
        except MissingInputError as error:
            _leave_out(check, str(error))
            return
        except (OSError, EOFError, ValueError, IndexError, zlib.error):
            _leave_out(check, "the log cannot be read: see the rule trace")
            return
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
            epoch = run.input_tasks.epoch_s if skips else table_epoch(run)
            _compare(check, "epoch_s", run.manifest["epoch_s"], epoch)
        except MissingInputError as error:
            _leave_out(check, str(error))
        except (OSError, EOFError, ValueError, zlib.error):
            _leave_out(check, "the table cannot be read: see the rule tasks")
    else:
        for key in ("epoch_s", "time_zone"):
            _compare(check, key, run.manifest[key], None)


def _leave_out(check: Check, reason: str) -> None:
    """Mark the check as not audited, unless it has found something already."""
    if not check.found:
        check.leave_out(reason)


def _clock_of(path: Path) -> tuple[float | None, str | None]:
    """Return the Unix time of a log's zero and its time zone, as its header says."""
    values: dict[str, str] = {}
    first = None
    with unpacked(path) as lines:
        for line in lines:
            if first is not None and b";" not in line:
                continue
            text = line.decode("latin-1").strip()
            if match := re.match(r";\s*([A-Za-z][A-Za-z0-9_ ]*?)\s*:\s*(.*)$", text):
                values.setdefault(match[1].lower(), match[2])
            elif text and not text.startswith(";"):
                first = float(text.split()[1])
    zone = values.get("timezonestring", "")
    start = re.search(r"[-+]?[0-9]+(?:\.[0-9]*)?", values.get("unixstarttime", ""))
    epoch = float(start[0]) if start and float(start[0]) > 0 else None
    if epoch is not None and epoch > _LATEST_S:  # in milliseconds, or no date
        epoch = epoch / 1000 if 6.3e11 <= epoch <= 1000 * _LATEST_S else None
    if first is not None and _ABSOLUTE_S <= first < LARGEST:
        epoch = first
    return epoch, zone if zone in available_timezones() else None


def _check_cluster(run: AuditedRun, check: Check) -> None:
    """Check machines and capacities where the scenario gives them as numbers."""
    section = run.setting("cluster") or {}
    _check_partitions(section.get("partitions") or [], run, check)
    if section.get("containers") or section.get("trace") or section.get("overcommit"):
        return  # the rule machine-capacity is about them
    machines = run.manifest["cluster"]["machines"]
    found = [machine["capacity"] for machine in sorted(machines, key=lambda m: int(m["id"]))]
    expected = []
    if section.get("machines"):
        for group in section["machines"]:
            amounts = {k: v for k, v in group.items() if k not in ("name", "count")}
            whole = {name: _amount(amounts.get(name, 0.0)) for name in run.resources}
            expected += [whole] * int(group.get("count", 1))
    elif section.get("processors"):
        expected = [{"processors": _amount(section["processors"])}]
    elif pools := [p for p in section.get("partitions") or () if p.get("processors")]:
        expected = [{"processors": _amount(pool["processors"])} for pool in pools]
    if expected:
        _compare(check, "cluster.machines", found, expected)


_OF_PARTITIONS: Final = (
    "name", "priority", "preempt", "max_processors", "max_running_per_user", "max_waiting_per_user",
)  # fmt: skip
"""Keys of partitions that run.json takes from the scenario as they are."""


def _check_partitions(sections: list[dict[str, Any]], run: AuditedRun, check: Check) -> None:
    """Check that run.json has the limits of the scenario's partitions."""
    found = run.manifest["cluster"]["partitions"]
    for key in _OF_PARTITIONS if sections else ():
        has, wants = ([part.get(key) for part in parts] for parts in (found, sections))
        check.examined += 1
        if has != wants:
            row = {"key": f"cluster.partitions: {key}", "found": has, "expected": wants}
            check.add("the key of run.json does not agree with scenario, tables or files", row)


def _amount(amount: float) -> float:
    """Return an amount on the grid of amounts, multiples of 2**-30."""
    return round(float(amount) * 2**30) / 2**30


def _check_power(run: AuditedRun, check: Check) -> None:
    """Check what run.json says of the site's power against scenario and ledger."""
    facts = run.manifest.get("power")
    if run.setting("power") is None:
        if facts is not None:
            check.add("run.json has facts about power, but the scenario has none", {})
        return
    if not isinstance(facts, dict):
        check.add("run.json has no facts about power", {"found": facts})
        return
    battery = run.setting("power", "battery")
    _compare(check, "power.battery.model", facts.get("battery.model"),
             None if battery is None else battery.get("model"))  # fmt: skip
    _compare(check, "power.align", facts.get("align"), run.setting("power", "align", "type"))
    if not run.complete or "power" not in run.tables or not run.tables["power"].height:
        return
    wanted = {f"sources.{name}.generation_kwh" for name in run.setting("power", "sources") or {}}
    there = {key for key in facts if key.endswith(".generation_kwh")}
    _compare(check, "power.sources", sorted(there), sorted(wanted))
    check.examined += 1
    numbers = [facts[key] for key in there]
    made = float((run.power["generation_w"] * run.power["seconds"]).sum()) / KWH
    known = all(isinstance(number, (int, float)) for number in numbers)
    if not known or abs(sum(numbers) - made) > 1e-9 * max(made, 1.0):
        row = {"found": numbers, "expected_sum_kwh": made}
        check.add("what the sources generated does not add up to the ledger's generation", row)
