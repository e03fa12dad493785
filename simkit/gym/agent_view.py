"""What an agent sees of a scenario, and what its actions mean there.

The Gymnasium environment and a trained model that runs as a policy build both from the same
`AgentView`, so that a model decides in a run as it does in the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simkit.agent.actions import ACTIONS, Actions, SlotActions, make_actions
from simkit.agent.burst_classes import classes_of
from simkit.agent.encoder import Encoder
from simkit.agent.observation import make_encoder
from simkit.agent.ready_pool_actions import ready_pool_of
from simkit.agent.slotted import Slotted, whole_units
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.errors import ScenarioError
from simkit.plugins import instantiate
from simkit.policy import SystemInfo
from simkit.scenario import Scenario

OF_QUEUE = frozenset({"queue-table", "queue-set"})
"""Observations with a row for each waiting task."""
STEPS_AHEAD = 20
"""Default number of planned steps of slots and of classes."""
_WAITING_SHOWN = 144
DEFAULT_SLOTS = 10
"""Waiting tasks to choose from, if neither scenario nor caller gives a number."""


@dataclass(frozen=True)
class AgentView:
    """The arguments of an environment that shape its observations and actions."""

    observation: str | None = None
    """An encoder's name, or several joined by ``+``, see `make_encoder`; None: ``deeprm-compact``
    in slotted time, else ``queue-table``, which shows any cluster."""
    observation_arguments: Mapping[str, Any] | None = None
    """Arguments of the encoder."""
    slots: int | None = None
    """M; None: `admission.slots` of the scenario, or 10 outside of slotted time and of classes."""
    horizon: int | None = None
    """Steps ahead that are planned; None: 48 for a ready pool, else 20. The next four are for
    slotted scenarios, but classes count tasks behind the first as well."""
    max_length: int = 15
    """Steps of the longest task."""
    backlog_shown: int = 60
    """Tasks behind the slots that an observation can count."""
    memory: int = 10
    """The steps since the last arrival are counted up to this number."""
    unit: float | Sequence[float] = 1.0
    """Amount of a resource in a unit, one number for all resources or one for each."""
    actions: str | None = None
    """What an action does: ``slots`` in slotted time, else ``start``, ``next-head`` or ``pick``,
    see `simkit.agent.actions`; ``classes``, see `simkit.agent.burst_classes`; or
    ``ready-pool``, see `simkit.agent.ready_pool_actions`; None: ``slots`` or ``start``."""
    action_arguments: Mapping[str, Any] | None = None
    """Arguments of the actions."""

    @property
    def steps_ahead(self) -> int:
        """How many steps ahead are planned, of slots and of classes."""
        return STEPS_AHEAD if self.horizon is None else self.horizon

    def build(self, scenario: Scenario, info: SystemInfo) -> tuple[Actions, Encoder]:
        """Return the actions and the encoder for a scenario on a system.

        Raises ScenarioError or PluginError if the arguments do not suit them.
        """
        if "power-forecast" in (self.observation or "").split("+") and scenario.power is None:
            raise ScenarioError(
                "observation 'power-forecast' shows the site's power, which the scenario does not "
                "have; add a section `power`, or take another observation"
            )
        if self.actions == "classes":
            return self._classes(scenario, info)
        if self.actions == "ready-pool":
            return self._ready_pool(scenario, info)
        if scenario.scheduling.step is None:
            if self.actions == "slots":
                raise ScenarioError(
                    "actions 'slots' are for slotted time; add `scheduling: {step: 1s}`, or take "
                    f"one of {', '.join(ACTIONS)}"
                )
            slots = self.slots or scenario.admission.slots or DEFAULT_SLOTS
            actions = make_actions(self.actions or "start", slots, info, self.action_arguments)
            return actions, self._encoder("queue-table", info, None, slots)
        self._check_slotted()
        model = slotted_model(
            scenario, info, slots=self.slots, horizon=self.steps_ahead,
            max_length=self.max_length, backlog_shown=self.backlog_shown, memory=self.memory,
            unit=self.unit,
        )  # fmt: skip
        tracker = SlottedTracker(model)
        return SlotActions(tracker), self._encoder("deeprm-compact", info, tracker, model.slots)

    def _classes(self, scenario: Scenario, info: SystemInfo) -> tuple[Actions, Encoder]:
        """Return actions and encoder of burst classes, on any cluster."""
        what, given = "action_arguments of 'classes'", dict(self.action_arguments or {})
        self._refuse_observation_arguments("burst classes")
        step = scenario.scheduling.step
        if step is not None:
            given.setdefault("step", step)
        own = {
            "observation": self.observation,
            "info": info,
            "classes": self.slots or DEFAULT_SLOTS,
            "horizon": self.steps_ahead,
            "backlog_shown": self.backlog_shown,
        }
        made: tuple[Actions, Encoder] = instantiate(what, classes_of, given, own)
        return made

    def _ready_pool(self, scenario: Scenario, info: SystemInfo) -> tuple[Actions, Encoder]:
        """Return actions and encoder of a ready pool, on any cluster."""
        given, admission = dict(self.action_arguments or {}), scenario.admission
        self._refuse_observation_arguments("a ready pool")
        if scenario.scheduling.step is not None:
            given.setdefault("step", scenario.scheduling.step)
        wrong = []
        if "ready" in given:
            wrong.append("action_arguments: ready is the number of `slots`; give that")
        if self.horizon is not None and given.setdefault("horizon", self.horizon) != self.horizon:
            wrong.append("horizon is given twice, here and in action_arguments; leave one out")
        if wrong:
            raise ScenarioError(wrong)
        behind = _WAITING_SHOWN if admission.backlog is None else max(admission.backlog, 1)
        given.setdefault("waiting", behind)
        own = {
            "observation": self.observation,
            "info": info,
            "in_time": admission.late == "leave",
            "ready": self.slots or admission.slots or DEFAULT_SLOTS,
        }
        made: tuple[Actions, Encoder] = instantiate(
            "action_arguments of 'ready-pool'", ready_pool_of, given, own
        )
        return made

    def _refuse_observation_arguments(self, what: str) -> None:
        if self.observation_arguments:
            raise ScenarioError(
                f"observation_arguments {dict(self.observation_arguments)}: observations of {what} "
                "take none; leave that out"
            )

    def _check_slotted(self) -> None:
        """Raise ScenarioError for actions other than slotted time's."""
        wrong = []
        if self.actions not in (None, "slots"):
            wrong.append(f"actions {self.actions!r}")
        if self.action_arguments:
            wrong.append(f"action_arguments {dict(self.action_arguments)}")
        if wrong:
            raise ScenarioError(
                f"{' and '.join(wrong)}: in slotted time an action is a slot; leave "
                f"{'both' if len(wrong) > 1 else 'that'} out, or take a scenario without "
                "scheduling.step"
            )

    def _encoder(
        self, default: str, info: SystemInfo, tracker: SlottedTracker | None, slots: int
    ) -> Encoder:
        name = default if self.observation is None else self.observation
        return make_encoder(
            name, info, tracker, with_slots(name, self.observation_arguments, slots)
        )


