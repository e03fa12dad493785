"""Shapes of networks: plain data, so that an agent's bundle can state what its weights are for."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simkit.sections import BrokenRulesError, Section

__all__ = [
    "ImageShape",
    "PerceptronShape",
    "RecurrentShape",
    "SetScorerShape",
    "Shape",
    "Width",
]

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
    """One scorer for all items of a set; each is seen together with the whole."""

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


class ImageShape(Section):
    """Convolutions over an image and a perceptron over a list of facts, joined and condensed.

    As the dissertation "RARE" (University of Virginia, 2023) describes in section 5.3 and table
    A.5.
    """

    type: Literal["image"]
    rows: Width
    """H: steps ahead."""
    columns: Width
    """U: cells of a row."""
    facts: Width
    """Facts in addition to the image."""
    convolutions: Annotated[int, Field(ge=1, le=10)]
    """Layers over the image."""
    filters: Width = 32
    """Filters of each layer."""
    kernel: Width = 4
    """Cells of a filter, both ways."""
    stride: Width = 2
    """Cells from one place of a filter to the next in a row; 1 from row to row."""
    image_units: Width = 256
    """Numbers that stand for the image."""
    fact_units: Width = 128
    """Units of each of two layers over the facts."""
    embedding: Width = 128
    """Numbers that stand for all."""
    hidden: Width = 512
    """Units of the layer behind them."""
    outputs: Width
    """Numbers that come out."""

    @property
    def inputs(self) -> int:
        """Numbers of an observation: the image, row by row, then the facts."""
        return self.rows * self.columns + self.facts

    @property
    def filtered(self) -> tuple[int, int]:
        """Rows and columns behind the last convolution; below 1 if the image is too small."""
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
