"""How agents and rules of a ready pool do on given streams, all jobs counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from simkit.arrays import Ints
from simkit.learners.common.distributions import masked_log_softmax, sample
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["Scores", "finish", "greedy_and_drawn", "rule_of"]

Scores = Callable[[Tensor], Tensor]
"""Returns (A, M) logits of (A, K) observations."""


def rule_of(
    source: ReadySource, scores: Scores, rng: np.random.Generator | None, device: str = "cpu"
) -> Rule:
    """Return how a network acts: by its likeliest action, or with a generator by a drawn one."""

    @torch.inference_mode()
    def choose(games: ReadyGames) -> Ints:
        logits = scores(torch.from_numpy(source.see(games)).to(device))
        chances = masked_log_softmax(logits, torch.from_numpy(games.mask()).to(device))
        return chances.argmax(dim=-1).cpu().numpy() if rng is None else sample(chances, rng)

    return choose


def finish(games: ReadyGames, rule: Rule) -> Ints:
    """Play games to their ends; return (N,) how many jobs waited, summed over the hours."""
    waited = np.zeros(len(games.start), np.int64)
    while len(active := games.active):
        waited[active] += games.step(rule(games)).waited
    return waited


def greedy_and_drawn(
    source: ReadySource, games: int, scores: Scores, rng: np.random.Generator, device: str = "cpu"
) -> Mapping[str, float]:
    """Return how a network does on held-out streams, with the likeliest actions and drawn ones.

    ``lost_value``: the share of the value that came and was not brought, in time where late jobs
    leave; ``cost``: waiting jobs in the mean; and both with drawn actions (``_drawn``).
    """
    found = {}
    for name, drawn_by in (("", None), ("_drawn", rng)):
        played = source.held_out(games)
        waited = finish(played, rule_of(source, scores, drawn_by, device))
        ratio = played.value_ratio(in_time=source.late_leave)
        found[f"lost_value{name}"] = 1.0 - float(ratio.mean())
        found[f"cost{name}"] = float(waited.sum() / max(int(played.hours.sum()), 1))
    return found
