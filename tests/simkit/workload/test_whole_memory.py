"""Jobs that take all memory of their machines, once the machines are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simkit
from simkit.engine.submission import Submission
from simkit.errors import ScenarioError, TraceError
from simkit.policy.estimates import Requested
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Partition, fill_whole_memory

CLUSTER = Cluster(
    ("processors", "mem", "gpu"),
    ("small", "large", "gpus", "bare"),
    np.array([[8, 64, 0], [32, 256, 0], [16, 128, 4], [64, 0, 0.0]]),
    partitions=(
        Partition("all", partitions=frozenset({0})),
        Partition("big", machines=(1, 2), partitions=frozenset({1})),
    ),
)


def jobs(*rows: tuple[float, float, int], whole: bool = True) -> Workload:
    """Return jobs of one instance that asks for (processors, gpu), of a partition."""
    return Workload(
        resources=("processors", "mem", "gpu"),
        job_id=np.arange(len(rows)),
        submit_time_s=np.arange(len(rows), dtype=np.float64),
        first_task=np.arange(len(rows) + 1),
        task_id=np.zeros(len(rows), np.int64),
        instances=np.ones(len(rows), np.int64),
        request=np.array([(cpu, 0, gpu) for cpu, gpu, _ in rows], dtype=np.float64),
        run_time_s=np.full(len(rows), 60.0),
        requested_time_s=np.full(len(rows), 60.0),
        gang=np.ones(len(rows), np.bool_),
        partition=np.array([number for *_, number in rows]),
        whole_memory=np.full(len(rows), whole),
    )


CASES = [
    # processors, gpus, partition; GiB: of the smallest machine with memory that holds it
    (1, 0, 0, 64),
    (8, 0, 0, 64),
    (9, 0, 0, 128),
    (20, 0, 0, 256),
    (1, 1, 0, 128),
    (1, 0, 1, 128),  # the partition has no smaller one
    (20, 0, 1, 256),
    (40, 0, 0, 256),  # fits on none with memory
    (1, 9, 0, 256),  # fits nowhere
]


def test_the_amount_is_that_of_the_smallest_machine_that_holds_an_instance() -> None:
    load = jobs(*((cpu, gpu, partition) for cpu, gpu, partition, _ in CASES))
    filled = fill_whole_memory(load, CLUSTER)
    assert filled.request[:, 1].tolist() == [gib for *_, gib in CASES]
    assert filled.request[:, [0, 2]].tolist() == load.request[:, [0, 2]].tolist()
    assert not len(filled.whole_memory)


def test_other_jobs_keep_what_they_ask_for() -> None:
    load = jobs((1, 0, 0), (1, 0, 0), whole=False)
    assert fill_whole_memory(load, CLUSTER).request.tolist() == load.request.tolist()
    plain = load.with_columns(whole_memory=np.empty(0, np.bool_))
    assert fill_whole_memory(plain, CLUSTER) is plain


def test_jobs_without_an_amount_do_not_come_to_a_simulation() -> None:
    with pytest.raises(ScenarioError, match="jobs take all memory of their machines"):
        Submission(jobs((1, 0, 0)), CLUSTER, Requested())
    with pytest.raises(TraceError, match="whole_memory needs the resource mem"):
        Workload.from_jobs(
            {"job_id": [1], "submit_time_s": [0], "run_time_s": [1], "processors": [1]},
            whole_memory=np.array([True]),
        )


def test_parts_of_a_workload_keep_the_column() -> None:
    part = jobs((1, 0, 0), (2, 0, 0)).take(np.array([1]))
    assert part.whole_memory.tolist() == [True]


HEADER = "JobID|State|Submit|Start|End|Elapsed|Timelimit|NNodes|AllocCPUS|ReqMem\n"
ROW = "{}|COMPLETED|2024-05-14T08:0{}:00|2024-05-14T09:00:00|2024-05-14T10:00:00|01:00:00|02:00:00"

SECOND = [
    # memory of the second job, when it starts; the first took all of the only machine
    ("60Gn", 3600),
    ("1M", 3600),
    ("0n", 3600),
    ("", 3600),
]


@pytest.mark.parametrize(("memory", "start"), SECOND)
def test_nothing_with_memory_runs_beside_a_job_that_takes_all(
    tmp_path: Path, memory: str, start: float
) -> None:
    log = tmp_path / "sacct.txt"
    log.write_text(f"{HEADER}{ROW.format(1, 0)}|1|4|0n\n{ROW.format(2, 1)}|1|4|{memory}\n")
    run = simkit.simulate(
        {
            "workload": {"type": "sacct", "path": str(log), "memory": True},
            "cluster": {"machines": [{"processors": 8, "mem": 64}]},
        }
    )
    assert run.jobs["start_time_s"].to_list() == [0, start]
    assert run.jobs["mem"][0] == 64
    assert run.info["trace"]["notes"]["memory unknown"] == (
        1 if "0" not in memory[:1] and memory else 2
    )


def test_jobs_on_machines_of_their_own_do_not_wait_for_it(tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    log.write_text(f"{HEADER}{ROW.format(1, 0)}|2|8|0n\n{ROW.format(2, 1)}|1|4|60Gn\n")
    run = simkit.simulate(
        {
            "workload": {"type": "sacct", "path": str(log)},
            "cluster": {"machines": [{"count": 3, "processors": 8, "mem": 64}]},
        }
    )
    assert run.jobs["start_time_s"].to_list() == [0, 60]
    assert run.jobs["mem"].to_list() == [128, 60]
    assert run.allocations.filter(run.allocations["job_id"] == 1)["machine_id"].n_unique() == 2
