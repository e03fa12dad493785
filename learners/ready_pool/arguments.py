"""Arguments that the learners of a ready pool share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from simkit.agent.ready_pool_actions import Advance
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
    """Replicas that are played at the same time."""
    decisions: Count
    """Decisions of each replica in an iteration."""
    hours: Count = 2000
    """Steps of a game; then another begins."""
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    advance: Advance = "no-op"
    """Time goes on when the agent does nothing, or with each of its actions."""
    hidden: Width = 64
    """Units of each layer."""
    learning_rate: Positive
    """Learning rate of Adam at first; it falls to 0 in equal steps."""
    discount: Share = 0.98
    """γ of a step of time."""
    held_out_games: Count = 32
    """Streams on which the agent is evaluated; the same for all trainings, never trained on."""

    def environment(self) -> dict[str, Any]:
        """Return what `ReadySource` is told."""
        told = ("hours", "max_start", "reject", "advance", "discount")
        return {name: getattr(self, name) for name in told}


class OffPolicyArguments(ReadyPoolArguments):
    """Arguments of an actor and critics that learn from a memory."""

    games: Count = 64
    """Replicas that are played at the same time."""
    decisions: Annotated[int, Field(ge=2)] = 64
    """Decisions of each replica in an iteration that plays."""
    replay: Count = 50_000
    """Decisions of the games that are remembered."""
    updates: Count = 200
    """Steps of the optimiser in an iteration."""
    batch: Count = 256
    """Decisions of an update."""
    learning_rate: Positive = 0.001
    """Learning rate of Adam at first; it falls to 0 in equal steps."""
    critics: Count
    """Number of critics; the least of their values counts."""
    popart: bool = True
    """Targets of the critics are normalised as they arrive."""
    follow: Share = 0.005
    """Share by which the slow critics follow at every update."""
    filter: Filter = "binary"
    """Remembered actions above the mean weigh alike, or all weigh by how much better they are."""
    temperature: Positive = 0.1
    """Temperature of the exponential filter."""
