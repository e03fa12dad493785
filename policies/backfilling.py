"""EASY backfilling: tasks may overtake the head of the queue if they do not delay it.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from simkit.policy import Place, State, SystemInfo
from simkit.policy_bases import Entry, Lane
from simkit.room import Room
from simkit.task import Task

_LONG = 48  # from this many waiting tasks on, arrays find the ones that fit faster than a loop


class Easy:
    """Aggressive backfilling with one reservation, for the head of the queue.

    The *shadow time* is the earliest expected end of running tasks at which the head fits; what is
    free then beside the head, counting every release of that very instant, are the *extra* nodes.
    A waiting task, tried in queue order, starts if it fits now and either ends by the shadow time
    (now + estimate ≤ shadow time) or fits into the extra nodes, which it then reduces.

    With reservations or known capacity changes ahead, the same is done in the availability
    profile: the head is given its earliest place, and what fits beside it now starts.
    """

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._head: Task | None = None
        self._seen = (-1, -1)
        self._shadow = inf
        self._extra: Room | None = None
        self._single = info.capacity.size == 1

    def fill(self, state: State, lane: Lane) -> Iterator[Place]:
        """See `Backfill.fill`."""
        if self._single and state.room.total_free()[0] <= 0:
            return
        if state.constrained:
            yield from self._fill_profile(state, lane)
            return
        head = lane.entries[0][3]
        entries: Sequence[Entry]
        seen = (state.releases, state.starts)
        if head is self._head and seen == self._seen and state.now <= self._shadow:
            # Nothing came free and nothing else started since this head was last found blocked,
            # so whatever could not overtake it then cannot now: only newcomers are to be tried.
            entries = lane.in_order(state.arrived)
        else:
            self._find_shadow(state, lane, head)
            entries = self._promising(state, lane)
        yield from (self._fill_pool if self._single else self._fill_machines)(state, lane, entries)
        self._seen = (state.releases, state.starts)

    def _find_shadow(self, state: State, lane: Lane, head: Task) -> None:
        extra = state.room.copy()
        shadow = extra.release_until(head, state.expected_ends, state.now)
        if shadow is not None and (on := extra.fit(head, lane.rule)) is not None:
            extra.take(on, head.request)
        self._head, self._extra = head, extra
        self._shadow = inf if shadow is None else shadow

    def _promising(self, state: State, lane: Lane) -> Sequence[Entry]:
        """Return the entries behind the head that may start; in a long queue, only those."""
        if not self._single or len(lane.entries) < _LONG:
            return lane.entries[1:]
        assert self._extra is not None
        columns = state.queue.columns()
        demand = columns.demand[0]
        fits = demand <= state.room.total_free()[0]
        fits &= (columns.estimate_s <= self._shadow - state.now) | (
            demand <= self._extra.total_free()[0]
        )
        head = lane.entries[0][3]
        rows = np.flatnonzero(fits).tolist()
        return lane.in_order([task for row in rows if (task := state.queue[row]) is not head])

    def _fill_pool(self, state: State, lane: Lane, entries: Sequence[Entry]) -> Iterator[Place]:
        """One machine, one resource: two numbers decide."""
        assert self._extra is not None
        free, extra = state.room.total_free(), self._extra.total_free()[0]
        slack, head = self._shadow - state.now, self._head
        for entry in entries:
            task = entry[3]
            demand = task.demand[0]
            if not task.gang:
                yield from self._fill_machines(state, lane, [entry])
                extra = self._extra.total_free()[0]
                continue
            if demand > free[0] or task is head:
                continue
            on = ((0, task.instances),)
            if task.estimate_s > slack:
                if demand > extra:
                    continue
                self._extra.take(on, task.request)
                extra -= demand
            yield Place(task, on)
            lane.remove(entry)
            if free[0] <= 0:
                return

    def _fill_machines(self, state: State, lane: Lane, entries: Sequence[Entry]) -> Iterator[Place]:
        assert self._extra is not None
        for entry in entries:
            task = entry[3]
            if task is self._head or (on := state.fit(task, lane.rule)) is None:
                continue
            if state.now + task.estimate_s > self._shadow:
                on = state.room.common(self._extra).fit(task, lane.rule)
                if on is None:
                    continue
                self._extra.take(on, task.request)
            yield Place(task, on)
            if not task.remaining:
                lane.remove(entry)

    def _fill_profile(self, state: State, lane: Lane) -> Iterator[Place]:
        """The general form, with everything that is known ahead."""
        self._head = None
        profile = state.profile()
        head = lane.entries[0][3]
        if place := profile.earliest(head, lane.rule):
            start, on = place
            profile.take(on, head.request, start, start + head.estimate_s)
        for entry in lane.entries[1:]:
            task = entry[3]
            if state.fit(task, lane.rule) is None:
                continue
            if (fitting := profile.fit(task, state.now, lane.rule)) is not None:
                yield Place(task, fitting)
                profile.take(fitting, task.request, state.now, state.now + task.estimate_s)
                if not task.remaining:
                    lane.remove(entry)
