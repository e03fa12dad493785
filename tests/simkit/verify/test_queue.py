"""Rules of the queue if decisions are periodic or admission limits what the policy sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LATE = {"schedule"}
PERIODIC = [
    # jobs as (submit, run, size, requested); starts with a period of 5 s; backfilling; violated rules
    ([(0, 10, 8, 10), (1, 10, 8, 10)], [0, 10], "none", set()),
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none", set()),  # room at 12, decision at 15
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 20], "none", LATE),
    ([(0, 12, 4, 12), (1, 10, 4, 10)], [0, 5], "none", set()),  # fits at once: at 5
    ([(0, 12, 4, 12), (1, 10, 4, 10)], [0, 10], "none", LATE),
    ([(0, 12, 8, 12), (1, 9, 4, 9), (2, 9, 4, 9)], [0, 20, 15], "none", {"fcfs-order", *LATE}),
    # the head's shadow time is 12, its decision 15: the last job may run to 15, not to 35
    ([(0, 12, 6, 12), (1, 10, 8, 10), (2, 7, 2, 7)], [0, 15, 5], "easy", set()),
    ([(0, 12, 6, 12), (1, 10, 8, 10), (2, 30, 2, 30)], [0, 35, 5], "easy", LATE),
]  # fmt: skip


@pytest.mark.parametrize(("jobs", "starts", "backfill", "violated"), PERIODIC)
def test_periodic_decisions_keep_the_promises_at_their_ticks(
    jobs: Any, starts: list[float], backfill: str, violated: set[str], kit: Any, tmp_path: Path
) -> None:
    world = kit.rescheduled(jobs, starts, backfill, scheduling={"every": 5.0})
    audit = world.audit(tmp_path / "run")
    assert set(audit.found) == violated
    assert audit.not_audited.keys() == {"trace"}


def test_without_a_period_the_same_start_is_late(kit: Any, tmp_path: Path) -> None:
    world = kit.rescheduled([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none")
    assert set(world.audit(tmp_path / "run").found) == LATE


ADMISSIONS = [
    {"slots": 1, "backlog": None, "refill": "at_once"},
    {"slots": 1, "backlog": 5, "refill": "at_once"},
    {"slots": 1, "backlog": None, "refill": "next_decision"},
]


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_admission_keeps_the_queues_order(
    admission: dict[str, Any], kit: Any, tmp_path: Path
) -> None:
    world = kit.rescheduled([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none", admission=admission)
    audit = world.audit(tmp_path / "run")
    assert set(audit.not_audited) == {"trace"}
    assert set(audit.found) == LATE


MAINTENANCE = [
    # starts of two jobs of the whole pool; whether they are right if a processor is away at 20 s
    ([0, 30], set()),  # the second waits until the window is over
    ([0, 12], LATE),  # it would run into the window
]


@pytest.mark.parametrize(("starts", "violated"), MAINTENANCE)
def test_a_head_does_not_start_if_maintenance_comes_first(
    starts: list[float], violated: set[str], kit: Any, tmp_path: Path
) -> None:
    window = {"start": 20.0, "duration": 10.0, "processors": 1}
    jobs = [(0, 12, 8, 12), (1, 10, 8, 10)]
    world = kit.rescheduled(jobs, starts, "none", cluster={"maintenance": [window]})
    assert LATE & set(world.audit(tmp_path / "run").found) == violated


def test_if_machines_fail_only_the_order_is_audited(kit: Any, tmp_path: Path) -> None:
    jobs = [(0, 12, 8, 12), (1, 10, 8, 10)]
    failures = {"mtbf": "1d", "mttr": "1h"}
    world = kit.rescheduled(jobs, [0, 12], "none", cluster={"failures": failures})
    audit = world.audit(tmp_path / "run")
    assert "machines change" in audit.not_audited["schedule"]
    assert "fcfs-order" in {check.name for check in audit.done}
