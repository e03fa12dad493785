r"""Slurm's accounting: reads the output of ``sacct --parsable2``, the log that operators have.

Columns are found by the names in the header line, so any ``--format`` works that has a job, a
submit time, a run time and processors, for example::

    sacct --allusers --allocations --parsable2 --starttime 2024-01-01 --format JobID,User,\
    Account,Partition,QOS,State,Submit,Start,End,Elapsed,Timelimit,AllocCPUS,ReqCPUS,NNodes,ReqMem
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Final
from zoneinfo import available_timezones

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import field_validator

from simkit.arrays import Floats
from simkit.errors import did_you_mean
from simkit.traces import rules
from simkit.traces.bad_lines import BadLines
from simkit.traces.names import number_names
from simkit.traces.rigid_jobs import (
    KeptJobs,
    RawJobs,
    RigidJobs,
    RigidLog,
    first_that_applies,
)
from simkit.traces.rules import Tally
from simkit.traces.sacct.columns import ARRAY_TASKS, SacctRows
from simkit.traces.sacct.table import LINE, sacct_tables
from simkit.traces.sacct.usage import Gathered, UsageRows
from simkit.traces.swf import refuse_empty
from simkit.workload import JOB_COLUMNS, Trace, Workload

Watch = Callable[["pl.DataFrame", "pl.DataFrame"], None]

LABELLED: Final = {
    "user": ("User", "UID"),
    "group": ("Account", "Group", "GID"),
    "executable": ("JobName",),
    "queue": ("QOS",),
    "partition": ("Partition",),
}
"""Our job columns ← Slurm's fields: the first that the header has."""


class SacctLog(RigidLog):
    """The output of Slurm's ``sacct --parsable2``."""

    time_zone: str | None = None
    """IANA name of the zone in which sacct printed its times; null: read them as UTC."""
    memory: bool = False
    """Make the requested memory a second resource, mem, in GiB a processor."""

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str | None) -> str | None:
        if name is not None and name not in (zones := available_timezones()):
            near = did_you_mean(name, zones)
            remedy = near if "did you mean" in near else "; use an IANA name such as Europe/Berlin"
            raise ValueError(f"unknown time zone {name!r}{remedy}")
        return name

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether the first line has fields between ``|``, or is a header of JobID alone."""
        return "|" in head or head.lower() in ("jobid", "jobidraw")

    def check_head(self) -> None:
        """Read the header and the first rows."""
        bad, tally = BadLines(Path(self.path), self.on_error), Tally()
        rows = next(sacct_tables(bad.path, tally, bad), None)
        bad.settle(tally)
        if rows is None:
            refuse_empty(bad.path, tally, 0)

    def read(self) -> Trace:
        """Read the table; see `read_sacct`."""
        return self.scan()[0]

    def swf_fields(self) -> tuple[Trace, dict[str, Floats]]:
        """Return the trace, and the usage of its jobs that the log records."""
        gathered = Gathered()
        trace, order = self.scan(parser=UsageRows, watch=gathered.add)
        return trace, gathered.columns(order)

    def scan(
        self, *, parser: type[SacctRows] = SacctRows, watch: Watch | None = None
    ) -> tuple[Trace, Any]:
        """Read the table block by block.

        Args:
            parser: makes the columns.
            watch: called with every block: all its rows, and those that became jobs.

        Returns:
            The trace, and the index that puts columns of the watched jobs into its order.
        """
        path, tally, jobs = Path(self.path), Tally(), RigidJobs()
        names: list[pl.Series] = []
        labels: dict[str, dict[str, int]] = {}
        bad = BadLines(path, self.on_error)
        for table in sacct_tables(path, tally, bad):
            parsed = parser(table, bad).parse(self.time_zone, tally)
            rows = _jobs_that_ended(parsed, tally)
            kept = self.judge(_raw(rows), tally)
            rows = rows[kept.row]
            if watch is not None:
                watch(parsed, rows)
            if rows.height:
                jobs.add(_columns(rows, kept, self.memory) | _numbered(rows, labels))
                names.append(rows["id"])
        bad.settle(tally)
        refuse_empty(path, tally, len(jobs))
        jobs.note_oddities(tally, {})
        order = jobs.order()
        return Trace(_workload(jobs, names, labels, self.time_zone), tally.report, (path,)), order


def read_sacct(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read the output of ``sacct --parsable2`` (or ``--parsable``) as a workload of rigid jobs.

    The trace's zero is the first job's submission. Job ids are JobIDRaw where the log has it, else
    JobID: whole numbers, or text if any is text (``12_3``, a task of an array). Users, accounts
    (else groups), job names, QOS and partitions are numbered in order of appearance; their names
    are the workload's `labels`. Rows of job steps, of jobs that have not started or not ended, and
    of jobs cancelled before they started are left out and counted. Processors come from AllocCPUS,
    NCPUS or AllocTRES (allocated) and from ReqCPUS or ReqTRES (requested); without any of these
    columns the number of machines is taken, and noted. Timelimit UNLIMITED is endless; where it is
    Partition_Limit, `Workload.limit_of_partition` says so, and it counts as missing until then.

    Args:
        path: the file, plain or gzipped.
        arguments: the other fields of `SacctLog`. Without a `time_zone` times are read as if they
            were UTC, and a change to summer time is off by an hour.

    Returns:
        The workload, sorted by submit time and job number, and the report of its rows.

    Raises TraceError, with file and line, if the file is no such table, has malformed lines
    (all are named; unless `on_error` is ``skip``) or has no jobs.
    """
    return SacctLog.of(path=path, **arguments).read()


