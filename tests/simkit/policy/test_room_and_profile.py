"""Rooms and profiles: two stores of each are one thing, and both are what a plain grid says."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policies.fitness import BestFit, WorstFit
from simkit.policy import State, SystemInfo
from simkit.policy.claims import shadow_time
from simkit.policy.profile import MachineProfile, PoolProfile
from simkit.policy.queue import TaskQueue
from simkit.policy.room import MachineRoom, PoolRoom, make_room
from simkit.policy.task import Allocation, Task
from simkit.units import TIME_GRID

pytestmark = pytest.mark.long

END = 30  # the brute-force grid covers 0, 1, …, END - 1 seconds, and what is then goes on forever


def task(instances=1, request=(1.0,), estimate=0.0, *, gang=True, machines=None, index=0):
    return Task(index, index, 0.0, request, instances, gang, estimate, machines=machines)


AMOUNTS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0])


def tasks(resources=1, machines=1):
    subsets = st.sets(st.integers(0, machines - 1)).map(sorted).map(tuple)
    return st.builds(
        task,
        instances=st.integers(1, 6),
        request=st.tuples(*[AMOUNTS] * resources),
        estimate=st.integers(0, 8).map(float),
        gang=st.booleans(),
        machines=st.none() if machines == 1 else st.one_of(st.none(), subsets),
    )


# ---- rooms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("resources", [1, 2, 3])
def test_many_machines_at_once_are_one_after_another_to_the_last_bit(resources):
    rng = np.random.default_rng(resources)
    capacity = rng.random((200, resources)) * 10
    at_once, one_by_one = MachineRoom(capacity), MachineRoom(capacity.copy())
    request = tuple((rng.random(resources) / 7).tolist())
    rows = rng.permutation(200)[:150].tolist()
    on = tuple((row, int(rng.integers(1, 4))) for row in rows if capacity[row].min() > 1)
    assert at_once.claim(on, request)
    assert all(one_by_one.claim((pair,), request) for pair in on)
    for _ in range(2):
        assert np.array_equal(at_once.free(), one_by_one.free())
        assert at_once.total_free() == one_by_one.total_free()
        at_once.give(on, request)
        for pair in on:
            one_by_one.give((pair,), request)


@pytest.mark.parametrize("wrong", [(0, 1), (200, 1), (-1, 1), (150, 0), (150, 11), (150.5, 1)])
def test_one_wrong_machine_among_many_leaves_the_room_as_it_was(wrong):
    room = MachineRoom(np.full((200, 2), 10.0))
    good = tuple((row, 1) for row in range(100))
    assert not room.claim((*good, wrong), (1.0, 1.0))
    assert (room.free() == 10.0).all()
    assert list(room.total_free()) == [2000.0, 2000.0]


@given(st.data(), st.integers(1, 3))
def test_a_pool_room_is_a_machine_room_of_one_machine(data, resources):
    amounts = st.lists(st.integers(0, 8).map(float), min_size=resources, max_size=resources)
    capacity = np.array([data.draw(amounts)])
    pool, machines = PoolRoom(capacity), MachineRoom(capacity.copy())
    held = []
    for _ in range(data.draw(st.integers(1, 8))):
        other = data.draw(tasks(resources))
        assert pool.fit(other) == machines.fit(other)
        step = data.draw(st.sampled_from(["claim", "claim", "take", "give", "capacity"]))
        on = ((data.draw(st.sampled_from([0, 0, 0, 1])), data.draw(st.integers(0, 4))),)
        if step == "claim":
            claimed = pool.claim(on, other.request)
            assert claimed == machines.claim(on, other.request)
            if claimed:
                held.append((on, other.request))
        elif step == "take":
            on = ((0, max(on[0][1], 1)),)
            pool.take(on, other.request)
            machines.take(on, other.request)
            held.append((on, other.request))
        elif step == "give" and held:
            place = held.pop()
            pool.give(*place)
            machines.give(*place)
        elif step == "capacity":
            row = data.draw(amounts)
            pool.change_capacity(0, row)
            machines.change_capacity(0, row)
        assert pool.free().tolist() == machines.free().tolist()
        assert list(pool.total_free()) == list(machines.total_free())
        assert pool.capacity.tolist() == machines.capacity.tolist()
        common = pool.common(PoolRoom(capacity))
        assert common.free().tolist() == machines.common(MachineRoom(capacity)).free().tolist()
    releases = [
        (float(end), rank, Allocation(rank, task(on[0][1], request), on, on[0][1], 0.0, float(end)))
        for rank, (on, request) in enumerate(held)
        for end in [data.draw(st.integers(0, 5))]
    ]
    releases.sort(key=lambda release: release[:2])
    wanted, now = data.draw(tasks(resources)), float(data.draw(st.integers(0, 5)))
    first, second = pool.copy(), machines.copy()
    found = shadow_time(first, wanted, releases, now)
    assert found == shadow_time(second, wanted, releases, now)
    if found < inf:
        assert first.free().tolist() == second.free().tolist()
        assert first.fit(wanted) is not None
        assert found >= now


@given(st.data())
def test_a_placement_fits_machine_by_machine(data):
    capacity = np.array(data.draw(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4)))
    room = make_room(capacity)
    rule = data.draw(st.sampled_from([None, BestFit(), WorstFit()]))
    for _ in range(5):
        wanted = data.draw(tasks(2, len(capacity)))
        before = room.free().copy()
        on = room.fit(wanted, rule)
        most = [
            min([wanted.instances, *(int(f // a) for f, a in zip(free, wanted.request, strict=True) if a)])
            for machine, free in enumerate(before)
            if wanted.machines is None or machine in wanted.machines
        ]  # fmt: skip
        if on is None:
            assert sum(most) < (wanted.instances if wanted.gang else 1)
            continue
        assert sum(count for _, count in on) == min(wanted.instances, sum(most))
        assert wanted.machines is None or {machine for machine, _ in on} <= set(wanted.machines)
        assert room.claim(on, wanted.request)  # and so it is legal
        expected = before.copy()
        for machine, count in on:
            expected[machine] -= np.array(wanted.request) * count
        assert room.free().tolist() == expected.tolist()
        assert list(room.total_free()) == expected.sum(axis=0).tolist()
        assert (room.free() >= 0).all()


@pytest.mark.parametrize(
    "on", [(), ((0, 0),), ((0, -1),), ((2, 1),), ((-1, 1),), ((0, 1), (0, 1)), ((0, 3),), ((0, 1), (1, 3))]
)  # fmt: skip
def test_what_cannot_be_claimed_changes_nothing(on):
    for capacity in ([[2.0], [2.0]], [[2.0]]):
        room = make_room(np.array(capacity))
        assert not room.claim(on, (1.0,))
        assert room.free().tolist() == capacity


# ---- profiles against a grid -------------------------------------------------------------------


class Grid:
    """Free amounts (seconds, M, R) at whole seconds, the last of which goes on forever."""

    def __init__(self, free):
        self.free = np.repeat(np.array(free)[None], END + 20, axis=0)

    def add(self, on, request, start, end, sign):
        last = len(self.free) if end == np.inf else int(end)
        for machine, count in on:
            self.free[int(start) : last, machine] += sign * np.array(request) * count

    def fit(self, wanted, start):
        least = self.free[start : max(start + int(wanted.estimate_s), start + 1)].min(axis=0)
        return make_machines(least).fit(wanted)

    def earliest(self, wanted, after):
        for start in range(after, END + 1):
            if on := self.fit(wanted, start):
                return start, on
        return None


def make_machines(free):
    return MachineRoom(np.maximum(free, 0.0), free.copy())


SPANS = st.tuples(st.integers(0, END - 1), st.integers(1, END), st.booleans())


@given(st.data(), st.sampled_from([(1, 1), (1, 2), (2, 1), (3, 2)]))
def test_profiles_against_a_grid(data, shape):
    machines, resources = shape
    free = np.array(
        data.draw(st.lists(st.integers(-2, 6).map(float), min_size=machines * resources, max_size=machines * resources))
    ).reshape(shape)  # fmt: skip
    profiles = [MachineProfile(0.0, make_machines(free))]
    if machines == 1:
        profiles.append(PoolProfile(0.0, free[0].tolist()))
    grid = Grid(free)
    for start, length, forever in data.draw(st.lists(SPANS, max_size=8)):
        on = ((data.draw(st.integers(0, machines - 1)), data.draw(st.integers(1, 3))),)
        request = data.draw(st.tuples(*[AMOUNTS] * resources))
        sign = data.draw(st.sampled_from([-1.0, 1.0]))
        end = np.inf if forever else float(min(start + length, END))
        for profile in profiles:
            (profile.give if sign > 0 else profile.take)(on, request, float(start), end)
        grid.add(on, request, start, end, sign)
    now = data.draw(st.integers(0, 5))
    for profile in profiles:
        profile.advance(float(now))
    wanted = data.draw(tasks(resources, machines))
    after = data.draw(st.integers(now, END))
    for profile in profiles:
        for second in range(now, END + 5):
            assert profile.total_free(second) == tuple(grid.free[second].sum(axis=0))
            assert profile.total_free(second + 0.5) == tuple(grid.free[second].sum(axis=0))
        seconds = np.arange(now, END + 5)
        assert (profile.total_free_at(seconds + 0.5) == grid.free[seconds].sum(axis=1)).all()
        for second in range(now, END, 3):
            assert profile.fit(wanted, float(second)) == grid.fit(wanted, second)
        assert profile.earliest(wanted) == grid.earliest(wanted, now)
        assert profile.earliest(wanted, after=float(after)) == grid.earliest(wanted, after)


@given(st.data(), st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)]))
def test_earlier_is_earliest_without_the_place_it_has(data, shape):
    machines, resources = shape
    free = np.full(shape, 4.0)
    grid = Grid(free)
    profiles = [MachineProfile(0.0, make_machines(free))]
    if machines == 1:
        profiles.append(PoolProfile(0.0, free[0].tolist()))
    for start, length, forever in data.draw(st.lists(SPANS, max_size=5)):
        on = ((data.draw(st.integers(0, machines - 1)), 1),)
        request = data.draw(st.tuples(*[AMOUNTS] * resources))
        end = np.inf if forever else float(min(start + length, END))
        for profile in profiles:
            profile.take(on, request, float(start), end)
        grid.add(on, request, start, end, -1.0)
    wanted = data.draw(tasks(resources, machines).filter(lambda t: t.gang and t.estimate_s > 0))
    found = grid.earliest(wanted, data.draw(st.integers(0, END - 10)))
    if found is None:
        return
    start, on = found
    best = grid.earliest(wanted, 0)
    expected = best if best is not None and best[0] < start else None
    for profile in profiles:
        profile.take(on, wanted.request, float(start), start + wanted.estimate_s)
        before = [profile.total_free(second) for second in range(END)]
        earlier = profile.earlier(wanted, float(start), on)
        assert (earlier and earlier[0]) == (expected and expected[0])
        assert [profile.total_free(second) for second in range(END)] == before  # it only asks


def test_a_place_of_no_length_is_held_for_a_tick():
    for profile in (PoolProfile(0.0, [4.0]), MachineProfile(0.0, make_room(np.array([[4.0]])))):
        profile.take(((0, 3),), (1.0,), 5.0, 5.0)
        assert profile.total_free(5.0) == (1,)
        assert profile.total_free(5.0 + TIME_GRID) == (4,)


@given(st.data(), st.sampled_from([1, 2]))
def test_a_profile_made_in_one_pass_is_that_made_step_by_step(data, resources):
    free = data.draw(
        st.lists(st.integers(-3, 6).map(float), min_size=resources, max_size=resources)
    )
    amounts = st.tuples(*[st.integers(-3, 3).map(float)] * resources)
    changes = data.draw(st.lists(st.tuples(st.integers(0, 12).map(float), amounts), max_size=10))
    machines = MachineProfile(2.0, make_machines(np.array([free])))
    for time, amount in changes:
        machines.give(((0, 1),), amount, max(time, 2.0), np.inf)
    pool = PoolProfile(2.0, free, [(max(time, 2.0), amount) for time, amount in changes])
    wanted = data.draw(tasks(resources, 1))
    assert pool.earliest(wanted) == machines.earliest(wanted)
    for second in range(2, 15):
        assert pool.total_free(second) == machines.total_free(second)
        assert pool.fit(wanted, float(second)) == machines.fit(wanted, float(second))


def test_an_overdue_task_is_expected_to_end_a_tick_from_now():
    info = SystemInfo(("processors",), ("pool",), np.array([[4.0]]), ())
    running = task(3, estimate=5.0)
    allocation = Allocation(0, running, ((0, 3),), 3, 0.0, 5.0)
    state = State(info, PoolRoom(info.capacity), TaskQueue(1), {allocation: None})
    assert state.room.claim(((0, 3),), running.request)
    state.now = 9.0
    profile = state.profile()
    assert profile.total_free(9.0) == (1.0,)
    assert profile.total_free(9.001) == (4.0,)
