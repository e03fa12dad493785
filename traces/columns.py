"""Column maps: what each format calls its columns, and what they hold.

A map is data alone: it has no rule for rows and reads no file, so that whoever reads the same files
by other means, as the auditor does, can share it. A format of another package has its map in its
own file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite
from typing import Final, Literal, get_args

from simkit.errors import TraceError, did_you_mean

Kind = Literal["id", "text", "number", "instant", "amount", "limit"]
"""What a column holds: an id or a name, other text, a number, a time that may be a date, a request
(where an empty cell asks for none), a time that may be unlimited."""

PLAIN: Final = "plain"
"""What a column holds that tells nothing of resources, times, limits or relations."""
UNKNOWN_COLUMN: Final = "not known to simkit"
"""What a column holds that no list knows."""
PLAIN_COLUMNS: Final = dict.fromkeys(
    ("name", "job_name", "jobname", "task_name", "comment", "comments", "description", "note",
     "notes", "remark", "workdir", "work_dir", "working_directory", "command", "script", "label"),
    PLAIN,
)  # fmt: skip
"""Columns of anyone's tables that are plain, in lower case."""


@dataclass(frozen=True)
class Column:
    """One column: our name for it, and what a file has."""

    name: str
    """Ours, which ends in its unit where it has one."""
    kind: Kind = "number"
    """What it holds; a format of jobs takes it from `JOBS` for the names there."""
    theirs: str = ""
    """Its name in the file; empty: as ours."""
    per: float = 1.0
    """How many of their units make one of ours: 1000 for milliseconds and seconds."""
    needed: bool = False
    """Whether a file must have it."""
    record: bool = False
    """It tells of the past: no simulation uses it, and what cannot be read there is unknown."""
    holds: str = ""
    """What it holds, for the report where a reader leaves it aside."""

    def __post_init__(self) -> None:
        """Raise TraceError for a kind or a unit that cannot be."""
        if self.kind not in get_args(Kind):
            kinds = did_you_mean(str(self.kind), get_args(Kind))
            raise TraceError(f"column {self.name!r}: {self.kind!r} is no kind of column{kinds}")
        if not (isfinite(self.per) and self.per > 0):
            raise TraceError(f"column {self.name!r}: per must be more than 0, not {self.per}")
        if self.per != 1 and self.kind in ("id", "text"):
            raise TraceError(f"column {self.name!r}: {self.kind} has no unit; leave per out")

    @property
    def in_file(self) -> str:
        """Its name in the file."""
        return self.theirs or self.name


