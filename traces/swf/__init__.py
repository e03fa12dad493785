"""The Standard Workload Format (SWF): reads logs of the Parallel Workloads Archive.

The format is that of Chapin, Cirne, Feitelson, Jones, Leutenegger, Schwiegelshohn, Smith and
Talby, "Benchmarks and standards for the evaluation of parallel job schedulers" (1999).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from simkit.traces import rules
from simkit.traces.columns import SWF
from simkit.traces.oddities import note_early_starts
from simkit.traces.rigid_jobs import Column, KeptJobs, RawJobs, RigidJobs, RigidLog, preceding_jobs
from simkit.traces.rules import NO_ID, BadLines, Tally, refuse_empty
from simkit.traces.swf.blocks import SwfBlock, SwfHeader, swf_blocks
from simkit.traces.swf.writer import write_swf
from simkit.workload import Trace, Workload
from simkit.workload.recorded import Recorded
from simkit.workload.workload import JOB_COLUMNS

__all__ = ["read_swf", "write_swf"]

FIRST_ABSOLUTE_S = 1e9
"""A log whose first submit is at or after this (September 2001) counts from the Unix epoch."""
PARTS: Final = (2.0, 3.0, 4.0)
"""Statuses of one burst of a job that was swapped out: to be continued, or the last one."""
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan", re.IGNORECASE)


class SwfLog(RigidLog):
    """A log in the Standard Workload Format."""

    suffixes = (".swf",)

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether the first line is a comment or begins with a number; or there is none."""
        fields = head.split()
        is_row = len(fields) > 1 and _NUMBER.fullmatch(fields[0]) is not None
        return not head or head.startswith(";") or is_row

    def source_of(self, resource: str) -> str:
        """Return what an SWF log leaves for gpus."""
        draw = "; value.gpu draws some" if resource == "gpu" else ""
        return f"an SWF log has processors alone{draw}"

    def read(self) -> Trace:
        """Read the log; see `read_swf`."""
        return self._scan()[0]

    def recorded(self) -> tuple[Trace, Recorded]:
        """Read the log with its waits (field 3)."""
        trace, fields = self._scan(("wait", "requested_time"))
        load, wait, limit = trace.workload, fields["wait"], fields["requested_time"]
        past = Recorded.started(load, np.where(wait >= 0, load.submit_time_s + wait, np.nan))
        return trace, replace(past, limit_s=np.where(limit > 0, limit, np.nan))

    def _scan(self, also: Sequence[str] = ()) -> tuple[Trace, dict[str, Column]]:
        """Read the log; return it, and fields as they stand there, in the workload's order."""
        path, tally, header, jobs = Path(self.path), Tally(), SwfHeader(), RigidJobs()
        bad, left_out = BadLines(path, self.on_error), set[int]()
        for block in swf_blocks(path, header, bad, also):
            kept = self.judge_block(block, tally)
            if len(kept.row) < len(block.line):
                left_out.update(np.delete(block.values["job"], kept.row).tolist())
            if len(kept.row):
                raw = {f"raw {name}": block.values[name][kept.row] for name in also}
                jobs.add(_columns(block, kept) | raw)
        bad.settle(tally)
        refuse_empty(path, tally, len(jobs))
        jobs.note_oddities(tally, header.capacity)
        links = links_of(jobs, left_out, tally)
        order = jobs.order()
        fields = {name: jobs.column(f"raw {name}")[order] for name in also}
        return Trace(_workload(jobs, header, tally, links), tally.report, (path,)), fields

    def judge_block(self, block: SwfBlock, tally: Tally) -> KeptJobs:
        """Apply the rules to a block of rows."""
        values = block.values
        names = ("job", "submit", "run", "allocated", "requested", "requested_time")
        tally.note(rules.EXTRA_FIELDS, block.longer)
        tally.unread(block.filled, SWF.holds)
        columns: dict[str, Any] = {name: values[name] for name in names}
        rows = RawJobs(block.line, **columns)
        parts = {rules.PART_OF_A_JOB: np.isin(values["status"], PARTS)}
        kept = self.judge(rows, tally, parts)
        wait = values["wait"][kept.row]
        note_early_starts(tally, block.line[kept.row], np.where(wait == -1, np.nan, wait))
        return kept


