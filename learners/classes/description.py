"""What agent.json says of how an agent of burst classes acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from simkit.agent.actions import Starts
from simkit.agent.burst_classes import class_context_size, class_size
from simkit.agent.encoder import ObservationSchema
from simkit.agent.slotted import Slotted
from simkit.learners.common.shapes import PerceptronShape, SetScorerShape, Shape
from simkit.learners.lockstep.class_games import ClassMask
from simkit.learners.lockstep.pool_in_steps import RESOURCES
from simkit.sections import Positive, Section

__all__ = ["ClassDescription", "class_scorer", "describe_classes"]


class ActionSection(Section):
    """What the numbers of actions mean: a class, or, the last, that time goes on."""

    type: Literal["classes"]
    classes: Annotated[int, Field(ge=1, le=10_000)]
    starts: Starts
    mask: ClassMask
    patience: Annotated[int, Field(ge=0)] = 0
    """With ``starts: now``, the most steps in which nothing runs although a task fits."""


class ClassDescription(Section):
    """How an agent of burst classes acts."""

    model_config = ConfigDict(extra="ignore")

    architecture: Shape
    observation: dict[str, Any]  # that of an `ObservationSchema`
    actions: ActionSection
    horizon: Annotated[int, Field(ge=1, le=10_000)]
    backlog_shown: Annotated[int, Field(ge=1, le=1_000_000)]
    step_s: Positive
    """Seconds of a step: jobs of class n were taken to run for up to n steps."""
    resources: tuple[str, ...]

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))  # as JSON, whose lists stand for tuples


def describe_classes(
    architecture: PerceptronShape | SetScorerShape,
    schema: ObservationSchema,
    model: Slotted,
    starts: Starts,
    mask: ClassMask,
    patience: int,
) -> dict[str, Any]:
    """Return how an agent of classes acts, as `ClassDescription.read` reads it."""
    actions = {
        "type": "classes",
        "classes": model.slots,
        "starts": starts,
        "mask": mask,
        "patience": patience,
    }
    return {
        "architecture": architecture.model_dump(mode="json"),
        "observation": schema.as_json(),
        "actions": actions,
        "horizon": model.horizon,
        "backlog_shown": model.backlog_shown,
        "step_s": model.step_s,
        "resources": list(RESOURCES),
    }


def class_scorer(model: Slotted, hidden: int) -> SetScorerShape:
    """Return the shape of a scorer of classes that reads `class_set`."""
    return SetScorerShape(
        type="set-scorer", context=class_context_size(model), items=model.slots,
        features=class_size(model), hidden=hidden, others=1, activation="relu",
    )  # fmt: skip
