"""The description of an agent of slots in agent.json: what it observes and how it acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Literal, Self, get_type_hints

from pydantic import ConfigDict, create_model

from simkit.agent.actions import slot_actions_as_json
from simkit.agent.encoder import ObservationSchema
from simkit.agent.slotted import Slotted
from simkit.learners.common.shapes import PerceptronShape, SetScorerShape, Shape
from simkit.learners.lockstep.pool_in_steps import RESOURCES
from simkit.sections import Section

Mask = Literal["none", "possible", "now", "ahead"]


class Actions(Section):
    """What the numbers of actions mean."""

    type: Literal["slots"]
    slots: int
    void: int
    count: int
    mask: Mask
    """Which slots may be chosen.

    ``none``: all are; ``possible``: those whose task fits within the horizon; ``now``: those whose
    task fits now; ``ahead``: as ``possible``, but a step may pass only if no task fits.
    """


_TYPES = get_type_hints(Slotted)
_REQUIRED: dict[str, Any] = {field.name: (_TYPES[field.name], ...) for field in fields(Slotted)}
SlottedPart = create_model("SlottedPart", __base__=Section, **_REQUIRED)
"""The dimensions of the slotted model, with the types of `Slotted`'s fields."""


class AgentDescription(Section):
    """What an agent of numbered slots observes and how it acts."""

    model_config = ConfigDict(extra="ignore")

    architecture: Shape
    observation: dict[str, Any]  # that of an `ObservationSchema`
    actions: Actions
    slotted: SlottedPart  # type: ignore[valid-type] # made of the fields of Slotted
    resources: tuple[str, ...]  # of the pool, in order
    choose: Literal["sample", "greedy"] = "sample"
    """How it chooses where a run does not say: by its probabilities, or the best action."""

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))  # as JSON, whose lists stand for tuples

    @property
    def model(self) -> Slotted:
        """The slotted model; raises ScenarioError for dimensions that are out of range."""
        return Slotted(**dict(self.slotted))


def describe(
    architecture: PerceptronShape | SetScorerShape,
    schema: ObservationSchema,
    model: Slotted,
    mask: Mask,
) -> dict[str, Any]:
    """Return the description of an agent of numbered slots; `AgentDescription.read` reads it."""
    return {
        "architecture": architecture.model_dump(mode="json"),
        "observation": schema.as_json(),
        "actions": {**slot_actions_as_json(model.slots), "mask": mask},
        "slotted": asdict(model),
        "resources": list(RESOURCES),
    }
