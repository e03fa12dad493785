"""The description of a ready pool's agent in agent.json: what it observes and how it acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from simkit.agent.encoder import Numbers, ObservationSchema
from simkit.agent.ready_pool import (
    ReadyPool,
    ReadyView,
    ready_set,
    ready_set_schema,
)
from simkit.agent.ready_pool_actions import Advance
from simkit.learners.common.shapes import SetScorerShape
from simkit.sections import Positive, Section

__all__ = ["ReadyDescription"]


class ActionSection(Section):
    """What the numbers of actions mean; see `simkit.agent.ready_pool_actions`."""

    type: Literal["ready-pool"]
    max_start: Annotated[int, Field(ge=0, le=10_000)]
    reject: bool
    suspend: Annotated[int, Field(ge=0, le=10_000)] = 0
    advance: Advance = "no-op"
    in_time: bool
    """Whether jobs are placed only where they end by their deadline."""


class ReadyDescription(Section):
    """What an agent of a ready pool observes and how it acts."""

    model_config = ConfigDict(extra="ignore")

    architecture: SetScorerShape
    observation: dict[str, Any]  # that of an `ObservationSchema`
    actions: ActionSection
    ready: Annotated[int, Field(ge=1, le=10_000)]
    waiting: Annotated[int, Field(ge=1)]
    horizon: Annotated[int, Field(ge=1, le=10_000)]
    longest: Annotated[int, Field(ge=1, le=10_000)]
    worth: Positive
    step_s: Positive
    resources: tuple[str, ...]

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))  # as JSON, whose lists stand for tuples

    @property
    def pool(self) -> ReadyPool:
        """The dimensions of the ready pool."""
        return ReadyPool(
            len(self.resources), self.ready, self.waiting, self.horizon, self.actions.max_start,
            self.longest, self.worth, self.step_s,
        )  # fmt: skip

    def see(self, view: ReadyView) -> Numbers:
        """Return (…, K) observations."""
        return ready_set(view, self.pool)

    @property
    def seen(self) -> ObservationSchema:
        """The meaning of the numbers of an observation."""
        return ready_set_schema(self.pool)
