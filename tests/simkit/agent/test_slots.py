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
