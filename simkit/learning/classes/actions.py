"""Burst classes for agents on any cluster: numbered actions, and encoders of what they see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

import numpy as np

from simkit.errors import PolicyError, ScenarioError
from simkit.learning.actions import Actions, Mask, Starts, places_alike
from simkit.learning.classes.observation import NAMES, class_schema, class_set, classes_paper
from simkit.learning.classes.tracker import PATIENCE, ClassTracker, class_model
from simkit.learning.encoder import Encoder, Numbers
from simkit.policy import Action, Place, State, SystemInfo, WakeAt
from simkit.policy.ordered import resumptions
from simkit.units import parse_duration

__all__ = ["CLASS_ENCODERS", "ClassActions", "ClassEncoder", "classes_of"]


class ClassActions(Actions):
    """Action m places the first task of class m; the void one lets time go on.

    Args:
        tracker: the classes.
        starts: ``ahead``: a task is placed as early as it fits, reserved if that is later, and the
            void action is offered only if no task can be placed; ``now``: only what fits now is
            placed, and time may go on, within the tracker's patience. While something runs past its
            expected end, when a reservation would be a guess, both are as ``now``.
    """

    def __init__(self, tracker: ClassTracker, starts: Starts = "ahead") -> None:
        self._tracker, self._starts = tracker, starts
        self.count = tracker.model.actions

    def reset(self, info: SystemInfo) -> None:
        self._tracker.reset(info)

    def update(self, state: State) -> None:
        self._tracker.update(state)

    def begin(self, state: State) -> Iterable[Action]:
        if state.suspended:
            yield from resumptions(state)
        if self._starts == "now":
            self._tracker.update(state)
            due = self._tracker.must_start_at
            if due is not None and due > state.now:
                yield WakeAt(due)

    def asks(self, state: State) -> bool:
        self._tracker.update(state)  # time has gone on, or something was placed
        return bool(self.mask(state)[:-1].any())

    def action_of(self, state: State, number: int) -> Place | None:
        if not 0 <= number < self.count:
            raise PolicyError(
                f"action {number} is not one of 0 … {self.count - 1}: one for each class, and "
                f"{self.count - 1} to let time go on"
            )
        if number == self.count - 1:
            return None
        place = self._tracker.place(number)
        later = place is not None and place.start is not None
        return None if later and self._now_alone else place

    def number_of(self, state: State, action: Action) -> int | None:
        classes = range(self.count - 1)
        alike = (m for m in classes if places_alike(self.action_of(state, m), action, state.now))
        return next(alike, None)

    @property
    def _now_alone(self) -> bool:
        """Whether only what fits now can be placed."""
        return self._starts == "now" or self._tracker.overdue

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for classes of which a task can be placed, and the void one."""
        return self._tracker.mask("now" if self._now_alone else "ahead").view(np.int8)


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
    observation: str | None,
    info: SystemInfo,
    classes: int = 10,
    horizon: int = 20,
    backlog_shown: int = 10,
    step: str | float | None = None,
    starts: Starts = "ahead",
    patience: int = PATIENCE,
) -> tuple[ClassActions, ClassEncoder]:
    """Return actions and encoder that share a tracker.

    Args:
        observation: one of `CLASS_ENCODERS`; None: ``class-set``.
        info: the system.
        classes: M.
        horizon: steps ahead that are shown.
        backlog_shown: tasks behind the first of a class that are told apart.
        step: the width of a class, and the length of a step ahead: a duration or seconds.
        starts: see `ClassActions`.
        patience: of ``now``, in steps: see `ClassTracker`.

    Raises ScenarioError, all problems at once, for another observation or step, other starts, or a
    patience below 0.
    """
    name, problems = "class-set" if observation is None else observation, []
    if name not in CLASS_ENCODERS:
        problems.append(
            f"observation {name!r} does not show burst classes, which the actions 'classes' choose "
            f"from; take {' or '.join(CLASS_ENCODERS)}"
        )
    if starts not in get_args(Starts):
        problems.append(f"action_arguments: starts is {starts!r}; it must be ahead or now")
    if patience < 0:
        problems.append(f"action_arguments: patience is {patience}; it must be at least 0 steps")
    step_s = 1.0
    try:
        if step is None:
            raise ValueError("is missing")
        step_s = parse_duration(step)
    except (TypeError, ValueError) as error:
        problems.append(
            f"action_arguments: step: {error}; give the run time that a class is wide, such as 1h"
        )
    if problems:
        raise ScenarioError(problems)
    model = class_model(classes, horizon, backlog_shown, step_s, len(info.resources))
    tracker = ClassTracker(model, patience)
    return ClassActions(tracker, starts), ClassEncoder(tracker, paper=CLASS_ENCODERS[name])
