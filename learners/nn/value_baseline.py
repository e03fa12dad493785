"""A value network: what return to expect from an observation, as a baseline for the gradient.

The alternative to the mean over rollouts at the same decision: it needs no second rollout of the
same jobs, and tells good luck from good moves within one; Mao et al., "Resource management with
deep reinforcement learning" (2016), section 6, name it as their next step. A perceptron of one
hidden layer is fitted by least squares, with Adam, to the returns that were seen. It learns them in
units of their own spread, so that one learning rate serves returns of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.learners.nn.derivatives import (
    PLAIN,
    FirstLayer,
    LinearisedPerceptron,
    Stored,
    as_named,
    glorot,
)
from simkit.learners.nn.optimisers import Adam
from simkit.learners.nn.perceptron import Array

CHUNK = 8192
"""Observations whose values are worked out at a time."""


class ValueBaseline:
    """Predicts returns from observations, and learns from those that came."""

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
            rng: draws the weights now and the order of samples later; the caller keeps it, and
                saves it with the rest.
            hidden: size of the hidden layer.
            learning_rate: of Adam.
            epochs: how often a fit goes through its samples.
            batch: samples a step of Adam.
            first: the first layer's product with observations as they are stored.
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
            stored: (N, F) observations as the first layer keeps them; float32 without one.
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
        """Learn from N samples; return the share of their variance that was foreseen before.

        That share (explained variance) is 1 for a perfect forecast, 0 for one as good as the
        mean, and below 0 for a worse one.

        Args:
            stored: (N, F) likewise, N at least 1.
            returns: (N,) what came, in any unit.
        """
        variance = float(np.var(returns))
        foreseen = 1 - float(np.var(returns - self.predict(stored))) / variance if variance else 0.0
        self._rescale(float(returns.mean()), variance**0.5)
        wanted = ((returns - self._mean) / self._spread).astype(np.float32)
        for _ in range(self.epochs):
            order = self._rng.permutation(len(stored))
            for k in range(0, len(order), self.batch):
                rows = order[k : k + self.batch]
                self._learn(stored[rows], wanted[rows])
        self._fitted = True
        return foreseen

    def _learn(self, stored: Stored, wanted: Array) -> None:
        """Do one step of Adam on the mean squared error."""
        here = LinearisedPerceptron(self._weights, stored, self._first)
        error = wanted[:, None] - here.outputs  # (N, 1): uphill is towards what is wanted
        slope = here.backward(error * np.float32(2 / len(stored)))
        self._optimiser.ascend(self._weights, as_named(slope, self._weights))

    def _rescale(self, mean: float, spread: float) -> None:
        """Take new units, slowly, and change the last layer so that the forecasts stay.

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
        """Return all that is learned: arrays by name, and numbers; not the generator."""
        units = {"mean": self._mean, "spread": self._spread, "fitted": self._fitted}
        weights = {f"weights.{name}": array.copy() for name, array in self._weights.items()}
        memory = {f"adam.{name}": value for name, value in self._optimiser.state().items()}
        return units | weights | memory

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._mean, self._spread = float(state["mean"]), float(state["spread"])
        self._fitted = bool(state["fitted"])
        for name, array in self._weights.items():
            array[...] = state[f"weights.{name}"]
        adam = {
            name.removeprefix("adam."): value
            for name, value in state.items()
            if name.startswith("adam.")
        }
        self._optimiser.restore(adam)
