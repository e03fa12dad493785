"""The split of a task's instances: how many each machine gets.

A score says which machine gets the next instance: the highest, ties to the lowest row. Instances
of a task are alike, so all of them are placed at once; the outcome is exactly that of placing one
after another, each time with the scores of that moment.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simkit.arrays import Floats, Ints

Split = tuple[Ints, Ints]
"""(positions, counts): which of the machines on offer, in order of choice, and how many each."""

Scores = Callable[[Floats, Ints], Floats]
"""(free amounts (n, R), positions (n,)) → (n,): score of an instance on each of these machines."""


def instances_that_fit(free: Floats, request: tuple[float, ...], most: int) -> Ints:
    """Return (F,): how many instances each machine has room for, at most `most`.

    Args:
        free: (F, R) free amounts; below 0 nothing fits but what asks for nothing.
        request: (R,) of an instance.
        most: the largest number worth knowing.
    """
    counts = np.full(len(free), float(most))
    for r, amount in enumerate(request):
        if amount > 0:
            np.minimum(counts, free[:, r] // amount, out=counts)
    np.maximum(counts, 0.0, out=counts)
    return counts.astype(np.int64)


def split_in_order(order: Ints, counts: Ints, needed: int) -> Split:
    """Fill machines in an order, each before the next: (F,) positions and their (F,) room."""
    room = counts[order]
    before = np.cumsum(room) - room
    used = int(np.searchsorted(before, needed))  # machines before which instances are left
    placed = room[:used]
    placed[-1:] = min(int(placed[-1]), needed - int(before[used - 1])) if used else 0
    return order[:used], placed


def split_by_score(
    scores: Scores, free: Floats, request: tuple[float, ...], counts: Ints, needed: int
) -> Split:
    """Place instances one by one on the machine whose score is highest at that moment.

    A machine's k-th instance is placed when the lowest of its first k scores is the highest among
    all machines: higher scores that come after a low one follow it at once. So the order of the
    whole split is that of these running minima.

    Args:
        scores: of an instance on machines with given free amounts; may rise or fall as they fill.
        free: (F, R) free amounts of machines that have room, ascending by row.
        request: (R,) of an instance.
        counts: (F,) how many each has room for, at least 1.
        needed: instances to place, at least 1; if fewer fit, as many as fit.
    """
    first = scores(free, np.arange(len(free)))
    offered = np.arange(len(free))
    if len(free) > needed:  # each machine's first instance comes before what these would get
        offered = np.sort(np.argsort(-first, kind="stable")[:needed])
    room = np.minimum(counts[offered], needed)
    depth = 1 if needed == 1 else 2 * -(-needed // len(offered))
    while True:
        depth = min(depth, int(room.max()))
        taken = _first(_minima(scores, free[offered], offered, request, room, depth), needed)
        placed = np.bincount(taken // depth, minlength=len(offered))
        if depth == room.max() or not ((placed == depth) & (room > depth)).any():
            break
        depth *= 4
    chosen = taken // depth
    _, begins = np.unique(chosen, return_index=True)
    order = chosen[np.sort(begins)]
    return offered[order], placed[order]


def _minima(
    scores: Scores, free: Floats, positions: Ints, request: tuple[float, ...], room: Ints,
    depth: int,
) -> Floats:  # fmt: skip
    """Return (F, depth): the running minimum of a machine's scores as it fills; -inf if full."""
    steps = np.arange(depth, dtype=np.float64)
    states = free[:, None, :] - steps[None, :, None] * np.array(request)  # (F, depth, R)
    possible = np.arange(depth) < room[:, None]
    table = np.full(possible.shape, -np.inf)
    at = np.broadcast_to(positions[:, None], possible.shape)[possible]
    table[possible] = scores(states[possible], at)
    minima: Floats = np.minimum.accumulate(table, axis=1)
    return minima


def _first(table: Floats, needed: int) -> Ints:
    """Return the places of the highest values, ties to the first, that are not -inf."""
    values = table.ravel()
    order = np.argsort(-values, kind="stable")[:needed]
    chosen: Ints = order[values[order] > -np.inf]
    return chosen
