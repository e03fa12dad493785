"""Why a job waits: the causes, and what "blocked" means for each of them.

The table of docs/howto/explain.md is made of this one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Cause(StrEnum):
    """What keeps a waiting task from starting at an instant."""

    RESOURCE = "resource"
    FRAGMENTATION = "fragmentation"
    ORDER = "order"
    RESERVATION = "reservation"
    SUSPENDED_FIRST = "suspended_first"
    RESERVED = "reserved"
    WINDOW_AHEAD = "window_ahead"
    MAINTENANCE = "maintenance"
    MACHINES_DOWN = "machines_down"
    POWER = "power"
    USER_LIMIT = "user_limit"
    ADMISSION = "admission"
    RELEASE = "release"
    PARENTS = "parents"
    CLOCK = "clock"
    POLICY = "policy"


class Meaning(NamedTuple):
    """What a cause says."""

    title: str
    """A few words for tables."""
    blocked: str
    """When a task counts as blocked by it."""
    blocker: str
    """What is named, and what it would take to start the task at once."""


MEANINGS: Final[dict[Cause, Meaning]] = {
    Cause.RESOURCE: Meaning(
        "too little is free",
        "The policy reached the job, or would take it, and what is free on the machines it may use "
        "is less than it asks for.",
        "How much it is short of, and the running jobs whose ends free enough first. Without "
        "them the job starts.",
    ),
    Cause.FRAGMENTATION: Meaning(
        "free resources are scattered",
        "As much as it asks for is free in all, but on no machine, or set of machines, where it "
        "fits.",
        "The running jobs whose ends make a place first.",
    ),
    Cause.ORDER: Meaning(
        "its turn has not come",
        "Jobs ahead of it in the order wait, and the policy lets nobody pass them.",
        "The jobs ahead, which take the place; and the running jobs that hold what it needs, if it "
        "does not fit into what is free.",
    ),
    Cause.RESERVATION: Meaning(
        "it would delay a reservation",
        "It fits into what is free now, but would still hold it when the start of a job ahead of "
        "it is due.",
        "The jobs ahead that would be delayed: the head of the queue, and those that would be head "
        "in its place.",
    ),
    Cause.SUSPENDED_FIRST: Meaning(
        "a suspended job goes on first",
        "It fits into what is free now, but that is kept for a job that was suspended. Or it was "
        "suspended itself, and its place is taken.",
        "The suspended jobs; or the running jobs that hold its place.",
    ),
    Cause.RESERVED: Meaning(
        "its start is planned for later",
        "The policy has reserved a place for it that begins later, or it would collide with such a "
        "place of another job.",
        "The jobs that hold reservations.",
    ),
    Cause.WINDOW_AHEAD: Meaning(
        "a maintenance window comes first",
        "It fits into what is free now, but by its estimate it would still run when capacity goes "
        "that is known to go.",
        "The maintenance windows that begin before its expected end.",
    ),
    Cause.MAINTENANCE: Meaning(
        "machines are under maintenance",
        "It would fit if the capacity were there that a maintenance window takes.",
        "The machines, until the window's end.",
    ),
    Cause.MACHINES_DOWN: Meaning(
        "machines are down or taken",
        "It would fit if machines were there that have failed, have left, or are taken by "
        "containers or a process.",
        "The machines, until they are back.",
    ),
    Cause.POWER: Meaning(
        "power does not suffice",
        "It would fit on the capacity that the power does not carry now.",
        "The limit of power.",
    ),
    Cause.USER_LIMIT: Meaning(
        "limit of its user",
        "Its user has as many jobs in the partition as may run there.",
        "The user's jobs that were let in before it.",
    ),
    Cause.ADMISSION: Meaning(
        "no slot in the queue",
        "Admission shows the policy a limited number of tasks, and all slots are taken.",
        "The tasks in the slots and those ahead of it in the backlog.",
    ),
    Cause.RELEASE: Meaning(
        "not released yet",
        "Its release time, or the end of a preceding job and its think time, has not come.",
        "The preceding jobs that have not ended, or the time.",
    ),
    Cause.PARENTS: Meaning(
        "waits for other tasks of its job",
        "A task that it depends on has not ended.",
        "These tasks.",
    ),
    Cause.CLOCK: Meaning(
        "waits for the next decision",
        "Something has changed, but decisions are made at multiples of a period alone "
        "(scheduling.every, scheduling.step).",
        "The period.",
    ),
    Cause.POLICY: Meaning(
        "the policy's own choice",
        "It fits, nothing above keeps it, and the policy does not start it.",
        "The policy, with what it says of the job, and its score if it has one.",
    ),
}
