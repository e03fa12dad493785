"""A value network: predicts the return from an observation, as a baseline for the gradient.

It is the alternative to the mean over rollouts at the same decision. It needs no second rollout of
the same jobs, and separates luck from good actions within one rollout. H. Mao, M. Alizadeh,
I. Menache and S. Kandula, "Resource management with deep reinforcement learning" (2016), section 6,
name it as their next step. The network is fitted to the returns by least squares, with Adam. The
returns are scaled by their standard deviation, so that one learning rate suits returns of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from simkit.arrays import Floats
from simkit.learners.common.distributions import squared_error
from simkit.learners.common.networks import Perceptron
from simkit.learners.common.torch_training import restore_state, state_of

__all__ = ["ValueBaseline"]

CHUNK: Final = 16_384
"""Observations per chunk of a prediction."""


class ValueBaseline:
    """Predicts returns from observations, and learns from observed returns."""

    def __init__(
        self,
        network: Perceptron,
        *,
        rng: np.random.Generator,
        learning_rate: float = 0.001,
        epochs: int = 2,
        batch: int = 1024,
    ) -> None:
        """Wrap a network with one output.

        Args:
            network: trained in place.
            rng: draws the order of samples; `state` does not include it, so the caller must save
                it.
            learning_rate: learning rate of Adam.
            epochs: passes over the samples per fit.
            batch: samples per step of Adam.
        """
        self.network, self.epochs, self.batch = network, epochs, batch
        self._rng = rng
        self._optimiser = torch.optim.Adam(network.parameters(), learning_rate)
        self._mean, self._spread, self._fitted = 0.0, 1.0, False

    def predict(self, seen: Tensor) -> Floats:
        """Return (N,) expected returns, in the unit of the returns, for (N, …) observations.

        They are 0 before the first fit.
        """
        if not self._fitted:
            return np.zeros(len(seen))
        with torch.inference_mode():
            chunks = [seen[k : k + CHUNK] for k in range(0, len(seen), CHUNK)]
            parts = [self.network(chunk)[:, 0] for chunk in chunks]
        scaled: Floats = torch.cat(parts).double().cpu().numpy()
        return self._mean + self._spread * scaled

    def fit(self, seen: Tensor, returns: Floats) -> float:
        """Learn from N samples; return the explained variance of the prediction before the fit.

        It is 1 for a perfect prediction, 0 for one as good as the mean, and negative for a worse
        one.

        Args:
            seen: (N, …) observations, N at least 1.
            returns: (N,) observed returns, in any unit.
        """
        variance = float(np.var(returns))
        error = float(np.var(returns - self.predict(seen)))
        self._rescale(float(returns.mean()), variance**0.5)
        scaled = torch.from_numpy((returns - self._mean) / self._spread).float().to(seen.device)
        for _ in range(self.epochs):
            order = torch.from_numpy(self._rng.permutation(len(seen)))
            for begin in range(0, len(order), self.batch):
                rows = order[begin : begin + self.batch]
                loss = squared_error(self.network(seen[rows])[:, 0], scaled[rows])
                self._optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self._optimiser.step()
        self._fitted = True
        return 1 - error / variance if variance else 0.0

    @torch.no_grad()
    def _rescale(self, mean: float, spread: float) -> None:
        """Move mean and spread slowly, and adjust the last layer so that predictions stay the same.

        H. van Hasselt, A. Guez, M. Hessel, V. Mnih and D. Silver, "Learning values across many
        orders of magnitude" (2016).
        """
        pace = 0.1 if self._fitted else 1.0
        new_mean = self._mean + pace * (mean - self._mean)
        new_spread = max(self._spread + pace * (spread - self._spread), 1e-6)
        if self._fitted:
            last, ratio = self.network.last, self._spread / new_spread
            last.weight.mul_(ratio)
            last.bias.mul_(ratio).add_((self._mean - new_mean) / new_spread)
        self._mean, self._spread = new_mean, new_spread

    def state(self) -> dict[str, Any]:
        """Return the state as arrays and numbers by name, without the generator."""
        scale = {"mean": self._mean, "spread": self._spread, "fitted": self._fitted}
        return {**scale, **state_of(self.network, "weights."), **state_of(self._optimiser, "adam.")}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._mean, self._spread = float(state["mean"]), float(state["spread"])
        self._fitted = bool(state["fitted"])
        restore_state(self.network, state, "weights.")
        restore_state(self._optimiser, state, "adam.")
