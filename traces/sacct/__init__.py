r"""Slurm's accounting: reads the output of ``sacct --parsable2``, the log that operators have.

Columns are found by the names in the header line, so any ``--format`` works that has a job, a
submit time, a run time and processors, for example::

    sacct --allusers --allocations --parsable2 --starttime 2024-01-01 --format JobID,User,\
    Account,Partition,QOS,State,Submit,Eligible,Start,End,Elapsed,Timelimit,AllocCPUS,ReqCPUS,\
    NNodes,ReqMem,AllocTRES,ReqTRES
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final
from zoneinfo import available_timezones

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, field_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import did_you_mean
from simkit.traces import rules
from simkit.traces.columns import SACCT, SACCT_HOLDS
from simkit.traces.rigid_jobs import (
    Column,
    KeptJobs,
    RawJobs,
    Request,
    RigidJobs,
    RigidLog,
    note_early_starts,
    note_odd_run_times,
    note_releases,
)
from simkit.traces.rules import NO_ID, BadLines, Tally, first_that_applies, refuse_empty
from simkit.traces.sacct.columns import left_aside
from simkit.traces.sacct.recorded import (
    Gathered,
    Gatherer,
    RecordedJobs,
    RecordedRows,
    UsageRows,
    Which,
    note_repeated_ids,
    rows_left_out,
)
from simkit.traces.sacct.resources import Asked, ResourceRows
from simkit.traces.sacct.table import LINE, sacct_tables
from simkit.traces.tables.rows import number_names
from simkit.workload import Trace, Workload
from simkit.workload.recorded import Recorded
from simkit.workload.workload import JOB_COLUMNS

_TELLING: Final = {"submit", "elapsed", "elapsedraw", "alloccpus", "ncpus", "state", "timelimit"}
"""Fields of sacct, in lower case, that identify its tables, in addition to a job's id."""
LABELLED: Final = {name: SACCT[name] for name in JOB_COLUMNS}
"""Our job columns ← Slurm's fields: the first that the header has."""


