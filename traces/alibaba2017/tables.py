"""The tables of cluster-trace-v2017: where they are, how their rows are read, and the rules.

Alibaba Cluster Trace Program, "Cluster data collected from production clusters in Alibaba for
cluster management research", cluster-trace-v2017. The files have no header; a table is in a folder,
an archive or one file. Rows come as polars frames, block by block or lazily.

Each known problem of the trace (its description names most) has one name, under which reports count
it. Where more than one treatment makes sense, the scenario chooses. The defaults leave out rows
that never ran or had not ended, and rows without a usable time or machine.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl
from pydantic import SerializerFunctionWrapHandler, model_serializer

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.sections import Section
from simkit.traces.columns import ALIBABA2017
from simkit.traces.files import BLOCK_BYTES, Block, opened, text_blocks, whole_line_blocks
from simkit.traces.rules import Tally

TABLES: Final = tuple(ALIBABA2017)

NAMES_OF_2018: Final = ("machine_meta", "machine_usage", "container_meta")
"""Tables that only cluster-trace-v2018 has; the others have the names of v2017's."""
_WIDTHS_OF_2018: Final = {"batch_task": 9, "batch_instance": 14, "container_usage": 11}


def looks_like_2018(table: str, fields: list[str]) -> bool:
    """Return whether a row has the form of v2018: another width, or ids such as m_12 and c_3."""
    if len(fields) == _WIDTHS_OF_2018.get(table):
        return True
    prefix, _, number = fields[0].partition("_")
    return prefix in ("m", "c") and number.isdigit()


