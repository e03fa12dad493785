"""Random small scenarios that are meant to run: workload, machines, policy, power, all at random.

Each part is drawn by its own function from a `numpy` generator, so that a seed is a scenario. Parts
that exclude each other are drawn together; what simkit refuses all the same is counted as refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Section = dict[str, Any]

ORDERS = (
    "fcfs", "lcfs", "sjf", "ljf", "saf", "laf", "hrrn", "wfp3", "unicef", "f1", "f2", "f3", "f4",
    "log-r-n", "r2-n", "saf-p", "wfp3-p-n2", "multifactor", "random", "largest-request",
    "fewest-remaining",
)  # fmt: skip
VALUE_ORDERS = ("qos", "value", "value-density", "least-slack")
FITNESSES = (
    "balance", "best-fit", "cosine", "dot-product", "drf", "first-fit", "l2-norm", "packer",
    "random", "spread", "stack", "tetris", "worst-fit",
)  # fmt: skip
PLACEMENTS = ("best-fit", "first-fit", "random", "worst-fit")
SLOTTED = (
    "slotted-sjf", "slotted-packer", "slotted-tetris", "slotted-random", "slotted-headroom",
    "slotted-area",
)  # fmt: skip
BACKFILLS = ("easy", "easy", "conservative", "none")
GREEN = ("ready-pool", "green-slot", "power-cap", "price-threshold", "carbon-threshold")
DRAWN = {
    "order": {*ORDERS, *VALUE_ORDERS}, "fitness": {*FITNESSES}, "placement": {*PLACEMENTS},
    "backfill": {*BACKFILLS, *GREEN}, "policy": {*SLOTTED},
}  # fmt: skip
"""Kind of policy → the names drawn. The lists stay as they are, since a longer one would draw other
scenarios of the same seeds, which golden results hold; a test names what is left out."""
TASK_COLUMNS = {
    "job_id": "job_id", "task_id": "task_id", "submit_time_s": "submit_time",
    "run_time_s": "duration", "instances": "instances_num", "cpu": "cpu", "mem": "memory",
    "parents": "parents",
}  # fmt: skip
RUNNING = ("drain", "suspend", "requeue")


def random_scenario(rng: np.random.Generator, folder: Path) -> Section:
    """Return a scenario; its tables of jobs are written to the folder."""
    kind = rng.choice(["pool", "machines", "cloud", "slotted"], p=[0.5, 0.2, 0.22, 0.08])
    make = {"pool": _pool, "machines": _machines, "cloud": _cloud, "slotted": _slotted}[str(kind)]
    scenario = make(rng, folder)
    scenario["seed"] = int(rng.integers(1000))
    if _coin(rng, 0.15):
        scenario["metrics"] = {"tau": _pick(rng, (1, "10s", "1m"))}
    # Drawn from a child, so that what was added later leaves the other choices of a seed alone;
    # from the third, which spares the seeds that tests name.
    later = rng.spawn(3)[2]
    if later.random() < 0.3:
        _add_corrections_and_limits(later, scenario)
    (last,) = rng.spawn(1)
    if last.random() < 0.3 and "path" in scenario["workload"]:
        _add_transforms(last, scenario["workload"])
    return scenario


def _add_transforms(rng: np.random.Generator, workload: Section) -> None:
    """Change the jobs of a table or log: a part of them, denser, larger, longer."""
    changes: Section = {
        "window": _pick(rng, ({"jobs": 20}, {"jobs": "2..30"}, {"start": "1m"},
                              {"start": 5, "end": "2h"})),
        "load": float(round(rng.uniform(0.5, 3), 2)),
        "processors_scale": _pick(rng, (0.5, 0.7, 1.5)),
        "processors_max": int(rng.integers(1, 6)),
        "run_time_scale": float(round(rng.uniform(0.3, 2), 3)),
        "run_time_max": _pick(rng, (50, "10m")),
        "target_load": {"offered_load": 0.9, "processors": 8},
    }  # fmt: skip
    for name in rng.choice([*changes], size=int(rng.integers(1, 4)), replace=False).tolist():
        workload[name] = changes[name]


def _coin(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def _pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# ---- workloads -----------------------------------------------------------------------------------


def _pool(rng: np.random.Generator, folder: Path) -> Section:
    """Return rigid jobs on a pool."""
    size = int(rng.integers(1, 17))
    scenario: Section = {
        "workload": _rigid_jobs(rng, folder, size),
        "cluster": {"processors": size},
        "policy": _composed(rng),
    }
    _vary(rng, scenario, groups=[])
    if _coin(rng, 0.3):
        _with_power(rng, scenario, size)
    return scenario


def _machines(rng: np.random.Generator, folder: Path) -> Section:
    """Return rigid jobs on a few groups of machines."""
    groups = [
        {"name": f"g{n}", "count": int(rng.integers(1, 5)), "processors": int(rng.integers(1, 9))}
        for n in range(rng.integers(1, 4))
    ]
    size = sum(group["count"] * group["processors"] for group in groups)
    names = [group["name"] for group in groups]
    scenario: Section = {
        "workload": _rigid_jobs(rng, folder, max(group["processors"] for group in groups)),
        "cluster": {"machines": groups},
        "policy": _composed(rng) | {"placement": _pick(rng, PLACEMENTS)},
    }
    if _coin(rng, 0.3):
        scenario["cluster"]["failures"] = _failures(rng, names)
    _vary(rng, scenario, groups=names)
    if _coin(rng, 0.3):
        _with_power(rng, scenario, size)
    return scenario


def _rigid_jobs(rng: np.random.Generator, folder: Path, size: int) -> Section:
    """Return a workload of rigid jobs: a model, a table of jobs, or a log in SWF."""
    kind = _pick(rng, ("jobs", "jobs", "swf", "swf", "poisson", "uniform", "bimodal", "lublin"))
    if kind == "jobs":
        return {"type": "jobs", "path": str(_jobs_table(rng, folder, size))}
    if kind == "swf":
        raw = {"requested_time": "raw"} if _coin(rng, 0.5) else {}
        return {"type": "swf", "path": str(_swf(rng, folder, size)), **raw}
    section: Section = {
        "type": kind, "jobs": int(rng.integers(1, 80)), "processors": size,
        "offered_load": float(round(rng.uniform(0.2, 1.5), 2)),
        "users": int(rng.integers(0, 5)), "estimates": _pick(rng, ("none", "exact", "modal")),
    }  # fmt: skip
    if kind == "poisson":
        section["sizes"] = [1, int(rng.integers(1, size + 1))]
    if _coin(rng, 0.2):
        section["load"] = float(round(rng.uniform(0.5, 3), 2))
    if _coin(rng, 0.15):
        section["window"] = {"jobs": int(rng.integers(1, section["jobs"] + 1))}
    return section


def _times(rng: np.random.Generator, jobs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return submit, run and requested times; often whole, equal, or zero."""
    submit = np.cumsum(rng.choice([0, 0, 1, 10, 60, 600, 5000], size=jobs))
    run = rng.choice([0, 1, 10, 60, 600, 3600, 20_000], size=jobs) + rng.integers(0, 3, size=jobs)
    if _coin(rng, 0.3):
        submit, run = submit + np.sort(rng.random(jobs).round(3)), run + rng.random(jobs).round(3)
    requested = np.ceil(run * rng.choice([0.5, 1, 1, 2, 10], size=jobs))
    return submit, run, requested


