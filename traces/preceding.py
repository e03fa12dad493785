"""Preceding jobs and release times of logs: from ids and times to a workload, by named rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.traces import rules
from simkit.traces.names import whole_numbers
from simkit.traces.rules import Tally
from simkit.traces.table_columns import TableColumns
from simkit.units import LONGEST_S
from simkit.workload.dependencies import Links

PRECEDING: Final = "preceding_job"
"""A table's column of text: ids of the jobs that precede a job, with ``;`` between them."""
_NOBODY: Final = ("", "-1", "-1.0")


def note_releases(tally: Tally, line: Ints, held_s: Floats) -> None:
    """Note the jobs that may not run from their submission on, and those released before it.

    Args:
        tally: counts them.
        line: (n,) the rows' lines.
        held_s: (n,) from submission to release, NaN where unknown.
    """
    tally.note(rules.RELEASED_LATER, line[held_s > 0])
    tally.note(rules.RELEASED_EARLY, line[held_s < 0])


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


def preceding_of_table(
    table: TableColumns, job_id: npt.NDArray[Any], tally: Tally, left_out: Collection[str | None]
) -> dict[str, Any]:
    """Return the fields of a workload that the columns of a table say precede its jobs.

    Args:
        table: J rows, one a job, sorted by submission; `PRECEDING` and ``think_time_s`` count,
            where an empty cell is none, and 0 s.
        job_id: (J,) whole numbers, or text.
        tally: counts jobs by rule.
        left_out: ids of jobs in rows that are no part of the workload, as text.
    """
    frame, size = table.frame, len(table)
    think, rows, wanted = np.zeros(size), np.empty(0, np.int64), pl.Series(dtype=pl.String)
    if "think_time_s" in frame:
        think = frame["think_time_s"].fill_null(0.0).to_numpy()
    if PRECEDING in frame:
        word = pl.element().str.strip_chars()
        lists = frame[PRECEDING].str.split(";").list.eval(word.filter(~word.is_in(_NOBODY)))
        rows = np.repeat(np.arange(size), lists.list.len().fill_null(0).to_numpy())
        wanted = lists.explode().drop_nulls()
    named = np.zeros(size, dtype=bool)
    named[rows] = True
    tally.note(rules.ONLY_THINK_TIME, np.sort(table.line[~named & (think > 0)]))
    others = pl.Series(sorted(word for word in left_out if word is not None), dtype=pl.String)
    if job_id.dtype.kind == "i":  # what is no whole number is the id of none
        known = whole_numbers(wanted).fill_null(np.iinfo(np.int64).min).to_numpy()
        gone = whole_numbers(others).drop_nulls().to_list()
    else:
        known, gone = _as_named(wanted, [*job_id, *others]), others.to_list()
    return preceding_jobs(job_id, table.line, rows, known, think[rows], tally, gone)


def _as_named(wanted: pl.Series, names: Sequence[str]) -> npt.NDArray[Any]:
    """Return ids as jobs have them that are text: 1.0 stands for 1 if no job is called 1.0."""
    plain = whole_numbers(wanted).cast(pl.String)
    other = (plain != wanted).fill_null(value=False)
    if other.any():
        other &= ~wanted.is_in(names)
        wanted = wanted.set(other, None).fill_null(plain)
    return wanted.to_numpy().astype(object)
