"""CoCoRL: constrained PPO for a green datacenter's ready pool.

"CoCoRL" is chapter 6 of the dissertation on power-modulated datacenters (University of Virginia,
2023): PPO with a second critic, for costs, and a multiplier that a PID controller adjusts to keep
the cost below its limit (A. Stooke, J. Achiam and P. Abbeel, "Responsive safety in reinforcement
learning by PID Lagrangian methods", 2020). Without a limit it is plain PPO (J. Schulman et al.,
"Proximal policy optimization algorithms", 2017).

The cost is the number of waiting jobs in each hour, or another account. A job's value for all hours
that it will run is paid when it is placed: paid while jobs run, the reward would come too late to
learn from. Games are endless, and time passes unevenly between decisions: rewards are counted above
their mean per hour, and discounted by the hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from simkit.agent.rewards import sum_of_powers
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.common.actor_critic.multiplier import Gains, Multiplier
from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.distributions import (
    clipped_gain,
    entropy,
    log_probability,
    masked_log_softmax,
    sample,
)
from simkit.learners.common.networks import ActorCritic, SetScorer, build, seeded
from simkit.learners.common.optimisers import linear, set_learning_rate, take_step
from simkit.learners.common.returns import MovingMean, advantages_over_time
from simkit.learners.common.rollouts import Batch, minibatches
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.lockstep.ready_pool.accounts import Cost
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.arguments import ReadyPoolArguments
from simkit.learners.ready_pool.cost_limit import CostLimit
from simkit.learners.ready_pool.judge import greedy_and_drawn
from simkit.learners.ready_pool.sizes import SourceOfSizes
from simkit.learners.ready_pool.source import ReadySource
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many
from simkit.training import Training

VALUE_SHARE: Final = 0.5
"""Weight of the critics' errors relative to the policy's gain."""
LARGEST_GRADIENT: Final = 0.5
"""Gradients are clipped to this norm."""
JOBS: Final = 10.0
"""Unit of costs in jobs, as in the dissertation's table A.3; the unit of other costs is their
limit."""


class CoCoRLArguments(ReadyPoolArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 150
    """Iterations of the training."""
    games: Count = 128
    """Games played in parallel."""
    decisions: Count = 48
    """Decisions per game and iteration."""
    units: Many[Count] = ()
    """Sizes of the pool to train on, equally many games of each; none: the scenario's own."""
    # the constraint
    cost: Cost = "waiting"
    """Mean cost per step to limit: waiting jobs, jobs past their quality of service, or money or kg
    of CO₂ for energy."""
    cost_limit: NotNegative | None = None
    """Upper limit of the cost; null: no limit."""
    cost_of: str | None = None
    """An agent trained without a limit: its folder, the folder of its training, or its name. The
    limit is a share of its cost on held-out streams, with actions drawn at random."""
    cost_share: NotNegative | None = None
    """The limit as a share of the cost of `cost_of`."""
    watched: Annotated[int, Field(ge=0)] = 32
    """With a limit: further games, which take the likeliest action. Nothing is learned from them,
    but their cost is limited as well."""
    proportional: NotNegative = 2.0
    """Gain of the cost's excess over its limit, in tens of jobs or in multiples of the limit."""
    integral: NotNegative = 1.0
    """Gain of the sum of this excess over the iterations."""
    derivative: NotNegative = 1.0
    """Gain of the cost's rise."""
    # learning
    learning_rate: Positive = 0.002
    """Initial learning rate of Adam; it falls linearly to 0."""
    decay: Share = 0.95
    """λ per step of time."""
    clip: Positive = 0.2
    """The ratio of probabilities is clipped to 1 ± this."""
    entropy: NotNegative = 0.02
    """Initial weight of the policy's mean entropy, in nats; it falls linearly to 0."""
    epochs: Count = 3
    """Passes over the decisions of an iteration."""
    batch: Count = 1024
    """Decisions per step of Adam."""

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        pair = {"cost_of": self.cost_of, "cost_share": self.cost_share}
        given = [name for name, value in pair.items() if value is not None]
        problems = []
        if len(given) == 1:
            text = f"is missing, but {given[0]} is given; give both, or neither"
            problems.append(((*(set(pair) - set(given)),), text))
        if given and self.cost_limit is not None:
            text = f"excludes {' and '.join(given)}; give the number of jobs or the share"
            problems.append((("cost_limit",), text))
        if self.units and (given or self.cost_limit is not None):
            text = "cannot be combined with a limit; leave it or the limit out"
            problems.append((("units",), text))
        if problems:
            raise BrokenRulesError(problems)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that lock-step ready pools do not
    support, arguments out of range, or a missing device; PluginError without safetensors, which the
    first checkpoint needs.
    """

    def source_of(chosen: CoCoRLArguments) -> ReadySource:
        rules = {**chosen.environment(), "cost": chosen.cost}
        if chosen.units:
            return SourceOfSizes(scenario, chosen.units, **rules)
        return ReadySource(scenario, **rules)

    chosen, source = prepared(CoCoRLArguments, arguments, source_of, device)
    return CoCoRLTraining(scenario, source, chosen, seed, device)


@dataclass(frozen=True)
class Played:
    """T decisions in each of N games; arrays are (T, N, …)."""

    seen: np.ndarray[Any, np.dtype[np.float32]]
    allowed: Bools
    actions: Ints
    log_probability: Floats
    values: Floats
    """(T + 1, N, 2) expected future rewards, and costs."""
    rewards: Floats
    costs: Floats
    hours: Ints
    cut: Bools

    def part(self, first: int, end: int | None) -> Played:
        """Return the decisions of some of the games."""
        return Played(*[getattr(self, field.name)[:, first:end] for field in fields(self)])

    @property
    def value(self) -> float:
        """Value paid per hour."""
        return float(self.rewards.sum() / max(int(self.hours.sum()), 1))

    @property
    def cost(self) -> float:
        """Cost per hour."""
        return float(self.costs.sum() / max(int(self.hours.sum()), 1))


class CoCoRLTraining(TorchTraining):
    """A training with CoCoRL."""

    learner = "cocorl"
    criterion = "lost_value"
    less_is_better = ("lost_value", "lost_value_drawn", "cost", "cost_drawn")
    held_out_metrics = ("cost_limit", *less_is_better)

    def __init__(
        self, scenario: Scenario, source: ReadySource, arguments: CoCoRLArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("streams", "actions", "parts"))
        self.chosen, self.device, self.source = arguments, device, source
        # Environment
        self.limit = CostLimit(
            arguments.cost, arguments.cost_limit, arguments.cost_of, arguments.cost_share
        )
        self.watched = arguments.watched if self.limit.is_set else 0
        self.games = source.endless(arguments.games + self.watched, self.generators["streams"])
        self.unseen = source.held_out(arguments.held_out_games)
        # Agent
        with seeded(self.stream("weights")):
            scorer = build(source.scorer(arguments.hidden))
            self._network = ActorCritic(scorer, arguments.hidden, values=2).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), arguments.learning_rate)
        # Constraint
        self.multiplier = Multiplier(
            np.inf,
            Gains(arguments.proportional, arguments.integral, arguments.derivative),
        )
        self.usual_value, self.usual_cost = MovingMean(), MovingMean()

    @property
    def network(self) -> ActorCritic:
        return self._network

    @property
    def unit(self) -> float:
        """The unit in which costs are counted."""
        if self.chosen.cost in ("waiting", "qos-violations"):
            return JOBS
        return self.limit.most if self.limit.is_set and self.limit.most > 0 else 1.0

    def parts(self) -> Mapping[str, Stateful]:
        return {
            "games": self.games, "limit": self.limit, "multiplier": self.multiplier,
            "usual_value": self.usual_value, "usual_cost": self.usual_cost,
        }  # fmt: skip

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: value paid per hour, in steps of the whole pool; ``cost``: mean cost per
        hour, such as the number of waiting jobs; ``cost_limit``, infinite without one;
        ``multiplier``: λ; ``hours``: hours played in all games; ``decisions``; ``entropy``: the
        mean, in nats; ``cost_watched``: cost of the games that take the likeliest action.
        """
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        set_learning_rate(self.optimiser, linear(chosen.learning_rate, 0.0, done))
        # Rollout
        played = self._play()
        watched, played = played.part(0, self.watched), played.part(self.watched, None)
        value, cost, hours = played.value, played.cost, played.hours.sum()
        self.usual_value.take(value)
        self.usual_cost.take(cost)
        # Constraint
        if self.limit.is_set:
            self.multiplier.limit = self.limit.most / self.unit
            self.multiplier.update(max(cost, watched.cost) / self.unit)
        # Update
        weight, batch = linear(chosen.entropy, 0.0, done), self._batch(played)
        parts = minibatches(batch, chosen.batch, chosen.epochs, self.generators["parts"])
        entropies = [self._improve(part, weight) for part in parts]
        # Logging
        return {
            "value_per_hour": value, "cost": cost, "cost_limit": self.limit.most,
            "multiplier": self.multiplier.value,
            "hours": float(hours), "decisions": float(played.actions.size),
            "entropy": float(np.mean(entropies)),
            **({"cost_watched": watched.cost} if self.watched else {}),
        }  # fmt: skip

    def _play(self) -> Played:
        """Play some decisions of every game: watched games greedily, others with drawn actions."""
        games, rows = self.games, []
        for _ in range(self.chosen.decisions):
            seen, allowed, log_probs, values = self._look(games)
            actions = sample(log_probs, self.generators["actions"])
            actions[: self.watched] = log_probs[: self.watched].argmax(dim=-1).cpu().numpy()
            taken = log_probability(log_probs, torch.from_numpy(actions).to(self.device))
            reward = games.step(actions)
            rows.append((
                seen, allowed, actions, taken.cpu().numpy(), values.cpu().numpy(), reward,
                games.cost, games.passed, games.begun,
            ))  # fmt: skip
        *_, last = self._look(games)
        columns = [np.stack(column) for column in zip(*rows, strict=True)]
        columns[4] = np.concatenate((columns[4], last.cpu().numpy()[None]))
        return Played(*columns)

    @torch.no_grad()
    def _look(
        self, games: Any
    ) -> tuple[np.ndarray[Any, np.dtype[np.float32]], Bools, torch.Tensor, torch.Tensor]:
        """Return observations, masks, (A, actions) log-probabilities and (A, 2) values."""
        seen, allowed = games.observe(), games.mask()
        logits, values = self.network(torch.from_numpy(seen).to(self.device))
        log_probs = masked_log_softmax(logits, torch.from_numpy(allowed).to(self.device))
        return seen, allowed, log_probs, values

    def _batch(self, played: Played) -> Batch:
        """Return the decisions as a batch; advantages are scaled, but not centred.

        Rewards and costs are counted above their mean per hour, so values are differences from it.
        """
        chosen, value, cost = self.chosen, self.usual_value.value, self.usual_cost.value
        passed = played.hours.astype(np.float64)
        time = sum_of_powers(chosen.discount, passed)
        streams = (
            played.rewards - value * time,
            (played.costs / np.maximum(passed, 1.0) - cost) / self.unit * time,
        )
        advantages = [
            advantages_over_time(
                stream, played.values[..., number], passed, chosen.discount, chosen.decay,
                played.cut,
            )
            for number, stream in enumerate(streams)
        ]  # fmt: skip
        returns = np.stack(advantages, axis=-1) + played.values[:-1]
        gain = self.multiplier.combine(*advantages)
        gain = gain / max(float(gain.std()), 1e-8)
        columns = (
            played.seen, played.allowed, played.actions,
            played.log_probability.astype(np.float32), gain.astype(np.float32),
            returns.astype(np.float32),
        )  # fmt: skip
        rows = (column.reshape(gain.size, *column.shape[2:]) for column in columns)
        return Batch(*[torch.from_numpy(row.copy()).to(self.device) for row in rows])

    def _improve(self, part: Batch, entropy_weight: float) -> float:
        """Take one step of Adam; return the mean entropy."""
        logits, values = self.network(part.seen)
        log_probs = masked_log_softmax(logits, part.allowed)
        mean_entropy = entropy(log_probs).mean()
        gain = clipped_gain(
            log_probability(log_probs, part.actions), part.log_probability, part.advantage,
            self.chosen.clip,
        )  # fmt: skip
        errors = (values - part.returns).square().mean(dim=0)
        error = errors.sum() if self.limit.is_set else errors[0]
        loss = VALUE_SHARE * error - gain - entropy_weight * mean_entropy
        take_step(self.optimiser, loss, LARGEST_GRADIENT)
        return float(mean_entropy.detach())

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on held-out streams, with its likeliest actions and with drawn ones.

        See `greedy_and_drawn`; ``cost_limit``: the limit, infinite without one.
        """
        scores = greedy_and_drawn(self.source, self.unseen, self._rule)
        return {"cost_limit": self.limit.most, **scores}

    def _rule(self, greedy: bool) -> Rule:
        rng = self.stream("held_out")

        def choose(games: ReadyGames) -> Ints:
            _, _, log_probs, _ = self._look(games)
            return log_probs.argmax(dim=-1).cpu().numpy() if greedy else sample(log_probs, rng)

        return choose

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.network.actor
        assert isinstance(actor, SetScorer)
        self.write_network(folder, actor, self.source.describe(actor.shape), curve_end)
