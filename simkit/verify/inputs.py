"""The audit of inputs: the files are those of the run, and its jobs are the log's jobs.

The log is read here once more, by a parser that knows nothing of the engine's reader.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from simkit.text import counted
from simkit.verify.audit import Check

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


_EPOCH_FROM = 1e9
"""Submit times from here on are seconds since 1970, not since the log's start."""
_LARGEST = 2.0**33
"""Numbers are below this; a row with a larger one, or with nan, is no job."""


def check_inputs(run: RunFolder) -> Check:
    """Each input file still has the contents that the run read."""
    check = Check("inputs", "every input file has its recorded sha256")
    missing = []
    for entry in run.manifest["inputs"]:
        path = find_input(run, entry["path"])
        if path is None:
            missing.append(str(entry["path"]))
            continue
        check.examined += 1
        found = sha256_of(path)
        if found != entry["sha256"]:
            check.add("the input file is not the one that was read", {**entry, "found": found})
    if missing:
        check.notes["not checked, missing"] = missing
    if not check.examined:
        if missing:
            return check.leave_out("no input file is there")
        return check.skip("the run read no file")
    return check


def find_input(run: RunFolder, recorded: str) -> Path | None:
    """Return where a recorded input lies now: as recorded, or relative to the run folder."""
    expanded = Path(os.path.expandvars(recorded))
    for candidate in (expanded, run.path / expanded):
        if candidate.is_file():
            return candidate
    return None


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


NUMBERS = ("user", "group", "executable", "queue", "partition")
"""What SWF's fields 12 to 16 number."""


def check_trace(run: RunFolder) -> Check:
    """The jobs of the run are the jobs of its input: none more, none less, none changed."""
    check = Check("trace", "the run's jobs are the input's jobs", run.jobs.height)
    _check_report(run, check)
    if run.setting("workload", "type") in ("tasks", "alibaba2017"):
        return check  # the rule "tasks" reads them again
    if reason := _why_not_reread(run):
        check.notes["log not read again"] = reason
        return check
    path = _log(run)
    if path is None:
        check.notes["log not read again"] = "the file is missing or has changed"
        return check
    try:
        wanted = read_jobs(path, run.setting("workload") or {})
    except (OSError, EOFError, ValueError, zlib.error) as error:
        check.add("the log cannot be read", {"path": str(path), "problem": str(error)})
        return check
    _compare_jobs(run, wanted, check)
    return check


def _check_report(run: RunFolder, check: Check) -> None:
    """Hold the number of jobs against what run.json says of the trace's rows."""
    trace = run.manifest["trace"]
    if not trace or not (trace.get("read") or run.manifest["inputs"]):
        return  # a model of a workload reads no rows
    kept = trace.get("accepted", 0) + sum(trace.get("repaired", {}).values())
    balance = kept + sum(trace.get("dropped", {}).values())
    if trace.get("read") != balance:
        check.add("rows read are not accepted + repaired + dropped", dict(trace))
    if run.setting("workload", "resample"):
        return
    fewer = bool(run.setting("workload", "window")) or not run.complete
    what, found = _rows_of(run)
    if found > kept or (found < kept and not fewer):
        message = f"the number of {what} is not what the trace's rows gave"
        check.add(message, {what: found, "accepted_or_repaired": kept})


def _rows_of(run: RunFolder) -> tuple[str, int]:
    """Return what a row of the input makes, and how many of them the run has."""
    kind = run.setting("workload", "type")
    several = run.tasks.height > run.jobs.height  # of a reader of one's own
    if kind in ("tasks", "alibaba2017") or (kind == "plugin" and several):
        return "tasks", run.tasks.height
    return "jobs", run.jobs.height


def _why_not_reread(run: RunFolder) -> str:
    workload = run.setting("workload") or {}
    if workload.get("type") != "swf":
        return f"the workload's type is {workload.get('type')!r}"
    changes = {
        "window": None, "resample": None, "load": 1.0, "processors_scale": 1.0,
        "processors_max": None, "run_time_scale": 1.0, "run_time_max": None, "target_load": None,
    }  # fmt: skip
    for name, neutral in changes.items():
        value = workload.get(name)
        if value and value != neutral:
            return f"the workload has {name}: {value}"
    return ""


def _log(run: RunFolder) -> Path | None:
    """Return the log of the scenario if it is there, unchanged."""
    name = Path(str(run.setting("workload", "path"))).name
    for entry in run.manifest["inputs"]:
        path = find_input(run, entry["path"])
        if path is not None and path.name == name and sha256_of(path) == entry["sha256"]:
            return path
    return None


def read_jobs(path: Path, rules: dict[str, Any]) -> pl.DataFrame:
    """Read a log in the Standard Workload Format by the scenario's rules.

    Args:
        path: the log, plain or gzipped.
        rules: the scenario's workload: ``processors``, ``requested_time``, ``keep_zero_run``.

    Returns columns ``job_id, submit, run, processors, requested`` and `NUMBERS`, sorted by the
    first five; submit times count from the first one where the log gives them in seconds since
    1970.

    Raises ValueError for a line that is no job.
    """
    rows = [row for fields in _lines(path) if (row := _job(fields, rules)) is not None]
    names = ("job_id", "submit", "run", "processors", "requested")
    schema = dict.fromkeys((*names, *NUMBERS), pl.Float64)
    frame = pl.DataFrame(rows, orient="row", schema=schema).with_columns(
        pl.col("job_id", *NUMBERS).cast(pl.Int64)
    )
    return _on_grid(_rebased(frame)).sort(names, maintain_order=True)


