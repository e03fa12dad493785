"""Actor-critic: an actor that follows critics, who learn from remembered decisions.

P. Christodoulou, "Soft actor-critic for discrete action settings" (2019), adapted to scheduling:
each iteration plays every slice of the workload several times, and a decision's return is counted
from the mean of the slice's rollouts from the same step of time on, or the same decision. This
takes out what no action changes, and leaves the best policy the same, as such a mean is a function
of the state (A. Y. Ng, D. Harada and S. Russell, "Policy invariance under reward transformations",
1999). Decisions that leave no choice are not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from simkit.arrays import Floats, Ints
from simkit.learners.common.actor_critic.critics import Critic, Critics
from simkit.learners.common.actor_critic.off_policy import ActorAndCritics, Transitions
from simkit.learners.common.actor_critic.policy_losses import soft_policy_loss, temperature_loss
from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.baselines import rollout_means
from simkit.learners.common.distributions import entropy
from simkit.learners.common.games import NOTHING_DONE, Source, results_of
from simkit.learners.common.networks import Network, build, seeded
from simkit.learners.common.optimisers import linear, take_step
from simkit.learners.common.replay import Columns, Replay
from simkit.learners.common.returns import deviation_by_group, rewards_to_go
from simkit.learners.common.rollouts import Rollouts, roll_out
from simkit.learners.common.shapes import Width
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.scenario import Scenario
from simkit.sections import Count
from simkit.training import Training

LARGEST_GRADIENT: Final = 10.0
"""Gradients are clipped to this norm."""
FIRST_TEMPERATURE: Final = 0.01
"""Initial value of a nat of the actor's entropy, in deviations of the returns."""
TEMPERATURE_RATE: Final = 0.003
"""Learning rate of the logarithm of the temperature."""
USUAL: Final = {"job_sets": 12, "rollouts": 4, "held_out_sets": 40, "max_decisions": 5_000}
"""Defaults for simulations, which take longer than job sets in lock-step."""


