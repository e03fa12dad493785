"""Accounts of lock-step ready pools: what decisions and hours bring and cost, part by part.

    games = ReadyGames(pool, streams, hours=2000, accounts=("value", "carbon"))
    games.step(actions)
    games.accounts.reward("value")  # (A,) of this step
    games.accounts.cost("carbon")

A part is the reward of the same name of a simulation (see `simkit.agent.reward`), with time
counted in steps; costs are below 0. Both are equal from one decision to the next. A part that is
not asked for takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from simkit.agent.rewards import discounted_share
from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.lockstep.ready_pool.streams import JobStreams

__all__ = ["ACCOUNTS", "COSTS", "Accounts", "Cost", "Hour"]


@dataclass(frozen=True)
class Hour:
    """An hour that is about to pass in K games."""

    streams: JobStreams
    """All of them, of J jobs each."""
    rows: Ints
    """(K,) rows among the A games that go on."""
    game: Ints
    """(K,) rows among all N games."""
    stream: Ints
    """(K,) the stream that each plays."""
    now: Ints
    """(K,) the present hour."""
    free: Ints
    """(R, A) units that are free."""
    end: Ints
    """(N, J) hour in which each job ends; `NEVER` if that is not known yet."""
    rejected: Ints
    """(N, J) hour in which each job was rejected; -1: it was not."""
    jobs: int
    """At most this many of the J jobs have been submitted."""

    @cached_property
    def powered(self) -> Ints:
        """(R, K) units that have power."""
        powered: Ints = self._given(self.streams.powered).T
        return powered

    @cached_property
    def held(self) -> Ints:
        """(R, K) units that jobs hold."""
        return self.powered - self.free[:, self.rows]

    @cached_property
    def site_rates(self) -> Mapping[str, Floats]:
        """`cost_per_s` and `carbon_g_per_s`, (K,) each."""
        streams = self.streams
        assert streams.energy is not None  # a source of streams has seen to it
        return streams.energy.rates(self._given(streams.signals), self.held, self.powered)

    def _given(self, hourly: Any) -> Any:
        """Return (K, …) this hour's rows of (S, T, …)."""
        return hourly[self.stream, np.minimum(self.now, hourly.shape[1] - 1)]

    def value_that_ends(self, *, in_time: bool) -> Floats:
        """Return (K,) the value of the jobs that end as the hour does."""
        row, job = np.nonzero(self.end[self.game, : self.jobs] == self.now[:, None] + 1)
        streams, which = self.streams, self.stream[row]
        value = streams.value[which, job]
        if in_time:
            start = self.now[row] + 1 - streams.length[which, job]
            value = np.where(start <= streams.last_start[which, job], value, 0.0)
        return _per_game(row, value, len(self.game))


def _utilisation(hour: Hour) -> Floats:
    """Return (K,) the share of the units that jobs hold, a mean over the resources."""
    units = np.array(hour.streams.capacity)
    there = units > 0
    share: Floats = (hour.held[there] / units[there, None]).mean(axis=0)
    return share


def _qos_violations(hour: Hour) -> Floats:
    """Return (K,) minus the part of the hour that each job is there after it should have ended."""
    now = hour.now[:, None]
    there = hour.end[hour.game, : hour.jobs] > now
    there &= hour.rejected[hour.game, : hour.jobs] < 0
    row, job = np.nonzero(there)
    late = hour.now[row] + 1 - hour.streams.due[hour.stream[row], job]
    return -_per_game(row, np.clip(late, 0.0, 1.0), len(now))


def _per_game(row: Ints, amount: Floats, games: int) -> Floats:
    """Return (K,) the sums of amounts of some rows."""
    return np.bincount(row, amount, minlength=games).astype(np.float64)


HOURLY: Final[Mapping[str, Callable[[Hour], Floats]]] = {
    "value-on-completion": lambda hour: hour.value_that_ends(in_time=False),
    "value": lambda hour: hour.value_that_ends(in_time=True),
    "utilisation": _utilisation,
    "qos-violations": _qos_violations,
    "energy-cost": lambda hour: -hour.site_rates["cost_per_s"] * hour.streams.step_s,
    "carbon": lambda hour: -hour.site_rates["carbon_g_per_s"] * hour.streams.step_s / 1000.0,
}
"""Name → (K,) what an hour brings; the last two in the currency of the prices and in kg of CO₂
equivalent."""

ACCOUNTS: Final = ("value-at-decision", "wait", *HOURLY)
"""Names of the parts, with the formulas of `simkit.agent.reward.REWARDS`."""
Cost = Literal["waiting", "qos-violations", "energy-cost", "carbon"]
"""What a constraint may limit."""
COSTS: Final[Mapping[Cost, str]] = {
    "waiting": "wait", "qos-violations": "qos-violations", "energy-cost": "energy-cost",
    "carbon": "carbon",
}  # fmt: skip
"""Cost → the part whose negative it is."""


class Accounts:
    """What the last step of some games brought, part by part."""

    def __init__(self, names: Collection[str] = (), discount: float = 1.0) -> None:
        """Open accounts.

        Args:
            names: some of `ACCOUNTS`.
            discount: γ of a step, for the value at the decision.

        Raises ScenarioError, all problems at once, for other names.
        """
        if unknown := [name for name in names if name not in ACCOUNTS]:
            raise ScenarioError(
                f"accounts: {name!r} is unknown; they are {', '.join(ACCOUNTS)}" for name in unknown
            )
        self._discount = discount
        self._sums: dict[str, Floats] = {name: np.zeros(0) for name in names}
        self._hourly = [(name, HOURLY[name]) for name in self._sums if name in HOURLY]
        self.hourly = bool(self._hourly)
        """Whether any part has to look at each hour."""

    def begin(self, games: int) -> None:
        """Begin a step of `games` games."""
        for name in self._sums:
            self._sums[name] = np.zeros(games)

    def place(self, rows: Ints, value: Floats, ahead: Ints, length: Ints) -> None:
        """Account for jobs that were placed: (K,) games, values, hours until they start, hours."""
        if (sums := self._sums.get("value-at-decision")) is not None:
            sums[rows] += value * discounted_share(self._discount, ahead, np.maximum(length, 1))

    def pass_hour(self, rows: Ints, hour: Hour) -> None:
        """Account for an hour that is about to pass in (K,) games."""
        for name, earned in self._hourly:
            self._sums[name][rows] += earned(hour)

    def end(self, waited: Ints) -> None:
        """End a step: (A,) waiting jobs, summed over its hours."""
        if "wait" in self._sums:
            self._sums["wait"] = -waited.astype(np.float64)

    def reward(self, name: str) -> Floats:
        """Return (A,) what the last step brought in the games that were active before it."""
        return self._sums[name]

    def cost(self, name: Cost) -> Floats:
        """Return (A,) what the last step cost; the name is one of `COSTS`."""
        return -self._sums[COSTS[name]]
