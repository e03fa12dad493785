"""Columns of a table by name: ids as text or whole numbers, all others as scaled numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from simkit.verify.numbers import LARGEST_ID
from simkit.verify.task_inputs.dates import are_dates, start_of, unix_times

_IDS = ("job_id", "task_id")
OF_JOBS = ("user", "group", "executable", "queue", "partition")
"""Numbers or names of a job."""
_TEXT = (*_IDS, "parents", "preceding_job", *OF_JOBS)
_INSTANTS = ("submit_time_s", "deadline_s", "release_time_s", "start_time_s")
_OURS = (
    *_INSTANTS, "run_time_s", "requested_time_s", "processors", "instances", "retries", "qos",
    "value", "think_time_s", "wait_time_s",
)  # fmt: skip
"""Numbers that are no amounts of a resource."""
_MARKS = (
    "-", "--", "---", "–", "—", "n/e", "n/a", "#n/a", "na", "n.a.", "nan", "null", "none", "nil",
    "<na>", "(null)", "?", ".", "..", "...", "missing", "not available",
)  # fmt: skip
"""What stands for no value."""
_GROUPS = r" '’_\x{a0}\x{202f}\x{2009}"
"""What may group thousands besides the other sign."""


def columns_of(
    table: pl.DataFrame, columns: Mapping[str, str], rules: Mapping[str, Any]
) -> pl.DataFrame:
    """Return a table's columns under our names: ids and names as text, others as scaled numbers.

    Args:
        table: as the file has it.
        columns: our name → the table's.
        rules: the scenario's workload: ``factors``, ``missing``, ``decimal``, ``on_error`` and the
            keys of times.

    Instants that are dates become seconds from the earliest submit time. With ``on_error: skip``,
    rows with a number or date that is none are left out.
    """
    return columns_and_epoch(table, columns, rules)[0]


def columns_and_epoch(
    table: pl.DataFrame, columns: Mapping[str, str], rules: Mapping[str, Any]
) -> tuple[pl.DataFrame, float | None]:
    """Return the columns as `columns_of` does, and the Unix time of second 0; None: no dates."""
    if missing := [name for name in columns.values() if name not in table.columns]:
        raise ValueError(f"no column {', '.join(missing)}")
    found_cells = {ours: cells(table[theirs]) for ours, theirs in columns.items()}
    words = {ours: known(cell, rules) for ours, cell in found_cells.items()}
    if "requested_time_s" in words:
        words["requested_time_s"] = _endless(words["requested_time_s"])
    dates = [name for name in _INSTANTS if name in words]
    if not are_dates(words["submit_time_s"], rules):
        dates = []
    numbers = {n: w for n, w in words.items() if n not in _TEXT and n not in dates}
    values = _numbers(numbers, rules)
    readable = pl.Series([True]).new_from_index(0, table.height)
    for name, value in values.items():
        readable &= words[name].is_null() | value.is_not_null()
    # The earliest date is that of a row that is one.
    times, epoch_s = _dates({name: words[name] for name in dates}, rules, readable)
    values |= times
    for name, value in values.items():
        readable &= words[name].is_null() | value.is_not_null()
        if name not in _OURS:  # an amount that is not known is not 0
            unknown = words[name].is_null() & found_cells[name].is_not_null()
            values[name] = value.set(unknown, float("nan"))
    factors = rules.get("factors") or {}
    found = [
        (words[n] if n in _TEXT else values[n] * factors.get(n, 1.0)).alias(n) for n in columns
    ]
    rows = pl.DataFrame(found)
    return (rows.filter(readable) if rules.get("on_error") == "skip" else rows), epoch_s


def cells(column: pl.Series) -> pl.Series:
    """Return cells as text without spaces around them, null where empty; dates stay dates."""
    if column.dtype.is_temporal():
        return column
    return column.cast(pl.String).str.strip_chars().replace("", None)


def known(cells: pl.Series, rules: Mapping[str, Any]) -> pl.Series:
    """Return cells, null where they stand for no value."""
    if cells.dtype != pl.String:
        return cells
    more = [str(mark) for mark in rules.get("missing") or ()]
    none = cells.str.to_lowercase().is_in(_MARKS) | cells.is_in([mark.strip() for mark in more])
    figures = pl.Series(more, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
    if len(figures):
        numbers = cells.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
        none |= numbers.is_in(figures.to_list())
    return cells.set(none.fill_null(value=False), None)


def _endless(words: pl.Series) -> pl.Series:
    """Return time limits with ``inf`` for the words that say that there is none."""
    if words.dtype != pl.String:
        return words
    none = words.str.to_lowercase().is_in(["unlimited", "infinite", "infinity"])
    return words.set(none.fill_null(value=False), "inf")


def _numbers(words: Mapping[str, pl.Series], rules: Mapping[str, Any]) -> dict[str, pl.Series]:
    """Return numbers with the sign declared, or that with which most cells are numbers."""
    signs = [rules["decimal"]] if rules.get("decimal") else [".", ","]
    read = [{name: _number(word, sign) for name, word in words.items()} for sign in signs]
    return min(read, key=lambda found: sum(values.null_count() for values in found.values()))


def _number(words: pl.Series, sign: str) -> pl.Series:
    if words.dtype != pl.String:
        return words.cast(pl.Float64)
    group = "," if sign == "." else "."
    plain = words.str.replace("\u2212", "-", literal=True)
    grouped = plain.str.contains(
        rf"^[+-]?\d{{1,3}}([\{group}{_GROUPS}]\d{{3}})+(\{sign}\d*)?([eE][+-]?\d+)?$"
    )
    bare = plain.str.replace_all(rf"[\{group}{_GROUPS}]", "")
    text = plain.set(grouped.fill_null(value=False), None).fill_null(
        bare.set(~grouped.fill_null(value=True), None)
    )
    if sign == ",":
        text = text.str.replace_all(".", "x", literal=True).str.replace(",", ".", literal=True)
    return text.cast(pl.Float64, strict=False)


def _dates(
    words: Mapping[str, pl.Series], rules: Mapping[str, Any], rows: pl.Series
) -> tuple[dict[str, pl.Series], float | None]:
    """Return dates as seconds from the declared zero, or the earliest submit time of some rows.

    And the Unix time of second 0; None without dates.
    """
    times = {
        name: pl.Series(unix_times(word, rules), dtype=pl.Float64) for name, word in words.items()
    }
    if not times:
        return {}, None
    first = times["submit_time_s"]
    zero = start_of(rules)
    begin = zero if zero is not None else first.filter(first.is_finite() & rows).min()
    if begin is None:
        return times, None
    return {name: time - begin for name, time in times.items()}, float(str(begin))


def with_requests(
    table: pl.DataFrame, resources: Sequence[str], *, barriers: bool = False
) -> pl.DataFrame:
    """Read an empty cell among resources as 0; all of a row that asks for nothing as empty.

    With `barriers`, a row of zeros stays.
    """
    asks = pl.any_horizontal(
        pl.col(name).is_not_null() if barriers else pl.col(name).fill_null(0.0) != 0
        for name in resources
    )
    return table.with_columns(pl.when(asks).then(pl.col(name).fill_null(0.0)) for name in resources)


def with_numbered_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ids as whole numbers, unless one is none."""
    for name in _IDS:
        if name in rows.columns and (numbers := whole(rows[name])).null_count() == 0:
            rows = rows.with_columns(numbers)
    return rows


