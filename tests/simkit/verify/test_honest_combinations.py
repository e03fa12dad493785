"""Honest runs in which features meet, small ones of the kinds that were once called violated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_records import Records

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


def test_a_resource_may_be_named_like_a_unit(tmp_path: Path) -> None:
    """No metric's unit is guessed from a resource: utilisation_tpu_w is a ratio, not a power."""
    table, names = tmp_path / "jobs.csv", ("cpu", "tpu_w", "gpu_s", "net_kwh", "io_per_h")
    table.write_text(f"job_id,submit_time_s,run_time_s,{','.join(names)}\n1,0,9,1,1,1,1,1\n")
    scenario = {
        "workload": {"type": "jobs", "path": str(table), "resources": list(names)},
        "cluster": {"machines": [{"count": 2, **dict.fromkeys(names, 2)}]},
    }
    run = simkit.simulate(scenario, output=tmp_path / "run")
    assert run.metrics["fragmentation_tpu_w"]["unit"] == "1"
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).found == {}


OWN_ESTIMATOR = """
from simkit.policy.estimates import Requested


class Mine(Requested):
    requests = "{}"
"""


@pytest.mark.parametrize("requests", ["used", "bound", "unknown"])
def test_a_custom_estimator_may_say_what_requests_are_to_it(tmp_path: Path, requests: str) -> None:
    """Its code is not run by the auditor, which says that the name is not checked."""
    (tmp_path / "est.py").write_text(OWN_ESTIMATOR.format(requests))
    rows = "1,0,10,4,10,7,1,999\n2,1,20,4,20,7,1,999\n"
    keys = {"estimates": f"{tmp_path / 'est.py'}:Mine", "policy": "fcfs+easy"}
    run_of(tmp_path, rows, {}, **keys)
    checks = verify_run(tmp_path / "run", inputs=[tmp_path]).checks
    (about,) = (check.notes for check in checks if check.name == "run-info")
    assert "estimator" in about["name of estimates not checked"]


OWN_POLICY = """
from simkit.policy import Kill, Place


class Impatient:
    def reset(self, info, rng):
        pass

    def schedule(self, state):
        for allocation in list(state.running):
            yield Kill(allocation.task, "walltime budget")
        for task in state.queue:
            if (on := state.fit(task)) is not None:
                yield Place(task, on)
"""


def test_a_policy_may_kill_for_a_walltime_of_its_own(tmp_path: Path) -> None:
    """Only the engine's own reason is the limit: any other kill is an event, and needs its row."""
    (tmp_path / "own.py").write_text(OWN_POLICY)
    rows = "1,0,100,4,100,7,1,999\n2,20,10,4,10,8,1,999\n"
    run = run_of(tmp_path, rows, {}, policy=f"{tmp_path / 'own.py'}:Impatient")
    assert run.jobs.sort("job_id")["reason"].to_list() == ["walltime budget", ""]
    records = Records.read(tmp_path / "run")
    records.take("events", lambda _: [])
    assert "events" in verify_run(records.save(tmp_path / "bad"), inputs=[tmp_path]).found
