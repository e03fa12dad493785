"""Calibration: which policy, estimates and limits explain the waits that a log records.

    found = calibrate(scenario)
    print(found.best.candidate.name, found.best.reports.share_within)

Candidates are played on weeks of the log. Up to a week the recorded starts are replayed, so that it
begins as it did; then the candidate decides. Every other week chooses; the weeks in between report
how well the choice does, and choose nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from simkit.arrays import Ints
from simkit.errors import ScenarioError, TraceError
from simkit.experiment.calibration.candidates import STAGES, Candidate, first_candidates
from simkit.experiment.calibration.impossible import Impossible, impossible_rows
from simkit.experiment.calibration.play import play_all, recorded_trace
from simkit.experiment.calibration.weeks import WITHIN_S, Found, Score, Split, Week, judged
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.workload import Workload

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
    """On the weeks that choose."""
    reports: Score
    """On the others."""


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
    told: Callable[[str], None] | None = None,
) -> Calibration:
    """Try policies, estimates and limits on a log, and say which explains its waits best.

    Args:
        base: its log, machines, and how the log is read; its policy is not used.
        split: how the log is split into weeks; None: weeks of seven days.
        workers: processes; None: all cores.
        told: is called with the name of each candidate that has been played.

    Raises ScenarioError for a workload that is no log of rigid jobs, or moves its submissions;
    TraceError for a log that cannot be read, has no recorded waits, or is too short.
    """
    split, told = split or Split(), told or (lambda _name: None)
    workload = recorded_trace(base).workload
    if not np.isfinite(workload.recorded_start_s).any():
        raise TraceError(
            "the log does not tell when any of its jobs started, so that there are no waits to "
            "explain; `simkit trace info` shows what a log records"
        )
    if not workload.gang.all() or workload.tasks > len(workload):
        raise ScenarioError("workload: a log of rigid jobs is calibrated, not tasks on machines")
    weeks = split.weeks(workload)
    search = _Search(base, split, weeks, workers or os.cpu_count() or 1, told)
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
        told: Callable[[str], None],
    ) -> None:
        self.data = base.model_dump(mode="json")
        self.rows: list[Row] = []
        self._split, self._weeks, self._workers, self._told = split, weeks, workers, told

    def try_all(self, candidates: Sequence[Candidate]) -> None:
        """Play candidates on all weeks."""
        tasks = [(self.data, each.overrides, self._split, self._weeks) for each in candidates]
        found = play_all(tasks, self._workers, lambda row: self._told(candidates[row].name))
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