def _jobs_that_ended(rows: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Leave out and count rows that are not jobs or have no run time yet."""
    order = (
        rules.JOB_STEP, rules.PENDING_ARRAY, rules.CANCELLED, rules.NOT_STARTED,
        rules.STILL_RUNNING,
    )  # fmt: skip
    masks = {rule: rows[rule].fill_null(value=False).to_numpy() for rule in order}
    left = first_that_applies(masks, rows[LINE].to_numpy(), tally.drop)
    tally.read(int(np.count_nonzero(~left)))
    return rows[np.flatnonzero(left)]


def _raw(rows: pl.DataFrame) -> RawJobs:
    names = ("job", "submit", "run", "allocated", "requested", "requested_time")
    columns = {name: rows[name].fill_null(-1.0).to_numpy() for name in names}
    of_partition = rows["limit_of_partition"].fill_null(value=False).to_numpy()
    return RawJobs(line=rows[LINE].to_numpy(), limit_of_partition=of_partition, **columns)


def _columns(rows: pl.DataFrame, kept: KeptJobs, memory: bool) -> dict[str, Floats]:
    columns = {name: rows[name].to_numpy() for name in (LINE, "job", "submit", "run")}
    columns |= {"processors": kept.processors, "requested_time": kept.requested_time}
    columns["limit_of_partition"] = rows["limit_of_partition"].fill_null(value=False).to_numpy()
    if memory:
        columns["memory"] = rows["memory"].fill_null(0.0).to_numpy()
    return columns


def _numbered(rows: pl.DataFrame, labels: dict[str, dict[str, int]]) -> dict[str, npt.NDArray[Any]]:
    """Number the users, accounts, …; a new name gets the next number."""
    numbered = {}
    lower = {name.lower(): name for name in rows.columns}
    for column, fields in LABELLED.items():
        field = next((lower[name.lower()] for name in fields if name.lower() in lower), None)
        if field is None:
            numbered[column] = np.full(rows.height, -1)
            continue
        numbered[column] = number_names(rows[field], labels.setdefault(column, {}))
    return numbered


def _workload(
    jobs: RigidJobs,
    names: list[pl.Series],
    labels: dict[str, dict[str, int]],
    time_zone: str | None,
) -> Workload:
    job = jobs.column("job")
    if (job % ARRAY_TASKS == 0).all():
        ids = (job // ARRAY_TASKS).astype(np.int64)
    else:
        ids = pl.concat(names).to_numpy().astype(object)
    first = float(jobs.column("submit").min())
    return jobs.workload(
        zero_s=first,
        job_id=ids,
        epoch_s=first,
        time_zone=time_zone,
        labels={name: tuple(labels[name]) for name in JOB_COLUMNS if name in labels},
    )
