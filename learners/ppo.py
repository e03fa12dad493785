"""PPO over whatever is to choose from: one scorer for all, and a baseline for every decision.

J. Schulman, F. Wolski, P. Dhariwal, A. Radford and O. Klimov, "Proximal policy optimization
algorithms" (2017), adapted to scheduling. It plays in one of two ways:

- **Episodes**: each iteration plays every slice several times, and compares a decision with the
  mean return of the same slice's rollouts, in lock-step from the same time step on, in simulations
  from the same decision on; the critic learns only the remaining difference. In lock-step,
  advantages decay over time, as many decisions share a step. In simulations, rewards count as
  shares of their slice's, and the network begins at the best of some simple rules (`warm_start`).
  Decisions that leave no choice are not learned from.
- **Games without an end** (`games`), of a ready pool: the critic estimates what follows. Time
  passes unevenly between decisions: rewards count above their mean per step of time, and are
  discounted by the time. With a limit, a second critic estimates costs, and a PID controller moves
  their multiplier (A. Stooke, J. Achiam and P. Abbeel, "Responsive safety in reinforcement learning
  by PID Lagrangian methods", 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from simkit.agent.rewards import sum_of_powers
from simkit.arrays import Floats
from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.games import NOTHING_DONE, Source, logged, mean_of
from simkit.learners.common.imitation import imitate_best, refuse_without_teachers
from simkit.learners.common.multiplier import Gains, Multiplier
from simkit.learners.common.returns import (
    MovingMean,
    advantages_over_time,
    credit,
    deviation_by_group,
    generalised_advantages,
    time_moved,
)
from simkit.learners.common.rollouts import (
    Batch,
    Rollouts,
    Stretch,
    minibatches,
    play_on,
    roll_out,
)
from simkit.learners.common.torch_training import GamesTraining
from simkit.learners.common.training import Stateful
from simkit.learners.games.choice import EndlessArguments, games_of, usual_numbers
from simkit.learners.games.cost_limit import CostLimit
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.networks.build import ActorCritic, Network, build, seeded
from simkit.learners.networks.distributions import (
    clipped_gain,
    entropy,
    log_probability,
    masked_log_softmax,
    squared_error,
)
from simkit.learners.networks.optimisers import linear, set_learning_rate, take_step
from simkit.learners.networks.shapes import Width
from simkit.learners.recipes import cocorl
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many
from simkit.training import Training

VALUE_SHARE: Final = 0.5
"""Weight of the critic's error relative to the policy's gain."""
LARGEST_GRADIENT: Final = 0.5
"""Gradients are clipped to this norm."""
JOBS: Final = 10.0
"""Unit of costs in jobs; the unit of other costs is their limit."""
USUAL: Final = {
    "iterations": 20, "job_sets": 8, "rollouts": 4, "warm_start": 3, "decay": 0.9, "largest": 4.0,
    "batch": 512, "entropy": 0.003, "falls": True, "held_out_sets": 20, "max_decisions": 5_000,
}  # fmt: skip
"""Defaults for simulations, which take longer than job sets in lock-step."""


class PPOArguments(EndlessArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 40
    """Iterations of the training."""
    # episodes
    weights: Many[Positive] = ()
    """Relative weight of each load in the policy's gain; none: all the same."""
    job_sets: Count = 100
    """New slices per iteration, over all loads: job sets, or windows of a log."""
    rollouts: Annotated[int, Field(ge=2)] = 8
    """Episodes of each slice."""
    largest: Positive | None = None
    """Advantages beyond this many standard deviations count as that many; null: as they are."""
    warm_start: Annotated[int, Field(ge=0)] = 0
    """Rounds of games in which the network first learns to imitate the best of the source's simple
    rules; 0, or no rule: it learns from nothing."""
    # games without an end
    discount: Share = 0.98
    """Discount factor γ per step of time."""
    units: Many[Count] = ()
    """Sizes of the pool to train on, equally many games of each; none: the scenario's own."""
    cost_limit: NotNegative | None = None
    """Upper limit of the mean cost per step of time; null: no limit."""
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
    hidden: Width = 64
    """Units of each layer."""
    learning_rate: Positive = 0.001
    """Learning rate of Adam."""
    falls: bool = False
    """Whether the learning rate falls linearly to 0 during the training."""
    decay: Share = 0.95
    """λ: share of the advantages after the next time step, or in simulations the next decision,
    that counts for the decisions before it."""
    clip: Positive = 0.2
    """The ratio of probabilities is clipped to 1 ± this."""
    entropy: NotNegative = 0.01
    """Initial weight of the policy's mean entropy, in nats; it falls linearly to 0."""
    epochs: Count = 3
    """Passes over the decisions of an iteration."""
    batch: Count = 4096
    """Decisions per step of Adam."""

    of_episodes: ClassVar = (*EndlessArguments.of_episodes, "weights", "largest", "warm_start")
    of_endless: ClassVar = (
        *EndlessArguments.of_endless, "discount", "units", "cost_limit", "cost_of", "cost_share",
        "watched", "proportional", "integral", "derivative",
    )  # fmt: skip

    @model_validator(mode="after")
    def _one_for_each_load(self) -> Self:
        if self.weights and len(self.weights) != len(self.loads):
            text = f"has {len(self.weights)} numbers for {len(self.loads)} loads; give one for each"
            raise BrokenRulesError([(("weights",), text)])
        return self

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
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu",
    learner: str = "ppo",
) -> Training:  # fmt: skip
    """Return a new training; an entry point of ``simkit.learners``.

    `learner` is the name of a recipe, see `simkit.learners.recipes`.

    Raises ScenarioError, all problems at once, for arguments that are out of range or do not suit
    the scenario, job sets without a job, or a missing device; PluginError without safetensors,
    which the first checkpoint needs.
    """

    def source_of(chosen: PPOArguments) -> Source[Any]:
        source = games_of(
            scenario, chosen, learner, chosen.job_sets, units=chosen.units,
            discount=1.0 if chosen.games is None else chosen.discount,
        )  # fmt: skip
        # the usual warm start is for games in which there is a rule; only one asked for is refused
        refuse_without_teachers(source, arguments.get("warm_start", 0))
        return source

    usual = usual_numbers(scenario, USUAL, arguments, endless=cocorl.defaults)
    chosen, source = prepared(PPOArguments, {**usual, **arguments}, source_of, device)
    if isinstance(source, ReadySource) and chosen.games is not None:
        return EndlessPPO(scenario, source, chosen, seed, device, learner)
    return EpisodicPPO(scenario, source, chosen, seed, device, learner)


