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
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator

from simkit.agent.actions import Starts
from simkit.agent.burst_classes import PATIENCE
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.common.actor_critic.action_values import (
    ValueNetwork,
    best_next,
    follow,
    target_of,
)
from simkit.learners.common.arguments import Extent, NotNegative, Positive, Share, prepared
from simkit.learners.common.games import NOTHING_DONE, Games, Source, logged, results_of
from simkit.learners.common.networks import build, seeded
from simkit.learners.common.optimisers import (
    OptimiserName,
    linear,
    make_optimiser,
    set_learning_rate,
    take_step,
)
from simkit.learners.common.replay import NSteps, PrioritisedReplay, Replay
from simkit.learners.common.returns import deviation_by_group, rewards_to_go, rollout_means
from simkit.learners.common.shapes import Width
from simkit.learners.common.torch_training import Kept, TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.learners.games.job_sets import ClassRules
from simkit.learners.lockstep.class_games import ClassMask
from simkit.learners.lockstep.class_slots import Reading
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count
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
    """Classes without a job that fits are masked, or (`none`) choosing one costs `penalty`."""
    penalty: NotNegative = 210.0
    """Cost of choosing a class without a job that fits; a step passes as well."""
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
            penalty=chosen.penalty, shaped=chosen.shaping, paper=chosen.network == "perceptron",
        )  # fmt: skip
        return games_of(scenario, chosen, "dqn", chosen.job_sets, classes)

    given = {**usual_numbers(scenario, USUAL, arguments, SLOTS), **arguments}
    chosen, source = prepared(DQNArguments, given, source_of, device)
    return DQNTraining(scenario, source, chosen, seed, device)


