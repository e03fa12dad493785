"""What trainings of an actor with critics share: how they play, are judged, and write an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simkit.learners.common.actor_critic.off_policy import ActorAndCritics
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.description import describe_ready_pool
from simkit.learners.ready_pool.judge import greedy_and_drawn, rule_of
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["OffPolicyTraining"]


class OffPolicyTraining(TorchTraining):
    """A training of an actor and critics on a ready pool."""

    less_is_better = ("lost_value", "lost_value_drawn", "cost", "cost_drawn")
    actor_and_critics: ActorAndCritics
    """Set by the learner, as the next three are."""
    source: ReadySource
    held_out_games: int
    device: str

    @property
    def network(self) -> ActorAndCritics:
        return self.actor_and_critics

    def own_rule(self) -> Rule:
        """Return how the actor plays in its games: by drawn actions."""
        rng = self.generators["actions"]
        return rule_of(self.source, self.network.actor, rng, self.device)

    def evaluate(self) -> Mapping[str, float]:
        """Return how the agent does on held-out streams; see `greedy_and_drawn`."""
        return greedy_and_drawn(self.source, self.held_out_games, self._judged)

    def _judged(self, greedy: bool) -> Rule:
        rng = None if greedy else self.stream("held_out")
        return rule_of(self.source, self.network.actor, rng, self.device)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.network.actor
        self.write_network(folder, actor, describe_ready_pool(actor.shape, self.source), curve_end)
