"""A run folder as the auditor reads it: run.json with its scenario, the metrics and the tables.

A missing or mistyped part is an error of the folder (`RunError`), because no rule can be checked
without it; wrong values are left to the checks. The scenario is judged by simkit's own models, so
that every rule finds it in its normal form. No file or code that it names is opened.

Small tables are in memory. Large ones, of gigabytes in a run of millions of jobs, stay on disk: no
rule needs more than some columns of all rows, or all columns of some rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simkit import records
from simkit.errors import RunError
from simkit.files import check_parquet, check_texts, read_json
from simkit.plugins import code_refused
from simkit.scenario import Scenario
from simkit.scenario.policy import ComposedPolicy, FittedPolicy
from simkit.sections import problems_of
from simkit.text import printable
from simkit.verify.audit import on_grid

CUSTOM: Final = "custom"
"""The part of metrics.json that holds the user's own metrics."""
LARGE: Final = 600_000
"""Rows from which on a table stays on disk."""
ROWS_AT_ONCE: Final = 262_144
"""Rows of a large table that are read at a time."""
COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {**records.TABLES, **records.POWER_TABLES}
"""Table → the columns that it begins with, each with its type and meaning."""
BY_LIMIT: Final = pl.col("reason").eq_missing("requested time is over")
"""Whether a job was killed by the limit of `RunFolder.killed_after`, which is no event."""


def types_of(column: str, about: str) -> tuple[str, ...]:
    """Return the types that a column may have, by its record; none if any will do."""
    if column in ("job_id", "task_id"):
        return ("Int64", "String")
    kinds = about.partition(";")[0]
    return tuple(kind for kind in ("Int64", "Float64", "Boolean", "String") if kind in kinds)


class TableFiles(Mapping[str, pl.DataFrame]):
    """Table name → its rows exactly as written; a large table is read again each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, pl.DataFrame] = {}
        self._heads: dict[str, pl.DataFrame] = {}
        self._rows: dict[str, int] = {}

    def add(self, name: str) -> pl.DataFrame:
        """Take in a table; return it, or of a large one the columns without a row.

        Raises OSError, ValueError or PolarsError if it cannot be read.
        """
        path = self._path(name)
        check_parquet(path)
        check_texts(path)
        self._rows[name] = int(self._scan(name).select(pl.len()).collect().item())
        if self._rows[name] < LARGE:
            table = self._kept[name] = pl.read_parquet(path, hive_partitioning=False)
        else:
            table = self._scan(name).head(0).collect()
        self._heads[name] = table.head(0)
        return self._heads[name]

    def with_rows(self, frames: Mapping[str, pl.DataFrame]) -> TableFiles:
        """Return these tables with other rows in some of them."""
        found = TableFiles(self._folder)
        found._kept = {**self._kept, **frames}
        found._heads = self._heads
        found._rows = self._rows | {name: frame.height for name, frame in frames.items()}
        return found

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.parquet"

    def _scan(self, name: str) -> pl.LazyFrame:
        return pl.scan_parquet(self._path(name), hive_partitioning=False, glob=False)

    def _read(self, name: str, frame: pl.LazyFrame) -> pl.DataFrame:
        """Return rows of a large table; raises RunError if they are damaged."""
        try:
            return frame.collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise RunError(f"{self._path(name)}: cannot be read ({error}); run it again") from None

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name in self._kept or name not in self._heads:
            return self._kept[name]
        return self._read(name, self._scan(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)

    def head(self, name: str) -> pl.DataFrame:
        """Return a table without its rows."""
        return self._heads[name]

    def rows(self, name: str) -> int:
        """Return how many rows a table has."""
        return self._rows[name]

    def is_large(self, name: str) -> bool:
        """Return whether a table stays on disk."""
        return name not in self._kept

    def only(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Return some columns of all rows."""
        kept = self._kept.get(name)
        if kept is None:
            return self._read(name, self._scan(name).select(columns))
        return kept.select(columns)

    def slice(self, name: str, first: int, rows: int) -> pl.DataFrame:
        """Return some rows of all columns."""
        kept = self._kept.get(name)
        if kept is None:
            return self._read(name, self._scan(name).slice(first, rows))
        return kept.slice(first, rows)

    def slices(self, name: str) -> Iterator[pl.DataFrame]:
        """Yield all rows, some at a time; of an empty table once."""
        for first in range(0, max(self.rows(name), 1), ROWS_AT_ONCE):
            yield self.slice(name, first, ROWS_AT_ONCE)