class DQNTraining(TorchTraining):
    """A training of a deep Q-network."""

    learner = "dqn"

    def __init__(
        self, scenario: Scenario, source: Source[Any], arguments: DQNArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("job_sets", "actions", "memories"))
        self.chosen, self.device = arguments, device
        # Environment
        self.source = source
        self.unseen = source.held_out(arguments.held_out_sets)
        self.criterion = source.criterion
        # Agent
        self.shape = source.scorer(arguments.hidden)
        with seeded(self.stream("weights")):
            network = ValueNetwork(build(self.shape), duelling=arguments.duelling)
        self._network = network.to(device)
        self.target = target_of(self._network)
        self.optimiser = make_optimiser(
            arguments.optimiser, self.network.parameters(), arguments.learning_rate
        )
        # Memory
        kind = PrioritisedReplay if arguments.prioritised else Replay
        self.memory = kind(arguments.replay)
        self.progress = Progress()

    @property
    def network(self) -> ValueNetwork:
        return self._network

    def parts(self) -> Mapping[str, Stateful]:
        return {"target": Kept(self.target), "memory": self.memory, "progress": self.progress}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode, including `shaping`; ``slowdown``, ``unfinished``: of
        the episodes, over all jobs; ``decisions``; ``explore``: share of random actions; ``loss``:
        mean over the updates, 0 if there was none.
        """
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        explore = linear(chosen.explore, chosen.explore_end, 2 * done)
        if chosen.falls:
            set_learning_rate(self.optimiser, linear(chosen.learning_rate, 0.0, done))
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        recorder = self._recorder(len(games.steps))
        returns, losses, decisions = np.zeros(len(games.steps)), list[float](), 0
        seen = self._see(games)
        while len(active := games.active):
            # Act
            actions, is_random = self._act(seen, explore)
            steps = games.steps[active]
            rewards = games.step(actions) / self.unit
            returns[active] += rewards
            decisions += len(active)
            # Remember
            after = np.zeros_like(seen)
            goes_on = np.isin(active, games.active)
            after[goes_on] = still_active = self._see(games)
            move = Move(
                active,
                steps,
                seen,
                actions,
                is_random,
                self._allowed(seen).sum(axis=1) > 1,
                rewards,
                after,
                ~goes_on,
                games.cut[active],
            )
            self._remember(recorder.add(move))
            seen = still_active
            # Learn
            losses += self._learn_from(len(active))
        losses += self._learn_from(self._remember(recorder.rest()))
        # Logging
        return {
            **logged(games, float(returns.mean()) * self.unit, decisions),
            "explore": explore,
            "loss": float(np.mean(losses)) if losses else 0.0,
        }

    @property
    def unit(self) -> int:
        """What rewards are counted in: the number of jobs to choose from, apart from waiting."""
        return self.shape.outputs - 1

    def _recorder(self, episodes: int) -> NStepRecorder | ComparingRecorder:
        chosen = self.chosen
        if chosen.rollouts == 1:
            return NStepRecorder(episodes, chosen.steps, chosen.discount)
        in_steps = self.source.in_steps
        return ComparingRecorder(episodes, chosen.rollouts, chosen.discount, in_steps=in_steps)

    def _remember(self, transitions: Iterable[Transition]) -> int:
        """Store transitions in the memory; return how many."""
        rows = list(transitions)
        if rows:
            self.memory.extend({name: np.array([row[name] for row in rows]) for name in rows[0]})
        return len(rows)

    def _learn_from(self, decisions: int) -> list[float]:
        """Make the updates due after further decisions; return their losses."""
        due = self.progress.updates_due(decisions, self.chosen.decisions_per_update)
        return [self._learn() for _ in due if len(self.memory) >= self.chosen.batch]

    def _see(self, games: Games) -> npt.NDArray[np.float32]:
        """Return (A, K + M + 2): observations, masks, and the number of waiting jobs."""
        parts = games.observe(), games.mask(), games.waiting()[:, None]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _allowed(self, seen: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the masks in the rows of `_see`."""
        return seen[:, self.shape.inputs : -1]

    def _split(self, seen: npt.NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
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

    def _learn(self) -> float:
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

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out slices, with its best actions; see `outcome`."""
        games, total = self.source.games(self.unseen), 0.0
        while len(games.active):
            total += float(games.step(self._best(self._see(games))).sum())
        return results_of(games, self.criterion, total / len(games.steps))

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        network = self.network.advantages
        described = self.source.describe(network.shape) | {"choose": "greedy"}
        self.write_network(folder, network, described, curve_end)


Transition = Mapping[str, npt.ArrayLike]
Seen = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Move:
    """An action of each of A active episodes."""

    episode: Ints
    """(A,) numbers of the episodes."""
    step: Ints
    """(A,) time steps."""
    seen: Seen
    """(A, …) what was seen; see `DQNTraining._see`."""
    actions: Ints
    """(A,)"""
    is_random: Bools
    """(A,) whether the action was not the best one."""
    is_free: Bools
    """(A,) whether there was another one."""
    rewards: Floats
    """(A,)"""
    after: Seen
    """(A, …) what was seen after it; 0 at an episode's end."""
    ends: Bools
    """(A,) whether the episode ended with it."""
    is_cut: Bools
    """(A,) whether it did as it was cut off."""


class NStepRecorder:
    """Makes n-step transitions of moves, as soon as they are complete."""

    def __init__(self, episodes: int, n: int, discount: float) -> None:
        self._n_steps = [NSteps(n, discount) for _ in range(episodes)]

    def add(self, move: Move) -> Iterator[Transition]:
        """Take a move of the active episodes; yield what is complete."""
        for row, steps in enumerate([self._n_steps[game] for game in move.episode.tolist()]):
            is_cut = move.is_cut[row]  # the outcome is unknown
            complete = steps.cut(move.seen[row]) if move.is_random[row] or is_cut else []
            if not is_cut:
                one = move.seen[row], int(move.actions[row]), float(move.rewards[row])
                complete += steps.add(*one, move.after[row], over=bool(move.ends[row]))
            yield from complete

    def rest(self) -> Iterator[Transition]:
        """Yield what is left when all episodes have ended: nothing."""
        return iter(())


class ComparingRecorder:
    """Compares what actions earned with the mean of their slice's episodes, when all have ended.

    An action is credited with its return minus `step_means`, or `decision_means` where time does
    not pass in steps. Credits are in deviations of their slice, so that slices with long waits
    count no more than others.
    """

    def __init__(self, episodes: int, rollouts: int, discount: float, *, in_steps: bool) -> None:
        """Expect `rollouts` episodes of each slice; `in_steps`: see `Source`."""
        self._episodes, self._rollouts = episodes, rollouts
        self._discount, self._in_steps = discount, in_steps
        self._moves: list[Move] = []

    def add(self, move: Move) -> Iterator[Transition]:
        """Take a move of the active episodes."""
        self._moves.append(move)
        return iter(())

    def rest(self) -> Iterator[Transition]:
        """Yield a transition for each decision that left a choice."""
        shape = len(self._moves), self._episodes
        rewards, steps = np.zeros(shape), np.zeros(shape, np.int64)
        for number, move in enumerate(self._moves):
            rewards[number, move.episode], steps[number, move.episode] = move.rewards, move.step
        to_go = rewards_to_go(rewards, self._discount)
        by_step = self._in_steps and self._discount == 1
        credit = to_go - rollout_means(rewards, to_go, steps, self._rollouts, by_step=by_step)
        slices = np.repeat(np.arange(self._episodes) // self._rollouts, len(credit))
        credit /= deviation_by_group(credit.T.ravel(), slices).reshape(credit.T.shape).T
        for number, move in enumerate(self._moves):
            for row in np.flatnonzero(move.is_free).tolist():
                yield {
                    "seen": move.seen[row], "action": int(move.actions[row]),
                    "reward": float(credit[number, move.episode[row]]), "after": move.after[row],
                    "discount": 0.0,
                }  # fmt: skip


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
