"""Burst classes for an agent on any cluster: what it sees, how a simulation is followed, actions.

A task that is expected to run for up to n steps is of class n, and one that takes longer than the
last class of that. The first task of each class, in order of submission, can be placed as early as
it fits next to all that runs and is reserved or planned; a bag, as much of it as fits now.

"SchedQRM" (CCIT 2019) shows what is held in the steps ahead, what the first waiting job of each
class asks for, and a count of the others (``classes-paper``). A set of classes (``class-set``) also
shows which class a slot belongs to, when its job could start, and how much the pool holds in all,
with a class's numbers side by side, so that a network can look at every class with the same
weights.

Observations are functions of arrays with any leading axes, so that one simulation and many replicas
that advance together see the same numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import Field as Limits

from simkit.agent.actions import EarliestPlaces, Mask, Starts, TrackerActions
from simkit.agent.encoder import Encoder, Field, Numbers, ObservationSchema
from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.policy import Action, Place, State, SystemInfo, WakeAt
from simkit.policy.ordered import resumptions
from simkit.policy.task import Placement, Task
from simkit.sections import Count, Facts, PositiveDuration
from simkit.units import instant_on_grid

NAMES = {True: "classes-paper", False: "class-set"}
"""Is it the paper's observation → its name."""


@dataclass(frozen=True)
class ClassView:
    """What an agent sees of burst classes; every array may have leading axes."""

    held: Floats
    """(…, H, R) share of each resource that is held in each step ahead."""
    there: Ints
    """(…, M) 1 for classes with a waiting job."""
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


PATIENCE: Final = 5
"""Default most steps in a row in which nothing runs though a task fits."""
PLANNED: Final = 50
"""The most tasks that are planned at a decision where no place is reserved."""


def class_model(
    classes: int, horizon: int, backlog_shown: int, step_s: float, resources: int
) -> Slotted:
    """Return the dimensions of burst classes on any cluster, which is shown in shares."""
    return Slotted(
        capacity=(1,) * resources, slots=classes, horizon=horizon, max_length=classes,
        backlog=None, backlog_shown=backlog_shown, step_s=step_s,
    )  # fmt: skip


class ClassTracker(EarliestPlaces):
    """The waiting tasks by class, and the plan of what is free ahead, of one simulation.

    Attributes:
        model: a slot for each class, the horizon, and the length of a step; capacity and units do
            not matter, as shares are shown.
        tasks: (M,) the first waiting task of each class; None: there is none.
        planned: tasks with places that are kept without a reservation, until `forget`.
        busy: whether anything runs or is reserved.
        overdue: whether something runs past its expected end, so that what is planned is a guess.
        still_since: since when, in s, nothing runs though a task fits; None: it is not so.
    """

    still_since: float | None

    def __init__(self, model: Slotted, patience: int = 0) -> None:
        """Make a tracker.

        Args:
            model: see above.
            patience: steps for which time may go on while nothing runs and a task fits.
        """
        super().__init__(model.resources, model.step_s)
        self.model, self._patience = model, patience

    def reset(self, info: SystemInfo) -> None:
        """Begin a run; raises ScenarioError for a cluster of more resources than the model has."""
        if len(info.resources) > self.model.resources:
            raise ScenarioError(
                f"burst classes: the cluster has the resources {', '.join(info.resources)}, but "
                f"{self.model.resources} can be shown; leave some out of cluster.machines"
            )
        super().reset(info)
        self.still_since = None
        self.forget()

    def forget(self) -> None:
        """Forget what is planned, as a decision ends."""
        self.planned: dict[Task, tuple[Placement, float]] = {}

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after each action."""
        self.follow(state)
        for task, (on, start_s) in self.planned.items():
            self._profile.hold(task, on, start_s)
        self.busy = bool(len(state.running) or state.reservations)
        ends = state.expected_ends
        self.overdue = bool(ends) and ends[0][0] <= state.now
        self._waiting: list[deque[Task]] = [deque() for _ in range(self.model.slots)]
        for task in state.queue.tasks:
            if task not in self.planned:
                number = min(max(self.steps(task.estimate_s), 1), self.model.slots)
                self._waiting[number - 1].append(task)
        self._find_starts()
        if self.busy or self.planned or not (self.starts() == 0).any():
            self.still_since = None
        elif self.still_since is None:
            self.still_since = self._now

    @property
    def must_start_at(self) -> float | None:
        """When a task has to be placed, if nothing runs then though one fits; None: it is not so.

        A policy that lets time go on wakes then, as nothing else may happen before.
        """
        if self.still_since is None:
            return None
        return instant_on_grid(self.still_since + self._patience * self.model.step_s)

    @property
    def _may_wait(self) -> bool:
        due = self.must_start_at
        return due is None or self._now < due

    def _find_starts(self) -> None:
        self.find([tasks[0] if tasks else None for tasks in self._waiting])

    def mask(self, starts: Starts) -> Bools:
        """Return (M + 1,), fresh: which classes may be chosen, and whether time may go on.

        Args:
            starts: ``ahead``: classes with a task that can be placed; time goes on only if there is
                none; ``now``: those with a task that fits now, and time may go on, but not
                longer than the patience while nothing runs and a task fits.
        """
        found, mask = self.starts(), np.ones(self.model.actions, np.bool_)
        mask[:-1] = found == 0 if starts == "now" else found >= 0
        mask[-1] = (starts == "now" and self._may_wait) or not mask[:-1].any()
        return mask

    def view(self) -> ClassView:
        """Return what is seen now."""
        model, own = self.model, len(self._capacity)
        size = np.zeros((model.slots, model.resources))
        for number, task in enumerate(self.tasks):
            if task is not None:
                left = task.remaining / task.instances
                size[number, :own] = np.array(task.demand) * left / self._capacity
        count = np.array([len(tasks) for tasks in self._waiting])
        held = np.zeros((model.horizon, model.resources))
        begins = self._now + model.step_s * np.arange(model.horizon, dtype=np.float64)
        held[:, :own] = 1.0 - self.free(begins)
        return ClassView(
            held=np.clip(held, 0.0, 1.0),
            there=(count > 0).astype(np.int64),
            size=size,
            behind=np.maximum(count - 1, 0),
            earliest=self.starts(),
        )

    def plan(self, number: int) -> None:
        """Keep the place of a class's first task without a reservation, until `forget`.

        Raises LookupError if nothing can be placed.
        """
        found = self._found[number]
        if found is None:
            raise LookupError(f"no task of class {number} can be placed")
        task = self._waiting[number].popleft()
        self.planned[task] = found[1], found[0]
        self._profile.hold(task, found[1], found[0])
        self.still_since = None  # it will run
        self._find_starts()


class ClassArguments(Facts):
    """Arguments of the actions on burst classes."""

    noun: ClassVar = "action_arguments"
    step: PositiveDuration
    """The width of a class, and the length of a step ahead."""
    starts: Starts = "ahead"
    """`ahead`: a task is placed as early as it fits, reserved if that is later, and the void action
    is offered only if no task can be placed; `now`: only what fits now is placed, and time may go
    on, within the patience."""
    patience: Annotated[int, Limits(ge=0)] = PATIENCE
    """Of `now`: steps for which time may go on while nothing runs and a task fits."""
    keep: bool = True
    """Whether a place ahead is reserved. If not, and while something runs past its expected end,
    when a reservation would be a guess, it is kept until the decision ends, and all that has not
    started is planned anew at the next."""
    resources: Count | None = None
    """How many are shown, those that the cluster lacks as free; null: the cluster's."""


