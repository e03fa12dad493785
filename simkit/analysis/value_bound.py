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

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import RunError, ScenarioError
from simkit.results.run_folder import Run
from simkit.workload import Workload

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


_LONG_AGO = -(2.0**40)


@dataclass(frozen=True)
class BoundJobs:
    """J jobs, or parts of jobs, with their true run times."""

    submit_time_s: Floats
    """(J,) seconds on the trace's clock."""
    run_time_s: Floats
    """(J,) in s."""
    demand: Floats
    """(J, R) what a job holds of each resource while it runs."""
    value: Floats
    """(J,) its value if it finishes."""
    deadline_s: Floats = field(default_factory=lambda: np.empty(0))
    """(J,) when it must have ended to earn its value; default: any time."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong."""
        jobs = len(self.submit_time_s)
        if not len(self.deadline_s):
            object.__setattr__(self, "deadline_s", np.full(jobs, np.inf))
        problems = [
            f"{name} has {len(getattr(self, name))} rows, submit_time_s has {jobs}"
            for name in ("run_time_s", "demand", "value", "deadline_s")
            if len(getattr(self, name)) != jobs
        ]
        if self.demand.ndim != 2:
            problems.append(f"demand has {self.demand.ndim} dimensions; it is (jobs, resources)")
        for name in ("submit_time_s", "run_time_s", "demand", "value"):
            column = getattr(self, name)
            least = -np.inf if name == "submit_time_s" else 0.0
            if not (np.isfinite(column) & (column >= least)).all():
                problems.append(f"{name} must be finite{'' if least else ' and at least 0'}")
        if np.isnan(self.deadline_s).any():
            problems.append("deadline_s must be a time, or infinite for none")
        if problems:
            raise ScenarioError(f"value bound: jobs: {problem}" for problem in problems)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_time_s)

    def take(self, chosen: Bools) -> BoundJobs:
        """Return the jobs chosen by (J,)."""
        return BoundJobs(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def can_finish(self, start: float, end: float) -> Bools:
        """Return (J,): which jobs can end in a window and by their deadline."""
        earliest_end = np.maximum(self.submit_time_s, start) + self.run_time_s
        able: Bools = earliest_end <= np.minimum(self.deadline_s, end)
        return able

    @classmethod
    def of_workload(
        cls, workload: Workload, in_time: Literal["qos", "deadline"] | None = None
    ) -> BoundJobs:
        """Return the tasks of a workload's jobs; a job's value is divided among its tasks.

        A task's part is its share of the job's work: a schedule that finishes the job finishes all
        its tasks and earns its whole value. Dependencies are left out, and the instances of a bag
        run together; neither makes the bound smaller.

        Raises ScenarioError if the jobs have no value, QoS or deadline that is needed.
        """
        problems = [
            f"the workload's jobs have no {name}; add a section value: to the scenario"
            for name in ("value", *((in_time,) if in_time == "qos" else ()))
            if not len(getattr(workload, name))
        ]
        if in_time == "deadline" and not len(workload.deadline_s):
            problems.append("the workload's jobs have no deadlines; add value.deadlines")
        if problems:
            raise ScenarioError(f"value bound: {problem}" for problem in problems)
        job = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
        demand = workload.request * workload.instances[:, None]
        work = demand.sum(axis=1) * workload.run_time_s
        total = np.bincount(job, work, len(workload))[job]
        alone = 1.0 / np.bincount(job, minlength=len(workload))[job]
        part = np.where(total > 0, work / np.where(total > 0, total, 1.0), alone)
        submit = workload.submit_time_s[job]
        latest = np.full(len(job), np.inf)
        if in_time == "qos":
            longest = np.zeros(len(workload))
            np.maximum.at(longest, job, workload.longest_run_time_s())
            latest = submit + (longest / workload.qos)[job]
        elif in_time == "deadline":
            latest = workload.deadline_s[job]
        return cls(submit, workload.run_time_s, demand, workload.value[job] * part, latest)

    @classmethod
    def of_run(cls, run: Run, in_time: Literal["qos", "deadline"] | None = None) -> BoundJobs:
        """Return the jobs of a run.

        Raises RunError if they have no value, QoS or deadline that is needed, or if a job has
        several tasks or a task whose instances start one by one.
        """
        jobs = run.jobs
        needed = {None: (), "qos": ("qos",), "deadline": ("deadline_s",)}[in_time]
        missing = [name for name in ("value", *needed) if name not in jobs.columns]
        if missing:
            raise RunError(
                f"{run.folder}: its jobs have no {', '.join(missing)}; "
                "run the scenario with a section value:"
            )
        if not (run.tasks["gang"] | (run.tasks["instances"] == 1)).all() or len(run.tasks) != len(
            run.tasks["job_id"].unique()
        ):
            raise RunError(
                f"{run.folder}: has jobs of several tasks or instances that start one by one; "
                "give their workload to simkit.analysis.value_bound.value_bound"
            )
        submit, length = (jobs[name].to_numpy() for name in ("submit_time_s", "trace_run_time_s"))
        latest = np.full(len(jobs), np.inf)
        if in_time == "qos":
            latest = submit + length / jobs["qos"].to_numpy()
        elif in_time == "deadline":
            latest = jobs["deadline_s"].fill_null(np.inf).to_numpy()
        return cls(
            submit, length, jobs.select(run.resources).to_numpy().astype(np.float64),
            jobs["value"].to_numpy(), latest,
        )  # fmt: skip


@dataclass(frozen=True)
class Capacity:
    """Capacity of R resources over time: each piece holds until the next one starts."""

    starts: Floats
    """(S,) in s, ascending; the last piece has no end."""
    amounts: Floats
    """(S, R) at least 0."""

    def __post_init__(self) -> None:
        """Raise ScenarioError unless there are pieces, in order of time, with amounts from 0 up."""
        problems = []
        if self.amounts.ndim != 2 or len(self.amounts) != len(self.starts) or not len(self.starts):
            problems.append(
                f"{len(self.starts)} starts and amounts of shape {self.amounts.shape}; "
                "amounts are (pieces, resources), with one piece at least"
            )
        if not (np.diff(self.starts) >= 0).all() or not np.isfinite(self.starts).all():
            problems.append("starts must be finite and ascend")
        if not (np.isfinite(self.amounts) & (self.amounts >= 0)).all():
            problems.append("amounts must be finite and at least 0")
        if problems:
            raise ScenarioError(f"value bound: capacity: {problem}" for problem in problems)

    @classmethod
    def constant(cls, *amounts: float) -> Capacity:
        """Return constant capacity: an amount for each resource."""
        return cls(np.array([_LONG_AGO]), np.array([amounts], dtype=np.float64))

    @classmethod
    def of_run(cls, run: Run) -> Capacity:
        """Return the capacity of a run's timeline; what drains counts until it is free."""
        line, names = run.timeline, run.resources
        first = [run.capacity[name] for name in names]
        held, there = (
            line.select(f"{what}_{name}" for name in names).to_numpy()
            for what in ("allocated", "capacity")
        )
        starts: Floats = np.append(_LONG_AGO, line["time_s"].to_numpy())
        return cls(starts, np.vstack((first, np.maximum(held, there))))

    def in_slots(self, edges: Floats) -> Floats:
        """Return (T, R): resource-seconds in each of the T slots between (T + 1,) edges."""
        inside = self.starts[(self.starts > edges[0]) & (self.starts < edges[-1])]
        cuts = np.union1d(edges, inside)
        piece = np.searchsorted(self.starts, cuts[:-1], side="right") - 1
        slot = np.searchsorted(edges, cuts[:-1], side="right") - 1
        room = np.zeros((len(edges) - 1, self.amounts.shape[1]))
        np.add.at(room, slot, self.amounts[piece] * np.diff(cuts)[:, None])
        return room
