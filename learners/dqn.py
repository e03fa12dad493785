"""A deep Q-network that schedules jobs laid out by burst class, as in SchedQRM.

"SchedQRM" (CCIT 2019), with the algorithm of V. Mnih et al., "Human-level control through deep
reinforcement learning" (2015): the network estimates the return of each action. It plays many job
sets at once, mostly taking the action with the highest value, and learns from random transitions of
a replay memory, with a slow copy of itself for the targets. Later additions to the algorithm are
options: double, duelling, n-step and prioritised.

Four more options matter here: classes without a job are masked instead of punished (`mask`); one
scorer looks at every class (`network`); an estimate of the future return is taken out of the
rewards (`shaping`), so that only the difference is learned; and errors are divided by the number of
waiting jobs (`per_job`), so that states with few jobs are learned as well as those with many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator

from simkit.agent.actions import Starts
from simkit.agent.burst_classes import PATIENCE, class_schema
from simkit.arrays import Bools, Ints
from simkit.learners.classes.description import class_scorer, describe_classes
from simkit.learners.common.action_values import ValueNetwork, best_next, follow, target_of
from simkit.learners.common.arguments import (
    Extent,
    NotNegative,
    Positive,
    prepared,
)
from simkit.learners.common.networks import Network, build, seeded
from simkit.learners.common.optimisers import (
    OptimiserName,
    linear,
    make_optimiser,
    set_learning_rate,
    take_step,
)
from simkit.learners.common.replay import NSteps, PrioritisedReplay, Replay
from simkit.learners.common.shapes import PerceptronShape, Width
from simkit.learners.common.torch_training import Kept, TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.lockstep.class_games import ClassGames, ClassMask
from simkit.learners.lockstep.class_jobs import ClassJobs
from simkit.learners.lockstep.class_slots import ClassLockstep, Reading
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import refuse_loads_without_sets, refuse_without_jobs
from simkit.learners.lockstep.outcome import outcome
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many, Section
from simkit.training import Training

Part = Annotated[float, Field(ge=0, le=1)]
LARGEST_GRADIENT: Final = 10.0
"""Gradients are clipped to this norm."""


class DQNArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 120
    """Iterations of the training."""
    loads: Many[Positive] = ()
    """Loads to mix, equally many jobs of each; none: that of the workload. For SchedQRM's workload,
    the load is the number of jobs over the number of classes."""
    job_sets: Count = 360
    """New job sets per iteration, played in parallel."""
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

    Raises ScenarioError, all problems at once, for a scenario that is not SchedQRM's or DeepRM's
    workload on a pool in steps, arguments out of range, or a missing device; PluginError without
    safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: DQNArguments) -> ClassJobs:
        return ClassJobs(scenario, "the learner dqn", chosen.loads, horizon=chosen.horizon)

    chosen, source = prepared(DQNArguments, arguments, source_of, device)
    return DQNTraining(scenario, source, chosen, seed, device)


class DQNTraining(TorchTraining):
    """A training of a deep Q-network."""

    learner = "dqn"

    def __init__(
        self, scenario: Scenario, source: ClassJobs, arguments: DQNArguments, seed: int, device: str
    ) -> None:
        super().__init__(scenario, arguments, seed, ("job_sets", "actions", "memories"))
        self.chosen, self.device = arguments, device
        # Environment
        self.source, self.model = source, source.model
        self.unseen_sets = source.held_out(arguments.held_out_sets)
        refuse_without_jobs({"held_out_sets": self.unseen_sets})
        refuse_loads_without_sets(arguments.job_sets, arguments.loads, source)
        self.paper = arguments.network == "perceptron"
        self.schema = class_schema(self.model, paper=self.paper)
        # Agent
        with seeded(self.stream("weights")):
            self._network = ValueNetwork(self._build(), duelling=arguments.duelling).to(device)
        self.target = target_of(self._network)
        self.optimiser = make_optimiser(
            arguments.optimiser, self.network.parameters(), arguments.learning_rate
        )
        # Memory
        kind = PrioritisedReplay if arguments.prioritised else Replay
        self.memory = kind(arguments.replay)
        self.progress = Progress()

    def _build(self) -> Network:
        chosen, model = self.chosen, self.model
        if not self.paper:
            return build(class_scorer(model, chosen.hidden))
        layers = (self.schema.size, chosen.hidden, model.actions)
        return build(PerceptronShape(type="perceptron", layers=layers, activation="relu"))

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
        sets = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        games = self._games(sets, shaped=chosen.shaping)
        n_steps = [NSteps(chosen.steps, 1.0) for _ in range(len(sets))]
        returns, losses = np.zeros(len(sets)), list[float]()
        seen = self._see(games)
        while len(active := games.active):
            # Act
            actions, is_random = self._act(seen, explore)
            rewards = games.step(actions) / self.model.slots
            returns[active] += rewards
            # Remember
            after = np.zeros_like(seen)
            goes_on = np.isin(active, games.active)
            after[goes_on] = still_active = self._see(games)
            for row, steps in enumerate([n_steps[game] for game in active.tolist()]):
                is_cut = games.lockstep.cut[active[row]]  # the outcome is unknown
                complete = steps.cut(seen[row]) if is_random[row] or is_cut else []
                if not is_cut:
                    one_step = seen[row], int(actions[row]), float(rewards[row]), after[row]
                    complete += steps.add(*one_step, over=not goes_on[row])
                for transition in complete:
                    self.memory.add(transition)
            seen = still_active
            # Learn
            for _ in self.progress.updates_due(len(active), chosen.decisions_per_update):
                if len(self.memory) >= chosen.batch:
                    losses.append(self._learn())
        # Logging
        results = outcome(games.lockstep)
        return {
            "return": float(returns.mean()) * self.model.slots,
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(games.lockstep.decisions.sum()),
            "explore": explore,
            "loss": float(np.mean(losses)) if losses else 0.0,
        }

    def _games(self, sets: JobSets, *, shaped: bool = False) -> ClassGames:
        chosen = self.chosen
        lockstep = ClassLockstep(
            self.model, sets, reading=chosen.reading, penalty=chosen.penalty,
            limit=chosen.max_decisions,
        )  # fmt: skip
        return ClassGames(
            lockstep, chosen.starts, chosen.mask, patience=chosen.patience, paper=self.paper,
            shaped=shaped,
        )  # fmt: skip

    def _see(self, games: ClassGames) -> npt.NDArray[np.float32]:
        """Return (A, K + M + 2): observations, masks, and the number of waiting jobs."""
        parts = games.observe(), games.mask(), games.lockstep.waiting()[:, None]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _split(self, seen: npt.NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the observations and the masks in the rows of `_see`, as tensors."""
        both = torch.from_numpy(seen).to(self.device)
        return both[:, : self.schema.size], both[:, self.schema.size : -1] > 0

    def _act(self, seen: npt.NDArray[np.float32], explore: float) -> tuple[Ints, Bools]:
        """Return (A,) actions, the best or random ones, and (A,) whether they are not the best."""
        rng, allowed = self.generators["actions"], seen[:, self.schema.size : -1]
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
        after, allowed_after = self._split(drawn.columns["after"])
        ends = columns["discount"] == 0
        allowed_after[ends] = True  # nothing follows, but each row must allow something
        later = best_next(self.network, self.target, after, allowed_after, double=chosen.double)
        target = columns["reward"] + columns["discount"] * later
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
        """Evaluate the agent on the held-out sets, with its best actions; see `outcome`."""
        games = self._games(self.unseen_sets)
        while len(games.active):
            games.step(self._best(self._see(games)))
        return outcome(games.lockstep)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        network = self.network.advantages
        description = describe_classes(
            network.shape, self.schema, self.model, self.chosen.starts, self.chosen.mask,
            self.chosen.patience,
        )  # fmt: skip
        self.write_network(folder, network, description, curve_end)


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
