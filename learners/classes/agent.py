"""A trained agent of burst classes as a policy, on any cluster.

policy: {agent: trainings/mine}
policy: {agent: trainings/mine, args: {step: 1h, keep: false}}
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from simkit.agent.burst_classes import (
    NAMES,
    ClassTracker,
    class_model,
    class_schema,
    class_set,
    classes_paper,
)
from simkit.agent.encoder import ObservationSchema
from simkit.arrays import Bools
from simkit.errors import RunError, ScenarioError
from simkit.learners.classes.description import ClassDescription
from simkit.learners.common.bundle import Bundle, network_of
from simkit.policy import Action, State, SystemInfo, WakeAt
from simkit.policy.ordered import resumptions
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.units import parse_duration

__all__ = ["ClassAgent"]

PLANNED: Final = 50
"""The most tasks that are planned ahead at a decision, where places are not kept."""


class ClassAgent:
    """A network that scores burst classes; the first task of the best one is placed; a `Policy`.

    Attributes:
        name: of the bundle.
        keeps: whether a place is kept once it is chosen.
    """

    def __init__(
        self, bundle: Bundle, described: ClassDescription, *, keep: bool, step: str | float | None
    ) -> None:
        """Build it.

        Args:
            bundle: with the weights.
            described: how it acts.
            keep: a task that is placed ahead keeps its place, as in training; otherwise all that
                has not started is planned anew at the next decision.
            step: how much run time a class stands for; None: as in training.

        Raises RunError if parts of the bundle do not fit together, ScenarioError for a wrong step.
        """
        self.name, self.keeps = agent_label(bundle.folder), keep
        where = bundle.folder / DESCRIPTION
        step_s = described.step_s
        if step is not None:
            try:
                step_s = parse_duration(step)
            except (TypeError, ValueError) as error:
                raise ScenarioError(
                    f"agent {self.name}: step: {error}; give one such as 1h"
                ) from None
        actions, resources = described.actions, len(described.resources)
        model = class_model(
            actions.classes, described.horizon, described.backlog_shown, step_s, resources
        )
        seen = ObservationSchema.from_json(described.observation)
        paper = seen.name == NAMES[True]
        schema = class_schema(model, paper=paper)
        if differing := schema.differences(seen):
            raise RunError("\n".join(f"{where}: {text}; train it again" for text in differing))
        self._network = network_of(bundle, described.architecture, schema.size, model.actions)
        self._show = classes_paper if paper else class_set
        self._starts = actions.starts
        self._tracker = ClassTracker(model, actions.patience)

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario cannot be scheduled by it, a line each."""
        if scenario.admission.slots is None:
            return []
        return ["admission.slots is not supported with burst classes; leave it out"]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return how a cluster cannot be shown to it, a line each."""
        try:
            self._tracker.reset(info)
        except ScenarioError as error:
            return [f"agent {self.name}: {text}" for text in error.problems]
        return []

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run; raises ScenarioError for a cluster that cannot be shown."""
        if problems := self.check_cluster(info):
            raise ScenarioError(problems)

    def schedule(self, state: State) -> Iterator[Action]:
        """Place the first task of the best class, one after another, until none is left."""
        tracker, planned, wake = self._tracker, 0, inf
        if state.suspended:
            yield from resumptions(state)
        tracker.update(state)
        while planned < PLANNED and (allowed := tracker.mask(self._starts))[:-1].any():
            chosen = self._choose(allowed)
            place = tracker.place(chosen) if chosen < tracker.model.slots else None
            if place is None:
                if tracker.must_start_at is not None:
                    yield WakeAt(tracker.must_start_at)
                break
            if place.start is None or (self.keeps and not tracker.overdue):
                yield place
                tracker.plan(chosen)
            else:
                wake = min(wake, tracker.plan(chosen))
                planned += 1
        if wake < inf and not tracker.overdue:
            yield WakeAt(wake)

    def _choose(self, allowed: Bools) -> int:
        """Return the action of the highest score; of equals the lowest."""
        scores = self._network.logits(self._show(self._tracker.view(), self._tracker.model))
        return int(np.where(allowed, scores, -np.inf).argmax())
