"""Writes a workload as an SWF log, with what a simulation found out about its jobs if wanted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces.columns import SWF
from simkit.traces.files import written_whole
from simkit.workload import Workload
from simkit.workload.workload import JOB_COLUMNS

_ROWS_AT_ONCE = 50_000
_RESULTS = {
    "wait_time_s": "wait",
    "run_time_s": "run",
    "status": "status",
    "cpu_time_s": "cpu_time",
    "used_memory_kb": "memory",
    "requested_processors": "requested",
    "requested_memory_kb": "requested_memory",
}
"""Columns of results → SWF's fields."""
_NAMED = {"queue": "Queue", "partition": "Partition"}
"""Job columns whose names go to the header → its key. Users stay numbers."""


def write_swf(
    target: str | PathLike[str] | BinaryIO,
    workload: Workload,
    *,
    results: Mapping[str, npt.ArrayLike] | None = None,
    header: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
) -> None:
    """Write a workload of rigid jobs as an SWF log.

    A file appears under its name only when it is complete; a name ending in ``.gz`` is gzipped.
    `read_swf` gives the same workload back (with ``requested_time="raw"`` and
    ``keep_zero_run=True``, if requested times are missing or too short, or run times are 0).
    Whole numbers are written without decimals, others with all their digits. Job ids that are
    text are replaced by the jobs' ranks 1, 2, …. Users, groups, … that have names (`labels`) are
    numbered from 1, as SWF has it; the header tells the names of queues and partitions. A job's
    preceding job and think time go to fields 17 and 18; for release times there is no field, and a
    note counts them.

    Args:
        target: a path, or a binary stream that stays open.
        workload: J jobs of one task each, in whole processors.
        results: (J,) columns of a simulation or a log, NaN where unknown: ``wait_time_s``,
            ``run_time_s`` (instead of the workload's), ``status`` (SWF: 1 completed, 0 failed, 5
            cancelled), ``requested_processors`` (instead of the workload's), and for each
            processor ``cpu_time_s``, ``used_memory_kb``, ``requested_memory_kb``.
        header: further header entries, e.g. ``{"Computer": "…"}``.
        notes: lines for the header's Note entries.

    Raises TraceError for jobs that SWF cannot hold, or if the file cannot be written.
    """
    _refuse_unfit(workload)
    found = _checked(results or {}, len(workload))
    lines = _header(workload, header or {}, notes)
    if isinstance(target, (str, PathLike)):
        with written_whole(Path(target)) as stream:
            stream.writelines(_text(workload, found, lines))
    else:
        target.writelines(_text(workload, found, lines))


def number_text(values: Floats) -> pl.Series:
    """Return numbers as text: whole without decimals, NaN and infinity as -1, others in full."""
    values = np.where(np.isfinite(values), values, -1.0)
    whole = (values == np.floor(values)) & (np.abs(values) < 2.0**53)
    column = pl.Series(np.where(whole, values, 0.0).astype(np.int64)).cast(pl.String)
    if whole.all():
        return column
    return column.zip_with(pl.Series(whole), pl.Series(values).cast(pl.String))


def _refuse_unfit(workload: Workload) -> None:
    if workload.tasks != len(workload) or len(workload.resources) != 1:
        raise TraceError(
            f"workload: {counted(workload.tasks, 'task')} in {counted(len(workload), 'job')}, "
            f"resources {', '.join(workload.resources)}; SWF has one task a job and one resource, "
            "so write Parquet instead"
        )
    size = workload.job_request()[:, 0]
    if (broken := size != np.floor(size)).any():
        job = int(np.flatnonzero(broken)[0])
        raise TraceError(
            f"workload: job {workload.job_id[job]} asks for {size[job]:g} "
            f"{workload.resources[0]}, SWF has whole processors; round them first"
        )
    if (several := np.flatnonzero(np.diff(workload.first_predecessor) > 1)).size:
        job = int(several[0])
        raise TraceError(
            f"workload: job {workload.job_id[job]} waits for several jobs, SWF has one preceding "
            "job; take the others out first"
        )
    if len(workload) and workload.submit_time_s[0] < 0:
        raise TraceError(
            f"workload: job {workload.job_id[0]} is submitted at {workload.submit_time_s[0]:g} s, "
            "SWF has no negative times; shift them to start at 0"
        )


