"""A run folder as the auditor reads it: run.json, the tables, and the digest over them.

A missing or mistyped part is an error of the folder (`RunError`), because no rule can be checked
without it; wrong values are left to the checks. The columns and the digest are the auditor's own
lists, not the engine's.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import polars as pl

from simkit.errors import RunError
from simkit.text import printable
from simkit.verify.audit import Check
from simkit.verify.manifest.shape import check_shape
from simkit.verify.records.table_files import TableFiles

_TIMES = ("start_time_s", "end_time_s")
_COLUMNS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "jobs": {
        "id": ("job_id",),
        "Float64": (
            "submit_time_s", *_TIMES, "wait_time_s", "turnaround_time_s", "run_time_s",
            "ideal_time_s", "requested_time_s", "estimate_s", "trace_run_time_s",
            "suspended_time_s", "lost_time_s",
        ),
        "Int64": ("attempts",),
        "String": ("status", "reason"),
    },
    "tasks": {
        "id": ("job_id", "task_id"),
        "Int64": ("instances",),
        "Boolean": ("gang",),
        "Float64": ("ready_time_s", *_TIMES, "trace_run_time_s"),
        "String": ("status",),
    },
    "allocations": {
        "id": ("job_id", "task_id"),
        "Int64": ("machine_id", "first_instance", "count", "attempt"),
        "Float64": _TIMES,
        "String": ("outcome",),
    },
    "timeline": {"Float64": ("time_s",), "Int64": ("waiting", "backlog", "running")},
    "events": {"Float64": ("time_s",), "String": ("kind", "detail"), "Int64": ("machine_id",)},
}  # fmt: skip
"""Columns that the checks read: table → type → names; an id is Int64 or String."""
_POWER_COLUMNS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "power": {
        "Float64": (
            "start_s", "end_s", "generation_w", "import_w", "discharge_w", "unserved_w", "load_w",
            "charge_w", "export_w", "curtailment_w", "losses_w", "pue", "price_per_kwh",
            "export_price_per_kwh", "carbon_gco2_per_kwh", "generation_price_per_kwh",
            "generation_gco2_per_kwh", "machines_w", "standing_w", "load_renewable_w",
            "load_battery_w", "load_grid_w", "charge_renewable_w", "charge_grid_w",
            "load_battery_grid_w", "carbon_g_per_s", "cost_per_s", "load_carbon_g_per_s",
            "load_cost_per_s", "stored_j", "stored_carbon_g", "stored_cost", "stored_grid_j",
        ),
    },
    "energy": {
        "id": ("job_id",),
        "Float64": (
            "energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost",
        ),
    },
}  # fmt: skip
"""The same for the additional tables of runs with power."""
_FORMAT = 1
"""The format of run folders that this auditor understands."""
_CHANGES = ("trace", "containers", "failures", "maintenance")
"""Keys of the scenario's cluster that change machines over time."""
_BUNDLED = ("simkit.scenarios", "simkit.traces.samples", "simkit.learners")
"""Packages that hold simkit's own logs, tables and agents."""


@dataclass(frozen=True)
class RunFolder:
    """The parts of a run folder as they were read."""

    path: Path
    manifest: dict[str, Any]
    """run.json."""
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

        Raises RunError if the folder is not a run of a known format, is not complete, or lacks a
        table or column.
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
        tables = TableFiles(path)
        for name in _tables_of(path, manifest):
            _read_table(path, name, tables)
        _check_ids(path, tables)
        _check_resources(path, tables, manifest["cluster"]["resources"])
        return cls(path, manifest, _read_metrics(path, manifest["status"]), tables, places)

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return bool(self.manifest["status"] == "complete")

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
    def policy_may_kill(self) -> bool:
        """Whether the policy may stop jobs: a custom one, or any where partitions preempt."""
        return self.policy_is_custom or self.preempts

    @property
    def policy_is_custom(self) -> bool:
        """Whether the policy is a class or an agent, not an order or a fitness."""
        policy = self.setting("policy")
        custom = not isinstance(policy, dict) or not (policy.get("order") or policy.get("fitness"))
        return custom or bool(policy.get("path") or policy.get("name"))

    @property
    def preempts(self) -> bool:
        """Whether a partition lets its running jobs be preempted."""
        return any(part.get("preempt") for part in self.manifest["cluster"]["partitions"])

    @property
    def pauses(self) -> bool:
        """Whether jobs of a partition that are preempted go on later."""
        partitions = self.manifest["cluster"]["partitions"]
        return any(part.get("preempt") == "suspend" for part in partitions)

    @property
    def power_limits_capacity(self) -> bool:
        """Whether the power that is available decides how much capacity is on."""
        return self.setting("power", "supply", "limit") in ("power", "resources")

    @property
    def machines_change(self) -> bool:
        """Whether the scenario changes machines over time for reasons other than power."""
        of_cluster = any(self.setting("cluster", kind) for kind in _CHANGES)
        return of_cluster or bool(self.setting("processes"))

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


def _tables_of(folder: Path, manifest: dict[str, Any]) -> tuple[str, ...]:
    """Return the tables that the run must have; an incomplete run may lack those of power."""
    if not isinstance(manifest["scenario"], dict) or manifest["scenario"].get("power") is None:
        return tuple(_COLUMNS)
    whole = manifest["status"] == "complete"
    there = (n for n in _POWER_COLUMNS if whole or (folder / f"{n}.parquet").is_file())
    return (*_COLUMNS, *there)


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = _read_json(path)
    found = manifest.get("format")
    if found != _FORMAT:
        which = "missing" if found is None else found
        raise RunError(f"{path}: format is {which}, this version reads format {_FORMAT}")
    check_shape(path, manifest)
    return manifest


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
        content = _parsed(path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"{path}: no such file; give the folder that `simkit run` printed") from None
    except NotADirectoryError:
        raise RunError(f"{path.parent}: is a file, a run is a folder; give the folder") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); run it again") from None
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds a {type(content).__name__}, not an object; run it again")
    return content