def read_swf(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read an SWF log, plain or gzipped, as a workload of rigid jobs.

    Times are in seconds. The trace's zero is the log's own (its header's UnixStartTime, which
    becomes `epoch_s`), so that submit times stay as the log has them. A log whose first job is
    submitted at 1e9 s or later holds Unix times instead, whatever its header says: then the first
    job's submission becomes the zero, and the report notes it. `capacity` is MaxProcs, else
    MaxNodes.

    Args:
        path: the log.
        arguments: the other fields of `SwfLog`: `processors`, `requested_time`, `keep_zero_run`,
            `on_error`.

    Returns:
        The workload, sorted by (submit time, job id), and the report of its rows.

    Raises TraceError, with file and line, if the file is not an SWF log, has malformed lines
    (all are named; unless `on_error` is ``skip``) or has no jobs.
    """
    return SwfLog.of(path=path, **arguments).read()


def _columns(block: SwfBlock, kept: KeptJobs) -> dict[str, Column]:
    rows, values = kept.row, block.values
    names = ("job", "submit", "run", *JOB_COLUMNS, "previous_job", "think_time")
    columns = {name: values[name][rows] for name in names}
    columns["line"] = block.line[rows].astype(np.float64)
    columns["processors"] = kept.processors
    columns["requested_time"] = kept.requested_time
    return columns


def links_of(jobs: RigidJobs, left_out: set[int], tally: Tally) -> dict[str, Any]:
    """Return the links that fields 17 and 18 give; -1 there, and 0 unless it is a job, is none."""
    before, think = jobs.column("previous_job"), jobs.column("think_time")
    if ((before <= 0) & (before != NO_ID)).all() and (think <= 0).all():
        return {}
    order = jobs.order()
    job, line = jobs.column("job")[order], jobs.column("line")[order].astype(int)
    before, think = before[order], think[order].astype(np.float64)
    named = (before > 0) | (before == NO_ID) | ((before == 0) & bool((job == 0).any()))
    tally.note(rules.ONLY_THINK_TIME, line[~named & (think > 0)])
    rows = np.flatnonzero(named)
    return preceding_jobs(job, line, rows, before[rows], think[rows], tally, left_out)


def _workload(jobs: RigidJobs, header: SwfHeader, tally: Tally, links: dict[str, Any]) -> Workload:
    zone = header.time_zone
    if zone is None and header.values.get("timezonestring"):
        tally.report.notes[rules.UNKNOWN_ZONE] = 1
    zero, epoch = 0.0, header.epoch_s
    if odd := header.odd_epoch:
        tally.report.notes[odd] = 1
    first = float(jobs.column("submit").min())
    if first >= FIRST_ABSOLUTE_S:
        zero = epoch = first
        tally.report.notes[rules.ABSOLUTE_TIMES] = len(jobs)
    return jobs.workload(
        zero_s=zero, epoch_s=epoch, time_zone=zone, capacity=header.capacity,
        header_names=header.names, **links,
    )  # fmt: skip


_MISSING_RUN_S = 10.0


class RLSchedulerLog(SwfLog):
    """An SWF log in which a missing run time becomes 10 s, and the larger processor count counts.

    RLScheduler reads logs so (D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an
    automated HPC batch job scheduler using reinforcement learning", SC 2020).

    Requested times stay as the log has them, also where the job ran longer; a missing one becomes
    the run time, and stays missing where that is missing too. Jobs whose run time is 0 are left
    out. A window of the paper is a range of the jobs:

        workload:
          type: plugin
          reader: simkit.traces.swf:RLSchedulerLog
          args: {path: SDSC-SP2-1998-4.2-cln.swf.gz}
          window: {jobs: 1981..3004}

    """

    requested_time: Literal["max", "raw"] = "raw"
    """As the log has it; RLScheduler kills no job."""

    def judge_block(self, block: SwfBlock, tally: Tally) -> KeptJobs:
        """Repair what RLScheduler repairs, then apply the rules to a block of rows."""
        values, wanted = block.values, block.values["requested_time"]
        values["requested_time"] = np.where(wanted == -1, values["run"], wanted)
        values["run"] = np.where(values["run"] < 0, _MISSING_RUN_S, values["run"])
        values["allocated"] = np.maximum(values["allocated"], values["requested"])
        return super().judge_block(block, tally)
