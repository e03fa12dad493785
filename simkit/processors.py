"""Gives the processors of a pool numbers after the fact, lowest free numbers first.

A pool counts processors and does not tell them apart; Gantt charts need to. Numbers are handed
out in order of start, so that no processor has two jobs at once. Each start takes the lowest free
numbers, as a list of free intervals keeps them: the work is that of sorting, plus a step for each
interval that a job takes or gives back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

Spans = list[tuple[int, int]]
"""Intervals of numbers, both ends included, ascending and apart."""


class FreeNumbers:
    """The free numbers 0, 1, 2, … without end, as intervals."""

    def __init__(self) -> None:
        self._first = [0]
        self._last: list[float] = [float("inf")]
        self.used = 0
        """The highest number ever handed out, plus 1."""

    def take(self, count: int) -> Spans:
        """Hand out the lowest `count` free numbers."""
        spans: Spans = []
        whole = 0  # intervals that are used up
        while count > 0:
            first, last = self._first[whole], self._last[whole]
            if last - first + 1 <= count:
                spans.append((first, int(last)))
                count -= int(last) - first + 1
                whole += 1
            else:
                spans.append((first, first + count - 1))
                self._first[whole] = first + count
                count = 0
        del self._first[:whole], self._last[:whole]
        if spans:
            self.used = max(self.used, spans[-1][1] + 1)
        return spans

    def give_back(self, spans: Spans) -> None:
        """Take numbers back, joining intervals that touch."""
        for first, last in spans:
            at = bisect_left(self._first, first)
            joins_right = at < len(self._first) and self._first[at] == last + 1
            joins_left = at > 0 and self._last[at - 1] == first - 1
            if joins_left and joins_right:
                self._last[at - 1] = self._last[at]
                del self._first[at], self._last[at]
            elif joins_left:
                self._last[at - 1] = last
            elif joins_right:
                self._first[at] = first
            else:
                self._first.insert(at, first)
                self._last.insert(at, last)


def number_processors(
    start_s: Sequence[float], end_s: Sequence[float | None], count: Sequence[int]
) -> tuple[list[Spans], int]:
    """Return the numbers of each allocation's processors, and how many numbers are in use.

    Ends come before starts at one instant, so numbers pass from one job to the next.

    Args:
        start_s: (n,) start of each allocation, in s.
        end_s: (n,) its end; None while it holds on.
        count: (n,) processors that it holds.
    """
    free = FreeNumbers()
    spans: list[Spans] = [[] for _ in start_s]
    starts = sorted(range(len(start_s)), key=lambda row: start_s[row])
    ends = sorted((end, row) for row, end in enumerate(end_s) if end is not None)
    ended = 0
    for row in starts:
        while ended < len(ends) and ends[ended][0] <= start_s[row]:
            end, other = ends[ended]
            if start_s[other] < end:
                free.give_back(spans[other])
            ended += 1
        spans[row] = free.take(count[row])
        if end_s[row] == start_s[row]:  # held for no time: free again at once
            free.give_back(spans[row])
    return spans, free.used


def join_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return intervals sorted, those that touch or overlap made one."""
    joined: Spans = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def interval_text(spans: Iterable[tuple[int, int]]) -> str:
    """Return ``0-3 5 8-9``: Batsim's text of an interval set."""
    return " ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans)
