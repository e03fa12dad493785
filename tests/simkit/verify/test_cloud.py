"""Runs of clouds: tasks, parents, retries, machines that come, go and fail, containers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
import pytest

pytestmark = pytest.mark.sampled

Change = Callable[[Any], None]

TASKS = b"""job,task,submit,run,n,cpu,mem,after
1,1,0,10,3,1,0.125,
1,2,0,5,1,2,0.125,1
2,1,0,20,2,2,0.25,
3,1,2,4,1,6,0.5,
4,1,3,4,1,9,0.5,
"""
COLUMNS = {
    "job_id": "job", "task_id": "task", "submit_time_s": "submit", "run_time_s": "run",
    "instances": "n", "cpu": "cpu", "mem": "mem", "parents": "after",
}  # fmt: skip
MACHINES = b"""0,11,add,,4,1,1
0,12,add,,4,1,1
12,12,softerror,,0,0,0
30,13,add,,4,1,1
40,11,remove,,4,1,1
"""
CONTAINERS = b"""5,create,7,11,1,0.25,0.1,1
20,remove,7,11,1,0.25,0.1,1
"""


def step(
    time: float, machine: int, cpu: float, mem: float, cause: str, running: str = "drain"
) -> Any:
    capacity = {"cpu": cpu, "mem": mem}
    detail = json.dumps({"capacity": capacity, "running": running, "cause": cause})
    return (time, "capacity", machine, detail)


@pytest.fixture
def cloud(kit: Any) -> Any:
    """Three machines of four cores, over-committed to six; job 2 loses an instance at 12.

    The third machine joins at 30 and the first leaves at 40; a container is on the first from 5 to
    20; the second is down from 12 to 22. Job 4 fits nowhere.
    """
    one, two = {"cpu": 1.0, "mem": 0.125}, {"cpu": 2.0, "mem": 0.25}
    jobs = [
        kit.Job(1, 0.0, (kit.Task(1, 3, 10.0, False, one),
                         kit.Task(2, 1, 5.0, False, {"cpu": 2.0, "mem": 0.125}, (1,))), None),
        kit.Job(2, 0.0, (kit.Task(1, 2, 20.0, False, two),), None, estimate=20.0),
        kit.Job(3, 2.0, (kit.Task(1, 1, 4.0, False, {"cpu": 6.0, "mem": 0.5}),), None, estimate=4.0),
        kit.Job(4, 3.0, (kit.Task(1, 1, 4.0, False, {"cpu": 9.0, "mem": 0.5}),), None, estimate=4.0,
                status="rejected", reason="no machine can hold one"),
    ]  # fmt: skip
    jobs[0] = jobs[0]._replace(estimate=10.0)
    segments = [
        kit.Segment(1, 1, 0, 0, 3, 0.0, 10.0),
        kit.Segment(1, 2, 0, 0, 1, 10.0, 15.0),
        kit.Segment(2, 1, 0, 0, 1, 0.0, 20.0),
        kit.Segment(2, 1, 1, 1, 1, 0.0, 12.0, "lost"),
        kit.Segment(2, 1, 1, 1, 1, 22.0, 42.0, attempt=2),
        kit.Segment(3, 1, 2, 0, 1, 30.0, 34.0),
    ]
    events = [
        step(0.0, 2, 0.0, 0.0, "joins later"), step(5.0, 0, 5.0, 0.75, "container"),
        step(12.0, 1, 0.0, 0.0, "softerror", "requeue"), step(20.0, 0, 6.0, 1.0, "container"),
        step(22.0, 1, 6.0, 1.0, "softerror"), step(30.0, 2, 6.0, 1.0, "add"),
        step(40.0, 0, 0.0, 0.0, "remove"),
    ]  # fmt: skip
    fault = {"running": "requeue", "repair": 10.0}
    world = kit.build(
        jobs, segments, [{"cpu": 6.0, "mem": 1.0}] * 3, events=events,
        workload={"type": "tasks", "path": "tasks.csv", "columns": COLUMNS},
        cluster={
            "trace": {"type": "alibaba2017", "path": "server_event.csv", "softerror": fault,
                      "harderror": fault, "remove": "drain"},
            "containers": {"type": "alibaba2017", "path": "container_event.csv"},
            "overcommit": {"cpu": 1.5},
        },
        policy={"fitness": "first-fit"},
    )  # fmt: skip
    for machine, name in zip(
        world.manifest["cluster"]["machines"], ("11", "12", "13"), strict=True
    ):
        machine["name"] = name
    world.set("jobs", world.row_of("jobs", job_id=2), lost_time_s=6.0)
    world.manifest["trace"] |= {"read": 5, "accepted": 5}
    world.files |= {"tasks.csv": TASKS, "server_event.csv": MACHINES,
                    "container_event.csv": CONTAINERS}  # fmt: skip
    return world


def test_a_good_run_of_a_cloud_has_no_violations(cloud: Any, tmp_path: Path) -> None:
    audit = cloud.audit(tmp_path)
    assert audit.violations == ()
    done = {check.name: check.examined for check in audit.checks if not check.skipped}
    assert done["tasks"] == 5
    assert done["instance-times"] == 8  # including the lost attempt
    assert done["parents"] == 1
    assert done["machine-capacity"] == 9  # until the first machine leaves
    assert done["outages"] == 7 + 1
    assert "failures" in audit.not_applicable


def cell(table: str, change: dict[str, Any], **which: Any) -> Change:
    return lambda world: world.set(table, world.row_of(table, **which), **change)


def event(time: float, **change: Any) -> Change:
    def apply(world: Any) -> None:
        row = world.row_of("events", time_s=time)
        detail = json.loads(world.cell("events", row, "detail"))
        world.set("events", row, detail=json.dumps(detail | change))

    return apply


def drop(table: str, **which: Any) -> Change:
    return lambda world: world.drop(table, world.row_of(table, **which))


def earlier(world: Any) -> None:
    """Move the child to 9..14, before its parent's end, in all its records."""
    for table in ("tasks", "allocations"):
        row = world.row_of(table, job_id=1, task_id=2)
        world.set(table, row, start_time_s=9.0, end_time_s=14.0)
    row = world.row_of("jobs", job_id=1)
    world.set("jobs", row, end_time_s=14.0, turnaround_time_s=14.0, run_time_s=14.0)


