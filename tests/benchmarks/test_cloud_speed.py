"""How fast 2,551,075 instances of Alibaba's trace of 2017 are placed, and what it takes in memory.

    pytest tests/benchmarks/test_cloud_speed.py -m slow -s

prints seconds of simulation, allocations and decisions; the figures are recorded in
docs/benchmarks.md. Nothing is asserted about time. Each run is a process of its own, so that its
peak of memory is its own, too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.gym.episodes import Nowhere
from simkit.learners.agent import load_agent
from simkit.policies.fitness import Balance, FirstFit
from simkit.policy.fitness import FitnessPolicy
from simkit.scenario.bundled import agent_folder
from simkit.traces.alibaba2017 import read_machine_events
from simkit.traces.task_table import read_task_table
from simkit.workload.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SIMKIT_DATA", ROOT.parent / "shared" / "data")) / "alibaba"
RUNS = {
    "1,313 machines, mean durations": {"machines": 1313},
    "1,313 machines, a run time for each instance": {"machines": 1313, "own_times": True},
    "50 machines, mean durations": {"machines": 50},
    "1,313 machines, the first 10 % of the jobs": {
        "machines": 1313,
        "own_times": True,
        "part": 0.1,
    },
    "1,313 machines, the first 50 % of the jobs": {
        "machines": 1313,
        "own_times": True,
        "part": 0.5,
    },
    "1,313 machines, balance": {"machines": 1313, "policy": "balance"},
    "50 machines, balance": {"machines": 50, "policy": "balance"},
    "1,313 machines, a learned fitness": {"machines": 1313, "policy": "fitness-alibaba"},
    "50 machines, a learned fitness": {"machines": 50, "policy": "fitness-alibaba"},
}


def policy_of(name: str) -> Any:
    if name == "fitness-alibaba":
        return load_agent(agent_folder(name, ROOT))
    return FitnessPolicy({"first-fit": FirstFit, "balance": Balance}[name]())


def measure(
    machines: int, own_times: bool = False, part: float = 1.0, policy: str = "first-fit"
) -> dict[str, Any]:
    """Replay the job table of CloudSimPy, if so with run times of instances that are drawn.

    Of a task's mean run time, each instance takes a part that is exponentially distributed.
    """
    load = read_task_table(DATA / "cloudsimpy_jobs.csv.gz").workload
    load = load.take(np.arange(int(len(load) * part)))
    if own_times:
        mean = np.repeat(load.run_time_s, load.instances)
        drawn = np.random.default_rng(0).exponential(1.0, len(mean))
        load = load.with_columns(instance_run_time_s=mean * drawn)
    events = read_machine_events(DATA / "server_event.csv")
    capacity = events.capacity[events.kind == "add"][:machines]
    names = tuple(str(row) for row in range(len(capacity)))
    cluster = Cluster(("cpu", "mem"), names, capacity)
    simulation = Simulation(load, cluster, Recorder(load, ("cpu", "mem"), Nowhere()))
    started = time.perf_counter()
    before = time.process_time()
    simulation.run(policy_of(policy))
    return {
        "simulate_s": time.perf_counter() - started,
        "processor_s": time.process_time() - before,
        "instances": int(load.instances.sum()),
        "decisions": simulation.decisions_made,
        "jobs_ended": simulation.jobs_ended,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_replay(name: str, benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if not (DATA / "cloudsimpy_jobs.csv.gz").exists():
        pytest.skip(f"{DATA} is absent; set SIMKIT_DATA to the folder that holds alibaba/")
    command = [sys.executable, __file__, json.dumps(RUNS[name])]

    def apart() -> dict[str, Any]:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures: dict[str, Any] = json.loads(done.stdout)
        return figures

    figures = benchmark.pedantic(apart, rounds=1, iterations=1)
    benchmark.extra_info |= figures
    each = figures["simulate_s"] / figures["instances"] * 1e6
    per_s = figures["instances"] / figures["processor_s"]
    with capsys.disabled():
        print(f"\n{name}: {figures['simulate_s']:.2f} s, {each:.2f} us an instance, "
              f"{per_s:,.0f} instances/s of processor time, "
              f"{figures['decisions']:,} decisions, {figures['peak_mb']:.0f} MB")  # fmt: skip
    assert figures["jobs_ended"] == int(5216 * RUNS[name].get("part", 1.0))


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
