"""Endless games of a ready pool, and the memory of what happened in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.learners.common.replay import Trajectories
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["Experience", "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of some decisions."""

    value_per_hour: float
    """Value paid per hour, in steps of the whole pool."""
    cost: float
    """Mean number of waiting jobs."""


class Experience:
    """N games, played decision by decision, and the memory of them."""

    def __init__(
        self, source: ReadySource, games: int, rows: int, rng: np.random.Generator
    ) -> None:
        """Start the games.

        Args:
            source: where the games come from.
            games: N.
            rows: past decisions of each game that the memory holds.
            rng: draws the seeds of the job streams.
        """
        self.source, self.games = source, source.endless(games, rng)
        self.memory = Trajectories(rows)

    def play(self, rule: Rule, decisions: int) -> Outcome:
        """Take some decisions in each game by a rule, and add them to the memory."""
        games, value, waited, hours = self.games, 0.0, 0.0, 0
        for _ in range(decisions):
            seen, allowed = games.observe(), games.mask()
            actions = rule(games)
            paid = games.step(actions)
            self.memory.add({
                "seen": seen, "allowed": allowed, "actions": actions, "rewards": paid,
                "passed": games.passed.astype(np.float64),
                "over": np.zeros(len(actions), np.bool_), "known": ~games.begun,
            })  # fmt: skip
            value, waited = value + float(paid.sum()), waited + float(games.cost.sum())
            hours += int(games.passed.sum())
        return Outcome(value / max(hours, 1), waited / max(hours, 1))