def longer(world: Any) -> None:
    """Stretch the child to 9 s: less than the longest task of its job, but not its run time."""
    for table in ("tasks", "allocations"):
        world.set(table, world.row_of(table, job_id=1, task_id=2), end_time_s=19.0)
    row = world.row_of("jobs", job_id=1)
    world.set("jobs", row, end_time_s=19.0, turnaround_time_s=19.0)


def never_rejected(world: Any) -> None:
    for table in ("jobs", "tasks"):
        world.set(table, world.row_of(table, job_id=4), status="waiting")
    world.set("jobs", world.row_of("jobs", job_id=4), reason="")


def killed_parent(world: Any) -> None:
    world.set("tasks", world.row_of("tasks", job_id=1, task_id=1), status="killed")


def unexpected_failure(world: Any) -> None:
    rows = [(25.0, "capacity", None, None, 1,
             json.dumps({"capacity": {"cpu": 0, "mem": 0}, "cause": "failure"}))]  # fmt: skip
    schema = world.tables["events"].schema
    world.append("events", pl.DataFrame(rows, schema=schema, orient="row"))


LOST = {"job_id": 2, "start_time_s": 0.0, "machine_id": 1}
AGAIN = {"job_id": 2, "start_time_s": 22.0}

MUTATIONS: list[tuple[str, Change, str]] = [
    # what is done to the run, how, the rule that is violated
    ("submit time changed", cell("jobs", {"submit_time_s": 1.0}, job_id=3), "tasks"),
    ("instances changed", cell("tasks", {"instances": 4}, job_id=1, task_id=1), "tasks"),
    ("request changed", cell("tasks", {"mem": 0.25}, job_id=1, task_id=2), "tasks"),
    ("task dropped", drop("tasks", job_id=1, task_id=2), "tasks"),
    ("task renamed", cell("tasks", {"task_id": 9}, job_id=3), "tasks"),
    ("longest run time changed", cell("jobs", {"trace_run_time_s": 11.0}, job_id=1), "tasks"),
    ("ideal time changed", cell("jobs", {"ideal_time_s": 14.0}, job_id=1), "critical-paths"),
    ("ideal time dropped", cell("jobs", {"ideal_time_s": None}, job_id=2), "critical-paths"),
    ("ideal time of one instance", cell("jobs", {"ideal_time_s": 4.0}, job_id=3), "critical-paths"),
    ("run time of one instance", cell("jobs", {"run_time_s": 5.0}, job_id=3), "critical-paths"),
    ("ready before its parent", cell("tasks", {"ready_time_s": 9.0}, job_id=1, task_id=2),
     "critical-paths"),
    ("ready too late", cell("tasks", {"ready_time_s": 1.0}, job_id=2), "critical-paths"),
    ("a task's run time changed", cell("tasks", {"trace_run_time_s": 9.0}, job_id=1, task_id=1),
     "tasks"),
    ("a row of the input too few", lambda w: w.manifest["trace"].update(accepted=4), "trace"),
    ("not its own run time", longer, "instance-times"),
    ("a retry cut short", cell("allocations", {"end_time_s": 40.0}, **AGAIN), "instance-times"),
    ("a loss that took too long", cell("allocations", {"end_time_s": 21.0}, **LOST), "instance-times"),
    ("child before its parent's end", earlier, "parents"),
    ("parent killed, child ran", killed_parent, "parents"),
    ("lost instance without another attempt", drop("allocations", **AGAIN), "instances"),
    ("attempt not raised", cell("allocations", {"attempt": 1}, **AGAIN), "instances"),
    ("attempt raised by two", cell("allocations", {"attempt": 3}, **AGAIN), "instances"),
    ("finished twice", cell("allocations", {"outcome": "finished"}, **LOST), "instances"),
    ("lost time changed", cell("jobs", {"lost_time_s": 13.0}, job_id=2), "times"),
    ("lost time forgotten", cell("jobs", {"lost_time_s": 0.0}, job_id=2), "times"),
    ("attempts changed", cell("jobs", {"attempts": 1}, job_id=2), "times"),
    ("starts on a machine that is down", cell("allocations", {"start_time_s": 21.0}, **AGAIN), "capacity"),
    ("starts before its machine joins", cell("allocations", {"start_time_s": 29.0}, job_id=3), "capacity"),
    ("stays though it has to go", cell("allocations", {"end_time_s": 13.0}, **LOST), "capacity"),
    ("on a machine that is full", cell("allocations", {"machine_id": 1}, job_id=3), "capacity"),
    ("more than the container leaves", cell("tasks", {"cpu": 4.0}, job_id=1, task_id=2), "capacity"),
    ("machine up too early", event(12.0, capacity={"cpu": 6.0, "mem": 1.0}), "machine-capacity"),
    ("repair not recorded", drop("events", time_s=22.0), "machine-capacity"),
    ("container takes less", event(5.0, capacity={"cpu": 6.0, "mem": 0.75}), "machine-capacity"),
    ("container stays", drop("events", time_s=20.0), "machine-capacity"),
    ("joins with another size", event(30.0, capacity={"cpu": 4.0, "mem": 1.0}), "machine-capacity"),
    ("there from the start", drop("events", time_s=0.0), "machine-capacity"),
    ("over-commit forgotten",
     lambda w: w.manifest["cluster"]["machines"][0]["capacity"].update(cpu=4.0), "machine-capacity"),
    ("fails for no reason", unexpected_failure, "failures"),
    ("never rejected", never_rejected, "rejections"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS]
)
def test_each_kind_of_corruption_is_caught_by_its_check(
    change: Change, check: str, cloud: Any, tmp_path: Path
) -> None:
    change(cloud)
    assert check in cloud.audit(tmp_path).found


