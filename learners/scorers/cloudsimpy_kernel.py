"""CloudSimPy's clock, compiled by numba: the event loops of the fast model of a chunk; see `model`.

At every tick at which something comes free or is first seen, pairs are placed until none fits. What
comes free is added up in order of ends, then of starts, instance by instance, as CloudSimPy does:
where requests add up to exactly what a machine has, rounding decides whether the last one fits.
"""

from __future__ import annotations

import heapq
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.scorers.pair_kernel import (
    PAPER,
    Scratch,
    Weights,
    begin,
    hidden,
    make_scratch,
    see_match,
    see_moment,
    see_task,
    seen_as,
    weighted,
)
from simkit.machine_code import allocating

__all__ = ["Progress", "Tasks", "nothing_done", "nothing_placed", "nothing_runs", "play", "play_on",
           "roll_out"]  # fmt: skip

_GRID: Final = 2.0**20


class Tasks(NamedTuple):
    """A chunk's columns, as in `Chunk`."""

    seen: Floats
    hold: Floats
    run_s: Floats
    request: Floats
    instances: Ints
    capacity: Floats
    share: Floats
    """(T,) the largest share of one of the cluster's resources that an instance asks for."""
    total: Floats
    """(R,) the cluster's capacity."""


class Progress(NamedTuple):
    """What has been placed so far; changed as it goes on."""

    left: Ints
    """(T,) instances that wait."""
    free: Floats
    """(M, R)"""
    starts: Ints
    """(1,) how often something started."""


class Pairs(NamedTuple):
    """The pairs of M machines and of the N tasks that wait at a tick."""

    waiting: Ints
    """(N,) rows of the tasks."""
    longest: float
    """The longest time for which a waiting task holds a machine."""
    scores: Floats
    """(M, N); -inf where an instance does not fit."""
    table: Floats
    """(M, N, F) features as the network sees them."""


@allocating
def _fits(request: Floats, free: Floats) -> bool:
    for k in range(len(free)):  # noqa: SIM110 - numba compiles loops
        if request[k] > free[k]:
            return False
    return True


@allocating
def _give_back(heap: Any, now: float, tasks: Tasks, free: Floats) -> None:
    """Free what comes free by now."""
    while len(heap) > 0 and heap[0][0] <= now:
        _, _, _, machine, task, count = heapq.heappop(heap)
        for _ in range(count):
            for k in range(free.shape[1]):
                free[machine, k] += tasks.request[task, k]


@allocating
def _remaining_work(
    heap: Any, now: float, tasks: Tasks, waiting: Ints, left: Ints, work: Floats
) -> float:
    """Fill (R,) `work`; return the longest time for which a waiting task holds a machine."""
    longest = 0.0
    work[:] = 0.0
    for task in waiting:
        longest = max(longest, tasks.hold[task])
        for k in range(len(work)):
            work[k] += left[task] * tasks.hold[task] * tasks.request[task, k]
    for release, _, _, _, task, count in heap:
        for k in range(len(work)):
            work[k] += count * (release - now) * tasks.request[task, k]
    for k in range(len(work)):
        work[k] = np.round(work[k] / tasks.total[k] * _GRID) / _GRID
    return longest


@allocating
def _waiting(known: int, left: Ints) -> Ints:
    """Return those of the first `known` tasks that have instances left."""
    rows, count = np.empty(known, np.int64), 0
    for task in range(known):
        if left[task] > 0:
            rows[count] = task
            count += 1
    return rows[:count]


@allocating
def _best(scores: Floats) -> int:
    """Return the place of the highest of (M, N) scores, the first of equals; -1: none fits."""
    best, place = -np.inf, -1
    for m in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            if scores[m, i] > best:
                best, place = scores[m, i], m * scores.shape[1] + i
    return place


@allocating
def _pairs_at(
    now: float, come: int, heap: Any, tasks: Tasks, weights: Weights, progress: Progress,
    scratch: Scratch,
) -> Pairs:  # fmt: skip
    """Return the pairs of the first `come` tasks at a tick, before they are scored."""
    waiting, longest, machines = _waiting(come, progress.left), 0.0, len(progress.free)
    if len(waiting) > 0:
        longest = _remaining_work(heap, now, tasks, waiting, progress.left, scratch.work)
    scores = np.empty((machines, len(waiting)))
    table = np.empty((machines, len(waiting), len(weights.shift)))
    return Pairs(waiting, longest, scores, table)


