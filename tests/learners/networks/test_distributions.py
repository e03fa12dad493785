"""Masked choices in torch: probabilities, gradients, draws."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.networks.distributions import (
    entropy,
    log_probability,
    masked_log_softmax,
    sample,
)


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(scale=3, size=(5, 4)))
    allowed = rng.random((5, 4)) < 0.5
    allowed[np.arange(5), rng.integers(0, 4, 5)] = True
    return logits.requires_grad_(), torch.from_numpy(allowed)


@given(st.integers(0, 2**32 - 1))
def test_only_what_is_allowed_has_a_probability_and_a_gradient(seed):
    logits, allowed = drawn(seed)
    chances = masked_log_softmax(logits, allowed)
    assert torch.allclose(chances.exp().sum(dim=1), torch.ones(5, dtype=torch.float64))
    assert (chances.exp()[~allowed] == 0).all()
    alone = torch.log_softmax(logits[0][allowed[0]], dim=0)
    assert torch.allclose(chances[0][allowed[0]], alone)
    (
        entropy(chances).sum() + log_probability(chances, allowed.double().argmax(dim=1)).sum()
    ).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[~allowed] == 0).all()


def test_the_entropy_of_n_equal_choices_is_log_n():
    allowed = torch.tensor([[True, True, True, False], [True, False, False, False]])
    found = entropy(masked_log_softmax(torch.zeros(2, 4), allowed))
    assert torch.allclose(found, torch.tensor([np.log(3), 0.0], dtype=torch.float32), atol=1e-6)


def test_draws_follow_the_probabilities():
    chances = masked_log_softmax(torch.log(torch.tensor([[0.2, 0.5, 0.3]])).expand(20_000, 3))
    counts = np.bincount(sample(chances, np.random.default_rng(0)), minlength=3)
    assert np.abs(counts / 20_000 - [0.2, 0.5, 0.3]).max() < 0.015  # four standard deviations
