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

from dataclasses import dataclass
from math import inf
from typing import Final, Literal

import numpy as np

from simkit.arrays import Floats
from simkit.learners.common.compiled import kernel as compiled_kernel
from simkit.learners.pool.jobs import PoolJobs
from simkit.learners.pool.scorer import Scorer
from simkit.units import TIME_GRID

__all__ = ["Backfill", "End", "Hold", "Rule", "simulate"]

Backfill = Literal["easy", "rlscheduler", "rlscheduler-none"]
"""What may start while the picked job does not fit: what EASY lets, what RLScheduler
lets, or nothing, as RLScheduler has it without backfilling."""

End = Literal["never", "behind-head", "always"]
"""When a scorer may choose to wait for the next event although a job could start, while anything
runs: never, once there is a head, or also before."""

_END: Final[dict[End, int]] = {"never": 0, "behind-head": 1, "always": 2}
_FORMS: Final = ("key", "ratio", "ratio_p", "area_p", "scorer")  # by their numbers in the kernel

Form = Literal["key", "ratio", "ratio_p", "area_p", "scorer"]
"""How a rule's score is made of its columns; see `simkit.learners.pool.kernel`."""


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
    """Which jobs are passed over while anything runs; see `simkit.policies.hold`."""

    longer_than_s: float
    keep_free: float
    """A share of all processors."""


def simulate(
    jobs: PoolJobs, by: Rule | Scorer, *, visible: int | None = None, backfill: Backfill = "easy",
    end: End = "never", hold: Hold | None = None,
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
    kernel = compiled_kernel("pool.kernel")
    _, user = np.unique(jobs.user, return_inverse=True)
    columns = kernel.Jobs(
        jobs.submit_s, jobs.run_s, jobs.processors, jobs.requested_s,
        np.where(jobs.user < 0, -1, user), jobs.size,
    )  # fmt: skip
    scorer, rule = Scorer.zero(), Rule("scorer", jobs.requested_s, jobs.processors)
    if isinstance(by, Scorer):
        scorer = by
    else:
        rule = by
    picker = kernel.Picker(
        len(jobs) if visible is None else visible, _FORMS.index(rule.form), rule.key, rule.factor,
        scorer.linear, scorer.hidden, scorer.bias, scorer.out,
    )  # fmt: skip
    starts: Floats
    if backfill != "easy":
        if end != "never" or hold is not None:
            raise ValueError(
                f"simulate: backfill {backfill} does not support end or hold; only easy does"
            )
        starts = kernel.rlscheduler_starts(columns, picker, backfill == "rlscheduler")
        return starts
    longer, keep = (inf, 0.0) if hold is None else (hold.longer_than_s, hold.keep_free)
    starts = kernel.easy_starts(
        columns, picker, float(scorer.end[0]), _END[end], longer, round(keep * jobs.size, 9)
    )
    return starts
