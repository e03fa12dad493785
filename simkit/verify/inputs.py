"""Checks of the inputs: the files have not changed; and how logs and traces are read again.

Logs and tables are read again by parsers that share no code with the engine's readers.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.text import counted
from simkit.verify.audit import Check
from simkit.verify.folder import RunFolder
from simkit.verify.numbers import LARGEST, times_on_grid
from simkit.verify.records.table_files import LARGE
from simkit.verify.task_inputs.swf_numbers import FIELDS as _SWF_FIELDS
from simkit.verify.task_inputs.swf_numbers import accepted, blocks, jobs_of

SWF_NUMBERS = ("user", "group", "executable", "queue", "partition")
"""What fields 12 to 16 of SWF number."""
_EPOCH_FROM = 1e9
_IDS_FROM = 2**63
_PARTS = (2.0, 3.0, 4.0)  # statuses of bursts of a job, whose sum has its own line
"""Submit times from here on are seconds since 1970, not since the log's start."""
_LAYOUTS = {
    "batch_task": ("create", "end", "job_id", "task_id", "instances", "status", "cpu", "mem"),
    "batch_instance": ("start", "end", "job_id", "task_id", "machine", "status", "seq", "total"),
    "server_event": ("time", "machine", "event", "detail", "cpu", "mem", "disk"),
    "container_event": ("time", "event", "container", "machine", "cpu", "mem", "disk"),
}
"""Table of Alibaba's cluster-trace-v2017 → its first columns; the files have no header."""
_WIDTHS = {"batch_task": 8, "batch_instance": 12, "server_event": 7, "container_event": 8}
"""How many columns a table has in all."""
_TEXT = ("status", "event", "detail")


class MissingInputError(ValueError):
    """An input file is missing, may not be read, or has changed; the message says which."""


def check_inputs(run: RunFolder) -> Check:
    """Check that each input file still has the content that the run read."""
    check = Check("inputs", "every input file has its recorded sha256")
    reasons = set()
    for entry in run.manifest["inputs"]:
        try:
            path = find_input(run, entry["path"])
        except MissingInputError as error:
            reasons.add(str(error))
            continue
        check.examined += 1
        if (size := path.stat().st_size) != entry["bytes"]:
            check.add("the input file does not have its recorded size", {**entry, "found": size})
        found = _sha256_of(path)
        if found != entry["sha256"]:
            check.add("the input file has changed since the run", {**entry, "found": found})
    if reasons and not check.found:
        return check.leave_out("; ".join(sorted(reasons)))
    return check if check.examined else check.skip("the run read no input file")


def find_input(run: RunFolder, recorded: str) -> Path:
    """Return the path of a recorded input, links resolved: as recorded, or below the run folder.

    Raises MissingInputError if there is none, it is not a regular file, or lies outside the
    folders that may be read.
    """
    expanded = Path(os.path.expandvars(recorded))
    problem = "is missing"
    for candidate in (expanded, run.path / expanded):
        try:
            path = candidate.resolve()
            if not path.exists():
                continue
            if not any(path.is_relative_to(place) for place in run.places):
                problem = (
                    "is outside the folders that verify reads; if it is what the run should have "
                    "read, add --inputs with its folder"
                )
            elif not path.is_file():
                problem = "is not a regular file"
            else:
                return path
        except (OSError, RuntimeError, ValueError) as error:
            problem = f"cannot be reached ({error})"
    raise MissingInputError(f"{recorded} {problem}")