@dataclass(frozen=True)
class ColumnMap:
    """The columns of a format, in the order in which messages name them."""

    columns: tuple[Column, ...] = ()

    @classmethod
    def of(cls, *columns: Column) -> ColumnMap:
        """Return the map of some columns."""
        return cls(columns)

    def __iter__(self) -> Iterator[Column]:
        """Yield the columns."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a column of this name of ours."""
        return any(column.name == name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        """Return the column of this name of ours."""
        return next(column for column in self.columns if column.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return tuple(column.name for column in self.columns)

    def position(self, name: str) -> int:
        """Return the place of a column in files without a header, from 0."""
        return self.names.index(name)

    def of_kind(self, *kinds: Kind) -> tuple[str, ...]:
        """Return our names of the columns of these kinds."""
        return tuple(column.name for column in self.columns if column.kind in kinds)

    def in_file(self, names: Collection[str]) -> list[str]:
        """Return the names in the file of some columns, each once."""
        return list(dict.fromkeys(c.in_file for c in self.columns if c.name in names))

    @property
    def needed(self) -> set[str]:
        """Names in the file of the columns that it must have."""
        return {column.in_file for column in self.columns if column.needed}

    def left_aside(self, read: Collection[str]) -> list[str]:
        """Return our names of the columns that are not among those read."""
        return [name for name in self.names if name not in read]

    @property
    def holds(self) -> dict[str, str]:
        """Name in the file, in lower case → what the column holds, for those left aside."""
        return {column.in_file.lower(): column.holds for column in self.columns if column.holds}

    def among(self, names: Collection[str], place: str, remedy: str) -> ColumnMap:
        """Return the columns that a file with these names has.

        Args:
            names: those in the file's header.
            place: the file and the line of the names, for messages.
            remedy: what to do about a missing column.

        Raises TraceError for all that are missing or there twice.
        """
        given, wanted = list(names), dict.fromkeys(column.in_file for column in self.columns)
        problems = [
            f"{place}: no column {name!r}{did_you_mean(name, [n for n in given if n])}; {remedy}"
            for name in wanted
            if name not in given and name in self.needed
        ]
        problems += [
            f"{place}: two columns {name!r}; give each its own name"
            for name in wanted
            if given.count(name) > 1
        ]
        if problems:
            raise TraceError("\n".join(problems))
        return ColumnMap(tuple(column for column in self.columns if column.in_file in given))


JOBS: Final = ColumnMap.of(
    Column("job_id", "id", needed=True),
    Column("user", "id"),
    Column("group", "id"),
    Column("executable", "id"),
    Column("queue", "id"),
    Column("partition", "id"),
    Column("preceding_job", "text"),
    Column("submit_time_s", "instant", needed=True),
    Column("run_time_s", needed=True),
    Column("processors", needed=True),
    Column("requested_time_s", "limit"),
    Column("retries"),
    Column("qos"),
    Column("value"),
    Column("deadline_s", "instant"),
    Column("release_time_s", "instant"),
    Column("think_time_s"),
    Column("start_time_s", "instant", record=True, holds="recorded start"),
    Column("wait_time_s", record=True, holds="recorded wait"),
    Column("end_time_s", "instant", record=True, holds="recorded end"),
)
"""Our own columns of jobs, which any table of jobs is brought to."""
START_AND_END: Final = ("start_time_s", "end_time_s")
"""What gives the run time of jobs in formats without a column ``run_time_s``."""


def map_of_jobs(columns: ColumnMap, owner: str) -> ColumnMap:
    """Return the map of a format of jobs, with what `JOBS` says of the names that it has.

    Columns that make a job are needed: its id, its submission, its run time or else its start and
    end, and its processors unless columns of kind ``amount`` tell what it asks for.

    Raises TraceError, beginning with `owner`, for all names and kinds that cannot be.
    """
    run = ("run_time_s",) if "run_time_s" in columns else START_AND_END
    asked = () if columns.of_kind("amount") else ("processors",)
    needed = ("job_id", "submit_time_s", *run, *asked)
    if problems := [*_missing(columns, needed), *_misnamed(columns)]:
        raise TraceError("\n".join(f"{owner}.column_map: {problem}" for problem in problems))
    return ColumnMap(tuple(_as_ours(column, needed) for column in columns))


def _as_ours(column: Column, needed: Collection[str]) -> Column:
    """Return a column with the kind and the meaning that its name has."""
    if column.name not in JOBS:
        return column
    ours = JOBS[column.name]
    return replace(
        column, kind=ours.kind, needed=column.needed or column.name in needed,
        record=ours.record, holds=column.holds or ours.holds,
    )  # fmt: skip


def _missing(columns: ColumnMap, needed: Collection[str]) -> Iterator[str]:
    """Yield which of the needed columns a format of jobs lacks."""
    instead = dict.fromkeys(START_AND_END, "run_time_s, nor both start_time_s and end_time_s")
    instead["processors"] = "processors, nor one of kind 'amount'"
    lacking = [instead.get(name, name) for name in needed if name not in columns]
    for name in dict.fromkeys(lacking):
        yield f"has no column {name}"


def _misnamed(columns: ColumnMap) -> Iterator[str]:
    """Yield names of ours that are there twice, nearly there, or of another kind."""
    known = [*JOBS.names, "instances"]
    for name in dict.fromkeys(columns.names):
        if columns.names.count(name) > 1:
            yield f"has two columns {name}"
    for column in columns:
        name, kind = column.name, column.kind
        if name in JOBS and kind not in ("number", JOBS[name].kind):
            yield f"{name} is of kind {JOBS[name].kind!r}, not {kind!r}; leave the kind out"
        elif name not in known and kind != "amount":
            free = [one for one in known if one not in columns]
            for near in get_close_matches(name, free, n=1, cutoff=0.8):
                yield f"{name!r} is no column of jobs; did you mean {near!r}? Else rename it"


TASKS: Final = ColumnMap.of(
    Column("job_id", "id", needed=True),
    Column("task_id", "id"),
    Column("submit_time_s", "instant", needed=True),
    Column("run_time_s", needed=True),
    Column("instances"),
    Column("requested_time_s", "limit"),
    Column("retries"),
    Column("parents", "text"),
    Column("user", "id"),
    Column("release_time_s", "instant"),
    Column("preceding_job", "text"),
    Column("think_time_s"),
)
"""Our own columns of tasks; every other column of a table of tasks is a resource."""
CLOUDSIMPY: Final = {
    "job_id": "job_id",
    "task_id": "task_id",
    "submit_time_s": "submit_time",
    "run_time_s": "duration",
    "instances": "instances_num",
    "cpu": "cpu",
    "mem": "memory",
}
"""Our name → that of CloudSimPy's tables: cores, memory as a share of the largest machine's."""


def _each(kind: Kind, names: str, holds: str = "") -> Iterator[Column]:
    """Yield columns of one kind, whose names have blanks between them."""
    return (Column(name, kind, holds=holds) for name in names.split())


SWF: Final = ColumnMap.of(
    Column("job", "id", needed=True),
    Column("submit", needed=True),
    Column("wait", record=True, holds="field 3, the recorded wait"),
    Column("run", needed=True),
    Column("allocated", needed=True),
    Column("cpu_time", holds="field 6, processor time used"),
    Column("memory", holds="field 7, memory used"),
    Column("requested", needed=True),
    Column("requested_time", needed=True),
    Column("requested_memory", holds="field 10, memory asked for"),
    Column("status", needed=True),
    Column("user", "id", needed=True),
    Column("group", "id", needed=True),
    Column("executable", "id", needed=True),
    Column("queue", "id", needed=True),
    Column("partition", "id", needed=True),
    Column("previous_job", "id", needed=True),
    Column("think_time", needed=True),
)
"""The 18 fields of the Standard Workload Format, in order; a workload is made of those that are
needed, and the wait is compared with other times."""

_ATTEMPT: Final = (
    Column("machine_id", "id", holds="machine that it ran on"),
    Column("status", "text"),
    Column("seq_no", holds="which attempt it was"),
    Column("total_seq_no", holds="how many attempts there were"),
)
_USED: Final = (
    *_each("number", "cpu_percent mem_percent disk_percent"),
    *_each("number", "load1 load5 load15", "load of the machine"),
)
_AMOUNTS: Final = (
    Column("cpu", holds="cores"), Column("mem", holds="memory"), Column("disk", holds="disk"),
)  # fmt: skip
_CYCLES: Final = "cycles an instruction"
ALIBABA2017: Final = {
    "batch_task": ColumnMap.of(
        *_each("number", "create_time_s end_time_s"), *_each("id", "job_id task_id"),
        Column("instances"), Column("status", "text"), Column("plan_cpu", per=100),
        Column("plan_mem"),
    ),
    "batch_instance": ColumnMap.of(
        *_each("number", "start_time_s end_time_s"), *_each("id", "job_id task_id"), *_ATTEMPT,
        Column("cpu_max", holds="most cpu used"), Column("cpu_mean", holds="mean cpu used"),
        Column("mem_max", holds="most mem used"), Column("mem_mean", holds="mean mem used"),
    ),
    "server_event": ColumnMap.of(
        Column("time_s"), Column("machine_id", "id"), Column("event", "text"),
        Column("detail", "text", holds="why the machine failed"), *_AMOUNTS,
    ),
    "server_usage": ColumnMap.of(Column("time_s"), Column("machine_id", "id"), *_USED),
    "container_event": ColumnMap.of(
        Column("time_s"), Column("event", "text"), *_each("id", "container_id machine_id"),
        *_AMOUNTS, Column("cpu_set", "text", holds="the cores that it is bound to"),
    ),
    "container_usage": ColumnMap.of(
        Column("time_s"), Column("container_id", "id"), *_USED,
        Column("cpi_mean", holds=_CYCLES), Column("mpki_mean", holds="cache misses"),
        Column("cpi_max", holds=_CYCLES), Column("mpki_max", holds="cache misses"),
    ),
}  # fmt: skip
"""Table of cluster-trace-v2017 → its columns, in the order of its schema.csv; files have no header.
`plan_cpu` counts hundredths of a core."""

SACCT: Final = {
    "job": ("JobIDRaw", "JobID"),
    "user": ("User", "UID"),
    "group": ("Account", "Group", "GID"),
    "executable": ("JobName",),
    "queue": ("QOS",),
    "partition": ("Partition",),
    "run_s": ("ElapsedRaw", "Elapsed"),
    "allocated": ("AllocCPUS", "NCPUS"),
    "requested": ("ReqCPUS",),
    "machines": ("NNodes", "AllocNodes", "ReqNodes"),
    "mem": ("ReqMem", "AllocTRES", "ReqTRES"),
    "gpu": ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"),
}
"""What a job of Slurm has → the fields of ``sacct`` that tell it, the first that is there."""
SACCT_SAME: Final = (
    ("jobid", "jobidraw"),
    ("alloccpus", "ncpus"),
    ("elapsed", "elapsedraw"),
    ("timelimit", "timelimitraw"),
    ("nnodes", "allocnodes"),
    ("user", "uid"),
    ("group", "gid"),
    ("qos", "qosraw"),
    ("totalcpu", "usercpu", "systemcpu"),
    ("consumedenergy", "consumedenergyraw"),
    ("cputime", "cputimeraw"),
)
"""Fields that say the same: where one is read, nothing of the others is lost."""

_SACCT_MEANINGS: Final = {
    "resources asked for": "ReqTRES ReqGRES ReqMem ReqCPUS ReqNodes Licenses Constraints Layout "
    "NTasks ReqCPUFreq ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov",
    "resources allocated": "AllocTRES AllocGRES AllocCPUS NCPUS NNodes AllocNodes",
    "the machines it ran on": "NodeList BlockID",
    "when it could start: --begin, dependencies and holds": "Eligible",
    "time suspended": "Suspended",
    "time limit": "Timelimit TimelimitRaw Deadline",
    "recorded wait": "Reserved Planned ResvCPU ResvCPURAW PlannedCPU PlannedCPURAW",
    "time executed": "Elapsed ElapsedRaw CPUTime CPUTimeRAW",
    "recorded time": "Submit Start End State",
    "a reservation that it ran in": "Reservation ReservationId",
    "jobs that it depends on": "Dependency Dependencies",
    "how the scheduler treated it": "Flags Priority Reason QOSREQ",
    "attempts before this one": "Restarts",
    "cluster that the job belongs to": "Cluster",
    "processor time used": "TotalCPU UserCPU SystemCPU AveCPU MinCPU MinCPUNode MinCPUTask "
    "AveCPUFreq",
    "memory used": "MaxRSS AveRSS MaxVMSize AveVMSize MaxRSSNode MaxRSSTask MaxVMSizeNode "
    "MaxVMSizeTask AvePages MaxPages MaxPagesNode MaxPagesTask",
    "energy used": "ConsumedEnergy ConsumedEnergyRaw",
    "resources used": "TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask "
    "TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve "
    "TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode "
    "TRESUsageOutMinTask TRESUsageOutTot",
    "disk traffic": "AveDiskRead AveDiskWrite MaxDiskRead MaxDiskReadNode MaxDiskReadTask "
    "MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask",
    "machine that failed": "FailedNode",
    PLAIN: "Account AdminComment AssocID Comment Container DBIndex DerivedExitCode ExitCode Extra "
    "GID Group JobID JobIDRaw JobName McsLabel Partition QOS QOSRAW SLUID StdErr StdIn StdOut "
    "SubmitLine SystemComment UID User WCKey WCKeyID WorkDir",
}  # fmt: skip

SACCT_HOLDS: Final = {
    name.lower(): meaning for meaning, names in _SACCT_MEANINGS.items() for name in names.split()
}
"""Field of ``sacct`` in lower case → what it holds: ``sacct --helpformat`` lists them all."""