class PPOTraining(GamesTraining):
    """A training with PPO: the agent, and its update from decisions with advantages."""

    learner = "ppo"
    chosen: PPOArguments
    network: ActorCritic

    def __init__(
        self, scenario: Scenario, source: Source[Any], chosen: PPOArguments, seed: int, device: str,
        learner: str, streams: tuple[str, ...], values: int,
    ) -> None:  # fmt: skip
        # Environment
        super().__init__(scenario, source, chosen, seed, device, learner, streams)
        # Agent
        with seeded(self.stream("weights")):
            network = build(source.scorer(chosen.hidden))
            self.network = ActorCritic(network, chosen.hidden, values).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), chosen.learning_rate)

    @property
    def agent(self) -> Network:
        return self.network.actor

    def _update(self, batch: Batch) -> float:
        """Learn from decisions; return the mean entropy, not a number without a decision."""
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        if chosen.falls:
            set_learning_rate(self.optimiser, linear(chosen.learning_rate, 0.0, done))
        weight = linear(chosen.entropy, 0.0, done)
        parts = minibatches(batch, chosen.batch, chosen.epochs, self.generators["parts"])
        return mean_of(self._improve(part, weight) for part in parts)

    def _improve(self, part: Batch, entropy_weight: float) -> float:
        """Take one step of Adam; return the mean entropy."""
        logits, values = self.network(part.seen)
        log_probs = masked_log_softmax(logits, part.allowed)
        mean_entropy = entropy(log_probs).mean()
        gain = clipped_gain(
            log_probability(log_probs, part.actions), part.log_probability, part.advantage,
            self.chosen.clip,
        )  # fmt: skip
        error = self._error(values, part.returns)
        loss = VALUE_SHARE * error - gain - entropy_weight * mean_entropy
        take_step(self.optimiser, loss, LARGEST_GRADIENT)
        return float(mean_entropy.detach())

    def _error(self, values: Tensor, returns: Tensor) -> Tensor:
        """Return the critic's error."""
        return squared_error(values, returns)