_PLAIN: Final = (".csv", ".csv.gz")
_ARCHIVES: Final = (".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True)
class TableFile:
    """The location of a table: a file, or a member of an archive."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        """Return the location as messages name it: ``folder/trace.tgz:batch_task.csv``."""
        return str(self.path) if self.member is None else f"{self.path}:{self.member}"

    def blocks(self) -> Iterator[Block]:
        """Yield the table's lines; raise TraceError, with the line, for damaged or binary data."""
        if self.member is None:
            yield from text_blocks(self.path)
            return
        with _archive(self.path) as archive:
            for member in archive:
                if member.name == self.member and (stream := archive.extractfile(member)):
                    pieces = iter(partial(stream.read, BLOCK_BYTES), b"")
                    yield from whole_line_blocks(pieces, str(self))
                    return


def find_tables(path: Path, table: str) -> dict[str, TableFile]:
    """Return the location of each table: table → file.

    Args:
        path: a folder, a tar archive (plain or gzipped), or a single table.
        table: which table a single file is, if its name does not say so.

    Raises TraceError if there is nothing to read at `path`, or `table` is not in it.
    """
    if path.is_dir():
        found = _in_folder(path)
    elif _has_tar_header(path):
        found = _in_archive(path)
    else:
        name = _stem(path.name, _PLAIN)
        found = {name if name in TABLES else table: TableFile(path)}
    if table not in found:
        raise _missing(path, table, found)
    return found


def _in_folder(folder: Path) -> dict[str, TableFile]:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        reason = error.strerror or error
        raise TraceError(f"{folder}: cannot be listed: {reason}; check its permissions") from None
    found: dict[str, TableFile] = {}
    for ending in _PLAIN:
        for name in names:
            if name.endswith(ending) and (table := name.removesuffix(ending)) in TABLES:
                found.setdefault(table, TableFile(folder / name))
    for name in names:  # an archive is read only for tables that are not next to it
        if name.endswith(_ARCHIVES) and not set(TABLES) <= set(found):
            found = _in_archive(folder / name) | found
    return found


def _in_archive(path: Path) -> dict[str, TableFile]:
    found: dict[str, TableFile] = {}
    with _archive(path) as archive:
        for member in archive:
            table = _stem(member.name.rpartition("/")[2], (".csv",))
            if member.isfile() and table in TABLES:
                found.setdefault(table, TableFile(path, member.name))
    return found


def _stem(name: str, endings: tuple[str, ...]) -> str:
    """Return the name without the longest of these endings that it has."""
    return name.removesuffix(max((e for e in endings if name.endswith(e)), key=len, default=""))


def _has_tar_header(path: Path) -> bool:
    """Return whether the content is a tar archive; raise if the file cannot be read."""
    with opened(path) as stream:
        try:
            return stream.read(512)[257:262] == b"ustar"
        except (EOFError, OSError, zlib.error):
            return path.name.endswith(_ARCHIVES)  # the reader reports what is wrong


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive for one pass from start to end."""
    with opened(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield archive
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise TraceError(
                f"{path}: the archive is cut off or damaged ({error}); fetch or copy it again"
            ) from None


def _missing(path: Path, table: str, found: dict[str, TableFile]) -> TraceError:
    has = f"it has {', '.join(sorted(found))}" if found else "it has no table of the trace"
    newer = ""
    if path.is_dir():
        stems = {_stem(entry.name, (*_PLAIN, *_ARCHIVES)) for entry in path.iterdir()}
        if later := sorted(stems & set(NAMES_OF_2018)):
            newer = f"; {', '.join(later)} belongs to cluster-trace-v2018, simkit reads v2017"
    return TraceError(
        f"{path}: no table {table}; {has}{newer}; put {table}.csv, {table}.csv.gz or an archive "
        "(.tar.gz, .tgz) that holds it there"
    )


LINE: Final = "line"
"""The column of line numbers that every frame has besides the table's own."""


def table_rows(file: TableFile, table: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield a table's rows: `LINE` (int64) and the given columns (Float64, text String).

    An empty field is null. A header line, CRLF, quotes and empty lines are tolerated.

    Raises TraceError, with the line, for a row with more or fewer fields than the table has, for
    a field that should be a number and is not, and for a table of cluster-trace-v2018.
    """
    started = False
    for block in file.blocks():
        text, line = _data_lines(block)
        if not started and len(line):
            started = True
            if _is_header(text, len(ALIBABA2017[table])):
                text, line = text.partition(b"\n")[2], line[1:]
        if len(line):
            yield _parsed(text, line, table, columns, file)


def leave_aside(table: str, read: Sequence[str], tally: Tally) -> None:
    """Name the columns of a table that are not among those read."""
    columns = ALIBABA2017[table]
    tally.unread(columns.left_aside(read), columns.holds)


def numbers(rows: pl.DataFrame, name: str) -> Floats:
    """Return a column of numbers, NaN where a field is empty."""
    return rows[name].fill_null(np.nan).to_numpy()


def lower_text(rows: pl.DataFrame, name: str) -> pl.Series:
    """Return a column of text in lower case, "" where a field is empty."""
    return rows[name].fill_null("").str.strip_chars().str.to_lowercase()


def scan_table(file: TableFile, table: str) -> pl.LazyFrame:
    """Return a table as a lazy frame: ids Int64, numbers Float64, text String, no line numbers.

    Rows are read when the frame is collected, block by block and only the columns that the query
    needs, so with ``engine="streaming"`` a long table needs little memory. Collecting raises the
    same errors as `table_rows`.
    """
    from polars.io.plugins import register_io_source

    kinds = ALIBABA2017[table]
    types: dict[str, pl.DataType] = {"id": pl.Int64(), "number": pl.Float64(), "text": pl.String()}
    schema = pl.Schema({c.name: types[c.kind] for c in kinds})

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 - the blocks of the file are the batches
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for rows in table_rows(file, table, kinds.names):
            frame = rows.drop(LINE).cast(schema, strict=False)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if with_columns is None else frame.select(with_columns)
            if left == 0:
                return

    return register_io_source(frames, schema=schema)


def _data_lines(block: Block) -> tuple[bytes, Ints]:
    """Return a block's lines that are not empty, and their numbers."""
    text, first = block.text, block.first_line
    if b"\r" in text or b'"' in text:
        text = text.translate(None, b'\r"')
    if b"\n\n" not in text and not text.startswith(b"\n"):
        return text, np.arange(first, first + text.count(b"\n"))
    kept = [(n, row) for n, row in enumerate(text.split(b"\n"), first) if row.strip()]
    return b"".join(row + b"\n" for _, row in kept), np.array([n for n, _ in kept], np.int64)


def _is_header(text: bytes, width: int) -> bool:
    """Return whether the first line names columns: as many fields as the table, none a number."""
    fields = text.partition(b"\n")[0].split(b",")
    return len(fields) == width and not any(_is_number(field) or not field for field in fields)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parsed(
    text: bytes, line: Ints, table: str, columns: Sequence[str], file: TableFile
) -> pl.DataFrame:
    kinds = ALIBABA2017[table]
    commas = int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(",")))
    if commas != (len(kinds) - 1) * len(line):
        raise _misshapen(text, line, table, file)
    types = {c.name: pl.String if c.kind == "text" else pl.Float64 for c in kinds}
    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            quote_char=None,
            schema=types,
            columns=sorted(map(kinds.position, columns)),
        )
    except pl.exceptions.PolarsError:
        frame = _parsed_slowly(text, line, table, columns, file)
    return frame.with_columns(pl.Series(LINE, line, pl.Int64))


