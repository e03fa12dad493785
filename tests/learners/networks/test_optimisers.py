"""rmsprop: its first steps by hand, its memory, and where it differs from torch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simkit.learners.networks.optimisers import RmsProp


def after(optimiser: torch.optim.Optimizer, weights: torch.Tensor, *slopes: float) -> list[float]:
    for slope in slopes:
        weights.grad = torch.full_like(weights, slope)
        optimiser.step()
    return weights.tolist()


def test_rmsprop_by_hand():
    weights = torch.zeros(1, dtype=torch.float64)
    first = 0.1 * 2 / (0.1 * 4 + 1e-9) ** 0.5
    second = 0.1 * -3 / (0.9 * 0.4 + 0.1 * 9 + 1e-9) ** 0.5
    found = after(RmsProp([weights], 0.1), weights, 2.0, -3.0)
    assert found == pytest.approx([-first - second], abs=1e-12)


def test_of_large_slopes_rmsprop_is_torchs():
    ours, theirs = torch.zeros(1), torch.zeros(1)
    slopes = np.random.default_rng(0).standard_normal(20).tolist()
    reference = torch.optim.RMSprop([theirs], 0.1, alpha=0.9)
    assert after(RmsProp([ours], 0.1), ours, *slopes) == pytest.approx(
        after(reference, theirs, *slopes), rel=1e-4
    )
