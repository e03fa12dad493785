"""Rules of the queue if decisions are periodic or admission limits what the policy sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.verify.queue import first_multiples

HEAD_RULES = {"fcfs-order", "head-fits", "head-delay"}


PERIODIC = [
    # jobs as (submit, run, size, requested); starts with a period of 5 s; backfilling; violated rules
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


@pytest.mark.parametrize(("jobs", "starts", "backfill", "violated"), PERIODIC)
def test_periodic_decisions_keep_the_promises_at_their_ticks(
    jobs: Any, starts: list[float], backfill: str, violated: set[str], kit: Any, tmp_path: Path
) -> None:
    world = kit.rescheduled(jobs, starts, backfill, scheduling={"every": 5.0})
    audit = world.audit(tmp_path / "run")
    assert set(audit.found) == violated
    assert not HEAD_RULES & set(audit.not_audited)


def test_without_a_period_the_same_start_is_late(kit: Any, tmp_path: Path) -> None:
    world = kit.rescheduled([(0, 12, 8, 12), (1, 10, 8, 10)], [0, 15], "none")
    assert set(world.audit(tmp_path / "run").found) == {"head-fits"}


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
    world = kit.rescheduled(LATE, [0, 15], "none", admission=admission)
    audit = world.audit(tmp_path / "run")
    assert set(audit.not_audited) == not_audited
    assert set(audit.found) == {"head-fits"} - not_audited


def test_ahead_of_maintenance_only_the_order_is_audited(kit: Any, tmp_path: Path) -> None:
    window = {"start": 100.0, "duration": 10.0, "processors": 1}
    world = kit.rescheduled(LATE, [0, 12], "none", cluster={"maintenance": [window]})
    audit = world.audit(tmp_path / "run")
    assert set(audit.not_audited) == {"head-fits"}
    assert "maintenance" in audit.not_audited["head-fits"]
    assert "fcfs-order" in {check.name for check in audit.done}
