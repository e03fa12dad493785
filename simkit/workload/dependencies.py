"""Dependencies: parents of the tasks of a job, and jobs that precede others, with think times.

A preceding job holds a job back as long as it has not ended, and its user for the think time after
that: fields 17 and 18 of the Standard Workload Format (Chapin, Cirne, Feitelson, Jones,
Leutenegger, Schwiegelshohn, Smith and Talby, "Benchmarks and standards for the evaluation of
parallel job schedulers", 1999). A link is one preceding job of one job; a job may have several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.units import LONGEST_S


def slices(first: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the offsets and the positions of some rows of a column of slices.

    Args:
        first: (n + 1,) offsets; row i owns the positions ``first[i]:first[i + 1]``.
        rows: (m,) rows wanted, in any order, also repeated.

    Returns:
        (m + 1,) the offsets of the rows wanted, and the positions that they own, row by row.
    """
    counts = np.diff(first)[rows]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return offsets, np.repeat(first[:-1][rows] - offsets[:-1], counts) + np.arange(offsets[-1])


def find_cycles(first_parent: Ints, parent: Ints, group: Ints) -> list[Sequence[int]]:
    """Return a cycle of each group of rows that has one: rows, each a parent of the next.

    Tasks all of whose parents are out of the way are taken away until none is left (Kahn,
    "Topological sorting of large networks", 1962). What is left has a parent that is left, so
    that following parents must come back to where it was.

    Args:
        first_parent: (T + 1,) offsets into `parent`.
        parent: rows of tasks of the same group.
        group: (T,) number of the group that each row belongs to, such as its job.
    """
    if not len(parent):
        return []
    missing = np.diff(first_parent)
    child = np.repeat(np.arange(len(missing)), missing)
    order = np.argsort(parent, kind="stable")
    children, first_child = (
        child[order],
        np.searchsorted(parent[order], np.arange(len(missing) + 1)),
    )
    left = missing.tolist()
    free = [row for row, count in enumerate(left) if not count]
    while free:
        row = free.pop()
        for after in children[first_child[row] : first_child[row + 1]].tolist():
            left[after] -= 1
            if not left[after]:
                free.append(after)
    stuck = np.flatnonzero(left)
    _, firsts = np.unique(group[stuck], return_index=True)
    begins = stuck[np.sort(firsts)].tolist()
    return [_walk_back(row, left, first_parent, parent) for row in begins]


def _walk_back(row: int, left: Sequence[int], first_parent: Ints, parent: Ints) -> Sequence[int]:
    path: dict[int, int] = {}
    while row not in path:
        path[row] = len(path)
        parents = parent[first_parent[row] : first_parent[row + 1]].tolist()
        row = next(above for above in parents if left[above])
    return list(path)[path[row] :][::-1]


def critical_path_s(
    first_task: Ints, first_parent: Ints, parent: Ints, run_time_s: Floats
) -> Floats:
    """Return (J,): the time in s that each job takes if none of its tasks ever waits.

    Args:
        first_task: (J + 1,) offsets; job j has the tasks ``first_task[j]:first_task[j + 1]``.
        first_parent: (T + 1,) offsets into `parent`.
        parent: rows of tasks that must have ended before a task starts; there is no cycle.
        run_time_s: (T,) how long each task runs.
    """
    path = run_time_s
    child = parent  # none, as nearly always
    if len(parent):
        child = np.repeat(np.arange(len(first_parent) - 1), np.diff(first_parent))
    while len(child):
        longer = run_time_s.copy()
        np.maximum.at(longer, child, run_time_s[child] + path[parent])
        if np.array_equal(longer, path):
            break
        path = longer
    return path if len(path) == len(first_task) - 1 else np.maximum.reduceat(path, first_task[:-1])


def link_problems(
    job_id: npt.NDArray[Any], first: Ints, predecessor: Ints, think_time_s: Floats
) -> list[str]:
    """Return what is wrong with the links of J jobs, in words.

    Args:
        job_id: (J,) ids, for messages.
        first: (J + 1,) offsets; job j has the links ``first[j]:first[j + 1]``.
        predecessor: (L,) rows of the preceding jobs.
        think_time_s: (L,) seconds from a preceding job's end until the job may run.
    """
    jobs, links = len(job_id), len(predecessor)
    if first.shape != (jobs + 1,):
        return [f"first_predecessor has shape {first.shape}, expected ({jobs + 1},)"]
    if first[0] != 0 or first[-1] != links or (np.diff(first) < 0).any():
        return ["first_predecessor must rise from 0 to the number of predecessors"]
    if think_time_s.shape != (links,):
        return [f"think_time_s has shape {think_time_s.shape}, expected ({links},)"]
    if not ((think_time_s >= 0) & (think_time_s <= LONGEST_S)).all():
        return ["think times must be at least 0 and at most 2**32 s"]
    if not ((predecessor >= 0) & (predecessor < jobs)).all():
        return ["predecessors must be rows of jobs"]
    for cycle in find_cycles(first, predecessor, np.zeros(jobs, np.int64)):
        names = " -> ".join(str(job_id[row]) for row in (*cycle, cycle[0]))
        return [f"jobs wait for each other: {names}; take one of these dependencies out"]
    return []


