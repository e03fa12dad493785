"""The rule of admission: which submitted tasks a policy sees, and how many wait behind them.

`simkit.engine.admission` applies it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simkit.sections import BrokenRulesError, Count, Facts, InfiniteIsNone

AdmissionOrder = Literal["fifo", "qos", "value"]
"""Who goes first: the oldest, the highest quality of service, or the highest value."""


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
    order: AdmissionOrder = "fifo"
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
