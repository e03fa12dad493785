"""The auditor's own reading of Alibaba's tables, and runs with a run time for each instance."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BATCH_TASK = """5,105,2,1,2,Terminated,100,0.25
-3,50,1,1,3,Terminated,50,0.125
0,40,1,2,1,Failed,100,0.5
0,40,1,3,1,Waiting,100,0.5
0,40,1,4,1,Running,100,0.5
0,0,1,5,1,Terminated,100,0.5
0,40,1,6,1,Terminated,,0.5
9,9,3,1,1,Terminated,100,0.5
,40,4,1,1,Terminated,100,0.5
8,40,5,1,0,Terminated,100,0.5
"""
"""Job 1 with two tasks, then job 2; all other rows are left out by the default rules."""
BATCH_INSTANCE = """60,70,1,1,7,Terminated,1,1,,,,
10,30,1,1,7,Failed,1,2,,,,
40,52,1,1,7,Terminated,2,2,,,,
50,50,1,2,7,Terminated,1,1,,,,
0,30,1,2,7,Terminated,1,1,,,,
20,30,,,7,Terminated,1,1,,,,
30,31,9,9,7,Terminated,1,1,,,,
"""
"""Task 1 of job 1: 12 and 10 s, in the order of start, and 11 s for the third; task 2: 0 s."""
Change = Callable[[Any], None]


@pytest.fixture
def batch(kit: Any) -> Any:
    """Every instance starts at its job's submission, on one large machine."""
    cores = [{"cpu": 0.5, "mem": 0.125}, {"cpu": 1.0, "mem": 0.5}, {"cpu": 1.0, "mem": 0.25}]
    tasks = (kit.Task(1, 3, 12.0, False, cores[0], mean=11.0), kit.Task(2, 1, 0.0, False, cores[1]))
    jobs = [kit.Job(1, -3.0, tasks, None, estimate=11.0),
            kit.Job(2, 5.0, (kit.Task(1, 2, 100.0, False, cores[2]),), None, estimate=100.0)]  # fmt: skip
    segments = [
        kit.Segment(1, 2, 0, 0, 1, -3.0, -3.0),
        kit.Segment(1, 1, 0, 1, 1, -3.0, 7.0),
        kit.Segment(1, 1, 0, 2, 1, -3.0, 8.0),
        kit.Segment(1, 1, 0, 0, 1, -3.0, 9.0),
        kit.Segment(2, 1, 0, 0, 2, 5.0, 105.0),
    ]
    world = kit.build(
        jobs, segments, [{"cpu": 64.0, "mem": 1.0}],
        workload={"type": "alibaba2017", "path": ".", "rules": {}, "durations": "task",
                  "instances": True},
        policy={"fitness": "first-fit"},
    )  # fmt: skip
    world.manifest["trace"] |= {"read": 10, "accepted": 3, "dropped": {"rules": 7}}
    world.files |= {"batch_task.csv": BATCH_TASK.encode(),
                    "batch_instance.csv": BATCH_INSTANCE.encode()}  # fmt: skip
    return kit.with_utilisation(world)


def test_each_instance_has_its_own_run_time(batch: Any, tmp_path: Path) -> None:
    audit = batch.audit(tmp_path)
    assert audit.violations == ()
    done = {check.name: check.examined for check in audit.checks if not check.skipped}
    assert (done["tasks"], done["instance-times"]) == (3, 6)


def packed(world: Any) -> None:
    """Put the tables into one archive."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, content in world.files.items():
            member = tarfile.TarInfo(f"trace/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    world.files = {"trace.tgz": whole.getvalue()}
    world.manifest["scenario"]["workload"]["path"] = "trace.tgz"


def zipped(world: Any) -> None:
    world.files = {f"{name}.gz": gzip.compress(data) for name, data in world.files.items()}


def with_header_and_crlf(world: Any) -> None:
    header = b"create, end, job, task, n, status, cpu, mem\r\n"
    text = world.files["batch_task.csv"].replace(b"\n", b"\r\n")
    world.files["batch_task.csv"] = header + text


def turned(world: Any) -> None:
    """Turn the rows of both tables round."""
    for name, content in world.files.items():
        world.files[name] = b"\n".join(reversed(content.strip().split(b"\n"))) + b"\n"


@pytest.mark.parametrize("change", [packed, zipped, with_header_and_crlf, turned])
def test_tables_come_in_several_forms(change: Change, batch: Any, tmp_path: Path) -> None:
    change(batch)
    audit = batch.audit(tmp_path)
    assert audit.violations == ()
    assert not {"tasks", "instance-times"} & {*audit.not_audited, *audit.not_applicable}


def replaced(table: str, old: bytes, new: bytes) -> Change:
    def apply(world: Any) -> None:
        assert old in world.files[table]
        world.files[table] = world.files[table].replace(old, new)

    return apply


WRONG: list[tuple[str, Change, set[str]]] = [
    # what the input says that the run does not, how, the rules that are violated
    ("another run time", replaced("batch_instance.csv", b"60,70,1,1", b"60,71,1,1"),
     {"instance-times", "tasks", "estimates"}),
    ("another order", replaced("batch_instance.csv", b"60,70,1,1", b"30,40,1,1"), {"instance-times"}),
    ("a longer one", replaced("batch_instance.csv", b"40,52,1,1", b"40,53,1,1"),
     {"instance-times", "tasks", "estimates"}),
    ("a retry that counts", replaced("batch_instance.csv", b"10,30,1,1,7,Failed,1,2", b"10,30,1,1,7,Terminated,2,2"),
     {"instance-times", "tasks", "estimates"}),
    ("a task that had not failed", replaced("batch_task.csv", b"Running", b"Failed"),
     {"tasks", "estimates"}),
    ("another request", replaced("batch_task.csv", b"100,0.25", b"200,0.25"), {"tasks"}),
    ("another submission", replaced("batch_task.csv", b"-3,50", b"-2,50"), {"tasks"}),
    ("more instances", replaced("batch_task.csv", b"2,1,2,Term", b"2,1,3,Term"), {"tasks"}),
    ("another wall time", replaced("batch_task.csv", b"5,105", b"5,106"),
     {"tasks", "instance-times", "estimates"}),
]  # fmt: skip


@pytest.mark.parametrize(("change", "checks"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_differs_from_the_input_is_caught(
    change: Change, checks: set[str], batch: Any, tmp_path: Path
) -> None:
    change(batch)
    assert set(batch.audit(tmp_path).found) == checks


def test_without_batch_instance_each_runs_as_long_as_its_task(batch: Any, tmp_path: Path) -> None:
    del batch.files["batch_instance.csv"]
    found = batch.audit(tmp_path).found
    assert {"tasks", "instance-times"} <= set(found)  # 53 and 40 s by batch_task


def test_rules_other_than_the_defaults_are_not_repeated(batch: Any, tmp_path: Path) -> None:
    batch.manifest["scenario"]["workload"]["rules"] = {"running": "keep"}
    reason = batch.audit(tmp_path).not_audited["tasks"]
    assert reason == "the workload has rules: {'running': 'keep'}"


def test_times_of_a_model_are_not_recomputed(batch: Any, tmp_path: Path) -> None:
    del batch.files["batch_instance.csv"]
    batch.manifest["scenario"]["workload"]["durations"] = "share"
    audit = batch.audit(tmp_path)
    assert audit.not_audited["instance-times"] == "run times come from a model of durations"
    assert "tasks" not in audit.found
