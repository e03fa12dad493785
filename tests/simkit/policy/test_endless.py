"""Estimates without an end: in the availability profile, beside a head, and in formulas."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
import pytest

from simkit.policies import orderings, rlscheduler
from simkit.policies import orderings as changing_orders
from simkit.policies import orderings as value_orders
from simkit.policy.estimates import CORRECTIONS, corrected
from simkit.policy.profile import make_profile
from simkit.policy.room import make_room
from simkit.policy.state import Outlook
from simkit.policy.task import Allocation, Task
from simkit.workload.cluster import CapacityStep, Maintenance


def task(size: float = 1.0, estimate: float = inf, index: int = 0) -> Task:
    return Task(
        index, index, 0.0, (1.0,), int(size), estimate_s=estimate, requested_time_s=estimate
    )


def profile(machines: int = 1, running: tuple[Allocation, ...] = (), steps=()):
    """Return the profile of machines of 4 processors each at 0 s."""
    room = make_room(np.full((machines, 1), 4.0))
    for allocation in running:
        room.take(allocation.on, allocation.task.request)
    releases = sorted((each.expected_end_s, each.rank, each) for each in running)
    return make_profile(room, 0.0, releases, steps, ())


@pytest.mark.parametrize("machines", [1, 2])
def test_what_never_ends_holds_its_place_for_ever(machines: int) -> None:
    here = profile(machines, (Allocation(1, task(3), ((0, 3),), 3, 0.0, inf),))
    assert here.total_free(1e9) == (4.0 * machines - 3.0,)
    for size, start in ((1, 0.0), (2, 0.0 if machines == 2 else None)):
        found = here.earliest(task(size))
        assert (found and found[0]) == start
    on = here.fit(task(1), 5.0)
    assert on is not None
    here.hold(task(1), on, 5.0)
    here.give(on, (1.0,), 5.0, inf)
    assert here.total_free(1e9) == (4.0 * machines - 3.0,)


@pytest.mark.parametrize("machines", [1, 2])
def test_an_endless_task_waits_for_the_end_of_maintenance(machines: int) -> None:
    steps = [CapacityStep(100.0, 0, (-4.0,)), CapacityStep(200.0, 0, (4.0,))]
    here = profile(machines, steps=steps)
    assert here.earliest(task(4)) == ((200.0, ((0, 4),)) if machines == 1 else (0.0, ((1, 4),)))
    assert here.fit(task(4, 100.0), 0.0) == ((0, 4),)


@pytest.mark.parametrize("first", [50.0, 5000.0])
@pytest.mark.parametrize("machines", [1, 2])
def test_an_endless_task_fits_in_no_gap_of_windows_that_recur(machines: int, first: float) -> None:
    """Also where the first window lies beyond all that is looked at for a short task."""
    window = Maintenance(first, first + 10.0, 0, (2.0,), every_s=100.0)
    outlook = Outlook(recurring=[window])
    here = profile(machines, steps=outlook.steps(0.0, outlook.known_until(0.0)))
    here.expect(
        lambda until: outlook.steps(0.0, until), outlook.known_until(0.0), outlook.cycle_s,
        outlook.all_begun,
    )  # fmt: skip
    assert here.earliest(task(2)) == (0.0, ((0, 2),))
    found = here.earliest(task(3))
    assert found == (None if machines == 1 else (0.0, ((0, 2), (1, 1))))
    assert here.fit(task(3), 0.0) == (None if machines == 1 else ((0, 2), (1, 1)))


FIXED = [
    orderings.SAF, orderings.LAF, orderings.LogRN, orderings.R2N, orderings.SJF, orderings.LJF,
    value_orders.HighestValue, value_orders.ValueDensity, rlscheduler.RLSchedulerF1,
    rlscheduler.RLSchedulerWFP3, rlscheduler.RLSchedulerUNICEP,
]  # fmt: skip


@pytest.mark.parametrize("order", FIXED)
def test_a_key_is_a_number_and_an_endless_task_is_the_longest(order: type) -> None:
    nothing = Task(2, 2, 0.0, (0.0,), 3, estimate_s=inf, requested_time_s=inf)
    for each in (task(), nothing):
        assert not np.isnan(order().key(each))
    shorter, endless = order().key(task(2, 1e9)), order().key(task(2))
    assert endless >= shorter if order in (orderings.SAF, orderings.SJF) else endless == endless


def test_an_endless_task_is_late_for_every_deadline() -> None:
    late = task()
    late.deadline_s = 1e6
    assert -inf < late.latest_start_s < -1e12 + 1e8
    assert value_orders.last_start_s(late) == late.latest_start_s
    assert value_orders.last_start_s(task(), 60.0) == 60.0
    assert isfinite(task().value_density)


def test_corrections_go_as_far_as_the_request() -> None:
    to_request = CORRECTIONS["request"]
    assert corrected(10.0, inf, 10.0, to_request) == inf
    assert corrected(10.0, 50.0, 10.0, to_request) == 50.0
    assert corrected(10.0, float("nan"), 10.0, to_request) == 10.0
    assert corrected(10.0, inf, 10.0, CORRECTIONS["tsafrir"]) == 70.0


def test_prediction_without_history_is_finite() -> None:
    recent = changing_orders.RecentRunTimes()
    found = recent.predict(np.array([0.0, 1.0]), np.array([inf, 20.0]))
    assert found.tolist() == [2.0**40, 20.0]
