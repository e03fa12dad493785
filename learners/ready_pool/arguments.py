"""Arguments shared by the learners of a ready pool."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from simkit.learners.common.arguments import Positive, Share
from simkit.learners.common.shapes import Width
from simkit.learners.ready_pool.source import HORIZON
from simkit.sections import Count, Section

__all__ = ["EndlessArguments", "ReadyPoolArguments"]


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


class EndlessArguments(Section):
    """Games without an end, which a learner may play instead of episodes."""

    games: Count | None = None
    """Games of a ready pool without an end, played side by side in lock-step; null: episodes."""
    decisions: Annotated[int, Field(ge=2)] = 64
    """Decisions of each game per iteration."""
    hours: Count = 2000
    """Steps of a stream of jobs; then the next one begins."""
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    held_out_games: Count = 32
    """Number of job streams on which the agent is evaluated; the same for all trainings, never
    trained on."""
