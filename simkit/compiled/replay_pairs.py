"""Replays of bags by a fitness of pairs: the best pair of a machine and a task, one after another.

Each machine stands in a heap by its best pair, so that an instance costs no more than looking for
the next best task on its machine. The scores of other machines change only when a task has no
instances left; a machine whose best task that was is looked at again when its turn comes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import heap
from simkit.compiled.machines import (
    Bags,
    add_piece,
    end_due,
    next_instant,
    note,
    start,
    submit,
    take,
)
from simkit.compiled.replay_bags import has_room, put_in_order, stand, widest
from simkit.compiled.vectors import first_within, no_vectors
from simkit.machine_code import compiled, inner, records
from simkit.policy import fitness_formulas as formulas

__all__ = ["Pairs", "no_pairs", "replay"]

NONE: Final = -1
_BLOCK: Final = 128  # as NumPy adds up: see `_sum`

for _formula in (formulas.dot_product, formulas.aligned, formulas.mixed):
    inner(_formula)

PLACED: Final = np.dtype([
    ("machine", np.int64), ("count", np.int64), ("task", np.int64), ("next_of_task", np.int64),
    ("next_of_machine", np.int64),
])  # fmt: skip
"""Instances of a task that a decision gives a machine, and the rows of the next such of either."""
CHAIN: Final = np.dtype([("first", np.int64), ("last", np.int64)])
"""First and last row of `PLACED`; `NONE` while there is none."""
LINK: Final = np.dtype([("before", np.int64), ("after", np.int64)])
"""Neighbours in the queue, by submission."""
PART: Final = np.dtype([
    ("begin", np.int64), ("count", np.int64), ("state", np.int64), ("sum", np.float64),
])  # fmt: skip
"""A part of the numbers to be added up, and the sum of its first half."""


class Pairs(NamedTuple):
    """A fitness of pairs, who waits, and a decision in the making."""

    weight: float
    """Of the shortest remaining work; 0: alignment alone."""
    seconds: Floats
    """(T,) estimates, no longer than the longest that is finite."""
    by_rank: Ints
    """(T,) the tasks in order."""
    waiting: Floats
    """A tree over the tasks in order, by what an instance asks for."""
    bound: Floats
    """(R,) what is free at most where something has come free, resource by resource."""
    link: Any
    """(T + 1,) the queue as a ring; its last row is before the first task and after the last."""
    tried: Ints
    """(T,) the tasks that a decision may place, in order."""
    left: Ints
    """(T,) their instances that it has not placed."""
    begun: Ints
    """(T,) those that it places, in the order of their first instances."""
    short: Floats
    """(J,) how short the remaining work of a job is, 0 to 1, and before that how long."""
    work: Floats
    """(J,) scratch, as is `parts`."""
    parts: Any
    best: Any
    """(M,) heap of machines by the scores of their best pairs; see `_numbered`."""
    placed: Any
    """Rows of `PLACED`, as many as instances, and the chains of tasks (T,) and machines (M,)."""
    of_task: Any
    of_machine: Any


def no_pairs(bags: Bags, weight: float, seconds: Floats) -> Pairs:
    """Return a fitness while nobody waits; see `Pairs`."""
    (machines, resources), tasks, jobs = bags.free.shape, len(bags.task), len(bags.job)
    link, of_task, of_machine = (
        records(np.full(count, NONE, np.int64).repeat(2).view(kind))
        for count, kind in ((tasks + 1, LINK), (tasks, CHAIN), (machines, CHAIN))
    )
    link[tasks].before = link[tasks].after = tasks
    return Pairs(
        weight,
        seconds,
        np.argsort(bags.task["rank"], kind="stable"),
        no_vectors(tasks, resources),
        np.empty(resources),
        link,
        np.empty(tasks, np.int64),
        np.empty(tasks, np.int64),
        np.empty(tasks, np.int64),
        np.empty(jobs),
        np.empty(jobs),
        records(np.zeros(64, PART)),
        records(np.empty(machines, heap.ENTRY)),
        records(np.empty(int(bags.task["instances"].sum()), PLACED)),
        of_task,
        of_machine,
    )


@compiled
def replay(bags: Bags, pairs: Pairs, newcomers: Ints, timeline: Any) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        bags: the machines.
        pairs: at first nobody waits.
        newcomers: (T,) scratch.
        timeline: (D, 4 + R) written from `noted` on.
    """
    now = bags.now[0]
    while now.noted < len(timeline):
        time = next_instant(bags)
        if time == np.inf:
            return True
        end_due(bags, time)
        new = submit(bags, time, newcomers)
        if now.changed == 0:
            continue
        for each in range(new):
            _join(pairs, newcomers[each])
        if now.waiting > 0:
            put_in_order(bags, newcomers, new)
            tried = _find(bags, pairs, newcomers, new)
            if tried > 0:
                _decide(bags, pairs, tried, new > 0, time)
        note(bags, timeline, time)
    return False


