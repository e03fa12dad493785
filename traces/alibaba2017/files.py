"""The tables of an Alibaba trace: finds them in a folder, an archive or one file, and reads them.

Rows come as polars frames, block by block or lazily.
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
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.traces.alibaba2017.layout import COLUMNS, NAMES_OF_2018, TABLES, looks_like_2018
from simkit.traces.files import BLOCK_BYTES, Block, opened, text_blocks, whole_line_blocks

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
            if _is_header(text, len(COLUMNS[table])):
                text, line = text.partition(b"\n")[2], line[1:]
        if len(line):
            yield _parsed(text, line, table, columns, file)


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

    kinds = COLUMNS[table]
    types = {"id": pl.Int64(), "number": pl.Float64(), "text": pl.String()}
    schema = pl.Schema({name: types[kind] for name, kind in kinds.items()})

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 - the blocks of the file are the batches
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for rows in table_rows(file, table, list(kinds)):
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
    kinds = COLUMNS[table]
    commas = int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(",")))
    if commas != (len(kinds) - 1) * len(line):
        raise _misshapen(text, line, table, file)
    types = {name: pl.String if kind == "text" else pl.Float64 for name, kind in kinds.items()}
    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            quote_char=None,
            schema=types,
            columns=sorted(list(kinds).index(name) for name in columns),
        )
    except pl.exceptions.PolarsError:
        frame = _parsed_slowly(text, line, table, columns, file)
    return frame.with_columns(pl.Series(LINE, line, pl.Int64))


def _parsed_slowly(
    text: bytes, line: Ints, table: str, columns: Sequence[str], file: TableFile
) -> pl.DataFrame:
    """Read fields as text, then as numbers; the error names the first that is not a number."""
    kinds = COLUMNS[table]
    rows = [row.split(",") for row in text.decode("utf-8", "replace").split("\n")[:-1]]
    if any(len(row) != len(kinds) for row in rows):
        raise _misshapen(text, line, table, file)
    read = {}
    for position, (name, kind) in enumerate(kinds.items()):
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
    kinds = COLUMNS[table]
    rows = [row.decode("utf-8", "replace").split(",") for row in text.split(b"\n")[:-1]]
    index = next(i for i, row in enumerate(rows) if len(row) != len(kinds))
    fields = rows[index]
    place = f"{file}:{line[index]}"
    what = f"{place}: {len(fields)} fields, {table} of cluster-trace-v2017 has {len(kinds)}"
    if looks_like_2018(table, fields):
        return TraceError(f"{what}; this is {table} of cluster-trace-v2018, give v2017's table")
    return TraceError(f"{what} ({', '.join(kinds)}); leave unknown fields empty")


def _not_a_number(place: str, table: str, position: int, fields: list[str]) -> TraceError:
    name, value = list(COLUMNS[table])[position], fields[position].strip()[:40]
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
