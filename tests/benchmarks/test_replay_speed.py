"""How fast a replay is, in units of a plain-Python replay of the same log in the same run.

    pytest tests/benchmarks/test_replay_speed.py -m slow --benchmark-columns=min,median

prints jobs/s and the ratio for each log; the figures are recorded in docs/benchmarks.md. Nothing is
asserted about time: machines differ, and a test that fails on a busy one teaches nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import plain_replay
import polars as pl
import pytest

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

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


class NoSink:
    """Takes the tables and forgets them: the records are made, not written."""

    def write(self, table: str, rows: pl.DataFrame) -> None:
        pass


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
        recorder = Recorder(workload, ("processors",), NoSink())
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
