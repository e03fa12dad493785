"""Bags of tasks on machines as they run: what is free where, what has started, what ends when.

Every replay of machines begins with these functions; they differ in what is placed where. At an
instant what ends comes first, then the jobs that are submitted, and then one decision: see
`simkit.engine.events`. What a decision gives a task starts together, and ends together if all
instances take equally long; else each instance ends by itself.

Amounts are multiples of a grid (`simkit.units.AMOUNT_GRID`), so that every sum of them is exact,
in whatever order it is made.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import trees
from simkit.compiled.trees import at_first, leaf_of, settle
from simkit.machine_code import inner, records
from simkit.policy.estimates import corrected

__all__ = [
    "JOB", "STEP", "TASK", "Bags", "add_piece", "begin", "end_due", "next_instant", "note",
    "room_for", "start", "submit", "take",
]  # fmt: skip

JOB: Final = np.dtype([
    ("submit", np.float64), ("first", np.int64), ("tasks", np.int64), ("left", np.int64),
    ("refused", np.int64), ("start", np.float64), ("end", np.float64),
])  # fmt: skip
"""A job: its submission in s; its first task, and how many; how many have not ended; whether it can
never run; when the first instance started, and the last one ended, NaN before."""
TASK: Final = np.dtype([
    ("job", np.int64), ("instances", np.int64), ("left", np.int64), ("ended", np.int64),
    ("rank", np.int64), ("run", np.float64), ("limit", np.float64), ("estimate", np.float64),
    ("requested", np.float64), ("first_time", np.int64),
    ("start", np.float64), ("end", np.float64),
])  # fmt: skip
"""A task: its job; its instances, those that have not been placed, and those that have ended; its
place in the order; how long its longest instance runs, after how long one is killed, the estimate
and the request, NaN if unknown, all in s; the first of its instances' own times; and as of a
job."""
GROUP: Final = np.dtype([
    ("task", np.int64), ("first", np.int64), ("pieces", np.int64), ("allocations", np.int64),
    ("killed", np.int64), ("start", np.float64), ("end", np.float64),
])  # fmt: skip
"""Instances of a task that start and end together: the rows of `PIECE`; how many allocations they
are, one for each machine; whether they are killed."""
PIECE: Final = np.dtype([("machine", np.int64), ("first", np.int64), ("count", np.int64)])
"""Instances of a task with consecutive numbers, on a machine."""
STEP: Final = np.dtype([("time", np.float64), ("machine", np.int64)])
"""A change of a machine's capacity, and when it comes."""
NOW: Final = np.dtype([
    ("submitted", np.int64), ("waiting", np.int64), ("running", np.int64), ("open", np.int64),
    ("groups", np.int64), ("pieces", np.int64), ("over_groups", np.int64),
    ("over_tasks", np.int64), ("over_jobs", np.int64), ("corrections", np.int64),
    ("steps", np.int64), ("freed", np.int64), ("changed", np.int64), ("noted", np.int64),
])  # fmt: skip
"""How many jobs were submitted, tasks wait, allocations run, groups run; how many groups and pieces
there have been; how many groups, tasks and jobs are over; how many corrections are to come; how
many steps are past; on how many machines something has come free since the last decision; whether
anything has changed since then; rows of the timeline."""

_corrected: Any = inner(corrected)


