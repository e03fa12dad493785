"""Constrained PPO for a green datacenter's ready pool, as CoCoRL does.

"CoCoRL" is chapter 6 of the dissertation on power-modulated datacenters (University of Virginia,
2023): PPO with a second critic, of costs, and a multiplier that a PID controller moves so that the
cost stays below its limit (A. Stooke, J. Achiam and P. Abbeel, "Responsive safety in reinforcement
learning by PID Lagrangian methods", 2020). Without a limit it is plain PPO (J. Schulman et al.,
"Proximal policy optimization algorithms", 2017).

The cost is the number of waiting jobs, hour by hour. A job's value is paid as it is placed, as so
much for each hour that it will run: paid while jobs run, it teaches an agent nothing in time. Games
go on for ever, and time passes unevenly between decisions: rewards are counted above their mean per
hour, and discounted by the hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.actor_critic.multiplier import Gains, Multiplier
from simkit.learners.common.distributions import (
    entropy,
    log_probability,
    masked_log_softmax,
    sample,
)
from simkit.learners.common.networks import ActorCritic, SetScorer, build, seeded
from simkit.learners.common.objectives import clipped_gain
from simkit.learners.common.returns import advantages_over_time
from simkit.learners.common.rollouts import Batch, minibatches
from simkit.learners.common.schedules import linear
from simkit.learners.common.shapes import Width
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.ready_pool.cost_limit import CostLimit
from simkit.learners.ready_pool.description import describe_ready_pool, ready_scorer
from simkit.learners.ready_pool.source import HORIZON, ReadySource
from simkit.learning.ready_pool.actions import Advance
from simkit.learning.ready_pool.observation import ready_set
from simkit.scenario import Scenario
from simkit.scenario.types import BrokenRulesError, Count, Section
from simkit.training import Training

VALUE_SHARE: Final = 0.5
"""Weight of the critics' errors beside the policy's gain."""
LARGEST_GRADIENT: Final = 0.5
"""Gradients are shortened to this norm."""
COST_SCALE: Final = 0.1
"""Costs to come are counted in tens of waiting jobs, as in the dissertation's table A.3."""


class CoCoRLArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 150
    """Iterations of the training."""
    games: Count = 128
    """Replicas that are played at the same time."""
    decisions: Count = 48
    """Decisions of each in an iteration."""
    hours: Count = 2000
    """Steps of a game; then another begins."""
    # the environment
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    advance: Advance = "no-op"
    """Time goes on when the agent does nothing, or with each of its actions."""
    # the constraint
    cost_limit: NotNegative | None = None
    """The most jobs that may wait in the mean; null: no limit."""
    cost_of: str | None = None
    """An agent without a limit: its folder, its training's, or its name. The limit is a share of
    what it costs with drawn actions on held-out streams."""
    cost_share: NotNegative | None = None
    """That share."""
    proportional: NotNegative = 1.0
    """Gain of the excess of the cost, in jobs."""
    integral: NotNegative = 0.01
    """Gain of its sum."""
    derivative: NotNegative = 0.0
    """Gain of its rise."""
    gains_twice: bool = False
    """Apply the first and third gain twice, as the dissertation's algorithm 7 does."""
    # learning
    hidden: Width = 64
    """Units of each layer."""
    learning_rate: Positive = 0.002
    """Learning rate of Adam at first; it falls to 0 in equal steps."""
    discount: Share = 0.98
    """γ of a step of time."""
    decay: Share = 0.95
    """λ of a step of time."""
    clip: Positive = 0.2
    """The ratio of probabilities is clipped to 1 ± this."""
    entropy: NotNegative = 0.02
    """Weight of the policy's mean entropy, in nats, at first; it falls to 0 in equal steps."""
    epochs: Count = 3
    """Passes over the decisions of an iteration."""
    batch: Count = 1024
    """Decisions per step of Adam."""
    held_out_games: Count = 32
    """Streams on which the agent is evaluated; the same for all trainings, never trained on."""

    @model_validator(mode="after")
    def _says_its_limit_once(self) -> Self:
        pair = {"cost_of": self.cost_of, "cost_share": self.cost_share}
        given = [name for name, value in pair.items() if value is not None]
        problems = []
        if len(given) == 1:
            text = f"is missing beside {given[0]}; give both, or neither"
            problems.append(((*(set(pair) - set(given)),), text))
        if given and self.cost_limit is not None:
            text = f"is given beside {' and '.join(given)}; give the number of jobs or the share"
            problems.append((("cost_limit",), text))
        if problems:
            raise BrokenRulesError(problems)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that lock-step ready pools do not
    know, arguments out of their range, or a device that is not there; PluginError without
    safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: CoCoRLArguments) -> ReadySource:
        return ReadySource(
            scenario, hours=chosen.hours, max_start=chosen.max_start, reject=chosen.reject,
            advance=chosen.advance,
        )  # fmt: skip

    chosen, source = prepared(CoCoRLArguments, arguments, source_of, device)
    return CoCoRLTraining(scenario, source, chosen, seed, device)


