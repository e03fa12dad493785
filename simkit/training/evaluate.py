"""Compares agents and heuristics on the same held-out job sets, set by set; all jobs count.

found = evaluate(scenario, [agent_candidate("trainings/mine"), policy_candidate("sjf")])

`simkit.training.judge` sums up one run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from simkit.analysis.intervals import Interval, set_interval
from simkit.analysis.time_bound import INTERRUPTED, bounds_of, check_bounded, may_interrupt
from simkit.arrays import Floats
from simkit.errors import (
    NoJobsError,
    PluginError,
    RunError,
    ScenarioError,
    SimkitError,
)
from simkit.experiment import Experiment, prepare, replay
from simkit.experiment.workers import Executor, InProcess, LocalProcesses, PlannedRun, SweepOutcome
from simkit.files import read_json
from simkit.results.job_metrics import JobMetric
from simkit.results.output_folder import check_place, reason, whole_file, write_text
from simkit.scenario import Scenario, refuse_sweep
from simkit.scenario.bundled import agent_folder
from simkit.scenario.overrides import anchor_paths
from simkit.scenario.policy import section_of
from simkit.scenario.yaml_document import load_scenario
from simkit.scenario.yaml_lines import parse_scalar
from simkit.training.held_out import (
    TRACES,
    WINDOW,
    Unseen,
    applied,
    forget_logs,
    held_out,
    prepare_window,
)
from simkit.training.judge import (
    MAKESPAN,
    NOTHING_JUDGED,
    RunMetric,
    judge,
    judged_metric,
    tables_judged,
)

NOT_BOUNDED: Final = (
    "--bound: jobs of this scenario may be interrupted, and then wait until their first start, so "
    "that nothing bounds this metric; take --metric turnaround_time_s, or leave --bound out"
)


@dataclass(frozen=True)
class Candidate:
    """An agent or a policy to compare on held-out job sets."""

    kind: Literal["agent", "policy"]
    policy: Mapping[str, Any]
    """The section `policy` of a scenario."""
    label: str = ""
    """Its name in tables; empty: the name of the scenario's policy."""


def agent_candidate(text: str) -> Candidate:
    """Return the agent of a bundle, a training's folder or a bundled agent's name.

    Raises ScenarioError if there is none.
    """
    try:
        folder = agent_folder(text, Path.cwd())
    except ValueError as error:
        raise ScenarioError(f"--agent {text}: {error}") from error
    return Candidate("agent", {"agent": str(folder)})


def policy_candidate(text: str) -> Candidate:
    """Return the policy that a name, a file's class or a mapping stands for.

    Args:
        text: ``sjf`` (a policy, an order or a fitness), ``sjf+easy`` (order, backfilling and
            placement), ``my_policy.py:Mine``, ``package.module:Mine``, or ``{fitness: tetris}`` as
            a scenario writes it. Relative paths start from the working folder.

    Raises ScenarioError, with the nearest name, if there is none.
    """
    if text.lstrip().startswith("{"):
        section = parse_scalar(text)
        if not isinstance(section, dict):
            raise ScenarioError(f"--policy {text}: is not a mapping; write {{order: sjf}}")
    else:
        try:
            section = section_of(text)
        except ValueError as error:
            raise PluginError(f"--policy {text}: {error}") from error
    laid_over: dict[str, Any] = anchor_paths({"policy": section}, Path.cwd())["policy"]
    learned = "agent" in laid_over or "model" in laid_over
    return Candidate("agent" if learned else "policy", laid_over)


def labelled(candidates: Sequence[Candidate], labels: Sequence[str]) -> list[str]:
    """Return distinct labels: of equal ones, all but the first get a number."""
    found: list[str] = []
    for candidate, label in zip(candidates, labels, strict=True):
        name, number = candidate.label or label, 2
        while name in found:
            name, number = f"{candidate.label or label}#{number}", number + 1
        found.append(name)
    return found


