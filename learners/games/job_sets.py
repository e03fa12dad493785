"""Lock-step games as a source: job sets laid out in numbered slots, or in one for each burst class.

A layout defines the observation, the shape of the scorer, the games, and the description of the
agent for its bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from simkit.agent.actions import SlotMask, Starts
from simkit.agent.burst_classes import PATIENCE, class_context_size, class_schema, class_size
from simkit.agent.encoder import ObservationSchema
from simkit.agent.observe_slots import SLOT_ENCODERS, context_size, slot_size
from simkit.agent.slotted import Slotted
from simkit.arrays import Ints
from simkit.learners.common.bundle import describe_view, of_classes, of_slots
from simkit.learners.common.games import Rule
from simkit.learners.lockstep import Lockstep, MeteredLockstep, Objective
from simkit.learners.lockstep.class_games import ClassGames, ClassMask
from simkit.learners.lockstep.class_slots import ClassLockstep, Reading
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import JobSource
from simkit.learners.lockstep.outcome import OUTCOME
from simkit.learners.lockstep.pool_in_steps import RESOURCES
from simkit.learners.lockstep.slot_games import SlotGames, shortest_first
from simkit.learners.networks.shapes import (
    PerceptronShape,
    SetScorerShape,
    TablePerceptronShape,
)

__all__ = ["BurstClasses", "ClassRules", "LayoutName", "LockstepSource", "NumberedSlots"]

LayoutName = Literal["slots", "classes"]
LayoutGames = SlotGames | ClassGames


@dataclass(frozen=True)
class NumberedSlots:
    """Slots that jobs fill in order of arrival, as in DeepRM."""

    model: Slotted
    mask: SlotMask
    observation: str = "slot-set"
    """One of `SLOT_ENCODERS`."""
    last_step: int | None = None
    """The step of rollouts whose load and reward are measured; see `MeteredLockstep`."""
    greedy: ClassVar = False
    """Whether an agent takes its likeliest action, or draws one."""

    @property
    def teachers(self) -> Mapping[str, Rule]:
        """Shortest job first, which lets a step pass where it must not if places are ahead."""
        return {} if self.mask == "ahead" else {"sjf": shortest_first}

    @property
    def schema(self) -> ObservationSchema:
        """The meaning of the numbers of an observation."""
        return SLOT_ENCODERS[self.observation].schema_of(self.model)

    def scorer(self, hidden: int) -> PerceptronShape | SetScorerShape:
        """Return the shape of a scorer with `hidden` units per layer."""
        model = self.model
        if self.observation == "slot-set":
            return SetScorerShape(
                type="set-scorer", context=context_size(model), items=model.slots,
                features=slot_size(model), hidden=hidden, others=1, activation="relu",
            )  # fmt: skip
        layers = (self.schema.size, hidden, model.actions)
        if self.observation == "deeprm-image":
            return TablePerceptronShape(
                type="perceptron", layers=layers, activation="relu", slotted=model
            )
        return PerceptronShape(type="perceptron", layers=layers, activation="relu")

    def games(self, sets: JobSets, replicas: int, objective: Objective, limit: int) -> SlotGames:
        """Return new games; for the arguments see `Lockstep`."""
        lockstep: Lockstep
        if self.last_step is None or replicas == 1:
            lockstep = Lockstep(self.model, sets, replicas, objective, limit)
        else:
            lockstep = MeteredLockstep(self.model, sets, replicas, objective, limit)
            lockstep.meter(self.last_step)
        return SlotGames(lockstep, self.mask, self.observation)

    def describe(self, shape: PerceptronShape | SetScorerShape) -> dict[str, Any]:
        """Return the description of an agent for its bundle."""
        kind = of_slots(self.observation, self.model, self.mask, RESOURCES)
        return describe_view(shape, self.schema, kind)


@dataclass(frozen=True)
class ClassRules:
    """How burst classes are seen and paid for; see `ClassGames` and `ClassLockstep`."""

    horizon: int = 201
    mask: ClassMask = "possible"
    reading: Reading = "delay"
    shaped: bool = True
    paper: bool = False
    """A perceptron reads the paper's observation; else a scorer of classes reads `class_set`."""


@dataclass(frozen=True)
class BurstClasses:
    """A slot for each length of a job, as in SchedQRM; rewards are shaped, if not ruled out."""

    model: Slotted
    starts: Starts
    patience: int = PATIENCE
    rules: ClassRules = ClassRules()
    greedy: ClassVar = True
    teachers: ClassVar[Mapping[str, Rule]] = {}

    @property
    def schema(self) -> ObservationSchema:
        return class_schema(self.model, paper=self.rules.paper)

    def scorer(self, hidden: int) -> PerceptronShape | SetScorerShape:
        model = self.model
        if self.rules.paper:
            layers = (self.schema.size, hidden, model.actions)
            return PerceptronShape(type="perceptron", layers=layers, activation="relu")
        return SetScorerShape(
            type="set-scorer", context=class_context_size(model), items=model.slots,
            features=class_size(model), hidden=hidden, others=1, activation="relu",
        )  # fmt: skip

    def games(
        self, sets: JobSets, replicas: int, objective: Objective, limit: int
    ) -> SlotGames | ClassGames:
        rules = self.rules
        lockstep = ClassLockstep(self.model, sets, replicas, reading=rules.reading, limit=limit)
        return ClassGames(
            lockstep, self.starts, rules.mask, patience=self.patience, paper=rules.paper,
            shaped=rules.shaped,
        )  # fmt: skip

    def describe(self, shape: PerceptronShape | SetScorerShape) -> dict[str, Any]:
        schema, model = self.schema, self.model
        kind = of_classes(schema.name, model, self.starts, self.patience)
        return describe_view(shape, schema, kind)


@dataclass(frozen=True)
class LockstepSource:
    """Job sets of a slotted model, played in lock-step; a `Source`."""

    jobs: JobSource
    layout: NumberedSlots | BurstClasses
    objective: Objective
    most_decisions: int
    """Decisions after which an episode is cut off."""

    criterion: ClassVar = "slowdown"
    metrics_of_runs: ClassVar = {
        "slowdown_of_sets": "slowdown", "turnaround_steps": "turnaround_time_s",
    }  # fmt: skip
    held_out_metrics: ClassVar = (*OUTCOME, "return")
    in_steps: ClassVar = True
    relative: ClassVar = False

    @property
    def schema(self) -> ObservationSchema:
        """What an agent sees."""
        return self.layout.schema

    @property
    def greedy(self) -> bool:
        """Whether its agents take their likeliest action when they are judged."""
        return self.layout.greedy

    @property
    def teachers(self) -> Mapping[str, Rule]:
        return self.layout.teachers

    def scorer(self, hidden: int) -> PerceptronShape | SetScorerShape:
        return self.layout.scorer(hidden)

    def draw(self, rng: np.random.Generator, count: int) -> JobSets:
        return self.jobs.draw(rng, count)

    def held_out(self, count: int) -> JobSets:
        return self.jobs.held_out(count)

    def group_of(self, count: int) -> Ints:
        return self.jobs.source_of(count)

    def games(self, slices: JobSets, replicas: int = 1) -> LayoutGames:
        return self.layout.games(slices, replicas, self.objective, self.most_decisions)

    def describe(self, shape: PerceptronShape | SetScorerShape) -> dict[str, Any]:
        return self.layout.describe(shape)
