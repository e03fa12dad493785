"""Numbered slots: a task keeps its slot, newcomers take the lowest that is free."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.slotted_tracker import TaskSlots
from simkit.policy.queue import TaskQueue
from simkit.policy.task import Task


def waiting_tasks(count):
    queue = TaskQueue(1)
    tasks = [Task(index, index, 0.0, (1.0,)) for index in range(count)]
    return queue, tasks


def settle(slots, queue):
    for slot in slots.vacate():
        slots.empty(slot)
    return slots.fill(queue.tasks)


def shown(slots):
    return [None if task is None else task.index for task in slots.tasks]


def test_the_slots_of_a_story():
    queue, tasks = waiting_tasks(6)
    slots = TaskSlots(3)
    story = [
        # come, leave -> in the slots
        ([0, 1], [], [0, 1, None]),
        ([2, 3], [], [0, 1, 2]),  # the last of them waits behind the slots
        ([], [1], [0, 3, 2]),  # and takes the place that comes free; nobody moves
        ([], [0, 2], [None, 3, None]),
        ([4, 5], [], [4, 3, 5]),  # in order, the lowest first
        ([0], [5], [4, 3, 0]),  # one that comes back is as any newcomer
    ]
    for come, leave, expected in story:
        for index in leave:
            queue.remove(tasks[index])
        for index in come:
            queue.add(tasks[index])
        settle(slots, queue)
        assert shown(slots) == expected


def test_tells_which_slots_are_filled_and_which_are_left():
    queue, tasks = waiting_tasks(3)
    slots = TaskSlots(2)
    for task in tasks:
        queue.add(task)
    assert slots.fill(queue.tasks) == [0, 1]
    queue.remove(tasks[1])
    assert slots.vacate() == [1]
    assert shown(slots) == [0, 1]  # still shown
    slots.empty(1)
    assert slots.fill(queue.tasks) == [1]
    slots.clear()
    assert (shown(slots), slots.taken) == ([None, None], 0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=60), st.integers(1, 4))
def test_whoever_comes_and_goes(moves, count):
    queue, tasks = waiting_tasks(12)
    slots = TaskSlots(count)
    for enters, index in moves:
        task = tasks[index]
        before = [None if held is None or held is task else held for held in slots.tasks]
        if enters and not task.waiting:
            queue.add(task)
        elif not enters and task.waiting:
            queue.remove(task)
        elif slots.are_up_to_date(queue.tasks):
            before = list(slots.tasks)
        quick = slots.are_up_to_date(queue.tasks)
        same = list(slots.tasks)
        settle(slots, queue)
        if quick:  # it was right
            assert slots.tasks == same
        # Nobody else has moved, no slot is empty while somebody waits, nobody has two slots.
        assert all(held is None or slots.tasks[slot] is held for slot, held in enumerate(before))
        inside = [held for held in slots.tasks if held is not None]
        assert len(inside) == slots.taken == min(count, len(queue))
        assert len(set(inside)) == len(inside)
        assert all(held.waiting for held in inside)
