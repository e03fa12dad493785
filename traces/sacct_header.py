"""The header line of a sacct table: names its columns, and tells which needed ones are missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simkit.errors import TraceError

MACHINES: Final = ("NNodes", "AllocNodes", "ReqNodes")
"""Columns that count machines: the first that is there."""

PROCESSORS: Final = ("AllocCPUS", "NCPUS", "AllocTRES", "ReqCPUS", "ReqTRES", *MACHINES)
"""Columns that tell how large a job is; where there are only machines, these are counted."""

RUN_TIME: Final = ("Elapsed", "ElapsedRaw")

COMMAND: Final = (
    "sacct --allusers --allocations --parsable2 --format=JobID,JobIDRaw,User,Account,Partition,"
    "QOS,State,Submit,Start,End,Elapsed,Timelimit,AllocCPUS,ReqCPUS,NNodes,ReqMem,TotalCPU"
)
"""The command whose table has all that is read (without --allocations also the memory used)."""


def column_names(header: bytes, number: int, path: Path) -> list[str]:
    """Return the names in a header line; after ``--parsable``, which ends in |, the last is empty.

    Raises TraceError, with the line `number`, if it is no header, names a column twice, or lacks
    columns: all that are missing are named.
    """
    names = [name.strip() for name in header.decode("utf-8", "replace").split("|")]
    lower = [name.lower() for name in names]
    if "jobid" not in lower and "jobidraw" not in lower:
        raise TraceError(
            f"{path}:{number}: the first line names no column JobID or JobIDRaw, so it is no "
            "header of sacct; print with --parsable2 and without --noheader"
        )
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise TraceError(f"{path}:{number}: two columns {twice}; name each once in --format")
    if missing := _missing(lower):
        raise TraceError(
            f"{path}:{number}: no column {', no column '.join(missing)}; print the table again "
            f"with {COMMAND}"
        )
    return names


def _missing(lower: Sequence[str]) -> list[str]:
    """Return what is needed and not there, each with the columns that would do instead."""

    def has(*names: str) -> bool:
        return any(name.lower() in lower for name in names)

    missing = []
    if not has("Submit"):
        missing.append("Submit")
    if not has(*RUN_TIME) and not (has("Start") and has("End")):
        missing.append("Elapsed (or ElapsedRaw, or both Start and End)")
    if not has(*PROCESSORS):
        missing.append(f"{PROCESSORS[0]} (or {', '.join(PROCESSORS[1:])})")
    return missing
