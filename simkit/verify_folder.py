"""A run folder as the auditor sees it: run.json and the tables, read and checked for their form.

What is missing or of the wrong type is an error of the folder (`RunError`), because no rule can be
held against it; what is merely wrong is left to the checks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.errors import RunError
from simkit.verify_checkpoints import with_redone
from simkit.verify_columns import COLUMNS, POWER_COLUMNS
from simkit.verify_pieces import executed, gang_segments, known_allocations, pieces
from simkit.verify_task_inputs import InputTasks, read_input_tasks

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1
"""The format of run folders that this auditor understands."""

_MANIFEST = ("format", "status", "scenario", "cluster", "digest", "inputs", "trace")


@dataclass(frozen=True)
class RunFolder:
    """The parts of a run folder, as they were read."""

    path: Path
    manifest: dict[str, Any]
    """run.json."""
    metrics: dict[str, Any]
    """metrics.json; empty where an incomplete run has none."""
    tables: dict[str, pl.DataFrame]
    """Table name → rows exactly as written, for the digest."""

    @property
    def complete(self) -> bool:
        """Tell whether the run came to its end."""
        return bool(self.manifest["status"] == "complete")

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario after defaults."""
        return dict(self.manifest["scenario"])

    def setting(self, *path: str) -> Any:
        """Return a setting of the scenario, e.g. ``setting("scheduling", "every")``, or None."""
        value: Any = self.manifest["scenario"]
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names of the cluster's resources, in its order."""
        return tuple(self.manifest["cluster"]["resources"])

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """Names of those resources that the jobs ask for; the tables have no other columns."""
        return tuple(name for name in self.resources if name in self.tables["tasks"].columns)

    @cached_property
    def capacity(self) -> dict[int, tuple[float, ...]]:
        """Machine id → capacity of each resource."""
        machines = self.manifest["cluster"]["machines"]
        return {
            int(machine["id"]): tuple(float(machine["capacity"].get(r, 0)) for r in self.resources)
            for machine in machines
        }

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """The table of jobs, NaN read as null."""
        return self.tables["jobs"].fill_nan(None)

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """The table of tasks, NaN read as null."""
        return self.tables["tasks"].fill_nan(None)

    @cached_property
    def allocations(self) -> pl.DataFrame:
        """The table of allocations, NaN read as null."""
        return self.tables["allocations"].fill_nan(None)

    @cached_property
    def known(self) -> pl.DataFrame:
        """The allocations whose job and task exist, with what those say."""
        return known_allocations(self.jobs, self.tasks, self.allocations, self.asked)

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row per common start of a gang."""
        return gang_segments(self.known)

    @cached_property
    def pieces(self) -> pl.DataFrame:
        """One row per piece of work of an instance, or of a gang as one."""
        return pieces(self.known, self.segments)

    @cached_property
    def work(self) -> pl.DataFrame:
        """One row per attempt of an instance that has ended: what it executed.

        Besides the columns of `verify_pieces.executed`, ``redone_s``: what it executed again, or
        restarting, after a stop for lack of power; ``executed_s`` is without it.
        """
        return with_redone(executed(self.pieces), self)

    @cached_property
    def input_tasks(self) -> InputTasks:
        """The tasks of the input, read once more."""
        return read_input_tasks(self)


def read_run_folder(folder: str | Path, *, allow_partial: bool = False) -> RunFolder:
    """Read a run folder.

    Args:
        folder: the folder that holds run.json.
        allow_partial: accept a run that was interrupted or failed half way.

    Raises RunError if the folder is not a run of a known format, is not complete, or lacks a table
    or column.
    """
    path = Path(folder)
    manifest = _read_manifest(path / "run.json")
    if manifest["status"] != "complete" and not allow_partial:
        raise RunError(
            f"{path}: the run is {manifest['status']}, only a complete run can be verified; "
            "run it again, or check what is there with --partial (in Python: allow_partial=True)"
        )
    tables = {name: _read_table(path, name) for name in _tables_of(path, manifest)}
    _check_ids(path, tables)
    _check_resources(path, tables, manifest["cluster"]["resources"])
    return RunFolder(path, manifest, _read_metrics(path, manifest["status"]), tables)


def _tables_of(folder: Path, manifest: dict[str, Any]) -> tuple[str, ...]:
    """Return the tables that the run should have; one that is not complete may lack bills."""
    if not isinstance(manifest["scenario"], dict) or manifest["scenario"].get("power") is None:
        return tuple(COLUMNS)
    whole = manifest["status"] == "complete"
    there = (n for n in POWER_COLUMNS if whole or (folder / f"{n}.parquet").is_file())
    return (*COLUMNS, *there)


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = _read_json(path)
    found = manifest.get("format")
    if found != FORMAT:
        which = "missing" if found is None else found
        raise RunError(f"{path}: format is {which}, this version reads format {FORMAT}")
    needed = [key for key in _MANIFEST if key != "digest" or manifest.get("status") == "complete"]
    if missing := [key for key in needed if key not in manifest]:
        raise RunError(f"{path}: no key {', '.join(missing)}; the file is damaged, run it again")
    cluster = manifest["cluster"]
    try:
        [(int(m["id"]), dict(m["capacity"])) for m in cluster["machines"]]
        list(cluster["resources"])
    except (KeyError, TypeError, ValueError):
        raise RunError(
            f"{path}: the cluster is damaged, it needs resources, and machines with id and "
            "capacity; run it again"
        ) from None
    return manifest


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path}: no such file; give the folder that `simkit run` printed") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); run it again") from None
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds a {type(content).__name__}, not an object; run it again")
    return content


def _read_metrics(folder: Path, status: str) -> dict[str, Any]:
    path = folder / "metrics.json"
    if status != "complete" and not path.exists():
        return {}
    return _read_json(path)


def _read_table(folder: Path, name: str) -> pl.DataFrame:
    import polars as pl

    path = folder / f"{name}.parquet"
    try:
        table = pl.read_parquet(path, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{path}: cannot be read ({error}); run it again") from None
    for kind, columns in (COLUMNS | POWER_COLUMNS)[name].items():
        allowed = ("Int64", "String") if kind == "id" else (kind,)
        for column in columns:
            found = str(table.schema[column]) if column in table.columns else "missing"
            if found not in allowed:
                wanted = " or ".join(allowed)
                raise RunError(f"{path}: column {column} is {found}, expected {wanted}")
    return table


def _check_ids(folder: Path, tables: dict[str, pl.DataFrame]) -> None:
    tables_with = {
        "job_id": ("jobs", "tasks", "allocations", "energy"),
        "task_id": ("tasks", "allocations"),
    }
    for column, names in tables_with.items():
        kinds = {name: str(tables[name].schema[column]) for name in names if name in tables}
        if len(set(kinds.values())) > 1:
            found = ", ".join(f"{kind} in {name}" for name, kind in kinds.items())
            raise RunError(f"{folder}: {column} has different types in different tables: {found}")


def _check_resources(folder: Path, tables: dict[str, pl.DataFrame], resources: list[str]) -> None:
    for resource in resources:
        kinds = [str(tables[table].schema.get(resource)) for table in ("jobs", "tasks")]
        if kinds not in (["Float64"] * 2, ["None"] * 2):
            raise RunError(
                f"{folder}: the resource {resource!r} is {kinds[0]} in jobs and {kinds[1]} in "
                "tasks, expected Float64 in both or a column in neither"
            )
    if not any(resource in tables["tasks"].columns for resource in resources):
        raise RunError(f"{folder}: the tasks ask for none of the resources {', '.join(resources)}")