class ActorCriticArguments(GamesArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training."""
    job_sets: Count = 50
    """New slices per iteration, over all loads: job sets, or windows of a log."""
    rollouts: Annotated[int, Field(ge=2)] = 4
    """Episodes of each slice."""
    hidden: Width = 32
    """Units of each layer."""
    critics: Count = 2
    """Critics; the lowest of their values counts."""
    steps: Count = 2
    """n: rewards are summed over this many decisions before a value is estimated."""
    discount: Share = 0.98
    """Factor of the value that is estimated after them."""
    replay: Count = 40_000
    """Number of decisions in the replay memory."""
    batch: Count = 256
    """Decisions per update."""
    updates: Count = 150
    """Updates per iteration."""
    learning_rate: Positive = 0.002
    """Initial learning rate of Adam; it falls linearly to 0."""
    follow: Share = 0.02
    """The slow copies of the critics move by this share of the way at every update."""
    entropy: NotNegative = 0.4
    """Initial entropy that is wanted of the actor, as a share of that of a random one."""
    entropy_end: NotNegative = 0.1
    """The same at the end of the training; it falls linearly."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that no agent can play, arguments out
    of range, or a missing device; PluginError without safetensors, which the first checkpoint
    needs.
    """

    def source_of(chosen: ActorCriticArguments) -> Source[Any]:
        return games_of(scenario, chosen, "actor-critic", chosen.job_sets)

    given = {**usual_numbers(scenario, USUAL, arguments), **arguments}
    chosen, source = prepared(ActorCriticArguments, given, source_of, device)
    return ActorCriticTraining(scenario, source, chosen, seed, device)


class ActorCriticTraining(TorchTraining):
    """A training of an actor and its critics."""

    learner = "actor-critic"

    def __init__(
        self, scenario: Scenario, source: Source[Any], arguments: ActorCriticArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("job_sets", "actions", "memories"))
        self.chosen, self.device = arguments, device
        # Environment
        self.source = source
        self.unseen = source.held_out(arguments.held_out_sets)
        self.criterion = source.criterion
        # Agent
        shape = source.scorer(arguments.hidden)
        with seeded(self.stream("weights")):
            critics = Critics(arguments.critics, lambda: Critic(build(shape)))
            self._network = ActorAndCritics(build(shape), critics, arguments.discount).to(device)
        with torch.no_grad():
            self.network.log_temperature.fill_(np.log(FIRST_TEMPERATURE))
        groups: list[dict[str, Any]] = [
            {"params": list(self.network.learned())},
            {"params": [self.network.log_temperature], "lr": TEMPERATURE_RATE},
        ]
        self.optimiser = torch.optim.Adam(groups, arguments.learning_rate)
        # Memory
        self.memory = Replay(arguments.replay)

    @property
    def network(self) -> ActorAndCritics:
        return self._network

    @property
    def actor(self) -> Network:
        """The network whose logits are those of the agent's actions."""
        actor = self.network.actor
        assert isinstance(actor, Network)
        return actor

    def parts(self) -> Mapping[str, Stateful]:
        return {"memory": self.memory}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode; ``slowdown``, ``unfinished``: of the rollouts, over
        all jobs; ``decisions``: of all rollouts; ``choices``: decisions that left a choice;
        ``loss``: of the critics, in squared deviations of the returns; ``entropy``: of the actor,
        in nats; ``temperature``: the value of a nat. If no slice has a job, nothing is learned, and
        only `NOTHING_DONE` is returned.
        """
        chosen = self.chosen
        done = (self.iteration - 1) / self.iterations
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        # Rollout
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        rollouts = roll_out(games, self.actor, self.generators["actions"], self.device)
        # Memory
        rows = self._decisions(rollouts, self._differences(rollouts))
        self.memory.extend(rows)
        # Update
        self.optimiser.param_groups[0]["lr"] = linear(chosen.learning_rate, 0.0, done)
        wanted = linear(chosen.entropy, chosen.entropy_end, done)
        updates = chosen.updates if len(self.memory) else 0
        losses = [self._improve(wanted) for _ in range(updates)]
        # Logging
        results = games.outcome()
        return {
            "return": float(rollouts.rewards.sum(axis=0).mean()),
            **{name: results[name] for name in ("slowdown", "unfinished") if name in results},
            "decisions": float(len(rollouts.actions)),
            "choices": float(len(rows["actions"])),
            "loss": float(np.mean([loss for loss, _ in losses])) if losses else 0.0,
            "entropy": float(np.mean([nats for _, nats in losses])) if losses else 0.0,
            "temperature": float(self.network.log_temperature.detach().exp()),
        }

    def _differences(self, rollouts: Rollouts) -> Floats:
        """Return (D,) returns from each decision on, minus their mean over the slice's rollouts.

        They are in standard deviations of their group of slices.
        """
        chosen, to_go = self.chosen, rewards_to_go(rollouts.rewards, 1.0)
        mean = rollout_means(
            rollouts.rewards, to_go, rollouts.grid(rollouts.step), chosen.rollouts,
            by_step=self.source.in_steps,
        )  # fmt: skip
        difference = rollouts.rows(to_go - mean)
        group = self.source.group_of(chosen.job_sets)[rollouts.episode // chosen.rollouts]
        result: Floats = difference / deviation_by_group(difference, group)
        return result

    def _decisions(self, rollouts: Rollouts, difference: Floats) -> Columns:
        """Return the decisions that left a choice, with what came of them after n of these.

        Args:
            rollouts: D decisions.
            difference: (D,) see `_differences`; what is earned between two decisions is theirs.
        """
        choices = np.flatnonzero(rollouts.allowed.sum(axis=1) > 1)
        own: Ints = choices[np.lexsort((rollouts.decision[choices], rollouts.episode[choices]))]
        place = np.arange(len(own))
        later = np.minimum(place + self.chosen.steps, max(len(own) - 1, 0))
        same = rollouts.episode[own[later]] == rollouts.episode[own]
        over = ~same | (later < place + self.chosen.steps)
        after = own[np.where(over, place, later)]
        return {
            "seen": rollouts.seen[own],
            "allowed": rollouts.allowed[own],
            "actions": rollouts.actions[own],
            "rewards": (difference[own] - np.where(over, 0.0, difference[after])).astype(
                np.float32
            ),
            "passed": np.ones(len(own), np.float32),
            "over": over,
            "after": rollouts.seen[after],
            "allowed_after": rollouts.allowed[after],
        }

    def _improve(self, wanted_share: float) -> tuple[float, float]:
        """Take one step of Adam; return the critics' loss, and the actor's mean entropy in nats."""
        network, chosen = self.network, self.chosen
        drawn = self.memory.draw(chosen.batch, self.generators["memories"])
        batch = Transitions.of(drawn.columns).to(self.device)
        temperature = network.log_temperature.detach().exp()
        error = network.critics.error(
            batch.seen, batch.actions, network.goals(batch, temperature=temperature)
        )
        log_probs = network.log_probabilities(batch.seen, batch.allowed)
        values: Tensor = network.critics(batch.seen)
        wanted = wanted_share * batch.allowed.sum(dim=-1).float().log()
        loss = (
            error
            + soft_policy_loss(values, log_probs, temperature)
            + temperature_loss(network.log_temperature, log_probs, wanted)
        )
        take_step(self.optimiser, loss, LARGEST_GRADIENT)
        network.follow(chosen.follow)
        return float(error.detach()), float(entropy(log_probs.detach()).mean())

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out slices; see `outcome`.

        Agents that draw their actions do so with the same draws in every evaluation. See
        `results_of`.
        """
        games, rng = self.source.games(self.unseen), self.stream("held_out")
        rollouts = roll_out(games, self.actor, rng, self.device, greedy=self.source.greedy)
        mean = float(rollouts.rewards.sum(axis=0).mean())
        return results_of(games, self.criterion, mean)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.actor
        self.write_network(folder, actor, self.source.describe(actor.shape), curve_end)
