"""The source of a ready pool's games: draws job streams from a scenario."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.agent.encoder import Numbers, ObservationSchema
from simkit.agent.ready_pool import (
    ReadyPool,
    ready_context_size,
    ready_set,
    ready_set_schema,
    ready_size,
)
from simkit.arrays import Floats, stream
from simkit.learners.common.bundle import describe_view, of_ready_pool
from simkit.learners.common.shapes import SetScorerShape
from simkit.learners.lockstep.ready_pool.accounts import COSTS, Cost
from simkit.learners.lockstep.ready_pool.endless import EndlessReadyGames
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import JobStreams, StreamSource
from simkit.scenario import Scenario

__all__ = ["HORIZON", "REWARD", "ReadySource"]

HORIZON: Final = 48
"""Steps that can be planned ahead, as in the dissertation."""
REWARD: Final = "value-at-decision"
"""The account that is the agents' reward."""
_WAITING: Final = 144
"""Scale of the number of jobs behind the ready pool, if the scenario does not limit it."""


class ReadySource:
    """Makes games with a scenario's pool, jobs and power, each with a seed of its own."""

    def __init__(
        self, scenario: Scenario, *, hours: int, max_start: int = 0, reject: bool = False,
        horizon: int = HORIZON, cost: Cost = "waiting", discount: float = 1.0,
    ) -> None:  # fmt: skip
        """Read a scenario; raises ScenarioError as `StreamSource` does.

        Args:
            scenario: its admission sets the size of the ready pool and whether late jobs leave.
            hours: steps of a game.
            max_start: the last step ahead in which a job may start.
            reject: whether jobs may be rejected.
            horizon: steps that can be planned ahead.
            cost: the cost that the games' `accounts` count in addition to `REWARD`.
            discount: γ per step, for the value at the decision.
        """
        admission, self.hours = scenario.admission, hours
        self.late_leave = admission.late == "leave"
        self._streams = StreamSource(scenario, hours + horizon, accounts := (REWARD, COSTS[cost]))
        self.resources, self.units = self._streams.resources, self._streams.units
        waiting = _WAITING if admission.backlog is None else admission.backlog
        # the stream source has already refused a scenario without slots
        self.pool = ReadyPool(
            resources=len(self._streams.resources), ready=admission.slots or 1,
            waiting=max(waiting, 1), horizon=horizon, max_start=max_start,
            step_s=self._streams.step_s,
        )  # fmt: skip
        self.rules: dict[str, Any] = {
            "late_leave": self.late_leave, "reject": reject, "backlog": admission.backlog,
            "accounts": accounts, "discount": discount,
        }  # fmt: skip

    @property
    def actions(self) -> int:
        """The number of actions."""
        return self.pool.ready * (2 if self.rules["reject"] else 1) + 1

    @property
    def whole_pool(self) -> float:
        """The value of the whole pool for one step: the unit of rewards."""
        return self.pool.worth * float(sum(self.units))

    @property
    def schema(self) -> ObservationSchema:
        """The meaning of the numbers of an observation."""
        return ready_set_schema(self.pool)

    def scorer(self, hidden: int) -> SetScorerShape:
        """Return the shape of a scorer of jobs with `hidden` units per layer.

        It scores placing each job and doing nothing, and, if that is allowed, rejecting each job.
        """
        pool = self.pool
        return SetScorerShape(
            type="set-scorer", context=ready_context_size(pool), items=pool.ready,
            features=ready_size(pool), hidden=hidden, scores=2 if self.rules["reject"] else 1,
            others=1, activation="relu",
        )  # fmt: skip

    def describe(self, shape: SetScorerShape) -> dict[str, Any]:
        """Return the description of an agent for its bundle."""
        kind = of_ready_pool(
            self.schema.name, self.pool, in_time=self.late_leave, reject=self.rules["reject"]
        )
        return describe_view(shape, self.schema, self.actions, kind)

    def see(self, games: ReadyGames) -> Numbers:
        """Return (A, K) observations of the active games."""
        return ready_set(games.view(), self.pool)

    def paid(self, games: ReadyGames) -> Floats:
        """Return (A,) rewards for the last step, in steps of the whole pool."""
        return games.accounts.reward(REWARD) / self.whole_pool

    def cost(self, games: ReadyGames, name: Cost) -> Floats:
        """Return (A,) costs of the last step."""
        return games.accounts.cost(name)

    def endless(self, games: int, rng: np.random.Generator) -> EndlessReadyGames:
        """Return endless games on streams whose seeds `rng` draws."""

        def fresh(count: int) -> JobStreams:
            return self._streams.draw(rng.integers(2**31, size=count).tolist())

        return EndlessReadyGames(self.pool, games, fresh, hours=self.hours, **self.rules)

    def held_out(self, games: int) -> ReadyGames:
        """Return games for evaluation; the same ones for every training."""
        seeds = stream(0, "ready_pool.held_out").integers(2**31, size=games).tolist()
        return self.games(seeds)

    def games(self, seeds: list[int]) -> ReadyGames:
        """Return one game for each seed."""
        return ReadyGames(self.pool, self._streams.draw(seeds), hours=self.hours, **self.rules)
