"""The three ways in which the Sofia learner updates its weights from a batch of decisions.

gradient: a step of the optimiser. natural: a step along the natural gradient, of bounded KL.
proximal: several steps of the optimiser on the clipped objective, each on a part of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.nn.derivatives import LinearisedPolicy, as_vector, moved
from simkit.learners.nn.input_layers import Stored
from simkit.learners.nn.natural_gradient import StepEffect, Trust, divergence, natural_step
from simkit.learners.nn.optimisers import Optimiser
from simkit.learners.nn.perceptron import Array, entropies, masked_log_softmax
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learners.nn.proximal import clipped_pull, entropy_pull, pull_on_logits
from simkit.learners.sofia.arguments import SofiaArguments


@dataclass(frozen=True)
class Batch:
    """D decisions to learn from."""

    stored: Stored
    """(D, F) observations."""
    log_probabilities: Array
    """(D, actions) of the policy that drew."""
    actions: Ints
    """(D,)"""
    advantage: Array
    """(D,)"""

    def take(self, rows: Ints) -> Batch:
        """Return some of the decisions."""
        return Batch(
            self.stored[rows], self.log_probabilities[rows], self.actions[rows],
            self.advantage[rows],
        )  # fmt: skip

    def ratio(self, log_p: Array) -> Array:
        """Return (D,) how much likelier the actions are under other log-probabilities."""
        rows = np.arange(len(self.actions))
        result: Array = np.exp(
            log_p[rows, self.actions] - self.log_probabilities[rows, self.actions]
        )
        return result


class Updates:
    """Changes a network's weights in place, as `SofiaArguments.update` says.

    The optimiser is for all but the natural gradient; the generator draws the parts of a batch.
    """

    def __init__(
        self,
        arguments: SofiaArguments,
        network: PolicyNetwork,
        optimiser: Optimiser,
        rng: np.random.Generator,
    ) -> None:
        self._arguments, self._network = arguments, network
        self._optimiser, self._rng = optimiser, rng

    def improve(self, batch: Batch) -> dict[str, float]:
        """Update the weights; return numbers to log.

        For natural: ``kl`` in nats, ``backtracks``, ``products`` and ``residual`` of `NaturalStep`.
        """
        if self._arguments.update == "natural":
            return self._natural(batch)
        if self._arguments.update == "proximal":
            return self._proximal(batch)
        self._ascend(batch, batch.log_probabilities, batch.advantage)
        return {}

    def _slope(self, batch: Batch, log_p: Array, pull: Array) -> dict[str, Array]:
        """Return the gradient of the mean over the batch, the entropy's part included."""
        cotangent = pull_on_logits(np.exp(log_p), batch.actions, pull)
        if self._arguments.entropy:
            cotangent += self._arguments.entropy * entropy_pull(log_p)
        cotangent /= np.float32(len(cotangent))
        return self._network.gradient(batch.stored, cotangent)

    def _ascend(self, batch: Batch, log_p: Array, pull: Array) -> None:
        self._optimiser.ascend(self._network.weights, self._slope(batch, log_p, pull))
        self._network.refresh()

    def _natural(self, batch: Batch) -> dict[str, float]:
        """Take the gradient over the batch, the Fisher matrix and the step's KL over a share."""
        chosen, network = self._arguments, self._network
        slope = as_vector(self._slope(batch, batch.log_probabilities, batch.advantage))
        count = max(1, round(chosen.fisher_share * len(batch.actions)))
        rows = self._rng.choice(len(batch.actions), count, replace=False)
        some = batch.take(np.sort(rows))
        here = self._linearised(network.weights, some)
        trust = Trust(kl=chosen.kl, damping=chosen.damping, products=chosen.products)
        done = natural_step(slope, here, self._measure(some, here), trust)
        for name, array in moved(network.weights, done.change).items():
            network.weights[name][...] = array
        network.refresh()
        return {
            "kl": done.kl, "backtracks": float(done.backtracks),
            "products": float(done.products), "residual": done.residual,
        }  # fmt: skip

    def _measure(self, some: Batch, here: LinearisedPolicy) -> StepEffect:
        """Return a function that measures the KL and the gain of a change of the weights."""
        old = here.log_probabilities
        weight, before = self._arguments.entropy, entropies(old).mean()

        def outcome_of(change: Floats) -> tuple[float, float]:
            new = self._linearised(moved(self._network.weights, change), some).log_probabilities
            gain = float((some.advantage * (some.ratio(new) - 1)).mean(dtype=np.float64))
            return divergence(old, new), gain + weight * float(entropies(new).mean() - before)

        return outcome_of

    def _linearised(self, weights: Any, some: Batch) -> LinearisedPolicy:
        allowed = np.isfinite(some.log_probabilities) if self._arguments.mask else None
        return LinearisedPolicy(weights, some.stored, allowed, self._network.first)

    def _proximal(self, batch: Batch) -> dict[str, float]:
        """Go through the batch several times, in parts of another order each."""
        chosen = self._arguments
        for _ in range(chosen.epochs):
            order = self._rng.permutation(len(batch.actions))
            for begin_at in range(0, len(order), chosen.batch):
                some = batch.take(order[begin_at : begin_at + chosen.batch])
                allowed = np.isfinite(some.log_probabilities) if chosen.mask else None
                log_p = masked_log_softmax(self._network.logits(some.stored), allowed)
                pull = clipped_pull(some.ratio(log_p), some.advantage, chosen.clip)
                self._ascend(some, log_p, pull)
        return {}


def first_of_steps(rewards: Floats) -> Bools:
    """Return (T, N) whether a decision is the first of its step: time went on just before.

    Args:
        rewards: (T, N), not 0 where time went on; in a batch there are jobs in every step.
    """
    first = np.ones(rewards.shape, np.bool_)
    first[1:] = rewards[:-1] != 0
    return first