def whole(ids: pl.Series) -> pl.Series:
    """Return ids as Int64, those of data frames (7.0) included; null where one is no number."""
    exact = ids.cast(pl.Int64, strict=False)
    if exact.null_count() == ids.null_count():
        return exact
    number = ids.cast(pl.Float64, strict=False)
    other = [None if n is None or n % 1 or abs(n) >= LARGEST_ID else int(n) for n in number]
    return exact.fill_null(pl.Series(other, dtype=pl.Int64))


def retries_of(rows: pl.DataFrame) -> pl.Expr:
    """Return how often tasks may start over, null where the table does not say."""
    if "retries" not in rows.columns:
        return pl.lit(None, pl.Int64).alias("retries")
    return pl.when(pl.col("retries") >= 0).then("retries").cast(pl.Int64).alias("retries")


def job_names(words: pl.Series) -> pl.Series:
    """Return the users, groups, … of jobs: whole numbers, -1 if unknown; names if one is a name."""
    number = words.cast(pl.Float64, strict=False)
    if number.null_count() > words.null_count():
        return words.replace("-1", None).fill_null("")
    exact = words.cast(pl.Int64, strict=False)
    if exact.null_count() == words.null_count():
        return exact.fill_null(-1)
    return number.fill_null(-1.0).cast(pl.Int64)
