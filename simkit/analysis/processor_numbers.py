"""Numbers for the processors of a pool, given after the fact, lowest free numbers first.

A pool counts processors and does not tell them apart; Gantt charts need to. Numbers are given in
order of start, so that no processor has two jobs at once. Each start takes the lowest free
numbers from a list of free intervals: the work is a sort, plus a step for each interval that a job
takes or gives back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run

Spans = list[tuple[int, int]]
"""Intervals of numbers, both ends included, ascending and apart."""


def processor_numbers(run: Run) -> dict[Any, str]:
    """Return job id → the processors that its last attempt held, as Batsim's interval text.

    Each start gets the lowest numbers that are free on its machine then: a processor never has two
    jobs at once, and a job gets as many numbers as it holds processors. The machines' numbers
    follow each other, from 0. A job whose instances start at different times has the numbers of
    all of them. If a placement holds a fraction of a processor, or none, processors cannot be
    numbered: the machines' ids stand in for them (Batsim's hosts).
    """
    resource = counted_resource(run.resources)
    request = run.scan("tasks").select("job_id", "task_id", pl.col(resource).alias("request"))
    held = run.scan("allocations").join(request, on=["job_id", "task_id"], how="left")
    held = held.with_columns((pl.col("count") * pl.col("request")).alias("amount"))
    last = pl.col("attempt") == pl.col("attempt").max().over("job_id")
    order = ("start_time_s", "job_id", "task_id", "first_instance")
    rows = held.with_columns(last.alias("last")).sort(order, maintain_order=True).collect()
    amount = rows["amount"].to_numpy()
    spans: dict[Any, Spans] = defaultdict(list)
    if np.all((amount >= 1) & (amount == np.floor(amount))):
        for job, numbers in _numbered(run, rows, resource):
            spans[job] += numbers
    else:
        for job, machine in rows.filter("last").select("job_id", "machine_id").iter_rows():
            spans[job].append((machine, machine))
    return {job: interval_text(join_spans(numbers)) for job, numbers in spans.items()}


def _numbered(run: Run, rows: pl.DataFrame, resource: str) -> Iterator[tuple[Any, Spans]]:
    """Yield each job's numbers in its last attempt, machine after machine."""
    capacity = {m["id"]: m["capacity"].get(resource, 0) for m in run.machines}
    groups = {key[0]: group for key, group in rows.group_by("machine_id", maintain_order=True)}
    first = 0
    for machine in sorted(capacity.keys() | groups.keys()):
        used = 0
        if machine in groups:
            group = groups[machine]
            start, end = (group[name].to_list() for name in ("start_time_s", "end_time_s"))
            spans, used = number_processors(start, end, [int(n) for n in group["amount"]])
            for job, last, numbers in zip(group["job_id"], group["last"], spans, strict=True):
                if last:
                    yield job, [(first + a, first + b) for a, b in numbers]
        first += max(used, int(capacity.get(machine, 0)))


class _FreeNumbers:
    """The free numbers, at first 0, 1, 2, … without end, as intervals."""

    def __init__(self) -> None:
        self._first = [0]
        self._last: list[float] = [float("inf")]
        self.used = 0
        """The highest number ever taken, plus 1."""

    def take(self, count: int) -> Spans:
        """Take the lowest `count` free numbers."""
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
        """Return numbers, joining intervals that touch."""
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
    """Return the numbers of each allocation's processors, and how many numbers are used in all.

    Ends come before starts at one instant, so numbers pass from one job to the next.

    Args:
        start_s: (n,) start of each allocation, in s.
        end_s: (n,) its end; None while it runs.
        count: (n,) its processors.
    """
    free = _FreeNumbers()
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
    """Return intervals sorted, and merged if they touch or overlap."""
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
