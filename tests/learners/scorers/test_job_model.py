"""The fast simulation of a pool starts every job when simkit's engine does, with orders and EASY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_replay import engine_starts, small_workload
from trace_files import real_file

from simkit import plugins
from simkit.errors import ScenarioError
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.job_model import Hold, Rule, simulate
from simkit.learners.scorers.job_scorer import Backfill, JobScorer
from simkit.learners.studies.rlscheduler.judge import measures
from simkit.learners.studies.rlscheduler.logs import RULES
from simkit.policies.easy import Easy
from simkit.policies.easy import Hold as HoldRule
from simkit.policies.orderings import SAFP, SJF
from simkit.policies.rlscheduler import RLScheduler
from simkit.policy.ordered import OrderedPolicy
from simkit.traces.swf import RLSchedulerLog
from simkit.workload import Workload

LOGS = {
    "SDSC-SP2-1998-4.2-cln.swf.gz": (128, 11_100),
    "HPC2N-2002-2.2-cln.swf.gz": (240, 7_000),
    "lublin_256.swf.gz": (256, 2_756),
    "lublin2.swf.gz": (256, 4_000),
}
"""Log → processors, and the first row of a window."""


def policy_of(name: str, backfill: Backfill) -> Any:
    """Return the engine's policy of a rule of the study."""
    order: Any = plugins.find("simkit.policies", name, kind="order")()
    if backfill == "easy":
        return OrderedPolicy(order, Easy())
    return RLScheduler(backfill == "rlscheduler").compose(order)


def window_of(log: str, jobs: int = 600) -> tuple[Workload, int]:
    processors, first = LOGS[log]
    whole = RLSchedulerLog.of(path=real_file("swf", log)).read().workload
    return whole.take(np.arange(first, first + jobs)), processors


BACKFILLS: tuple[Backfill, ...] = ("easy", "rlscheduler", "rlscheduler-none")


@pytest.mark.thorough
@pytest.mark.parametrize("log", LOGS)
def test_a_window_of_a_log(log):
    workload, processors = window_of(log)
    jobs = PoolJobs.of(workload, processors)
    for name, rule in RULES.items():
        for backfill in BACKFILLS:
            expected = engine_starts(policy_of(name, backfill), workload, processors)
            assert simulate(jobs, rule(jobs), backfill=backfill).tolist() == expected, name
    expected = engine_starts(HoldRule("1h", 0.2).compose(SAFP()), workload, processors)
    assert simulate(jobs, Rule.saf_p(jobs), hold=Hold(3600.0, 0.2)).tolist() == expected


ROWS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 9), st.integers(1, 8),
        st.one_of(st.integers(1, 15), st.just(np.inf)), st.integers(-1, 2),
    ),
    min_size=1,
    max_size=40,
)  # fmt: skip
"""Gap, run time, processors, request and user; run times may exceed requests, some are endless."""


@given(
    rows=ROWS, name=st.sampled_from([*RULES]), scale=st.sampled_from([1, 7]),
    backfill=st.sampled_from(BACKFILLS),
)  # fmt: skip
def test_small_workloads(rows, name, scale, backfill):
    rows = [(gap * scale, run * scale, n, r * scale, user) for gap, run, n, r, user in rows]
    workload = small_workload(rows)
    jobs = PoolJobs.of(workload, 8)
    expected = engine_starts(policy_of(name, backfill), workload, 8)
    assert simulate(jobs, RULES[name](jobs), backfill=backfill).tolist() == expected


@pytest.mark.thorough
@given(rows=ROWS, longer=st.integers(1, 12), keep=st.sampled_from([0.0, 0.2, 0.55]))
def test_small_workloads_with_jobs_held(rows, longer, keep):
    workload = small_workload(rows)
    jobs = PoolJobs.of(workload, 8)
    expected = engine_starts(HoldRule(longer, keep).compose(SJF()), workload, 8)
    found = simulate(jobs, Rule.by_key(jobs.requested_s), hold=Hold(float(longer), keep))
    assert found.tolist() == expected


# --- by hand ------------------------------------------------------------------------------------


def jobs_of(*rows: tuple[float, float, int, float]) -> PoolJobs:
    return PoolJobs.of(small_workload([(*row, -1) for row in rows]), 4)


def test_jobs_must_fit_the_machine():
    with pytest.raises(ScenarioError, match="asks for 4 processors, the machine has 2"):
        PoolJobs.of(small_workload([(0, 1, 4, 1, 0)]), 2)


def test_jobs_that_wait_for_their_release_are_refused():
    load = small_workload([(0, 1, 4, 1, 0)]).with_columns(release_time_s=np.array([5.0]))
    with pytest.raises(ScenarioError, match="does not know; add dependencies: ignore"):
        PoolJobs.of(load, 4)


def test_measures():
    jobs = jobs_of((0, 10, 4, 10), (0, 20, 2, 20))
    assert measures(jobs, np.array([0.0, 10.0])) == {
        "bounded_slowdown": 1.25,
        "makespan_s": 30.0,
        "area_weighted_wait_s": 5.0,
        "longest_wait_s": 10.0,
    }


def test_nothing_is_held_by_rlschedulers_rules():
    jobs = jobs_of((0, 1, 1, 1))
    wrong: list[Any] = [{"end": "always"}, {"hold": Hold(1.0, 0.5)}]
    for more in wrong:
        with pytest.raises(ValueError, match="backfill rlscheduler does not support"):
            simulate(jobs, JobScorer.zero(), backfill="rlscheduler", **more)
