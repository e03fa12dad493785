"""Calibration: which policy, estimates and limits explain the waits that a log records.

    found = calibrate(scenario)
    print(found.best.candidate.name, found.best.reports.share_within)

Candidates are played on weeks of the log. Up to a week the recorded starts are replayed, so that it
begins as it did; then the candidate decides. Every other week chooses; the weeks in between report
how well the choice does, and choose nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from simkit.arrays import Ints
from simkit.errors import ScenarioError, TraceError
from simkit.experiment.calibration_weeks import WITHIN_S, Found, Score, Split, Week, judged
from simkit.experiment.experiment import prepare, replay
from simkit.experiment.workers import Workers, in_turn
from simkit.experiment.workload import TraceMemory, read_trace
from simkit.scenario import Scenario
from simkit.scenario.policy import USUAL_ESTIMATES
from simkit.scenario.yaml_document import load_scenario
from simkit.workload import Trace, Workload
from simkit.workload.recorded import peak_use

POLICIES: Final = (
    "fcfs", "fcfs+easy", "fcfs+conservative", "sjf+easy", "ljf+easy", "saf+easy",
    "hrrn+easy", "wfp3+easy", "multifactor+easy", "sjf", "lcfs+easy",
)  # fmt: skip
"""Orders and backfilling; ties of the score go to the earlier one."""
PLAIN: Final = "fcfs+easy"
ESTIMATES: Final[dict[str, Any]] = {
    USUAL_ESTIMATES: USUAL_ESTIMATES,
    f"{USUAL_ESTIMATES}, corrected": {"type": USUAL_ESTIMATES, "correction": "tsafrir"},
    "user-mean": "user-mean",
    "actual": "actual",
}
"""Name → where the policy's estimates come from."""
MOST_QUEUES: Final = 12
"""The largest queues or partitions, up to this number, have a priority each; the rest share one."""


@dataclass(frozen=True)
class Candidate:
    """A setting that is tried."""

    stage: str
    """What it varies: policy, estimates, users or queues."""
    name: str
    overrides: Mapping[str, Any]
    """Dotted key → value, laid over the base scenario."""


Stage = Callable[[Candidate, Mapping[str, Any], Workload, Ints], Iterator[Candidate]]
"""Yields what may be better than the best so far: by that, the base scenario, the jobs with their
recorded starts, and the rows of those submitted in weeks that choose."""


def first_candidates() -> list[Candidate]:
    """Return the policies, on the machines and with the estimates of the base scenario."""
    return [Candidate("policy", name, {"policy": name}) for name in POLICIES]


def _estimates(
    best: Candidate, base: Mapping[str, Any], load: Workload, _rows: Ints
) -> Iterator[Candidate]:
    """Yield other estimates; without requests in the log, these say nothing."""
    has_requests = bool((load.requested_time_s > 0).any())
    for name, value in ESTIMATES.items():
        if value != base.get("estimates") and (has_requests or USUAL_ESTIMATES not in name):
            yield Candidate(
                "estimates", f"{best.name}, {name}", {**best.overrides, "estimates": value}
            )


def _limits_of_users(
    best: Candidate, base: Mapping[str, Any], load: Workload, rows: Ints
) -> Iterator[Candidate]:
    """Yield limits of the jobs of a user that run at once: what most, or all, users kept to."""
    peaks = _peaks_of_users(load, rows)
    if len(peaks) < 2:
        return
    tried = dict.fromkeys(int(np.ceil(np.quantile(peaks, q))) for q in (1.0, 0.99, 0.95))
    for most in tried:
        partitions = [
            {**part, "max_running_per_user": most} for part in _partitions(best.overrides, base)
        ]
        name = f"{best.name}, at most {most:,} running jobs of a user"
        yield Candidate("users", name, {**best.overrides, "cluster.partitions": partitions})


