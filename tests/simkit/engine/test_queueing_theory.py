"""Mean waits against queueing theory, where it has exact answers: M/M/1, M/M/c and M/D/1.

The half width of the interval comes from batch means (Law, "Simulation Modeling and Analysis",
2015): neighbouring waits are correlated, the means of long batches hardly are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_runs import simulate
from scipy import stats

from simkit.arrays import stream
from simkit.policies.orderings import FCFS
from simkit.policy.ordered import OrderedPolicy
from simkit.traces.models import PoissonModel

JOBS, BATCHES, MEAN_S = 60_000, 30, 1000.0


@pytest.fixture
def waits() -> Callable[..., npt.NDArray[np.float64]]:
    """Return a function that returns the waits of one-processor jobs, without the first tenth."""

    def wait(servers: int, load: float, run_times: str, seed: int) -> npt.NDArray[np.float64]:
        model = PoissonModel.of(
            jobs=JOBS,
            processors=servers,
            offered_load=load,
            run_times=run_times,
            mean_run_time_s=MEAN_S,
        )
        workload = model.generate(stream(seed, "theory")).workload
        jobs = simulate(OrderedPolicy(FCFS()), workload, servers)["jobs"].sort("job_id")
        assert len(jobs) == JOBS
        return jobs["wait_time_s"].to_numpy()[JOBS // 10 :]

    return wait


def interval(sample: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the confidence interval of the mean by batch means."""
    means = sample[: len(sample) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
    half = stats.t.ppf((1 + level) / 2, BATCHES - 1) * means.std(ddof=1) / math.sqrt(BATCHES)
    return means.mean() - half, means.mean() + half


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that an arrival has to wait in M/M/c (Erlang 1917)."""
    offered = servers * load
    last = offered**servers / math.factorial(servers) / (1 - load)
    return last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)


def mean_wait_mmc(servers: int, load: float) -> float:
    return erlang_c(servers, load) * MEAN_S / (servers * (1 - load))


def mean_wait_md1(load: float) -> float:
    """Half of what M/M/1 waits (Pollaczek 1930, Khinchine 1932)."""
    return load / (1 - load) * MEAN_S / 2


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("servers", "load", "run_times"),
    [
        (1, 0.5, "exponential"),  # M/M/1: 1000 s
        (1, 0.8, "exponential"),  # 4000 s
        (4, 0.7, "exponential"),  # M/M/4
        (16, 0.85, "exponential"),  # M/M/16: few have to wait
        (1, 0.5, "constant"),  # M/D/1: 500 s
        (1, 0.8, "constant"),  # 2000 s
    ],
)
def test_mean_wait_is_what_theory_says(waits, servers: int, load: float, run_times: str) -> None:
    theory = mean_wait_md1(load) if run_times == "constant" else mean_wait_mmc(servers, load)
    sample = waits(servers, load, run_times, seed=1)
    low, high = interval(sample, 0.99)
    assert low <= theory <= high
    # the interval is narrow enough to tell: a wait that left out the job's own queueing would not do
    assert (high - low) / theory < 0.6


def test_the_probability_of_waiting_is_erlangs_c(waits) -> None:
    sample: Any = waits(4, 0.7, "exponential", seed=2) > 0
    low, high = interval(sample.astype(float), 0.99)
    assert low <= erlang_c(4, 0.7) <= high
