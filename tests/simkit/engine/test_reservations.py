"""Reservations: start later, take back, and what happens when one cannot be kept."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, greedy, make_jobs, rigid, simulate

from simkit.errors import PolicyError
from simkit.policy import Cancel, Place, Suspend
from simkit.units import TIME_GRID
from simkit.workload.cluster import Cluster, Maintenance

EVENTS = "time_s kind job_id"


def at(times, greedy=None):
    """Return a policy that does what `times` says at an instant, and else what `greedy` does.

    `times`: instant → function of (state, {index: task waiting or reserved}).
    """

    def schedule(state):
        tasks = {task.index: task for task in (*state.queue, *state.reservations)}
        if state.now in times:
            yield from times[state.now](state, tasks)
        if greedy is not None:
            yield from greedy(state)

    return schedule


def place(index, start, count=1):
    return lambda _, tasks: [Place(tasks[index], ((0, count),), start)]


def test_a_reserved_task_starts_at_its_time():
    seen = []

    def look(state, tasks):
        yield Place(tasks[0], ((0, 3),), 7.0)
        seen.append((list(state.queue), state.reservations, state.profile().total_free(8.0)))
        assert not tasks[0].waiting

    run = simulate(at({2: look}), rigid((2, 5, 3)))
    assert run.starts() == {0: 7}
    assert run.rows("allocations", "attempt start_time_s end_time_s") == [(1, 7, 12)]
    assert run.rows("events", f"{EVENTS} detail") == [(2, "reserved", 0, "starts at 7 s")]
    ((queue, reservations, planned),) = seen
    assert not queue  # the queue has no task that is reserved
    assert not reservations  # it has started since
    assert planned == (1,)


def test_a_start_that_is_not_later_is_at_once():
    run = simulate(at({2: place(0, 2.0), 3: place(1, 1.0)}), rigid((2, 5, 1), (3, 5, 1)))
    assert run.starts() == {0: 2, 1: 3}
    assert run.rows("events", EVENTS) == []


def test_a_bag_and_a_gang_over_machines_are_reserved():
    def reserve(_, tasks):
        yield Place(tasks[0], ((0, 1), (1, 2)), 5.0)
        yield Place(tasks[1], ((1, 1), (0, 1)), 9.0)

    cluster = Cluster(("processors",), ("a", "b"), [[2.0], [3.0]])
    run = simulate(at({0: reserve}), make_jobs((0, a_gang(3, 3)), (0, a_bag(2, 1))), cluster)
    assert run.rows("allocations", "task_id machine_id first_instance count start_time_s") == [
        (0, 0, 0, 1, 5), (0, 1, 1, 2, 5), (1, 1, 0, 1, 9), (1, 0, 1, 1, 9),
    ]  # fmt: skip


def test_a_cancelled_reservation_returns_the_task_to_its_place():
    order = []

    def cancel(state, tasks):
        yield Cancel(tasks[1])
        order.append([task.index for task in state.queue])
        order.append([task.index for task in state.arrived])

    load = rigid((0, 20, 4), (1, 5, 4), (2, 5, 4), (3, 5, 4))
    run = simulate(at({1: place(1, 30.0, 4), 3: cancel}, greedy), load)
    assert order == [[1, 2, 3], [3, 1]]
    assert run.starts() == {0: 0, 1: 20, 2: 25, 3: 30}
    assert run.rows("events", EVENTS) == [(1, "reserved", 1), (3, "cancelled", 1)]


def test_reserving_anew_after_a_cancel():
    def cancel(_, tasks):
        yield Cancel(tasks[0])
        yield Place(tasks[0], ((0, 1),), 9.0)  # the first one's instant, 7, passes unheeded

    run = simulate(at({0: place(0, 7.0), 1: cancel}), rigid((0, 5, 1), (1, 0, 1)))
    assert run.starts() == {0: 9, 1: None}


def test_a_reservation_that_does_not_fit_goes_back():
    # Job 0 overruns its request of 5 s; the policy is called when job 1's reservation fails.
    log = []

    def schedule(state):
        log.append((state.now, [t.index for t in state.queue], [t.index for t in state.arrived]))
        tasks = {task.index: task for task in state.queue}
        if state.now == 1:
            yield Place(tasks[1], ((0, 4),), 5.0)
            return
        yield from greedy(state)

    load = rigid((0, 10, 4, 5), (1, 5, 4), (2, 5, 4))
    run = simulate(schedule, load)
    assert log == [
        (0, [0], [0]), (1, [1], [1]), (2, [2], [2]),
        (5, [1, 2], [1]),  # before job 2, which came later
        (10, [1, 2], []), (15, [2], []), (20, [], []),
    ]  # fmt: skip
    assert run.starts() == {0: 0, 1: 10, 2: 15}
    assert run.rows("events", f"{EVENTS} detail")[1:] == [
        (5, "reservation_failed", 1, "asks machine 0 (pool) for 4 processors, 0 are free")
    ]


def test_two_reservations_for_one_place():
    # in the order in which they were made; the second one fails
    def reserve(_, tasks):
        yield Place(tasks[1], ((0, 3),), 5.0)
        yield Place(tasks[0], ((0, 3),), 5.0)

    run = simulate(at({0: reserve}), rigid((0, 5, 3), (0, 5, 3)))
    assert run.starts() == {0: None, 1: 5}
    assert run.rows("events", EVENTS)[2:] == [(5, "reservation_failed", 0)]


@pytest.mark.parametrize("processors", [4, 8])
def test_what_starts_over_does_not_start_twice(processors):
    # One instance runs, the other two are reserved; then the first has to start over. However the
    # engine sorts that out, every instance ends well exactly once.
    def begin(_, tasks):
        yield Place(tasks[0], ((0, 1),))
        yield Place(tasks[0], ((0, 2),), 7.0)

    def lose(state, _):
        yield from (Suspend(allocation, keep_work=False) for allocation in state.running)

    schedule = at({0: begin, 2: lose}, lambda state: greedy(state) if state.now >= 2 else ())
    run = simulate(schedule, make_jobs((0, a_bag(3, 10)), (2, a_bag(1, 0))), processors)
    finished = [
        instance
        for first, count, outcome in run.rows("allocations", "first_instance count outcome")
        for instance in range(first, first + count)
        if outcome == "finished"
    ]
    assert sorted(finished) == [0, 0, 1, 2]  # the last 0 is the second job's
    assert run.rows("jobs", "job_id status") == [(1, "finished"), (0, "finished")]
    assert run.rows("timeline", "waiting running allocated_processors")[-1] == (0, 0, 0)


@pytest.mark.parametrize(
    ("on", "start", "what"),
    [
        (((0, 3),), 7.0, r"places 3 of 4 remaining instances \(gang"),
        (((1, 4),), 7.0, "there is no machine 1"),
        (((0, 2), (0, 2)), 7.0, "one twice"),  # could never be kept
        (((0, 5), (0, -1)), 7.0, "one twice|places -1"),
        (((0, 4),), float("inf"), "inf"),
        (((0, 4),), float("nan"), "nan"),
    ],
)
def test_an_illegal_reservation(on, start, what):
    schedule = at({1: lambda _, tasks: [Place(tasks[0], on, start)]})
    with pytest.raises(PolicyError, match=what):
        simulate(schedule, rigid((1, 5, 4)))


@pytest.mark.parametrize("machines", [1, 2])
def test_the_profile_of_a_state_has_all_that_is_known(machines):
    # Running: two processors until 10, one overdue. Reserved: three from 12 to 15. Away: one
    # processor from 14 to 20. With two machines it is all on the first.
    seen = []

    def schedule(state):
        if state.now == 3:
            profile = state.profile()
            times = [3, 3 + TIME_GRID, 9, 10, 12, 14, 15, 20, 1e6]
            seen.extend(profile.total_free(time)[0] for time in times)
        for waiting in state.queue:
            if waiting.index == 2:
                yield Place(waiting, ((0, 3),), 12.0)
            else:
                yield Place(waiting, ((0, waiting.instances),))

    capacity = np.array([[4.0], [2.0]][:machines])
    cluster = Cluster(
        ("processors",),
        ("a", "b")[:machines],
        capacity,
        maintenance=(Maintenance(14, 20, 0, (1.0,)),),
    )
    simulate(schedule, rigid((0, 9, 2, 10), (0, 9, 1, 2), (1, 3, 3), (3, 1, 1)), cluster)
    extra = 2 * (machines - 1)
    assert seen == [free + extra for free in (1, 2, 2, 4, 1, 0, 3, 4, 4)]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({0: place(0, 5.0)}, "reserves 1 of 3 remaining instances"),  # of a bag, all or none
        ({0: lambda _, tasks: [Cancel(tasks[0])]}, "has no reservation to cancel"),
        ({0: place(0, 5.0, 3), 1: place(0, 0.0)}, "is not waiting"),
    ],
)
def test_what_cannot_be_reserved_cancelled_or_placed(times, words):
    with pytest.raises(PolicyError, match=words):
        simulate(at(times), make_jobs((0, a_bag(3, 9)), (1, a_bag(1, 1))))
