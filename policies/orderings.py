"""Every order: which waiting task is tried first; ties go by submission.

An order with ``key(task)`` gives each task a number that it keeps while it waits; one with
``keys(state)`` changes as tasks wait, and the whole queue is sorted again at every decision.

The processors n of a task are what all its instances ask of the first resource together, r is its
estimate: where a formula multiplies or divides by it, one without an end counts as 2⁴⁰ s, and one
of 0 as 2⁻²⁰ s, the grid of time. Value and quality of service are those of `simkit.policy.Task`: a
workload without them has QoS 1 and value 0 throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf, isfinite, log
from typing import ClassVar

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.policy import State, SystemInfo, formulas
from simkit.policy.declared import NO_SIGNALS, ChangingForm, FixedForm, Signals
from simkit.policy.estimates import RecentRunTimes
from simkit.policy.task import Allocation, Task
from simkit.units import ENDLESS_S, TIME_GRID, parse_duration


class FCFS:
    """First come, first served: by submission."""

    reads_estimates = False
    form = FixedForm(formulas.first_come)

    def key(self, task: Task) -> float:
        return task.submit_time_s


class LCFS:
    """Last come, first served: by submission backwards, also among jobs of one instant."""

    reads_estimates = False
    form = FixedForm(formulas.last_come)

    def key(self, task: Task) -> float:
        return -float(task.index)


class SJF:
    """Shortest job first: by the estimated run time."""

    form = FixedForm(formulas.shortest)

    def key(self, task: Task) -> float:
        return task.estimate_s


class LJF:
    """Longest job first: by the estimated run time, downwards."""

    form = FixedForm(formulas.longest)

    def key(self, task: Task) -> float:
        return -task.estimate_s


class SAF:
    """Smallest area first: by processors × estimated run time."""

    form = FixedForm(formulas.smallest_area)

    def key(self, task: Task) -> float:
        return formulas.smallest_area(_r(task), task.demand[0], 0.0, 0.0)


class LAF:
    """Largest area first: by processors × estimated run time, downwards."""

    form = FixedForm(formulas.largest_area)

    def key(self, task: Task) -> float:
        return formulas.largest_area(_r(task), task.demand[0], 0.0, 0.0)


class _Learned:
    """Functions found by regression over simulated schedules; smaller goes first.

    D. Carastan-Santos and R. Y. de Camargo, "Obtaining dynamic scheduling policies with
    simulation and machine learning" (SC 2017). r is the estimate in seconds, n the processors and
    s the submission in seconds since the first job of the workload. Floors, which the paper leaves
    open: s is at least 1, and the argument of every logarithm, r as well as s, is at least 2; so
    every job of the first two seconds has s taken as 2. r and n outside logarithms have no floor.
    """

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note when the first job comes."""
        self._first_submit_s = info.first_submit_s

    def _since_first(self, task: Task) -> float:
        return task.submit_time_s - self._first_submit_s


class F1(_Learned):
    """F1 = log10(r)·n + 870·log10(s)."""

    form = FixedForm(formulas.f1)

    def key(self, task: Task) -> float:
        return formulas.f1(_r(task), task.demand[0], self._since_first(task), 0.0)


class F2(_Learned):
    """F2 = √r·n + 25 600·log10(s)."""

    form = FixedForm(formulas.f2)

    def key(self, task: Task) -> float:
        return formulas.f2(_r(task), task.demand[0], self._since_first(task), 0.0)


class F3(_Learned):
    """F3 = r·n + 6 860 000·log10(s)."""

    form = FixedForm(formulas.f3)

    def key(self, task: Task) -> float:
        return formulas.f3(_r(task), task.demand[0], self._since_first(task), 0.0)


class F4(_Learned):
    """F4 = r·√n + 530 000·log10(s)."""

    form = FixedForm(formulas.f4)

    def key(self, task: Task) -> float:
        return formulas.f4(_r(task), task.demand[0], self._since_first(task), 0.0)


