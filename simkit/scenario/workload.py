"""The scenario's `workload`: which jobs arrive; here what every kind takes, and the logs.

One class a kind (`scenario_models` has the generated ones). The keys that are a kind's own are its
reader's keyword arguments, one to one; those of `WorkloadBase` apply to what any reader returns.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from simkit.errors import did_you_mean
from simkit.scenario.references import Arguments, File, FileOrFolder, ReaderName
from simkit.scenario.types import (
    Count,
    Instant,
    Jobs,
    Many,
    Positive,
    PositiveDuration,
    Section,
    check_order,
)


class Window(Section):
    """The part of the log that is simulated."""

    start: Instant | None = None
    """Jobs submitted from here on: a duration after the first submission, or a date."""
    end: Instant | None = None
    """Jobs submitted before this: a duration after the first submission, or a date."""
    jobs: Jobs | None = None
    """A number of jobs, or "first..last" by rank of submission, from 0, both included."""

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        check_order(self.start, self.end)
        return self


class Resample(Section):
    """A new workload by drawing users and their weeks (Zakay & Feitelson 2014), seeded."""

    weeks: Count | None = None
    """Length of the new workload in weeks; null: as many as the log has."""


class TargetLoad(Section):
    """The offered load that arrivals are compressed or spread to."""

    offered_load: Positive
    """Requested area over capacity, from the first to the last submit."""
    processors: Count
    """Processors of the machine that it is the load of."""


class WorkloadBase(Section):
    """What every kind of workload takes."""

    type: str
    """The kind of workload."""
    window: Window | None = None
    """The part that is simulated; absent: all of it."""
    load: Positive = 1.0
    """Arrivals are compressed by this factor (2.0: twice the arrival rate), run times unchanged."""
    processors_scale: Positive = 1.0
    """Processors of each job times this, rounded, at least 1."""
    processors_max: Count | None = None
    """Jobs that ask for more processors ask for so many instead; null: no limit."""
    run_time_scale: Positive = 1.0
    """Run times and requested times of all jobs times this."""
    run_time_max: PositiveDuration | None = None
    """Longer run times and requested times are cut to this; null: no limit."""
    resample: Resample | None = None
    """Draw a new workload from the log's users and weeks; absent: the log as it is."""
    target_load: TargetLoad | None = None
    """Bring the arrivals to an offered load, after everything else; absent: as they are."""

    @property
    def reader_name(self) -> str:
        """The name under which plug-ins know the reader, in the group ``simkit.readers``."""
        return self.type

    def reader_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the reader; models take a generator `rng` besides."""
        own = type(self).model_fields.keys() - WorkloadBase.model_fields.keys()
        return {name: getattr(self, name) for name in type(self).model_fields if name in own}


class LogWorkload(WorkloadBase):
    """What every log of rigid jobs takes."""

    path: File
    """The log, plain or .gz; relative to the scenario file."""
    processors: Literal["allocated", "requested"] = "allocated"
    """Which of the log's two numbers counts first; the other one where it is missing."""
    requested_time: Literal["max", "raw"] = "max"
    """max: at least the run time, and the run time where it is missing; raw: as the log has it."""
    keep_zero_run: bool = False
    """Keep jobs whose run time is 0."""


class SwfWorkload(LogWorkload):
    """A log in the Standard Workload Format."""

    type: Literal["swf"]
    """A log in the Standard Workload Format."""


class SacctWorkload(LogWorkload):
    """The output of Slurm's ``sacct --parsable2``."""

    type: Literal["sacct"]
    """The output of Slurm's sacct --parsable2."""
    time_zone: str | None = None
    """IANA name of the zone in which sacct printed its times; null: read them as UTC."""
    memory: bool = False
    """Make the requested memory a second resource, mem, in GiB a processor."""

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str | None) -> str | None:
        return name if name is None else check_zone(name)


class JobsWorkload(WorkloadBase):
    """A table of jobs in simkit's own column names."""

    type: Literal["jobs"]
    """A table of jobs in simkit's own column names."""
    path: File
    """A .csv, .csv.gz or .parquet file; relative to the scenario file."""


class PluginWorkload(WorkloadBase):
    """A reader of one's own, or of another package."""

    type: Literal["plugin"]
    """A reader of one's own, or of another package."""
    reader: ReaderName
    """Name of an entry point, package.module:attribute or file.py:attribute."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the reader."""

    @property
    def reader_name(self) -> str:
        """The name of the reader that the scenario gives."""
        return self.reader

    def reader_arguments(self) -> dict[str, Any]:
        """Return the scenario's `args`."""
        return dict(self.args)


