"""Where the games of a ready pool's learners come from: a scenario, stream by stream."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.agent.encoder import Numbers, ObservationSchema
from simkit.agent.ready_pool import (
    ReadyPool,
    ready_image,
    ready_image_schema,
    ready_set,
    ready_set_schema,
)
from simkit.agent.ready_pool_actions import Advance
from simkit.arrays import Floats, stream
from simkit.learners.lockstep.ready_pool.accounts import COSTS, Cost
from simkit.learners.lockstep.ready_pool.endless import EndlessReadyGames
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import JobStreams, StreamSource
from simkit.scenario import Scenario

__all__ = ["HORIZON", "REWARD", "ReadySource"]

HORIZON: Final = 48
"""Steps ahead that are planned, as in the dissertation."""
REWARD: Final = "value-at-decision"
"""The account of what agents are paid."""
_WAITING: Final = 144
"""Places behind the ready pool, by which their number is scaled, if the scenario sets no limit."""


class ReadySource:
    """Games of a scenario's pool, jobs and power, each of a seed of its own."""

    def __init__(
        self, scenario: Scenario, *, hours: int, max_start: int = 0, reject: bool = False,
        suspend: int = 0, advance: Advance = "no-op", horizon: int = HORIZON, image: bool = False,
        cost: Cost = "waiting", discount: float = 1.0,
    ) -> None:  # fmt: skip
        """Read a scenario; raises ScenarioError as `StreamSource` does.

        Args:
            scenario: its admission says how large the pools are, and whether late jobs leave.
            hours: of a game, in steps.
            max_start: the last step ahead in which a job may start.
            reject: whether jobs may be rejected.
            suspend: how many of what runs the agent may choose from, to suspend it.
            advance: when time goes on.
            horizon: steps ahead that are planned.
            image: whether agents see an image of the pool, as in the dissertation, or a set.
            cost: what the games' `accounts` count beside `REWARD`.
            discount: of a step, for the value at the decision.
        """
        admission, self.hours = scenario.admission, hours
        self.late_leave = admission.late == "leave"
        self._streams = StreamSource(scenario, hours + horizon, accounts := (REWARD, COSTS[cost]))
        self.resources, self.units = self._streams.resources, self._streams.units
        self.image = image
        waiting = _WAITING if admission.backlog is None else admission.backlog
        # without slots the source of the streams has refused the scenario
        self.pool = ReadyPool(
            resources=len(self._streams.resources), ready=admission.slots or 1,
            waiting=max(waiting, 1), horizon=horizon, max_start=max_start,
            step_s=self._streams.step_s,
        )  # fmt: skip
        self.rules: dict[str, Any] = {
            "late_leave": self.late_leave, "reject": reject, "suspend": suspend,
            "advance": advance,
            "backlog": admission.backlog, "accounts": accounts, "discount": discount,
        }  # fmt: skip

    @property
    def actions(self) -> int:
        """How many actions there are."""
        kinds, suspend = 2 if self.rules["reject"] else 1, int(self.rules["suspend"])
        return self.pool.ready * kinds + suspend + 1

    @property
    def whole_pool(self) -> float:
        """What the whole pool is worth for a step: the unit of what agents are paid."""
        return self.pool.worth * float(sum(self.units))

    @property
    def schema(self) -> ObservationSchema:
        """The meaning of what is seen."""
        if self.image:
            return ready_image_schema(self.pool, self.units)
        return ready_set_schema(self.pool)

    def see(self, games: ReadyGames) -> Numbers:
        """Return (A, K) what the active games show."""
        view, pool = games.view(), self.pool
        return ready_image(view, pool, self.units) if self.image else ready_set(view, pool)

    def paid(self, games: ReadyGames) -> Floats:
        """Return (A,) what agents are paid for the last step, in steps of the whole pool."""
        return games.accounts.reward(REWARD) / self.whole_pool

    def cost(self, games: ReadyGames, name: Cost) -> Floats:
        """Return (A,) what the last step cost."""
        return games.accounts.cost(name)

    def endless(self, games: int, rng: np.random.Generator) -> EndlessReadyGames:
        """Return games that go on for ever, of streams whose seeds `rng` draws."""

        def fresh(count: int) -> JobStreams:
            return self._streams.draw(rng.integers(2**31, size=count).tolist())

        return EndlessReadyGames(self.pool, games, fresh, hours=self.hours, **self.rules)

    def held_out(self, games: int) -> ReadyGames:
        """Return games to judge on; the same ones for every training."""
        seeds = stream(0, "ready_pool.held_out").integers(2**31, size=games).tolist()
        return self.games(seeds)

    def games(self, seeds: list[int]) -> ReadyGames:
        """Return the games of some seeds."""
        return ReadyGames(self.pool, self._streams.draw(seeds), hours=self.hours, **self.rules)
