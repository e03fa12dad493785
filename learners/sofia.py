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

from simkit.actions import SlotActions
from simkit.errors import ScenarioError
from simkit.observation_sofia import NAMES, sofia_schema
from simkit.run_info import versions
from simkit.scenario import Scenario
from simkit.seeds import stream
from simkit.slotted import Ints, Slotted
from simkit.training import Training

from .argument_rules import read_arguments
from .baselines import decision_means
from .bundle import write_bundle
from .checkpoints import Checkpoint
from .job_sets import JobSets
from .load_meter import MeteredLockstep
from .lockstep import OBJECTIVES, Floats, Lockstep
from .masks import Array, entropies, masked_log_softmax
from .natural_gradient import Trust, divergence, natural_step
from .optimisers import make_optimiser
from .outcomes import outcome
from .perceptron_derivatives import LinearisedPolicy, Stored, as_vector, glorot, moved
from .policy_network import PolicyNetwork
from .proximal import clipped_pull, entropy_pull, pull_on_logits
from .returns import rewards_to_go
from .rollouts import Rollouts, chooser, play, roll_out
from .sofia_layer import SofiaLayer
from .sofia_model import RESOURCES, draw_sets, slotted_model
from .value_baseline import ValueBaseline

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
    arguments out of their range, or a device other than ``cpu``.
    """
    problems: list[str] = []
    if device != "cpu":
        problems.append(
            f"device: sofia calculates on the cpu alone, not on {device!r}; leave it out"
        )
    chosen, model = Arguments(), None
    try:
        chosen = read_arguments(Arguments, arguments, ranges=RANGES, choices=CHOICES)
    except ScenarioError as error:
        problems += error.problems
    try:
        model = slotted_model(scenario, chosen.horizon, chosen.backlog_shown)
    except ScenarioError as error:
        problems += error.problems
    if problems or model is None:
        raise ScenarioError(problems)
    return SofiaTraining(scenario, model, chosen, seed)


class SofiaTraining:
    """A training under way; see `simkit.training.Training`."""

    def __init__(self, scenario: Scenario, model: Slotted, arguments: Arguments, seed: int) -> None:
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

        # Agent
        first, inputs = SofiaLayer(model, shares=shares), self._schema.size
        weights = glorot(stream(seed, "sofia.weights"), (inputs, arguments.hidden, model.actions))
        self._network = PolicyNetwork(first, weights)
        self._optimiser = make_optimiser(arguments.optimiser, arguments.learning_rate)
        self._value = ValueBaseline(
            inputs, rng=self._rng["value"], learning_rate=arguments.value_learning_rate, first=first
        )

    def step(self) -> Mapping[str, float]:
        """Do an iteration; return what `simkit train` logs.

        ``return``: mean sum of rewards of an episode; ``slowdown``, ``unfinished``: of the
        rollouts, all jobs counted; ``decisions``; ``entropy`` in nats; ``load``, ``last_load``,
        ``last_reward``: see `MeteredLockstep`; and what the update says.
        """
        chosen = self._arguments
        # Rollout
        game = MeteredLockstep(
            self._model, self._job_sets(), chosen.rollouts, _objective(chosen), chosen.max_decisions
        )
        game.meter(chosen.last_step)
        rollouts = roll_out(game, self._network, self._rng["actions"], mask=chosen.mask)
        # Storage
        batch, said = self._batch(rollouts)
        # Update
        said |= self._improve(batch)
        self.iteration += 1
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

    def _batch(self, rollouts: Rollouts) -> tuple[_Batch, dict[str, float]]:
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
        return _Batch(
            rollouts.stored[rows], rollouts.log_probabilities[rows], rollouts.actions[rows],
            advantage[rows].astype(np.float32),
        ), said  # fmt: skip

    def _improve(self, batch: _Batch) -> dict[str, float]:
        """Change the weights by what the batch tells."""
        if self._arguments.update == "natural":
            return self._go_natural(batch)
        if self._arguments.update == "proximal":
            return self._go_proximal(batch)
        self._ascend(batch, batch.log_probabilities, batch.advantage)
        return {}

    def _slope(self, batch: _Batch, log_p: Array, pull: Array) -> dict[str, Array]:
        """Return the gradient of the mean over the batch, the entropy's part included."""
        cotangent = pull_on_logits(np.exp(log_p), batch.actions, pull)
        if self._arguments.entropy:
            cotangent += self._arguments.entropy * entropy_pull(log_p)
        cotangent /= np.float32(len(cotangent))
        return self._network.gradient(batch.stored, cotangent)

    def _ascend(self, batch: _Batch, log_p: Array, pull: Array) -> None:
        self._optimiser.ascend(self._network.weights, self._slope(batch, log_p, pull))
        self._network.refresh()

    def _go_natural(self, batch: _Batch) -> dict[str, float]:
        chosen, network = self._arguments, self._network
        slope = as_vector(self._slope(batch, batch.log_probabilities, batch.advantage))
        count = max(1, round(chosen.fisher_share * len(batch.actions)))
        rows = self._rng["sample"].choice(len(batch.actions), count, replace=False)
        some = batch.take(np.sort(rows))
        allowed = np.isfinite(some.log_probabilities) if chosen.mask else None
        here = LinearisedPolicy(network.weights, some.stored, allowed, network.first)

        def outcome_of(change: Floats) -> tuple[float, float]:
            there = LinearisedPolicy(
                moved(network.weights, change), some.stored, allowed, network.first
            ).log_probabilities
            gain = float((some.advantage * (some.ratio(there) - 1)).mean(dtype=np.float64))
            spread = entropies(there).mean() - entropies(here.log_probabilities).mean()
            return divergence(here.log_probabilities, there), gain + chosen.entropy * float(spread)

        trust = Trust(kl=chosen.kl, damping=chosen.damping, products=chosen.products)
        done = natural_step(slope, here, outcome_of, trust)
        for name, array in moved(network.weights, done.change).items():
            network.weights[name][...] = array
        network.refresh()
        return {
            "kl": done.kl, "backtracks": float(done.backtracks),
            "products": float(done.products), "residual": done.residual,
        }  # fmt: skip

    def _go_proximal(self, batch: _Batch) -> dict[str, float]:
        chosen = self._arguments
        for _ in range(chosen.epochs):
            order = self._rng["sample"].permutation(len(batch.actions))
            for begin_at in range(0, len(order), chosen.batch):
                some = batch.take(order[begin_at : begin_at + chosen.batch])
                allowed = np.isfinite(some.log_probabilities) if chosen.mask else None
                log_p = masked_log_softmax(self._network.logits(some.stored), allowed)
                pull = clipped_pull(some.ratio(log_p), some.advantage, chosen.clip)
                self._ascend(some, log_p, pull)
        return {}

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
        """See `Training.save`."""
        parts = {
            "weights": self._network.weights,
            "optimiser": self._optimiser.state(),
            "value": self._value.state(),
        }
        generators = {name: rng.bit_generator.state for name, rng in self._rng.items()}
        Checkpoint(self.iteration, parts, generators).write(folder, self._identity())

    def load(self, folder: Path) -> None:
        """See `Training.load`."""
        found = Checkpoint.read(folder, self._identity())
        for name, array in self._network.weights.items():
            array[...] = found.parts["weights"][name]
        self._network.refresh()
        self._optimiser.restore(found.parts["optimiser"])
        self._value.restore(found.parts["value"])
        for name, rng in self._rng.items():
            rng.bit_generator.state = found.generators[name]
        self.iteration = found.iteration

    def _identity(self) -> dict[str, Any]:
        return {
            "learner": "sofia", "arguments": asdict(self._arguments), "seed": self._seed,
            "scenario": self._scenario.model_dump(mode="json", exclude={"learn"}),
        }  # fmt: skip

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        """See `Training.write_agent`."""
        layers = [self._schema.size, self._arguments.hidden, self._model.actions]
        description = {
            "architecture": {"type": "perceptron", "layers": layers, "activation": "relu"},
            "observation": self._schema.as_json(),
            "actions": {**SlotActions(self._model).as_json(), "mask": self._arguments.mask},
            "slotted": asdict(self._model),
            "resources": list(RESOURCES),
            **self._identity(),
            "versions": versions(),
            "curve_end": dict(curve_end),
        }
        write_bundle(folder, self._network.weights, description)


@dataclass(frozen=True)
class _Batch:
    """D decisions to learn from."""

    stored: Stored
    """(D, F) observations."""
    log_probabilities: Array
    """(D, actions) of the policy that drew."""
    actions: Ints
    """(D,)"""
    advantage: Array
    """(D,)"""

    def take(self, rows: Ints) -> _Batch:
        """Return some of the decisions."""
        return _Batch(
            self.stored[rows], self.log_probabilities[rows], self.actions[rows],
            self.advantage[rows],
        )  # fmt: skip

    def ratio(self, log_p: Array) -> Array:
        """Return (D,) how much likelier the actions are under other log-probabilities."""
        rows = np.arange(len(self.actions))
        result: Array = np.exp(
            log_p[rows, self.actions] - self.log_probabilities[rows, self.actions]
        )
        return result


def first_of_steps(rewards: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return (T, N) whether a decision is the first of its step: time went on just before.

    Args:
        rewards: (T, N), not 0 where time went on; in a batch there are jobs in every step.
    """
    first = np.ones(rewards.shape, np.bool_)
    first[1:] = rewards[:-1] != 0
    return first


def _objective(arguments: Arguments) -> Any:
    return arguments.objective