def check_zone(name: str) -> str:
    """Return the name of a time zone; raises ValueError, with a suggestion, if there is none."""
    from zoneinfo import available_timezones

    zones = available_timezones()
    if name not in zones:
        near = did_you_mean(name, zones)
        remedy = near if "did you mean" in near else "; use an IANA name such as Europe/Berlin"
        raise ValueError(f"unknown time zone {name!r}{remedy}")
    return name


# MERGED The scenario's cloud traces: workloads of tasks, and the machines and containers of a trace.


Running = Literal["drain", "requeue", "suspend"]

CLOUDSIMPY_COLUMNS = {
    "job_id": "job_id",
    "task_id": "task_id",
    "submit_time_s": "submit_time",
    "run_time_s": "duration",
    "instances": "instances_num",
    "cpu": "cpu",
    "mem": "memory",
}


class Alibaba2017Workload(WorkloadBase):
    """The batch jobs of Alibaba's cluster-trace-v2017."""

    type: Literal["alibaba2017"]
    """The batch jobs of Alibaba's cluster-trace-v2017."""
    path: FileOrFolder
    """The folder of the tables, its archive, or batch_task alone; relative to the scenario file."""
    rules: Arguments = Field(default_factory=dict)
    """What to do with known problems, where it differs from the defaults: {running: keep}."""
    durations: Annotated[str | dict[str, Positive | str], Field(union_mode="left_to_right")] = (
        "task"
    )
    """Run times where batch_instance is missing: task, share, or {type: share, share: 0.5}."""
    instances: bool = True
    """Each instance takes its own time, where batch_instance is there."""


class TasksWorkload(WorkloadBase):
    """A table of tasks, by default in the columns of CloudSimPy's job table."""

    type: Literal["tasks"]
    """A table of tasks, by default in the columns of CloudSimPy's job table."""
    path: File
    """A .csv, .csv.gz or .parquet file; relative to the scenario file."""
    columns: dict[str, str] = Field(default_factory=lambda: dict(CLOUDSIMPY_COLUMNS))
    """Our name → the table's: job_id, submit_time_s, run_time_s, …; others are resources."""
    factors: dict[str, Positive] = Field(default_factory=dict)
    """Our name → what its column is multiplied by: {cpu: 0.01}."""
    submit: Literal["first", "last"] = "first"
    """Which of a job's rows says when it is submitted."""
    negative_run: Literal["drop", "zero"] = "drop"
    """Rows with a negative run time are left out, or run 0 s."""
    zero_run: Literal["keep", "drop"] = "keep"
    """Rows with a run time of 0 are kept, or left out."""
    parent_separator: Annotated[str, Field(min_length=1)] = ";"
    """What stands between the parents of a task."""


class Fault(Section):
    """What an error of a machine does."""

    running: Running = "drain"
    """Running tasks end in peace, start over on other machines, or pause and go on."""
    repair: PositiveDuration | None = 3600.0
    """The machine takes tasks again after this time; null: never."""


class MachineTrace(Section):
    """Machines and their errors as a trace has them."""

    type: Literal["alibaba2017"] = "alibaba2017"
    """The kind of trace: server_event of Alibaba's cluster-trace-v2017."""
    path: FileOrFolder
    """The table, or the folder or archive that holds it; relative to the scenario file."""
    softerror: Fault = Field(default_factory=Fault)
    """Errors of software: the trace tells when they begin, not when they are over."""
    harderror: Fault = Field(default_factory=lambda: Fault(running="requeue", repair=86400.0))
    """Errors of hardware, likewise."""
    remove: Running = "drain"
    """What becomes of tasks on a machine that leaves."""


class ContainerTrace(Section):
    """Services that hold part of the machines, as a trace has them."""

    type: Literal["alibaba2017"] = "alibaba2017"
    """The kind of trace: container_event of Alibaba's cluster-trace-v2017."""
    path: FileOrFolder
    """The table, or the folder or archive that holds it; relative to the scenario file."""
    running: Running = "drain"
    """Batch tasks in the way of a new container end in peace, start over elsewhere, or pause."""
    unknown_machines: Literal["refuse", "skip"] = "refuse"
    """Containers on machines that the cluster does not have: an error, or left out."""


class RandomFailures(Section):
    """Machines fail at random and are repaired; both times are exponentially distributed."""

    mtbf: PositiveDuration
    """Mean time between failures of one machine."""
    mttr: PositiveDuration
    """Mean time to repair."""
    running: Running = "requeue"
    """Running tasks start over elsewhere, pause, or (drain) end in peace."""
    machines: Many[str] | None = None
    """Names of the groups of machines that fail; null: all."""
