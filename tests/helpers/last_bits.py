"""Arithmetic as another processor would do it: the last bit of a result may be another.

Libraries sum in an order that depends on the processor, and a training makes a large difference of
a small one: some iterations later it takes other actions. ``pytest --last-bits N`` runs tests so, in
the Nth of many ways. Equal numbers are disturbed alike, so that a training stays repeatable.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def disturb_last_bits(number: int) -> None:
    """Disturb what layers return, and weights after each step of an optimiser."""
    linear = torch.nn.functional.linear

    def other_linear(*args: Any, **kwargs: Any) -> torch.Tensor:
        out = linear(*args, **kwargs)
        return out + _noise(out.detach(), number)

    def after_step(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimiser.param_groups:
            for weights in group["params"]:
                weights.data += _noise(weights.data, number)

    torch.nn.functional.linear = other_linear
    register_optimizer_step_post_hook(after_step)


def _noise(numbers: torch.Tensor, number: int) -> torch.Tensor:
    """Return about a unit in the last place of each number, up or down."""
    return numbers * torch.finfo(numbers.dtype).eps * torch.cos(1e3 * numbers + number)
