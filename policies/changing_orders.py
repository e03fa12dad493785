"""Orderings that change as tasks wait; the whole queue is sorted again at every decision.

In the formulas, wait is the time since submission, r the estimate (at least 2⁻²⁰ s, the grid of
time, so that an estimate of 0 divides nothing by 0; 2⁴⁰ s where it has no end) and n the
processors: what all instances of the task ask of the first resource together. Larger values go
first, unless stated otherwise; ties go by submission.

p, in the last two, is the mean run time of the user's last two tasks to end in this run, or of the
one if only one has ended: at most the estimate, and at least 10 s. Until a task of the user has
ended, and for unknown users, p is the estimate, again at least 10 s. The estimator `user-mean`
predicts at submission, for every rule of the policy; p follows what ends while tasks wait, and is
the order's alone: backfilling keeps to the estimate.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats
from simkit.policy import State, SystemInfo
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.recent_run_times import RecentRunTimes
from simkit.units import ENDLESS_S, TIME_GRID


class HRRN:
    """Largest expansion factor first: (wait + r) / r.

    P. Brinch Hansen, "Short-term scheduling in multiprogramming systems" (1971), who calls it the
    highest response ratio next.
    """

    signals = NO_SIGNALS

    def keys(self, state: State) -> Floats:
        wait, estimate, _ = _facts(state)
        return -(wait + estimate) / estimate


class WFP3(HRRN):
    """Large (wait / r)³·n first: long waits compared with the estimate, and large jobs.

    W. Tang, Z. Lan, N. Desai and D. Buettner, "Fault-aware, utility-based job scheduling on Blue
    Gene/P systems" (2009); W. Tang, N. Desai, D. Buettner and Z. Lan, "Analyzing and adjusting
    user runtime estimates to improve job scheduling on the Blue Gene/P" (2010). The production
    policy of Argonne's Intrepid.
    """

    def keys(self, state: State) -> Floats:
        wait, estimate, processors = _facts(state)
        return -((wait / estimate) ** 3) * processors


class UNICEF(HRRN):
    """Large wait / (log2(n)·r) first: quick turnaround for small jobs.

    From the same papers as `WFP3`. n in the logarithm is at least 2, so that it is at least 1.
    """

    def keys(self, state: State) -> Floats:
        wait, estimate, processors = _facts(state)
        return -wait / (np.log2(np.maximum(processors, 2.0)) * estimate)


def _facts(state: State) -> tuple[Floats, Floats, Floats]:
    """Return wait, estimate and processors of every waiting task, (n,) each."""
    columns = state.queue.columns()
    wait = state.now - columns.submit_time_s
    return wait, columns.estimate_s.clip(TIME_GRID, ENDLESS_S), columns.demand[0]


class SAFP:
    """SAF-p, smallest predicted area first: p·n, smaller values first.

    The prediction is after D. Tsafrir, Y. Etsion and D. G. Feitelson, "Backfilling using
    system-generated predictions rather than user runtime estimates" (2007).
    """

    signals = NO_SIGNALS

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run, in which nothing has ended."""
        self._recent = RecentRunTimes()

    def keys(self, state: State) -> Floats:
        predicted, processors, _ = self._facts(state)
        return predicted * processors

    def _facts(self, state: State) -> tuple[Floats, Floats, Floats]:
        """Return p, processors and wait of every waiting task, (n,) each."""
        self._recent.update(state)
        columns = state.queue.columns()
        predicted = self._recent.predict(columns.user, columns.estimate_s)
        return predicted, columns.demand[0], state.now - columns.submit_time_s


class WFP3P(SAFP):
    """WFP3-p n²: large (wait / p)³·n² first, by the prediction; large tasks count for more.

    Sources as for `WFP3` and `SAFP`.
    """

    def keys(self, state: State) -> Floats:
        predicted, processors, wait = self._facts(state)
        return -((wait / predicted) ** 3) * processors**2
