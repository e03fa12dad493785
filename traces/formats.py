"""Which format a log is in, told by its first line."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Final

from simkit.errors import TraceError

from .files import text_blocks
from .jobs_table import NEEDED, is_parquet

_LOOK_BYTES: Final = 1 << 16
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan", re.IGNORECASE)
_BY_NAME: Final = ((".swf", "swf"), (".csv", "jobs"), (".parquet", "jobs"))


def recognise(path: str | PathLike[str]) -> str:
    """Return the format of a log, plain or gzipped: ``swf``, ``sacct`` or ``jobs``.

    Its first line that is not empty decides: a comment (``;``) or numbers between blanks are SWF,
    a ``|`` is sacct's, a header with a column of jobs' tables is one. Only where the line does
    not tell, the name does: ``.swf``, ``.csv``. An empty file counts as SWF.

    Raises TraceError if neither tells, or the file cannot be read.
    """
    path = Path(path)
    if is_parquet(path):
        return "jobs"
    number, line = _first_line(path)
    if (kind := _kind_of(line)) is not None:
        return kind
    name = path.name.lower().removesuffix(".gz")
    for ending, kind in _BY_NAME:
        if name.endswith(ending):
            return kind
    raise TraceError(
        f"{path}:{number}: the format is not recognised by this line, {line[:60]!r}; give a log in "
        "SWF (18 numbers a line, comments with ;), the output of sacct --parsable2 (a header with "
        f"JobID and |) or a table of jobs (CSV or Parquet with {', '.join(NEEDED)}), or name the "
        "format with --format swf, sacct or jobs"
    )


def _first_line(path: Path) -> tuple[int, str]:
    """Return the first line that is not empty, with its number; ``""`` if there is none."""
    for block in text_blocks(path, _LOOK_BYTES):
        for number, line in enumerate(block.text.split(b"\n"), block.first_line):
            if bare := line.strip():
                return number, bare.decode("utf-8", "replace")
    return 1, ""


def _kind_of(line: str) -> str | None:
    """Return the format that a first line belongs to, None if it may be any or none."""
    if not line or line.startswith(";"):
        return "swf"
    if "|" in line or line.lower() in ("jobid", "jobidraw"):
        return "sacct"
    if set(NEEDED) & {name.strip(' "') for name in line.split(",")}:
        return "jobs"
    fields = line.split()
    if len(fields) > 1 and _NUMBER.fullmatch(fields[0]):
        return "swf"
    return None
