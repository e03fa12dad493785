r"""Slurm's accounting: reads the output of ``sacct --parsable2``, the log that operators have.

Columns are found by the names in the header line, so any ``--format`` works that has a job, a
submit time, a run time and processors, for example::

    sacct --allusers --allocations --parsable2 --starttime 2024-01-01 --format JobID,User,\
    Account,Partition,QOS,State,Submit,Start,End,Elapsed,Timelimit,AllocCPUS,ReqCPUS,NNodes,\
    ReqMem,AllocTRES,ReqTRES
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final
from zoneinfo import available_timezones

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import field_validator

from simkit.arrays import Floats
from simkit.errors import TraceError, did_you_mean
from simkit.traces import rules
from simkit.traces.bad_lines import BadLines
from simkit.traces.names import number_names
from simkit.traces.rigid_jobs import (
    Column,
    KeptJobs,
    RawJobs,
    Request,
    RigidJobs,
    RigidLog,
    first_that_applies,
)
from simkit.traces.rules import Tally
from simkit.traces.sacct.columns import ARRAY_TASKS
from simkit.traces.sacct.resources import OF_GPUS, OF_MEMORY, OtherResources, ResourceRows
from simkit.traces.sacct.table import LINE, sacct_tables
from simkit.traces.sacct.units import units_of_jobs
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
    memory: bool | None = None
    """Jobs ask for memory (mem, in GiB): what AllocTRES says they had, else ReqMem or ReqTRES;
    null: if the machines of the scenario have mem, and the log says how much for any job."""
    gpus: bool | None = None
    """Jobs ask for gpus (gpu): of AllocTRES or ReqTRES, in older logs AllocGRES or ReqGRES; null:
    if the machines of the scenario have gpu, and the log has one of these columns."""

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

    def source_of(self, resource: str) -> str:
        """Return which columns and key make jobs ask for memory or gpus."""
        if resource == "mem":
            return f"they do if the log says it in {' or '.join(OF_MEMORY)}, unless memory is false"
        if resource == "gpu":
            return f"they do if the log says it in {' or '.join(OF_GPUS)}, unless gpus is false"
        return "jobs of sacct's output ask for processors, mem and gpu; use these names"

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

    def trace_for(self, resources: Collection[str], rng: np.random.Generator) -> Trace:
        """Read the table for machines with these resources."""
        return self.scan(resources)[0]

    def swf_fields(self) -> tuple[Trace, dict[str, Floats]]:
        """Return the trace, and the usage of its jobs that the log records."""
        gathered = Gathered()
        plain = self.model_copy(update={"memory": False, "gpus": False})
        trace, order = plain.scan(parser=UsageRows, watch=gathered.add)
        return trace, gathered.columns(order)

    def scan(
        self,
        resources: Collection[str] = (),
        *,
        parser: type[ResourceRows] = ResourceRows,
        watch: Watch | None = None,
    ) -> tuple[Trace, Any]:
        """Read the table block by block.

        Args:
            resources: of the machines; jobs ask for mem and gpu if they are among them, unless
                `memory` and `gpus` say otherwise.
            parser: makes the columns.
            watch: called with every block: all its rows, and those that became jobs.

        Returns:
            The trace, and the index that puts columns of the watched jobs into its order.
        """
        path, tally, jobs = Path(self.path), Tally(), RigidJobs()
        names: list[pl.Series] = []
        labels: dict[str, dict[str, int]] = {}
        bad = BadLines(path, self.on_error)
        asked: tuple[str, ...] = ()
        other = OtherResources()
        for table in sacct_tables(path, tally, bad):
            columns = parser(table, bad)
            asked = self._asked(columns, resources)
            parsed = columns.parse(self.time_zone, tally)
            rows = _jobs_that_ended(parsed, tally)
            kept = self.judge(_raw(rows), tally)
            rows = rows[kept.row]
            if watch is not None:
                watch(parsed, rows)
            if rows.height:
                jobs.add(
                    _columns(rows, kept) | self._amounts(rows, asked) | _numbered(rows, labels)
                )
                other.add(rows, tally, gpus="gpu" in asked)
                names.append(rows["id"])
        bad.settle(tally)
        refuse_empty(path, tally, len(jobs))
        other.settle(tally)
        request = _request(jobs, self._had(asked, jobs), tally) if asked else None
        jobs.note_oddities(tally, {})
        order = jobs.order()
        workload = _workload(jobs, names, labels, self.time_zone, request)
        return Trace(workload, tally.report, (path,)), order

    def _asked(self, columns: ResourceRows, resources: Collection[str]) -> tuple[str, ...]:
        """Return which of mem and gpu jobs may ask for: the table has columns that tell.

        Raises TraceError if it has none, but the scenario says that they do.
        """
        asked = []
        for key, resource, needed in (("memory", "mem", OF_MEMORY), ("gpus", "gpu", OF_GPUS)):
            chosen = getattr(self, key)
            if chosen and not columns.has(*needed):
                raise TraceError(
                    f"{self.path}: {key}: true, but the table has no column "
                    f"{', '.join(needed[:-1])} or {needed[-1]}; print it again with one of them, "
                    f"or leave {key} out"
                )
            if chosen or (chosen is None and resource in resources and columns.has(*needed)):
                asked.append(resource)
        return tuple(asked)

    def _amounts(self, rows: pl.DataFrame, asked: Collection[str]) -> dict[str, Column]:
        """Return the columns of what jobs ask for besides processors; -1: unknown."""
        if not asked:
            return {}
        first, other = "allocated", "requested"
        if self.processors == "requested":
            first, other = other, first
        gib = (pl.when(pl.col(f"{side}_gib") > 0).then(f"{side}_gib") for side in (first, other))
        columns = rows.select(
            pl.col("machines").fill_null(-1.0),
            pl.coalesce(f"{first}_gpus", f"{other}_gpus").fill_null(0.0).alias("gpus"),
            pl.coalesce(gib).fill_null(-1.0).alias("gib"),
            (pl.col("requested_gib") == 0).fill_null(value=False).alias("all_memory"),
        )
        names = ["machines"]
        names += ["gib", "all_memory"] if "mem" in asked else []
        names += ["gpus"] if "gpu" in asked else []
        return {name: columns[name].to_numpy() for name in names}

    def _had(self, asked: Collection[str], jobs: RigidJobs) -> tuple[str, ...]:
        """Return which of mem and gpu any job had, or the scenario says that jobs ask for."""
        chosen = {"mem": (self.memory, "gib"), "gpu": (self.gpus, "gpus")}
        return tuple(
            name for name in asked if chosen[name][0] or (jobs.column(chosen[name][1]) > 0).any()
        )


def read_sacct(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read the output of ``sacct --parsable2`` (or ``--parsable``) as a workload of rigid jobs.

    The trace's zero is the first job's submission. Job ids are JobIDRaw where the log has it, else
    JobID: whole numbers, or text if any is text (``12_3``, a task of an array). Users, accounts
    (else groups), job names, QOS and partitions are numbered in order of appearance; their names
    are the workload's `labels`. Rows of job steps, of jobs that have not started or not ended, and
    of jobs cancelled before they started are left out and counted. Processors come from AllocCPUS,
    NCPUS or AllocTRES (allocated) and from ReqCPUS or ReqTRES (requested); without any of these
    columns the number of machines is taken, and noted.

    With ``gpus=True`` and ``memory=True`` jobs ask for these as well. A job with gpus is then split
    into its machines, or else so that no unit has part of a gpu or processor; other jobs have an
    instance for each processor. A job that asked for all memory of its machines, or whose memory
    the table does not say, is an instance for each machine and one of `Workload.whole_memory`.

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
    return RawJobs(line=rows[LINE].to_numpy(), **columns)


def _columns(rows: pl.DataFrame, kept: KeptJobs) -> dict[str, Column]:
    columns: dict[str, Column] = {
        name: rows[name].to_numpy() for name in (LINE, "job", "submit", "run")
    }
    columns |= {"processors": kept.processors, "requested_time": kept.requested_time}
    return columns | {"unchanged": kept.unchanged}


def _request(jobs: RigidJobs, resources: Sequence[str], tally: Tally) -> Request | None:
    """Return what jobs ask for, in equal units; None: only processors, an instance each.

    Counts jobs whose processors are rounded up and those whose memory is unknown.
    """
    if not resources:
        return None
    processors, line = jobs.column("processors"), jobs.column(LINE)
    gpus, gib, all_memory = np.zeros(len(jobs)), np.zeros(len(jobs)), np.zeros(len(jobs), np.bool_)
    if "gpu" in resources:
        gpus = jobs.column("gpus")
    if "mem" in resources:
        gib, all_memory = jobs.column("gib"), jobs.column("all_memory") > 0
    unknown = gib < 0
    units = units_of_jobs(processors, gpus, jobs.column("machines"), all_memory | unknown)
    each = np.ceil(processors / units)
    uneven = (each * units != processors) & (jobs.column("unchanged") > 0)
    tally.accept(-int(np.count_nonzero(uneven)))
    tally.repair(rules.UNEVEN, line[uneven])
    tally.note(rules.MEMORY_UNKNOWN, line[unknown])
    amounts = {"processors": each, "mem": np.where(unknown, 0.0, gib / units), "gpu": gpus / units}
    names = ("processors", *(name for name in ("mem", "gpu") if name in resources))
    table = np.column_stack([amounts[name] for name in names])
    return Request(names, units, table, unknown)


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
    request: Request | None,
) -> Workload:
    job = jobs.column("job")
    if (job % ARRAY_TASKS == 0).all():
        ids = (job // ARRAY_TASKS).astype(np.int64)
    else:
        ids = pl.concat(names).to_numpy().astype(object)
    first = float(jobs.column("submit").min())
    return jobs.workload(
        zero_s=first,
        request=request,
        job_id=ids,
        epoch_s=first,
        time_zone=time_zone,
        labels={name: tuple(labels[name]) for name in JOB_COLUMNS if name in labels},
    )
