"""A run that can be read: the content of `run.json`, and tables that are loaded when asked for.

`open_run` reads a run folder; a `MemoryRun` is what the Python API returns if no folder is asked
for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import polars as pl

from simkit import plugins, records
from simkit.errors import RunError
from simkit.files import check_parquet, read_json
from simkit.results.custom_metrics import CustomMetric
from simkit.results.group_metrics import By, metrics_by
from simkit.results.metric import Metrics
from simkit.results.run_checks import MOST_WRONG, wrong_columns, wrong_metric, wrong_types
from simkit.results.timeline import power_means
from simkit.scenario.bundled import agent_label
from simkit.scenario.policy import BACKFILL, ORDER
from simkit.shown import Shown, heading, notes, safe, text_or
from simkit.text import counted, printable
from simkit.units import format_duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simkit.power.facts import BatteryFacts

FORMAT: Final = 1
"""The version of run folders that this module reads."""
PORTABLE: Final = "portable_scenario"
"""Key of `run.json`: the scenario as it enters the digest (`scenario.portable_form`)."""

_Result = TypeVar("_Result")


class Run:
    """A run on disk. The frames are polars; ``run.jobs.to_pandas()`` gives pandas.

    `jobs`, `tasks`, … load a whole table and keep it; ``scan("jobs")`` reads only what a query
    needs: use it for runs of a million jobs.
    """

    def __init__(self, folder: Path, info: dict[str, Any]) -> None:
        self.folder = folder
        self.info = info
        """The content of run.json."""
        self.custom: tuple[CustomMetric, ...] = ()
        """The user's metrics, of a run of this process alone: no code of a run folder runs."""

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self._counts()})"

    def _repr_html_(self) -> str:
        return text_or(self._html, self.name, f"<pre>{safe(self)}</pre>")

    def _html(self, name: str) -> str:
        facts = [self.policy, self._counts(), f"seed {self.seed}"]
        facts += [] if self.status == "complete" else [self.status]
        where = [] if isinstance(self, MemoryRun) else [f"run folder {self.folder}"]
        where += [f"digest {self.digest[:16]}…"] if self.digest else []
        where += [str(text) for text in self.info.get("warnings") or ()]
        try:
            numbers = self.metrics._repr_html_()
        except RunError:
            numbers = ""
        return heading(name, *facts) + numbers + notes(where)

    def summary(self) -> Shown:
        """Return what the command line prints of a finished run: its metrics, digest and warnings.

        At a prompt and in ``print`` it is text, in a notebook it is HTML.
        """
        return Shown(plugins.view("run.text")(self), self._repr_html_())

    def plot(
        self, *others: Run, by: By | None = None, kind: Literal["jobs", "power"] = "jobs"
    ) -> Figure:
        """Draw the run, alone or with others; return the matplotlib figure.

        Without arguments it shows utilisation, queue, waits and, of a run on power, its supply.

        Args:
            others: runs that are drawn beside it, such as those of other policies.
            by: draw waits and slowdowns of each user, queue, size, … instead.
            kind: ``power`` draws the power of the site alone, and the capacity that it carries.

        ``run.plot().savefig("run.pdf")`` writes it. Raises SimkitError without matplotlib, or for a
        run without jobs.
        """
        for other in others:
            if isinstance(other, (str, PathLike)) and Path(other).suffix in _PICTURES:
                raise RunError(
                    f"{os.fspath(other)}: plot() takes runs to draw beside this one; a picture is "
                    f'saved by run.plot().savefig("{os.fspath(other)}")'
                )
        figure: Figure = plugins.view("run.plot")([self, *others], by=by, kind=kind)
        return figure

    def explain(self, job: int | str) -> Any:
        """Return why a job waited: an `Explanation`, which is text at a prompt and a table in HTML.

        The run is made again from what it says of its scenario. Raises RunError for a job that it
        does not have, and if it cannot be made again as it was.
        """
        return plugins.view("run.explain")(self, job)

    def report(self, target: str | os.PathLike[str]) -> Path:
        """Write a report of the run, one HTML file that opens from disk; return the file.

        Raises RunError if it cannot be written.
        """
        page: Path = plugins.view("run.report")(self, target)
        return page

    def _counts(self) -> str:
        """Return ``1,000 jobs: 876 finished, 124 rejected``, or why the run is not complete."""
        jobs = self.info.get("jobs")
        size = counted(jobs, "job") if isinstance(jobs, int) else "? jobs"
        if self.info.get("status") != "complete":
            return f"{size}: {self.info.get('status', 'incomplete')}"
        try:
            found = self.metrics.get("jobs")
        except RunError:
            return size
        counts = found if isinstance(found, dict) else {}
        states = [
            f"{n:,} {state}"
            for state in records.STATUSES
            if isinstance(n := counts.get(state), int) and n
        ]
        return f"{size}: {', '.join(states)}" if states else size

    @property
    def name(self) -> str:
        """The scenario's name, or else the folder's."""
        return str(self.info.get("name") or self.folder.name)

    @property
    def policy(self) -> str:
        """The policy in a few words: ``fcfs + easy``, ``tetris``, or its name or path."""
        return _policy_words(self.info.get("scenario", {}).get("policy") or {})

    @property
    def estimates(self) -> str:
        """What the policy's run-time estimates are: ``requested``, ``user-mean + tsafrir``, ….

        A log without requested times leaves its run times: ``run times (no requests)``. Empty if
        the policy does not use estimates.
        """
        facts = self.info.get("estimates") or {}
        return str(facts.get("name", "")) if facts.get("used") else ""

    @property
    def method(self) -> str:
        """The policy, and its estimates unless they are requests, in a few words."""
        policy, estimates = self.policy.rsplit("/", 1)[-1], self.estimates
        return f"{policy}, {estimates}" if estimates not in ("", "requested") else policy

    @property
    def status(self) -> str:
        """``complete``, or why it is not: incomplete, interrupted, failed."""
        return str(self.info["status"])

    @property
    def digest(self) -> str:
        """SHA-256 over the run's tables and metrics; empty unless the run is complete."""
        return str(self.info.get("digest") or "")

    @property
    def seed(self) -> int:
        """The seed that the scenario ran with."""
        return int(self.info.get("seed", 0))

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the cluster's resources."""
        return tuple(self.info.get("cluster", {}).get("resources", ()))

    @property
    def capacity(self) -> dict[str, float]:
        """Total of each resource over the cluster's machines, at the start."""
        return {
            name: float(sum(machine["capacity"].get(name, 0.0) for machine in self.machines))
            for name in self.resources
        }

    @property
    def machines(self) -> list[dict[str, Any]]:
        """Id, name and capacity of each machine."""
        return list(self.info.get("cluster", {}).get("machines", ()))

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row a job, by (submit_time_s, job_id)."""
        return self._load("jobs").sort("submit_time_s", "job_id", maintain_order=True)

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """One row a task, in order of end."""
        return self._load("tasks")

    @cached_property
    def allocations(self) -> pl.DataFrame:
        """One row for each placement and machine, in order of end."""
        return self._load("allocations")

    @cached_property
    def timeline(self) -> pl.DataFrame:
        """One row a decision, by time."""
        return self._load("timeline")

    @cached_property
    def events(self) -> pl.DataFrame:
        """One row for each event besides starts and ends, by time."""
        return self._load("events")

    @cached_property
    def power(self) -> pl.DataFrame:
        """The site's ledger, by time: a row lasts until a power changes.

        Raises RunError if the run has no power.
        """
        if not self.has_power:
            raise RunError(
                f"{self.folder}: its scenario has no power, so none was recorded; add a section "
                "`power` to the scenario and run it again"
            )
        return self._load("power")

    @cached_property
    def energy(self) -> pl.DataFrame:
        """What each job has used, one row a job id; only in runs with power."""
        return self._load("energy")

    def power_every(self, interval: str | float) -> pl.DataFrame:
        """Return the table "power" at regular times; all energies are those of `power`.

        Args:
            interval: length of a row: seconds, or text such as ``"5m"``.

        Returns:
            The columns of `power`, a row for each interval from its first row's start on: means of
            what flows and of prices, PUE and carbon intensities; and what is stored at its end. The
            last row may reach beyond the run's end; there nothing flows, and prices do not count.

        Raises RunError for a run without power, and for an interval that is not above 0 or so short
        that the table would not fit into memory.
        """
        return pl.concat(power_means(self.power, interval, self.stored_at_start_j))

    @property
    def has_power(self) -> bool:
        """Whether the scenario has a section `power`, so that the run has tables of power."""
        return self.info.get("scenario", {}).get("power") is not None

    @property
    def battery(self) -> BatteryFacts | None:
        """Capacity, efficiencies and initial state of charge of the site's battery, if any."""
        from simkit.power.facts import BatteryFacts

        section = (self.info.get("scenario", {}).get("power") or {}).get("battery")
        if section is None:
            return None
        return BatteryFacts(
            capacity_kwh=section["capacity_kwh"],
            charge_efficiency=section["charge_efficiency"],
            discharge_efficiency=section["discharge_efficiency"],
            initial_soc=section["initial_soc"],
        )

    @property
    def stored_at_start_j(self) -> float:
        """Content of the site's battery at the start of the run, in J; 0 without one."""
        return self.battery.capacity_j * self.battery.initial_soc if self.battery else 0.0

    @property
    def tables(self) -> dict[str, dict[str, str]]:
        """The run's tables → the columns that each must have, with their meaning."""
        every = records.TABLES
        return {**every, **records.POWER_TABLES} if self.has_power else every

    @cached_property
    def metrics(self) -> Metrics:
        """The content of metrics.json; raises RunError if it is none of simkit's."""
        path = self.folder / "metrics.json"
        found = _read_json(path)
        if problem := wrong_metric(found):
            raise RunError(f"{path}: {problem}; run the scenario again")
        return Metrics(found)

    def metrics_by(self, by: By) -> pl.DataFrame:
        """Return the metrics of the jobs by partition, queue, user, group, size or length.

        The columns are those of `simkit.results.group_metrics.metrics_by`; the user's metrics are
        among them if this process made the run, and if they need nothing but the jobs.
        """
        settings = self.info.get("scenario", {}).get("metrics") or {}
        jobs, timeline = self.scan("jobs"), self.scan("timeline")
        return metrics_by(
            jobs, timeline, by, resources=self.resources, settings=settings, custom=self.custom
        )

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame, its rows in the order in which they were written.

        Raises RunError if the table is missing, damaged or lacks a column.
        """
        path = self.folder / f"{table}.parquet"
        if table not in self.tables or not path.is_file():
            raise RunError(
                f"{path}: there is no such table; the tables of the run are "
                f"{', '.join(self.tables)}"
            )
        frame = pl.scan_parquet(path, glob=False)
        columns = _readable(path, lambda: frame.collect_schema().names())
        expected = [*self.tables[table]]
        if table == "timeline":
            expected += [
                f"{part}_{r}" for r in self.resources for part in ("allocated", "capacity")
            ]
        if missing := [printable(name) for name in expected if name not in columns]:
            raise RunError(
                f"{path}: column {', '.join(missing)} is missing; the file was not written by "
                "simkit, or was edited: run the scenario again"
            )
        return frame

    def columns(self, table: str, *names: str) -> pl.DataFrame:
        """Return some columns of a table, its rows in the order in which they were written.

        Raises RunError if the table is missing, damaged or lacks a column.
        """
        frame = self.scan(table).select(names)
        return _readable(self.folder / f"{table}.parquet", frame.collect)

    def _load(self, table: str) -> pl.DataFrame:
        return _readable(self.folder / f"{table}.parquet", self.scan(table).collect)


RunOrFolder = Run | str | PathLike[str]


def open_run(folder: RunOrFolder, *, allow_partial: bool = False) -> Run:
    """Open the folder of a finished run for reading.

    Args:
        folder: what `simkit run` wrote; a `Run` is returned as it is.
        allow_partial: also open a run that was interrupted or failed, with the tables it has.

    Raises RunError if there is no run, it is of another format, not complete, or lacks a table.
    """
    if isinstance(folder, Run):
        return folder
    path = Path(folder)
    if not os.path.exists(path):  # noqa: PTH110  False, not an error, for a name that is too long
        raise RunError(f"{path}: there is no such run folder; `simkit run` prints where it wrote")
    if not path.is_dir():
        raise RunError(f"{path}: is a file, a run is a folder; give the folder that holds it")
    if not (path / "run.json").is_file():
        raise RunError(
            f"{path}: no run.json in it, so it is not a run folder; `simkit run` makes one"
        )
    info = _read_json(path / "run.json")
    if info.get("format") != FORMAT:
        found = f"format {info['format']}" if "format" in info else "no format"
        raise RunError(
            f"{path}: run.json has {found}, this simkit reads format {FORMAT}; "
            "run the scenario again, or read it with the simkit that wrote it"
        )
    if wrong := [*wrong_types(info)]:
        raise RunError("\n".join(f"{path / 'run.json'}: {text}" for text in wrong[:MOST_WRONG]))
    if allow_partial:
        run = Run(path, {"status": "incomplete", **info})
        _check_tables(run)
        return run
    if info.get("status") != "complete":
        error = f" ({printable(info['error'])})" if info.get("error") else ""
        raise RunError(
            f"{path}: the run is {info.get('status', 'incomplete')}{error}, its results are "
            "partial; run the scenario again, or take what is there with --partial (in Python: "
            "allow_partial=True)"
        )
    run = Run(path, info)
    _check_tables(run)
    missing = [table for table in run.tables if not (path / f"{table}.parquet").is_file()]
    if missing:
        raise RunError(
            f"{path}: {', '.join(f'{table}.parquet' for table in missing)} is missing, though "
            "run.json says complete; run the scenario again"
        )
    if run.resources and not set(run.resources) & set(run.scan("tasks").collect_schema().names()):
        raise RunError(
            f"{path}: the tasks ask for none of the cluster's resources "
            f"({printable(', '.join(run.resources))}); run the scenario again"
        )
    return run


def _check_tables(run: Run) -> None:
    """Raise RunError for tables that no run has: too much for their file, other types, no numbers.

    So that whoever reads them may count on what `simkit.records` says of their columns.
    """
    for table in run.tables:
        path = run.folder / f"{table}.parquet"
        if path.exists():
            try:
                _readable(path, partial(check_parquet, path))
                problem = _readable(path, partial(wrong_columns, path, _meanings(run, table)))
            except ValueError as error:
                raise RunError(f"{path}: {error}; run the scenario again") from error
            if problem:
                raise RunError(f"{path}: {problem}; run the scenario again")


def _meanings(run: Run, table: str) -> dict[str, str]:
    """Return the columns of a run's table with their types and meanings, resources too."""
    of_resources = {
        "jobs": run.resources,
        "tasks": run.resources,
        "timeline": [f"{part}_{r}" for r in run.resources for part in ("allocated", "capacity")],
    }
    return {**dict.fromkeys(of_resources.get(table, ()), "Float64"), **run.tables[table]}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); run the scenario again") from error
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds no JSON object; run the scenario again")
    return content


