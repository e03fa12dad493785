"""The arguments of the learner sofia."""

from __future__ import annotations

from typing import Literal

from simkit.learners.arguments import Extent, NotNegative, Positive, ReinforceArguments, Share
from simkit.learners.nn.optimisers import OptimiserName
from simkit.scenario.types import Count


class SofiaArguments(ReinforceArguments):
    """The keys of `learn.arguments`."""

    job_sets: Count = 5
    """Job sets per iteration."""
    update: Literal["gradient", "natural", "proximal"] = "natural"
    """How the weights are updated: one step of the optimiser, a bounded step along the natural
    gradient, or several steps of the optimiser on the clipped objective."""
    optimiser: OptimiserName = "adam"
    """The optimiser; the natural gradient does not use one."""
    observation: Literal["sofia-shares", "sofia-compact"] = "sofia-shares"
    """The study's state as shares of the capacity, or in units as in the study (sofia-compact)."""
    credit: Literal["all", "first"] = "all"
    """Which decisions contribute to the gradient: all, or the first of each
    step, as in the study."""
    value_learning_rate: Positive = 0.001
    """Learning rate of the value network."""
    normalise: bool = True
    """Divide the advantages of an iteration by their standard deviation; `entropy` then has the
    same scale."""
    entropy: NotNegative = 0.0
    """Weight of the policy's mean entropy, in nats, added to the objective."""
    kl: Positive = 0.01
    """Natural gradient: upper bound on the mean KL divergence of a step, in nats."""
    damping: NotNegative = 0.01
    """Natural gradient: added to the diagonal of the Fisher matrix."""
    products: Count = 10
    """Natural gradient: maximum number of products with the Fisher matrix."""
    fisher_share: Share = 0.1
    """Natural gradient: share of the decisions used for the Fisher matrix and the KL divergence."""
    clip: Positive = 0.2
    """Proximal: the ratio of probabilities is clipped to 1 ± this."""
    epochs: Count = 4
    """Proximal: passes over the decisions of an iteration."""
    batch: Count = 4096
    """Proximal: decisions per step of the optimiser."""
    held_out_sets: Count = 20
    """Job sets on which the agent is evaluated; the same for all trainings, never trained on."""
    max_decisions: Count = 4000
    """An episode ends after this many decisions; jobs still open then count as unfinished."""
    horizon: Extent = 60
    """Steps ahead in which tasks can be placed."""
    backlog_shown: Extent = 60
    """Tasks of the backlog that the agent observes; further ones are hidden."""
    last_step: Count = 150
    """The step whose load and reward are logged; the study's episodes end there."""
