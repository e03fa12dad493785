"""Evaluates agents and rules of a ready pool on given job streams; all jobs count."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from simkit.arrays import Ints
from simkit.learners.common.distributions import masked_log_softmax, sample
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import Rule, play
from simkit.learners.lockstep.ready_pool.streams import JobStreams
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["Scores", "greedy_and_drawn", "rule_of"]


Scores = Callable[[Tensor], Tensor]
"""Returns (A, M) logits for (A, K) observations."""


def rule_of(scores: Scores, rng: np.random.Generator | None, device: str = "cpu") -> Rule:
    """Return the rule by which a network acts: its likeliest action, or with `rng` a drawn one."""

    @torch.inference_mode()
    def choose(games: ReadyGames) -> Ints:
        logits = scores(torch.from_numpy(games.observe()).to(device))
        log_probs = masked_log_softmax(logits, torch.from_numpy(games.mask()).to(device))
        return log_probs.argmax(dim=-1).cpu().numpy() if rng is None else sample(log_probs, rng)

    return choose


def greedy_and_drawn(
    source: ReadySource, streams: JobStreams, rules: Callable[[bool], Rule]
) -> Mapping[str, float]:
    """Evaluate an agent on job streams, with its likeliest actions and with drawn ones.

    Args:
        source: where the streams come from.
        streams: held out.
        rules: returns a rule for the agent, greedy or not.

    Returns:
        ``lost_value`` and ``cost``, see `ReadyGames.outcome`; and both for drawn actions, with the
        suffix ``_drawn``.
    """
    scores: dict[str, float] = {}
    for suffix, greedy in (("", True), ("_drawn", False)):
        play(games := source.games(streams), rules(greedy))
        outcome = games.outcome()
        scores |= {f"{name}{suffix}": outcome[name] for name in ("lost_value", "cost")}
    return scores
