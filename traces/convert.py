"""Converts logs of any format to SWF, keeping all that SWF has a field for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.scenario.workload import TraceFormat
from simkit.traces.sacct import SacctLog
from simkit.traces.swf import SwfLog
from simkit.traces.swf.clean import clean_log, notes_of
from simkit.traces.swf.writer import write_swf
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.recorded import Recorded


@dataclass(frozen=True)
class Converted:
    """The result of a conversion."""

    report: RowReport
    """What was done to the log's rows."""
    remarks: tuple[str, ...] = ()
    """What its user should know of the machine's size."""


def convert_log(
    log: TraceFormat, target: str | PathLike[str], *, machine_processors: int | None = None
) -> Converted:
    """Write a log as an SWF log that needs no repair any more.

    From sacct's output the wait, status, processor time, memory and requested processors go to
    their SWF fields, and users, accounts, job names, QOS and partitions become 1, 2, … in order of
    appearance. An SWF log keeps its header and all fields, as `clean_swf` does it.

    Args:
        log: the log to convert.
        target: where the SWF log goes; ``.gz`` is gzipped. It may be the log itself only for SWF.
        machine_processors: the machine's size, for MaxProcs. Without it an SWF log keeps what its
            header says, sacct's output gets the largest number of processors used at once (noted
            in the header), and another log, which does not tell when its jobs started, gets none.

    Raises TraceError if the log cannot be read or does not fit SWF, or `target` cannot be written.
    """
    source, target = Path(log.path), Path(target)
    if isinstance(log, SwfLog):
        return Converted(clean_log(log, target, machine_processors=machine_processors))
    if target.exists() and source.exists() and target.samefile(source):
        raise TraceError(
            f"{target}: is the log itself, and SWF would take its place; choose another file"
        )
    trace, results = log.swf_fields() if isinstance(log, SacctLog) else (log.read(), {})
    if not trace.workload.gang.all():
        raise TraceError(
            f"{source}: this is a trace of tasks on machines, and SWF holds rigid jobs alone"
        )
    return _write(log, target, trace, results, machine_processors)


def _write(
    log: TraceFormat,
    target: Path,
    trace: Trace,
    results: Mapping[str, Floats],
    machine: int | None,
) -> Converted:
    remarks: tuple[str, ...] = ()
    if machine is None:
        machine = _most_at_once(trace.workload, results.get("wait_time_s"))
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
        notes=(
            f"converted by simkit from {Path(log.path).name}",
            *remarks,
            *notes_of(trace.report, log.meanings),
        ),
    )
    return Converted(trace.report, remarks)


def _most_at_once(workload: Workload, wait_time_s: Floats | None) -> int | None:
    """Return the most processors in use at once; None if no job's wait is known."""
    if wait_time_s is None:
        return None
    past = Recorded.started(workload, workload.submit_time_s + wait_time_s)
    peak = past.peak("processors")
    return None if peak is None else int(peak.amount)
