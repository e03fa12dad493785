"""Jobs without a time limit plan as endless: every policy runs them, and none counts on their end."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simkit
from simkit.errors import PolicyError
from simkit.verify import verify_run

NAMES = sorted(point.name for point in entry_points(group="simkit.policies"))
ORDERS = [name.split(".")[1] for name in NAMES if name.startswith("order.")]
BACKFILLS = [name.split(".")[1] for name in NAMES if name.startswith("backfill.")]
FITNESSES = [name.split(".")[1] for name in NAMES if name.startswith("fitness.")]
SLOTTED = [name.split(".")[1] for name in NAMES if name.startswith("policy.slotted")]

POLICIES: dict[str, dict[str, Any]] = {
    **{f"{name}, easy": {"order": name, "backfill": "easy"} for name in ORDERS},
    **{f"{name}, conservative": {"order": name, "backfill": "conservative"} for name in ORDERS},
    **{f"fcfs, {name}": {"order": "fcfs", "backfill": name} for name in BACKFILLS},
    **{f"least-slack, {name}": {"order": "least-slack", "backfill": name} for name in BACKFILLS},
    "easy, shortest first": {"order": "wfp3", "backfill": {"type": "easy", "order": "sjf"}},
    "left-over": {"order": "value", "backfill": {"type": "ready-pool", "choose": "left-over"}},
    "pauses": {"order": "least-slack", "backfill": {"type": "green-slot", "interrupt": True}},
    **{name: {"fitness": name} for name in FITNESSES},
    **{f"{name} by laf": {"fitness": name, "order": "laf"} for name in ("best-fit", "tetris")},
    "lookahead": {"lookahead": [{"order": "sjf"}, {"order": "fcfs", "backfill": "easy"}]},
}
POWER = {
    "align": {"zero": "2024-05-01T00:00:00+00:00"},
    "machines": {"idle_w": 100, "full_w": 200},
    "sources": {"solar": {"signal": {"type": "schedule", "day": {"0:00": 50, "1:00": 150}}}},
    "grid": {"import_limit_w": 1500, "price_per_kwh": 0.1, "carbon_gco2_per_kwh": 300},
    "forecast": {"type": "perfect", "horizon": "4h", "step": "10m"},
}


def needs_power(name: str) -> bool:
    return any(rule in name for rule in ("power-cap", "green-slot", "threshold", "pauses"))


def scenario(name: str, path: Path, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "workload": {"type": "jobs", "path": str(path)},
        "cluster": {"processors": 8},
        "policy": POLICIES[name],
        **more,
    }
    if needs_power(name):
        found["power"] = POWER
    if "threshold" in name:
        rule = {"type": found["policy"]["backfill"], "at_most": 200 if "carbon" in name else 0.05}
        found["policy"] = found["policy"] | {"backfill": rule | {"max_delay": "30m"}}
    return found


@pytest.fixture(scope="module")
def random_jobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return a function that writes jobs, a third of them without a limit, a few of it unknown."""

    def write(seed: int, jobs: int = 40) -> Path:
        rng = np.random.default_rng(seed)
        path = tmp_path_factory.mktemp("jobs") / "jobs.csv"
        rows = ["job_id,submit_time_s,run_time_s,processors,requested_time_s,user,qos,value"]
        submit = np.cumsum(rng.integers(0, 300, jobs))
        for job in range(jobs):
            run, size = int(rng.integers(0, 900)), int(rng.integers(1, 9))
            limits = (str(run + int(rng.integers(-200, 600))), "UNLIMITED", "inf", "")
            limit = limits[int(rng.choice(4, p=(0.6, 0.2, 0.15, 0.05)))]
            limit = limit if limit[:1] != "-" else "0"
            user, qos = int(rng.integers(0, 4)), rng.choice((0.5, 0.9, 1.0))
            rows.append(f"{job},{submit[job]},{run},{size},{limit},{user},{qos},{size * run}")
        path.write_text("\n".join(rows) + "\n")
        return path

    return write


@pytest.mark.sampled
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_runs_jobs_without_a_limit(
    name: str, random_jobs: Any, tmp_path: Path
) -> None:
    for seed, more in ((1, {}), (2, {"estimates": {"type": "user-mean", "correction": "request"}})):
        path = random_jobs(seed)
        run = simkit.simulate(scenario(name, path, **more), output=tmp_path / f"run-{seed}")
        again = simkit.simulate(scenario(name, path, **more))
        assert run.info["digest"] == again.info["digest"]
        assert set(run.jobs["status"]) == {"finished"}
        json.dumps(dict(run.metrics), allow_nan=False)
        for file in ("run.json", "metrics.json"):
            text = (tmp_path / f"run-{seed}" / file).read_text()
            json.loads(text, parse_constant=pytest.fail)
        audit = verify_run(tmp_path / f"run-{seed}")
        assert audit.ok, audit.violations


@pytest.mark.parametrize("name", SLOTTED)
def test_a_plan_of_so_many_steps_refuses_a_job_without_a_limit(name: str, random_jobs: Any) -> None:
    with pytest.raises(PolicyError, match="has no time limit and the horizon is 60"):
        simkit.simulate(
            {
                "workload": {"type": "jobs", "path": str(random_jobs(1))},
                "cluster": {"processors": 8},
                "policy": {"name": name, "args": {"step": 60, "horizon": 60, "slots": 10}},
                "admission": {"slots": 10},
                "scheduling": {"step": 60},
            }
        )