@dataclass(frozen=True)
class Judged:
    """A candidate over all job sets."""

    label: str
    kind: str
    """agent or policy."""
    set_mean: float | None
    """Mean over the job sets of each set's mean."""
    interval: Interval
    """Confidence interval of `set_mean`."""
    pooled_mean: float | None
    """Mean over all jobs of all sets; for a makespan, again over the sets."""
    pooled_interval: Interval
    difference: float | None
    """This candidate's `set_mean` minus the reference's; None for the reference itself."""
    difference_interval: Interval | None
    log_ratio: float | None
    """Mean over the job sets of ln(this candidate's mean / the reference's); None for the reference
    itself, and if a mean is not above 0. A few sets with large values dominate the difference; here
    each set counts alike."""
    log_ratio_interval: Interval | None
    wins: int
    """Sets in which it is better than the reference."""
    ties: int
    losses: int
    """Sets in which it is worse."""
    submitted: int
    unfinished: int
    """Jobs that did not finish, including rejected and killed ones; they count in the means."""
    rejected: int
    killed: int
    beside: Mapping[str, float | None]
    """Further metrics → their means over the job sets that have a value."""
    of_gap: float | None
    """Share of the gap between the reference's `set_mean` and the bound that it closes; negative
    if it is worse. None for the reference, without a bound, or without a gap."""


