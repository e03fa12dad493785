"""A deep Q-network on any scenario; for jobs laid out by burst class, as in SchedQRM.

V. Mnih et al., "Human-level control through deep reinforcement learning" (2015): the network
estimates the return of each action. It plays many slices at once, mostly taking the action with the
highest value, and learns from random transitions of a replay memory, with a slow copy of itself for
the targets. Later additions to the algorithm are options: double, duelling, n-step and prioritised.

Where slices differ much, as windows of a log do, estimates of later values are too rough to tell
actions apart. With `rollouts`, each slice is played several times, and an action is valued by what
its episode earned from then on, compared with the mean of the slice's episodes: Monte Carlo control
(R. S. Sutton and A. G. Barto, "Reinforcement learning", 2018, section 5.4) with a baseline.

Four more options matter to burst classes ("SchedQRM", CCIT 2019): classes without a job are masked
instead of punished (`mask`); one scorer looks at every class (`network`); an estimate of the future
return is taken out of the rewards (`shaping`), so that only the difference is learned; and errors
are divided by the number of waiting jobs (`per_job`), so that states with few jobs are learned as
well as those with many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from torch import Tensor

from simkit.agent.actions import Starts
from simkit.agent.burst_classes import PATIENCE
from simkit.arrays import Bools, Ints
from simkit.learners.common.arguments import Extent, Positive, Share, prepared
from simkit.learners.common.games import (
    NOTHING_DONE,
    Games,
    Source,
    logged,
    mean_of,
    results_of,
)
from simkit.learners.common.off_policy.action_values import (
    ValueNetwork,
    best_next,
    follow,
    target_of,
)
from simkit.learners.common.off_policy.experience import (
    ComparingRecorder,
    Move,
    NStepRecorder,
    Transition,
)
from simkit.learners.common.off_policy.replay import PrioritisedReplay, Replay
from simkit.learners.common.torch_training import GamesTraining, Kept
from simkit.learners.common.training import Stateful
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.learners.games.job_sets import ClassRules
from simkit.learners.lockstep.class_games import ClassMask
from simkit.learners.lockstep.class_slots import Reading
from simkit.learners.networks.build import Network, build, seeded
from simkit.learners.networks.optimisers import (
    OptimiserName,
    linear,
    make_optimiser,
    set_learning_rate,
    take_step,
)
from simkit.learners.networks.shapes import Width
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count
from simkit.text import counted
from simkit.training import Training

Part = Annotated[float, Field(ge=0, le=1)]
LARGEST_GRADIENT: Final = 10.0
"""Gradients are clipped to this norm."""
USUAL: Final = {
    "iterations": 40, "job_sets": 8, "rollouts": 4, "held_out_sets": 20, "max_decisions": 5_000,
    "discount": 0.95, "replay": 20_000, "per_job": False, "decisions_per_update": 32,
    "learning_rate": 0.001,
}  # fmt: skip
"""Defaults for simulations, which take longer than job sets in lock-step."""
SLOTS: Final = {
    **USUAL, "discount": 1.0, "starts": "now", "job_sets": 24, "held_out_sets": 100,
    "max_decisions": 3000,
}  # fmt: skip
"""Defaults for numbered slots."""


class DQNArguments(GamesArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 120
    """Iterations of the training."""
    job_sets: Count = 360
    """New slices per iteration, played in parallel: job sets, or windows of a log."""
    rollouts: Count = 1
    """Episodes of each slice. With 2 or more, what an action earned is compared with the mean of
    the slice's episodes from the same time step on, and learned once all have ended."""
    discount: Share = 1.0
    """Discount factor per decision."""
    # the environment
    starts: Starts = "ahead"
    """A job is placed as early as it fits, or (`now`) only if it fits now; else time passes."""
    patience: Annotated[int, Field(ge=0)] = PATIENCE
    """With `starts: now`, the most steps in a row in which nothing runs although a job fits."""
    mask: ClassMask = "possible"
    """Classes without a job that fits are masked, or (`none`) choosing one costs 210 and a step."""
    reading: Reading = "delay"
    """Meaning of c in the reward -(a + c / a): see `simkit.learners.lockstep.class_slots`."""
    shaping: bool = True
    """Add the growth of an estimate of future rewards to each reward; the best policy stays the
    same."""
    horizon: Extent = 201
    """Steps ahead in which jobs can be placed."""
    max_decisions: Count = 1000
    """Largest number of decisions in an episode; jobs still open then count as unfinished."""
    # the network
    network: Literal["scorer", "perceptron"] = "scorer"
    """One scorer for every class, or a perceptron over the paper's observation."""
    hidden: Width = 64
    """Units of each layer."""
    duelling: bool = True
    """Two streams: the value of the state, and each action's advantage over the mean one."""
    # learning
    per_job: bool = True
    """Divide errors by the number of waiting jobs: the value of many jobs is more uncertain."""
    double: bool = True
    """The network chooses the next action, whose value the target network estimates."""
    steps: Count = 6
    """n: rewards are summed over this many decisions before a value is estimated."""
    replay: Count = 50_000
    """Number of transitions in the replay memory."""
    prioritised: bool = False
    """Transitions with large errors are drawn more often."""
    batch: Count = 256
    """Transitions per update."""
    decisions_per_update: Count = 16
    """Decisions between two updates."""
    target_every: Count = 400
    """Updates between two copies of the network to the target network."""
    learning_rate: Positive = 0.002
    """Learning rate of the optimiser."""
    falls: bool = True
    """Whether the learning rate falls linearly to 0 during the training."""
    optimiser: OptimiserName = "adam"
    """The optimiser."""
    explore: Part = 0.1
    """Initial share of random actions."""
    explore_end: Part = 0.02
    """Share of random actions from the middle of the training on."""
    held_out_sets: Count = 200
    """Job sets on which the agent is evaluated; the same for all trainings, never trained on."""

    @model_validator(mode="after")
    def _patience_where_time_passes(self) -> Self:
        if "patience" in self.model_fields_set and self.starts == "ahead":
            raise BrokenRulesError([(("patience",), "is for starts: now; leave it out")])
        return self

    @model_validator(mode="after")
    def _mask_where_time_passes(self) -> Self:
        if self.mask == "none" and self.starts == "now":
            text = "is none, which needs starts: ahead; with now, leave it out"
            raise BrokenRulesError([(("mask",), text)])
        return self

    @model_validator(mode="after")
    def _memory_holds_a_batch(self) -> Self:
        if self.batch > self.replay:
            text = f"is {self.batch}, but the memory (replay) holds {self.replay}, so that it never"
            raise BrokenRulesError([(("batch",), f"{text} learns; give at most that")])
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for arguments that are out of range or do not suit
    the scenario, job sets without a job, or a missing device; PluginError without safetensors,
    which the first checkpoint needs.
    """

    def source_of(chosen: DQNArguments) -> Source[Any]:
        classes = ClassRules(
            horizon=chosen.horizon, mask=chosen.mask, reading=chosen.reading,
            shaped=chosen.shaping, paper=chosen.network == "perceptron",
        )  # fmt: skip
        return games_of(scenario, chosen, "dqn", chosen.job_sets, classes)

    given = {**usual_numbers(scenario, USUAL, arguments, SLOTS), **arguments}
    chosen, source = prepared(DQNArguments, given, source_of, device)
    return DQNTraining(scenario, source, chosen, seed, device)


class DQNTraining(GamesTraining):
    """A training of a deep Q-network."""

    learner = "dqn"
    chosen: DQNArguments
    network: ValueNetwork

    def __init__(
        self, scenario: Scenario, source: Source[Any], chosen: DQNArguments, seed: int, device: str,
        learner: str = "dqn",
    ) -> None:  # fmt: skip
        # Environment
        streams = ("job_sets", "actions", "memories")
        super().__init__(scenario, source, chosen, seed, device, learner, streams)
        # Agent
        self.shape = source.scorer(chosen.hidden)
        with seeded(self.stream("weights")):
            self.network = ValueNetwork(build(self.shape), duelling=chosen.duelling).to(device)
        self.target = target_of(self.network)
        self.optimiser = make_optimiser(
            chosen.optimiser, self.network.parameters(), chosen.learning_rate
        )
        # Memory
        self.memory = (PrioritisedReplay if chosen.prioritised else Replay)(chosen.replay)
        self.progress = Progress()

    @property
    def agent(self) -> Network:
        return self.network.advantages

    def parts(self) -> Mapping[str, Stateful]:
        return {"target": Kept(self.target), "memory": self.memory, "progress": self.progress}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        Of the games see `logged`, whose return includes `shaping`; ``explore``: share of random
        actions; ``loss``: mean over the updates, not a number if there was none. If no slice has a
        job, nothing is learned, and only `NOTHING_DONE` is returned.
        """
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        explore = linear(chosen.explore, chosen.explore_end, 2 * done)
        if chosen.falls:
            set_learning_rate(self.optimiser, linear(chosen.learning_rate, 0.0, done))
        # Rollout, and an update now and then
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        recorder = self._recorder(len(games.steps))
        returns, losses, decisions = np.zeros(len(games.steps)), list[float](), 0
        seen = self._see(games)
        while len(active := games.active):
            actions, is_random = self._act(seen, explore)
            steps = games.steps[active]
            rewards = games.step(actions) / self.unit
            returns[active] += rewards
            decisions += len(active)
            after = np.zeros_like(seen)
            goes_on = np.isin(active, games.active)
            after[goes_on] = still_active = self._see(games)
            self._remember(recorder.add(Move(
                active, steps, seen, actions, is_random, self._allowed(seen).sum(axis=1) > 1,
                rewards, after, ~goes_on, games.cut[active],
            )))  # fmt: skip
            seen = still_active
            losses += self._update(len(active))
        losses += self._update(self._remember(recorder.rest()))
        # Logging
        return {
            **logged(games, float(returns.mean()) * self.unit, decisions), "explore": explore,
            "loss": mean_of(losses),
        }  # fmt: skip

    @property
    def unit(self) -> int:
        """What rewards are counted in: the number of jobs to choose from, apart from waiting."""
        return self.shape.outputs - 1

    def _see(self, games: Games) -> npt.NDArray[np.float32]:
        """Return (A, K + M + 2): observations, masks, and the number of waiting jobs."""
        parts = games.observe(), games.mask(), games.waiting()[:, None]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _allowed(self, seen: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the masks in the rows of `_see`."""
        return seen[:, self.shape.inputs : -1]

    def _split(self, seen: npt.NDArray[np.float32]) -> tuple[Tensor, Tensor]:
        """Return the observations and the masks in the rows of `_see`, as tensors."""
        both = torch.from_numpy(seen).to(self.device)
        return both[:, : self.shape.inputs], both[:, self.shape.inputs : -1] > 0

    def _act(self, seen: npt.NDArray[np.float32], explore: float) -> tuple[Ints, Bools]:
        """Return (A,) actions, the best or random ones, and (A,) whether they are not the best."""
        rng, allowed = self.generators["actions"], self._allowed(seen)
        random = (allowed * rng.random(allowed.shape)).argmax(axis=1)
        best = self._best(seen)
        actions = np.where(rng.random(len(seen)) < explore, random, best)
        return actions, actions != best

    @torch.no_grad()
    def _best(self, seen: npt.NDArray[np.float32]) -> Ints:
        """Return (A,) actions with the highest values."""
        best: Ints = self.network(*self._split(seen)).argmax(dim=-1).cpu().numpy()
        return best

    def _recorder(self, episodes: int) -> NStepRecorder | ComparingRecorder:
        chosen = self.chosen
        if chosen.rollouts == 1:
            return NStepRecorder(episodes, chosen.steps, chosen.discount)
        by_step = self.source.in_steps and chosen.discount == 1
        return ComparingRecorder(episodes, chosen.rollouts, chosen.discount, by_step=by_step)

    def _remember(self, transitions: Iterable[Transition]) -> int:
        """Store transitions in the memory; return how many."""
        rows = list(transitions)
        if rows:
            self.memory.extend({name: np.array([row[name] for row in rows]) for name in rows[0]})
        return len(rows)

    def _update(self, decisions: int) -> list[float]:
        """Make the updates due after further decisions; return their losses."""
        due = self.progress.updates_due(decisions, self.chosen.decisions_per_update)
        return [self._improve() for _ in due if len(self.memory) >= self.chosen.batch]

    def _improve(self) -> float:
        """Take one step of the optimiser; return the loss.

        The loss is the mean squared error of the values of the actions taken. Their targets are the
        rewards that followed, plus the value of the state after them.
        """
        chosen = self.chosen
        drawn = self.memory.draw(chosen.batch, self.generators["memories"])
        columns = {
            name: torch.from_numpy(drawn.columns[name]).to(self.device)
            for name in ("action", "reward", "discount")
        }
        target = columns["reward"]
        if not (ends := columns["discount"] == 0).all():
            after, allowed = self._split(drawn.columns["after"])
            allowed[ends] = True  # nothing follows, but each row must allow something
            later = best_next(self.network, self.target, after, allowed, double=chosen.double)
            target = target + columns["discount"] * later
        values = self.network(*self._split(drawn.columns["seen"]))
        error = values.gather(-1, columns["action"].unsqueeze(-1)).squeeze(-1) - target.float()
        if chosen.per_job:
            waiting = torch.from_numpy(drawn.columns["seen"][:, -1]).to(self.device)
            error = error / waiting.clamp(min=1.0)
        weights = torch.from_numpy(drawn.weights).float().to(self.device)
        loss = (weights * error.square()).mean()
        take_step(self.optimiser, loss, LARGEST_GRADIENT)
        if isinstance(self.memory, PrioritisedReplay):
            self.memory.correct(drawn.rows, error.detach().cpu().numpy().astype(np.float64))
        if self.progress.updates % chosen.target_every == 0:
            follow(self.target, self.network)
        return float(loss.detach())

    def why_untrained(self) -> str:
        key = "batch" if self.progress.updates else "decisions_per_update"
        return (
            f"the memory holds {counted(len(self.memory), 'decision')}, too few for {key}: "
            f"{getattr(self.chosen, key)}; lower it, or give more iterations or job_sets"
        )

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out slices, with its best actions; see `results_of`."""
        games, total = self.source.games(self.unseen), 0.0
        while len(games.active):
            total += float(games.step(self._best(self._see(games))).sum())
        return results_of(games, self.criterion, total / len(games.steps))

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        how = self.source.describe(self.agent.shape) | {"choose": "greedy"}
        self.write_network(folder, self.agent, how, curve_end)


class Progress:
    """The numbers of decisions and updates so far; a part of a checkpoint."""

    def __init__(self) -> None:
        self.decisions = self.updates = 0

    def updates_due(self, decisions: int, every: int) -> Iterator[int]:
        """Add to the decisions; yield the numbers of the updates due, one per `every` decisions."""
        self.decisions += decisions
        while self.updates < self.decisions // every:
            self.updates += 1
            yield self.updates

    def state(self) -> dict[str, Any]:
        """Return both numbers."""
        return {"decisions": self.decisions, "updates": self.updates}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.decisions, self.updates = int(state["decisions"]), int(state["updates"])