@allocating
def _rescore(
    pairs: Pairs, machine: int, column: int, tasks: Tasks, weights: Weights, progress: Progress,
    scratch: Scratch,
) -> None:  # fmt: skip
    """Score the pairs of a machine and of a waiting task again, or all if the machine is -1.

    `column` is a place in `waiting`.
    """
    scores, table, waiting, longest = pairs.scores, pairs.table, pairs.waiting, pairs.longest
    hold, run_s, request, capacity = tasks.hold, tasks.run_s, tasks.request, tasks.capacity
    share, left, free = tasks.share, progress.left, progress.free
    above, flat, paper = scratch.above, weights.flat, weights.features == PAPER
    resources, horizon = free.shape[1], begin(scratch)
    for m in range(len(free)):
        for i in range(len(waiting)):
            if machine >= 0 and m != machine and i != column:
                continue
            task = waiting[i]
            if left[task] == 0 or not _fits(request[task], free[m]):
                scores[m, i] = -np.inf
                continue
            seen = table[m, i]
            if paper:
                for k in range(resources):
                    seen[k], seen[resources + k] = free[m, k], request[task, k]
                seen[2 * resources], seen[2 * resources + 1] = run_s[task], left[task]
                for k in range(len(seen)):
                    seen[k] = seen_as(seen[k], k, weights)
            else:
                if machine < 0 or i == column:  # nothing else about a task has changed
                    see_task(seen, hold[task], left[task], share[task], horizon, longest, weights)
                if machine < 0 or m == machine:
                    see_match(seen, request[task], free[m], capacity[m], scratch, weights)
                if machine < 0:
                    see_moment(seen, horizon, above, weights)
            scores[m, i] = weighted(seen, flat)
    if len(weights.widths) == 1:
        return
    for m in range(len(free)):
        for i in range(len(waiting)):
            if (machine < 0 or m == machine or i == column) and scores[m, i] > -np.inf:
                scores[m, i] += hidden(table[m, i], scratch, weights)


@allocating
def _upcoming(heap: Any, come: int, known: int, tasks: Tasks) -> float:
    """Return the next tick at which something comes free or is seen; infinity if nothing does."""
    upcoming = heap[0][0] if len(heap) > 0 else np.inf
    if come < known:
        upcoming = min(upcoming, tasks.seen[come])
    return upcoming


@allocating
def _makespan(last: float, left: Ints) -> float:
    """Return the last tick at which something came free; infinity if something never started.

    Only rounding does that: what an instance left behind is a little less than all of a machine.
    """
    return last if left.sum() == 0 else np.inf


@allocating
def _start(
    tasks: Tasks, now: float, task: int, machine: int, most: int, progress: Progress, heap: Any
) -> int:
    """Start up to `most` instances; return how many."""
    left, free, starts, count = progress.left, progress.free, progress.starts, 0
    while count < most and left[task] > 0 and _fits(tasks.request[task], free[machine]):
        for k in range(free.shape[1]):
            free[machine, k] -= tasks.request[task, k]
        left[task] -= 1
        count += 1
    end = now + tasks.run_s[task]
    heapq.heappush(heap, (now + tasks.hold[task], end, starts[0], machine, task, count))
    starts[0] += 1
    return count


@allocating
def play_on(
    tasks: Tasks, weights: Weights, progress: Progress, heap: Any, now: float, until: float,
    known: int, most: int, placed: Any,
) -> float:  # fmt: skip
    """Play from a tick `now` to the last one before `until`; return the last tick by then.

    It returns infinity if tasks wait that will never fit.

    It changes `progress` and `heap`, what runs: (tick of release, end, number of the start,
    machine, task, instances). Only the first `known` tasks come. The pair that scores highest gets
    up to `most` instances at a time; `placed` collects (tick, task, machine, instances).
    """
    scratch = make_scratch(weights, progress.free.shape[1])
    last = now
    while now < until:
        last = now
        _give_back(heap, now, tasks, progress.free)
        come = min(known, int(np.searchsorted(tasks.seen, now, side="right")))
        pairs = _pairs_at(now, come, heap, tasks, weights, progress, scratch)
        count, machine, column = len(pairs.waiting), -1, -1
        while count > 0:
            _rescore(pairs, machine, column, tasks, weights, progress, scratch)
            place = _best(pairs.scores)
            if place < 0:
                break
            machine, column = place // count, place % count
            task = pairs.waiting[column]
            started = _start(tasks, now, task, machine, most, progress, heap)
            placed.append((now, task, machine, started))
        now = _upcoming(heap, come, known, tasks)
    return _makespan(last, progress.left[:known]) if now == np.inf else last


@allocating
def nothing_done(tasks: Tasks) -> Progress:
    """Return the progress at the beginning."""
    return Progress(tasks.instances.copy(), tasks.capacity.copy(), np.zeros(1, np.int64))


@allocating
def nothing_runs() -> Any:
    """Return an empty heap, of the types that numba infers."""
    heap = [(0.0, 0.0, 0, 0, 0, 0)]
    heap.pop()
    return heap


