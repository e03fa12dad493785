"""The scenario's cloud traces: workloads of tasks, and the machines and containers of a trace."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simkit.scenario_names import Arguments, File, Place
from simkit.scenario_types import Many, Positive, PositiveDuration, Section
from simkit.scenario_workload import WorkloadBase

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
    path: Place
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
    path: Place
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
    path: Place
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