def _peaks_of_users(load: Workload, rows: Ints) -> Ints:
    """Return how many of its jobs each user had running at once at most, by the log."""
    first = load.first_task[:-1][rows]
    start, run, user = load.recorded_start_s[first], load.run_time_s[first], load.user[rows]
    known = np.isfinite(start) & (user >= 0)
    peaks = []
    for one in np.unique(user[known]):
        begin = start[known & (user == one)]
        until = begin + run[known & (user == one)]
        order = np.argsort(np.concatenate((until, begin)), kind="stable")
        change = np.concatenate((-np.ones(len(until)), np.ones(len(begin))))[order]
        peaks.append(int(np.cumsum(change).max()))
    return np.array(peaks, dtype=np.int64)


def _partitions(overrides: Mapping[str, Any], base: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the partitions of a candidate; one for all jobs if there are none."""
    own = overrides.get("cluster.partitions") or (base.get("cluster") or {}).get("partitions")
    return [dict(part) for part in own or ()] or [{"name": "all"}]


def _priorities_of_queues(
    best: Candidate, base: Mapping[str, Any], load: Workload, rows: Ints
) -> Iterator[Candidate]:
    """Yield priorities of queues, and of partitions: who waited less comes first.

    They order the jobs themselves, so they are tried with first come, first served as well.
    """
    if (base.get("cluster") or {}).get("partitions"):
        return  # the site's own partitions stay as they are
    yield from _by_priority(best, base, load, rows)
    plain = Candidate("policy", PLAIN, {"policy": PLAIN})
    if best.overrides.get("policy") != PLAIN:
        yield from _by_priority(plain, base, load, rows)


def _by_priority(
    best: Candidate, base: Mapping[str, Any], load: Workload, rows: Ints
) -> Iterator[Candidate]:
    """Yield a candidate with priorities of queues, and one with those of partitions."""
    first = load.first_task[:-1][rows]
    waits = load.recorded_start_s[first] - load.submit_time_s[rows]
    for column, key in (("queue", "queues"), ("partition", "partitions")):
        numbers = getattr(load, column)
        groups = _ranked(numbers[rows], waits)
        if len(groups) < 2:
            continue
        common = {
            name: value
            for part in _partitions(best.overrides, base)
            for name, value in part.items()
            if name == "max_running_per_user"
        }
        named = {int(n) for group in groups for n in group}
        parts = [
            {
                "name": f"{column}-{'-'.join(map(str, group))}".replace("--", "-none-")[:80],
                key: [load.label_of(column, int(n)) for n in group],
                "priority": float(len(groups) - rank),
                **common,
            }
            for rank, group in enumerate(groups)
        ]
        if {*np.unique(numbers).tolist()} - named:
            parts.append({"name": "others", "priority": 0.0, **common})
        yield Candidate(
            "queues", f"{best.name}, priorities by {column}",
            {**best.overrides, "cluster.partitions": parts},
        )  # fmt: skip


def _ranked(numbers: Ints, waits: Any) -> list[Sequence[int]]:
    """Return the largest groups of jobs, the one that waited least (on average) first."""
    found, counts = np.unique(numbers, return_counts=True)
    largest = found[np.argsort(-counts, kind="stable")[:MOST_QUEUES]]
    means = {
        int(n): float(np.mean(waits[(numbers == n) & (waits >= 0)]))
        for n in sorted(largest.tolist())
        if ((numbers == n) & (waits >= 0)).any()
    }
    return [(n,) for n in sorted(means, key=lambda n: (means[n], n))]


def _policies_again(
    best: Candidate, _base: Mapping[str, Any], _load: Workload, _rows: Ints
) -> Iterator[Candidate]:
    """Yield the other policies, with the estimates, limits and priorities that were found."""
    own = best.overrides["policy"]
    others = {key: value for key, value in best.overrides.items() if key != "policy"}
    if others:
        for name in POLICIES:
            if name != own:
                named = best.name.replace(own, name, 1)
                yield Candidate("policy again", named, {"policy": name, **others})


STAGES: Final[tuple[Stage, ...]] = (
    _estimates, _limits_of_users, _priorities_of_queues, _policies_again,
)  # fmt: skip
"""After the policies, one after the other, each from the best so far."""


_MEMORY: Final = TraceMemory()
"""The log, read once in each process."""
RECORDED: Final[dict[str, Any]] = {"recorded": {"unknown": "fit"}}
"""The policy of the warm-up; jobs whose start is unknown run as they fit."""


def recorded_trace(scenario: Scenario) -> Trace:
    """Return the log of a scenario with its recorded starts; see `read_trace`."""
    resources = scenario.cluster.resources
    return read_trace(
        scenario.workload, scenario.seed, scenario.value, _MEMORY, resources, recorded=True
    )


def play(
    base: Mapping[str, Any], overrides: Mapping[str, Any], split: Split, weeks: Sequence[Week]
) -> list[Found]:
    """Return what a candidate makes of the jobs of each week.

    Args:
        base: a scenario as plain values.
        overrides: the candidate's, laid over it.
        split: how the weeks were made.
        weeks: on the trace's clock.
    """
    scenario = load_scenario(base, overrides=overrides)
    workload = recorded_trace(scenario).workload
    return [_played(scenario, workload, split, week) for week in weeks]


def _played(scenario: Scenario, workload: Workload, split: Split, week: Week) -> Found:
    rows = split.jobs_around(workload, week)
    load = workload.take(rows)
    load = load.with_columns(job_id=np.arange(len(load)))  # those of the log may repeat
    begin_s = week.begin_s - float(load.submit_time_s[0])
    policy = scenario.model_dump(mode="json")["policy"]
    if begin_s > 0 and "recorded" not in policy:
        policy = {"start": RECORDED, "switch": [{"at": begin_s, "to": policy}]}
    one = load_scenario({**scenario.model_dump(mode="json"), "policy": policy})
    run = replay(prepare(one, workload=load), ("jobs",))
    jobs = run.jobs.select("job_id", "start_time_s")
    start = np.full(len(load), np.nan)
    start[jobs["job_id"].to_numpy()] = jobs["start_time_s"].cast(float).fill_null(np.nan).to_numpy()
    submit, first = load.submit_time_s, load.first_task[:-1]
    inside = (submit >= week.begin_s) & (submit < week.end_s)
    return judged(submit[inside], load.recorded_start_s[first][inside], start[inside])


Task = tuple[Mapping[str, Any], Mapping[str, Any], Split, Sequence[Week]]
"""The arguments of `play`."""


def play_all(
    tasks: Sequence[Task], workers: int, on_result: Callable[[int], None]
) -> list[list[Found]]:
    """Return what `play` finds for each task, in several processes; calls `on_result(row)`."""
    if min(workers, len(tasks)) < 2:
        done = []
        for row, task in enumerate(tasks):
            done.append(play(*task))
            on_result(row)
        return done
    found: dict[int, list[Found]] = {}
    with Workers(min(workers, len(tasks)), grace_s=0.0) as pool:
        for row, future in in_turn(lambda task: pool.submit(play, *task), tasks, lambda: workers):
            found[row] = future.result()
            on_result(row)
    return [found[row] for row in range(len(tasks))]


@dataclass(frozen=True)
class Impossible:
    """What of a log a machine cannot have done; it has processors, or what comes first."""

    jobs: int
    capacity: float
    too_large: int
    """Jobs that ask for more than the whole machine has."""
    without_start: int
    """Jobs whose start the log does not tell."""
    started_early: int
    """Jobs that start before their submission."""
    starts_over_capacity: int
    """Jobs that start when more is in use than the machine has, themselves included."""
    instants_over_capacity: int
    """Instants of starts at which that is so, all that ends then having ended."""
    time_over_capacity_s: float
    """How long more was in use, in s."""
    peak: float
    """The most in use at once."""

    def as_dict(self) -> dict[str, float]:
        """Return the counts by name."""
        return asdict(self)


def impossible_rows(workload: Workload, capacity: float) -> Impossible:
    """Count what a log records that a machine cannot have done.

    Args:
        workload: with recorded starts; each job holds what it asks for from its start for its run
            time.
        capacity: what the machine has of the first resource.
    """
    first = workload.first_task[:-1]
    start, size = workload.recorded_start_s[first], workload.job_request()[:, 0]
    end = start + workload.run_time_s[first]
    known = np.isfinite(start)
    begin, until, held = start[known], end[known], size[known]
    time = np.concatenate((begin, until))
    change = np.concatenate((held, -held))
    instants, row = np.unique(time, return_inverse=True)
    used = np.cumsum(np.bincount(row, change, len(instants)))
    # What runs for no time holds its processors at the instant of its start alone.
    at_once = np.bincount(row[: len(begin)], np.where(until == begin, held, 0.0), len(instants))
    over = used + at_once > capacity
    starts = np.bincount(row[: len(begin)], minlength=len(instants))
    peak = peak_use(begin, until, held)
    return Impossible(
        jobs=len(workload),
        capacity=capacity,
        too_large=int((size > capacity).sum()),
        without_start=int((~known).sum()),
        started_early=int((begin < workload.submit_time_s[known]).sum()),
        starts_over_capacity=int(starts[over].sum()),
        instants_over_capacity=int((over & (starts > 0)).sum()),
        time_over_capacity_s=float(np.diff(instants)[(used > capacity)[:-1]].sum()),
        peak=0.0 if peak is None else peak.amount,
    )


REFERENCE: Final = "reference"
"""The stage of what is not chosen, but shows what a share is worth."""
NO_WAIT: Final = Candidate(REFERENCE, "no job waits", {})
REPLAYED: Final = Candidate(REFERENCE, "the recorded starts", {"policy": {"recorded": {}}})
"""What a candidate could reach at most: what does not fit starts later."""


@dataclass(frozen=True)
class Row:
    """A candidate, and how well it explains the recorded waits."""

    candidate: Candidate
    chooses: Score
    """Score on the weeks that choose."""
    reports: Score
    """Score on the others."""


def _best(rows: Iterable[Row]) -> Row:
    """Return the candidate that explains best the weeks that choose; of equals the earliest."""
    tried = (row for row in rows if row.candidate.stage != REFERENCE)
    return min(tried, key=lambda row: row.chooses.rank)


@dataclass(frozen=True)
class Calibration:
    """What was tried on a log, and what explains it best."""

    base: Scenario
    """Machines and jobs; the candidates are laid over it."""
    split: Split
    weeks: tuple[Week, ...]
    rows: tuple[Row, ...]
    """In the order in which they were tried; the references come first."""
    impossible: Impossible

    @property
    def best(self) -> Row:
        """The candidate that explains best the weeks that choose; of equals the earliest."""
        return _best(self.rows)

    @property
    def nearest(self) -> Row:
        """The candidate whose weekly means are nearest, on the weeks that choose."""
        tried = (row for row in self.rows if row.candidate.stage != REFERENCE)
        return min(tried, key=lambda row: row.chooses.rank[::-1])

    @property
    def scenario(self) -> Scenario:
        """The whole log under the best candidate."""
        return load_scenario(self.base, overrides=self.best.candidate.overrides)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values; what is not known is None."""
        return {
            "weeks": [asdict(week) for week in self.weeks],
            "split": asdict(self.split),
            "within_s": WITHIN_S,
            "impossible": self.impossible.as_dict(),
            "candidates": self.table(),
            "best": self.best.candidate.name,
            "nearest_weekly_means": self.nearest.candidate.name,
            "scenario": self.scenario.model_dump(mode="json"),
        }

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each candidate: its name, ``chooses.…`` and ``reports.…``."""
        return [
            {
                "stage": row.candidate.stage,
                "name": row.candidate.name,
                "best": row is self.best,
                **_plain("chooses", row.chooses),
                **_plain("reports", row.reports),
            }
            for row in self.rows
        ]


def _plain(part: str, score: Score) -> dict[str, Any]:
    values = asdict(score)
    return {f"{part}.{key}": value if isfinite(value) else None for key, value in values.items()}


def calibrate(
    base: Scenario,
    split: Split | None = None,
    *,
    workers: int | None = None,
    on_result: Callable[[str], None] | None = None,
) -> Calibration:
    """Try policies, estimates and limits on a log, and say which explains its waits best.

    Args:
        base: its log, machines, and how the log is read; its policy is not used.
        split: how the log is split into weeks; None: weeks of seven days.
        workers: processes; None: all cores.
        on_result: is called with the name of each candidate that has been played.

    Raises ScenarioError for a workload that is no log of rigid jobs, or moves its submissions;
    TraceError for a log that cannot be read, has no recorded waits, or is too short.
    """
    split, on_result = split or Split(), on_result or (lambda _name: None)
    workload = recorded_trace(base).workload
    if not np.isfinite(workload.recorded_start_s).any():
        raise TraceError(
            "the log does not tell when any of its jobs started, so that there are no waits to "
            "explain; `simkit trace info` shows what a log records"
        )
    if not workload.gang.all() or workload.tasks > len(workload):
        raise ScenarioError("workload: a log of rigid jobs is calibrated, not tasks on machines")
    weeks = split.weeks(workload)
    search = _Search(base, split, weeks, workers or os.cpu_count() or 1, on_result)
    search.rows.append(_scored(NO_WAIT, weeks, _without_waiting(workload, weeks)))
    search.try_all([REPLAYED, *first_candidates()])
    chosen = np.concatenate([_rows_of(workload, week) for week in weeks if week.chooses])
    for stage in STAGES:
        best = _best(search.rows).candidate
        search.try_all(list(stage(best, search.data, workload, chosen)))
    cluster = base.cluster.build(workload)
    counted = cluster.resources.index(workload.resources[0])
    impossible = impossible_rows(workload, float(cluster.capacity[:, counted].sum()))
    return Calibration(base, split, tuple(weeks), tuple(search.rows), impossible)


class _Search:
    """Plays candidates on all weeks, and keeps their scores."""

    def __init__(
        self,
        base: Scenario,
        split: Split,
        weeks: Sequence[Week],
        workers: int,
        on_result: Callable[[str], None],
    ) -> None:
        self.data = base.model_dump(mode="json")
        self.rows: list[Row] = []
        self._split, self._weeks, self._workers, self._on_result = split, weeks, workers, on_result

    def try_all(self, candidates: Sequence[Candidate]) -> None:
        """Play candidates on all weeks."""
        tasks = [(self.data, each.overrides, self._split, self._weeks) for each in candidates]
        found = play_all(tasks, self._workers, lambda row: self._on_result(candidates[row].name))
        for candidate, weeks in zip(candidates, found, strict=True):
            self.rows.append(_scored(candidate, self._weeks, weeks))


def _scored(candidate: Candidate, weeks: Sequence[Week], found: Sequence[Found]) -> Row:
    pairs = list(zip(weeks, found, strict=True))
    return Row(
        candidate,
        chooses=Score.of([one for week, one in pairs if week.chooses]),
        reports=Score.of([one for week, one in pairs if not week.chooses]),
    )


def _rows_of(workload: Workload, week: Week) -> Ints:
    submit = workload.submit_time_s
    return np.arange(*np.searchsorted(submit, (week.begin_s, week.end_s)))


def _without_waiting(workload: Workload, weeks: Sequence[Week]) -> list[Found]:
    """Return what it would explain that no job waits."""
    found = []
    for week in weeks:
        rows = _rows_of(workload, week)
        submit = workload.submit_time_s[rows]
        recorded = workload.recorded_start_s[workload.first_task[rows]]
        found.append(judged(submit, recorded, submit))
    return found