class Bags(NamedTuple):
    """Jobs, tasks, machines and where they stand: J, T and M of them, R resources, I instances."""

    job: Any
    """(J,) in order of submission."""
    task: Any
    """(T,) job by job."""
    request: Floats
    """(T, R) what an instance asks for."""
    times: Floats
    """(I,) how long each instance runs, in s, task by task; empty if all of a task run equally
    long."""
    step: Any
    """(S,) the changes of capacity, in order of time."""
    amount: Floats
    """(S, R) what the machine has from then on."""
    free: Floats
    """(M, R) what is free; below 0 where capacity went while tasks ran."""
    whole: Floats
    """(M, R) the machines' capacities, infinite where they have none."""
    total: Floats
    """(R,) what is free on all machines together."""
    offered: Floats
    """(R,) their capacities together."""
    room: Floats
    """A tree over the machines, by what tasks may take, negative; empty if nobody needs it."""
    now: Any
    """(1,)"""
    end: Any
    """(I,) heap of the ends of the groups that run, with their numbers."""
    group: Any
    """(I,) in order of start."""
    piece: Any
    """(I,) group by group."""
    over_group: Ints
    """(I,) what ended, in that order, and likewise tasks (T,) and jobs (J,)."""
    over_task: Ints
    over_job: Ints
    correction: Any
    """(I,) heap of the times at which estimates are outlived, with the groups."""
    additions: Floats
    """Those of the correction; see `estimates.CORRECTIONS`."""
    freed: Ints
    """(M,) where something has come free since the last decision, each machine once."""
    is_freed: Ints
    """(M,) whether it has, 1 or 0."""
    sorted: Any
    """Heap of the instances of a start, by their ends; empty without `times`."""
    on: Ints
    """The machine of each instance of a start; empty without `times`."""


def begin(
    job: Any, task: Any, request: Floats, times: Floats, capacity: Floats, step: Any,
    amount: Floats, additions: Floats, by_row: bool,
) -> Bags:  # fmt: skip
    """Return empty machines.

    Args:
        job: (J,) the jobs, in order of submission.
        task: (T,) their tasks.
        request: (T, R) what an instance asks for.
        times: (I,) run times of the instances, or none.
        capacity: (M, R) the machines.
        step: (S,) the changes of their capacities, in order of time.
        amount: (S, R) what they have from then on.
        additions: of the correction.
        by_row: whether the first machine that has room is searched for.
    """
    instances, (machines, resources) = int(task["instances"].sum()), capacity.shape
    most = int(task["instances"].max(initial=0)) if len(times) else 0
    return Bags(
        records(job),
        records(task),
        np.ascontiguousarray(request),
        times,
        step,
        amount,
        capacity.copy(),
        np.where(capacity > 0, capacity, np.inf),
        capacity.sum(axis=0),
        capacity.sum(axis=0),
        at_first(-capacity) if by_row else np.empty((0, resources)),
        records(np.zeros(1, NOW)),
        records(np.empty(instances, trees.ENTRY)),
        records(np.empty(instances, GROUP)),
        records(np.empty(instances, PIECE)),
        np.empty(instances, np.int64),
        np.empty(len(task), np.int64),
        np.empty(len(job), np.int64),
        records(np.empty(instances if len(additions) > 0 else 0, trees.ENTRY)),
        additions,
        np.empty(machines, np.int64),
        np.zeros(machines, np.int64),
        records(np.empty(most, trees.ENTRY)),
        np.empty(most, np.int64),
    )


@inner
def next_instant(bags: Bags) -> float:
    """Return when the next job comes, or something ends or changes; infinity: nothing does."""
    now, time = bags.now[0], np.inf
    if now.submitted < len(bags.job):
        time = bags.job[now.submitted].submit
    if now.open > 0:
        time = min(time, bags.end[0].time)
    if now.corrections > 0:
        time = min(time, bags.correction[0].time)
    if now.steps < len(bags.step):
        time = min(time, bags.step[now.steps].time)
    return time


@inner
def room_for(bags: Bags, task: int, machine: int, most: int) -> int:
    """Return how many instances of a task a machine has room for, at most `most`."""
    count = float(most)
    for r in range(bags.request.shape[1]):
        amount, free = bags.request[task, r], bags.free[machine, r]
        if amount > 0:
            times = np.floor(free / amount)
            if times * amount > free:  # the quotient was rounded up to a whole number
                times -= 1.0
            count = min(count, times)
    return int(count)


@inner
def take(bags: Bags, task: int, machine: int, count: int) -> None:
    """Take what so many instances of a task hold on a machine, or give it back: below 0."""
    for r in range(bags.request.shape[1]):
        amount = bags.request[task, r] * count
        bags.free[machine, r] -= amount
        bags.total[r] -= amount
    _see_room(bags, machine)


