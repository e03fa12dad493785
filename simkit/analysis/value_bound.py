"""An upper bound on the value that any schedule can earn, by a linear programme.

The bound is the value that an oracle can earn. It knows every job and every change of capacity
beforehand, stops, resumes and divides jobs at will, and earns the share of a job's value that is
done. Time is cut into slots. With y[j, t]
the share of job j that is done in slot t,

    maximise   Σ v[j] · y[j, t]
    subject to Σ_t y[j, t] ≤ 1                                  a job is done once
               Σ_j demand[j, r] · run[j] · y[j, t] ≤ C[r, t]    resource-seconds of the slot
               0 ≤ run[j] · y[j, t] ≤ usable[j, t]              at its own pace

usable[j, t] is the part of the slot between the job's submission and the window's end, or the
job's deadline. Jobs that cannot end in time are left out.

Why no schedule earns more: take any schedule in the window, and let y[j, t] be the seconds that
the successful attempt of job j ran in slot t, over run[j]; jobs that do not finish in time have
y = 0. A finished job ran for run[j] seconds in all, after its submission, and never longer than
the slot lasts; and at no instant was more held than the capacity. So all constraints hold, and the
objective is what the schedule earned. The optimum is at least that.

If there are too many variables, the *sums* of the slots take their place. With y[j] in [0, 1] the
share of job j that is done at all, the work of all jobs submitted in slot s or later must fit into
the capacity from slot s on, and the work of all jobs due by the end of slot s into the capacity
until then, for every s and each resource. These follow from the constraints above by addition, so
the optimum can only be larger: it is still a bound, but ignores each job's own pace.

The result is the value of the dual solution, computed from its prices: by weak duality every set
of prices gives a bound, so the solver's tolerances do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simkit.analysis.bound_inputs import BoundJobs, Capacity
from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.results.run_folder import Run

if TYPE_CHECKING:  # scipy loads when a bound is computed
    from scipy.sparse import sparray


_MOST_VARIABLES = 200_000


@dataclass(frozen=True)
class Bound:
    """An upper bound on the value that a schedule can earn."""

    value: float
    """Upper bound on the value of the jobs that finish (in time); exact up to rounding of sums."""
    submitted: float
    """The value of all jobs, the maximum of `value`."""
    method: Literal["slots", "sums"]
    """Whether jobs keep their own pace (slots) or not (sums, a weaker bound)."""
    window: tuple[float, float]
    """In s on the trace's clock."""
    step_s: float
    """Length of a slot."""
    jobs: int
    """Jobs that can finish in the window."""
    variables: int
    """Size of the linear programme."""


def value_bound(
    jobs: BoundJobs,
    capacity: Capacity,
    *,
    window: tuple[float, float],
    step_s: float = 3600.0,
    most_variables: int = _MOST_VARIABLES,
) -> Bound:
    """Return an upper bound on the value that any schedule earns in a window.

    Args:
        jobs: J jobs, or parts of jobs. A job that was submitted before the window may run from the
            window's start; a job that ends after its `deadline_s` earns nothing.
        capacity: of each of R resources over time.
        window: (start, end) in s; only what has finished by its end counts.
        step_s: length of a slot in s; shorter ones make the bound tighter.
        most_variables: with more variables, the sums take the place of the slots.

    Raises ScenarioError if the window or the step is empty, if the capacity at the window's start
    is not known, or if the linear programme is not solved.
    """
    start, end = window
    problems = []
    if not (np.isfinite(start) and np.isfinite(end) and start < end):
        problems.append(f"window {start:g} s to {end:g} s; it must end after it starts")
    if not 0 < step_s < np.inf:
        problems.append(f"step_s is {step_s:g}; it must be above 0 s")
    if jobs.demand.shape[1] != capacity.amounts.shape[1]:
        problems.append(
            f"jobs ask for {jobs.demand.shape[1]} resources, there are "
            f"{capacity.amounts.shape[1]}; give both the same"
        )
    if capacity.starts[0] > start:
        problems.append(
            f"capacity is known from {capacity.starts[0]:g} s on, the window starts at {start:g} s"
        )
    if problems:
        raise ScenarioError(f"value bound: {problem}" for problem in problems)
    edges = np.append(np.arange(start, end, step_s), end)
    able = jobs.take(jobs.can_finish(start, end))
    instant = able.run_time_s <= 0
    work = able.take(~instant)
    slots = _JobSlots.of(work, edges)
    room = capacity.in_slots(edges)  # (T, R) resource-seconds
    method: Literal["slots", "sums"] = "slots" if slots.variables <= most_variables else "sums"
    programme = slots.programme(work, room) if method == "slots" else slots.sums(work, room)
    found = float(able.value[instant].sum()) + (programme.bound() if len(work) else 0.0)
    submitted = float(jobs.value.sum())
    return Bound(
        min(found, submitted), submitted, method, (float(start), float(end)), float(step_s),
        len(able), len(programme.gain),
    )  # fmt: skip