@allocating
def nothing_placed() -> Any:
    """Return an empty list of placements, of the types that numba infers."""
    placed = [(0.0, 0, 0, 0)]
    placed.pop()
    return placed


@allocating
def play(tasks: Tasks, weights: Weights, most: int) -> Any:
    """Return the makespan, and what was placed: (tick, task, machine, instances)."""
    placed = nothing_placed()
    span = play_on(
        tasks, weights, nothing_done(tasks), nothing_runs(), 0.0, np.inf, len(tasks.seen), most,
        placed,
    )  # fmt: skip
    return span, placed


@allocating
def _drawn(scores: Floats, below: Floats, number: float) -> int:
    """Return a place in (M, N) scores, with a probability in proportion to exp(score); -1: none.

    `below`, (M · N,), is scratch space; `number` is drawn from [0, 1).
    """
    most, total, place = scores.max(), 0.0, 0
    if most == -np.inf:
        return -1
    for m in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            if scores[m, i] > -np.inf:
                total += np.exp(scores[m, i] - most)
            below[place] = total
            place += 1
    found, last = np.searchsorted(below[:place], number * total, side="right"), place - 1
    while scores[last // scores.shape[1], last % scores.shape[1]] == -np.inf:
        last -= 1
    return last if found > last else int(found)


@allocating
def _grown(array: Any, size: int) -> Any:
    """Return an array with room for `size` rows, with the old ones in front."""
    if size <= len(array):
        return array
    wider = np.empty((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider


@allocating
def _keep(seen: Any, rows: int, row: Any, pairs: Pairs, machine: int, column: int) -> int:
    """Add the pairs that were scored again to the `rows` of `seen`; return how many there are."""
    scores, table = pairs.scores, pairs.table
    for m in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            if (machine < 0 or m == machine or i == column) and scores[m, i] > -np.inf:
                for k in range(table.shape[2]):
                    seen[rows, k] = table[m, i, k]
                row[m, i] = rows
                rows += 1
    return rows


@allocating
def roll_out(tasks: Tasks, weights: Weights, rng: np.random.Generator) -> Any:
    """Return what happens if each pair is drawn, one instance at a time.

    Returns:
        seen: (U, F) float32 features of pairs as the network sees them; shared by decisions that
            see the same pair.
        pairs: (P,) int32 rows of `seen`: the pairs that fit, decision by decision.
        first: (D + 1,) where each decision's pairs begin.
        chosen: (D,) which of them was drawn, from 0.
        tick: (D,) when.
        placed: (D,) the row of the task whose instance was placed.
        span: the makespan.
    """
    progress, heap = nothing_done(tasks), nothing_runs()
    machines, resources = progress.free.shape
    scratch = make_scratch(weights, resources)
    width, decisions = len(weights.shift), tasks.instances.sum()
    seen = np.empty((4096, width), np.float32)
    pairs = np.empty(16384, np.int32)
    first = np.zeros(decisions + 1, np.int64)
    chosen, tick = np.empty(decisions, np.int64), np.empty(decisions)
    placed = np.empty(decisions, np.int64)
    below = np.empty(machines * len(tasks.seen))
    rows, made, now, last = 0, 0, 0.0, 0.0
    while now < np.inf:
        last = now
        _give_back(heap, now, tasks, progress.free)
        come = int(np.searchsorted(tasks.seen, now, side="right"))
        here = _pairs_at(now, come, heap, tasks, weights, progress, scratch)
        scores, count, machine, column = here.scores, len(here.waiting), -1, -1
        row = np.empty((machines, count), np.int32)
        while count > 0:
            _rescore(here, machine, column, tasks, weights, progress, scratch)
            seen = _grown(seen, rows + scores.size)
            rows = _keep(seen, rows, row, here, machine, column)
            place = _drawn(scores, below, rng.random()) if scores.max() > -np.inf else -1
            if place < 0:
                break
            machine, column = place // count, place % count
            pairs = _grown(pairs, first[made] + scores.size)
            end = first[made]
            for m in range(machines):
                for i in range(count):
                    if scores[m, i] > -np.inf:
                        if m == machine and i == column:
                            chosen[made] = end - first[made]
                        pairs[end] = row[m, i]
                        end += 1
            task = here.waiting[column]
            tick[made], placed[made] = now, task
            made += 1
            first[made] = end
            _start(tasks, now, task, machine, 1, progress, heap)
        now = _upcoming(heap, come, len(tasks.seen), tasks)
    seen, pairs = seen[:rows].copy(), pairs[: first[made]].copy()
    span = _makespan(last, progress.left)
    return seen, pairs, first[: made + 1], chosen[:made], tick[:made], placed[:made], span