@dataclass(frozen=True)
class Evaluation:
    """Candidates judged on the same job sets."""

    scenario: str
    metric: str
    unit: str
    sets: int
    """Job sets in which there are jobs."""
    empty_sets: int
    """Job sets without a job; they are in no mean."""
    reference: str
    """The best heuristic on these sets, or the best candidate if there is no heuristic. Choosing it
    on the same sets favours it."""
    candidates: tuple[Judged, ...]
    beside: Mapping[str, str]
    """Further metrics → their units."""
    bound: float | None
    """Mean over the job sets of what no schedule that finishes all jobs can be below; None if it
    was not asked for. See `simkit.analysis.time_bound`."""
    identity: str
    """SHA-256 of what was asked: scenario, candidates, job sets, metrics and level."""
    rows: tuple[Mapping[str, Any], ...]
    """One for each candidate and job set: label, set (of windows: the number of the window), seed,
    sum, jobs, submitted, …, each further metric, and the bound, of a set's mean."""

    def frame(self) -> pl.DataFrame:
        """Return `rows` as a frame."""
        return pl.DataFrame(list(self.rows))

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers and text, without the rows."""
        return {key: value for key, value in asdict(self).items() if key != "rows"}


def evaluate(
    scenario: Scenario,
    candidates: Sequence[Candidate],
    *,
    sets: int | None = None,
    seeds: Sequence[int] | None = None,
    windows: Sequence[int] | None = None,
    unseen: Unseen | None = None,
    metric: str = "slowdown",
    beside: Sequence[str] = (),
    bound: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    workers: int | None = None,
    executor: Executor | None = None,
    on_end: Callable[[SweepOutcome], None] = lambda _outcome: None,
    allow_code: bool = True,
) -> Evaluation:
    """Run every candidate on every job set and compare them, set by set.

    Args:
        scenario: without a sweep; its policy is replaced by each candidate's.
        candidates: at least one.
        sets: how many held-out job sets; see `simkit.training.held_out`.
        seeds: seeds that serve as job sets instead.
        windows: windows of the scenario's trace that serve as job sets instead, such as
            ``range(202, 522)``: with ``workload.window: {jobs: 0..9}``, window k holds jobs 10 k to
            10 k + 9, and its seed is the scenario's + k.
        unseen: the job sets that a training holds out instead.
        metric: of single jobs: slowdown, bounded_slowdown, wait_time_s, turnaround_time_s, …; or
            of the whole job set: wait_time_s.p99, makespan_s, …; see `judged_metric`.
        beside: further metrics, whose means are told beside it.
        bound: also tell what no schedule can be below, which is known for some metrics.
        level: of confidence, between 0 and 1.
        resamples: of the bootstrap over job sets.
        workers: processes; None: one for each core.
        executor: where to run, instead of local processes.
        on_end: called with the outcome of every run.
        allow_code: False refuses a candidate that is code; see `load_scenario`.

    Raises ScenarioError, PluginError, … before anything runs, and RunError if a run fails.
    """
    refuse_sweep(scenario)
    if not (0 < level < 1 and resamples >= 1):
        raise ScenarioError(
            f"evaluate: level {level:g}, resamples {resamples}; the level lies between 0 and 1, "
            "and there is at least 1 resample"
        )
    if not candidates:
        raise ScenarioError("evaluate: no candidate; name an agent or a policy")
    chosen, further = judged_metric(metric), [judged_metric(name) for name in beside]
    if bound:
        check_bounded(metric)
    scenarios = [_with_policy(scenario, candidate, allow_code) for candidate in candidates]
    labels = labelled(candidates, [one.policy.label for one in scenarios])
    where = held_out(scenario, sets=sets, seeds=seeds, windows=windows, unseen=unseen)
    numbers = range(len(where)) if windows is None else windows
    jobs: list[PlannedRun] = [
        ({"label": label, "set": number, **given}, _planned(one, given), "")
        for label, one in zip(labels, (s.model_dump(mode="json") for s in scenarios), strict=True)
        for number, given in zip(numbers, where, strict=True)
    ]
    if executor is None:
        executor = InProcess() if workers == 1 else LocalProcesses(workers)
    try:
        with suppress(NoJobsError):  # of this one set; an error that concerns all is reported once
            first = _prepared(jobs[0])
            if bound and metric in INTERRUPTED and may_interrupt(first):
                raise ScenarioError(NOT_BOUNDED)
        judging = partial(judge_job, metric=metric, tau=scenario.metrics.tau, beside=tuple(beside))
        bounding = partial(bound_job, metric=metric)
        least = _run(jobs[: len(where)], bounding, executor, on_end) if bound else []
        rows = _run(jobs, judging, executor, on_end)
        if bound:
            rows = [{**row, "bound": least[n % len(where)]["bound"]} for n, row in enumerate(rows)]
    finally:
        forget_logs()
    _refuse_equal_sets(rows, len(where))
    kinds = [candidate.kind for candidate in candidates]
    found = _evaluation(scenario.name, (chosen, *further), labels, kinds, rows, (level, resamples))
    identity = evaluation_hash(scenario, candidates, where, (metric, *beside), level, bound)
    return replace(found, identity=identity)


def evaluation_hash(
    scenario: Scenario,
    candidates: Sequence[Candidate],
    where: Sequence[Mapping[str, object]],
    metrics: Sequence[str],
    level: float,
    bound: bool = False,
) -> str:
    """Return the SHA-256, in hexadecimal, by which an evaluation is known as the same.

    Args:
        scenario: the scenario, whose policy does not count.
        candidates: in their order.
        where: the job sets, as `simkit.training.held_out` returns them.
        metrics: names of the metric and of further ones.
        level: of confidence.
        bound: whether the bound is asked for.
    """
    asked = {
        "scenario": scenario.model_dump(mode="json", exclude={"policy"}),
        "candidates": [[one.label, one.kind, dict(one.policy)] for one in candidates],
        "sets": [dict(one) for one in where],
        "metric": metrics[0],
        "level": level,
        **({"beside": list(metrics[1:])} if metrics[1:] else {}),
        **({"bound": True} if bound else {}),
    }
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _with_policy(scenario: Scenario, candidate: Candidate, allow_code: bool) -> Scenario:
    """Return the scenario with a candidate as its policy; raises if that is wrong."""
    data = scenario.model_dump(mode="json")
    return load_scenario({**data, "policy": dict(candidate.policy)}, allow_code=allow_code)


def _run(
    jobs: Sequence[PlannedRun],
    judging: Callable[[PlannedRun], SweepOutcome],
    executor: Executor,
    on_end: Callable[[SweepOutcome], None],
) -> list[dict[str, Any]]:
    """Return the result of each run, in the order of `jobs`."""
    found: dict[int, dict[str, Any]] = {}
    for row, outcome in executor.run(judging, jobs):
        if outcome.state == "failed":
            where = ", ".join(f"{key} {value}" for key, value in outcome.assignment.items())
            raise RunError(f"evaluate: {where}: {outcome.error}")
        found[row] = {**outcome.assignment, **outcome.metrics}
        on_end(outcome)
    return [found[row] for row in sorted(found)]


def judge_job(
    job: PlannedRun, *, metric: str, tau: float, beside: Sequence[str] = ()
) -> SweepOutcome:
    """Carry out one run in memory and judge it; an error becomes part of the outcome."""
    assignment = job[0]
    try:
        chosen, *further = (judged_metric(name) for name in (metric, *beside))
        run = replay(_prepared(job), tables_judged(chosen, *further))
        found = judge(run, chosen, tau, *further)
    except NoJobsError:
        found = NOTHING_JUDGED | dict.fromkeys(beside)
    except SimkitError as error:
        return SweepOutcome(assignment, Path(), "failed", str(error))
    return SweepOutcome(assignment, Path(), "done", metrics=found)


def bound_job(job: PlannedRun, *, metric: str) -> SweepOutcome:
    """Bound the mean of a metric on a job set, whatever the policy."""
    assignment = {**job[0], "label": "bound"}
    try:
        (found,) = bounds_of(_prepared(job), [metric])
    except NoJobsError:
        return SweepOutcome(assignment, Path(), "done", metrics={"bound": None})
    except SimkitError as error:
        return SweepOutcome(assignment, Path(), "failed", str(error))
    value = found.value
    if value is not None and metric != MAKESPAN.name:  # jobs left out count too, with 0 at least
        value *= found.jobs / (found.jobs + found.left_out)
    return SweepOutcome(assignment, Path(), "done", metrics={"bound": value})


def _planned(scenario: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a job set's run; of a window of a log, that of the whole log."""
    return dict(scenario) if WINDOW in given else applied(scenario, given)


