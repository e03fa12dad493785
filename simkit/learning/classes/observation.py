"""Burst classes as an agent sees them: a slot for each class, and how many jobs wait behind it.

"SchedQRM" (CCIT 2019) shows what is held in the steps ahead, what the first waiting job of each
class asks for, and a count of the others (``classes-paper``). A set of classes (``class-set``) also
tells which class a slot is of, when its job could start, and how much the pool holds in all, with a
class's numbers side by side, so that a network can look at every class with the same weights.

Functions of arrays with any leading axes, so that one simulation and many replicas that advance
together see the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learning.encoder import Numbers
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted import Slotted

__all__ = [
    "NAMES",
    "ClassView",
    "class_context_size",
    "class_schema",
    "class_set",
    "class_size",
    "classes_paper",
]

NAMES = {True: "classes-paper", False: "class-set"}
"""Of the paper's observation, and of the set."""


@dataclass(frozen=True)
class ClassView:
    """What an agent sees of burst classes; every array may have leading axes."""

    held: Floats
    """(…, H, R) share of each resource that is held in each step ahead."""
    there: Ints
    """(…, M) 1 for classes of which a job waits."""
    size: Floats
    """(…, M, R) share of each resource that the first job of each class asks for."""
    behind: Ints
    """(…, M) jobs behind it."""
    earliest: Ints
    """(…, M) first step ahead at which it can start; -1: not within the horizon, or none waits."""


def classes_paper(view: ClassView, model: Slotted) -> Numbers:
    """Return (…, K) float32: H·R shares held, M·R requests, and M counts over `backlog_shown`."""
    lead, slots, count = view.behind.shape[:-1], model.slots, model.resources
    parts = (
        view.held.reshape(*lead, model.horizon * count),
        view.size.reshape(*lead, slots * count),
        np.minimum(view.behind / model.backlog_shown, 1.0),
    )
    return np.concatenate(parts, axis=-1, dtype=np.float32)


def class_set(view: ClassView, model: Slotted) -> Numbers:
    """Return (…, K) float32: H·R + 2 numbers of the whole, then 6 + R of each of the M classes."""
    lead, whole, count = view.behind.shape[:-1], class_context_size(model), model.resources
    numbers = np.empty((*lead, whole + model.slots * class_size(model)), np.float32)
    numbers[..., : whole - 2] = view.held.reshape(*lead, whole - 2)
    area = view.held.sum(axis=-2).max(axis=-1)
    numbers[..., whole - 2] = area / (area + model.slots)
    waiting = (view.there + view.behind).sum(axis=-1)
    numbers[..., whole - 1] = waiting / (waiting + model.slots)
    each = numbers[..., whole:].reshape(*lead, model.slots, class_size(model))
    each[..., 0] = view.there
    each[..., 1] = np.arange(1, model.slots + 1) / model.slots * view.there
    each[..., 2 : 2 + count] = np.minimum(view.size, 1.0)
    each[..., 2 + count] = np.minimum(view.behind / model.backlog_shown, 1.0)
    each[..., 3 + count] = view.earliest == 0
    wait = np.maximum(view.earliest, 0)
    each[..., 4 + count] = wait / (wait + model.slots)
    soonest = np.where(view.earliest >= 0, view.earliest, model.horizon).min(axis=-1, keepdims=True)
    later = np.maximum(view.earliest - soonest, 0)
    each[..., 5 + count] = np.minimum(later / model.slots, 1.0)
    return numbers


def class_context_size(model: Slotted) -> int:
    """Return how many numbers of `class_set` describe the whole: H·R + 2."""
    return model.horizon * model.resources + 2


def class_size(model: Slotted) -> int:
    """Return how many numbers of `class_set` describe a class: 6 + R."""
    return 6 + model.resources


def class_schema(model: Slotted, *, paper: bool = False) -> ObservationSchema:
    """Return the meaning of the numbers of `class_set`, or of `classes_paper`."""
    count, slots, steps = model.resources, model.slots, model.horizon
    held = Field("held", (steps, count), 0, 1, "1", "share held in each step ahead")
    behind = f"jobs behind it / {model.backlog_shown}"
    if paper:
        parts: tuple[Field, ...] = (
            held,
            Field("requests", (slots, count), 0, 1, "1", "of the first job of each class"),
            Field("backlog", (slots,), 0, 1, "1", f"of each class: {behind}"),
        )
    else:
        parts = (
            held,
            Field(
                "whole", (2,), 0, 1, "1",
                f"A / (A + {slots}) of the A steps that the fuller resource is held, in whole "
                f"pools; J / (J + {slots}) of the J waiting jobs",
            ),
            Field(
                "classes", (slots, class_size(model)), 0, 1, "1",
                f"of each class: 1 if a job waits; its number from 1 / {slots}; what the first job "
                f"asks for, as a share; {behind}; 1 if it can start now; W / (W + {slots}) of the "
                "W steps until it can start, 0 if it cannot within the horizon; steps by which "
                f"that is later than for another class / {slots}",
            ),
        )  # fmt: skip
    names = ("slots", "horizon", "backlog_shown")
    parameters = {name: getattr(model, name) for name in names} | {"resources": count}
    return ObservationSchema(NAMES[paper], parts, parameters)
