"""Dependencies between the tasks of a job: rows of slices, cycles, and critical paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.arrays import Floats, Ints


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
