"""Evaluates agents and rules of a ready pool on given job streams; all jobs count."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from simkit.arrays import Floats, Ints
from simkit.learners.common.distributions import masked_log_softmax, sample
from simkit.learners.lockstep.ready_pool.accounts import Cost
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["Scores", "finish", "greedy_and_drawn", "rule_of"]


Scores = Callable[[Tensor], Tensor]
"""Returns (A, M) logits for (A, K) observations."""


def rule_of(
    source: ReadySource, scores: Scores, rng: np.random.Generator | None, device: str = "cpu"
) -> Rule:
    """Return the rule by which a network acts: its likeliest action, or with `rng` a drawn one."""

    @torch.inference_mode()
    def choose(games: ReadyGames) -> Ints:
        logits = scores(torch.from_numpy(source.see(games)).to(device))
        log_probs = masked_log_softmax(logits, torch.from_numpy(games.mask()).to(device))
        return log_probs.argmax(dim=-1).cpu().numpy() if rng is None else sample(log_probs, rng)

    return choose


def finish(games: ReadyGames, rule: Rule, cost: Cost = "waiting") -> Floats:
    """Play games to their ends; return their costs, (N,), summed over the hours."""
    costs = np.zeros(len(games.start))
    while len(active := games.active):
        games.step(rule(games))
        costs[active] += games.accounts.cost(cost)
    return costs


def greedy_and_drawn(
    source: ReadySource, games: int, rules: Callable[[bool], Rule], cost: Cost = "waiting"
) -> Mapping[str, float]:
    """Evaluate an agent on held-out streams, with its likeliest actions and with drawn ones.

    Args:
        source: where the streams come from.
        games: number of streams.
        rules: returns a rule for the agent, greedy or not.
        cost: the kind of cost, one of the accounts' `COSTS`.

    Returns:
        ``lost_value``: share of the value of all jobs that was not earned, or, where late jobs
        leave, not in time; ``cost``: mean cost per hour, such as the number of waiting jobs; and
        both for drawn actions, with the suffix ``_drawn``.
    """
    scores: dict[str, float] = {}
    for suffix, greedy in (("", True), ("_drawn", False)):
        played = source.held_out(games)
        costs, hours = finish(played, rules(greedy), cost), max(int(played.hours.sum()), 1)
        ratio = played.value_ratio(in_time=source.late_leave)
        scores[f"lost_value{suffix}"] = 1.0 - float(ratio.mean())
        scores[f"cost{suffix}"] = float(costs.sum()) / hours
    return scores