def with_slots(observation: str, arguments: Mapping[str, Any] | None, slots: int) -> dict[str, Any]:
    """Return an encoder's arguments; one of the queue has a row for each task to choose from."""
    given, parts = dict(arguments or {}), observation.split("+")
    for name in OF_QUEUE.intersection(parts):
        if len(parts) == 1:
            return {"slots": slots} | given
        given[name] = {"slots": slots} | dict(given.get(name, {}))
    return given


def slotted_model(
    scenario: Scenario,
    info: SystemInfo,
    *,
    slots: int | None = None,
    horizon: int = 20,
    max_length: int = 15,
    backlog_shown: int = 60,
    memory: int = 10,
    unit: float | Sequence[float] = 1.0,
) -> Slotted:
    """Return the slotted model that describes a scenario.

    Capacity, slots, backlog and step are the scenario's; see `Slotted` for the others.

    Args:
        scenario: with one machine and a `scheduling.step`.
        info: its system.
        slots: replaces the scenario's `admission.slots`.
        horizon: see `Slotted`, as for the next three.
        max_length: steps of the longest task.
        backlog_shown: tasks behind the slots.
        memory: steps since the last arrival.
        unit: amount of each resource in a unit: one number for all resources, or one for each.

    Raises ScenarioError, all problems at once, if it is not slotted.
    """
    names, chosen = info.resources, slots or scenario.admission.slots
    units = (float(unit),) * len(names) if isinstance(unit, int | float) else tuple(unit)
    problems = []
    if scenario.scheduling.step is None:
        problems.append("the scenario has no step; add `scheduling: {step: 1s}`")
    if chosen is None:
        problems.append("nothing says how many slots there are; add `admission: {slots: 10}`")
    if len(info.machine_names) != 1:
        problems.append(
            f"the cluster has {len(info.machine_names)} machines; it must be one pool: "
            "`cluster: {machines: [{count: 1, …}]}`"
        )
    if len(units) != len(names) or not all(amount > 0 for amount in units):
        problems.append(
            f"unit is {unit}; it must be positive, one number for each of {', '.join(names)}"
        )
    if problems or scenario.scheduling.step is None or chosen is None:
        raise ScenarioError([f"slotted model: {text}" for text in problems])
    return Slotted(
        capacity=whole_units(info.capacity[0].tolist(), units),
        slots=chosen,
        horizon=horizon,
        max_length=max_length,
        backlog=scenario.admission.backlog,
        backlog_shown=backlog_shown,
        memory=memory,
        step_s=scenario.scheduling.step,
        unit=units,
    )
