"""A fast simulation of one pool for learning: pick a job, reserve for the first that does not fit.

It is EASY backfilling as `simkit.policies.easy` does it, event by event, for one machine and one
resource, compiled by numba. At every instant at which jobs arrive or end, jobs are picked until
none can start. One that fits starts. The first that does not becomes the *head*: from then on only
those may be picked that fit and either end by the shadow time (now + requested time ≤ shadow time)
or fit into the extra nodes. At the next instant the head is picked anew.

With ``backfill="rlscheduler"`` the rules are those of `simkit.policies.rlscheduler` instead: what
is picked stays picked until it fits, and the others are tried in order of submission.

    starts = simulate(jobs, Rule.wfp3_p_n2(jobs))
    starts = simulate(jobs, scorer, visible=128, backfill="rlscheduler")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Final, Literal, Self

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.job_scorer import Backfill, End, JobScorer
from simkit.machine_code import kernels
from simkit.units import TIME_GRID

__all__ = ["Call", "Hold", "Rule", "Windows", "play_windows", "simulate"]

_END: Final[dict[End, int]] = {"never": 0, "behind-head": 1, "always": 2}
_BACKFILLS: Final = ("easy", "rlscheduler", "rlscheduler-none")  # by their numbers in the kernel

Form = Literal["key", "ratio", "ratio_p", "area_p", "scorer"]
"""How a rule's score is made of its columns; see `simkit.learners.scorers.job_kernel`."""


@dataclass(frozen=True)
class Rule:
    """A rule that needs no weights: which job is picked first."""

    form: Form
    key: Floats
    """(J,)"""
    factor: Floats
    """(J,)"""

    @classmethod
    def by_key(cls, key: Floats) -> Rule:
        """Return the order of (J,) keys that do not change; smaller goes first."""
        return cls("key", key, np.ones(len(key)))

    @classmethod
    def wfp3(cls, jobs: PoolJobs) -> Rule:
        """Return WFP3, defined in `simkit.policies.orderings`, as are the others below."""
        return cls("ratio", np.maximum(jobs.r_s, TIME_GRID), jobs.processors)

    @classmethod
    def saf_p(cls, jobs: PoolJobs) -> Rule:
        """Return SAF-p."""
        return cls("area_p", jobs.requested_s, jobs.processors)

    @classmethod
    def wfp3_p_n2(cls, jobs: PoolJobs) -> Rule:
        """Return WFP3-p n²."""
        return cls("ratio_p", jobs.requested_s, jobs.processors**2)


@dataclass(frozen=True)
class Hold:
    """Which jobs are passed over while anything runs; see `simkit.policies.easy`."""

    longer_than_s: float
    keep_free: float
    """A share of all processors."""


@dataclass(frozen=True)
class Windows:
    """W windows of logs with N jobs together, which are played together."""

    jobs: Sequence[PoolJobs]
    """W, each on an empty machine."""
    columns: Any
    """The kernel's `Columns` of them, without those of rules or scorers."""

    @classmethod
    def of(cls, jobs: Sequence[PoolJobs]) -> Self:
        """Put windows together; raises PluginError without numba."""
        kernel = kernels("simkit.learners.scorers.job_kernel")
        none = np.zeros(0)
        columns = kernel.Columns(
            np.cumsum([0, *map(len, jobs)]), np.array([float(one.size) for one in jobs]),
            _joined([one.submit_s for one in jobs]), _joined([one.run_s for one in jobs]),
            _joined([one.processors for one in jobs]), _joined([one.requested_s for one in jobs]),
            np.concatenate([np.zeros(0, np.int32), *map(_numbered, jobs)]),
            np.zeros((0, kernel.FIXED)), none, none,
        )  # fmt: skip
        return cls(jobs, columns)

    @property
    def most(self) -> int:
        """Jobs of the longest window."""
        return max(map(len, self.jobs), default=0)

    @property
    def users(self) -> int:
        """Most known users of a window."""
        return int(self.columns.user.max(initial=-1)) + 1

    @cached_property
    def of_scorers(self) -> Any:
        """The columns with those of scorers."""
        kernel = kernels("simkit.learners.scorers.job_kernel")
        fixed = np.empty((len(self.columns.submit), kernel.FIXED))
        kernel.fixed_features(self.columns, fixed)
        return self.columns._replace(fixed=fixed)

    def of_rules(self, rules: Sequence[Rule]) -> Any:
        """Return the columns with those of W rules, one for each window."""
        return self.columns._replace(
            key=_joined([rule.key for rule in rules]), factor=_joined([r.factor for r in rules])
        )

    def bounded_slowdowns(self, start_s: Floats) -> Floats:
        """Return (C, W) mean bounded slowdowns of (C, N) starts."""
        ends = self.columns.first[1:-1]
        return np.array(
            [
                [one.bounded_slowdown(own) for one, own in zip(self.jobs, parts, strict=True)]
                for parts in (np.split(starts, ends) for starts in start_s)
            ]
        )


