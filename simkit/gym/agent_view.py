"""What an agent sees of a scenario, what its actions mean there, and how it plays an episode.

The Gymnasium environment and a trained model that runs as a policy build both from the same
`AgentView`, so that a model decides in a run as it does in the environment.

`import simkit.env` registers the ids of environments, and so does the module in front of an id:
``gymnasium.make("simkit.env:simkit/DeepRM-v0")``. Some versions of gymnasium look for the entry
point `register_envs` in the group ``gymnasium.envs`` when they are imported; 1.4 does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import count, islice
from multiprocessing import current_process
from operator import index
from typing import Annotated, Any, ClassVar, Final, Literal
from weakref import finalize

import numpy as np
from pydantic import PlainValidator

from simkit.agent.actions import ACTIONS, Actions, Mask, make_actions
from simkit.agent.burst_classes import classes_of
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.agent.observation import make_encoder
from simkit.agent.ready_pool import ready_pool_of
from simkit.agent.slotted import Slotted, whole_units
from simkit.agent.slotted_tracker import SlotActions, SlotArguments, SlottedTracker
from simkit.errors import PolicyError, ScenarioError
from simkit.experiment.api import scenario_source
from simkit.gym.episodes import Episode, Loss
from simkit.policy import SystemInfo
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import Source, load_scenario
from simkit.sections import Count, Facts, Many
from simkit.workload import Workload

OF_QUEUE = frozenset({"queue-table", "queue-set"})
"""Observations with a row for each waiting task."""
STEPS_AHEAD = 20
"""Default number of planned steps of slots and of classes."""
_WAITING_SHOWN = 144
DEFAULT_SLOTS = 10
"""Waiting tasks to choose from, if neither scenario nor caller gives a number."""


def _unit(value: Any) -> Any:
    """Return one number above 0, or several; raises ValueError for anything else."""
    several = value if isinstance(value, list | tuple) else (value,)
    numbers = [one for one in several if isinstance(one, int | float) and one > 0]
    if len(numbers) < len(several) or any(isinstance(one, bool) for one in several):
        raise ValueError(f"must be a number above 0, or one for each resource, not {value!r}")
    return value


class AgentView(Facts):
    """The arguments of an environment that shape its observations and actions."""

    noun: ClassVar = "environment"
    observation: str | None = None
    """An encoder's name, or several joined by ``+``, see `make_encoder`; None: ``deeprm-compact``
    in slotted time, else ``queue-table``, which shows any cluster."""
    observation_arguments: Mapping[str, Any] | None = None
    """Arguments of the encoder."""
    slots: Count | None = None
    """M; None: `admission.slots` of the scenario, or 10 outside of slotted time and of classes."""
    horizon: Count | None = None
    """Steps ahead that are planned; None: 48 for a ready pool, else 20. The next four are for
    slotted scenarios, but classes count tasks behind the first as well."""
    max_length: Count = 15
    """Steps of the longest task."""
    backlog_shown: Count = 60
    """Tasks behind the slots that an observation can count."""
    memory: Count = 10
    """The steps since the last arrival are counted up to this number."""
    unit: Annotated[float | Sequence[float], PlainValidator(_unit)] = 1.0
    """Amount of a resource in a unit, one number for all resources or one for each."""
    actions: str | None = None
    """What an action does: ``slots`` in slotted time, else ``start``, ``next-head`` or ``pick``,
    see `simkit.agent.actions`; ``classes``, see `simkit.agent.burst_classes`; or
    ``ready-pool``, see `simkit.agent.ready_pool`; None: ``slots`` or ``start``."""
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
        if self.actions not in (None, "slots"):
            raise ScenarioError(
                f"actions {self.actions!r}: in slotted time an action is a slot; leave that out, "
                "or take a scenario without scheduling.step"
            )
        model = slotted_model(
            scenario, info, slots=self.slots, horizon=self.steps_ahead,
            max_length=self.max_length, backlog_shown=self.backlog_shown, memory=self.memory,
            unit=self.unit,
        )  # fmt: skip
        tracker = SlottedTracker(model)
        chosen = SlotArguments(**(self.action_arguments or {}))
        return SlotActions(tracker, chosen), self._encoder(
            "deeprm-compact", info, tracker, model.slots
        )

    def _classes(self, scenario: Scenario, info: SystemInfo) -> tuple[Actions, Encoder]:
        """Return actions and encoder of burst classes, on any cluster."""
        self._refuse_observation_arguments("burst classes")
        step = scenario.scheduling.step
        given = ({} if step is None else {"step": step}) | dict(self.action_arguments or {})
        return classes_of(
            self.observation, info, self.slots or DEFAULT_SLOTS, self.steps_ahead,
            self.backlog_shown, given,
        )  # fmt: skip

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
        slots = self.slots or admission.slots or DEFAULT_SLOTS
        return ready_pool_of(self.observation, info, admission.late == "leave", slots, given)

    def _refuse_observation_arguments(self, what: str) -> None:
        if self.observation_arguments:
            raise ScenarioError(
                f"observation_arguments {dict(self.observation_arguments)}: observations of {what} "
                "take none; leave that out"
            )

    def _encoder(
        self, default: str, info: SystemInfo, tracker: SlottedTracker | None, slots: int
    ) -> Encoder:
        name = default if self.observation is None else self.observation
        return make_encoder(
            name, info, tracker, with_slots(name, self.observation_arguments, slots)
        )


class EnvSettings(AgentView):
    """The arguments of an environment."""

    max_decisions: Count | None = None
    """Truncate an episode after this many steps; None: never."""
    cost: Many[Loss] = ()
    """Ends of jobs that ``info["cost"]`` counts."""
    metrics: Literal["summary", "run"] = "summary"
    """What ``info["metrics"]`` has at the end of an episode."""
    render_mode: Literal["ansi"] | None = None
    """With ``"ansi"``, `render` returns a line of text."""


class Play:
    """An agent's side of an episode: it is asked, answers by a number, and is paid.

        play = Play(*view.build(scenario, info))
        play.begin(episode)
        while play.asked:
            reward = play.step(choose(play.observe(), play.mask()))

    At a decision the agent acts as often as it likes while time stands still: an action that places
    a task is carried out at once, with reward 0. The void action, or one that does nothing, lets
    time go on to the next decision; the reward is what has accrued meanwhile.

    Attributes:
        actions: what its numbers mean.
        encoder: what it sees.
        asked: whether the agent is asked; False: the episode is over.
    """

    def __init__(self, actions: Actions, encoder: Encoder) -> None:
        self.actions, self.encoder = actions, encoder
        self.asked = False

    def begin(self, episode: Episode) -> None:
        """Go to the first decision of a new episode."""
        self.episode = episode
        self.actions.reset(episode.state.info)
        self.encoder.reset(episode.state.info)
        self.asked = self._go_on()
        episode.collect()

    def step(self, number: int) -> float:
        """Act once while asked; return the reward.

        Raises PolicyError for a number that is not an action.
        """
        episode, actions = self.episode, self.actions
        state, reward = episode.state, 0.0
        meant = actions.action_of(state, number) if self.asked else None
        if meant is None:
            goes_on = actions.goes_on(state)
        else:
            episode.apply(meant)
            actions.update(state)
            goes_on = not actions.asks(state)
        if goes_on:
            self.asked = self.asked and self._go_on()
            reward = episode.collect()
        return reward

    def observe(self) -> Numbers:
        """Return what the agent sees now, of the shape of the encoder's schema."""
        return self.encoder.encode(self.episode.state)

    def mask(self) -> Mask:
        """Return (M + 1,), fresh: 1 for actions that the agent may take."""
        return self.actions.mask(self.episode.state)

    def _go_on(self) -> bool:
        """Let time go on until the agent is asked again; False: the episode is over."""
        episode, actions = self.episode, self.actions
        state = episode.state
        while True:
            for action in actions.end(state):
                episode.apply(action)
                actions.update(state)
            on = episode.advance()
            actions.update(state)
            if not on:
                return False
            for action in actions.begin(state):
                episode.apply(action)
                actions.update(state)
            if actions.asks(state):
                return True


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


