"""What perceptrons over numbered slots read: an observation by name, and their first layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt
from torch import nn

from simkit.agent.encoder import ObservationSchema
from simkit.agent.observe_slots import (
    SOFIA_NAMES,
    compact_schema,
    deeprm_compact,
    image_schema,
    sofia_compact,
    sofia_schema,
)
from simkit.agent.slotted import Slotted, SlottedView
from simkit.learners.common.image_layer import ImageLayer, TableLayout
from simkit.learners.common.networks import Dense, Perceptron
from simkit.learners.common.shapes import PerceptronShape

__all__ = ["SlotInput", "slot_input"]


@dataclass(frozen=True)
class SlotInput:
    """An observation as a perceptron reads it."""

    schema: ObservationSchema
    """What its numbers mean."""
    observe: Callable[[SlottedView], npt.NDArray[Any]]
    """Returns (A, F) what A replicas see, as the first layer reads it."""
    first: Callable[[int], nn.Module]
    """Makes a first layer of this many units."""

    def perceptron(self, hidden: int, outputs: int) -> Perceptron:
        """Return a perceptron with one hidden layer, its weights drawn by torch's generator."""
        shape = PerceptronShape(
            type="perceptron", layers=(self.schema.size, hidden, outputs), activation="relu"
        )
        return Perceptron(shape, self.first(hidden))


def slot_input(observation: str, model: Slotted) -> SlotInput:
    """Return what reads DeepRM's or Sofia's observation of that name."""
    if observation == "deeprm-image":
        return SlotInput(image_schema(model), TableLayout(model).rows, partial(ImageLayer, model))
    if observation == "deeprm-compact":
        schema = compact_schema(model)
        return SlotInput(schema, partial(deeprm_compact, model=model), partial(Dense, schema.size))
    shares = observation == SOFIA_NAMES[True]
    schema = sofia_schema(model, shares=shares)

    def observe(view: SlottedView) -> npt.NDArray[Any]:
        return sofia_compact(view, model, shares=shares).reshape(len(view.backlog), -1)

    return SlotInput(schema, observe, partial(Dense, schema.size))
