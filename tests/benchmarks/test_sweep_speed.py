"""What a sweep on Dask costs per run, and what a second worker brings.

    pytest tests/benchmarks/test_sweep_speed.py -m slow -s

prints milliseconds and ratios; the figures are recorded in docs/benchmarks.md. Workers are warm:
they have started and imported simkit. The second test needs two idle cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from simkit.experiment.dask_cluster import DaskCluster
from simkit.experiment.sweep import plan_sweep, run_plan
from simkit.experiment.workers import Executor, InProcess

RUNS = 40
TINY = {"workload": {"type": "lublin", "jobs": 10, "processors": 16}}
LARGER = {"workload": {"type": "lublin", "jobs": 4000, "processors": 64, "offered_load": 0.6}}

pytestmark = pytest.mark.slow


@contextmanager
def warm(workers: int, folder: Path) -> Iterator[DaskCluster]:
    """A cluster whose workers have carried out runs."""
    import distributed

    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
    ) as cluster:  # fmt: skip
        executor = DaskCluster(cluster.scheduler_address)
        seconds(TINY, folder / f"warm-{workers}", executor, runs=8 * workers)
        yield executor


def seconds(scenario: Any, folder: Path, executor: Executor, runs: int = RUNS) -> float:
    """Return how long so many equal runs take, at best of three; only a limit differs."""
    grid = {
        **scenario,
        "name": "s",
        "sweep": {"limits.decisions": [10**9 + n for n in range(runs)]},
    }
    plan = plan_sweep(grid, folder)
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        outcomes = run_plan(plan, executor=executor, force=True)
        took.append(time.perf_counter() - begin)
        assert {outcome.state for outcome in outcomes} == {"done"}
    return min(took)


def test_a_run_on_dask_costs_at_most_50_ms_more(tmp_path: Path) -> None:
    seconds(TINY, tmp_path / "first", InProcess(), runs=4)
    with warm(1, tmp_path) as executor:
        dask = seconds(TINY, tmp_path / "dask", executor)
    loop = seconds(TINY, tmp_path / "loop", InProcess())
    overhead_ms = (dask - loop) / RUNS * 1000
    print(
        f"\n{RUNS} runs: loop {loop:.2f} s, Dask {dask:.2f} s, {dask / loop:.2f} times, "
        f"{overhead_ms:.1f} ms a run"
    )
    assert overhead_ms <= 50


def test_two_workers_take_at_most_0_6_of_the_time_of_one(tmp_path: Path) -> None:
    took = {}
    for workers in (1, 2):
        with warm(workers, tmp_path) as executor:
            took[workers] = seconds(LARGER, tmp_path / str(workers), executor)
    ratio = took[2] / took[1]
    print(f"\n{RUNS} runs: one worker {took[1]:.2f} s, two {took[2]:.2f} s, ratio {ratio:.2f}")
    assert ratio <= 0.6