def _prepared(job: PlannedRun) -> Experiment:
    assignment, data, _ = job
    scenario = Scenario.model_validate(data)
    if WINDOW in assignment:
        return prepare_window(scenario, assignment[WINDOW], assignment["seed"])
    return prepare(scenario, memory=TRACES)


def _refuse_equal_sets(rows: Sequence[Mapping[str, Any]], sets: int) -> None:
    """Raise ScenarioError if all sets hold the same jobs: they are one, not many."""
    if sets > 1 and rows[0]["submitted"] and len({row["workload"] for row in rows}) == 1:
        raise ScenarioError(
            f"evaluate: the {sets} job sets are the same, as the workload is not drawn at random; "
            "evaluate one with --sets 1, judge windows of it with --held-out or --windows, or give "
            "the workload `resample: {}`, so that seeds differ"
        )


def _evaluation(
    name: str,
    metrics: Sequence[JobMetric | RunMetric],
    labels: Sequence[str],
    kinds: Sequence[str],
    rows: Sequence[dict[str, Any]],
    bootstrap: tuple[float, int],
) -> Evaluation:
    """Compare candidates, each with the same sets, by the first of some metrics."""
    metric, *further = metrics
    by_label = {label: [row for row in rows if row["label"] == label] for label in labels}
    for mine in by_label.values():
        if [r["workload"] for r in mine] != [r["workload"] for r in by_label[labels[0]]]:
            raise RunError("evaluate: candidates saw different jobs; a workload must be repeatable")
    counts = np.array([[row["jobs"] for row in by_label[label]] for label in labels], np.float64)
    full = np.all(counts > 0, axis=0)  # (S,) sets in which there are jobs
    sums = np.array([[row["sum"] for row in by_label[label]] for label in labels], np.float64)
    sums, counts = sums[:, full], counts[:, full]
    means = sums / counts  # (candidates, S)
    reference = _reference(means.mean(axis=1), kinds, metric) if full.any() else 0
    bound = _mean_of([
        row.get("bound") for row, some in zip(by_label[labels[0]], full, strict=True) if some
    ])  # fmt: skip
    judged = [
        replace(
            _judged(label, kind, by_label[label], sums[i], counts[i], means, (i, reference), metric,
                    bootstrap),
            beside={one.name: _mean_of([row[one.name] for row in by_label[label]])
                    for one in further},
            of_gap=None if i == reference else _share_of_gap(means[[reference, i]], bound),
        )
        for i, (label, kind) in enumerate(zip(labels, kinds, strict=True))
    ]  # fmt: skip
    return Evaluation(
        scenario=name,
        metric=metric.name,
        unit=metric.unit,
        sets=int(full.sum()),
        empty_sets=int((~full).sum()),
        reference=labels[reference],
        candidates=tuple(judged),
        beside={one.name: one.unit for one in further},
        bound=bound,
        identity="",
        rows=tuple(rows),
    )


