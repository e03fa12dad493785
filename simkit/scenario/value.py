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
    """Two classes of users, drawn per job; defaults of the dissertation (RARE, 2023)."""

    type: Literal["two-classes"] = "two-classes"
    """Two classes of users, drawn per job; defaults of the dissertation (RARE, 2023)."""
    high_share: Share = 0.6
    """Share of the jobs whose QoS is high."""
    high: QualityRange = (0.6, 1.0)
    """Least and most QoS of these jobs, uniformly distributed."""
    low: QualityRange = (0.1, 0.6)
    """Least and most QoS of the other jobs."""


class FixedQuality(Section):
    """One quality of service for every job."""

    type: Literal["fixed"]
    """One quality of service for every job."""
    qos: Quality
    """The quality of service."""


class TraceQuality(Section):
    """The trace's quality of service, in the column qos of a table of jobs."""

    type: Literal["column"]
    """The trace's quality of service, in the column qos of a table of jobs."""


class NoDeadlines(Section):
    """Jobs have no deadlines."""

    type: Literal["none"] = "none"
    """Jobs have no deadlines."""


class QualityDeadlines(Section):
    """The deadline is when the quality of service is violated: submit + run time / QoS."""

    type: Literal["qos"]
    """The deadline is when the quality of service is violated: submit + run time / QoS."""
    of: Literal["requested", "actual"] = "requested"
    """Which run time counts. Policies see deadlines, so `actual` reveals true run times."""


class SlackDeadlines(Section):
    """Submit + factor x run time, with a factor drawn per job."""

    type: Literal["slack"]
    """Submit + factor x run time, with a factor drawn per job."""
    factor: PositiveRange = (2.0, 10.0)
    """Least and most factor, uniformly distributed."""
    of: Literal["requested", "actual"] = "requested"
    """Which run time counts. Policies see deadlines, so `actual` hints at true run times."""


class TraceDeadlines(Section):
    """The trace's deadlines, in the column deadline_s of a table of jobs."""

    type: Literal["column"]
    """The trace's deadlines, in the column deadline_s of a table of jobs."""


class Gpus(Section):
    """GPU requests (resource gpu) drawn for the jobs of a log that has none."""

    share: Share = 1.0
    """Share of the jobs that ask for GPUs."""
    amount: CountRange = (1, 5)
    """Least and most GPUs, whole and uniformly distributed."""
    per: Literal["job", "processor"] = "job"
    """job: the job asks for all GPUs as one instance, as suits a pool; processor: each asks."""


def _short_form(value: object) -> object:
    """Return a name as a section without other keys, and a number as a fixed quality."""
    if isinstance(value, str):
        return {"type": value}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"type": "fixed", "qos": value}
    return value


AnyQuality = TwoClasses | FixedQuality | TraceQuality
AnyDeadlines = NoDeadlines | QualityDeadlines | SlackDeadlines | TraceDeadlines

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
    """What jobs are worth; applied to the workload after its transforms."""

    qos: Qualities = TwoClasses()
    """Quality of service in (0, 1]: a number, two-classes or column. Run time / QoS is the longest
    turnaround without a violation."""
    prices: dict[str, Price] | None = None
    """Resource → price of a unit for `time_unit`; null: the trace's values, or else 0.5 each."""
    time_unit: PositiveDuration = 3600.0
    """The time that a price is for."""
    knob: Positive = 1.0
    """Factor on every computed value."""
    deadlines: Deadlines = NoDeadlines()
    """none, qos, slack or column."""
    gpu: Gpus | None = None
    """GPUs for jobs of a log without them; absent: none."""