class ClassActions(TrackerActions):
    """Action m places the first task of class m; the void one lets time go on.

    Args:
        tracker: the classes.
        starts: see `ClassArguments`.
        keep: see `ClassArguments`.
    """

    def __init__(
        self, tracker: ClassTracker, starts: Starts = "ahead", *, keep: bool = True
    ) -> None:
        count = tracker.model.actions
        super().__init__(tracker, count, f"one for each class, and {count - 1} to let time go on")
        self._tracker, self._starts, self._keep = tracker, starts, keep
        self._planned = False  # by the last action

    def begin(self, state: State) -> Iterable[Action]:
        return resumptions(state) if state.suspended else ()

    def asks(self, state: State) -> bool:
        return len(self._tracker.planned) < PLANNED and bool(self.mask(state)[:-1].any())

    def action_of(self, state: State, number: int) -> Place | None:
        self.check(number)
        place = self.placed(number)
        later = place is not None and place.start is not None
        self._planned = later and not (self._keep and not self._tracker.overdue)
        if self._planned:
            self._tracker.plan(number)
        return None if self._planned else place

    def placed(self, number: int) -> Place | None:
        place = super().placed(number)
        later = place is not None and place.start is not None
        return None if later and self._starts == "now" else place

    def goes_on(self, state: State) -> bool:
        return not (self._planned and self.asks(state))

    def end(self, state: State) -> Iterable[Action]:
        """Yield when the agent is asked next, if nothing else happens before."""
        tracker, due = self._tracker, self._tracker.must_start_at
        begins = [start_s for _, start_s in tracker.planned.values()]
        tracker.forget()
        if begins and not tracker.overdue:
            yield WakeAt(min(begins))
        elif due is not None and due > state.now:
            yield WakeAt(due)

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for classes with a placeable task, and for the void action."""
        return self._tracker.mask(self._starts).view(np.int8)


class ClassEncoder(Encoder):
    """Shows a tracker, which its owner updates, as `class_set` or as `classes_paper`."""

    def __init__(self, tracker: ClassTracker, *, paper: bool) -> None:
        self._tracker, self._show = tracker, classes_paper if paper else class_set
        self.schema = class_schema(tracker.model, paper=paper)

    def reset(self, info: SystemInfo) -> None:
        """Do nothing: the tracker's owner resets it."""

    def encode(self, state: State) -> Numbers:
        """Return (K,) float32."""
        return self._show(self._tracker.view(), self._tracker.model)


CLASS_ENCODERS: Mapping[str, bool] = {name: paper for paper, name in NAMES.items()}
"""Name → whether it is the paper's."""


def classes_of(
    observation: str | None, info: SystemInfo, classes: int, horizon: int, backlog_shown: int,
    arguments: Mapping[str, Any],
) -> tuple[ClassActions, ClassEncoder]:  # fmt: skip
    """Return actions and encoder that share a tracker.

    Args:
        observation: one of `CLASS_ENCODERS`; None: ``class-set``.
        info: the system.
        classes: M.
        horizon: steps ahead that are shown.
        backlog_shown: tasks behind the first of a class that are counted.
        arguments: see `ClassArguments`.

    Raises ScenarioError, all problems at once, for another observation or wrong arguments.
    """
    name, chosen = "class-set" if observation is None else observation, ClassArguments(**arguments)
    if name not in CLASS_ENCODERS:
        raise ScenarioError(
            f"observation {name!r} does not show burst classes, which the actions 'classes' choose "
            f"from; take {' or '.join(CLASS_ENCODERS)}"
        )
    shown = chosen.resources or len(info.resources)
    model = class_model(classes, horizon, backlog_shown, chosen.step, shown)
    tracker = ClassTracker(model, chosen.patience)
    encoder = ClassEncoder(tracker, paper=CLASS_ENCODERS[name])
    return ClassActions(tracker, chosen.starts, keep=chosen.keep), encoder
