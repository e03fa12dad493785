"""The audit of inputs: the files are those of the run, and its jobs are the log's jobs.

The log is read here once more, by a parser that knows nothing of the engine's reader.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.verify_audit import Check
from simkit.words import counted

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

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
    import polars as pl

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
    import polars as pl

    if jobs.height and float(str(jobs["submit"].min())) >= _EPOCH_FROM:
        return jobs.with_columns(pl.col("submit") - pl.col("submit").min())
    return jobs


def _on_grid(jobs: pl.DataFrame) -> pl.DataFrame:
    """Round times to multiples of 2**-20 s, as the run has them."""
    import polars as pl

    times = pl.col("submit", "run", "requested")
    return jobs.with_columns((times * 2**20).round(mode="half_to_even") / 2**20)


def _compare_jobs(run: RunFolder, wanted: pl.DataFrame, check: Check) -> None:
    import polars as pl

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