def _parsed_slowly(
    text: bytes, line: Ints, table: str, columns: Sequence[str], file: TableFile
) -> pl.DataFrame:
    """Read fields as text, then as numbers; the error names the first that is not a number."""
    kinds = ALIBABA2017[table]
    rows = [row.split(",") for row in text.decode("utf-8", "replace").split("\n")[:-1]]
    if any(len(row) != len(kinds) for row in rows):
        raise _misshapen(text, line, table, file)
    read = {}
    for position, (name, kind) in enumerate((c.name, c.kind) for c in kinds):
        if name not in columns:
            continue
        words = pl.Series(name, [row[position].strip() or None for row in rows], pl.String)
        if kind == "text":
            read[name] = words
            continue
        read[name] = words.cast(pl.Float64, strict=False)
        if (broken := read[name].is_null() & words.is_not_null()).any():
            row = int(broken.arg_true()[0])
            raise _not_a_number(f"{file}:{line[row]}", table, position, rows[row])
    return pl.DataFrame(read)


def _misshapen(text: bytes, line: Ints, table: str, file: TableFile) -> TraceError:
    """Return an error that names the first line with more or fewer fields than the table."""
    kinds = ALIBABA2017[table]
    rows = [row.decode("utf-8", "replace").split(",") for row in text.split(b"\n")[:-1]]
    index = next(i for i, row in enumerate(rows) if len(row) != len(kinds))
    fields = rows[index]
    place = f"{file}:{line[index]}"
    what = f"{place}: {len(fields)} fields, {table} of cluster-trace-v2017 has {len(kinds)}"
    if looks_like_2018(table, fields):
        return TraceError(f"{what}; this is {table} of cluster-trace-v2018, give v2017's table")
    return TraceError(f"{what} ({', '.join(kinds.names)}); leave unknown fields empty")


def _not_a_number(place: str, table: str, position: int, fields: list[str]) -> TraceError:
    name, value = ALIBABA2017[table].names[position], fields[position].strip()[:40]
    remedy = "write numbers, or leave the field empty"
    if looks_like_2018(table, fields):
        remedy = "this is a table of cluster-trace-v2018, give v2017's"
    return TraceError(
        f"{place}: field {position + 1} ({name}) is {value!r}, not a number; {remedy}"
    )


def tables_there(path: str | PathLike[str]) -> dict[str, TableFile]:
    """Return all tables of the trace that a path holds.

    Args:
        path: a folder, a tar archive, or a single table that has its table's name.

    Raises TraceError if there is none, or nothing to read.
    """
    problem: TraceError | None = None
    for table in TABLES:
        try:
            return find_tables(Path(path), table)
        except TraceError as error:
            problem = problem or error
    raise problem or TraceError(f"{path}: no table of the trace")


