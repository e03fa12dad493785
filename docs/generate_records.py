"""The tables of a run folder, from `simkit.records`."""

from __future__ import annotations

import re


def tables() -> str:
    """Return a section a table: its columns and their meaning."""
    from simkit.run_folder import TABLES

    return "\n\n".join(_section(name, columns) for name, columns in TABLES.items())


def _section(name: str, columns: dict[str, str]) -> str:
    rows, before = [], ""
    for column, text in columns.items():
        kind, meaning = _parted(text) if text else ("Int64", f"as `{before}`")
        before = column if text else before
        rows.append(f"| `{column}` | {kind} | {meaning} |")
    head = [f"### {name}.parquet", "", "| column | type | meaning |", "|---|---|---|"]
    return "\n".join([*head, *rows])


def _parted(text: str) -> tuple[str, str]:
    """Return the type and the meaning of ``Float64, when it ended``."""
    match = re.match(r"(Float64|Int64|String|Boolean)\b[,;:]?\s*", text)
    return (match[1], text[match.end() :]) if match else ("", text)
