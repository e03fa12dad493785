"""Actor-critic: an actor that follows critics, who learn from remembered decisions.

The actor gives the probabilities of actions, and critics estimate the return of each action if the
actor decides from there on. How the actor learns:

- `soft`: it takes what the critics value most, with some entropy (P. Christodoulou, "Soft
  actor-critic for discrete action settings", 2019).
- `regression`: it imitates the actions in the memory that are better than its own mean action (Z.
  Wang et al., "Critic regularized regression", 2020).

It plays from the first iteration on, unless others' decisions come first. With a `dataset`, the
actor first imitates what was recorded (`clone`), then actor and critics learn from the data alone,
by regression (`offline`), then from games as well. With a `teacher`, a rule plays first while the
actor imitates it (`warm_up`).

The memory is filled in one of two ways, see `simkit.learners.common.off_policy.experience`: by
episodes, whose returns are compared with those of the same slice, or by games without an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import torch
from pydantic import Field, model_validator

from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.games import NOTHING_DONE, mean_of
from simkit.learners.common.off_policy.actor_and_critics import ActorAndCritics, Transitions
from simkit.learners.common.off_policy.experience import Endless, Episodes
from simkit.learners.common.off_policy.policy_losses import (
    imitation_loss,
    is_better,
    soft_policy_loss,
    temperature_loss,
)
from simkit.learners.common.torch_training import GamesTraining
from simkit.learners.common.training import Stateful
from simkit.learners.games.choice import EPISODES, EndlessArguments, games_of, usual_numbers
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.games.recorded import AnySource, Recorded
from simkit.learners.lockstep.ready_pool.rules import ORDERS, left_over
from simkit.learners.networks.build import Network, seeded
from simkit.learners.networks.distributions import entropy
from simkit.learners.networks.optimisers import linear, take_step
from simkit.learners.networks.shapes import Width
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count
from simkit.training import Training

Phase = Literal["clone", "offline", "warm-up", "online"]
LARGEST_GRADIENT: Final = 10.0
"""Gradients are clipped to this norm."""
USUAL: Final = {"job_sets": 8, "rollouts": 4, "held_out_sets": 20, "max_decisions": 5_000}
"""Defaults for simulations, which take longer than job sets in lock-step."""


class ActorCriticArguments(EndlessArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training: those of `clone`, `offline` and `warm_up`, then online ones."""
    job_sets: Count = 50
    """New slices per iteration, over all loads: job sets, or windows of a log."""
    rollouts: Annotated[int, Field(ge=2)] = 4
    """Episodes of each slice."""
    decisions: Annotated[int, Field(ge=2)] = 64
    """Decisions of each game and iteration."""
    hidden: Width = 32
    """Units of each layer."""
    # critics
    critics: Count = 2
    """Critics; the lowest of their values counts."""
    popart: bool = False
    """Normalise the critics' targets as they arrive (PopArt)."""
    steps: Count = 2
    """n: rewards of an episode are summed over this many decisions before a value is estimated."""
    discount: Share = 0.98
    """Factor of the value that is estimated after them; of endless games, per step of time."""
    follow: Share = 0.02
    """The slow copies of the critics move by this share of the way at every update."""
    # actor
    actor: Literal["soft", "regression"] = "soft"
    """It takes what the critics value most, or imitates what they value more than its mean."""
    entropy: NotNegative = 0.4
    """Entropy that is wanted of a soft actor when it begins to play, as a share of that of a random
    one. An actor that never waits when a job could start gains nothing by waiting once, so it must
    be undecided at first."""
    entropy_end: NotNegative = 0.1
    """The same at the end; it falls linearly."""
    entropy_falls: Share = 1.0
    """Share of the online iterations after which it has fallen."""
    # learning
    replay: Count = 40_000
    """Number of decisions in the replay memory."""
    batch: Count = 256
    """Decisions per update."""
    updates: Count = 150
    """Updates per iteration."""
    learning_rate: Positive = 0.002
    """Initial learning rate of Adam; it falls linearly to 0."""
    # others' decisions
    teacher: Literal["fcfs", "sjf", "qos", "value", "value-density", "left-over"] = "qos"
    """The rule that plays endless games in the warm-up; left-over: place the job that leaves the
    least free when it starts."""
    warm_up: Annotated[int, Field(ge=0)] = 0
    """Iterations in which the rule plays and the actor only imitates."""
    dataset: str | None = None
    """A file that `simkit dataset record` wrote; null: none."""
    clone: Annotated[int, Field(ge=0)] = 20
    """With a dataset: iterations in which the actor only imitates."""
    offline: Annotated[int, Field(ge=0)] = 10
    """With a dataset: iterations that learn from the data alone; with many, the actor becomes
    undecided. Before episodes: 0."""

    of_episodes: ClassVar = (*EPISODES, "steps")

    @property
    def phases(self) -> Mapping[Phase, int]:
        """Iterations of each phase before the online one, in order."""
        data = self.dataset is not None
        return {
            "clone": self.clone * data, "offline": self.offline * data, "warm-up": self.warm_up,
        }  # fmt: skip

    @model_validator(mode="after")
    def _phases_fit(self) -> Self:
        given, wrong = self.model_fields_set, []
        needs = {"teacher": "warm_up"} if not self.warm_up else {}
        needs |= {"warm_up": "games"} if self.warm_up and self.games is None else {}
        needs |= dict.fromkeys(("clone", "offline"), "dataset") if self.dataset is None else {}
        wrong += [
            ((key,), f"needs {other}; give it, or leave {key} out")
            for key, other in needs.items()
            if key in given
        ]
        if (total := sum(self.phases.values())) > self.iterations:
            text = f"is {self.iterations}, fewer than clone, offline and warm_up together, {total}"
            wrong.append((("iterations",), f"{text}; give more"))
        elif self.games is None and self.phases["offline"] and total < self.iterations:
            text = (
                "its critics count rewards as recorded, but those of episodes count them from the "
                f"mean of a slice's rollouts; give 0, or iterations: {total}"
            )
            wrong.append((("offline",), text))
        if wrong:
            raise BrokenRulesError(wrong)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu",
    learner: str = "actor-critic",
) -> Training:  # fmt: skip
    """Return a new training; an entry point of ``simkit.learners``.

    `learner` is the name of a recipe, see `simkit.learners.recipes`.

    Raises ScenarioError, all problems at once, for a scenario that no agent can play, arguments out
    of range, data of other games, or a missing device; RunError for a dataset that cannot be read;
    PluginError without safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: ActorCriticArguments) -> AnySource:
        discount = 1.0 if chosen.games is None else chosen.discount
        return games_of(scenario, chosen, learner, chosen.job_sets, discount=discount)

    given = {**usual_numbers(scenario, USUAL, arguments, endless={}), **arguments}
    chosen, source = prepared(ActorCriticArguments, given, source_of, device)
    data = None
    if chosen.dataset is not None:
        playing = chosen.games is not None and chosen.iterations > chosen.clone + chosen.offline
        data = Recorded.read(Path(chosen.dataset), source, chosen.discount, playing=playing)
    return ActorCriticTraining(scenario, source, chosen, seed, device, learner, data)


class ActorCriticTraining(GamesTraining):
    """A training of an actor and its critics."""

    learner = "actor-critic"
    less_is_better = ReadySource.less_is_better
    chosen: ActorCriticArguments
    network: ActorAndCritics

    def __init__(
        self, scenario: Scenario, source: AnySource, chosen: ActorCriticArguments, seed: int,
        device: str, learner: str, data: Recorded | None,
    ) -> None:  # fmt: skip
        # Environment
        streams = ("job_sets", "streams", "actions", "memories")
        super().__init__(scenario, source, chosen, seed, device, learner, streams)
        self.data = data
        self.experience = self._experience(source)
        # Agent
        shape = source.scorer(chosen.hidden)
        with seeded(self.stream("weights")):
            self.network = ActorAndCritics(
                shape, chosen.critics, chosen.discount, popart=chosen.popart,
                temperature=self.experience.first_temperature,
            ).to(device)  # fmt: skip
        groups: list[dict[str, Any]] = [
            {"params": list(self.network.learned())},
            {"params": [self.network.log_temperature], "lr": self.experience.temperature_rate},
        ]
        self.optimiser = torch.optim.Adam(groups, chosen.learning_rate)

    def _experience(self, source: AnySource) -> Episodes | Endless:
        """Return the games to play, with the memory of them."""
        chosen, rng = self.chosen, self.generators
        if chosen.games is not None:
            assert isinstance(source, ReadySource)
            mean = None if self.data is None else self.data.mean
            return Endless(source, chosen.games, chosen.decisions, chosen.replay, rng, mean)
        return Episodes(source, chosen.job_sets, chosen.rollouts, chosen.steps, chosen.replay, rng)

    @property
    def agent(self) -> Network:
        return self.network.actor

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        endless = isinstance(self.experience, Endless)
        return ReadySource.endless_metrics if endless else super().held_out_metrics

    def parts(self) -> Mapping[str, Stateful]:
        data = {} if self.data is None else {"data": self.data}
        return {**self.experience.parts(), **data}

    @property
    def phase(self) -> Phase:
        """The phase of this iteration."""
        end = 0
        for phase, iterations in self.chosen.phases.items():
            if self.iteration <= (end := end + iterations):
                return phase
        return "online"

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        Of games, see `Episodes.play` and `Endless.play`; of the updates, and not a number without
        one: ``loss``: of the critics, squared, unless the actor only clones; ``entropy``: of the
        actor, in nats; ``imitated``: share of decisions that the actor imitated, unless it is soft;
        ``temperature``: the value of a nat, if it is. If no slice has a job, nothing is learned,
        and only `NOTHING_DONE` is returned.
        """
        chosen, phase = self.chosen, self.phase
        # Rollout
        played: Mapping[str, float] = {}
        if phase == "online":
            played = self.experience.play(self.agent, self.device)
        elif phase == "warm-up":
            assert isinstance(self.experience, Endless)
            teacher = {**ORDERS, "left-over": left_over(chosen.max_start)}[chosen.teacher]
            played = self.experience.play(self.agent, self.device, teacher)
        if played is NOTHING_DONE:
            return played
        # Update
        learned = self._update(phase)
        # Logging
        if self._soft(phase):
            learned["temperature"] = float(self.network.log_temperature.detach().exp())
        return {**played, **learned}

    def _update(self, phase: Phase) -> dict[str, float]:
        """Make the updates of an iteration; return numbers to log."""
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        self.optimiser.param_groups[0]["lr"] = linear(chosen.learning_rate, 0.0, done)
        updates = chosen.updates if len(self.experience.memory) or not self._own(phase) else 0
        rows = [self._improve(self._batch(phase), phase) for _ in range(updates)]
        names = rows[0] if rows else ("loss", "entropy")
        return {name: mean_of(row[name] for row in rows) for name in names}

    def _soft(self, phase: Phase) -> bool:
        return phase == "online" and self.chosen.actor == "soft"

    def _wanted_entropy(self) -> float:
        """Return the share of the largest entropy that a soft actor keeps in this iteration."""
        chosen, before = self.chosen, sum(self.chosen.phases.values())
        played = (self.iteration - before - 1) / (self.iterations - before)
        return linear(chosen.entropy, chosen.entropy_end, played / chosen.entropy_falls)

    def _batch(self, phase: Phase) -> Transitions:
        """Draw decisions from the data and from games."""
        rng, own, parts = self.generators["memories"], self._own(phase), []
        if self.data is not None and own < self.chosen.batch:
            parts.append(self.data.memory.draw(self.chosen.batch - own, rng))
        if own:
            parts.append(self.experience.memory.draw(own, rng))
        return Transitions.of([part.columns for part in parts], self.device)

    def _own(self, phase: Phase) -> int:
        """Return how many decisions of a batch come from games, the others from the data.

        While endless games are played, half do: drawn in proportion, data would outnumber them (P.
        J. Ball, L. Smith, I. Kostrikov and S. Levine, "Efficient online reinforcement learning with
        offline data", 2023, section 4.1). Episodes are not mixed with data, whose rewards are not
        compared with those of a slice's rollouts.
        """
        if self.data is None:
            return self.chosen.batch
        if phase in ("clone", "offline"):
            return 0
        return self.chosen.batch // (2 if isinstance(self.experience, Endless) else 1)

    def _improve(self, batch: Transitions, phase: Phase) -> dict[str, float]:
        """Take one step of Adam; return numbers to log."""
        chosen, network, soft = self.chosen, self.network, self._soft(phase)
        log_probs = network.log_probabilities(batch.seen, batch.allowed)
        temperature = network.log_temperature.detach().exp() if soft else 0.0
        learned = {"entropy": float(entropy(log_probs.detach()).mean())}
        # Critics
        error = torch.zeros(())  # clones learn no values
        if phase != "clone":
            goals = network.goals(batch, self.experience.usual, temperature)
            error = network.critics.error(batch.seen, batch.actions, goals)
        # Actor
        if soft:
            wanted = self._wanted_entropy() * batch.allowed.sum(dim=-1).float().log()
            loss = soft_policy_loss(network.critics(batch.seen), log_probs, temperature)
            loss = loss + temperature_loss(network.log_temperature, log_probs, wanted)
        else:
            weights = torch.ones_like(batch.rewards)
            if phase not in ("clone", "warm-up"):
                weights = is_better(network.critics(batch.seen), log_probs, batch.actions)
            loss = imitation_loss(log_probs, batch.actions, weights)
            learned["imitated"] = float((weights > 0).float().mean())
        take_step(self.optimiser, error + loss, LARGEST_GRADIENT)
        network.follow(chosen.follow)
        return {"loss": nan if phase == "clone" else float(error.detach()), **learned}

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on held-out slices; see `judged`.

        Agents of endless games are judged by their likeliest actions and, with the suffix
        ``_drawn``, by drawn ones, with the same draws in every evaluation.
        """
        if not isinstance(self.experience, Endless):
            return self.judge()
        scores = self.judge(drawn_too=True)
        return {name: scores[name] for name in self.held_out_metrics}
