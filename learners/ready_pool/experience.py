"""Games of a ready pool that go on for ever, and the memory of what happened in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.learners.common.trajectories import Rows, Trajectories
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["Experience", "Went"]


@dataclass(frozen=True)
class Went:
    """How some decisions went."""

    value_per_hour: float
    """What was paid, in steps of the whole pool."""
    cost: float
    """Waiting jobs, in the mean."""


class Experience:
    """N games that are played decision by decision, and remembered."""

    def __init__(
        self, source: ReadySource, games: int, rows: int, rng: np.random.Generator
    ) -> None:
        """Begin.

        Args:
            source: of the games.
            games: N.
            rows: decisions of each game that are remembered.
            rng: draws the streams' seeds.
        """
        self.source, self.games = source, source.endless(games, rng)
        self.memory = Trajectories(rows, games)

    def play(self, rule: Rule, decisions: int) -> Went:
        """Take some decisions of each game by a rule, and remember them."""
        games, value, waited, hours = self.games, 0.0, 0.0, 0
        for _ in range(decisions):
            seen, allowed = self.source.see(games), games.mask()
            actions = rule(games)
            passed = games.step(actions)
            paid = self.source.paid(games)
            self.memory.add(
                Rows(
                    seen, allowed, actions, paid, passed.hours.astype(np.float64),
                    over=np.zeros(len(actions), np.bool_), known=~games.begun,
                )
            )  # fmt: skip
            value, waited = value + float(paid.sum()), waited + float(passed.waited.sum())
            hours += int(passed.hours.sum())
        return Went(value / max(hours, 1), waited / max(hours, 1))
