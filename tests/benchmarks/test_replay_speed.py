"""How fast a replay is, in units of a plain-Python replay of the same log in the same run.

    pytest tests/benchmarks/test_replay_speed.py -m slow -s --benchmark-columns=min,median

prints jobs/s and the ratio for each log, and the processor time of replays whose queues grow to tens
of thousands; the figures are recorded in docs/benchmarks.md. Nothing is asserted about time but
ratios that hold with much room on any machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plain_replay
import polars as pl
import pytest
from made_logs import PROCESSORS, bursts, long_queue

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.gym.episodes import Nowhere
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF, WFP3, Multifactor
from simkit.policy import Policy
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Partition

ROOT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("SIMKIT_ORACLE", ROOT.parent / "shared" / "oracle")) / "hpc"
LOGS = {
    "KTH-SP2-1996-2.1-cln": 100,
    "lublin_256": 256,
    "SDSC-SP2-1998-4.2-cln": 128,
    "HPC2N-2002-2.2-cln": 240,
    "SDSC-BLUE-2000-4.2-cln": 1152,
}
COLUMNS = ["job_id", "submit_time_s", "run_time_s", "processors", "requested_time_s"]


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_fcfs_easy(log: str, benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = ORACLE / f"{log}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent; set SIMKIT_ORACLE to the folder of reference schedules")
    table = pl.read_csv(path)
    workload = Workload.from_jobs(table.select(COLUMNS))
    lists = [table[name].to_list() for name in COLUMNS[1:]]
    replay, processors = plain_replay.replay, LOGS[log]
    plain_s: list[float] = []

    def both() -> float:
        """Time the plain replay beside ours, so that a noisy moment meets both."""
        started = time.perf_counter()
        replay(processors, lists[0], lists[1], lists[2], lists[3], easy=True)
        plain_s.append(time.perf_counter() - started)
        recorder = Recorder(workload, ("processors",), Nowhere())
        simulation = Simulation(workload, Cluster.pool({"processors": processors}), recorder)
        started = time.perf_counter()
        simulation.run(OrderedPolicy(FCFS(), Easy()))
        return time.perf_counter() - started

    ours = [both()]
    benchmark.pedantic(lambda: ours.append(both()), rounds=5, iterations=1)
    ratio = min(ours) / min(plain_s)
    benchmark.extra_info |= {"jobs_per_s": len(workload) / min(ours), "ratio": ratio}
    with capsys.disabled():
        print(f"\n{log}: {len(workload) / min(ours):,.0f} jobs/s, {ratio:.2f} x the plain replay")
    assert len(ours) == 6


# ---- queues of tens of thousands -----------------------------------------------------------------


class LongestQueue:
    """Takes the tables and keeps how many tasks waited at most."""

    waiting = 0

    def write(self, table: str, rows: pl.DataFrame) -> None:
        if "waiting" in rows.columns:
            self.waiting = max(self.waiting, rows["waiting"].max())  # type: ignore[type-var]


def replay_s(jobs: pl.DataFrame, policy: Policy) -> tuple[float, int]:
    """Return the processor time of a replay in s, and how many tasks waited at most."""
    workload, sink = Workload.from_jobs(jobs.select(*COLUMNS, "user")), LongestQueue()
    recorder = Recorder(workload, ("processors",), sink)
    simulation = Simulation(workload, Cluster.pool({"processors": PROCESSORS}), recorder)
    started = time.process_time()
    simulation.run(policy)
    return time.process_time() - started, sink.waiting


def plain_s(jobs: pl.DataFrame) -> float:
    """Return the processor time of the plain replay under FCFS and EASY in s."""
    lists = [jobs[name].to_list() for name in COLUMNS[1:]]
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


# ---- partitions with processors of their own -----------------------------------------------------

POLICIES: dict[str, Callable[[], Policy]] = {
    "fcfs": lambda: OrderedPolicy(FCFS()),
    "fcfs + easy": lambda: OrderedPolicy(FCFS(), Easy()),
    "sjf + easy": lambda: OrderedPolicy(SJF(), Easy()),
    "wfp3 + easy": lambda: OrderedPolicy(WFP3(), Easy()),
    "conservative": lambda: Conservative().compose(FCFS(), None),
}
AT_MOST = 3.0
"""Times the processor time of one pool with the processors of both."""


def pools_s(jobs: pl.DataFrame, cluster: Cluster, policy: Policy) -> float:
    """Return the processor time of a replay in s."""
    workload = Workload.from_jobs(jobs)
    simulation = Simulation(workload, cluster, Recorder(workload, ("processors",), Nowhere()))
    started = time.process_time()
    simulation.run(policy)
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.8, 1.2])
@pytest.mark.parametrize("name", POLICIES)
def test_two_pools(name: str, load: float, capsys: pytest.CaptureFixture[str]) -> None:
    few = name in ("conservative", "wfp3 + easy")
    jobs, policy = bursts(4_000 if few else 40_000, load), POLICIES[name]
    parts = [Partition(f"p{row}", machines=(row,), queues=frozenset({row})) for row in range(2)]
    two = Cluster(("processors",), ("a", "b"), np.full((2, 1), 128.0), tuple(parts))
    one = Cluster.pool({"processors": 256})
    one_s = min(pools_s(jobs, one, policy()) for _ in range(3))
    two_s = min(pools_s(jobs, two, policy()) for _ in range(3))
    with capsys.disabled():
        print(
            f"\n{name}, {len(jobs):,} jobs, load {load}: one pool {one_s:.2f} s, two {two_s:.2f} s, "
            f"{two_s / one_s:.1f} x"
        )
    assert two_s <= AT_MOST * one_s