def loaded_scenario(source: Source) -> Scenario:
    """Return the scenario of a source; raises ScenarioError as `load_scenario` does."""
    if isinstance(source, Scenario):
        return source
    return load_scenario(scenario_source(source), single=True)


def autoreset_mode(value: object) -> Any:
    """Return the `gymnasium.vector.AutoresetMode` of a value; raises ScenarioError for others."""
    from gymnasium.vector import AutoresetMode

    try:
        return AutoresetMode(value)
    except ValueError:
        names = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise ScenarioError(
            f"environment: autoreset_mode is {value!r}; it must be one of {names}"
        ) from None


def tighter(max_decisions: Any, max_episode_steps: object) -> Any:
    """Return the smaller of two limits of steps: the environment's own, and Gymnasium's.

    Raises ScenarioError if Gymnasium's is neither a count nor -1, which stands for none.
    """
    if max_episode_steps == -1:
        return max_decisions
    if not is_count(max_episode_steps):
        raise ScenarioError(
            f"environment: max_episode_steps is {max_episode_steps!r}; it must be a whole number, "
            "at least 1, or -1 or None for no limit"
        )
    return min(max_decisions, max_episode_steps) if is_count(max_decisions) else max_episode_steps


def check_replicas(num_envs: object) -> None:
    """Raise ScenarioError if a value is no number of replicas."""
    if not is_count(num_envs):
        raise ScenarioError(
            f"environment: num_envs is {num_envs!r}; it must be a whole number, at least 1"
        )


