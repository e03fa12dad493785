"""The rules of a simulation, whatever its policy: walltime, admission, the clock, limits.

Each class is a section of a scenario and, with the same names and units, an object in Python:
`Rules(walltime="kill", scheduling=Scheduling(every=60.0))`, with durations in s. A scenario is
itself the `Rules` of its simulation; `Simulation` takes the correction of estimates beside them.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from simkit.arrays import Floats
from simkit.sections import (
    BrokenRulesError,
    ClockTime,
    Count,
    Facts,
    InfiniteIsNone,
    PositiveDuration,
)
from simkit.units import LATEST_S, TIME_GRID, WEEK_S, time_on_grid

Seconds = TypeVar("Seconds", float, Floats)
Engine = Literal["auto", "simpy", "compiled"]
"""What replays a run; see `simkit.compiled.scope`."""


class AdmissionRule(Facts):
    """Which submitted tasks the policy sees; by default all of them.

    DeepRM's ten slots and backlog of sixty are ``AdmissionRule(slots=10, backlog=60)``; RARE's
    ready pool of five and wait pool of 144 by QoS are ``AdmissionRule(slots=5, backlog=144,
    order="qos")``.
    """

    noun = "admission"

    slots: Annotated[Count | None, InfiniteIsNone] = None
    """How many waiting tasks the policy sees at most; null: all."""
    backlog: Annotated[Annotated[int, Field(ge=0)] | None, InfiniteIsNone] = None
    """How many tasks may wait behind the slots; more are rejected; null: no limit."""
    refill: Literal["at_once", "next_decision"] = "at_once"
    """A free slot is filled within the decision that frees it, or before the next decision."""
    order: Literal["fifo", "qos", "value"] = "fifo"
    """Which waiting task gets a free slot: the first, or that with the highest qos or value."""
    late: Literal["stay", "leave"] = "stay"
    """What becomes of a job that has not started and can no longer end in time, by its estimate,
    deadline and qos: it stays, or leaves (is rejected) once the policy would see it."""

    @model_validator(mode="after")
    def _order_needs_slots(self) -> Self:
        if self.order != "fifo" and self.slots is None:
            text = f"{self.order} needs slots; add their number"
            raise BrokenRulesError([(("order",), text)])
        return self


def _on_the_grid(period_s: float) -> float:
    if not time_on_grid(period_s) > 0:
        raise ValueError(f"must be at least {TIME_GRID} s, not {period_s:g}")
    return period_s


Period = Annotated[PositiveDuration, AfterValidator(_on_the_grid)]
"""Seconds, at least one step of the grid of times."""


class Scheduling(Facts):
    """The instants of decisions."""

    noun = "scheduling"

    every: Period | None = None
    """At multiples of this time if something changed; null: at every change."""
    step: Period | None = None
    """At all multiples of this time, whether or not something changed, from the first submission on
    for as long as jobs are to come, run or wait: slotted time."""

    @model_validator(mode="after")
    def _either_every_or_step(self) -> Self:
        if self.every is not None and self.step is not None:
            text = "cannot be combined with `every`, which skips steps; remove one of them"
            raise BrokenRulesError([(("step",), text)])
        return self

    @property
    def period_s(self) -> float | None:
        """Seconds from one possible decision to the next, on the grid of times; None: any time."""
        period = self.every if self.step is None else self.step
        return None if period is None else float(time_on_grid(period))


class Limits(Facts):
    """What ends a run that would go on for ever, and how much keys may make; null: no limit.

    A `Simulation` made in Python meets `simulated_time`, `decisions` and `retries` itself; the
    others are kept by what reads a scenario and carries it out.
    """

    noun = "limits"

    simulated_time: ClockTime | None = LATEST_S
    """Time after the first submission; nothing later is simulated. The default is as long as times
    are exact, 2**33 s or 272 years."""
    wall_time: PositiveDuration | None = WEEK_S
    """Real time that the simulation may take, also inside of a policy that does not return."""
    decisions: Count | None = 10_000_000
    """Decisions in a row between which no job arrives or ends."""
    retries: Annotated[int, Field(ge=0)] | None = 1000
    """How often a task may start over after its work was lost; more ends the run. The `retries` of
    a table count up to here, and more kill the task."""
    jobs: Count | None = 10_000_000
    """Most jobs, or users, that a model or a resample makes; a scenario of more is refused before
    any is drawn. The jobs of a log do not count."""
    instances: Count | None = 20_000_000
    """Most instances that start one by one: those of all bags of the workload, a log's too."""
    machines: Count | None = 200_000
    """Most machines that `cluster.machines` makes."""
    steps: Count | None = 20_000_000
    """Most that a period makes in the time that the jobs take: decisions of `scheduling.step`,
    changes of a signal, of maintenance or by failures; and steps of a forecast."""
    runs: Count | None = 10_000
    """Most runs of a sweep."""


class Rules(Facts):
    """How the system behaves, whatever the policy."""

    noun = "rules"

    walltime: Literal["kill", "ignore"] = "ignore"
    """kill: a job is killed at its requested time; ignore: it runs to its end."""
    admission: AdmissionRule = Field(default_factory=AdmissionRule)
    """Which submitted tasks the policy sees."""
    scheduling: Scheduling = Field(default_factory=Scheduling)
    """When the policy is called."""
    limits: Limits = Field(default_factory=Limits)
    """What ends a run that would go on for ever, and how much keys may make."""

    @property
    def kills(self) -> bool:
        """Whether a job is killed when its requested time is over."""
        return self.walltime == "kill"

    def killed_after_s(self, requested_s: Seconds) -> Seconds | float:
        """Return the longest run times allowed for these requested times, in s; infinity: any.

        NaN, an unknown request, stays NaN.
        """
        return requested_s if self.kills else inf
