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
from typing import ClassVar

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.policies.value_orders import duration_s
from simkit.policy import State, SystemInfo
from simkit.policy.declared import NO_SIGNALS, Signals
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
