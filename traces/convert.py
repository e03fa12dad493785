"""Converts logs of any format to SWF and cleans SWF logs, keeping all that SWF has a field for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.scenario.workload import TraceFormat
from simkit.text import counted
from simkit.traces.columns import SWF
from simkit.traces.files import written_whole
from simkit.traces.rigid_jobs import Column, KeptJobs, RigidJobs
from simkit.traces.rules import BadLines, Tally, refuse_empty
from simkit.traces.sacct import SacctLog
from simkit.traces.swf import SwfBlock, SwfHeader, SwfLog, links_of, swf_blocks
from simkit.traces.swf.writer import number_text, write_swf
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

    Recorded waits go to field 3; from sacct's output the status, processor time, memory and
    requested processors go to their fields, too. Users, accounts, job names, QOS and partitions
    that are names become 1, 2, … in order of appearance. An SWF log keeps its header and all
    fields, as `clean_swf` does it.

    Args:
        log: the log to convert.
        target: where the SWF log goes; ``.gz`` is gzipped. It may be the log itself only for SWF.
        machine_processors: the machine's size, for MaxProcs. Without it an SWF log keeps what its
            header says, and another log gets the largest number of processors used at once (noted
            in the header), or none if it does not tell when its jobs started.

    Raises TraceError if the log cannot be read or does not fit SWF, or `target` cannot be written.
    """
    source, target = Path(log.path), Path(target)
    if isinstance(log, SwfLog):
        return Converted(clean_log(log, target, machine_processors=machine_processors))
    if target.exists() and source.exists() and target.samefile(source):
        raise TraceError(
            f"{target}: is the log itself, and SWF would take its place; choose another file"
        )
    trace, results = log.swf_fields() if isinstance(log, SacctLog) else _with_waits(log)
    if not trace.workload.gang.all():
        raise TraceError(
            f"{source}: this is a trace of tasks on machines, and SWF holds rigid jobs alone"
        )
    return _write(log, target, trace, results, machine_processors)


def _with_waits(log: TraceFormat) -> tuple[Trace, dict[str, Floats]]:
    """Return the trace, and the waits of its jobs that the log records; a negative one is none."""
    trace, past = log.recorded()
    wait_s = past.start_s - trace.workload.submit_time_s
    return trace, {"wait_time_s": np.where(wait_s >= 0, wait_s, np.nan)}


def _write(
    log: TraceFormat,
    target: Path,
    trace: Trace,
    results: Mapping[str, Floats],
    machine: int | None,
) -> Converted:
    remarks: tuple[str, ...] = ()
    if machine is None:
        machine = _most_at_once(trace.workload, results["wait_time_s"])
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


def _most_at_once(workload: Workload, wait_time_s: Floats) -> int | None:
    """Return the most processors in use at once; None if no job's wait is known."""
    past = Recorded.started(workload, workload.submit_time_s + wait_time_s)
    peak = past.peak(workload.resources[0])
    if peak is None:
        return None
    return int(max(peak.amount, workload.job_request()[:, 0].max()))  # jobs of unknown starts, too


def clean_swf(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    machine_processors: int | None = None,
    **arguments: Any,
) -> RowReport:
    """Write the jobs of a log as a log that needs no repair any more.

    The rows are sorted by (submit time, job id). A row keeps its 18 fields as they are written,
    but for the repairs: the processors that count go to field 5, the requested time to field 9.
    The header is kept, with a note for every rule that was met. The kept rows are held in memory
    as text until all are read.

    Args:
        source: the log to clean.
        target: where the clean one goes; it may be `source`. ``.gz`` is gzipped.
        machine_processors: the machine's size, instead of the header's MaxProcs.
        arguments: the fields of `SwfLog`, as for `read_swf`.

    Returns:
        The report of the rows, as `read_swf` returns it.

    Raises TraceError if `source` is not an SWF log or has no jobs, or `target` cannot be written.
    """
    log = SwfLog.of(path=source, **arguments)
    return clean_log(log, Path(target), machine_processors=machine_processors)


def clean_log(log: SwfLog, target: Path, *, machine_processors: int | None = None) -> RowReport:
    """Write the jobs of a log as `clean_swf` does."""
    source = Path(log.path)
    tally, header, jobs, pieces = Tally(), SwfHeader(), RigidJobs(), list[bytes]()
    bad, left_out = BadLines(source, log.on_error), set[int]()
    for block in swf_blocks(source, header, bad):
        kept = log.judge_block(block, tally)
        if len(kept.row) < len(block.line):
            left_out.update(np.delete(block.values["job"], kept.row).tolist())
        if len(kept.row):
            jobs.add(_order_columns(block, kept))
            pieces.append(_repaired(block, kept, log))
    bad.settle(tally)
    refuse_empty(source, tally, len(jobs))
    if machine_processors is not None:
        header.replace("MaxProcs", str(machine_processors))
    jobs.note_oddities(tally, header.capacity)
    links_of(jobs, left_out, tally)  # its notes alone: the fields are kept as they are
    rows = _in_order(pieces, jobs.order())
    with written_whole(target) as stream:
        stream.writelines(line + b"\n" for line in header.lines)
        stream.writelines(
            f"; Note: {note}\n".encode() for note in notes_of(tally.report, log.meanings)
        )
        stream.writelines(rows)
    return tally.report


def _order_columns(block: SwfBlock, kept: KeptJobs) -> dict[str, Column]:
    names = ("job", "submit", "run", "previous_job", "think_time")
    columns = {name: block.values[name][kept.row] for name in names}
    return columns | {
        "line": block.line[kept.row].astype(np.float64),
        "processors": kept.processors,
        "requested_time": kept.requested_time,
    }


def _repaired(block: SwfBlock, kept: KeptJobs, log: SwfLog) -> bytes:
    """Return the kept rows as text, with the repaired values where they differ."""
    frame = pl.read_csv(
        block.text,
        has_header=False,
        separator=" ",
        quote_char=None,
        schema=dict.fromkeys(SWF.names, pl.String),
    )[kept.row]
    new = {"allocated": kept.processors}
    if log.requested_time == "max":
        new["requested_time"] = kept.requested_time
    columns = []
    for name, values in new.items():
        changed = pl.Series((block.values[name][kept.row] != values) | np.isinf(values))
        columns.append(number_text(values).zip_with(changed, frame[name]).alias(name))
    return (
        frame.with_columns(columns)
        .write_csv(separator=" ", include_header=False, quote_style="never")
        .encode()
    )


def _in_order(pieces: list[bytes], order: slice | np.ndarray) -> Iterator[bytes]:
    if isinstance(order, slice):
        yield from pieces
        return
    lines = b"".join(pieces).splitlines(keepends=True)
    yield from (lines[row] for row in order)


def notes_of(report: RowReport, meanings: Mapping[str, str]) -> Iterator[str]:
    """Yield what was done to the rows, rule by rule, for a header's Note entries."""
    yield f"cleaned by simkit, {report.jobs:,} of {counted(report.read, 'row')} kept"
    for rule, count in report.counts():
        yield f"{rule}, {counted(count, 'row')}. {meanings.get(rule, '')}"
