"""How many starts overtook a suspended task on its machines."""

from __future__ import annotations

import pytest

import simkit
from simkit.policy import Place, Resume, Suspend
from simkit.verify import verify_run

JOBS = "job_id,submit_time_s,run_time_s,requested_time_s,processors,queue\n"


class Careless:
    """Stops job 1 at 10 s, starts whatever fits, and lets it go on at the end alone."""

    def reset(self, info, rng):
        self._stopped = False

    def schedule(self, state):
        if state.now == 10 and not self._stopped:
            self._stopped = True
            yield Suspend(next(iter(state.running)))
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)
        if not state.running:
            for allocation in state.suspended:
                yield Resume(allocation)


def run_of(tmp_path, rows, policy=None, **cluster):
    (tmp_path / "jobs.csv").write_text(JOBS + rows)
    scenario = {
        "workload": {"type": "jobs", "path": str(tmp_path / "jobs.csv")},
        "cluster": {"processors": 4, **cluster},
    }
    run = simkit.simulate(scenario, policy=policy, output=tmp_path / "run", force=True)
    audit = verify_run(tmp_path / "run")
    assert audit.ok, audit.violations
    return run


URGENT = [
    {"name": "high", "queues": ["high"], "priority": 10},
    {"name": "low", "preempt": "suspend"},
]


def test_a_policy_of_the_user_that_overtakes_is_counted(tmp_path):
    rows = "1,0,100,100,4,low\n2,10,50,50,2,low\n3,20,50,50,2,low\n4,200,5,5,1,low\n"
    metric = run_of(tmp_path, rows, Careless).metrics["starts_past_suspended"]
    assert (metric["value"], metric["count"], metric["unit"]) == (2, 1, "starts")


def test_the_preemptor_and_what_waits_do_not_count(tmp_path):
    rows = "1,0,100,100,4,low\n2,10,100,20,3,high\n3,15,1000,1000,1,low\n"
    run = run_of(tmp_path, rows, partitions=URGENT)
    assert run.metrics["starts_past_suspended"]["value"] == 0
    assert dict(run.jobs.select("job_id", "end_time_s").rows())[1] == 200


def test_a_task_that_ends_before_is_counted_as_it_started(tmp_path):
    rows = "1,0,100,100,4,low\n2,10,100,100,3,high\n3,15,10,10,1,low\n"
    run = run_of(tmp_path, rows, {"order": "fcfs", "backfill": "easy"}, partitions=URGENT)
    assert run.metrics["starts_past_suspended"]["value"] == 1
    assert dict(run.jobs.select("job_id", "end_time_s").rows())[1] == 200


def test_runs_without_suspensions_have_no_such_metric(tmp_path):
    run = run_of(tmp_path, "1,0,100,100,4,low\n")
    with pytest.raises(KeyError):
        run.metrics["starts_past_suspended"]
