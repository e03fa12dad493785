"""Slurm's multifactor priority: the weighted sum of age, size and fair share.

    priority = age · A + size · Z + fair_share · F

- A, the age factor: min(wait / max_age, 1).
- Z, the size factor: n / N, requested over all processors; 1 − n / N with ``favor_small``.
- F, the fair-share factor: 2^(−U / S). U is the user's share of all recent usage. S = 1 / users is
  the fair share; users are those who have submitted or run anything so far. F is ½ for a user who
  has used exactly the fair share, and 1 for one who has used nothing.

Recent usage at time t is the integral of the processors held, each moment τ weighted with
2^(−(t − τ) / half_life). It includes running tasks, and follows from starts and ends, not from
samples. Processors are the first resource. Users without a number (-1) count as one user.

A. B. Yoo, M. A. Jette and M. Grondona, "SLURM: Simple Linux utility for resource management"
(2003); the formulas follow the classic fair-share of Slurm's multifactor priority plug-in.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.policies.value_orders import duration_s
from simkit.policy import State, SystemInfo
from simkit.policy.task import Allocation


@dataclass(eq=False, kw_only=True)
class Multifactor:
    """Highest priority first; ties go by submission.

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
    """Each user's recent usage of the first resource, in decayed processor-seconds."""

    def __init__(self, half_life_s: float) -> None:
        self._decay = log(2.0) / half_life_s
        self._accounts: dict[int, _Account] = {}
        self._total = _Account()
        self._running: dict[Allocation, None] = {}
        self._last_rank = 0

    def update(self, state: State) -> None:
        """Account for what has started and ended since the last call; a repeat changes nothing.

        With periodic scheduling an allocation counts until the decision that follows its end.
        """
        for user in np.unique(state.queue.columns().user).tolist():
            self._accounts.setdefault(int(user), _Account())
        fresh = [a for a in state.ended if a.rank > self._last_rank]
        for allocation in reversed(tuple(state.running)):
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

    def _change(self, allocation: Allocation, at: float, sign: float) -> None:
        account = self._accounts.setdefault(allocation.task.user, _Account())
        for each in (account, self._total):
            each.change(sign * allocation.held[0], at, self._decay)

    def of(self, user: int, now: float) -> float:
        """Return a user's decayed usage in processor-seconds."""
        account = self._accounts.get(user)
        return account.at(now, self._decay) if account else 0.0

    def factors(self, users: Floats, now: float) -> Floats:
        """Return (n,): the fair-share factor of each task's user."""
        total = self._total.at(now, self._decay)
        if total <= 0.0:
            return np.ones(len(users))
        each, place = np.unique(users, return_inverse=True)
        used = np.array([self.of(int(user), now) for user in each.tolist()])
        factors: Floats = np.exp2(-used / total * len(self._accounts))
        return factors[place]


class _Account:
    """A decayed integral: u' = rate − decay · u, solved exactly between changes of the rate."""

    __slots__ = ("_rate", "_time_s", "_used")

    def __init__(self) -> None:
        self._used = 0.0
        self._rate = 0.0
        self._time_s = 0.0

    def at(self, now: float, decay: float) -> float:
        """Return the integral at a time, which may lie a little before the last change."""
        left = float(np.exp(-decay * (now - self._time_s)))
        return self._used * left + self._rate / decay * (1.0 - left)

    def change(self, amount: float, at: float, decay: float) -> None:
        """Raise the rate by an amount, from a time on."""
        if at >= self._time_s:
            self._used, self._time_s = self.at(at, decay), at
        else:  # the start of an allocation that was noticed late
            self._used += amount / decay * -float(np.expm1(-decay * (self._time_s - at)))
        self._rate += amount
