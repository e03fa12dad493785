"""Run times that are learned during a run: from the past alone, and of use."""

from __future__ import annotations

from dataclasses import replace
from math import log1p
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from simkit import simulate
from simkit.errors import PluginError, ScenarioError
from simkit.learners.run_times.learned_run_times import JOB_FEATURES, JobHistory, LearnedRunTimes
from simkit.policy.task import Task
from simkit.workload import Workload

JOBS = 240


def workload(run_time_s: np.ndarray, seed: int = 0) -> Workload:
    """Return jobs of eight users, each with two executables."""
    rng = np.random.default_rng(seed)
    jobs = len(run_time_s)
    return Workload(
        resources=("processors",),
        job_id=np.arange(jobs),
        submit_time_s=np.sort(rng.integers(0, 3000 * jobs, jobs)).astype(float),
        first_task=np.arange(jobs + 1),
        task_id=np.arange(jobs),
        instances=np.ones(jobs, np.int64),
        request=rng.integers(1, 9, (jobs, 1)).astype(float),
        run_time_s=run_time_s,
        requested_time_s=np.full(jobs, 7200.0),
        gang=np.ones(jobs, np.bool_),
        user=rng.integers(0, 8, jobs),
        executable=rng.integers(0, 2, jobs),
    )


def by_executable(seed: int) -> Workload:
    """Return jobs whose run time depends on user and executable, which take turns at random."""
    jobs = workload(np.ones(JOBS), seed)
    mean = np.where(jobs.executable == 1, 3600.0, 30.0) * (1.0 + jobs.user)
    noise = np.random.default_rng(seed + 1).uniform(0.9, 1.1, JOBS)
    return workload(np.minimum(np.round(mean * noise), 7000.0), seed)


def run(jobs: Workload, estimates: Any) -> Any:
    scenario = {
        "workload": {"type": "poisson", "jobs": 1, "processors": 16, "offered_load": 0.5},
        "cluster": {"processors": 16},
        "policy": {"order": "sjf", "backfill": "easy"},
        "estimates": estimates,
    }
    return simulate(scenario, workload=jobs)


LEARNED = {"type": "learned", "every": 60, "memory": 150}


def estimates_of(found: Any) -> np.ndarray:
    return found.jobs.sort("job_id")["estimate_s"].to_numpy()


# --- features -------------------------------------------------------------------------------------


def test_features_by_hand():
    jobs = workload(np.ones(4))
    history = JobHistory(jobs)

    def task(index: int, submit_s: float, user: int = 3, size: float = 4.0) -> Task:
        return Task(index, index, submit_s, (size,), 1, True, 0.0, 600.0, user, queue=2)

    def seen(each: Task) -> dict[str, float]:
        return dict(zip(JOB_FEATURES, history.submit(each), strict=True))

    first, second = task(0, 90_000.0), task(1, 90_010.0)
    found = seen(first)
    assert found["requested_time"] == log1p(600.0)
    assert found["processors"] == log1p(4.0)
    assert (found["hour"], found["weekday"]) == (1.0, 1.0)
    assert (found["user"], found["queue"]) == (3.0, 2.0)
    assert {found[name] for name in JOB_FEATURES[9:] if name != "finished"} == {-1.0}
    found = seen(second)
    assert found["since_submission"] == log1p(10.0)
    history.end(first, 60.0)
    history.end(second, 300.0)
    found = seen(task(2, 90_500.0))
    logs = [log1p(60.0), log1p(300.0)]
    assert (found["last"], found["last_but_one"]) == (logs[1], logs[0])
    assert found["mean_of_two"] == found["mean"] == sum(logs) / 2
    assert found["finished"] == log1p(2)
    assert found["last_alike"] == logs[1]
    assert found["share_of_request"] == 0.5
    assert seen(task(3, 90_500.0, size=8.0))["last_alike"] == -1.0
    assert seen(task(3, 90_500.0, user=4))["last"] == -1.0


# --- in a run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["trees", pytest.param("classes", marks=pytest.mark.thorough)])
def test_nothing_of_the_future_shows(model):
    jobs, seed = by_executable(7), 7
    known = run(jobs, {**LEARNED, "model": model})
    until_s = float(np.quantile(jobs.submit_time_s, 0.7))
    ends = known.jobs.sort("job_id")["end_time_s"].to_numpy()
    later = ends > until_s
    assert later.any()
    other = jobs.run_time_s.copy()
    other[later] = np.maximum(other[later], 1.0) + 500.0  # they end later still
    changed = run(workload(other, seed), {**LEARNED, "model": model})
    before = jobs.submit_time_s <= until_s
    assert before.any()
    assert np.array_equal(estimates_of(known)[before], estimates_of(changed)[before])


def test_until_the_first_fit_it_is_the_mean_of_the_last_two():
    jobs = by_executable(1)
    found = run(jobs, {"type": "learned", "every": JOBS + 1})
    assert np.array_equal(estimates_of(found), estimates_of(run(jobs, "user-mean")))


@pytest.mark.parametrize("model", ["trees", "classes"])
def test_it_learns_what_a_mean_cannot_know(model):
    jobs = by_executable(2)
    late = slice(JOBS // 2, None)
    off = {}
    for estimates in ("user-mean", {**LEARNED, "model": model}):
        found = estimates_of(run(jobs, estimates))[late]
        assert (found <= jobs.requested_time_s[late]).all()
        assert (found > 0).all()
        error = np.abs(np.log(found / jobs.run_time_s[late]))
        off[str(estimates)] = float(np.mean(error))
    by_mean, learned = off.values()
    assert learned < 0.5 * by_mean


@pytest.mark.parametrize("user", [-1, 3])
def test_without_requests_run_times_do_not_show(user):
    jobs = by_executable(5)
    bare = replace(jobs, requested_time_s=np.full(JOBS, np.nan), user=np.full(JOBS, user))
    found = estimates_of(run(bare, LEARNED))
    assert (found == bare.run_time_s).mean() < 0.02  # by chance
    assert found[0] == 3600.0


@pytest.mark.parametrize(
    ("key", "value"), [("model", "forest"), ("every", 0), ("every", True), ("memory", 1e4)]
)
def test_what_is_refused(key, value):
    with pytest.raises(ScenarioError, match=f"{key} is"):
        LearnedRunTimes(**{key: value})


def test_without_its_library_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("simkit.learners.run_times.burst_models.find_spec", lambda name: None)
    with pytest.raises(PluginError, match=r"simkit-cluster\[learn\]"):
        LearnedRunTimes()
