"""DeepRM: a policy over ten slots, learned by REINFORCE.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (HotNets 2016). In each iteration a hundred job sets are played twenty times each with
the policy as it is; an action's credit is the return from it on, less the mean return of the same
job set's rollouts at the same decision. Two things differ from the paper's recipe unless one asks
for them: job sets are fresh in each iteration (`fresh`), since a hundred fixed ones are learned by
heart after some 300 iterations; and all jobs count in what is reported, unfinished ones too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learners.arguments import credit_problems, read_arguments, refuse_without_jobs
from simkit.learners.bundle import safetensors, write_slotted_agent
from simkit.learners.checkpoints import TrainingState
from simkit.learners.deeprm.model import JobSource, imitate, slotted_model
from simkit.learners.lockstep import OBJECTIVES, Lockstep, Objective
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
from simkit.learners.nn.input_layers import LAYERS, make_input_layer
from simkit.learners.nn.optimisers import make_optimiser
from simkit.learners.nn.perceptron import Weights, entropies, small_weights
from simkit.learners.nn.policy_network import check_device, make_network
from simkit.learners.nn.proximal import entropy_pull, pull_on_logits
from simkit.learners.nn.value_baseline import ValueBaseline
from simkit.learning.slotted import Slotted
from simkit.scenario import Scenario
from simkit.seeds import stream
from simkit.training import Training

# Arguments


@dataclass(frozen=True)
class Arguments:
    """What `learn.arguments` may say."""

    iterations: int = 1000
    """Iterations of the training."""
    job_sets: int = 100
    """Job sets an iteration."""
    rollouts: int = 20
    """Episodes of each job set."""
    fresh: bool = True
    """New job sets in each iteration; false: the same ones, as in the paper."""
    hidden: int = 20
    """Size of the hidden layer."""
    optimiser: str = "rmsprop"
    """rmsprop, as in the original, or adam."""
    learning_rate: float = 0.001
    """The optimiser's."""
    discount: float = 1.0
    """Of a reward that comes a decision later."""
    objective: str = "slowdown"
    """What is minimised: the jobs' slowdown, or their completion time."""
    observation: str = "deeprm-image"
    """The image of the paper, or deeprm-compact."""
    mask: bool = False
    """Rule out actions that would do nothing, the void action aside."""
    entropy: float = 0.0
    """Weight of a decision's entropy, in nats, beside its credit in units of the objective."""
    baseline: str = "decision"
    """decision: the mean over a job set's rollouts at the same decision; value: a network."""
    warm_start: str = "none"
    """none; or sjf: the network first learns what shortest-job-first does."""
    warm_start_rounds: int = 12
    """Rounds of 200 job sets of the warm start; about a second each."""
    samples_share: float = 1.0
    """Share of the decisions, drawn at random, that the gradient is taken over."""
    held_out_sets: int = 100
    """How many of the original's unseen job sets the agent is judged by."""
    horizon: int = 20
    """Steps ahead that are planned."""
    memory: int = 10
    """Steps since the last arrival are counted up to here."""
    max_decisions: int = 2000
    """After so many decisions an episode is ended; what is not done counts as unfinished."""


