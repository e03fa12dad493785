"""The bundle of a perceptron that chooses among slots: its weights, and all that they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simkit.actions import SlotActions
from simkit.observation import ObservationSchema
from simkit.run_info import versions
from simkit.slotted import Slotted

from .bundle import write_bundle
from .perceptron import Weights, layers_of
from .pool_rules import RESOURCES


def write_slotted_agent(
    folder: Path,
    weights: Weights,
    *,
    schema: ObservationSchema,
    model: Slotted,
    mask: bool,
    training: Mapping[str, Any],
    curve_end: Mapping[str, float],
) -> None:
    """Write a bundle; see `write_bundle`.

    Args:
        folder: of the bundle.
        weights: of a perceptron with ReLU between its layers.
        schema: of its observations.
        model: whose slots its actions name.
        mask: whether actions that would do nothing were ruled out.
        training: plain values that tell the training from others.
        curve_end: the last row of the training's metrics.
    """
    matrices = [weight for weight, _ in layers_of(weights)]
    sizes = [len(matrices[0]), *(matrix.shape[1] for matrix in matrices)]
    description = {
        "architecture": {"type": "perceptron", "layers": sizes, "activation": "relu"},
        "observation": schema.as_json(),
        "actions": {**SlotActions(model).as_json(), "mask": mask},
        "slotted": asdict(model),
        "resources": list(RESOURCES),
        **training,
        "versions": versions(),
        "curve_end": dict(curve_end),
    }
    write_bundle(folder, weights, description)