def _joined(columns: Sequence[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *columns], dtype=np.float64)


def _numbered(jobs: PoolJobs) -> Ints:
    """Return (J,) the users of a window from 0; -1 is unknown."""
    users, numbers = np.unique(jobs.user, return_inverse=True)
    unknown = int(np.searchsorted(users, 0))  # there is at most one number below 0
    return np.where(jobs.user < 0, -1, numbers - unknown).astype(np.int32)


def play_windows(
    windows: Windows, by: Sequence[JobScorer | Rule], *, visible: int | None = None,
    backfill: Backfill = "easy", end: End = "never", hold: Hold | None = None,
) -> Floats:  # fmt: skip
    """Return (C, N) the starts in s of all windows by each of C candidates.

    Args:
        windows: W.
        by: C scorers of the same shape; or W rules, one for each window, which are one candidate.
        visible: see `simulate`, as for the others.
        backfill: the rules.
        end: when a scorer may let time go on.
        hold: jobs that are held back.

    Raises ValueError for `end` or `hold` with RLScheduler's rules.
    """
    call = Call.of(windows, by, visible=visible, backfill=backfill, end=end, hold=hold)
    kernel, picker = kernels("simkit.learners.scorers.job_kernel"), call.picker
    starts: Floats = np.empty((len(picker.end), len(call.columns.submit)))
    scratch = kernel.scratch_of(windows.most, windows.users, picker.out.shape[1])
    kernel.play_all(call.columns, picker, call.rules, scratch, starts)
    return starts


@dataclass(frozen=True)
class Call:
    """What the kernel is given to play windows by candidates."""

    columns: Any
    picker: Any
    rules: Any

    @classmethod
    def of(
        cls, windows: Windows, by: Sequence[JobScorer | Rule], *,
        visible: int | None = None, backfill: Backfill = "easy", end: End = "never",
        hold: Hold | None = None,
    ) -> Self:  # fmt: skip
        """Return it; for the arguments and errors see `play_windows`."""
        if backfill != "easy" and (end != "never" or hold is not None):
            raise ValueError(
                f"simulate: backfill {backfill} does not support end or hold; only easy does"
            )
        kernel = kernels("simkit.learners.scorers.job_kernel")
        longer, keep = (inf, 0.0) if hold is None else (hold.longer_than_s, hold.keep_free)
        kept = np.array([round(keep * one.size, 9) for one in windows.jobs])
        rules = kernel.Rules(_BACKFILLS.index(backfill), _END[end], longer, kept)
        scorers = [one for one in by if isinstance(one, JobScorer)]
        own = [one for one in by if isinstance(one, Rule)]
        picker = kernel.Picker(
            windows.most if visible is None else visible,
            kernel.FORMS.index(own[0].form if own else "scorer"),
            *_stacked(scorers or [JobScorer.zero()]),
        )
        return cls(windows.of_rules(own) if own else windows.of_scorers, picker, rules)


def _stacked(scorers: Sequence[JobScorer]) -> tuple[Floats, ...]:
    """Return the weights of C scorers as the kernel's `Picker` has them."""
    return (
        np.stack([one.linear for one in scorers]),
        np.stack([np.ascontiguousarray(one.hidden.T) for one in scorers]),
        np.stack([one.bias for one in scorers]),
        np.stack([one.out for one in scorers]),
        np.concatenate([one.end for one in scorers]),
    )


def simulate(
    jobs: PoolJobs, by: Rule | JobScorer, *, visible: int | None = None,
    backfill: Backfill = "easy", end: End = "never", hold: Hold | None = None,
) -> Floats:  # fmt: skip
    """Return (J,) the starts in s.

    Args:
        jobs: on an empty machine.
        by: what says which job is picked; equals are picked in order of submission, or, by
            RLScheduler's rules, in the order in which they stood.
        visible: number of waiting jobs, the first ones submitted, that can be picked; None: all.
        backfill: the rules.
        end: when the scorer may let time go on; only with EASY.
        hold: jobs that are held back; None: none. Only with EASY.

    Raises ValueError for `end` or `hold` with RLScheduler's rules.
    """
    (starts,) = play_windows(
        Windows.of([jobs]), [by], visible=visible, backfill=backfill, end=end, hold=hold
    )
    return np.asarray(starts)
