"""REINFORCE on the Sofia study's batches, uphill by the gradient, the natural gradient or PPO.

The model is that of "Resource management with deep reinforcement learning" (Sofia, 2021): some
seventy jobs wait from step 0 on, ten of them in slots, for a pool of 50 units of two resources.
The study's own natural gradient did not converge; here it needs no Fisher matrix and its step is
bounded (`natural_gradient`). Every decision is credited and every episode is played to its end,
where the study's program credits the first decision of a step and stops at step 150.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import ScenarioError
from simkit.learners.arguments import (
    RESOURCES,
    credit_problems,
    longest_job,
    pool_problems,
    read_arguments,
    refuse_without_jobs,
)
from simkit.learners.bundle import safetensors, write_slotted_agent
from simkit.learners.checkpoints import TrainingState
from simkit.learners.lockstep import OBJECTIVES, Lockstep, MeteredLockstep, Objective
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.rollouts import (
    NOTHING_DONE,
    Rollouts,
    chooser,
    decision_means,
    outcome,
    play,
    rewards_to_go,
    roll_out,
)
from simkit.learners.nn.derivatives import glorot
from simkit.learners.nn.optimisers import make_optimiser
from simkit.learners.nn.perceptron import entropies
from simkit.learners.nn.policy_network import check_device, make_network
from simkit.learners.nn.sofia_layer import SofiaLayer
from simkit.learners.nn.value_baseline import ValueBaseline
from simkit.learners.sofia.updates import Batch, Updates, first_of_steps
from simkit.learning.observe_sofia import NAMES, sofia_schema
from simkit.learning.slotted import Slotted
from simkit.scenario import Scenario
from simkit.scenario.models import SofiaWorkload
from simkit.seeds import stream
from simkit.traces.models.sofia import draw_batches
from simkit.training import Training

# MERGED The Sofia study's model: its dimensions, and job sets, from a scenario.


def slotted_model(scenario: Scenario, horizon: int, backlog_shown: int) -> Slotted:
    """Return the slotted model that a scenario describes.

    Raises ScenarioError, all problems at once, if it is not Sofia's batch on one pool in steps.
    """
    workload = scenario.workload
    if not isinstance(workload, SofiaWorkload):
        raise ScenarioError(f"workload.type: the learner sofia takes sofia, not {workload.type}")
    if problems := list(pool_problems(scenario, workload, "sofia")):
        raise ScenarioError(problems)
    return Slotted(
        capacity=(workload.capacity,) * len(RESOURCES),
        slots=scenario.admission.slots or 0,
        horizon=horizon,
        max_length=longest_job(workload, horizon),
        backlog=scenario.admission.backlog,
        backlog_shown=backlog_shown,
        step_s=workload.step_s,
    )


def draw_sets(scenario: Scenario, model: Slotted, count: int, rng: np.random.Generator) -> JobSets:
    """Draw job sets of the scenario's workload; raises ScenarioError if jobs do not fit."""
    arguments = scenario.workload.reader_arguments()
    kept = {k: v for k, v in arguments.items() if k not in ("step_s", "capacity")}
    sets = JobSets(*draw_batches(rng, sets=count, **kept))
    sets.check_fit(model)
    return sets


# Arguments


