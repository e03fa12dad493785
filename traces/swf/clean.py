"""Cleans an SWF log: the rows that the rules accept, with their repairs, all 18 fields kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.text import counted
from simkit.traces.bad_lines import BadLines
from simkit.traces.files import written_whole
from simkit.traces.rigid_jobs import Column, KeptJobs, RigidJobs
from simkit.traces.rules import Tally
from simkit.traces.swf import SwfLog, links_of, refuse_empty
from simkit.traces.swf.blocks import FIELDS, SwfBlock, SwfHeader, swf_blocks
from simkit.traces.swf.writer import number_text
from simkit.workload import RowReport


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
        schema=dict.fromkeys(FIELDS, pl.String),
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