def test_a_leaving_machine_takes_nothing_new(cloud: Any, tmp_path: Path) -> None:
    # job 3 is moved, all its records consistent, to the machine that left at 40
    for table in ("jobs", "tasks", "allocations"):
        cloud.set(table, cloud.row_of(table, job_id=3), start_time_s=41.0, end_time_s=45.0)
    cloud.set("allocations", cloud.row_of("allocations", job_id=3), machine_id=0)
    found = cloud.audit(tmp_path).violations
    assert "starts on a machine that is absent or down" in {v.message for v in found}


# --- random failures -----------------------------------------------------------------------------


@pytest.fixture
def failing(kit: Any) -> Any:
    """One machine of two fails at 4 and is repaired at 9, which are its first draws."""
    one = {"cpu": 1.0}
    jobs = [kit.Job(1, 0.0, (kit.Task(1, 1, 6.0, False, one),), 6.0),
            kit.Job(2, 10.0, (kit.Task(1, 1, 5.0, False, one),), 5.0)]  # fmt: skip
    segments = [kit.Segment(1, 1, 0, 0, 1, 0.0, 4.0, "lost"),
                kit.Segment(1, 1, 1, 0, 1, 4.0, 10.0, attempt=2),
                kit.Segment(2, 1, 0, 0, 1, 10.0, 15.0)]  # fmt: skip
    detail = {4.0: (0.0, "requeue"), 9.0: (2.0, "drain")}
    events = [
        (time, "capacity", 0,
         json.dumps({"capacity": {"cpu": cpu}, "running": running, "cause": "failure"}))
        for time, (cpu, running) in detail.items()
    ]  # fmt: skip
    seed, drawn = 1, (np.random.SeedSequence(1, spawn_key=(crc32(b"failures"),)))
    up, down = np.random.default_rng(drawn).spawn(2)[0].exponential(size=2).tolist()
    cluster = {"machines": [{"name": "a", "count": 1, "cpu": 2.0}, {"name": "b", "count": 1, "cpu": 2.0}],
               "failures": {"mtbf": 4.0 / up, "mttr": 5.0 / down, "machines": ["a"],
                            "running": "requeue"}}  # fmt: skip
    world = kit.build(jobs, segments, [{"cpu": 2.0}] * 2, events=events, cluster=cluster,
                      policy={"fitness": "first-fit"})  # fmt: skip
    world.manifest["seed"] = world.manifest["scenario"]["seed"] = seed
    return world


