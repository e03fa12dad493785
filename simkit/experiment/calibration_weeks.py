"""The weeks on which candidates are judged: some choose, the others report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.units import format_duration
from simkit.workload import Workload

WITHIN_S: Final = 300.0
"""A wait is explained if the simulated one is at most this far from it: five minutes."""

AFTER: Final = 1.0
LONGEST: Final = 4.0
"""For how many lengths of a week jobs arrive after it, at least and at most."""


@dataclass(frozen=True)
class Week:
    """A window of the log: jobs submitted in it are judged."""

    begin_s: float
    """On the trace's clock."""
    end_s: float
    chooses: bool
    """Whether it chooses among the candidates; else it reports how good the choice is."""


@dataclass(frozen=True)
class Split:
    """How a log is split into weeks."""

    length_s: float = 7 * 86_400.0
    """Length of a week."""
    warmup_s: float = 7 * 86_400.0
    """Time before each week in which the recorded starts are replayed."""
    most: int = 40
    """Most weeks that are judged, spread evenly over the log."""

    def weeks(self, workload: Workload) -> list[Week]:
        """Return the weeks that are judged, by turns one that chooses and one that reports.

        The first week begins after the warm-up. Weeks in which no job is submitted are left out.

        Raises TraceError for a log too short for two of them.
        """
        submit = workload.submit_time_s
        span_s = float(submit[-1] - submit[0]) if len(submit) else 0.0
        count = int((span_s - self.warmup_s) // self.length_s)
        begins = submit[:1] + self.warmup_s + self.length_s * np.arange(max(count, 0))
        jobs = np.searchsorted(submit, begins + self.length_s) - np.searchsorted(submit, begins)
        begins = begins[jobs > 0]
        if len(begins) < 2:
            raise TraceError(
                f"the log's jobs are submitted within {format_duration(span_s)}; calibrating needs "
                f"a warm-up of {format_duration(self.warmup_s)} and two weeks with jobs, of "
                f"{format_duration(self.length_s)} each, one to choose and one to report: give a "
                "shorter --week and --warmup"
            )
        rows = np.unique(np.linspace(0, len(begins) - 1, min(self.most, len(begins))).round())
        return [
            Week(begin, begin + self.length_s, chooses=number % 2 == 0)
            for number, begin in enumerate(begins[rows.astype(int)].tolist())
        ]

    def jobs_around(self, workload: Workload, week: Week) -> Ints:
        """Return the rows of the jobs that are simulated for a week.

        They are those that the log has in the system when the warm-up begins, those of the warm-up
        and of the week, and those that arrive until the last job of the week has started, as they
        may overtake: for at least `AFTER` and at most `LONGEST` lengths of a week.
        """
        submit, first = workload.submit_time_s, workload.first_task[:-1]
        start = workload.recorded_start_s[first]
        end: Floats = start + workload.run_time_s[first]
        begin_s = week.begin_s - self.warmup_s
        of_week = start[(submit >= week.begin_s) & (submit < week.end_s) & np.isfinite(start)]
        last_s = float(of_week.max(initial=week.end_s))
        soonest, latest = (week.end_s + n * self.length_s for n in (AFTER, LONGEST))
        inside = (submit < begin_s) & (end > begin_s)
        inside |= (submit >= begin_s) & (submit <= min(max(last_s, soonest), latest))
        rows: Ints = np.flatnonzero(inside)
        return rows


@dataclass(frozen=True)
class Found:
    """What a candidate made of the jobs of a week."""

    jobs: int
    """Jobs with a recorded wait."""
    within: int
    """Jobs among them whose simulated wait is within `WITHIN_S` of it."""
    unstarted: int
    """Jobs among them that never started, whose simulated wait is not known."""
    mean_s: float
    """Mean simulated wait of those that started, in s; NaN if none did."""
    recorded_mean_s: float
    """Mean recorded wait of the same jobs."""
    unknown: int
    """Jobs of the week without a recorded wait, which are not judged."""


def judged(submit_s: Floats, recorded_s: Floats, start_s: Floats) -> Found:
    """Compare simulated starts with the recorded ones.

    Args:
        submit_s: (n,) submissions of the jobs of a week.
        recorded_s: (n,) recorded starts; NaN where unknown. One before the submission is no wait.
        start_s: (n,) simulated starts; NaN where a job never started.
    """
    wait, recorded = start_s - submit_s, recorded_s - submit_s
    known = recorded >= 0
    started = known & np.isfinite(wait)
    apart = np.abs(wait - recorded)
    return Found(
        jobs=int(known.sum()),
        within=int((apart[started] <= WITHIN_S).sum()),
        unstarted=int((known & ~started).sum()),
        mean_s=float(wait[started].mean()) if started.any() else float("nan"),
        recorded_mean_s=float(recorded[started].mean()) if started.any() else float("nan"),
        unknown=int((~known).sum()),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


@dataclass(frozen=True)
class Score:
    """How well a candidate explains the recorded waits of some weeks."""

    jobs: int
    unstarted: int
    unknown: int
    share_within: float
    """Share of the jobs with a recorded wait whose simulated wait is within five minutes of it."""
    weekly_error_s: float
    """Mean over the weeks of the distance between simulated and recorded mean wait, in s."""
    mean_s: float
    """Mean over the weeks of the mean simulated wait, in s."""
    recorded_mean_s: float
    """The same of the recorded waits."""
    weeks: int
    """Weeks with a job that was judged."""

    @classmethod
    def of(cls, found: list[Found]) -> Score:
        """Return the score over the weeks in which a job was judged."""
        jobs = sum(week.jobs for week in found)
        means = np.array([(w.mean_s, w.recorded_mean_s) for w in found if w.jobs > w.unstarted])
        means = means.reshape(-1, 2)
        return cls(
            jobs=jobs,
            unstarted=sum(week.unstarted for week in found),
            unknown=sum(week.unknown for week in found),
            share_within=sum(week.within for week in found) / jobs if jobs else float("nan"),
            weekly_error_s=_mean(np.abs(means[:, 0] - means[:, 1])),
            mean_s=_mean(means[:, 0]),
            recorded_mean_s=_mean(means[:, 1]),
            weeks=len(means),
        )

    @property
    def rank(self) -> tuple[float, float]:
        """The smallest is best: by the share, then by the weekly error; unknown ones come last."""
        share, error = self.share_within, self.weekly_error_s
        return (1 - share if share == share else 2.0, error if error == error else float("inf"))
