"""Honest runs in which features meet, small ones of the kinds that were once called violated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.results.run_folder import Run
from simkit.verify import verify_run

pytestmark = pytest.mark.filterwarnings("ignore:.*rejected")
HEADER = "job_id,submit_time_s,run_time_s,processors,requested_time_s,user,queue,deadline_s\n"
HOT = [{"name": "hot", "queues": [1], "priority": 1}, {"name": "rest", "preempt": "suspend"}]
LATE = {"value": {"qos": 0.01, "deadlines": "column"}, "admission": {"late": "leave"}}


def run_of(folder: Path, rows: str, cluster: dict[str, Any], **keys: Any) -> Run:
    """Run jobs on a cluster, check that the auditor finds nothing, and return the run."""
    (folder / "jobs.csv").write_text(HEADER + rows)
    workload = {"type": "jobs", "path": str(folder / "jobs.csv")}
    if "machines" not in cluster:
        cluster = {"processors": 4} | cluster
    run = simkit.simulate({"workload": workload, "cluster": cluster} | keys, output=folder / "run")
    audit = verify_run(folder / "run", inputs=[folder])
    assert [str(violation) for violation in audit.violations] == []
    return run


def statuses(run: Run) -> list[tuple[int, str, float | None]]:
    return run.jobs.sort("job_id").select("job_id", "status", "start_time_s").rows()


def test_a_late_job_leaves_that_comes_in_as_a_running_one_is_cancelled(tmp_path: Path) -> None:
    """Job 2 takes the place of job 1, whose user's next job is late by then."""
    rest = {"name": "rest", "preempt": "cancel", "max_running_per_user": 1}
    rows = "1,0,100,4,100,7,2,999\n2,20,10,1,10,8,1,999\n3,1,10,1,10,7,2,15\n"
    run = run_of(tmp_path, rows, {"partitions": [HOT[0], rest]}, **LATE)
    assert statuses(run) == [(1, "killed", 0.0), (2, "finished", 20.0), (3, "rejected", None)]


def test_a_job_released_by_one_that_leaves_is_decided_on_in_a_further_round(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time_s,run_time_s,processors,requested_time_s,deadline_s,preceding_job\n"
        "1,0,100,4,100,999,-1\n2,1,10,4,10,50,-1\n3,2,10,4,10,60,2\n4,3,10,4,10,999,3\n"
    )
    scenario = {
        "workload": {"type": "jobs", "path": str(tmp_path / "jobs.csv")},
        "cluster": {"processors": 4},
    }
    run = simkit.simulate(scenario | LATE, output=tmp_path / "run")
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).violations == ()
    assert [start for _, _, start in statuses(run)] == [0.0, None, None, 100.0]


@pytest.mark.parametrize("slots", [1, 2])
def test_a_task_is_suspended_at_its_start_and_goes_on_at_once(tmp_path: Path, slots: int) -> None:
    rows = "1,0,100,4,100,7,2,999\n2,0,0,4,10,7,1,999\n3,0,0,4,10,7,1,999\n4,50,9,4,10,7,1,999\n"
    run = run_of(tmp_path, rows, {"partitions": HOT}, admission={"slots": slots})
    if slots == 1:  # job 1 is seen first, starts, and makes room before any time passes
        of_first = run.allocations.filter(job_id=1).select("start_time_s", "end_time_s")
        assert of_first.rows() == [(0, 0), (0, 50), (59, 109)]
        assert run.metrics["starts_past_suspended"]["count"] == 2