def _preceding(rng: np.random.Generator, jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a preceding job's number and a think time for each job; for most, -1.

    They come from a stream of their own, and now and then name a job that comes later, the job
    itself, or none that exists.
    """
    (own,) = rng.spawn(1)
    if _coin(own, 0.7):
        return np.full(jobs, -1), np.full(jobs, -1)
    before = np.arange(1, jobs + 1) - own.choice([-1, 0, 1, 1, 1, 2, 5], size=jobs)
    before = np.where((own.random(jobs) < 0.4) & (before > 0), before, -1)
    return before, np.where(before > 0, own.choice([-1, 0, 0, 1, 60, 5000], size=jobs), -1)


def _jobs_table(rng: np.random.Generator, folder: Path, size: int) -> Path:
    jobs = int(rng.integers(1, 80))
    submit, run, requested = _times(rng, jobs)
    processors = rng.integers(1, size + 1 + (size > 1 and _coin(rng, 0.1)), size=jobs)
    header = ["job_id", "submit_time_s", "run_time_s", "processors"]
    columns = [np.arange(1, jobs + 1), submit, run, processors]
    if _coin(rng, 0.7):
        header.append("requested_time_s")
        columns.append(requested)
    for name in ("user", "queue"):
        if _coin(rng, 0.5):
            header.append(name)
            columns.append(rng.integers(0, 4, size=jobs))
    if _coin(rng, 0.3):
        header.append("qos")
        columns.append(rng.uniform(0.05, 1, size=jobs).round(3))
    before, think = _preceding(rng, jobs)
    if (before > 0).any():
        header += ["preceding_job", "think_time_s", "release_time_s"]
        columns += [before, np.maximum(think, 0), submit + think * (np.arange(jobs) % 3)]
    rows = [",".join(f"{cell}" for cell in row) for row in zip(*columns, strict=True)]
    path = folder / "jobs.csv"
    path.write_text("\n".join([",".join(header), *rows]) + "\n")
    return path


def _swf(rng: np.random.Generator, folder: Path, size: int) -> Path:
    jobs = int(rng.integers(1, 80))
    submit, run, requested = _times(rng, jobs)
    processors = rng.integers(1, size + 1, size=jobs)
    lines = [f"; MaxProcs: {size}", f"; UnixStartTime: {int(rng.integers(0, 2_000_000_000))}"]
    before, think = _preceding(rng, jobs)
    for n in range(jobs):
        asked = -1 if _coin(rng, 0.1) else int(requested[n])
        status = _pick(rng, (1, 1, 1, 0, 5))
        lines.append(
            f"{n + 1} {int(submit[n])} -1 {int(run[n])} {processors[n]} -1 -1 {processors[n]} "
            f"{asked} -1 {status} {rng.integers(1, 5)} -1 -1 {rng.integers(0, 3)} -1 "
            f"{before[n]} {think[n]}"
        )
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def _cloud(rng: np.random.Generator, folder: Path) -> Section:
    """Return jobs of tasks with instances and parents, on machines with cpu and memory."""
    groups = [
        {"name": f"g{n}", "count": int(rng.integers(1, 6)), "cpu": int(rng.integers(4, 17)),
         "mem": float(round(rng.uniform(0.3, 1.0), 2))}
        for n in range(rng.integers(1, 3))
    ]  # fmt: skip
    policy: Section = _composed(rng) | {"placement": _pick(rng, PLACEMENTS)}
    if _coin(rng, 0.7):
        policy = {"fitness": _pick(rng, FITNESSES), "order": _pick(rng, ORDERS[:4])}
    scenario: Section = {
        "workload": {"type": "tasks", "path": str(_task_table(rng, folder)),
                     "columns": TASK_COLUMNS},
        "cluster": {"machines": groups},
        "policy": policy,
    }  # fmt: skip
    if "fitness" in policy and _coin(rng, 0.15):
        scenario["policy"] = {"fitness": _pick(rng, ("first-fit", "tetris", "random")),
                              "compat": "cloudsimpy"}  # fmt: skip
        scenario["scheduling"] = {"every": 1}
        scenario["cluster"]["machines"] = groups[:1]
        return scenario
    names = [group["name"] for group in groups]
    if _coin(rng, 0.3):
        scenario["cluster"]["failures"] = _failures(rng, names)
    if _coin(rng, 0.2):
        scenario["cluster"]["overcommit"] = {"cpu": 1.5}
    _vary(rng, scenario, groups=names)
    if _coin(rng, 0.2):
        _with_power(rng, scenario, sum(group["count"] for group in groups))
    return scenario


def _task_table(rng: np.random.Generator, folder: Path) -> Path:
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory,parents"]
    submit = 0
    for job in range(int(rng.integers(1, 25))):
        submit += int(_pick(rng, (0, 1, 10, 100, 1000)))
        for task in range(int(rng.integers(1, 5))):
            parents = [str(p) for p in range(task) if _coin(rng, 0.4)]
            duration = _pick(rng, (0, 1, 5, 10, 60, 300, 0.5))
            lines.append(
                f"{job},{task},{submit},{duration},{rng.integers(1, 9)},"
                f"{_pick(rng, (0.5, 1, 2, 4))},{rng.uniform(0.01, 0.3):.4f},{';'.join(parents)}"
            )
    path = folder / "tasks.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _slotted(rng: np.random.Generator, folder: Path) -> Section:
    """Return one of the slotted settings of the learning papers."""
    policy = _pick(rng, [*({"name": name} for name in SLOTTED), {"agent": "deeprm-70"}])
    return {
        "workload": {"type": "deeprm", "offered_load": float(round(rng.uniform(0.3, 1.8), 2)),
                     "steps": int(rng.integers(5, 60))},
        "cluster": {"machines": [{"count": 1, "cpu": 10, "mem": 10}]},
        "admission": {"slots": 10, "backlog": 60},
        "estimates": "actual",
        "scheduling": {"step": 1},
        "policy": policy,
    }  # fmt: skip


# ---- policies and rules --------------------------------------------------------------------------


def _composed(rng: np.random.Generator) -> Section:
    policy: Section = {"order": _pick(rng, ORDERS)}
    if _coin(rng, 0.75):
        policy["backfill"] = _pick(rng, BACKFILLS)
    return policy


def _failures(rng: np.random.Generator, names: list[str]) -> Section:
    failures: Section = {
        "mtbf": _pick(rng, ("6h", "2d", "20d")), "mttr": _pick(rng, ("10m", "4h")),
        "running": _pick(rng, RUNNING),
    }  # fmt: skip
    if _coin(rng, 0.3):
        failures["machines"] = [_pick(rng, names)]
    return failures


def _vary(rng: np.random.Generator, scenario: Section, groups: list[str]) -> None:
    """Add what any scenario may have: estimates, limits, maintenance, value, periods."""
    if _coin(rng, 0.5):
        scenario["estimates"] = _pick(
            rng, ("requested", "actual", "user-mean", {"type": "perturbed", "factor": 2.0})
        )
    if _coin(rng, 0.3):
        scenario["walltime"] = "kill"
    if _coin(rng, 0.2):
        scenario["admission"] = {"slots": int(rng.integers(1, 8))}
        if _coin(rng, 0.5):
            scenario["admission"]["backlog"] = int(rng.integers(0, 10))
        if _coin(rng, 0.3):
            scenario["admission"]["refill"] = "next_decision"
    if _coin(rng, 0.25):
        scenario["scheduling"] = {_pick(rng, ("every", "step")): _pick(rng, (7, 60, "10m"))}
    if _coin(rng, 0.25):
        scenario["cluster"]["maintenance"] = [_maintenance(rng, scenario, groups)]
    if _coin(rng, 0.15):
        scenario["value"] = {} if _coin(rng, 0.5) else {"deadlines": "qos"}
        if "order" in scenario["policy"] and _coin(rng, 0.6):
            scenario["policy"]["order"] = _pick(rng, VALUE_ORDERS)
    if _coin(rng, 0.15) and scenario["workload"]["type"] != "tasks":
        scenario["cluster"]["partitions"] = [
            {"name": "short", "max_time": _pick(rng, ("10m", "2h")), "priority": 1},
            {"name": "rest", **({"machines": [groups[0]]} if groups else {})},
        ]
        for partition in scenario["cluster"]["partitions"]:
            if _coin(rng, 0.4):
                key = _pick(rng, ("max_running_per_user", "max_waiting_per_user"))
                partition[key] = int(rng.integers(1, 5))
        if scenario["policy"].get("backfill") in ("none", "easy") and _coin(rng, 0.5):
            scenario["cluster"]["partitions"][1]["preempt"] = _pick(
                rng, ("requeue", "cancel", "suspend")
            )


def _add_corrections_and_limits(rng: np.random.Generator, scenario: Section) -> None:
    if "fitness" not in scenario["policy"] and "backfill" in scenario["policy"]:
        if scenario["policy"]["backfill"] == "easy" and _coin(rng, 0.6):
            scenario["policy"]["backfill"] = {"type": "easy", "order": "sjf"}
        if _coin(rng, 0.7):
            scenario["estimates"] = {
                "type": _pick(rng, ("requested", "user-mean", "user-mean", "perturbed")),
                "correction": _pick(rng, ("tsafrir", "tsafrir", "request")),
            }
    if _coin(rng, 0.5):
        scenario["limits"] = {
            "simulated_time": _pick(rng, (None, "1h", "30d")),
            "decisions": _pick(rng, (None, 50, 20_000)),
            "retries": _pick(rng, (None, 0, 5)),
        }


def _maintenance(rng: np.random.Generator, scenario: Section, groups: list[str]) -> Section:
    window: Section = {
        "start": _pick(rng, (0, 100, "1h", "5h")), "duration": _pick(rng, (10, "20m", "2h")),
        "running": _pick(rng, RUNNING),
    }  # fmt: skip
    if _coin(rng, 0.5):
        window["every"] = _pick(rng, ("6h", "1d"))
    if groups and _coin(rng, 0.5):
        window["machines"] = [_pick(rng, groups)]
    elif "processors" in scenario["cluster"] and _coin(rng, 0.5):
        window["processors"] = int(rng.integers(1, scenario["cluster"]["processors"] + 1))
    return window


# ---- power ---------------------------------------------------------------------------------------


def _with_power(rng: np.random.Generator, scenario: Section, size: int) -> None:
    """Add a site; often the policy or the supply depends on it."""
    full = 200.0 * size
    power: Section = {
        "machines": _pick(rng, (
            {"idle_w": 60, "full_w": 200},
            {"idle_w": 60, "full_w": 200, "boot": "2m", "boot_w": 150, "shutdown": "1m"},
            {"table": [60, 110, 200]},
        )),
        "align": {"zero": "2019-04-01T00:00:00-06:00"},
    }  # fmt: skip
    sources: Section = {}
    for name, signal in (
        ("sun", {"type": "gleamm-sample", "part": "solar", "past_end": "wrap"}),
        ("wind", {"type": "gleamm-sample", "part": "wind", "past_end": "wrap"}),
        ("diesel", full / 2),
        ("luck", {"type": "levels", "high_w": full, "low_w": full / 4, "high_share": 0.6}),
    ):
        if _coin(rng, 0.4):
            recorded = name in ("sun", "wind")
            sources[name] = {"signal": signal, **({"times_load": 0.7} if recorded else {})}
    if sources:
        power["sources"] = sources
    grid = _grid(rng, full)
    if grid is not None or not sources:
        power["grid"] = grid or {}
    if _coin(rng, 0.4):
        power["battery"] = _battery(rng, full)
    if _coin(rng, 0.3):
        power["pue"] = _pick(rng, (1.3, {"by_load": {0: 1.6, 1: 1.2}}))
    if _coin(rng, 0.3):
        power["critical_w"] = full / 20
    if _coin(rng, 0.5):
        power["supply"] = {"limit": _pick(rng, ("power", "resources")),
                           "running": _pick(rng, RUNNING)}  # fmt: skip
    if _coin(rng, 0.4):
        power["forecast"] = _pick(
            rng, ({"type": "perfect"}, {"type": "persistence"}, {"type": "noisy"})
        ) | {"horizon": "12h", "step": "1h"}
    scenario["power"] = power
    _green_policy(rng, scenario, full)


def _grid(rng: np.random.Generator, full: float) -> Section | None:
    grid: Section = {}
    if _coin(rng, 0.4):
        return None
    if _coin(rng, 0.5):
        grid["import_limit_w"] = full * float(_pick(rng, (0.3, 0.8, 1.5)))
    if _coin(rng, 0.5):
        grid["price_per_kwh"] = {"type": "schedule", "day": {"0:00": 0.1, "7:00": 0.3}}
    if _coin(rng, 0.5):
        grid["carbon_gco2_per_kwh"] = 300
    if _coin(rng, 0.3):
        grid["export_limit_w"] = full
    return grid


def _battery(rng: np.random.Generator, full: float) -> Section:
    battery: Section = {"capacity_kwh": full / 1000 * float(_pick(rng, (0.1, 1, 5)))}
    if _coin(rng, 0.5):
        battery |= {"charge_efficiency": 0.9, "discharge_efficiency": 0.9, "floor": 0.1,
                    "charge_c_rate": 0.5, "discharge_c_rate": 0.5}  # fmt: skip
    if _coin(rng, 0.2):
        battery["self_discharge_per_day"] = 0.02
    return battery


def _green_policy(rng: np.random.Generator, scenario: Section, full: float) -> None:
    if "order" not in scenario["policy"] or not _coin(rng, 0.4):
        return
    scenario["policy"]["backfill"] = _pick(rng, (
        "ready-pool", "green-slot", {"type": "power-cap", "cap_w": full}, "power-cap",
        {"type": "price-threshold", "at_most": 0.2},
        {"type": "carbon-threshold", "at_most": 200},
    ))  # fmt: skip
