"""The tables of a run folder, from `simkit.records`."""

from __future__ import annotations

import re


def tables() -> str:
    """Return a section a table: its columns and their meaning."""
    from simkit.records import (
        JOBS_CORRECTED,
        JOBS_RELEASED,
        JOBS_ROUTED,
        JOBS_WITH_VALUE,
        POWER_TABLES,
        TABLES,
    )

    parts = [_section(name, columns) for name, columns in (TABLES | POWER_TABLES).items()]
    worth = "\n".join(_table(JOBS_WITH_VALUE))
    note = "In runs whose jobs have a value, between `reason` and the resources:"
    released = "\n".join(_table(JOBS_RELEASED))
    held = "In runs whose jobs [wait for their release](../howto/dependencies.md), after these:"
    outlived = "\n".join(_table(JOBS_CORRECTED))
    then = "In runs that [correct](estimates.md#corrections) estimates, after these:"
    routed = "\n".join(_table(JOBS_ROUTED))
    last = "In runs whose cluster has partitions, after these:"
    shown = [note, worth, held, released, then, outlived, last, routed]
    return "\n\n".join([parts[0], *shown, *parts[1:]])


def _section(name: str, columns: dict[str, str]) -> str:
    return "\n".join([f"### {name}.parquet", "", *_table(columns)])


def _table(columns: dict[str, str]) -> list[str]:
    rows, before = [], ""
    for column, text in columns.items():
        kind, meaning = _parted(text) if text else ("Int64", f"as `{before}`")
        before = column if text else before
        rows.append(f"| `{column}` | {kind} | {meaning} |")
    return ["| column | type | meaning |", "|---|---|---|", *rows]


def _parted(text: str) -> tuple[str, str]:
    """Return the type and the meaning of ``Float64, when it ended``."""
    match = re.match(r"(Float64|Int64|String|Boolean)\b[,;:]?\s*", text)
    return (match[1], text[match.end() :]) if match else ("", text)
