"""The arguments of a Gymnasium environment, checked; its ids; the seeds of those that nobody seeds.

`import simkit.env` registers the ids, and so does the module in front of an id:
``gymnasium.make("simkit.env:simkit/DeepRM-v0")``. Some versions of gymnasium look for the entry
point `register_envs` in the group ``gymnasium.envs`` when they are imported; 1.4 does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import count, islice
from multiprocessing import current_process
from operator import index
from typing import Any, Final
from weakref import finalize

import numpy as np

from simkit.agent.encoder import ObservationSchema
from simkit.errors import PolicyError, ScenarioError
from simkit.experiment.api import scenario_source
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import Source, load_scenario
from simkit.workload import Workload

ScenarioSource = Source
"""A file, the name of a bundled scenario, a mapping as in a file, or a `Scenario`."""


def loaded_scenario(source: ScenarioSource) -> Scenario:
    """Return the scenario of a source; raises ScenarioError as `load_scenario` does."""
    if isinstance(source, Scenario):
        return source
    return load_scenario(scenario_source(source), single=True)


def check_settings(
    slots: int | None,
    max_decisions: int | None,
    cost: Collection[str],
    render_mode: str | None,
    metrics: str = "summary",
    *,
    actions: str | None = None,
    **arguments: Mapping[str, Any] | None,
) -> None:
    """Raise ScenarioError, all problems at once, for wrong settings of an environment."""
    wrong = []
    if slots is not None and not is_count(slots):
        wrong.append(f"slots is {slots!r}; it must be a whole number, at least 1, or None")
    if max_decisions is not None and not is_count(max_decisions):
        wrong.append(
            f"max_decisions is {max_decisions!r}; it must be a whole number, at least 1, or None"
        )
    listed = isinstance(cost, Collection) and not isinstance(cost, str)
    if not listed or not all(name in ("killed", "rejected") for name in cost):
        wrong.append(f'cost is {cost!r}; it must be a list of "killed" and "rejected", or empty')
    if actions is not None and not isinstance(actions, str):
        wrong.append(f"actions is {actions!r}; it must be a name, or None")
    wrong += [
        f"{name} is {value!r}; it must be a mapping of names to values, or None"
        for name, value in arguments.items()
        if value is not None and not isinstance(value, Mapping)
    ]
    if metrics not in ("summary", "run"):
        wrong.append(f"metrics is {metrics!r}; it must be 'summary' or 'run'")
    if render_mode not in (None, "ansi"):
        wrong.append(f"render_mode is {render_mode!r}; it must be 'ansi', or None")
    if wrong:
        raise ScenarioError([f"environment: {text}" for text in wrong])


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
            "first_job is of an environment with windows; make it with episode={'jobs': …}"
        )
    if "first_job" in chosen:
        first = chosen["first_job"]
        if isinstance(first, int | np.integer) and not isinstance(first, bool):
            chosen["first_job"] = int(first)
        else:
            wrong.append(f"first_job is {first!r}; it must be a whole number, the rank of a job")
    if "original_set" in chosen and has_windows:
        wrong.append("original_set is of an environment without `episode`; leave one of them out")
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