class SacctLog(RigidLog):
    """The output of Slurm's ``sacct --parsable2``."""

    delimiter: Annotated[str, Field(min_length=1)] | None = None
    """Text between the fields, as ``sacct --delimiter`` has it; null: as the header line shows."""
    time_zone: str | None = None
    """IANA name of the zone in which sacct printed its times; null: read them as UTC."""
    attempts: Which = "all"
    """Jobs that Slurm started again (requeued, preempted, machine failed). ``sacct --duplicates``
    prints every attempt. all: each is a job, because the machine ran them all; last: only the last
    that ran, as sacct prints it without --duplicates."""
    memory: bool | None = None
    """Jobs ask for memory (mem, in GiB): what AllocTRES says they had, else ReqMem or ReqTRES;
    null: if the machines of the scenario have mem, and the log says of any job how much, or that
    it asked for all of its machines' (``--mem=0``)."""
    gpus: bool | None = None
    """Jobs ask for gpus (gpu): of AllocTRES or ReqTRES, in older logs AllocGRES or ReqGRES; null:
    if the machines of the scenario have gpu, and any job of the log had one."""

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
        """Return whether the first line has fields between ``|``, or names of sacct's columns."""
        names = set(re.findall(r"\w+", head.lower()))
        ids = {"jobid", "jobidraw"} & names
        return "|" in head or bool(ids and (names <= ids or names & _TELLING))

    def source_of(self, resource: str) -> str:
        """Return which columns and key make jobs ask for memory or gpus."""
        if (key := {"mem": "memory", "gpu": "gpus"}.get(resource)) is not None:
            fields = " or ".join(SACCT[resource])
            return f"they do if the log says it in {fields}, unless {key} is false"
        return "jobs of sacct's output ask for processors, mem and gpu; use these names"

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
        trace, order = plain.scan(parser=UsageRows, gathered=gathered)
        return trace, gathered.columns(order)

    def recorded(self) -> tuple[Trace, Recorded]:
        """Return the trace of processors, and when and on what its jobs ran."""
        gathered = RecordedJobs(self.processors)
        plain = self.model_copy(update={"memory": False, "gpus": False})
        trace, order = plain.scan(parser=RecordedRows, gathered=gathered)
        return trace, gathered.recorded(trace.workload, order)

    def scan(
        self,
        resources: Collection[str] = (),
        *,
        parser: type[ResourceRows] = ResourceRows,
        gathered: Gatherer | None = None,
        left_out: Mapping[str, Ints] | None = None,
    ) -> tuple[Trace, Any]:
        """Read the table block by block.

        Args:
            resources: resources of the machines; jobs ask for mem and gpu if they are among them,
                unless `memory` and `gpus` say otherwise.
            parser: makes the columns.
            gathered: gets every block: all its rows, and those that became jobs.
            left_out: rule → lines of attempts and repeated rows that do not count; None: find
                them, and read the table again if there are any.

        Returns:
            The trace, and the index that puts columns of the gathered jobs into its order.
        """
        path, tally, jobs = Path(self.path), Tally(), RigidJobs()
        names: list[pl.Series] = []
        labels: dict[str, dict[str, int]] = {}
        clusters: dict[str, int] = {}
        bad = BadLines(path, self.on_error)
        asked = Asked(path, resources, memory=self.memory, gpus=self.gpus, first=self.processors)
        for number, table in enumerate(sacct_tables(path, tally, bad, self.delimiter)):
            columns = parser(table, bad)
            parsed = columns.parse(self.time_zone, tally)
            asked.look_at(columns)
            if number == 0:
                _name_unread(table, columns, tally)
            rows = _jobs_that_ended(parsed, tally, left_out or {})
            kept = self.judge(_raw(rows), tally, _without_run_time(rows))
            rows = rows[kept.row]
            _note_contradictions(rows, tally)
            for rule, column in ((rules.SKIPPED_TIME, "skipped"), (rules.FIRST_HOUR, "twice")):
                tally.note(rule, rows.filter(pl.col(column))[LINE].to_numpy())
            if gathered is not None:
                gathered.add(parsed, rows)
            if rows.height:
                jobs.add(
                    _columns(rows, kept)
                    | asked.columns(rows, kept.unchanged, tally)
                    | _numbered(rows, labels)
                    | _attempt_columns(rows, clusters)
                    | {"held": _held_s(rows, tally)}
                )
                names.append(rows["id"])
        if len(jobs) and left_out is None and (found := rows_left_out(jobs, self.attempts)):
            again = None if gathered is None else gathered.restart()
            return self.scan(resources, parser=parser, gathered=again, left_out=found)
        bad.settle(tally)
        refuse_empty(path, tally, len(jobs))
        request = asked.request(jobs, tally)
        jobs.note_oddities(tally, {}, ids=False)
        note_repeated_ids(jobs, tally)
        order = jobs.order()
        workload = _workload(jobs, names, labels, self.time_zone, request)
        return Trace(workload, tally.report, (path,)), order


