"""Remaining work is kept up to date; at every decision it is what a sum over all tasks gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.arrays import Floats
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Rules, Simulation
from simkit.policies.fitness import Balance
from simkit.policy import State
from simkit.policy.estimates import Correction, Requested
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.remaining_work import RunningWork
from simkit.policy.state import Allocations
from simkit.policy.task import Allocation, Task
from simkit.results.run_writer import MemoryWriter
from simkit.workload import Workload
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


def workload(seed: int, gap_s: int, jobs: int = 20) -> Workload:
    """Return gangs and bags in jobs of 1 to 3 tasks; estimates lie on both sides of the truth."""
    rng = np.random.default_rng(seed)
    tasks = rng.integers(1, 4, jobs)
    total = int(tasks.sum())
    run = rng.integers(0, 8, total).astype(float)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(jobs),
        submit_time_s=np.cumsum(rng.integers(0, gap_s + 1, jobs)).astype(float),
        first_task=np.concatenate(([0], np.cumsum(tasks))),
        task_id=np.arange(total),
        instances=rng.integers(1, 7, total),
        request=rng.choice([0.0, 0.1, 0.5, 1.0], (total, 2)),
        run_time_s=run,
        requested_time_s=np.maximum(run + rng.integers(-3, 8, total), 0.0),
        gang=rng.random(total) < 0.4,
    )


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
    load = workload(seed, gap_s)
    cluster = Cluster(("cpu", "mem"), tuple("abc"), CAPACITY, maintenance=windows)
    recorder = Recorder(load, cluster.resources, MemoryWriter({}, digested=False))
    rules, fitness = Rules(every_s=every_s, correction=correction), Checked()
    simulation = Simulation(load, cluster, recorder, rules=rules, predictor=HalfOfRequested())
    simulation.run(FitnessPolicy(fitness), seed=0)
    assert fitness.decisions > 0


class Followed:
    """Work of what runs, and a state that a test changes by hand."""

    def __init__(self) -> None:
        self.work = RunningWork(2)
        self.running: dict[Allocation, None] = {}
        self.now, self.started = 0.0, 0

    def start(self, count: int, end_s: float) -> Allocation:
        """Let instances of a core and half a memory start; they are expected to end then."""
        self.started += 1
        task = Task(0, 0, 0.0, (1.0, 0.5), 9, gang=False)
        allocation = Allocation(self.started, task, ((0, count),), count, self.now, end_s)
        self.running[allocation] = None
        return allocation

    def look(self, now: float, ended: tuple[Allocation, ...] = ()) -> list[float]:
        """Return the work that is left, as a policy sees it."""
        self.now = now
        state: Any = SimpleNamespace(now=now, ended=ended, running=Allocations(self.running))
        return self.work.update(state)


def test_what_is_overdue_needs_nothing_more() -> None:
    follow = Followed()
    follow.start(2, 10.0)
    follow.start(1, 30.0)
    assert follow.look(0.0) == [2 * 10 + 30, 10 + 15]
    assert follow.look(10.0) == [20, 10]
    assert follow.look(15.0) == [15, 7.5]  # 5 s too long do not count against others
    assert follow.look(31.0) == [0, 0]


def test_ends_that_no_decision_has_shown() -> None:
    """Without waiting tasks, a fitness is not asked: it does not see what ended then."""
    follow = Followed()
    gone = follow.start(2, 10.0)
    assert follow.look(0.0) == [20, 10]
    del follow.running[gone]
    follow.start(1, 8.0)
    assert follow.look(5.0) == [3, 1.5]


def test_an_allocation_that_is_split() -> None:
    follow = Followed()
    whole = follow.start(3, 10.0)
    assert follow.look(0.0) == [30, 15]
    del follow.running[whole]
    follow.start(1, 10.0)
    stopped = follow.start(2, 10.0)
    assert follow.look(4.0) == [18, 9]
    del follow.running[stopped]
    assert follow.look(4.0, ended=(stopped,)) == [6, 3]


def test_an_expected_end_that_is_corrected() -> None:
    follow = Followed()
    late = follow.start(1, 10.0)
    assert follow.look(0.0) == [10, 5]
    assert follow.look(10.0) == [0, 0]
    late.expected_end_s = 70.0
    assert follow.look(20.0) == [50, 25]
    del follow.running[late]
    assert follow.look(30.0, ended=(late,)) == [0, 0]
