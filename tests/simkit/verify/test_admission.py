"""A job is turned away exactly if all slots and the backlog are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.verify import verify_run

FULL = "the backlog is full"


def queued(
    kit: Any, last: str, *, slots: int | None = 1, backlog: int | None = 1, refill: str = "at_once"
) -> Any:
    """A machine taken by job 1 up to 10 s, jobs 2 and 3 waiting, job 4 coming as `last`."""
    jobs = [kit.rigid(n, n, 10, 8, 10) for n in range(1, 5)]
    segments = [kit.Segment(n, 0, 0, 0, 8, 1.0 + 10 * (n - 1), 1.0 + 10 * n) for n in range(1, 4)]
    if last == "rejected":
        jobs[3] = jobs[3]._replace(status="rejected", reason=FULL)
    else:
        segments.append(kit.Segment(4, 0, 0, 0, 8, 31.0, 41.0))
    admission = {"slots": slots, "backlog": backlog, "refill": refill}
    policy = {"order": "fcfs", "backfill": "none"}
    world = kit.build(jobs, segments, [{"processors": 8.0}], admission=admission, policy=policy)
    return kit.with_utilisation(world)


CASES = [
    # backlog besides one slot, status of job 4, which arrives while two jobs wait; violated rules
    (1, "rejected", set()),
    (2, "rejected", {"admission"}),
    (2, "finished", set()),
    (1, "finished", {"admission"}),
]


@pytest.mark.parametrize(("backlog", "last", "violated"), CASES)
def test_the_backlog_decides(
    backlog: int, last: str, violated: set[str], kit: Any, tmp_path: Path
) -> None:
    world = queued(kit, last, backlog=backlog)
    assert set(world.audit(tmp_path / "run").found) == violated


def test_other_reasons_of_rejection_are_not_about_the_backlog(kit: Any, tmp_path: Path) -> None:
    world = queued(kit, "rejected")
    world.set("jobs", world.row_of("jobs", job_id=4), reason="too large")
    assert set(world.audit(tmp_path / "run").found) == {"rejections", "events"}


def test_an_order_rejects_nobody(kit: Any, tmp_path: Path) -> None:
    world = queued(kit, "rejected")
    world.set("jobs", world.row_of("jobs", job_id=4), reason="policy: too large")
    assert "rejections" in world.audit(tmp_path / "run").found


def test_without_a_backlog_nothing_may_be_turned_away(kit: Any, tmp_path: Path) -> None:
    world = queued(kit, "rejected", slots=None, backlog=None)
    audit = world.audit(tmp_path / "run")
    assert set(audit.found) == {"rejections"}
    assert "admission" in audit.not_applicable


def test_admission_is_not_audited_if_slots_are_refilled_later(kit: Any, tmp_path: Path) -> None:
    audit = verify_run(queued(kit, "rejected", refill="next_decision").save(tmp_path / "run"))
    assert "refilled only at the next decision" in audit.not_audited["admission"]
