"""A sweep: the runs of a scenario's grid, in processes of this machine or elsewhere.

The folders are Hive-partitioned, so one call reads them all:

    polars.scan_parquet("runs/mine-sweep/**/jobs.parquet", hive_partitioning=True)
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote

from simkit import plugins
from simkit.errors import RunError, ScenarioError, SimkitError, warn_of
from simkit.experiment.api import scenario_source
from simkit.experiment.experiment import carry_out, prepare
from simkit.experiment.policy import PolicyClasses, policy_label
from simkit.experiment.workers import (
    Executor,
    InProcess,
    LocalProcesses,
    PlannedRun,
    SweepOutcome,
    end_if_main_runs_again,
)
from simkit.experiment.workload import TraceMemory
from simkit.policy import Policy
from simkit.results.all_metrics import metric_columns
from simkit.results.output_folder import check_content
from simkit.results.run_folder import open_run
from simkit.results.run_info import changed_inputs, identity
from simkit.results.run_writer import claimed
from simkit.scenario import Scenario, scenario_hash
from simkit.scenario.overrides import anchor_paths, anchor_swept
from simkit.scenario.sweep import GridPoint, expand_sweep
from simkit.scenario.yaml_document import Source
from simkit.text import counted

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep and their folders."""

    folder: Path
    points: tuple[GridPoint, ...]
    folders: tuple[Path, ...]
    """One per point, all different."""


class SweepResult(Sequence[SweepOutcome]):
    """The outcomes of a sweep, in the grid's order."""

    def __init__(self, plan: SweepPlan, outcomes: Sequence[SweepOutcome]) -> None:
        self.folder = plan.folder
        """The folder with all runs."""
        self._outcomes = tuple(outcomes)
        self._policies = [policy_label(point.scenario) for point in plan.points]

    def __len__(self) -> int:
        return len(self._outcomes)

    @overload
    def __getitem__(self, row: int) -> SweepOutcome: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[SweepOutcome, ...]: ...
    def __getitem__(self, row: int | slice) -> SweepOutcome | tuple[SweepOutcome, ...]:
        return self._outcomes[row]

    def __repr__(self) -> str:
        states = Counter(outcome.state for outcome in self)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        return f"<sweep in {self.folder}: {counts}>"

    def _repr_html_(self) -> str:
        html: str = plugins.view("sweep.html")(self)
        return html

    def plot(
        self, x: str, y: str = "wait_time_s", *, by: str | Sequence[str] = (), level: float = 0.95
    ) -> Figure:
        """Draw a metric over a key of the scenario: mean and interval over seeds.

        Args:
            x: a swept key, ``workload.offered_load``; numbers make lines, names make bars.
            y: a metric, ``wait_time_s`` (its mean), ``wait_time_s.p99``, ``carbon_kg``.
            by: keys that make lines of their own; none: all other keys that differ.
            level: of confidence.

        Returns the matplotlib figure. Raises RunError, with the names that there are, for an
        unknown key or metric; SimkitError without matplotlib.
        """
        figure: Figure = plugins.view("sweep.plot")(self, x, y, by=by, level=level)
        return figure

    def frame(self) -> pl.DataFrame:
        """Return a row per run: its policy, the swept values, its state and all metrics.

        The columns are `policy` (its label, as in the folders), the other swept keys, `state`,
        `seconds`, each number of the metrics once, by the names that ``--metrics`` takes
        (``wait_time_s`` is the mean, ``wait_time_s.p99`` another number of it), `folder` and
        `error`. A swept value that is not a number or text is JSON. A failed run has no metrics:
        null.
        """
        import polars as pl

        rows = [
            {
                "policy": policy,
                **{
                    key: _cell(value)
                    for key, value in outcome.assignment.items()
                    if key != "policy"
                },
                "state": outcome.state,
                "seconds": outcome.seconds,
                **{name: n.value for name, n in metric_columns(outcome.metrics).items()},
                "folder": str(outcome.folder),
                "error": outcome.error,
            }
            for policy, outcome in zip(self._policies, self, strict=True)
        ]
        columns = dict.fromkeys(name for row in rows for name in row)
        return pl.DataFrame({name: _column([row.get(name) for row in rows]) for name in columns})


def _cell(value: Any) -> Any:
    is_plain = value is None or isinstance(value, str | int | float)
    return value if is_plain else json.dumps(value, sort_keys=True)


