"""Scans the tables of an Alibaba trace: rows as polars frames, block by block, or lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.errors import TraceError
from simkit.workload import Ints

from .alibaba2017_files import TableFile
from .alibaba2017_layout import COLUMNS, looks_like_2018
from .files import Block

if TYPE_CHECKING:
    import polars as pl

LINE: Final = "line"
"""The column of line numbers that every frame has besides the table's own."""


def table_rows(file: TableFile, table: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield a table's rows: `LINE` (int64) and the given columns (Float64, text String).

    An empty field is null. A header line, CRLF, quotes and empty lines are tolerated.

    Raises TraceError, with the line, for a row with more or fewer fields than the table has, for
    a field that should be a number and is none, and for a table of cluster-trace-v2018.
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


def scan_table(file: TableFile, table: str) -> pl.LazyFrame:
    """Return a table for lazy work: ids Int64, numbers Float64, text String, no line numbers.

    Rows are read when the frame is collected, a block at a time and only the columns asked for,
    so that a query collected with ``engine="streaming"`` needs little memory however long the
    table is. Errors of the file are raised then, too, as `table_rows` does.
    """
    import polars as pl
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
    """Tell whether the first line names columns: as many fields as the table, none a number."""
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
    import polars as pl

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
    """Read fields as text, then as numbers; the first that is none is named."""
    import polars as pl

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
    """Say which line is the first with more or fewer fields than the table has."""
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
    remedy = "write numbers, and nothing where there is none"
    if looks_like_2018(table, fields):
        remedy = "this is a table of cluster-trace-v2018, give v2017's"
    return TraceError(
        f"{place}: field {position + 1} ({name}) is {value!r}, not a number; {remedy}"
    )
