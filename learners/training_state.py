"""What changes in the course of a training of a perceptron, to a checkpoint and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import RunError

from .checkpoints import Checkpoint
from .optimisers import Optimiser
from .policy_network import PolicyNetwork
from .value_baseline import ValueBaseline


@dataclass(frozen=True)
class TrainingState:
    """The parts that learn, and the generators that are drawn from; all are restored in place."""

    network: PolicyNetwork
    optimiser: Optimiser
    value: ValueBaseline
    generators: Mapping[str, np.random.Generator]
    further: Mapping[str, dict[str, bool]] = field(default_factory=dict)
    """Whatever else a learner must remember, by part and name."""

    def save(self, folder: Path, iteration: int, identity: Mapping[str, Any]) -> None:
        """Write a checkpoint; see `Checkpoint.write`."""
        parts = {
            "weights": self.network.weights,
            "optimiser": self.optimiser.state(),
            "value": self.value.state(),
            **self.further,
        }
        states = {name: dict(rng.bit_generator.state) for name, rng in self.generators.items()}
        Checkpoint(iteration, parts, states).write(folder, identity)

    def load(self, folder: Path, identity: Mapping[str, Any]) -> int:
        """Go on from a checkpoint; return its iteration. See `Checkpoint.read` for errors."""
        found = Checkpoint.read(folder, identity)
        try:
            self._restore(found)
        except (LookupError, ValueError, TypeError) as error:
            text = f"{folder}: holds no whole checkpoint ({error!r}); begin the training anew"
            raise RunError(text) from error
        return found.iteration

    def _restore(self, found: Checkpoint) -> None:
        for name, array in self.network.weights.items():
            array[...] = found.parts["weights"][name]
        self.network.refresh()
        self.optimiser.restore(found.parts["optimiser"])
        self.value.restore(found.parts["value"])
        for part, values in self.further.items():
            values.update({name: bool(found.parts[part][name]) for name in values})
        for name, rng in self.generators.items():
            rng.bit_generator.state = found.generators[name]
