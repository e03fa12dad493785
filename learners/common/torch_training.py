"""The base of trainings in torch: checkpoints of the network, one thread, and games to play."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from simkit.learners.common.games import Source
from simkit.learners.common.rollouts import judged
from simkit.learners.common.training import SeededTraining, Stateful
from simkit.learners.networks.build import Network, Perceptron, SetScorer
from simkit.scenario import Scenario

__all__ = [
    "GamesTraining", "Kept", "TorchTraining", "load_weights", "one_thread", "weights_of",
]  # fmt: skip


class TorchTraining(SeededTraining):
    """A training of a torch module.

    Iterations and evaluations run on one thread: sums in another order would give other weights.
    """

    network: nn.Module
    """The module that is trained."""
    optimiser: torch.optim.Optimizer
    _first: Mapping[str, Any] | None = None
    """The weights with which the training began."""

    def step(self) -> Mapping[str, float]:
        self._first = self._first or weights_of(self.network)
        with one_thread():
            return super().step()

    def load(self, folder: Path) -> None:
        self._first = self._first or weights_of(self.network)
        super().load(folder)

    def warnings(self) -> Sequence[str]:
        first = self._first or {}
        if any(
            (array != first.get(name)).any() for name, array in weights_of(self.network).items()
        ):
            return ()
        text = "nothing was learned, and the agent is the untrained one"
        return (f"{self.learner}: {text}: {self.why_untrained()}",)

    def why_untrained(self) -> str:
        """Return what may have kept the weights as they were, and what to change."""
        return "no decision left a choice; take slices in which more jobs wait, or more of them"

    def held_out(self) -> Mapping[str, float]:
        with one_thread():
            return self.evaluate()

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Return metrics of the agent on held-out job sets, without changing the training."""

    def kept(self) -> Mapping[str, Stateful]:
        return {"weights": Kept(self.network), "optimiser": Kept(self.optimiser)}

    def write_network(
        self,
        folder: Path,
        network: nn.Module,
        description: Mapping[str, Any],
        curve_end: Mapping[str, float],
    ) -> None:
        """Write a network to an agent's bundle; see `write_weights`."""
        self.write_weights(folder, weights_of(network), description, curve_end)


class GamesTraining(TorchTraining):
    """A training that plays the games of a source; its agent is a network over what they show."""

    def __init__(
        self, scenario: Scenario, source: Source[Any], chosen: Any, seed: int, device: str,
        learner: str | None, streams: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Store the source, and draw the held-out slices.

        Args:
            scenario: the scenario to train on.
            source: of the games.
            chosen: the learner's arguments, with ``iterations`` and ``held_out_sets``.
            seed: seed of the training.
            device: of the network.
            learner: the name of the recipe; None: the algorithm's own.
            streams: see `SeededTraining`.
        """
        super().__init__(scenario, chosen, seed, streams, learner)
        self.device, self.source = device, source
        self.unseen = source.held_out(chosen.held_out_sets)
        self.criterion = source.criterion

    @property
    def agent(self) -> Network:
        """The network that chooses among actions."""
        assert isinstance(self.network, Perceptron | SetScorer)
        return self.network

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out slices; see `judged`."""
        return self.judge()

    def judge(self, *, drawn_too: bool = False) -> dict[str, float]:
        """Return how the agent does on the held-out slices; see `judged`."""
        return judged(
            self.source, self.unseen, self.agent, lambda: self.stream("held_out"), self.device,
            drawn_too=drawn_too,
        )  # fmt: skip

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        how = self.source.describe(self.agent.shape)
        self.write_network(folder, self.agent, how, curve_end)


@dataclass(frozen=True)
class Kept:
    """A network or an optimiser as a part of a checkpoint."""

    part: nn.Module | torch.optim.Optimizer

    def state(self) -> dict[str, Any]:
        """Return copies of a network's weights, or of an optimiser's state: ``0.exp_avg``."""
        if isinstance(self.part, nn.Module):
            return dict(weights_of(self.part))
        return {
            f"{number}.{name}": tensor.cpu().numpy().copy()
            for number, tensors in self.part.state_dict()["state"].items()
            for name, tensor in tensors.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned; raises RuntimeError if the weights do not fit."""
        if isinstance(self.part, nn.Module):
            return load_weights(self.part, state)
        tensors: dict[int, dict[str, torch.Tensor]] = {}
        for key, array in state.items():
            number, _, name = key.partition(".")
            tensors.setdefault(int(number), {})[name] = torch.from_numpy(np.asarray(array))
        groups = self.part.state_dict()["param_groups"]
        return self.part.load_state_dict({"state": tensors, "param_groups": groups})


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread; restore the number of threads afterwards."""
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
