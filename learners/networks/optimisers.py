"""Optimisers by name, Adam and DeepRM's rmsprop, and how their steps are taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

OptimiserName = Literal["rmsprop", "adam"]


class RmsProp(torch.optim.Optimizer):
    """Divides gradients by the root of a moving mean of their squares.

    T. Tieleman and G. Hinton, "RMSProp" (2012). `epsilon` is added under the root, as in DeepRM's
    program; torch's own rmsprop adds it to the root.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, decay: float = 0.9,
        epsilon: float = 1e-9,
    ) -> None:  # fmt: skip
        super().__init__(parameters, {"lr": lr, "decay": decay, "epsilon": epsilon})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights by their gradients."""
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is None:
                    continue
                memory = self.state[weights]
                square = memory.setdefault("mean_square", torch.zeros_like(weights))
                square.lerp_(weights.grad.square(), 1 - group["decay"])
                root = (square + group["epsilon"]).sqrt()
                weights.addcdiv_(weights.grad, root, value=-group["lr"])


def make_optimiser(
    name: OptimiserName, parameters: Iterable[nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    """Return a new optimiser of this name."""
    if name == "adam":
        return torch.optim.Adam(parameters, learning_rate)
    return RmsProp(parameters, learning_rate)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all weights."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def take_step(optimiser: torch.optim.Optimizer, loss: Tensor, largest_gradient: float) -> None:
    """Take one step on a loss, with its gradient clipped to a norm."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    weights = [each for group in optimiser.param_groups for each in group["params"]]
    nn.utils.clip_grad_norm_(weights, largest_gradient)
    optimiser.step()


def linear(begin: float, end: float, done: float) -> float:
    """Return the linear interpolation from `begin` to `end` at `done`, which is cut to 0 … 1."""
    return begin + (end - begin) * min(max(done, 0.0), 1.0)
