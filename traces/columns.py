"""Column maps: what each format calls its columns, and what they hold.

A map is data alone: it has no rule for rows and reads no file, so that whoever reads the same files
by other means, as the auditor does, can share it. A format of another package has its map in its
own file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

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
    """What it holds."""
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


def unread(columns: ColumnMap, read: Collection[str]) -> list[str]:
    """Return our names of the columns that are not among those read."""
    return [name for name in columns.names if name not in read]


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