class EpisodicPPO(PPOTraining):
    """A training that plays episodes."""

    def __init__(
        self, scenario: Scenario, source: Source[Any], chosen: PPOArguments, seed: int, device: str,
        learner: str,
    ) -> None:  # fmt: skip
        streams = ("job_sets", "actions", "parts", "warm_start")
        super().__init__(scenario, source, chosen, seed, device, learner, streams, values=1)

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        Of the rollouts see `logged`; ``choices``: decisions that left a choice; ``entropy``: the
        mean over these, in nats; in the first iteration after a warm start ``imitated``, see
        `imitate`. If no slice has a job, nothing is learned, and only `NOTHING_DONE` is returned.
        """
        chosen = self.chosen
        rounds = chosen.warm_start if self.iteration == 1 else 0
        warm = imitate_best(
            self.agent, self.source, self.generators["warm_start"], rounds, chosen.job_sets,
            self.device,
        )  # fmt: skip
        # Rollout
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        rollouts = roll_out(games, self.network, self.generators["actions"], self.device)
        # Update
        batch = self._batch(rollouts, *self._advantages(rollouts))
        mean_entropy = self._update(batch)
        # Logging
        return {
            **logged(games, rollouts.mean_return, len(rollouts.actions)),
            "choices": float(len(batch)), "entropy": mean_entropy, **warm,
        }  # fmt: skip

    def _advantages(self, rollouts: Rollouts) -> tuple[Floats, Floats]:
        """Return (D,) advantages, and (D,) targets of the critic.

        The critic counts in standard deviations of its load. Otherwise, its errors at high loads,
        where returns are a hundred times as large, would drown out gains at low loads.
        """
        chosen, in_steps = self.chosen, self.source.in_steps
        earned = credit(
            rollouts.rewards, rollouts.steps, chosen.rollouts, by_step=in_steps,
            relative=self.source.relative,
        )  # fmt: skip
        load = rollouts.groups(self.source, chosen.job_sets)
        unit = deviation_by_group(rollouts.rows(earned.gain), load)
        usual = rollouts.rows(earned.usual)
        values = rollouts.grid(usual + unit * rollouts.value)
        passed = time_moved(rollouts.steps) if in_steps else True
        decay = np.where(passed, chosen.decay, np.ones(values.shape))
        advantages = generalised_advantages(earned.rewards, values, decay)
        return rollouts.rows(advantages), rollouts.rows(advantages + values - earned.usual) / unit

    def _batch(self, rollouts: Rollouts, advantages: Floats, returns: Floats) -> Batch:
        """Return the decisions that left a choice; advantages are divided by their deviation.

        This is done for each load separately, lest the highest drowns out the others.
        """
        rows = rollouts.choices
        load = rollouts.groups(self.source, self.chosen.job_sets)[rows]
        scaled = advantages[rows] / deviation_by_group(advantages[rows], load)
        if self.chosen.largest is not None:
            scaled = np.clip(scaled, -self.chosen.largest, self.chosen.largest)
        if weights := self.chosen.weights:
            scaled *= np.array(weights)[load] / np.mean(weights)
        return rollouts.batch(rows, scaled, returns[rows], self.device)


class EndlessPPO(PPOTraining):
    """A training that plays games without an end, and may keep their cost below a limit."""

    less_is_better = ReadySource.less_is_better
    held_out_metrics = ("cost_limit", *ReadySource.endless_metrics)

    def __init__(
        self, scenario: Scenario, source: ReadySource, chosen: PPOArguments, seed: int, device: str,
        learner: str,
    ) -> None:  # fmt: skip
        streams = ("streams", "actions", "parts")
        # the critic estimates future rewards and costs
        super().__init__(scenario, source, chosen, seed, device, learner, streams, values=2)
        self.limit = CostLimit(chosen.cost, chosen.cost_limit, chosen.cost_of, chosen.cost_share)
        self.watched = chosen.watched if self.limit.is_set else 0
        games = (chosen.games or 0) + self.watched
        self.games = source.endless(games, self.generators["streams"])
        gains = Gains(chosen.proportional, chosen.integral, chosen.derivative)
        self.multiplier = Multiplier(np.inf, gains)
        self.usual_value, self.usual_cost = MovingMean(), MovingMean()

    def parts(self) -> Mapping[str, Stateful]:
        return {
            "games": self.games, "limit": self.limit, "multiplier": self.multiplier,
            "usual_value": self.usual_value, "usual_cost": self.usual_cost,
        }  # fmt: skip

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: reward per step of time; ``cost``: mean cost per step, such as the
        number of waiting jobs; ``cost_limit``, infinite without one; ``multiplier``: λ; ``hours``:
        steps played in all games; ``decisions``; ``entropy``: the mean, in nats; ``cost_watched``:
        cost of the games that take the likeliest action.
        """
        # Rollout
        both = play_on(
            self.games, self.network, self.chosen.decisions, self.generators["actions"],
            self.device, greedy=self.watched,
        )  # fmt: skip
        watched, played = both.of(slice(self.watched)), both.of(slice(self.watched, None))
        self.usual_value.take(played.reward)
        self.usual_cost.take(played.cost)
        # Update
        if self.limit.is_set:
            self.multiplier.limit = self.limit.most / self.unit
            self.multiplier.update(max(played.cost, watched.cost) / self.unit)
        mean_entropy = self._update(self._batch(played))
        # Logging
        return {
            "value_per_hour": played.reward, "cost": played.cost, "cost_limit": self.limit.most,
            "multiplier": self.multiplier.value, "hours": float(played.passed.sum()),
            "decisions": float(played.actions.size), "entropy": mean_entropy,
            **({"cost_watched": watched.cost} if self.watched else {}),
        }  # fmt: skip

    @property
    def unit(self) -> float:
        """The unit in which costs are counted."""
        if self.chosen.cost in ("waiting", "qos-violations"):
            return JOBS
        return self.limit.most if self.limit.is_set and self.limit.most > 0 else 1.0

    def _batch(self, played: Stretch) -> Batch:
        """Return the decisions as a batch; advantages are scaled, but not centred.

        Rewards and costs are counted above their mean per step, so values are differences from it.
        """
        chosen, value, cost = self.chosen, self.usual_value.value, self.usual_cost.value
        passed = played.passed.astype(np.float64)
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
        return played.batch(gain / max(float(gain.std()), 1e-8), returns, self.device)

    def _error(self, values: Tensor, returns: Tensor) -> Tensor:
        """Return the critic's error for rewards, and with a limit that for costs as well."""
        errors = (values - returns).square().mean(dim=0)
        return errors.sum() if self.limit.is_set else errors[0]

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on held-out streams, with its likeliest actions and with drawn ones.

        See `judged`; ``cost_limit``: the limit, infinite without one.
        """
        scores = {**self.judge(drawn_too=True), "cost_limit": self.limit.most}
        return {name: scores[name] for name in self.held_out_metrics}
