"""Preceding jobs and release times of logs: from ids and times to a workload, by named rules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.traces import rules
from simkit.traces.rules import Tally
from simkit.units import LONGEST_S
from simkit.workload.predecessors import Links


def note_releases(tally: Tally, line: Ints, held_s: Floats) -> None:
    """Note the jobs that may not run from their submission on; `held_s`: (n,) how long not."""
    tally.note(rules.RELEASED_LATER, line[held_s > 0])


def preceding_jobs(
    job_id: npt.NDArray[Any],
    line: Ints,
    job: Ints,
    wanted: npt.NDArray[Any],
    think_time_s: Floats,
    tally: Tally,
    left_out: Collection[Any] = (),
) -> dict[str, Any]:
    """Return the fields of a workload that say which jobs precede others.

    A link that cannot be is left out and noted: its job does not wait. A job that comes later may
    precede one, unless the two are in a loop.

    Args:
        job_id: (J,) ids of all jobs, sorted by submission.
        line: (J,) their lines in the log.
        job: (L,) rows of jobs that name a preceding one, ascending.
        wanted: (L,) the ids that they name, of the type of `job_id`.
        think_time_s: (L,) seconds; NaN, negative or endless: unknown, 0 is taken.
        tally: counts jobs by rule.
        left_out: ids of jobs in rows that are no part of the workload.
    """
    known = (think_time_s >= 0) & (think_time_s <= LONGEST_S)
    links = Links.by_id(job_id, job, wanted, np.where(known, think_time_s, 0.0))
    missing = links.predecessor < 0
    dropped = missing & np.isin(wanted, list(left_out)) if missing.any() else missing
    itself = links.predecessor == job
    loop = links.in_loops(len(job_id)) & ~itself
    kept = ~(missing | itself | loop)
    for rule, rows in {
        rules.PRECEDING_LEFT_OUT: dropped,
        rules.PRECEDING_UNKNOWN: missing & ~dropped,
        rules.PRECEDING_ITSELF: itself,
        rules.PRECEDING_LOOP: loop,
        rules.PRECEDING_LATER: kept & (links.predecessor > job),
        rules.NO_THINK_TIME: kept & ~known,
        rules.PRECEDED: kept,
    }.items():
        tally.note(rule, np.sort(line[np.unique(job[rows])]))
    return links.of(kept).columns(len(job_id))
