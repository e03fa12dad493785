"""The slotted model as a set of tasks: what is held in the steps ahead, then the task of each slot.

Unlike DeepRM's image it tells how long each task has waited, whether it could start now or at all,
and how many jobs have come so far: an agent for several loads has to tell them apart. A task's
numbers stand together, so that a network can look at every slot with the same weights.

A function of arrays with any leading axes, so that one simulation and many replicas that advance
together see the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.arrays import Ints
from simkit.learning.encoder import Numbers, SlotEncoder
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted import Slotted, SlottedView
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.policy import State

NAME = "slot-set"
JOBS, STEPS = 4, 12
"""Units of the jobs that have come and of the time since the first one."""
LARGEST = 6
"""So many of these units are told apart."""


@dataclass(frozen=True)
class SlotFacts:
    """What `slot_set` shows beside a `SlottedView`; every array may have leading axes."""

    earliest: Ints
    """(…, M) first step ahead at which each slot's task can start; -1: none, or empty."""
    waited: Ints
    """(…, M) steps since its job came; 0 for an empty slot."""
    arrived: Ints
    """(…) jobs that have come so far, rejected ones too."""
    elapsed: Ints
    """(…) steps since the first one came."""

    def take(self, rows: Ints | slice) -> SlotFacts:
        """Return those of some replicas, the leading axis."""
        return SlotFacts(
            self.earliest[rows], self.waited[rows], self.arrived[rows], self.elapsed[rows]
        )


def slot_set(view: SlottedView, facts: SlotFacts, model: Slotted) -> Numbers:
    """Return (…, K) float32: H·R + 4 numbers of the whole, then 6 + R of each of the M slots."""
    lead, slots, count = view.backlog.shape, model.slots, model.resources
    earliest, waited, elapsed = facts.earliest, facts.waited, facts.elapsed
    whole = context_size(model)
    numbers = np.empty((*lead, whole + slots * slot_size(model)), np.float32)
    held = view.occupied / np.array(model.capacity, np.float32)
    numbers[..., : whole - 4] = held.reshape(*lead, whole - 4)
    numbers[..., whole - 4] = np.minimum(view.backlog / model.backlog_shown, 1.0)
    numbers[..., whole - 3] = np.minimum(view.since_arrival / model.memory, 1.0)
    # By how much likelier one load is than another is linear in these two.
    numbers[..., whole - 2] = np.minimum(facts.arrived / JOBS, LARGEST)
    numbers[..., whole - 1] = np.minimum(elapsed / STEPS, LARGEST)
    tasks = numbers[..., whole:].reshape(*lead, slots, slot_size(model))
    tasks[..., 0] = view.length > 0
    tasks[..., 1] = np.minimum(view.length / model.max_length, 1.0)
    tasks[..., 2 : 2 + count] = np.minimum(view.size / np.array(model.capacity, np.float32), 1.0)
    tasks[..., 2 + count] = waited / (waited + model.max_length)
    tasks[..., 3 + count] = earliest == 0
    tasks[..., 4 + count] = earliest >= 0
    tasks[..., 5 + count] = np.maximum(earliest, 0) / model.horizon
    return numbers


def context_size(model: Slotted) -> int:
    """Return how many numbers describe the whole: H·R + 4."""
    return model.horizon * model.resources + 4


def slot_size(model: Slotted) -> int:
    """Return how many numbers describe a slot: 6 + R."""
    return 6 + model.resources


def slot_set_schema(model: Slotted) -> ObservationSchema:
    """Return the meaning of the numbers of `slot_set`."""
    count, slots = model.resources, model.slots
    parts = (
        Field(
            "occupied", (model.horizon, count), 0, 1, "1",
            "units held in each step ahead / capacity",
        ),
        Field("backlog", (1,), 0, 1, "1", f"tasks behind the slots / {model.backlog_shown}"),
        Field("since_arrival", (1,), 0, 1, "1", f"steps since a job last came / {model.memory}"),
        Field(
            "arrivals", (2,), 0, LARGEST, "1",
            f"jobs that have come / {JOBS}, and steps since the first one came / {STEPS}, each at "
            f"most {LARGEST}",
        ),
        Field(
            "slots", (slots, slot_size(model)), 0, 1, "1",
            f"of each slot: 1 if it holds a task; its steps / {model.max_length}; units of each "
            f"resource / capacity; w / (w + {model.max_length}) of the w steps that it has waited; "
            "1 if it can start now; 1 if it can start within the horizon; its earliest start in "
            f"steps ahead / {model.horizon}, 0 if there is none",
        ),
    )  # fmt: skip
    names = ("capacity", "slots", "horizon", "max_length", "backlog_shown", "memory")
    return ObservationSchema(NAME, parts, {name: getattr(model, name) for name in names})


class SlotSet(SlotEncoder):
    """The set of the tasks in numbered slots; see `slot_set`."""

    def __init__(self, tracker: SlottedTracker) -> None:
        super().__init__(tracker)
        self.schema = slot_set_schema(tracker.model)

    def encode(self, state: State) -> Numbers:
        """Return (K,) float32."""
        tracker, slots = self.tracker, range(self.tracker.model.slots)
        facts = SlotFacts(
            earliest=np.array([tracker.earliest(slot) for slot in slots]),
            waited=np.array([tracker.waited(slot) for slot in slots]),
            arrived=np.array(tracker.arrived),
            elapsed=np.array(tracker.elapsed()),
        )
        return slot_set(tracker.view(), facts, tracker.model)