def digest_of(tables: Mapping[str, pl.DataFrame], metrics: Any, scenario: Any) -> str:
    r"""Return the run's digest as 64 hexadecimal digits.

    For each table in (jobs, tasks, allocations, timeline, events, power, energy) that is present
    and for each of its columns in file order, the column's digest is SHA-256 over its values in
    row order:

    - Float64: 8 bytes, little-endian; null is the quiet NaN 0x7ff8000000000000;
    - Int64: 8 bytes, little-endian; null is -2**63;
    - Boolean: one byte, 0 or 1; null is 2;
    - String: the UTF-8 bytes followed by one 0 byte; null is the byte 0xff followed by 0.

    The run's digest is SHA-256 over the lines ``f"{table}.{column}:{hexdigest}\n"`` in that order,
    followed by the lines ``"metrics:" + hexdigest + "\n"`` and ``"scenario:" + hexdigest + "\n"``,
    the SHA-256 of the metrics and of the portable scenario as canonical JSON (``sort_keys=True,
    separators=(",", ":")``, in UTF-8).

    Args:
        tables: table name → frame; other tables are left out.
        metrics: the parsed contents of metrics.json; its part `CUSTOM` is left out.
        scenario: the portable form of the scenario.

    Raises ValueError for a column of another type.
    """
    total = hashlib.sha256()
    for table in (name for name in COLUMNS if name in tables):
        hashes: dict[str, Any] = {}
        for rows in tables.slices(table) if isinstance(tables, TableFiles) else [tables[table]]:
            for column in rows.iter_columns():
                try:
                    values = _canonical_bytes(column)
                except ValueError as error:
                    raise ValueError(f"{table}.{error}") from None
                hashes.setdefault(column.name, hashlib.sha256()).update(values)
        for name, of_column in hashes.items():
            total.update(f"{table}.{name}:{of_column.hexdigest()}\n".encode())
    own = {name: metric for name, metric in metrics.items() if name != CUSTOM}
    for name, content in (("metrics", own), ("scenario", scenario)):
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        total.update(f"{name}:{hashlib.sha256(text.encode()).hexdigest()}\n".encode())
    return total.hexdigest()


def _canonical_bytes(column: pl.Series) -> bytes:
    """Return a column's values as `digest_of` describes them."""
    if column.dtype == pl.Float64:
        return column.fill_null(np.nan).to_numpy().astype("<f8").tobytes()
    if column.dtype == pl.Int64:
        return column.fill_null(-(2**63)).to_numpy().astype("<i8").tobytes()
    if column.dtype == pl.Boolean:
        return column.cast(pl.UInt8).fill_null(2).to_numpy().tobytes()
    if column.dtype == pl.String:
        if len(column) and not column.null_count():
            return str(column.str.join("\0").item()).encode() + b"\0"
        return b"".join(
            b"\xff\0" if text is None else text.encode() + b"\0" for text in column.to_list()
        )
    raise ValueError(f"{column.name} has type {column.dtype}, not Float64, Int64, Boolean, String")


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
    def walltime_kills(self) -> bool:
        """Whether jobs are killed when their requested time is over."""
        return self.scenario.walltime == "kill"

    def killed_after(self) -> pl.Expr:
        """Return how long a job may run, in s, by its requested time; null: to its end."""
        return pl.col("requested_time_s") if self.walltime_kills else pl.lit(None, pl.Float64)

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
        if name not in records.POWER_TABLES or (scenario.power is not None and there):
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