def _checked(results: Mapping[str, npt.ArrayLike], jobs: int) -> dict[str, Floats]:
    """Return the result columns under SWF's names."""
    found = {}
    for name, values in results.items():
        column = np.asarray(values, dtype=np.float64)
        if name not in _RESULTS or column.shape != (jobs,):
            raise TraceError(
                f"results: {name} of shape {column.shape}; SWF takes {', '.join(_RESULTS)}, each "
                f"of shape ({jobs},)"
            )
        found[_RESULTS[name]] = column
    return found


def _header(workload: Workload, header: Mapping[str, str], notes: Iterable[str]) -> str:
    epoch = workload.epoch_s
    entries = {
        "Version": "2.2",
        "MaxJobs": str(len(workload)),
        "MaxRecords": str(len(workload)),
        "UnixStartTime": "0" if math.isnan(epoch) else f"{epoch:.17g}",
    }
    if workload.time_zone:
        entries["TimeZoneString"] = workload.time_zone
    if size := workload.capacity.get(workload.resources[0]):
        entries |= {"MaxNodes": f"{size:.17g}", "MaxProcs": f"{size:.17g}"}
    lines = [f"{key}: {value}" for key, value in (entries | dict(header)).items()]
    for column, key in _NAMED.items():
        names = workload.labels.get(column, ())
        lines += [f"{key}: {number} {name}" for number, name in enumerate(names, 1)]
    lines += [f"Note: {note}" for note in notes]
    if late := int((workload.release_time_s > workload.submit_time_s).sum()
                   if len(workload.release_time_s) else 0):  # fmt: skip
        lines.append(f"Note: {counted(late, 'job')} had a release time, for which SWF has no field")
    if endless := int(np.isinf(workload.requested_time_s).sum()):
        lines.append(f"Note: {counted(endless, 'job')} had no time limit, which SWF cannot say: -1")
    if workload.job_id.dtype.kind not in "iu":
        lines.append("Note: the trace's job ids are text; jobs are numbered by rank of submission")
    return "".join("; " + " ".join(line.split()) + "\n" for line in lines)


def _text(workload: Workload, found: Mapping[str, Floats], header: str) -> Iterator[bytes]:
    yield header.encode()
    for first in range(0, len(workload), _ROWS_AT_ONCE):
        rows = slice(first, min(first + _ROWS_AT_ONCE, len(workload)))
        frame = _frame(workload, found, rows)
        yield frame.write_csv(separator=" ", include_header=False, quote_style="never").encode()


def _frame(workload: Workload, found: Mapping[str, Floats], rows: slice) -> pl.DataFrame:
    job = workload.job_id[rows]
    if job.dtype.kind not in "iu":
        job = np.arange(rows.start + 1, rows.stop + 1)
    size = workload.instances[rows] * workload.request[rows, 0]
    columns = {
        "job": pl.Series(job).cast(pl.String),
        "submit": number_text(workload.submit_time_s[rows]),
        "run": number_text(workload.run_time_s[rows]),
        "allocated": number_text(size),
        "requested": number_text(size),
        "requested_time": number_text(workload.requested_time_s[rows]),
    }
    columns |= {name: pl.Series(_numbers(workload, name, rows)) for name in JOB_COLUMNS}
    columns |= _preceding(workload, rows)
    columns |= {name: number_text(column[rows]) for name, column in found.items()}
    return pl.select(
        [
            columns[name].alias(name) if name in columns else pl.lit("-1").alias(name)
            for name in SWF.names
        ]
    )


def _preceding(workload: Workload, rows: slice) -> dict[str, pl.Series]:
    """Return fields 17 and 18 of jobs with at most one preceding job each."""
    if not len(workload.predecessor):
        return {}
    first = workload.first_predecessor
    before, think = np.full((2, len(workload)), np.nan)
    job = np.repeat(np.arange(len(workload)), np.diff(first))
    ids = workload.job_id if workload.job_id.dtype.kind in "iu" else np.arange(len(workload)) + 1
    before[job], think[job] = ids[workload.predecessor], workload.think_time_s
    return {"previous_job": number_text(before[rows]), "think_time": number_text(think[rows])}


def _numbers(workload: Workload, name: str, rows: slice) -> Ints:
    """Return the numbers of users, queues, …, from 1 where they stand for names; -1 unknown."""
    numbers: Ints = getattr(workload, name)[rows]
    return np.where(numbers >= 0, numbers + 1, numbers) if name in workload.labels else numbers
