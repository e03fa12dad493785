"""The inputs of a run: where their files may be, that they have not changed, and their tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from simkit.verify.audit import Check, NotApplicableError, NotAuditedError, rule
from simkit.verify.folder import RunFolder
from simkit.verify.numbers import Floats
from simkit.verify.tables import LARGE


@rule
def check_inputs(run: RunFolder, check: Check) -> None:
    """Every input file has its recorded sha256."""
    reasons = set()
    for entry in run.manifest["inputs"]:
        try:
            path = find_input(run, entry["path"])
        except NotAuditedError as error:
            reasons.add(str(error))
            continue
        check.examined += 1
        if (size := path.stat().st_size) != entry["bytes"]:
            check.add("the input file does not have its recorded size", {**entry, "found": size})
        found = _sha256_of(path)
        if found != entry["sha256"]:
            check.add("the input file has changed since the run", {**entry, "found": found})
    if reasons and not check.found:
        raise NotAuditedError("; ".join(sorted(reasons)))
    if not check.examined:
        raise NotApplicableError("the run read no input file")


def find_input(run: RunFolder, recorded: str) -> Path:
    """Return the path of a recorded input, links resolved: as recorded, or below the run folder.

    Raises NotAuditedError if there is none, it is not a regular file, or lies outside the
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
    raise NotAuditedError(f"{recorded} {problem}")


def _sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def log_of(run: RunFolder) -> Path:
    """Return the log of the scenario; raises NotAuditedError unless it is there, unchanged."""
    name = Path(str(run.setting("workload", "path"))).name
    for entry in run.manifest["inputs"]:
        if Path(str(entry["path"])).name == name:
            path = find_input(run, entry["path"])
            if _sha256_of(path) == entry["sha256"]:
                return path
            raise NotAuditedError(f"{name} has changed")
    raise NotAuditedError(f"{name} is not among the recorded inputs")


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

    Raises NotAuditedError if one of them is missing, may not be read, or has changed.
    """
    for entry in run.manifest["inputs"]:
        recorded = Path(str(entry["path"]))
        if Path(place) not in (recorded, recorded.parent):
            continue
        path = find_input(run, str(entry["path"]))
        if _sha256_of(path) != entry["sha256"]:
            raise NotAuditedError(f"{recorded.name} has changed")
        yield path


# ---- tasks --------------------------------------------------------------------------------------

OF_TASKS: Final = (
    "job_id", "task_id", "submit", "instances", "gang", "run", "requested", "retries", "order",
)  # fmt: skip
"""Columns of tasks that are no resources."""


@dataclass(frozen=True)
class InputTasks:
    """The tasks of the input, or the reason why they are not known."""

    tasks: pl.DataFrame
    """Columns job_id, task_id, submit, instances, gang, run (of every instance, null: unknown),
    requested (null: unknown), retries (null: none of its own), order (of the job among all, from 0)
    and the resources; sorted by order."""
    jobs: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Columns order, job_id and submit, and those of user, group, executable, queue, partition,
    qos, value and deadline_s (infinite: none) that a job may have by the input; sorted by order.
    Users, … are whole numbers, -1 where unknown, or names, empty where unknown."""
    parents: pl.DataFrame | None = None
    """Columns job_id, task_id, parent: one row per dependency; None if there are none."""
    instance_times: tuple[Floats, Floats] | None = None
    """Run times of single instances in s, and their tolerances (for means of the others), each
    (sum of instances,) in the order of `tasks`; None: each instance has the time of its task."""
    epoch_s: float | None = None
    """Unix time of second 0 if the submit times of a table are dates."""
    reason: str = ""
    """Why the input was not read again."""
    problem: str = ""
    """Why the input could not be read."""

    @property
    def known(self) -> bool:
        """Whether the input was read."""
        return not self.reason and not self.problem
