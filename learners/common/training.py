"""What all trainings share: seeds, streams of random numbers, and checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from simkit.arrays import stream
from simkit.errors import RunError
from simkit.learners.bundle import write_bundle
from simkit.learners.checkpoints import Checkpoint
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.sections import Section
from simkit.training import Training

__all__ = ["SeededTraining", "Stateful"]


class Stateful(Protocol):
    """A part of a training that remembers something, such as a replay memory."""

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as arrays and plain values."""

    def restore(self, state: Mapping[str, Any], /) -> None:
        """Be as when `state` was called; raises an error if the state is not of this kind."""


class SeededTraining(Training):
    """A training whose random numbers follow from one seed, and which a checkpoint can hold.

    A learner makes its parts, and its iterations in `iterate`.
    """

    learner: str
    """The name of the learner."""

    def __init__(self, scenario: Scenario, arguments: Section, seed: int, streams: tuple[str, ...]):
        """Begin.

        Args:
            scenario: to train on.
            arguments: of the learner, with ``iterations``.
            seed: of the training.
            streams: a name for each thing that is drawn at random in the course of the training.
        """
        self.scenario, self.arguments, self.seed = scenario, arguments, seed
        self.iteration, self.iterations = 0, int(getattr(arguments, "iterations"))  # noqa: B009
        self.generators = {name: self.stream(name) for name in streams}

    def stream(self, name: str) -> np.random.Generator:
        """Return a fresh generator for one thing that is drawn."""
        return stream(self.seed, f"{self.learner}.{name}")

    def parts(self) -> Mapping[str, Stateful]:
        """Return what this learner has that a checkpoint must hold, beside `kept`."""
        return {}

    def kept(self) -> Mapping[str, Stateful]:
        """Return what a checkpoint holds of every training of this kind, beside the generators."""
        return {}

    @abstractmethod
    def iterate(self) -> Mapping[str, float]:
        """Run an iteration; return what `simkit train` logs."""

    def step(self) -> Mapping[str, float]:
        self.iteration += 1
        return self.iterate()

    def save(self, folder: Path) -> None:
        parts = {name: part.state() for name, part in self._all_parts().items()}
        states = {name: dict(rng.bit_generator.state) for name, rng in self.generators.items()}
        Checkpoint(self.iteration, parts, states).write(folder, self.identity())

    def load(self, folder: Path) -> None:
        found = Checkpoint.read(folder, self.identity())
        try:
            for name, part in self._all_parts().items():
                part.restore(found.parts[name])
            for name, rng in self.generators.items():
                rng.bit_generator.state = found.generators[name]
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            text = f"{folder}: holds a damaged checkpoint ({error!r}); start the training over"
            raise RunError(text) from error
        self.iteration = found.iteration

    def _all_parts(self) -> Mapping[str, Stateful]:
        return {**self.kept(), **self.parts()}

    def write_weights(
        self,
        folder: Path,
        weights: Mapping[str, np.ndarray[Any, np.dtype[np.float32]]],
        how: Mapping[str, Any],
        curve_end: Mapping[str, float],
    ) -> None:
        """Write an agent's bundle.

        Args:
            folder: of the bundle.
            weights: arrays by name.
            how: what agent.json says of how it acts; see `simkit.learners.description.describe`.
            curve_end: the last row of the metrics.
        """
        of_training = {"versions": versions(), "curve_end": dict(curve_end), **self.identity()}
        workload = of_training["scenario"]["workload"]
        if "path" in workload:  # bundles are given to others, who have it elsewhere
            workload["path"] = Path(workload["path"]).name
        write_bundle(folder, weights, {**how, **of_training})

    def identity(self) -> dict[str, Any]:
        """Return what tells this training from others, and what an agent says of its training."""
        return {
            "learner": self.learner,
            "arguments": self.arguments.model_dump(mode="json"),
            "seed": self.seed,
            "scenario": self.scenario.model_dump(mode="json", exclude={"learn"}),
        }