@inner
def _see_room(bags: Bags, machine: int) -> None:
    """Let the tree know what is free on a machine."""
    if len(bags.room) > 0:
        leaf = leaf_of(bags.room, machine)
        for r in range(bags.request.shape[1]):
            bags.room[leaf, r] = -max(bags.free[machine, r], 0.0)
        settle(bags.room, machine)


@inner
def add_piece(bags: Bags, machine: int, count: int) -> None:
    """Note that instances of the task that starts next are on a machine, where they fit."""
    now = bags.now[0]
    bags.piece[now.pieces].machine, bags.piece[now.pieces].count = machine, count
    now.pieces += 1


@inner
def start(bags: Bags, task: int, first: int, time: float) -> None:
    """Start what the pieces from `first` on hold of a task; they have been taken."""
    now, one = bags.now[0], bags.task[task]
    if np.isnan(one.start):
        one.start = time
    instance = one.instances - one.left
    for piece in bags.piece[first : now.pieces]:
        piece.first = instance
        instance += piece.count
    one.left = one.instances - instance
    if one.left == 0:
        now.waiting -= 1
    if len(bags.times) > 0:
        _start_each(bags, task, first, time)
    else:
        _start_group(bags, task, first, now.pieces - first, time, one.run)


@inner
def _start_group(
    bags: Bags, task: int, first: int, allocations: int, time: float, run: float
) -> None:
    """Start what the pieces from `first` on hold together; it ends after its run, or is killed."""
    now, limit = bags.now[0], bags.task[task].limit
    group = bags.group[now.groups]
    group.task, group.first, group.pieces = task, first, now.pieces - first
    group.allocations, group.killed, group.start = allocations, int(limit < run), time
    ends = time + min(run, limit)
    trees.push(bags.end, now.open, ends, now.groups)
    if len(bags.additions) > 0:
        group.end = ends
        _correct_at(bags, now.groups, max(time + bags.task[task].estimate, time))
    now.open += 1
    now.groups += 1
    now.running += allocations


@inner
def _start_each(bags: Bags, task: int, first: int, time: float) -> None:
    """Start the instances of pieces as groups that run equally long on one machine.

    The shortest go first, and of those that run equally long, the first ones.
    """
    now, one, size = bags.now[0], bags.task[task], 0
    begin = bags.piece[first].first
    for piece in bags.piece[first : now.pieces]:
        for instance in range(piece.first, piece.first + piece.count):
            bags.on[instance - begin] = piece.machine
            trees.push(bags.sorted, size, bags.times[one.first_time + instance], instance)
            size += 1
    now.pieces = begins = first
    run, machine = 0.0, -1
    while size > 0:
        next_run = bags.sorted[0].time
        instance = trees.pop(bags.sorted, size)
        size -= 1
        at = bags.on[instance - begin]
        if now.pieces > begins and (next_run != run or at != machine):
            _start_group(bags, task, begins, 1, time, run)
            begins = now.pieces
        run, machine = next_run, at
        last = bags.piece[max(now.pieces - 1, 0)]
        if now.pieces > begins and instance == last.first + last.count:
            last.count += 1
        else:
            add_piece(bags, machine, 1)
            bags.piece[now.pieces - 1].first = instance
    _start_group(bags, task, begins, 1, time, run)


