"""A sweep: the runs of a scenario's grid, in processes of this machine or elsewhere.

    sweep: {policy.backfill: [none, easy], seed: [0, 1, 2]}

stands for six runs. The keys keep the file's order, and the last one changes fastest. The folders
are Hive-partitioned, so one call reads them all:

    polars.scan_parquet("runs/mine-sweep/**/jobs.parquet", hive_partitioning=True)
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload
from urllib.parse import quote

from simkit import plugins
from simkit.errors import RunError, ScenarioError, SimkitError, warn_of
from simkit.experiment.api import scenario_source
from simkit.experiment.experiment import carry_out, prepare
from simkit.experiment.policy import PolicyClasses
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
from simkit.results.all_metrics import build_metrics, failures, measure_custom, metric_columns
from simkit.results.metric import CUSTOM
from simkit.results.output_folder import check_content
from simkit.results.run_folder import Run, open_run
from simkit.results.run_info import changed_inputs, identity
from simkit.results.run_writer import claimed, rewrite
from simkit.scenario import Scenario, without_custom_metrics
from simkit.scenario.overrides import anchor_paths, anchor_swept, dotted, split_key, starts_with
from simkit.scenario.yaml_document import Document, Source
from simkit.scenario.yaml_lines import from_python
from simkit.sections import KeyPath, Problem, shown
from simkit.text import counted

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


class GridPoint(NamedTuple):
    """One run of a sweep."""

    assignment: dict[str, Any]
    """Dotted key → the value it has here, in the file's order."""
    scenario: Scenario
    """The scenario with these values, without `sweep`."""


class _Axis(NamedTuple):
    key: str
    path: KeyPath
    values: tuple[Any, ...]


def expand_sweep(
    source: Source,
    *,
    sweep: Mapping[str, Iterable[Any]] | None = None,
    overrides: Mapping[str, object] | None = None,
    allow_code: bool = True,
) -> list[GridPoint]:
    """Return the runs of a scenario, in order; a scenario without `sweep` is one run.

    Args:
        source: path of a YAML file, or a mapping of the same form.
        sweep: dotted key → values, after those of the source; keys of the source's sweep at or
            below such a key are left out.
        overrides: dotted path → value; they win over the file and over the sweep: keys of the
            sweep at or below such a path are left out.
        allow_code: False refuses code in the scenario and in the sweep's values.

    Raises ScenarioError with all problems of the scenario or, if it has none, of every
    combination, each problem once.
    """
    document = Document.read(source, overrides, allow_code=allow_code)
    _add_sweep(document, sweep or {})
    whole = document.scenario()
    axes = _axes(whole, document.overrides)
    size, most = prod(len(axis.values) for axis in axes), whole.limits.runs
    if most is not None and size > most:
        text = (
            f"stands for {size:,} runs, and at most {most:,} are allowed; split it, or raise "
            "limits.runs"
        )
        raise ScenarioError(document.error_lines([Problem(("sweep",), text)]))
    document.forget_sweep()
    points: list[GridPoint] = []
    problems: list[Problem] = []
    alike: dict[tuple[int, ...], Scenario] = {}
    for rows in product(*(range(len(axis.values)) for axis in axes)):
        chosen = list(zip(axes, rows, strict=True))
        others = tuple(row for axis, row in chosen if axis.path != _SEED)
        scenario = _reseeded(alike.get(others), chosen)
        if scenario is None:
            scenario, found = _point(document, chosen)
            problems += found
        if scenario is not None:
            alike[others] = scenario
            assignment = {axis.key: axis.values[row] for axis, row in chosen}
            points.append(GridPoint(assignment, scenario))
    if problems:
        raise ScenarioError(document.error_lines(_each_once(problems)))
    return points


def _add_sweep(document: Document, sweep: Mapping[str, Iterable[Any]]) -> None:
    """Add swept values to the document's own.

    Raises ScenarioError for a key that an override sets, too.
    """
    problems = [
        f"{key} is swept, but {dotted(above)} is also set; leave one of them out"
        for key in sweep
        for above in document.overrides
        if starts_with(split_key(key), above)
    ]
    if problems:
        raise ScenarioError(problems)
    added = from_python({key: _listed(values) for key, values in sweep.items()})
    document.overrides |= {("sweep", key): values for key, values in added.data.items()}
    document.values.problems += [
        problem._replace(path=("sweep", *problem.path)) for problem in added.problems
    ]


def _listed(values: Any) -> Any:
    """Return any collection as a list; the validation refuses the rest."""
    is_one = isinstance(values, str | Mapping) or not isinstance(values, Iterable)
    return values if is_one else list(values)