@dataclass(frozen=True)
class Arguments:
    """What `learn.arguments` may say."""

    iterations: int = 1000
    """Iterations of the training; the study calls them episodes."""
    job_sets: int = 5
    """Job sets an iteration."""
    rollouts: int = 20
    """Episodes of each job set."""
    fresh: bool = True
    """New job sets in each iteration; false: the same ones, as in the study."""
    update: str = "natural"
    """gradient: a step of the optimiser; natural: a bounded step along the natural gradient;
    proximal: several steps of the optimiser on the clipped objective."""
    optimiser: str = "adam"
    """adam or rmsprop; the natural gradient needs none."""
    learning_rate: float = 0.001
    """The optimiser's."""
    hidden: int = 20
    """Size of the hidden layer."""
    observation: str = "sofia-shares"
    """The study's state in shares of the capacity, or in units as in the study: sofia-compact."""
    objective: str = "slowdown"
    """What is minimised: the jobs' slowdown, or their completion time."""
    discount: float = 1.0
    """Of a reward that comes a decision later."""
    mask: bool = False
    """Rule out actions that would do nothing, the void action aside."""
    credit: str = "all"
    """Decisions that are learned from: all, or the first of each step, as in the study."""
    baseline: str = "decision"
    """decision: the mean over a job set's rollouts at the same decision; value: a network."""
    value_learning_rate: float = 0.001
    """The value network's."""
    normalise: bool = True
    """Divide the advantages of an iteration by their spread, so that `entropy` is in its unit."""
    entropy: float = 0.0
    """Weight of the policy's mean entropy, in nats, beside the objective."""
    kl: float = 0.01
    """Natural gradient: bound of the mean KL divergence of a step, in nats."""
    damping: float = 0.01
    """Natural gradient: what is added to the Fisher matrix's diagonal."""
    products: int = 10
    """Natural gradient: the most products with the Fisher matrix."""
    fisher_share: float = 0.1
    """Natural gradient: share of the decisions that the Fisher matrix and the KL are taken over."""
    clip: float = 0.2
    """Proximal: how far from 1 a ratio of probabilities still counts."""
    epochs: int = 4
    """Proximal: how often the decisions of an iteration are gone through."""
    batch: int = 4096
    """Proximal: decisions a step of the optimiser."""
    held_out_sets: int = 20
    """Job sets that the agent is judged by; the same for all trainings, and never learned from."""
    max_decisions: int = 4000
    """After so many decisions an episode is ended; what is not done counts as unfinished."""
    horizon: int = 60
    """Steps ahead that are planned."""
    backlog_shown: int = 60
    """Tasks behind the slots that are seen; more wait unseen."""
    last_step: int = 150
    """The step whose load and reward are logged by themselves: the study's episodes end there."""


