"""Writes a run folder, chunk by chunk, so that it is either whole or says that it is not.

`run.json` is there first, with status "incomplete". A table grows under a temporary name and gets
its own when it is closed; `run.json` is replaced last, in one step. Whatever happens in between,
nobody can take the folder for a finished run, and every ``.parquet`` in it is a valid file.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from simkit.digest import TABLES, RunDigest
from simkit.errors import RunError
from simkit.run_folder import Run

if TYPE_CHECKING:
    import polars as pl

ROW_GROUP: Final = 32_768
"""Rows that a table collects before they are written as one row group."""
PART: Final = ".part"
"""Ending of files that are being written."""


class FailedRunError(RunError):
    """A run that had begun could not be brought to its end, e.g. as the disk is full."""

    failed_run = True
    """Nothing was wrong with the command: its exit code is that of a failed run."""


class RunWriter:
    """The folder of a run that is being made; a `Sink` for the recorder.

    Attributes:
        folder: where the run is written.
        digest: of what has been written so far.
        wall_time_s: time spent in writing.
    """

    def __init__(self, folder: str | os.PathLike[str], info: Mapping[str, Any]) -> None:
        """Make the folder, or take over one that holds a run, and mark it as incomplete.

        Args:
            folder: a new or empty folder, or that of a run, which is replaced.
            info: what is known for `run.json` so far.

        Raises RunError if the folder holds something else, cannot be written, or another process
        is writing to it.
        """
        self.folder = Path(folder)
        self.digest = RunDigest()
        self.wall_time_s = 0.0
        self._info = dict(info)
        self._open: dict[str, Any] = {}
        self._waiting: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}
        self._lock = _claim(self.folder)
        try:
            self._put_info("incomplete")
            _clear(self.folder)
        except OSError as error:
            self._unlock()
            raise _unwritable(self.folder, error) from error

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table.

        Raises FailedRunError if they cannot be written.
        """
        begin = perf_counter()
        self.digest.update(table, rows)
        waiting = self._waiting[table]
        waiting.append(rows)
        if table not in self._open or sum(map(len, waiting)) >= ROW_GROUP:
            self._write_waiting(table)
        self.wall_time_s += perf_counter() - begin

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
        """Return the run as it stands, its tables closed, to be measured."""
        return Run(self.folder, self._info)

    def complete(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> Run:
        """Write the metrics, then `run.json` with status "complete"; return the finished run.

        Raises FailedRunError if they cannot be written.
        """
        self._info |= info
        self._info |= {"digest": self.digest.finish(metrics), "error": ""}
        try:
            _write_json(self.folder / "metrics.json", metrics)
            self._put_info("complete")
        except OSError as error:
            raise self._gone(error) from error
        self._unlock()
        return self.results()

    def abandon(self, status: str, error: str, info: Mapping[str, Any]) -> None:
        """Keep the rows so far as valid tables and mark the run "interrupted" or "failed"."""
        self._info |= info
        try:
            self.close_tables()
        except FailedRunError as failure:
            error = f"{error}; then {failure}" if error else str(failure)
        self._mark(status, error)

    def _write_waiting(self, table: str) -> None:
        import polars as pl

        waiting = self._waiting[table]
        if waiting:
            rows = pl.concat(waiting) if len(waiting) > 1 else waiting[0]
            waiting.clear()
            self._writing(lambda: self._writer(table, rows).write_table(rows.to_arrow()))

    def _writer(self, table: str, rows: pl.DataFrame) -> Any:
        from pyarrow.parquet import ParquetWriter

        if table not in self._open:
            schema = rows.head(0).to_arrow().schema
            self._open[table] = ParquetWriter(self._path(table), schema, compression="zstd")
        return self._open[table]

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.parquet{PART}"

    def _writing(self, step: Callable[[], Any]) -> None:
        """Do a step of writing; if it fails, drop what is half written and say so in run.json."""
        try:
            step()
        except OSError as error:
            raise self._gone(error) from error

    def _gone(self, error: OSError) -> FailedRunError:
        failure = FailedRunError(
            f"{self.folder}: cannot be written ({_reason(error)}); free some space or choose "
            "another place with --output, and run again: the folder is marked as not complete"
        )
        for writer in self._open.values():
            writer.is_open = False  # or it would try to write once more when it is collected
        self._open.clear()
        for path in self.folder.glob(f"*{PART}"):
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
        _write_json(self.folder / "run.json", self._info)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _claim(folder: Path) -> int | None:
    """Make the folder and lock it for this process; return the lock, None where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise _unwritable(folder, error) from error
    if entries and "run.json" not in entries:
        raise RunError(
            f"{folder}: holds other things ({', '.join(entries[:3])}{', …' * (len(entries) > 3)}) "
            "and no run; choose a new folder, or empty this one"
        )
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
                f"{folder}: another process is writing a run there; wait for it, or choose another "
                "folder with --output"
            ) from error
        return None  # a file system without locks
    return lock


def _clear(folder: Path) -> None:
    """Remove what is left of an earlier run; files that are not simkit's stay."""
    for name in (*(f"{table}.parquet" for table in TABLES), "metrics.json"):
        (folder / name).unlink(missing_ok=True)
    for path in folder.glob(f"*{PART}"):
        path.unlink(missing_ok=True)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file in one step."""
    part = path.with_name(path.name + PART)
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def _unwritable(folder: Path, error: OSError) -> RunError:
    return RunError(
        f"{folder}: cannot be written ({_reason(error)}); choose another folder with --output"
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