def _axes(scenario: Scenario, overrides: Mapping[KeyPath, Any]) -> list[_Axis]:
    """Return what is swept: no key that an override sets, or a key above it that is added."""
    axes = [_Axis(key, split_key(key), values) for key, values in scenario.sweep.items()]
    laid = [tuple(path) for path in overrides if path[0] != "sweep"]
    added = [split_key(str(path[1])) for path in overrides if path[0] == "sweep" and path[1:]]
    return [
        axis
        for axis in axes
        if not any(starts_with(axis.path, above) for above in laid)
        and not any(starts_with(axis.path, above) for above in added if axis.path != above)
    ]


_SEED: Final[KeyPath] = ("seed",)


def _reseeded(alike: Scenario | None, chosen: list[tuple[_Axis, int]]) -> Scenario | None:
    """Return a scenario that differs in its seed alone with the one chosen; None if it cannot be.

    Seeds are what most sweeps have most of, and a copy costs a hundredth of a validation.
    """
    seed = next((axis.values[row] for axis, row in chosen if axis.path == _SEED), None)
    if alike is None or type(seed) is not int or seed < 0:
        return None
    return alike.model_copy(update={"seed": seed})


def _point(
    document: Document, chosen: list[tuple[_Axis, int]]
) -> tuple[Scenario | None, list[Problem]]:
    """Return the scenario of one combination, or its problems at the sweep's lines."""
    unset: list[Problem] = []
    data = document.laid_over({axis.path: axis.values[row] for axis, row in chosen}, unset)
    scenario, found = document.validate(data)
    if unset or found:
        return None, [_in_sweep(problem, chosen) for problem in (*unset, *found)]
    return scenario, []


def _in_sweep(problem: Problem, chosen: list[tuple[_Axis, int]]) -> Problem:
    """Return the problem at the path of the swept value that caused it."""
    for axis, row in chosen:
        if starts_with(problem.path, axis.path):
            below = problem.path[len(axis.path) :]
            return Problem(("sweep", axis.key, row, *below), problem.text)
    for axis, _ in chosen:
        if starts_with(axis.path, problem.path):
            return Problem(("sweep", axis.key), f"{dotted(problem.path)}: {problem.text}")
    values = ", ".join(f"{axis.key}: {shown(axis.values[row])}" for axis, row in chosen)
    return Problem(problem.path, f"{problem.text} (with {values})")


def _each_once(problems: list[Problem]) -> Iterator[Problem]:
    """Yield each problem once: not again with another combination."""
    seen = set()
    for problem in problems:
        complaint = (problem.path, problem.text.partition(" (with ")[0])
        if complaint not in seen:
            seen.add(complaint)
            yield problem


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
        self._policies = [point.scenario.policy.label for point in plan.points]

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
"""Warnings of single runs of a sweep that are shown."""


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
    levels = {"scenario": scenario.name, "policy": scenario.policy.label}
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
"""Folders in the way that a message names."""

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
        finished = None if force or policy is not None else finished_run(path, scenario)
        if finished is not None:
            run, state = measured_again(finished, scenario), "skipped"
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


def finished_run(folder: Path, scenario: Scenario) -> Run | None:
    """Return the run of a folder if it is this very run: same scenario and inputs, with a digest.

    The user's metrics change no result; see `measured_again`.
    """
    try:
        run = open_run(folder)
    except RunError:
        return None
    there, here = run.info.get("scenario"), scenario.model_dump(mode="json")
    same = isinstance(there, dict) and without_custom_metrics(there) == without_custom_metrics(here)
    return run if same and run.digest and not changed_inputs(run.info) else None


def measured_again(run: Run, scenario: Scenario) -> Run:
    """Return a finished run with the user's metrics as its scenario names them, and files are, now.

    What has changed is computed from the run's tables, and its folder has it then.

    Raises ScenarioError for what is no metric, RunError if the folder cannot be written.
    """
    custom = build_metrics(scenario)
    named = identity(scenario)
    there = [
        (one.get("source"), one.get("sha256", "")) for one in run.metrics.get(CUSTOM, {}).values()
    ]
    is_known = run.info.get("scenario_sha256") == named["scenario_sha256"]
    if is_known and there == [(metric.source, metric.sha256) for metric in custom]:
        return run
    metrics = {name: metric for name, metric in run.metrics.items() if name != CUSTOM}
    if custom:
        metrics[CUSTOM] = measure_custom(run, scenario, custom)
    before = failures(run.metrics)
    others = [text for text in run.info.get("warnings", ()) if text not in before]
    rewrite(run, {**run.info, **named, "warnings": [*others, *failures(metrics)]}, metrics)
    return open_run(run.folder)
