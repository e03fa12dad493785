"""A run folder as the auditor reads it: run.json with its scenario, the metrics and the tables.

A missing or mistyped part is an error of the folder (`RunError`), because no rule can be checked
without it; wrong values are left to the checks. The scenario is judged by simkit's own models, so
that every rule finds it in its normal form. No file or code that it names is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simkit.errors import RunError
from simkit.files import read_json
from simkit.plugins import code_refused
from simkit.scenario import Scenario
from simkit.scenario.policy import ComposedPolicy, FittedPolicy
from simkit.sections import problems_of
from simkit.text import printable
from simkit.verify.audit import Check, NotApplicableError, rule
from simkit.verify.numbers import on_grid
from simkit.verify.tables import COLUMNS, FURTHER, OF_POWER, TableFiles, digest_of, types_of

_FORMAT = 1
"""The format of run folders that this auditor understands."""
_CHANGES = ("trace", "containers", "failures", "maintenance")
"""Keys of the scenario's cluster that change machines over time."""
_BUNDLED = ("simkit.scenarios", "simkit.traces.samples", "simkit.learners")
"""Packages that hold simkit's own logs, tables and agents."""


class _Part(BaseModel):
    """A part of run.json; other keys are left to the rules."""

    model_config = ConfigDict(strict=True)


class _Rows(_Part):
    read: int
    accepted: int
    repaired: dict[str, int]
    dropped: dict[str, int]
    notes: dict[str, int]


class _Input(_Part):
    path: str
    sha256: str
    bytes: int


class _Machine(_Part):
    id: int
    name: str
    capacity: dict[str, float]


class _Cluster(_Part):
    resources: Annotated[list[str], Field(min_length=1)]
    machines: list[_Machine]
    partitions: list[dict[str, Any]]


class _Manifest(_Part):
    """The keys that run.json must have, and their types."""

    status: Literal["complete", "incomplete", "interrupted", "failed", "stopped"]
    name: str
    scenario: dict[str, Any]
    scenario_sha256: str
    portable_scenario: dict[str, Any]
    inputs: list[_Input]
    trace: _Rows
    tables: dict[str, _Rows]
    epoch_s: float | None
    time_zone: str | None
    cluster: _Cluster
    seed: int
    jobs: int


class _CompleteManifest(_Manifest):
    digest: str


