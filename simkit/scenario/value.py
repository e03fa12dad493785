"""The scenario's `value`: what jobs are worth, their quality of service and their deadlines."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from simkit.scenario.types import (
    CountRange,
    Positive,
    PositiveDuration,
    PositiveRange,
    Quality,
    QualityRange,
    Section,
)

Share = Annotated[float, Field(ge=0, le=1)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TwoClasses(Section):
    """Two classes of users, drawn for each job; by default as in the dissertation (RARE, 2023)."""

    type: Literal["two-classes"] = "two-classes"
    """Two classes of users, drawn for each job; by default as in the dissertation (RARE, 2023)."""
    high_share: Share = 0.6
    """Share of the jobs whose QoS is high."""
    high: QualityRange = (0.6, 1.0)
    """Least and most QoS of these, spread evenly."""
    low: QualityRange = (0.1, 0.6)
    """Least and most QoS of the others."""


class FixedQuality(Section):
    """One quality of service for every job."""

    type: Literal["fixed"]
    """One quality of service for every job."""
    qos: Quality
    """The quality of service."""


class OwnQuality(Section):
    """The quality of service that the trace itself gives, in the column qos of a table of jobs."""

    type: Literal["column"]
    """The quality of service that the trace itself gives, in the column qos of a table of jobs."""


class NoDeadlines(Section):
    """Jobs have no deadlines."""

    type: Literal["none"] = "none"
    """Jobs have no deadlines."""


class QualityDeadlines(Section):
    """A job's deadline is where its quality of service is violated: submit + run time / QoS."""

    type: Literal["qos"]
    """A job's deadline is where its quality of service is violated: submit + run time / QoS."""
    of: Literal["requested", "actual"] = "requested"
    """The run time that counts; policies see deadlines, so `actual` tells them true run times."""


class SlackDeadlines(Section):
    """Submit + factor x run time, the factor drawn for each job."""

    type: Literal["slack"]
    """Submit + factor x run time, the factor drawn for each job."""
    factor: PositiveRange = (2.0, 10.0)
    """Least and most factor, spread evenly."""
    of: Literal["requested", "actual"] = "requested"
    """The run time that counts; policies see deadlines, so `actual` gives a hint of true ones."""


class OwnDeadlines(Section):
    """The deadlines that the trace itself gives, in the column deadline_s of a table of jobs."""

    type: Literal["column"]
    """The deadlines that the trace itself gives, in the column deadline_s of a table of jobs."""


class Gpus(Section):
    """GPUs that jobs of a log without them ask for, drawn: the resource gpu."""

    share: Share = 1.0
    """Share of the jobs that ask for any."""
    amount: CountRange = (1, 5)
    """Least and most of them, whole and evenly spread."""
    per: Literal["job", "processor"] = "job"
    """job: a job asks for all it needs as one instance, as suits a pool; processor: each does."""


def _short_form(value: object) -> object:
    """Take a name for a section without other keys, and a number for a fixed one."""
    if isinstance(value, str):
        return {"type": value}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"type": "fixed", "qos": value}
    return value


AnyQuality = TwoClasses | FixedQuality | OwnQuality
AnyDeadlines = NoDeadlines | QualityDeadlines | SlackDeadlines | OwnDeadlines

Qualities = Annotated[
    AnyQuality,
    Field(discriminator="type"),
    BeforeValidator(_short_form, json_schema_input_type=float | str | AnyQuality),
]
"""A number, ``two-classes``, or a section."""
Deadlines = Annotated[
    AnyDeadlines,
    Field(discriminator="type"),
    BeforeValidator(_short_form, json_schema_input_type=str | AnyDeadlines),
]
"""``none``, ``qos``, ``slack``, ``column``, or a section."""


class Value(Section):
    """What jobs are worth; given to the workload after all its transforms."""

    qos: Qualities = TwoClasses()
    """Quality of service in (0, 1]: a number, two-classes, or column; run time / QoS is the
    longest turnaround without a violation."""
    prices: dict[str, Price] | None = None
    """Resource → price of a unit for `time_unit`; null: the trace's own values, else 0.5 each."""
    time_unit: PositiveDuration = 3600.0
    """What prices are per."""
    knob: Positive = 1.0
    """Multiplies every value that is worked out."""
    deadlines: Deadlines = NoDeadlines()
    """none, qos, slack or column."""
    gpu: Gpus | None = None
    """GPUs for jobs of a log without them; absent: none."""
