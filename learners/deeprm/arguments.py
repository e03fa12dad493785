"""DeepRM's arguments: what `learn.arguments` may say."""

from __future__ import annotations

from typing import Literal

from simkit.learners.arguments import Extent, NotNegative, ReinforceArguments, Share
from simkit.learners.nn.optimisers import OptimiserName
from simkit.scenario.types import Count


class DeepRMArguments(ReinforceArguments):
    """What `learn.arguments` may say."""

    job_sets: Count = 100
    """Job sets an iteration."""
    optimiser: OptimiserName = "rmsprop"
    """rmsprop, as in the original, or adam."""
    observation: Literal["deeprm-image", "deeprm-compact"] = "deeprm-image"
    """The image of the paper, or deeprm-compact."""
    entropy: NotNegative = 0.0
    """Weight of a decision's entropy, in nats, added to its credit in units of the objective."""
    warm_start: Literal["none", "sjf"] = "none"
    """none; or sjf: the network first learns to act as shortest-job-first does."""
    warm_start_rounds: Count = 12
    """Rounds of 200 job sets of the warm start; about a second each."""
    samples_share: Share = 1.0
    """Share of the decisions, drawn at random, that the gradient is taken over."""
    held_out_sets: Extent = 100
    """How many of the original's unseen job sets the agent is judged by."""
    horizon: Extent = 20
    """Steps ahead that are planned."""
    memory: Extent = 10
    """Steps since the last arrival are counted up to here."""
    max_decisions: Count = 2000
    """After so many decisions an episode is ended; jobs that are not done count as unfinished."""