def _share_of_gap(means: Floats, bound: float | None) -> float | None:
    """Return the share of the gap to the bound that (2, S) the second closes, from the first."""
    if bound is None or not means.size:
        return None
    before, after = means.mean(axis=1)
    return float((before - after) / (before - bound)) if before > bound else None


def _reference(means: Floats, kinds: Sequence[str], metric: JobMetric | RunMetric) -> int:
    """Return the row of the best heuristic, or of the best candidate if there is none."""
    ordered = np.argsort(-means if metric.better == "high" else means, kind="stable").tolist()
    heuristics = [row for row in ordered if kinds[row] == "policy"]
    return int((heuristics or ordered)[0])


def _judged(
    label: str,
    kind: str,
    rows: Sequence[Mapping[str, Any]],
    sums: Floats,
    counts: Floats,
    means: Floats,
    who: tuple[int, int],
    metric: JobMetric | RunMetric,
    bootstrap: tuple[float, int],
) -> Judged:
    """Return one candidate's result; `who` are the rows of `means` of it and of the reference."""
    mine, other = means[who[0]], means[who[1]]
    apart: Floats = mine - other
    one: Floats = np.ones(len(mine))
    is_reference = who[0] == who[1]
    better = apart > 0 if metric.better == "high" else apart < 0

    def interval(values: Floats, weights: Floats) -> Interval:
        return set_interval(values, weights, level=bootstrap[0], resamples=bootstrap[1])

    def over_sets(values: Floats | None) -> tuple[float | None, Interval | None]:
        if is_reference or values is None:
            return None, None
        return _mean(values, one), interval(values, one)

    difference, difference_interval = over_sets(apart)
    positive = (mine > 0).all() and (other > 0).all()
    log_ratio, log_ratio_interval = over_sets(np.log(mine / other) if positive else None)
    total = {
        key: sum(row[key] for row in rows)
        for key in ("submitted", "unfinished", "rejected", "killed")
    }
    return Judged(
        label=label,
        kind=kind,
        set_mean=_mean(mine, one),
        interval=interval(mine, one),
        pooled_mean=_mean(sums, counts),
        pooled_interval=interval(sums, counts),
        difference=difference,
        difference_interval=difference_interval,
        log_ratio=log_ratio,
        log_ratio_interval=log_ratio_interval,
        wins=int(better.sum()),
        ties=int((apart == 0).sum()),
        losses=int(((apart != 0) & ~better).sum()),
        beside={},
        of_gap=None,
        **total,
    )


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _mean(sums: Floats, counts: Floats) -> float | None:
    return float(sums.sum() / counts.sum()) if len(counts) else None


def check_evaluation(folder: Path, identity: str, *, force: bool = False) -> None:
    """Refuse a folder with another evaluation than that of this `evaluation_hash`, unless `force`.

    Raises RunError, also if the folder cannot be written.
    """
    check_place(folder)
    path = folder / _RESULT
    if force or not path.exists():
        return
    found: Any = None
    with suppress(OSError, ValueError):
        found = read_json(path)
    if not (isinstance(found, dict) and found.get("identity") == identity):
        raise RunError(
            f"{folder}: holds another evaluation, of another scenario, or of other candidates, job "
            "sets, metrics or level; choose another folder with --output, or replace it: --force"
        )


_RESULT = "evaluation.json"


def write_evaluation(found: Evaluation, folder: Path) -> None:
    """Write ``sets.parquet``, a row for each candidate and job set, then ``evaluation.json``.

    Raises RunError if they cannot be written; a file is whole or not there.
    """
    text = json.dumps(found.as_json(), indent=1, ensure_ascii=False, allow_nan=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RESULT).unlink(missing_ok=True)
        with whole_file(folder / "sets.parquet") as part:
            found.frame().write_parquet(part)
        write_text(folder / _RESULT, text + "\n")
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be written: {reason(error)}; choose another folder with --output"
        ) from error
