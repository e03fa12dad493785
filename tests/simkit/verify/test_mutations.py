"""One change to a good run, one rule that is violated: each kind of corruption is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simkit.errors import RunError
from simkit.verify import verify_run

pytestmark = pytest.mark.sampled

Change = Callable[[Any], None]


def move(world: Any, job: int, shift: float) -> None:
    """Move a job as a whole, all its records consistent."""
    for table in ("jobs", "tasks", "allocations"):
        for row, number in enumerate(world.tables[table]["job_id"].to_list()):
            if number == job:
                world.set(
                    table, row, start_time_s=lambda t: t + shift, end_time_s=lambda t: t + shift
                )
    row = world.row_of("jobs", job_id=job)
    world.set("jobs", row, wait_time_s=lambda t: t + shift, turnaround_time_s=lambda t: t + shift)


def stretch(world: Any, job: int, more: float) -> None:
    """Let a job end later, all its records consistent."""
    for table in ("jobs", "tasks", "allocations"):
        world.set(table, world.row_of(table, job_id=job), end_time_s=lambda t: t + more)
    row = world.row_of("jobs", job_id=job)
    world.set("jobs", row, run_time_s=lambda t: t + more, turnaround_time_s=lambda t: t + more)


def drop_job(world: Any, job: int) -> None:
    for table in ("jobs", "tasks", "allocations"):
        world.drop(table, world.row_of(table, job_id=job))


def grow(world: Any, job: int) -> None:
    """Let a job hold one more processor, all its records consistent."""
    world.set("jobs", world.row_of("jobs", job_id=job), processors=lambda n: n + 1)
    world.set("tasks", world.row_of("tasks", job_id=job), instances=lambda n: n + 1)
    world.set("allocations", world.row_of("allocations", job_id=job), count=lambda n: n + 1)


def kill(world: Any, job: int, reason: str) -> None:
    for table in ("jobs", "tasks"):
        world.set(table, world.row_of(table, job_id=job), status="killed")
    world.set("jobs", world.row_of("jobs", job_id=job), reason=reason)
    world.set("allocations", world.row_of("allocations", job_id=job), outcome="killed")


def reject(world: Any, job: int) -> None:
    """Turn away a job that would fit, all its records consistent."""
    world.drop("allocations", world.row_of("allocations", job_id=job))
    names = ("start_time_s", "end_time_s")
    never = dict.fromkeys((*names, "wait_time_s", "turnaround_time_s", "run_time_s"))
    row = world.row_of("jobs", job_id=job)
    world.set("jobs", row, **never, status="rejected", reason="too large", attempts=0)
    row = world.row_of("tasks", job_id=job)
    world.set("tasks", row, **dict.fromkeys(names), status="rejected")


def copy(world: Any, table: str, row: int) -> None:
    world.append(table, world.tables[table][row])


def cell(table: str, row: int, **values: Any) -> Change:
    return lambda world: world.set(table, row, **values)


def in_metrics(metric: str, number: str, value: Any) -> Change:
    return lambda world: world.metrics[metric].update({number: value})


def more(amount: float) -> Callable[[float], float]:
    return lambda value: value + amount


MUTATIONS: list[tuple[str, Change, str]] = [
    # what is done to the run, how, the rule that is violated
    ("start before submit", lambda w: move(w, 9, -1.0), "causality"),
    ("end before start", cell("allocations", 0, end_time_s=-5.0), "causality"),
    ("no start", cell("allocations", 0, start_time_s=None), "causality"),
    ("no submit time", cell("jobs", 0, submit_time_s=None), "causality"),
    ("turnaround missing", cell("jobs", 1, turnaround_time_s=None), "times"),
    ("ran for longer", lambda w: stretch(w, 9, 1.0), "run-time"),
    ("job dropped", lambda w: drop_job(w, 9), "trace"),
    ("job's row twice", lambda w: copy(w, "jobs", 3), "identity"),
    ("task's row twice", lambda w: copy(w, "tasks", 3), "identity"),
    ("task without a job", lambda w: w.drop("jobs", 3), "identity"),
    ("job without a task", lambda w: w.drop("tasks", 3), "identity"),
    ("allocation dropped", lambda w: w.drop("allocations", 3), "statuses"),
    ("allocation twice", lambda w: copy(w, "allocations", 3), "instances"),
    ("an instance too few", cell("allocations", 0, count=more(-1)), "gangs"),
    ("no instance at all", cell("allocations", 0, count=0), "instances"),
    ("one processor more than the capacity", lambda w: grow(w, 9), "capacity"),
    ("waits though it is head and fits", lambda w: move(w, 9, 1.0), "schedule"),
    ("status swapped", cell("jobs", 3, status="waiting"), "statuses"),
    ("task not finished", cell("tasks", 3, status="waiting"), "statuses"),
    ("rejected, yet it ran", cell("jobs", 3, status="rejected", reason="no"), "statuses"),
    ("allocation that never ends", cell("allocations", 3, end_time_s=None), "statuses"),
    ("killed without a reason", lambda w: kill(w, 9, ""), "statuses"),
    ("killed for an ignored walltime", lambda w: kill(w, 9, "requested time is over"), "walltime"),
    ("killed though nothing kills", lambda w: kill(w, 9, "killed by the policy"), "walltime"),
    ("rejected though it fits", lambda w: reject(w, 9), "rejections"),
    ("timeline goes back", cell("timeline", 3, time_s=0.0), "timeline"),
    ("mean wait missing", in_metrics("wait_time_s", "mean", None), "metrics"),
    ("rows that are not conserved", lambda w: w.manifest["trace"].update(read=99), "trace"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS]
)
def test_each_kind_of_corruption_is_caught_by_its_check(
    change: Change, check: str, good: Any, tmp_path: Path
) -> None:
    change(good)
    assert check in good.audit(tmp_path / "run").found


def test_a_violation_shows_the_row(good: Any, tmp_path: Path) -> None:
    move(good, 9, -1.0)
    audit = good.audit(tmp_path / "run")
    causality = [v for v in audit.violations if v.check == "causality"]
    assert causality[0].message == "starts before its submission"
    assert causality[0].row["job_id"] == 9
    assert str(causality[0]).startswith("causality: starts before its submission (job_id 9, ")


DIGESTED = [
    # what is changed after the digest was taken
    cell("jobs", 0, user=5),
    cell("tasks", 0, gang=False),
    cell("events", 0, detail="other"),
    in_metrics("jobs", "unit", "job"),
    lambda world: world.tables.update(jobs=world.tables["jobs"].reverse()),
]


@pytest.mark.parametrize("change", DIGESTED)
def test_a_change_after_the_run_changes_the_digest(
    change: Change, good: Any, tmp_path: Path
) -> None:
    what = json.dumps({"capacity": {"processors": 8.0}, "cause": "nothing", "running": "drain"})
    event = {"time_s": 1.0, "kind": "capacity", "machine_id": 0, "detail": what}
    good.tables["events"] = pl.DataFrame([event], schema=good.tables["events"].schema)
    good.save(tmp_path / "before")
    assert verify_run(tmp_path / "before").ok
    change(good)
    good.save(tmp_path / "after", digest=False)
    assert "digest" in verify_run(tmp_path / "after").found


def test_a_column_of_a_foreign_type_is_refused(good: Any, tmp_path: Path) -> None:
    good.save(tmp_path / "before")
    good.tables["jobs"] = good.tables["jobs"].with_columns(pl.col("user").cast(pl.Int32))
    with pytest.raises(RunError, match=r"jobs.parquet: column user is Int32"):
        good.audit(tmp_path / "after", digest=False)


def test_a_byte_changed_in_the_input_is_caught(good: Any, tmp_path: Path) -> None:
    good.save(tmp_path / "run")
    good.files["log.swf"] = good.files["log.swf"].replace(b"MaxProcs: 8", b"MaxProcs: 9")
    good.save(tmp_path / "run", inputs=False)
    assert set(verify_run(tmp_path / "run").found) == {"inputs"}


# --- schedules that break a promise of the policy, all records consistent ------------------------


BOTH = {"fcfs-order", "schedule"}
CLOCK = {"scheduling": {"every": 5.0}}
SLOT = {"admission": {"slots": 1, "backlog": None, "refill": "next_decision"}}
QUEUES = [
    # jobs as (submit, run, size, requested); their starts; backfilling; sections; violated rules
    ([(0, 10, 6, 10), (1, 10, 8, 10), (2, 20, 2, 20)], [0, 22, 2], "easy", {}, {"schedule"}),
    ([(0, 10, 6, 10), (1, 10, 8, 10), (2, 8, 2, 8)], [0, 10, 2], "easy", {}, set()),
    ([(0, 10, 6, 10), (1, 10, 8, 10), (2, 8, 2, 8)], [0, 10, 2], "none", {}, BOTH),
    ([(0, 10, 6, 10), (1, 10, 8, 10), (2, 8, 2, 8)], [0, 10, 20], "none", {}, set()),
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none", CLOCK, set()),  # room at 12
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none", {}, {"schedule"}),
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none", SLOT, {"schedule"}),
    ([(0, 12, 8, 12), (1, 9, 4, 9), (2, 9, 4, 9)], [0, 20, 15], "none", CLOCK, BOTH),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "starts", "backfill", "sections", "checks"), QUEUES)
def test_the_queue_keeps_its_promises(
    rows: list[Any], starts: list[float], backfill: str, sections: dict[str, Any],
    checks: set[str], kit: Any, tmp_path: Path,
) -> None:  # fmt: skip
    world = kit.rescheduled(rows, starts, backfill, **sections)
    assert set(world.audit(tmp_path / "run").found) == checks
