"""Replays of bags by fitness: of machines for tasks in their order, or of pairs of both.

After a decision nothing that waits fits anywhere. So at the next one newcomers are tried on all
machines, and the others where something has come free: see `simkit.policy.greedy`. Those that
wait stand in a tree by what they ask for, so that the ones that fit are found without the others.

By pairs the best one is placed again and again. Each machine stands in a heap by its best pair, so
that an instance costs no more than looking for the next best task on its machine. The scores of
other machines change only when a task has no instances left; a machine whose best task that was is
looked at again when its turn comes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import trees
from simkit.compiled.machines import (
    Bags,
    add_piece,
    end_due,
    next_instant,
    note,
    room_for,
    start,
    submit,
    take,
)
from simkit.compiled.orders import PART, score_of, sum_of
from simkit.compiled.trees import first_within, leaf_of, no_vectors, settle
from simkit.machine_code import compiled, inner, records
from simkit.policy.formulas import aligned, mixed

__all__ = ["BY_ROW", "Fit", "Pairs", "no_fit", "no_pairs", "replay", "replay_pairs"]

BY_ROW: Final = -1
"""Stands for a formula: the lowest row that has room."""
_NONE: Final = -1


class Fit(NamedTuple):
    """A fitness, and who waits."""

    formula: int
    """Number of the formula among `formulas.MACHINE`, or `BY_ROW`."""
    fills: bool
    """Whether a machine is filled before the next."""
    largest: Floats
    """(R,) capacity of the largest machine."""
    by_rank: Ints
    """(T,) the tasks in order."""
    waiting: Floats
    """A tree over the tasks in order, by what an instance asks for."""
    bound: Floats
    """(R,) what is free at most where something has come free, resource by resource."""
    negative: Floats
    """(R,) scratch."""
    best: Any
    """(M,) heap of the machines that have room, by their scores."""
    piece_on: Ints
    """(M,) the row of the piece of the task that is being placed; -1: none."""


def no_fit(bags: Bags, formula: int, fills: bool, largest: Floats) -> Fit:
    """Return a fitness while nobody waits."""
    machines, resources = bags.free.shape
    return Fit(
        formula,
        fills,
        largest,
        np.argsort(bags.task["rank"], kind="stable"),
        no_vectors(len(bags.task), resources),
        np.empty(resources),
        np.empty(resources),
        records(np.empty(machines, trees.ENTRY)),
        np.full(machines, -1),
    )


@compiled
def replay(bags: Bags, fit: Fit, newcomers: Ints, timeline: Any) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        bags: the machines.
        fit: at first nobody waits.
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
        if now.waiting > 0:
            _put_in_order(bags, newcomers, new)
            _decide(bags, fit, newcomers, new, time)
        note(bags, timeline, time)
    return False


@inner
def _put_in_order(bags: Bags, newcomers: Ints, new: int) -> None:
    """Sort newcomers by their ranks."""
    for each in range(1, new):
        task, place = newcomers[each], each
        while place > 0 and bags.task[newcomers[place - 1]].rank > bags.task[task].rank:
            newcomers[place] = newcomers[place - 1]
            place -= 1
        newcomers[place] = task


@inner
def _widest(bags: Bags, bound: Floats) -> None:
    """Write (R,) what is free at most where something has come free."""
    bound[:] = 0.0
    for each in range(bags.now[0].freed):
        machine = bags.freed[each]
        for r in range(len(bound)):
            bound[r] = max(bound[r], bags.free[machine, r])


@inner
def _decide(bags: Bags, fit: Fit, newcomers: Ints, new: int, time: float) -> None:
    """Place newcomers anywhere, and who waits where something has come free, in their order."""
    now, each, place = bags.now[0], 0, -1
    if now.freed > 0 and now.waiting > new:
        _widest(bags, fit.bound)
        place = first_within(fit.waiting, 0, fit.bound)
    while each < new or place >= 0:
        if place < 0 or (each < new and bags.task[newcomers[each]].rank < place):
            task = newcomers[each]
            each += 1
            _place(bags, fit, task, False, time)
            if bags.task[task].left > 0:
                _stand(bags, fit.waiting, task, True)
        else:
            task = fit.by_rank[place]
            _place(bags, fit, task, True, time)
            if bags.task[task].left == 0:
                _stand(bags, fit.waiting, task, False)
            _widest(bags, fit.bound)
            place = first_within(fit.waiting, place + 1, fit.bound)


@inner
def _stand(bags: Bags, waiting: Floats, task: int, waits: bool) -> None:
    """Let a task stand in the tree of those that wait, or no more."""
    rank = bags.task[task].rank
    leaf = leaf_of(waiting, rank)
    for r in range(bags.request.shape[1]):
        waiting[leaf, r] = bags.request[task, r] if waits else np.inf
    settle(waiting, rank)


@inner
def _place(bags: Bags, fit: Fit, task: int, freed: bool, time: float) -> None:
    """Place as many instances of a task as fit, on any machine, or where something came free."""
    first = bags.now[0].pieces
    if fit.formula == BY_ROW:
        _by_row(bags, fit, task)
    else:
        size = _offer(bags, fit, task, freed)
        if fit.fills:
            _fill(bags, fit, task, size)
        else:
            _spread(bags, fit, task, size)
    if bags.now[0].pieces > first:
        start(bags, task, first, time)


@inner
def _by_row(bags: Bags, fit: Fit, task: int) -> None:
    """Fill the machines that have room, in the order of their rows."""
    left, row = bags.task[task].left, 0
    for r in range(len(fit.negative)):
        fit.negative[r] = -bags.request[task, r]
    while left > 0:
        row = first_within(bags.room, row, fit.negative)
        if row < 0:
            break
        left -= _fill_one(bags, task, row, left)
        row += 1


@inner
def _fill_one(bags: Bags, task: int, machine: int, most: int) -> int:
    """Place as many instances as fit on a machine, at most `most`; return how many."""
    count = room_for(bags, task, machine, most)
    take(bags, task, machine, count)
    add_piece(bags, machine, count)
    return count


@inner
def _offer(bags: Bags, fit: Fit, task: int, freed: bool) -> int:
    """Put the machines that have room into the heap; return how many."""
    size = 0
    for each in range(bags.now[0].freed if freed else len(bags.free)):
        machine = bags.freed[each] if freed else each
        if _has_room(bags, task, machine):
            trees.push(fit.best, size, -_score(bags, fit, task, machine), machine)
            size += 1
    return size


@inner
def _has_room(bags: Bags, task: int, machine: int) -> bool:
    """Return whether an instance fits."""
    for r in range(bags.request.shape[1]):
        amount = bags.request[task, r]
        if amount > 0 and amount > bags.free[machine, r]:
            return False
    return True


@inner
def _fill(bags: Bags, fit: Fit, task: int, size: int) -> None:
    """Fill machines of the heap, each before the next."""
    left = bags.task[task].left
    while left > 0 and size > 0:
        machine = trees.pop(fit.best, size)
        size -= 1
        left -= _fill_one(bags, task, machine, left)


@inner
def _spread(bags: Bags, fit: Fit, task: int, size: int) -> None:
    """Place one instance after the other on the machine of the heap whose score is the highest.

    A machine's score counts as no higher than it was before: see `room.split_by_score`.
    """
    left, first = bags.task[task].left, bags.now[0].pieces
    while left > 0 and size > 0:
        machine, score = fit.best[0].number, fit.best[0].time
        take(bags, task, machine, 1)
        if fit.piece_on[machine] < 0:
            fit.piece_on[machine] = bags.now[0].pieces
            add_piece(bags, machine, 0)
        bags.piece[fit.piece_on[machine]].count += 1
        left -= 1
        trees.pop(fit.best, size)
        size -= 1
        if _has_room(bags, task, machine):
            score = max(score, -_score(bags, fit, task, machine))
            trees.push(fit.best, size, score, machine)
            size += 1
    for piece in bags.piece[first : bags.now[0].pieces]:
        fit.piece_on[piece.machine] = -1


@inner
def _score(bags: Bags, fit: Fit, task: int, machine: int) -> Any:
    """Return the score of an instance of a task on a machine."""
    free, whole, request = bags.free[machine], bags.whole[machine], bags.request[task]
    return score_of(fit.formula, free, whole, request, fit.largest)


PLACED: Final = np.dtype([
    ("machine", np.int64), ("count", np.int64), ("task", np.int64), ("next_of_task", np.int64),
    ("next_of_machine", np.int64),
])  # fmt: skip
"""Instances of a task that a decision gives a machine, and the rows of the next such of either."""
CHAIN: Final = np.dtype([("first", np.int64), ("last", np.int64)])
"""First and last row of `PLACED`; `_NONE` while there is none."""
LINK: Final = np.dtype([("before", np.int64), ("after", np.int64)])
"""Neighbours in the queue, by submission."""


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
        records(np.full(count, _NONE, np.int64).repeat(2).view(kind))
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
        records(np.empty(machines, trees.ENTRY)),
        records(np.empty(int(bags.task["instances"].sum()), PLACED)),
        of_task,
        of_machine,
    )


@compiled
def replay_pairs(bags: Bags, pairs: Pairs, newcomers: Ints, timeline: Any) -> bool:
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
            _put_in_order(bags, newcomers, new)
            tried = _find(bags, pairs, newcomers, new)
            if tried > 0:
                _decide_pairs(bags, pairs, tried, new > 0, time)
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
    now, size, each, place = bags.now[0], 0, 0, _NONE
    if now.freed > 0 and now.waiting > new:
        _widest(bags, pairs.bound)
        place = first_within(pairs.waiting, 0, pairs.bound)
    while each < new or place >= 0:
        if place < 0 or (each < new and bags.task[newcomers[each]].rank < place):
            task = newcomers[each]
            each += 1
            _stand(bags, pairs.waiting, task, True)
        else:
            task = pairs.by_rank[place]
            place = first_within(pairs.waiting, place + 1, pairs.bound)
        pairs.tried[size] = task
        pairs.left[task] = bags.task[task].left
        size += 1
    return size


@inner
def _decide_pairs(bags: Bags, pairs: Pairs, tried: int, anywhere: bool, time: float) -> None:
    """Place the best pair again and again until nothing fits, then start what was placed."""
    if pairs.weight != 0:
        _look_at_remaining_work(bags, pairs)
    size, begun, rows, spent = 0, 0, 0, 0
    for each in range(len(bags.free) if anywhere else bags.now[0].freed):
        machine = each if anywhere else bags.freed[each]
        size = _enter(bags, pairs, tried, machine, size)
    while size > 0:
        number = trees.pop(pairs.best, size)
        size -= 1
        rank, machine = number // len(bags.free), number % len(bags.free)
        task = pairs.by_rank[rank]
        if pairs.left[task] > 0:
            take(bags, task, machine, 1)
            pairs.left[task] -= 1
            if pairs.of_task[task].first == _NONE:
                pairs.begun[begun] = task
                begun += 1
            rows = _note_placed(pairs, task, machine, rows)
            if pairs.left[task] == 0:
                spent += 1
        if 2 * spent > tried:
            tried, spent = _without_spent(pairs, tried), 0
        size = _enter(bags, pairs, tried, machine, size)
    for each in range(begun):
        _start_placed(bags, pairs, pairs.begun[each], time)
    for row in range(rows):
        pairs.of_machine[pairs.placed[row].machine].first = _NONE


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
    best, chosen = -np.inf, _NONE
    free, whole = bags.free[machine], bags.whole[machine]
    for each in range(tried):
        task = pairs.tried[each]
        if pairs.left[task] > 0 and _has_room(bags, task, machine):
            score = aligned(free, whole, bags.request[task])
            if pairs.weight != 0:
                score = mixed(score, pairs.short[bags.task[task].job], pairs.weight)
            if score > best:
                best, chosen = score, task
    if chosen == _NONE:
        return size
    trees.push(pairs.best, size, -best, bags.task[chosen].rank * len(bags.free) + machine)
    return size + 1


@inner
def _note_placed(pairs: Pairs, task: int, machine: int, rows: int) -> int:
    """Note that a task got an instance on a machine; return how many rows are noted."""
    row = pairs.of_machine[machine].first
    while row != _NONE:
        if pairs.placed[row].task == task:
            pairs.placed[row].count += 1
            return rows
        row = pairs.placed[row].next_of_machine
    one = pairs.placed[rows]
    one.machine, one.task, one.count = machine, task, 1
    one.next_of_machine, one.next_of_task = pairs.of_machine[machine].first, _NONE
    pairs.of_machine[machine].first = rows
    chain = pairs.of_task[task]
    if chain.first == _NONE:
        chain.first = rows
    else:
        pairs.placed[chain.last].next_of_task = rows
    chain.last = rows
    return rows + 1


@inner
def _start_placed(bags: Bags, pairs: Pairs, task: int, time: float) -> None:
    """Start what a decision has placed of a task."""
    first, row = bags.now[0].pieces, pairs.of_task[task].first
    while row != _NONE:
        add_piece(bags, pairs.placed[row].machine, pairs.placed[row].count)
        row = pairs.placed[row].next_of_task
    pairs.of_task[task].first = _NONE
    start(bags, task, first, time)
    if bags.task[task].left == 0:
        _stand(bags, pairs.waiting, task, False)
        _leave(pairs, task)


@inner
def _look_at_remaining_work(bags: Bags, pairs: Pairs) -> None:
    """Write (J,) how short the remaining work of the jobs that wait is: see `Tetris`."""
    end, jobs, job, work = len(pairs.link) - 1, 0, _NONE, 0.0
    task = pairs.link[end].after
    while task != end:
        if bags.task[task].job != job:
            if job != _NONE:
                pairs.work[jobs] = pairs.short[job] = work
                jobs += 1
            job, work = bags.task[task].job, 0.0
        work += bags.task[task].left * pairs.seconds[task] * _share(bags, task)
        task = pairs.link[task].after
    pairs.work[jobs] = pairs.short[job] = work
    mean = sum_of(pairs.work, jobs + 1, pairs.parts) / (jobs + 1)
    task, job = pairs.link[end].after, _NONE
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
