"""Shapes of networks as plain data, with which a bundle describes its weights."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simkit.agent.slotted import Slotted
from simkit.sections import BrokenRulesError, Section

__all__ = [
    "ImageShape",
    "PerceptronShape",
    "RecurrentShape",
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
    bundle says of it. See `simkit.learners.common.images.layer`.
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


class ImageShape(Section):
    """Convolutions over an image and a perceptron over a list of facts, joined in an embedding.

    The dissertation "RARE" (University of Virginia, 2023), section 5.3 and table A.5.
    """

    type: Literal["image"]
    rows: Width
    """H: rows of the image, the steps ahead."""
    columns: Width
    """U: columns of the image."""
    facts: Width
    """Number of facts in addition to the image."""
    convolutions: Annotated[int, Field(ge=1, le=10)]
    """Number of convolutional layers over the image."""
    filters: Width = 32
    """Filters of each convolution."""
    kernel: Width = 4
    """Height and width of a filter in cells."""
    stride: Width = 2
    """Stride of a filter along a row; from row to row it is 1."""
    image_units: Width = 256
    """Units that summarise the image."""
    fact_units: Width = 128
    """Units of each of two layers over the facts."""
    embedding: Width = 128
    """Size of the embedding of image and facts."""
    hidden: Width = 512
    """Units of the layer behind the embedding."""
    outputs: Width
    """Number of outputs."""

    @property
    def inputs(self) -> int:
        """Number of inputs: the image, row by row, then the facts."""
        return self.rows * self.columns + self.facts

    @property
    def filtered(self) -> tuple[int, int]:
        """Rows and columns after the last convolution; below 1 if the image is too small."""
        rows, columns = self.rows, self.columns
        for _ in range(self.convolutions):
            rows, columns = rows - self.kernel + 1, (columns - self.kernel) // self.stride + 1
        return rows, columns

    @model_validator(mode="after")
    def _large_enough(self) -> Self:
        if min(self.filtered) < 1:
            text = (
                f"is {self.convolutions}, too many for an image of {self.rows} x {self.columns} "
                "cells; take fewer"
            )
            raise BrokenRulesError([(("convolutions",), text)])
        return self


class RecurrentShape(Section):
    """Two layers with tanh, then an LSTM, then a layer of logits."""

    type: Literal["recurrent"]
    inputs: Width
    """Number of inputs."""
    hidden: Width
    """Units of each layer, and of the LSTM."""
    outputs: Width
    """Number of actions."""
    activation: Literal["tanh"]


Shape = Annotated[PerceptronShape | SetScorerShape, Field(discriminator="type")]
