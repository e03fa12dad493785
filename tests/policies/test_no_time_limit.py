"""Jobs without a time limit plan as endless: every policy runs them, and none counts on their end."""

from __future__ import annotations

import json

import numpy as np
import pytest

import simkit
from simkit import plugins
from simkit.errors import PolicyError
from simkit.verify import verify_run

ORDERS, BACKFILLS, FITNESSES, WHOLE = (
    plugins.names("simkit.policies", kind) for kind in ("order", "backfill", "fitness", "policy")
)
POLICIES = {
    **{f"{name}, easy": {"order": name, "backfill": "easy"} for name in ORDERS},
    "hrrn, conservative": {"order": "hrrn", "backfill": "conservative"},
    **{f"least-slack, {name}": {"order": "least-slack", "backfill": name} for name in BACKFILLS},
    "easy, shortest first": {"order": "wfp3", "backfill": {"type": "easy", "order": "sjf"}},
    "left-over": {"order": "value", "backfill": {"type": "ready-pool", "choose": "left-over"}},
    "pauses": {"order": "least-slack", "backfill": {"type": "green-slot", "interrupt": True}},
    **{name: {"fitness": name} for name in FITNESSES},
    "tetris by laf": {"fitness": "tetris", "order": "laf"},
    "lookahead": {"lookahead": [{"order": "sjf"}, {"order": "fcfs", "backfill": "easy"}]},
}
"""Every second of them plans with user means in place of what was requested."""
POWER = {
    "align": {"zero": "2024-05-01T00:00:00+00:00"},
    "machines": {"idle_w": 100, "full_w": 200},
    "sources": {"solar": {"signal": {"type": "schedule", "day": {"0:00": 50, "1:00": 150}}}},
    "grid": {"import_limit_w": 1500, "price_per_kwh": 0.1, "carbon_gco2_per_kwh": 300},
    "forecast": {"type": "perfect", "horizon": "4h", "step": "10m"},
}


def scenario(name, path):
    found = {
        "workload": {"type": "jobs", "path": str(path)},
        "cluster": {"processors": 8},
        "policy": POLICIES[name],
    }
    if any(rule in name for rule in ("power-cap", "green-slot", "threshold", "pauses")):
        found["power"] = POWER
    if list(POLICIES).index(name) % 2:
        found["estimates"] = {"type": "user-mean", "correction": "request"}
    if "threshold" in name:
        rule = {"type": found["policy"]["backfill"], "at_most": 200 if "carbon" in name else 0.05}
        found["policy"] = found["policy"] | {"backfill": rule | {"max_delay": "30m"}}
    return found


@pytest.fixture(scope="module")
def random_jobs(tmp_path_factory):
    """Write jobs, a third of them without a limit, a few of it unknown."""
    rng, jobs = np.random.default_rng(1), 40
    path = tmp_path_factory.mktemp("jobs") / "jobs.csv"
    rows = ["job_id,submit_time_s,run_time_s,processors,requested_time_s,user,qos,value"]
    submit = np.cumsum(rng.integers(0, 300, jobs))
    for job in range(jobs):
        run, size = int(rng.integers(0, 900)), int(rng.integers(1, 9))
        limits = (max(run + int(rng.integers(-200, 600)), 0), "UNLIMITED", "inf", "")
        limit = limits[int(rng.choice(4, p=(0.6, 0.2, 0.15, 0.05)))]
        user, qos = int(rng.integers(0, 4)), rng.choice((0.5, 0.9, 1.0))
        rows.append(f"{job},{submit[job]},{run},{size},{limit},{user},{qos},{size * run}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.sampled
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_runs_jobs_without_a_limit(name, random_jobs, tmp_path):
    run = simkit.simulate(scenario(name, random_jobs), output=tmp_path / "run")
    assert set(run.jobs["status"]) == {"finished"}
    for file in ("run.json", "metrics.json"):
        json.loads((tmp_path / "run" / file).read_text(), parse_constant=pytest.fail)
    audit = verify_run(tmp_path / "run")
    assert audit.ok, audit.violations


@pytest.mark.parametrize("name", [name for name in WHOLE if name.startswith("slotted")])
def test_a_plan_of_so_many_steps_refuses_a_job_without_a_limit(name, random_jobs):
    with pytest.raises(PolicyError, match="has no time limit"):
        simkit.simulate(
            {
                "workload": {"type": "jobs", "path": str(random_jobs)},
                "cluster": {"processors": 8},
                "policy": {"name": name, "args": {"step": 60, "horizon": 60, "slots": 10}},
                "admission": {"slots": 10},
                "scheduling": {"step": 60},
            }
        )