class LogRN:
    """Small log10(r)·n first, r at least 2 s: F1 without the submit time.

    D. Carastan-Santos and R. Y. de Camargo (SC 2017), as above.
    """

    form = FixedForm(formulas.log_area)

    def key(self, task: Task) -> float:
        return formulas.log_area(_r(task), task.demand[0], 0.0, 0.0)


class R2N:
    """Small r²·n first, r at least 10 s: a short run counts for more than a small size.

    Between shortest job first and smallest area first. The bounded slowdown tells run times below
    10 s no more apart than this does.
    """

    form = FixedForm(formulas.squared_area)

    def key(self, task: Task) -> float:
        return formulas.squared_area(_r(task), task.demand[0], 0.0, 0.0)


class Random:
    """A random order: each task draws a number, which depends on the seed and its rank alone.

    So a task keeps its number, whatever else arrives.
    """

    reads_estimates = False
    form = FixedForm()

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: draw the run's own seed."""
        self._seed = int(rng.integers(2**63))

    def key(self, task: Task) -> float:
        """Return a number that is uniform in [0, 1)."""
        return _splitmix(self._seed + task.index) / 2.0**64


class FewestRemaining:
    """The task with the fewest instances left to place first; ties go by submission."""

    reads_estimates = False

    def keys(self, state: State) -> Floats:
        return state.queue.columns().remaining.copy()


class LargestRequest:
    """The task whose instance has the largest dominant share first; ties go by submission.

    The dominant share is the largest, over resources, of an instance's request divided by the
    capacity of the largest machine: large pieces are packed while there are large gaps.
    """

    reads_estimates = False
    form = FixedForm()

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note the largest machine's capacity, resource by resource."""
        self._largest: list[float] = info.capacity.max(axis=0).tolist()

    def key(self, task: Task) -> float:
        asked = zip(task.request, self._largest, strict=True)
        return -max((amount / size for amount, size in asked if amount > 0 and size > 0), default=0)


def _r(task: Task) -> float:
    """Return a task's estimate as a finite number, in s."""
    return min(task.estimate_s, ENDLESS_S)


