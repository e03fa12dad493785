"""Episodes on a GPU: the same costs and weights, in CUDA's simulator; and what is said without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trainings import SMALLEST

from simkit.errors import ScenarioError
from simkit.learners import recipes
from simkit.learners.common.arguments import check_device
from simkit.learners.common.gpu import without_gpu

SIMULATED = """
import numpy as np
from trainings import SMALLEST
from simkit.learners import recipes
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers import job_gpu
from simkit.learners.scorers.job_model import Call, Rule, Windows, play_windows
from simkit.learners.scorers.job_scorer import JobScorer

job_gpu.THREADS = 64  # fewer than episodes, so that each plays several
rng = np.random.default_rng(0)

def window(jobs):
    run = rng.integers(1, 300, jobs).astype(float)
    return PoolJobs(
        np.cumsum(rng.integers(0, 30, jobs)).astype(float), run,
        rng.integers(1, 9, jobs).astype(float), run * rng.uniform(0.8, 3, jobs),
        rng.integers(-1, 4, jobs), 8,
    )

windows = Windows.of([window(jobs) for jobs in rng.integers(5, 16, 30).tolist()])
by, player = [JobScorer.zero(2) for _ in range(3)], job_gpu.GpuPlayer()
by = [one.with_flat(rng.normal(size=len(one.flat))) for one in by]
rules = [Rule.wfp3(jobs) for jobs in windows.jobs]
for how in ({"end": "behind-head"}, {"backfill": "rlscheduler"}):
    expected = windows.bounded_slowdowns(play_windows(windows, by, visible=9, **how))
    found = player.slowdowns(windows, Call.of(windows, by, visible=9, **how))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
expected = windows.bounded_slowdowns(play_windows(windows, rules))
np.testing.assert_allclose(player.slowdowns(windows, Call.of(windows, rules)), expected, rtol=1e-12)

small = {"fewest_jobs": 8, "most_jobs": 12, "least_slowdown": 0, "job_sets": 2, "candidates": 4,
         "held_out_sets": 1}
means = []
for device in ("cpu", "cuda"):
    least = SMALLEST["rlscheduler"]
    made = recipes.rlscheduler(least.where(), {**least.arguments, **small}, seed=0, device=device)
    made.step(), made.step()
    means.append(made.search.mean)
np.testing.assert_allclose(*means, rtol=1e-9)
"""


@pytest.mark.thorough
def test_costs_and_weights_are_those_of_the_cpu() -> None:
    """The simulator runs the kernels as plain Python."""
    pytest.importorskip("numba")
    pytest.importorskip("cma")
    helpers = Path(__file__).resolve().parents[2] / "helpers"
    simulator = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED], capture_output=True, text=True, check=False,
        env={**os.environ, **simulator, "PYTHONPATH": str(helpers)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_without_a_gpu_the_device_is_refused() -> None:
    pytest.importorskip("numba")
    if not without_gpu():
        pytest.skip("there is a GPU")
    (problem,) = check_device("cuda", "numba")
    assert problem.startswith("device 'cuda': numba finds no GPU")
    assert "simkit-cluster[gpu]" in problem


def test_other_devices_are_refused() -> None:
    assert check_device("tpu", "numba") == [
        "device: is 'tpu'; this learner computes on cpu or cuda"
    ]


def test_only_scorers_of_jobs_are_played_on_it() -> None:
    least = SMALLEST["fitness"]
    with pytest.raises(ScenarioError) as told:
        recipes.fitness(least.where(), least.arguments, seed=0, device="cuda")
    assert told.value.problems == ("device: is cuda; this learner runs on the cpu",)