def _lines(path: Path) -> Iterator[list[bytes]]:
    """Yield the fields of each line that is no comment; a gzipped file shows in its first bytes."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as lines:
        for line in lines:
            text = line.strip()
            if text and not text.startswith(b";"):
                yield text.split()


def _job(fields: list[bytes], rules: dict[str, Any]) -> tuple[float | None, ...] | None:
    """Return the job of one line, or None where the rules leave it out.

    Fields of the format, counted from 0: 0 job, 1 submit, 3 run, 4 allocated processors,
    7 requested processors, 8 requested time; -1 is unknown. A fraction of a processor is one.
    """
    if len(fields) < 9:
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
    numbers = (submit, run, allocated, asked, requested)
    if too_short or processors <= 0 or submit < 0 or not all(abs(n) < _LARGEST for n in numbers):
        return None
    estimate: float | None = requested if requested > 0 else None
    if rules.get("requested_time", "max") == "max":
        estimate = max(requested, run)
    numbered = [_whole(field) for field in fields[11:16]]
    numbered += [-1.0] * (len(NUMBERS) - len(numbered))
    return float(fields[0]), submit, run, math.ceil(processors), estimate, *numbered


def _whole(field: bytes) -> float:
    """Return a number of a user, group, …; -1 where there is none."""
    number = float(field)
    return float(math.floor(number)) if 0 <= number < _LARGEST else -1.0


def _rebased(jobs: pl.DataFrame) -> pl.DataFrame:
    """Count submit times from the first one if they are seconds since 1970."""
    if jobs.height and float(str(jobs["submit"].min())) >= _EPOCH_FROM:
        return jobs.with_columns(pl.col("submit") - pl.col("submit").min())
    return jobs


def _on_grid(jobs: pl.DataFrame) -> pl.DataFrame:
    """Round times to multiples of 2**-20 s, as the run has them."""
    times = pl.col("submit", "run", "requested")
    return jobs.with_columns((times * 2**20).round(mode="half_to_even") / 2**20)


def _compare_jobs(run: RunFolder, wanted: pl.DataFrame, check: Check) -> None:
    found = run.jobs.select(
        "job_id", pl.col("submit_time_s").alias("submit"),
        pl.col("trace_run_time_s").alias("run"),
        pl.col("processors").cast(pl.Float64), pl.col("requested_time_s").alias("requested"),
    ) if "processors" in run.jobs.columns else None  # fmt: skip
    if found is None or found.schema["job_id"] != pl.Int64:
        row = {"job_id": str(run.jobs.schema["job_id"]), "resources": list(run.resources)}
        check.add("jobs of a log have whole numbers as ids and ask for processors", row)
        return
    # Numbering equal rows makes the comparison one of multisets: a job twice is not a job once.
    key = ["job_id", "submit", "run", "processors", "requested"]
    for name in NUMBERS:
        if run.jobs.schema[name] == pl.Int64:  # else the log has names for them
            found, key = found.with_columns(run.jobs[name]), [*key, name]
    nth = pl.int_range(pl.len()).over(key).alias("nth")
    found, wanted = found.with_columns(nth), wanted.with_columns(nth)
    key.append("nth")
    if run.complete:
        absent = wanted.join(found, on=key, how="anti", nulls_equal=True, maintain_order="left")
        check.add_rows("a job of the log is not in the run as it is in the log", absent.drop("nth"))
    extra = found.join(wanted, on=key, how="anti", nulls_equal=True, maintain_order="left")
    check.add_rows("a job of the run is not in the log as it is in the run", extra.drop("nth"))


# MERGED Input tables as the auditor reads them: found among the run's inputs, read by its own parser.


LARGEST = 2.0**33
"""Times and amounts are below this."""
LARGEST_ID = 2.0**53
"""Ids of a trace are below this."""
_LAYOUTS = {
    "batch_task": ("create", "end", "job_id", "task_id", "instances", "status", "cpu", "mem"),
    "batch_instance": ("start", "end", "job_id", "task_id", "machine", "status", "seq", "total"),
    "server_event": ("time", "machine", "event", "detail", "cpu", "mem", "disk"),
    "container_event": ("time", "event", "container", "machine", "cpu", "mem", "disk"),
}
"""Table of Alibaba's cluster-trace-v2017 → its first columns; the files have no header."""
_WIDTHS = {"batch_task": 8, "batch_instance": 12, "server_event": 7, "container_event": 8}
"""Columns that a table has in all."""
_TEXT = ("status", "event", "detail")


class MissingInputError(ValueError):
    """An input file is missing or has changed; its message says so."""


def inputs_below(run: RunFolder, place: str) -> Iterator[Path]:
    """Yield the unchanged input files that lie at `place` or in that folder.

    Raises MissingInputError if one of them is missing or has changed.
    """
    for entry in run.manifest["inputs"]:
        recorded = Path(str(entry["path"]))
        if Path(place) not in (recorded, recorded.parent):
            continue
        path = find_input(run, str(entry["path"]))
        if path is None or sha256_of(path) != entry["sha256"]:
            raise MissingInputError(f"{recorded.name} is missing or has changed")
        yield path


def trace_table(run: RunFolder, place: str, table: str) -> pl.DataFrame | None:
    """Return a table of Alibaba's trace with the columns of its layout; None if it was not read.

    Args:
        run: the run.
        place: the folder, archive or single table that the scenario names.
        table: e.g. ``batch_task``; a single file is this table unless it has another's name.

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


def times_on_grid(value: pl.Expr) -> pl.Expr:
    """Round times to multiples of 2**-20 s, as the run has them."""
    return (value * 2**20).round(mode="half_to_even") / 2**20


def requests_on_grid(value: pl.Expr) -> pl.Expr:
    """Round requests down to multiples of 2**-30; a millionth of a step is noise."""
    return (value * 2**30 + 1e-6).floor() / 2**30
