"""Which planned tasks could start earlier: found for a whole queue at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy.profile import PoolProfile, Profile
from simkit.policy.task import Task


class EarlierStarts:
    """The rows of planned gangs that may start earlier in a pool of one resource, in order.

    A gang may if there is a span of time before its start, with as much free as it asks for, that
    is as long as its estimate or reaches to its start (from where on it has its own place). While
    the rows are gone through, tasks leave their places; `left` then marks those behind, for which
    such a place makes a span. That a row is yielded is necessary, not sufficient: what has moved
    up may stand in its way.

    Args:
        profile: with the places of all tasks in it; it is looked at again at every `left`.
        tasks: the waiting gangs, in the order in which they move up.
        start_s: (n,) their planned starts; infinity for those without one, which are all yielded.
    """

    def __init__(self, profile: PoolProfile, tasks: Sequence[Task], start_s: Floats) -> None:
        self._profile, self._start_s = profile, start_s
        self._estimate_s = np.array([task.estimate_s for task in tasks])
        self._may = np.isinf(start_s)
        amounts = np.array([task.demand[0] for task in tasks])
        self._rows = {amount: np.flatnonzero(amounts == amount) for amount in set(amounts.tolist())}
        for amount, rows in self._rows.items():
            self._mark_any(rows, np.array(profile.spans(amount)).reshape(-1, 2).T)

    def __iter__(self) -> Iterator[int]:
        may, row = self._may, 0
        while row < len(may) and may[found := row + int(may[row:].argmax())]:
            yield found
            row = found + 1

    def left(self, row: int, begin: float, end: float) -> None:
        """Take note that the task of a row has left a place that it had from begin to end, in s."""
        most = self._profile.most_free(begin, end)
        for amount, rows in self._rows.items():
            if amount <= most and len(behind := rows[np.searchsorted(rows, row + 1) :]):
                own, estimate = self._start_s[behind], self._estimate_s[behind]
                for start, stop in self._profile.spans(amount, begin, end):
                    serves = (own > start) & ((estimate <= stop - start) | (own <= stop))
                    self._may[behind[serves]] = True

    def _mark_any(self, rows: Ints, spans: Floats) -> None:
        """Mark the rows that one of (2, S) spans, in order, lets start earlier."""
        starts, ends = spans
        if not len(starts):
            return
        own = self._start_s[rows]
        longest = np.maximum.accumulate(ends - starts)
        long_enough = np.append(starts, np.inf)[np.searchsorted(longest, self._estimate_s[rows])]
        before = np.searchsorted(starts, own) - 1  # the last span that begins before its start
        reaches = (before >= 0) & (ends[before] >= own)
        self._may[rows] |= (long_enough < own) | reaches


def earlier_starts(
    profile: Profile, gangs: Sequence[Task], start_s: Floats
) -> EarlierStarts | None:
    """Return the search, or None where it does not serve: for machines and several resources."""
    if not isinstance(profile, PoolProfile) or len(profile.total_free(0.0)) > 1:
        return None
    return EarlierStarts(profile, gangs, start_s)
