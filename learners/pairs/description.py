"""What agent.json says of how an agent scores pairs of a machine and a task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from simkit.learners.common.shapes import Width
from simkit.learners.pairs.scorer import FeatureSet, PairScorer, feature_names
from simkit.sections import Section

__all__ = ["PairDescription", "describe"]

_Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Shift = Annotated[float, Field(allow_inf_nan=False)]


class PairScorerShape(Section):
    """A weighted sum of features plus layers of tanh units; the same for every pair."""

    type: Literal["pair-scorer"]
    layers: tuple[Width, ...]
    """Inputs of each layer, then the one output; the number of features alone: no layers."""
    activation: Literal["tanh"]


class PairObservation(Section):
    """What is seen of a pair: (feature - shift) / scale."""

    name: Literal["machine-task-pairs"]
    set: FeatureSet
    features: tuple[str, ...]
    """In order; see `simkit.learners.pairs.scorer`."""
    shift: tuple[_Shift, ...]
    scale: tuple[_Scale, ...]


class PairActions(Section):
    """What may be chosen: pairs that fit, one instance at a time."""

    type: Literal["pairs"]


class PairDescription(Section):
    """How an agent of machine–task pairs acts."""

    model_config = ConfigDict(extra="ignore")

    architecture: PairScorerShape
    observation: PairObservation
    actions: PairActions
    resources: tuple[str, ...]
    """Resources of the cluster it was trained on, in order."""

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))


def describe(scorer: PairScorer, resources: Sequence[str]) -> dict[str, Any]:
    """Return how a scorer acts, as `PairDescription.read` reads it."""
    return {
        "architecture": {
            "type": "pair-scorer", "layers": list(scorer.widths), "activation": "tanh",
        },
        "observation": {
            "name": "machine-task-pairs",
            "set": scorer.features,
            "features": list(feature_names(scorer.features, resources)),
            "shift": scorer.shift.tolist(),
            "scale": scorer.scale.tolist(),
        },
        "actions": {"type": "pairs"},
        "resources": list(resources),
    }  # fmt: skip
