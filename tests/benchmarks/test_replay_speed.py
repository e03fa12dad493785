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

from simkit.arrays import Floats, Ints
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

PROCESSORS = 8192
_LIMITS = np.array([900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 3 * 86_400.0])


def long_queue(jobs: int, seed: int = 0) -> pl.DataFrame:
    """Return a table of jobs for `PROCESSORS` that come in waves above what the machine can do.

    Users submit arrays of up to a few hundred alike jobs at once: nearly all serial, the others
    on powers of two up to 2,048, with one request for the whole array; seven in ten leave it at
    the limit of three days. Within each of four waves the first half of the jobs comes at twice the
    rate at which the machine finishes them, the second half at 0.7 times that rate, so that tens of
    thousands of 447,784 jobs wait at once.
    """
    rng = np.random.default_rng(seed)
    length = rng.geometric(1 / 60, jobs)
    arrays = int(np.searchsorted(np.cumsum(length), jobs)) + 1
    member = np.repeat(np.arange(arrays), length[:arrays])[:jobs]
    serial = rng.random(arrays) < 0.96
    processors = 2 ** np.where(serial, 0, rng.integers(1, 12, arrays))
    typical_s = rng.lognormal(8.0, 1.2, arrays)
    run_s = np.clip(np.round(typical_s[member] * rng.lognormal(0.0, 0.3, jobs)), 1, _LIMITS[-1])
    request = _LIMITS[np.minimum(np.searchsorted(_LIMITS, 2 * typical_s), len(_LIMITS) - 1)]
    request[rng.random(arrays) < 0.7] = _LIMITS[-1]
    return pl.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": _in_waves(processors[member] * run_s, member, rng),
            "run_time_s": run_s,
            "processors": processors[member],
            "requested_time_s": np.maximum(request[member], run_s),
            "user": (rng.zipf(1.5, arrays) % 200)[member],
        }
    )


def _in_waves(area: Floats, member: Ints, rng: np.random.Generator) -> Floats:
    """Return (n,) submit times in s for jobs of (n,) processor-seconds in (n,) arrays."""
    arrays = int(member[-1]) + 1
    rush = np.arange(arrays) * 4 % arrays < arrays / 2
    gap = area.sum() / PROCESSORS / arrays / np.where(rush, 2.0, 0.7)
    return np.floor(np.cumsum(rng.exponential(1.0, arrays) * gap)[member])


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


def in_turn(jobs: int, load: float) -> pl.DataFrame:
    """Return bursts of jobs for two pools of 128 processors, which are queues 0 and 1."""
    rng = np.random.default_rng(1)
    size = 2 ** rng.integers(0, 7, jobs)
    run_s = np.ceil(rng.lognormal(7.0, 1.8, jobs).clip(10, 86_400))
    gaps = rng.weibull(0.6, jobs)
    span_s = float((run_s * size).sum()) / (load * 256)
    return pl.DataFrame({
        "job_id": np.arange(jobs),
        "submit_time_s": np.floor(np.cumsum(gaps / gaps.sum() * span_s)),
        "run_time_s": run_s,
        "processors": size,
        "requested_time_s": np.ceil(run_s * rng.choice([1.0, 2.0, 5.0, 20.0], jobs)),
        "queue": np.arange(jobs) % 2,
    })  # fmt: skip


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
    jobs, policy = (
        in_turn(4_000 if name in ("conservative", "wfp3 + easy") else 40_000, load),
        POLICIES[name],
    )
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
