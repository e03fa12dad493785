"""The records of a run in memory: changed, exchanged with another run's, and written as sound."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

import simkit
from simkit.results.run_writer import TABLES, RunDigest
from simkit.verify import verify_run
from simkit.verify.audit import Audit


def with_cells(frame: pl.DataFrame, row: int, **values: Any) -> pl.DataFrame:
    """Return a table with other cells in a row; a function gets the old value."""
    for column, value in values.items():
        cells = frame[column].to_list()
        cells[row] = value(cells[row]) if callable(value) else value
        frame = frame.with_columns(pl.Series(column, cells, dtype=frame.schema[column]))
    return frame


@dataclass
class Records:
    """A run in memory: change it, and write it with its digest brought up to date."""

    info: dict[str, Any]
    metrics: dict[str, Any]
    tables: dict[str, pl.DataFrame]

    @classmethod
    def read(cls, folder: Path) -> Records:
        info, metrics = (json.loads((folder / f"{n}.json").read_text()) for n in ("run", "metrics"))
        there = (name for name in TABLES if (folder / f"{name}.parquet").exists())
        return cls(info, metrics, {n: pl.read_parquet(folder / f"{n}.parquet") for n in there})

    def copy(self) -> Records:
        return Records(deepcopy(self.info), deepcopy(self.metrics), dict(self.tables))

    def set(self, table: str, row: int, **values: Any) -> None:
        """Change cells of a row; see `with_cells`."""
        self.tables[table] = with_cells(self.tables[table], row, **values)

    def take(self, table: str, choose: Callable[[list[int]], list[int]]) -> None:
        """Take other rows of a table, by their numbers."""
        frame = self.tables[table]
        self.tables[table] = frame[choose(list(range(frame.height)))]

    def save(self, folder: Path) -> Path:
        folder.mkdir()
        scenario = self.info["scenario"]
        text = json.dumps(scenario, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.info["scenario_sha256"] = sha256(text.encode()).hexdigest()
        digest = RunDigest()
        for name, table in self.tables.items():
            table.write_parquet(folder / f"{name}.parquet")
            digest.update(name, table)
        self.info["digest"] = digest.finish(self.metrics, self.info["portable_scenario"])
        (folder / "run.json").write_text(json.dumps(self.info))
        (folder / "metrics.json").write_text(json.dumps(self.metrics))
        return folder

    def audit(self, folder: Path) -> Audit:
        """Write the run and return its audit; a check that breaks down has found nothing."""
        logs = {str(Path(entry["path"]).parent) for entry in self.info["inputs"]}
        audit = verify_run(self.save(folder), inputs=logs)
        assert [v for v in audit.violations if "the auditor itself failed" in v.message] == []
        return audit


def simulated(scenario: Mapping[str, Any], folder: Path) -> Records:
    """Return the records of a run of a scenario, which is written to a new folder."""
    simkit.simulate({"name": "run"} | deepcopy(dict(scenario)), output=folder)
    return Records.read(folder)


def claimed(did: Mapping[str, Any], says: Mapping[str, Any], folder: Path) -> Records:
    """Return the records of one scenario under the name of another: a cheat that is consistent.

    Raises AssertionError if the two have the same tables, as nothing would be claimed wrongly.
    """
    run, honest = simulated(did, folder / "did"), simulated(says, folder / "says")
    same = run.tables.keys() == honest.tables.keys() and all(
        table.equals(honest.tables[name]) for name, table in run.tables.items()
    )
    assert not same, "both scenarios give the same run"
    info = deepcopy(honest.info)
    info["jobs"], info["decisions"] = run.info["jobs"], run.info["decisions"]
    return Records(info, run.metrics, run.tables)
