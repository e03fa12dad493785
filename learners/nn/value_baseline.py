"""A value network: predicts the return from an observation, as a baseline for the gradient.

This is the alternative to the mean over rollouts at the same decision. It needs no second rollout
of the same jobs, and separates luck from good actions within one rollout. Mao et al., "Resource
management with deep reinforcement learning" (2016), section 6, name it as their next step. A
perceptron with one hidden layer is fitted to the returns by least squares, with Adam. The returns
are scaled by their standard deviation, so that one learning rate suits returns of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.learners.nn.derivatives import LinearisedPerceptron, as_named, glorot
from simkit.learners.nn.input_layers import PLAIN, FirstLayer, Stored
from simkit.learners.nn.optimisers import Adam, with_prefix
from simkit.learners.nn.perceptron import Array

CHUNK = 8192
"""Observations per chunk of a prediction."""


class ValueBaseline:
    """Predicts returns from observations, and learns from observed returns."""

    def __init__(
        self,
        inputs: int,
        *,
        rng: np.random.Generator,
        hidden: int = 20,
        learning_rate: float = 0.001,
        epochs: int = 2,
        batch: int = 1024,
        first: FirstLayer = PLAIN,
    ) -> None:
        """Draw a network that predicts about 0.

        Args:
            inputs: numbers in an observation.
            rng: draws the weights now and the order of samples later; `state` does not include
                it, so the caller must save it.
            hidden: size of the hidden layer.
            learning_rate: of Adam.
            epochs: passes over the samples per fit.
            batch: samples per step of Adam.
            first: multiplies stored observations with the first weight.
        """
        self.epochs = epochs
        self.batch = batch
        self._rng = rng
        self._first = first
        self._weights = glorot(rng, (inputs, hidden, 1))
        self._optimiser = Adam(learning_rate)
        self._mean = 0.0
        self._spread = 1.0
        self._fitted = False

    def predict(self, stored: Stored) -> Floats:
        """Return the expected returns (N,), in the unit of the returns; 0 before any fit.

        Args:
            stored: (N, F) observations as the first layer stores them; by default float32.
        """
        if not self._fitted:
            return np.zeros(len(stored))
        parts = [
            LinearisedPerceptron(self._weights, stored[k : k + CHUNK], self._first).outputs[:, 0]
            for k in range(0, len(stored), CHUNK)
        ]
        scaled = np.concatenate(parts, dtype=np.float64) if parts else np.empty(0)
        return self._mean + self._spread * scaled

    def fit(self, stored: Stored, returns: Array) -> float:
        """Learn from N samples; return the explained variance of the prediction before the fit.

        It is 1 for a perfect prediction, 0 for one as good as the mean, and negative for a worse
        one.

        Args:
            stored: (N, F) as for `predict`, N at least 1.
            returns: (N,) observed returns, in any unit.
        """
        variance = float(np.var(returns))
        explained = (
            1 - float(np.var(returns - self.predict(stored))) / variance if variance else 0.0
        )
        self._rescale(float(returns.mean()), variance**0.5)
        wanted = ((returns - self._mean) / self._spread).astype(np.float32)
        for _ in range(self.epochs):
            order = self._rng.permutation(len(stored))
            for k in range(0, len(order), self.batch):
                rows = order[k : k + self.batch]
                self._learn(stored[rows], wanted[rows])
        self._fitted = True
        return explained

    def _learn(self, stored: Stored, wanted: Array) -> None:
        """Do one step of Adam on the mean squared error."""
        here = LinearisedPerceptron(self._weights, stored, self._first)
        error = wanted[:, None] - here.outputs  # (N, 1) the direction of ascent
        slope = here.backward(error * np.float32(2 / len(stored)))
        self._optimiser.ascend(self._weights, as_named(slope, self._weights))

    def _rescale(self, mean: float, spread: float) -> None:
        """Move mean and spread slowly, and change the last layer so that predictions stay the same.

        van Hasselt et al., "Learning values across many orders of magnitude" (2016).
        """
        pace = 0.1 if self._fitted else 1.0
        new_mean = self._mean + pace * (mean - self._mean)
        new_spread = max(self._spread + pace * (spread - self._spread), 1e-6)
        if self._fitted:
            ratio = self._spread / new_spread
            self._weights["layers.1.weight"] *= np.float32(ratio)
            shift = (self._mean - new_mean) / new_spread
            bias = self._weights["layers.1.bias"]
            bias[...] = bias * np.float32(ratio) + np.float32(shift)
        self._mean, self._spread = new_mean, new_spread

    def state(self) -> dict[str, Any]:
        """Return the learned state, arrays by name and numbers; without the generator."""
        units = {"mean": self._mean, "spread": self._spread, "fitted": self._fitted}
        weights = {f"weights.{name}": array.copy() for name, array in self._weights.items()}
        memory = {f"adam.{name}": value for name, value in self._optimiser.state().items()}
        return units | weights | memory

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._mean, self._spread = float(state["mean"]), float(state["spread"])
        self._fitted = bool(state["fitted"])
        for name, array in self._weights.items():
            array[...] = state[f"weights.{name}"]
        self._optimiser.restore(with_prefix(state, "adam."))
