"""Arguments shared by the learners of a ready pool."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from simkit.learners.common.actor_critic.policy_losses import Filter
from simkit.learners.common.arguments import Positive, Share
from simkit.learners.common.shapes import Width
from simkit.learners.ready_pool.source import HORIZON
from simkit.sections import Count, Section

__all__ = ["OffPolicyArguments", "ReadyPoolArguments"]


class ReadyPoolArguments(Section):
    """How games of a ready pool are played and learned from; a learner adds its own."""

    iterations: Count
    """Iterations of the training."""
    games: Count
    """Games played in parallel."""
    decisions: Count
    """Decisions per game and iteration."""
    hours: Count = 2000
    """Steps of a game; then the next one begins."""
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    hidden: Width = 64
    """Units of each layer."""
    learning_rate: Positive
    """Initial learning rate of Adam; it falls linearly to 0."""
    discount: Share = 0.98
    """Discount factor γ per step of time."""
    held_out_games: Count = 32
    """Number of job streams on which the agent is evaluated; the same for all trainings, never
    trained on."""

    def environment(self) -> dict[str, Any]:
        """Return the arguments of `ReadySource`."""
        names = ("hours", "max_start", "reject", "discount")
        return {name: getattr(self, name) for name in names}


class OffPolicyArguments(ReadyPoolArguments):
    """Arguments of an actor and critics that learn from a replay memory."""

    games: Count = 64
    """Games played in parallel."""
    decisions: Annotated[int, Field(ge=2)] = 64
    """Decisions per game in an iteration that plays."""
    replay: Count = 50_000
    """Number of past decisions in the replay memory."""
    updates: Count = 200
    """Steps of the optimiser per iteration."""
    batch: Count = 256
    """Decisions per update."""
    learning_rate: Positive = 0.001
    """Initial learning rate of Adam; it falls linearly to 0."""
    critics: Count
    """Number of critics; the lowest of their values counts."""
    popart: bool = True
    """Normalise the critics' targets as they arrive (PopArt)."""
    follow: Share = 0.005
    """Share by which the target critics move towards the critics at every update."""
    filter: Filter = "binary"
    """Imitate past actions that are better than the policy's mean, all with equal weight; or all
    past actions, with a weight that grows with their advantage."""
    temperature: Positive = 0.1
    """Temperature of the exponential filter."""