RANGES = {
    **dict.fromkeys(("iterations", "job_sets", "rollouts", "held_out_sets", "hidden"), (1, inf)),
    **dict.fromkeys(("products", "epochs", "batch", "max_decisions", "last_step"), (1, inf)),
    **dict.fromkeys(("learning_rate", "value_learning_rate", "kl", "clip"), (1e-12, inf)),
    **dict.fromkeys(("horizon", "backlog_shown"), (1, 10_000)),
    "discount": (0, 1), "entropy": (0, inf), "damping": (0, inf), "fisher_share": (1e-6, 1),
}  # fmt: skip
CHOICES = {
    "update": ("gradient", "natural", "proximal"), "optimiser": ("adam", "rmsprop"),
    "observation": tuple(NAMES.values()), "objective": OBJECTIVES,
    "credit": ("all", "first"), "baseline": ("decision", "value"),
}  # fmt: skip


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is no Sofia batch on a pool,
    arguments out of their range, job sets without a job, or a device that is not there;
    PluginError without safetensors, which the first checkpoint would ask for. Fisher-vector
    products are done by the processor wherever the rest is.
    """
    safetensors()
    problems = check_device(device)
    chosen, model = Arguments(), None
    try:
        chosen = read_arguments(Arguments, arguments, ranges=RANGES, choices=CHOICES)
        problems += credit_problems(chosen.baseline, chosen.rollouts)
    except ScenarioError as error:
        problems += error.problems
    try:
        model = slotted_model(scenario, chosen.horizon, chosen.backlog_shown)
    except ScenarioError as error:
        problems += error.problems
    if problems or model is None:
        raise ScenarioError(problems)
    return SofiaTraining(scenario, model, chosen, seed, device)


class SofiaTraining:
    """A training under way; see `simkit.training.Training`."""

    extendable = True

    def __init__(
        self,
        scenario: Scenario,
        model: Slotted,
        arguments: Arguments,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self.iteration = 0
        self.iterations = arguments.iterations
        self._scenario, self._model, self._arguments, self._seed = scenario, model, arguments, seed

        # Seed: a stream for each thing that is drawn
        names = ("job_sets", "actions", "sample", "value")
        self._rng = {name: stream(seed, f"sofia.{name}") for name in names}

        # Environment
        shares = arguments.observation == NAMES[True]
        self._schema = sofia_schema(model, shares=shares)
        fixed = stream(seed, "sofia.fixed_job_sets")
        self._fixed = draw_sets(scenario, model, arguments.job_sets, fixed)
        held_out = stream(0, "sofia.held_out")
        self._held_out = draw_sets(scenario, model, arguments.held_out_sets, held_out)
        again = {} if arguments.fresh else {"job_sets": self._fixed}
        refuse_without_jobs({"held_out_sets": self._held_out, **again})

        # Agent
        first, inputs = SofiaLayer(model, shares=shares), self._schema.size
        weights = glorot(stream(seed, "sofia.weights"), (inputs, arguments.hidden, model.actions))
        self._network = make_network(first, weights, device)
        self._optimiser = make_optimiser(arguments.optimiser, arguments.learning_rate)
        self._updates = Updates(arguments, self._network, self._optimiser, self._rng["sample"])
        self._value = ValueBaseline(
            inputs, rng=self._rng["value"], learning_rate=arguments.value_learning_rate, first=first
        )
        self._state = TrainingState(self._network, self._optimiser, self._value, self._rng)

    def step(self) -> Mapping[str, float]:
        """Do an iteration; return what `simkit train` logs.

        ``return``: mean sum of rewards of an episode; ``slowdown``, ``unfinished``: of the
        rollouts, all jobs counted; ``decisions``; ``entropy`` in nats; ``load``, ``last_load``,
        ``last_reward``: see `MeteredLockstep`; and what the update says. Where no job set has a
        job, nothing is learned, and only the numbers that are known then are returned.
        """
        chosen = self._arguments
        sets = self._job_sets()
        self.iteration += 1
        if not sets.jobs.any():
            return NOTHING_DONE
        # Rollout
        limit = chosen.max_decisions
        game = MeteredLockstep(self._model, sets, chosen.rollouts, _objective(chosen), limit)
        game.meter(chosen.last_step)
        rollouts = roll_out(game, self._network, self._rng["actions"], mask=chosen.mask)
        # Storage
        batch, said = self._batch(rollouts)
        # Update
        said |= self._updates.improve(batch)
        # Logging
        results = outcome(game)
        return {
            "return": float(rollouts.rewards.sum(axis=0).mean()),
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(len(rollouts.actions)),
            "entropy": float(entropies(rollouts.log_probabilities).mean()),
            **game.measured(),
            **said,
        }

    def _job_sets(self) -> JobSets:
        if not self._arguments.fresh:
            return self._fixed
        count = self._arguments.job_sets
        return draw_sets(self._scenario, self._model, count, self._rng["job_sets"])

    def _batch(self, rollouts: Rollouts) -> tuple[Batch, dict[str, float]]:
        """Return the decisions that are credited, and what is to be logged."""
        chosen, said = self._arguments, {}
        where = rollouts.decision, rollouts.episode
        returns = rewards_to_go(rollouts.rewards, chosen.discount)
        if chosen.baseline == "value":
            advantage = returns[where] - self._value.predict(rollouts.stored)
            said["explained_variance"] = self._value.fit(rollouts.stored, returns[where])
        else:
            advantage = (returns - decision_means(returns, chosen.rollouts))[where]
        if chosen.normalise:
            advantage = advantage / max(float(advantage.std()), 1e-12)
        rows: Any = slice(None)
        if chosen.credit == "first":
            rows = np.flatnonzero(first_of_steps(rollouts.rewards)[where])
        return Batch(
            rollouts.stored[rows], rollouts.log_probabilities[rows], rollouts.actions[rows],
            advantage[rows].astype(np.float32),
        ), said  # fmt: skip

    def held_out(self) -> Mapping[str, float]:
        """Return how the agent does on the held-out sets, actions drawn, as `outcome` says it.

        Drawn, since the likeliest action alone may leave a job where it is for ever.
        """
        chosen = self._arguments
        limit = chosen.max_decisions
        game = Lockstep(self._model, self._held_out, objective=_objective(chosen), limit=limit)
        total = play(
            game, chooser(self._network, game, stream(0, "sofia.held_out"), mask=chosen.mask)
        )
        return {"return": float(total.mean()), **outcome(game)}

    def save(self, folder: Path) -> None:
        self._state.save(folder, self.iteration, self._identity())

    def load(self, folder: Path) -> None:
        self.iteration = self._state.load(folder, self._identity())

    def _identity(self) -> dict[str, Any]:
        return {
            "learner": "sofia", "arguments": asdict(self._arguments), "seed": self._seed,
            "scenario": self._scenario.model_dump(mode="json", exclude={"learn"}),
        }  # fmt: skip

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        write_slotted_agent(
            folder,
            self._network.weights,
            schema=self._schema,
            model=self._model,
            mask=self._arguments.mask,
            training=self._identity(),
            curve_end=curve_end,
        )


def _objective(arguments: Arguments) -> Objective:
    return "slowdown" if arguments.objective == "slowdown" else "completion"