def _splitmix(number: int) -> int:
    """Return 64 well-mixed bits: the function of SplitMix64.

    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    mask = 2**64 - 1
    z = (number + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


# ---- by what jobs are worth and how soon they are due ------------------------------------------


def last_start_s(task: Task, patience_s: float | None = None) -> float:
    """Return when a task must start, in s on the trace's clock, to end in time by its estimate.

    It should end by its deadline; without one, before its quality of service is violated
    (`Task.due_s`). Rounded down to the grid of time, so that it is an instant of the simulation. An
    estimate without an end counts as 2⁴⁰ s.

    Args:
        task: a waiting task.
        patience_s: how long a task may wait that has neither a deadline nor a quality of service
            below 1, or whose estimate has no end, so that a quality of service says nothing; None:
            not at all.
    """
    estimate_s = min(task.estimate_s, ENDLESS_S)
    if task.deadline_s < inf:
        last = task.deadline_s - estimate_s
    elif patience_s is not None and (task.qos >= 1.0 or task.estimate_s == inf):
        last = task.submit_time_s + patience_s
    else:
        last = task.submit_time_s + estimate_s / task.qos - estimate_s
    return floor(last / TIME_GRID) * TIME_GRID


def duration_s(what: str, value: str | float) -> float:
    """Return an argument's seconds; it must be above 0.

    Args:
        what: rule and argument, for the error: ``backfill ready-pool: horizon``.
        value: a duration such as ``"48h"``, or seconds.

    Raises ScenarioError if it is not a duration above 0.
    """
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise ScenarioError(f"{what}: {error}") from None
    if not (isfinite(seconds) and seconds > 0):
        raise ScenarioError(f"{what} is {value!r}; it must be above 0")
    return seconds


class QoS:
    """Highest quality of service first."""

    reads_estimates = False
    form = FixedForm()

    def key(self, task: Task) -> float:
        return -task.qos


class HighestValue:
    """Highest value first, with the value that follows from the estimate."""

    form = FixedForm()

    def key(self, task: Task) -> float:
        return -task.value


class ValueDensity:
    """Highest value per unit of resources and second first: the greedy rule for knapsacks.

    G. B. Dantzig, "Discrete-variable extremum problems" (1957).
    """

    form = FixedForm()

    def key(self, task: Task) -> float:
        return -task.value_density


class LeastSlack:
    """Least slack first: the time until the task must start so as not to be late.

    The slack at an instant is deadline − now − estimate; without a deadline, the time at which
    the quality of service is violated stands for it. Tasks that can no longer make it, whose slack
    is below 0, come after all others, again the least slack first: what is late already is late
    either way, and should not make the next one late. With `hopeless_last` off they come first.

    The slack of all tasks shrinks alike, so that the order changes only as tasks become late; the
    queue is still sorted again at every decision.

    Args:
        hopeless_last: whether tasks that can no longer be in time come last.
    """

    def __init__(self, *, hopeless_last: bool = True) -> None:
        self.hopeless_last = hopeless_last

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._last_start_s: Floats = np.zeros(64)  # by the tasks' index

    def keys(self, state: State) -> Floats:
        for task in state.arrived:
            self._note(task)
        slack: Floats = self._last_start_s[state.queue.columns().index.astype(np.int64)] - state.now
        if not self.hopeless_last:
            return slack
        late = slack < 0
        if late.any():
            slack[late] += slack.max() - slack.min() + 1.0  # behind all others, in their own order
        return slack

    def _note(self, task: Task) -> None:
        if task.index >= len(self._last_start_s):
            self._last_start_s = np.resize(self._last_start_s, 2 * task.index + 1)
        self._last_start_s[task.index] = last_start_s(task)


# ---- by how long tasks have waited: larger values go first -------------------------------------


def _as_they_are(processors: Floats) -> Floats:
    return processors


def _log2(processors: Floats) -> Floats:
    return np.log2(np.maximum(processors, 2.0))


def _keys(form: ChangingForm, wait: Floats, estimate: Floats, processors: Floats) -> Floats:
    """Return (n,) the numbers of waiting tasks by a formula."""
    keys: Floats = form.formula(wait, estimate, form.factor(processors))
    return keys


class HRRN:
    """Largest expansion factor first: (wait + r) / r.

    P. Brinch Hansen, "Short-term scheduling in multiprogramming systems" (1971), who calls it the
    highest response ratio next.
    """

    signals = NO_SIGNALS
    form = ChangingForm(formulas.expansion, _as_they_are)

    def keys(self, state: State) -> Floats:
        return _keys(type(self).form, *_facts(state))


class WFP3(HRRN):
    """Large (wait / r)³·n first: long waits compared with the estimate, and large jobs.

    W. Tang, Z. Lan, N. Desai and D. Buettner, "Fault-aware, utility-based job scheduling on Blue
    Gene/P systems" (2009); W. Tang, N. Desai, D. Buettner and Z. Lan, "Analyzing and adjusting
    user runtime estimates to improve job scheduling on the Blue Gene/P" (2010). The production
    policy of Argonne's Intrepid.
    """

    form = ChangingForm(formulas.cubed_wait, _as_they_are)


class UNICEF(HRRN):
    """Large wait / (log2(n)·r) first: quick turnaround for small jobs.

    From the same papers as `WFP3`. n in the logarithm is at least 2, so that it is at least 1.
    """

    form = ChangingForm(formulas.wait_by_area, _log2)


def _facts(state: State) -> tuple[Floats, Floats, Floats]:
    """Return wait, estimate and processors of every waiting task, (n,) each."""
    columns = state.queue.columns()
    wait = state.now - columns.submit_time_s
    return wait, columns.estimate_s.clip(TIME_GRID, ENDLESS_S), columns.demand[0]


class SAFP:
    """SAF-p, smallest predicted area first: p·n, smaller values first.

    p is the mean run time of the user's last two tasks to end in this run, or of the one if only
    one has ended: at most the estimate, and at least 10 s. Until a task of the user has ended, and
    for unknown users, p is the estimate, again at least 10 s. It follows what ends while tasks
    wait, and is the order's alone: backfilling keeps to the estimate.

    The prediction is after D. Tsafrir, Y. Etsion and D. G. Feitelson, "Backfilling using
    system-generated predictions rather than user runtime estimates" (2007).
    """

    signals = NO_SIGNALS
    form = ChangingForm(formulas.area, _as_they_are, predicts=True)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run, in which nothing has ended."""
        self._recent = RecentRunTimes()

    def keys(self, state: State) -> Floats:
        self._recent.update(state)
        columns = state.queue.columns()
        predicted = self._recent.predict(columns.user, columns.estimate_s)
        wait = state.now - columns.submit_time_s
        return _keys(type(self).form, wait, predicted, columns.demand[0])


