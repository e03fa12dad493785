"""Shapes of networks as plain data, with which a bundle describes its weights and their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import Field

from simkit.agent.encoder import ObservationSchema
from simkit.agent.observe_system import QueueSet
from simkit.agent.slotted import Slotted
from simkit.arrays import Ints
from simkit.sections import Section

__all__ = [
    "PerceptronShape",
    "SetPlaces",
    "SetScorerShape",
    "Shape",
    "TablePerceptronShape",
    "Width",
    "network_shape",
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
    bundle says of it. See `simkit.learners.networks.image_layer`.
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


_ITEMS: Final = {"slot-set": "slots", "class-set": "classes", "ready-set": "jobs"}
"""Observation → its field of the items, where another field may have as many rows."""


@dataclass(frozen=True)
class SetPlaces:
    """Where a scorer of a set finds its context and its items in a flat observation."""

    context: Ints
    """(C,) places."""
    items: Ints
    """(M, F) places; the first of an item is 1, or 0 if there is none."""

    @classmethod
    def of(cls, schema: ObservationSchema, items: int) -> Self | None:
        """Return the places in an observation that has a row for each item; None: it has none.

        What is the same in every row belongs to the context.
        """
        places = np.arange(schema.size).reshape(schema.shape)
        context: list[Ints] = []
        rows: list[Ints] = []
        only = _ITEMS.get(schema.name)
        for part, begin, end in schema.places():
            own = places[..., begin:end]
            name = part.name.rpartition("queue-set.")[2]
            if part.shape[0] != items or len(part.shape) != 2 or only not in (None, name):
                context.append(own.reshape(-1))
            elif QueueSet.is_whole(name):
                context.append(own.reshape(items, -1)[0])
            else:
                rows.append(own.reshape(items, -1))
        if not rows or not context:
            return None
        return cls(np.concatenate(context), np.concatenate(rows, axis=1))

    @property
    def order(self) -> Ints:
        """(K,) the places in the order in which a scorer reads them."""
        return np.concatenate((self.context, self.items.reshape(-1)))


def network_shape(
    schema: ObservationSchema, actions: int, hidden: int
) -> PerceptronShape | SetScorerShape:
    """Return the shape of a scorer of the items to choose from, or of a perceptron without a set.

    Args:
        schema: what is seen.
        actions: number of actions; the last is the void one.
        hidden: units of each layer.
    """
    places = SetPlaces.of(schema, actions - 1)
    if places is None:
        layers = (schema.size, hidden, hidden, actions)
        return PerceptronShape(type="perceptron", layers=layers, activation="relu")
    items, features = places.items.shape
    return SetScorerShape(
        type="set-scorer", context=len(places.context), items=items, features=features,
        hidden=hidden, others=1, activation="relu",
    )  # fmt: skip
