"""Converts logs of any format to SWF, keeping all that SWF has a field for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError, did_you_mean
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.sacct.usage import read_sacct_usage
from simkit.traces.swf.clean import clean_swf, notes_of
from simkit.traces.swf.writer import write_swf
from simkit.workload import RowReport, Trace, Workload

FORMATS: Final = ("swf", "sacct", "jobs")
"""The formats that can be converted."""


@dataclass(frozen=True)
class Converted:
    """What came of a conversion."""

    report: RowReport
    """What became of the log's rows."""
    remarks: tuple[str, ...] = ()
    """What its user should know of the machine's size."""


def convert_log(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    kind: str,
    machine_processors: int | None = None,
    keep_zero_run: bool = False,
    time_zone: str | None = None,
) -> Converted:
    """Write a log as an SWF log that needs no repair any more.

    From sacct's output the wait, status, processor time, memory and requested processors go to
    their SWF fields, and users, accounts, job names, QOS and partitions become 1, 2, … in order of
    appearance. An SWF log keeps its header and all fields, as `clean_swf` does it.

    Args:
        source: the log to convert.
        target: where the SWF log goes; ``.gz`` is gzipped. It may be `source` only for SWF.
        kind: the format of `source`, one of `FORMATS`.
        machine_processors: the machine's size, for MaxProcs. Without it an SWF log keeps what its
            header says, sacct's output gets the largest number of processors used at once (noted
            in the header), and a table of jobs, which does not tell their starts, gets none.
        keep_zero_run: keep jobs with a run time of 0.
        time_zone: IANA name of the zone in which sacct printed its times; None: UTC.

    Raises TraceError if the log cannot be read or does not fit SWF, or `target` cannot be written.
    """
    source, target = Path(source), Path(target)
    _refuse(source, target, kind, time_zone)
    if kind == "swf":
        report = clean_swf(
            source, target, keep_zero_run=keep_zero_run, machine_processors=machine_processors
        )
        return Converted(report)
    results: Mapping[str, Floats] = {}
    if kind == "sacct":
        trace, results = read_sacct_usage(source, time_zone=time_zone, keep_zero_run=keep_zero_run)
    else:
        trace = read_jobs_table(source)
    return _write(source, target, trace, results, machine_processors)


def _refuse(source: Path, target: Path, kind: str, time_zone: str | None) -> None:
    """Raise TraceError for what cannot be meant."""
    if kind not in FORMATS:
        raise TraceError(f"kind: {kind!r} is no format of logs{did_you_mean(kind, FORMATS)}")
    if time_zone is not None and kind != "sacct":
        raise TraceError(
            f"{source}: a time zone is given, but only the times of sacct need one, not those of "
            f"{kind}; leave it out"
        )
    if kind != "swf" and target.exists() and source.exists() and target.samefile(source):
        raise TraceError(
            f"{target}: is the log itself, and SWF would take its place; choose another file"
        )


def _write(
    source: Path, target: Path, trace: Trace, results: Mapping[str, Floats], machine: int | None
) -> Converted:
    remarks: tuple[str, ...] = ()
    if machine is None:
        wait = results.get("wait_time_s")
        machine = None if wait is None else most_at_once(trace.workload, wait)
        remarks = (
            "MaxProcs is unknown, as the log does not tell when its jobs started"
            if machine is None
            else f"MaxProcs {machine} is the largest number of processors used at once in the log; "
            "the machine may have more",
        )
    write_swf(
        target,
        trace.workload,
        results=results,
        header={} if machine is None else {"MaxProcs": str(machine)},
        notes=(f"converted by simkit from {source.name}", *remarks, *notes_of(trace.report)),
    )
    return Converted(trace.report, remarks)


def most_at_once(workload: Workload, wait_time_s: Floats) -> int | None:
    """Return the largest number of processors that were in use at one instant.

    Args:
        workload: J rigid jobs.
        wait_time_s: (J,) seconds from submission to start, NaN where unknown: such jobs do not
            count. What ends at an instant has left before others start.

    Returns:
        The number; None if no job's start is known.
    """
    known = np.flatnonzero(np.isfinite(wait_time_s))
    if not len(known):
        return None
    start = workload.submit_time_s[known] + wait_time_s[known]
    size = workload.job_request()[known, 0]
    time = np.concatenate((start + workload.run_time_s[known], start))
    change = np.concatenate((-size, size))
    order = np.lexsort((change, time))  # at one instant, ends first
    return int(np.cumsum(change[order]).max())
