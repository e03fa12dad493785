"""A sweep: the runs of a scenario's grid, in processes of this machine or elsewhere.

The folders are Hive-partitioned, so one call reads them all:

    polars.scan_parquet("runs/mine-sweep/**/jobs.parquet", hive_partitioning=True)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import quote

from simkit.errors import RunError, ScenarioError, SimkitError
from simkit.experiment import carry_out, prepare
from simkit.experiment.policy import policy_label
from simkit.experiment.workers import Workers
from simkit.results.run_folder import open_run
from simkit.results.run_info import file_sha256
from simkit.scenario import Scenario, scenario_hash
from simkit.scenario.sweep import GridPoint, expand_sweep
from simkit.scenario.yaml_document import Source


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep and their folders."""

    folder: Path
    points: tuple[GridPoint, ...]
    folders: tuple[Path, ...]
    """One per point, all different."""


@dataclass(frozen=True)
class SweepOutcome:
    """The outcome of one run of a sweep."""

    assignment: dict[str, Any]
    """Swept key → its value."""
    folder: Path
    state: str
    """``done``, ``skipped`` (already finished) or ``failed``."""
    error: str = ""
    seconds: float = 0.0
    digest: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    estimates: str = ""
    """What the policy's estimates were, if it used any; see `Run.estimates`."""
    warnings: tuple[str, ...] = ()
    """What was known before the run of its estimates and the wall-time limit."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"folder": str(self.folder)}


PlannedRun = tuple[dict[str, Any], dict[str, Any], str]
"""(assignment, scenario as JSON, folder): plain values that can be sent anywhere."""
RunTask = Callable[[PlannedRun], SweepOutcome]
"""Carries out a run; must not raise."""


class Executor(Protocol):
    """Where runs are carried out; implement it to distribute them."""

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        """Yield (row, outcome) of every run as it ends; a lost run has an outcome too."""


class InProcess:
    """Carries runs out one after the other, in this process."""

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        for row, run in enumerate(runs):
            yield row, task(run)


class LocalProcesses:
    """Carries runs out in several processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        with Workers(min(self.workers, max(len(runs), 1))) as pool:
            yield from self._in_turn(pool, task, runs)

    def _in_turn(
        self, pool: Workers, task: RunTask, runs: Sequence[PlannedRun]
    ) -> Iterator[tuple[int, SweepOutcome]]:
        """Give each worker one run at a time, so an interrupt leaves no queued run to be ended."""
        waiting = iter(enumerate(runs))
        running: dict[Future[SweepOutcome], int] = {}
        while True:
            for row, run in islice(waiting, self.workers - len(running)):
                running[_submit(pool, task, run)] = row
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                row = running.pop(future)
                yield row, _result(future, runs[row])


def _submit(pool: Workers, task: RunTask, run: PlannedRun) -> Future[SweepOutcome]:
    try:
        return pool.submit(task, run)
    except BrokenProcessPool as error:  # a worker has died, and the pool with it
        lost: Future[SweepOutcome] = Future()
        lost.set_exception(error)
        return lost


def _result(future: Future[SweepOutcome], run: PlannedRun) -> SweepOutcome:
    try:
        return future.result()
    except BrokenProcessPool:
        error = "its process died, perhaps out of memory; use fewer --workers"
        return SweepOutcome(run[0], Path(run[2]), "failed", error)


def run_sweep(
    source: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    force: bool = False,
    allow_code: bool = True,
) -> list[SweepOutcome]:
    """Run a scenario for every combination of its sweep; return the outcomes in the grid's order.

    Args:
        source: the scenario, with a `sweep`.
        output: the folder; None: ``runs/NAME-sweep``.
        overrides: dotted key → value; they win over the sweep.
        workers: processes; None: one per core.
        executor: runs them elsewhere than in processes of this machine.
        force: run again what is already finished and unchanged.
        allow_code: False refuses a scenario that names code; see `load_scenario`.

    Raises ScenarioError if a combination is wrong; a later failure is an outcome.
    """
    plan = plan_sweep(source, output, overrides=overrides, allow_code=allow_code)
    return run_plan(plan, workers=workers, executor=executor, force=force)


def plan_sweep(
    source: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    allow_code: bool = True,
) -> SweepPlan:
    """Return the runs of a sweep and their folders; arguments as for `run_sweep`."""
    points = tuple(expand_sweep(source, overrides=overrides, allow_code=allow_code))
    folder = (
        Path(output) if output is not None else Path("runs") / f"{points[0].scenario.name}-sweep"
    )
    folders = tuple(folder / run_path(point) for point in points)
    shared = [path for path in folders if folders.count(path) > 1]
    if shared:
        raise ScenarioError(f"sweep: two runs would share the folder {shared[0]}; make them differ")
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
) -> list[SweepOutcome]:
    """Carry out a plan and call `on_end` with every outcome; the rest is as in `run_sweep`."""
    if executor is None:
        executor = InProcess() if workers == 1 else LocalProcesses(workers)
    runs = [
        (point.assignment, point.scenario.model_dump(mode="json"), str(folder))
        for point, folder in zip(plan.points, plan.folders, strict=True)
    ]
    outcomes: dict[int, SweepOutcome] = {}
    for row, outcome in executor.run(partial(run_planned, force=force), runs):
        outcomes[row] = outcome
        on_end(outcome)
    return [outcomes[row] for row in sorted(outcomes)]


def run_planned(planned: PlannedRun, *, force: bool = False) -> SweepOutcome:
    """Carry out one run of a sweep unless it is finished; errors are in the outcome."""
    assignment, data, folder = planned
    path, begin = Path(folder), perf_counter()
    try:
        scenario = Scenario.model_validate(data)
        if not force and is_finished(path, scenario):
            run, state = open_run(path), "skipped"
        else:
            run, state = carry_out(prepare(scenario), path), "done"
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
    return bool(same and run.digest and all(map(_unchanged, run.info.get("inputs", ()))))


def _unchanged(recorded: Mapping[str, Any]) -> bool:
    path = Path(recorded["path"])
    try:
        same_size = path.stat().st_size == recorded["bytes"]
        return bool(same_size and file_sha256(path) == recorded["sha256"])
    except OSError:
        return False