@inner
def _join(pairs: Pairs, task: int) -> None:
    """Put a task at the end of the queue."""
    end = len(pairs.link) - 1
    last = pairs.link[end].before
    pairs.link[task].before, pairs.link[task].after = last, end
    pairs.link[last].after = pairs.link[end].before = task


@inner
def _leave(pairs: Pairs, task: int) -> None:
    """Take a task out of the queue."""
    before, after = pairs.link[task].before, pairs.link[task].after
    pairs.link[before].after, pairs.link[after].before = after, before


@inner
def _find(bags: Bags, pairs: Pairs, newcomers: Ints, new: int) -> int:
    """Write the tasks that may fit to `tried`, in order; return how many.

    These are the newcomers, and of the others those that fit where something has come free.
    """
    now, size, each, place = bags.now[0], 0, 0, NONE
    if now.freed > 0 and now.waiting > new:
        widest(bags, pairs.bound)
        place = first_within(pairs.waiting, 0, pairs.bound)
    while each < new or place >= 0:
        if place < 0 or (each < new and bags.task[newcomers[each]].rank < place):
            task = newcomers[each]
            each += 1
            stand(bags, pairs.waiting, task, True)
        else:
            task = pairs.by_rank[place]
            place = first_within(pairs.waiting, place + 1, pairs.bound)
        pairs.tried[size] = task
        pairs.left[task] = bags.task[task].left
        size += 1
    return size


@inner
def _decide(bags: Bags, pairs: Pairs, tried: int, anywhere: bool, time: float) -> None:
    """Place the best pair again and again until nothing fits, then start what was placed."""
    if pairs.weight != 0:
        _look_at_remaining_work(bags, pairs)
    size, begun, rows, spent = 0, 0, 0, 0
    for each in range(len(bags.free) if anywhere else bags.now[0].freed):
        machine = each if anywhere else bags.freed[each]
        size = _enter(bags, pairs, tried, machine, size)
    while size > 0:
        number = heap.pop(pairs.best, size)
        size -= 1
        rank, machine = number // len(bags.free), number % len(bags.free)
        task = pairs.by_rank[rank]
        if pairs.left[task] > 0:
            take(bags, task, machine, 1)
            pairs.left[task] -= 1
            if pairs.of_task[task].first == NONE:
                pairs.begun[begun] = task
                begun += 1
            rows = _note_placed(pairs, task, machine, rows)
            if pairs.left[task] == 0:
                spent += 1
        if 2 * spent > tried:
            tried, spent = _without_spent(pairs, tried), 0
        size = _enter(bags, pairs, tried, machine, size)
    for each in range(begun):
        _start(bags, pairs, pairs.begun[each], time)
    for row in range(rows):
        pairs.of_machine[pairs.placed[row].machine].first = NONE


@inner
def _without_spent(pairs: Pairs, tried: int) -> int:
    """Leave out the tasks of which nothing is left; return how many are left."""
    kept = 0
    for each in range(tried):
        if pairs.left[pairs.tried[each]] > 0:
            pairs.tried[kept] = pairs.tried[each]
            kept += 1
    return kept


@inner
def _enter(bags: Bags, pairs: Pairs, tried: int, machine: int, size: int) -> int:
    """Put a machine into the heap by its best pair, if anything fits; return the heap's size.

    Ties go to the first task, then to the lowest row.
    """
    best, chosen = -np.inf, NONE
    free, whole = bags.free[machine], bags.whole[machine]
    for each in range(tried):
        task = pairs.tried[each]
        if pairs.left[task] > 0 and has_room(bags, task, machine):
            score = formulas.aligned(free, whole, bags.request[task])
            if pairs.weight != 0:
                score = formulas.mixed(score, pairs.short[bags.task[task].job], pairs.weight)
            if score > best:
                best, chosen = score, task
    if chosen == NONE:
        return size
    heap.push(pairs.best, size, -best, bags.task[chosen].rank * len(bags.free) + machine)
    return size + 1


