"""Writers of a run: `RunWriter` into a run folder, `MemoryWriter` into memory.

A run folder is either whole or says that it is not. `run.json` is there first, with status
"incomplete". A table grows under a temporary name and gets its own name when it is closed;
`run.json` is replaced last, in one step. So no reader can take an unfinished folder for a finished
run, and every ``.parquet`` in it is a valid file.

A finished run that will be replaced stays until the new one is whole: the new run is written to
the folder ``unfinished`` inside, and then takes its place.

A run's digest, `RunDigest`, is SHA-256 over the values of its tables, its metrics and its
scenario. Two runs of a scenario have the same digest, whatever the hash seed, the machine, the
folder or the size of the chunks in which the tables were written; wall time, memory and paths stay
outside. For each table, in the order of `TABLES`, and each of its columns, in order, the column's
hash is SHA-256 over its values in row order:

- Float64: 8 bytes, little-endian; null is the quiet NaN 0x7ff8000000000000;
- Int64: 8 bytes, little-endian; null is -2**63;
- Boolean: one byte, 0 or 1; null is 2;
- String: the UTF-8 bytes and one 0 byte; null is the bytes 0xff and 0.

The digest is SHA-256 over a line ``table.column:hash`` for each column, a line ``metrics:hash``
and a last line ``scenario:hash``: the SHA-256 of the metrics, without the user's in the part
``custom``, and of the scenario's portable form, as JSON with sorted keys and no blanks.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import records
from simkit.errors import RunError
from simkit.files import PART
from simkit.results.metric import CUSTOM
from simkit.results.output_folder import (
    UNFINISHED,
    check_content,
    holds_finished_run,
    reason,
    unwritable,
)
from simkit.results.run_folder import PORTABLE, MemoryRun, Run, WrittenRun

TABLES: Final = (*records.TABLES, *records.POWER_TABLES)
"""The tables that the digest covers, in order; only runs with power have the last two."""


class RunDigest:
    """Hashes a run's tables chunk by chunk, without keeping a row."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, Any]] = {table: {} for table in TABLES}

    def update(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table; every chunk of a table has the same columns."""
        hashes = self._columns[table]
        for column in rows.iter_columns():
            hashes.setdefault(column.name, sha256()).update(canonical_bytes(column))

    def finish(self, metrics: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
        """Return the run's digest, 64 hexadecimal digits; `scenario` is in its portable form."""
        total = sha256()
        for table, hashes in self._columns.items():
            for name, column in hashes.items():
                total.update(f"{table}.{name}:{column.hexdigest()}\n".encode())
        own = {name: metric for name, metric in metrics.items() if name != CUSTOM}
        for name, content in (("metrics", own), ("scenario", scenario)):
            text = json.dumps(content, sort_keys=True, separators=(",", ":"))
            total.update(f"{name}:{sha256(text.encode()).hexdigest()}\n".encode())
        return total.hexdigest()


def canonical_bytes(column: pl.Series) -> bytes | memoryview:
    """Return a column's values in the encoding above.

    Raises TypeError unless the column is Float64, Int64, Boolean or String.
    """
    if column.dtype == pl.Float64:
        return _numbers(column, np.nan, "<f8")
    if column.dtype == pl.Int64:
        return _numbers(column, -(2**63), "<i8")
    if column.dtype == pl.Boolean:
        return column.cast(pl.UInt8).fill_null(2).to_numpy().tobytes()
    if column.dtype == pl.String:
        if not len(column):
            return b""
        if column.null_count() == 0:
            first: str = column[0]
            if (column == first).all():  # as are most statuses, and all of a chunk
                return (first.encode() + b"\0") * len(column)
            joined: str = column.str.join("\0").item()
            return joined.encode() + b"\0"
        return b"".join(
            b"\xff\0" if text is None else text.encode() + b"\0" for text in column.to_list()
        )
    raise TypeError(f"column {column.name} is {column.dtype}; it must be a number, bool or text")


def _numbers(column: pl.Series, null: float, form: str) -> memoryview:
    """Return the bytes of numbers, not copied if none is missing."""
    filled = column.fill_null(null) if column.null_count() else column
    return np.ascontiguousarray(filled.to_numpy(), form).data


ROW_GROUP: Final = 32_768
"""Rows that a table collects before they are written as one row group."""
ENCODINGS: Final[Mapping[pl.DataType, str]] = {
    pl.Float64(): "BYTE_STREAM_SPLIT", pl.Int64(): "DELTA_BINARY_PACKED",
}  # fmt: skip
"""How numbers are laid out in a file: compressing them so takes half the time, and less room."""
MOST_KEPT_BYTES: Final = 32 << 20
"""Tables that are no larger in all are measured from memory, not read again from their files."""
_FILES: Final = (*(f"{table}.parquet" for table in TABLES), "metrics.json")
"""Files of a run folder besides `run.json`."""


class FailedRunError(RunError):
    """A run that had begun could not be finished, e.g. because the disk is full."""

    failed_run = True
    """The command was right: its exit code is that of a failed run."""


class RunWriter:
    """Writes a run folder; a `TableSink` for the recorder.

    Attributes:
        folder: where the finished run will be.
        work: where it is written: the same folder, or ``unfinished`` inside it if the folder holds
            a finished run.
        wall_time_s: time spent in writing.
    """

    def __init__(
        self, folder: str | os.PathLike[str], info: Mapping[str, Any], *, force: bool = False
    ) -> None:
        """Make the folder, or take over one that holds a run, and mark it as incomplete.

        Args:
            folder: new or empty, or it holds a run of the same scenario, which is replaced when
                this one is whole.
            info: the content of `run.json` so far.
            force: also take a folder that holds another run or other files; only files
                with the names of simkit's files are replaced.

        Raises RunError if the folder holds something else, cannot be written, or another process
        is writing to it.
        """
        self.folder = Path(folder)
        self._digest = RunDigest()
        self.wall_time_s = 0.0
        self._info = dict(info)
        self._open: dict[str, Any] = {}
        self._waiting: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}
        self._kept: dict[str, list[pl.DataFrame]] = {}
        self._kept_bytes = 0
        check_content(self.folder, info, force=force)
        self._lock = claim(self.folder)
        self.work = self.folder / UNFINISHED if holds_finished_run(self.folder) else self.folder
        try:
            self.work.mkdir(exist_ok=True)
            self._put_info("incomplete")
            _clear(self.work)
        except OSError as error:
            self._unlock()
            raise unwritable(self.work, error) from error

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table.

        Raises FailedRunError if they cannot be written.
        """
        begin = perf_counter()
        self._digest.update(table, rows)
        self._keep(table, rows)
        waiting = self._waiting[table]
        waiting.append(rows)
        if table not in self._open or sum(map(len, waiting)) >= ROW_GROUP:
            self._write_waiting(table)
        self.wall_time_s += perf_counter() - begin

    def _keep(self, table: str, rows: pl.DataFrame) -> None:
        """Keep rows for the metrics, until all rows are too many for the memory of a run."""
        if self._kept_bytes <= MOST_KEPT_BYTES:
            self._kept_bytes += int(rows.estimated_size())
            self._kept.setdefault(table, []).append(rows)
        if self._kept_bytes > MOST_KEPT_BYTES:
            self._kept.clear()

    def start_over(self) -> None:
        """Forget all rows so far, as if none had been written.

        Raises FailedRunError if the folder cannot be written.
        """
        for table in tuple(self._open):
            self._writing(self._open[table].close)
            self._path(table).unlink()
            del self._open[table]
        for waiting in self._waiting.values():
            waiting.clear()
        self._digest, self._kept, self._kept_bytes = RunDigest(), {}, 0

    def close_tables(self) -> None:
        """Write what is left and give the tables their names.

        Raises FailedRunError if that fails.
        """
        begin = perf_counter()
        for table in tuple(self._open):
            self._write_waiting(table)
            self._writing(self._open[table].close)
            path = self._path(table)
            path.replace(path.with_name(path.name.removesuffix(PART)))
            del self._open[table]
        self.wall_time_s += perf_counter() - begin

    def results(self) -> Run:
        """Return the run so far; its tables must be closed."""
        tables = {table: pl.concat(rows) for table, rows in self._kept.items()}
        return WrittenRun(self.work, self._info, tables)

    def complete(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> Run:
        """Write the metrics, then `run.json` with status "complete"; return the finished run.

        Raises FailedRunError if they cannot be written.
        """
        self._info |= info
        digest = self._digest.finish(metrics, self._info.get(PORTABLE, {}))
        self._info |= {"digest": digest, "error": ""}
        try:
            _write_json(self.work / "metrics.json", metrics)
            self._put_info("complete")
            if self.work != self.folder:
                self._take_place()
        except OSError as error:
            raise self._failed(error) from error
        _remove_run(self.folder / UNFINISHED)  # of an earlier run that did not end, if there is one
        self._unlock()
        return Run(self.work, self._info)

    def _take_place(self) -> None:
        """Replace the earlier run by this one; in between the folder says "incomplete"."""
        finished, self.work = self.work, self.folder
        self._put_info("incomplete")
        _clear(self.folder)
        for name in _FILES:
            if (finished / name).exists():
                (finished / name).replace(self.folder / name)
        self._put_info("complete")

    def abandon(self, status: str, error: str, info: Mapping[str, Any]) -> None:
        """Keep the rows so far as valid tables and mark the run "interrupted" or "failed"."""
        self._info |= info
        try:
            self.close_tables()
        except FailedRunError as failure:
            error = f"{error}; then {failure}" if error else str(failure)
        self._mark(status, error)

    def _write_waiting(self, table: str) -> None:
        waiting = self._waiting[table]
        if waiting:
            rows = pl.concat(waiting) if len(waiting) > 1 else waiting[0]
            waiting.clear()
            self._writing(lambda: self._writer(table, rows).write_table(rows.to_arrow()))

    def _writer(self, table: str, rows: pl.DataFrame) -> Any:
        from pyarrow.parquet import ParquetWriter

        if table not in self._open:
            arrow, kinds = rows.head(0).to_arrow().schema, rows.schema
            texts = [name for name, kind in kinds.items() if kind == pl.String]
            encodings = {name: ENCODINGS[kind] for name, kind in kinds.items() if kind in ENCODINGS}
            self._open[table] = ParquetWriter(  # a dictionary of numbers costs more than it saves
                self._path(table), arrow, compression="zstd", use_dictionary=texts,
                column_encoding=encodings,
            )  # fmt: skip
        return self._open[table]

    def _path(self, table: str) -> Path:
        return self.work / f"{table}.parquet{PART}"

    def _writing(self, step: Callable[[], Any]) -> None:
        try:
            step()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> FailedRunError:
        """Remove half-written tables, mark the run as failed and return the error to raise."""
        failure = FailedRunError(
            f"{self.work}: cannot be written: {reason(error)}; free some space or choose "
            "another place with --output, and run again: the folder is marked as not complete"
        )
        for writer in self._open.values():
            writer.is_open = False  # or it would try to write once more when it is collected
        self._open.clear()
        for path in self.work.glob(f"*{PART}"):
            path.unlink(missing_ok=True)  # room for run.json, and nothing half valid stays
        self._mark("failed", str(failure))
        return failure

    def _mark(self, status: str, error: str) -> None:
        self._info["error"] = error
        with suppress(OSError):  # run.json then still says "incomplete", which is true
            self._put_info(status)
        self._unlock()

    def _put_info(self, status: str) -> None:
        self._info["status"] = status
        _write_json(self.work / "run.json", self._info)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def claim(folder: Path, what: str = "a run") -> int | None:
    """Make the folder and lock it for this process, so that no two processes write to it.

    Returns the lock, a file descriptor; closing it frees the folder, and so does the end of the
    process. None if the file system has no locks, or the system is Windows, which is not supported.

    Raises RunError if the folder cannot be made, or another process has locked it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    if os.name != "posix":
        return None
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise RunError(
                f"{folder}: another process is writing {what} there; wait for it, or choose "
                "another folder with --output"
            ) from error
        return None  # a file system without locks
    return lock