@dataclass(frozen=True)
class RunFolder:
    """The parts of a run folder as they were read."""

    path: Path
    manifest: dict[str, Any]
    """run.json."""
    scenario: Scenario
    """That of run.json."""
    metrics: dict[str, Any]
    """metrics.json; empty if an incomplete run has none."""
    tables: TableFiles
    """Table name → rows exactly as written, for the digest."""
    places: tuple[Path, ...]
    """Folders whose files may be read; a path in run.json that leads elsewhere is not opened."""

    @classmethod
    def read(
        cls,
        folder: str | Path,
        *,
        allow_partial: bool = False,
        inputs: Iterable[str | os.PathLike[str]] = (),
    ) -> Self:
        """Read a run folder.

        Args:
            folder: the folder that holds run.json.
            allow_partial: accept a run that was interrupted or failed.
            inputs: further folders whose files may be read; see `readable_places`.

        Raises RunError if the folder is not a run of a known format, has a scenario that simkit
        does not accept, is not complete, or lacks a table or column.
        """
        path = Path(folder)
        places = readable_places(path, inputs)
        manifest = _read_manifest(path / "run.json")
        if manifest["status"] != "complete" and not allow_partial:
            raise RunError(
                f"{path}: the run is {manifest['status']}, only a complete run can be verified; "
                "run it again, or verify what is there with --partial (in Python: "
                "allow_partial=True)"
            )
        scenario = scenario_of(path / "run.json", manifest["scenario"])
        tables = TableFiles(path)
        for name in _tables_of(path, scenario, complete=manifest["status"] == "complete"):
            _read_table(path, name, tables)
        _check_ids(path, tables)
        _check_resources(path, tables, manifest["cluster"]["resources"])
        metrics = _read_metrics(path, manifest["status"])
        return cls(path, manifest, scenario, metrics, tables, places)

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return bool(self.manifest["status"] == "complete")

    def setting(self, *path: str) -> Any:
        """Return a setting of the scenario, as in ``setting("workload", "zone")``.

        None if there is no such key: kinds of workloads, signals and policies have different ones.
        """
        value: Any = self.scenario
        for name in path:
            value = getattr(value, name, None)
        return value

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names of the cluster's resources, in its order."""
        return tuple(self.manifest["cluster"]["resources"])

    @cached_property
    def requested(self) -> tuple[str, ...]:
        """Names of the resources that jobs request; the tables have no column for the others."""
        return tuple(name for name in self.resources if name in self.columns_of("tasks"))

    @property
    def counted(self) -> str:
        """The resource that counts as processors: that name, or else the first resource."""
        return "processors" if "processors" in self.resources else self.resources[0]

    @cached_property
    def capacity(self) -> dict[int, tuple[float, ...]]:
        """Machine id → capacity of each resource."""
        machines = self.manifest["cluster"]["machines"]
        return {
            int(machine["id"]): tuple(float(machine["capacity"].get(r, 0)) for r in self.resources)
            for machine in machines
        }

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """The partitions of the cluster as run.json has them."""
        return list(self.manifest["cluster"]["partitions"])

    @property
    def policy_may_kill(self) -> bool:
        """Whether the policy may stop jobs: a custom one, or any where partitions preempt."""
        return self.policy_is_custom or self.preempts

    @property
    def policy_is_custom(self) -> bool:
        """Whether the policy is a class or an agent, not an order or a fitness."""
        return not isinstance(self.scenario.policy, ComposedPolicy | FittedPolicy)

    @property
    def preempts(self) -> bool:
        """Whether a partition lets its running jobs be preempted."""
        return any(part.get("preempt") for part in self.partitions)

    @property
    def pauses(self) -> bool:
        """Whether jobs of a partition that are preempted go on later."""
        return any(part.get("preempt") == "suspend" for part in self.partitions)

    @property
    def period_s(self) -> float | None:
        """Period of the scheduler's clock in s, on the grid; None: it decides at every change."""
        clock = self.scenario.scheduling
        period = clock.every or clock.step
        return None if period is None else on_grid(period)

    @property
    def power_limits_capacity(self) -> bool:
        """Whether the power that is available decides how much capacity is on."""
        return self.setting("power", "supply", "limit") in ("power", "resources")

    @property
    def machines_change(self) -> bool:
        """Whether the scenario changes machines over time for reasons other than power."""
        of_cluster = any(getattr(self.scenario.cluster, kind) for kind in _CHANGES)
        return of_cluster or bool(self.scenario.processes)

    @property
    def jobs(self) -> pl.DataFrame:
        """The table of jobs, NaN read as null."""
        return self._whole("jobs")

    @property
    def tasks(self) -> pl.DataFrame:
        """The table of tasks, NaN read as null."""
        return self._whole("tasks")

    @property
    def allocations(self) -> pl.DataFrame:
        """The table of allocations, NaN read as null."""
        return self._whole("allocations")

    @cached_property
    def _without_nan(self) -> dict[str, pl.DataFrame]:
        return {}

    def _whole(self, name: str) -> pl.DataFrame:
        """Return a table, NaN read as null; a large one is read each time, so prefer `only`."""
        if name not in self._without_nan:
            table = self.tables[name].fill_nan(None)
            if self.tables.is_large(name):
                return table
            self._without_nan[name] = table
        return self._without_nan[name]

    def only(self, name: str, *columns: str) -> pl.DataFrame:
        """Return some columns of a table, NaN read as null; those that it lacks are left out."""
        there = [column for column in columns if column in self.columns_of(name)]
        if self.tables.is_large(name):
            return self.tables.only(name, there).fill_nan(None)
        return self._whole(name).select(there)

    def columns_of(self, name: str) -> list[str]:
        """Return the columns of a table."""
        return self.tables.head(name).columns

    def rows_of(self, name: str) -> int:
        """Return the number of rows of a table."""
        return self.tables.rows(name)

    @cached_property
    def is_large(self) -> bool:
        """Whether jobs, tasks or allocations stay on disk."""
        return any(map(self.tables.is_large, ("jobs", "tasks", "allocations")))