def check_clocks(run: RunFolder) -> Check:
    """Check that a calendar compares the clocks of places, not UTC with the run's clock.

    A file in UTC does not say where its sun shines. Where the run's zone is another, the scenario
    must name the place's zone.
    """
    check = Check("clocks", "files of power are laid on the run's clock by the zone of their place")
    power = run.setting("power")
    if not isinstance(power, dict):
        return check.skip("the run has no power")
    align = power.get("align") or {}
    if align.get("type") != "calendar":
        return check.skip("files are not aligned by calendar")
    zone = align.get("zone") or run.manifest.get("time_zone")
    recorded = run.manifest.get("power") or {}
    if recorded.get("zone") != zone:
        check.add("the run's zone is not recorded", {"zone": zone, "found": recorded.get("zone")})
    unknown = []
    for place, section in _tables_in(power, ()):
        if section.get("format") and not (section.get("zone") or section["site_zone"]):
            unknown.append(place)
            continue
        check.examined += 1
        clock = section.get("zone") or "UTC"
        row = {"signal": place, "path": section.get("path"), "zone": section["site_zone"] or clock}
        if recorded.get(f"{place}.zone") != row["zone"]:
            check.add("another zone is recorded", row | {"found": recorded.get(f"{place}.zone")})
        if zone and not _is_utc(zone) and section["site_zone"] is None and _is_utc(clock):
            message = "the file is in UTC, the run's zone is another, and site_zone is not declared"
            check.add(message, row | {"zone_of_run": zone})
    if unknown and not check.found:
        places = ", ".join(unknown)
        return check.leave_out(f"{places}: the zone that the format of a file gives is not known")
    return check if check.examined else check.skip("no signal is read from a table of times")


