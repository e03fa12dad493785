"""Shapes of networks as plain data, with which a bundle describes its weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simkit.agent.slotted import Slotted
from simkit.sections import Section

__all__ = [
    "PerceptronShape",
    "SetScorerShape",
    "Shape",
    "TablePerceptronShape",
    "Width",
]

Width = Annotated[int, Field(ge=1, le=1_000_000)]


class PerceptronShape(Section):
    """A perceptron: dense layers with max(0, ·) or tanh between them."""

    type: Literal["perceptron"]
    layers: Annotated[tuple[Width, ...], Field(min_length=2)]
    """Sizes of the layers, from inputs to outputs."""
    activation: Literal["relu", "tanh"]

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.layers[0]

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.layers[-1]


class TablePerceptronShape(PerceptronShape):
    """A perceptron over DeepRM's image, which reads rows of tables in place of pixels.

    It is for trainings: its weights are those of the perceptron over the pixels, and so is what a
    bundle says of it. See `simkit.learners.common.image_layer`.
    """

    slotted: Annotated[Slotted, Field(exclude=True)]

    @property
    def inputs(self) -> int:
        """Number of rows that make up an image."""
        return self.slotted.resources * (self.slotted.horizon + self.slotted.slots) + 2


class SetScorerShape(Section):
    """One scorer for all items of a set, which sees each item together with the whole set."""

    type: Literal["set-scorer"]
    context: Width
    """C: number of features of the context."""
    items: Width
    """M: number of places for items."""
    features: Width
    """F: number of features of an item; the first is 1, or 0 if the place is empty."""
    hidden: Width
    """Units of each layer."""
    scores: Annotated[int, Field(ge=1, le=100)] = 1
    """Scores of each item: that many actions choose it. The first scores of all items come first.
    """
    others: Annotated[int, Field(ge=0)]
    """Actions that choose no item, such as the void action; they come last."""
    activation: Literal["relu"]

    @property
    def inputs(self) -> int:
        """Number of inputs: the context, then the items one after another."""
        return self.context + self.items * self.features

    @property
    def outputs(self) -> int:
        """M · scores + others."""
        return self.items * self.scores + self.others


Shape = Annotated[PerceptronShape | SetScorerShape, Field(discriminator="type")]