@contextmanager
def claimed(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder, see `claim`, while something is written there; one that stays empty goes."""
    lock = claim(folder, what)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)
        with suppress(OSError):
            folder.rmdir()


def rewrite(run: Run, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
    """Replace what a finished run's folder says of it by what leaves its digest as it is.

    Raises RunError if that cannot be written, or another process writes there.
    """
    with claimed(run.folder, "a run"):
        try:
            _write_json(run.folder / "metrics.json", metrics)
            _write_json(run.folder / "run.json", info)
        except OSError as error:
            raise unwritable(run.folder, error) from error


def _clear(folder: Path) -> None:
    """Remove the files of an earlier run; other files stay."""
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    for path in folder.glob(f"*{PART}"):
        path.unlink(missing_ok=True)


def _remove_run(folder: Path) -> None:
    """Remove a run with its folder; the folder stays if it holds other files."""
    with suppress(OSError):
        if folder.is_dir():
            _clear(folder)
            (folder / "run.json").unlink(missing_ok=True)
            folder.rmdir()


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file in one step."""
    part = path.with_name(path.name + PART)
    part.write_text(_indented(content, "\n") + "\n", encoding="utf-8")
    part.replace(path)


def _indented(value: Any, line: str) -> str:
    """Return JSON with one key a line; a list of objects has one object a line.

    Machines may be a hundred thousand: one that is not broken up is encoded ten times as fast.
    """
    below = line + " "
    if isinstance(value, dict) and value:
        items = [f"{_json(key)}: {_indented(item, below)}" for key, item in value.items()]
        return f"{{{below}{f',{below}'.join(items)}{line}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{below}{f',{below}'.join(map(_json, value))}{line}]"
    return _json(value)


_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class MemoryWriter:
    """Keeps the records of a run in memory; has the methods of `RunWriter`."""

    def __init__(self, info: Mapping[str, Any], *, digested: bool = True) -> None:
        """Begin without rows; `complete` needs `digested`."""
        self.wall_time_s = 0.0
        self._info = dict(info)
        self._digest = RunDigest() if digested else None
        self._chunks: dict[str, list[pl.DataFrame]] = {}
        self._tables: dict[str, pl.DataFrame] = {}

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table."""
        if self._digest is not None:
            self._digest.update(table, rows)
        self._chunks.setdefault(table, []).append(rows)

    def start_over(self) -> None:
        """Forget all rows so far."""
        self._digest = None if self._digest is None else RunDigest()
        self._chunks.clear()

    def close_tables(self) -> None:
        """Make one frame of each table."""
        self._tables |= {name: pl.concat(rows) for name, rows in self._chunks.items()}
        self._chunks.clear()

    def results(self) -> Run:
        """Return the run so far; its tables must be closed."""
        return MemoryRun(self._info, self._tables)

    def complete(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> Run:
        """Return the finished run."""
        assert self._digest is not None
        digest = self._digest.finish(metrics, self._info.get(PORTABLE, {}))
        info = {**self._info, **info, "status": "complete", "digest": digest}
        return MemoryRun(info, self._tables, metrics)

    def abandon(self, _status: str, _error: str, _info: Mapping[str, Any]) -> None:
        """Forget everything: a failed run in memory leaves nothing behind."""
        self._chunks.clear()