_DEEPEST: Final = 100
"""Most levels of lists and objects in each other in a JSON file of a run."""
_FREE_BYTES: Final = 2**28
"""What a file may stand for in any case, once it is unpacked or decoded."""
_MOST_TIMES: Final = 25
"""More is not read of a file above so many times its size: it may be made to fill the memory."""


def _parsed(text: bytes) -> Any:
    """Return the value of a JSON text; ValueError for what no run has: NaN, deep nesting."""

    def refused(name: str) -> None:
        raise ValueError(f"{name} is not a number of JSON")

    try:
        content = json.loads(text.decode("utf-8"), parse_constant=refused)
    except RecursionError:
        content = [None]
        for _ in range(_DEEPEST):
            content = [content]
    below, depth = [content], 0
    while below:
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        below, depth = [part for one in below for part in _parts(one)], depth + 1
    return content


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return ()
    return [part for part in value if isinstance(part, (dict, list))]


def most_bytes(path: Path) -> int:
    """Return how many bytes of a file are read, once it is unpacked or decoded."""
    return max(_FREE_BYTES, _MOST_TIMES * path.stat().st_size)


@contextmanager
def unpacked(path: Path) -> Iterator[Iterator[bytes]]:
    """Open a file that may be gzipped, as its lines; ValueError if it unpacks to too much."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as lines:
        yield _bounded(lines, most_bytes(path)) if zipped else iter(lines)


def unpacked_whole(path: Path) -> bytes:
    """Return the content of a file that may be gzipped; ValueError if it unpacks to too much."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if not zipped:
        return path.read_bytes()
    with gzip.open(path) as content:
        text = content.read(most_bytes(path) + 1)
    if len(text) > most_bytes(path):
        raise ValueError("it unpacks to far more than its size, and is not read")
    return text


def _bounded(lines: Any, most: int) -> Iterator[bytes]:
    while line := lines.readline(most + 1):
        most -= len(line)
        if most < 0:
            raise ValueError("it unpacks to far more than its size, and is not read")
        yield line


def refuse_equal_rows(path: Path, *, nested: bool = False) -> None:
    """Raise ValueError for a table that stands for far more than its file, or is `nested`."""
    schema = pl.read_parquet_schema(path)
    lists = [name for name, kind in schema.items() if kind.is_nested()]
    if lists and not nested:
        raise ValueError(f"column {printable(lists[0])} holds lists")
    frame = pl.scan_parquet(path, glob=False)
    rows = int(frame.select(pl.len()).collect().item())
    _refuse_beyond(path, 8 * rows * len(schema))
    texts = [name for name, kind in schema.items() if kind == pl.String]
    if texts:
        sizes = frame.select(pl.col(texts).str.len_bytes().cast(pl.UInt64).sum()).collect()
        _refuse_beyond(path, sum(size or 0 for size in sizes.row(0)))


def _refuse_beyond(path: Path, size: int) -> None:
    if size > (most := most_bytes(path)):
        raise ValueError(
            f"it stands for {size / 1e6:,.0f} MB in {path.stat().st_size:,} bytes, and at most "
            f"{most / 1e6:,.0f} MB of it are read"
        )


def _read_metrics(folder: Path, status: str) -> dict[str, Any]:
    path = folder / "metrics.json"
    if status != "complete" and not path.exists():
        return {}
    return _read_json(path)


def _read_table(folder: Path, name: str, tables: TableFiles) -> None:
    path = folder / f"{name}.parquet"
    _refuse_special(path)
    try:
        refuse_equal_rows(path)
        table = tables.add(name)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{path}: cannot be read ({error}); run it again") from None
    for kind, columns in (_COLUMNS | _POWER_COLUMNS)[name].items():
        allowed = ("Int64", "String") if kind == "id" else (kind,)
        for column in columns:
            found = str(table.schema[column]) if column in table.columns else "missing"
            if found not in allowed:
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


_DIGESTED = ("jobs", "tasks", "allocations", "timeline", "events", "power", "energy")


def check_digest(run: RunFolder) -> Check:
    """Check that tables, metrics and scenario have not changed since the digest was recorded."""
    check = Check("digest", "tables, metrics and scenario have the recorded digest")
    check.examined = len(run.tables)
    recorded = run.manifest.get("digest")
    if recorded is None and not run.complete:
        return check.skip("the run is not complete and has no digest")
    try:
        found = digest_of(run.tables, run.metrics, run.manifest["portable_scenario"])
    except ValueError as error:
        check.add("a column cannot be digested", {"problem": str(error)})
        return check
    if found != recorded:
        check.add("the digest differs", {"recorded": recorded, "recomputed": found})
    return check


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
        metrics: the parsed contents of metrics.json; its part ``custom`` is left out.
        scenario: the portable form of the scenario.

    Raises ValueError for a column of another type.
    """
    total = hashlib.sha256()
    for table in (name for name in _DIGESTED if name in tables):
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
    own = {name: metric for name, metric in metrics.items() if name != "custom"}
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
