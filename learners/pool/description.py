"""What agent.json says of how an agent of a pool acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from simkit.learners.common.shapes import Width
from simkit.learners.pool.scorer import FEATURES, Scorer
from simkit.learners.pool.simulation import Backfill, End
from simkit.sections import Count, Section

__all__ = ["PoolDescription", "describe"]


class JobScorerShape(Section):
    """A weighted sum of features plus units max(0, ·); the same for every job."""

    type: Literal["job-scorer"]
    features: Width
    units: Annotated[int, Field(ge=0, le=10_000)]
    activation: Literal["relu"]


class PoolObservation(Section):
    """What is seen of a job."""

    name: Literal["pool-jobs"]
    features: tuple[str, ...]
    """In order; see `simkit.learners.pool.scorer`."""


class JobActions(Section):
    """What may be chosen."""

    type: Literal["jobs"]
    visible: Count
    """At most this many waiting jobs, the first submitted, can be picked."""
    backfill: Backfill
    """What may start while the first job does not fit."""
    end: End
    """With EASY, when the agent may let time go on although a job could start."""

    @model_validator(mode="after")
    def _time_goes_on_with_easy(self) -> Self:
        if self.backfill != "easy" and self.end != "never":
            raise ValueError(f"end is {self.end}, but backfill {self.backfill} supports only never")
        return self


class PoolDescription(Section):
    """How an agent of a pool of processors acts."""

    model_config = ConfigDict(extra="ignore")

    architecture: JobScorerShape
    observation: PoolObservation
    actions: JobActions

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))


def describe(scorer: Scorer, *, visible: int, backfill: Backfill, end: End) -> dict[str, Any]:
    """Return how a scorer acts, as `PoolDescription.read` reads it."""
    return {
        "architecture": {
            "type": "job-scorer", "features": len(scorer.linear), "units": len(scorer.out),
            "activation": "relu",
        },
        "observation": {"name": "pool-jobs", "features": list(FEATURES)},
        "actions": {"type": "jobs", "visible": visible, "backfill": backfill, "end": end},
    }  # fmt: skip
