"""How the cost of a run grows with its machines, of which most are in the same few states.

    pytest tests/benchmarks/test_many_machines.py -m slow -s

prints seconds of CPU of whole runs in memory: start-up, simulation and metrics; the figures are
recorded in docs/benchmarks.md. Only ratios of times within one run are asserted.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import simkit
from simkit.policies.fitness import Tetris
from simkit.policy.fitness import FitnessPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

TASKS = 2000


def bags(seed: int = 0) -> Workload:
    """Return tasks of 50 instances on average that come within an hour and run for up to one."""
    rng = np.random.default_rng(seed)
    share = rng.integers(1, 33, TASKS) / 128
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(TASKS),
        submit_time_s=np.sort(rng.integers(0, 3600, TASKS)).astype(np.float64),
        first_task=np.arange(TASKS + 1),
        task_id=np.arange(TASKS),
        instances=rng.geometric(1 / 50, TASKS),
        request=np.column_stack((rng.integers(1, 9, TASKS).astype(np.float64), share)),
        run_time_s=rng.integers(60, 3600, TASKS).astype(np.float64),
        requested_time_s=np.full(TASKS, 3600.0),
        gang=np.zeros(TASKS, np.bool_),
    )


def machines(count: int) -> Cluster:
    """Return machines alike, of 64 cores."""
    names = tuple(str(row) for row in range(count))
    return Cluster(("cpu", "mem"), names, np.tile([64.0, 1.0], (count, 1)))


def timed(policy: Any, cluster: Cluster) -> tuple[float, simkit.Run]:
    """Return the seconds of CPU of a run, and the run."""
    begin = time.process_time()
    run = simkit.simulate("quickstart", policy=policy, workload=bags(), cluster=cluster)
    return time.process_time() - begin, run


@pytest.mark.slow
@pytest.mark.parametrize("fitness", ["first-fit", "best-fit", "worst-fit", "spread", "tetris"])
def test_a_hundred_thousand_machines(fitness: str, capsys: pytest.CaptureFixture[str]) -> None:
    few, _ = timed({"fitness": fitness}, machines(10_000))
    many, _ = timed({"fitness": fitness}, machines(100_000))
    with capsys.disabled():
        print(f"\n{fitness}: 10,000 machines {few:.1f} s, 100,000 machines {many:.1f} s")
    assert many < 5 * few


class EachMachine(Tetris):
    """Tetris as before it said that machines in the same state score alike."""

    by_state = False


@pytest.mark.slow
def test_machines_in_the_same_state_are_scored_once(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = machines(20_000)
    once, run = timed(FitnessPolicy(Tetris()), cluster)
    each, other = timed(FitnessPolicy(EachMachine()), cluster)
    with capsys.disabled():
        print(f"\nTetris, states scored once {once:.1f} s, each machine {each:.1f} s")
    assert run.allocations.equals(other.allocations)
    assert once < each / 2
