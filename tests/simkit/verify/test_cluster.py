"""Gangs over machines, bags, suspensions, lost work, changing capacity, partitions, rejections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import simkit

pytestmark = pytest.mark.sampled

OWN = {"policy": {"path": "mine.py:Mine", "args": {}}}
"""A custom policy: it may do what an ordering does not."""


GANG, BAG = {"job_id": 1, "machine_id": 1}, {"task_id": 7, "first_instance": 2}
RESUMED, AGAIN = {"start_time_s": 10.0}, {"start_time_s": 20.0}


def messages(world: Any, folder: Path) -> set[str]:
    return {violation.message for violation in world.audit(folder).violations}


# --- gangs over several machines -----------------------------------------------------------------


@pytest.fixture
def spread(kit: Any) -> Any:
    """Two machines of four: job 1 holds three and two of them, job 2 the rest and then more."""
    jobs = [kit.rigid(1, 0, 10, 5, 10), kit.rigid(2, 0, 20, 3, 20), kit.rigid(3, 5, 10, 4, 10)]
    return kit.replayed(jobs, [4, 4])


# --- bags, several tasks, several resources ------------------------------------------------------


@pytest.fixture
def mixed(kit: Any) -> Any:
    """Job 1: a bag of three and a gang of two, on machines with cpu and mem."""
    small, large = {"cpu": 1.0, "mem": 0.25}, {"cpu": 2.0, "mem": 0.5}
    tasks = (kit.Task(7, 3, 10.0, False, small), kit.Task(8, 2, 6.0, True, large))
    job = kit.Job(1, 0.0, tasks, 10.0)
    segments = [
        kit.Segment(1, 7, 0, 0, 2, 0.0, 10.0),
        kit.Segment(1, 7, 0, 2, 1, 10.0, 20.0),
        kit.Segment(1, 8, 1, 0, 2, 0.0, 6.0),
    ]
    machines = [{"cpu": 2.0, "mem": 1.0}, {"cpu": 4.0, "mem": 1.0}]
    return kit.with_utilisation(kit.build([job], segments, machines, **OWN))


def test_every_resource_counts(mixed: Any, tmp_path: Path) -> None:
    mixed.manifest["cluster"]["machines"][0]["capacity"]["mem"] = 0.375
    assert "capacity" in mixed.audit(tmp_path).found


def test_a_resource_nobody_asks_for_has_no_column(mixed: Any, tmp_path: Path) -> None:
    for table in ("jobs", "tasks"):
        mixed.tables[table] = mixed.tables[table].drop("mem")
    mixed.set("timeline", 0, allocated_mem=0.0)
    assert set(mixed.audit(tmp_path).found) >= {"timeline"}  # its other rows still say mem is used


# --- suspended, lost and resumed -----------------------------------------------------------------


@pytest.fixture
def broken_off(kit: Any) -> Any:
    """Job 1 is suspended at 4, resumes at 10; job 2 is lost at 5 and starts over at 20."""
    jobs = [kit.rigid(1, 0, 10, 4, 10), kit.rigid(2, 0, 8, 4, 8)]
    segments = [
        kit.Segment(1, 0, 0, 0, 4, 0.0, 4.0, "suspended"),
        kit.Segment(1, 0, 0, 0, 4, 10.0, 16.0),
        kit.Segment(2, 0, 0, 0, 4, 0.0, 5.0, "lost"),
        kit.Segment(2, 0, 0, 0, 4, 20.0, 28.0, attempt=2),
    ]
    world = kit.build(jobs, segments, [{"processors": 8.0}], **OWN)
    return kit.with_utilisation(world)


def test_work_is_kept_by_suspension_and_gone_when_lost(broken_off: Any) -> None:
    jobs = broken_off.tables["jobs"].sort("job_id")
    assert jobs["suspended_time_s"].to_list() == [6.0, 0.0]
    assert jobs["lost_time_s"].to_list() == [0.0, 5.0]


def test_a_job_that_runs_on_after_its_end_is_caught(broken_off: Any, tmp_path: Path) -> None:
    row = broken_off.row_of("allocations", job_id=1, start_time_s=0.0)
    broken_off.set("allocations", row, outcome="finished")
    assert "runs again after it finished or was killed" in messages(broken_off, tmp_path)


# --- capacity that changes -----------------------------------------------------------------------


def step(time: float, processors: float, running: str) -> tuple[float, str, int, str]:
    what = {"capacity": {"processors": processors}, "running": running, "cause": "maintenance"}
    detail = json.dumps(what)
    return (time, "capacity", 0, detail)


def under_maintenance(kit: Any, running: str, segments: list[Any], window: Any = None) -> Any:
    """Two jobs of four on a pool of eight, half of which is away from 5 to 15."""
    window = {"start": 5.0, "duration": 10.0, "processors": 4, "running": running} | (window or {})
    jobs = [kit.rigid(n, 0, 10, 4, 10) for n in sorted({s.job_id for s in segments})]
    return kit.build(
        jobs, segments, [{"processors": 8.0}],
        events=[step(5.0, 4.0, running), step(15.0, 8.0, running)],
        cluster={"maintenance": [window]}, **OWN,
    )  # fmt: skip


def whole(kit: Any, *starts: float) -> list[Any]:
    return [kit.Segment(n, 0, 0, 0, 4, s, s + 10.0) for n, s in enumerate(starts, 1)]


CAPACITY = [
    # treatment of running jobs, the starts of the jobs, whether that is right
    ("drain", (0.0, 0.0), True),  # both run on to 10
    ("drain", (0.0, 0.0, 10.0), True),  # from 10 on there are four
    ("drain", (0.0, 5.0), False),  # starts although half is away
    ("drain", (0.0, 0.0, 9.0), False),  # starts while the machine is over
    ("drain", (0.0, 4.0, 10.0), False),
    ("requeue", (0.0, 10.0), True),
    ("requeue", (0.0, 0.0), False),  # one had to go
    ("suspend", (0.0, 0.0), False),
    ("drain", (0.0, 10.0, 15.0), True),  # all are back at 15
]


@pytest.mark.parametrize(("running", "starts", "right"), CAPACITY)
def test_capacity_holds_while_machines_are_away(
    running: str, starts: tuple[float, ...], right: bool, kit: Any, tmp_path: Path
) -> None:
    world = under_maintenance(kit, running, whole(kit, *starts))
    assert ("capacity" not in world.audit(tmp_path).found) == right


def test_making_room_by_suspending_is_right(kit: Any, tmp_path: Path) -> None:
    segments = [
        kit.Segment(1, 0, 0, 0, 4, 0.0, 10.0),
        kit.Segment(2, 0, 0, 0, 4, 0.0, 5.0, "suspended"),
        kit.Segment(2, 0, 0, 0, 4, 10.0, 15.0),
    ]
    assert under_maintenance(kit, "suspend", segments).audit(tmp_path).found == {}


WINDOWS = [
    # the window as the scenario has it, whether the recorded steps agree with it
    ({}, True),
    ({"start": "5s", "duration": "10s"}, True),
    ({"duration": None, "end": 15.0}, True),
    ({"start": "1970-01-01T00:00:05+00:00"}, True),
    ({"every": 1000.0}, True),
    ({"processors": 2}, False),
    ({"start": 6.0, "duration": 2.0}, False),
    ({"every": 13.0, "duration": 6.0}, False),
]


@pytest.mark.parametrize(("window", "right"), WINDOWS)
def test_the_capacity_is_what_the_windows_leave(
    window: dict[str, Any], right: bool, kit: Any, tmp_path: Path
) -> None:
    world = under_maintenance(kit, "drain", whole(kit, 0.0, 10.0, 20.0), window)
    world.manifest["epoch_s"] = 0.0
    assert ("maintenance" not in world.audit(tmp_path).found) == right


def test_a_window_without_events_is_caught(kit: Any, tmp_path: Path) -> None:
    world = under_maintenance(kit, "drain", whole(kit, 0.0, 6.0))
    world.tables["events"] = world.tables["events"].clear()
    assert "maintenance" in world.audit(tmp_path).found


def test_a_malformed_event_is_caught(kit: Any, tmp_path: Path) -> None:
    world = under_maintenance(kit, "drain", whole(kit, 0.0))
    world.set("events", 0, detail="half of it")
    assert "the capacity event is malformed" in messages(world, tmp_path)


ZERO = [
    # size of a job of length zero at 5 s, next to one of size 6 from 0 to 10 on a pool of 8
    (2, set()),
    (3, {"capacity"}),
]


@pytest.mark.parametrize(("size", "found"), ZERO)
def test_a_job_of_length_zero_has_to_fit_its_instant(
    size: int, found: set[str], kit: Any, tmp_path: Path
) -> None:
    jobs = [kit.rigid(1, 0, 10, 6, 10), kit.rigid(2, 5, 0, size, 0)]
    segments = [
        kit.Segment(1, 0, 0, 0, 6, 0.0, 10.0),
        kit.Segment(2, 0, 0, 0, size, 5.0, 5.0),
    ]
    world = kit.with_utilisation(kit.build(jobs, segments, [{"processors": 8.0}], **OWN))
    assert set(world.audit(tmp_path).found) == found


# --- killed at the requested time ----------------------------------------------------------------


@pytest.fixture
def killing(kit: Any) -> Any:
    jobs = [kit.rigid(1, 0, 50, 4, 20), kit.rigid(2, 0, 30, 4, 40)]
    world = kit.replayed(jobs, [8], kill=True)
    world.manifest["scenario"]["workload"]["requested_time"] = "raw"
    return world


ALLOCATIONS = [
    # the run, one of its allocations, how it is changed, the rule that is violated
    ("spread", GANG, {"start_time_s": 1.0}, "gangs"),
    ("spread", GANG, {"end_time_s": 11.0}, "gangs"),
    ("spread", GANG, {"outcome": "killed"}, "gangs"),
    ("spread", GANG, {"machine_id": 0}, "capacity"),
    ("spread", GANG, {"machine_id": -1}, "machines"),
    ("spread", GANG, {"first_instance": 0}, "instances"),
    ("spread", GANG, {"attempt": 2}, "gangs"),
    ("mixed", BAG, {"start_time_s": 9.0}, "capacity"),
    ("mixed", BAG, {"first_instance": 1}, "instances"),  # instance 1 twice, instance 2 never
    ("mixed", BAG, {"first_instance": 3}, "instances"),
    ("mixed", BAG, {"attempt": 2, "outcome": "lost"}, "instances"),
    ("mixed", BAG, {"end_time_s": 21.0}, "run-time"),
    ("mixed", {"task_id": 8}, {"machine_id": 0}, "capacity"),
    ("mixed", {"task_id": 8}, {"count": 1}, "gangs"),
    ("broken_off", RESUMED, {"attempt": 2}, "instances"),  # resuming keeps the number
    ("broken_off", AGAIN, {"attempt": 1}, "instances"),  # starting over raises it
    ("broken_off", RESUMED, {"start_time_s": 9.0}, "run-time"),
    ("broken_off", RESUMED, {"start_time_s": 3.0}, "instances"),  # runs twice at one time
    ("broken_off", AGAIN, {"end_time_s": 23.0}, "run-time"),  # the lost work does not count
    ("killing", {"job_id": 1}, {"end_time_s": 21.0}, "walltime"),  # past its requested time
    ("killing", {"job_id": 1}, {"end_time_s": 19.0}, "walltime"),  # too early
]


@pytest.mark.parametrize(("name", "which", "change", "check"), ALLOCATIONS)
def test_a_changed_allocation_is_caught(
    name: str, which: dict[str, Any], change: dict[str, Any], check: str,
    request: pytest.FixtureRequest, tmp_path: Path,
) -> None:  # fmt: skip
    world = request.getfixturevalue(name)
    world.set("allocations", world.row_of("allocations", **which), **change)
    assert check in world.audit(tmp_path).found


@pytest.mark.parametrize("name", ["spread", "mixed", "broken_off", "killing"])
def test_the_runs_as_they_are_hold(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    assert request.getfixturevalue(name).audit(tmp_path).found == {}


def test_a_killed_job_cannot_pass_for_a_finished_one(killing: Any, tmp_path: Path) -> None:
    for table, column in (("jobs", "status"), ("tasks", "status"), ("allocations", "outcome")):
        killing.set(table, killing.row_of(table, job_id=1), **{column: "finished"})
    assert {"run-time", "statuses"} <= set(killing.audit(tmp_path).found)


# --- partitions and rejections -------------------------------------------------------------------

EXPRESS = {"name": "express", "machines": [0], "queues": [1], "partitions": [],
           "max_time_s": 100.0, "max_processors": 4, "priority": 10.0}  # fmt: skip
BATCH = EXPRESS | {"name": "batch", "machines": [1], "queues": [], "max_time_s": None,
                   "max_processors": None}  # fmt: skip


def divided(kit: Any, queue: int, machine: int, requested: float, size: int) -> Any:
    job = kit.rigid(1, 0, 10, size, requested)._replace(queue=queue)
    segments = [kit.Segment(1, 0, machine, 0, size, 0.0, 10.0)]
    capacity = [{"processors": 8.0}, {"processors": 8.0}]
    world = kit.build([job], segments, capacity, partitions=[EXPRESS, BATCH])
    return kit.with_utilisation(world)


DIVIDED = [
    # queue of the job, its machine, requested time, size, whether that is right
    (1, 0, 50, 4, True),
    (1, 1, 50, 4, False),  # the other partition's machine
    (1, 0, 101, 4, False),  # too long: the next partition admits it
    (1, 0, 50, 5, False),  # too large
    (1, 1, 101, 4, True),
    (1, 1, 50, 5, True),
    (2, 1, 101, 5, True),
    (2, 0, 50, 4, False),
]


@pytest.mark.parametrize(("queue", "machine", "requested", "size", "right"), DIVIDED)
def test_jobs_keep_to_their_partition(
    queue: int, machine: int, requested: float, size: int, right: bool, kit: Any, tmp_path: Path
) -> None:
    world = divided(kit, queue, machine, requested, size)
    assert set(world.audit(tmp_path).found) == (set() if right else {"partitions"})


def test_a_job_that_no_partition_takes_must_not_run(kit: Any, tmp_path: Path) -> None:
    world = divided(kit, 3, 0, 50, 4)
    world.manifest["cluster"]["partitions"] = [EXPRESS]
    assert "no partition admits this job" in messages(world, tmp_path)


REJECTED = [
    # size of a rejected job and its queue, whether it had to be rejected
    (4, 1, False),
    (5, 1, False),  # express takes four, batch the others
    (9, 1, True),  # batch has eight
    (8, 2, False),
    (9, 2, True),  # batch has eight
]


@pytest.mark.parametrize(("size", "queue", "right"), REJECTED)
def test_only_what_cannot_run_is_rejected(
    size: int, queue: int, right: bool, kit: Any, tmp_path: Path
) -> None:
    turned_away = kit.rigid(2, 0, 10, size, 10)._replace(
        queue=queue, status="rejected", reason="too large"
    )
    capacity = [{"processors": 8.0}, {"processors": 8.0}]
    ran, segment = kit.rigid(1, 0, 10, 8, 10), kit.Segment(1, 0, 1, 0, 8, 0.0, 10.0)
    world = kit.build([ran, turned_away], [segment], capacity, partitions=[EXPRESS, BATCH])
    kit.with_utilisation(world)
    assert set(world.audit(tmp_path).found) == (set() if right else {"rejections"})


def test_tables_without_rows_are_right(kit: Any, tmp_path: Path) -> None:
    job = kit.rigid(1, 0, 10, 9, 10)._replace(status="rejected", reason="too large")
    world = kit.build([job], [], [{"processors": 8.0}])
    assert world.tables["allocations"].schema["job_id"] == pl.Int64
    assert world.audit(tmp_path).found == {}


def test_what_happens_to_a_machine_that_is_down_already_needs_no_event(tmp_path: Path) -> None:
    """It fails in a window, or is failed when one begins: a decision, but no change of capacity."""
    window = {"start": "5h", "duration": "1h", "every": "6h", "running": "drain"}
    scenario = {
        "workload": {"type": "poisson", "jobs": 60, "processors": 2, "rate_per_s": 0.0005,
                     "mean_run_time_s": 600},
        "cluster": {
            "machines": [{"count": 1, "processors": 2}], "maintenance": [window],
            "failures": {"mtbf": "3h", "mttr": "2h", "running": "requeue"},
        },
        "policy": {"order": "fcfs", "backfill": "none"},
    }  # fmt: skip
    run = simkit.simulate(scenario, output=tmp_path / "run")
    rows, events = run.timeline["time_s"].to_list(), run.events["time_s"].to_list()
    known = {*events, *run.jobs["submit_time_s"], *run.jobs["start_time_s"],
             *run.allocations["end_time_s"]}  # fmt: skip
    assert set(rows) - known  # there are such decisions
    assert simkit.verify_run(tmp_path / "run").found == {}