def read_sacct(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read the output of ``sacct --parsable2`` (or ``--parsable``) as a workload of rigid jobs.

    The trace's zero is the first job's submission. Job ids are JobIDRaw where the log has it, else
    JobID: whole numbers, or text if any is text (``12_3``, a task of an array). Users, accounts
    (else groups), job names, QOS and partitions are numbered in order of appearance; their names
    are the workload's `labels`. Rows of job steps, of jobs that have not started or not ended, and
    of jobs cancelled before they started are left out and counted. Processors come from AllocCPUS,
    NCPUS or AllocTRES (allocated) and from ReqCPUS or ReqTRES (requested); without any of these
    columns the number of machines is taken, and noted. A job whose Eligible is later than its
    Submit (--begin, a dependency, a hold) has that as its release time. Timelimit UNLIMITED is
    endless; where it is Partition_Limit, `Workload.limit_of_partition` says so, and it counts as
    missing until then.

    With ``gpus=True`` and ``memory=True`` jobs ask for these as well. A job with gpus is then split
    into its machines, or else so that no unit has part of a gpu or processor, rounded up and
    counted where they do not split evenly; other jobs have an instance for each processor. A job
    that asked for all memory of its machines, or whose memory the table does not say, is an
    instance for each machine and one of `Workload.whole_memory`.

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


def _name_unread(table: pl.DataFrame, columns: ResourceRows, tally: Tally) -> None:
    """Name the columns that neither the rows nor the labels of the jobs are made of."""
    own = [name for name in table.columns if name != LINE]
    labels = (_first_of(fields, own) for fields in LABELLED.values())
    read = columns.read | {name for name in labels if name is not None}
    tally.unread(left_aside(own, read), SACCT_HOLDS)


def _first_of(fields: Sequence[str], columns: Iterable[str]) -> str | None:
    """Return the column that is the first of these fields to be there."""
    lower = {name.lower(): name for name in columns}
    return next((lower[field.lower()] for field in fields if field.lower() in lower), None)


def _jobs_that_ended(
    rows: pl.DataFrame, tally: Tally, left_out: Mapping[str, Ints]
) -> pl.DataFrame:
    """Leave out and count rows that are not jobs, have no run time yet or are in `left_out`."""
    order = (
        rules.JOB_STEP, rules.PENDING_ARRAY, rules.CANCELLED, rules.NOT_STARTED,
        rules.STILL_RUNNING, rules.SKIPPED_TIME,
    )  # fmt: skip
    masks = {rule: rows[rule].fill_null(value=False).to_numpy() for rule in order}
    masks |= {rule: np.isin(rows[LINE].to_numpy(), lines) for rule, lines in left_out.items()}
    left = first_that_applies(masks, rows[LINE].to_numpy(), tally.drop)
    tally.read(int(np.count_nonzero(~left)))
    return rows[np.flatnonzero(left)]


def _raw(rows: pl.DataFrame) -> RawJobs:
    names = ("submit", "run", "allocated", "requested", "requested_time")
    columns = {name: rows[name].fill_null(-1.0).to_numpy() for name in names}
    job = rows["job"].fill_null(NO_ID).to_numpy()
    of_partition = rows["limit_of_partition"].fill_null(value=False).to_numpy()
    line = rows[LINE].to_numpy()
    return RawJobs(line=line, job=job, limit_of_partition=of_partition, **columns)


def _without_run_time(rows: pl.DataFrame) -> dict[str, Bools]:
    """Return rule → which rows have times from which a negative run time follows."""
    start, end, run = (rows[name].to_numpy() for name in ("start_s", "end_s", "run"))
    negative = (run < 0) & np.isfinite(end - start)
    return {rules.END_EARLY: negative & (end < start), rules.RUN_UNLIKE: negative & (end >= start)}


def _note_contradictions(rows: pl.DataFrame, tally: Tally) -> None:
    """Note times that contradict each other; an hour that the clock shows twice may be either."""
    rows = rows.filter(~pl.col("twice"))
    names = ("submit", "start_s", "end_s", "run", "paused")
    submit, start, end, run, paused = (rows[name].to_numpy() for name in names)
    line = rows[LINE].to_numpy()
    note_early_starts(tally, line, start - submit)
    note_odd_run_times(tally, line, end - start, run, paused)


def _columns(rows: pl.DataFrame, kept: KeptJobs) -> dict[str, Column]:
    columns: dict[str, Column] = {
        name: rows[name].to_numpy() for name in (LINE, "job", "submit", "run")
    }
    columns["limit_of_partition"] = rows["limit_of_partition"].fill_null(value=False).to_numpy()
    return columns | {"processors": kept.processors, "requested_time": kept.requested_time}


def _attempt_columns(rows: pl.DataFrame, clusters: dict[str, int]) -> dict[str, Column]:
    """Return the columns that tell attempts of a job from other jobs with its id."""
    return {
        "task": rows["task"].to_numpy(),
        "cluster": number_names(rows["cluster_name"], clusters),
        "start": rows["start_s"].to_numpy(),
        "end": rows["end_s"].to_numpy(),
        "again": rows["again"].cast(pl.Int64).to_numpy(),
        "completed": rows["completed"].cast(pl.Int64).to_numpy(),
    }


def _held_s(rows: pl.DataFrame, tally: Tally) -> Floats:
    """Return how long after its submission each job was released, by Eligible; 0: at once."""
    submit, eligible, start, line = (
        rows[name].to_numpy() for name in ("submit", "eligible_s", "start_s", LINE)
    )
    late = eligible > start
    tally.note(rules.ELIGIBLE_LATE, line[late])
    held = np.where(late, np.maximum(start, submit), eligible) - submit
    note_releases(tally, line, held)
    late_s: Floats = np.nan_to_num(np.maximum(held, 0.0))
    return late_s


def _numbered(rows: pl.DataFrame, labels: dict[str, dict[str, int]]) -> dict[str, npt.NDArray[Any]]:
    """Number the users, accounts, …; a new name gets the next number."""
    numbered = {}
    for column, fields in LABELLED.items():
        if (field := _first_of(fields, rows.columns)) is None:
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
    if (jobs.column("task") == 0).all():
        ids = jobs.column("job").astype(np.int64)
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
