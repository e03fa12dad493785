"""Replays of bags by a fitness of machines: tasks in order, each on the machines that suit it.

After a decision nothing that waits fits anywhere. So at the next one newcomers are tried on all
machines, and the others where something has come free: see `simkit.policy.greedy`. Those that
wait stand in a tree by what they ask for, so that the ones that fit are found without the others.
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
    room_for,
    start,
    submit,
    take,
)
from simkit.compiled.vectors import first_within, leaf_of, no_vectors, settle
from simkit.machine_code import compiled, inner, records
from simkit.policy import fitness_formulas as formulas

__all__ = ["BY_ROW", "Fit", "has_room", "no_fit", "put_in_order", "replay", "stand", "widest"]

BY_ROW: Final = -1
"""Stands for a formula: the lowest row that has room."""

for _formula in formulas.MACHINE:
    inner(_formula)


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
        records(np.empty(machines, heap.ENTRY)),
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
            put_in_order(bags, newcomers, new)
            _decide(bags, fit, newcomers, new, time)
        note(bags, timeline, time)
    return False


@inner
def put_in_order(bags: Bags, newcomers: Ints, new: int) -> None:
    """Sort newcomers by their ranks."""
    for each in range(1, new):
        task, place = newcomers[each], each
        while place > 0 and bags.task[newcomers[place - 1]].rank > bags.task[task].rank:
            newcomers[place] = newcomers[place - 1]
            place -= 1
        newcomers[place] = task


@inner
def widest(bags: Bags, bound: Floats) -> None:
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
        widest(bags, fit.bound)
        place = first_within(fit.waiting, 0, fit.bound)
    while each < new or place >= 0:
        if place < 0 or (each < new and bags.task[newcomers[each]].rank < place):
            task = newcomers[each]
            each += 1
            _place(bags, fit, task, False, time)
            if bags.task[task].left > 0:
                stand(bags, fit.waiting, task, True)
        else:
            task = fit.by_rank[place]
            _place(bags, fit, task, True, time)
            if bags.task[task].left == 0:
                stand(bags, fit.waiting, task, False)
            widest(bags, fit.bound)
            place = first_within(fit.waiting, place + 1, fit.bound)


@inner
def stand(bags: Bags, waiting: Floats, task: int, waits: bool) -> None:
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
        if has_room(bags, task, machine):
            heap.push(fit.best, size, -_score(bags, fit, task, machine), machine)
            size += 1
    return size


@inner
def has_room(bags: Bags, task: int, machine: int) -> bool:
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
        machine = heap.pop(fit.best, size)
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
        heap.pop(fit.best, size)
        size -= 1
        if has_room(bags, task, machine):
            score = max(score, -_score(bags, fit, task, machine))
            heap.push(fit.best, size, score, machine)
            size += 1
    for piece in bags.piece[first : bags.now[0].pieces]:
        fit.piece_on[piece.machine] = -1


@inner
def _score(bags: Bags, fit: Fit, task: int, machine: int) -> Any:
    """Return the score of an instance of a task on a machine, by a formula of `MACHINE`."""
    free, whole, request = bags.free[machine], bags.whole[machine], bags.request[task]
    if fit.formula == 0:
        return formulas.most_left(free, whole, request, fit.largest)
    if fit.formula == 1:
        return formulas.least_left(free, whole, request, fit.largest)
    if fit.formula == 2:
        return formulas.emptiest(free, whole, request, fit.largest)
    if fit.formula == 3:
        return formulas.fullest(free, whole, request, fit.largest)
    if fit.formula == 4:
        return formulas.dot_product(free, whole, request, fit.largest)
    if fit.formula == 5:
        return formulas.cosine(free, whole, request, fit.largest)
    return formulas.closeness(free, whole, request, fit.largest)
