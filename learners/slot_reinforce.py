"""The base of the learners deeprm and sofia, REINFORCE over slots: arguments, job sets, credit.

Each job set is played several times with the current policy. The credit of an action is its return
minus a baseline: the mean return of the same job set's rollouts at the same decision, or the
estimate of a value network.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator

from simkit.arrays import Floats
from simkit.learners.common.arguments import Positive
from simkit.learners.common.baselines import decision_means
from simkit.learners.common.bundle import describe_view, of_slots
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.optimisers import OptimiserName, make_optimiser
from simkit.learners.common.returns import rewards_to_go
from simkit.learners.common.rollouts import Rollouts
from simkit.learners.common.shapes import Width
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.common.value_baseline import ValueBaseline
from simkit.learners.lockstep import Lockstep, Objective
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import JobSource, refuse_without_jobs
from simkit.learners.lockstep.pool_in_steps import RESOURCES
from simkit.learners.lockstep.slot_games import ObservedGames
from simkit.learners.lockstep.slot_inputs import slot_input
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Section

VALUE_UNITS = 20
"""Hidden units of the value network."""


class SlotReinforceArguments(Section):
    """The arguments of both learners."""

    iterations: Count = 1000
    """Iterations of the training."""
    rollouts: Count = 20
    """Episodes of each job set."""
    fresh: bool = True
    """Draw new job sets in each iteration; false: use the same ones, as in the original."""
    objective: Objective = "slowdown"
    """What is minimised: the slowdown or the completion time of the jobs."""
    hidden: Width = 20
    """Units of the hidden layer."""
    learning_rate: Positive = 0.001
    """Learning rate of the optimiser."""
    discount: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount factor per decision."""
    mask: bool = False
    """Mask actions that would do nothing, except the void action."""
    baseline: Literal["decision", "value"] = "decision"
    """The mean over a job set's rollouts at the same decision, or a value network."""
    # each learner has its own defaults for these
    job_sets: Count
    observation: str
    optimiser: OptimiserName
    held_out_sets: Count

    @model_validator(mode="after")
    def _baseline_differs_from_return(self) -> Self:
        if self.baseline == "decision" and self.rollouts == 1:
            text = (
                "is 1, but with baseline decision the mean over a job set's rollouts is then the "
                "rollout's own return, so nothing is learned; give 2 or more, or baseline: value"
            )
            raise BrokenRulesError([(("rollouts",), text)])
        return self


class SlotReinforceTraining(TorchTraining):
    """A training; a learner defines how weights are drawn and what an iteration does."""

    extendable = True
    chosen: SlotReinforceArguments

    def __init__(
        self,
        scenario: Scenario,
        source: JobSource,
        arguments: SlotReinforceArguments,
        seed: int,
        device: str,
        *,
        streams: tuple[str, ...] = (),
        value_learning_rate: float = 0.001,
    ) -> None:
        """Build the training.

        `streams` are generators in addition to ``job_sets``, ``actions`` and ``value``.
        """
        super().__init__(scenario, arguments, seed, ("job_sets", "actions", "value", *streams))
        self.chosen, self.device = arguments, device
        # Environment
        self.source, self.model = source, source.model
        self.fixed_sets = source.draw(self.stream("fixed_job_sets"), arguments.job_sets)
        self.unseen_sets = source.held_out(arguments.held_out_sets)
        fixed = {} if arguments.fresh else {"job_sets": self.fixed_sets}
        refuse_without_jobs({"held_out_sets": self.unseen_sets, **fixed})
        # Agent
        self.input = slot_input(arguments.observation, self.model)
        with seeded(self.stream("weights")):
            network = self.input.perceptron(arguments.hidden, self.model.actions)
            self.draw_weights(network)
            value = self.input.perceptron(VALUE_UNITS, 1).to(device)
        self._network = network.to(device)
        self.optimiser = make_optimiser(
            arguments.optimiser, self.network.parameters(), arguments.learning_rate
        )
        self.value = ValueBaseline(
            value, rng=self.generators["value"], learning_rate=value_learning_rate
        )

    @abstractmethod
    def draw_weights(self, network: Perceptron) -> None:
        """Draw the policy's initial weights with torch's global generator."""

    @property
    def network(self) -> Perceptron:
        return self._network

    def parts(self) -> Mapping[str, Stateful]:
        return {"value": self.value}

    def draw_job_sets(self) -> JobSets:
        """Return the job sets for an iteration."""
        if not self.chosen.fresh:
            return self.fixed_sets
        return self.source.draw(self.generators["job_sets"], self.chosen.job_sets)

    def games(self, lockstep: Lockstep) -> ObservedGames:
        """Return a lock-step environment with the policy's observations and masks."""
        return ObservedGames(lockstep, self.input.observe, masked=self.chosen.mask)

    def credit(self, rollouts: Rollouts) -> tuple[Floats, Floats, dict[str, float]]:
        """Return (D,) advantages and (D,) returns of the decisions, and numbers to log.

        If the baseline is a value network, it learns, and its ``explained_variance`` is logged.
        """
        to_go = rewards_to_go(rollouts.rewards, self.chosen.discount)  # (T, N)
        returns = rollouts.rows(to_go)  # (D,)
        if self.chosen.baseline == "decision":
            baseline = rollouts.rows(decision_means(to_go, self.chosen.rollouts))
            return returns - baseline, returns, {}
        seen = torch.from_numpy(rollouts.seen).to(self.device)
        advantage = returns - self.value.predict(seen)
        return advantage, returns, {"explained_variance": self.value.fit(seen, returns)}

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        schema, masked = self.input.schema, self.chosen.mask
        kind = of_slots(schema.name, self.model, "possible" if masked else "none", RESOURCES)
        description = describe_view(self.network.shape, schema, kind)
        self.write_network(folder, self.network, description, curve_end)
