"""The queue's rules where decisions are periodic or admission limits what the policy sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.verify import verify_run
from simkit.verify.queue import first_multiples

HEAD_RULES = {"fcfs-order", "head-fits", "head-delay"}


def rescheduled(kit: Any, jobs: Any, starts: list[float], backfill: str, **scenario: Any) -> Any:
    """Return the run of a pool of 8 in which the jobs (submit, run, size, requested) so start."""
    made = [kit.rigid(n, *row) for n, row in enumerate(jobs, 1)]
    segments = [
        kit.Segment(j.job_id, 0, 0, 0, j.tasks[0].instances, float(s), s + j.tasks[0].run)
        for j, s in zip(made, starts, strict=True)
    ]
    policy = {"order": "fcfs", "backfill": backfill}
    world = kit.build(made, segments, [{"processors": 8.0}], policy=policy, **scenario)
    return kit.with_utilisation(world)


PERIODIC = [
    # jobs as (submit, run, size, requested); starts with a period of 5 s; backfilling; objection
    ([(0, 10, 8, 10), (1, 10, 8, 10)], [0, 10], "none", set()),
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none", set()),  # room at 12, decision at 15
    ([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 20], "none", {"head-fits"}),
    ([(0, 12, 4, 12), (1, 10, 4, 10)], [0, 5], "none", set()),  # fits at once: at 5
    ([(0, 12, 4, 12), (1, 10, 4, 10)], [0, 10], "none", {"head-fits"}),
    ([(0, 12, 8, 12), (1, 9, 4, 9), (2, 9, 4, 9)], [0, 20, 15], "none", {"fcfs-order", "head-fits"}),
    # the head's shadow time is 12, its decision 15: the last job may run to 15, not to 35
    ([(0, 12, 6, 12), (1, 10, 8, 10), (2, 7, 2, 7)], [0, 15, 5], "easy", set()),
    ([(0, 12, 6, 12), (1, 10, 8, 10), (2, 30, 2, 30)], [0, 35, 5], "easy", {"head-delay"}),
]  # fmt: skip


@pytest.mark.parametrize(("jobs", "starts", "backfill", "objections"), PERIODIC)
def test_periodic_decisions_keep_the_promises_at_their_ticks(
    jobs: Any, starts: list[float], backfill: str, objections: set[str], kit: Any, tmp_path: Path
) -> None:
    world = rescheduled(kit, jobs, starts, backfill, scheduling={"every": 5.0})
    audit = verify_run(world.save(tmp_path / "run"))
    assert set(audit.found) == objections
    assert not HEAD_RULES & set(audit.not_audited)


def test_without_a_period_the_same_start_is_late(kit: Any, tmp_path: Path) -> None:
    world = rescheduled(kit, [(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none")
    assert set(verify_run(world.save(tmp_path / "run")).found) == {"head-fits"}


@given(st.floats(0, 1e9), st.sampled_from([2.0**-20, 0.5, 7.25, 600.0]))
def test_a_tick_is_the_first_multiple_from_an_instant_on(time: float, period: float) -> None:
    tick = float(first_multiples(np.array([time]), period)[0])
    assert tick >= time
    assert tick - period < time or tick == 0
    assert (tick / period).is_integer()


def test_infinity_has_no_later_tick() -> None:
    assert first_multiples(np.array([np.inf]), 5.0)[0] == np.inf


LATE = [(0, 12, 8, 12), (1, 10, 8, 10)]
ADMISSIONS = [
    # admission, the rules that are not audited
    ({"slots": 1, "backlog": None, "refill": "at_once"}, set()),
    ({"slots": 1, "backlog": 5, "refill": "at_once"}, set()),
    ({"slots": 1, "backlog": None, "refill": "next_decision"}, {"head-fits"}),
]


@pytest.mark.parametrize(("admission", "not_audited"), ADMISSIONS)
def test_admission_keeps_the_queues_order(
    admission: dict[str, Any], not_audited: set[str], kit: Any, tmp_path: Path
) -> None:
    world = rescheduled(kit, LATE, [0, 15], "none", admission=admission)
    audit = verify_run(world.save(tmp_path / "run"))
    assert set(audit.not_audited) == not_audited
    assert set(audit.found) == {"head-fits"} - not_audited


def test_ahead_of_maintenance_only_the_order_is_audited(kit: Any, tmp_path: Path) -> None:
    window = {"start": 100.0, "duration": 10.0, "processors": 1}
    world = rescheduled(kit, LATE, [0, 12], "none", cluster={"maintenance": [window]})
    audit = verify_run(world.save(tmp_path / "run"))
    assert set(audit.not_audited) == {"head-fits"}
    assert "maintenance" in audit.not_audited["head-fits"]
    assert "fcfs-order" in {check.name for check in audit.done}
