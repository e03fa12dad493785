"""What trainings in torch share: seeds, checkpoints, and one thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from simkit.errors import RunError
from simkit.learners.bundle import write_bundle
from simkit.learners.checkpoints import Checkpoint
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.scenario.types import Section
from simkit.seeds import stream
from simkit.training import Training

__all__ = [
    "Stateful",
    "TorchTraining",
    "load_weights",
    "one_thread",
    "restore_state",
    "state_of",
    "weights_of",
]


class Stateful(Protocol):
    """A part of a training that remembers something, such as a replay memory."""

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as arrays and plain values."""

    def restore(self, state: Mapping[str, Any], /) -> None:
        """Be as when `state` was called."""


class TorchTraining(Training):
    """A training of a torch module; a learner makes its parts, and its iterations in `iterate`.

    They run on one thread, and evaluations too: sums in another order would give other weights.
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

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """All that is trained."""

    optimiser: torch.optim.Optimizer

    def stream(self, name: str) -> np.random.Generator:
        """Return a fresh generator for one thing that is drawn."""
        return stream(self.seed, f"{self.learner}.{name}")

    def step(self) -> Mapping[str, float]:
        with one_thread():
            self.iteration += 1
            return self.iterate()

    @abstractmethod
    def iterate(self) -> Mapping[str, float]:
        """Do an iteration; return what `simkit train` logs."""

    def held_out(self) -> Mapping[str, float]:
        with one_thread():
            return self.evaluate()

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Return how the agent does on held-out job sets; it changes nothing."""

    def parts(self) -> Mapping[str, Stateful]:
        """Return what a checkpoint holds beside the network, its optimiser and the generators."""
        return {}

    def save(self, folder: Path) -> None:
        parts = {"weights": state_of(self.network), "optimiser": state_of(self.optimiser)}
        parts |= {name: part.state() for name, part in self.parts().items()}
        states = {name: dict(rng.bit_generator.state) for name, rng in self.generators.items()}
        Checkpoint(self.iteration, parts, states).write(folder, self.identity())

    def load(self, folder: Path) -> None:
        found = Checkpoint.read(folder, self.identity())
        try:
            restore_state(self.network, found.parts["weights"])
            restore_state(self.optimiser, found.parts["optimiser"])
            for name, part in self.parts().items():
                part.restore(found.parts[name])
            for name, rng in self.generators.items():
                rng.bit_generator.state = found.generators[name]
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            text = f"{folder}: holds a damaged checkpoint ({error!r}); start the training over"
            raise RunError(text) from error
        self.iteration = found.iteration

    def write_network(
        self,
        folder: Path,
        network: nn.Module,
        how: Mapping[str, Any],
        curve_end: Mapping[str, float],
    ) -> None:
        """Write a network as an agent's bundle.

        Args:
            folder: of the bundle.
            network: of the policy.
            how: what agent.json says of how it acts; see `simkit.learners.description.describe`.
            curve_end: the last row of the metrics.
        """
        of_training = {"versions": versions(), "curve_end": dict(curve_end), **self.identity()}
        write_bundle(folder, weights_of(network), {**how, **of_training})

    def identity(self) -> dict[str, Any]:
        """Return what tells this training from others, and what an agent says of its training."""
        return {
            "learner": self.learner,
            "arguments": self.arguments.model_dump(mode="json"),
            "seed": self.seed,
            "scenario": self.scenario.model_dump(mode="json", exclude={"learn"}),
        }


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch calculate on one thread, and as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def weights_of(network: nn.Module) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Return a copy of a network's weights by name."""
    return {name: tensor.cpu().numpy().copy() for name, tensor in network.state_dict().items()}


def load_weights(network: nn.Module, weights: Mapping[str, Any]) -> None:
    """Set a network's weights; raises RuntimeError if names or shapes do not fit."""
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})


def state_of(part: nn.Module | torch.optim.Optimizer, prefix: str = "") -> dict[str, Any]:
    """Return copies of a network's weights, or of what an optimiser remembers, as ``0.exp_avg``.

    Args:
        part: the network or optimiser.
        prefix: of the names.
    """
    if isinstance(part, nn.Module):
        return {prefix + name: array for name, array in weights_of(part).items()}
    return {
        f"{prefix}{number}.{name}": tensor.cpu().numpy().copy()
        for number, memory in part.state_dict()["state"].items()
        for name, tensor in memory.items()
    }


def restore_state(
    part: nn.Module | torch.optim.Optimizer, state: Mapping[str, Any], prefix: str = ""
) -> None:
    """Restore what `state_of` returned; names without the prefix are left out.

    Raises RuntimeError if the weights do not fit.
    """
    mine = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    if isinstance(part, nn.Module):
        load_weights(part, mine)
        return
    memory: dict[int, dict[str, torch.Tensor]] = {}
    for key, array in mine.items():
        number, _, name = key.partition(".")
        memory.setdefault(int(number), {})[name] = torch.from_numpy(np.asarray(array))
    part.load_state_dict({"state": memory, "param_groups": part.state_dict()["param_groups"]})