def _tables_in(section: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the signals of a section that are read from tables, with their dotted places."""
    if isinstance(section, list):
        section = {str(n): part for n, part in enumerate(section)}
    if not isinstance(section, dict):
        return
    if "site_zone" in section:
        of_source = path[0] == "sources" and path[2:3] == ("signal",)
        yield ".".join(path[:2] + path[3:] if of_source else path), section
    for name, part in section.items():
        yield from _tables_in(part, (*path, name))


def _is_utc(zone: str) -> bool:
    """Return whether a zone is UTC under one of its names."""
    name = zone.strip().upper().removeprefix("ETC/")
    same = ("UTC", "GMT", "Z", "UCT", "ZULU", "UNIVERSAL", "GREENWICH", "GMT0")
    return name in same or re.fullmatch(r"(UTC|GMT)\s*[+-]0{1,2}(:?00)?", name) is not None


def _sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def log_of(run: RunFolder) -> Path:
    """Return the log of the scenario; raises MissingInputError unless it is there, unchanged."""
    name = Path(str(run.setting("workload", "path"))).name
    for entry in run.manifest["inputs"]:
        if Path(str(entry["path"])).name == name:
            path = find_input(run, entry["path"])
            if _sha256_of(path) == entry["sha256"]:
                return path
            raise MissingInputError(f"{name} has changed")
    raise MissingInputError(f"{name} is not among the recorded inputs")


def read_jobs(path: Path, rules: dict[str, Any]) -> pl.DataFrame:
    """Read a log in the Standard Workload Format by the scenario's rules.

    Args:
        path: the log, plain or gzipped.
        rules: the scenario's workload: ``processors``, ``requested_time``, ``keep_zero_run``,
            ``on_error``.

    Returns columns ``job_id, submit, run, processors, requested`` and `SWF_NUMBERS`, sorted by the
    first five. Submit times in seconds since 1970 are counted from the first one.

    Raises ValueError for a line that is not a job, unless such lines are skipped.
    """
    names = ("job_id", "submit", "run", "processors", "requested")
    schema: dict[str, Any] = dict.fromkeys(names, pl.Float64)
    schema |= dict.fromkeys(("job_id", *SWF_NUMBERS), pl.Int64)
    parts = [pl.DataFrame(schema=schema)]
    for block in blocks(path):
        if isinstance(block, list):
            rows = [row for _, row in _rows_of(block, rules)]
            parts.append(pl.DataFrame(rows, orient="row", schema=schema))
        else:
            kept = block[accepted(block, rules, _PARTS)]
            parts.append(jobs_of(kept, rules, SWF_NUMBERS))
    jobs = pl.concat(parts)
    if jobs.height and float(str(jobs["submit"].min())) >= _EPOCH_FROM:
        jobs = jobs.with_columns(pl.col("submit") - pl.col("submit").min())
    jobs = jobs.with_columns(times_on_grid(pl.col("submit", "run", "requested")))
    return jobs.sort(names, maintain_order=True)


def read_swf_links(path: Path, rules: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Return (job, preceding job, think time in s) of the jobs of a log that name one.

    They are in fields 17 and 18; a think time that is unknown, which is negative, counts as 0.
    """
    rows: list[tuple[int, int, float]] = []
    has_zero = False
    for block in blocks(path):
        if isinstance(block, list):
            lines = filter(_may_link, block)
            found = [fields for fields, _ in _rows_of(lines, rules) if len(fields) >= _SWF_FIELDS]
            table = np.array([[float(f[n]) for n in (0, 16, 17)] for f in found]).reshape(-1, 3)
        else:
            table = block[accepted(block, rules, _PARTS)][:, [0, 16, 17]]
        has_zero = has_zero or bool((table[:, 0] == 0).any())
        named = table[(table[:, 1] >= 0) & (table[:, 1] % 1 == 0)]
        for job, before, think in named.tolist():
            known = 0 <= think <= LARGEST / 2
            rows.append((int(job), int(before), round(think * 2**20) / 2**20 if known else 0.0))
    return [row for row in rows if row[1] > 0 or has_zero]


def _may_link(line: bytes) -> bool:
    """Return whether a line may name a preceding job, or be a job 0 that another may name."""
    fields = line.split()
    return len(fields) >= _SWF_FIELDS and (fields[16] != b"-1" or fields[0][:1] in b"0+-.")


def _rows_of(
    lines: Iterable[bytes], rules: dict[str, Any]
) -> Iterator[tuple[list[bytes], tuple[float | int | None, ...]]]:
    """Yield fields and job of each line that is a job."""
    for line in lines:
        text = line.strip()
        if not text or text.startswith(b";"):
            continue
        fields = text.split()
        if rules.get("on_error") == "skip" and not _is_row(fields):
            continue
        if (job := _job(fields, rules)) is not None:
            yield fields, job


def _is_row(fields: list[bytes]) -> bool:
    """Return whether a line has 18 fields, and numbers in those that make a job or a link."""
    if len(fields) < _SWF_FIELDS:
        return False
    needed = [fields[i] for i in (0, 1, 3, 4, 7, 8, *range(10, 18))]
    try:
        job, *_ = (float(field) for field in needed)
    except ValueError:
        return False
    return b"_" not in b"".join(needed) and (job % 1 == 0 or not math.isfinite(job))


def _job(fields: list[bytes], rules: dict[str, Any]) -> tuple[float | int | None, ...] | None:
    """Return the job of one line, or None if the rules leave it out.

    Fields of the format, counted from 0: 0 job, 1 submit, 3 run, 4 allocated processors,
    7 requested processors, 8 requested time; -1 is unknown. A fraction of a processor is one.
    """
    if len(fields) < 11:
        raise ValueError(
            f"a line of {counted(len(fields), 'field')}: {b' '.join(fields).decode('latin-1')}"
        )
    run, allocated, asked, requested = (float(fields[i]) for i in (3, 4, 7, 8))
    first, second = allocated, asked
    if rules.get("processors") == "requested":
        first, second = asked, allocated
    processors = first if first > 0 else second
    too_short = run < 0 if rules.get("keep_zero_run") else run <= 0
    submit = float(fields[1])
    sane = all(abs(n) < LARGEST for n in (allocated, asked))
    sane = sane and (abs(requested) < LARGEST or requested == math.inf)  # infinite: no limit
    sane = sane and submit >= -LARGEST / 2 and submit + run <= LARGEST and run <= LARGEST / 2
    job = _whole(fields[0], -_IDS_FROM)
    sane = sane and job != -_IDS_FROM and float(fields[10]) not in _PARTS
    if too_short or processors <= 0 or submit < 0 or not sane:
        return None
    estimate: float | None = requested if requested > 0 else None
    if rules.get("requested_time", "max") == "max":
        estimate = max(requested, run)
    numbered = [_whole(field, -1) for field in fields[11:16]]
    numbered += [-1] * (len(SWF_NUMBERS) - len(numbered))
    return job, submit, run, float(math.ceil(processors)), estimate, *numbered


def _whole(field: bytes, unknown: int) -> int:
    """Return the number of a job, user, group, … of 64 bits, exact if it is written as such."""
    try:
        number = int(field)
    except ValueError:
        value = float(field)
        number = math.floor(value) if math.isfinite(value) else unknown
    return number if abs(number) < _IDS_FROM else unknown


def compare_with_input(
    check: Check, run: RunFolder, found: pl.DataFrame, wanted: pl.DataFrame, what: str
) -> None:
    """Record rows that only the input has (unless the run is incomplete), or only the run.

    Args:
        check: gets the violations.
        run: the run.
        found: rows of the run.
        wanted: rows of the input, with the same columns.
        what: the name of a row in messages.
    """
    if found.height >= LARGE:
        found, wanted = _different(found, wanted.select(found.columns))
    # Numbering equal rows makes this a comparison of multisets: a row twice is not a row once.
    nth = pl.int_range(pl.len()).over(found.columns).alias("nth")
    found, wanted = found.with_columns(nth), wanted.select(found.columns).with_columns(nth)
    both = ((wanted, found, "input", "run"), (found, wanted, "run", "input"))
    for these, others, here, there in both if run.complete else both[1:]:
        key = found.columns
        rows = these.join(others, on=key, how="anti", nulls_equal=True, maintain_order="left")
        message = f"the {there} does not have this {what} of the {here}, or with other values"
        check.add_rows(message, rows.drop("nth"))


def _different(found: pl.DataFrame, wanted: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that differ, if both sides have the same jobs, each once; else all rows."""
    found, wanted = found.sort("job_id"), wanted.sort("job_id")
    ids = found["job_id"]
    if not ids.equals(wanted["job_id"]) or ids.n_unique() < len(ids):
        return found, wanted
    differs = pl.Series([False]).new_from_index(0, len(ids))
    for name in found.columns:
        differs |= found[name].ne_missing(wanted[name])
    return found.filter(differs), wanted.filter(differs)


def inputs_below(run: RunFolder, place: str) -> Iterator[Path]:
    """Yield the unchanged input files at `place` or in that folder.

    Raises MissingInputError if one of them is missing, may not be read, or has changed.
    """
    for entry in run.manifest["inputs"]:
        recorded = Path(str(entry["path"]))
        if Path(place) not in (recorded, recorded.parent):
            continue
        path = find_input(run, str(entry["path"]))
        if _sha256_of(path) != entry["sha256"]:
            raise MissingInputError(f"{recorded.name} has changed")
        yield path


def trace_table(run: RunFolder, place: str, table: str) -> pl.DataFrame | None:
    """Return a table of Alibaba's trace with the columns of its layout; None if it was not read.

    Args:
        run: the run.
        place: the folder, archive or single table that the scenario names.
        table: e.g. ``batch_task``; a single file is this table unless it has the name of another.

    Raises ValueError for a table that cannot be read.
    """
    for path in inputs_below(run, place):
        name = path.name.removesuffix(".gz").removesuffix(".csv")
        if path.name.endswith((".tgz", ".tar.gz", ".tar")):
            content = _member(path, f"{table}.csv")
            if content is not None:
                return _parsed(content, table)
        elif name == table or (name not in _LAYOUTS and str(path) == place):
            return _parsed(path, table)
    return None


def _member(archive: Path, name: str) -> io.BytesIO | None:
    with tarfile.open(archive) as members:
        for member in members:
            if member.isfile() and member.name.rpartition("/")[2] == name:
                stream = members.extractfile(member)
                return io.BytesIO(stream.read()) if stream else None
    return None


def _parsed(source: Path | io.BytesIO, table: str) -> pl.DataFrame:
    names = _LAYOUTS[table]
    try:
        whole = [*names, *map(str, range(len(names), _WIDTHS[table]))]
        frame = pl.read_csv(
            source, has_header=False, schema=dict.fromkeys(whole, pl.String),
            columns=list(range(len(names))),
        )  # fmt: skip
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String)).with_columns(_numbers(names))
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{table}: {str(error).splitlines()[0]}") from None
    frame = frame.with_columns(pl.all().str.strip_chars(' \t\r"')).filter(
        ~pl.all_horizontal(pl.all().is_null() | (pl.all() == ""))
    )
    rows = frame.with_columns(_numbers(names))
    if frame.height and rows[names[0]][0] is None and frame[names[0]][0]:
        rows = rows.slice(1)  # a header
    return rows


def _numbers(names: Sequence[str]) -> list[pl.Expr]:
    return [pl.col(name).cast(pl.Float64, strict=False) for name in names if name not in _TEXT]
