"""What agent.json says of how an agent of a ready pool acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from simkit.learners.common.shapes import RecurrentShape, SetScorerShape
from simkit.learning.ready_pool.actions import Advance
from simkit.learning.ready_pool.observation import (
    ReadyPool,
    ready_context_size,
    ready_set_schema,
    ready_size,
)
from simkit.scenario.types import Positive, Section

if TYPE_CHECKING:
    from simkit.learners.ready_pool.source import ReadySource

__all__ = ["ReadyDescription", "describe_ready_pool", "ready_recurrent", "ready_scorer"]

ReadyShape = Annotated[SetScorerShape | RecurrentShape, Field(discriminator="type")]


class ActionSection(Section):
    """What the numbers of actions mean; see `simkit.learning.ready_pool.actions`."""

    type: Literal["ready-pool"]
    max_start: Annotated[int, Field(ge=0, le=10_000)]
    reject: bool
    advance: Advance
    in_time: bool
    """Whether jobs are placed only where they end in time."""


class ReadyDescription(Section):
    """How an agent of a ready pool acts."""

    model_config = ConfigDict(extra="ignore")

    architecture: ReadyShape
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
        """The dimensions."""
        return ReadyPool(
            len(self.resources), self.ready, self.waiting, self.horizon, self.actions.max_start,
            self.longest, self.worth, self.step_s,
        )  # fmt: skip


def describe_ready_pool(shape: ReadyShape, source: ReadySource) -> dict[str, Any]:
    """Return how an agent of a source acts, as `ReadyDescription.read` reads it."""
    pool, rules = source.pool, source.rules
    facts = ("ready", "waiting", "horizon", "longest", "worth", "step_s")
    return {
        "architecture": shape.model_dump(mode="json"),
        "observation": ready_set_schema(pool).as_json(),
        "actions": {
            "type": "ready-pool", "max_start": pool.max_start, "reject": rules["reject"],
            "advance": rules["advance"], "in_time": source.late_leave,
        },
        **{name: getattr(pool, name) for name in facts},
        "resources": list(source.resources),
    }  # fmt: skip


def ready_scorer(pool: ReadyPool, hidden: int, *, reject: bool = False) -> SetScorerShape:
    """Return the shape of a scorer of jobs that reads `ready_set`, and scores doing nothing."""
    return SetScorerShape(
        type="set-scorer", context=ready_context_size(pool), items=pool.ready,
        features=ready_size(pool), hidden=hidden, scores=2 if reject else 1, others=1,
        activation="relu",
    )  # fmt: skip


def ready_recurrent(pool: ReadyPool, hidden: int, *, reject: bool = False) -> RecurrentShape:
    """Return the shape of a recurrent network that reads `ready_set`, with the same actions."""
    scorer = ready_scorer(pool, hidden, reject=reject)
    return RecurrentShape(
        type="recurrent", inputs=scorer.inputs, hidden=hidden, outputs=scorer.outputs,
        activation="tanh",
    )  # fmt: skip
