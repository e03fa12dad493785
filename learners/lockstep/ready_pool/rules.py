"""Rules for ready pools in lock-step: who is placed next, or nobody.

The heuristics of the dissertation on power-modulated datacenters ("RARE", University of Virginia,
2023, section 5.4.2), and stronger ones to compare agents with. As policies of a simulation they are
orders with ``backfill: ready-pool``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.lockstep.ready_pool.games import ReadyGames

__all__ = ["ORDERS", "Rule", "by", "left_over", "play", "threshold"]

Rule = Callable[[ReadyGames], Ints]
"""Returns (A,) the action of each active game."""
Key = Callable[[ReadyGames], Floats]
"""Returns (A, P) numbers; the job with the lowest goes first, of equals the oldest."""


def by(key: Key) -> Rule:
    """Return the rule that places the job with the lowest key of those that may be placed."""

    def choose(games: ReadyGames) -> Ints:
        keys = np.where(games.starts() >= 0, key(games), np.inf)
        none = ~np.isfinite(keys).any(axis=1)
        return np.where(none, games.count - 1, keys.argmin(axis=1))

    return choose


def _qos(games: ReadyGames) -> Floats:
    return -games.facts("qos")


def _density(games: ReadyGames) -> Floats:
    """Return the negative of value over the larger share of a resource times hours."""
    share = (games.sizes() / np.array(games.sets.capacity)).max(axis=-1)
    work = share * games.facts("length")
    return -games.facts("value") / np.where(work > 0, work, 1.0)


ORDERS: Mapping[str, Rule] = {
    "fcfs": by(lambda games: np.zeros(games.jobs().shape)),
    "sjf": by(lambda games: games.facts("length")),
    "qos": by(_qos),
    "value": by(lambda games: -games.facts("value")),
    "value-density": by(_density),
}
"""Name of the order → rule."""


def threshold(least_qos: float) -> Rule:
    """Return the rule of the highest quality of service; jobs below the least are withheld."""
    return by(lambda games: np.where(games.facts("qos") >= least_qos, _qos(games), np.inf))


def left_over(last_hour: int, per_hour: float = 0.05) -> Rule:
    """Return the rule that leaves the least free when a job starts.

    It minimises the free shares of all resources, added up, plus `per_hour` for each hour until the
    start. Jobs that would start after the last hour are withheld.
    """

    def key(games: ReadyGames) -> Floats:
        start = games.starts()
        left = np.round(games.left_over() + per_hour * start, 9)  # equal ones stay equal
        return np.where(start <= last_hour, left, np.inf)

    return by(key)


def play(games: ReadyGames, rule: Rule) -> None:
    """Play games to their ends."""
    while len(games.active):
        games.step(rule(games))
