"""Sofia's arguments: what `learn.arguments` may say."""

from __future__ import annotations

from typing import Literal

from simkit.learners.arguments import Extent, NotNegative, Positive, ReinforceArguments, Share
from simkit.learners.nn.optimisers import OptimiserName
from simkit.scenario.types import Count


class SofiaArguments(ReinforceArguments):
    """What `learn.arguments` may say."""

    job_sets: Count = 5
    """Job sets an iteration."""
    update: Literal["gradient", "natural", "proximal"] = "natural"
    """gradient: a step of the optimiser; natural: a bounded step along the natural gradient;
    proximal: several steps of the optimiser on the clipped objective."""
    optimiser: OptimiserName = "adam"
    """adam or rmsprop; the natural gradient needs none."""
    observation: Literal["sofia-shares", "sofia-compact"] = "sofia-shares"
    """The study's state in shares of the capacity, or in units as in the study: sofia-compact."""
    credit: Literal["all", "first"] = "all"
    """Decisions that are learned from: all, or the first of each step, as in the study."""
    value_learning_rate: Positive = 0.001
    """Of the value network."""
    normalise: bool = True
    """Divide the advantages of an iteration by their spread, so that `entropy` is in its unit."""
    entropy: NotNegative = 0.0
    """Weight of the policy's mean entropy, in nats, added to the objective."""
    kl: Positive = 0.01
    """Natural gradient: bound of the mean KL divergence of a step, in nats."""
    damping: NotNegative = 0.01
    """Natural gradient: what is added to the Fisher matrix's diagonal."""
    products: Count = 10
    """Natural gradient: the most products with the Fisher matrix."""
    fisher_share: Share = 0.1
    """Natural gradient: share of the decisions that the Fisher matrix and the KL are taken over."""
    clip: Positive = 0.2
    """Proximal: how far from 1 a ratio of probabilities still counts."""
    epochs: Count = 4
    """Proximal: passes over the decisions of an iteration."""
    batch: Count = 4096
    """Proximal: decisions a step of the optimiser."""
    held_out_sets: Count = 20
    """Job sets that the agent is judged by; the same for all trainings, and never learned from."""
    max_decisions: Count = 4000
    """After so many decisions an episode is ended; jobs that are not done count as unfinished."""
    horizon: Extent = 60
    """Steps ahead that are planned."""
    backlog_shown: Extent = 60
    """Tasks behind the slots that are seen; more wait unseen."""
    last_step: Count = 150
    """The step whose load and reward are logged; the study's episodes end there."""
