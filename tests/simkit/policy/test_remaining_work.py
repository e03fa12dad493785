"""Remaining work is kept up to date; at every decision it is what a sum over all tasks gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import mixed_jobs

from simkit.arrays import Floats
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.fitness import Balance
from simkit.policy import State
from simkit.policy.estimates import Correction, Requested
from simkit.policy.fitness import FitnessPolicy
from simkit.results.run_writer import MemoryWriter
from simkit.rules import Rules
from simkit.workload.cluster import Cluster, Maintenance

CAPACITY = np.array([[4.0, 2.0], [4.0, 2.0], [2.0, 4.0]])
WINDOWS = (
    Maintenance(10, 25, 0, (2, 1)),
    Maintenance(12, 18, 2, (2, 4), "suspend"),
    Maintenance(30, 40, 1, (4, 2), "requeue"),
)
CORRECTIONS: tuple[Correction, ...] = ("none", "request")


def running_work(state: State) -> Floats:
    """Return (R,) resource-seconds that what runs is expected to need yet."""
    work = np.zeros(len(state.info.resources))
    for allocation in state.running:
        work += np.array(allocation.held) * max(allocation.expected_end_s - state.now, 0.0)
    return work


def waiting_work(state: State) -> Floats:
    """Return (R,) resource-seconds that what waits is expected to need."""
    work = np.zeros(len(state.info.resources))
    for task in state.queue.tasks:
        work += np.array(task.request) * task.remaining * task.estimate_s
    return work


class HalfOfRequested(Requested):
    """Estimates that many tasks outlive, and that can be corrected."""

    def estimates(self, first: int, last: int) -> Floats:
        return super().estimates(first, last) / 2


class Checked(Balance):
    """Compares what it is told with sums over all tasks."""

    decisions = 0

    def begin(self, state: State) -> None:
        self.state = state
        super().begin(state)

    def weigh(self, work_s: Floats, longest_s: float, total: Floats) -> None:
        state = self.state
        assert total.tolist() == state.capacity.sum(axis=0).tolist()
        work = running_work(state) + waiting_work(state)
        assert work_s * total == pytest.approx(work, rel=1e-12, abs=1e-9)
        assert longest_s == max((task.estimate_s for task in state.queue.tasks), default=0.0)
        self.decisions += 1
        super().weigh(work_s, longest_s, total)


@given(
    seed=st.integers(0, 2**32),
    gap_s=st.sampled_from([0, 2, 9]),  # with long gaps nothing waits at many decisions
    windows=st.sampled_from([(), WINDOWS]),
    correction=st.sampled_from(CORRECTIONS),
    every_s=st.sampled_from([None, 4.0]),
)
def test_at_every_decision(
    seed: int,
    gap_s: int,
    windows: tuple[Maintenance, ...],
    correction: Correction,
    every_s: float | None,
) -> None:
    load = mixed_jobs(seed, 20, gap_s=gap_s, most=6, requests=(0.0, 0.1, 0.5, 1.0), gangs=0.4)
    cluster = Cluster(("cpu", "mem"), tuple("abc"), CAPACITY, maintenance=windows)
    recorder = Recorder(load, cluster.resources, MemoryWriter({}, digested=False))
    rules, fitness = Rules(scheduling={"every": every_s}), Checked()
    simulation = Simulation(
        load, cluster, recorder, rules=rules, predictor=HalfOfRequested(), correction=correction
    )
    simulation.run(FitnessPolicy(fitness), seed=0)
    assert fitness.decisions > 0