class WFP3P(SAFP):
    """WFP3-p n²: large (wait / p)³·n² first, by the prediction; large tasks count for more.

    Sources as for `WFP3` and `SAFP`.
    """

    form = ChangingForm(formulas.cubed_wait, np.square, predicts=True)


# ---- by priority ---------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class Multifactor:
    """Slurm's multifactor priority, highest first: the weighted sum of age, size and fair share.

        priority = age · A + size · Z + fair_share · F

    - A, the age factor: min(wait / max_age, 1).
    - Z, the size factor: n / N, requested over all processors; 1 − n / N with ``favor_small``.
    - F, the fair-share factor: 2^(−U / S). U is the user's share of all recent usage. S = 1 / users
      is the fair share; users are those who have submitted or run anything so far. F is ½ for a
      user who has used exactly the fair share, and 1 for one who has used nothing.

    Recent usage at time t is the integral of the processors held, each moment τ weighted with
    2^(−(t − τ) / half_life). It includes running tasks, and follows from starts and ends, not from
    samples. Processors are the first resource. Users without a number (-1) count as one user.

    A. B. Yoo, M. A. Jette and M. Grondona, "SLURM: Simple Linux utility for resource management"
    (2003); the formulas follow the classic fair-share of Slurm's multifactor priority plug-in.

    Args:
        age: weight of the age factor; weights are finite and may be negative.
        size: weight of the size factor.
        fair_share: weight of the fair-share factor.
        max_age: the wait at which the age factor is 1, a duration such as ``"7d"`` or seconds.
        half_life: the time in which usage loses half its weight, in the same form.
        favor_small: whether small tasks have the larger size factor.

    Raises ScenarioError if a weight is not a finite number or a duration is not positive.
    """

    age: float = 1.0
    size: float = 1.0
    fair_share: float = 1.0
    max_age: str | float = "7d"
    half_life: str | float = "7d"
    favor_small: bool = False

    signals: ClassVar[Signals] = NO_SIGNALS
    reads_estimates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, weight in (
            ("age", self.age),
            ("size", self.size),
            ("fair_share", self.fair_share),
        ):
            if not isinstance(weight, (int, float)) or not isfinite(weight):
                raise ScenarioError(
                    f"order multifactor: {name} is {weight!r}; it must be a finite number"
                )
        self._max_age_s = duration_s("order multifactor: max_age", self.max_age)
        self._half_life_s = duration_s("order multifactor: half_life", self.half_life)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._processors = float(info.capacity[:, 0].sum())
        self.usage = Usage(self._half_life_s)

    def keys(self, state: State) -> Floats:
        self.usage.update(state)
        columns = state.queue.columns()
        age = np.minimum((state.now - columns.submit_time_s) / self._max_age_s, 1.0)
        size = columns.demand[0] / self._processors
        if self.favor_small:
            size = 1.0 - size
        fair = self.usage.factors(columns.user, state.now)
        priority: Floats = self.age * age + self.size * size + self.fair_share * fair
        return -priority