def names_a_table(path: Path) -> bool:
    """Return whether a file is named like a table, of 2017 or 2018, or like an archive."""
    known = path.name.partition(".")[0] in (*TABLES, *NAMES_OF_2018)
    return path.is_file() and (known or path.name.endswith((".tar", ".tar.gz", ".tgz")))


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar archive."""
    try:
        return tarfile.is_tarfile(path)
    except (OSError, EOFError, zlib.error):
        return False  # the reader will report what is wrong


NOT_A_NUMBER: Final = "value not usable"
NO_IDS: Final = "job or task id missing"
WAITING: Final = "task never started"
RUNNING: Final = "task still running"
FAILED: Final = "task failed or cancelled"
UNKNOWN_STATUS: Final = "unknown status"
EARLY: Final = "created before the trace"
NO_END: Final = "end time missing"
NEGATIVE_RUN: Final = "ends before it is created"
ZERO_RUN: Final = "task run time 0"
NO_INSTANCES: Final = "task without instances"
NO_REQUEST: Final = "plan_cpu or plan_mem missing"
REPEATED_TASK: Final = "repeated task id"
LATER_TASK: Final = "created after its job"

INSTANCE_WAITING: Final = "instance never started"
INSTANCE_RUNNING: Final = "instance still running"
INSTANCE_FAILED: Final = "attempt failed or interrupted"
RETRIED: Final = "retried later"
NO_START: Final = "start time missing"
NEGATIVE_ATTEMPT: Final = "ends before it starts"
UNKNOWN_TASK: Final = "task not in batch_task"
TASK_LEFT_OUT: Final = "instance of a task left out"
SURPLUS: Final = "more instances than planned"
MISSING_INSTANCES: Final = "instances without a row"
TASKS_WITHOUT_ROWS: Final = "tasks without a row"

UNKNOWN_MACHINE: Final = "unknown machine id"
NO_MACHINE: Final = "machine id missing"
UNKNOWN_EVENT: Final = "unknown event"
NO_CAPACITY: Final = "machine without capacity"
CAPACITY_KNOWN: Final = "capacity from the machine's add"
EVENT_ORDER: Final = "out of time order"
ADDED_AGAIN: Final = "machine added again"

NO_CONTAINER: Final = "container id missing"
BAD_REQUEST: Final = "container request missing"
NOT_CREATED: Final = "removal without creation"
CREATED_AGAIN: Final = "container created again"

NO_USER_OF: Final = "usage of nobody"
NO_TIME: Final = "usage without a time"
SHARE_OUTSIDE: Final = "usage outside 0 to 100 %"
NO_SHARE: Final = "usage incomplete"
WITHOUT_EVENT: Final = "usage without an event"

RULES: Final[dict[str, str]] = {
    NOT_A_NUMBER: "A field that is needed is nan, infinite, negative where only 0 or more makes "
    "sense, not whole where it must be, or beyond 2^33 (submit and run times: 2^32, ids: 2^53); "
    "the row is left out.",
    NO_IDS: "The job or the task id is empty, so the row's owner is unknown; left out. The "
    "trace's description knows of these rows in batch_instance.",
    WAITING: "The task's status is Waiting or Ready: it never ran; left out (rule `waiting`).",
    RUNNING: "The task's status is Running: it had not ended when the trace did, so its run time "
    "is not known; left out (rule `running`).",
    FAILED: "The task's status is Failed or Cancelled; left out (rule `failed`).",
    UNKNOWN_STATUS: "The status is unknown; left out.",
    EARLY: "The task was created before the trace's zero (rule `early`).",
    NO_END: "The end time is 0 or empty; left out.",
    NEGATIVE_RUN: "The task ends before it is created (rule `negative_run`).",
    ZERO_RUN: "The task ends in the second in which it is created; left out (rule `zero_run`).",
    NO_INSTANCES: "The task has no instances, or a number that is not whole; left out.",
    NO_REQUEST: "The cpu or the memory that an instance asks for is empty (rule `no_request`).",
    REPEATED_TASK: "Another row has the same job and task id; both are kept, rows of instances go "
    "to the first.",
    LATER_TASK: "The task was created after its job's first task; it is submitted with the job.",
    INSTANCE_WAITING: "The status is Waiting or Ready: the instance never ran; left out.",
    INSTANCE_RUNNING: "The status is Running: the run time is not known; left out.",
    INSTANCE_FAILED: "The attempt failed, was cancelled or was interrupted (a backup instance): "
    "its run time is not that of the instance; left out.",
    RETRIED: "A later attempt followed (seq_no is below total_seq_no); left out (rule `retries`).",
    NO_START: "The start time is 0 or empty; left out.",
    NEGATIVE_ATTEMPT: "The instance ends before it starts; left out.",
    UNKNOWN_TASK: "batch_task has no row of this job and task; left out.",
    TASK_LEFT_OUT: "The rules left out the task of this instance, so it is left out with it.",
    SURPLUS: "More instances of the task ended than it planned; those that started last are left "
    "out.",
    MISSING_INSTANCES: "Instances that the table does not show ended; they take their task's mean.",
    TASKS_WITHOUT_ROWS: "Tasks none of whose instances the table shows ended; their instances "
    "take the run time of `durations`.",
    UNKNOWN_MACHINE: "server_event has no machine of this id. Events are left out; instances and "
    "containers are kept.",
    NO_MACHINE: "The machine id is empty; left out.",
    UNKNOWN_EVENT: "The event is unknown; left out.",
    NO_CAPACITY: "A machine is added without cpu or memory; left out.",
    CAPACITY_KNOWN: "The event carries no capacity (0, or empty), as errors do; what the machine "
    "had when it was added is taken.",
    EVENT_ORDER: "The row comes after one of a later time; rows are sorted by time.",
    ADDED_AGAIN: "The machine is there already; the row is kept and states its capacity.",
    NO_CONTAINER: "The container id is empty; left out.",
    BAD_REQUEST: "What the container holds is empty or negative; left out.",
    NOT_CREATED: "A container is removed that is not there; left out.",
    CREATED_AGAIN: "A container is created that is there already; left out.",
    NO_USER_OF: "The machine or container id of the measurement is empty.",
    NO_TIME: "The time of the measurement is empty.",
    SHARE_OUTSIDE: "A share of cpu, memory or disk is negative or above 100 %.",
    NO_SHARE: "A share of cpu, memory or disk is empty.",
    WITHOUT_EVENT: "No event of the trace has this machine or container; the trace's authors know "
    "of such containers.",
}
"""What each rule or note means, in a sentence."""


class RowRules(Section):
    """How to treat known problems of the trace."""

    waiting: Literal["drop", "keep"] = "drop"
    """Tasks that never started; kept, they run as long as the clock says between their times."""
    running: Literal["drop", "keep"] = "drop"
    """Tasks that had not ended; kept, they run until their last change of state."""
    failed: Literal["keep", "drop"] = "keep"
    """Failed and cancelled tasks: they held machines like any other, so they are kept."""
    early: Literal["keep", "zero", "drop"] = "keep"
    """Tasks created before the trace's zero. Their negative times are those of the same clock (run
    times across zero are as usual), so they are kept; ``zero`` submits them at 0."""
    negative_run: Literal["drop", "zero"] = "drop"
    """Tasks that end before they are created; ``zero`` makes their run time 0."""
    zero_run: Literal["drop", "keep"] = "drop"
    """Tasks that end in the second in which they are created."""
    no_request: Literal["drop", "median"] = "drop"
    """Tasks whose cpu or memory is empty; ``median`` takes that of the other kept tasks."""
    retries: Literal["last", "all"] = "last"
    """Which attempt of an instance counts: the last; ``all``: any that ended well."""

    @model_serializer(mode="wrap")
    def _where_they_differ(self, handler: SerializerFunctionWrapHandler) -> dict[str, str]:
        return {k: v for k, v in handler(self).items() if v != type(self).model_fields[k].default}
