"""A training of an agent over numbered slots: its checkpoints and the bundle that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import RunError
from simkit.learners.arguments import ReinforceArguments
from simkit.learners.bundle import write_bundle
from simkit.learners.checkpoints import Checkpoint
from simkit.learners.common.shapes import PerceptronShape
from simkit.learners.description import describe
from simkit.learners.nn.optimisers import Optimiser
from simkit.learners.nn.perceptron import sizes_of
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learners.nn.value_baseline import ValueBaseline
from simkit.learning.schema import ObservationSchema
from simkit.learning.slotted import Slotted
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.training import Training


class SlottedTraining(Training):
    """What DeepRM's and Sofia's trainings share; a learner sets all of its attributes."""

    extendable = True
    learner: str
    """The name of the learner."""
    scenario: Scenario
    seed: int
    model: Slotted
    """The dimensions of what the agent sees."""
    schema: ObservationSchema
    """What the numbers of an observation mean."""
    arguments: ReinforceArguments
    network: PolicyNetwork
    """The policy."""
    optimiser: Optimiser
    value: ValueBaseline
    """The value network."""
    generators: Mapping[str, np.random.Generator]
    """A generator for each thing that is drawn."""
    warm_start: dict[str, bool]
    """Whether the warm start is ``done``; empty if the learner has none."""

    def save(self, folder: Path) -> None:
        parts = {
            "weights": self.network.weights,
            "optimiser": self.optimiser.state(),
            "value": self.value.state(),
            "warm_start": self.warm_start,
        }
        states = {name: dict(rng.bit_generator.state) for name, rng in self.generators.items()}
        Checkpoint(self.iteration, parts, states).write(folder, self._identity())

    def load(self, folder: Path) -> None:
        found = Checkpoint.read(folder, self._identity())
        try:
            for name, array in self.network.weights.items():
                array[...] = found.parts["weights"][name]
            self.network.refresh()
            self.optimiser.restore(found.parts["optimiser"])
            self.value.restore(found.parts["value"])
            self.warm_start.update(found.parts.get("warm_start", {}))
            for name, rng in self.generators.items():
                rng.bit_generator.state = found.generators[name]
        except (LookupError, ValueError, TypeError) as error:
            text = f"{folder}: holds a damaged checkpoint ({error!r}); start the training over"
            raise RunError(text) from error
        self.iteration = found.iteration

    def _identity(self) -> dict[str, Any]:
        """Return what tells this training from others, and what an agent says of its training."""
        return {
            "learner": self.learner,
            "arguments": self.arguments.model_dump(),
            "seed": self.seed,
            "scenario": self.scenario.model_dump(mode="json", exclude={"learn"}),
        }

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        sizes = sizes_of(self.network.weights)
        description = {
            **describe(
                PerceptronShape(type="perceptron", layers=tuple(sizes), activation="relu"),
                self.schema,
                self.model,
                "possible" if self.arguments.mask else "none",
            ),
            **self._identity(),
            "versions": versions(),
            "curve_end": dict(curve_end),
        }
        write_bundle(folder, self.network.weights, description)