def readable_places(run: Path, inputs: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the folders whose files the auditor of a run may read, links resolved.

    A run folder may come from a stranger, and its run.json names files: only those in the run
    folder, in the working folder, in the data folder (``SIMKIT_DATA``), in simkit itself and in the
    folders that the user gives are opened.

    Raises RunError if one of `inputs` is not a folder.
    """
    given = [Path(place).expanduser() for place in inputs]
    for place in given:
        if not place.is_dir():
            raise RunError(f"{place}: there is no such folder of inputs; give a folder")
    if data := os.environ.get("SIMKIT_DATA"):
        given.append(Path(data))
    bundled = [Path(str(resources.files(package))) for package in _BUNDLED]
    return tuple(place.resolve() for place in (run, Path.cwd(), *given, *bundled))


# ---- reading ------------------------------------------------------------------------------------


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = _read_json(path)
    found = manifest.get("format")
    if found != _FORMAT or isinstance(found, bool):
        which = "missing" if found is None else found
        raise RunError(f"{path}: format is {which}, this version reads format {_FORMAT}")
    model = _CompleteManifest if manifest.get("status") == "complete" else _Manifest
    _validated(path, model, manifest)
    return manifest


_Model = TypeVar("_Model", bound=BaseModel)


def _validated(path: Path, model: type[_Model], content: Any, below: str = "") -> _Model:
    """Return a part of run.json as its model; raises RunError with the first keys that are wrong.

    Nothing that it names is opened, and none of its code runs.
    """
    try:
        with code_refused():
            return model.model_validate(content)
    except ValidationError as error:
        wrong = [
            f"{below}{'.'.join(map(str, problem.path))} {problem.text.partition('; ')[0]}"
            for problem in problems_of(error, model)[:_SHOWN]
        ]
        text = printable("; ".join(wrong))
        raise RunError(f"{path}: {text}; the file is damaged, run it again") from None


_SHOWN: Final = 5
"""Problems of run.json that are shown."""


def scenario_of(path: Path, content: dict[str, Any]) -> Scenario:
    """Return the scenario of a run."""
    return _validated(path, Scenario, content, "scenario.")


def _tables_of(folder: Path, scenario: Scenario, *, complete: bool) -> Iterator[str]:
    """Yield the tables that the run must have; an incomplete run may lack those of power."""
    for name in COLUMNS:
        there = complete or (folder / f"{name}.parquet").is_file()
        if name not in OF_POWER or (scenario.power is not None and there):
            yield name


def _refuse_special(path: Path) -> None:
    """Raise RunError for a pipe, a device, or a link out of its folder: it is not a run's file."""
    there = os.path.exists(path)  # noqa: PTH110  False, not an error, for a name that is too long
    if there and not (path.is_file() and path.resolve().parent == path.parent.resolve()):
        raise RunError(
            f"{path}: is not a regular file in the run folder; copy the file's content there"
        )


def _read_json(path: Path) -> dict[str, Any]:
    _refuse_special(path)
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise RunError(f"{path}: no such file; give the folder that `simkit run` printed") from None
    except NotADirectoryError:
        raise RunError(f"{path.parent}: is a file, a run is a folder; give the folder") from None
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


def _read_table(folder: Path, name: str, tables: TableFiles) -> None:
    path = folder / f"{name}.parquet"
    _refuse_special(path)
    try:
        table = tables.add(name)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{path}: cannot be read ({error}); run it again") from None
    for column, about in COLUMNS[name].items():
        allowed = types_of(column, about)
        found = str(table.schema[column]) if column in table.columns else "missing"
        if allowed and found not in allowed:
            wanted = " or ".join(allowed)
            raise RunError(f"{path}: column {column} is {found}, expected {wanted}")


def _check_ids(folder: Path, tables: TableFiles) -> None:
    tables_with = {
        "job_id": ("jobs", "tasks", "allocations", "energy"),
        "task_id": ("tasks", "allocations"),
    }
    for column, names in tables_with.items():
        kinds = {name: str(tables.head(name).schema[column]) for name in names if name in tables}
        if len(set(kinds.values())) > 1:
            found = ", ".join(f"{kind} in {name}" for name, kind in kinds.items())
            raise RunError(f"{folder}: {column} has different types in different tables: {found}")


def _check_resources(folder: Path, tables: TableFiles, resources: list[str]) -> None:
    for resource in resources:
        kinds = [str(tables.head(table).schema.get(resource)) for table in ("jobs", "tasks")]
        if kinds not in (["Float64"] * 2, ["None"] * 2):
            raise RunError(
                f"{folder}: the resource {resource!r} is {kinds[0]} in jobs and {kinds[1]} in "
                "tasks, expected Float64 in both or a column in neither"
            )
    if not any(resource in tables.head("tasks").columns for resource in resources):
        names = printable(", ".join(resources)) or "none in run.json"
        raise RunError(f"{folder}: the tasks ask for none of the cluster's resources ({names})")


# ---- rules about the folder ----------------------------------------------------------------------


@rule
def check_columns(run: RunFolder, check: Check) -> None:
    """Tables have the columns of a run, in order, and there are no others."""
    for name in run.tables:
        there = run.columns_of(name)
        check.examined += len(there)
        expected = _columns_of(run, name)
        if strange := [column for column in there if column not in expected]:
            row = {"table": name, "columns": ", ".join(strange)}
            check.add("the table has columns that a run does not have", row)
        if missing := [column for column in expected if column not in there]:
            row = {"table": name, "columns": ", ".join(missing)}
            check.add("the table lacks columns", row)
        elif not strange and there != expected:
            row = {"table": name, "found": ", ".join(there)}
            check.add("the columns are not in their order", row)
    for path in sorted(run.path.glob("*.parquet")):
        if path.stem not in run.tables:
            check.add("the folder has a table that the run does not have", {"file": path.name})


def _columns_of(run: RunFolder, table: str) -> list[str]:
    """Return the columns that a table of the run must have, in order."""
    there, asked = run.columns_of(table), []
    if table in ("jobs", "tasks"):  # tasks have the resources in the order of the jobs'
        asked = [name for name in run.columns_of("jobs") if name in run.resources]
    elif table == "timeline":
        asked = [f"{kind}_{name}" for kind in ("allocated", "capacity") for name in run.resources]
    further = [name for name in FURTHER if table == "jobs" and name in there]
    return [*COLUMNS[table], *further, *asked]


@rule
def check_digest(run: RunFolder, check: Check) -> None:
    """Tables, metrics and scenario have the recorded digest."""
    check.examined = len(run.tables)
    recorded = run.manifest.get("digest")
    if recorded is None and not run.complete:
        raise NotApplicableError("the run is not complete and has no digest")
    try:
        found = digest_of(run.tables, run.metrics, run.manifest["portable_scenario"])
    except ValueError as error:
        check.add("a column cannot be digested", {"problem": str(error)})
        return
    if found != recorded:
        check.add("the digest differs", {"recorded": recorded, "recomputed": found})