class Usage:
    """Each user's recent usage of the first resource, in decayed processor-seconds.

    An account is a decayed integral: u' = rate − decay · u, solved exactly between changes of the
    rate.
    """

    def __init__(self, half_life_s: float) -> None:
        self._decay = log(2.0) / half_life_s
        self._accounts = np.zeros((3, 16))  # usage, rate and time of the last change; row 0: of all
        self._row: dict[int, int] = {}  # user → row of the account
        self._known: tuple[Floats, Ints] = np.empty(0), np.empty(0, np.int64)  # users, their rows
        self._running: dict[Allocation, None] = {}
        self._last_rank = 0

    def update(self, state: State) -> None:
        """Account for what has started and ended since the last call; a repeat changes nothing.

        With periodic scheduling an allocation counts until the decision that follows its end.
        """
        for task in state.arrived:
            self._row_of(task.user)
        fresh = [a for a in state.ended if a.rank > self._last_rank]
        for allocation in state.running.newest():
            if allocation.rank <= self._last_rank:
                break
            fresh.append(allocation)
        for allocation in fresh:
            self._running[allocation] = None
            self._change(allocation, allocation.start_time_s, 1.0)
        self._last_rank = max([self._last_rank, *(a.rank for a in fresh)])
        for allocation in state.ended:
            if allocation in self._running:
                del self._running[allocation]
                self._change(allocation, state.now, -1.0)

    def _row_of(self, user: int) -> int:
        """Return the row of a user's account, opened if there is none."""
        if (row := self._row.get(user)) is None:
            row = self._row[user] = len(self._row) + 1
            if row == self._accounts.shape[1]:
                self._accounts = np.pad(self._accounts, ((0, 0), (0, row)))
        return row

    def _change(self, allocation: Allocation, at: float, sign: float) -> None:
        for row in (self._row_of(allocation.task.user), 0):
            self._change_rate(row, sign * allocation.held[0], at)

    def _change_rate(self, row: int, amount: float, at: float) -> None:
        """Raise the rate of an account by an amount, from a time on."""
        account = self._accounts[:, row]
        if at >= account[2]:
            account[0], account[2] = self._at(account, at), at
        else:  # the start of an allocation that was noticed late
            account[0] += amount / self._decay * -np.expm1(-self._decay * (account[2] - at))
        account[1] += amount

    def _at(self, accounts: Floats, now: float) -> Floats:
        """Return the integrals at a time, which may lie a little before the last change."""
        used, rate, time_s = accounts
        left = np.exp(-self._decay * (now - time_s))
        integral: Floats = used * left + rate / self._decay * (1.0 - left)
        return integral

    def of(self, user: int, now: float) -> float:
        """Return a user's decayed usage in processor-seconds."""
        row = self._row.get(user)
        return 0.0 if row is None else float(self._at(self._accounts[:, row], now))

    def factors(self, users: Floats, now: float) -> Floats:
        """Return (n,): the fair-share factor of each task's user, who has submitted something."""
        total = float(self._at(self._accounts[:, 0], now))
        if total <= 0.0:
            return np.ones(len(users))
        count = len(self._row)
        used = self._at(self._accounts[:, : count + 1], now)
        factors: Floats = np.exp2(-used / total * count)
        if len(self._known[0]) < count:
            known = np.array(
                list(self._row), np.float64
            )  # in order of their rows, which begin at 1
            order = known.argsort()
            self._known = known[order], order + 1
        known, rows = self._known
        return factors[rows[np.searchsorted(known, users)]]