def test_failures_that_are_repaired_are_right(failing: Any, tmp_path: Path) -> None:
    assert failing.audit(tmp_path).found == {}


FAILURES: list[tuple[str, Change, str]] = [
    # what is done to the run, how, the rule that is violated
    ("repair not recorded", drop("events", time_s=9.0), "capacity"),
    ("failure not recorded", drop("events", time_s=4.0), "failures"),
    ("failure a second late", cell("events", {"time_s": 5.0}, time_s=4.0), "machine-capacity"),
    ("another cause", event(4.0, cause="softerror"), "outages"),
    ("tasks are said to run on", event(4.0, running="drain"), "outages"),
    ("paused, not lost", cell("allocations", {"outcome": "suspended"}, job_id=1, attempt=1),
     "outages"),
    ("half a machine fails", event(4.0, capacity={"cpu": 1.0}), "failures"),
    ("half a machine comes back", event(9.0, capacity={"cpu": 1.0}), "machine-capacity"),
    ("more than a machine comes back", event(9.0, capacity={"cpu": 3.0}), "machine-capacity"),
    ("a machine that cannot fail", cell("events", {"machine_id": 1}, time_s=4.0), "failures"),
    ("runs on", cell("allocations", {"end_time_s": 5.0}, job_id=1, attempt=1), "capacity"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check"), [m[1:] for m in FAILURES], ids=[m[0] for m in FAILURES]
)
def test_wrong_failures_are_caught(
    change: Change, check: str, failing: Any, tmp_path: Path
) -> None:
    change(failing)
    assert check in failing.audit(tmp_path).found


# --- what cannot be read, or is not recomputed ---------------------------------------------------


NOT_AUDITED = [
    # change of the workload, why its tasks are not audited
    ({"resample": {"weeks": 1}}, "the workload has a resample"),
    (
        {"window": {"start": "2024-05-01T00:00+02:00"}},
        "the window has 2024-04-30 22:00:00+00:00, but the trace's epoch is not known",
    ),
    ({"path": "other.csv"}, "the table is not among the recorded inputs"),
]


@pytest.mark.parametrize(("change", "reason"), NOT_AUDITED)
def test_inputs_whose_transform_is_not_repeated_are_not_audited(
    change: dict[str, Any], reason: str, cloud: Any, tmp_path: Path
) -> None:
    cloud.manifest["scenario"]["workload"] |= change
    audit = cloud.audit(tmp_path)
    assert audit.ok
    for check in ("tasks", "instance-times", "parents"):
        assert audit.not_audited[check] == reason


def test_inputs_that_changed_are_not_read(cloud: Any, tmp_path: Path) -> None:
    cloud.save(tmp_path)
    cloud.files["tasks.csv"] = TASKS.replace(b"0.25", b"0.26")
    del cloud.files["server_event.csv"]
    (tmp_path / "server_event.csv").unlink()
    audit = cloud.audit(tmp_path, inputs=False)
    assert set(audit.found) == {"inputs"}
    assert audit.not_audited["tasks"] == "tasks.csv has changed"
    assert audit.not_audited["machine-capacity"] == "server_event.csv is missing"


def test_a_table_that_cannot_be_read_is_a_violation(cloud: Any, tmp_path: Path) -> None:
    cloud.files["tasks.csv"] = b"a,b\n1,2\n"
    audit = cloud.audit(tmp_path)
    (violation,) = audit.violations
    assert (violation.check, violation.message) == ("tasks", "the input cannot be read")


def test_a_window_of_jobs_is_taken_by_order_of_submission(cloud: Any, tmp_path: Path) -> None:
    cloud.manifest["scenario"]["workload"] |= {"window": {"jobs": "0..2"}}
    assert "tasks" in cloud.audit(tmp_path / "too-many").found
    for table in ("jobs", "tasks"):
        cloud.drop(table, cloud.row_of(table, job_id=4))
    cloud.metrics["jobs"] |= {"submitted": 3, "rejected": 0}
    audit = cloud.audit(tmp_path / "run")
    assert "tasks" not in audit.found


def test_tasks_that_repeat_an_id_cannot_be_told_apart(cloud: Any, tmp_path: Path) -> None:
    cloud.append("tasks", cloud.tables["tasks"][0])
    assert "identity" in cloud.audit(tmp_path / "unknown").found
    cloud.manifest["trace"]["notes"] = {"task id repeats within the job": 1}
    audit = cloud.audit(tmp_path / "noted")
    assert "rows cannot be told apart" in audit.not_audited["identity"]


# --- maintenance of groups of machines -----------------------------------------------------------


AWAY = [
    # what is left of the second machine from 5 to 15, whether that is right
    ((0.0, 2.0), True),
    ((1.0, 2.0), False),
    ((0.0, 1.0), False),
]


@pytest.mark.parametrize(("left", "right"), AWAY)
def test_a_group_is_away_in_its_windows(
    left: tuple[float, float], right: bool, kit: Any, tmp_path: Path
) -> None:
    job = kit.Job(1, 0.0, (kit.Task(1, 1, 20.0, False, {"cpu": 1.0}),), 20.0)
    late = kit.Job(2, 16.0, (kit.Task(1, 1, 5.0, False, {"cpu": 1.0}),), 5.0)
    segments = [kit.Segment(1, 1, 0, 0, 1, 0.0, 20.0), kit.Segment(2, 1, 1, 0, 1, 16.0, 21.0)]
    events = [
        (
            time,
            "capacity",
            1,
            json.dumps({"capacity": {"cpu": cpu}, "running": "drain", "cause": "maintenance"}),
        )
        for time, cpu in zip((5.0, 15.0), left, strict=True)
    ]
    window = {"start": 5.0, "duration": 10.0, "machines": ["b"], "running": "drain"}
    groups = [{"name": "a", "count": 1, "cpu": 2.0}, {"name": "b", "count": 1, "cpu": 2.0}]
    world = kit.build(
        [job, late], segments, [{"cpu": 2.0}] * 2, events=events,
        cluster={"machines": groups, "maintenance": [window]}, policy={"fitness": "first-fit"},
    )  # fmt: skip
    found = world.audit(tmp_path).found
    assert set(found) == (set() if right else {"machine-capacity"}), found
