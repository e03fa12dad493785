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
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.actor_critic.multiplier import Gains, Multiplier
from simkit.learners.common.actor_critic.recurrent import (
    Memory,
    Recurrent,
    RecurrentActor,
    Sequences,
    look,
)
from simkit.learners.common.distributions import (
    entropy,
    log_probability,
    masked_log_softmax,
    sample,
)
from simkit.learners.common.networks import ActorCritic, SetScorer, build, seeded
from simkit.learners.common.objectives import clipped_gain
from simkit.learners.common.returns import advantages_over_time
from simkit.learners.common.rollouts import minibatches
from simkit.learners.common.schedules import linear
from simkit.learners.common.shapes import Width
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.ready_pool.cost_limit import CostLimit
from simkit.learners.ready_pool.description import (
    describe_ready_pool,
    ready_recurrent,
    ready_scorer,
)
from simkit.learners.ready_pool.moving_means import Means
from simkit.learners.ready_pool.source import HORIZON, ReadySource
from simkit.learning.ready_pool.actions import Advance
from simkit.learning.ready_pool.observation import ready_set
from simkit.learning.rewards.value import discounted_share, sum_of_powers
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
    suspend: Annotated[int, Field(ge=0, le=100)] = 0
    """How many of the running jobs, those that began last, the agent may choose from to suspend."""
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
    watched: Annotated[int, Field(ge=0)] = 32
    """With a limit: more replicas, which take the likeliest action. Nothing is learned from them,
    but their cost is limited as well."""
    proportional: NotNegative = 2.0
    """Gain of the excess of the cost over its limit, in tens of jobs."""
    integral: NotNegative = 1.0
    """Gain of its sum over the iterations."""
    derivative: NotNegative = 1.0
    """Gain of the cost's rise."""
    gains_twice: bool = False
    """Apply the first and third gain twice, as the dissertation's algorithm 7 does."""
    # learning
    network: Literal["set", "lstm"] = "set"
    """One scorer for all jobs, or two layers and an LSTM that remembers, as in the dissertation."""
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
    """Decisions per step of Adam; with `lstm` those of an iteration of as many whole games."""
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
            suspend=chosen.suspend, advance=chosen.advance,
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
    carried: np.ndarray[Any, np.dtype[np.float32]]
    """(1, N, 2, hidden) what an LSTM remembered before the first decision."""

    def part(self, first: int, end: int | None) -> Played:
        """Return what some of the games did."""
        return Played(*[getattr(self, field.name)[:, first:end] for field in fields(self)])

    @property
    def value(self) -> float:
        """Value paid per hour."""
        return float(self.rewards.sum() / max(int(self.hours.sum()), 1))

    @property
    def cost(self) -> float:
        """Waiting jobs in the mean."""
        return float(self.costs.sum() / max(int(self.hours.sum()), 1))


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
        self.limit = CostLimit(arguments.cost_limit, arguments.cost_of, arguments.cost_share)
        self.watched = arguments.watched if self.limit.is_set else 0
        self.games = source.endless(arguments.games + self.watched, self.generators["streams"])
        # Agent
        with seeded(self.stream("weights")):
            self._network = self._fresh().to(device)
        self.memory = Memory(self.network, len(self.games.active))
        self.optimiser = torch.optim.Adam(self.network.parameters(), arguments.learning_rate)
        # Constraint
        self.multiplier = Multiplier(
            np.inf,
            Gains(
                arguments.proportional, arguments.integral, arguments.derivative,
                twice=arguments.gains_twice,
            ),
        )  # fmt: skip
        self.means = Means()

    def _fresh(self) -> ActorCritic | Recurrent:
        source, hidden = self.source, self.chosen.hidden
        if self.chosen.network == "lstm":
            return Recurrent(ready_recurrent(source, hidden))
        return ActorCritic(build(ready_scorer(source, hidden)), hidden, values=2)

    @property
    def network(self) -> ActorCritic | Recurrent:
        return self._network

    def parts(self) -> Mapping[str, Stateful]:
        return {
            "games": self.games, "memory": self.memory, "limit": self.limit,
            "multiplier": self.multiplier, "means": self.means,
        }  # fmt: skip

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: as it was paid, in steps of the whole pool; ``cost``: waiting jobs,
        in the mean; ``cost_limit``: how many may wait, infinite without a limit; ``multiplier``: λ;
        ``hours``: that have passed in all games; ``decisions``; ``entropy``: the mean, in nats;
        ``cost_watched``: the cost of those that take the likeliest action.
        """
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        for group in self.optimiser.param_groups:
            group["lr"] = linear(chosen.learning_rate, 0.0, done)
        # Rollout
        played = self._play()
        watched, played = played.part(0, self.watched), played.part(self.watched, None)
        value, cost, hours = played.value, played.cost, played.hours.sum()
        self.means.take(value, cost)
        # Constraint
        if self.limit.is_set:
            self.multiplier.limit = COST_SCALE * self.limit.jobs
            self.multiplier.update(COST_SCALE * max(cost, watched.cost))
        # Update
        weight, batch = linear(chosen.entropy, 0.0, done), self._batch(played)
        size = max(chosen.batch // batch.actions.shape[1], 1)
        parts = minibatches(batch, size, chosen.epochs, self.generators["parts"])
        spreads = [self._improve(part, weight) for part in parts]
        # Logging
        return {
            "value_per_hour": value, "cost": cost, "cost_limit": self.limit.jobs,
            "multiplier": self.multiplier.value,
            "hours": float(hours), "decisions": float(played.actions.size),
            "entropy": float(np.mean(spreads)),
            **({"cost_watched": watched.cost} if self.watched else {}),
        }  # fmt: skip

    def _play(self) -> Played:
        """Play a few decisions of every game, drawn from the policy; watched ones greedily."""
        games, rows = self.games, []
        carried = self.memory.state()["carried"]
        for _ in range(self.chosen.decisions):
            seen, allowed, chances, values = self._look(games, self.memory)
            actions = sample(chances, self.generators["actions"])
            actions[: self.watched] = chances[: self.watched].argmax(dim=-1).cpu().numpy()
            drawn = log_probability(chances, torch.from_numpy(actions).to(self.device))
            reward = self._paid(actions)
            passed = games.step(actions)
            self.memory.forget(games.begun)
            rows.append((
                seen, allowed, actions, drawn.cpu().numpy(), values.cpu().numpy(), reward,
                passed.waited.astype(np.float64), passed.hours, games.begun,
            ))  # fmt: skip
        *_, last = self._look(games, deepcopy(self.memory))  # which it will see again
        columns = [np.stack(column) for column in zip(*rows, strict=True)]
        columns[4] = np.concatenate((columns[4], last.cpu().numpy()[None]))
        columns.append(carried[None])
        return Played(*columns)

    def _look(
        self, games: ReadyGames, memory: Memory
    ) -> tuple[np.ndarray[Any, np.dtype[np.float32]], Bools, torch.Tensor, torch.Tensor]:
        """Return what A games show and allow, (A, actions) log-probabilities, and (A, 2) values."""
        seen, allowed = ready_set(games.view(), games.pool), games.mask()
        said = memory.look(self.network, torch.from_numpy(seen).to(self.device), games.active)
        chances = masked_log_softmax(said.logits, torch.from_numpy(allowed).to(self.device))
        return seen, allowed, chances, said.values

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
        weight = discounted_share(gamma, np.maximum(ahead, 0), hours)
        return np.where(placed, value * weight, 0.0)

    def _batch(self, played: Played) -> Sequences:
        """Return what is learned from the decisions; advantages are scaled, but not centred.

        Both streams are counted above their mean per hour, so that values are differences. Rows are
        whole games, or decisions of a network that does not remember.
        """
        chosen, means = self.chosen, self.means
        passed = played.hours.astype(np.float64)
        usual = sum_of_powers(chosen.discount, passed)
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
        begins = np.roll(played.cut, 1, axis=0)
        begins[0] = False  # what is carried to the first decision has forgotten already
        columns = (
            played.seen, played.allowed, played.actions,
            played.log_probability.astype(np.float32), gain.astype(np.float32),
            returns.astype(np.float32), begins,
            np.broadcast_to(played.carried, (len(gain), *played.carried.shape[1:])),
        )  # fmt: skip
        whole = isinstance(self.network, Recurrent)
        *rows, carried = (
            column.swapaxes(0, 1) if whole else column.reshape(gain.size, 1, *column.shape[2:])
            for column in columns
        )
        kept = (*rows, carried[:, 0])
        return Sequences(*[torch.from_numpy(each.copy()).to(self.device) for each in kept])

    def _improve(self, part: Sequences, entropy_weight: float) -> float:
        """Take one step of Adam; return the mean entropy."""
        (logits, values), _ = look(self.network, part.seen, part.carried, part.begins)
        chances = masked_log_softmax(logits, part.allowed)
        spread = entropy(chances).mean()
        gain = clipped_gain(
            log_probability(chances, part.actions), part.log_probability, part.advantage,
            self.chosen.clip,
        )  # fmt: skip
        errors = (values - part.returns).square().mean(dim=(0, 1))
        error = errors.sum() if self.limit.is_set else errors[0]
        loss = VALUE_SHARE * error - gain - entropy_weight * spread
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
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

    def _finish(self, games: ReadyGames, *, greedy: bool) -> Ints:
        """Play games to their ends; return (N,) how many jobs waited, summed over the hours."""
        rng = self.stream("held_out")
        waited = np.zeros(len(games.start), np.int64)
        memory = Memory(self.network, len(waited))
        while len(active := games.active):
            _, _, chances, _ = self._look(games, memory)
            actions = chances.argmax(dim=-1).cpu().numpy() if greedy else sample(chances, rng)
            waited[active] += games.step(actions).waited
        return waited

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.network.actor
        assert isinstance(actor, SetScorer | RecurrentActor)
        how = describe_ready_pool(actor.shape, self.source)
        self.write_network(folder, actor, how, curve_end)
