"""The rows of a table of text or Parquet, by the scenario's keys, as an auditor reads them.

Column names may stand below other lines, any character may separate fields, and quoted fields may
go over several lines; comments and notes of another width are no rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from simkit.verify.folder import refuse_equal_rows, unpacked_whole

_SEPARATORS = (",", ";", "\t", "|")
_LONGEST_FIELD = 200


def read_table(path: Path, rules: Mapping[str, Any], needed: Collection[str]) -> pl.DataFrame:
    """Return a table, all text unless it is Parquet.

    Args:
        path: CSV, plain or gzipped, or Parquet.
        rules: the scenario's workload: ``separator``, ``header_line``.
        needed: columns that it must have.

    Raises ValueError for a table that cannot be read or lacks a column.
    """
    with path.open("rb") as file:
        begin = file.read(4)
    if begin == b"PAR1":
        try:
            refuse_equal_rows(path, nested=True)
            return pl.read_parquet(path)
        except pl.exceptions.PolarsError as error:
            raise ValueError(str(error).splitlines()[0]) from None
    lines = _decoded(unpacked_whole(path)).removeprefix("\ufeff").split("\n")
    at, separator, names = _header(lines, rules, needed)
    labels = [str(n) for n in range(len(names))]
    rows = _plain(lines[at + 1 :], separator, labels)
    if rows is None:
        kept = [row for row in _records(lines[at + 1 :], separator) if len(row) == len(names)]
        rows = pl.DataFrame(kept, schema=dict.fromkeys(labels, pl.String), orient="row")
    table = rows.select(pl.col(label).alias(f"{(names.count(name) > 1 and label) or ''}{name}")
                        for label, name in zip(labels, names, strict=True))  # fmt: skip
    same = [pl.col(name).str.strip_chars(' "') == name for name in table.columns if name]
    return table.filter(~pl.all_horizontal(same).fill_null(value=False))


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _header(
    lines: Sequence[str], rules: Mapping[str, Any], needed: Collection[str]
) -> tuple[int, str, list[str]]:
    """Return the line of the column names, from 0, the separator and the names."""
    separators = [rules["separator"]] if rules.get("separator") else _SEPARATORS
    declared = rules.get("header_line")
    for at in range(len(lines)) if declared is None else [declared - 1]:
        for text in (lines[at], lines[at].lstrip("# ")):
            for separator in separators:
                try:
                    row = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
                except csv.Error:
                    continue
                names = [name.strip(' "\t\r') for name in row]
                if set(needed) <= set(names):
                    return at, separator, names
    raise ValueError(f"no line with the columns {', '.join(sorted(needed))}")


def _plain(lines: Sequence[str], separator: str, labels: Sequence[str]) -> pl.DataFrame | None:
    """Return the rows of a table without quotes and other lines at once; None if it is not so."""
    body = [line for line in lines if line.strip()]
    text = "\n".join(body)
    if '"' in text or any(line.startswith("#") for line in body) or not separator.isascii():
        return None
    try:
        return pl.read_csv(
            text.encode(), has_header=False, separator=separator, quote_char=None,
            schema=dict.fromkeys(labels, pl.String),
        ) if text.count(separator) == (len(labels) - 1) * len(body) and body else None  # fmt: skip
    except pl.exceptions.PolarsError:
        return None


def _records(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    """Yield the fields of each row; a line whose quote is not closed is none."""
    at = 0
    while at < len(lines):
        height = next(
            (n for n in range(1, _LONGEST_FIELD + 1)
             if (fields := _fields(lines[at : at + n], separator)) is not None),
            0,
        )  # fmt: skip
        if height and fields and lines[at].strip() and not lines[at].startswith("#"):
            yield fields
        at += max(height, 1)


def _fields(lines: Sequence[str], separator: str) -> list[str] | None:
    """Return the fields of a row over some lines; None if a quote in it is not closed."""
    text = io.StringIO("\n".join(line.removesuffix("\r") for line in lines), newline="")
    try:
        rows = list(csv.reader(text, delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return (rows or [[]])[0] if len(rows) <= 1 else None