RANGES = {
    **dict.fromkeys(("iterations", "job_sets", "rollouts", "hidden", "max_decisions"), (1, inf)),
    **dict.fromkeys(("horizon", "memory", "held_out_sets"), (1, 10_000)),
    "warm_start_rounds": (1, inf),
    "learning_rate": (1e-12, inf), "discount": (0, 1), "entropy": (0, inf),
    "samples_share": (1e-6, 1),
}  # fmt: skip
CHOICES = {
    "optimiser": ("rmsprop", "adam"), "objective": OBJECTIVES, "observation": tuple(LAYERS),
    "baseline": ("decision", "value"), "warm_start": ("none", "sjf"),
}  # fmt: skip
SETS_A_BATCH = 10
"""The original takes the mean over the decisions of ten job sets, and adds these means up."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not DeepRM's workload on a
    pool in steps, arguments out of their range, job sets without a job, or a device that is not
    there; PluginError without safetensors, which the first checkpoint would ask for.
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
        model = slotted_model(scenario, horizon=chosen.horizon, memory=chosen.memory)
        source = JobSource(scenario)
    except ScenarioError as error:
        problems += error.problems
    if problems or model is None:
        raise ScenarioError(problems)
    return DeepRMTraining(scenario, model, source, chosen, seed, device)


class DeepRMTraining:
    """A training under way; see `simkit.training.Training`."""

    extendable = True

    def __init__(
        self, scenario: Scenario, model: Slotted, source: JobSource, arguments: Arguments,
        seed: int, device: str = "cpu",
    ) -> None:  # fmt: skip
        self.iteration = 0
        self.iterations = arguments.iterations
        self._scenario, self._model, self._arguments = scenario, model, arguments

        # Seed: a stream for each thing that is drawn
        self._seed = seed
        self._rng = {name: stream(seed, f"deeprm.{name}") for name in STREAMS}

        # Environment
        self._source = source
        self._fixed = source.draw(stream(seed, "deeprm.fixed_job_sets"), arguments.job_sets)
        self._unseen = source.unseen(arguments.held_out_sets)
        fixed = {} if arguments.fresh else {"job_sets": self._fixed}
        refuse_without_jobs({"held_out_sets": self._unseen, **fixed})

        # Agent
        first, self._schema = make_input_layer(arguments.observation, model)
        layers = [first.inputs, arguments.hidden, model.actions]
        weights = small_weights(stream(seed, "deeprm.weights"), layers)
        self._network = make_network(first, weights, device)
        self._optimiser = make_optimiser(arguments.optimiser, arguments.learning_rate)
        self._value = ValueBaseline(first.inputs, rng=self._rng["value"], first=first)
        self._warm_start = {"done": arguments.warm_start == "none"}
        self._state = TrainingState(
            self._network, self._optimiser, self._value, self._rng, {"warm_start": self._warm_start}
        )

    def step(self) -> Mapping[str, float]:
        """Do an iteration; return what `simkit train` logs.

        ``return``: mean sum of rewards of an episode; ``return_best``: mean over the job sets of
        their best rollout's; ``slowdown``, ``unfinished``: of the rollouts, all jobs counted;
        ``decisions``: of all rollouts; ``entropy``: mean of a decision, in nats;
        ``gradient_norm``; with a value network ``explained_variance``. Where no job set has a job,
        nothing is learned, and only the numbers that are known then are returned.
        """
        chosen = self._arguments
        self._warm_up()
        sets = self._job_sets()
        self.iteration += 1
        if not sets.jobs.any():
            return NOTHING_DONE
        # Storage and rollout
        game = self._game(sets, chosen.rollouts)
        rollouts = roll_out(game, self._network, self._rng["actions"], mask=chosen.mask)
        # Update
        advantage, said = self._advantage(rollouts)
        slope = self._slope(rollouts, advantage)
        self._optimiser.ascend(self._network.weights, slope)
        self._network.refresh()
        # Logging
        returns = rollouts.rewards.sum(axis=0).reshape(-1, chosen.rollouts)
        results = outcome(game)
        return {
            "return": float(returns.mean()),
            "return_best": float(returns.max(axis=1).mean()),
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(len(rollouts.actions)),
            "entropy": float(entropies(rollouts.log_probabilities).mean()),
            "gradient_norm": _norm(slope),
            **said,
        }

    def _warm_up(self) -> None:
        """Imitate shortest-job-first once, before the first iteration."""
        if self._warm_start["done"]:
            return
        rng = self._rng["warm_start"]
        rounds = range(self._arguments.warm_start_rounds)
        drawn = (self._source.draw(rng, WARM_SETS) for _ in rounds)
        imitate(self._network, (self._game(sets, 1) for sets in drawn if sets.jobs.any()), rng)
        self._warm_start["done"] = True

    def _job_sets(self) -> JobSets:
        if not self._arguments.fresh:
            return self._fixed
        return self._source.draw(self._rng["job_sets"], self._arguments.job_sets)

    def _game(self, sets: JobSets, replicas: int) -> Lockstep:
        chosen = self._arguments
        objective: Objective = "slowdown" if chosen.objective == "slowdown" else "completion"
        return Lockstep(self._model, sets, replicas, objective, chosen.max_decisions)

    def _advantage(self, rollouts: Rollouts) -> tuple[Floats, dict[str, float]]:
        """Return (D,) the credit of each decision, and what is to be logged of it."""
        where = rollouts.decision, rollouts.episode
        returns = rewards_to_go(rollouts.rewards, self._arguments.discount)  # (T, N)
        if self._arguments.baseline == "decision":
            return (returns - decision_means(returns, self._arguments.rollouts))[where], {}
        advantage = returns[where] - self._value.predict(rollouts.stored)
        foreseen = self._value.fit(rollouts.stored, returns[where])
        return advantage, {"explained_variance": foreseen}

    def _slope(self, rollouts: Rollouts, advantage: Floats) -> Weights:
        """Return the gradient of the expected return, at the scale of the original.

        There it is the mean over the decisions of ten job sets, summed over all tens; here, the
        sum over all decisions by their mean number in ten job sets, which differs by a hair.
        """
        chosen = self._arguments
        stored, log_p = rollouts.stored, rollouts.log_probabilities
        actions = rollouts.actions
        if chosen.samples_share < 1:
            taken = self._rng["samples"].random(len(actions)) < chosen.samples_share
            stored, log_p, actions = stored[taken], log_p[taken], actions[taken]
            advantage = advantage[taken]
        scale = chosen.job_sets / SETS_A_BATCH / max(len(actions), 1)
        pull = (advantage * scale).astype(np.float32)
        cotangent = pull_on_logits(np.exp(log_p), actions, pull)  # (D, actions)
        if chosen.entropy:
            cotangent += np.float32(chosen.entropy * scale) * entropy_pull(log_p)
        return self._network.gradient(stored, cotangent)

    def held_out(self) -> Mapping[str, float]:
        """Return how the agent does on the original's unseen sets, actions drawn; see `outcome`.

        The draws are the same at every look. ``return``: mean sum of rewards of an episode.
        """
        self._warm_up()
        game = self._game(self._unseen, 1)
        rng = stream(self._seed, "deeprm.held_out")
        decide = chooser(self._network, game, rng, mask=self._arguments.mask)
        total = play(game, decide)
        return {**outcome(game), "return": float(total.mean())}

    def save(self, folder: Path) -> None:
        self._state.save(folder, self.iteration, self._identity())

    def load(self, folder: Path) -> None:
        self.iteration = self._state.load(folder, self._identity())

    def _identity(self) -> dict[str, Any]:
        """Return what tells this training from others, and what an agent says of its training."""
        return {
            "learner": "deeprm",
            "arguments": asdict(self._arguments),
            "seed": self._seed,
            "scenario": self._scenario.model_dump(mode="json", exclude={"learn"}),
        }

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        self._warm_up()
        write_slotted_agent(
            folder,
            self._network.weights,
            schema=self._schema,
            model=self._model,
            mask=self._arguments.mask,
            training=self._identity(),
            curve_end=curve_end,
        )


STREAMS = ("job_sets", "actions", "samples", "value", "warm_start")
"""What is drawn at random in the course of a training."""
WARM_SETS = 200
"""Job sets of a round of the warm start."""


def _norm(arrays: Weights) -> float:
    return float(
        sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays.values()) ** 0.5
    )