@dataclass(frozen=True)
class Played:
    """T decisions of N games; arrays are (T, N, …)."""

    seen: np.ndarray[Any, np.dtype[np.float32]]
    allowed: Bools
    actions: Ints
    log_probability: Floats
    values: Floats
    """(T + 1, N, 2) expected of rewards and of costs."""
    rewards: Floats
    costs: Floats
    hours: Ints
    cut: Bools


class CoCoRLTraining(TorchTraining):
    """A training under way."""

    learner = "cocorl"
    less_is_better = ("lost_value", "lost_value_drawn", "cost", "cost_drawn")

    def __init__(
        self, scenario: Scenario, source: ReadySource, arguments: CoCoRLArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("streams", "actions", "parts"))
        self.chosen, self.device, self.source = arguments, device, source
        # Environment
        self.games = source.endless(arguments.games, self.generators["streams"])
        # Agent
        shape = ready_scorer(source.pool, arguments.hidden, reject=arguments.reject)
        with seeded(self.stream("weights")):
            self._network = ActorCritic(build(shape), arguments.hidden, values=2).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), arguments.learning_rate)
        # Constraint
        self.limit = CostLimit(arguments.cost_limit, arguments.cost_of, arguments.cost_share)
        self.multiplier = Multiplier(
            np.inf,
            Gains(
                arguments.proportional, arguments.integral, arguments.derivative,
                twice=arguments.gains_twice,
            ),
        )  # fmt: skip
        self.means = Means()

    @property
    def network(self) -> ActorCritic:
        return self._network

    def parts(self) -> Mapping[str, Stateful]:
        return {
            "games": self.games, "limit": self.limit, "multiplier": self.multiplier,
            "means": self.means,
        }  # fmt: skip

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: as it was paid, in steps of the whole pool; ``cost``: waiting jobs,
        in the mean; ``cost_limit``: how many may wait, infinite without a limit; ``multiplier``: λ;
        ``hours``: that have passed in all games; ``decisions``; ``entropy``: the mean, in nats.
        """
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        for group in self.optimiser.param_groups:
            group["lr"] = linear(chosen.learning_rate, 0.0, done)
        # Rollout
        played = self._play()
        hours = max(int(played.hours.sum()), 1)
        value, cost = played.rewards.sum() / hours, played.costs.sum() / hours
        self.means.take(value, cost)
        # Constraint
        self.multiplier.limit = self.limit.jobs
        if self.limit.is_set:
            self.multiplier.update(cost)
        # Update
        weight, batch = linear(chosen.entropy, 0.0, done), self._batch(played)
        parts = minibatches(batch, chosen.batch, chosen.epochs, self.generators["parts"])
        spreads = [self._improve(part, weight) for part in parts]
        # Logging
        return {
            "value_per_hour": float(value), "cost": float(cost), "cost_limit": self.limit.jobs,
            "multiplier": self.multiplier.value, "hours": float(hours),
            "decisions": float(played.actions.size), "entropy": float(np.mean(spreads)),
        }  # fmt: skip

    def _play(self) -> Played:
        """Play a few decisions of every game, drawn from the policy."""
        games, rows = self.games, []
        with torch.inference_mode():
            for _ in range(self.chosen.decisions):
                seen, allowed = ready_set(games.view(), games.pool), games.mask()
                logits, values = self.network(torch.from_numpy(seen).to(self.device))
                chances = masked_log_softmax(logits, torch.from_numpy(allowed).to(self.device))
                actions = sample(chances, self.generators["actions"])
                drawn = log_probability(chances, torch.from_numpy(actions).to(self.device))
                reward = self._paid(actions)
                passed = games.step(actions)
                rows.append((
                    seen, allowed, actions, drawn.cpu().numpy(), values.cpu().numpy(), reward,
                    passed.waited.astype(np.float64), passed.hours, games.begun,
                ))  # fmt: skip
            seen = ready_set(games.view(), games.pool)
            last = self.network(torch.from_numpy(seen).to(self.device))[1].cpu().numpy()
        columns = [np.stack(column) for column in zip(*rows, strict=True)]
        columns[4] = np.concatenate((columns[4], last[None]))
        return Played(*columns)

    def _paid(self, actions: Ints) -> Floats:
        """Return (N,) what is paid for the jobs that (N,) actions will place: their value, now.

        So much for each hour that the job will run, discounted until then, in steps of the whole
        pool.
        """
        games, pool, gamma = self.games, self.source.pool, self.chosen.discount
        rows, place = np.arange(len(actions)), np.minimum(actions, pool.ready - 1)
        ahead = games.starts()[rows, place]
        placed = (actions < pool.ready) & (ahead >= 0)
        hours = np.where(placed, games.facts("length")[rows, place], 1.0)
        value = games.facts("value")[rows, place] / (pool.worth * sum(games.streams.capacity))
        weight = gamma ** np.maximum(ahead, 0) * _sum_of_powers(gamma, hours) / hours
        return np.where(placed, value * weight, 0.0)

    def _batch(self, played: Played) -> Batch:
        """Return what is learned from the decisions; advantages are scaled, but not centred.

        Both streams are counted above their mean per hour, so that values are differences.
        """
        chosen, means = self.chosen, self.means
        passed = played.hours.astype(np.float64)
        usual = _sum_of_powers(chosen.discount, passed)
        streams = (
            played.rewards - means.value * usual,
            COST_SCALE * (played.costs / np.maximum(passed, 1.0) - means.cost) * usual,
        )
        advantages = [
            advantages_over_time(
                stream, played.values[..., number], passed, chosen.discount, chosen.decay,
                played.cut,
            )
            for number, stream in enumerate(streams)
        ]  # fmt: skip
        returns = np.stack(advantages, axis=-1) + played.values[:-1]
        gain = self.multiplier.of_both(*advantages)
        gain = gain / max(float(gain.std()), 1e-8)
        columns = (
            played.seen, played.allowed, played.actions,
            played.log_probability.astype(np.float32), gain.astype(np.float32),
            returns.astype(np.float32),
        )  # fmt: skip
        flat = [column.reshape(gain.size, *column.shape[2:]) for column in columns]
        return Batch(*[torch.from_numpy(column).to(self.device) for column in flat])

    def _improve(self, part: Batch, entropy_weight: float) -> float:
        """Take one step of Adam; return the mean entropy."""
        logits, values = self.network(part.seen)
        chances = masked_log_softmax(logits, part.allowed)
        spread = entropy(chances).mean()
        gain = clipped_gain(
            log_probability(chances, part.actions), part.log_probability, part.advantage,
            self.chosen.clip,
        )  # fmt: skip
        errors = (values - part.returns).square().mean(dim=0)
        error = errors.sum() if self.limit.is_set else errors[0]
        loss = VALUE_SHARE * error - gain - entropy_weight * spread
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), LARGEST_GRADIENT)
        self.optimiser.step()
        return float(spread.detach())

    def evaluate(self) -> Mapping[str, float]:
        """Return how the agent does on held-out streams, with the likeliest actions and drawn ones.

        ``lost_value``: the share of the value that came and was not brought, in time where late
        jobs leave; ``cost``: waiting jobs in the mean; and both with drawn actions (``_drawn``).
        ``cost_limit``: how many may wait, infinite without a limit.
        """
        found = {"cost_limit": self.limit.jobs}
        for name, greedy in (("", True), ("_drawn", False)):
            games = self.source.held_out(self.chosen.held_out_games)
            waited = self._finish(games, greedy=greedy)
            ratio = games.value_ratio(in_time=self.source.late_leave)
            found[f"lost_value{name}"] = 1.0 - float(ratio.mean())
            found[f"cost{name}"] = float(waited.sum() / max(int(games.hours.sum()), 1))
        return found

    @torch.inference_mode()
    def _finish(self, games: ReadyGames, *, greedy: bool) -> Ints:
        """Play games to their ends; return (N,) how many jobs waited, summed over the hours."""
        rng = self.stream("held_out")
        waited = np.zeros(len(games.start), np.int64)
        while len(active := games.active):
            seen, allowed = ready_set(games.view(), games.pool), games.mask()
            logits, _ = self.network(torch.from_numpy(seen).to(self.device))
            chances = masked_log_softmax(logits, torch.from_numpy(allowed).to(self.device))
            actions = chances.argmax(dim=-1).cpu().numpy() if greedy else sample(chances, rng)
            waited[active] += games.step(actions).waited
        return waited

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.network.actor
        assert isinstance(actor, SetScorer)
        how = describe_ready_pool(actor.shape, self.source)
        self.write_network(folder, actor, how, curve_end)


class Means:
    """Moving means of value and cost per hour; a part of a checkpoint."""

    def __init__(self, share: float = 0.1) -> None:
        self._share = share
        self.value: float = 0.0
        self.cost: float = 0.0
        self._count = 0

    def take(self, value: float, cost: float) -> None:
        """Take in the means of an iteration; at first all count alike."""
        self._count += 1
        share = max(self._share, 1.0 / self._count)
        self.value += share * (float(value) - self.value)
        self.cost += share * (float(cost) - self.cost)

    def state(self) -> dict[str, Any]:
        """Return all that it knows."""
        return {"value": self.value, "cost": self.cost, "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self.value, self.cost = float(state["value"]), float(state["cost"])
        self._count = int(state["count"])


def _sum_of_powers(base: float, count: Floats) -> Floats:
    """Return 1 + base + … + base^(count - 1), elementwise; 0 for none."""
    if base == 1.0:
        return count
    powers: Floats = (1.0 - base**count) / (1.0 - base)
    return powers
