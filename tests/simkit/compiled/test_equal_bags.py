"""The compiled engine leaves the same records of bags on machines as SimPy's.

The scenarios are random and small, with what makes trouble: ties, tasks without length, kills at the
limit, instances with times of their own, machines that go and come back, and requests that no
machine holds; `test_equal_runs` plays them. `slow` is a whole trace of 2.55 million instances under each fitness.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bag_scenarios import ESTIMATES, FITNESS, ORDERS, drawn_bags
from pool_scenarios import Scenario
from trace_files import real_file

import simkit
from simkit.traces.alibaba2017 import read_machine_events
from simkit.traces.task_table import read_task_table
from simkit.workload.cluster import Cluster


def test_scenarios_have_what_makes_trouble() -> None:
    """Every fitness, order and estimate is drawn; tasks wait, are killed and are refused."""
    scenarios = [drawn_bags(seed) for seed in range(400)]
    policies = [one.overrides["policy"] for one in scenarios]
    assert [f for f in FITNESS if all(one["fitness"] != f for one in policies)] == []
    assert {one.get("order") for one in policies} == set(ORDERS)
    assert [e for e in ESTIMATES if all(one.overrides["estimates"] != e for one in scenarios)] == []
    assert any(len(one.workload.instance_run_time_s) for one in scenarios)
    runs = [one.played("simpy") for one in scenarios[:40]]
    statuses = {status for run in runs for status in run.tasks["status"].to_list()}
    assert statuses == {"finished", "killed", "rejected"}
    waiting = [run for run in runs if (run.tasks["start_time_s"] > run.tasks["ready_time_s"]).any()]
    assert len(waiting) > len(runs) / 4
    changed = [run for run in runs if (run.events["kind"] == "capacity").any()]
    assert len(changed) > 4


@pytest.mark.slow
@pytest.mark.parametrize("fitness", [name for name in FITNESS if isinstance(name, str)])
def test_a_whole_trace(fitness: str) -> None:
    scenario: dict[str, Any] = {
        "workload": {"type": "tasks", "path": str(real_file("alibaba", "cloudsimpy_jobs.csv.gz"))},
        "cluster": {"trace": {"path": str(real_file("alibaba", "server_event.csv"))}},
        "policy": {"fitness": fitness},
    }
    runs = [simkit.simulate({**scenario, "engine": name}) for name in ("compiled", "simpy")]
    assert runs[0].info["engine"]["name"] == "compiled"
    assert runs[0].allocations["count"].sum() == 2_551_075
    assert runs[0].digest == runs[1].digest


@pytest.mark.slow
def test_a_whole_trace_whose_instances_have_times_of_their_own() -> None:
    workload = read_task_table(real_file("alibaba", "cloudsimpy_jobs.csv.gz")).workload
    events = read_machine_events(real_file("alibaba", "server_event.csv"))
    mean = np.repeat(workload.run_time_s, workload.instances)
    own = np.random.default_rng(0).exponential(mean)
    capacity = events.capacity[events.kind == "add"]
    one = Scenario(
        workload.with_columns(instance_run_time_s=own),
        Cluster(("cpu", "mem"), tuple(map(str, range(len(capacity)))), capacity),
        {"policy": {"fitness": "first-fit"}},
    )
    runs = [one.played(name) for name in ("compiled", "simpy")]
    assert runs[0].allocations["count"].sum() == 2_551_075
    assert runs[0].digest == runs[1].digest