def bound_of_run(
    run: Run,
    *,
    window: tuple[float, float] | None = None,
    step_s: float = 3600.0,
    in_time: Literal["qos", "deadline"] | None = None,
    most_variables: int = _MOST_VARIABLES,
) -> Bound:
    """Return an upper bound on what any policy could have earned with a run's jobs and capacity.

    The capacity is that of the run's timeline; capacity that drains counts until it is free. If the
    capacity depends on the policy, as with a battery, the bound holds for all policies that leave
    the run's capacity as it was.

    Args:
        run: a run whose jobs have a value, each with one task that starts as a whole.
        window: (start, end) in s; default: from the first submit to the timeline's last instant.
        step_s: length of a slot in s.
        in_time: which jobs earn their value: jobs that end before their quality of service is
            violated, jobs that end by their deadline, or (None) all that finish.
        most_variables: see `value_bound`.

    Raises RunError if the jobs have no value or other tasks, and the errors of `value_bound`.
    """
    jobs = BoundJobs.of_run(run, in_time)
    capacity = Capacity.of_run(run)
    if window is None:
        first = float(jobs.submit_time_s.min()) if len(jobs) else float(capacity.starts[0])
        window = (first, max(float(capacity.starts[-1]), first + step_s))
    return value_bound(jobs, capacity, window=window, step_s=step_s, most_variables=most_variables)