@dataclass(frozen=True)
class Links:
    """Links under construction, (L,) each, in order of their jobs' rows."""

    job: Ints
    """Row of the job that waits."""
    predecessor: Ints
    """Row of the job that precedes it; -1 where there is no job of that id."""
    think_time_s: Floats

    @classmethod
    def by_id(
        cls,
        job_id: npt.NDArray[Any],
        job: Ints,
        wanted: npt.NDArray[Any],
        think_time_s: Floats,
    ) -> Links:
        """Find preceding jobs by their ids.

        Where several jobs have the id, the last one before the job that waits is meant.

        Args:
            job_id: (J,) ids of all jobs, sorted by submission.
            job: (L,) rows of the jobs that wait, ascending.
            wanted: (L,) ids of their preceding jobs, of the same type as `job_id`.
            think_time_s: (L,) seconds.
        """
        if not len(job_id):
            return cls(job, np.full(len(job), -1), think_time_s)
        known, number = np.unique(job_id, return_inverse=True)
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        exists = known[found] == wanted
        size = len(job_id)
        by_number = np.sort(number * size + np.arange(size))  # by (id, row)
        before = np.searchsorted(by_number, found * size + job) - 1
        other = (before < 0) | (by_number[before] // size != found)
        rows = by_number[np.minimum(before + other, size - 1)] % size
        return cls(job, np.where(exists, rows, -1), think_time_s)

    def in_loops(self, jobs: int) -> Bools:
        """Return (L,) the links of loops from a job to itself or a later one: without them no loop.

        Args:
            jobs: how many there are.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        backward = (self.predecessor >= 0) & (self.predecessor < self.job)
        if (backward | (self.predecessor < 0)).all():
            return np.zeros(len(self.job), dtype=bool)
        known = self.predecessor >= 0
        ends = self.predecessor[known], self.job[known]
        graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(jobs, jobs)).tocsr()
        loop = connected_components(graph, connection="strong")[1]
        together: Bools = known & (loop[self.predecessor] == loop[self.job])
        return together & (self.predecessor >= self.job)

    def of(self, kept: Bools) -> Links:
        """Return some of the links."""
        return Links(self.job[kept], self.predecessor[kept], self.think_time_s[kept])

    def columns(self, jobs: int) -> dict[str, Any]:
        """Return the fields of a workload of J jobs; empty if there is no link."""
        if not len(self.job):
            return {}
        counts = np.bincount(self.job, minlength=jobs)
        return {
            "first_predecessor": np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            "predecessor": self.predecessor,
            "think_time_s": self.think_time_s,
        }


def taken_links(
    first: Ints, predecessor: Ints, think_time_s: Floats, rows: Ints, copy: Ints | None
) -> dict[str, Any]:
    """Return the links between some of the jobs, by their new rows.

    A job that is not among them precedes nobody: it is taken as ended before they come.

    Args:
        first: (J + 1,) offsets.
        predecessor: (L,) rows.
        think_time_s: (L,) seconds.
        rows: (n,) rows of the jobs in their new order.
        copy: (n,) which copy of the workload each of them belongs to: links stay within a copy.
            None: a job's first occurrence belongs to the first copy, its second to the second, ….
    """
    rows = np.asarray(rows)
    copy = _nth(rows) if copy is None else copy
    offsets, positions = slices(first, rows)
    job = np.repeat(np.arange(len(rows)), np.diff(offsets))
    jobs = len(first) - 1
    here = copy * jobs + rows
    order = np.argsort(here, kind="stable")
    wanted = copy[job] * jobs + predecessor[positions]
    at = np.minimum(np.searchsorted(here[order], wanted), max(len(rows) - 1, 0))
    kept = here[order][at] == wanted if len(rows) else np.zeros(0, dtype=bool)
    links = Links(job, order[at] if len(rows) else at, think_time_s[positions]).of(kept)
    return links.columns(len(rows))


def _nth(rows: Ints) -> Ints:
    """Return how often each number has come before: (n,)."""
    order = np.argsort(rows, kind="stable")
    begins = np.flatnonzero(np.diff(rows[order], prepend=rows[order][:1] - 1))
    nth = np.empty(len(rows), np.int64)
    nth[order] = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    return nth