def _column(values: list[Any]) -> list[Any]:
    """Return values of one type: as text if some are text, or switches among numbers."""
    kinds = {float if type(value) is int else type(value) for value in values if value is not None}
    return [v if v is None else str(v) for v in values] if len(kinds) > 1 else values


def run_sweep(
    source: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    policy: type[Policy] | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    overrides: Mapping[str, object] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    force: bool = False,
    allow_code: bool = True,
) -> SweepResult:
    """Run a scenario for every combination of its sweep; return the outcomes in the grid's order.

    Args:
        source: the scenario: a YAML file, the name of a bundled one, a mapping, or a `Scenario`.
        output: the folder; None: ``runs/NAME-sweep``.
        policy: a policy's class, or what the scenario writes, such as ``{"order": "sjf"}`` or
            ``"sjf"``, in place of the scenario's.
        sweep: dotted key → values, added to the scenario's `sweep`; see `plan_sweep`.
        overrides: dotted key → value; they win over the sweep. As in the commands, relative paths
            in `overrides`, `sweep` and `policy` start from the working folder.
        workers: processes; None: one per core.
        executor: runs them elsewhere than in processes of this machine.
        force: run again what is already finished and unchanged, and replace runs of other
            scenarios in the same folders.
        allow_code: False refuses a scenario that names code; see `load_scenario`.

    What the command line warns of is a `SimkitWarning` each, after the runs.

    A policy may be a class here, in a mapping `source` and among the values of ``"policy"`` in
    `sweep`; ``{"name": Mine, "args": {…}}`` gives it arguments. Its runs are always repeated,
    because the class may have changed.

    Raises ScenarioError if a combination is wrong, RunError if a folder holds the run of another
    scenario, or if the workers cannot be started or reached; a later failure is an outcome.
    """
    classes = PolicyClasses()
    if isinstance(source, Mapping):
        source = classes.named(source)
    if isinstance(policy, os.PathLike):
        policy = os.fspath(policy)
    laid_over = dict(overrides or {}) | ({} if policy is None else {"policy": policy})
    here = Path.cwd()
    plan = plan_sweep(
        source,
        output,
        sweep=anchor_swept(classes.named(sweep or {}), here),
        overrides=anchor_paths(classes.named(laid_over), here),
        allow_code=allow_code,
    )
    outcomes = run_plan(plan, workers=workers, executor=executor, force=force, classes=classes)
    warn_of(sweep_warnings(outcomes))
    return SweepResult(plan, outcomes)


def sweep_warnings(outcomes: Sequence[SweepOutcome]) -> list[str]:
    """Return what a reader of the runs must know; what concerns all of them is said once.

    Every other warning is a line: the folder of the first run that it concerns, how many others it
    concerns, and its first line.
    """
    ended = [outcome for outcome in outcomes if outcome.state != "failed"]
    folders: dict[str, list[Path]] = {}
    for outcome in ended:
        for text in dict.fromkeys(outcome.warnings):
            folders.setdefault(text, []).append(outcome.folder)
    common = [text for text, places in folders.items() if len(places) == len(ended)]
    single = [
        f"warning: {_places(places)}: {text.splitlines()[0].removeprefix('warning: ')}"
        for text, places in folders.items()
        if len(places) < len(ended)
    ]
    if (more := len(single) - _MOST_WARNINGS) > 0:
        rest = f"warning: {counted(more, 'other warning')}; see warnings in the runs' run.json"
        single[_MOST_WARNINGS:] = [rest]
    return common + single


def _places(folders: Sequence[Path]) -> str:
    others = len(folders) - 1
    return str(folders[0]) + (f" and {counted(others, 'other run')}" if others else "")


_MOST_WARNINGS = 10
"""Warnings of single runs of a sweep that are told."""


def plan_sweep(
    source: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    overrides: Mapping[str, object] | None = None,
    allow_code: bool = True,
) -> SweepPlan:
    """Return the runs of a sweep and their folders; arguments as for `run_sweep`.

    The keys of `sweep` take the place of the scenario's swept keys at or below them.
    """
    known = scenario_source(source)
    points = tuple(expand_sweep(known, sweep=sweep, overrides=overrides, allow_code=allow_code))
    folder = (
        Path(output) if output is not None else Path("runs") / f"{points[0].scenario.name}-sweep"
    )
    folders = tuple(folder / run_path(point) for point in points)
    shared = next((path for path, runs in Counter(folders).items() if runs > 1), None)
    if shared is not None:
        raise ScenarioError(f"sweep: two runs would share the folder {shared}; make them differ")
    return SweepPlan(folder, points, folders)