@dataclass(frozen=True)
class _JobSlots:
    """Which slots each of J jobs may use: ``first[j]`` to ``last[j]``, both included."""

    edges: Floats
    """(T + 1,)"""
    first: Ints
    last: Ints

    @classmethod
    def of(cls, jobs: BoundJobs, edges: Floats) -> _JobSlots:
        """Return the slots between each job's submission and its deadline or the window's end."""
        begin = np.maximum(jobs.submit_time_s, edges[0])
        end = np.minimum(jobs.deadline_s, edges[-1])
        first = np.searchsorted(edges, begin, side="right") - 1
        last = np.searchsorted(edges, end, side="left") - 1
        return cls(edges, first.astype(np.int64), last.astype(np.int64))

    @property
    def variables(self) -> int:
        """Number of pairs of a job and a slot."""
        return int((self.last - self.first + 1).sum())

    def programme(self, jobs: BoundJobs, room: Floats) -> _Programme:
        """Return the programme of the slots; `room` is (T, R) resource-seconds."""
        from scipy.sparse import coo_array, vstack

        each = self.last - self.first + 1
        job = np.repeat(np.arange(len(jobs)), each)
        begun = np.concatenate(([0], np.cumsum(each)[:-1]))
        slot = np.arange(len(job)) - np.repeat(begun - self.first, each)
        begin = np.maximum(self.edges[slot], jobs.submit_time_s[job])
        end = np.minimum(self.edges[slot + 1], jobs.deadline_s[job])
        column = np.arange(len(job))
        once = coo_array((np.ones(len(job)), (job, column)), shape=(len(jobs), len(job)))
        parts, limits = [once], [np.ones(len(jobs))]
        for r in range(room.shape[1]):
            amount, scale = _scaled(jobs.demand[:, r] * jobs.run_time_s, room[:, r])
            shape = (len(room), len(job))
            parts.append(coo_array((amount[job], (slot, column)), shape=shape))
            limits.append(room[:, r] / scale)
        return _Programme(
            gain=jobs.value[job],
            most=np.minimum((end - begin) / jobs.run_time_s[job], 1.0),
            below=vstack(parts, format="csr"),
            limits=np.concatenate(limits),
        )

    def sums(self, jobs: BoundJobs, room: Floats) -> _Programme:
        """Return the programme of the sums; `room` is (T, R) resource-seconds.

        Besides a share for each job there are two variables for each slot and resource: the work of
        all jobs from that slot on, and until its end.
        """
        from scipy.sparse import coo_array, diags_array, hstack, vstack

        count, steps = len(jobs), len(room)
        rows, tops = [], []
        for r in range(room.shape[1]):
            amount, scale = _scaled(jobs.demand[:, r] * jobs.run_time_s, room[:, r])
            for slot, work in (
                (self.first, room[::-1, r].cumsum()[::-1]),  # from slot s on
                (steps - 1 - self.last, room[:, r].cumsum()[::-1]),  # until slot T - 1 - s ends
            ):
                enter = coo_array((amount, (slot, np.arange(count))), shape=(steps, count))
                rows.append(enter)
                tops.append(work / scale)
        # total[s] = total[s + 1] + what enters at s
        chain = diags_array((-1.0, 1.0), offsets=(0, 1), shape=(steps, steps), format="coo")
        empty = coo_array(chain.shape)
        blocks = [
            hstack([enter, *(chain if other == n else empty for other in range(len(rows)))])
            for n, enter in enumerate(rows)
        ]
        totals = steps * len(rows)
        return _Programme(
            gain=np.concatenate((jobs.value, np.zeros(totals))),
            most=np.concatenate((np.ones(count), *tops)),
            equal=vstack(blocks, format="csr"),
        )


@dataclass(frozen=True)
class _Programme:
    """Maximise ``gain @ x`` with 0 ≤ x ≤ most, ``below @ x ≤ limits`` and ``equal @ x = 0``."""

    gain: Floats
    most: Floats
    below: sparray | None = None
    limits: Floats | None = None
    equal: sparray | None = None

    def bound(self) -> float:
        """Return the value of the dual solution, which no feasible x exceeds.

        Raises ScenarioError if the solver finds none.
        """
        from scipy.optimize import linprog

        found = linprog(
            -self.gain,
            A_ub=self.below,
            b_ub=self.limits,
            A_eq=self.equal,
            b_eq=None if self.equal is None else np.zeros(self.equal.shape[0]),
            bounds=np.stack((np.zeros(len(self.most)), self.most), axis=1),
            method="highs",
        )
        if found.status != 0:
            raise ScenarioError(
                f"value bound: the linear programme was not solved ({found.message}); "
                "take a longer step_s or a shorter window"
            )
        return self._dual(found)

    def _dual(self, found: Any) -> float:
        """Return the Lagrangian at the solver's prices: weak duality makes it a bound."""
        reduced, constant = self.gain, 0.0
        if self.below is not None and self.limits is not None:
            prices = np.maximum(-found.ineqlin.marginals, 0.0)
            reduced, constant = reduced - self.below.T @ prices, float(prices @ self.limits)
        if self.equal is not None:
            reduced = reduced + self.equal.T @ found.eqlin.marginals
        return constant + float(np.maximum(reduced, 0.0) @ self.most)


def _scaled(work: Floats, room: Floats) -> tuple[Floats, float]:
    """Return work in units of the largest slot, and that unit: numbers near 1 solve best."""
    scale = float(max(room.max(), 1e-9))
    return work / scale, scale