def is_count(value: object) -> bool:
    """Return whether a value is a whole number of at least 1."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def action_number(action: object) -> int:
    """Return the number of an action of a `Discrete` space.

    Raises PolicyError if it is not a whole number.
    """
    try:
        return index(None if isinstance(action, bool) else action)  # type: ignore[arg-type]
    except TypeError:
        raise PolicyError(
            f"action {action!r} is not a whole number; take one of the environment's action_space"
        ) from None


OPTIONS = ("workload", "original_set", "first_job")
"""Options of a reset, one of which may be given."""


def checked_options(options: Mapping[str, Any] | None, *, has_windows: bool) -> dict[str, Any]:
    """Return the options of a reset; raises ScenarioError, all problems at once.

    Args:
        options: as given.
        has_windows: whether episodes are windows of a log.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ScenarioError(f"options of reset: {options!r} must be a mapping, or None")
    chosen = dict(options or {})
    wrong = [
        f"{name!r} is unknown; known: {', '.join(map(repr, OPTIONS))}"
        for name in chosen
        if name not in OPTIONS
    ]
    if len(chosen) > 1 and not wrong:
        wrong.append(f"{' and '.join(chosen)} are both given; leave one of them out")
    if "first_job" in chosen and not has_windows:
        wrong.append(
            "first_job needs an environment with windows; make it with episode={'jobs': …}"
        )
    if "first_job" in chosen:
        first = chosen["first_job"]
        if isinstance(first, int | np.integer) and not isinstance(first, bool):
            chosen["first_job"] = int(first)
        else:
            wrong.append(f"first_job is {first!r}; it must be a whole number, the rank of a job")
    if "original_set" in chosen and has_windows:
        wrong.append("original_set does not go with `episode`; leave one of them out")
    if "workload" in chosen and not isinstance(chosen["workload"], Workload):
        kind = type(chosen["workload"]).__name__
        wrong.append(f"workload is a {kind}; it must be a simkit.Workload")
    if wrong:
        raise ScenarioError([f"options of reset: {text}" for text in wrong])
    return chosen


def observation_space(schema: ObservationSchema) -> Any:
    """Return the `gymnasium.spaces.Box` that observations lie in."""
    from gymnasium.spaces import Box

    low, high = np.empty(schema.shape, np.float32), np.empty(schema.shape, np.float32)
    for part, begin, end in schema.places():
        low[..., begin:end], high[..., begin:end] = part.low, part.high
    return Box(low, high, dtype=np.float32)


def changing_wrappers() -> tuple[Any, ...]:
    """Return Gymnasium's classes of wrappers that change observations or actions."""
    from gymnasium import ActionWrapper, ObservationWrapper

    return ObservationWrapper, ActionWrapper


ENVS = {
    "simkit/DeepRM-v0": {"scenario": "deeprm"},
    "simkit/Scheduling-v0": {"scenario": "quickstart", "observation": "queue-table"},
}
"""Id → arguments of `SchedulingEnv`, which `gymnasium.make` may replace or add to."""
FAST = {"simkit/DeepRM-v0"}
"""Ids that `gymnasium.make_vec` gives many replicas of at once; see `simkit.env.vector_env`."""


def register_envs() -> None:
    """Register the ids with gymnasium, unless they are registered already."""
    from gymnasium.envs.registration import register, registry

    for name, arguments in ENVS.items():
        if name not in registry:
            fast = "simkit.env:vector_env" if name in FAST else None
            register(
                name, "simkit.env:SchedulingEnv", kwargs=dict(arguments), vector_entry_point=fast
            )


_APART: Final = 2**20
"""Numbers of a process that a vector environment started are further from those of the next."""
_taken: set[int] = set()
os.register_at_fork(after_in_child=_taken.clear)


class ReplicaNumbers:
    """Numbers that no other environment of this process has while this object lives.

    They are the smallest that are free: 0 in a process with one environment, 0, 1, … for replicas,
    whatever kind of vector environment has them. In a worker of Gymnasium's `AsyncVectorEnv`, whose
    name ends in its place, the first environment has that place. Two of these that live at once
    have the same numbers, since their workers do not know of each other. In any other process, the
    k-th that a process has started, the first environment has k − 1.

    Attributes:
        numbers: as many as were asked for, ascending.
    """

    def __init__(self, replicas: int = 1) -> None:
        free = (number for number in count() if number not in _taken)
        own = list(islice(free, replicas))
        _taken.update(own)
        finalize(self, _taken.difference_update, own)
        self.numbers = (
            [_place_of_process() + _APART * number for number in own] if _started() else own
        )


def _started() -> Sequence[int]:
    """Return how many processes each process from the first one down had started, as this began."""
    return getattr(current_process(), "_identity", ())


def _place_of_process() -> int:
    """Return the place of this process among those of a vector environment."""
    found = re.fullmatch(r"Worker<\w+>-(\d+)", current_process().name)
    return int(found[1]) if found else _started()[-1] - 1
