"""Waiting tasks as arrays find the same tasks as a search one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.greedy import WaitingTasks
from simkit.policy.task import Task


def task(index, request, priority=0.0):
    return Task(index, index, 0.0, request, priority=priority)


requests = st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0])] * 3)
amounts = st.tuples(*[st.sampled_from([-1.0, 0.0, 1.0, 2.0, 3.0])] * 3)


@given(
    asked=st.lists(requests, max_size=60),
    free=st.lists(amounts, max_size=5),
    gone=st.sets(st.integers(0, 59)),
    resources=st.integers(1, 3),
)
def test_finds_exactly_the_tasks_that_fit_on_a_machine(asked, free, gone, resources):
    waiting = WaitingTasks(resources)
    tasks = [task(i, request[:resources]) for i, request in enumerate(asked)]
    waiting.add(tasks, [0.0] * len(tasks))
    for slot in waiting.slots_of(tasks).tolist():
        if slot in gone:
            waiting.remove(slot)
    rows = np.array(free, dtype=float).reshape(len(free), 3)[:, :resources]
    found = {waiting[slot].index for slot in waiting.fitting(waiting.slots(), rows).tolist()}

    def fits(request):
        return any(all(a <= f or not a for a, f in zip(request, row, strict=True)) for row in rows)

    expected = {t.index for t in tasks if t.index not in gone and fits(t.request)}
    few = sum(t.index not in gone for t in tasks) <= 8
    # A few are not sifted to the end: a look at each is as quick.
    assert expected <= found if few or len(expected) <= 8 else expected == found


def test_order_is_priority_then_key_then_submission():
    waiting = WaitingTasks(1)
    tasks = [task(0, (1.0,)), task(1, (1.0,), 5.0), task(2, (1.0,)), task(3, (1.0,))]
    waiting.add(tasks, [2.0, 9.0, 1.0, 1.0])

    def in_order():
        waiting.sort()
        return [waiting[slot].index for slot in waiting.slots().tolist()]

    assert in_order() == [1, 2, 3, 0]
    waiting.order_by(np.arange(4.0), np.array([0.0, 0.0, 3.0, 2.0]))
    assert in_order() == [1, 0, 3, 2]
    waiting.add([task(4, (1.0,), 2.0)], [0.0])
    assert in_order() == [1, 4, 0, 3, 2]


@given(
    asked=st.lists(requests, max_size=30),
    free=amounts,
    gone=st.sets(st.integers(0, 29)),
    begin=st.integers(0, 30),
)
def test_finds_the_first_task_that_fits(asked, free, gone, begin):
    waiting = WaitingTasks(3)
    waiting.add([task(i, request) for i, request in enumerate(asked)], [0.0] * len(asked))
    for slot in gone & set(range(len(asked))):
        waiting.remove(slot)
    fits = [i for i, request in enumerate(asked) if i >= begin and i not in gone
            and all(a <= f or not a for a, f in zip(request, free, strict=True))]  # fmt: skip
    assert waiting.first(free, min(begin, len(asked))) == (fits[0] if fits else -1)


def test_slots_of_tasks_that_have_gone_are_taken_up_again():
    waiting = WaitingTasks(1)
    for begin in range(0, 2000, 100):
        tasks = [task(begin + i, (float(i),)) for i in range(100)]
        waiting.add(tasks, [0.0] * 100)
        for slot in waiting.slots_of(tasks[1:]).tolist():
            waiting.remove(slot)
    assert len(waiting) == 20
    assert [waiting[s].index for s in waiting.slots().tolist()] == list(range(0, 2000, 100))
    assert waiting.slots().max() < 300