@inner
def _note_placed(pairs: Pairs, task: int, machine: int, rows: int) -> int:
    """Note that a task got an instance on a machine; return how many rows are noted."""
    row = pairs.of_machine[machine].first
    while row != NONE:
        if pairs.placed[row].task == task:
            pairs.placed[row].count += 1
            return rows
        row = pairs.placed[row].next_of_machine
    one = pairs.placed[rows]
    one.machine, one.task, one.count = machine, task, 1
    one.next_of_machine, one.next_of_task = pairs.of_machine[machine].first, NONE
    pairs.of_machine[machine].first = rows
    chain = pairs.of_task[task]
    if chain.first == NONE:
        chain.first = rows
    else:
        pairs.placed[chain.last].next_of_task = rows
    chain.last = rows
    return rows + 1


@inner
def _start(bags: Bags, pairs: Pairs, task: int, time: float) -> None:
    """Start what a decision has placed of a task."""
    first, row = bags.now[0].pieces, pairs.of_task[task].first
    while row != NONE:
        add_piece(bags, pairs.placed[row].machine, pairs.placed[row].count)
        row = pairs.placed[row].next_of_task
    pairs.of_task[task].first = NONE
    start(bags, task, first, time)
    if bags.task[task].left == 0:
        stand(bags, pairs.waiting, task, False)
        _leave(pairs, task)


@inner
def _look_at_remaining_work(bags: Bags, pairs: Pairs) -> None:
    """Write (J,) how short the remaining work of the jobs that wait is: see `Tetris`."""
    end, jobs, job, work = len(pairs.link) - 1, 0, NONE, 0.0
    task = pairs.link[end].after
    while task != end:
        if bags.task[task].job != job:
            if job != NONE:
                pairs.work[jobs] = pairs.short[job] = work
                jobs += 1
            job, work = bags.task[task].job, 0.0
        work += bags.task[task].left * pairs.seconds[task] * _share(bags, task)
        task = pairs.link[task].after
    pairs.work[jobs] = pairs.short[job] = work
    mean = _sum(pairs.work, jobs + 1, pairs.parts) / (jobs + 1)
    task, job = pairs.link[end].after, NONE
    while task != end:
        if bags.task[task].job != job:
            job = bags.task[task].job
            pairs.short[job] = 1.0 / (1.0 + pairs.short[job] / mean) if mean > 0 else 1.0
        task = pairs.link[task].after


@inner
def _share(bags: Bags, task: int) -> float:
    """Return what an instance asks for as a share of the cluster, the mean over resources."""
    total, resources = 0.0, bags.request.shape[1]
    for r in range(resources):
        if bags.offered[r] > 0:
            total += bags.request[task, r] / bags.offered[r]
    return total / resources  # type: ignore[no-any-return]


@inner
def _sum(numbers: Floats, count: int, parts: Any) -> float:
    """Return the sum of the first numbers, to the bit what NumPy's `sum` returns: pairwise."""
    parts[0].begin, parts[0].count, parts[0].state = 0, count, 0
    depth, total = 0, 0.0
    while True:
        part = parts[depth]
        if part.state == 0 and part.count > _BLOCK:
            part.state = 1
            half = part.count // 2
            half -= half % 8
            _divide(parts, depth, part.begin, half)
            depth += 1
            continue
        if part.state == 0:
            total = _sum_of_block(numbers, part.begin, part.count)
        elif part.state == 1:
            part.sum, part.state = total, 2
            half = part.count // 2
            half -= half % 8
            _divide(parts, depth, part.begin + half, part.count - half)
            depth += 1
            continue
        else:
            total = part.sum + total
        if depth == 0:
            return total
        depth -= 1


@inner
def _divide(parts: Any, depth: int, begin: int, count: int) -> None:
    """Let a part of a part be added up next."""
    below = parts[depth + 1]
    below.begin, below.count, below.state = begin, count, 0


@inner
def _sum_of_block(numbers: Floats, begin: int, count: int) -> float:
    """Return the sum of at most 128 numbers, eight by eight."""
    total = 0.0
    done = count - count % 8
    if done > 0:
        a, b, c, d = numbers[begin], numbers[begin + 1], numbers[begin + 2], numbers[begin + 3]
        e, f, g, h = numbers[begin + 4], numbers[begin + 5], numbers[begin + 6], numbers[begin + 7]
        for row in range(begin + 8, begin + done, 8):
            a += numbers[row]
            b += numbers[row + 1]
            c += numbers[row + 2]
            d += numbers[row + 3]
            e += numbers[row + 4]
            f += numbers[row + 5]
            g += numbers[row + 6]
            h += numbers[row + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for row in range(begin + done, begin + count):
        total += numbers[row]
    return total
