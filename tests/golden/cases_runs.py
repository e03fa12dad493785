"""Golden runs: what bundled scenarios and real logs gave, held by a digest of their own.

The digest covers the numeric columns and the metric values listed below and nothing else, so that a
new column, a new metric or another wording does not change it.
"""

from __future__ import annotations

import json
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl
from cases import HERE, Case
from ruamel.yaml import YAML

import simkit

RESOURCES = ("processors", "cpu", "mem")
COLUMNS = {
    "jobs": (
        "job_id submit_time_s start_time_s end_time_s wait_time_s turnaround_time_s run_time_s "
        "requested_time_s estimate_s trace_run_time_s suspended_time_s lost_time_s attempts "
        "qos value deadline_s processors cpu mem"
    ),
    "tasks": "job_id task_id instances start_time_s end_time_s processors cpu mem",
    "allocations": (
        "job_id task_id machine_id first_instance count attempt start_time_s end_time_s"
    ),
    "timeline": (
        "time_s waiting backlog running allocated_processors allocated_cpu allocated_mem "
        "capacity_processors capacity_cpu capacity_mem"
    ),
    "events": "time_s job_id task_id machine_id",
    "power": (
        "start_s end_s generation_w import_w discharge_w unserved_w load_w charge_w export_w "
        "curtailment_w losses_w pue price_per_kwh carbon_gco2_per_kwh machines_w standing_w "
        "load_renewable_w load_battery_w load_grid_w charge_renewable_w charge_grid_w "
        "carbon_g_per_s cost_per_s load_carbon_g_per_s load_cost_per_s stored_j stored_carbon_g"
    ),
    "energy": "job_id energy_j overhead_j renewable_j battery_j grid_j carbon_g cost",
}
"""Table → the numeric columns that count; one that a run does not have is left out."""

METRICS = [
    "jobs",
    "tasks",
    "wait_time_s",
    "turnaround_time_s",
    "slowdown",
    "bounded_slowdown",
    "per_processor_bounded_slowdown",
    "task_turnaround_time_s",
    "attempts",
    "retries",
    "makespan_s",
    "utilisation_processors",
    "utilisation_cpu",
    "utilisation_mem",
    "machine_utilisation_cpu",
    "machine_utilisation_mem",
    "machines_in_use",
    "offered_load_processors",
    "offered_load_cpu",
    "offered_load_mem",
    "backlog",
    "unsuccessful_share",
    "throughput_jobs_per_h",
    "throughput_instances_per_h",
    "awrt_s",
    "fairness_jain",
    "fragmentation_cpu",
    "fragmentation_mem",
    "stranded_cpu",
    "stranded_mem",
    "lost_cpu_s",
    "lost_mem_s",
    "killed_cpu_s",
    "battery_full_cycles",
    "carbon_kg",
    "curtailment_kwh",
    "energy_cost",
    "generation_kwh",
    "grid_import_peak_w",
    "load_kwh",
    "renewable_fraction",
    "self_consumption",
    "served_kwh",
    "unserved_kwh",
    "job_value",
    "value_ratio",
    "completion_ratio",
    "qos_violations",
    "delay_cost",
]
VALUES = [
    "mean",
    "p50",
    "p90",
    "p99",
    "max",
    "count",
    "censored",
    "value",
    "submitted",
    "finished",
    "killed",
    "rejected",
    "by_last_submit",
    "in_time",
    "share",
]

EASY = {"order": "fcfs", "backfill": "easy"}
SJF = {"order": "sjf", "backfill": "easy"}
CONSERVATIVE = {"order": "fcfs", "backfill": "conservative"}
QOS = {"order": "qos", "backfill": "easy"}
SAMPLES: dict[str, tuple[str, Any]] = {
    "quickstart": ("quickstart", None),
    "quickstart conservative": ("quickstart", CONSERVATIVE),
    "quickstart value": ("quickstart", QOS),
    "cloud-quickstart": ("cloud-quickstart", None),
    "cloud-quickstart tetris": ("cloud-quickstart", {"fitness": "tetris"}),
    "green-quickstart": ("green-quickstart", None),
    "deeprm": ("deeprm", None),
    "deeprm slotted-tetris": ("deeprm", {"name": "slotted-tetris"}),
    "sofia": ("sofia", None),
    "backfilling-sweep easy": ("backfilling-sweep", EASY),
}
LOGS: dict[str, tuple[str, Any]] = {
    **{
        f"{log} {name}": (log, policy)
        for log in ("sdsc-sp2", "hpc2n")
        for name, policy in (("fcfs", {"order": "fcfs"}), ("easy", EASY), ("sjf easy", SJF))
    },
    **{
        f"alibaba-2017 {rule}": ("alibaba-2017", {"fitness": rule})
        for rule in ("first-fit", "best-fit", "dot-product")
    },
    "green-texas": ("green-texas", None),
    "green-carbon": ("green-carbon", None),
    "ctc-sp2": ("ctc-sp2", None),
    "kth-sp2": ("kth-sp2", None),
    "lublin-256": ("lublin-256", None),
    "sdsc-blue": ("sdsc-blue", None),
    "theta-2022": ("theta-2022", None),
    "deepjs-chunk": ("deepjs-chunk", None),
}


def run_case(name: str) -> simkit.Run:
    scenario, policy = (SAMPLES | LOGS)[name]
    if scenario == "backfilling-sweep":  # one point of it
        path = HERE.parents[1] / "scenarios" / f"{scenario}.yaml"
        content = dict(YAML(typ="safe").load(path))
        del content["sweep"]
        return simkit.simulate(content, policy=policy)
    value = {"value": {}} if name.endswith(" value") else None
    return simkit.simulate(scenario, policy=policy, overrides=value)


def column_digest(column: pl.Series) -> str:
    """Return the SHA-256 of a numeric column; a null is a NaN."""
    numbers = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return sha256(numbers.astype("<f8").tobytes()).hexdigest()


def results_of(run: simkit.Run) -> dict[str, Any]:
    """Return a digest a table and one of the metrics, and a few numbers for people."""
    digests = {}
    for table, names in COLUMNS.items():
        try:
            frame = getattr(run, table)
        except simkit.SimkitError:  # a run without power has neither `power` nor `energy`
            continue
        numeric = [n for n in names.split() if n in frame.columns and frame[n].dtype != pl.String]
        lines = [f"{n}:{column_digest(frame[n])}" for n in numeric]
        digests[table] = sha256("\n".join(lines).encode()).hexdigest()[:16]
    values = {
        f"{name}.{key}": f"{run.metrics[name][key]:.12g}"
        for name in METRICS
        if name in run.metrics
        for key in VALUES
        if isinstance(run.metrics[name].get(key), int | float)
    }
    text = json.dumps(values, sort_keys=True)
    digests["metrics"] = sha256(text.encode()).hexdigest()[:16]
    shown = {
        "jobs": len(run.jobs),
        "mean wait, s": values.get("wait_time_s.mean"),
        "makespan, s": values.get("makespan_s.value"),
    }
    return {"digests": digests, "shown": shown}


CASES = {
    **{name: Case(partial(lambda name: results_of(run_case(name)), name)) for name in SAMPLES},
    **{
        name: Case(
            partial(lambda name: results_of(run_case(name)), name), slow=True, needs_data=True
        )
        for name in LOGS
    },
}