def _readable(path: Path, read: Callable[[], _Result]) -> _Result:
    """Return what `read` returns; damage to the file becomes a RunError."""
    try:
        return read()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"{path}: damaged ({reason}); run the scenario again") from error


class MemoryRun(Run):
    """A run without a folder; its tables are polars frames in memory."""

    def __init__(
        self,
        info: dict[str, Any],
        tables: Mapping[str, pl.DataFrame],
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(Path("in-memory"), info)
        self._tables = tables
        if metrics is not None:
            self.metrics = Metrics(metrics)

    def __repr__(self) -> str:
        return f"MemoryRun({self.name!r}, {self._counts()})"

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame; raises RunError if there is no such table."""
        if table not in self._tables:
            raise RunError(f"there is no table {table!r}; the tables are {', '.join(self._tables)}")
        return self._tables[table].lazy()


class WrittenRun(Run):
    """A run whose tables have just been written, some of which are still in memory."""

    def __init__(
        self, folder: Path, info: dict[str, Any], tables: Mapping[str, pl.DataFrame]
    ) -> None:
        super().__init__(folder, info)
        self._tables = tables

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame, from memory if it is there."""
        return self._tables[table].lazy() if table in self._tables else super().scan(table)


_PICTURES: Final = (".png", ".svg", ".pdf")


def _policy_words(policy: Any) -> str:
    """Return a policy in a few words; a lookahead as ``lookahead(tetris, sjf + easy)``."""
    if not isinstance(policy, dict):
        return str(policy)
    if "lookahead" in policy:
        names = [_policy_words(each).rsplit("/", 1)[-1] for each in policy["lookahead"]]
        return f"lookahead({', '.join(names)})"
    if "recorded" in policy:
        return "recorded"
    if "switch" in policy:
        later = [f", {_policy_words(each['to'])} from {_when(each)}" for each in policy["switch"]]
        return _policy_words(policy.get("start")) + "".join(later)
    if "agent" in policy:
        label = agent_label(policy["agent"])
        return f"{label} + {policy['compat']}" if policy.get("compat") else label
    if "model" in policy:
        return Path(policy["model"]).stem
    keys: tuple[str, ...] = ("path", "name", "fitness", "order", "backfill", "compat")
    if "fitness" in policy and policy.get("order") == ORDER:
        keys = ("fitness", "compat")
    parts = [policy.get(key) for key in keys]
    words = [_part(p) for p in parts if p]
    return " + ".join(word for word in words if word != BACKFILL) or "unknown"


def _when(change: Mapping[str, Any]) -> str:
    """Return ``30d 00:00:00`` or the date of a change of the policy."""
    at = change.get("at")
    return format_duration(at) if isinstance(at, (int, float)) else str(at)


def _part(setting: Any) -> str:
    """Return ``easy`` or ``easy(order=sjf)`` of a policy's part: its choices, not its numbers."""
    if not isinstance(setting, dict):
        return str(setting)
    chosen = {key: value for key, value in setting.items() if key != "type"}
    given = ",".join(f"{key}={value}" for key, value in chosen.items() if isinstance(value, str))
    return f"{setting.get('type', '?')}({given})" if given else str(setting.get("type", "?"))
