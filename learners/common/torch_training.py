"""The base of trainings in torch: the network's state in checkpoints, and runs on one thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from simkit.learners.common.training import SeededTraining, Stateful

__all__ = [
    "Kept",
    "TorchTraining",
    "load_weights",
    "one_thread",
    "restore_state",
    "state_of",
    "weights_of",
]


class TorchTraining(SeededTraining):
    """A training of a torch module.

    Iterations and evaluations run on one thread: sums in another order would give other weights.
    """

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The module that is trained."""

    optimiser: torch.optim.Optimizer

    def step(self) -> Mapping[str, float]:
        with one_thread():
            return super().step()

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


@dataclass(frozen=True)
class Kept:
    """A network or an optimiser as a part of a checkpoint."""

    part: nn.Module | torch.optim.Optimizer

    def state(self) -> dict[str, Any]:
        return state_of(self.part)

    def restore(self, state: Mapping[str, Any]) -> None:
        restore_state(self.part, state)


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


def state_of(part: nn.Module | torch.optim.Optimizer, prefix: str = "") -> dict[str, Any]:
    """Return copies of a network's weights, or of an optimiser's state, such as ``0.exp_avg``.

    Args:
        part: the network or optimiser.
        prefix: added to all names.
    """
    if isinstance(part, nn.Module):
        return {prefix + name: array for name, array in weights_of(part).items()}
    return {
        f"{prefix}{number}.{name}": tensor.cpu().numpy().copy()
        for number, tensors in part.state_dict()["state"].items()
        for name, tensor in tensors.items()
    }


def restore_state(
    part: nn.Module | torch.optim.Optimizer, state: Mapping[str, Any], prefix: str = ""
) -> None:
    """Restore what `state_of` returned; names without the prefix are ignored.

    Raises RuntimeError if the weights do not fit.
    """
    own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    if isinstance(part, nn.Module):
        load_weights(part, own)
        return
    tensors: dict[int, dict[str, torch.Tensor]] = {}
    for key, array in own.items():
        number, _, name = key.partition(".")
        tensors.setdefault(int(number), {})[name] = torch.from_numpy(np.asarray(array))
    part.load_state_dict({"state": tensors, "param_groups": part.state_dict()["param_groups"]})
