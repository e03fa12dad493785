"""The arguments of the learner deeprm."""

from __future__ import annotations

from typing import Literal

from simkit.learners.arguments import Extent, NotNegative, ReinforceArguments, Share
from simkit.learners.nn.optimisers import OptimiserName
from simkit.scenario.types import Count


class DeepRMArguments(ReinforceArguments):
    """The keys of `learn.arguments`."""

    job_sets: Count = 100
    """Job sets per iteration."""
    optimiser: OptimiserName = "rmsprop"
    """The optimiser; the original uses rmsprop."""
    observation: Literal["deeprm-image", "deeprm-compact"] = "deeprm-image"
    """The paper's image, or a compact encoding."""
    entropy: NotNegative = 0.0
    """Weight of a decision's entropy, in nats, added to its credit in units of the objective."""
    warm_start: Literal["none", "sjf"] = "none"
    """sjf: the network is first trained to imitate shortest job first."""
    warm_start_rounds: Count = 12
    """Rounds of the warm start, each with 200 job sets; a round takes about a second."""
    samples_share: Share = 1.0
    """Share of the decisions, drawn at random, that is used to compute the gradient."""
    held_out_sets: Extent = 100
    """Number of the original's unseen job sets on which the agent is evaluated."""
    horizon: Extent = 20
    """Steps ahead in which tasks can be placed."""
    memory: Extent = 10
    """Upper limit of the count of steps since the last arrival."""
    max_decisions: Count = 2000
    """An episode ends after this many decisions; jobs still open then count as unfinished."""