def run_path(point: GridPoint) -> Path:
    """Return ``scenario=NAME/policy=LABEL/KEY=VALUE/…/seed=SEED`` of a run."""
    scenario = point.scenario
    levels = {"scenario": scenario.name, "policy": policy_label(scenario)}
    levels |= {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in point.assignment.items()
        if key != "seed" and key.split(".")[0] != "policy"
    }
    levels["seed"] = str(scenario.seed)
    return Path(*(f"{key}={quote(value, safe='+,()[]{}: ')}" for key, value in levels.items()))


def run_plan(
    plan: SweepPlan,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    force: bool = False,
    on_end: Callable[[SweepOutcome], None] = lambda _outcome: None,
    classes: PolicyClasses | None = None,
) -> list[SweepOutcome]:
    """Carry out a plan and call `on_end` with every outcome; the rest is as in `run_sweep`.

    `classes` are those of the policies that the scenarios name.

    Raises RunError, before anything runs, if a folder holds something that a run must not replace,
    or another process writes a sweep there.
    """
    end_if_main_runs_again()
    with claimed(plan.folder, "a sweep"):
        return _carried_out(plan, workers, executor, force, on_end, classes)


def _carried_out(
    plan: SweepPlan,
    workers: int | None,
    executor: Executor | None,
    force: bool,
    on_end: Callable[[SweepOutcome], None],
    classes: PolicyClasses | None,
) -> list[SweepOutcome]:
    """Carry out a plan whose folder is this process's."""
    if not force:
        _check_folders(plan, classes or PolicyClasses())
    if executor is None:
        executor = InProcess() if workers == 1 else LocalProcesses(workers)
    runs = [
        (point.assignment, point.scenario.model_dump(mode="json"), str(folder))
        for point, folder in zip(plan.points, plan.folders, strict=True)
    ]
    outcomes: dict[int, SweepOutcome] = {}
    task = partial(run_planned, force=force, classes=classes)
    try:
        for row, outcome in executor.run(task, runs):
            outcomes[row] = outcome
            on_end(outcome)
    finally:
        _traces.forget()
    return [outcomes[row] for row in sorted(outcomes)]


def _check_folders(plan: SweepPlan, classes: PolicyClasses) -> None:
    """Raise RunError for folders that hold other runs, or other files."""
    problems = []
    for point, folder in zip(plan.points, plan.folders, strict=True):
        try:
            check_content(folder, identity(classes.recorded(point.scenario)))
        except RunError as error:
            problems.append(str(error))
    if more := len(problems) - _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"and {counted(more, 'other folder')}"] if more > 0 else []
    if problems:
        raise RunError("\n".join(problems))


_MOST_PROBLEMS = 3
"""Folders in the way that are told at once."""

_traces = TraceMemory()
"""The logs of this process's runs: each is read once in a worker."""


def run_planned(
    planned: PlannedRun, *, force: bool = False, classes: PolicyClasses | None = None
) -> SweepOutcome:
    """Carry out one run of a sweep unless it is finished; errors are in the outcome."""
    assignment, data, folder = planned
    path, begin = Path(folder), perf_counter()
    try:
        scenario = Scenario.model_validate(data)
        scenario, policy = (classes or PolicyClasses()).policy_of(scenario)
        if not force and policy is None and is_finished(path, scenario):
            run, state = open_run(path), "skipped"
        else:
            experiment = replace(prepare(scenario, policy=policy, memory=_traces), given=())
            run, state = carry_out(experiment, path, force=force, quiet=True), "done"
        seconds = perf_counter() - begin
        return SweepOutcome(
            assignment, path, state, "", seconds, run.digest, run.metrics,
            run.estimates, tuple(run.info.get("warnings", ())),
        )  # fmt: skip
    except SimkitError as error:
        return SweepOutcome(assignment, path, "failed", str(error), perf_counter() - begin)
    except Exception as error:  # a defect in one run must not end the others
        text = f"{type(error).__name__}: {error}"
        return SweepOutcome(assignment, path, "failed", text, perf_counter() - begin)


def is_finished(folder: Path, scenario: Scenario) -> bool:
    """Return whether a folder has this very run: same scenario and inputs, with a digest."""
    try:
        run = open_run(folder)
    except RunError:
        return False
    same = run.info.get("scenario_sha256") == scenario_hash(scenario)
    return bool(same and run.digest and not changed_inputs(run.info))
