"""Shapes of networks: plain data, so that an agent's bundle can state what its weights are for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simkit.scenario.types import Section

__all__ = ["PerceptronShape", "RecurrentShape", "SetScorerShape", "Shape", "Width"]

Width = Annotated[int, Field(ge=1, le=1_000_000)]


class PerceptronShape(Section):
    """Layers with max(0, ·) or tanh between them."""

    type: Literal["perceptron"]
    layers: Annotated[tuple[Width, ...], Field(min_length=2)]
    """Sizes, inputs first and outputs last."""
    activation: Literal["relu", "tanh"]

    @property
    def inputs(self) -> int:
        """Numbers of an observation."""
        return self.layers[0]

    @property
    def outputs(self) -> int:
        """Numbers that come out."""
        return self.layers[-1]


class SetScorerShape(Section):
    """One scorer for all items of a set, each seen beside the whole."""

    type: Literal["set-scorer"]
    context: Width
    """C: numbers that describe the whole."""
    items: Width
    """M: places for items."""
    features: Width
    """F: numbers of an item, the first of them 1 if there is one and 0 if the place is empty."""
    hidden: Width
    """Units of each layer."""
    scores: Annotated[int, Field(ge=1, le=100)] = 1
    """Scores of each item: as many actions choose it, those of the first score before all others.
    """
    others: Annotated[int, Field(ge=0)]
    """Actions that choose no item, such as the void action; they come last."""
    activation: Literal["relu"]

    @property
    def inputs(self) -> int:
        """Numbers of an observation: the context, then the items one after another."""
        return self.context + self.items * self.features

    @property
    def outputs(self) -> int:
        """M · scores + others."""
        return self.items * self.scores + self.others


class RecurrentShape(Section):
    """Two layers with tanh, then an LSTM that remembers what it has seen, then logits."""

    type: Literal["recurrent"]
    inputs: Width
    """Numbers of an observation."""
    hidden: Width
    """Units of each layer, and of the LSTM."""
    outputs: Width
    """Actions."""
    activation: Literal["tanh"]


Shape = Annotated[PerceptronShape | SetScorerShape, Field(discriminator="type")]
