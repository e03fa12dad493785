"""How fast replays are whose queues grow to tens of thousands, as ratios within one run.

    pytest tests/benchmarks/test_long_queue_speed.py -m slow -s

prints the processor time of each; the figures are recorded in docs/benchmarks.md. Nothing is
asserted about time, but for the ratios that hold with much room on any machine.
"""

from __future__ import annotations

import time
from typing import Any

import plain_replay
import polars as pl
import pytest
from long_queues import PROCESSORS, long_queue

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF, WFP3, Multifactor
from simkit.policy import Policy
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

COLUMNS = ["job_id", "submit_time_s", "run_time_s", "processors", "requested_time_s", "user"]


class LongestQueue:
    """Takes the tables and keeps how many tasks waited at most."""

    waiting = 0

    def write(self, table: str, rows: pl.DataFrame) -> None:
        if "waiting" in rows.columns:
            self.waiting = max(self.waiting, rows["waiting"].max())  # type: ignore[type-var]


def replay_s(jobs: pl.DataFrame, policy: Policy) -> tuple[float, int]:
    """Return the processor time of a replay in s, and how many tasks waited at most."""
    workload, sink = Workload.from_jobs(jobs.select(COLUMNS)), LongestQueue()
    recorder = Recorder(workload, ("processors",), sink)
    simulation = Simulation(workload, Cluster.pool({"processors": PROCESSORS}), recorder)
    started = time.process_time()
    simulation.run(policy)
    return time.process_time() - started, sink.waiting


def plain_s(jobs: pl.DataFrame) -> float:
    """Return the processor time of the plain replay under FCFS and EASY in s."""
    lists = [jobs[name].to_list() for name in COLUMNS[1:5]]
    started = time.process_time()
    plain_replay.replay(PROCESSORS, *lists, easy=True)
    return time.process_time() - started


@pytest.mark.slow
def test_easy_with_tens_of_thousands_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = long_queue(447_784)
    plain = plain_s(jobs)
    fcfs, waiting = replay_s(jobs, OrderedPolicy(FCFS(), Easy()))
    sjf, sjf_waiting = replay_s(jobs, OrderedPolicy(SJF(), Easy()))
    with capsys.disabled():
        print(
            f"\nEASY, {len(jobs):,} jobs: plain {plain:.1f} s, fcfs {fcfs:.1f} s (up to {waiting:,}"
            f" wait), sjf {sjf:.1f} s (up to {sjf_waiting:,})"
        )
    assert waiting > 10_000
    assert fcfs < plain
    assert sjf < 1.5 * fcfs


CASES: dict[str, tuple[int, float, Any]] = {
    "multifactor + easy": (60_000, 20, lambda: OrderedPolicy(Multifactor(age=10, size=0), Easy())),
    "wfp3 + easy": (60_000, 20, lambda: OrderedPolicy(WFP3(), Easy())),
    "conservative": (12_000, 400, lambda: Conservative().compose(FCFS(), None)),
}
"""Number of jobs, so that thousands wait at once, the most times FCFS + EASY, and policy."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_policies_that_look_at_the_whole_queue(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number, most, policy = CASES[name]
    jobs = long_queue(number)
    fcfs, _ = replay_s(jobs, OrderedPolicy(FCFS(), Easy()))
    other, waiting = replay_s(jobs, policy())
    with capsys.disabled():
        print(
            f"\n{name}, {len(jobs):,} jobs: {other:.1f} s (up to {waiting:,} wait), "
            f"{other / fcfs:.1f} x fcfs + easy"
        )
    assert waiting > 1_000
    assert other < most * fcfs