@inner
def end_due(bags: Bags, time: float) -> None:
    """End the groups whose work is done, change capacities, and correct outlived estimates.

    What changed is noted in `NOW`.
    """
    now = bags.now[0]
    while now.open > 0 and bags.end[0].time == time:
        number = trees.pop(bags.end, now.open)
        now.open -= 1
        group = bags.group[number]
        group.end = time
        bags.over_group[now.over_groups] = number
        now.over_groups += 1
        now.running -= group.allocations
        now.changed = 1
        ended = 0
        for piece in bags.piece[group.first : group.first + group.pieces]:
            take(bags, group.task, piece.machine, -piece.count)
            ended += piece.count
            _set_free(bags, piece.machine)
        one = bags.task[group.task]
        one.ended += ended
        if one.ended == one.instances:
            _end_task(bags, group.task, time)
    while now.steps < len(bags.step) and bags.step[now.steps].time == time:
        _change(bags, now.steps)
        now.steps += 1
        now.changed = 1
    while now.corrections > 0 and bags.correction[0].time == time:
        number = trees.pop(bags.correction, now.corrections)
        now.corrections -= 1
        _correct(bags, number, time)


@inner
def _set_free(bags: Bags, machine: int) -> None:
    """Note that something has come free on a machine."""
    if bags.is_freed[machine] == 0:
        bags.is_freed[machine] = 1
        bags.freed[bags.now[0].freed] = machine
        bags.now[0].freed += 1


@inner
def _change(bags: Bags, step: int) -> None:
    """Give a machine the capacity of a step; what runs there goes on."""
    machine = bags.step[step].machine
    for r in range(bags.request.shape[1]):
        before, after = bags.whole[machine, r], bags.amount[step, r]
        more = after if before == np.inf else after - before
        bags.whole[machine, r] = after if after > 0 else np.inf
        bags.free[machine, r] += more
        bags.total[r] += more
        bags.offered[r] += more
    _see_room(bags, machine)
    _set_free(bags, machine)


@inner
def _correct_at(bags: Bags, number: int, due: float) -> None:
    """Correct the estimate when a group's expected end comes, unless it will have ended by then."""
    if due < bags.group[number].end:
        trees.push(bags.correction, bags.now[0].corrections, due, number)
        bags.now[0].corrections += 1


@inner
def _correct(bags: Bags, number: int, time: float) -> None:
    """Expect a later end of a group that has outlived its estimate."""
    group = bags.group[number]
    one, executed = bags.task[group.task], time - group.start
    estimate = _corrected(one.estimate, one.requested, executed, bags.additions)
    if estimate > executed:
        bags.now[0].changed = 1
        _correct_at(bags, number, max(group.start + estimate, time))


@inner
def _end_task(bags: Bags, task: int, time: float) -> None:
    """Note the end of a task, and that of its job if it was the last one."""
    now, one = bags.now[0], bags.task[task]
    one.end = time
    bags.over_task[now.over_tasks] = task
    now.over_tasks += 1
    job = bags.job[one.job]
    if np.isnan(job.start) or one.start < job.start:
        job.start = one.start
    job.left -= 1
    if job.left == 0:
        job.end = time
        bags.over_job[now.over_jobs] = one.job
        now.over_jobs += 1


@inner
def submit(bags: Bags, time: float, newcomers: Ints) -> int:
    """Submit the jobs of an instant; write their tasks to `newcomers`; return how many."""
    now, count = bags.now[0], 0
    while now.submitted < len(bags.job) and bags.job[now.submitted].submit == time:
        number = now.submitted
        job = bags.job[number]
        now.submitted += 1
        now.changed = 1
        for task in range(job.first, job.first + job.tasks):
            if job.refused > 0:
                bags.over_task[now.over_tasks] = task
                now.over_tasks += 1
            else:
                newcomers[count] = task
                count += 1
        if job.refused > 0:
            bags.over_job[now.over_jobs] = number
            now.over_jobs += 1
    now.waiting += count
    return count


@inner
def note(bags: Bags, timeline: Any, time: float) -> None:
    """Write a row of the timeline, after a decision: time, waiting, held back, running, free…."""
    now = bags.now[0]
    row = timeline[now.noted]
    row[0], row[1], row[2], row[3] = time, now.waiting, 0.0, now.running
    for r in range(len(bags.total)):
        row[4 + r] = bags.total[r]
    now.noted += 1
    now.changed = 0
    for each in range(now.freed):
        bags.is_freed[bags.freed[each]] = 0
    now.freed = 0
