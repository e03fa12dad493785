"""Two stores of the same thing are equal: rooms and profiles of one machine."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy import State, SystemInfo
from simkit.policy.profile import MachineProfile, PoolProfile
from simkit.policy.queue import TaskQueue
from simkit.policy.room import MachineRoom, PoolRoom
from simkit.policy.task import Allocation, Task

CAPACITY = 12
TASKS = st.builds(
    lambda count, gang, estimate: Task(
        0, 0, 0.0, (1.0,), count, gang, float(estimate), partition=0
    ),
    st.integers(1, 8),
    st.booleans(),
    st.integers(0, 9),
)


@given(st.lists(st.tuples(TASKS, st.integers(0, 30)), max_size=8), TASKS, st.integers(0, 20))
def test_rooms_are_equal(held, wanted, now):
    capacity = np.array([[float(CAPACITY)]])
    pool, machines = PoolRoom(capacity.copy()), MachineRoom(capacity.copy())
    releases = []
    for rank, (task, end) in enumerate(held):
        on = pool.fit(task)
        assert on == machines.fit(task)
        if on is None:
            continue
        assert pool.claim(on, task.request) is machines.claim(on, task.request) is True
        allocation = Allocation(rank, task, on, on[0][1], 0.0, float(end))
        releases.append((float(end), rank, allocation))
    releases.sort()
    assert list(pool.total_free()) == list(machines.total_free())
    too_much = ((0, CAPACITY + 1),)
    assert not pool.claim(too_much, (1.0,))
    assert not machines.claim(too_much, (1.0,))
    later = pool.copy(), machines.copy()
    assert later[0].release_until(wanted, releases, float(now)) == later[1].release_until(
        wanted, releases, float(now)
    )
    assert list(later[0].total_free()) == list(later[1].total_free())
    assert list(pool.common(later[0]).total_free()) == list(machines.common(later[1]).total_free())


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 15), st.integers(1, 9), st.booleans()),
        max_size=8,
    ),
    TASKS,
    st.integers(0, 20),
)
def test_profiles_are_equal_and_what_a_grid_of_time_says(changes, task, after):
    pool = PoolProfile(0.0, float(CAPACITY))
    machines = MachineProfile(0.0, MachineRoom(np.array([[float(CAPACITY)]])))
    grid = np.full(60, float(CAPACITY))  # by whole seconds
    for amount, start, length, takes in changes:
        for profile in (pool, machines):
            change = profile.take if takes else profile.give
            change(((0, amount),), (1.0,), float(start), float(start + length))
        grid[start : start + length] += -amount if takes else amount
    for second in range(40):
        assert pool.total_free(second) == machines.total_free(second) == (grid[second],)
        assert pool.fit(task, float(second)) == machines.fit(task, float(second))
    found = pool.earliest(task, after=float(after))
    assert found == machines.earliest(task, after=float(after))
    needed = task.instances if task.gang else 1
    length = max(int(task.estimate_s), 1)
    fits = [s for s in range(after, 50) if grid[s : s + length].min() >= needed]
    assert found is not None
    assert found[0] == fits[0]


def test_an_overdue_task_is_expected_to_end_a_tick_from_now():
    info = SystemInfo(("processors",), ("pool",), np.array([[4.0]]), ())
    task = Task(0, 0, 0.0, (1.0,), 3, estimate_s=5.0)
    running = {Allocation(0, task, ((0, 3),), 3, 0.0, 5.0): None}
    state = State(info, PoolRoom(np.array([[4.0]])), TaskQueue(1), running)
    assert state.room.claim(((0, 3),), task.request)
    state.now = 9.0
    profile = state.profile()
    assert profile.total_free(9.0) == (1.0,)
    assert profile.total_free(9.001) == (4.0,)
